#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the invalid profiles in this folder, and index.json with the rule that each breaks, from a valid profile.

    make_profiles.py tests/golden/profile-1.4.json

Each file differs from the valid one in one place. Rules have the numbers of docs/profile-format.md ("Validation"); 0 is the syntax:
JSON, its members, their types and ranges, as the schema has them.
"""
import copy
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REMOVED = object()
KEPT = ("p0", "p1", "p2", "p3", "p4", "p7", "p10")
# File: (rule, reason, path in the profile, new value).
INVALID = {
    "another-format": (0, "format is not tidemark-profile", ["format"], "profile"),
    "major-2": (0, "a reader of version 1 cannot read version 2", ["version", "major"], 2),
    "no-min": (0, "a value of level histogram has no min", ["tensors", 0, "min"], REMOVED),
    "unknown-member": (0, "an unknown member in a minor version that is known", ["tensors", 0, "mni"], 1),
    "unknown-status": (0, "status is none of the six", ["tensors", 0, "status"], "fine"),
    "negative-count": (0, "a count is negative", ["tensors", 0, "nan"], -1),
    "min-beyond-float32": (0, "min is no finite float32", ["tensors", 0, "min"], -1e39),
    "bin-65536": (0, "a bin is a number of 16 bits", ["tensors", 0, "histogram", "bins", 20], 65536),
    "five-top-samples": (0, "more than four top samples", ["tensors", 0, "top_samples", "max"], [{"value": 3e38, "sample": 103}] * 5),
    "offered": (1, "offered is not run + skipped + failed", ["ledger", "offered"], 7),
    "coverage": (1, "the ranges hold fewer samples than were offered", ["coverage", "ranges", 0], [100, 105]),
    "equal-ids": (2, "two values have one ID", ["tensors", 1, "id"], "p0"),
    "expected-count": (3, "expected_count is not that of the shapes that ran", ["tensors", 0, "expected_count"], 25),
    "count": (3, "count is not expected_count", ["tensors", 0, "count"], 25),
    "zeros": (4, "zeros, NaN, infinities, excluded and bins do not add up to count", ["tensors", 0, "zeros"], 4),
    "excluded": (4, "the same, with excluded elements", ["tensors", 2, "excluded"], 2),
    "bins-descend": (5, "bins do not ascend", ["tensors", 0, "histogram", "bins", 1], 0),
    "max-bin": (5, "max lies in no bin", ["tensors", 0, "max"], 2e38),
    "low-too-large": (5, "a low sum is above what its count allows", ["tensors", 0, "histogram", "low", 0], 2**40),
    "squares-too-large": (5, "a sum of squares is above what its count allows", ["tensors", 0, "histogram", "squares", 5], 2**40),
    "channels": (6, "the channels' max is not the value's", ["tensors", 0, "channels", "max", 0], 1),
    "negatives": (7, "negatives are not those of the histogram", ["tensors", 0, "negatives"], 8),
    "sum": (7, "the sum is not that of the histogram", ["tensors", 0, "sum"], 1),
    "thinned-sum": (7, "the sum is not that of 'thinned'", ["tensors", 6, "thinned", "sum"], "0"),
    "thinned-bins": (4, "a thinned histogram holds more elements than there are", ["tensors", 6, "histogram", "counts", 0], 10000),
    "thinned-share": (0, "a share of which nothing would be left out", ["tensors", 6, "thinned", "share"], 1),
    "float-status-of-integers": (8, "an integer value has the status observed", ["tensors", 4, "status"], "observed"),
    "operand": (9, "an operand is not in the profile", ["tensors", 3, "operands", 0], "p77"),
    "source": (9, "the source of a derived value is not in the profile", ["tensors", 3, "derivation", "from", 0], "p77"),
    "top-samples-order": (10, "top samples are out of order", ["tensors", 0, "top_samples", "min", 3, "value"], -1000),
    "top-sample-range": (10, "a top sample is outside the ledger's range", ["tensors", 0, "top_samples", "max", 2, "sample"], 17),
}


def change(profile, path, value):
    item = profile
    for key in path[:-1]:
        item = item[key]
    if value is REMOVED:
        del item[path[-1]]
    else:
        item[path[-1]] = value


def write(path, profile):
    """One value a line, as Tidemark writes it."""
    text = [f"{json.dumps(key)}:{json.dumps(item, separators=(',', ':'))}" for key, item in profile.items() if key != "tensors"]
    tensors = ",\n".join(json.dumps(value, separators=(",", ":")) for value in profile["tensors"])
    path.write_text("{\n" + ",\n".join(text) + ',\n"tensors":[\n' + tensors + "\n]\n}\n")


def main():
    base = json.loads(Path(sys.argv[1]).read_text())
    base["tensors"] = [value for value in base["tensors"] if value["id"] in KEPT]
    write(HERE / "valid.json", base)
    for name, (_, _, path, value) in INVALID.items():
        profile = copy.deepcopy(base)
        change(profile, path, value)
        write(HERE / f"{name}.json", profile)
    index = {"valid.json": {"valid": True}}
    index.update({f"{name}.json": {"valid": False, "rule": rule, "reason": reason} for name, (rule, reason, *_) in INVALID.items()})
    (HERE / "index.json").write_text(json.dumps(index, indent=1) + "\n")


main()
