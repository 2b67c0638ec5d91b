# SPDX-License-Identifier: Apache-2.0
"""Table formats against the worked examples, number by number, bit by bit as float32."""
import json
import re
import struct

# First: it leaves the test out where packages are missing.
import oracle
from oracle import folder
from ncnn_files import ncnn_model
from spelled_norms import FUSED, samples, spelled_norms
from twoconv import EXAMPLES, MODEL, RANGES, encodings, export

import numpy as np
import onnx
from onnx import helper


def same(ours, theirs, where="", derived=()):
    """Equal trees; numbers are equal as float32, those of the derived keys to seven digits."""
    if isinstance(theirs, dict):
        assert sorted(ours) == sorted(theirs), f"{where}: {sorted(ours)} and {sorted(theirs)}"
        for key in theirs:
            same(ours[key], theirs[key], f"{where}/{key}", derived)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs)):
            same(a, b, f"{where}/{i}", derived)
    elif isinstance(theirs, float) and where.endswith(derived):
        assert np.isclose(ours, theirs, rtol=1e-7, atol=0), f"{where}: {ours!r} and {theirs!r}"
    elif isinstance(theirs, float):
        assert np.float32(ours) == np.float32(theirs), f"{where}: {ours!r} and {theirs!r}"
    else:
        assert ours == theirs, f"{where}: {ours!r} and {theirs!r}"


def words(path):
    """Lines of words that are numbers or not; comments are left out."""
    def word(text):
        try:
            return float(np.float32(text))
        except ValueError:
            return text
    return [[word(w) for w in re.split(r"[ :]+", line)] for line in path.read_text().splitlines() if not line.startswith("#")]


def test_aimet(path):
    for version in ("0.6.1", "1.0.0", "2.0.0"):
        ours = json.loads(export(path, "out", "aimet", "--set", f"version={version}").read_text())
        theirs = json.loads((EXAMPLES / "qnn_aimet" / f"twoconv.v{version}.encodings").read_text())
        if version == "2.0.0":
            for side in (ours, theirs):
                side["encodings"].sort(key=lambda e: e["name"])
        same(ours, theirs, derived=("/min", "/max"))  # offset times a scale that the example has in double


def test_aimet_of_what_it_fuses(path):
    """It refuses names that its graph does not have: of what is within, and of constants that are read there alone."""
    onnx.save(spelled_norms(), path / "m.onnx")
    np.save(path / "x.npy", samples())
    oracle.profile(path / "m.onnx", path / "x.npy", path / "p.json")
    oracle.tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--quiet", "-o", path / "enc.json")
    oracle.tidemark("export", path / "enc.json", "--model", path / "m.onnx", "--to", "aimet", "-o", path / "out")
    document, chosen = (json.loads((path / name).read_text()) for name in ("out", "enc.json"))
    known = {encoding["name"] for encoding in chosen["encodings"]}
    written = document["activation_encodings"].keys() | document["param_encodings"].keys()
    assert FUSED - known == {"fc_product", "turned_product"}, FUSED - known  # those are no codes anyway
    assert known - written == known & FUSED | {"one", "less"}, (known - written) ^ FUSED


def stacked_lstms():
    """The second reads what the first computes, moved."""
    rng, stored = np.random.default_rng(5), []
    for name, shape in (("w1", (1, 20, 3)), ("r1", (1, 20, 5)), ("w2", (1, 20, 5)), ("r2", (1, 20, 5))):
        stored.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
    stored.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
    nodes = [helper.make_node("LSTM", ["x", "w1", "r1"], ["all1", "last1", "cell1"], hidden_size=5),
             helper.make_node("Squeeze", ["all1", "axis"], ["moved"]),
             helper.make_node("LSTM", ["moved", "w2", "r2", "", "", "last1", "cell1"], ["all2", "last2", "cell2"], hidden_size=5)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [4, 1, 3])],
                              [helper.make_tensor_value_info(name, 1, None) for name in ("all2", "last2", "cell2")], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_aimet_of_recurrent_operators(path):
    """It has one quantizer for all hidden states and what they are computed from, and one for cell states."""
    onnx.save(stacked_lstms(), path / "m.onnx")
    np.save(path / "x.npy", 3 * np.random.default_rng(6).standard_normal((40, 4, 1, 3)).astype(np.float32))
    oracle.profile(path / "m.onnx", path / "x.npy", path / "p.json")
    oracle.tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--quiet", "-o", path / "enc.json")
    chosen = {one["name"]: one for one in json.loads((path / "enc.json").read_text())["encodings"]}
    for version in ("1.0.0", "2.0.0"):
        done = oracle.execute("export", path / "enc.json", "--model", path / "m.onnx", "--to", "aimet", "--set", f"version={version}", "-o", path / "out")
        assert "has one quantizer for the input, the hidden states" in done.stderr, done.stderr
        document = json.loads((path / "out").read_text())
        scales = {one["name"]: one["scale"][0] if version == "1.0.0" else one["y_scale"]
                  for one in document["activation_encodings" if version == "1.0.0" else "encodings"]}
        hidden, cells = ({scales[name] for name in names if name in chosen}
                         for names in (("x", "all1", "last1", "moved", "all2", "last2"), ("cell1", "cell2")))
        assert len(hidden) == 1 and len(cells) <= 1, (version, scales)
        assert hidden.pop() >= np.float32(max(chosen[name]["scale"][0] for name in ("x", "all1", "all2"))), scales


def test_litert_and_quark(path):
    same(json.loads(export(path, "out", "litert").read_text()),
         json.loads((EXAMPLES / "litert" / "calibration_result.json").read_text()))
    ours = json.loads(export(path, "out", "quark", all_activations=True).read_text())
    weights = {t["name"]: [t["min"], t["max"]] for t in json.loads((path / "p.json").read_text())["tensors"] if t["name"].endswith(".weight")}
    assert len(weights) == 2
    for name, ends in weights.items():  # where Constant nodes make them, Quark takes them for activations
        assert ours["tensors_range"].pop(name) == ends
    same(ours, json.loads((EXAMPLES / "quark" / "save_and_restore.json").read_text()))


def test_what_constants_compute_is_an_activation_for_some_readers(path):
    """A weight of the MatMul and an operand of the Add: formats without weights have the range for the Add."""
    rng = np.random.default_rng(5)
    nodes = [helper.make_node("Tanh", ["c"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["m"]),
             helper.make_node("Add", ["m", "t"], ["y"])]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [8, 8]) for name in "xy"]
    stored = [onnx.numpy_helper.from_array(rng.standard_normal((8, 8)).astype(np.float32), "c")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], stored), ir_version=9,
                                opset_imports=[helper.make_opsetid("", 17)]), path / "m.onnx")
    np.save(path / "x.npy", rng.standard_normal((32, 8)).astype(np.float32))
    oracle.profile(path / "m.onnx", path / "x.npy", path / "m.json")
    oracle.tidemark("calibrate", path / "m.json", "--sensitive=quantize", "-o", path / "m.enc", "-q")
    roles = sorted(e["role"] for e in json.loads((path / "m.enc").read_text())["encodings"] if e["name"] == "t")
    assert roles == ["activation", "weight"], roles
    for form in ("quark", "litert", "tensorrt-cache", "tensorrt-ranges", "tpu-mlir"):
        told = json.loads(oracle.tidemark("export", path / "m.enc", "--model", path / "m.onnx", "--to", form, "-o", path / "m.out", "--json"))
        assert re.search(r"(^|[\W])t\W", (path / "m.out").read_text(), re.MULTILINE), form
        assert len([one for one in told["skipped"] if one["name"] == "t"]) == 1, told["skipped"]
        assert not any("some of their readers" in remark for remark in told["remarks"]), told["remarks"]


def test_what_nodes_make_of_constants_is_no_weight_there(path):
    """The transpose of a tied embedding, as in GPT-2: ModelOpt and AI Edge Quantizer want a range."""
    nodes = [helper.make_node("Gather", ["table", "x"], ["e"]), helper.make_node("Transpose", ["table"], ["t"], perm=[1, 0]),
             helper.make_node("MatMul", ["e", "t"], ["y"])]
    ends = [helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [4]), helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 9])]
    table = np.random.default_rng(5).standard_normal((9, 8)).astype(np.float32)
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(table, "table")]),
                                ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), path / "m.onnx")
    np.save(path / "x.npy", np.arange(32).reshape(8, 4) % 9)
    oracle.profile(path / "m.onnx", path / "x.npy", path / "m.json")
    oracle.tidemark("calibrate", path / "m.json", "--sensitive=quantize", "--method", "minmax", "-o", path / "m.enc", "-q")
    assert [e["role"] for e in json.loads((path / "m.enc").read_text())["encodings"] if e["name"] == "t"] == ["weight"]
    for form in ("quark", "litert", "tensorrt-cache", "tensorrt-ranges"):
        for model in ([], ["--model", path / "m.onnx"]):
            oracle.tidemark("export", path / "m.enc", *model, "--to", form, "-o", path / "m.out", "-q")
            named = re.search(r"(^|[\W])t\W", (path / "m.out").read_text(), re.MULTILINE)
            assert bool(named) == (bool(model) or form == "quark"), (form, model)
    largest = dict(row for row in words(path / "m.out"))["t"]
    assert largest == float(np.abs(table).max()), largest


def test_tensorrt(path):
    ours = export(path, "out", "tensorrt-cache", all_activations=True)
    assert ours.read_bytes() == (EXAMPLES / "tensorrt" / "twoconv.calib.cache").read_bytes()
    ours = export(path, "out", "tensorrt-ranges", all_activations=True)
    assert words(ours) == words(EXAMPLES / "tensorrt" / "twoconv.dynamic_range.txt")


def test_tpu_mlir(path):
    """The example has seven decimals."""
    ours = words(export(path, "out", "tpu-mlir", all_activations=True))
    theirs = words(EXAMPLES / "tpu_mlir" / "twoconv_cali_table")
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    assert np.allclose([row[1:] for row in ours], [row[1:] for row in theirs], rtol=0, atol=5e-7)


def test_ncnn_table(path):
    ours = export(path, "out", "ncnn-table")
    assert words(ours) == words(EXAMPLES / "ncnn" / "twoconv.table")
    table = dict((row[0], row[1:]) for row in words(export(path, "out", "ncnn-table", "--set", "winograd=6bit")))
    assert table["conv1_param_0"] == [float(np.float32(31) / np.float32(m)) for m in RANGES["conv1.weight"]["channel_absmax"]]


def batch_norms(path, folded):
    """Conv, BatchNormalization and Relu, twice, the second without a bias; or what folding makes of them."""
    rng, nodes, stored = np.random.default_rng(3), [], {}
    at = "x"
    for i, (into, out) in enumerate(((3, 8), (8, 5))):
        w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((out, into, 3, 3), out))
        gain, shift, mean, variance = (rng.uniform(low, 2, out).astype(np.float32) for low in (-2, -1, -1, 0.1))
        factor = gain / np.sqrt(variance + np.float32(1e-3))
        names = [f"w{i}"] + ([f"b{i}"] if i == 0 or folded else [])
        if folded:
            w, b = w * factor[:, None, None, None], ((b if i == 0 else 0) - mean) * factor + shift
        else:
            stored |= {f"gain{i}": gain, f"shift{i}": shift, f"mean{i}": mean, f"variance{i}": variance}
        stored |= {name: array for name, array in ((f"w{i}", w), (f"b{i}", b)) if name in names}
        nodes.append(helper.make_node("Conv", [at, *names], [f"n{i}" if folded else f"c{i}"], f"conv{i}"))
        if not folded:
            moments = [f"{name}{i}" for name in ("gain", "shift", "mean", "variance")]
            nodes.append(helper.make_node("BatchNormalization", [f"c{i}", *moments], [f"n{i}"], f"norm{i}", epsilon=1e-3))
        nodes.append(helper.make_node("Relu", [f"n{i}"], [f"r{i}"], f"relu{i}"))
        at = f"r{i}"
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [1, 3, 9, 9])],
                              [helper.make_tensor_value_info(at, 1, [1, 5, 5, 5])],
                              [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in stored.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_ncnn_table_folds_batch_norm(path):
    """As ncnn's converters do: the table is that of the network in which it is folded."""
    np.save(path / "x.npy", np.random.default_rng(4).standard_normal((16, 3, 9, 9)).astype(np.float32))
    tables = []
    for folded in (False, True):
        batch_norms(path / "model.onnx", folded)
        oracle.profile(path / "model.onnx", path / "x.npy", path / "profile.json")
        oracle.tidemark("calibrate", path / "profile.json", "--quiet", "--method", "minmax", "--dtype", "int8", "--scheme", "symmetric",
                        "-o", path / "enc.json")
        oracle.tidemark("export", path / "enc.json", "--model", path / "model.onnx", "--to", "ncnn-table", "-o", path / "table")
        tables.append({row[0]: row[1:] for row in words((path / "table"))})
    assert sorted(tables[0]) == sorted(tables[1]) == ["conv0", "conv0_param_0", "conv1", "conv1_param_0"], tables
    for name, numbers in tables[0].items():
        assert np.allclose(numbers, tables[1][name], rtol=1e-5), (name, numbers, tables[1][name])


def test_ncnn_template_finds_layers_by_weights(path):
    """Names that pnnx makes up, in half precision, one convolution with its BatchNormalization folded and one without; a layer of ours
    and a layer of theirs that nobody else has; an LSTM, whose weights alone have scales."""
    none, rng = np.zeros(0), np.random.default_rng(5)
    np.save(path / "x.npy", np.random.default_rng(4).standard_normal((16, 3, 9, 9)).astype(np.float32))
    stored = {}
    for folded in (True, False):
        batch_norms(path / "model.onnx", folded)
        stored[folded] = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path / "model.onnx").graph.initializer}
    oracle.profile(path / "model.onnx", path / "x.npy", path / "profile.json")
    oracle.tidemark("calibrate", path / "profile.json", "--quiet", "--method", "minmax", "--weights-method", "minmax",
                    "--dtype", "int8", "--scheme", "symmetric", "-o", path / "enc.json")
    cell = [rng.standard_normal(shape).astype(np.float16).astype(np.float32) for shape in ((24, 5), (24,), (24, 6))]
    layers = [("Input in0 0 1 in0", [], none),
              ("Convolution conv_7 1 1 in0 7 0=8 1=3 5=1 6=216", [stored[True]["w0"]], stored[True]["b0"]),
              ("Convolution w1 1 1 7 c0 0=5 1=3 6=360", [stored[False]["w1"]], none),
              ("Convolution conv0 1 1 c0 9 0=5 1=1 6=25", [rng.standard_normal((5, 5))], none),
              ("LSTM lstm_0 1 1 9 out0 0=6 1=120", cell, none)]
    ncnn_model(path / "m.param", layers)
    words_of = ("export", path / "enc.json", "--model", path / "model.onnx", "--to")
    template = ("--template", path / "m.param")
    told = json.loads(oracle.tidemark(*words_of, "ncnn-table", *template, "-o", path / "table", "--json"))
    table = {row[0]: np.array(row[1:], np.float32) for row in words(path / "table")}
    assert list(table) == ["conv_7_param_0", "w1_param_0", "conv_7", "w1", "lstm_0_param_0", "lstm_0_param_1"], list(table)
    def scales(array):
        return 127 / np.abs(array.reshape(len(array), -1)).max(1)
    for name, array in (("conv_7", stored[True]["w0"]), ("w1", stored[False]["w1"]), ("lstm_0", cell[0])):
        assert np.allclose(table[name + "_param_0"], scales(array), rtol=1e-5), name
    assert np.allclose(table["lstm_0_param_1"], scales(cell[2]), rtol=1e-5)
    assert any("'conv0'" in remark and "stays float" in remark for remark in told["remarks"]), told
    oracle.tidemark(*words_of, "ncnn-int8", *template, "-o", path / "q.param")
    marks = [line.split()[-1] for line in (path / "q.param").read_text().splitlines()[2:]]
    assert marks == ["in0", "8=2", "8=2", "6=25", "8=2"], marks
    oracle.tidemark(*words_of, "ncnn-table", *template, "-o", path / "table", "--set", "dynamic=float")
    assert not any("lstm" in row[0] for row in words(path / "table"))


def test_ncnn_table_without_a_template_says_whose_names_it_has(path):
    told = json.loads(oracle.tidemark("export", encodings(path), "--to", "ncnn-table", "--model", MODEL, "-o", path / "out", "--json"))
    assert any("--template" in remark for remark in told["remarks"]), told


def test_ncnn_int8_bytes(path):
    """The .bin, made again here from the float weights and the table."""
    def codes(values):
        rounded = np.where(values >= 0, np.floor(values + np.float32(.5)), np.ceil(values - np.float32(.5)))
        return np.clip(rounded, -127, 127).astype(np.int8).tobytes()
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(MODEL).graph.initializer}
    export(path, "q.param", "ncnn-int8", "--template", EXAMPLES / "ncnn" / "twoconv.param")
    table = {row[0]: np.array(row[1:], "<f4") for row in words(export(path, "table", "ncnn-table"))}
    want = b""
    for name in ("conv1", "conv2"):
        scales = table[f"{name}_param_0"]
        want += struct.pack("<I", 0x000d4b38) + codes(weights[f"{name}.weight"] * scales[:, None, None, None])
        want += b"\0" * (-len(want) % 4) + weights[f"{name}.bias"].tobytes() + scales.tobytes() + table[name].tobytes()
    assert (path / "q.bin").read_bytes() == want


def test_rknn():
    """The example is a template that has these numbers already: with others in it, it must come back, but for their spelling. The
    toolkit itself indents twice as far."""
    narrow = (EXAMPLES / "rknn" / "twoconv.quantization.cfg").read_text()
    for example in (narrow, re.sub(r"(?m)^    -", "        -  ", re.sub(r"(?m)^((?:  )+)(?=[^ -])", r"\1\1", narrow))):
        check_rknn(example)


def check_rknn(example):
    changed = re.sub(r"( (min|max):\n +- +).*", r"\g<1>0.125", example)
    assert changed.count("0.125") == 12
    with folder() as path:
        (path / "t.cfg").write_text(changed)
        ours = export(path, "out", "rknn", "--template", path / "t.cfg").read_text().splitlines()
        assert len(ours) == len(example.splitlines())
        for mine, theirs in zip(ours, example.splitlines()):
            if " - " in theirs and mine != theirs:
                mine, theirs = mine.split("- ", 1), theirs.split("- ", 1)
                assert mine[0] == theirs[0] and np.float32(mine[1]) == np.float32(theirs[1]), (mine, theirs)
            else:
                assert mine == theirs


def test_mnn(path):
    (path / "map.json").write_text('{"y": "y__before_tr"}')
    ours = export(path, "out", "mnn", "--names", path / "map.json", "--keep-names", symmetric=True)
    same(json.loads(ours.read_text()), json.loads((EXAMPLES / "mnn" / "twoconv.compress.json").read_text()))


def test_tidl(path):
    """The example, in the order of its lines; it has nine digits, and scales in double."""
    ours, theirs = words(export(path, "out", "tidl")), words(EXAMPLES / "tidl" / "twoconv.quant.prototxt")
    assert len(ours) == len(theirs)
    for mine, example in zip(ours, theirs):
        if isinstance(example[-1], float):
            assert mine[:-1] == example[:-1] and np.isclose(mine[-1], example[-1], rtol=2e-7, atol=0), (mine, example)
        else:
            assert mine == example


def test_tvm(path):
    """TVM's scale is threshold / 128, with codes of -127 ... 127; unsigned where nothing is negative."""
    document = json.loads(export(path, "out", "tvm", all_activations=True).read_text())
    edges = {edge["name"]: edge for edge in document["edges"]}
    assert {name: edge["kind"] for name, edge in edges.items()} == {
        "x": "input", "conv1.weight": "weight", "conv1_out": "activation", "relu1_out": "activation",
        "conv2.weight": "weight", "y": "activation"}
    for name in ("x", "y", "conv1_out"):
        most = np.float32(max(-RANGES[name]["min"], RANGES[name]["max"]))
        edge = edges[name]
        assert np.float32(edge["threshold"]) == most and np.float32(edge["ndom_scale"]) == most / np.float32(128)
        assert (edge["nbit"], edge["sign"], edge["nclip_min"], edge["nclip_max"]) == (8, True, -127, 127)
        assert float.fromhex(edge["ndom_scale_hex"]) == np.float32(edge["ndom_scale"])
    assert (edges["relu1_out"]["sign"], edges["relu1_out"]["nclip_max"]) == (False, 255)


oracle.main()
