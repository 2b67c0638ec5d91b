# SPDX-License-Identifier: Apache-2.0
"""Passes on real models: what became of every ID, and whether the ranges that lineage transfers are those that are observed.

usage: test_passes.py PROGRAM SOURCE_ROOT FEATURES [--models NAME...] [--markdown FILE]

For each pass and for all together a model is transformed. Its IDs must add up; outputs must be the original's, in the
program and in ONNX Runtime; and every range that follows from the original's profile by the lineage file, reckoned here from
its relations, must be the one in the profile of the transformed model, within 1e-4 of the range. With --models, these are taken
instead, also from the folder TIDEMARK_BENCH, which tests/bench/models.py makes.
"""
import argparse
import json
import os
import sys
from pathlib import Path

from oracle import folder, main, model_names, model_of, np, onnx, present, profile, session, sources, subset, tidemark

TOLERANCE, RELATIVE = 1e-4, 1e-4
EXACT = ("same", "merged", "view")
SEEN = EXACT + ("affine", "quantized")
WORDS = SEEN + ("constant", "absorbed", "dead")
SAMPLES = 3
IN_CI = ["digits", "mlperf_ic_resnet8", "char_gpt"]


def passes():
    lines = tidemark("transform", "--passes", "help").splitlines()
    return [line.split()[0] for line in lines if line[:1].strip()]


def number(value):
    return {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}.get(value, value) if isinstance(value, str) else value


def by_id(document):
    return {value["id"]: value for value in document["tensors"]}


def channel_ranges(record, affine):
    """The original's range for each channel of the relation; None where the profile has none for these channels."""
    if len(affine["scale"]) == 1:
        return [(record["min"], record["max"])]
    channels = record.get("channels")
    if not channels or len(channels["min"]) != len(affine["scale"]):
        return None
    return list(zip(channels["min"], channels["max"]))


def carried(original, record):
    """(min, max) that the value must have; None: this profile does not determine it."""
    if record.get("min") is None:
        return None
    if original["verdict"] in EXACT:
        return record["min"], record["max"]
    if original["verdict"] != "affine":
        return None
    ranges = channel_ranges(record, original["affine"])
    if ranges is None:
        return None
    ends = [scale * end + shift for (low, high), scale, shift in
            zip(ranges, original["affine"]["scale"], original["affine"]["shift"]) if low is not None for end in (low, high)]
    return min(ends), max(ends)


class Figures:
    def __init__(self, lineage):
        self.counts = {word: 0 for word in WORDS}
        for original in lineage["originals"]:
            self.counts[original["verdict"]] += 1
        assert sum(self.counts.values()) == len(lineage["originals"])
        self.total, self.compared, self.worst, self.where, self.output = len(lineage["originals"]), 0, 0.0, "", 0.0


def compare_ranges(figures, lineage, before, after):
    for original in lineage["originals"]:
        if original["verdict"] not in SEEN or before[original["id"]]["dtype"] != "float32":
            continue
        want = carried(original, before[original["id"]])
        value = after[original["value"]]
        if want is None or value.get("min") is None:
            assert original["verdict"] != "same" or (before[original["id"]].get("min") is None) == (value.get("min") is None), \
                f"{original['id']} '{original['name']}': seen in one profile only"
            continue
        span = value["max"] - value["min"] or max(abs(value["max"]), 1e-30)
        error = max(abs(want[0] - value["min"]), abs(want[1] - value["max"])) / span
        figures.compared += 1
        if error > figures.worst:
            figures.worst, figures.where = error, f"{original['id']} '{original['name']}' ({original['verdict']})"


def close(got, want, what):
    assert got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}"
    if not np.issubdtype(want.dtype, np.floating):
        assert (got == want).all(), what
        return 0.0
    span = float(np.nanmax(np.abs(want))) if want.size else 0.0
    difference = float(np.nanmax(np.abs(got - want))) if want.size else 0.0
    assert (np.isnan(got) == np.isnan(want)).all() and difference <= RELATIVE * span, f"{what}: {difference} of {span}"
    return difference / span if span else 0.0


def ours(model, data, more, target):
    words = [word for one in data for word in ("--data", one)]
    tidemark("run", model, *words, *more, "-o", target)
    with np.load(target) as arrays:
        return dict(arrays)


def theirs(model, feeds):
    with_theirs = session(model)
    return [with_theirs.run(None, feed) for feed in feeds]


def transformed(here, path, names, case):
    """Transforms, holds outputs and ranges against the original's, answers with the figures."""
    new, lines = here / f"{names.replace(',', '+')[:40]}.onnx", here / "lineage.json"
    tidemark("transform", path, "--passes", names, "-o", new, "--lineage", lines, "--profile", here / "old.json", "--quiet")
    lineage = json.loads(lines.read_text())
    figures = Figures(lineage)
    got, want = ours(new, case.data, case.more, here / "new.npz"), case.outputs
    assert sorted(got) == sorted(want), f"outputs {sorted(got)}, not {sorted(want)}"
    figures.output = max(close(got[name], want[name], f"{names}: output {name}") for name in want)
    for mine, other in zip(theirs(new, case.feeds), case.runtime):
        for a, b in zip(mine, other):
            if isinstance(b, np.ndarray):
                figures.output = max(figures.output, close(a, b, f"{names}: in ONNX Runtime"))
    compare_ranges(figures, lineage, case.before, by_id(profile(new, case.data, here / "new.json", *case.more)))
    assert figures.worst <= TOLERANCE, f"{names}: {figures.where}: {figures.worst:.2e} of the range"
    return figures


class Case:
    def __init__(self, here, path, data, feeds):
        self.data, self.feeds, self.more = data, feeds, ["--limit", len(feeds)]
        self.outputs = ours(path, data, self.more, here / "old.npz")
        self.runtime = theirs(path, feeds)
        self.before = by_id(profile(path, data, here / "old.json", *self.more))


def row(name, names, f):
    cells = [name, names, f.total, *(f.counts[word] for word in WORDS), f.compared, f"{f.worst:.1e}", f"{f.output:.1e}"]
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = ["| model | passes | IDs | " + " | ".join(WORDS) + " | ranges compared | worst range | worst output |",
        "|" + " --- |" * (len(WORDS) + 6)]


def table(name, path, data, feeds, lists):
    rows = []
    with folder() as here:
        case = Case(here, path, data, feeds)
        for names in lists:
            rows.append(row(name, names, transformed(here, path, names, case)))
            print(rows[-1], flush=True)
    return rows


def small_case(name):
    from oracle import samples
    return name, model_of(name), sources(name), samples(name, SAMPLES)


def bench_case(name):
    root = Path(os.environ["TIDEMARK_BENCH"])
    path = root / f"{name}.onnx"
    entry = onnx.load(path, load_external_data=False).graph.input[0]
    shape = [size.dim_value for size in entry.type.tensor_type.shape.dim]
    data = next(one for one in sorted(root.glob("*.npy")) if list(np.load(one, mmap_mode="r").shape[1:]) == shape[1:])
    return name, path, [data], [{entry.name: picture[None]} for picture in np.load(data, mmap_mode="r")[:SAMPLES]]


def test_passes_keep_outputs_and_ranges():
    print("\n".join(HEAD))
    for name in subset(sorted(present(*IN_CI))):
        table(*small_case(name), [*passes()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--markdown")
    asked = parser.parse_args(sys.argv[4:])
    if asked.models or asked.markdown:
        lines = list(HEAD)
        for one in asked.models or model_names():
            case_of = small_case if one in model_names() else bench_case
            lines += table(*case_of(one), passes())
        if asked.markdown:
            Path(asked.markdown).write_text("\n".join(lines) + "\n")
    else:
        main()
