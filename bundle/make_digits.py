#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the bundled model and its calibration data: digits.onnx, digits.npy, digits-labels.npy.

A small convolutional network is trained in plain NumPy on the 1,797 handwritten digits that scikit-learn ships.
Batch normalization stays a node of its own, so that the model has something for a compiler to fold.

    python3 bundle/make_digits.py [FOLDER]      (the default folder is this file's)

Needs numpy, scikit-learn and onnx; onnxruntime, where it is installed, is asked to agree. The same versions on
the same processor write the same bytes again.
"""
import os
import sys
from pathlib import Path

# A sum that several threads share depends on how many there are.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SEED = 20
EPOCHS = 20
BATCH = 64
RATE = 2e-3
KEEP = 0.9  # how much of a running statistic survives one batch
EPSILON = 1e-5
PIXEL_SCALE = 1 / 16  # pixels are 0..16; the model itself brings them to 0..1
CHANNELS = (1, 16, 32)
HIDDEN = 64
CLASSES = 10


class Conv:
    """3x3, stride 1, one pixel of padding, no bias (the normalization behind it has one)."""

    def __init__(self, rng, inputs, outputs):
        self.weight = rng.normal(0, np.sqrt(2 / (9 * inputs)), (outputs, inputs, 3, 3))
        self.trained = ["weight"]

    def forward(self, x, training):
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        self.shape = x.shape
        self.columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * 9)
        flat = self.columns @ self.weight.reshape(len(self.weight), -1).T
        return flat.reshape(n, h, w, -1).transpose(0, 3, 1, 2)

    def backward(self, grad):
        n, c, h, w = self.shape
        flat = grad.transpose(0, 2, 3, 1).reshape(n * h * w, -1)
        self.grads = [(flat.T @ self.columns).reshape(self.weight.shape)]
        columns = (flat @ self.weight.reshape(len(self.weight), -1)).reshape(n, h, w, c, 3, 3)
        padded = np.zeros((n, c, h + 2, w + 2))
        for i in range(3):
            for j in range(3):
                padded[:, :, i:i + h, j:j + w] += columns[..., i, j].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]


class Norm:
    """Batch normalization a channel: the batch's statistics in training, the running ones afterwards."""

    def __init__(self, channels):
        self.scale, self.bias = np.ones(channels), np.zeros(channels)
        self.mean, self.var = np.zeros(channels), np.ones(channels)
        self.trained = ["scale", "bias"]

    def forward(self, x, training):
        mean, var = self.mean, self.var
        if training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
            self.mean = KEEP * self.mean + (1 - KEEP) * mean
            self.var = KEEP * self.var + (1 - KEEP) * var
        self.inverse = 1 / np.sqrt(var + EPSILON)
        self.unit = (x - mean[:, None, None]) * self.inverse[:, None, None]
        return self.unit * self.scale[:, None, None] + self.bias[:, None, None]

    def backward(self, grad):
        count = grad.size / len(self.scale)
        by_bias = grad.sum((0, 2, 3))
        by_scale = (grad * self.unit).sum((0, 2, 3))
        self.grads = [by_scale, by_bias]
        centred = (grad - by_bias[:, None, None] / count
                   - self.unit * by_scale[:, None, None] / count)
        return centred * (self.scale * self.inverse)[:, None, None]


class Relu:
    trained = []

    def forward(self, x, training):
        self.alive = x > 0
        return x * self.alive

    def backward(self, grad):
        self.grads = []
        return grad * self.alive


class Pool:
    """The largest of 2x2."""
    trained = []

    def forward(self, x, training):
        n, c, h, w = x.shape
        tiles = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
        tiles = tiles.reshape(n, c, h // 2, w // 2, 4)
        self.shape, self.winner = x.shape, tiles.argmax(-1)
        return tiles.max(-1)

    def backward(self, grad):
        n, c, h, w = self.shape
        self.grads = []
        tiles = (np.arange(4) == self.winner[..., None]) * grad[..., None]
        tiles = tiles.reshape(n, c, h // 2, w // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5)
        return tiles.reshape(n, c, h, w)


class Flatten:
    trained = []

    def forward(self, x, training):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, grad):
        self.grads = []
        return grad.reshape(self.shape)


class Dense:
    def __init__(self, rng, inputs, outputs):
        self.weight = rng.normal(0, np.sqrt(2 / inputs), (outputs, inputs))
        self.bias = np.zeros(outputs)
        self.trained = ["weight", "bias"]

    def forward(self, x, training):
        self.inputs = x
        return x @ self.weight.T + self.bias

    def backward(self, grad):
        self.grads = [grad.T @ self.inputs, grad.sum(0)]
        return grad @ self.weight


def build(rng):
    """The layers in order, each under the name of its node."""
    quarter = CHANNELS[2] * 4 * 4
    return {
        "conv1": Conv(rng, CHANNELS[0], CHANNELS[1]),
        "norm1": Norm(CHANNELS[1]),
        "relu1": Relu(),
        "conv2": Conv(rng, CHANNELS[1], CHANNELS[2]),
        "norm2": Norm(CHANNELS[2]),
        "relu2": Relu(),
        "pool": Pool(),
        "flat": Flatten(),
        "dense1": Dense(rng, quarter, HIDDEN),
        "relu3": Relu(),
        "dense2": Dense(rng, HIDDEN, CLASSES),
    }


def forward(layers, x, training=False):
    x = x * PIXEL_SCALE
    for layer in layers.values():
        x = layer.forward(x, training)
    return x


def softmax(logits):
    grown = np.exp(logits - logits.max(1, keepdims=True))
    return grown / grown.sum(1, keepdims=True)


class Adam:
    def __init__(self, layers):
        self.layers, self.step = layers, 0
        self.moments = {(layer, name): (0.0, 0.0)
                        for layer in layers.values() for name in layer.trained}

    def update(self, rate):
        self.step += 1
        for layer in self.layers.values():
            for name, grad in zip(layer.trained, layer.grads):
                first, second = self.moments[layer, name]
                first = 0.9 * first + 0.1 * grad
                second = 0.999 * second + 0.001 * grad * grad
                self.moments[layer, name] = first, second
                slope = first / (1 - 0.9 ** self.step)
                width = np.sqrt(second / (1 - 0.999 ** self.step)) + 1e-8
                setattr(layer, name, getattr(layer, name) - rate * slope / width)


def train(images, labels):
    rng = np.random.default_rng(SEED)
    layers = build(rng)
    adam = Adam(layers)
    wanted = np.eye(CLASSES)[labels]
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        rate = RATE * (1 + np.cos(np.pi * epoch / EPOCHS)) / 2
        loss = 0.0
        for start in range(0, len(order), BATCH):
            chosen = order[start:start + BATCH]
            guess = softmax(forward(layers, images[chosen], training=True))
            loss -= np.log(guess[wanted[chosen] == 1] + 1e-30).sum()
            grad = (guess - wanted[chosen]) / len(chosen)
            for layer in reversed(layers.values()):
                grad = layer.backward(grad)
            adam.update(rate)
        print(f"epoch {epoch + 1:2} of {EPOCHS}: loss {loss / len(images):.5f}")
    return layers


def to_onnx(layers):
    initializers = []

    def constant(name, array):
        initializers.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    nodes = [helper.make_node("Mul", ["image", constant("pixel_scale", PIXEL_SCALE)],
                              ["scale_out"], name="scale")]
    value = "scale_out"
    for name, layer in layers.items():
        kinds = {
            Conv: ("Conv", ["weight"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1],
                                        "strides": [1, 1]}),
            Norm: ("BatchNormalization", ["scale", "bias", "mean", "var"],
                   {"epsilon": EPSILON, "momentum": KEEP}),
            Relu: ("Relu", [], {}),
            Pool: ("MaxPool", [], {"kernel_shape": [2, 2], "strides": [2, 2]}),
            Flatten: ("Flatten", [], {"axis": 1}),
            Dense: ("Gemm", ["weight", "bias"], {"transB": 1}),
        }
        kind, parameters, attributes = kinds[type(layer)]
        inputs = [value] + [constant(f"{name}.{p}", getattr(layer, p)) for p in parameters]
        value = f"{name}_out"
        nodes.append(helper.make_node(kind, inputs, [value], name=name, **attributes))
    nodes.append(helper.make_node("Softmax", [value], ["probabilities"], name="softmax", axis=1))

    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", CLASSES])],
        initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="make_digits.py")
    onnx.checker.check_model(model, full_check=True)
    return model


def agrees_with_onnxruntime(model, images, wanted):
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed: the model was checked by onnx alone")
        return True
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"image": images})
    worst = np.abs(got - wanted).max()
    print(f"onnxruntime: largest difference of a probability {worst:.2g}")
    return worst < 1e-4


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    tested = np.arange(len(images)) % 5 == 4  # every fifth digit

    layers = train(images[~tested].astype(np.float64), labels[~tested])
    for layer in layers.values():  # what is measured below is what the file holds
        for name, array in vars(layer).items():
            if name in ("weight", "bias", "scale", "mean", "var"):
                setattr(layer, name, array.astype(np.float32))
    model = to_onnx(layers)
    guess = softmax(forward(layers, images))
    for name, part in (("train", ~tested), ("test", tested)):
        right = int((guess[part].argmax(1) == labels[part]).sum())
        print(f"{name}: {right} of {part.sum()} right, {100 * right / part.sum():.2f} %")
    if not agrees_with_onnxruntime(model, images, guess):
        return 1

    (folder / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))
    np.save(folder / "digits.npy", images)
    np.save(folder / "digits-labels.npy", labels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
