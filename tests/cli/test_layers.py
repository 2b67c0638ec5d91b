# SPDX-License-Identifier: Apache-2.0
"""`profile --stream-layers`: blocks of the network one after the other give the bytes of an ordinary run, in less memory."""
import re
import signal
import struct
import time

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, SECONDS, main, npy_bytes, skip, tidemark
from memory_limit import within
from running_sum import LOOP, running_sum
from runs import start

SIDE, LAYERS, LIMIT = 1024, 40, 96  # weights widened: 160 MiB
RUN = ["profile", DIGITS, "--data", PICTURES]


def same_profile(here, *words, threads=(1, 2)):
    tidemark(*words, "-o", here / "whole.json").expect(DONE)
    for n in threads:
        tidemark(*words, "--threads", n, "--stream-layers", "-o", here / "layers.json").expect(DONE)
        assert (here / "layers.json").read_bytes() == (here / "whole.json").read_bytes(), (words, n)


def test_profiles_are_the_same(here):
    for more in ([], ["--batch", 16], ["--batch", 7, "--skip", 5, "--sample-every", 3], ["--kind", "range"], ["--exclude", 0],
                 ["--shard", "2/3"], ["--snapshots", here / "s.json"]):
        same_profile(here, *RUN, *more)


def test_values_that_blocks_pass_on(here):
    """Outer values that an If's branches read, shapes that depend on data, and a Loop's result."""
    n, one = 96, 96 * 96 * 4
    (here / "w.bin").write_bytes(struct.pack(f"<{5 * n * n}f", *((k * k % 41 - 20) / 160 for k in range(5 * n * n))))
    weights = [onnx.tensor(f"w{i}", [n, n], [], onnx.FLOAT, {"location": "w.bin", "offset": i * one, "length": one}) for i in range(5)]
    branch = [onnx.graph([onnx.node(op, ["a", *more], [f"{op}.y"])], [], [onnx.value(f"{op}.y", [1, n])])
              for op, more in (("Mul", ["a"]), ("Neg", []))]
    body = onnx.graph([onnx.node("MatMul", ["s", "w2"], ["t"]), onnx.node("Add", ["t", "a"], ["u"]), onnx.node("Identity", ["on"], ["still"])],
                      [onnx.value("i", [], onnx.INT64), onnx.value("on", [], onnx.BOOL), onnx.value("s", [1, n])],
                      [onnx.value("still", [], onnx.BOOL), onnx.value("u", [1, n])])
    nodes = [onnx.node("MatMul", ["x", "w0"], ["a"]), onnx.node("ReduceSum", ["a"], ["sum"], keepdims=0),
             onnx.node("Greater", ["sum", "zero"], ["positive"]), onnx.node("NonZero", ["x"], ["where"]),
             onnx.node("MatMul", ["a", "w3"], ["h"]),
             onnx.node("If", ["positive"], ["b"], then_branch=branch[0], else_branch=branch[1]),
             onnx.node("MatMul", ["b", "w1"], ["c"]), onnx.node("Loop", ["three", "", "c"], ["d"], body=body),
             onnx.node("Cast", ["where"], ["places"], to=onnx.FLOAT), onnx.node("Relu", ["d"], ["e"]),
             onnx.node("MatMul", ["e", "w4"], ["f"]), onnx.node("ReduceSum", ["places"], ["n"], keepdims=0),
             onnx.node("Add", ["f", "n"], ["g"]), onnx.node("Add", ["g", "h"], ["k"])]
    more = [onnx.tensor("zero", [], [0]), onnx.tensor("three", [], [3], onnx.INT64)]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", [1, n])], [onnx.value("k", [1, n])], weights + more))
    (here / "x.npy").write_bytes(npy_bytes([9, n], [k * 5 % 7 - 3 for k in range(9 * n)]))
    same_profile(here, "profile", here / "m.onnx", "--data", here / "x.npy")
    plan = tidemark("profile", here / "m.onnx", "--data", here / "x.npy", "--stream-layers", "--plan").expect(DONE).out
    assert re.search(r"layer by layer: [3-9] blocks, each over 9 batches", plan), plan


def half_chain(here):
    """LAYERS matrix products with float16 weights."""
    one = SIDE * SIDE * 2
    numbers = struct.pack("<64e", *(((i * 37) % 64 - 32) / 1024 for i in range(64)))
    (here / "w.bin").write_bytes(numbers * (LAYERS * SIDE * SIDE // 64))
    nodes, weights = [], []
    for i in range(LAYERS):
        weights.append(onnx.tensor(f"w{i}", [SIDE, SIDE], [], onnx.FLOAT16, {"location": "w.bin", "offset": i * one, "length": one}))
        nodes += [onnx.node("Cast", [f"w{i}"], [f"c{i}"], to=onnx.FLOAT), onnx.node("MatMul", [f"x{i}", f"c{i}"], [f"x{i + 1}"])]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x0", ["N", SIDE])], [onnx.value(f"x{LAYERS}", ["N", SIDE])], weights))
    (here / "x.npy").write_bytes(npy_bytes([6, SIDE], [i % 7 - 3 for i in range(6 * SIDE)]))
    return ["profile", here / "m.onnx", "--data", here / "x.npy", "--batch", 1, "--threads", 2]


def test_a_limit_that_the_network_does_not_fit(here):
    run = half_chain(here)
    whole = tidemark(*run, "--plan").expect(DONE).out
    assert float(whole.split()[-2]) > 1.5 * LIMIT and "layer by layer" not in whole, whole
    layers = tidemark(*run, "--plan", "--memory-limit", f"{LIMIT}M").expect(DONE, "layer by layer").out
    done = within(LIMIT, *run, "-o", here / "layers.json", cwd=here).expect(DONE)
    tidemark(*run, "-o", here / "whole.json").expect(DONE)
    assert (here / "layers.json").read_bytes() == (here / "whole.json").read_bytes()
    peak = int(re.search(r"peak (\d+) MiB", done.err)[1])
    if "sanitized" not in FEATURES:
        assert peak < LIMIT and 0.85 * peak - 8 < float(layers.split()[-2]) < 1.2 * peak + 8, (peak, layers)
    done = tidemark(*run, "--memory-limit", "24M", "-o", here / "no.json")
    assert done.status == BAD_INPUT and "layer by layer, more than the limit" in done.err and len(done.err.splitlines()) == 1, done
    assert not (here / "no.json").exists()


def test_statistics_come_with_their_block(here):
    """A product of 16 MiB, four of 4 MiB, and 80 values of 65,536 elements: the peak is lower where the large one runs before these."""
    planned, peaks, numbers = [], [], struct.pack("<64f", *(((i * 37) % 64 - 32) / 1024 for i in range(64)))
    (here / "w.bin").write_bytes(numbers * (32 * SIDE * SIDE // 256))
    for large_first in (True, False):
        widths = [2048, *[1024] * 4] if large_first else [*[1024] * 4, 2048]
        nodes, weights, last, offset = [], [], "x", 0
        for i, width in enumerate(widths):
            length = width * width * 4
            weights.append(onnx.tensor(f"w{i}", [width, width], [], onnx.FLOAT, {"location": "w.bin", "offset": offset, "length": length}))
            offset += length
            before = ["half" if width == 1024 else "whole"] if i in (0, 1 if large_first else 4) else []
            if before:
                nodes.append(onnx.node("Reshape", [last, before[0]], [f"r{i}"]))
                last = f"r{i}"
            nodes.append(onnx.node("MatMul", [last, f"w{i}"], [f"y{i}"]))
            last = f"y{i}"
            if i == (1 if large_first else 3):
                nodes += [onnx.node(("Sin", "Cos")[k % 2], [last if k == 0 else f"s{k - 1}"], [f"s{k}"]) for k in range(80)]
                last = "s79"
        weights += [onnx.tensor("half", [2], [-1, 1024], onnx.INT64), onnx.tensor("whole", [2], [-1, 2048], onnx.INT64)]
        (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", [32, 2048])], [onnx.value(last, ["a", "b"])], weights))
        (here / "x.npy").write_bytes(npy_bytes([1, 32, 2048], [k % 97 / 16 - 3 for k in range(65536)]))
        run = ["profile", here / "m.onnx", "--data", here / "x.npy", "--threads", 1, "--stream-layers"]
        planned.append(float(tidemark(*run, "--plan").expect(DONE, "layer by layer").out.split()[-2]))
        peaks.append(int(re.search(r"peak (\d+) MiB", tidemark(*run, "-o", here / "p.json").expect(DONE).err)[1]))
    assert planned[1] - planned[0] > 3, (planned, peaks)
    if "sanitized" not in FEATURES:
        assert all(0.85 * peak - 2 < plan < 1.15 * peak + 2 for plan, peak in zip(planned, peaks)), (planned, peaks)


def test_a_network_larger_than_the_machine(here):
    """Of 1.25 times what the default limit is: its weights are a hole in a file, which a plan does not read."""
    side, gib = 1 << 14, 1 << 30
    limit = int(re.search(r"is (\d+) MiB", tidemark(*RUN, "--plan").expect(DONE).out)[1])
    if limit < 1024 or limit > 1 << 20:
        skip(f"the limit is {limit} MiB")
    n = limit * 5 // 4 // 1024 + 2
    try:
        with open(here / "w.bin", "wb") as file:
            file.truncate(n * gib)
    except OSError as why:
        skip(f"a file of {n} GiB: {why}")
    weights = [onnx.tensor(f"w{i}", [side, side], [], onnx.FLOAT, {"location": "w.bin", "offset": i * gib, "length": gib}) for i in range(n)]
    nodes = [onnx.node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(n)]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x0", ["N", side])], [onnx.value(f"x{n}", ["N", side])], weights))
    (here / "x.npy").write_bytes(npy_bytes([1, side], [0] * side))
    run = ["profile", here / "m.onnx", "--data", here / "x.npy"]
    planned = float(tidemark(*run, "--plan").expect(DONE, "layer by layer").out.split()[-2])
    assert planned < limit, (planned, limit)


def test_stopped_runs_resume(here):
    if "sanitized" in FEATURES:
        skip("too slow to be stopped in time")
    run = [*half_chain(here), "--stream-layers", "-q"]
    words = [*run, "--checkpoint", here / "c", "--every", "0.001s"]
    tidemark(*run, "-o", here / "whole.json").expect(DONE)
    process = start(*words[1:], "-o", here / "p.json")
    time.sleep(0.4)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=SECONDS)
    tidemark(*words, "-o", here / "p.json").expect(DONE)
    assert (here / "p.json").read_bytes() == (here / "whole.json").read_bytes()
    late = tidemark(*run, "--timeout", "0.1s", "-o", here / "late.json")
    assert late.status in (-signal.SIGALRM, 128 + signal.SIGALRM), late
    assert not (here / "late.json").exists()


def test_what_cannot_run_so_is_refused(here):
    (here / "x.npy").write_bytes(npy_bytes([4, 2], range(8)))
    words = ["profile", running_sum(here), "--data", here / "x.npy", *LOOP, "--stream-layers", "-o", here / "p.json"]
    tidemark(*words).refuses(BAD_INPUT, "layers can't be streamed where outputs are fed back")
    tidemark(*RUN[:2], "--data", "-", "--stream-layers", "-o", here / "p.json", input=PICTURES.read_bytes()).refuses(
        BAD_INPUT, "data that comes as a stream")


main()
