#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a Tidemark profile, JSON or HDF5, without Tidemark: NumPy and h5py are enough.

    read_profile.py PROFILE...

`read(path)` returns the JSON file's content as a dict, from either kind of file: counts are ints, floats have the bits of the file. The
program prints a line a value. It is a reference for readers in other languages: short rather than fast. docs/profile-format.md has the
meaning of each field, and the rules that a file keeps.
"""
import json
import sys

import numpy as np

NOWHERE = 2**64 - 1
FLOATS = ("minmax", "range", "histogram")
COUNTS = ("count", "samples", "updates", "nan", "posinf", "neginf", "zeros", "negative_zeros", "denormals", "negatives")
U64 = {"expected_count", "saturated", "offered", "run", "skipped", "failed", "batches", "first_sample", "end_sample", "total", "sample",
       "index", *COUNTS}


def read(path):
    with open(path, "rb") as file:
        if file.read(8) == b"\x89HDF\r\n\x1a\n":
            return read_hdf5(path)
    with open(path, encoding="utf-8") as file:
        profile = json.load(file, object_pairs_hook=_object)
    version = profile.get("version", {}) if isinstance(profile, dict) else {}
    if not isinstance(profile, dict) or profile.get("format") != "tidemark-profile" or version.get("major") != 1:
        raise ValueError(f"{path} is no profile of a version 1")
    for value in profile["tensors"]:
        if value["level"] in FLOATS:
            for item in (value, value.get("channels", {})):
                item.update({end: _float32(item[end]) for end in ("min", "max") if end in item})
            for tops in value.get("top_samples", {}).values():
                tops[:] = [{**top, "value": _float32(top["value"])} for top in tops]
    return profile


def _float32(x):
    """A decimal of the file has the bits of a float32 once it is rounded to one."""
    if isinstance(x, list):
        return [_float32(one) for one in x]
    return None if x is None else float(np.float32(x))


def _object(pairs):
    """A JSON object: no member twice; integers that are texts of digits, as numbers."""
    item = dict(pairs)
    if len(item) != len(pairs):
        raise ValueError("a member stands twice: " + ", ".join(key for key, _ in pairs))
    if item.get("level") == "integer":
        item.update({key: int(item[key]) for key in ("min", "max") if isinstance(item.get(key), str)})
    item.update({key: int(item[key]) for key in U64 & item.keys() if isinstance(item[key], str)})
    for key in {"counts", "low", "squares"} & item.keys():
        if isinstance(item[key], list):
            item[key] = [int(n) for n in item[key]]
    return item


def read_hdf5(path):
    import h5py
    with h5py.File(path) as file:
        profile = json.loads(file["header"][()], object_pairs_hook=_object)
        csr = {group: {name: file[group][name][:] for name in file[group]} for group in ("histograms", "channels")}
        integers = {row["tensor_id"]: row for row in file["integers"][:]}
        links = {group: {name: file[group][name][:] for name in file[group]} for group in ("operands", "nonfinite", "top_samples")
                 if group in file}
        consumers = {}
        for row in file["consumers"][:]:
            consumers.setdefault(row["tensor_id"], []).append(
                {**{key: row[key].decode() for key in ("node", "op", "domain")}, "input": int(row["input"])})
        profile["tensors"] = [_value(row, i, csr, integers, links, consumers) for i, row in enumerate(file["tensors"][:])]
    return profile


def _value(row, i, csr, integers, links, consumers):
    row = {name: row[name].decode() if isinstance(row[name], bytes) else row[name].item() for name in row.dtype.names}
    number = row["id"]
    value = {"id": f"p{number}", **{key: f"{row[key]:016x}" for key in ("fingerprint", "content")}, "ordinal": row["ordinal"],
             **{key: row[key] for key in ("name", "kind", "status", "dtype", "origin")}, "shape": json.loads(row["shape"]),
             "observed_shapes": json.loads(row["observed_shapes"], object_pairs_hook=_object), "expected_count": row["expected_count"],
             "consumers": consumers.get(number, []), "level": row["level"], "count": row["count"], "producer": None}
    value.update({key: row[key] for key in ("path",) if row[key]}, **({"more_shapes": True} if row["more_shapes"] else {}))
    if row["producer_output"] >= 0:
        value["producer"] = {**{key: row["producer_" + key] for key in ("node", "op", "domain", "output")}}
    if row["derivation_rule"]:
        value["derivation"] = {"rule": row["derivation_rule"], "from": json.loads(row["derivation_from"])}
    of = {group: np.flatnonzero(columns["tensor"] == number) for group, columns in links.items()}
    if of.get("operands", np.empty(0)).size:
        value["operands"] = [f"p{n}" for n in links["operands"]["operand"][of["operands"]]]
    value.update({"inner": True} if row.get("inner") else {})
    if value["level"] == "none":
        return value
    value.update(samples=row["samples"], updates=row["updates"], zeros=row["zeros"], min_at=_place(row, "min"), max_at=_place(row, "max"))
    if value["level"] == "integer":
        counted = row["count"] > 0
        value.update({key: int(integers[number][key]) if counted or key == "saturated" else None for key in ("min", "max", "saturated")})
        return value
    value.update({key: row[key] for key in COUNTS}, first_nonfinite=_place(row, "first_nonfinite"))
    value.update({key: _number(row[key]) for key in ("min", "max", "sum", "mean", "std")},
                 sum_squares={end: _number(row["sum_squares_" + end]) for end in ("low", "high")})
    begin, end = csr["histograms"]["offsets"][i:i + 2]
    kept = ["bins", "counts", "low"] + ["squares"] * int(row.get("squares_kept", 0) and end > begin)
    value["histogram"] = {key: csr["histograms"][key][begin:end].tolist() for key in kept}
    begin, end = csr["channels"]["offsets"][i:i + 2]
    if row["channel_axis"] >= 0:
        value["channels"] = {"axis": row["channel_axis"],
                             **{key: [_number(x) for x in csr["channels"][key][begin:end].tolist()] for key in ("min", "max")}}
    value.update({key: row[key] for key in ("excluded", "padding") if row.get(key)}, **({"channel_conflict": True} if row["channel_conflict"] else {}))
    if row.get("std_high") and (row["std_low"] < row["std"] * (1 - 1e-5) or row["std_high"] > row["std"] * (1 + 1e-5)):
        value["std_bracket"] = {end: row["std_" + end] for end in ("low", "high")}
    if row.get("thinned", "null") != "null":
        value["thinned"] = json.loads(row["thinned"])
    if of.get("nonfinite", np.empty(0)).size:
        sources = links["nonfinite"]["from"][of["nonfinite"]].tolist()
        value["nonfinite"] = {"origin": True} if sources == [-1] else {"inherits": [f"p{n}" for n in sources]}
    if of.get("top_samples", np.empty(0)).size:
        value["top_samples"] = {key: [{"value": float(links["top_samples"][key][k]), "sample": int(links["top_samples"][key + "_sample"][k])}
                                      for k in of["top_samples"]] for key in ("min", "max")}
    return value


def _number(x):
    return None if np.isnan(x) else x


def _place(row, end):
    place = {key: row[f"{end}_{key}"] for key in ("sample", "index")}
    return None if place == {"sample": NOWHERE, "index": NOWHERE} else place


def main():
    for path in sys.argv[1:]:
        for value in read(path)["tensors"]:
            print(value["id"], value["status"], value.get("min"), value.get("max"), value["name"])


if __name__ == "__main__":
    main()
