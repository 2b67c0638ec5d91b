# SPDX-License-Identifier: Apache-2.0
"""`tidemark export --to relay`: four files that belong together, all or none."""
import json
import re
import struct

from cli import BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, files, main, needs, read_npy, tidemark

needs("relay")


def calibrated(path, *how):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 8, "--quiet", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--quiet", *how, "-o", path / "enc.json").expect(DONE)
    return path / "enc.json"


def export(encodings, out, *more):
    return tidemark("export", encodings, "--model", DIGITS, "--to", "relay", "-o", out, *more)


def texts(out):
    return out.read_text(), json.loads(out.with_suffix(".edges.json").read_text()), \
        json.loads(out.with_suffix(".params.json").read_text())


def test_annotations_match_the_tables(path):
    encodings = calibrated(path)
    export(encodings, path / "out.relay").expect(DONE)
    text, edges, params = texts(path / "out.relay")
    said = re.findall(r"annotation\.quantize_info\((%[\w/]+), profile_id=\"(p\d+)\", name=\"([^\"]*)\"", text)
    chosen = {item["id"] for item in json.loads(encodings.read_text())["encodings"]}
    assert chosen <= {profile_id for _, profile_id, _ in said}
    for spelled, profile_id, name in said:
        entry = edges["values"][profile_id]
        assert (entry["relay_name"], entry["name"]) == (spelled, name) and edges["relay_names"][spelled] == profile_id
    declared = re.search(r"def @main\((.*?)\) ->", text).group(1)
    assert all(f"%{name}: " in declared for name in params["params"])


def test_annotations_need_ranges_only(path):
    (path / "config.json").write_text('{"defaults": {"quantize": false}}')
    export(calibrated(path, "--config", path / "config.json"), path / "out.relay").expect(DONE)
    text, edges, _ = texts(path / "out.relay")
    ranges = {tensor["id"]: tensor for tensor in json.loads((path / "p.json").read_text())["tensors"]}
    told = re.findall(r'profile_id="(p\d+)".*? min=(\S+)f, max=(\S+)f, dtype="float32"', text)
    assert len(told) == text.count("annotation.quantize_info") > 0 and "ndom_scale" not in text
    for profile_id, low, high in told:
        assert (float(low), float(high)) == (ranges[profile_id]["min"], ranges[profile_id]["max"])
        assert edges["values"][profile_id]["reason"]


def test_name_maps_are_ignored_with_a_message(path):
    (path / "names.json").write_text('{"p0": "x"}')
    export(calibrated(path), path / "out.relay", "--names", path / "names.json").expect(DONE, "its own names")


def test_integer_form_multiplies_no_floats(path):
    for how, wanted in ([], "fixed_point_multiply" ), (["--pow2", "--pow2-requant"], "right_shift"):
        export(calibrated(path, *how, "--weights-per-tensor"), path / "out.relay", "--set", "form=integer").expect(DONE)
        text, _, params = texts(path / "out.relay")
        assert wanted in text and "int8" in text and 'out_dtype="int32"' in text
        assert (wanted == "right_shift") == ("fixed_point_multiply" not in text)
        assert not re.search(r"multiply\(.*ty=Tensor\[\(.*\), float32\]", text)
        assert any(entry["holds_codes"] and entry["stored_dtype"] == "int8" for entry in params["params"].values())


def test_codes_of_16_bits_have_zero_points(path):
    """Of the integer form, written by Relay's operators and as qnn.quantize, and read again: what the QDQ file computes."""
    def outputs(*model):
        tidemark("run", *model, "--data", PICTURES, "--limit", 8, "-o", path / "y.npy", "--quiet").expect(DONE)
        kind, _, data = read_npy((path / "y.npy").read_bytes())
        assert kind == "<f4"
        return struct.unpack(f"<{len(data) // 4}f", data)
    for dtype in ("int16", "uint16"):
        encodings = calibrated(path, "--dtype", dtype, "--scheme", "asymmetric")
        tidemark("export", encodings, "--model", DIGITS, "--to", "qdq", "-o", path / "q.onnx").expect(DONE)
        wanted = outputs(path / "q.onnx")
        for how in ("exact", "qnn"):
            export(encodings, path / "out.relay", "--set", "form=integer", "--set", f"quantize={how}").expect(DONE)
            text = (path / "out.relay").read_text()
            assert (f'out_dtype="{dtype}"' in text) == (how == "qnn") and f'dtype="{dtype}"' in text
            made = outputs(path / "out.relay", "--params", path / "out.params")
            assert max(abs(a - b) for a, b in zip(made, wanted, strict=True)) < 1e-3 * max(map(abs, wanted)), (dtype, how)


def test_weights_may_be_codes(path):
    export(calibrated(path), path / "out.relay", "--set", "weights=codes").expect(DONE)
    text, _, params = texts(path / "out.relay")
    coded = [name for name, entry in params["params"].items() if entry["holds_codes"]]
    assert coded and all(f"qnn.dequantize(%{name}," in text for name in coded)


def test_refused_exports_leave_no_file(path):
    encodings = calibrated(path, "--rounding", "float_rne")
    before = files(path)
    for setting in "form=graph", "weights=int8", "rounding=up":
        export(encodings, path / "out.relay", "--set", setting, "--set", "form=integer" if "r" == setting[0] else setting).refuses(
            (WRONG_CALL, BAD_INPUT), setting.split("=")[0])
    export(encodings, path / "out.relay", "--set", "form=integer").refuses(BAD_INPUT, "single_half_up")
    export(encodings, path / "out.params").refuses((WRONG_CALL, BAD_INPUT), "out.params")
    assert files(path) == before


def test_input_params_are_not_overwritten(path):
    model, params = path / "net.relay", path / "out.params"
    tidemark("transform", DIGITS, "--passes", "none", "-o", model, "--params-out", params).expect(DONE)
    tidemark("profile", model, "--params", params, "--data", PICTURES, "--limit", 4, "--quiet", "-o",
             path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--quiet", "-o", path / "enc.json").expect(DONE)
    before = params.read_bytes()
    tidemark("export", path / "enc.json", "--model", model, "--params", params, "--to", "relay", "-o",
             path / "out.relay").refuses((WRONG_CALL, BAD_INPUT), "out.params")
    assert params.read_bytes() == before
    tidemark("export", path / "enc.json", "--model", model, "--params", params, "--to", "relay", "-o",
             path / "other.relay").expect(DONE)
    assert (path / "other.params").read_bytes() == before


main()
