#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the networks and inputs that peers.py measures with, in a folder outside the source.

    models.py --out DIR [--only resnet50,mlp] [--images N] [--sequences N] [--vectors N]

DIR/NAME.onnx and DIR/KIND.npy; what is there already is kept, unless it holds fewer samples. Needs numpy, onnx,
onnxruntime. Every number comes from a seed and a name, so two machines make the same files, but for the last digits of
what onnxruntime measured (see `adjust`).

resnet50, squeezenet, densenet121 are the graphs of the "light" models inside the onnx package, mobilenetv2 (width 1.0), resnet18,
bert6 (6 layers, hidden 384, 12 heads, 128 tokens, embeddings as input) and mlp (784-512-512-10) are written out here.
All have a free batch `N`, operator set 13, and batch normalizations of their own, as a network has before anybody
fused anything.
"""
import argparse
import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SEED = 6174
OPSET, IR_VERSION = 13, 8
ADJUST_ON = 4  # images for the statistics of batch normalizations
FIRST_OWN = 1 << 20  # their place in the sequence of images: none that is measured with
SHAPES = {"images": (3, 224, 224), "sequences": (128, 384), "vectors": (784,)}


def draw_for(name):
    return np.random.default_rng([SEED, *hashlib.sha256(name.encode()).digest()[:8]])


# ---- inputs ----

def sample(kind, index):
    """One input; depends on its kind and index only."""
    draw = draw_for(f"{kind}/{index}")
    if kind == "images":  # coarse patches under fine grain, of differing contrast
        patches = draw.standard_normal((3, 28, 28)).repeat(8, axis=1).repeat(8, axis=2)
        grain = draw.standard_normal(SHAPES[kind])
        contrast = np.exp(draw.normal(0, 0.35))
        tint = draw.normal(0, 0.3, (3, 1, 1))
        made = contrast * (0.8 * patches + 0.4 * grain) + tint
    elif kind == "sequences":  # tokens of differing length
        lengths = np.exp(draw.normal(0, 0.25, (SHAPES[kind][0], 1)))
        made = lengths * draw.standard_normal(SHAPES[kind])
    else:  # a drawing: mostly empty
        ink = draw.random(SHAPES[kind]) < 0.2
        made = ink * draw.random(SHAPES[kind])
    return made.astype(np.float32)


def make_inputs(kind, count, path):
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(count, *SHAPES[kind]))
    for index in range(count):
        array[index] = sample(kind, index)
    array.flush()


# ---- a network while it is put together ----

class Network:
    """Nodes in order, and the arrays they use."""

    def __init__(self, name, source, shape):
        self.name, self.source, self.shape = name, source, list(shape)
        self.nodes, self.arrays = [], {}

    def array(self, name, values, dtype=np.float32):
        self.arrays[name] = np.asarray(values, dtype)
        return name

    def normal(self, name, shape, spread, middle=0.0):
        return self.array(name, middle + spread * draw_for(name).standard_normal(shape))

    def uniform(self, name, shape, low, high):
        return self.array(name, draw_for(name).uniform(low, high, shape))

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def model(self):
        result = self.nodes[-1].output[0]
        used = [name for name in dict.fromkeys(i for node in self.nodes for i in node.input) if name in self.arrays]
        graph = helper.make_graph(
            self.nodes, self.name,
            [helper.make_tensor_value_info(self.source, TensorProto.FLOAT, ["N", *self.shape])],
            [onnx.ValueInfoProto(name=result)],
            [numpy_helper.from_array(self.arrays[name], name) for name in used])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                                  producer_name="tidemark-bench")
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model, full_check=True)
        return model


def three_digits(values):
    """Rounded, so that another machine's last bits rarely make another network."""
    values = np.asarray(values, np.float64)
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-30)))
    step = 10.0 ** (size - 2)
    return (np.round(values / step) * step).astype(np.float32)


def adjust(network):
    """Gives each batch normalization the mean and variance that its input has over a few images, front to back, so that
    activations stay in scale however deep the network is. A node runs once: what is measured of one is what the next
    one sees."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    known = {network.source: np.stack([sample("images", FIRST_OWN + i) for i in range(ADJUST_ON)])}
    last_use = {name: place for place, node in enumerate(network.nodes) for name in node.input}
    for place, node in enumerate(network.nodes):
        if node.op_type == "BatchNormalization":
            seen = known[node.input[0]].astype(np.float64)
            network.array(node.input[3], three_digits(seen.mean((0, 2, 3))))
            network.array(node.input[4], three_digits(np.maximum(seen.var((0, 2, 3)), 1e-3)))
        given = [name for name in dict.fromkeys(node.input) if name in known]
        graph = helper.make_graph(
            [node], "one", [helper.make_tensor_value_info(name, TensorProto.FLOAT, known[name].shape) for name in given],
            [onnx.ValueInfoProto(name=name) for name in node.output],
            [numpy_helper.from_array(network.arrays[name], name) for name in node.input if name in network.arrays])
        one = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        session = onnxruntime.InferenceSession(one.SerializeToString(), options, providers=["CPUExecutionProvider"])
        known.update(zip(node.output, session.run(None, {name: known[name] for name in given})))
        for name in given:
            if last_use[name] == place:
                del known[name]


# ---- the graphs that the onnx package has ----

def constants_of(graph):
    """Weights of a light model: zeros of a given shape, at most with axes of size 1 put in. Also the nodes left over."""
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            arrays[node.output[0]] = np.zeros(arrays[node.input[0]], np.float32)
        elif node.op_type == "Unsqueeze" and node.input[0] in arrays:
            axes = helper.get_node_attr_value(node, "axes")
            arrays[node.output[0]] = np.expand_dims(arrays[node.input[0]], tuple(axes))
        else:
            nodes.append(node)
    return arrays, nodes


def weigh(network, node, shapes, norm_scales):
    """Draws the weights of one node; `norm_scales`: a batch normalization has scale and bias of its own (in DenseNet
    they are the Mul and Add after it)."""
    shape = [shapes.get(name) for name in node.input]
    if node.op_type in ("Conv", "Gemm"):
        gain = 2.0 if node.op_type == "Conv" else 1.0  # a ReLU halves what comes out of a convolution
        network.normal(node.input[1], shape[1], np.sqrt(gain / np.prod(shape[1][1:])))
        if len(node.input) > 2:
            network.normal(node.input[2], shape[2], 0.05)
    elif node.op_type == "BatchNormalization":
        if norm_scales:
            network.uniform(node.input[1], shape[1], 0.5, 1.5)
            network.normal(node.input[2], shape[2], 0.3)
        else:
            network.array(node.input[1], np.ones(shape[1]))
            network.array(node.input[2], np.zeros(shape[2]))
    elif node.op_type == "Mul":
        network.uniform(node.input[1], shape[1], 0.5, 1.5)
    elif node.op_type == "Add":
        network.normal(node.input[1], shape[1], 0.3)


def light(name):
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    graph = onnx.load(folder / f"light_{name}.onnx").graph
    arrays, nodes = constants_of(graph)
    shapes = {key: array.shape for key, array in arrays.items()}
    source = next(node.input[0] for node in nodes if node.op_type == "Conv")
    network = Network(name, source, SHAPES["images"])
    for node in nodes:
        if node.op_type == "Reshape":  # the files fix the number of images: any number is needed
            network.array(node.input[1], [-1, 2048], np.int64)
        elif node.op_type == "Softmax":
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("axis", 1))
        elif node.op_type == "Dropout":  # its ratio is an input since, its mask is not read
            del node.attribute[:]
            del node.output[1:]
        weigh(network, node, shapes, norm_scales=name != "densenet121")
        network.nodes.append(node)
    adjust(network)
    return network.model()


# ---- networks written out ----

def mobilenetv2():
    """Sandler et al. 2018, table 2, width 1.0. Each row: expansion, channels, repeats, first stride."""
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    network = Network("mobilenetv2", "image", SHAPES["images"])
    zero, six = network.array("zero", 0), network.array("six", 6)

    def unit(name, x, old, new, size=1, stride=1, group=1, clip=True):
        fan_in = old // group * size * size
        weight = network.normal(name + ".weight", (new, old // group, size, size), np.sqrt(2 / fan_in))
        x = network.node("Conv", [x, weight], name + "/conv", kernel_shape=[size, size], strides=[stride, stride],
                         pads=[size // 2] * 4, group=group)
        norm = [network.uniform(name + ".scale", new, 0.5, 1.5), network.normal(name + ".bias", new, 0.3)]
        norm += [network.array(name + ".mean", np.zeros(new)), network.array(name + ".var", np.ones(new))]
        x = network.node("BatchNormalization", [x, *norm], name + "/norm")
        return network.node("Clip", [x, zero, six], name + "/relu6") if clip else x

    x, channels = unit("stem", "image", 3, 32, size=3, stride=2), 32
    for number, (expansion, new, repeats, first_stride) in enumerate(rows):
        for repeat in range(repeats):
            name, stride, wide = f"block{number}.{repeat}", first_stride if repeat == 0 else 1, channels * expansion
            y = unit(name + ".expand", x, channels, wide) if expansion > 1 else x
            y = unit(name + ".depth", y, wide, wide, size=3, stride=stride, group=wide)
            y = unit(name + ".project", y, wide, new, clip=False)
            x = network.node("Add", [x, y], name + "/sum") if stride == 1 and channels == new else y
            channels = new
    x = unit("head", x, channels, 1280)
    x = network.node("GlobalAveragePool", [x], "pool")
    x = network.node("Flatten", [x], "flat", axis=1)
    network.normal("class.weight", (1000, 1280), np.sqrt(1 / 1280))
    network.normal("class.bias", 1000, 0.05)
    network.node("Gemm", [x, "class.weight", "class.bias"], "scores", transB=1)
    adjust(network)
    return network.model()


def resnet18():
    """He et al. 2016, table 1, 18 layers."""
    network = Network("resnet18", "image", SHAPES["images"])

    def unit(name, x, old, new, size=3, stride=1):
        weight = network.normal(name + ".weight", (new, old, size, size), np.sqrt(2 / (old * size * size)))
        x = network.node("Conv", [x, weight], name + "/conv", kernel_shape=[size, size], strides=[stride, stride],
                         pads=[size // 2] * 4)
        norm = [network.uniform(name + ".scale", new, 0.5, 1.5), network.normal(name + ".bias", new, 0.3)]
        norm += [network.array(name + ".mean", np.zeros(new)), network.array(name + ".var", np.ones(new))]
        return network.node("BatchNormalization", [x, *norm], name + "/norm")

    x = network.node("Relu", [unit("stem", "image", 3, 64, size=7, stride=2)], "stem/relu")
    x, channels = network.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for number, new in enumerate((64, 128, 256, 512)):
        for repeat in range(2):
            name, stride = f"block{number}.{repeat}", 2 if number and not repeat else 1
            y = network.node("Relu", [unit(name + ".a", x, channels, new, stride=stride)], name + "/relu")
            y = unit(name + ".b", y, new, new)
            x = x if channels == new else unit(name + ".short", x, channels, new, size=1, stride=stride)
            x, channels = network.node("Relu", [network.node("Add", [y, x], name + "/sum")], name + "/out"), new
    x = network.node("Flatten", [network.node("GlobalAveragePool", [x], "average")], "flat", axis=1)
    network.normal("class.weight", (1000, 512), np.sqrt(1 / 512))
    network.normal("class.bias", 1000, 0.05)
    network.node("Gemm", [x, "class.weight", "class.bias"], "scores", transB=1)
    adjust(network)
    return network.model()


def mlp():
    sizes = [784, 512, 512, 10]
    network = Network("mlp", "image", SHAPES["vectors"])
    x = "image"
    for layer, (old, new) in enumerate(zip(sizes, sizes[1:]), start=1):
        weight = network.normal(f"layer{layer}.weight", (new, old), np.sqrt(2 / old))
        x = network.node("Gemm", [x, weight, network.normal(f"layer{layer}.bias", new, 0.05)], f"layer{layer}", transB=1)
        if new != sizes[-1]:
            x = network.node("Relu", [x], f"relu{layer}")
    network.node("Softmax", [x], "probabilities", axis=1)
    return network.model()


class Encoder(Network):
    """A transformer's encoder in the small operators that exporters wrote at operator set 13."""

    def __init__(self, layers=6, tokens=128, hidden=384, heads=12, inner=1536):
        super().__init__("bert6", "embeddings", (tokens, hidden))
        self.hidden = hidden
        self.constants = {key: self.array("const." + key, value) for key, value in {
            "tiny": 1e-12, "two": 2, "half": 0.5, "one": 1, "root2": np.sqrt(2), "root_width": np.sqrt(hidden / heads)}.items()}
        self.split = self.array("const.split", [0, tokens, heads, hidden // heads], np.int64)
        self.joined = self.array("const.joined", [0, tokens, hidden], np.int64)
        x = self.node("Add", ["embeddings", self.normal("position", (1, tokens, hidden), 0.5)], "placed")
        x = self.norm("placed/norm", x)
        for layer in range(layers):
            x = self.norm(f"{layer}/attention/norm", self.node("Add", [self.attention(f"{layer}/attention", x), x],
                                                               f"{layer}/attention/sum"))
            x = self.norm(f"{layer}/inner/norm", self.node("Add", [self.inner(f"{layer}/inner", x, inner), x],
                                                           f"{layer}/inner/sum"))

    def norm(self, name, x):
        mean = self.node("ReduceMean", [x], name + "/mean", axes=[-1], keepdims=1)
        centred = self.node("Sub", [x, mean], name + "/centred")
        squares = self.node("Pow", [centred, self.constants["two"]], name + "/squares")
        variance = self.node("ReduceMean", [squares], name + "/variance", axes=[-1], keepdims=1)
        safe = self.node("Add", [variance, self.constants["tiny"]], name + "/safe")
        unit = self.node("Div", [centred, self.node("Sqrt", [safe], name + "/deviation")], name + "/unit")
        scaled = self.node("Mul", [unit, self.normal(name + ".scale", self.hidden, 0.1, middle=1)], name + "/scaled")
        return self.node("Add", [scaled, self.normal(name + ".bias", self.hidden, 0.05)], name)

    def linear(self, name, x, old, new):
        product = self.node("MatMul", [x, self.normal(name + ".weight", (old, new), np.sqrt(1 / old))], name + "/product")
        return self.node("Add", [product, self.normal(name + ".bias", new, 0.05)], name)

    def attention(self, name, x):
        parts = {}
        for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            whole = self.linear(f"{name}/{part}", x, self.hidden, self.hidden)
            heads = self.node("Reshape", [whole, self.split], f"{name}/{part}/heads")
            parts[part] = self.node("Transpose", [heads], f"{name}/{part}/turned", perm=order)
        match = self.node("MatMul", [parts["query"], parts["key"]], name + "/match")
        match = self.node("Div", [match, self.constants["root_width"]], name + "/scores")
        weights = self.node("Softmax", [match], name + "/weights", axis=-1)
        mixed = self.node("MatMul", [weights, parts["value"]], name + "/mixed")
        turned = self.node("Transpose", [mixed], name + "/turned", perm=[0, 2, 1, 3])
        joined = self.node("Reshape", [turned, self.joined], name + "/joined")
        return self.linear(name + "/out", joined, self.hidden, self.hidden)

    def inner(self, name, x, inner):
        wide = self.linear(name + "/up", x, self.hidden, inner)
        scaled = self.node("Div", [wide, self.constants["root2"]], name + "/gelu/scaled")
        shifted = self.node("Add", [self.node("Erf", [scaled], name + "/gelu/erf"), self.constants["one"]], name + "/gelu/shifted")
        product = self.node("Mul", [wide, shifted], name + "/gelu/product")
        halved = self.node("Mul", [product, self.constants["half"]], name + "/gelu")
        return self.linear(name + "/down", halved, inner, self.hidden)


# name: what makes it, which inputs it takes
NETWORKS = {
    "resnet50": (lambda: light("resnet50"), "images"),
    "densenet121": (lambda: light("densenet121"), "images"),
    "mobilenetv2": (mobilenetv2, "images"),
    "resnet18": (resnet18, "images"),
    "squeezenet": (lambda: light("squeezenet"), "images"),
    "bert6": (lambda: Encoder().model(), "sequences"),
    "mlp": (mlp, "vectors"),
}


def holds(path, count):
    try:
        return len(np.load(path, mmap_mode="r")) >= count
    except (OSError, ValueError):
        return False


def whole_or_not(path, write):
    unfinished = path.with_name(path.name + ".unfinished")
    write(unfinished)
    os.replace(unfinished, path)
    print(f"{path} {path.stat().st_size} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", default=",".join(NETWORKS), metavar="NAMES")
    parser.add_argument("--images", type=int, default=256, metavar="N")
    parser.add_argument("--sequences", type=int, default=256, metavar="N")
    parser.add_argument("--vectors", type=int, default=16384, metavar="N")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := [name for name in wanted if name not in NETWORKS]:
        parser.error(f"there is no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        path = args.out / f"{name}.onnx"
        if not path.exists():
            whole_or_not(path, lambda target: onnx.save(NETWORKS[name][0](), str(target)))
    for kind in dict.fromkeys(NETWORKS[name][1] for name in wanted):
        path, count = args.out / f"{kind}.npy", getattr(args, kind)
        if not holds(path, count):
            whole_or_not(path, lambda target: make_inputs(kind, count, target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
