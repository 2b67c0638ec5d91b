# SPDX-License-Identifier: Apache-2.0
"""Exports of encodings of many kinds, read by ONNX Runtime: QDQ models load and run, optimised and not, and quantize_static does
the call that the calibration cache names. Real networks, and small ones made here for what is known to go wrong."""
import json
import shutil
import warnings

from oracle import (execute, folder, main, model_of, onnx, onnxruntime, present, profile, refused, samples, session, skip,
                    sources, subset, tidemark)

import format_examples
import numpy as np
from onnx import helper

try:
    from onnxruntime.quantization import QuantType, quantize_static
except ImportError as missing:
    skip(f"ONNX Runtime's quantizer: {missing}")

warnings.simplefilter("ignore")
PRODUCTS = ("Conv", "MatMul", "Gemm")
BY_OPERATOR = {"defaults": {"quantize": False}, "rules": [{"match": {"op": op}, "quantize": True} for op in PRODUCTS]}
KINDS = {"default": [], "int8": ["--dtype", "int8", "--scheme", "symmetric"], "uint16": ["--dtype", "uint16"],
         "by channel": ["--per-channel"], "by operator": ["--config", BY_OPERATOR]}
REAL = [found for name in ("mnist_cnn", "mlperf_ic_resnet8", "yunet_dynamic", "dtln_lstm") for found in present(name)]


def calibrate(path, kind):
    words = list(KINDS[kind])
    if words and isinstance(words[-1], dict):
        (path / "config.json").write_text(json.dumps(words.pop()))
        words.append(path / "config.json")
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", *words, "--quiet", "-o", path / "enc.json")


def export(path, model, kind, target):
    """Its output."""
    return execute("export", path / "enc.json", "--model", model, "--to", kind, "-o", path / target).stderr


def run(model, feeds, fused=True):
    made = session(model, fused)
    return [made.run(None, feed) for feed in feeds]


def loads_exact(model):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return bool(onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]))
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return False


def sqnr(reference, got):
    pairs = [(a.astype(np.float64), b) for one, two in zip(reference, got) for a, b in zip(one, two) if a.dtype == np.float32]
    return 10 * np.log10(sum((a * a).sum() for a, _ in pairs) / max(sum(((a - b) ** 2).sum() for a, b in pairs), 1e-30))


# ---- small networks ----

def made(nodes, weights, inputs, outputs, opset):
    graph = helper.make_graph([helper.make_node(op, ins, outs, f"node_{outs[0]}", **attributes) for op, ins, outs, attributes in nodes], "g",
                              [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()],
                              [helper.make_tensor_value_info(name, 1, shape) for name, shape in outputs.items()],
                              [onnx.numpy_helper.from_array(data, name) for name, data in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def random(*shape):
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / 2).astype(np.float32)


def sizes_under_one_name():
    """Outputs of several sizes whose dimensions have one name."""
    nodes = [("Conv", ["x", "w"], ["c"], {}), ("Sigmoid", ["c"], ["a"], {}), ("MaxPool", ["a"], ["b"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
             ("Sigmoid", ["b"], ["d"], {}), ("MaxPool", ["d"], ["e"], {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Sigmoid", ["e"], ["f"], {})]
    return made(nodes, {"w": random(4, 1, 3, 3)}, {"x": ["N", 1, "H", "W"]}, {name: ["N", 4, "dim", "dim"] for name in ("a", "d", "f")}, 13)


def old_softmax():
    """Of operator set 9: Softmax of all dimensions from the second on, a bias that an Add adds, a grouped ConvTranspose with a bias."""
    nodes = [("Conv", ["x", "w"], ["c"], {}), ("Add", ["c", "b"], ["s"], {}), ("Relu", ["s"], ["r"], {}),
             ("ConvTranspose", ["r", "t", "u"], ["d"], {"group": 2}),
             ("GlobalAveragePool", ["d"], ["g"], {}), ("Softmax", ["g"], ["y"], {"axis": 1})]
    weights = {"w": random(4, 1, 3, 3), "b": random(4, 1, 1), "t": random(4, 2, 3, 3), "u": random(4)}
    return made(nodes, weights, {"x": [1, 1, 8, 8]}, {"y": [1, 4, 1, 1]}, 9)


def one_constant_twice():
    return made([("Mul", ["x", "c"], ["a"], {}), ("Mul", ["a", "c"], ["y"], {})], {"c": np.array([0.5], np.float32)}, {"x": [1, 1, 8, 8]},
                {"y": [1, 1, 8, 8]}, 17)


def wrong_size_declared():
    """A value whose declared shape is not its own, which ONNX Runtime passes over."""
    nodes = [("Concat", ["x", "x"], ["k"], {"axis": 2}), ("Transpose", ["k"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["x", "t"], ["y"], {})]
    model = made(nodes, {}, {"x": ["N", 1, "H", 8]}, {"y": ["N", 1, "H", "L"]}, 17)
    model.graph.value_info.append(helper.make_tensor_value_info("k", 1, [1, 1, 2, 3]))
    return model


SMALL = {"sizes_under_one_name": sizes_under_one_name, "old_softmax": old_softmax, "one_constant_twice": one_constant_twice}
QDQ_ALONE = {"wrong_size_declared": wrong_size_declared}  # what quantize_static makes of these does not load


def networks(path, small=SMALL):
    """Name, file and samples of each; its profile is path/p.json."""
    for name in REAL:
        profile(model_of(name), sources(name), path / "p.json", "--limit", "4")
        yield name, model_of(name), samples(name, 2)
    for name, make in subset(small.items()):
        onnx.save(make(), path / f"{name}.onnx")
        data = random(4, 1, 8, 8)
        np.save(path / "x.npy", data)
        profile(path / f"{name}.onnx", path / "x.npy", path / "p.json")
        yield name, path / f"{name}.onnx", [{"x": one[None]} for one in data]


# ---- QDQ ----

def test_qdq_loads_and_runs_optimised_and_not():
    """And where session.x64quantprecision=1 keeps it from loading, the export states it, and nowhere else."""
    refused = 0
    with folder() as path:
        for name, model, feeds in networks(path, {**SMALL, **QDQ_ALONE}):
            reference = run(model, feeds, fused=False)
            for kind in ("default", "int8", "by channel", "by operator"):
                calibrate(path, kind)
                if kind == "by operator" and not json.loads((path / "enc.json").read_text())["encodings"]:
                    continue
                said = export(path, model, "qdq", "q.onnx")
                decibels = [sqnr(reference, run(path / "q.onnx", feeds, fused)) for fused in (False, True)]
                assert min(decibels) > 8, f"{name}, {kind}: {decibels}"
                precise = loads_exact(path / "q.onnx")
                refused += not precise
                assert precise or "x64quantprecision" in said, f"{name}, {kind}: {said}"
                assert ("one scale" in said) == (kind == "by channel" and "by channel" in said), said
    print(f"  {refused} do not load under x64quantprecision=1")


# ---- the calibration cache ----

def as_told(path, model):
    asked = json.loads((path / "cache.json").read_text())["tidemark"]["quantize_static"]
    quantize_static(str(model), str(path / "theirs.onnx"), None, calibration_cache_path=str(path / "cache.json"),
                    activation_type=QuantType[asked["activation_type"]], weight_type=QuantType[asked["weight_type"]],
                    per_channel=asked["per_channel"], extra_options=asked["extra_options"],
                    op_types_to_quantize=asked["op_types_to_quantize"], nodes_to_exclude=asked["nodes_to_exclude"])
    return onnx.load(path / "theirs.onnx")


def quantized_for(model):
    """Operators that read what QuantizeLinear made, for each of these."""
    readers = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    pairs = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    return [{reader.op_type for real in readers.get(node.output[0], []) for reader in readers.get(real.output[0], [])} for node in pairs]


def test_quantize_static_accepts_the_arguments_of_the_cache(path):
    for name, model, feeds in networks(path):
        reference = run(model, feeds, fused=False)
        for kind in ("default", "uint16", "by operator"):
            calibrate(path, kind)
            if not json.loads((path / "enc.json").read_text())["encodings"]:
                continue
            export(path, model, "ort-cache", "cache.json")
            export(path, model, "qdq", "q.onnx")
            made_of = quantized_for(as_told(path, model))
            theirs, ours = (sqnr(reference, run(path / file, feeds)) for file in ("theirs.onnx", "q.onnx"))
            print(f"  {name}, {kind}: {theirs:.2f} dB of the cache, {ours:.2f} dB of --to qdq, {len(made_of)} pairs")
            assert made_of and theirs > min(ours - 6, 25), f"{name}, {kind}: {theirs} dB, {ours} dB by --to qdq"
            if kind == "by operator":
                assert all(ops & set(PRODUCTS) for ops in made_of), f"{name}: {made_of}"


def test_cache_covers_values_that_stay_float(path):
    """Also of what stays float."""
    for name, model, feeds in networks(path):
        calibrate(path, "by operator")
        if json.loads((path / "enc.json").read_text())["encodings"]:
            export(path, model, "ort-cache", "cache.json")
            quantize_static(str(model), str(path / "theirs.onnx"), None, calibration_cache_path=str(path / "cache.json"))
            assert run(path / "theirs.onnx", feeds), name


# ---- formats that change a file of the consumer's own ----

TEMPLATES = {"openvino": "openvino/twoconv.xml", "ncnn-int8": "ncnn/twoconv.param", "rknn": "rknn/twoconv.quantization.cfg"}


def test_written_and_skipped_encodings_add_up_with_a_template(path):
    examples = format_examples.folder()
    model = examples / "twoconv.onnx"
    profile(model, examples / "calib_x.npy", path / "p.json")
    for kind in KINDS:
        calibrate(path, kind)
        given = len(json.loads((path / "enc.json").read_text())["encodings"])
        for name, template in TEMPLATES.items():
            if not (examples / template).exists():  # recorded alone, not made
                continue
            (path / "out").mkdir()
            done = execute("export", path / "enc.json", "--model", model, "--to", name, "--template", examples / template, "-o",
                           path / "out" / template.split("/")[1], "--json", status=(0, 1))
            told, where = json.loads(done.stdout), f"{name}, {kind}: {done.stderr}"
            assert done.returncode == (0 if told["written"] else 1) and bool(told["written"]) == any((path / "out").iterdir()), where
            assert told["encodings"] == given == told["written"] + len(told["skipped"]), where
            assert all(skip["why"] for skip in told["skipped"]), where
            shutil.rmtree(path / "out")


main()
