# SPDX-License-Identifier: Apache-2.0
"""The memory plan of `profile`, and memory limits."""
import json
import re
import resource
import struct

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, FEATURES, MACHINE, PICTURES, WRONG_CALL, main, npy_bytes, skip, tidemark

RUN = ["profile", DIGITS, "--data", PICTURES, "--limit", 60]


def plan(*more, run=RUN):
    """Workers, the batch, MiB that the run adds to the program, and MiB of the program itself (those differ from start to start)."""
    lines = tidemark(*run, "--plan", *more).expect(DONE).out.splitlines()
    words = lines[0].split()
    total, program = float(lines[-1].split()[-2]), float(lines[1].split()[-2])
    assert "total, an estimate" in lines[-1] and lines[-1].endswith("MiB") and "program, libraries" in lines[1], lines
    return int(words[0]), int(words[4]), total - program, program


def test_plan_is_the_sum_of_its_lines():
    lines = tidemark(*RUN, "--plan", "--threads", 3).expect(DONE, "activations", "statistics").out.splitlines()
    total = 0
    for line in lines[1:-1]:
        size, times = line.split("MiB")
        total += float(size.split()[-1]) * int(times.split()[-1] if times else 1)
    assert abs(total - float(lines[-1].split()[-2])) < 1, lines


def test_workers_and_observers_need_memory():
    one, three = plan("--threads", 1), plan("--threads", 3)
    assert one[0] == 1 and three[0] == 3 and one[2] < three[2]
    by_kind = [plan(*more)[2] for more in (["--kind", "minmax"], ["--kind", "range"], ["--histogram-share", "1/8"], [])]
    assert by_kind == sorted(by_kind) and by_kind[0] < by_kind[1] < by_kind[3], by_kind


def test_workers_without_a_batch_need_no_memory():
    run = [*RUN[:-1], 3]
    one, two, many = (plan("--threads", n, "--batch", 2, run=run) for n in (1, 2, 8))
    assert (one[0], two[0], many[0]) == (1, 2, 2) and abs(many[2] - two[2]) < 0.5, (one, two, many)


def write_sets(path, sizes):
    """ONNX test sets of one input, [1, size] each."""
    for i, size in enumerate(sizes):
        folder = path / f"test_data_set_{i}"
        folder.mkdir(parents=True)
        (folder / "input_0.pb").write_bytes(onnx.tensor("x", [1, size], [(k % 29 - 14) / 8 for k in range(size)]))
    return path


def test_plan_is_of_the_largest_of_the_first_samples(here):
    nodes = [onnx.node("Exp", ["x"], ["e"], "rise"), onnx.node("Sin", ["e"], ["y"], "turn")]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", (1, "n"))], [onnx.value("y", (1, "n"))], []))
    totals = []
    for name, sizes in (("small", [8, 16]), ("mixed", [8, 1 << 18, 16])):
        run = ["profile", here / "m.onnx", "--data", write_sets(here / name, sizes)]
        totals.append(plan("--threads", 1, run=run)[2])
    assert totals[1] - totals[0] > 2.5, totals  # x and e of 1 MiB each, and two batches ahead of the mean size


def test_shapes_have_a_plan_each(here):
    convs = [onnx.node("Conv", ["x" if i == 0 else f"h{i}", "w"], [f"h{i + 1}"], f"c{i}", pads=[1, 1, 1, 1]) for i in range(24)]
    weights = [onnx.tensor("w", [8, 8, 3, 3], [0.1] * 576)]
    (here / "m.onnx").write_bytes(onnx.model(convs, [onnx.value("x", (1, 8, "h", "w_"))], [onnx.value("h24", (1, 8, "h", "w_"))], weights))
    programs = []
    for name, sizes in (("same", [16, 16, 16]), ("three", [14, 15, 16])):
        for i, size in enumerate(sizes):
            folder = here / name / f"test_data_set_{i}"
            folder.mkdir(parents=True)
            (folder / "input_0.pb").write_bytes(onnx.tensor("x", [1, 8, size, size], [0.5] * (8 * size * size)))
        programs.append(plan("--threads", 1, run=["profile", here / "m.onnx", "--data", here / name])[3])
    if "onednn" in FEATURES:
        assert programs[1] - programs[0] > 0.7, programs  # 24 primitives of 32 KiB, twice; those differ from start to start


def test_workers_have_one_largest_batch_each(here):
    nodes = [onnx.node("Exp", ["x"], ["e"], "rise"), onnx.node("Sin", ["e"], ["y"], "turn")]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", (1, "n"))], [onnx.value("y", (1, "n"))], []))
    planned = {}
    for name, sizes in (("one", [1 << 20, 8]), ("both", [1 << 20, 1 << 20])):
        out = tidemark("profile", here / "m.onnx", "--data", write_sets(here / name, sizes), "--threads", 2, "--plan").expect(DONE).out
        planned[name] = float(re.search(r"activations +([\d.]+) MiB x 2", out)[1])
    assert 0.45 < planned["one"] / planned["both"] < 0.6, planned


def test_what_is_moved_has_the_bins_of_its_operand(here):
    """32 values of 30,000 elements: of each the bins take 80 KiB."""
    planned, peaks = [], []
    for name, op in (("moved", "Transpose"), ("computed", "Neg")):
        nodes = [onnx.node(op, ["x" if i == 0 else f"h{i}"], [f"h{i + 1}"], f"n{i}", **({"perm": [1, 0]} if op == "Transpose" else {})) for i in range(32)]
        (here / f"{name}.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ("m", "n"))], [onnx.value("h32", ("a", "b"))], []))
        folder = here / name / "test_data_set_0"
        folder.mkdir(parents=True)
        elements = [((k * 7919) % 30011 + 1) * 1.5 ** (k % 23 - 17) * (-1) ** k for k in range(30000)]
        (folder / "input_0.pb").write_bytes(onnx.tensor("x", [150, 200], elements))
        run = ["profile", here / f"{name}.onnx", "--data", here / name, "--threads", 1]
        done = tidemark(*run, "-o", here / "p.json").expect(DONE)
        planned.append(plan(run=run)[2])
        peaks.append(int(re.search(r"peak (\d+) MiB", done.err)[1]))
    assert planned[1] - planned[0] > 1.5, planned
    assert "sanitized" in FEATURES or peaks[1] - peaks[0] > 1.5, peaks


def test_elements_of_many_octaves_take_more_bins(here):
    """48 slices of data that are about as large everywhere, or reach over 40 octaves."""
    ends = [onnx.tensor("from", [1], [0], onnx.INT64), onnx.tensor("to", [1], [4000], onnx.INT64), onnx.tensor("axis", [1], [1], onnx.INT64)]
    nodes = [onnx.node("Slice", ["x", "from", "to", "axis"], [f"y{i}"], f"n{i}") for i in range(48)]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 4096])], [onnx.value(f"y{i}", ["N", 4000]) for i in range(48)], ends))
    planned, peaks = [], []
    for name, octaves in (("near", 2), ("far", 40)):
        elements = [((k * 7919) % 30011 + 30011) / 30011 * 2.0 ** (k * 31 % octaves - octaves) * (-1) ** (k // 3) for k in range(32 * 4096)]
        (here / f"{name}.npy").write_bytes(npy_bytes([32, 4096], elements))
        run = ["profile", here / "m.onnx", "--data", here / f"{name}.npy", "--threads", 1, "--batch", 1]
        planned.append(sum(plan(run=run)[2:]))
        peaks.append(int(re.search(r"peak (\d+) MiB", tidemark(*run, "-o", here / "p.json").expect(DONE).err)[1]))
    assert planned[1] - planned[0] > 5, planned
    ranges = sum(plan("--kind", "range", run=run)[2:])
    assert planned[1] - ranges > 5, (planned, ranges)  # which have a bin an octave
    assert "sanitized" in FEATURES or abs(planned[1] - peaks[1]) < peaks[1] / 7, (planned, peaks)


def test_values_of_unknown_shape_are_planned_as_declared(here):
    """48 values behind a table that an If chooses by the data, of one length or another."""
    tables = [onnx.tensor("short", [1, 1], [1.5]), onnx.tensor("long", [1, 2], [1.5, 2.5]), onnx.tensor("zero", [], [0])]
    branches = [onnx.graph([onnx.node("Identity", [name], [f"{name}.y"])], [], [onnx.value(f"{name}.y", [1, n])]) for name, n in (("short", 1), ("long", 2))]
    nodes = [onnx.node("ReduceMax", ["x"], ["most"], keepdims=0), onnx.node("Greater", ["most", "zero"], ["some"]),
             onnx.node("If", ["some"], ["table"], then_branch=branches[0], else_branch=branches[1]),
             onnx.node("ReduceMean", ["table"], ["mean"], keepdims=1), onnx.node("Mul", ["x", "mean"], ["y0"])]
    nodes += [onnx.node("Sin", [f"y{i}"], [f"y{i + 1}"]) for i in range(48)]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 8192])], [onnx.value(f"y{i}", ["N", 8192]) for i in range(1, 49)], tables))
    (here / "x.npy").write_bytes(npy_bytes([16, 8192], [(k * 7919) % 30011 / 8192 - 1.5 for k in range(16 * 8192)]))
    run = ["profile", here / "m.onnx", "--data", here / "x.npy", "--threads", 1, "--batch", 1]
    peak = int(re.search(r"peak (\d+) MiB", tidemark(*run, "-o", here / "p.json").expect(DONE).err)[1])
    _, _, more, program = plan(run=run)
    assert more > 4 and ("sanitized" in FEATURES or abs(more + program - peak) < peak / 6), (more, program, peak)


def test_plan_is_near_the_peak(here):
    """As measured; 10 % is what docs/performance.md lists, more is left to other libraries and systems."""
    if "sanitized" in FEATURES:
        skip("a sanitizer's shadow is no part of the plan")
    for name in ("p.json", *(["p.h5"] if "hdf5" in FEATURES else [])):
        for threads in (1, 2):
            run = [*RUN[:-1], 1797, "--threads", threads, "-o", here / name]
            peak = int(re.search(r"peak (\d+) MiB", tidemark(*run).expect(DONE).err)[1])
            planned = sum(plan(run=run)[2:])
            assert abs(planned - peak) < peak / 4, (name, threads, planned, peak)


def embeddings(here, behind):
    """A table of 64 MiB of which 64 rows are read, and a product behind it, or nothing; what is planned, and the peak."""
    rows, width, tokens = 16384, 1024, 64
    (here / "w.bin").write_bytes(bytes(range(64)) * (rows * width // 16))
    table = onnx.tensor("w", [rows, width], [], external={"location": "w.bin", "offset": 0, "length": 4 * rows * width})
    weights = [table, onnx.tensor("by", [2], [width, width], onnx.INT64)]
    nodes = [onnx.node("Cast", ["x"], ["i"], to=onnx.INT64), onnx.node("Gather", ["w", "i"], ["y"], "embed")]
    if behind:
        nodes += [onnx.node("ReduceMean", ["y"], ["r"], axes=[0, 1], keepdims=0), onnx.node("Expand", ["r", "by"], ["e"]),
                  onnx.node("MatMul", ["e", "e"], ["z"])]
    shape = [width, width] if behind else ["N", tokens, width]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ["N", tokens])], [onnx.value("z" if behind else "y", shape)], weights))
    (here / "x.npy").write_bytes(npy_bytes([2, tokens], [rows // 256 * (2 * i + 1) for i in range(2 * tokens)]))
    run = ["profile", here / "m.onnx", "--data", here / "x.npy", "--threads", 1, "--batch", 1]
    done = tidemark(*run, "-o", here / "p.json").expect(DONE)
    return sum(plan(run=run)[2:]), int(re.search(r"peak (\d+) MiB", done.err)[1])


def test_table_of_embeddings_is_not_kept(here):
    planned, peak = embeddings(here, behind=True)
    assert planned < 64, planned
    if "sanitized" not in FEATURES:
        assert peak < 64, (peak, planned)  # which the table alone has


def test_table_is_kept_where_giving_it_back_would_take_most_of_the_time(here):
    assert embeddings(here, behind=False)[0] > 64


def test_limit_reduces_workers_then_batch():
    if "sanitized" in FEATURES:
        skip("what one plan has freed stays in memory for the next")
    run, big = [*RUN[:-1], 1797], ("--batch", 224)
    threads, batch, most, program = plan("--threads", 8, *big, run=run)
    assert (threads, batch) == (8, 224)
    one, small = plan("--threads", 1, *big, run=run)[2], plan("--threads", 1, run=run)[2]
    assert one - small > 1.5 and most - one > 15, (most, one, small)
    threads, batch, total, _ = plan("--threads", 8, *big, "--memory-limit", f"{program + most - 10:.1f}M", run=run)
    assert threads < 8 and batch == 224 and total < most, (threads, batch, total, most)
    threads, batch, total, _ = plan("--threads", 8, *big, "--memory-limit", f"{program + (one + small) / 2:.1f}M", run=run)
    assert threads == 1 and batch < 224 and total < one, (threads, batch, total, one, small)


def test_limit_does_not_change_the_profile(here):
    tidemark(*RUN, "-o", here / "free.json").expect(DONE)
    _, _, two, program = plan("--threads", 2)
    tidemark(*RUN, "--threads", 4, "--memory-limit", f"{program + two + 2:.1f}M", "-o", here / "limited.json").expect(DONE)
    assert (here / "free.json").read_bytes() == (here / "limited.json").read_bytes()


def test_run_beyond_the_limit_is_refused(here):
    done = tidemark(*RUN, "--memory-limit", "2M", "-o", here / "p.json")
    assert done.status == 3 and "digits.onnx: one worker" in done.err and "limit" in done.err and "MiB" in done.err and len(done.err.splitlines()) == 1, done
    assert not (here / "p.json").exists()


def test_invalid_node_is_reported_by_the_plan(here):
    model = onnx.model([onnx.node("Add", ["x", "w"], ["y"], "sum")], [onnx.value("x", ["N", 3])], [onnx.value("y", ["N", 3])],
                       [onnx.tensor("w", [4], [1, 2, 3, 4])])
    (here / "m.onnx").write_bytes(model)
    (here / "x.npy").write_bytes(npy_bytes([2, 3]))
    for more in ([], ["--memory-limit", "1G"], ["--plan"]):
        tidemark("profile", here / "m.onnx", "--data", here / "x.npy", "--batch", 1, *more,
                 *([] if "--plan" in more else ["-o", here / "p.json"])).refuses(BAD_INPUT, "m.onnx: sample 0: node Add 'sum'")


def test_invalid_sizes_are_refused():
    for word in ("much", "-1M", "1Q", "0", "1e400G"):
        tidemark(*RUN, "--plan", "--memory-limit", word).refuses(WRONG_CALL, "--memory-limit")


def test_little_address_space_is_an_error_and_no_crash(here):
    """From the smallest with which the program starts to enough; oneDNN checks no allocation of its own, neither when it is loaded."""
    if "sanitized" in FEATURES:
        skip("a sanitizer's shadow is larger than any limit")
    statuses = set()
    for limit in range(76, 140, 3):
        def limited(size=limit << 20):
            resource.setrlimit(resource.RLIMIT_AS, (size, size))
        if tidemark("--version", preexec_fn=limited).status != DONE:
            continue  # its libraries cannot be loaded
        done = tidemark(*RUN, "-q", "--threads", 1 + limit % 4, "-o", here / "p.json", preexec_fn=limited)
        assert done.status in (DONE, MACHINE), done
        if done.status == MACHINE:
            done.says_one_line()
        statuses.add(done.status)
    assert MACHINE in statuses, statuses


main()
