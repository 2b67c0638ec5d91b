# SPDX-License-Identifier: Apache-2.0
"""Passes over a model file: the command, what it writes, and observers on the way."""
import json
import re
import struct

import onnx_bytes as onnx
from cli import BAD_INPUT, BUNDLE, DIGITS, DONE, FEATURES, PICTURES, WRONG_CALL, files, main, needs, npy_bytes, skip, tidemark

VERDICTS = ["same", "view", "affine", "quantized", "merged", "constant", "absorbed", "dead"]


def transform(model, path, *more, passes="all", name="t"):
    """The lineage, and the summary."""
    done = tidemark("transform", model, "--passes", passes, "-o", path / f"{name}.onnx", "--lineage", path / f"{name}.json",
                    "--json", *more).expect(DONE)
    return json.loads((path / f"{name}.json").read_text()), json.loads(done.out)


def values_of(model):
    """By ID, in the order of IDs."""
    values = json.loads(tidemark("graph", model, "--json").expect(DONE).out)["values"]
    return {v["id"]: v for v in sorted(values, key=lambda v: int(v["id"][1:]))}


def test_passes_are_listed_and_unknown_ones_refused(path):
    listed = [line.split()[0] for line in tidemark("transform", "--passes", "help").expect(DONE).out.splitlines() if line[0] != " "]
    assert listed[-2:] == ["all", "none"] and "eliminate-dead" in listed and "fold-constant" in listed, listed
    words = ["transform", DIGITS, "-o", path / "t.onnx", "--passes"]
    tidemark(*words, "fold-constnat").refuses(WRONG_CALL, "fold-constnat", *listed)
    tidemark(*words, ",").refuses(WRONG_CALL, "--passes")
    tidemark(*words, "all", "--observers", "loud").refuses(WRONG_CALL, "transparent", "barrier")
    tidemark(*words, "all", "--lineage", path / "t.txt").refuses(WRONG_CALL, "t.txt", "a lineage is written as .json")
    tidemark(*words[:2], "--passes", "all").refuses(WRONG_CALL, "-o")
    (path / "bad.onnx").write_bytes(b"\x08")
    tidemark("transform", path / "bad.onnx", "--passes", "all", "-o", path / "t.onnx").refuses(BAD_INPUT, "bad.onnx")
    assert files(path) == ["bad.onnx"]


def test_every_original_has_one_verdict(path):
    lineage, summary = transform(DIGITS, path)
    assert [o["id"] for o in lineage["originals"]] == list(values_of(DIGITS)), "an original is missing"
    counts = {v: sum(o["verdict"] == v for o in lineage["originals"]) for v in VERDICTS}
    assert {v: summary[v] for v in VERDICTS} == counts and sum(counts.values()) == summary["originals"]
    assert summary["changed"] and summary["nodes_after"] < summary["nodes_before"]
    assert counts["affine"] > 0, "the pixels' scale went into weights"
    for o in lineage["originals"]:
        assert ("affine" in o) == (o["verdict"] == "affine") and ("absorbed" in o) == (o["verdict"] == "absorbed")


def test_lineage_names_values_as_the_written_file(path):
    lineage, _ = transform(DIGITS, path)
    read = values_of(path / "t.onnx")
    assert [(v["id"], v["name"], v["fingerprint"]) for v in lineage["values"]] == [
        (v["id"], v["name"], v["fingerprint"]) for v in read.values()]
    for v in lineage["values"]:
        assert v["originals"] == [o["id"] for o in lineage["originals"]
                                  if o["value"] == v["id"] and o["verdict"] != "absorbed"]


def test_a_second_run_changes_nothing(path):
    transform(DIGITS, path)
    lineage, summary = transform(path / "t.onnx", path, name="again")
    assert not summary["changed"] and summary["same"] == summary["originals"]
    assert lineage["original"]["graph_fingerprint"] == lineage["transformed"]["graph_fingerprint"]
    assert all(o["value"] == o["id"] for o in lineage["originals"])


def test_false_declarations_of_shapes(path):
    """Of values whose channels are scaled or whose axes move: the lineage says nothing of their shapes."""
    nodes = [onnx.node("MatMul", ["x", "w"], ["m"]), onnx.node("Mul", ["m", "s"], ["k"]), onnx.node("Relu", ["k"], ["r"]),
             onnx.node("Transpose", ["r"], ["t"], perm=[1, 0]), onnx.node("Transpose", ["t"], ["b"], perm=[1, 0]), onnx.node("Sin", ["b"], ["y"])]
    stored = [onnx.tensor("w", [4, 3], [.5] * 12), onnx.tensor("s", [3], [1, 2, 3])]
    for dims in ([], [3], [3, 3, 3], [2, 7]):
        model = path / f"false{len(dims)}.onnx"
        model.write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 4])], [onnx.value("y", ["N", 3])], stored,
                                     declared=[onnx.value(name, dims) for name in "mkrtb"]))
        lineage, _ = transform(model, path, name=f"{model.stem}.t")
        assert "affine" in {original["verdict"] for original in lineage["originals"]}, lineage


def test_outputs_equal_the_originals(path):
    def numbers(model):
        tidemark("run", model, "--data", PICTURES, "--limit", 5, "-o", path / "out.npy").expect(DONE)
        return struct.unpack("<50f", (path / "out.npy").read_bytes()[-200:])

    transform(DIGITS, path)
    for a, b in zip(numbers(DIGITS), numbers(path / "t.onnx"), strict=True):
        assert abs(a - b) <= 1e-5 + 1e-4 * abs(a)


def test_observers_do_not_change_passes(path):
    tidemark("instrument", DIGITS, "-o", path / "observed.onnx").expect(DONE)
    plain, summary = transform(DIGITS, path, name="plain")
    seen, counted = transform(path / "observed.onnx", path, name="seen")
    assert plain["originals"] == seen["originals"], "observers changed what passes do"
    assert [v["name"] for v in plain["values"]] == [v["name"] for v in seen["values"]]
    kept = [o for o in plain["originals"] if o["value"] and o["verdict"] != "absorbed"]
    assert (counted["observers_before"], counted["observers_after"]) == (summary["originals"], len(kept))
    text = tidemark("graph", path / "seen.onnx").expect(DONE).out
    found = dict(re.findall(r'EdgeObserver\(.*?profile_id=(\d+).*?(?:relation="(\w+)")?\}', text))
    assert found == {o["id"][1:]: "" if o["verdict"] == "same" else o["verdict"] for o in kept}
    again, _ = transform(path / "seen.onnx", path, name="again")
    assert again["original"]["graph_fingerprint"] == plain["transformed"]["graph_fingerprint"], "they don't come out again"


def test_observers_may_be_barriers(path):
    tidemark("instrument", DIGITS, "-o", path / "observed.onnx", "--observe", "scale_out").expect(DONE)
    lineage, summary = transform(path / "observed.onnx", path, "--observers=barrier")
    [kept] = [o for o in lineage["originals"] if o["name"] == "scale_out"]
    assert kept["verdict"] == "same" and summary["observers_after"] == 1
    [moved] = [o for o in transform(path / "observed.onnx", path)[0]["originals"] if o["name"] == "scale_out"]
    assert moved["verdict"] != "same", "nothing was to be held back"


def test_lineage_formats_are_equal_and_print_after_prints(path):
    if "hdf5" in FEATURES:
        transform(DIGITS, path, "--lineage", path / "t.h5")
        assert tidemark("graph", DIGITS, "--lineage", path / "t.h5").expect(DONE).out == \
            tidemark("graph", DIGITS, "--lineage", path / "t.json").expect(DONE).out
    done = tidemark("transform", DIGITS, "--passes", "fold-scale-axis,eliminate-dead", "-o", path / "p.onnx",
                    "--print-after").expect(DONE, "// after fold-scale-axis", "// after eliminate-dead", "@p3*0.0625")
    assert done.out.count("graph \"") == 2


def test_external_weights_are_folded_in(path):
    (path / "weights.bin").write_bytes(struct.pack("<2f", 1.5, -2))
    weights = [onnx.tensor("w", [2], [], external={"location": "weights.bin", "offset": 0, "length": 8}),
               onnx.tensor("v", [2], [4, 5])]
    nodes = [onnx.node("Mul", ["w", "v"], ["k"]), onnx.node("Add", ["x", "k"], ["y"])]
    (path / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", [2])], [onnx.value("y", [2])], weights))
    lineage, _ = transform(path / "m.onnx", path)
    assert {o["name"]: o["verdict"] for o in lineage["originals"]} == {
        "x": "same", "w": "constant", "v": "constant", "k": "constant", "y": "same"}
    (path / "weights.bin").unlink()
    assert struct.pack("<2f", 6, -10) in (path / "t.onnx").read_bytes(), "the file is not whole by itself"


def test_lineages_of_relay_name_the_values_of_the_file(path):
    needs("relay")
    for passes, matched in (("none", 29), ("all", 20)):
        for words in ([], ["--params", path / "t.params"]):
            tidemark("transform", DIGITS, "--passes", passes, "-o", path / "t.relay", "--lineage", path / "t.json",
                     *(["--params-out", words[1]] if words else [])).expect(DONE)
            lineage = json.loads((path / "t.json").read_text())
            assert "fuse-conv-activation" not in lineage["passes"], "Relay has no FusedConv"
            read = sorted(json.loads(tidemark("graph", path / "t.relay", *words, "--json").expect(DONE).out)["values"],
                          key=lambda v: int(v["id"][1:]))
            assert [(v["id"], v["name"], v["fingerprint"]) for v in lineage["values"]] == [
                (v["id"], v["name"], v["fingerprint"]) for v in read]
            assert sum(o["value"] is not None for o in lineage["originals"]) == matched
            assert lineage["originals"][-1]["value"] == lineage["values"][-1]["id"], "the output"
            tidemark("transform", path / "t.relay", *words, "--passes", "none", "-o", path / "u.onnx", "--lineage",
                     path / "u.json").expect(DONE)
            again = json.loads((path / "u.json").read_text())
            assert again["original"]["sha256"] == lineage["transformed"]["sha256"]
            assert all(o["verdict"] == "same" for o in again["originals"])


def test_values_without_an_expression_in_relay_are_recorded(path):
    needs("relay")
    nodes = [onnx.node("Shape", ["x"], ["s"]), onnx.node("Reshape", ["x", "s"], ["r"]),
             onnx.node("Relu", ["r"], ["y"]), onnx.node("Neg", ["x"], ["n"]), onnx.node("Transpose", ["m"], ["t"]),
             onnx.node("MatMul", ["y", "t"], ["z"])]
    (path / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", [2, 3]), onnx.value("m", [4, 3])],
                                             [onnx.value("z", [2, 4])]))
    tidemark("transform", path / "m.onnx", "--passes", "none", "-o", path / "m.relay", "--lineage", path / "m.json").expect(DONE)
    lineage = json.loads((path / "m.json").read_text())
    assert {o["name"]: o["verdict"] for o in lineage["originals"]} == {
        "x": "same", "m": "same", "s": "constant", "r": "same", "y": "same", "n": "dead", "t": "dead", "z": "same"}


def test_a_build_without_relay_refuses_it(path):
    if "relay" in FEATURES:
        skip("the build has Relay")
    (path / "in.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 3), float32]) {\n  nn.relu(%x)\n}\n')
    tidemark("graph", path / "in.relay").refuses(BAD_INPUT, "in.relay", "-Drelay=enabled")
    tidemark("transform", DIGITS, "--passes", "none", "-o", path / "out.relay").refuses(BAD_INPUT, "out.relay", "-Drelay=enabled")
    assert files(path) == ["in.relay"]


def test_graph_prints_a_lineage(path):
    transform(DIGITS, path, passes="fold-scale-axis,eliminate-dead")
    lineage = path / "t.json"
    old = tidemark("graph", DIGITS, "--lineage", lineage).expect(DONE, "digits.onnx -> t.onnx", "conv1.weight ->", "*0.0625")
    assert tidemark("graph", path / "t.onnx", "--lineage", lineage).expect(DONE).out == old.out
    (path / "other.onnx").write_bytes(onnx.model([onnx.node("Relu", ["x"], ["y"])], [onnx.value("x", [2])],
                                                 [onnx.value("y", [2])]))
    tidemark("graph", path / "other.onnx", "--lineage", lineage).refuses(BAD_INPUT, "other.onnx")
    tidemark("graph", DIGITS, "--lineage", BUNDLE / "digits.onnx").refuses(BAD_INPUT, "digits.onnx")


def uneven(path, more=()):
    """Two convolutions around a depthwise one; its channels differ by a factor of 128."""
    shape, far = [1, 2, 3, 3], [1.0, 1 / 128]
    weights = {"a": ([2, 2, 1, 1], [far[0], 0.5 * far[0], -0.25 * far[1], far[1]]), "b": ([2], [0.25 * far[0], 0.5 * far[1]]),
               "d": ([2, 1, 1, 1], [0.5, 64.0]), "o": ([2, 2, 1, 1], [1.0, -0.5, 0.75, 0.25])}
    nodes = [onnx.node("Conv", ["x", "a", "b"], ["c"], "first"), onnx.node("Relu", ["c"], ["r"], "relu"),
             onnx.node("Conv", ["r", "d"], ["e"], "depthwise", group=2), onnx.node("Conv", ["e", "o"], ["y"], "last")]
    outputs = [onnx.value(name, shape) for name in ("y", *more)]
    (path / "net.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", shape)], outputs, [onnx.tensor(n, *w) for n, w in weights.items()]))
    (path / "x.npy").write_bytes(npy_bytes([16, 2, 3, 3], [(i * 37 % 101) / 50 - 1 for i in range(16 * 18)]))
    tidemark("profile", path / "net.onnx", "--data", path / "x.npy", "-o", path / "p.json", "-q").expect(DONE)
    tidemark("transform", path / "net.onnx", "--passes", "equalize", "--profile", path / "p.json", "-o", path / "e.onnx",
             "--lineage", path / "l.json", "-q").expect(DONE)


def decibels(path, model, profile):
    tidemark("calibrate", profile, "--method", "minmax", "-o", path / "enc.json", "-q").expect(DONE)
    done = tidemark("simulate", model, path / "enc.json", "--data", path / "x.npy", "--json", "-q").expect(DONE)
    return min(value["sqnr"] for value in json.loads(done.out)["values"] if value["output"])


def test_equalized_channels_keep_the_outputs_and_lose_less(path):
    uneven(path)
    for model in ("net", "e"):
        tidemark("run", path / f"{model}.onnx", "--data", path / "x.npy", "-o", path / f"{model}.npy", "-q").expect(DONE)
    assert (path / "net.npy").read_bytes() == (path / "e.npy").read_bytes()
    fates = {v["name"]: v for v in json.loads((path / "l.json").read_text())["originals"]}
    assert fates["r"]["verdict"] == "affine" and fates["y"]["verdict"] == "same", fates
    first, second = fates["r"]["affine"]["scale"]
    assert first == 1 and second in (16, 32), (first, second)
    tidemark("link", path / "p.json", path / "e.onnx", "--lineage", path / "l.json", "-o", path / "carried.json", "-q").expect(DONE)
    tidemark("profile", path / "e.onnx", "--data", path / "x.npy", "-o", path / "again.json", "-q").expect(DONE)
    before, carried, again = (decibels(path, path / model, path / profile) for model, profile in
                              (("net.onnx", "p.json"), ("e.onnx", "carried.json"), ("e.onnx", "again.json")))
    assert carried == again and carried > before + 6, (before, carried, again)


def test_equalize_leaves_what_others_read(path):
    uneven(path, more=["r"])
    assert {v["verdict"] for v in json.loads((path / "l.json").read_text())["originals"] if v["name"] in "abrd"} == {"same"}


def test_equalize_needs_the_profile_of_the_model(path):
    uneven(path)
    words = ("transform", path / "net.onnx", "--passes", "equalize", "-o", path / "o.onnx", "--lineage", path / "o.json")
    tidemark(*words).expect(WRONG_CALL, "the pass equalize needs a profile")
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 4, "-o", path / "d.json", "-q").expect(DONE)
    tidemark(*words, "--profile", path / "d.json").refuses(BAD_INPUT, "another network")
    tidemark("transform", path / "net.onnx", "--passes", "all", "-o", path / "o.onnx", "--lineage", path / "o.json", "-q").expect(DONE)
    assert "equalize" not in json.loads((path / "o.json").read_text())["passes"]


main()
