# SPDX-License-Identifier: Apache-2.0
"""Mask values: they are found, reported, and excluded."""
import json

import onnx_bytes as onnx
from cli import BAD_INPUT, DONE, FEATURES, WRONG_CALL, main, npy_bytes, save_rows, tensors_of, tidemark
from runs import check_reproducible, read

SAMPLES, WIDTH = 30, 16
MASK = -1e9


def kept(s, i):
    return (s * 7 + i * 5) % 8 < 5


def score(s, i):
    return ((s * 31 + i * 17) % 64 - 32) / 4


def attention(path, scale=MASK):
    """(1 - mask) * scale + scores, as in front of a softmax; a Relu of that, and both with the scores."""
    source = path / "m.onnx"
    source.write_bytes(onnx.model(
        [onnx.node("Sub", ["one", "mask"], ["hidden"]), onnx.node("Mul", ["hidden", "scale"], ["added"]),
         onnx.node("Add", ["added", "x"], ["masked"], "add"), onnx.node("Softmax", ["masked"], ["y"]),
         onnx.node("Relu", ["masked"], ["relu"]), onnx.node("Concat", ["masked", "x"], ["both"], axis=1)],
        [onnx.value("x", ["N", WIDTH]), onnx.value("mask", ["N", WIDTH])],
        [onnx.value(o, ["N", "W"]) for o in ("y", "relu", "both")],
        [onnx.tensor("one", [], [1.0]), onnx.tensor("scale", [], [scale])]))
    save_rows(path / "x.npy", [[score(s, i) for i in range(WIDTH)] for s in range(SAMPLES)])
    save_rows(path / "mask.npy", [[float(kept(s, i)) for i in range(WIDTH)] for s in range(SAMPLES)])
    return [source, "--data", f"x={path / 'x.npy'}", "--data", f"mask={path / 'mask.npy'}"]


def everything():
    return [(s, i) for s in range(SAMPLES) for i in range(WIDTH)]


def test_masks_are_found_and_reported(path):
    done = tidemark("profile", *attention(path), "-o", path / "p.json").expect(DONE)
    line, = [line for line in done.err.splitlines() if "power of ten" in line]
    assert "'added' reaches -1e+09" in line and "2 more values are like it" in line and "--exclude=-1e+09" in line, line
    values = {value["name"]: value for value in json.loads(tidemark("show", path / "p.json", "--json").out)}
    masked = values["masked"]
    assert masked["min_is"] == "a power of ten, as in masks" and "max_is" not in masked
    hidden = sum(not kept(*at) for at in everything())
    assert masked["spike"] == MASK and masked["at_spike"] == hidden == masked["at_min"], masked
    assert "min_is" not in values["x"] and "at_spike" not in values["x"]
    assert "min_is" not in values["scale"], "weights are not looked at"
    table = {line.split()[1]: line for line in tidemark("show", path / "p.json", "--wide").out.splitlines()[2:]}
    assert " SM " in table["masked"] and " M" not in table["x"]
    tidemark("show", path / "p.json", "masked").expect(DONE, "min is a power of ten", f"at least {hidden} elements are -1e+09")


def test_masks_that_were_added_to_something_are_found(path):
    done = tidemark("profile", *attention(path, -1e4), "-o", path / "p.json").expect(DONE)
    values = {value["name"]: value for value in json.loads(tidemark("show", path / "p.json", "--json").out)}
    assert values["added"]["min_is"] == "a power of ten, as in masks"
    assert "with nothing between" in values["masked"]["min_is"]
    assert "2 more values" in done.err, done.err


def test_excluded_numbers_are_counted_and_in_no_other_statistic(path):
    words = attention(path)
    tidemark("profile", *words, "-o", path / "p.json", "--exclude", "-1e9").expect(DONE)
    assert json.loads((path / "p.json").read_text())["settings"]["exclude"] == "-1e+09"
    found = tensors_of(path / "p.json")
    shown = [score(*at) for at in everything() if kept(*at)]
    masked, hidden = found["masked"], SAMPLES * WIDTH - len(shown)
    assert masked["excluded"] == hidden and masked["count"] == SAMPLES * WIDTH and masked["nan"] == 0
    assert (masked["min"], masked["max"], masked["sum"]) == (min(shown), max(shown), sum(shown))
    assert sum(masked["histogram"]["counts"]) + masked["zeros"] == len(shown)
    assert masked["first_nonfinite"] is None
    first = min((s, i) for s, i in everything() if kept(s, i) and score(s, i) == min(shown))
    assert masked["min_at"] == {"sample": first[0], "index": first[1]}, (masked["min_at"], first)
    relu = found["relu"]
    assert relu["status"] == "observed" and "excluded" not in relu
    assert relu["zeros"] == SAMPLES * WIDTH - sum(x > 0 for x in shown)
    both = found["both"]
    assert both["status"] == "derived" and both["excluded"] == hidden and both["count"] == 2 * SAMPLES * WIDTH
    assert both["min"] == min(score(*at) for at in everything())
    assert found["scale"]["min"] == MASK and "excluded" not in found["scale"], "weights keep their numbers"
    assert "excluded" not in found["x"]
    tidemark("show", path / "p.json", "masked").expect(DONE, f"excluded           {hidden}")
    shown, = json.loads(tidemark("show", path / "p.json", "masked", "--json").out)
    assert shown["excluded"] == hidden and "min_is" not in shown


def test_threads_batches_shards_and_formats_give_the_same(path):
    words = attention(path) + ["--exclude", "-1e9", "--exclude", "1", "--exclude=-1e9"]
    for batch in ([], ["--batch", 5]):
        check_reproducible(path, [*words, *batch])
        assert read(path / "whole")["settings"]["exclude"] == ["1", "-1e+09"]
        if "hdf5" in FEATURES:
            tidemark("merge", path / "whole.h5", "-o", path / "p.json").expect(DONE)
            assert (path / "p.json").read_bytes() == (path / "whole.json").read_bytes()


def test_exclusion_works_in_chains_and_blocked_layouts(path):
    """Channels in blocks, and pointwise operators that run a tile at a time: against numbers counted here."""
    c, side = 5, 6
    x = [[[[float((s * 3 + k * 5 + i * 7 + j) % 9 - 4) for j in range(side)] for i in range(side)] for k in range(c)]
         for s in range(8)]
    flat = [v for sample in x for plane in sample for row in plane for v in row]
    (path / "x.npy").write_bytes(npy_bytes([8, c, side, side], flat))
    eye = [1.0 if a == b else 0.0 for a in range(c) for b in range(c)]
    (path / "m.onnx").write_bytes(onnx.model(
        [onnx.node("Conv", ["x", "w"], ["conv"], "conv"), onnx.node("Abs", ["conv"], ["a"], "abs"),
         onnx.node("Neg", ["a"], ["n"], "neg"), onnx.node("Relu", ["conv"], ["r"], "relu")],
        [onnx.value("x", ["N", c, side, side])], [onnx.value(o, ["N", c, side, side]) for o in ("n", "r")],
        [onnx.tensor("w", [c, c, 1, 1], eye)]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-o", path / "p.json", "--exclude", "3",
             "--exclude=-4").expect(DONE)
    found = tensors_of(path / "p.json")
    for name, of in (("x", lambda v: v), ("conv", lambda v: v), ("a", abs), ("n", lambda v: -abs(v)), ("r", lambda v: max(v, 0))):
        numbers = [of(v) for v in flat]
        left = [v for v in numbers if v not in (3, -4)]
        tensor = found[name]
        assert tensor.get("excluded", 0) == len(numbers) - len(left), name
        assert (tensor["min"], tensor["max"], tensor["sum"]) == (min(left), max(left), sum(left)), name
        assert tensor["count"] == len(flat)


def test_shards_with_other_exclusions_are_refused(path):
    words = attention(path)
    tidemark("profile", *words, "-o", path / "1.json", "--shard", "1/2").expect(DONE)
    tidemark("profile", *words, "-o", path / "2.json", "--shard", "2/2", "--exclude=-1e9").expect(DONE)
    tidemark("merge", path / "1.json", path / "2.json", "-o", path / "p.json").refuses(BAD_INPUT, "exclude")


def test_invalid_exclusions_are_refused(path):
    for word in ("much", "", "nan", "-inf", "1e39", "1 "):
        done = tidemark("profile", *attention(path), "-o", path / "p.json", "--exclude", word)
        done.refuses(WRONG_CALL, "--exclude", f"'{word}'")


main()
