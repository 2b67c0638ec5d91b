# SPDX-License-Identifier: Apache-2.0
"""`tidemark export`: encodings become other programs' files; what is not written is reported."""
import json
import re
import shutil

import onnx_bytes as ob
from cli import (ANSWER_NO, BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, SOURCE, WRONG_CALL, files, main, npy_bytes,
                 subset, tidemark)


def encodings_of(path, profile, **changes):
    """Encodings by hand: every activation uint8 [0, 255 / 128], every weight int8 by the tensor."""
    entries = []
    for tensor in profile["tensors"]:
        if tensor["dtype"] != "float32":
            continue
        weight = tensor["kind"] == "weight"
        entries.append({"id": tensor["id"], "fingerprint": tensor["fingerprint"], "name": tensor["name"],
                        "role": "weight" if weight else "activation", "dtype": "int8" if weight else "uint8",
                        "scheme": "symmetric" if weight else "asymmetric", "scale": [1 / 128], "zero_point": [0]})
    model = {key: profile["model"][key] for key in ("file", "sha256", "format", "graph_fingerprint")}
    document = {"format": "tidemark-encodings", "version": {"major": 1, "minor": 0},
                "producer": {"name": "test", "version": "0"}, "model": model, "settings": {}, "samples": 1,
                "rounding": "single_half_up", "pow2_requant": False, "encodings": entries, "left": [], "requants": []}
    document.update(changes)
    path.write_text(json.dumps(document))
    return document


def start(path):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 2, "--quiet", "-o", path / "p.json").expect(DONE)
    return encodings_of(path / "enc.json", json.loads((path / "p.json").read_text()))


def formats():
    """Of a build without Relay, those that it can write."""
    """Name and line of each."""
    text = re.sub("\n +", " ", tidemark("export", "--to", "help").expect(DONE).out)
    lines = {line.split()[0]: line for line in text.splitlines()}
    return {name: line for name, line in lines.items() if name != "relay" or name in FEATURES}


def test_help_lists_the_formats_with_their_readers():
    listed = formats()
    assert {"aimet", "csv", "litert", "tensorrt-cache"} <= set(listed)
    assert all(len(line.split()) > 2 for line in listed.values())
    assert "version=0.6.1|1.0.0|2.0.0" in listed["aimet"]


def test_usage_errors_and_bad_files_are_refused(path):
    start(path)
    out = ["-o", path / "out"]
    tidemark("export", path / "enc.json", *out).refuses(WRONG_CALL, "--to")
    tidemark("export", path / "enc.json", "--to", "csv").refuses(WRONG_CALL, "-o")
    tidemark("export", path / "enc.json", "--to", "caffe", *out).refuses(WRONG_CALL, "caffe", "tensorrt-cache")
    tidemark("export", path / "enc.json", "--to", "csv", "--keep-names", *out).refuses(WRONG_CALL, "--names")
    tidemark("export", path / "enc.json", "--to", "csv", "--set", "a=1", *out).refuses(WRONG_CALL, "a=1", "csv")
    tidemark("export", path / "enc.json", "--to", "aimet", "--set", "version", *out).refuses(WRONG_CALL, "version=")
    tidemark("export", path / "enc.json", "--to", "aimet", "--set", "version=9", *out).refuses(WRONG_CALL, "1.0.0")
    tidemark("export", path / "p.json", "--to", "csv", *out).refuses(BAD_INPUT, "p.json")
    (path / "map.json").write_text('{"p0": 1}')
    tidemark("export", path / "enc.json", "--to", "litert", "--names", path / "map.json", *out).refuses(
        BAD_INPUT, "map.json", "p0")
    assert "out" not in files(path)


def test_unnamed_encodings_are_reported(path):
    document = start(path)
    activations = [e for e in document["encodings"] if e["role"] == "activation"]
    first, others = activations[0], activations[1:]
    (path / "map.json").write_text(json.dumps({first["name"]: "their name", "missing": "x"}))
    words = ["export", path / "enc.json", "--to", "tensorrt-ranges", "--names", path / "map.json", "-o", path / "out"]
    weights = [e for e in document["encodings"] if e["role"] == "weight"]
    out = len(others) + len(weights)
    done = tidemark(*words).expect(DONE, f"{out} of {out + 1} encodings were left out", "missing", others[0]["id"],
                                   f"{len(others)} left out: the name map has no name")
    assert (path / "out").read_text() == "their name: 1.9921875\n"
    summary = f"{out} of {out + 1} encodings were left out; --json lists them"
    assert tidemark(*words, "--quiet").expect(DONE).err.splitlines() == [summary]
    listed = tidemark(*words, "--json", "--quiet").expect(DONE)
    assert listed.err == ""
    told = json.loads(listed.out)
    assert [skip["id"] for skip in told["skipped"] if "name map" in skip["why"]] == [e["id"] for e in others]
    assert (len(told["skipped"]), told["encodings"], told["written"]) == (out, out + 1, 1)
    tidemark(*words, "--keep-names").expect(DONE)
    assert [line.split(": ")[0] for line in (path / "out").read_text().splitlines()] == [
        "their name", *(e["name"] for e in others)]
    assert f"{len(weights)} left out: a weight" in done.err


def test_export_of_nothing_fails(path):
    start(path)
    (path / "map.json").write_text("{}")
    tidemark("export", path / "enc.json", "--to", "litert", "--names", path / "map.json", "-o", path / "out", "--quiet").refuses(
        ANSWER_NO, "nothing was")
    assert "out" not in files(path)
    encodings_of(path / "none.json", json.loads((path / "p.json").read_text()), encodings=[], left=[])
    tidemark("export", path / "none.json", "--to", "csv", "-o", path / "none.csv").refuses(ANSWER_NO, "no encodings", "stay float", "--list")


def test_model_of_other_encodings_is_refused(path):
    document = start(path)
    words = ["export", path / "enc.json", "--to", "tvm", "-o", path / "out"]
    tidemark(*words, "--model", DIGITS).expect(DONE)
    kinds = {e["name"]: e["kind"] for e in json.loads((path / "out").read_text())["edges"]}
    assert list(kinds.values()).count("input") == 1 and "weight" in kinds.values()
    tidemark("instrument", DIGITS, "-o", path / "observed.onnx", "--quiet").expect(DONE)
    tidemark(*words, "--model", path / "observed.onnx").expect(DONE, "not the file that was profiled")
    document["encodings"][3]["fingerprint"] = "0123456789abcdef"
    (path / "enc.json").write_text(json.dumps(document))
    tidemark(*words, "--model", DIGITS).refuses(BAD_INPUT, document["encodings"][3]["id"], "0123456789abcdef")


def test_every_format_accepts_the_golden_encodings(path):
    """Entries for some readers, per channel, of 4 and 32 bits and of float8: written, or reported."""
    shutil.copy(SOURCE / "tests" / "golden" / "encodings-1.0.json", path / "enc.json")
    for name, line in formats().items():
        if "needs --" in line:
            continue
        done = tidemark("export", path / "enc.json", "--to", name, "-o", path / name, "--json")
        assert done.status in (DONE, ANSWER_NO), done
        assert (name in files(path)) == (done.status == DONE), done
        json.loads(done.out)


KINDS = {
    "uint8": [], "int8 symmetric": ["--dtype", "int8", "--scheme", "symmetric"], "int16": ["--dtype", "int16", "--scheme", "symmetric"],
    "uint4": ["--dtype", "uint4", "--weights-dtype", "int4"], "float8": ["--dtype", "float8_e4m3fn", "--weights-dtype", "float8_e4m3fn"],
    "by channel": ["--per-channel"], "powers of two": ["--pow2", "--weights-per-tensor"],
    "by operator": ["--config", {"rules": [{"match": {"op": "Add"}, "quantize": False}]}],
}


def calibrated(path, kind):
    words = list(KINDS[kind])
    if words and isinstance(words[-1], dict):
        (path / "config.json").write_text(json.dumps(words.pop()))
        words.append(path / "config.json")
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", *words, "--quiet", "-o", path / "enc.json").expect(DONE)
    return json.loads((path / "enc.json").read_text())["encodings"]


def rknn_template(path, encodings):
    entries = "".join(f"    {e['name']}:\n        min:\n        - 0.0\n        max:\n        - 1.0\n" for e in encodings[::2])
    (path / "t.cfg").write_text(f"quantize_parameters:\n{entries}")
    return path / "t.cfg"


def test_written_and_skipped_encodings_add_up_in_every_format(path):
    """Written and left out are all that was given, each once; nothing written is no success and no file."""
    start(path)
    for kind in KINDS:
        given = calibrated(path, kind)
        for name, line in subset(formats().items(), 2):
            words = ["--model", DIGITS] if "needs --model" in line or name in ("ort-cache", "tvm") else []
            if "needs --template" in line:
                if name != "rknn":  # the two others' are in tests/unit/test_export_templates.c
                    continue
                words = ["--template", rknn_template(path, given)]
            shutil.rmtree(path / "out", ignore_errors=True)
            (path / "out").mkdir()
            done = tidemark("export", path / "enc.json", "--to", name, "-o", path / "out" / "f", "--json", *words)
            where = f"{name}, {kind}: {done}"
            assert done.status in (DONE, ANSWER_NO), where
            assert (done.status == DONE) == bool(files(path / "out")), where
            told = json.loads(done.out)
            assert (told["encodings"], told["written"]) == (len(given), len(given) - len(told["skipped"])), where
            assert (told["written"] > 0) == (done.status == DONE), where
            assert all(skip["why"] for skip in told["skipped"]), where
            if told["skipped"] and done.status == DONE:
                assert f"{len(told['skipped'])} of {len(given)} encodings were left out" in done.err, where


def test_unsupported_encodings_are_skipped_or_changed_with_a_message(path):
    start(path)
    words = ["export", path / "enc.json", "-o", path / "out"]
    calibrated(path, "float8")
    tidemark(*words, "--to", "tensorrt-cache").refuses(ANSWER_NO, "uint8 and int8 only", "nothing was")
    calibrated(path, "int16")
    tidemark(*words, "--to", "tensorrt-cache").refuses(ANSWER_NO, "nothing was")
    calibrated(path, "uint8")
    tidemark(*words, "--to", "tensorrt-cache").expect(DONE, "are asymmetric", "--scheme symmetric")
    symmetric = calibrated(path, "int8 symmetric")
    done = tidemark(*words, "--to", "tensorrt-cache").expect(DONE)
    assert "asymmetric" not in done.err
    given = calibrated(path, "by channel")
    wide = [e["name"] for e in given if e["role"] == "activation" and e["axis"] is not None]
    tidemark(*words, "--to", "aimet").expect(DONE, f"{len(wide)} of", "one scale")
    entries = json.loads((path / "out").read_text())["activation_encodings"]
    assert all(len(entries[name]) == 1 for name in wide if name in entries) and symmetric


def test_aimet_gets_no_encoding_where_it_has_no_quantizer(path):
    """Behind Reshape, whose operand is float; and where no node reads what is encoded."""
    nodes = [ob.node("Relu", ["x"], ["r"], "relu"), ob.node("Flatten", ["r"], ["f"], "flat"), ob.node("MatMul", ["f", "w"], ["y"], "product"),
             ob.node("Sigmoid", ["y"], ["unread"], "unread")]
    config = {"defaults": {"quantize": False}, "rules": [{"match": {"op": op}, "quantize": True} for op in ("MatMul", "Sigmoid")]}
    (path / "m.onnx").write_bytes(ob.model(nodes, [ob.value("x", [1, 2, 2])], [ob.value("y", [1, 2])],
                                           [ob.tensor("w", [4, 2], [1, 2, 3, 4, 5, 6, 7, 8])]))
    (path / "x.npy").write_bytes(npy_bytes((2, 2, 2), [-1, 1, 0.5, 0.25, 0, 0.75, -0.5, 1]))
    (path / "c.json").write_text(json.dumps(config))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-o", path / "p.json", "--quiet").expect(DONE)
    tidemark("calibrate", path / "p.json", "--config", path / "c.json", "-o", path / "enc.json", "--quiet").expect(DONE)
    for version, left_out in (("1.0.0", {"unread"}), ("2.0.0", {"unread", "f"})):
        words = ["export", path / "enc.json", "--to", "aimet", "--set", f"version={version}", "-o", path / "out", "--json"]
        told = json.loads(tidemark(*words, "--model", path / "m.onnx").expect(DONE).out)
        assert {skip["name"] for skip in told["skipped"]} == left_out, told
    tidemark(*words).expect(DONE, "--model")


def test_aimet_gets_no_encoding_before_a_batch_norm_that_it_folds(path):
    start(path)
    words = ["export", path / "enc.json", "--to", "aimet", "-o", path / "out", "--json"]
    told = json.loads(tidemark(*words, "--model", DIGITS).expect(DONE).out)
    assert {skip["name"]: skip["why"] for skip in told["skipped"] if "fold" in skip["why"]}.keys() == {"conv1_out", "conv2_out"}


def test_formats_report_missing_model_or_template(path):
    start(path)
    words = ["export", path / "enc.json", "-o", path / "out"]
    tidemark(*words, "--to", "ncnn-table").refuses(WRONG_CALL, "ncnn-table", "model")
    tidemark(*words, "--to", "openvino").refuses(WRONG_CALL, "openvino", "template")
    tidemark(*words, "--to", "rknn", "--template", path / "none").refuses(BAD_INPUT, "none")
    for to, name, others in (("openvino", "t.xml", ["t.bin"]), ("ncnn-int8", "t.param", ["t.bin"]), ("rknn", "t.cfg", [])):
        for text in ("", "<net>", "7767517\n1 1\nInput x 0 9\n", "quantize_parameters:\n  x:\n    min:\n    - 1\n- \n", "\0\0"):
            for file in [name, *others]:
                (path / file).write_text(text)
            done = tidemark(*words, "--to", to, "--template", path / name, "--model", DIGITS, "--quiet")
            done.refuses((BAD_INPUT, ANSWER_NO), name)
    assert not [file for file in files(path) if file.startswith("out")]


def bias_network():
    """conv, a bias added apart, relu, conv with a bias."""
    weights = [ob.tensor("w1", [2, 1, 1, 1], [1.0, -2.0]), ob.tensor("b1", [2, 1, 1], [0.25, -0.5]),
               ob.tensor("w2", [1, 2, 1, 1], [0.5, 1.0]), ob.tensor("b2", [1], [0.125])]
    nodes = [ob.node("Conv", ["x", "w1"], ["c1"]), ob.node("Add", ["c1", "b1"], ["a1"]), ob.node("Relu", ["a1"], ["r1"]),
             ob.node("Conv", ["r1", "w2", "b2"], ["y"])]
    return ob.model(nodes, [ob.value("x", [1, 1, 2, 2])], [ob.value("y", [1, 1, 2, 2])], weights)


def test_layers_are_named_by_the_value_after_bias_and_activation(path):
    (path / "m.onnx").write_bytes(bias_network())
    (path / "x.npy").write_bytes(npy_bytes((2, 1, 2, 2), [-1, 1, 0.5, 0.25, 0, 0.75, -0.5, 1]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-o", path / "p.json", "--quiet").expect(DONE)
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "-o", path / "enc.json", "--quiet").expect(DONE)
    words = ["export", path / "enc.json", "--model", path / "m.onnx", "-o", path / "out", "--quiet"]
    tidemark(*words, "--to", "tidl").expect(DONE)
    text = (path / "out").read_text()
    assert [line.split('"')[1] for line in text.splitlines() if "layer_name" in line] == ["x", "r1", "y"]
    assert [float(line.split()[1]) for line in text.splitlines() if "value:" in line] == [0.25, -0.5, 0.125]
    tidemark(*words, "--to", "mnn").expect(DONE)
    layers = json.loads((path / "out").read_text())["algo"][0]["quantParams"]["layer"]
    assert [(layer["input"][0]["name"], layer["weight"][0]["name"], layer["output"][0]["name"]) for layer in layers] == [
        ("x", "w1", "r1"), ("r1", "w2", "y")]
    tidemark(*words, "--to", "aimet").expect(DONE)
    assert "a1" not in json.loads((path / "out").read_text())["activation_encodings"]


def layer(number, kind, output, *inputs):
    """Of an IR: <layer>, and the edges to it; `output` is the tensor's name, "" for none."""
    names = f' names="{output}"' if output else ""
    out = "" if kind == "Result" else f'<output><port id="9" precision="FP32"{names}><dim>2</dim><dim>2</dim></port></output>'
    edges = (f'<edge from-layer="{source}" from-port="9" to-layer="{number}" to-port="{i}"/>' for i, source in enumerate(inputs))
    return f'<layer id="{number}" name="l{number}" type="{kind}">{out}</layer>', "".join(edges)


def test_openvino_readers_that_stay_float_read_the_tensor_itself(path):
    """y = x w + x: the product reads codes, the sum, here of two layers, and the output do not."""
    nodes = [ob.node("MatMul", ["x", "w"], ["p"]), ob.node("Add", ["p", "x"], ["y"])]
    (path / "m.onnx").write_bytes(ob.model(nodes, [ob.value("x", [2, 2])], [ob.value("y", [2, 2])],
                                           [ob.tensor("w", [2, 2], [1.0, -2.0, 0.5, 1.0])]))
    (path / "x.npy").write_bytes(npy_bytes((2, 2, 2), [-1, 1, 0.5, 0.25, 0, 0.75, -0.5, 1]))
    layers, edges = zip(layer(0, "Parameter", "x"), layer(1, "Const", "w"), layer(2, "MatMul", "p", 0, 1), layer(3, "Multiply", "", 0),
                        layer(4, "Add", "y", 2, 3), layer(5, "Result", "", 4))
    (path / "t.xml").write_text(f"<net><layers>{''.join(layers)}</layers><edges>{''.join(edges)}</edges></net>")
    (path / "t.bin").write_bytes(b"")
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-o", path / "p.json", "--quiet").expect(DONE)
    tidemark("calibrate", path / "p.json", "-o", path / "enc.json", "--quiet").expect(DONE)
    for model, reads in (["--model", path / "m.onnx"], True), ([], False):
        told = json.loads(tidemark("export", path / "enc.json", "--to", "openvino", "--template", path / "t.xml", *model, "-o", path / "q.xml",
                                   "--json", "--quiet").expect(DONE).out)
        found = re.findall(r'from-layer="(\d+)" from-port="\d+" to-layer="([23])" to-port="0"', (path / "q.xml").read_text())
        assert {to: source == "0" for source, to in found} == {"2": False, "3": reads}, found
        assert any("some of their readers" in remark for remark in told["remarks"]) != reads, told


main()
