# SPDX-License-Identifier: Apache-2.0
"""What `calibrate` leaves float by default: patterns in small networks whose nodes and values have meaningless names, and what it is
worth, run by ONNX Runtime.

test_patterns.py PROGRAM SOURCE_ROOT FEATURES
"""
import json
import math

from oracle import folder, main, refused, session, subset, tidemark

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED, SAMPLES = 5, 24


class Network:
    """A chain of nodes; `at` is the value that the next node reads. Nodes that are given a pattern are those that it must have."""

    def __init__(self, shape):
        self.nodes, self.stored, self.wanted, self.rng = [], [], {}, np.random.default_rng(SEED)
        self.shape, self.pattern, self.at = shape, None, "x"

    def const(self, *numbers, dtype=np.float32, array=None):
        name = f"c{len(self.stored)}"
        array = np.array(numbers[0] if len(numbers) == 1 else numbers, dtype) if array is None else array.astype(dtype)
        self.stored.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape):
        array = self.rng.standard_normal(shape) / math.sqrt(shape[0] if len(shape) == 2 else np.prod(shape[1:]))
        return self.const(array=array * np.exp(0.5 * self.rng.standard_normal(shape[-1] if len(shape) == 2 else (shape[0], 1, 1, 1))))

    def add(self, op, *inputs, outputs=1, **attributes):
        inputs, names = list(inputs) or [self.at], [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        if self.pattern:
            self.wanted[self.nodes[-1].name] = self.pattern
        self.at = names[0]
        return names if outputs > 1 else names[0]

    def dense(self, n, m):
        with_bias, self.pattern = self.pattern, None
        self.add("MatMul", self.at, self.weights(n, m))
        self.add("Add", self.at, self.const(array=0.1 * self.rng.standard_normal(m)))
        self.pattern = with_bias
        return self.at

    def save(self, path):
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *self.shape])]
        outputs = [helper.make_tensor_value_info(self.at, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(model, path)


# ---- what must be found ----

def layer_norm(net):
    net.dense(16, 16)
    x, net.pattern = net.at, "layer-norm"
    mean = net.add("ReduceMean", x, axes=[-1])
    centred = net.add("Sub", x, mean)
    net.add("Pow", centred, net.const(2.0))
    net.add("ReduceMean", net.at, axes=[-1])
    net.add("Add", net.at, net.const(1e-5))
    root = net.add("Sqrt")
    net.add("Div", centred, root)
    net.add("Mul", net.at, net.const(array=np.exp(net.rng.standard_normal(16))))
    net.add("Add", net.at, net.const(array=net.rng.standard_normal(16)))


def layer_norm_of_sums(net):
    """mean(x^2) - mean(x)^2, by sums and products with 1 / n."""
    net.dense(16, 16)
    x, n, net.pattern = net.at, net.const(1 / 16), "layer-norm"
    axes = net.const(-1, dtype=np.int64, array=np.array([-1]))
    mean = net.add("Mul", net.add("ReduceSum", x, axes), n)
    squares = net.add("Mul", net.add("ReduceSum", net.add("Mul", x, x), axes), n)
    net.add("Sub", squares, net.add("Mul", mean, mean))
    net.add("Max", net.at, net.const(0.0))
    net.add("Add", net.at, net.const(1e-5))
    root = net.add("Reciprocal", net.add("Sqrt"))
    gain = net.add("Mul", root, net.const(array=np.exp(net.rng.standard_normal(16))))
    net.add("Mul", net.add("Sub", x, mean), gain)


def rms_norm(net):
    net.dense(16, 16)
    x, net.pattern = net.at, "rms-norm"
    net.add("Mul", x, x)
    net.add("ReduceMean", net.at, axes=[-1])
    net.add("Add", net.at, net.const(1e-5))
    root = net.add("Reciprocal", net.add("Sqrt"))
    net.add("Mul", x, root)
    net.add("Mul", net.const(array=np.exp(net.rng.standard_normal(16))), net.at)


def gelu_erf(net):
    x = net.dense(16, 16)
    net.pattern = "gelu"
    net.add("Erf", net.add("Div", x, net.const(2 ** 0.5)))
    net.add("Mul", x, net.add("Add", net.at, net.const(1.0)))
    net.add("Mul", net.at, net.const(0.5))


def gelu_tanh(net):
    x = net.dense(16, 16)
    net.pattern = "gelu"
    cube = net.add("Mul", net.add("Pow", x, net.const(3.0)), net.const(0.044715))
    net.add("Tanh", net.add("Mul", net.add("Add", x, cube), net.const((2 / math.pi) ** 0.5)))
    gate = net.add("Add", net.at, net.const(1.0))
    net.add("Mul", net.add("Mul", x, net.const(0.5)), gate)


def silu(net):
    x = net.dense(16, 16)
    net.pattern = "silu"
    net.add("Mul", x, net.add("Sigmoid", x))


def hard_swish(net):
    x = net.dense(16, 16)
    net.pattern = "hard-swish"
    net.add("Clip", net.add("Add", x, net.const(3.0)), net.const(0.0), net.const(6.0))
    net.add("Mul", x, net.add("Div", net.at, net.const(6.0)))


def attention(net):
    """Its own Softmax, spelt out."""
    x = net.at
    q, k, v = (net.add("MatMul", x, net.weights(16, 16)) for _ in range(3))
    net.add("Reshape", q, net.const(0, 4, 4, dtype=np.int64))
    q = net.at
    k = net.add("Transpose", net.add("Reshape", k, net.const(0, 4, 4, dtype=np.int64)), perm=[0, 2, 1])
    v = net.add("Reshape", v, net.const(0, 4, 4, dtype=np.int64))
    scores = net.add("MatMul", q, k)
    net.pattern = "attention"
    net.add("Mul", scores, net.const(0.5))
    masked = net.add("Add", net.at, net.const(array=np.triu(np.full((4, 4), -8.0), 1)))
    net.pattern = "softmax"
    most = net.add("ReduceMax", masked, axes=[-1])
    power = net.add("Exp", net.add("Sub", masked, most))
    total = net.add("ReduceSum", power, net.const(array=np.array([-1]), dtype=np.int64))
    net.add("Div", power, total)
    net.pattern = None
    net.add("Reshape", net.add("MatMul", net.at, v), net.const(0, 16, dtype=np.int64))


def input_norm(net):
    net.pattern = "input-norm"
    net.add("Div", net.add("Sub", net.at, net.const(0.5)), net.const(0.25))
    net.pattern = None
    net.dense(16, 16)


def spectrum(net):
    """Cosines and sines, squared, summed, weighted, logarithm."""
    k = np.arange(9)[:, None] * np.arange(16)[None] * 2 * math.pi / 16
    net.pattern = "spectrum"
    parts = net.add("MatMul", net.at, net.const(array=np.concatenate([np.cos(k), np.sin(k)]).T))
    halves = [net.add("Slice", parts, *(net.const(array=np.array([at]), dtype=np.int64) for at in (low, low + 9, 1)))
              for low in (0, 9)]
    squares = [net.add("Pow", half, net.const(2.0)) for half in halves]
    net.add("MatMul", net.add("Add", *squares), net.const(array=np.abs(net.rng.standard_normal((9, 16)))))
    net.add("Log", net.add("Clip", net.at, net.const(1e-6)))
    net.pattern = None
    net.dense(16, 16)


def box_decode(net):
    net.dense(16, 64)
    net.add("Reshape", net.at, net.const(0, 16, 4, dtype=np.int64))
    ends = [net.const(array=np.array([at]), dtype=np.int64) for at in (0, 2, 4)]
    axis = net.const(array=np.array([2]), dtype=np.int64)
    parts = net.at
    centre = net.add("Slice", parts, ends[0], ends[1], axis)
    size = net.add("Slice", parts, ends[1], ends[2], axis)
    net.pattern = "box-decode"
    centre = net.add("Add", centre, net.const(array=np.stack(np.mgrid[:4, :4], -1).reshape(1, 16, 2)))
    size = net.add("Exp", size)
    net.pattern = None
    net.add("Concat", centre, size, axis=2)


def index(net):
    x = net.dense(16, 16)
    net.pattern = "index"
    scores = net.add("Mul", x, net.const(3.0))
    values, _ = net.add("TopK", scores, net.const(array=np.array([4]), dtype=np.int64), outputs=2)
    net.at = values


def maths(net):
    net.dense(16, 16)
    net.pattern = "math"
    net.add("Reciprocal", net.add("Exp"))


CASES = [layer_norm, layer_norm_of_sums, rms_norm, gelu_erf, gelu_tanh, silu, hard_swish, attention, input_norm, spectrum, box_decode,
         index, maths]


def case(make, path):
    """The network, saved and profiled."""
    net = Network([16])
    make(net)
    net.pattern = None
    if make is not box_decode and make is not index:
        net.dense(16, 8)
    net.save(path / "m.onnx")
    rng = np.random.default_rng(SEED + 1)
    np.save(path / "a.npy", rng.standard_normal((SAMPLES, 16)).astype(np.float32))
    np.save(path / "b.npy", rng.standard_normal((SAMPLES, 16)).astype(np.float32))
    tidemark("profile", path / "m.onnx", "--data", path / "a.npy", "-o", path / "p.json", "-q")
    return net


def test_each_pattern_is_found():
    for make in subset(CASES, 2):
        with folder() as path:
            net = case(make, path)
            rows = json.loads(tidemark("show", path / "p.json", "--patterns", "--json"))
            found = {row["node"]: row["pattern"] for row in rows}
            assert found == net.wanted, (make.__name__, found, net.wanted)
            assert len({row["occurrence"] for row in rows}) == len(set(net.wanted.values())), make.__name__
            assert all(row["pattern"] in tidemark("show", path / "p.json", "--patterns") for row in rows)


def plain(net):
    """Products, biases, clipping and moves: nothing of a pattern."""
    net.dense(16, 32)
    net.add("Relu")
    net.add("Reshape", net.at, net.const(0, 2, 16, dtype=np.int64))
    net.dense(16, 8)
    net.add("Clip", net.at, net.const(0.0), net.const(6.0))
    net.add("Add", net.at, net.at)
    net.add("Reshape", net.at, net.const(0, 16, dtype=np.int64))


def test_nothing_is_found_where_nothing_is():
    with folder() as path:
        case(plain, path)
        assert json.loads(tidemark("show", path / "p.json", "--patterns", "--json")) == []


def encodings(path, *words):
    tidemark("calibrate", path / "p.json", "-q", "--method", "minmax", "-o", path / "e.json", *words)
    made = json.loads((path / "e.json").read_text())
    return {item["name"] for item in made["encodings"]}, {item["name"]: item["reason"] for item in made["left"]}


def test_reasons_and_rules():
    with folder() as path:
        net = case(gelu_erf, path)
        erf, relu = "v2_0", "v3_0"
        items, left = encodings(path)
        assert "pattern gelu" in left[erf] and erf not in items, left
        assert "output of the model" in left[net.at]
        assert left[net.nodes[0].output[0]].startswith("the accumulator")
        items, left = encodings(path, "--sensitive=quantize")
        assert {erf, relu, net.at} <= items
        (path / "c.json").write_text(json.dumps({"sensitive": "quantize"}))
        assert encodings(path, "--config", path / "c.json") == (items, left)
        rule = {"match": {"pattern": "gelu"}, "quantize": True}
        (path / "c.json").write_text(json.dumps({"rules": [rule]}))
        again, _ = encodings(path, "--config", path / "c.json")
        assert {erf, relu} <= again and net.at not in again
        (path / "c.json").write_text(json.dumps({"rules": [{**rule, "quantize": False}]}))
        items, left = encodings(path, "--sensitive=quantize", "--config", path / "c.json")
        assert erf not in items and "rules[0]" in left[erf] and net.at in items
        for config, text in (({"rules": [{"match": {"pattern": "gelo"}, "quantize": True}]}, "gelu"), ({"sensitive": "no"}, "sensitive")):
            (path / "c.json").write_text(json.dumps(config))
            refused(["calibrate", path / "p.json", "-o", path / "e.json", "--config", path / "c.json"], text)


def test_movers_follow_their_neighbours():
    """Moves and clips are quantized between two products, and float before a reader that is."""
    with folder() as path:
        net = Network([16])
        net.dense(16, 16)
        between = net.add("Relu")
        net.dense(16, 16)
        before = net.add("Relu")
        net.add("Tanh")
        net.dense(16, 4)
        net.save(path / "m.onnx")
        np.save(path / "a.npy", np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32))
        tidemark("profile", path / "m.onnx", "--data", path / "a.npy", "-o", path / "p.json", "-q")
        items, left = encodings(path)
        assert between in items
        assert before not in items and "pattern math" in left[before], left
        relu_reads = net.nodes[4].output[0]
        assert relu_reads not in items and "only float operators read" in left[relu_reads], left


def decibels(path, *words):
    encodings(path, *words)
    tidemark("export", path / "e.json", "--model", path / "m.onnx", "--to", "qdq", "-o", path / "q.onnx", "-q")
    x = np.load(path / "b.npy")
    wanted, got = (session(path / name).run(None, {"x": x})[0].astype(np.float64) for name in ("m.onnx", "q.onnx"))
    return 10 * math.log10((wanted ** 2).sum() / max(((wanted - got) ** 2).sum(), 1e-30))


def test_it_is_better_on_samples_not_seen():
    for make in (layer_norm, layer_norm_of_sums, rms_norm, gelu_erf, gelu_tanh, silu, attention, spectrum):
        with folder() as path:
            case(make, path)
            left, quantized = decibels(path), decibels(path, "--sensitive=quantize")
            print(f"{make.__name__}: {left:.1f} dB, all operators {quantized:.1f}")
            assert left > quantized + 0.5, (make.__name__, left, quantized)


main()
