# SPDX-License-Identifier: Apache-2.0
"""Profiles of real runs as other programs read them: JSON by its schema, HDF5 by h5py, the same content in both."""
import json
import math

from oracle import FEATURES, SOURCE, UNSUPPORTED, chosen_models, main, model_of, np, profile, skip, sources

try:
    import h5py
    import jsonschema
except ImportError as missing:
    skip(f"{missing} (TIDEMARK_TEST_PYTHON names the interpreter that has it)")

LIMIT = 6


def runnable():
    return [name for name in chosen_models() if name not in UNSUPPORTED]


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def same_number(a, b):
    """JSON has null where HDF5 has NaN, and the shortest digits that give the bits of HDF5's type back."""
    return bool(np.isnan(b)) if a is None else b.dtype.type(a) == b


def test_json_matches_the_schema(path):
    validator = jsonschema.Draft202012Validator(json.loads((SOURCE / "docs" / "profile.schema.json").read_text()))
    for name in runnable():
        made = profile(model_of(name), sources(name), path / "p.json", "--limit", LIMIT)
        check_counts(name, made)
        shorten(made)
        error = next(validator.iter_errors(made), None)
        assert error is None, f"{name}: {error.json_path}: {error.message}"


def shorten(made):
    """Leaves one record of each form, and the beginning of its histogram: a validator in Python takes minutes for all of them."""
    forms = {}
    for tensor in made["tensors"]:
        forms.setdefault((tensor["kind"], tensor["status"], tensor["level"], tensor["dtype"], *sorted(tensor)), tensor)
        for bins in tensor.get("histogram", {}).values():
            del bins[20:]
    made["tensors"] = [*forms.values()]


def check_counts(name, made):
    """What must add up in any profile."""
    ledger = made["ledger"]
    assert ledger["offered"] == ledger["run"] + ledger["skipped"] + ledger["failed"], name
    ids = [tensor["id"] for tensor in made["tensors"]]
    assert ids == [f"p{i}" for i in range(len(ids))], f"{name}: IDs are not dense"
    for tensor in made["tensors"]:
        where = f"{name}: {tensor['id']}"
        assert tensor["status"] in ("observed", "derived", "constant", "integer", "dead"), f"{where} is {tensor['status']}"
        elements = sum(math.prod(seen["shape"]) * seen["runs"] for seen in tensor["observed_shapes"])
        assert tensor["count"] == tensor["expected_count"], where
        assert tensor.get("more_shapes") or elements == tensor["count"], where
        if tensor["level"] == "histogram":
            binned = sum(map(int, tensor["histogram"]["counts"]))
            others = tensor["nan"] + tensor["posinf"] + tensor["neginf"] + tensor["zeros"]
            assert binned + others == tensor["count"], where


def compare_tensor(where, tensor, row, histogram):
    for key in ("name", "kind", "status", "dtype", "origin"):
        assert text(row[key]) == tensor[key], f"{where}: {key}"
    assert int(row["fingerprint"]) == int(tensor["fingerprint"], 16), where
    for key in ("count", "expected_count", "zeros", "nan", "posinf", "neginf", "denormals", "samples"):
        if key in tensor and key in row.dtype.names:
            assert int(row[key]) == int(tensor[key]), f"{where}: {key}"
    if tensor["level"] in ("range", "histogram"):
        for key in ("min", "max", "mean", "std", "sum"):
            assert same_number(tensor[key], row[key]), f"{where}: {key} {tensor[key]} {row[key]}"
    if tensor["level"] == "histogram":
        bins, counts = histogram
        assert bins.tolist() == tensor["histogram"]["bins"], where
        assert counts.tolist() == [int(c) for c in tensor["histogram"]["counts"]], where


def test_hdf5_equals_json(path):
    if "hdf5" not in FEATURES:
        skip("built without HDF5")
    for name in runnable():
        made = profile(model_of(name), sources(name), path / "p.json", "--limit", LIMIT, "-o", path / "p.h5")
        with h5py.File(path / "p.h5", "r") as file:
            rows, histograms = file["tensors"][:], file["histograms"]
            offsets, bins, counts = (histograms[key][:] for key in ("offsets", "bins", "counts"))
            assert len(rows) == len(made["tensors"]), name
            for i, tensor in enumerate(made["tensors"]):
                assert rows[i]["id"] == i
                part = slice(int(offsets[i]), int(offsets[i + 1]))
                compare_tensor(f"{name}: p{i}", tensor, rows[i], (bins[part], counts[part]))


main()
