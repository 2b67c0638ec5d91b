# SPDX-License-Identifier: Apache-2.0
"""`tidemark export --to qdq` and `--to ort-cache`: settings, refusals, and what the cache has besides ranges."""
import json

import onnx_bytes as ob
from cli import ANSWER_NO, BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, files, main, npy_bytes, tidemark


def start(path):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 4, "--quiet", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "-o", path / "enc.json", "--quiet").expect(DONE)
    return ["export", path / "enc.json", "--model", DIGITS, "-o", path / "out"]


def test_settings_are_checked_and_applied(path):
    words = start(path)
    qdq = [*words, "--to", "qdq"]
    tidemark(*qdq, "--set", "opset=1").refuses(WRONG_CALL, "opset=1", "need")
    tidemark(*qdq, "--set", "opset=many").refuses(WRONG_CALL, "opset=many")
    tidemark(*qdq, "--set", "opset=999").refuses(WRONG_CALL, "opset=999")
    tidemark(*qdq, "--set", "domain=ai.onnx.ml").refuses(WRONG_CALL, "com.microsoft")
    tidemark("export", path / "enc.json", "--to", "qdq", "-o", path / "out").refuses(WRONG_CALL, "model")
    assert "out" not in files(path)
    tidemark(*qdq, "--set", "opset=21").expect(DONE)
    assert b"QuantizeLinear" in (path / "out").read_bytes()
    first = (path / "out").read_bytes()
    tidemark(*qdq, "--set", "opset=21").expect(DONE)
    assert (path / "out").read_bytes() == first
    tidemark("graph", path / "out", "--ops").expect(DONE, "DequantizeLinear")


def test_sixteen_bits_need_operator_set_21_or_com_microsoft(path):
    words = start(path)
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--dtype", "uint16", "-o", path / "enc.json", "--quiet").expect(DONE)
    tidemark(*words, "--to", "qdq", "--set", "opset=17").refuses(WRONG_CALL, "21", "com.microsoft")
    tidemark(*words, "--to", "qdq").expect(DONE, "OpenVINO")
    tidemark(*words, "--to", "qdq", "--set", "domain=com.microsoft").expect(DONE)
    assert b"com.microsoft" in (path / "out").read_bytes()


def test_wrong_number_of_scales_is_refused(path):
    words = start(path)
    document = json.loads((path / "enc.json").read_text())
    weight = next(e for e in document["encodings"] if e["role"] == "weight" and e["axis"] is not None)
    for key in ("scale", "zero_point", "low", "high", "clip_min", "clip_max"):
        weight[key] = weight[key] + weight[key][-1:]
    (path / "enc.json").write_text(json.dumps(document))
    tidemark(*words, "--to", "qdq").refuses(BAD_INPUT, weight["name"], f"{len(weight['scale'])} scales")
    assert "out" not in files(path)


def test_without_a_quantized_operator_the_model_is_the_float_one(path):
    """As ONNX Runtime's quantizer gives it."""
    nodes = [ob.node("Exp", ["x"], ["e"], "grow"), ob.node("Tanh", ["e"], ["y"], "end")]
    (path / "m.onnx").write_bytes(ob.model(nodes, [ob.value("x", [1, 4])], [ob.value("y", [1, 4])], []))
    (path / "x.npy").write_bytes(npy_bytes((1, 4), [-1.0, 0.0, 0.5, 1.0]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "--quiet", "-o", path / "p.json").expect(DONE)
    words = ["export", path / "enc.json", "--model", path / "m.onnx", "-o", path / "out", "--to", "qdq"]
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "-o", path / "enc.json", "--quiet").expect(DONE)
    assert json.loads((path / "enc.json").read_text())["encodings"]
    tidemark(*words).expect(DONE, "the float one", "left out")
    tidemark("graph", path / "out", "--ops").expect(DONE, "Tanh")
    assert b"QuantizeLinear" not in (path / "out").read_bytes()


def test_cache_holds_the_arguments_of_quantize_static(path):
    words = start(path)
    tidemark(*words, "--to", "ort-cache").expect(DONE)
    cache = json.loads((path / "out").read_text())
    call = cache["tidemark"]["quantize_static"]
    assert (call["activation_type"], call["weight_type"], call["per_channel"]) == ("QUInt8", "QInt8", True)
    assert set(cache["tidemark"]["ids"]) <= set(cache["data"])
    assert all(set(entry) == {"CLS", "lowest", "highest"} for entry in cache["data"].values())
    assert cache["calibration_method"]["value"] == "CalibrationMethod.MinMax"
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--dtype", "int8", "--scheme", "symmetric", "--weights-per-tensor", "--pow2",
             "-o", path / "enc.json", "--quiet").expect(DONE)
    tidemark(*words, "--to", "ort-cache").expect(DONE, "makes another scale")
    call = json.loads((path / "out").read_text())["tidemark"]["quantize_static"]
    assert (call["activation_type"], call["per_channel"]) == ("QInt8", False)
    assert call["extra_options"] == {"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": True,
                                     "OpTypesToExcludeOutputQuantization": []}
    tidemark("export", path / "enc.json", "--to", "ort-cache", "-o", path / "none").refuses(WRONG_CALL, "--model")
    assert "none" not in files(path)


def outputs_of_several_sizes(path):
    """Outputs that call dimensions of different sizes by one name; one declares a batch of 1, which runs are free to exceed."""
    nodes = [ob.node("Conv", ["x", "w"], ["a"], "conv"), ob.node("Sigmoid", ["a"], ["b"], "first"),
             ob.node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2], strides=[2, 2]), ob.node("Sigmoid", ["c"], ["d"], "second")]
    outputs = [ob.value("b", ["N", 2, "dim", "dim"]), ob.value("c", ["N", 2, "dim", "dim"]), ob.value("d", [1, 2, "dim", "dim"])]
    weights = [ob.tensor("w", [2, 1, 1, 1], [1.0, -2.0])]
    (path / "m.onnx").write_bytes(ob.model(nodes, [ob.value("x", ["N", 1, "H", "W"])], outputs, weights))
    (path / "x.npy").write_bytes(npy_bytes((4, 1, 4, 4), [i / 64 - 0.25 for i in range(64)]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "--quiet", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "-o", path / "enc.json", "--quiet").expect(DONE)


def test_dimension_names_of_outputs_are_not_propagated(path):
    outputs_of_several_sizes(path)
    tidemark("export", path / "enc.json", "--model", path / "m.onnx", "--to", "qdq", "-o", path / "q.onnx").expect(DONE)
    tidemark("instrument", path / "m.onnx", "-o", path / "i.onnx").expect(DONE)
    tidemark("transform", path / "q.onnx", "--passes", "fuse-qdq", "--lineage", path / "l.json", "-o", path / "t.onnx").expect(DONE)
    declared = (path / "m.onnx").read_bytes().count(b"\x12\x03dim")
    assert declared == 6
    for name in ("q.onnx", "i.onnx", "t.onnx"):
        assert (path / name).read_bytes().count(b"\x12\x03dim") == declared, name
    # Where d was is an inner value now, whose batch is not the 1 that d declares.
    assert ob.value("d", [1, 2, "dim", "dim"]) in (path / "q.onnx").read_bytes()
    assert b"d_QuantizeLinear_Input\x12\x04\x0a\x02\x08\x01" in (path / "q.onnx").read_bytes()


def one_constant_of_two_operators(path, constant):
    """Mul by it, and by it again; the constant's codes are 127 where it is one number."""
    nodes = [ob.node("Mul", ["x", "c"], ["a"], "first"), ob.node("Mul", ["a", "c"], ["y"], "second")]
    (path / "m.onnx").write_bytes(ob.model(nodes, [ob.value("x", [1, 4])], [ob.value("y", [1, 4])], [ob.tensor("c", [1], [constant])]))
    (path / "x.npy").write_bytes(npy_bytes((4, 4), [i / 8 - 1 for i in range(16)]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "--quiet", "-o", path / "p.json").expect(DONE)


def test_models_that_x64quantprecision_rejects_are_reported(path):
    one_constant_of_two_operators(path, 0.5)
    words = ["export", path / "enc.json", "--model", path / "m.onnx", "--to", "qdq", "-o", path / "q.onnx"]
    for kind, said in (("int8", True), ("uint8", False)):
        scheme = ["--scheme", "symmetric"] if kind == "int8" else []
        tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--dtype", kind, *scheme, "-o", path / "enc.json", "--quiet").expect(DONE)
        done = tidemark(*words).expect(DONE)
        assert ("x64quantprecision" in done.err and "'c_quantized'" in done.err) == said, done


def test_float8_fails_unless_weights_are_quantized(path):
    """Nor with a weight that an operator makes, which becomes an initializer."""
    nodes = [ob.node("Reshape", ["w", "s"], ["v"], "shape"), ob.node("MatMul", ["x", "v"], ["y"], "product")]
    weights = [ob.tensor("w", [8], [1, 2, 3, 4, 5, 6, 7, 8]), ob.tensor("s", [2], [4, 2], ob.INT64)]
    (path / "m.onnx").write_bytes(ob.model(nodes, [ob.value("x", [1, 4])], [ob.value("y", [1, 2])], weights))
    (path / "x.npy").write_bytes(npy_bytes((4, 4), [i / 8 - 1 for i in range(16)]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "--quiet", "-o", path / "p.json").expect(DONE)
    words = ["export", path / "enc.json", "--model", path / "m.onnx", "--to", "qdq", "-o", path / "q.onnx"]
    for weight, status in (("float8_e4m3fn", ANSWER_NO), ("int8", DONE)):
        tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--dtype", "float8_e4m3fn", "--weights-dtype", weight, "-o", path / "enc.json",
                 "--quiet").expect(DONE)
        done = tidemark(*words)
        assert done.status == status and ("q.onnx" in files(path)) == (status == DONE) and "only" in done.err, done
    assert "left out" in done.err and b"DequantizeLinear" in (path / "q.onnx").read_bytes(), done


def test_activations_per_channel_need_a_setting(path):
    words = [*start(path), "--to", "qdq"]
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--per-channel", "-o", path / "enc.json", "--quiet").expect(DONE)
    document = json.loads((path / "enc.json").read_text())
    wide = [e["name"] for e in document["encodings"] if e["role"] == "activation" and e["axis"] is not None]
    tidemark(*words).expect(DONE, f"{len(wide)} of", "one scale", "activations=channel")
    shared = (path / "out").read_bytes()
    done = tidemark(*words, "--set", "activations=channel").expect(DONE)
    assert wide and "one scale" not in done.err and (path / "out").read_bytes() != shared


main()
