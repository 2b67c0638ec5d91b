# SPDX-License-Identifier: Apache-2.0
"""Exports read by their real consumers, and run: a wrong sign passes every loader, and no comparison of numbers.

Each consumer that is not installed leaves its test out, with the reason. The network is the two-convolution one of the worked
examples, with encodings by hand and by `calibrate`; figures in decibels were measured with these consumers for the same ranges.
"""
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

# First: it leaves the test out where packages are missing.
import oracle
from oracle import folder, skip
from ncnn_files import ncnn_model
from twoconv import EXAMPLES, MODEL, SAMPLES, export, sqnr

import numpy as np
import onnx.utils


def need(*modules):
    try:
        return [importlib.import_module(name) for name in modules]
    except ImportError as missing:
        skip(missing)


def near(decibels, measured, slack=0.15):
    assert abs(decibels - measured) <= slack, f"{decibels:.2f} dB, and {measured} were measured"


# ---- ncnn ----

def run_ncnn(ncnn, param, binary, int8, samples=SAMPLES, ends=("x", "y")):
    net = ncnn.Net()
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, "use_" + option, False)
    net.opt.use_int8_inference = int8
    net.opt.num_threads = 1
    assert net.load_param(str(param)) == 0 and net.load_model(str(binary)) == 0
    out = []
    for sample in samples:
        run = net.create_extractor()
        run.input(ends[0], ncnn.Mat(np.ascontiguousarray(sample[0])).clone())
        out.append(np.array(run.extract(ends[1])[1])[None])
    return np.concatenate(out)


def test_ncnn_int8():
    ncnn, = need("ncnn")
    for how in ({"by_hand": True}, {"by_hand": False}, {"runtime": "ncnn"}):
        check_ncnn_int8(ncnn, how)


def check_ncnn_int8(ncnn, how):
    with folder() as path:
        target = export(path, "q.param", "ncnn-int8", "--template", EXAMPLES / "ncnn" / "twoconv.param", **how)
        assert [line.split()[-1] for line in target.read_text().splitlines() if line.startswith("Convolution")] == ["8=2", "8=2"]
        got = run_ncnn(ncnn, target, path / "q.bin", True)
        near(sqnr(got), 35.59)
        plain = run_ncnn(ncnn, EXAMPLES / "ncnn" / "twoconv.param", EXAMPLES / "ncnn" / "twoconv.bin", False)
        assert sqnr(plain) > 100


def test_ncnn_behind_pnnx(path):
    """pnnx makes up all names: the template's layers are found by their weights."""
    if not importlib.util.find_spec("pnnx"):
        skip("pnnx is not installed")
    ncnn, = need("ncnn")
    pnnx = Path(importlib.util.find_spec("pnnx").origin).with_name("pnnx")
    shutil.copy(MODEL, path / "m.onnx")
    subprocess.run([pnnx, path / "m.onnx"], check=True, cwd=path, capture_output=True)
    target = export(path, "q.param", "ncnn-int8", "--template", path / "m.ncnn.param", runtime="ncnn")
    got = run_ncnn(ncnn, target, path / "q.bin", True, ends=("in0", "out0"))
    near(sqnr(got), 35.59)


def test_ncnn_measures_inputs(path):
    """Layers whose weights alone have scales: a Gemm that is ours, and an LSTM, which stays float in our encodings."""
    ncnn, = need("ncnn")
    rng, none = np.random.default_rng(8), np.zeros(0)
    weights = rng.standard_normal((12, 16)).astype(np.float32)
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "dense")], "g",
                                   [onnx.helper.make_tensor_value_info("x", 1, [6, 12])],
                                   [onnx.helper.make_tensor_value_info("y", 1, [6, 16])], [onnx.numpy_helper.from_array(weights, "w")])
    model = path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), model)
    samples = rng.standard_normal((8, 6, 12)).astype(np.float32)
    np.save(path / "x.npy", samples)
    oracle.tidemark("profile", model, "--data", path / "x.npy", "-o", path / "p.json", "--quiet")
    oracle.tidemark("calibrate", path / "p.json", "--target", "ncnn", "-o", path / "enc.json", "--quiet")
    cell = [rng.standard_normal(shape) * .3 for shape in ((80, 16), (80,), (80, 20))]
    ncnn_model(path / "t.param", [("Input in0 0 1 in0", [], none),
                                  ("Gemm gemm_0 1 1 in0 1 2=0 3=1 4=0 5=1 6=0 7=0 8=16 9=12 10=-1", [weights.T], none),
                                  ("LSTM lstm_1 1 1 1 out0 0=20 1=1280", cell, none)])
    oracle.tidemark("export", path / "enc.json", "--model", model, "--to", "ncnn-int8", "--template", path / "t.param", "-o",
                    path / "q.param", "--quiet")
    assert [line.split()[-1] for line in (path / "q.param").read_text().splitlines()[3:]] == ["18=2", "8=2"]
    plain, got = (run_ncnn(ncnn, path / name, (path / name).with_suffix(".bin"), int8, samples[:, None], ("in0", "out0"))
                  for name, int8 in (("t.param", False), ("q.param", True)))
    decibels = 10 * np.log10((plain ** 2).sum() / ((plain - got) ** 2).sum())
    assert 30 < decibels < 60, decibels
    told = json.loads(oracle.tidemark("export", path / "enc.json", "--model", model, "--to", "ncnn-table", "--template", path / "t.param",
                                      "-o", path / "table", "--json", "--quiet"))
    assert told["written"] == 0 and any("Gemm" in skipped["why"] for skipped in told["skipped"]), told
    assert [line.split()[0] for line in (path / "table").read_text().splitlines()] == ["lstm_1_param_0", "lstm_1_param_1"]


# ---- LiteRT ----

def run_litert(interpreter, model):
    """Samples through a .tflite, whose layout is NHWC; outputs as floats in NCHW."""
    run = interpreter.Interpreter(model_content=bytes(model))
    run.allocate_tensors()
    into, out_of = run.get_input_details()[0], run.get_output_details()[0]
    out = []
    for sample in SAMPLES:
        x = sample.transpose(0, 2, 3, 1)
        if into["dtype"] != np.float32:
            scale, zero = into["quantization"]
            x = np.clip(np.round(x / scale) + zero, -128, 127).astype(into["dtype"])
        run.set_tensor(into["index"], x)
        run.invoke()
        y = run.get_tensor(out_of["index"])
        if out_of["dtype"] != np.float32:
            scale, zero = out_of["quantization"]
            y = (y.astype(np.float32) - zero) * scale
        out.append(y.transpose(0, 3, 1, 2))
    return np.concatenate(out)


def test_litert():
    quantizer, recipe, calibration, interpreter = need(
        "ai_edge_quantizer.quantizer", "ai_edge_quantizer.recipe", "ai_edge_quantizer.utils.calibration_utils",
        "ai_edge_litert.interpreter")
    for how in ({"by_hand": True}, {"by_hand": False}, {"runtime": "litert"}, {"runtime": "ethos-u"}):
        with folder() as path:
            ranges = export(path, "qsv.json", "litert", **how)
            made = quantizer.Quantizer(str(EXAMPLES / "litert" / "twoconv.tflite"))
            made.load_quantization_recipe(recipe.static_wi8_ai8())
            made = made.quantize(calibration.load_calibration_results(str(ranges))[0])
            near(sqnr(run_litert(interpreter, made.quantized_model)), 36.73)


# ---- OpenVINO ----

def run_openvino(openvino, path):
    """The output, and what the convolutions ran in."""
    compiled = openvino.Core().compile_model(openvino.Core().read_model(str(path)), "CPU")
    kinds = [op.get_rt_info()["runtimePrecision"].astype(str) for op in compiled.get_runtime_model().get_ops()
             if op.get_rt_info()["layerType"].astype(str) == "Convolution"]
    return np.concatenate([compiled(sample)[compiled.output("y")] for sample in SAMPLES]), kinds


def test_openvino(path):
    openvino, = need("openvino")
    for compress, by_hand, overflow in ((True, True, "none"), (False, True, "none"), (True, False, "none"), (False, True, "first")):
        openvino.save_model(openvino.Core().read_model(str(MODEL)), str(path / "t.xml"), compress_to_fp16=compress)
        target = export(path, "q.xml", "openvino", "--template", path / "t.xml", "--set", f"overflow={overflow}", by_hand=by_hand)
        fake = [op for op in openvino.Core().read_model(str(target)).get_ops() if op.get_type_name() == "FakeQuantize"]
        assert len(fake) == 5, f"{len(fake)} of x, relu1_out, y and two weights"
        got, kinds = run_openvino(openvino, target)
        near(sqnr(got), 36.33 if overflow == "none" else 33.9, 0.6)  # with and without the saturation of processors that have no VNNI
        assert all(kind.upper() in ("I8", "U8") for kind in kinds) and kinds, kinds


def test_openvino_does_not_saturate(path):
    """A first layer of full codes: where the processor has no VNNI, pairs of products saturate unless weights have half of their codes.
    Elsewhere nothing saturates, and half of the codes costs less than asked for here."""
    openvino, = need("openvino")
    rng = np.random.default_rng(6)
    weights = rng.choice([-1, 1], (16, 8, 3, 3)).astype(np.float32) * rng.uniform(.8, 1, (16, 8, 3, 3)).astype(np.float32)
    graph = onnx.helper.make_graph([onnx.helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1] * 4)], "g",
                                   [onnx.helper.make_tensor_value_info("x", 1, [1, 8, 12, 12])],
                                   [onnx.helper.make_tensor_value_info("y", 1, [1, 16, 12, 12])],
                                   [onnx.numpy_helper.from_array(weights, "w")])
    model = path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), model)
    samples = rng.uniform(.8, 1, (8, 8, 12, 12)).astype(np.float32)
    np.save(path / "x.npy", samples)
    openvino.save_model(openvino.Core().read_model(str(model)), str(path / "t.xml"), compress_to_fp16=False)
    oracle.tidemark("profile", model, "--data", path / "x.npy", "-o", path / "p.json", "--quiet")
    oracle.tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--target", "openvino", "-o", path / "enc.json", "--quiet")
    told = json.loads(oracle.tidemark("export", path / "enc.json", "--to", "openvino", "--template", path / "t.xml", "-o", path / "q.xml",
                                      "--json", "--quiet"))
    assert any("overflow=none" in remark for remark in told["remarks"]), told
    runs = [openvino.Core().compile_model(openvino.Core().read_model(str(path / name)), "CPU") for name in ("t.xml", "q.xml")]
    plain, got = (np.concatenate([run(sample[None])[0] for sample in samples]) for run in runs)
    decibels = 10 * np.log10((plain ** 2).sum() / ((plain - got) ** 2).sum())
    assert decibels > 30, decibels


def test_openvino_of_a_real_network(path):
    """digits.onnx, whose weights reach MatMul as the file has them: classes as the float network's."""
    openvino, = need("openvino")
    model, pictures = oracle.model_of("digits"), np.load(oracle.BUNDLE / "digits.npy")
    openvino.save_model(openvino.Core().read_model(str(model)), str(path / "t.xml"), compress_to_fp16=False)
    oracle.tidemark("profile", model, "--data", oracle.BUNDLE / "digits.npy", "-o", path / "p.json", "--quiet")
    oracle.tidemark("calibrate", path / "p.json", "--sensitive=quantize", "-o", path / "enc.json", "--quiet")
    told = json.loads(oracle.tidemark("export", path / "enc.json", "--to", "openvino", "--template", path / "t.xml", "-o",
                                      path / "q.xml", "--json", "--quiet"))
    others = [skip for skip in told["skipped"] if "a bias" not in skip["why"] and "behind its Relu" not in skip["why"]]
    assert not others, others
    runs = [openvino.Core().compile_model(openvino.Core().read_model(str(path / name)), "CPU") for name in ("t.xml", "q.xml")]
    plain, got = (np.concatenate([run(picture[None])[0] for picture in pictures[:300]]) for run in runs)
    assert not np.array_equal(plain, got)
    assert (plain.argmax(1) == got.argmax(1)).mean() >= 0.98


# ---- AIMET's files by AIMET's arithmetic; its own program is in the heavy tier ----

def grids_of(document):
    """Of each name: scales and the codes that stand for 0, counted from 0 as versions before 2.0.0 do."""
    if document["version"] == "2.0.0":
        return {e["name"]: (np.ravel(e["y_scale"]), e.get("y_zero_point", 0) + (128 if e["output_dtype"] == "int8" else 0))
                for e in document["encodings"]}
    grids = {}
    for section in ("activation_encodings", "param_encodings"):
        entries = document[section]
        if isinstance(entries, dict):
            entries = [{"name": name, "scale": [e["scale"] for e in given], "offset": [e["offset"] for e in given]}
                       for name, given in entries.items()]
        grids.update((e["name"], (np.ravel(e["scale"]), -e["offset"][0])) for e in entries)
    return grids


def on_grid(grids, name, values):
    scale, zero = grids[name]
    scale = np.float32(scale).reshape(-1, *[1] * (values.ndim - 1)) if len(scale) > 1 else np.float32(scale[0])
    return ((np.clip(np.rint(values / scale) + zero, 0, 255) - zero) * scale).astype(np.float32)


def run_fake_quantized(grids):
    model = onnx.shape_inference.infer_shapes(onnx.load(MODEL))
    for tensor in model.graph.initializer:
        if tensor.name in grids:
            tensor.CopyFrom(onnx.numpy_helper.from_array(on_grid(grids, tensor.name, onnx.numpy_helper.to_array(tensor)), tensor.name))
    first, second = (oracle.session(onnx.utils.Extractor(model).extract_model([a], [b]))
                     for a, b in (("x", "relu1_out"), ("relu1_out", "y")))
    out = []
    for sample in SAMPLES:
        middle = first.run(None, {"x": on_grid(grids, "x", sample)})[0]
        out.append(on_grid(grids, "y", second.run(None, {"relu1_out": on_grid(grids, "relu1_out", middle)})[0]))
    return np.concatenate(out)


def test_aimet_arithmetic():
    for version in ("0.6.1", "1.0.0", "2.0.0"):
        with folder() as path:
            document = json.loads(export(path, "out", "aimet", "--set", f"version={version}").read_text())
            near(sqnr(run_fake_quantized(grids_of(document))), 36.74)


oracle.main()
