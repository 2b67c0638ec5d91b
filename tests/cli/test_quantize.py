# SPDX-License-Identifier: Apache-2.0
"""`tidemark quantize`: the result of the single steps, on samples of its own, with a verdict in two lines."""
import json
import math
import os
import struct

import onnx_bytes as onnx
from cli import BAD_INPUT, BUNDLE, DIGITS, DONE, MACHINE, PICTURES, WRONG_CALL, main, npy_bytes, tidemark


def quantize(path, *words, model=DIGITS, data=PICTURES, out="q.onnx"):
    return tidemark("quantize", model, "--data", data, "-o", path / out, *words)


def told(path, *words, **options):
    return json.loads(quantize(path, "--json", "-q", *words, **options).expect(DONE).out)


def chosen_method(said, of="methods"):
    return next(tried["method"] for tried in said[of] if tried["chosen"])


def profile_some(path, known):
    tidemark("profile", path / "float.onnx", "--data", PICTURES, "--skip", known[0], "--limit", len(known), "-o", path / "p.json", "-q").expect(DONE)


def noise_of(path, method, weights, judged):
    """Decibels on each of `judged` of what the Softmax reads, by the profile that is there."""
    tidemark("calibrate", path / "p.json", "--method", method, "--model", path / "float.onnx", "--weights-method", weights, "-o", path / "enc.json",
             "-q").expect(DONE)
    for sample in judged:
        done = tidemark("simulate", path / "float.onnx", path / "enc.json", "--data", PICTURES, "--skip", sample, "--limit", 1, "--json", "-q")
        yield next(value["sqnr"] for value in json.loads(done.expect(DONE).out)["values"] if value["name"] == "dense2_out")


def same_noise(path, said, known, judged, half, methods):
    """The mean decibels on `judged`, calibrated on `known`."""
    profile_some(path, known)
    means = (sum(noise_of(path, tried["method"], chosen_method(said, "weights"), judged)) / len(judged) for tried in methods)
    return all(abs(mean - tried[half]) <= 1e-4 for mean, tried in zip(means, methods))


def test_the_verdict_is_two_lines(path):
    lines = quantize(path, "--limit", 80).expect(DONE).out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("good: outputs ") and "20 samples that were not calibrated on" in lines[0], lines
    assert "q.onnx: 0." in lines[1] and "values in codes" in lines[1] and "worst is p" in lines[1], lines
    labelled = quantize(path, "--limit", 80, "--labels", BUNDLE / "digits-labels.npy").expect(DONE).out
    assert "accuracy 100.00% (float 100.00%; change 95% -16.11 to +16.11)" in labelled, labelled


def test_it_writes_what_the_steps_write(path):
    said = told(path, "--limit", 80, "--profile", path / "p.json", "--encodings", path / "enc.json")
    assert (said["calibrated_on"], said["judged_on"], said["held_out"], said["format"], said["folded"]) == (80, 20, True, "qdq", 2), said
    folded = path / "steps" / "digits.folded.onnx"  # profiles have the name of the file
    folded.parent.mkdir()
    tidemark("transform", DIGITS, "--passes", "simplify-inference,fold-scale-axis,fold-bias", "-o", folded, "--lineage", path / "l.json", "-q").expect(DONE)
    method, weights = chosen_method(said), chosen_method(said, "weights")
    auto, minmax = said["weights"]
    assert weights == ("minmax" if minmax["typical"] >= auto["typical"] + 1 else "auto"), said["weights"]
    def steps(*which):
        tidemark("profile", folded, "--data", PICTURES, "--limit", 80, *which, "-o", path / "p2.json", "-q").expect(DONE)
        tidemark("calibrate", path / "p2.json", "--method", method, "--model", folded, "--weights-method", weights, "-o", path / "enc2.json",
                 "-q").expect(DONE)
    steps("--skip", 20, "--limit", 60)  # what is judged by the first quarter
    done = tidemark("simulate", folded, path / "enc2.json", "--data", PICTURES, "--limit", 20, "--json", "-q").expect(DONE)
    outputs = [value["sqnr"] for value in json.loads(done.out)["values"] if value["output"]]
    assert abs(min(outputs) - said["sqnr"]) < 1e-6, (outputs, said)
    steps()  # what is written is of all
    tidemark("export", path / "enc2.json", "--to", "qdq", "--model", folded, "-o", path / "q2.onnx", "-q").expect(DONE)
    for first, second in (("p.json", "p2.json"), ("enc.json", "enc2.json"), ("q.onnx", "q2.onnx")):
        assert (path / first).read_bytes() == (path / second).read_bytes(), first
    # of many samples a few that are judged are not missed
    said = told(path, "--limit", 256, "--profile", path / "p.json")
    assert (said["calibrated_on"], said["judged_on"]) == (192, 64), said
    assert json.loads((path / "p.json").read_text())["settings"]["batch"]  # such that halves are even


def test_the_method_is_the_best_on_samples_not_calibrated_on(path):
    said = told(path, "--limit", 42, "--folded", path / "float.onnx")
    assert [tried["method"] for tried in said["methods"]] == ["auto", "mse", "minmax", "percentile", "entropy"], said
    # the same by hand: samples 0 to 9 are for the verdict; of the others, each half judges what the other half makes
    first, second = range(10, 26), range(26, 42)
    chosen, default = next(tried for tried in said["methods"] if tried["chosen"]), said["methods"][0]
    both = [tried for tried in said["methods"] if tried["second_half"] is not None]
    assert same_noise(path, said, first, second, "second_half", both) and same_noise(path, said, second, first, "first_half", both), said
    # what is not better by 1.5 dB on 8 samples of the first half, or on all of it, is judged no further
    worse = [tried for tried in said["methods"] if tried["second_half"] is None]
    assert worse and all(tried["first_half"] < default["first_half"] + 1.5 or both for tried in worse if tried is not default), said
    assert all(any(same_noise(path, said, second, some, "first_half", [tried]) for some in (first[-8:], first)) for tried in worse), said
    assert chosen is default or (all(chosen[half] >= default[half] + 3 for half in ("first_half", "second_half"))
                                 and chosen["sqnr"] >= default["sqnr"]), said
    assert f"ranges by {chosen['method']}" in quantize(path, "--limit", 42).expect(DONE).out


def test_weights_that_hardly_differ_are_judged_on_more_samples(path):
    known = range(10, 41)
    tried = told(path, "--limit", 41, "--folded", path / "float.onnx")["weights"]
    profile_some(path, known)
    noise = {one["method"]: list(noise_of(path, "auto", one["method"], known)) for one in tried}
    few, all_ = ({method: sum(one[:n]) / n for method, one in noise.items()} for n in (8, len(known)))
    wanted = all_ if few["auto"] - few["minmax"] < 2 else few
    assert all(abs(one["typical"] - wanted[one["method"]]) < 1e-4 for one in tried), (tried, few, all_)
    assert wanted is all_ and few != all_  # or else the samples test nothing


def test_a_method_that_is_named_is_taken(path):
    (path / "c.json").write_text(json.dumps({"defaults": {"activation": {"method": "minmax"}}}))
    (path / "other.json").write_text(json.dumps({"skip_last_layer": True}))
    for words in (["--method", "minmax"], ["--config", path / "c.json"]):
        said = told(path, "--limit", 64, "--encodings", path / "enc.json", *words)
        assert said["methods"] == [] and json.loads((path / "enc.json").read_text())["settings"]["method"] == "minmax", said
    assert told(path, "--limit", 64, "--config", path / "other.json")["methods"]
    assert told(path, "--limit", 41)["methods"] == []  # 31 to calibrate on: too few
    assert told(path, "--limit", 42)["methods"]
    quantize(path, "--limit", 8, "--method", "none").refuses(WRONG_CALL, "none")


def test_batch_norms_are_folded_for_readers_of_qdq_models(path):
    done = quantize(path, "--limit", 20, "--folded", path / "float.onnx", "--encodings", path / "enc.json").expect(
        DONE, "2 of 2 BatchNormalizations are folded")
    assert len(done.out.splitlines()) == 2
    for name in ("float.onnx", "q.onnx"):
        assert "BatchNormalization" not in tidemark("graph", path / name, "--ops").expect(DONE).out
    tidemark("simulate", path / "float.onnx", path / "enc.json", "--data", PICTURES, "--limit", 4).expect(DONE)
    # the names of other formats are those of the consumer's own file
    assert told(path, "--limit", 20, "--target", "litert", "--encodings", path / "enc2.json", out="ranges.json")["folded"] == 0
    tidemark("simulate", DIGITS, path / "enc2.json", "--data", PICTURES, "--limit", 4).expect(DONE)
    # nothing to fold: nothing is changed
    assert told(path, "--limit", 20, "--encodings", path / "enc3.json", model=path / "float.onnx")["folded"] == 0
    tidemark("simulate", path / "float.onnx", path / "enc3.json", "--data", PICTURES, "--limit", 4).expect(DONE)
    os.environ["TMPDIR"] = str(path / "none")
    try:
        quantize(path, "--limit", 20).expect(MACHINE, "no folder for the folded model")
    finally:
        del os.environ["TMPDIR"]
    (path / "t").mkdir()
    os.environ["TMPDIR"] = str(path / "t")
    try:
        quantize(path, "--limit", 20).expect(DONE)
    finally:
        del os.environ["TMPDIR"]
    assert not list((path / "t").iterdir()), "a temporary file is left"


def test_few_samples_are_for_both(path):
    said = told(path, "--limit", 7)
    assert (said["calibrated_on"], said["judged_on"], said["held_out"]) == (7, 7, False), said
    assert "7 samples that were also calibrated on" in quantize(path, "--limit", 7).out
    assert told(path)["judged_on"] == 64


def test_a_target_decides_types_and_format(path):
    said = told(path, "--limit", 20, "--target", "tensorrt", "--encodings", path / "enc.json", "--folded", path / "float.onnx")
    assert said["target"] == "tensorrt" and said["format"] == "qdq", said
    tidemark("check", path / "enc.json", "--target", "tensorrt", "--against", path / "float.onnx").expect(DONE)
    assert told(path, "--limit", 20, "--target", "litert", out="ranges.json")["format"] == "litert"
    quantize(path, "--limit", 20, "--target", "litert", out="none.onnx").expect(WRONG_CALL, "litert reads no ONNX model", "named .json")
    said = quantize(path, "--limit", 20, "--target", "litert", out="ranges.json").expect(DONE).out
    assert "ranges.json: a table for LiteRT" in said and " MB" not in said, said
    assert not (path / "none.onnx").exists()


def test_a_bad_result_is_called_poor(path):
    (path / "c.json").write_text(json.dumps({"sensitive": "quantize", "rules": [{"match": {"kind": "input"}, "range": [0, 0.01]}]}))
    done = quantize(path, "--config", path / "c.json").expect(DONE)
    assert done.out.startswith("poor: outputs "), done


def test_errors_name_the_file_that_was_given(path):
    """Not the one that BatchNormalization was folded in."""
    (path / "t.npy").write_bytes(npy_bytes([8, 1, 9, 9]))
    assert quantize(path, data=path / "t.npy").refuses(BAD_INPUT, "sample").err.startswith(f"tidemark: {DIGITS}: sample ")


def test_an_output_of_nan_has_no_verdict(path):
    (path / "nan.npy").write_bytes(npy_bytes([8, 1, 8, 8], [math.nan] * 512))
    said = quantize(path, data=path / "nan.npy").expect(DONE).out
    assert said.startswith("unknown: an output has no finite numbers, on 2 samples"), said


def test_sizes_are_those_of_all_files(path):
    """Weights beside the model's file count, too."""
    weights = [math.sin(i) for i in range(64 * 64)]
    (path / "w.bin").write_bytes(struct.pack(f"<{len(weights)}f", *weights))
    model = onnx.model([onnx.node("MatMul", ["x", "w"], ["y"], "product")], [onnx.value("x", ["N", 64])], [onnx.value("y", ["N", 64])],
                       [onnx.tensor("w", [64, 64], [], external={"location": "w.bin"})])
    (path / "m.onnx").write_bytes(model)
    (path / "x.npy").write_bytes(npy_bytes([16, 64], [math.cos(i * i) for i in range(1024)]))
    said = told(path, model=path / "m.onnx", data=path / "x.npy")
    assert said["float_bytes"] == len(model) + 4 * len(weights) and said["bytes"] == os.path.getsize(path / "q.onnx"), said
    assert said["bytes"] < said["float_bytes"] / 2 and said["quantized"], said
    assert "(float 0.02 MB)" in quantize(path, model=path / "m.onnx", data=path / "x.npy").out


def test_nothing_quantized_is_no_success(path):
    """Outputs are equal where nothing has codes."""
    (path / "m.onnx").write_bytes(onnx.model([onnx.node("Sigmoid", ["x"], ["y"], "s")], [onnx.value("x", ["N", 4])], [onnx.value("y", ["N", 4])]))
    (path / "x.npy").write_bytes(npy_bytes([16, 4], list(range(64))))
    said = quantize(path, model=path / "m.onnx", data=path / "x.npy").expect(DONE).out
    assert said.startswith("nothing is quantized: outputs as before, ") and "0 values in codes" in said, said


def test_what_it_cannot_do_is_said(path):
    quantize(path, "--feedback", "y=x").expect(WRONG_CALL, "--feedback")
    quantize(path, data="-").expect(WRONG_CALL, "pipe")
    tidemark("quantize", DIGITS, "--data", PICTURES).expect(WRONG_CALL, "where to?")
    tidemark("quantize").expect(WRONG_CALL, "which MODEL?")
    quantize(path, data=path / "none.npy").refuses(BAD_INPUT, "none.npy")
    for option, name in (("-o", "f.onnx"), ("--profile", "f.h5"), ("--encodings", "f.json"), ("--folded", "f.onnx")):
        # before the data, which are not there
        words = ["-o", path / "q.onnx"] if option != "-o" else []
        tidemark("quantize", DIGITS, "--data", path / "none.npy", *words, option, path / "none" / name).refuses(MACHINE, f"none/{name}")
    for name in ("q.tflite", "q"):
        quantize(path, out=name).expect(WRONG_CALL, "ends in .onnx")
        assert not (path / name).exists()
    (path / "c.json").write_text('{"rules": 1}')
    quantize(path, "--limit", 8, "--config", path / "c.json").refuses(BAD_INPUT, "rules")
    assert not (path / "q.onnx").exists()


main()
