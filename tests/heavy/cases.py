# SPDX-License-Identifier: Apache-2.0
"""A folder of networks, each with samples to calibrate on and others to check with; and small ones that are made without PyTorch.

FOLDER/NAME has model.onnx, calibrate/ and check/ (test_data_set_N/input_M.pb each, in the order of the model's inputs).
"""
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper


def inputs_of(model):
    """Names of the inputs that are not initializers repeated, as old files do."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in stored]


def write(folder, name, model, calibrate, check):
    """model: a ModelProto or a path; the others: lists of feeds."""
    target = Path(folder) / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    proto = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
    for kind, feeds in (("calibrate", calibrate), ("check", check)):
        for i, feed in enumerate(feeds):
            path = target / kind / f"test_data_set_{i}"
            path.mkdir(parents=True)
            for k, key in enumerate(inputs_of(proto)):
                array = np.asarray(feed[key], order="C")
                (path / f"input_{k}.pb").write_bytes(numpy_helper.from_array(array, key).SerializeToString())
    onnx.save(proto, target / "unfinished")
    (target / "unfinished").rename(target / "model.onnx")


def read(folder, name, kind):
    """The feeds that `write` was given."""
    inputs = inputs_of(onnx.load(Path(folder) / name / "model.onnx"))
    sets = sorted((Path(folder) / name / kind).glob("test_data_set_*"), key=lambda path: int(path.name.rsplit("_", 1)[1]))
    def load(path):
        return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    return [{key: load(path / f"input_{k}.pb") for k, key in enumerate(inputs)} for path in sets]


def halves(feeds):
    """Every other sample calibrates, those between check."""
    return feeds[::2], feeds[1::2]


# ---- small networks ----

FEEDS = 48


class Builder:
    """A graph, node by node; weights come from a seeded generator."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers = [], []

    def weight(self, *shape, scale=None):
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 16
        scale = scale or (1.4 / np.sqrt(fan_in))
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, array):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def __call__(self, kind, *operands, n=1, out=None, **attributes):
        outs = [out] if out else [f"{kind.lower()}{len(self.nodes)}" + (f"_{i}" if n > 1 else "") for i in range(n)]
        self.nodes.append(helper.make_node(kind, list(operands), outs, f"n{len(self.nodes)}_{kind}", **attributes))
        return outs[0] if n == 1 else outs

    def model(self, inputs, outputs, opset=17):
        """inputs, outputs: {name: shape} of float32; a pair (shape, type) for others."""
        def infos(table):
            pairs = {key: value if isinstance(value, tuple) else (value, onnx.TensorProto.FLOAT) for key, value in table.items()}
            return [helper.make_tensor_value_info(key, kind, shape) for key, (shape, kind) in pairs.items()]
        graph = helper.make_graph(self.nodes, "small", infos(inputs), infos(outputs), self.initializers)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.checker.check_model(made)
        return made


def _batch_norm(add, x, channels):
    values = [add.constant(v.astype(np.float32)) for v in (add.rng.uniform(.5, 1.5, channels), add.rng.normal(0, .2, channels),
                                                          add.rng.normal(0, .2, channels), add.rng.uniform(.5, 1.5, channels))]
    return add("BatchNormalization", x, *values)


def residual_network():
    """Convolutions with and without normalization, a residual addition, Concat, pools: what image networks are made of."""
    add = Builder(1)
    x = add("Relu", add("Conv", "x", add.weight(8, 3, 3, 3), add.weight(8), pads=[1] * 4))
    y = add("Relu", _batch_norm(add, add("Conv", x, add.weight(8, 8, 3, 3), pads=[1] * 4), 8))
    y = _batch_norm(add, add("Conv", y, add.weight(8, 8, 3, 3), pads=[1] * 4), 8)
    x = add("Relu", add("Add", x, y))
    y = add("Clip", add("Conv", x, add.weight(8, 1, 3, 3), group=8, pads=[1] * 4), add.constant(np.float32(0)), add.constant(np.float32(6)))
    x = add("Concat", x, add("MaxPool", y, kernel_shape=[3, 3], pads=[1] * 4), axis=1)
    x = add("Flatten", add("GlobalAveragePool", x))
    add("Softmax", add("Gemm", x, add.weight(10, 16, scale=.5), add.weight(10), transB=1), out="y")
    return add.model({"x": ["N", 3, 16, 16]}, {"y": ["N", 10]}), [{"x": smooth(add.rng, 1, 3, 16)} for _ in range(FEEDS)]


def masked_attention():
    """An encoder's layer with an additive mask of -inf-like numbers: LayerNormalization, MatMul with Add, Softmax, Erf."""
    add, width = Builder(2), 32
    def dense(x, into, out):
        return add("Add", add("MatMul", x, add.weight(into, out, scale=into ** -.5)), add.weight(out))
    def heads(x, perm):
        return add("Transpose", add("Reshape", x, add.constant(np.array([0, 0, 4, width // 4]))), perm=perm)
    def norm(x):
        return add("LayerNormalization", x, add.constant(np.ones(width, np.float32)), add.weight(width))
    x = norm(add("Gather", add.weight(40, width, scale=1.), "ids"))
    wide = add("Mul", add("Sub", add.constant(np.float32(1)), "mask"), add.constant(np.float32(-3.4028235e38)))
    mask = add("Unsqueeze", wide, add.constant(np.array([1, 2])))
    scores = add("MatMul", heads(dense(x, width, width), [0, 2, 1, 3]), heads(dense(x, width, width), [0, 2, 3, 1]))
    scores = add("Softmax", add("Add", add("Div", scores, add.constant(np.float32(8 ** .5))), mask))
    y = add("Transpose", add("MatMul", scores, heads(dense(x, width, width), [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    x = norm(add("Add", x, dense(add("Reshape", y, add.constant(np.array([0, 0, width]))), width, width)))
    y = dense(x, width, 64)
    y = add("Mul", add("Mul", y, add("Add", add("Erf", add("Div", y, add.constant(np.float32(2 ** .5)))),
                                     add.constant(np.float32(1)))), add.constant(np.float32(.5)))
    add("Identity", norm(add("Add", x, dense(y, 64, width))), out="y")
    feeds = []
    for i in range(FEEDS):
        mask = (np.arange(12) < 12 - i % 4).astype(np.float32)[None]
        feeds.append({"ids": add.rng.integers(0, 40, (1, 12)), "mask": mask})
    return add.model({"ids": (["N", "L"], onnx.TensorProto.INT64), "mask": ["N", "L"]}, {"y": ["N", "L", width]}), feeds


def any_size():
    """Free height and width, several outputs, Resize, Slice, Shape arithmetic; operator set 11; no names of nodes."""
    add = Builder(3)
    x = add("Relu", add("Conv", "x", add.weight(8, 3, 3, 3), add.weight(8), strides=[2, 2], pads=[1] * 4))
    down = add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = add("LeakyRelu", add("Conv", down, add.weight(8, 8, 1, 1), add.weight(8)))
    up = add("Resize", y, add.constant(np.zeros(0, np.float32)), add.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric")
    merged = add("Add", x, up)
    for source, name in ((merged, "fine"), (y, "coarse")):
        head = add("Transpose", add("Conv", source, add.weight(4, 8, 3, 3), pads=[1] * 4), perm=[0, 2, 3, 1])
        size = add("Unsqueeze", add("Gather", add("Shape", head), add.constant(np.array(0)), axis=0), axes=[0])
        flat = add("Reshape", head, add("Concat", size, add.constant(np.array([-1, 4])), axis=0))
        add("Sigmoid", flat, out=name)
    for node in add.nodes:
        node.name = ""
    sizes = [(16, 16), (16, 24), (24, 16), (32, 32)]
    model = add.model({"x": ["N", 3, "H", "W"]}, {"fine": ["N", "cells", 4], "coarse": ["N", "cells", 4]}, opset=11)
    return model, [{"x": smooth(add.rng, 1, 3, *sizes[i % 4])} for i in range(FEEDS)]


def recurrent():
    """LSTM and GRU between dense layers."""
    add, steps, width = Builder(4), 6, 16
    x = add("Add", add("MatMul", "x", add.weight(20, width, scale=.3)), add.weight(width))
    x, _, _ = add("LSTM", add("Tanh", x), add.weight(1, 64, width, scale=.3), add.weight(1, 64, 16, scale=.3), add.weight(1, 128),
                  hidden_size=16, n=3)
    x = add("Squeeze", x, add.constant(np.array([1])))
    x, _ = add("GRU", x, add.weight(1, 48, 16, scale=.3), add.weight(1, 48, 16, scale=.3), hidden_size=16, n=2)
    x = add("Squeeze", x, add.constant(np.array([1])))
    add("Sigmoid", add("Add", add("MatMul", x, add.weight(16, 20, scale=.5)), add.weight(20)), out="y")
    model = add.model({"x": [steps, 1, 20]}, {"y": [steps, 1, 20]})
    return model, [{"x": add.rng.standard_normal((steps, 1, 20)).astype(np.float32)} for _ in range(FEEDS)]


def smooth(rng, batch, channels, height, width=None):
    """Pictures: coarse noise enlarged, fine noise added."""
    width = width or height
    coarse = rng.standard_normal((batch, channels, -(-height // 8), -(-width // 8)))
    fine = rng.standard_normal((batch, channels, height, width))
    return (np.kron(coarse, np.ones((8, 8)))[:, :, :height, :width] + .3 * fine).astype(np.float32)


SMALL = {"small_residual": residual_network, "small_attention": masked_attention, "small_any_size": any_size,
         "small_recurrent": recurrent}


def write_small(folder):
    for name, make in SMALL.items():
        model, feeds = make()
        write(folder, name, model, *halves(feeds))
