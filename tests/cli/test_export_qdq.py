# SPDX-License-Identifier: Apache-2.0
"""`tidemark export --to qdq` and `--to ort-cache`: settings, refusals, and what the cache tells beside ranges."""
import json

from cli import BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, files, folder, main, tidemark


def start(path):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 4, "--quiet", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "-o", path / "enc.json", "--quiet").expect(DONE)
    return ["export", path / "enc.json", "--model", DIGITS, "-o", path / "out"]


def test_settings():
    with folder() as path:
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


def test_sixteen_bits_want_a_newer_operator_set_or_another_domain():
    with folder() as path:
        words = start(path)
        tidemark("calibrate", path / "p.json", "--dtype", "uint16", "-o", path / "enc.json", "--quiet").expect(DONE)
        tidemark(*words, "--to", "qdq", "--set", "opset=17").refuses(WRONG_CALL, "21", "com.microsoft")
        tidemark(*words, "--to", "qdq").expect(DONE, "OpenVINO")
        tidemark(*words, "--to", "qdq", "--set", "domain=com.microsoft").expect(DONE)
        assert b"com.microsoft" in (path / "out").read_bytes()


def test_encodings_of_other_scales_than_the_model_has_channels():
    with folder() as path:
        words = start(path)
        document = json.loads((path / "enc.json").read_text())
        weight = next(e for e in document["encodings"] if e["role"] == "weight" and e["axis"] is not None)
        for key in ("scale", "zero_point", "low", "high", "clip_min", "clip_max"):
            weight[key] = weight[key] + weight[key][-1:]
        (path / "enc.json").write_text(json.dumps(document))
        tidemark(*words, "--to", "qdq").refuses(BAD_INPUT, weight["name"], f"{len(weight['scale'])} scales")
        assert "out" not in files(path)


def test_the_cache_tells_how_to_call():
    with folder() as path:
        words = start(path)
        tidemark(*words, "--to", "ort-cache").expect(DONE)
        cache = json.loads((path / "out").read_text())
        call = cache["tidemark"]["quantize_static"]
        assert (call["activation_type"], call["weight_type"], call["per_channel"]) == ("QUInt8", "QInt8", True)
        assert set(cache["tidemark"]["ids"]) <= set(cache["data"])
        assert all(set(entry) == {"CLS", "lowest", "highest"} for entry in cache["data"].values())
        assert cache["calibration_method"]["value"] == "CalibrationMethod.MinMax"
        tidemark("calibrate", path / "p.json", "--dtype", "int8", "--scheme", "symmetric", "--weights-per-tensor", "--pow2",
                 "-o", path / "enc.json", "--quiet").expect(DONE)
        tidemark(*words, "--to", "ort-cache").expect(DONE, "makes another scale")
        call = json.loads((path / "out").read_text())["tidemark"]["quantize_static"]
        assert (call["activation_type"], call["per_channel"]) == ("QInt8", False)
        assert call["extra_options"] == {"ActivationSymmetric": True, "WeightSymmetric": True}


main(globals())
