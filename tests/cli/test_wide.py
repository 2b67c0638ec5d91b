# SPDX-License-Identifier: Apache-2.0
"""Networks with very many nodes on one value, outputs and constants: four times as many take about four times as long."""
import os
import subprocess

import onnx_bytes as onnx
from cli import DONE, FEATURES, PROGRAM, folder, main, npy_bytes, skip

N = 1200
MOST = 9  # times as long for four times as much; what goes over all pairs takes sixteen


def fan(path, n):
    """One value with n readers without names, which are outputs."""
    nodes = [onnx.node("Relu", ["x"], ["r"])]
    nodes += [onnx.node("Neg" if i % 2 else "Abs", ["r"], [f"v{i}"]) for i in range(n)]
    path.write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 8])], [onnx.value(f"v{i}", ["N", 8]) for i in range(n)]))


def chain(path, n):
    """n nodes one behind the other, each with a constant of its own."""
    nodes = [onnx.node("Add" if i % 2 else "Mul", [f"v{i - 1}" if i else "x", f"c{i}"], [f"v{i}"], f"n{i}") for i in range(n)]
    constants = [onnx.tensor(f"c{i}", [8], [0.5 + (i * 7 + k) % 13 / 13 for k in range(8)]) for i in range(n)]
    path.write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 8])], [onnx.value(f"v{n - 1}", ["N", 8])], constants))


def spend(*words):
    """Seconds of the processor and MiB that a command takes."""
    process = subprocess.Popen([PROGRAM, *map(str, words), "--quiet"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == DONE, f"status {process.returncode}: {words}"
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def commands(path, name):
    model, data, encodings = path / f"{name}.onnx", path / "x.npy", path / f"{name}.e.json"
    return [("profile", model, "--data", data, "-o", path / f"{name}.json"),
            ("calibrate", path / f"{name}.json", "-o", encodings),
            ("simulate", model, encodings, "--data", data, "--integer"),
            ("instrument", model, "-o", path / f"{name}.i.onnx"),
            ("transform", model, "--passes", "all", "-o", path / f"{name}.t.onnx"),
            *[("transform", model, "--passes", "none", "-o", path / f"{name}.relay")] * ("relay" in FEATURES),
            ("export", encodings, "--to", "qdq", "--model", model, "-o", path / f"{name}.q.onnx")]


def grows_as_the_model(make, without=()):
    if "sanitized" in FEATURES:
        skip("sanitizers change time and memory")
    with folder() as path:
        (path / "x.npy").write_bytes(npy_bytes([2, 8], [i / 5 - 1.5 for i in range(16)]))
        make(path / "small.onnx", N)
        make(path / "large.onnx", 4 * N)
        for small, large in zip(commands(path, "small"), commands(path, "large")):
            if small[0] in without:
                continue
            for left in (2, 1, 0):
                (seconds, mib), (more, much) = spend(*small), spend(*large)
                if more <= MOST * max(seconds, 0.05):
                    break
                assert left, f"{more:.2f} s for four times what takes {seconds:.2f} s: {large}"
            assert much <= 6 * mib, f"{much:.0f} MiB for four times what takes {mib:.0f} MiB: {large}"


def test_many_consumers_and_outputs_take_linear_time():
    grows_as_the_model(fan, without=("export",))


def test_many_nodes_and_constants_take_linear_time():
    grows_as_the_model(chain)


main()
