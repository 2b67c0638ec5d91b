# SPDX-License-Identifier: Apache-2.0
"""A consumer reads and runs what was exported for it: consumer_run.py CONSUMER JOB.json, with the interpreter that has the consumer.

The job: `model` (ONNX; quantized already for those that read QDQ), `calibrate` and `check` (.npz, arrays called "sample/input"), `file`
(what was exported for the consumer; null: it calibrates by itself), `moved` (a seed, and by which share AIMET's scales are enlarged at
most), and `out` (.npz, arrays called "sample/output").
"""
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np


def feeds_of(path):
    feeds = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            sample, name = key.split("/", 1)
            feeds.setdefault(int(sample), {})[name] = arrays[key]
    return [feeds[i] for i in sorted(feeds)]


class Reader:
    def __init__(self, feeds):
        self.left = iter(feeds)

    def get_next(self):
        return next(self.left, None)


def run_onnxruntime(model, feeds):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


# ---- readers of QDQ models ----

OPENVINO = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}  # else bfloat16 where the processor has it


def openvino(job, feeds):
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(job["model"]), "CPU", OPENVINO)
    return [[compiled(feed)[k] for k in range(len(compiled.outputs))] for feed in feeds]


def tvm(job, feeds):
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend import onnx as frontend
    model = onnx.load(job["model"])
    names = [value.name for value in model.graph.input if value.name not in {t.name for t in model.graph.initializer}]
    shapes = {name: list(feeds[0][name].shape) for name in names}
    module = relax.transform.LegalizeOps()(frontend.from_onnx(model, shape_dict=shapes, keep_params_in_input=False))
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    results = []
    for feed in feeds:
        out = machine["main"](*(tvm.runtime.tensor(feed[name]) for name in names))
        results.append([one.numpy() for one in ([out] if hasattr(out, "numpy") else out)])
    return results


def fixed(path, feed):
    """The model with the shapes of one sample."""
    import onnx
    model = onnx.load(path)
    for value in model.graph.input:
        for dimension, size in zip(value.type.tensor_type.shape.dim, np.shape(feed.get(value.name, ()))):
            dimension.dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model.SerializeToString()


def qnn(job, feeds, whole=True):
    """Qualcomm's simulation of its processor, which takes no free dimensions; every node must be taken."""
    import onnxruntime
    import onnxruntime_qnn
    provider = "QNNExecutionProvider"
    onnxruntime.register_execution_provider_library(provider, onnxruntime_qnn.get_library_path())
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", str(int(whole)))
    options.add_provider_for_devices(devices[:1], {"backend_path": str(Path(onnxruntime_qnn.get_library_path()).with_name("libQnnHtp.so"))})
    session = onnxruntime.InferenceSession(fixed(job["model"], feeds[0]), options)
    return [session.run(None, feed) for feed in feeds]


def qnn_mixed(job, feeds):
    """The nodes that it does not take are ONNX Runtime's."""
    return qnn(job, feeds, whole=False)


# ---- quantizers that read ranges or encodings ----

def aimet(job, feeds):
    """Simulated by AIMET; by itself it takes minima and maxima."""
    import onnx
    from aimet_onnx import quantsim
    from aimet_onnx.common.defs import QuantScheme
    simulation = quantsim.QuantizationSimModel(onnx.load(job["model"]), quant_scheme=QuantScheme.min_max, config_file="htp_v73")
    if job["file"]:
        mismatches = quantsim.load_encodings_to_sim(simulation, job["file"], strict=False)
        if mismatches:
            print("mismatches:", mismatches)
    else:
        simulation.compute_encodings(feeds_of(job["calibrate"]))
    if "moved" in job:
        enlarge(simulation.qc_quantize_op_dict.values(), *job["moved"])
    return [simulation.session.run(None, feed) for feed in feeds]


def enlarge(quantizers, seed, most):
    """Scales by up to a share, one for the channels of a tensor."""
    rng = np.random.default_rng(seed)
    for quantizer in quantizers:
        encodings, by = quantizer.get_encodings() if quantizer.enabled else None, 1 + rng.uniform(0, most)
        for one in encodings or []:
            one.delta, one.min, one.max = one.delta * by, one.min * by, one.max * by
        if encodings:
            quantizer.load_encodings(encodings)


def quark(job, feeds):
    from quark.onnx import ModelQuantizer
    from quark.onnx.quantization.config import Config, get_default_config
    settings = get_default_config("S8S8_AAWS")
    settings.extra_options |= {"SimplifyModel": False}  # what it simplifies and optimises has values that no file can have
    settings.optimize_model = settings.include_cle = False  # cross-layer equalization changes the weights, hence the ranges
    if job["file"]:
        settings.extra_options |= {"SaveAndRestore": job["file"]}
    calibrate = feeds_of(job["calibrate"])
    ModelQuantizer(Config(global_quant_config=settings)).quantize_model(job["model"], "quark.onnx", Reader(calibrate[:1] if job["file"] else calibrate))
    return run_onnxruntime("quark.onnx", feeds)


def modelopt(job, feeds):
    """It reads TensorRT's calibration cache; by itself it takes minima and maxima. It measures with a cache, too, and replaces them."""
    from modelopt.onnx import quantization
    calibrate = feeds_of(job["calibrate"])
    cache = {"calibration_cache_path": job["file"]} if job["file"] else {}
    quantization.quantize(job["model"], quantize_mode="int8", calibration_method="max", calibration_eps=["cpu"], high_precision_dtype="fp32",
                          calibration_data={key: np.concatenate([feed[key] for feed in calibrate]) for key in calibrate[0]},
                          output_path="modelopt.onnx", **cache)
    return run_onnxruntime("modelopt.onnx", feeds)


CONSUMERS = {run.__name__: run for run in (openvino, tvm, qnn, qnn_mixed, aimet, quark, modelopt)}


def main():
    job = json.loads(Path(sys.argv[2]).read_text())
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # where some leave files
        results = CONSUMERS[sys.argv[1]](job, feeds_of(job["check"]))
        os.chdir("/")
    np.savez(job["out"], **{f"{i}/{k}": array for i, outputs in enumerate(results) for k, array in enumerate(outputs)})


if __name__ == "__main__":
    main()
