# SPDX-License-Identifier: Apache-2.0
"""The default batch size, and what it must not change."""
import json
import math

import onnx_bytes as onnx
from cli import DIGITS, DONE, PICTURES, main, npy_bytes, tensors_of, tidemark
from runs import check_reproducible, read

ALL = 1797  # digits, which no batch of a power of two divides


def profile(path, *words, model=DIGITS, data=PICTURES, **options):
    tidemark("profile", model, "--data", data, "--quiet", "-o", path, *words, **options).expect(DONE)
    return json.loads(path.read_text())


def batch_of(found):
    return int(found["settings"]["batch"])


def plan(*words, model=DIGITS, data=PICTURES):
    return tidemark("profile", model, "--data", data, "--plan", *words).expect(DONE).out.splitlines()[0]


def test_default_batch_of_small_models_is_above_one_and_drops_no_sample(path):
    found = profile(path / "auto.json")
    batch, ledger = batch_of(found), found["ledger"]
    assert batch > 1 and ALL % batch, "there is nothing left over"
    assert (ledger["offered"], ledger["run"], ledger["skipped"]) == (ALL, ALL, 0), ledger
    assert ledger["batches"] == math.ceil(ALL / batch), ledger
    profile(path / "same.json", "--batch", batch)
    assert (path / "same.json").read_bytes() == (path / "auto.json").read_bytes()


def test_batch_size_changes_results_by_rounding_only(path):
    together, alone = profile(path / "auto.json"), profile(path / "one.json", "--batch", 1)
    assert batch_of(alone) == 1 and alone["ledger"]["batches"] == ALL
    for a, b in zip(together["tensors"], alone["tensors"], strict=True):
        for key in ("id", "name", "kind", "status", "count", "samples", "nan"):
            assert a.get(key) == b.get(key), (a["name"], key)
        if a.get("min") is None:
            continue
        scale = max(abs(b["min"]), abs(b["max"]))
        for end in ("min", "max"):
            assert abs(a[end] - b[end]) <= 1e-4 * scale, (a["name"], end, a[end], b[end])
            place = a[f"{end}_at"]
            if a["kind"] == "weight":
                assert place == b[f"{end}_at"], a["name"]
            else:  # the index is within the sample, whatever else is in the batch
                assert place["sample"] < ALL and place["index"] < a["count"] // ALL, (a["name"], place)
        if a["kind"] == "input":
            assert (a["min_at"], a["max_at"]) == (b["min_at"], b["max_at"])


def test_threads_shards_and_streams_give_the_same(path):
    words = ["--skip", 7, "--limit", 300]
    check_reproducible(path, [DIGITS, "--data", PICTURES, *words])
    whole = read(path / "whole")
    assert batch_of(whole) > 1
    stream = ["profile", DIGITS, "--data", "-", "--quiet", "-o", path / "s.json"]
    tidemark(*stream, *words, input=PICTURES.read_bytes()).expect(DONE)
    assert read(path / "s")["tensors"] == whole["tensors"]


def test_batch_size_follows_options_and_model(path):
    assert batch_of(profile(path / "p.json", "--sample-every", 3)) == 1
    assert "--sample-every" in plan("--sample-every", 3)
    assert "--dim" in plan("--dim", "N=1") and "batches of 1 " in plan("--dim", "N=1")
    assert "printed" in plan("--kind", "print")
    assert "batches of 5 (as asked for)" in plan("--batch", 5)
    assert f"batches of {batch_of(profile(path / 'p.json'))} (one sample is little work" in plan()
    # whole inputs one by one
    (path / "whole.npy").write_bytes(npy_bytes([3, 1, 1, 8, 8], data=PICTURES.read_bytes()[-4 * 192:]))
    assert "batches of 1 (the model or its data" in plan(data=path / "whole.npy")


def reducing(path, axes):
    """y = x - the mean of x along the axes."""
    mean = onnx.node("ReduceMean", ["x"], ["m"], "middle", axes=axes)
    path.write_bytes(onnx.model([mean, onnx.node("Sub", ["x", "m"], ["y"], "centre")],
                                [onnx.value("x", ["N", 3])], [onnx.value("y", ["N", 3])]))
    return path


def test_batch_is_one_if_operators_mix_samples(path):
    data = path / "x.npy"
    data.write_bytes(npy_bytes([5, 3], [float(i * i) for i in range(15)]))
    over_batch = profile(path / "p.json", model=reducing(path / "m.onnx", [0]), data=data)
    assert batch_of(over_batch) == 1
    assert "'middle' works along the axis of the samples" in plan(model=path / "m.onnx", data=data)
    centred = tensors_of(over_batch)["y"]
    assert centred["min"] == centred["max"] == 0, "alone, a sample is its own mean"
    over_features = profile(path / "p.json", model=reducing(path / "m.onnx", [1]), data=data)
    assert batch_of(over_features) > 1 and over_features["ledger"]["run"] == 5


def table_of(path, rows):
    """The profile of a product with a Constant of so many rows."""
    constant = onnx.node("Constant", [], ["c"], "table")
    values = onnx.tensor("", [rows, 2], [float(i) for i in range(rows * 2)])
    constant += onnx.block(5, onnx.block(1, "value") + onnx.block(5, values) + onnx.number(20, 4))
    (path / "m.onnx").write_bytes(onnx.model(
        [constant, onnx.node("MatMul", ["x", "c"], ["y"])], [onnx.value("x", ["N", rows])], [onnx.value("y", ["N", 2])]))
    (path / "x.npy").write_bytes(npy_bytes([90, rows]))
    return profile(path / "p.json", model=path / "m.onnx", data=path / "x.npy")


def test_constants_as_long_as_a_batch_are_not_split(path):
    """As long as a batch, it is not cut like one."""
    batch = batch_of(table_of(path, 1))
    found = table_of(path, batch)
    assert batch_of(found) == batch and 90 % batch
    table = tensors_of(found)["c"]
    assert table["max_at"] == {"sample": 0, "index": 2 * batch - 1}, table["max_at"]
    assert table["samples"] == 90, table["samples"]


main()
