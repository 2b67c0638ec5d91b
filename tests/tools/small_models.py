# SPDX-License-Identifier: Apache-2.0
"""Small networks of the kinds that people export, with data that fits them. Where real models are missing, tests run on these.

small_models.write(FOLDER) makes FOLDER/NAME/model.onnx, inputs.npz (one array an input, whose entries are whole inputs) and
test_data_set_0, whose outputs are ONNX Runtime's. The weights are random, from a fixed seed and scaled so that activations keep
their size from layer to layer; nothing here is trained.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
SAMPLES = 24


class Network:
    """Collects nodes and weights of one graph; each method returns the name of the result."""

    def __init__(self, seed, opset=17, named=True, weights_are_inputs=False):
        self.random = np.random.default_rng(seed)
        self.opset, self.named, self.weights_are_inputs = opset, named, weights_are_inputs
        self.nodes, self.stored, self.count = [], [], 0

    def constant(self, array, name=None):
        name = name or f"constant_{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind, *inputs, outputs=1, **attributes):
        self.count += 1
        stem = f"{kind.lower()}_{self.count}"
        results = [f"{stem}_out"] if outputs == 1 else [f"{stem}_out{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), results, stem if self.named else "", **attributes))
        return results[0] if outputs == 1 else results

    def weight(self, *shape, fan=None):
        fan = fan or int(np.prod(shape[1:]))
        return self.constant((self.random.standard_normal(shape) * np.sqrt(2 / fan)).astype("f4"))

    def vector(self, size, middle=0.0, spread=0.1):
        return self.constant((middle + spread * self.random.standard_normal(size)).astype("f4"))

    def conv(self, x, channels, out, size=3, stride=1, group=1, bias=True, pads=None):
        pads = [size // 2] * 4 if pads is None else pads
        more = [self.vector(out)] if bias else []
        return self.node("Conv", x, self.weight(out, channels // group, size, size), *more, kernel_shape=[size, size],
                         strides=[stride, stride], group=group, pads=pads)

    def norm(self, x, channels):
        variance = self.constant(self.random.uniform(0.5, 2, channels).astype("f4"))
        return self.node("BatchNormalization", x, self.vector(channels, 1), self.vector(channels), self.vector(channels), variance)

    def gemm(self, x, channels, out):
        return self.node("Gemm", x, self.weight(out, channels), self.vector(out), transB=1)

    def dense(self, x, channels, out):
        return self.node("Add", self.node("MatMul", x, self.constant((self.random.standard_normal((channels, out)) / np.sqrt(channels)).astype("f4"))),
                         self.vector(out))

    def layer_norm(self, x, channels):
        return self.node("LayerNormalization", x, self.vector(channels, 1), self.vector(channels), axis=-1)

    def gelu(self, x):
        erf = self.node("Erf", self.node("Div", x, self.constant(np.float32(np.sqrt(2)))))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.constant(np.float32(1)))), self.constant(np.float32(0.5)))

    def model(self, name, inputs, outputs):
        """inputs and outputs: {name: (type, shape)}; an output's name is that of an inner result, which is renamed."""
        repeated = {t.name: (t.data_type, list(t.dims)) for t in self.stored} if self.weights_are_inputs else {}
        info = lambda values: [helper.make_tensor_value_info(key, kind, shape) for key, (kind, shape) in values.items()]
        graph = helper.make_graph(self.nodes, name, info({**inputs, **repeated}), info(outputs), self.stored)
        version = {7: 3, 11: 6, 17: 8}[self.opset]
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=version, producer_name="small_models")
        onnx.checker.check_model(made)
        return made


def pictures(seed, shape, channels_last=False):
    """Smooth pictures with edges, 0 to 255, [SAMPLES, 1, channels, height, width]."""
    random = np.random.default_rng(seed)
    channels, height, width = shape
    y, x = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    made = np.empty((SAMPLES, 1, *shape), "f4")
    for i in range(SAMPLES):
        for c in range(channels):
            a, b, p, q, edge = random.uniform(-6, 6, 2).tolist() + random.uniform(0, 6, 2).tolist() + [random.uniform(0.2, 0.8)]
            plane = 110 + 50 * np.cos(a * x + p) + 50 * np.cos(b * y + q) + 40 * (x > edge) + 6 * random.standard_normal((height, width))
            made[i, 0, c] = np.clip(np.round(plane), 0, 255) + 0.0
    return made.transpose(0, 1, 3, 4, 2).copy() if channels_last else made


def small_resnet():
    """Residual blocks with unfolded batch norms, channels last at the input, a free batch."""
    net = Network(1)
    x = net.node("Transpose", "input_1", perm=[0, 3, 1, 2])
    x = net.node("Mul", x, net.constant(np.float32(1 / 64)))
    x, channels = net.node("Relu", net.norm(net.conv(x, 3, 8), 8)), 8
    for out, stride in ((8, 1), (16, 2), (24, 2)):
        y = net.node("Relu", net.norm(net.conv(x, channels, out, stride=stride), out))
        y = net.norm(net.conv(y, out, out), out)
        skip = x if stride == 1 else net.conv(x, channels, out, 1, stride)
        x, channels = net.node("Relu", net.node("Add", skip, y)), out
    x = net.node("Flatten", net.node("AveragePool", x, kernel_shape=[8, 8]))
    x = net.node("Softmax", net.gemm(x, 24, 40), axis=-1)
    return net.model("resnet", {"input_1": (FLOAT, ["N", 32, 32, 3])}, {x: (FLOAT, ["N", 40])}), {"input_1": pictures(11, (3, 32, 32), True)}


def small_mobilenet():
    """Depthwise convolutions, Clip to 6, HardSwish spelled out, a squeeze-and-excite gate; batch 1."""
    net = Network(2)
    low, high = net.constant(np.float32(0)), net.constant(np.float32(6))
    x, channels = net.conv("image", 3, 8, stride=2), 8
    for out, stride in ((16, 1), (16, 2), (32, 1)):
        x = net.node("Clip", net.norm(x, channels), low, high)
        x = net.conv(x, channels, channels, stride=stride, group=channels)
        gate = net.node("Clip", net.node("Add", x, net.constant(np.float32(3))), low, high)
        x = net.node("Div", net.node("Mul", x, gate), high)
        x, channels = net.conv(x, channels, out, 1, bias=False), out
    scale = net.node("Sigmoid", net.conv(net.node("GlobalAveragePool", x), channels, channels, 1))
    x = net.node("Flatten", net.node("GlobalAveragePool", net.node("Mul", x, scale)))
    x = net.gemm(x, channels, 5)
    data = (pictures(12, (3, 32, 32)) - 127) / 64
    return net.model("mobilenet", {"image": (FLOAT, [1, 3, 32, 32])}, {x: (FLOAT, [1, 5])}), {"image": data}


def small_fire():
    """Squeeze and expand with Concat; an old operator set, nodes without names, weights that are inputs too."""
    net = Network(3, opset=7, named=False, weights_are_inputs=True)
    x = net.node("MaxPool", net.node("Relu", net.conv("data_0", 3, 12, stride=2)), kernel_shape=[3, 3], strides=[2, 2])
    channels = 12
    for squeeze, expand in ((6, 12), (8, 16)):
        s = net.node("Relu", net.conv(x, channels, squeeze, 1))
        x = net.node("Concat", net.node("Relu", net.conv(s, squeeze, expand, 1)), net.node("Relu", net.conv(s, squeeze, expand)), axis=1)
        channels = 2 * expand
    x = net.node("Softmax", net.node("GlobalAveragePool", net.node("Relu", net.conv(net.node("Dropout", x), channels, 10, 1))))
    return net.model("fire", {"data_0": (FLOAT, [1, 3, 32, 32])}, {x: (FLOAT, [1, 10, 1, 1])}), {"data_0": (pictures(13, (3, 32, 32)) - 110) / 32}


def small_cnn():
    """Convolutions whose bias is an Add of its own, a MatMul over Reshapes; batch 1."""
    net, x, channels = Network(4, opset=11), "Input3", 1
    for out in (6, 12):
        x = net.node("Conv", x, net.weight(out, channels, 5, 5), auto_pad="SAME_UPPER", kernel_shape=[5, 5])
        x = net.node("Relu", net.node("Add", x, net.constant(0.1 * net.random.standard_normal((out, 1, 1)).astype("f4"))))
        x, channels = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), out
    x = net.node("Reshape", x, net.constant(np.array([1, 12 * 7 * 7])))
    x = net.dense(x, 12 * 7 * 7, 10)
    return net.model("cnn", {"Input3": (FLOAT, [1, 1, 28, 28])}, {x: (FLOAT, [1, 10])}), {"Input3": pictures(14, (1, 28, 28)) / 128}


def small_mlp():
    net = Network(5)
    x = net.node("Relu", net.gemm("dense_input", 64, 48))
    x = net.node("Softmax", net.gemm(net.node("Relu", net.gemm(x, 48, 48)), 48, 10), axis=-1)
    data = pictures(15, (1, 8, 8)).reshape(SAMPLES, 1, 64) / 255
    return net.model("mlp", {"dense_input": (FLOAT, ["N", 64])}, {x: (FLOAT, ["N", 10])}), {"dense_input": data}


def small_autoencoder():
    """Gemm followed by batch norm, down to a few numbers and up again."""
    net, x, sizes = Network(6), "input_1", (80, 32, 32, 4, 32, 32)
    for before, after in zip(sizes, sizes[1:]):
        x = net.node("Relu", net.norm(net.gemm(x, before, after), after))
    x = net.gemm(x, sizes[-1], sizes[0])
    random = np.random.default_rng(16)
    data = (np.cumsum(random.standard_normal((SAMPLES, 1, 80)), 2) * 0.5).astype("f4")
    return net.model("autoencoder", {"input_1": (FLOAT, ["N", 80])}, {x: (FLOAT, ["N", 80])}), {"input_1": data}


def small_lstm():
    """Two LSTMs, a frame a call; their states come in and go out as one tensor [1, layer, hidden, (h, c)]."""
    net, size, bins = Network(7, opset=11), 16, 20
    take = lambda x, axis, i: net.node("Slice", x, net.constant(np.array([i])), net.constant(np.array([i + 1])), net.constant(np.array([axis])))
    x, states, width = net.node("Transpose", "frame", perm=[1, 0, 2]), [], bins
    for layer in range(2):
        held = net.node("Squeeze", take("state_in", 1, layer), axes=[1])
        h, c = (net.node("Unsqueeze", net.node("Squeeze", take(held, 2, i), axes=[2]), axes=[0]) for i in range(2))
        weights = [net.constant((net.random.standard_normal((1, 4 * size, n)) / np.sqrt(n)).astype("f4")) for n in (width, size)]
        y, h, c = net.node("LSTM", x, *weights, net.constant(0.1 * net.random.standard_normal((1, 8 * size)).astype("f4")), "", h, c, outputs=3,
                           hidden_size=size)
        x, width = net.node("Squeeze", y, axes=[1]), size
        pair = [net.node("Unsqueeze", net.node("Squeeze", s, axes=[0]), axes=[2]) for s in (h, c)]
        states.append(net.node("Unsqueeze", net.node("Concat", *pair, axis=2), axes=[1]))
    mask = net.node("Sigmoid", net.dense(net.node("Transpose", x, perm=[1, 0, 2]), size, bins))
    state = net.node("Concat", *states, axis=1)
    model = net.model("lstm", {"frame": (FLOAT, [1, 1, bins]), "state_in": (FLOAT, [1, 2, size, 2])},
                      {mask: (FLOAT, [1, 1, bins]), state: (FLOAT, [1, 2, size, 2])})
    random = np.random.default_rng(17)
    frames = abs(np.cumsum(random.standard_normal((100, 1, 1, bins)), 3) * 0.3).astype("f4")
    run, held = session(model), [np.zeros((1, 2, size, 2), "f4")]
    for frame in frames[:-1]:
        held.append(run.run([state], {"frame": frame, "state_in": held[-1]})[0])
    return model, {"frame": frames, "state_in": np.stack(held)}


def attention(net, x, width, heads, mask):
    """Of [batch, length, width]; mask takes the scores and answers what Softmax gets."""
    split = net.constant(np.array([0, 0, heads, width // heads]))
    q, k, v = (net.node("Transpose", net.node("Reshape", net.dense(x, width, width), split), perm=[0, 2, 1, 3]) for _ in range(3))
    scores = net.node("MatMul", q, net.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = mask(net.node("Div", scores, net.constant(np.float32(np.sqrt(width // heads)))))
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), v)
    return net.dense(net.node("Reshape", net.node("Transpose", mixed, perm=[0, 2, 1, 3]), net.constant(np.array([0, 0, width]))), width, width)


def small_decoder():
    """A decoder: token ids, a causal mask by Where with -inf, LayerNormalization, GELU by Erf; batch and length are free."""
    net, width, tokens, longest = Network(8), 32, 50, 16
    size = net.node("Shape", "ids")
    length = net.node("Gather", size, net.constant(np.array([1])), axis=0)
    first = net.constant(np.array([0]))
    x = net.node("Gather", net.constant(net.random.standard_normal((tokens, width)).astype("f4")), "ids")
    places = net.node("Slice", net.constant(0.3 * net.random.standard_normal((longest, width)).astype("f4")), first, length, first)
    x = net.node("Add", x, places)
    square = net.node("Concat", length, length, axis=0)
    seen = net.node("Cast", net.node("Trilu", net.node("Expand", net.constant(np.float32(1)), square), upper=0), to=TensorProto.BOOL)
    hide = lambda scores: net.node("Where", seen, scores, net.node("Constant", value=numpy_helper.from_array(np.float32(-np.inf))))
    for _ in range(2):
        x = net.node("Add", x, attention(net, net.layer_norm(x, width), width, 4, hide))
        x = net.node("Add", x, net.dense(net.gelu(net.dense(net.layer_norm(x, width), width, 64)), 64, width))
    x = net.dense(net.layer_norm(x, width), width, tokens)
    ids = np.random.default_rng(18).integers(0, tokens, (SAMPLES, 1, longest))
    return net.model("decoder", {"ids": (INT64, ["batch", "length"])}, {x: (FLOAT, ["batch", "length", tokens])}), {"ids": ids}


def small_encoder():
    """An encoder with an additive mask of the lowest float, LayerNorm spelled out, tanh GELU; two inputs."""
    net, width, tokens, length = Network(9), 32, 40, 12
    number = lambda value: net.constant(np.float32(value))

    def norm(x):
        centred = net.node("Sub", x, net.node("ReduceMean", x, axes=[-1]))
        spread = net.node("Sqrt", net.node("Add", net.node("ReduceMean", net.node("Pow", centred, number(2)), axes=[-1]), number(1e-5)))
        return net.node("Add", net.node("Mul", net.node("Div", centred, spread), net.vector(width, 1)), net.vector(width))

    def gelu(x):
        inner = net.node("Mul", net.node("Add", x, net.node("Mul", net.node("Pow", x, number(3)), number(0.044715))), number(0.7978846))
        return net.node("Mul", net.node("Mul", x, number(0.5)), net.node("Add", net.node("Tanh", inner), number(1)))

    given = net.node("Cast", net.node("Unsqueeze", "attention_mask", net.constant(np.array([1, 2]))), to=FLOAT)
    bias = net.node("Mul", net.node("Sub", number(1), given), number(np.finfo("f4").min))
    x = norm(net.node("Gather", net.constant(net.random.standard_normal((tokens, width)).astype("f4")), "input_ids"))
    for _ in range(2):
        x = norm(net.node("Add", x, attention(net, x, width, 4, lambda scores: net.node("Add", scores, bias))))
        x = norm(net.node("Add", x, net.dense(gelu(net.dense(x, width, 64)), 64, width)))
    random = np.random.default_rng(19)
    ids = random.integers(0, tokens, (SAMPLES, 1, length))
    mask = (np.arange(length) < random.integers(4, length + 1, (SAMPLES, 1, 1))).astype(np.int64)
    inputs = {"input_ids": (INT64, ["batch", "sequence"]), "attention_mask": (INT64, ["batch", "sequence"])}
    return net.model("encoder", inputs, {x: (FLOAT, ["batch", "sequence", width])}), {"input_ids": ids, "attention_mask": mask}


def small_detector():
    """Two scales joined by Resize, tails of Shape, Gather, Concat and Reshape; batch, height and width are free."""
    net = Network(10, opset=11)
    x = net.node("Relu", net.norm(net.conv("input", 3, 8, stride=2), 8))
    fine = net.node("Relu", net.conv(net.conv(x, 8, 8, group=8), 8, 12, 1))
    coarse = net.node("Relu", net.conv(net.node("MaxPool", fine, kernel_shape=[2, 2], strides=[2, 2]), 12, 12))
    larger = net.node("Resize", coarse, net.constant(np.zeros(0, "f4")), net.constant(np.array([1, 1, 2, 2], "f4")), mode="nearest", coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor")
    fine, outputs = net.node("Add", fine, larger), {}
    for level in (fine, coarse):
        for channels, last in ((1, "Sigmoid"), (4, None)):
            y = net.node("Transpose", net.conv(level, 12, channels, 1), perm=[0, 2, 3, 1])
            batch = net.node("Unsqueeze", net.node("Gather", net.node("Shape", y), net.constant(np.int64(0)), axis=0), axes=[0])
            shape = net.node("Concat", batch, net.constant(np.array([-1])), net.constant(np.array([channels])), axis=0)
            y = net.node("Reshape", y, shape)
            outputs[net.node(last, y) if last else y] = (FLOAT, ["batch", "dim", channels])
    data = {"input": pictures(20, (3, 32, 48)) / 64}
    return net.model("detector", {"input": (FLOAT, ["batch", 3, "height", "width"])}, outputs), data


def small_upscaler():
    """Convolutions and a pixel shuffle by Reshape and Transpose."""
    net = Network(21, opset=11)
    x = net.node("Relu", net.conv("input", 1, 12, 5))
    x = net.conv(net.node("Relu", net.conv(x, 12, 8)), 8, 4)
    x = net.node("Reshape", x, net.constant(np.array([-1, 1, 2, 2, 24, 24])))
    x = net.node("Reshape", net.node("Transpose", x, perm=[0, 1, 4, 2, 5, 3]), net.constant(np.array([-1, 1, 48, 48])))
    data = {"input": pictures(21, (1, 24, 24)) / 255}
    return net.model("upscaler", {"input": (FLOAT, ["batch_size", 1, 24, 24])}, {x: (FLOAT, ["batch_size", 1, 48, 48])}), data


MAKERS = (small_autoencoder, small_cnn, small_decoder, small_detector, small_encoder, small_fire, small_lstm, small_mlp, small_mobilenet,
          small_resnet, small_upscaler)


def session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def write(folder):
    """Writes all of them below the folder."""
    for maker in MAKERS:
        model, data = maker()
        home = Path(folder) / maker.__name__
        place = home / "test_data_set_0"
        place.mkdir(parents=True, exist_ok=True)
        onnx.save(model, home / "model.onnx")
        np.savez(home / "inputs.npz", **data)
        feed = {name: array[0] for name, array in data.items()}
        for i, (name, array) in enumerate(feed.items()):
            (place / f"input_{i}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
        for i, (value, array) in enumerate(zip(model.graph.output, session(model).run(None, feed))):
            (place / f"output_{i}.pb").write_bytes(numpy_helper.from_array(array, value.name).SerializeToString())


if __name__ == "__main__":
    write(sys.argv[1])
