# SPDX-License-Identifier: Apache-2.0
"""The integer form against the same reckoned by NumPy, and its classes against those of ONNX Runtime that runs the QDQ model.

test_simulate.py PROGRAM SOURCE_ROOT FEATURES INTEGER_GRAPH
"""
import json
import math
import sys

from oracle import MODELS, folder, main, model_of, present, profile, samples, session, skip, sources, tidemark

import numpy as np
import onnx
from onnx import numpy_helper

INTEGER_GRAPH = sys.argv[4]
SAMPLES = 16  # that NumPy reckons


def calibrated(name, path, *how, data=None):
    data = data or sources(name)[0]
    recorded = profile(model_of(name), data, path / "p.json", "--limit", 256)
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--quiet", *how, "-o", path / "enc.json")
    return recorded, json.loads((path / "enc.json").read_text())


def integer_form(name, path):
    """The file, and the names of values' codes by the values' IDs."""
    said = tidemark(model_of(name), path / "enc.json", path / "integer.onnx", program=INTEGER_GRAPH)
    return path / "integer.onnx", dict(line.split(" ", 1) for line in said.splitlines())


# ---- integers by NumPy ----

def multiplier(real):
    fraction, shift = math.frexp(real)
    q = round(fraction * 2**31)
    return (q // 2, shift + 1) if q == 2**31 else (q, shift)


def half_up(x, real):
    """x times each channel's multiplier, which the last axis of x counts, rounded once and half up."""
    terms = [multiplier(one) for one in np.atleast_1d(real)]
    q = np.array([term[0] for term in terms], np.int64)
    shift = np.array([term[1] for term in terms], np.int64)
    return (x.astype(np.int64) * q + (np.int64(1) << (30 - shift))) >> (31 - shift)


class Grid:
    def __init__(self, entry):
        self.scale, self.zero = np.array(entry["scale"], np.float32), entry["zero_point"][0]
        self.low, self.high = {"uint8": (0, 255), "int8": (-127 if entry["narrow"] else -128, 127)}[entry["dtype"]]

    def codes(self, numbers, axis=None):
        scale = self.scale if axis is None else self.scale.reshape([-1 if i == axis else 1 for i in range(numbers.ndim)])
        return np.clip(np.rint(numbers.astype(np.float32) / scale) + self.zero, self.low, self.high).astype(np.int64)

    def clamp(self, sums, least=None):
        return np.clip(sums + self.zero, self.low if least is None else self.zero, self.high)


class Reckoning:
    """A network of plain layers in integers, by the encodings alone: codes by the value's name."""

    def __init__(self, model, encodings, feed):
        self.grids = {entry["name"]: entry for entry in encodings["encodings"]}
        self.weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self.nodes, self.codes, self.sums = list(model.graph.node), {}, {}
        self.readers = {}
        for node in self.nodes:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        for name, numbers in feed.items():
            self.codes[name] = self.grid(name).codes(numbers)
        for node in self.nodes:
            getattr(self, node.op_type, lambda node: None)(node)

    def grid(self, name):
        return Grid(self.grids[name])

    def is_coded(self, name):
        return name in self.grids and self.grids[name]["role"] != "bias"

    def finalize(self, name, sums, real):
        """sums: channels last. A Relu behind that has the same grid is done with it; other values wait as sums."""
        if not self.is_coded(name):
            self.sums[name] = (sums, real)
            return
        grid, behind = self.grid(name), self.readers.get(name, [])
        takes = len(behind) == 1 and behind[0].op_type == "Relu" and self.grids[behind[0].output[0]]["scale"] == \
            self.grids[name]["scale"]
        made = half_up(sums, np.asarray(real) / float(grid.scale[0]))
        name = behind[0].output[0] if takes else name
        self.codes[name] = np.moveaxis(grid.clamp(made, 0 if takes else None), -1, 1) if sums.ndim == 4 else \
            grid.clamp(made, 0 if takes else None)

    def bias(self, numbers, x, w):
        scale = (x.scale[0] * w.scale).astype(np.float32)
        return np.rint(numbers.astype(np.float64).reshape(-1) / scale.astype(np.float64)).astype(np.int64)

    def product(self, node, sums, x, w, bias):
        name = node.output[0]
        behind = self.readers.get(name, [])
        if not self.is_coded(name) and len(behind) == 1 and behind[0].op_type == "Add":
            other = next(one for one in behind[0].input if one != name)
            bias, name = self.weights[other], behind[0].output[0]
        if bias is not None:
            sums = sums + self.bias(bias, x, w)
        self.finalize(name, sums, float(x.scale[0]) * w.scale.astype(np.float64))

    def Conv(self, node):
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        x, w, weight = self.grid(node.input[0]), self.grid(node.input[1]), self.weights[node.input[1]]
        size = weight.shape[2:]
        pads = attributes.get("pads", [0, 0, 0, 0])
        if attributes.get("auto_pad", b"NOTSET") == b"SAME_UPPER":
            pads = [(k - 1) // 2 for k in size] + [k // 2 for k in size]
        assert attributes.get("group", 1) == 1 and set(attributes.get("strides", [1])) == {1}
        centred = self.codes[node.input[0]] - x.zero
        padded = np.pad(centred, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
        windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(2, 3))
        sums = np.einsum("nchwij,ocij->nhwo", windows, w.codes(weight, 0))
        self.product(node, sums, x, w, self.weights[node.input[2]] if len(node.input) > 2 else None)

    def Gemm(self, node):
        flags = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        assert flags.get("transB") == 1 and flags.get("alpha", 1) == 1 and flags.get("beta", 1) == 1
        x, w = self.grid(node.input[0]), self.grid(node.input[1])
        codes = w.codes(self.weights[node.input[1]], 0 if len(w.scale) > 1 else None)
        self.product(node, (self.codes[node.input[0]] - x.zero) @ codes.T, x, w, self.weights[node.input[2]])

    def MatMul(self, node):
        x, w = self.grid(node.input[0]), self.grid(node.input[1])
        codes = self.codes.get(node.input[1])
        codes = w.codes(self.weights[node.input[1]], 1 if len(w.scale) > 1 else None) if codes is None else codes
        self.product(node, (self.codes[node.input[0]] - x.zero) @ (codes - w.zero), x, w, None)

    def Mul(self, node):
        a, b = (self.grid(name) for name in node.input)
        right = b.codes(self.weights[node.input[1]])
        sums = (self.codes[node.input[0]] - a.zero) * (right - b.zero)
        self.finalize(node.output[0], np.moveaxis(sums, 1, -1), float(a.scale[0]) * float(b.scale[0]))

    def parameter(self, name):
        """As its encoding has it."""
        numbers, entry = self.weights[name], self.grids.get(name)
        if not entry:
            return numbers.astype(np.float64)
        scale, zero = np.array(entry["scale"], np.float32), np.array(entry["zero_point"])
        if entry["dtype"] == "int32":
            return (scale * np.rint(numbers.astype(np.float64) / scale.astype(np.float64)).astype(np.float32)).astype(np.float64)
        return (scale * (Grid(entry).codes(numbers) - zero).astype(np.float32)).astype(np.float64)

    def BatchNormalization(self, node):
        x = self.grid(node.input[0])
        gamma, beta, mean, variance = (self.parameter(name) for name in node.input[1:])
        epsilon = np.float32(next(one.f for one in node.attribute if one.name == "epsilon"))
        factor = gamma / np.sqrt(variance + float(epsilon))
        offset = beta - mean * factor
        scale = float(x.scale[0])
        unit = np.array([2.0 ** (math.frexp(most)[1] - 29) for most in np.maximum(abs(factor) * scale * 256, abs(offset))])
        centred = np.moveaxis(self.codes[node.input[0]] - x.zero, 1, -1)
        sums = centred * np.rint(factor * scale / unit).astype(np.int64) + np.rint(offset / unit).astype(np.int64)
        self.finalize(node.output[0], sums, unit)

    def Relu(self, node):
        assert node.output[0] in self.codes, node.name

    def MaxPool(self, node):
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        size, strides = attributes["kernel_shape"], attributes["strides"]
        windows = np.lib.stride_tricks.sliding_window_view(self.codes[node.input[0]], size, axis=(2, 3))
        self.codes[node.output[0]] = windows[:, :, ::strides[0], ::strides[1]].max(axis=(4, 5))

    def Reshape(self, node):
        codes = self.codes.get(node.input[0])
        if codes is None:
            codes = self.grid(node.input[0]).codes(self.weights[node.input[0]])
        self.codes[node.output[0]] = codes.reshape(self.weights[node.input[1]])

    def Flatten(self, node):
        codes = self.codes[node.input[0]]
        self.codes[node.output[0]] = codes.reshape(len(codes), -1)


def check_codes(name, path):
    recorded, encodings = calibrated(name, path)
    form, codes = integer_form(name, path)
    ids = {tensor["name"]: tensor["id"] for tensor in recorded["tensors"]}
    wanted = [word for value in codes.values() for word in ("--values", value)]
    tidemark("run", form, "--data", sources(name)[0], "--limit", SAMPLES, *wanted, "--quiet", "-o", path / "codes.npz")
    checked = set()
    with np.load(path / "codes.npz") as arrays:
        for i, feed in enumerate(samples(name, SAMPLES)):
            reckoned = Reckoning(onnx.load(model_of(name)), encodings, feed)
            for value, want in reckoned.codes.items():
                array = codes.get(ids[value])
                if array is None:
                    continue
                got = arrays[array]
                got = got[i] if len(got) == SAMPLES else got
                assert np.array_equal(got.reshape(-1), want.reshape(-1)), \
                    f"{value} of sample {i}: {np.count_nonzero(got.reshape(-1) != want.reshape(-1))} codes differ"
                checked.add(value)
    assert len(checked) >= 4, checked
    print(f"  {name}: {len(checked)} values of {SAMPLES} samples, every code equal")


def test_codes_equal_numpys():
    for name in present("digits", "mnist_cnn", "mnist_mlp"):
        with folder() as path:
            check_codes(name, path)


# ---- against ONNX Runtime ----

def pictures(name, path):
    """2,000 digits as the network takes them."""
    with np.load(MODELS / "mnist_cnn" / "samples_u8.npz") as arrays:
        pixels, labels = arrays["x"].astype(np.float32), arrays["labels"]
    pixels = pixels[:, None] if name == "mnist_cnn" else pixels.reshape(len(pixels), -1) / np.float32(255)
    np.save(path / "x.npy", pixels)
    np.save(path / "labels.npy", labels.astype(np.int64))
    return path / "x.npy", path / "labels.npy"


def classes_of_runtime(model, data):
    runtime = session(model, fused=True)
    name = runtime.get_inputs()[0].name
    return np.array([runtime.run(None, {name: one})[0].reshape(-1).argmax() for one in data])


def integer_classes(name, path, data, count):
    form, _ = integer_form(name, path)
    output = onnx.load(model_of(name)).graph.output[0].name
    tidemark("run", form, "--data", data, "--quiet", "-o", path / "out.npz")
    with np.load(path / "out.npz") as arrays:
        return arrays[output].reshape(count, -1).argmax(axis=1)


def compare_classes(name, path, data, feeds):
    tidemark("export", path / "enc.json", "--model", model_of(name), "--to", "qdq", "--quiet", "-o", path / "qdq.onnx")
    ours, theirs = integer_classes(name, path, data, len(feeds)), classes_of_runtime(path / "qdq.onnx", feeds)
    return np.count_nonzero(ours == theirs) / len(feeds)


def test_classes_equal_those_of_the_qdq_model():
    if not (MODELS / "mnist_cnn").is_dir():
        skip("there are no labelled pictures")
    for name in ("mnist_cnn", "mnist_mlp"):
        with folder() as path:
            data, labels = pictures(name, path)
            calibrated(name, path, data=data)
            share = compare_classes(name, path, data, np.load(data)[:, None])
            answer = json.loads(tidemark("simulate", model_of(name), path / "enc.json", "--data", data, "--labels", labels,
                                         "--requant", "fixed", "--quiet", "--json"))
            print(f"  {name}: the same class for {100 * share:.2f} % of 2000; accuracy {100 * answer['accuracy_float']:.2f} % "
                  f"float, {100 * answer['accuracy_quantized']:.2f} % in integers")
            assert share >= 0.995 and answer["accuracy_quantized"] > answer["accuracy_float"] - 0.005


def test_image_networks_agree_with_the_qdq_model():
    for name in present("mlperf_ic_resnet8", "mlperf_vww_mobilenet", "squeezenet10"):
        with folder() as path:
            calibrated(name, path)
            feeds = [next(iter(feed.values())) for feed in samples(name)]
            share = compare_classes(name, path, sources(name)[0], feeds)
            print(f"  {name}: the same class for {100 * share:.2f} % of {len(feeds)}")
            assert share >= 0.9


def test_fixed_point_differs_from_float_by_one_code_at_most():
    for name in present("mnist_cnn", "mnist_mlp", "mlperf_ic_resnet8", "mlperf_vww_mobilenet"):
        with folder() as path:
            calibrated(name, path)
            for rounding in ("single_half_up", "single_half_away", "gemmlowp_double"):
                answer = json.loads(tidemark("simulate", model_of(name), path / "enc.json", "--data", sources(name)[0], "--limit",
                                             16, "--rounding", rounding, "--quiet", "--json"))["against_float_requantization"]
                alone, whole = answer["alone"], answer["whole"]
                print(f"  {name} {rounding}: {100 * alone['equal']:.4f} % of {alone['codes']} codes equal, largest difference "
                      f"{alone['largest_difference']}; in the whole network {100 * whole['equal']:.4f} %, "
                      f"{whole['largest_difference']}")
                assert alone["largest_difference"] <= 1


main()
