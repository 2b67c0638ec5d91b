# SPDX-License-Identifier: Apache-2.0
"""A model may hold a weight of any element type: every command takes it, or refuses the model before it runs."""

import onnx_bytes as onnx
from cli import ANSWER_NO, BAD_INPUT, DONE, FEATURES, main, npy_bytes, tensors_of, subset, tidemark

# ONNX's number, our name, bits an element; is it counted as an integer?
HELD = [(1, "float32", 32, False), (2, "uint8", 8, True), (3, "int8", 8, True), (4, "uint16", 16, True), (5, "int16", 16, True),
        (6, "int32", 32, True), (7, "int64", 64, True), (9, "bool", 8, True), (10, "float16", 16, False),
        (11, "float64", 64, False), (12, "uint32", 32, True), (13, "uint64", 64, True), (14, "complex64", 64, False),
        (15, "complex128", 128, False), (16, "bfloat16", 16, False), (17, "float8_e4m3fn", 8, False),
        (18, "float8_e4m3fnuz", 8, False), (19, "float8_e5m2", 8, False), (20, "float8_e5m2fnuz", 8, False),
        (21, "uint4", 4, True), (22, "int4", 4, True), (23, "float4_e2m1", 4, False), (24, "float8_e8m0fnu", 8, False),
        (25, "uint2", 2, True), (26, "int2", 2, True)]
STRING, FLOAT6 = 8, 27
WIDENED = {"float16", "float64", "bfloat16"}
COUNT = 7  # no whole number of bytes where elements are packed


def weight(dtype, raw):
    return onnx.number(1, COUNT) + onnx.number(2, dtype) + onnx.block(8, "w") + onnx.block(9, raw)


def write_model(path, dtype, raw):
    """The weight is an output too, next to a small network."""
    nodes = [onnx.node("Identity", ["w"], ["v"], "same"), onnx.node("Relu", ["x"], ["r"], "relu"),
             onnx.node("MatMul", ["r", "f"], ["y"], "product")]
    factor = onnx.tensor("f", [3, 3], [i / 4 for i in range(9)])
    path.write_bytes(onnx.model(nodes, [onnx.value("x", ["b", 2, 3])],
                                [onnx.value("y", ["b", 2, 3]), onnx.value("v", [COUNT], dtype)],
                                [weight(dtype, raw), factor], [("", 25)]))


def write_data(path):
    path.write_bytes(npy_bytes([4, 2, 3], [(i * 5 % 11 - 5) / 4 for i in range(24)]))
    return ["--data", path]


def test_weights_of_every_type_are_accepted_by_every_command(path):
    data = write_data(path / "x.npy")
    model, kinds = path / "m.onnx", ["json"] + (["h5"] if "hdf5" in FEATURES else [])
    for dtype, name, bits, counted in subset(HELD):
        raw = bytes((37 * i + 1) % 2 if name == "bool" else (37 * i + 1) % 64 for i in range((COUNT * bits + 7) // 8))
        write_model(model, dtype, raw)
        for kind in kinds:
            profile = path / f"p.{kind}"
            tidemark("profile", model, *data, "-q", "-o", profile).expect(DONE)
            tidemark("check", profile).expect(DONE, ": valid: ")
            tidemark("show", profile, "w").expect(DONE, name)
        for k in (1, 2):
            tidemark("profile", model, *data, "-q", "--shard", f"{k}/2", "-o", path / f"{k}.json").expect(DONE)
        tidemark("merge", path / "1.json", path / "2.json", "-o", path / "all.json").expect(DONE)
        tensors = tensors_of(path / "all.json")
        for value in ("w", "v"):
            status = tensors[value]["status"]
            floats = name == "float32" or name in WIDENED
            assert (status == "integer") != floats, tensors[value]
            assert tensors[value]["origin"] == name or floats, tensors[value]
            assert not counted or tensors[value]["count"] == COUNT, tensors[value]
        tidemark("report", path / "all.json", "-o", path / "r.html").expect(DONE)
        tidemark("calibrate", path / "p.json", "-o", path / "e.json").expect(DONE)
        tidemark("simulate", model, path / "e.json", *data).expect(DONE)
        tidemark("export", path / "e.json", "--to", "qdq", "--model", model, "-o", path / "q.onnx").expect(DONE)
        if name not in WIDENED:
            kept = bytearray(raw)
            kept[-1] &= 0xff >> -COUNT * bits % 8  # bits behind the last element are not used
            assert bytes(kept) in (path / "q.onnx").read_bytes(), name
        tidemark("run", path / "q.onnx", *data, "-q", "-o", path / "o.npz").expect(DONE)


def test_unsupported_types_are_refused_before_the_run(path):
    data = write_data(path / "x.npy")
    for dtype, said in [(STRING, "string tensors are not supported"), (FLOAT6, "element type 27 is not supported")]:
        write_model(path / "m.onnx", dtype, b"\x01" * COUNT)
        tidemark("profile", path / "m.onnx", *data, "-o", path / "p.json").refuses(BAD_INPUT, "'w'", said)


def test_narrow_weights_are_dequantized(path):
    """Codes of 4 and of 2 bits, by DequantizeLinear and by Cast, are the numbers that they stand for."""
    codes = {21: list(range(0, 14, 2)), 22: [-8, 7, -1, 0, 3, -5, 1], 25: [0, 1, 2, 3, 3, 1, 0], 26: [-2, -1, 0, 1, 1, -2, 0]}
    (path / "x.npy").write_bytes(npy_bytes([1, COUNT], [1.0] * COUNT))
    for dtype, values in codes.items():
        bits = 4 if dtype < 25 else 2
        packed = sum((value & ((1 << bits) - 1)) << i * bits for i, value in enumerate(values))
        raw = packed.to_bytes((COUNT * bits + 7) // 8, "little")
        for node in (onnx.node("DequantizeLinear", ["w", "one"], ["f"], "wide"), onnx.node("Cast", ["w"], ["f"], "wide", to=1)):
            nodes = [node, onnx.node("Mul", ["x", "f"], ["y"], "product")]
            (path / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ["b", COUNT])], [onnx.value("y", ["b", COUNT])],
                                                     [weight(dtype, raw), onnx.tensor("one", [], [1.0])], [("", 25)]))
            tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-q", "-o", path / "p.json").expect(DONE)
            tensors = tensors_of(path / "p.json")
            for name in ("w", "f", "y"):
                assert (tensors[name]["min"], tensors[name]["max"]) == (min(values), max(values)), (dtype, tensors[name])
            assert tensors["y"]["sum"] == sum(values), tensors["y"]


def tensor_file(path, name, dtype, raw, count):
    path.write_bytes(onnx.number(1, count) + onnx.number(2, dtype) + onnx.block(8, name) + onnx.block(9, raw))


def test_verify_compares_codes_by_what_they_mean(path):
    """Every NaN of an 8-bit float is NaN; the sign of zero and other numbers are told apart."""
    nan = bytes.fromhex("0000c07f")
    for dtype, nans, other in ((17, b"\x7f\xff", b"\x7e"), (18, b"\x80", b"\x7f"), (19, b"\x7d\x7e\x7f\xfd\xfe\xff", b"\x7c\xfc"),
                               (20, b"\x80", b"\x00")):
        (path / "m.onnx").write_bytes(onnx.model([onnx.node("Cast", ["x"], ["y"], "narrow", to=dtype)], [onnx.value("x", [1])],
                                                 [onnx.value("y", [1], dtype)], [], [("", 25)]))
        tensor_file(path / "input_0.pb", "x", 1, nan, 1)
        for code in nans + other:
            tensor_file(path / "output_0.pb", "y", dtype, bytes([code]), 1)
            done = tidemark("verify", path / "m.onnx", path)
            done.expect(DONE, "ok") if code in nans else done.expect(ANSWER_NO, "1 of 1 elements differ")


def test_verify_reads_bfloat16_that_is_saved_as_uint16(path):
    """As the test sets of onnx up to 1.18: NumPy has no such type."""
    BFLOAT16, UINT16 = 16, 4
    for kinds, files in (((BFLOAT16, 1), (b"\xc0\x3f", b"\x00\x00\xc0\x3f")), ((1, BFLOAT16), (b"\x00\x00\xc0\x3f", b"\xc0\x3f"))):
        (path / "m.onnx").write_bytes(onnx.model([onnx.node("Cast", ["x"], ["y"], "cast", to=kinds[1])],
                                                 [onnx.value("x", [1], kinds[0])], [onnx.value("y", [1], kinds[1])], [], [("", 25)]))
        for name, stem, kind, raw in zip("xy", ("input", "output"), kinds, files, strict=True):
            tensor_file(path / f"{stem}_0.pb", name, UINT16 if kind == BFLOAT16 else kind, raw, 1)
        tidemark("verify", path / "m.onnx", path).expect(DONE, "ok")
    tensor_file(path / "input_0.pb", "x", UINT16, b"\xc0\x3f", 1)
    assert tidemark("verify", path / "m.onnx", path).status != DONE  # float32 is never saved so


main()
