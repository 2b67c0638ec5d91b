# SPDX-License-Identifier: Apache-2.0
"""Peak memory of models that are mostly weights: these are there once, whatever their type in the file. Plans read none of them."""
import ctypes
import mmap
import os
import re
import struct

import onnx_bytes as onnx
from cli import DONE, FEATURES, main, npy_bytes, skip, tidemark

SIDE, LAYERS, PROGRAM = 2048, 4, 48  # PROGRAM: MiB that the program takes itself, and some more


def chain(here, dtype, size):
    """LAYERS matrix products behind each other, the weights in a file of their own; its MiB."""
    one = SIDE * SIDE * size
    half = struct.pack("<64e", *(((i * 37) % 64 - 32) / 1024 for i in range(64)))
    wide = struct.pack("<64f", *(((i * 37) % 64 - 32) / 1024 for i in range(64)))
    (here / "w.bin").write_bytes((wide if size == 4 else half) * (LAYERS * SIDE * SIDE // 64))
    nodes, weights = [], []
    for i in range(LAYERS):
        weights.append(onnx.tensor(f"w{i}", [SIDE, SIDE], [], dtype, {"location": "w.bin", "offset": i * one, "length": one}))
        if size == 2:
            nodes.append(onnx.node("Cast", [f"w{i}"], [f"c{i}"], to=onnx.FLOAT))
        nodes.append(onnx.node("MatMul", [f"x{i}", f"{'c' if size == 2 else 'w'}{i}"], [f"x{i + 1}"]))
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x0", ["N", SIDE])], [onnx.value(f"x{LAYERS}", ["N", SIDE])], weights))
    (here / "x.npy").write_bytes(npy_bytes([4, SIDE], [i % 7 - 3 for i in range(4 * SIDE)]))
    return LAYERS * one >> 20


def peak_and_plan(here):
    run = ["profile", here / "m.onnx", "--data", here / "x.npy", "--threads", 2, "-o", here / "p.json"]
    plan = tidemark(*run, "--plan").expect(DONE, "total, an estimate").out
    peak = re.search(r"peak (\d+) MiB", tidemark(*run).expect(DONE).err)
    return int(peak[1]), float(plan.split()[-2])


def check_peak(here, dtype, size, widened):
    if "sanitized" in FEATURES:
        skip("a sanitizer has memory of its own")
    weights = chain(here, dtype, size)
    peak, plan = peak_and_plan(here)
    assert peak < 1.25 * widened * weights + PROGRAM, (peak, weights)
    assert 0.9 * peak - 8 < plan < 1.1 * peak + 8, (peak, plan)


def test_float32_weights_are_there_once(here):
    check_peak(here, onnx.FLOAT, 4, 1)


def test_half_weights_are_widened_once(here):
    check_peak(here, onnx.FLOAT16, 2, 2)


def test_small_weights_leave_the_file(here):
    """96 vectors of 4 KiB, a MiB apart: a system that maps whole folios would keep most of the file in memory for them."""
    if "sanitized" in FEATURES:
        skip("a sanitizer has memory of its own")
    n, apart = 1024, 1 << 20
    (here / "w.bin").write_bytes(struct.pack("<1024f", *(i / 1024 for i in range(n))) * (96 * apart // (4 * n)))
    weights = [onnx.tensor(f"w{i}", [n], [], onnx.FLOAT, {"location": "w.bin", "offset": i * apart, "length": 4 * n}) for i in range(96)]
    nodes = [onnx.node("Add", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(96)]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x0", ["N", n])], [onnx.value("x96", ["N", n])], weights))
    (here / "x.npy").write_bytes(npy_bytes([4, n], [i % 7 - 3 for i in range(4 * n)]))
    peak, plan = peak_and_plan(here)
    assert peak < 48 and abs(plan - peak) < 6, (peak, plan)


def cached_share(path):
    """Of a file's pages those that are in memory, whoever reads them."""
    size, page = os.path.getsize(path), mmap.PAGESIZE
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), size) as there:
        start, pages = ctypes.c_char.from_buffer(there), (ctypes.c_ubyte * (size // page))()
        if ctypes.CDLL(None, use_errno=True).mincore(ctypes.byref(start), ctypes.c_size_t(size), pages):
            skip(f"mincore: {os.strerror(ctypes.get_errno())}")
        del start
        return sum(one & 1 for one in pages) / len(pages)


def test_plans_read_no_weights(here):
    chain(here, onnx.FLOAT, 4)
    run = ["profile", here / "m.onnx", "--data", here / "x.npy", "--threads", 2, "-o", here / "p.json"]
    total = float(tidemark(*run, "--plan").expect(DONE).out.split()[-2])
    size = os.path.getsize(here / "w.bin")
    (here / "w.bin").unlink()
    with open(here / "w.bin", "wb") as file:  # one hole
        file.truncate(size)
    again = float(tidemark(*run, "--plan").expect(DONE).out.split()[-2])
    assert abs(again - total) < 8, (again, total)
    share = cached_share(here / "w.bin")
    assert share < 0.02, share
    tidemark(*run, "-q").expect(DONE)
    assert cached_share(here / "w.bin") > 0.9


main()
