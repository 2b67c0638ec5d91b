# SPDX-License-Identifier: Apache-2.0
"""Transformed models give the original's outputs in ONNX Runtime; profiles transferred over a lineage have the measured ranges.

usage: test_lineage.py PROGRAM SOURCE_ROOT FEATURES CARRY_TOOL
"""
import json
import sys
from pathlib import Path

from oracle import SOURCE, chosen_models, main, model_of, np, onnx, profile, samples, session, skip, sources, subset, tidemark

CARRY_TOOL = sys.argv[4]
VERDICTS = ["same", "view", "affine", "quantized", "merged", "constant", "absorbed", "dead"]


def transform(model, path, name, *more):
    words = ["transform", model, "--passes", "all", "-o", path / f"{name}.onnx", "--lineage", path / f"{name}.json", "--json"]
    return json.loads((tidemark(*words, "--quiet", *more))), json.loads((path / f"{name}.json").read_text())


def transfer(way, source, model, lineage, target):
    tidemark(way, source, model, lineage, target, program=CARRY_TOOL)
    return json.loads(Path(target).read_text())


def assert_same_outputs(name, original, transformed):
    one, two = session(original), session(transformed)
    assert [o.name for o in one.get_outputs()] == [o.name for o in two.get_outputs()], name
    for feed in samples(name, 3):
        for x, y in zip(one.run(None, feed), two.run(None, feed), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape), name
            assert np.allclose(x, y, rtol=1e-4, atol=1e-4 * (float(np.ptp(x)) if x.size else 0)), name


def test_outputs_equal_the_originals(path):
    for name in chosen_models(1):
        summary, _ = transform(model_of(name), path, "t")
        onnx.checker.check_model(str(path / "t.onnx"), full_check=True)
        assert_same_outputs(name, model_of(name), path / "t.onnx")
        assert sum(summary[v] for v in VERDICTS) == summary["originals"], name
        again, _ = transform(path / "t.onnx", path, "again")
        assert not again["changed"] and again["same"] == again["originals"], f"{name}: a second run found more to do"
        print(f"  {name}: {', '.join(f'{summary[v]} {v}' for v in VERDICTS if summary[v])}", flush=True)


def test_observers_are_transparent(path):
    for name in chosen_models(1):
        tidemark("instrument", model_of(name), "-o", path / "observed.onnx", "--quiet")
        _, plain = transform(model_of(name), path, "plain")
        _, seen = transform(path / "observed.onnx", path, "seen")
        assert plain["originals"] == seen["originals"], name
        assert_same_outputs(name, model_of(name), path / "seen.onnx")


def test_lineages_match_the_schema(path):
    try:
        import jsonschema
    except ImportError as missing:
        skip(missing)
    validator = jsonschema.Draft202012Validator(json.loads((SOURCE / "docs" / "lineage.schema.json").read_text()))
    for name in chosen_models(1):
        _, lineage = transform(model_of(name), path, "t")
        for part in ("originals", "values"):  # one of each form: a validator in Python is slow
            lineage[part] = [*{(one.get("verdict"), one["dtype"], *sorted(one)): one for one in lineage[part]}.values()]
        assert not list(validator.iter_errors(lineage)), name
        lineage["originals"][0]["verdict"] = "lost"
        assert list(validator.iter_errors(lineage)), f"{name}: the schema takes anything"


def worst_difference(name, carried, seen):
    """Of the extremes, in parts of the value's range, and how many values there were to compare."""
    worst, compared = 0.0, 0
    for a, b in zip(carried["tensors"], seen["tensors"], strict=True):
        assert a["name"] == b["name"], name
        if a["level"] not in ("minmax", "histogram") or a.get("min") is None:
            continue
        assert a["count"] == b["count"], f"{name}: {a['name']}: {a['count']} elements, not {b['count']}"
        compared += 1
        reach = (b["max"] - b["min"]) or max(abs(b["max"]), 1)
        worst = max(worst, abs(a["min"] - b["min"]) / reach, abs(a["max"] - b["max"]) / reach)
    return worst, compared


def test_transferred_ranges_equal_measured_ones(path):
    for name in subset(chosen_models(1)):
        original, transformed = model_of(name), path / "t.onnx"
        words = ["--limit", "2"]
        there = profile(original, sources(name), path / "original.json", *words)
        transform(original, path, "t")
        here = profile(transformed, sources(name), path / "transformed.json", *words)
        new = transfer("there", path / "original.json", transformed, path / "t.json", path / "new.json")
        old = transfer("back", path / "transformed.json", original, path / "t.json", path / "old.json")
        for way, carried, seen in (("there", new, here), ("back", old, there)):
            worst, compared = worst_difference(name, carried, seen)
            assert worst <= 1e-4, f"{name}, {way}: a range differs by {worst:.1e} of it"
            print(f"  {name}, {way}: {compared} of {len(seen['tensors'])} values, at most {worst:.1e} of a range apart", flush=True)


main()
