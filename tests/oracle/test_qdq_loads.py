# SPDX-License-Identifier: Apache-2.0
"""Every exported QDQ model loads in ONNX Runtime, optimised and as written, is near the float network in both, and has inputs and
outputs of the same names and types as the model that was profiled. The latter holds for `transform` and `instrument`, too.

test_qdq_loads.py PROGRAM SOURCE_ROOT FEATURES
"""
import itertools
import json

from oracle import execute, folder, main, model_names, model_of, profile, samples, session, sources, subset, tidemark

import numpy as np
import onnx
import onnx.reference
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SEED, SAMPLES = 11, 12
FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}
# What `calibrate` is told.
SETTINGS = {
    "int8": ["--dtype", "int8"],
    "int8 symmetric": ["--dtype", "int8", "--scheme", "symmetric"],
    "uint8": ["--dtype", "uint8"],
    "uint8 by tensor": ["--dtype", "uint8", "--weights-per-tensor"],
    "int16": ["--dtype", "int16"],
    "everything": ["--dtype", "int8", "--sensitive=quantize"],
}
LEAST = 30  # decibels; weights have 8 bits in each


class Maker:
    """Nodes and constants of one floating type."""

    def __init__(self, dtype):
        self.dtype, self.rng, self.nodes, self.stored = dtype, np.random.default_rng(SEED), [], []

    def const(self, array, dtype=None):
        self.stored.append(numpy_helper.from_array(np.asarray(array).astype(dtype or self.dtype), f"c{len(self.stored)}"))
        return self.stored[-1].name

    def weight(self, *shape):
        fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        return self.const(self.rng.standard_normal(shape) / np.sqrt(fan_in))

    def bias(self, n):
        return self.const(0.3 * self.rng.standard_normal(n))

    def __call__(self, op, *inputs, out=None, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [out or f"v{len(self.nodes)}"], name=f"n{len(self.nodes)}", **attributes))
        return self.nodes[-1].output[0]

    def model(self, shape, outputs, opset):
        kind = FLOATS[self.dtype]
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", kind, shape)],
                                  [helper.make_tensor_value_info(name, kind, None) for name in outputs], self.stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model)


# ---- networks: (shape of x, names of outputs) ----

def dense(net):
    """MatMul of three axes and a bias behind it, on either side of Add."""
    at = net("Relu", net("Add", net("MatMul", "x", net.weight(6, 16)), net.bias(16)))
    at = net("Relu", net("Add", net.bias(8), net("MatMul", at, net.weight(16, 8))))
    net("Add", net("MatMul", at, net.weight(8, 5)), net.bias(5), out="y")
    return (1, 7, 6), ["y"]


def dense_of_four(net):
    at = net("Relu", net("Add", net("MatMul", "x", net.weight(6, 16)), net.bias(16)))
    net("Add", net("MatMul", at, net.weight(16, 5)), net.bias(5), out="y")
    return (1, 2, 7, 6), ["y"]


def dense_to_one(net):
    """One result a position; and biases that are rows, or one number for all channels."""
    at = net("Relu", net("Add", net("MatMul", "x", net.weight(6, 16)), net.bias((1, 16))))
    at = net("Relu", net("Add", net("MatMul", at, net.weight(16, 8)), net.bias(1)))
    net("Add", net("MatMul", at, net.weight(8, 1)), net.bias(1), out="y")
    return (1, 7, 6), ["y"]


def shared_biases(net):
    """Two layers have one bias, which the second reads behind an Identity, as exporters write it."""
    bias = net.bias(6)
    at = net("Relu", net("Add", net("MatMul", "x", net.weight(6, 6)), bias))
    net("Add", net("MatMul", at, net.weight(6, 6)), net("Identity", bias), out="y")
    return (1, 7, 6), ["y"]


def moved(net):
    """What moves codes, for readers in float, and for the end of the network."""
    at = net("MaxPool", net("Conv", "x", net.weight(8, 3, 3, 3), net.bias(8), pads=[1, 1, 1, 1]), kernel_shape=[3, 3])
    at = net("Transpose", net("Reshape", at, net.const([0, 0, -1], np.int64)), perm=[0, 2, 1])
    at = net("Unsqueeze", net("Slice", at, *(net.const([n], np.int64) for n in (0, 6, 2))), net.const([1], np.int64))
    net("Exp", net("Squeeze", at, net.const([1], np.int64), out="z"), out="y")
    return (1, 3, 9, 9), ["y", "z"]


def matrices(net):
    at = net("Relu", net("Add", net("MatMul", "x", net.weight(6, 16)), net.bias(16)))
    net("Gemm", at, net.weight(16, 5), net.bias(5), out="y")
    return (1, 6), ["y"]


def convolutions(net):
    at = net("Relu", net("Conv", "x", net.weight(8, 3, 3, 3), net.bias(8), pads=[1, 1, 1, 1]), out="features")
    at = net("Flatten", net("GlobalAveragePool", net("Add", net("Conv", at, net.weight(8, 8, 1, 1)), at)))
    net("Gemm", at, net.weight(8, 5), net.bias(5), out="y")
    return (1, 3, 9, 9), ["features", "y"]


def returned(net):
    """A value inside, and a copy of it."""
    at = net("Relu", net("MatMul", "x", net.weight(6, 8)), out="hidden")
    net("Identity", at, out="copy")
    net("MatMul", at, net.weight(8, 5), out="y")
    return (1, 6), ["y", "hidden", "copy"]


def normalized(net):
    at = net("Conv", "x", net.weight(8, 3, 3, 3), net.bias(8))
    moments = net.const(np.linspace(.5, 1.5, 8)), net.bias(8), net.bias(8), net.const(np.linspace(.5, 2, 8))
    net("Conv", net("Relu", net("BatchNormalization", at, *moments)), net.weight(5, 8, 1, 1), out="y")
    return (1, 3, 9, 9), ["y"]


def rounding(net):
    """Results of Cast and its like in half precision, read as such and as float32, here and in a branch; some leave its range."""
    half, brain, wide = (dict(to=kind) for kind in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT))
    at = net("Cast", net("Cast", net("MatMul", "x", net.weight(6, 8)), **half), **wide)
    at = net("Add", at, net("Cast", net("CastLike", at, net.const(1, np.float16)), **wide))
    moved = net("Transpose", net("Cast", at, out="in_half", **half), perm=[1, 0])
    at = net("Add", at, net("Cast", net("Transpose", moved, perm=[1, 0]), **wide))
    large = net("Cast", net("Cast", net("Mul", at, net.const(1e5)), **half), **wide)
    at = net("Add", net("Clip", large, net.const(-7e4), net.const(7e4)), net("Cast", net("Cast", at, **brain), **wide))
    branch = helper.make_graph([helper.make_node("Cast", [at], ["b"], **half), helper.make_node("Cast", ["b"], ["c"], **wide)], "branch", [],
                               [helper.make_tensor_value_info("c", TensorProto.FLOAT, None)])
    net("If", net.const(True, bool), then_branch=branch, else_branch=branch, out="y")
    return (4, 6), ["y"]


NETWORKS = (dense, dense_of_four, dense_to_one, shared_biases, matrices, convolutions, returned)


def make(path, network, dtype, opset):
    net = Maker(dtype)
    shape, outputs = network(net)
    onnx.save(net.model(shape, outputs, opset), path / "model.onnx")
    feeds = [{"x": np.random.default_rng(SEED + i).standard_normal(shape).astype(dtype)} for i in range(SAMPLES)]
    np.savez(path / "data.npz", x=np.concatenate([feed["x"] for feed in feeds]))
    return feeds


# ---- what must hold ----

def ends(model):
    """Names and element types of inputs and outputs."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [[(value.name, value.type.tensor_type.elem_type) for value in values if value.name not in stored]
            for values in (model.graph.input, model.graph.output)]


def run(path, feeds, optimised):
    made = session(path, fused=optimised)
    return [made.run(None, feed) for feed in feeds]


def reference(model, feeds):
    """ONNX Runtime has no double Conv."""
    try:
        made = session(model)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        made = onnx.reference.ReferenceEvaluator(str(model))
    return [made.run(None, feed) for feed in feeds]


def decibels(wanted, got):
    signal = noise = 0.0
    for one, two in zip(wanted, got):
        for a, b in zip(one, two):
            if a.dtype.kind == "f":
                assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
                signal += float((a.astype(np.float64) ** 2).sum())
                noise += float(((a.astype(np.float64) - b.astype(np.float64)) ** 2).sum())
    return 10 * np.log10(signal / noise) if noise else float("inf")


def export(path, model, words):
    tidemark("calibrate", path / "profile.json", "--quiet", "-o", path / "enc.json", *words)
    tidemark("export", path / "enc.json", "--model", model, "--to", "qdq", "-o", path / "qdq.onnx")
    return path / "qdq.onnx"


def check(path, model, feeds, words, label):
    """Decibels, optimised and as written."""
    made = export(path, model, words)
    onnx.checker.check_model(str(made), full_check=True)
    assert ends(onnx.load(made)) == ends(onnx.load(model)), f"{label}: {ends(onnx.load(made))}, wanted {ends(onnx.load(model))}"
    wanted = reference(model, feeds)
    return [decibels(wanted, run(made, feeds, optimised)) for optimised in (True, False)]


def test_networks_of_all_types():
    for network, (dtype, opset) in subset(
            itertools.product(NETWORKS, (("float32", 13), ("float32", 21), ("float16", 21), ("float64", 13))), 5):
        with folder() as path:
            feeds = make(path, network, dtype, opset)
            profile(path / "model.onnx", path / "data.npz", path / "profile.json")
            worst = {}
            for name, words in SETTINGS.items() if dtype == "float32" else (("uint8", SETTINGS["uint8"]), ("int16", SETTINGS["int16"])):
                label = f"{network.__name__} {dtype}, operator set {opset}, {name}"
                found = check(path, path / "model.onnx", feeds, words, label)
                worst[name] = f"{min(found):.1f}"
                assert min(found) > LEAST, f"{label}: {found} dB"
            print(f"{network.__name__} {dtype}, operator set {opset}: {worst} dB")


def check_rules(path, feeds, matches, label):
    """What matches stays float, everything else gets int8."""
    (path / "config.json").write_text(json.dumps({"rules": [{"match": match, "quantize": False} for match in matches]}))
    words = ["--dtype", "int8", "--sensitive=quantize", "--config", path / "config.json"]
    found = check(path, path / "model.onnx", feeds, words, label)
    assert min(found) > LEAST, f"{label}: {found} dB"


def test_codes_pass_to_float_readers():
    """With int8, ONNX Runtime's own pairs behind such operators keep a file of operator set 21 from loading."""
    for opset in (13, 21):
        with folder() as path:
            feeds = make(path, moved, "float32", opset)
            profile(path / "model.onnx", path / "data.npz", path / "profile.json")
            nodes = [node for node in onnx.load(path / "model.onnx").graph.node if node.op_type not in ("Conv", "Exp")]
            for count in range(len(nodes) + 1):  # the first are quantized
                matches = [{"name": node.output[0]} for node in nodes[count:]]
                check_rules(path, feeds, matches, f"{count} moved, operator set {opset}")


def test_float_additions_behind_products():
    """Of which it would make a Gemm, and move codes to it."""
    for network, opset in itertools.product((dense, dense_to_one, shared_biases), (13, 21)):
        with folder() as path:
            feeds = make(path, network, "float32", opset)
            profile(path / "model.onnx", path / "data.npz", path / "profile.json")
            check_rules(path, feeds, [{"op": "Add"}], f"{network.__name__}, operator set {opset}")


def test_quantize_keeps_types():
    """With a BatchNormalization, which `quantize` folds in a file of its own."""
    for dtype in FLOATS:
        with folder() as path:
            feeds = make(path, normalized, dtype, 17)
            tidemark("quantize", path / "model.onnx", "--data", path / "data.npz", "-o", path / "qdq.onnx", "--folded", path / "folded.onnx")
            for name in ("qdq.onnx", "folded.onnx"):
                assert ends(onnx.load(path / name)) == ends(onnx.load(path / "model.onnx")), (name, ends(onnx.load(path / name)))
            found = decibels(reference(path / "model.onnx", feeds), run(path / "qdq.onnx", feeds, True))
            print(f"{dtype}: {found:.1f} dB")
            assert found > LEAST


def test_transform_and_instrument_keep_types():
    """Of what they made, too."""
    for network, dtype in itertools.product((dense, returned, normalized), FLOATS):
        with folder() as path:
            feeds = make(path, network, dtype, 17)
            wanted = reference(path / "model.onnx", feeds)
            tidemark("transform", path / "model.onnx", "--passes", "all", "-o", path / "passed.onnx", "--lineage", path / "lineage.json")
            tidemark("instrument", path / "model.onnx", "-o", path / "observed.onnx")
            tidemark("transform", path / "observed.onnx", "--passes", "all", "-o", path / "both.onnx")
            tidemark("transform", path / "passed.onnx", "--passes", "all", "-o", path / "twice.onnx")
            for name in ("passed", "observed", "both", "twice"):
                made = path / f"{name}.onnx"
                label = f"{network.__name__} {dtype}, {name}"
                onnx.checker.check_model(str(made), full_check=True)
                assert ends(onnx.load(made)) == ends(onnx.load(path / "model.onnx")), f"{label}: {ends(onnx.load(made))}"
                found = decibels(wanted, run(made, feeds, True))
                print(f"{label}: {found:.1f} dB")
                assert found > (60 if dtype == "float16" else 100), f"{label}: {found} dB"


def test_rounding_stays():
    """In every file that is written of a network: the same bits come out of it, and of what is made of that in turn."""
    with folder() as path:
        model, data = path / "model.onnx", path / "data.npz"
        feeds = make(path, rounding, "float32", 17)
        wanted = reference(model, feeds)
        profile(model, data, path / "profile.json")
        rules = [{"match": {"kind": kind}, "quantize": False} for kind in ("activation", "weight")]
        (path / "config.json").write_text(json.dumps({"rules": rules}))
        tidemark("calibrate", path / "profile.json", "--quiet", "-o", path / "enc.json", "--config", path / "config.json")
        tidemark("export", path / "enc.json", "--model", model, "--to", "qdq", "-o", path / "qdq.onnx")
        tidemark("instrument", model, "-o", path / "observed.onnx")
        tidemark("transform", model, "--passes", "all", "-o", path / "passed.onnx", "--lineage", path / "lineage.json")
        tidemark("transform", path / "passed.onnx", "--passes", "all", "-o", path / "again.onnx")
        for name in ("qdq", "observed", "passed", "again"):
            made = path / f"{name}.onnx"
            onnx.checker.check_model(str(made), full_check=True)
            assert np.array_equal(wanted, run(made, feeds, False)), name
        casts = [sum(node.op_type == "Cast" for node in onnx.load(path / f"{name}.onnx").graph.node) for name in ("passed", "again")]
        assert casts[0] == casts[1], casts
        read = json.loads(tidemark("graph", path / "passed.onnx", "--json"))["values"]
        written = json.loads((path / "lineage.json").read_text())["values"]
        assert {value["id"]: value["name"] for value in written} == {value["id"]: value["name"] for value in read}


def test_cache_of_a_half_model_is_remarked_on():
    for dtype in ("float16", "float32"):
        with folder() as path:
            make(path, dense, dtype, 17)
            profile(path / "model.onnx", path / "data.npz", path / "profile.json")
            tidemark("calibrate", path / "profile.json", "--quiet", "-o", path / "enc.json")
            said = execute("export", path / "enc.json", "--model", path / "model.onnx", "--to", "ort-cache", "-o", path / "cache.json").stderr
            assert ("float16" in said) == (dtype == "float16"), said


def test_models():
    for name in model_names():
        with folder() as path:
            profile(model_of(name), sources(name), path / "profile.json", "--limit", 8)
            found = check(path, model_of(name), samples(name, 4), ["--dtype", "int8"], name)
            print(f"{name}: {found[0]:.1f} dB optimised, {found[1]:.1f} dB as written")


main()
