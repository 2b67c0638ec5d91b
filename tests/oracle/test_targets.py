# SPDX-License-Identifier: Apache-2.0
"""Files that are exported for a target hold only what its table allows, and its runtime runs them where it is installed.

The files are read back here, without the program: QDQ models node by node, OpenVINO's FakeQuantize operations. For LiteRT and ncnn,
which are given ranges, test_export_consumers.py runs the result.
"""
import importlib
import json
import xml.etree.ElementTree as ElementTree

# First: it leaves the test out where packages are missing.
from oracle import SOURCE, execute, folder, main, model_of, present, profile, samples, session, skip, sources, subset, tidemark

import numpy as np
import onnx

TABLES = {path.stem: json.loads(path.read_text()) for path in sorted((SOURCE / "share" / "targets").glob("*.json"))}
NETWORKS = present("mlperf_ic_resnet8", "mlperf_vww_mobilenet", "squeezenet10", "mnist_cnn")
MOVES = {"Identity", "Dropout"}  # no target computes them
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "PRelu", "BatchNormalization", "InstanceNormalization", "LayerNormalization"}
COUNT = 8
SIGNED = {np.dtype(np.int8): "int8", np.dtype(np.uint8): "uint8", np.dtype(np.int16): "int16", np.dtype(np.uint16): "uint16"}


def rows_of(table):
    """Operator: what it takes, the table's defaults filled in."""
    defaults = {"activation_scales": ["tensor"], "weight_scales": ["tensor"], "same_scale": "none", **table["defaults"]}
    return {op: {**defaults, **row} for row in table["operators"] for op in row["op"]}


def calibrated(path, name, target, *more):
    """The paths of the network and of its encodings for the target."""
    if not (path / f"{name}.json").exists():
        profile(model_of(name), sources(name), path / f"{name}.json", "--limit", COUNT)
    tidemark("calibrate", path / f"{name}.json", "--target", target, "-o", path / "enc.json", "-q", *more)
    return path / "enc.json"


# ---- QDQ models ----

class QDQ:
    """A model with pairs: the constants of each, who makes and who reads a value."""

    def __init__(self, path):
        self.model = onnx.load(path)
        self.constants = {one.name: onnx.numpy_helper.to_array(one) for one in self.model.graph.initializer}
        self.maker = {name: node for node in self.model.graph.node for name in node.output}

    def codes(self, value):
        """(scale, zero point, axis, is it a constant) of a dequantized value; None: it is float."""
        node = self.maker.get(value)
        if not node or node.op_type != "DequantizeLinear":
            return None
        axis = next((one.i for one in node.attribute if one.name == "axis"), 1)
        scale, zero = self.constants[node.input[1]], self.constants[node.input[2]]
        return scale, zero, axis if scale.ndim else None, node.input[0] in self.constants


def allows(words, zero, scale):
    """Is the type, with these zero points, among words such as "int8 symmetric"?"""
    middle = 0 if zero.dtype.kind == "i" else 1 << 8 * zero.dtype.itemsize - 1
    for word in words:
        kind, _, scheme = word.partition(" ")
        if kind == SIGNED.get(zero.dtype, str(zero.dtype)) and (not scheme or (scheme == "symmetric") == bool((zero == middle).all())):
            return True
    return False


def check_qdq(path, table):
    """How many operators read codes; every one as its row allows."""
    qdq, rows, seen = QDQ(path), rows_of(table), 0
    for node in qdq.model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") or node.op_type in MOVES:
            continue
        read = [qdq.codes(name) for name in node.input]
        if not any(read):
            continue
        assert node.op_type in rows, f"{node.op_type} {node.name} reads codes, and {table['name']} has no such kernel"
        row, seen = rows[node.op_type], seen + 1
        weighted = node.op_type in WEIGHTED
        for at, codes in enumerate(read):
            if not codes:
                continue
            scale, zero, axis, constant = codes
            role = "bias" if weighted and at == 2 else "weight" if weighted and constant else "activation"
            assert allows(row[role], zero, scale), f"{node.name}: input {at} is {zero.dtype}, zero points {zero}; {row[role]}"
            if role != "bias":
                assert ("tensor" if axis is None else "channel") in row[f"{role}_scales"], f"{node.name}: input {at}"
        moved = [codes for codes in read if codes and not codes[3]]
        if row["same_scale"] == "all":
            assert all(np.array_equal(codes[0], moved[0][0]) for codes in moved), node.name
        for reader in qdq.model.graph.node:
            if row["same_scale"] != "none" and moved and reader.op_type == "QuantizeLinear" and reader.input[0] in node.output:
                assert np.array_equal(qdq.constants[reader.input[1]], moved[0][0]), f"{node.name} and {reader.name}"
    return seen


def test_qdq_models_use_what_the_table_allows(path):
    counts = {}
    for target, table in TABLES.items():
        for name in subset(NETWORKS, 2) if "qdq" in table["exports"] else ():
            encodings = calibrated(path, name, target)
            tidemark("export", encodings, "--target", target, "--to", "qdq", "--model", model_of(name), "-o", path / "q.onnx", "-q")
            counts[target] = counts.get(target, 0) + check_qdq(path / "q.onnx", table)
    assert len(counts) >= 4 and min(counts.values()) > 10, counts
    return counts


def test_the_reader_finds_what_a_table_does_not_allow(path):
    name = NETWORKS[0]
    if not (path / f"{name}.json").exists():
        profile(model_of(name), sources(name), path / f"{name}.json", "--limit", COUNT)
    tidemark("calibrate", path / f"{name}.json", "-o", path / "enc.json", "-q")
    tidemark("export", path / "enc.json", "--to", "qdq", "--model", model_of(name), "-o", path / "q.onnx", "-q")
    for target in ("tensorrt", "ncnn"):
        try:
            check_qdq(path / "q.onnx", TABLES[target])
        except AssertionError:
            continue
        raise AssertionError(f"{target} allows what it has no kernel for")


def decibels(got, want):
    noise = ((got.astype(np.float64) - want) ** 2).sum()
    return 10 * np.log10((want.astype(np.float64) ** 2).sum() / noise) if noise else np.inf


def runs(session_of, name):
    return np.concatenate([session_of(feed).reshape(-1) for feed in samples(name, COUNT)])


def test_onnx_runtime_runs_what_is_made_for_it(path):
    found = {}
    for name in NETWORKS:
        encodings = calibrated(path, name, "ort-cpu")
        tidemark("export", encodings, "--target", "ort-cpu", "--model", model_of(name), "-o", path / "q.onnx", "-q")
        plain, quantized = (session(file, fused=True) for file in (model_of(name), path / "q.onnx"))
        found[name] = decibels(runs(lambda feed: quantized.run(None, feed)[0], name), runs(lambda feed: plain.run(None, feed)[0], name))
        assert found[name] > 10, found
    return {name: f"{value:.1f} dB" for name, value in found.items()}


# ---- OpenVINO ----

def test_openvino_runs_what_is_made_for_it(path):
    try:
        openvino = importlib.import_module("openvino")
    except ImportError as missing:
        skip(missing)
    found = {}
    for name in NETWORKS:
        openvino.save_model(openvino.Core().read_model(str(model_of(name))), str(path / "t.xml"), compress_to_fp16=False)
        encodings = calibrated(path, name, "openvino")
        tidemark("export", encodings, "--target", "openvino", "--template", path / "t.xml", "-o", path / "q.xml", "-q")
        layers = {layer.get("id"): layer for layer in ElementTree.parse(path / "q.xml").getroot().find("layers")}
        levels = {layer.find("data").get("levels") for layer in layers.values() if layer.get("type") == "FakeQuantize"}
        assert levels and levels <= {"256", "255"}, levels
        plain, quantized = (openvino.Core().compile_model(openvino.Core().read_model(str(path / file)), "CPU")
                            for file in ("t.xml", "q.xml"))
        kinds = [op.get_rt_info()["runtimePrecision"].astype(str).upper() for op in quantized.get_runtime_model().get_ops()
                 if op.get_rt_info()["layerType"].astype(str) == "Convolution"]
        found[name] = decibels(runs(lambda feed: quantized(feed)[0], name), runs(lambda feed: plain(feed)[0], name))
        assert found[name] > 10 and any(kind in ("I8", "U8") for kind in kinds), (found, kinds)
        found[name] = f"{found[name]:.1f} dB, {sum(kind in ('I8', 'U8') for kind in kinds)} of {len(kinds)} convolutions in 8 bits"
    return found


def test_scales_by_channel_of_activations_are_for_depthwise_convolutions_where_the_target_has_them(path):
    name = present("mlperf_vww_mobilenet")[0]
    graph = onnx.load(model_of(name)).graph
    shapes = {one.name: one.dims for one in graph.initializer}
    groups = {True: [], False: []}
    for node in graph.node:
        if node.op_type == "Conv" and node.input[0] != graph.input[0].name:
            groups[any(one.name == "group" and one.i == shapes[node.input[1]][0] for one in node.attribute)].append(node.input[0])

    def rules(value):
        config = {"rules": [{"match": {"name": value}, "per_channel": True}]}
        (path / "channel.json").write_text(json.dumps(config))
        return ["--config", path / "channel.json"]
    deep, dense = groups[True][-1], groups[False][-1]
    made = json.loads(calibrated(path, name, "openvino", *rules(deep)).read_text())["encodings"]
    assert next(one for one in made if one["name"] == deep)["axis"] == 1
    execute("check", path / "enc.json", "--target", "openvino", "--against", model_of(name))
    for target, value, says in (("openvino", dense, "one scale, but for depthwise"), ("ort-cpu", deep, "ort-cpu has one scale")):
        words = ["calibrate", path / f"{name}.json", "--target", target, "-o", path / "no.json", *rules(value)]
        assert says in execute(*words, status=3).stderr, (target, value)


# ---- formats of ranges and layers ----

def test_tables_and_ranges_name_only_what_the_target_computes(path):
    for target, to in (("litert", "litert"), ("ethos-u", "litert"), ("xnnpack", "litert"), ("tensorrt", "tensorrt-ranges"),
                       ("ncnn", "ncnn-table")):
        quantized = 0
        for name in NETWORKS:
            encodings = calibrated(path, name, target)
            named = {item["name"] for item in json.loads(encodings.read_text())["encodings"]}
            quantized += bool(named)  # too few channels for the target leave all float
            done = execute("export", encodings, "--target", target, "--to", to, "--model", model_of(name), "-o", path / "out", "--json",
                           status=0 if named else 1)
            if not named:
                continue
            written = json.loads(done.stdout)["written"]
            rows, nodes = rows_of(TABLES[target]), onnx.load(model_of(name)).graph.node
            allowed = {value for node in nodes if node.op_type in rows or node.op_type in MOVES for value in (*node.input, *node.output)}
            assert written and named <= allowed, (target, name, named - allowed)
        assert quantized >= len(NETWORKS) - 1, target


main()
