# SPDX-License-Identifier: Apache-2.0
"""Makes the seeds of tests/fuzz/corpus again, from the tests' own literals and from small files made here.

usage: seeds.py FOLDER      needs numpy, onnx, h5py and Pillow

Not made here: the lineages (`tidemark transform --passes all` of onnx/conv and onnx/quantized without their first
byte, the latter's as HDF5 too).
"""
import ast
import hashlib
import io
import json
import re
import struct
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(sys.argv[1])
ALONE = b"\0"  # first bytes that choose options: the default


def put(target, name, data):
    path = FOLDER / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def literals(path, start):
    """C string literals of a file, neighbours joined, that begin with one of `start`."""
    source = (ROOT / path).read_text()
    for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', source):
        parts = re.findall(r'"(?:[^"\\\n]|\\.)*"', match.group())
        try:
            text = "".join(ast.literal_eval(part) for part in parts)
        except (SyntaxError, ValueError):
            continue
        if text.startswith(start):
            yield text


def relay():
    files = [f"tests/unit/test_relay_{part}.c" for part in ("text", "lower", "graph", "raise")]
    texts = {text for file in files for text in literals(file, ("def @", "#[version", "let ", "fn ("))}
    for text in texts:
        put("relay", hashlib.sha256(text.encode()).hexdigest()[:8], ALONE + text.encode("latin-1"))


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, weights=(), functions=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    sets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(f.domain, 1) for f in functions]
    return helper.make_model(graph, opset_imports=sets, functions=list(functions), ir_version=8).SerializeToString()


def onnx_models():
    node, f32 = helper.make_node, TensorProto.FLOAT
    x, y = value("x", f32, ["n", 2, 4, 4]), value("y", f32, None)
    put("onnx", "conv", ALONE + model(
        [node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
         node("BatchNormalization", ["c", "b", "b", "b", "v"], ["n"]), node("Relu", ["n"], ["r"]),
         node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
         node("GlobalAveragePool", ["p"], ["g"]), node("Flatten", ["g"], ["f"]),
         node("Gemm", ["f", "m"], ["y"], transB=1)], [x], [y],
        [tensor("w", np.ones((3, 2, 3, 3), np.float32)), tensor("b", np.zeros(3, np.float16).astype(np.float32)),
         tensor("v", np.ones(3, np.float32)), tensor("m", np.eye(3, dtype=np.float32))]))
    put("onnx", "shapes", ALONE + model(
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["d"]), node("Concat", ["d", "k"], ["t"], axis=0),
         node("Reshape", ["x", "t"], ["r"]), node("Slice", ["r", "i0", "k"], ["l"]), node("Transpose", ["l"], ["y"])],
        [x], [y], [tensor("i", np.array([0])), tensor("i0", np.array([0])), tensor("k", np.array([-1]))]))
    body = helper.make_graph(
        [node("Identity", ["ci"], ["co"]), node("Add", ["a", "a"], ["b"])], "body",
        [value("t", TensorProto.INT64, []), value("ci", TensorProto.BOOL, []), value("a", f32, None)],
        [value("co", TensorProto.BOOL, []), value("b", f32, None)])
    branch = helper.make_graph([node("Neg", ["x"], ["e"])], "e", [], [value("e", f32, None)])
    put("onnx", "control", ALONE + model(
        [node("Loop", ["trips", "yes", "x"], ["l"], body=body),
         node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)], [x], [y, value("l", f32, None)],
        [tensor("trips", np.array(3)), tensor("yes", np.array(True))]))
    call = helper.make_function("own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
                                [helper.make_opsetid("", 17)])
    put("onnx", "function", ALONE + model([node("Twice", ["x"], ["t"], domain="own"), node("Own", ["t"], ["y"])],
                                          [x], [y], functions=[call]))
    put("onnx", "unknown", b"\1" + model([node("Own", ["x"], ["y"], k=1, s="text", f=0.5, l=[1, 2])], [x], [y]))
    put("onnx", "raised", b"\2" + (FOLDER / "onnx/conv").read_bytes()[1:])
    put("passes", "conv", b"\x40" + (FOLDER / "onnx/conv").read_bytes()[1:])
    for name in ("shapes", "control"):
        put("passes", name, ALONE + (FOLDER / "onnx" / name).read_bytes()[1:])
    put("onnx", "quantized", ALONE + model(
        [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])], [x], [y],
        [tensor("s", np.float32(0.5)), tensor("z", np.uint8(3))]))
    put("onnx", "sequence", ALONE + model(
        [node("SplitToSequence", ["x"], ["q"], axis=1), node("ConcatFromSequence", ["q"], ["y"], axis=1)], [x], [y]))
    far = tensor("w", np.ones(4, np.float32))
    far.ClearField("raw_data")
    far.data_location = TensorProto.EXTERNAL
    for key, text in (("location", "../model.onnx"), ("offset", "8"), ("length", "16")):
        far.external_data.add(key=key, value=text)
    put("onnx", "external", ALONE + model([node("Add", ["x", "w"], ["y"])], [x], [y], [far]))
    sparse = helper.make_node("Constant", [], ["k"], sparse_value=helper.make_sparse_tensor(
        tensor("v", np.ones(2, np.float32)), tensor("i", np.array([1, 3])), [4]))
    put("onnx", "sparse", ALONE + model([sparse, node("Mul", ["x", "k"], ["y"])], [x], [y]))


def npy_bytes(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def arrays():
    floats, halves = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 1), np.float16)
    integers, fortran = np.arange(4), np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3))
    each = {"floats": floats, "halves": halves, "integers": integers, "fortran": fortran,
            "big": floats.astype(">f4"), "bools": np.array([True, False]), "none": np.zeros((0, 3), np.float32)}
    for name, array in each.items():
        put("npy", name, b"\2" + npy_bytes(array))
    for name, how in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", how) as archive:
            for key in ("floats", "halves", "fortran"):
                archive.writestr(zipfile.ZipInfo(key + ".npy"), npy_bytes(each[key]), compress_type=how)
        put("npz", name, b"\2" + out.getvalue())
    put("stream", "one", b"\1" + npy_bytes(floats) + npy_bytes(floats))
    put("stream", "two", b"\3" + (npy_bytes(floats) + npy_bytes(integers[:2])) * 2)
    put("stream", "free", b"\4" + npy_bytes(halves) + npy_bytes(halves[:1]))


def hdf5_answers():
    """As lib/hdf5/wire.h has them, one after the other; the shared memory begins with the same bytes: two members without a name."""
    def element(kind, is_signed, exponent, size):
        return struct.pack("<3I4xQ", kind, is_signed, exponent, size)

    def dataset(dims, chunks, address):
        return (struct.pack("<5I4x", 0, len(dims), 0, 0, 0) + element(2, 0, 8, 4) +
                struct.pack("<32Q", *dims, *[0] * (32 - len(dims))) +
                struct.pack("<32Q", *chunks, *[0] * (32 - len(chunks))) + struct.pack("<2Q", 4 * 60, address))

    start = struct.pack("<2I", 2, 0) + struct.pack("<2Q", 2, 6) + struct.pack("<2Q", 1, 5)
    columns = element(1, 1, 0, 8) + element(4, 0, 0, 24) + element(0, 0, 0, 0) + element(2, 0, 11, 8)
    for name, chunks, direct in (("whole", [], 1), ("chunks", [2, 3, 4], 0)):
        put("hdf5_answers", name, b"\0" + start + dataset([5, 3, 4], chunks, 8 if direct else 2**64 - 1) + columns +
            struct.pack("<I", direct) + b"\1\3")


def hdf5():
    for name, settings in (("plain", {}), ("packed", {"chunks": (2, 3), "compression": "gzip", "shuffle": True})):
        out = io.BytesIO()
        with h5py.File(out, "w") as file:
            file.create_dataset("x", data=np.arange(12, dtype=np.float32).reshape(4, 3), **settings)
            file.create_dataset("g/y", data=np.arange(4))
        put("hdf5_data", name, b"\2" + out.getvalue())
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        names = file.create_group("name/model_0/subg_0")
        for value_name in ("input_0", "op_0"):
            names.attrs[value_name] = f"n {value_name}"
            file[f"value/run_0/model_0/subg_0/{value_name}"] = np.array([-1, 2], np.float32)
    put("onert", "two", out.getvalue())
    # Which file; a change: a name in two bytes, which way, and what that takes.
    for name, choices in (("none", [0]), ("lineage", [2]), ("element", [0, 0, 9, 0, 0, 0, 3, 19]), ("shape", [0, 0, 12, 3, 2, 0]),
                          ("type", [0, 0, 5, 4, 3]), ("members", [0, 0, 3, 5, 1]), ("filters", [0, 0, 7, 6, 3, 2, 2, 2, 1]),
                          ("link", [0, 0, 4, 7, 4]), ("attribute", [0, 0, 0, 8, 0, 0, 1, 12, 2, 1])):
        put("hdf5_edits", name, bytes(choices))


def pictures():
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    for name, picture, kind, spec in (
            ("grey", grey, "PNG", ""), ("colour", grey.convert("RGB"), "PNG", "resize=8,crop=4,layout=nhwc"),
            ("palette", grey.convert("P"), "PNG", "color=bgr"), ("clear", grey.convert("RGBA"), "PNG", "color=grey"),
            ("deep", grey.convert("I").convert("I;16"), "PNG", "dtype=uint8"),
            ("jpeg", grey.convert("RGB"), "JPEG", "resize=4x6,mean=0.485:0.456:0.406,std=0.229:0.224:0.225"),
            ("cmyk", grey.convert("CMYK"), "JPEG", "scale=1"), ("progressive", grey, "JPEG", "")):
        out = io.BytesIO()
        picture.save(out, kind, **({"progressive": True} if name == "progressive" else {}))
        put("images", name, spec.encode() + b"\n" + out.getvalue())


def consumers():
    for i, text in enumerate(literals("tests/unit/test_ranges.c", ("{", "TRT", "a:b", "# a", "---"))):
        put("ranges", f"{i:03}", ALONE + text.encode("latin-1"))
    for i, text in enumerate(literals("tests/unit/test_export_tables.c", "---\n")):
        put("ranges", f"yaml{i}", ALONE + text.encode("latin-1"))
    put("ranges", "rknn", ALONE + b"customized_quantize_layers: {}\nquantize_parameters:\n    x:\n"
        b"        qtype: asymmetric_quantized\n        max:\n        -   1.0\n        min:\n        -   -1.0\n")
    put("ranges", "qdq", b"\7" + (FOLDER / "onnx/quantized").read_bytes()[1:])


def params():
    """As TVM lays them out: magic, names, then arrays of magic, device, rank, type, shape and bytes."""
    def u(n, size=8):
        return n.to_bytes(size, "little")
    magic, array = u(0xF7E58D4F05049CB7) + u(0), u(0xDD5E40F096B4A13F) + u(0)
    one = array + u(1, 4) + u(0, 4) + u(2, 4) + bytes([2, 32]) + u(1, 2) + u(2) + u(1) + u(8) + bytes(8)
    put("params", "two", magic + u(2) + u(1) + b"a" + u(2) + b"v1" + u(2) + one * 2)
    put("params", "none", magic + u(0) + u(0))


def checkpoints():
    newest = max((ROOT / "tests/golden").glob("checkpoint-*.ckpt"))
    put("checkpoint", "golden", b"\1" + newest.read_bytes())


def json_files():
    put("config", "all", re.search(r"```json\n(.*?)```", (ROOT / "docs/calibrate.md").read_text(), re.S)[1])
    for name, names in (("ids", {"p0": "a", "p1": "b"}), ("many", {"x": ["a", "b"], "p2": "c", "stranger": "d"})):
        put("names", name, json.dumps(names))
    for name, words in (("long", "fuzz.onnx --flag --text=a --texts b --texts c --count 12 --some=3 --real 1e-3"),
                        ("short", "-f -t a -n 0x12 -r nan -- -x"), ("help", "-fh"), ("wrong", "--nothing --log-json")):
        put("options", name, words.replace(" ", "\0"))


def graphs():
    """The bytes of a few seeds, as graph_bytes.h makes them."""
    most, wide = 320, (1 << 64) - 1
    for seed in range(1, 13):
        state, made = (seed * 0x9e3779b97f4a7c15 + 1) & wide, []
        for _ in range(most):
            state = (state * 6364136223846793005 + 1442695040888963407) & wide
            made.append(state >> 40 & 255)
        put("graphs", f"{seed:02}", bytes(made[:24 + (state >> 33) % (most - 24)]))


for make in (relay, onnx_models, arrays, hdf5, hdf5_answers, pictures, consumers, params, checkpoints, json_files, graphs):
    make()
