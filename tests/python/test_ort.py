# SPDX-License-Identifier: Apache-2.0
"""tidemark.ort in place of onnxruntime.quantization: the same values, the same ranges, the same files, over networks that are
made here.
"""
import contextlib
import importlib
import itertools
import json
import logging
import resource
import sys
import tempfile
import threading
import types
from pathlib import Path
from unittest import mock

from package import FOLDER, main, raises, silently, skip

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime import quantization as ort
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType
    import tidemark
    import tidemark.ort
except ImportError as missing:
    skip(missing)

CALIBRATE = importlib.import_module("onnxruntime.quantization.calibrate")
QUANTIZE = importlib.import_module("onnxruntime.quantization.quantize")
RANDOM = np.random.default_rng(7)
onnxruntime.set_default_logger_severity(4)
logging.getLogger().setLevel(logging.ERROR)


# ---- networks ----

class Net:
    """Builds a graph; weights are random."""

    def __init__(self, name, opset, inputs, outputs):
        self.nodes, self.weights, self.name, self.opset = [], [], name, opset
        self.inputs = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
        self.outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs]

    def weight(self, name, *shape, values=None):
        array = RANDOM.standard_normal(shape).astype("f4") / 3 if values is None else np.asarray(values)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, output if isinstance(output, list) else [output],
                                           name=f"n{len(self.nodes)}_{op}", **attributes))
        return output

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset),
                                                       helper.make_opsetid("com.microsoft", 1)], ir_version=8)


def convolutions():
    """Gemm with a bias, a residual Add, BatchNormalization, a Constant, a name like a glob, a result that no node reads."""
    net = Net("convolutions", 11, [("x[0]*", TensorProto.FLOAT, ["N", 3, 12, 12])], [("y", ["N", 5])])
    net.add("Conv", ["x[0]*", net.weight("w1", 8, 3, 3, 3), net.weight("b1", 8)], "c1", pads=[1, 1, 1, 1])
    net.add("BatchNormalization", ["c1", net.weight("s", 8), net.weight("t", 8), net.weight("m", 8),
                                   net.weight("v", values=np.full(8, 0.7, "f4"))], "bn")
    net.add("Relu", ["bn"], "r1")
    net.add("Conv", ["r1", net.weight("w2", 8, 8, 3, 3)], "c2", pads=[1, 1, 1, 1])
    net.add("Add", ["c2", "r1"], "sum")
    net.add("Constant", [], "half", value=numpy_helper.from_array(np.array([0.5], "f4")))
    net.add("Mul", ["sum", "half"], "scaled")
    net.add("Tanh", ["scaled"], "unread")
    net.add("MaxPool", ["scaled"], "pool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Flatten", ["pool"], "flat")
    net.add("Gemm", ["flat", net.weight("w3", 288, 5), net.weight("b3", 5)], "y")
    return net.model(), [{"x[0]*": RANDOM.standard_normal((n, 3, 12, 12)).astype("f4") * n} for n in (1, 2, 1, 3)]


def recurrent():
    """The first axis is time; of another length in each item."""
    net = Net("recurrent", 14, [("x", TensorProto.FLOAT, ["T", 1, 6])], [("y", None)])
    net.add("LSTM", ["x", net.weight("w", 1, 32, 6), net.weight("r", 1, 32, 8), net.weight("b", 1, 64)], ["h", "last"],
            hidden_size=8)
    net.add("Squeeze", ["h", net.weight("axes", values=np.array([1], "i8"))], "flat")
    net.add("MatMul", ["flat", net.weight("w2", 1, 8, 4)], "y")
    return net.model(), [{"x": RANDOM.standard_normal((n, 1, 6)).astype("f4")} for n in (3, 5, 4, 7)]


def encoder():
    """One layer of a transformer's encoder with a mask, of free batch and length."""
    net = Net("encoder", 17, [("tokens", TensorProto.INT64, ["B", "L"]), ("mask", TensorProto.FLOAT, ["B", "L"])],
              [("y", ["B", "L", 16])])
    net.add("Gather", [net.weight("words", 50, 16), "tokens"], "embedded")
    shape = net.weight("split", values=np.array([0, 0, 2, 8], "i8"))
    for part in "qkv":
        net.add("MatMul", ["embedded", net.weight(f"w_{part}", 16, 16)], f"m_{part}")
        net.add("Add", [f"m_{part}", net.weight(f"b_{part}", 16)], f"a_{part}")
        net.add("Reshape", [f"a_{part}", shape], f"r_{part}")
        net.add("Transpose", [f"r_{part}"], part, perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])
    net.add("MatMul", ["q", "k"], "scores")
    net.add("Sub", [net.weight("one", values=np.float32(1)), "mask"], "hidden")
    net.add("Mul", ["hidden", net.weight("much", values=np.float32(-10))], "far")
    net.add("Unsqueeze", ["far", net.weight("axes", values=np.array([1, 2], "i8"))], "wide")
    net.add("Add", ["scores", "wide"], "masked")
    net.add("Softmax", ["masked"], "p", axis=-1)
    net.add("MatMul", ["p", "v"], "mixed")
    net.add("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3])
    net.add("Reshape", ["back", net.weight("join", values=np.array([0, 0, 16], "i8"))], "joined")
    net.add("Add", ["joined", "embedded"], "residual")
    net.add("LayerNormalization", ["residual", net.weight("g", 16), net.weight("h", 16)], "normed")
    net.add("MatMul", ["normed", net.weight("w_o", 16, 16)], "y")
    items = [{"tokens": RANDOM.integers(0, 50, (b, n)), "mask": (np.arange(n) < n - k).astype("f4")[None].repeat(b, 0)}
             for b, n, k in ((1, 5, 0), (2, 7, 2), (1, 4, 1), (3, 6, 3))]
    return net.model(), items


def branches():
    """An If of which one branch runs."""
    def branch(name, op):
        return helper.make_graph([helper.make_node(op, ["a"], [f"{name}_out"], name=name)], name, [],
                                 [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)])
    net = Net("branches", 13, [("x", TensorProto.FLOAT, [2, 6]), ("flag", TensorProto.BOOL, [])], [("y", [2, 3])])
    net.add("MatMul", ["x", net.weight("w", 6, 6)], "a")
    net.add("If", ["flag"], "b", then_branch=branch("then", "Relu"), else_branch=branch("else", "Sigmoid"))
    net.add("Gemm", ["b", net.weight("w2", 3, 6), net.weight("b2", 3)], "y", transB=1)
    return net.model(), [{"x": RANDOM.standard_normal((2, 6)).astype("f4"), "flag": np.array(True)} for _ in range(4)]


class Reader(ort.CalibrationDataReader):
    """Fills the same arrays again where shapes allow it, as readers may that are asked by ONNX Runtime."""

    def __init__(self, items):
        self.items, self.at, self.end, self.buffers = items, 0, len(items), {}

    def get_next(self):
        if self.at >= self.end:
            return None
        item = {}
        for name, array in self.items[self.at].items():
            buffer = self.buffers.setdefault((name, array.shape), np.empty_like(array))
            buffer[...] = array
            item[name] = buffer
        self.at += 1
        return item

    def __len__(self):
        return len(self.items)

    def set_range(self, start_index, end_index):
        self.at, self.end = start_index, end_index


NETWORKS = {}


def network(build, folder=Path(tempfile.mkdtemp(dir=FOLDER))):
    """Its file, and items to calibrate with."""
    if build not in NETWORKS:
        model, items = build()
        path = folder / f"{build.__name__}.onnx"
        onnx.save(model, path)
        NETWORKS[build] = str(path), items
    return NETWORKS[build]


def moved_constants():
    """Weights behind Transpose and Identity, which are activations to ONNX Runtime and the same for all items."""
    net = Net("moved_constants", 13, [("x", TensorProto.FLOAT, ["N", 6])], [("y", ["N", 4])])
    net.add("Transpose", [net.weight("w1", 8, 6)], "w1_t", perm=[1, 0])
    net.add("Identity", [net.weight("b1", 8)], "b1_same")
    net.add("MatMul", ["x", "w1_t"], "m1")
    net.add("Add", ["m1", "b1_same"], "a1")
    net.add("Relu", ["a1"], "r1")
    net.add("Gemm", ["r1", net.weight("w2", 8, 4), net.weight("b2", 4)], "y")
    return net.model(), [{"x": RANDOM.standard_normal((1, 6)).astype("f4")} for _ in range(4)]


def halved(build, opset):
    """The same in float16."""
    model, items = build()
    model.opset_import[0].version = opset
    for weight in model.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).astype("f2"), weight.name))
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model, [{key: array.astype("f2") if array.dtype == np.float32 else array for key, array in item.items()} for item in items]


ALL = (convolutions, recurrent, encoder, branches, moved_constants)


# ---- comparing ----

def ranges(create, path, items, calls=1, **settings):
    with tempfile.TemporaryDirectory() as folder:
        calibrater = create(Path(path), augmented_model_path=f"{folder}/augmented.onnx", **settings)
        for i in range(calls):
            silently(calibrater.collect_data, Reader(items[i::calls]))
        return silently(calibrater.compute_data)


def same_ranges(ours, theirs, what, tolerance=2e-5):
    assert ours.calibration_method == theirs.calibration_method and ours.keys() == theirs.keys(), \
        (what, set(ours.keys()) ^ set(theirs.keys()))
    for name, want in theirs.items():
        for got, expected in zip(ours[name].range_value, want.range_value):
            assert got.dtype == expected.dtype and np.shape(got) == np.shape(expected), (what, name)
            far = max(abs(float(np.ravel(x)[0])) for x in want.range_value)
            assert abs(float(np.ravel(got)[0]) - float(np.ravel(expected)[0])) <= tolerance * far, (what, name, got, expected)


def same_files(ours, theirs, what):
    """The same nodes on the same values, types and shapes; scales and biases but for rounding."""
    ours, theirs = onnx.load(ours), onnx.load(theirs)
    assert [(n.op_type, n.input, n.output) for n in ours.graph.node] == \
        [(n.op_type, n.input, n.output) for n in theirs.graph.node], what
    got, want = ({w.name: w for w in m.graph.initializer} for m in (ours, theirs))
    assert got.keys() == want.keys(), (what, got.keys() ^ want.keys())
    for name, weight in want.items():
        assert weight.data_type == got[name].data_type and weight.dims == got[name].dims, (what, name)
        a, b = (numpy_helper.to_array(w).astype("f8") for w in (got[name], weight))
        near = np.abs(a - b) <= (1e-4 * np.abs(b) if weight.data_type == TensorProto.FLOAT else 1 + 1e-5 * np.abs(b))
        assert near.all(), (what, name, a, b)


def runs(path, items):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [session.run(None, item)[0] for item in items]


@contextlib.contextmanager
def told():
    """What is logged meanwhile."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("tidemark")
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


# ---- tests ----

def test_min_and_max_equal_onnx_runtimes():
    for build in ALL:
        path, items = network(build)
        for options in ({}, {"symmetric": True}, {"moving_average": True, "averaging_constant": 0.3},
                        {"moving_average": True, "symmetric": True}):
            for calls in (1, 2):
                got, want = (ranges(create, path, items, calls, extra_options=options)
                             for create in (tidemark.ort.create_calibrator, CALIBRATE.create_calibrator))
                same_ranges(got, want, (build.__name__, options, calls))
    path, items = network(convolutions)
    got, want = (ranges(create, path, items, op_types_to_calibrate=["Conv"])
                 for create in (tidemark.ort.create_calibrator, CALIBRATE.create_calibrator))
    same_ranges(got, want, "Conv")
    assert set(got.keys()) == {"x[0]*", "c1", "r1", "c2"}


def test_more_data_may_come_after_the_ranges():
    path, items = network(convolutions)
    calibrater = tidemark.ort.create_calibrator(path)
    raises(ValueError, "No data is collected", calibrater.collect_data, Reader([]))
    raises(ValueError, "No data is collected", calibrater.compute_data)
    calibrater.collect_data(Reader(items[:2]))
    calibrater.compute_data()
    calibrater.collect_data(Reader(items[2:]))
    same_ranges(calibrater.compute_data(), ranges(CALIBRATE.create_calibrator, path, items), "in two parts")
    assert isinstance(calibrater, ort.CalibraterBase) and calibrater.get_augment_model().graph.node


def test_distributions_equal_onnx_runtimes():
    path, items = network(recurrent)
    items = items[:1]  # ONNX Runtime's cannot have items of other shapes
    for scenario, bins in (("same", 512), ("same", 2048), ("p3", 512)):
        got, want = (ranges(create, path, items, calibrate_method=CalibrationMethod.Distribution,
                            extra_options={"scenario": scenario, "num_bins": bins})
                     for create in (tidemark.ort.create_calibrator, CALIBRATE.create_calibrator))
        same_ranges(got, want, scenario)
        for name, data in want.items():
            assert got[name].hist.shape == data.hist.shape and got[name].hist_edges.dtype == data.hist_edges.dtype
            assert got[name].hist.sum() == data.hist.sum(), (name, bins)  # few elements in many bins: none gets lost
            assert np.isclose(got[name].std, data.std, rtol=0.005) and got[name].std.dtype == data.std.dtype, (name, scenario)


def test_methods_give_their_thresholds():
    path, items = network(recurrent)
    items = [{"x": RANDOM.laplace(size=(4000, 1, 6)).astype("f4")}]
    items[0]["x"][7, 0, 3] = 60
    of = {}
    for name in ("MinMax", "Entropy", "Percentile"):
        of[name] = ranges(tidemark.ort.create_calibrator, path, items, calibrate_method=CalibrationMethod[name])["x"].range_value
    items[0]["x"][:20, 0, 0] = 40  # one side is longer: by magnitude both ends are others
    for symmetric, percentile, of_codes in itertools.product((False, True), (90.0, 99.0), (False, True)):
        words = {"calibrate_method": CalibrationMethod.Percentile, "extra_options": {"percentile": percentile, "symmetric": symmetric}}
        want = ranges(CALIBRATE.create_calibrator, path, items, **words)["x"]
        got = ranges(tidemark.ort.create_calibrator, path, items, activation_symmetric=of_codes, **words)["x"]
        near = np.allclose(got.range_value, want.range_value, rtol=0.005, atol=60 / 1024)  # half of a bin of ours, and one of theirs
        assert near and got.lowest.shape == (), (percentile, symmetric, of_codes, got.range_value, want.range_value)
    for kind in (QuantType.QInt4, QuantType.QUInt16):
        of[kind] = ranges(tidemark.ort.create_calibrator, path, items, method="mse", activation_type=kind)["x"].range_value
    wide = of["MinMax"][1]
    assert of["Entropy"][1] > 0.98 * wide, "what one of few samples has costs more to clip than to keep"
    assert of["Percentile"][1] <= wide and of[QuantType.QInt4][1] < 0.5 * wide
    many = [{"x": RANDOM.laplace(size=(40, 1, 6)).astype("f4")} for _ in range(512)]
    entropy = ranges(tidemark.ort.create_calibrator, path, many, calibrate_method=CalibrationMethod.Entropy)["x"].range_value
    assert entropy[1] < max(item["x"].max() for item in many)
    assert of[QuantType.QUInt16][1] > 2 * of[QuantType.QInt4][1]
    both = ranges(tidemark.ort.create_calibrator, path, items, method="mse",
                  overrides={"x": [{"quant_type": QuantType.QUInt16}]})
    assert both["x"].highest == of[QuantType.QUInt16][1]
    raises(ValueError, "there are", tidemark.ort.create_calibrator, path, method="best")
    calibrater = tidemark.ort.create_calibrator(path, method="mse")
    calibrater.collect_data(Reader(items))
    calibrater.compute_data()
    calibrater.collect_data(Reader(items))
    raises(ValueError, "after compute_data", calibrater.compute_data)


def test_constants_have_one_range_by_the_method(folder):
    """Weights and the like that are no initializers, but made of these or by a Constant: their shapes are declared, or not."""
    def spread(*shape):
        return RANDOM.standard_normal(shape).astype("f4") * np.linspace(0.1, 1, shape[0], dtype="f4").reshape(-1, *[1] * (len(shape) - 1))
    net = Net("constants", 17, [("x", TensorProto.FLOAT, [1, 3, 12, 12])], [("y", [1, 64])])
    net.add("Constant", [], "w", value=numpy_helper.from_array(spread(64, 3, 3, 3)))
    net.add("Identity", [net.weight("b_raw", values=spread(64))], "b")
    net.add("Conv", ["x", "w"], "c")
    net.add("GlobalAveragePool", ["c"], "p")
    net.add("Reshape", ["p", net.weight("to_rows", values=np.array([1, 64]))], "rows")
    net.add("Reshape", [net.weight("v_raw", values=spread(512, 8)), net.weight("to_square", values=np.array([64, 64]))], "v")
    net.add("Transpose", ["v"], "v_t", perm=[1, 0])
    net.add("MatMul", ["rows", "v_t"], "m")
    net.add("Mul", ["m", "b"], "y")
    model, items = net.model(), [{"x": RANDOM.standard_normal((1, 3, 12, 12)).astype("f4")} for _ in range(4)]
    for path in (folder / "plain.onnx", folder / "declared.onnx"):
        onnx.save(model, path)
        model.graph.value_info.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 3, 3, 3]))
        moving = ranges(tidemark.ort.create_calibrator, path, items, method="moving-average")
        assert all(np.size(moving[name].range_value[0]) == 1 for name in ("w", "b", "v", "v_t")), "constants have no extremes by sample"
        for settings in ({"calibrate_method": CalibrationMethod.Entropy}, {"calibrate_method": CalibrationMethod.Percentile},
                         {"calibrate_method": CalibrationMethod.Percentile, "extra_options": {"percentile": 40.1}},
                         {"calibrate_method": CalibrationMethod.Percentile, "extra_options": {"percentile": 90.1}},
                         {"calibrate_method": CalibrationMethod.Percentile, "extra_options": {"percentile": 90.1, "symmetric": False}}):
            got, want = (ranges(create, path, items, **settings)
                         for create in (tidemark.ort.create_calibrator, CALIBRATE.create_calibrator))
            for name in ("w", "b", "v", "v_t"):
                ours, theirs = got[name].range_value, want[name].range_value
                near = np.shape(ours[0]) == np.shape(theirs[0]) and np.allclose(ours, theirs, rtol=0.02)
                assert near, (path.name, settings, name, ours, theirs)


SETTINGS = {
    "defaults": {},
    "int8, symmetric": dict(activation_type=QuantType.QInt8, extra_options={"ActivationSymmetric": True}),
    "uint16": dict(activation_type=QuantType.QUInt16),
    "int16 and int8": dict(activation_type=QuantType.QInt16, weight_type=QuantType.QInt8),
    "by channel, reduced": dict(per_channel=True, reduce_range=True),
    "op types": dict(op_types_to_quantize=["MatMul", "Conv", "Gemm"]),
    "excluded": dict(nodes_to_exclude=["n0_Conv", "n4_Add", "n2_MatMul", "n13_MatMul"]),
    "QOperator": dict(quant_format=QuantFormat.QOperator),
    "calibration": dict(extra_options={"CalibMovingAverage": True, "CalibStridedMinMax": 2, "CalibTensorRangeSymmetric": True,
                                       "CalibMaxIntermediateOutputs": 5}),
}


def test_quantized_files_equal_onnx_runtimes():
    ran = good = 0
    for build in ALL:
        path, items = network(build)
        for what, settings in SETTINGS.items():
            if build is branches and what == "QOperator":
                continue  # ONNX Runtime's quantizer raises
            with tempfile.TemporaryDirectory() as folder:
                theirs, ours = f"{folder}/theirs.onnx", f"{folder}/ours.onnx"
                silently(ort.quantize_static, path, theirs, Reader(items), **settings)
                silently(tidemark.ort.quantize_static, path, ours, Reader(items), **settings)
                same_files(ours, theirs, (build.__name__, what))
                with contextlib.suppress(Exception):  # of an operator set below 13 by channel, for one, it does not run
                    runs(theirs, items)
                    ran += 1
                    wanted = runs(ours, items)
                    assert all(np.isfinite(a).all() for a in wanted), (build.__name__, what)
                    good += 1
    assert ran == good > 25, (ran, good)


def chosen(path, items, folder, **settings):
    """A file by choose="tidemark", whose operators read codes, by type."""
    out = f"{folder}/chosen.onnx"
    silently(tidemark.ort.quantize_static, path, out, Reader(items), choose="tidemark", **settings)
    nodes = onnx.load(out).graph.node
    made = {name for node in nodes if node.op_type == "DequantizeLinear" for name in node.output}
    return out, {node.op_type for node in nodes if made.intersection(node.input) and node.op_type != "QuantizeLinear"}


def test_open_choices_are_told_in_one_line(folder):
    path, items = network(convolutions)
    for settings, words in (({}, "op_types_to_quantize, calibrate_method, per_channel"), ({"choose": "onnxruntime"}, None),
                            ({"op_types_to_quantize": ["Conv"], "per_channel": True, "method": "minmax"}, "activation_type, weight_type"),
                            ({"choose": "tidemark"}, None)):
        with told() as lines:
            silently(tidemark.ort.quantize_static, path, f"{folder}/out.onnx", Reader(items), **settings)
        found = [line for line in lines if "choose=" in line]
        assert len(found) == (words is not None) and all(words in line for line in found), (settings, found)


def test_tidemark_chooses_what_is_open_and_nothing_else(folder):
    path, items = network(convolutions)
    out, kinds = chosen(path, items, folder)
    assert "Gemm" in kinds, kinds
    wanted, got = runs(path, items), runs(out, items)
    assert all(np.isfinite(a).all() for a in got)
    noise = sum(float(((a - b) ** 2).sum()) for a, b in zip(got, wanted)) / sum(float((b ** 2).sum()) for b in wanted)
    assert noise < 0.01, noise
    profile = tidemark.profile(path, [dict(item) for item in items])
    encodings = profile.calibrate("minmax")  # the default looks at how many samples a value had, and items may hold several
    out, _ = chosen(path, items, folder, method="minmax")
    tensors = {w.name: numpy_helper.to_array(w) for w in onnx.load(out).graph.initializer}
    compared = 0
    for name, e in encodings.items():
        if e.role == "activation" and f"{name}_scale" in tensors and e.axis is None:
            assert np.allclose(tensors[f"{name}_scale"], e.scale, rtol=1e-5), name
            compared += 1
    assert compared > 1
    _, kinds = chosen(path, items, folder, op_types_to_quantize=["Conv"])
    assert "Conv" in kinds and "Gemm" not in kinds, kinds  # results of Conv have codes, whatever reads them
    out, _ = chosen(path, items, folder, per_channel=False, weight_type=QuantType.QUInt8, activation_type=QuantType.QUInt16)
    model = onnx.load(out)
    types = {w.data_type for w in model.graph.initializer if w.name.endswith("_zero_point")}
    assert TensorProto.UINT16 in types and TensorProto.UINT8 in types and TensorProto.INT8 not in types, types
    newer, tokens = network(encoder)  # scales by channel need operator set 13
    for settings, wanted in (({}, True), ({"per_channel": False}, False)):
        out, _ = chosen(newer, tokens, folder, **settings)
        by_channel = any(w.name.endswith("_scale") and list(w.dims) not in ([], [1]) for w in onnx.load(out).graph.initializer)
        assert by_channel == wanted, settings
    for wrong, settings in (("choose", {"choose": "me"}), ("SmoothQuant", {"choose": "tidemark", "extra_options": {"SmoothQuant": True}}),
                            ("Distribution", {"choose": "tidemark", "calibrate_method": CalibrationMethod.Distribution})):
        raises(ValueError, wrong, tidemark.ort.quantize_static, path, f"{folder}/x.onnx", Reader(items), **settings)
    raises(ValueError, "No data", tidemark.ort.quantize_static, path, f"{folder}/x.onnx", Reader([]), choose="tidemark")


def test_quantized_float16_loads(folder):
    """ONNX Runtime's own files of these do not, but for the last."""
    for opset, settings in ((17, {}), (21, {}), (17, {"activation_type": QuantType.QUInt16}), (17, {"calibration_cache_path": f"{folder}/c.json"}),
                            (21, {"op_types_to_quantize": ["MatMul"]})):
        model, items = halved(encoder, opset)
        settings = {"activation_type": QuantType.QUInt8, **settings}
        path, ours, theirs = f"{folder}/half.onnx", f"{folder}/ours.onnx", f"{folder}/theirs.onnx"
        onnx.save(model, path)
        for _ in range(2 if "calibration_cache_path" in settings else 1):  # with ranges from the file, too
            silently(tidemark.ort.quantize_static, path, ours, Reader(items), **settings)
            for wanted, got in zip(runs(path, items), runs(ours, items)):
                assert got.dtype == np.float16 and np.abs(got - wanted).max() < .2 * np.abs(wanted).max(), (opset, settings)
        if "op_types_to_quantize" in settings:
            silently(ort.quantize_static, path, theirs, Reader(items), **settings)
            same_files(ours, theirs, settings)
        raises(ValueError, "quant_format=QuantFormat.QDQ", tidemark.ort.quantize_static, path, ours, Reader(items),
               quant_format=QuantFormat.QOperator)


def test_other_entry_points_equal_onnx_runtimes(folder):
    from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config
    path, items = network(encoder)
    assert tidemark.ort.QuantType is QuantType and "quant_pre_process" in dir(tidemark.ort)
    raises(AttributeError, "no_such", getattr, tidemark.ort, "no_such")
    theirs, ours = f"{folder}/theirs.onnx", f"{folder}/ours.onnx"
    for make in (lambda: ort.StaticQuantConfig(Reader(items)),
                 lambda: tidemark.ort.get_qdq_config(path, Reader(items), activation_type=QuantType.QUInt16),
                 lambda: get_qnn_qdq_config(path, Reader(items), activation_type=QuantType.QUInt16, stride=2)):
        silently(ort.quantize, path, theirs, make())
        silently(tidemark.ort.quantize, path, ours, make())
        same_files(ours, theirs, "a configuration")
    for output, create in ((theirs, CALIBRATE.create_calibrator), (ours, tidemark.ort.create_calibrator)):
        quantizer = ort.QDQQuantizer(onnx.load(path), False, False, QuantType.QInt8, QuantType.QUInt8,
                                     ranges(create, path, items), [], [], ["MatMul", "Add"], {})
        quantizer.quantize_model()
        quantizer.model.save_model_to_file(output)
    same_files(ours, theirs, "QDQQuantizer")


class SmoothQuant:
    """Stands in for the package that ONNX Runtime has for SmoothQuant: x . w becomes (x / 2) . (2 w), with new values and nodes."""

    def __init__(self, path, loader, reduce_range):
        self.model, self.seen = onnx.load(path), sum(1 for _ in loader)

    def transform(self, alpha, folding):
        assert (self.seen, alpha, folding) == (4, 0.25, False)
        weights = {weight.name: weight for weight in self.model.graph.initializer}
        half = numpy_helper.from_array(np.array([0.5], "f4"), "sq_half")
        for at, node in [(i, node) for i, node in enumerate(self.model.graph.node) if node.op_type == "MatMul"][::-1]:
            if node.input[1] in weights:
                weight = weights[node.input[1]]
                weight.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(weight), weight.name))
                halved = helper.make_node("Mul", [node.input[0], "sq_half"], [f"sq_{at}"], f"sq_mul_{at}")
                node.input[0] = f"sq_{at}"
                self.model.graph.node.insert(at, halved)
        self.model.graph.initializer.append(half)
        return self

    def save(self, path):
        onnx.save(self.model, path)


def test_smooth_quant_equals_onnx_runtimes(folder):
    parts = "neural_compressor.adaptor.ox_utils.smooth_quant".split(".")
    names = [".".join(parts[:i + 1]) for i in range(len(parts))]
    modules = {name: types.ModuleType(name) for name in names}
    modules[names[-1]].ORTSmoothQuant = SmoothQuant
    path, items = network(encoder)
    options = {"SmoothQuant": True, "SmoothQuantAlpha": 0.25, "SmoothQuantFolding": False}
    theirs, ours = f"{folder}/theirs.onnx", f"{folder}/ours.onnx"
    with mock.patch.dict(sys.modules, modules):
        for function, file in ((ort.quantize_static, theirs), (tidemark.ort.quantize_static, ours)):
            silently(function, path, file, Reader(items), extra_options=options)
    same_files(ours, theirs, "SmoothQuant")
    scales = [weight.name for weight in onnx.load(ours).graph.initializer if weight.name.endswith("_scale")]
    assert any(name.startswith("sq_") for name in scales), scales


def test_models_in_memory_and_with_external_weights(folder):
    path, items = network(encoder)
    model = onnx.load(path)
    apart, theirs, ours = f"{folder}/apart.onnx", f"{folder}/theirs.onnx", f"{folder}/ours.onnx"
    silently(ort.quantize_static, path, theirs, Reader(items))
    silently(tidemark.ort.quantize_static, model, ours, Reader(items))
    same_files(ours, theirs, "in memory")
    onnx.save(onnx.load(path), apart, save_as_external_data=True, size_threshold=256, location="weights")
    silently(ort.quantize_static, apart, theirs, Reader(items), use_external_data_format=True)
    silently(tidemark.ort.quantize_static, apart, ours, Reader(items), use_external_data_format=True)
    same_files(ours, theirs, "weights in a file of their own")


def test_memory_does_not_grow_with_the_data():
    net = Net("wide", 13, [("x", TensorProto.FLOAT, ["N", 512])], [("y", ["N", 64])])
    net.add("MatMul", ["x", net.weight("w", 512, 64)], "y")  # large enough to be left aside where values are chosen
    item = {"x": np.ones((512, 512), "f4")}
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(net.model(), f"{folder}/wide.onnx")
        calibrater = tidemark.ort.create_calibrator(f"{folder}/wide.onnx")
        calibrater.collect_data(Reader([item] * 50))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        calibrater.collect_data(Reader([item] * 500))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        same_ranges(calibrater.compute_data(), ranges(CALIBRATE.create_calibrator, f"{folder}/wide.onnx", [item]), "wide")
        for size in (0, 7, 40, 70000):
            Path(f"{folder}/broken.onnx").write_bytes(Path(f"{folder}/wide.onnx").read_bytes()[:size])
            raises(ValueError, "broken.onnx: cannot be read", tidemark.ort.create_calibrator, f"{folder}/broken.onnx")
    assert grown < 250, f"{grown:.0f} MiB for 500 MiB of data"  # what workers hold at a time depends on their speed


def test_cache_of_another_method_is_refused(folder):
    path, items = network(recurrent)
    if "calibration_cache_path" not in QUANTIZE.quantize_static.__code__.co_varnames:
        skip("this ONNX Runtime has no calibration cache")
    first, second, cache = (f"{folder}/{name}" for name in ("1.onnx", "2.onnx", "cache.json"))
    silently(tidemark.ort.quantize_static, path, first, Reader(items), method="mse", calibration_cache_path=cache)
    silently(tidemark.ort.quantize_static, path, second, None, method="mse", calibration_cache_path=cache)
    assert Path(first).read_bytes() == Path(second).read_bytes()
    raises(ValueError, "method='mse'", tidemark.ort.quantize_static, path, second, None, calibration_cache_path=cache)


def test_errors_of_readers_are_raised():
    path, items = network(convolutions)

    class Broken(Reader):
        def get_next(self):
            if self.at == 2:
                raise OSError("the disk is gone")
            return super().get_next()
    threads = threading.active_count()
    for create in (tidemark.ort.create_calibrator, CALIBRATE.create_calibrator):
        with tempfile.TemporaryDirectory() as folder:
            calibrater = create(Path(path), augmented_model_path=f"{folder}/augmented.onnx")
            raises(OSError, "the disk is gone", calibrater.collect_data, Broken(items))
    assert threading.active_count() == threads, "a run is still active"
    raises(ValueError, "'z'", tidemark.ort.create_calibrator(path).collect_data, Reader([{**items[0], "z": items[0]["x[0]*"]}]))
    raises(ValueError, "'x[0]*'", tidemark.ort.create_calibrator(path).collect_data, Reader([{"x": np.zeros(1, "f4")}]))


def test_unsupported_models_run_in_onnx_runtime(folder):
    net = Net("foreign", 13, [("x", TensorProto.FLOAT, [4, 4])], [("y", [1, 4, 4])])
    axis = net.weight("axis", values=np.int32(0))
    net.nodes.append(helper.make_node("ExpandDims", ["x", axis], ["g"], domain="com.microsoft"))
    net.add("MatMul", ["g", net.weight("w", 4, 4)], "y")
    items = [{"x": RANDOM.standard_normal((4, 4)).astype("f4")} for _ in range(3)]
    path, theirs, ours = (f"{folder}/{name}.onnx" for name in ("model", "theirs", "ours"))
    onnx.save(net.model(), path)
    silently(ort.quantize_static, path, theirs, Reader(items))
    with told() as lines:
        silently(tidemark.ort.quantize_static, path, ours, Reader(items), choose="onnxruntime")
    assert len(lines) == 1 and "ExpandDims" in lines[0], lines
    same_files(ours, theirs, "foreign")
    raises(tidemark.Error, "ExpandDims", tidemark.ort.quantize_static, path, ours, Reader(items), method="mse")
    path, items = network(convolutions)
    with told() as lines:
        got = ranges(tidemark.ort.create_calibrator, path, items[:1], extra_options={"per_channel": True})
    assert "per_channel" in lines[0] and got["c1"].lowest.shape == (8,), lines


def test_infinities_are_reported(folder):
    net = Net("masked", 13, [("x", TensorProto.FLOAT, [1, 4]), ("keep", TensorProto.BOOL, [1, 4])], [("y", [1, 4])])
    net.add("Where", ["keep", "x", net.weight("never", values=np.float32(-np.inf))], "masked")
    net.add("Softmax", ["masked"], "p")
    net.add("MatMul", ["p", net.weight("w", 4, 4)], "y")
    items = [{"x": RANDOM.standard_normal((1, 4)).astype("f4"), "keep": np.array([[True, True, False, k]])} for k in (True, False)]
    path = f"{folder}/masked.onnx"
    onnx.save(net.model(), path)
    with told() as lines:
        got = ranges(tidemark.ort.create_calibrator, path, items)
    want = ranges(CALIBRATE.create_calibrator, path, items)
    assert "masked" in lines[0] and got["masked"].lowest == want["masked"].lowest == -np.inf, lines
    assert got["masked"].highest == want["masked"].highest
    with told() as lines:  # what is logged is what helps
        silently(tidemark.ort.quantize_static, path, f"{folder}/out.onnx", Reader(items), choose="onnxruntime")
        nodes = json.loads(lines[0].split("nodes_to_exclude=")[1].replace("'", '"'))
        silently(tidemark.ort.quantize_static, path, f"{folder}/out.onnx", Reader(items), nodes_to_exclude=nodes, choose="onnxruntime")
    assert len(lines) == 1 and nodes == ["n0_Where", "n1_Softmax"], lines
    assert np.allclose(runs(f"{folder}/out.onnx", items), runs(path, items), atol=0.02)


def test_excluded_numbers_are_in_no_range():
    net = Net("masked", 13, [("x", TensorProto.FLOAT, [1, 4]), ("keep", TensorProto.BOOL, [1, 4])], [("y", [1, 4])])
    net.add("Where", ["keep", "x", net.weight("never", values=np.float32(-1e9))], "masked")
    net.add("Softmax", ["masked"], "p")
    net.add("MatMul", ["p", net.weight("w", 4, 4)], "y")
    items = [{"x": RANDOM.uniform(-12, 12, (1, 4)).astype("f4"), "keep": np.array([[True, True, False, k]])} for k in (True, False)]
    kept = np.concatenate([item["x"][item["keep"]] for item in items])
    with tempfile.TemporaryDirectory() as folder:
        path, out, cache = f"{folder}/masked.onnx", f"{folder}/out.onnx", f"{folder}/cache.json"
        onnx.save(net.model(), path)
        for method in (None, "minmax", "mse", "moving-average"):
            with told() as lines:
                got = ranges(tidemark.ort.create_calibrator, path, items, method=method, exclude=[-1e9])["masked"]
            assert not lines and (method == "moving-average" or (got.lowest == kept.min() and got.highest == kept.max())), (method, got)
        silently(tidemark.ort.quantize_static, path, out, Reader(items), exclude=[-1e9])
        scale, = (numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer if t.name == "masked_scale")
        assert scale < 0.1, scale
        assert tidemark.profile(path, items[0], exclude=[-1e9])["masked"].min > -13
        raises(tidemark.Error, "cannot be excluded", tidemark.ort.quantize_static, path, out, Reader(items), exclude=[np.inf])
        raises(ValueError, "mask", tidemark.ort.quantize_static, path, out, Reader(items), exclude=["mask"])
        raises(ValueError, "exclude=", tidemark.ort.create_calibrator(path, extra_options={"per_channel": True}, exclude=[-1e9]).collect_data,
               Reader(items))
        if "calibration_cache_path" in QUANTIZE.quantize_static.__code__.co_varnames:
            silently(tidemark.ort.quantize_static, path, out, Reader(items), exclude=[-1e9], calibration_cache_path=cache)
            silently(tidemark.ort.quantize_static, path, out, None, exclude=[-1e9], calibration_cache_path=cache)
            raises(ValueError, "exclude=[]", tidemark.ort.quantize_static, path, out, None, calibration_cache_path=cache)


def test_other_threads_keep_onnx_runtimes_calibrater():
    path, items = network(branches)
    seen = []

    class Looking(Reader):
        def get_next(self):
            thread = threading.Thread(target=lambda: seen.append(QUANTIZE.create_calibrator))
            thread.start()
            thread.join()
            return super().get_next()
    with tempfile.TemporaryDirectory() as folder:
        silently(tidemark.ort.quantize_static, path, f"{folder}/out.onnx", Looking(items))
    assert len(seen) == 5 and set(seen) == {CALIBRATE.create_calibrator}


main()
