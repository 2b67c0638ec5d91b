# SPDX-License-Identifier: Apache-2.0
"""Profiles of parts of one run, made without `--shard`: each part's samples are profiled as a file of their own, and what the
profile has on the data and of the samples' numbers is then put right."""
import json
import math

from cli import npy_bytes, read_npy, tidemark


def read_floats(path):
    """The shape and the bytes of a .npy of float32."""
    kind, shape, data = read_npy(path.read_bytes())
    assert kind == "<f4"
    return shape, data


def _move(profile, begin, end, whole):
    ledger = profile["ledger"]
    ledger["first_sample"], ledger["end_sample"] = begin, end
    profile["coverage"] = {"total": whole["coverage"]["total"], "ranges": [[begin, end]]}
    profile["data"] = whole["data"]
    for tensor in profile["tensors"]:
        if tensor["kind"] == "weight" and not tensor["producer"]:
            continue
        for key in ("min_at", "max_at", "first_nonfinite"):
            if tensor.get(key):
                tensor[key]["sample"] += begin
        for tops in tensor.get("top_samples", {}).values():
            for top in tops:
                top["sample"] += begin


def make_shards(path, model, data, cuts, *more, limit=None):
    """Writes whole.json and shard-1.json, shard-2.json, ...: of the samples up to the first cut, and so on. The shards' paths.
    Cuts are at the ends of batches: of one sample, unless `more` is set."""
    shape, floats = read_floats(data)
    total = min(shape[0], limit or shape[0])
    size = 4 * math.prod(shape[1:])
    words = ["profile", model, "--quiet", "--batch", "1", *more]
    tidemark(*words, "--data", data, "--limit", total, "-o", path / "whole.json").expect(0)
    whole = json.loads((path / "whole.json").read_text())
    shards = []
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, total]), 1):
        part, target = path / "part.npy", path / f"shard-{number}.json"
        part.write_bytes(npy_bytes([end - begin, *shape[1:]], data=floats[begin * size:end * size]))
        tidemark(*words, "--data", part, "-o", target).expect(0)
        part.unlink()
        profile = json.loads(target.read_text(), parse_int=lambda text: -0.0 if text == "-0" else int(text))
        _move(profile, begin, end, whole)
        target.write_text(json.dumps(profile))
        shards.append(target)
    return shards
