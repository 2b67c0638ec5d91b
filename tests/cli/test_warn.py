# SPDX-License-Identifier: Apache-2.0
"""Warnings: the origin of NaN, dead channels, saturation; the influence of single samples on ranges."""
import json
import math
import os
import struct
import subprocess

import onnx_bytes as onnx
from cli import (ANSWER_NO, BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, WRONG_CALL, main, needs, save_rows, tensors_of,
                 tidemark)
from merge_shards import make_shards
from runs import check_reproducible

HAVE_HDF5 = "hdf5" in FEATURES
PYTHON = os.environ.get("TIDEMARK_TEST_PYTHON")


def model(path, nodes, outputs, width=4, initializers=()):
    path.write_bytes(onnx.model(nodes, [onnx.value("x", ["N", width])], [onnx.value(o, ["N", "W"]) for o in outputs], initializers))
    return path


def profile(source, samples, target, *more):
    return tidemark("profile", source, "--data", samples, "-o", target, *more)


# ---- NaN and infinity ----

def log_model(path):
    """Log begins it at sample 4 (of 0), Sqrt at sample 7 (of -1)."""
    return model(path, [
        onnx.node("Abs", ["x"], ["a"], "abs"),
        onnx.node("Log", ["a"], ["l\nog"], "lo\tg"),
        onnx.node("Add", ["l\nog", "x"], ["s"], "add"),
        onnx.node("Relu", ["s"], ["y"], "relu"),
        onnx.node("Sqrt", ["x"], ["q"], "root"),
        onnx.node("Concat", ["s", "q"], ["c"], "join", axis=1),
    ], ["y", "c"])


ROWS = [[1.0 + s, 2.0, 3.0, 4.0] for s in range(10)]
BAD_ROWS = [[0.0 if (s, i) == (4, 2) else -1.0 if (s, i) == (7, 1) else x for i, x in enumerate(row)]
            for s, row in enumerate(ROWS)]


def test_origin_and_inheritance_of_nan_are_reported(path):
    source, samples = log_model(path / "m.onnx"), save_rows(path / "x.npy", BAD_ROWS)
    for more in ([], ["--nan=warn"], ["--nan", "record"], ["--threads", "1"], ["--kind", "range"]):
        done = profile(source, samples, path / "p.json", *more).expect(DONE)
        line, = [line for line in done.err.splitlines() if "NaN" in line]
        for text in ("p2 'l\\x0aog'", "output 0 of Log 'lo\\x09g'", "sample 4, element 2", "2 values downstream", "1 other"):
            assert text in line, (text, line)
        found = {name: tensor.get("nonfinite") for name, tensor in tensors_of(path / "p.json").items()}
        assert found == {"x": None, "a": None, "y": None, "l\nog": {"origin": True}, "s": {"inherits": ["p2"]},
                         "q": {"origin": True}, "c": {"inherits": ["p3"]}}, found
    shown = {value["name"]: value.get("nonfinite") for value in json.loads(tidemark("show", path / "p.json", "--json").out)}
    assert shown == found
    table = tidemark("show", path / "p.json", "--wide").expect(DONE, "marks", " N ", " n")
    assert len(table.out.splitlines()) == len(found) + 2
    tidemark("show", path / "p.json", "c").expect(DONE, "from p3")
    tidemark("show", path / "p.json", "q").expect(DONE, "begins here")


def test_finite_numbers_give_no_message(path):
    done = profile(log_model(path / "m.onnx"), save_rows(path / "x.npy", ROWS), path / "p.json").expect(DONE)
    assert "NaN" not in done.err and "nonfinite" not in (path / "p.json").read_text().replace("first_nonfinite", "")


def test_nan_fail_stops_the_run(path):
    source, samples = log_model(path / "m.onnx"), save_rows(path / "x.npy", BAD_ROWS)
    for threads in (1, 3):
        done = profile(source, samples, path / "p.json", "--nan=fail", "--threads", threads)
        done.refuses(ANSWER_NO, "Sqrt 'root'", "p5 'q'", "sample 7, element 1")
        assert not (path / "p.json").exists()
    profile(source, save_rows(path / "ok.npy", ROWS), path / "p.json", "--nan=fail").expect(DONE)
    profile(source, samples, path / "p.json", "--nan=often").refuses(WRONG_CALL, "often", "warn")


def test_origins_are_found_again_when_shards_are_merged(path):
    source, samples = log_model(path / "m.onnx"), save_rows(path / "x.npy", BAD_ROWS)
    shards = make_shards(path, source, samples, [3, 6])
    tidemark("merge", *reversed(shards), "-o", path / "merged.json").expect(DONE)
    assert (path / "merged.json").read_bytes() == (path / "whole.json").read_bytes()
    assert tensors_of(path / "merged.json")["c"]["nonfinite"] == {"inherits": ["p3"]}


def test_origins_are_traced_through_branches_and_loops(path):
    def branch(op, output):
        return onnx.graph([onnx.node(op, ["x"], [output], op.lower())], [], [onnx.value(output, ["N", 4])])

    choose = onnx.node("If", ["always"], ["y"], "choose", then_branch=branch("Log", "t"), else_branch=branch("Neg", "e"))
    total = onnx.node("ReduceSum", ["x"], ["sum"], keepdims=0)
    body = onnx.graph([onnx.node("Identity", ["c_in"], ["c_out"]), onnx.node("Mul", ["v", "v"], ["w"], "square")],
                      [onnx.value("i", [], onnx.INT64), onnx.value("c_in", [], onnx.BOOL), onnx.value("v", ["N", 4])],
                      [onnx.value("c_out", [], onnx.BOOL), onnx.value("w", ["N", 4])])
    again = onnx.node("Loop", ["ten", "", "x"], ["z"], "again", body=body)
    source = model(path / "m.onnx", [total, onnx.node("Greater", ["sum", "low"], ["always"]), choose, again], ["y", "z"],
                   initializers=[onnx.tensor("low", [], [-1e30]), onnx.tensor("ten", [], [10], onnx.INT64)])
    profile(source, save_rows(path / "x.npy", [[1.0, 1, 1, 1], [0.0, 1, 1, 3]]), path / "p.json").expect(DONE, "Log 'log'")
    found = tensors_of(path / "p.json")
    assert found["t"]["nonfinite"] == {"origin": True} and "nonfinite" not in found["x"]
    assert found["y"]["nonfinite"] == {"inherits": [found["t"]["id"]]}
    assert found["w"]["nonfinite"] == {"origin": True}
    assert found["v"]["nonfinite"] == {"inherits": [found["w"]["id"]]}
    assert found["z"]["nonfinite"] == {"inherits": [found["w"]["id"]]}


# ---- dead channels, saturation, constants ----

def test_what_there_is_none_of_is_not_counted(path):
    source = model(path / "m.onnx", [onnx.node("Clip", ["x", "lo", "hi"], ["y"], "clip")], ["y"],
                   initializers=[onnx.tensor("lo", [], [-1]), onnx.tensor("hi", [], [2.5])])
    rows = [[math.sin(s * 4 + i) * 4 for i in range(4)] for s in range(50)]
    done = profile(source, save_rows(path / "x.npy", rows), path / "p.json").expect(DONE, "1 saturated: `tidemark show`")
    assert "dead channels" not in done.err, done


def test_dead_channels_saturation_and_constants_are_marked(path):
    initializers = [onnx.tensor("mask", [4], [1, 0, 1, 0]), onnx.tensor("lo", [], [-1]), onnx.tensor("hi", [], [2.5]),
                    onnx.tensor("nil", [4], [0, 0, 0, 0])]
    eye = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    initializers.append(onnx.tensor("w", [4, 4], eye))
    source = model(path / "m.onnx", [
        onnx.node("Gemm", ["x", "w"], ["g"], "gemm"),
        onnx.node("Clip", ["x", "lo", "hi"], ["clipped"], "clip"),
        onnx.node("Mul", ["x", "nil"], ["zero"], "zero"),
        onnx.node("Tanh", ["clipped"], ["smooth"], "tanh"),
    ], ["g", "smooth", "zero"], initializers=initializers)
    rows = [[math.sin(s * 4 + i) * 4 for i in range(4)] for s in range(50)]
    flat = [x for row in rows for x in row]
    done = profile(source, save_rows(path / "x.npy", rows), path / "p.json")
    done.expect(DONE, "1 with dead channels (2 in all), 2 saturated", "1 dead")
    values = {value["name"]: value for value in json.loads(tidemark("show", path / "p.json", "--json").out)}
    assert (values["g"]["channels"], values["g"]["dead_channels"]) == (4, 2), values["g"]
    assert values["clipped"]["saturated"] and values["smooth"]["saturated"]
    assert values["clipped"]["at_max"] == sum(x >= 2.5 for x in flat)
    assert values["clipped"]["at_min"] == sum(x <= -1 for x in flat)
    assert values["zero"]["constant"] and not values["zero"]["saturated"]
    assert not values["x"]["saturated"] and not values["x"]["constant"]
    table = {line.split()[1]: line for line in tidemark("show", path / "p.json", "--wide").out.splitlines()[2:]}
    assert " D2 " in table["g"] and " S " in table["clipped"] and " C" in table["zero"]
    tidemark("show", path / "p.json", "g").expect(DONE, "2 of 4 channels")
    tidemark("show", path / "p.json", "zero").expect(DONE, "constant")
    tidemark("show", path / "p.json", "clipped").expect(DONE, "saturated")


# ---- each sample's extremes ----

def float32(number):
    return None if number is None else struct.pack("<f", number)


READ_SAMPLES = """
import h5py, json, sys
with h5py.File(sys.argv[1]) as file:
    group = file["samples"]
    print(json.dumps({int(id): [[None if x != x else float(x) for x in row] for row in pair]
                      for id, *pair in zip(group["tensor"], group["min"], group["max"])}))
"""


def samples_of(path):
    """{ID: [mins, maxs]} by h5py; None without it."""
    done = subprocess.run([PYTHON, "-c", READ_SAMPLES, str(path)], capture_output=True, text=True, check=False) if PYTHON else None
    if not done or done.returncode:
        return None
    return {int(id): pair for id, pair in json.loads(done.stdout).items()}


def check_against_runs_of_one(path, source, samples, numbers, *more):
    kept = samples_of(path / "p.h5")
    if kept is None:
        print("no h5py: extremes of samples are not compared")
        return
    for at, s in enumerate(numbers):
        profile(source, samples, path / "one.json", "--skip", s, "--limit", 1, *more).expect(DONE)
        for tensor in tensors_of(path / "one.json").values():
            id = int(tensor["id"][1:])
            if tensor["kind"] == "weight":
                assert id not in kept
            elif tensor["level"] not in ("integer", "none"):
                for got, want in zip((kept[id][0][at], kept[id][1][at]), (tensor["min"], tensor["max"])):
                    # on some processors oneDNN adds up the products of one row in another order
                    same = float32(got) == float32(want) or math.isclose(float(got), float(want), rel_tol=1e-5)
                    assert same, (s, tensor["name"], got, want)


def test_extremes_per_sample_equal_runs_of_one_sample(path):
    needs("hdf5")
    for more in ([], ["--threads", "3"], ["--kind", "range"]):
        profile(DIGITS, PICTURES, path / "p.h5", "--per-sample", "--skip", 5, "--limit", 6, *more).expect(DONE)
        check_against_runs_of_one(path, DIGITS, PICTURES, range(5, 11))
    source, samples = log_model(path / "m.onnx"), save_rows(path / "x.npy", BAD_ROWS)
    profile(source, samples, path / "p.h5", "--per-sample").expect(DONE)
    check_against_runs_of_one(path, source, samples, range(10))


def test_batches_and_threads_do_not_change_extremes_per_sample(path):
    needs("hdf5")
    source, samples = log_model(path / "m.onnx"), save_rows(path / "x.npy", BAD_ROWS)
    profile(source, samples, path / "p.h5", "--per-sample").expect(DONE)
    profile(source, samples, path / "batches.h5", "--per-sample", "--batch", 5).expect(DONE)
    assert samples_of(path / "p.h5") == samples_of(path / "batches.h5")
    profile(source, samples, path / "threads.h5", "--per-sample", "--threads", 4).expect(DONE)
    assert (path / "threads.h5").read_bytes() == (path / "p.h5").read_bytes()


def test_shards_and_checkpoints_keep_extremes_per_sample(path):
    needs("hdf5")
    words = ["--per-sample", "--limit", 50]
    profile(DIGITS, PICTURES, path / "whole.h5", *words).expect(DONE)
    for k in (1, 2, 3):
        profile(DIGITS, PICTURES, path / f"{k}.h5", *words, "--shard", f"{k}/3").expect(DONE)
    tidemark("merge", *[path / f"{k}.h5" for k in (3, 1, 2)], "-o", path / "merged.h5").expect(DONE)
    assert (path / "merged.h5").read_bytes() == (path / "whole.h5").read_bytes()
    profile(DIGITS, PICTURES, path / "c.h5", *words, "--checkpoint", path / "c", "--every", "0.001s").expect(DONE)
    assert (path / "c.h5").read_bytes() == (path / "whole.h5").read_bytes()


def test_per_sample_needs_hdf5(path):
    done = profile(DIGITS, PICTURES, path / "p.json", "--per-sample", "--limit", 3)
    done.refuses(WRONG_CALL, "--per-sample", ".h5")
    if HAVE_HDF5:
        profile(DIGITS, PICTURES, path / "p.json", "-o", path / "p.h5", "--per-sample", "--limit", 3).expect(DONE)


def outlier_rows():
    """Sample 6 is twice as large as all others; sample 2 sets the lower end alone."""
    rows = [[0.1 * s, 1.0, -1.0 - 0.001 * s, 0.0] for s in range(12)]
    rows[6] = [0.0, 20.0, 0.0, 0.0]
    rows[2] = [0.0, 10.0, -10.0, 0.0]
    return rows


def outlier_data(path):
    return save_rows(path, outlier_rows())


def test_outliers_are_ranked(path):
    source, samples = log_model(path / "m.onnx"), outlier_data(path / "x.npy")
    profile(source, samples, path / "p.json").expect(DONE)
    exact = json.loads(tidemark("show", path / "p.json", "x", "--outliers", "--json").expect(DONE).out)
    assert not exact["per_sample"] and exact["values"] == 1
    if HAVE_HDF5:
        profile(source, samples, path / "p.h5", "--per-sample").expect(DONE)
        kept = json.loads(tidemark("show", path / "p.h5", "x", "--outliers", "--json").expect(DONE).out)
        assert kept == {**exact, "per_sample": True}, (kept, exact)
    first, second = exact["samples"]
    # with all: [-10, 20]; without sample 2: [-1.011, 20]; without sample 6: [-10, 10]
    assert first["sample"] == 6 and abs(first["widens"] - 0.5) < 1e-6, exact
    assert first["worst"] == {"id": "p0", "name": "x", "end": "max", "value": 20, "next": 10, "next_sample": 2}
    assert second["sample"] == 2 and abs(second["widens"] - (30 / 21.011 - 1)) < 1e-6
    assert len(json.loads(tidemark("show", path / "p.json", "--outliers=1", "--json").out)["samples"]) == 1
    tidemark("show", path / "p.json", "x", "--outliers", "--wide").expect(DONE, "+50.0%")
    row = tidemark("show", path / "p.json", "x", "--outliers=1", "--wide").out.splitlines()[-1].split()
    assert row[-4:] == ["max", "20", "10", "2"], row
    tidemark("show", path / "p.json", "--outliers=many").refuses(WRONG_CALL, "many")
    tidemark("show", path / "p.json", "--outliers", "--convergence").refuses(WRONG_CALL, "one at a time")


def without_top_samples(source, target):
    """As an earlier release wrote it."""
    profile = json.loads(source.read_text())
    profile["version"]["minor"] = 2
    for tensor in profile["tensors"]:
        tensor.pop("top_samples", None)
    target.write_text(json.dumps(profile))
    return target


def test_outliers_of_old_profiles_come_from_the_extremes(path):
    source, samples = log_model(path / "m.onnx"), outlier_data(path / "x.npy")
    profile(source, samples, path / "p.json").expect(DONE)
    old = without_top_samples(path / "p.json", path / "old.json")
    rough = json.loads(tidemark("show", old, "x", "--outliers", "--json").expect(DONE).out)
    assert {entry["sample"] for entry in rough["samples"]} == {2, 6}
    assert all("widens" not in entry for entry in rough["samples"])
    tidemark("show", old, "--outliers").expect(DONE, "not known")


# ---- top samples ----

def check_top_samples(tensor, rows, of):
    """Against sorting."""
    for end, sign in (("min", 1), ("max", -1)):
        each = sorted((sign * (min if end == "min" else max)(of(row)), s) for s, row in enumerate(rows))
        want = [(float32(sign * value), s) for value, s in each[:4]]
        got = [(float32(top["value"]), top["sample"]) for top in tensor["top_samples"][end]]
        assert got == want, (tensor["name"], end, got, want)


def test_top_samples_are_those_of_sorting_for_any_threads_batches_and_shards(path):
    source = model(path / "m.onnx", [onnx.node("Neg", ["x"], ["y"]), onnx.node("Relu", ["y"], ["z"])], ["z"])
    rows = [[float((s * 37 + i * 11) % 23 - 9) for i in range(4)] for s in range(40)]
    samples = save_rows(path / "x.npy", rows)
    for batch in ([], ["--batch", 4], ["--batch", 8]):
        check_reproducible(path, [source, "--data", samples, *batch])
        found = tensors_of(path / "whole.json")
        check_top_samples(found["x"], rows, lambda row: row)
        check_top_samples(found["y"], rows, lambda row: [-x for x in row])
        assert "top_samples" not in found["z"] and found["z"]["status"] == "derived"
    parts = [path / f"part-3-{k}.json" for k in (1, 2, 3)]
    tidemark("merge", without_top_samples(parts[0], path / "old.json"), *parts[1:], "-o", path / "q.json").expect(DONE)
    assert "top_samples" not in tensors_of(path / "q.json")["x"]


def test_range_without_the_largest_outlier_is_shown(path):
    source, samples = log_model(path / "m.onnx"), outlier_data(path / "x.npy")
    profile(source, samples, path / "p.json").expect(DONE)
    tidemark("show", path / "p.json", "x").expect(DONE, "20 in 6, 10 in 2", "-10 in 2, -1.011 in 11",
                                                  "[-10, 10] without sample 6")
    tidemark("show", path / "p.json", "y").expect(DONE, "top samples", "follow from those of p3")
    shown, = json.loads(tidemark("show", path / "p.json", "x", "--json").out)
    check_top_samples(dict(shown, name="x"), outlier_rows(), lambda row: row)


def test_convergence_counts_the_needed_samples(path):
    source, samples = log_model(path / "m.onnx"), path / "x.npy"
    rows = [[0.0, 0.0, 0.0, 0.0] for _ in range(20)]
    rows[3] = [96.0, 0, 0, 0]
    rows[11] = [99.5, 0, 0, 0]
    rows[15] = [100.0, 0, 0, 0]
    save_rows(samples, rows)
    profile(source, samples, path / "p.json").expect(DONE)
    tidemark("show", path / "p.json", "--convergence").refuses(BAD_INPUT, "--per-sample", ".h5")
    if not HAVE_HDF5:
        return
    profile(source, samples, path / "p.h5", "--per-sample").expect(DONE)
    shown = json.loads(tidemark("show", path / "p.h5", "x", "--convergence", "--json").expect(DONE).out)
    assert shown["samples"] == 20
    assert shown["values"] == [{"id": "p0", "name": "x", "within_1_percent": 12, "within_5_percent": 4}]
    assert {(q["within_1_percent"], q["within_5_percent"]) for q in shown["quantiles"]} == {(12, 4)}
    tidemark("show", path / "p.h5", "x", "--convergence").expect(DONE, "12", "of 20")
    profile(source, samples, path / "p.h5", "--per-sample", "--sample-every", 5).expect(DONE)
    shown = json.loads(tidemark("show", path / "p.h5", "x", "--convergence", "--json").expect(DONE).out)
    assert shown["samples"] == 4, shown


if __name__ == "__main__":
    main()
