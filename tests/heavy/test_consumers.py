# SPDX-License-Identifier: Apache-2.0
"""Exports read and run by consumers that are large to install: each that is missing is left out, with the reason.

usage: test_consumers.py PROGRAM SOURCE_ROOT FEATURES CONSUMER; tools/check-consumers makes the environments and starts it. The
network is the two-convolution one of the worked examples; the figures next to ours are those that FORMATS measured (Quark and MNN in uint8: ours, before).
"""
import importlib
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "oracle"))

import numpy as np
import oracle
from oracle import LeftOut, folder, onnx, tidemark
from spelled_norms import FUSED, samples, spelled_norms
from twoconv import MODEL, RANGES, SAMPLES, export, sqnr


def need(*modules):
    try:
        return [importlib.import_module(name) for name in modules]
    except Exception as missing:  # large packages fail in many ways
        raise LeftOut(f"{type(missing).__name__}: {missing}") from None


def report(name, decibels, measured, slack=0.15):
    print(f"  {name}: {decibels:.2f} dB (measured before: {measured})")
    assert abs(decibels - measured) <= slack


def run_model(model):
    run = oracle.session(model)
    return np.concatenate([run.run(None, {"x": x})[0] for x in SAMPLES])


def initializers(model):
    return {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}


def test_aimet():
    quantsim, definitions = need("aimet_onnx.quantsim", "aimet_onnx.common.defs")
    with folder() as path:
        for version in ("0.6.1", "1.0.0", "2.0.0"):
            file = export(path, f"{version}.encodings", "aimet", "--set", f"version={version}")
            simulation = quantsim.QuantizationSimModel(onnx.load(MODEL), quant_scheme=definitions.QuantScheme.min_max,
                                                       config_file="htp_v73")
            mismatches = quantsim.load_encodings_to_sim(simulation, str(file), strict=False)
            assert not mismatches, mismatches
            got = np.concatenate([simulation.session.run(None, {"x": x})[0] for x in SAMPLES])
            report(f"aimet {version}, simulation", sqnr(got), 36.74)
            converted = quantsim.encodings_to_onnx_qdq(onnx.load(MODEL), str(file))
            report(f"aimet {version}, as QDQ in onnxruntime", sqnr(run_model(converted)), 36.66, 0.3)
    check_aimet_of_products_alone(quantsim, definitions)
    check_aimet_of_what_it_fuses(quantsim, definitions)


def check_aimet_of_products_alone(quantsim, definitions):
    """What Reshape makes has an encoding, what it reads has none: AIMET has no quantizer there."""
    helper, rng = onnx.helper, np.random.default_rng(7)
    weights = {"w": rng.standard_normal((2, 1, 3, 3)), "m": rng.standard_normal((32, 4)), "s": np.array([1, 32])}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["r"], "relu"),
             helper.make_node("Reshape", ["r", "s"], ["f"], "flat"), helper.make_node("MatMul", ["f", "m"], ["y"], "product"),
             helper.make_node("Sigmoid", ["c"], ["unread"], "unread")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [1, 1, 6, 6])],
                              [helper.make_tensor_value_info("y", 1, [1, 4])],
                              [onnx.numpy_helper.from_array(a if k == "s" else a.astype(np.float32), k) for k, a in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    config = {"defaults": {"quantize": False}, "rules": [{"match": {"op": op}, "quantize": True} for op in ("Conv", "MatMul", "Sigmoid")]}
    with folder() as path:
        onnx.save(model, path / "m.onnx")
        np.save(path / "x.npy", rng.standard_normal((4, 1, 6, 6)).astype(np.float32))
        (path / "c.json").write_text(json.dumps(config))
        tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "--quiet", "-o", path / "p.json")
        tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--config", path / "c.json", "--quiet", "-o", path / "e.json")
        for version in ("0.6.1", "1.0.0", "2.0.0"):
            tidemark("export", path / "e.json", "--model", path / "m.onnx", "--to", "aimet", "--set", f"version={version}", "-o",
                     path / "a.json")
            simulation = quantsim.QuantizationSimModel(model, quant_scheme=definitions.QuantScheme.min_max, config_file="htp_v73")
            quantsim.load_encodings_to_sim(simulation, str(path / "a.json"), strict=False)
            simulation.session.run(None, {"x": np.zeros((1, 1, 6, 6), np.float32)})


def check_aimet_of_what_it_fuses(quantsim, definitions):
    """Its graph is without the values that the test of tools/check expects to be left out."""
    model = spelled_norms()
    simulation = quantsim.QuantizationSimModel(model, quant_scheme=definitions.QuantScheme.min_max, config_file="htp_v73")
    kept = {name for node in simulation.model.model.graph.node for name in node.output}
    assert {name for node in model.graph.node for name in node.output} - kept == FUSED
    with folder() as path:
        onnx.save(model, path / "m.onnx")
        np.save(path / "x.npy", samples())
        tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "--quiet", "-o", path / "p.json")
        tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--quiet", "-o", path / "e.json")
        for version in ("0.6.1", "1.0.0", "2.0.0"):
            tidemark("export", path / "e.json", "--model", path / "m.onnx", "--to", "aimet", "--set", f"version={version}", "-o",
                     path / "a.json")
            quantsim.load_encodings_to_sim(simulation, str(path / "a.json"), strict=False)


def wide_model():
    """Two convolutions of 32 channels: ModelOpt leaves narrow ones alone."""
    rng = np.random.default_rng(5)
    def weight(name, shape):
        return onnx.numpy_helper.from_array((rng.standard_normal(shape) * .1).astype(np.float32), name)
    helper = onnx.helper
    nodes = [helper.make_node("Conv", ["x", "w1"], ["c1"], "conv1", kernel_shape=[3, 3], pads=[1] * 4),
             helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
             helper.make_node("Conv", ["r1", "w2"], ["y"], "conv2", kernel_shape=[3, 3], pads=[1] * 4)]
    graph = helper.make_graph(nodes, "wide", [helper.make_tensor_value_info("x", 1, [1, 32, 8, 8])],
                              [helper.make_tensor_value_info("y", 1, [1, 32, 8, 8])],
                              [weight("w1", (32, 32, 3, 3)), weight("w2", (32, 32, 3, 3))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_modelopt():
    """It reads TensorRT's calibration cache."""
    quantization, utils = need("modelopt.onnx.quantization", "modelopt.onnx.quantization.calib_utils")
    with folder() as path:
        cache = export(path, "cache", "tensorrt-cache", all_activations=True)
        scales = utils.import_scales_from_calib_cache(str(cache))
        for name in ("x", "conv1_out", "relu1_out", "y"):
            most = max(-RANGES[name]["min"], RANGES[name]["max"])
            found = [value for key, value in scales.items() if key.startswith(name)]
            assert np.float32(found[0]) == np.float32(most) / np.float32(127), (name, found, most)
        onnx.save(wide_model(), path / "wide.onnx")
        bits = (np.array([2.0, 5.5], "<f4") / np.float32(127)).view("<u4")
        (path / "cache").write_text("TRT-8601-EntropyCalibration2\nx: %08x\nr1: %08x\n" % tuple(bits))
        quantization.quantize(str(path / "wide.onnx"), quantize_mode="int8", calibration_data={"x": np.ones((1, 32, 8, 8), np.float32)},
                              calibration_cache_path=str(path / "cache"), output_path=str(path / "q.onnx"),
                              calibration_eps=["cpu"], high_precision_dtype="fp32")
        scales = {name: float(v.ravel()[0]) for name, v in initializers(onnx.load(path / "q.onnx")).items() if "scale" in name}
        print(f"  modelopt: {scales}")
        assert np.isclose(scales["x_scale"] * 127, 2.0) and np.isclose(scales["r1_scale"] * 127, 5.5)


def test_quark():
    """Ranges come from the file: the one sample that it calibrates with would give others."""
    quark, config, calibrate = need("quark.onnx", "quark.onnx.quantization.config", "onnxruntime.quantization")

    class OneSample(calibrate.CalibrationDataReader):
        def __init__(self):
            self.left = [{"x": SAMPLES[0]}]

        def get_next(self):
            return self.left.pop() if self.left else None

    with folder() as path:
        os.chdir(path)  # where it leaves a table
        settings = config.get_default_config("S8S8_AAWS")
        settings.extra_options["SaveAndRestore"] = str(export(path, "ranges.json", "quark", all_activations=True))
        quantizer = quark.ModelQuantizer(config.Config(global_quant_config=settings))
        quantizer.quantize_model(str(MODEL), str(path / "q.onnx"), OneSample())
        model = onnx.load(path / "q.onnx")
        scales = initializers(model)
        for name in ("x", "relu1_out", "y"):
            span = max(RANGES[name]["max"], 0) - min(RANGES[name]["min"], 0)
            assert scales[f"{name}_scale"] == np.float32(span / 255), name
        report("quark, weights by the tensor, as QDQ in onnxruntime", sqnr(run_model(model)), 35.20, 0.5)
        os.chdir("/")


def test_rknn():
    """The toolkit's simulator, with the template's own numbers (one sample) and with ours."""
    api, = need("rknn.api")
    figures = {}
    with folder() as path:
        os.chdir(path)
        np.save(path / "sample.npy", SAMPLES[0])
        (path / "data.txt").write_text("sample.npy\n")
        toolkit = api.RKNN(verbose=False)
        toolkit.config(target_platform="rk3588", quantized_method="channel", optimization_level=0)
        assert toolkit.load_onnx(model=str(MODEL)) == 0 and toolkit.hybrid_quantization_step1(dataset="data.txt") == 0
        toolkit.release()
        template = path / "twoconv.quantization.cfg"
        files = {"template": template, "ours": export(path, "ours.cfg", "rknn", "--template", template)}
        for name, file in files.items():
            toolkit = api.RKNN(verbose=False)
            toolkit.config(target_platform="rk3588", quantized_method="channel", optimization_level=0)
            assert toolkit.hybrid_quantization_step2(model_input="twoconv.model", data_input="twoconv.data",
                                                     model_quantization_cfg=str(file)) == 0
            assert toolkit.init_runtime() == 0
            got = [toolkit.inference(inputs=[x.transpose(0, 2, 3, 1)], data_format="nhwc")[0] for x in SAMPLES]
            figures[name] = sqnr(np.concatenate(got))
            toolkit.release()
        os.chdir("/")
        print(f"  rknn simulator with the template's own ranges: {figures['template']:.2f} dB")
        report("rknn simulator with ours", figures["ours"], 37.29, 0.5)
        assert figures["ours"] > figures["template"] + 5


def run_mnn(mnn, path):
    interpreter = mnn.Interpreter(str(path))
    run = interpreter.createSession({"backend": "CPU", "numThread": 1})
    into, out_of, out = interpreter.getSessionInput(run), interpreter.getSessionOutput(run), []
    for sample in SAMPLES:
        layout = mnn.Halide_Type_Float, mnn.Tensor_DimensionType_Caffe
        into.copyFrom(mnn.Tensor(sample.shape, layout[0], np.ascontiguousarray(sample), layout[1]))
        interpreter.runSession(run)
        host = mnn.Tensor((1, 5, 6, 6), layout[0], np.zeros((1, 5, 6, 6), np.float32), layout[1])
        out_of.copyToHostTensor(host)
        out.append(np.array(host.getNumpyData()).reshape(1, 5, 6, 6))
    return np.concatenate(out)


def test_mnn():
    """Its converter by its native module alone: its scripts install packages and send what is done with them."""
    converter, mnn = need("_tools", "MNN")
    for symmetric, measured in ((True, 34.09), (False, 36.74)):
        with folder() as path:
            (path / "map.json").write_text('{"y": "y__before_tr"}')
            file = export(path, "q.json", "mnn", "--names", path / "map.json", "--keep-names", symmetric=symmetric)
            converter.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", str(MODEL), "--MNNModel", str(path / "q.mnn"),
                                  "--compressionParamsFile", str(file), "--bizCode", "x"])
            report(f"mnn, {'int8 symmetric' if symmetric else 'uint8'}", sqnr(run_mnn(mnn, path / "q.mnn")), measured)


def test_tvm():
    """Today's TVM has no Relay; it takes the QDQ model."""
    tvm, relax, frontend = need("tvm", "tvm.relax", "tvm.relax.frontend.onnx")
    with folder() as path:
        model = onnx.load(export(path, "q.onnx", "qdq"))
        module = relax.transform.LegalizeOps()(frontend.from_onnx(model, keep_params_in_input=False))
        machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        got = [machine["main"](tvm.runtime.tensor(sample)) for sample in SAMPLES]
        got = [(out if hasattr(out, "numpy") else out[0]).numpy() for out in got]
        report("tvm relax, QDQ", sqnr(np.concatenate(got)), 36.73)


oracle.main({"test_" + sys.argv[4]: globals()["test_" + sys.argv[4]]})
