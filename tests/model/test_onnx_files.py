# SPDX-License-Identifier: Apache-2.0
"""Holds the reading and writing of ONNX files against onnx and ONNX Runtime.

usage: test_onnx_files.py ROUNDTRIP SOURCE_ROOT

ROUNDTRIP is tests/tools/roundtrip. Real models are taken from the folder that TIDEMARK_SHARED names, or from ../shared beside the
source; without it the small networks of tests/tools/small_models.py are taken.
"""
import shutil
import subprocess

from onnx_tools import (FLOAT, MODELS, ROUNDTRIP, Folder, TensorProto, X, converted, helper,
                        main, make_model, np, numpy_helper, onnx, refused, roundtrip, run,
                        same_results, session, value)


# ---- real models ----

def test_real_models_give_the_same_results():
    for path in sorted(MODELS.glob("*/model.onnx")):
        with Folder() as folder:
            error = folder.convert(path)
            assert not error, error
            onnx.checker.check_model(str(folder.copy), full_check=True)
            one, two = session(path), session(folder.copy)
            assert [o.name for o in one.get_outputs()] == [o.name for o in two.get_outputs()]
            feeds = {}
            for i, node in enumerate(one.get_inputs()):
                data = (path.parent / "test_data_set_0" / f"input_{i}.pb").read_bytes()
                feeds[node.name] = numpy_helper.to_array(TensorProto.FromString(data))
            for e, g in zip(one.run(None, feeds), two.run(None, feeds), strict=True):
                np.testing.assert_array_equal(e, g, err_msg=str(path))


# ---- weights ----

def field_tensor(name, dtype, values):
    return helper.make_tensor(name, dtype, [len(values)], values)


WIDENED = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
ALL_TYPES = {
    TensorProto.FLOAT: [1.5, -0.0, 3e38], TensorProto.DOUBLE: [1.5, -2.25, 1e30],
    TensorProto.FLOAT16: [1.5, -2.0, 6e-8], TensorProto.BFLOAT16: [1.5, -2.0, 1e30],
    TensorProto.INT8: [-128, 0, 127], TensorProto.UINT8: [0, 1, 255],
    TensorProto.INT16: [-32768, 1, 32767], TensorProto.UINT16: [0, 1, 65535],
    TensorProto.INT32: [-2**31, 5, 2**31 - 1], TensorProto.UINT32: [0, 5, 2**32 - 1],
    TensorProto.INT64: [-2**63, 5, 2**63 - 1], TensorProto.UINT64: [0, 5, 2**64 - 1],
    TensorProto.BOOL: [True, False, True], TensorProto.INT4: [-8, 7, -1],
    TensorProto.UINT4: [0, 15, 9], TensorProto.FLOAT8E4M3FN: [1.0, -2.0, 448.0],
    TensorProto.FLOAT8E5M2: [1.0, -2.0, 57344.0], TensorProto.FLOAT4E2M1: [0.5, -6.0, 1.0],
    TensorProto.COMPLEX64: [1 + 2j, -3j, 0.5], TensorProto.COMPLEX128: [1 + 2j, -3j, 0.5],
}


if hasattr(TensorProto, "INT2"):
    ALL_TYPES |= {TensorProto.UINT2: [0, 3, 2], TensorProto.INT2: [-2, 1, -1], TensorProto.FLOAT8E8M0: [1.0, 2.0, 0.5]}


def check_tensors(tensors):
    outputs = [value(f"{t.name}_y", list(t.dims), t.data_type) for t in tensors]
    nodes = [helper.make_node("Identity", [t.name], [f"{t.name}_y"]) for t in tensors]
    got = converted(make_model(nodes, [], outputs, initializers=tensors, opsets=[("", 23)], ir=11),
                    check=False)
    assert len(got.graph.initializer) == len(tensors)
    for before, after, out in zip(tensors, got.graph.initializer, got.graph.output):
        wide = FLOAT if before.data_type in WIDENED else before.data_type
        assert (before.name, wide) == (after.name, after.data_type)
        assert out.type.tensor_type.elem_type == before.data_type
        expected = numpy_helper.to_array(before)
        if wide != before.data_type:
            expected = expected.astype(np.float32)
        assert expected.tobytes() == numpy_helper.to_array(after).tobytes(), before.name


def test_every_encoding_of_every_type_is_read():
    in_fields = [field_tensor(f"f{t}", t, v) for t, v in ALL_TYPES.items()]
    in_bytes = []
    for tensor in in_fields:
        array = numpy_helper.to_array(tensor)
        raw = numpy_helper.from_array(array, f"r{tensor.data_type}")
        assert raw.data_type == tensor.data_type and raw.HasField("raw_data")
        in_bytes.append(raw)
    check_tensors(in_fields)
    check_tensors(in_bytes)
    check_tensors([helper.make_tensor("scalar", FLOAT, [], [2.5]),
                   helper.make_tensor("empty", FLOAT, [0, 3], []),
                   numpy_helper.from_array(np.float32(7), "raw_scalar")])


def test_mismatched_sizes_are_refused():
    def model(**fields):
        tensor = TensorProto(name="w", data_type=fields.pop("data_type", FLOAT), **fields)
        return make_model([helper.make_node("Identity", ["w"], ["y"])], [], [value("y")],
                          initializers=[tensor])
    refused(model(dims=[2], raw_data=b"1234567"), "initializer 'w'", "7 bytes", "takes 8")
    refused(model(dims=[2], float_data=[1]), "initializer 'w'", "1 elements", "takes 2")
    refused(model(dims=[2**62, 8], raw_data=b""), "initializer 'w'", "too large")
    refused(model(dims=[2**40], raw_data=b""), "initializer 'w'", "takes")
    refused(model(dims=[-1], float_data=[1]), "dimension 0 is -1")
    refused(model(dims=[1] * 13, float_data=[1]), "13 dimensions")
    refused(model(dims=[1], data_type=8, string_data=[b"x"]), "string tensors")
    refused(model(dims=[1], data_type=99, raw_data=b"x"), "element type 99")
    refused(model(dims=[1], data_type=0, raw_data=b"x"), "element type 0")


def test_tensor_files_are_read():
    with Folder() as folder:
        path = folder.path / "input_0.pb"
        tensor = numpy_helper.from_array(np.array([[1.5, -2]], np.float16), "x")
        path.write_bytes(tensor.SerializeToString())
        done = subprocess.run([ROUNDTRIP, str(path)], capture_output=True, text=True)
        assert done.stdout == "x float16 float32 [1,2] 0x1.8p+0 -0x1p+1\n", done
        path.write_bytes(tensor.SerializeToString()[:-1])
        done = subprocess.run([ROUNDTRIP, str(path)], capture_output=True, text=True)
        assert done.returncode == 1 and "input_0.pb" in done.stderr, done


# ---- external data ----

def external_model(location, **entries):
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2, 3],
                         data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(text))
    return make_model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [2, 3])],
                      [value("y", [2, 3])], initializers=[tensor])


def with_external(model, prepare):
    with Folder() as folder:
        prepare(folder.path)
        error = folder.convert(model)
        return error if error else run(folder.copy, {"x": X})[0]


def test_external_data_is_read_within_its_folder_only():
    weights = np.arange(6, dtype=np.float32)

    def prepare(path):
        (path / "sub").mkdir()
        (path / "sub" / "w.bin").write_bytes(b"12345678" + weights.tobytes())
        (path / "inside").symlink_to(path / "sub" / "w.bin")
        outside = path.parent / f"{path.name}-outside"
        outside.mkdir()
        (outside / "w.bin").write_bytes(weights.tobytes())
        (path / "link").symlink_to(outside)

    def error(location, **entries):
        made = []
        try:
            answer = with_external(external_model(location, **entries),
                                   lambda path: (prepare(path), made.append(path)))
            assert isinstance(answer, str), f"{location} was read"
            return answer
        finally:
            shutil.rmtree(f"{made[0]}-outside")

    for location in ("sub/w.bin", "inside", "./sub/w.bin"):
        made = []
        got = with_external(external_model(location, offset=8, length=24),
                            lambda path: (prepare(path), made.append(path)))
        shutil.rmtree(f"{made[0]}-outside")
        np.testing.assert_array_equal(got, X + weights.reshape(2, 3))
    assert "a link leads out" in error("link/w.bin")
    assert "within the model's folder" in error("/etc/passwd")
    assert "within the model's folder" in error("sub/../sub/w.bin")
    assert "within the model's folder" in error("..")
    assert "within the model's folder" in error("")
    assert "cannot be read" in error("absent.bin")
    assert "a folder, not a file" in error("sub")
    assert "the file has 32" in error("sub/w.bin", offset=9)
    assert "the file has 32" in error("sub/w.bin", offset=2**63)
    assert "is no size" in error("sub/w.bin", offset=2**64)
    assert "is no size" in error("sub/w.bin", offset=-1)
    assert "takes 24" in error("sub/w.bin", length=20)


def test_large_weights_are_written_beside_the_model():
    big = numpy_helper.from_array(np.arange(3000, dtype=np.float32).reshape(2, 1500), "big")
    odd = numpy_helper.from_array(np.arange(1025, dtype=np.int8), "odd")
    small = numpy_helper.from_array(np.float32([1, 2]), "small")
    nodes = [helper.make_node("Identity", [n], [f"{n}_y"]) for n in ("big", "odd", "small")]
    outputs = [value("big_y", [2, 1500]), value("odd_y", [1025], TensorProto.INT8),
               value("small_y", [2])]
    model = make_model(nodes, [], outputs, initializers=[big, odd, small])
    with Folder() as folder:
        assert not folder.convert(model, 100)
        assert sorted(p.name for p in folder.path.iterdir()) == ["copy.onnx", "copy.onnx.data",
                                                                 "model.onnx"]
        assert (folder.path / "copy.onnx").stat().st_size < 1000
        onnx.checker.check_model(str(folder.copy), full_check=True)
        for e, g in zip(run(folder.path / "model.onnx", {}), run(folder.copy, {}), strict=True):
            np.testing.assert_array_equal(e, g)
        again = folder.path / "again.onnx"
        assert not roundtrip(folder.copy, again)
        for e, g in zip(run(folder.copy, {}), run(again, {}), strict=True):
            np.testing.assert_array_equal(e, g)


# ---- types ----

def test_16_and_64_bit_floats_become_float32():
    half, double = TensorProto.FLOAT16, TensorProto.DOUBLE
    w = numpy_helper.from_array(np.array([[0.1, 0.2, 0.3]], np.float16), "w")
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=half),
        helper.make_node("Add", ["h", "w"], ["s"]),
        helper.make_node("Cast", ["s"], ["d"], to=double),
        helper.make_node("Constant", [], ["c"],
                         value=numpy_helper.from_array(np.float64([0.5]), "c")),
        helper.make_node("Mul", ["d", "c"], ["m"]),
        helper.make_node("Shape", ["m"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["ones"],
                         value=numpy_helper.from_array(np.float64([1]), "v")),
        helper.make_node("EyeLike", ["m"], ["eye"], dtype=double),
        helper.make_node("Sum", ["m", "ones", "eye"], ["y"]),
        helper.make_node("Cast", ["y"], ["i"], to=TensorProto.INT32),
    ]
    model = make_model(nodes, [value("x", [2, 3])],
                       [value("y", [2, 3], double), value("i", [2, 3], TensorProto.INT32)],
                       initializers=[w])
    model.graph.value_info.append(value("s", ["A", 3], half))
    got = same_results(model, {"x": X}, exact=False)
    assert not {half, double} & {known.type.tensor_type.elem_type for known in got.graph.value_info}
    assert [(node.op_type, node.attribute[0].i) for node in got.graph.node if "y" in node.output] == [("Cast", double)]
    assert got.graph.output[0].type.tensor_type.elem_type == double
    old = make_model([helper.make_node("Cast", ["x"], ["y"], to="DOUBLE")], [value("x", [2])],
                     [value("y", [2], double)], opsets=[("", 5)], ir=3)
    assert converted(old, check=False).graph.node[0].attribute[0].s == b"FLOAT"


def test_types_keep_their_dimensions():
    model = make_model([helper.make_node("Identity", ["x"], ["y"])],
                       [value("x", ["N", 3, None])], [value("y", ["N", -1, None])])
    got = converted(model, check=False)
    dims = got.graph.input[0].type.tensor_type.shape.dim
    assert dims[0].dim_param == "N" and dims[1].dim_value == 3
    assert dims[2].WhichOneof("value") is None
    assert got.graph.output[0].type.tensor_type.shape.dim[1].WhichOneof("value") is None
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert not converted(model, check=False).graph.input[0].type.tensor_type.HasField("shape")


def test_sequences_and_optionals_pass():
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "i"], ["y"]),
        helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(
            TensorProto.DOUBLE, [2, 3])),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
    ]
    model = make_model(nodes, [value("x", [2, 3])],
                       [value("y", [2, 3]), value("has", [], TensorProto.BOOL),
                        helper.make_tensor_sequence_value_info("s", FLOAT, None)],
                       initializers=[numpy_helper.from_array(np.int64(1), "i")])
    with Folder() as folder:
        assert not folder.convert(model)
        assert onnx.load(str(folder.copy)).graph.output[2].type.HasField("sequence_type")
        got = run(folder.copy, {"x": X})
        np.testing.assert_array_equal(got[0], X)
        assert not got[1] and len(got[2]) == 2


def test_maps_keep_their_type():
    """Which are held as tensors of scores; a file that calls them tensors does not load."""
    for kind, labels in ((TensorProto.INT64, {"classlabels_int64s": [3, 4]}), (TensorProto.STRING, {"classlabels_strings": ["a", "b"]})):
        maps = helper.make_sequence_type_proto(helper.make_map_type_proto(kind, helper.make_tensor_type_proto(FLOAT, [])))
        model = make_model([helper.make_node("Slice", ["x", "zero", "two", "one"], ["s"]),
                            helper.make_node("ZipMap", ["s"], ["y"], domain="ai.onnx.ml", **labels)], [value("x")],
                           [helper.make_value_info("y", maps)], initializers=[numpy_helper.from_array(np.array([number]), name) for number, name in
                                                                              ((0, "zero"), (2, "two"), (1, "one"))])
        model.opset_import.add(domain="ai.onnx.ml", version=3)
        with Folder() as folder:
            assert not folder.convert(model)
            assert onnx.load(str(folder.copy)).graph.output[0].type == maps
            assert len(run(folder.copy, {"x": X})[0]) == len(X)


def test_non_tensor_types_are_refused_by_name():
    def with_type(**fields):
        model = make_model([helper.make_node("Foo", ["x"], ["y"], domain="d")], [value("x")], [])
        model.graph.input[0].type.Clear()
        model.graph.input[0].type.MergeFrom(onnx.TypeProto(**fields))
        return model
    refused(with_type(map_type=onnx.TypeProto.Map(key_type=7)), "input 'x'", "maps are not")
    refused(with_type(sparse_tensor_type=onnx.TypeProto.SparseTensor(elem_type=1)), "sparse")


# ---- sparse tensors ----

def sparse(values, indices, dims, name="w"):
    return helper.make_sparse_tensor(numpy_helper.from_array(np.asarray(values), name), numpy_helper.from_array(np.asarray(indices, "i8")), dims)


def with_sparse(*tensors, listed=False):
    shape = list(tensors[0].dims)
    model = make_model([helper.make_node("Cast", ["w"], ["c"], to=FLOAT), helper.make_node("Add", ["x", "c"], ["y"])],
                       [value("x", shape=shape)], [value("y", shape=shape)])
    model.graph.sparse_initializer.extend(tensors)
    if listed:
        model.graph.input.append(value("w", shape=shape))
    return model


def test_sparse_initializers_become_dense():
    places = [1, 4, 5], [[0, 1], [1, 1], [1, 2]]
    for indices in places:
        for dtype in np.float32, np.float16, np.int64, np.uint8:
            with Folder() as folder:
                model = with_sparse(sparse(np.array([1, 2, 3], dtype), indices, [2, 3]), listed=dtype is np.float32)
                assert not folder.convert(model)
                copy = onnx.load(folder.copy)
                assert not copy.graph.sparse_initializer and [one.name for one in copy.graph.input] == ["x"]
                np.testing.assert_array_equal(run(folder.copy, {"x": np.zeros((2, 3), "f4")})[0], [[0, 1, 0], [0, 2, 3]])
    with Folder() as folder:
        model = make_model([helper.make_node("Constant", [], ["c"], sparse_value=sparse(np.float32([7]), [2], [4], "")),
                            helper.make_node("Add", ["x", "c"], ["y"])], [value("x", shape=[4])], [value("y", shape=[4])])
        assert not folder.convert(model)
        np.testing.assert_array_equal(run(folder.copy, {"x": np.zeros(4, "f4")})[0], [0, 0, 7, 0])


def test_bad_sparse_initializers_are_refused():
    one = np.float32([1])
    refused(with_sparse(sparse(one, [6], [2, 3])), "'w'", "index 0 is outside")
    refused(with_sparse(sparse(one, [-1], [2, 3])), "index 0 is outside")
    refused(with_sparse(sparse(one, [[2, 0]], [2, 3])), "index 0 is outside")
    refused(with_sparse(sparse(np.float32([1, 2]), [3, 3], [2, 3])), "index 1", "not above")
    refused(with_sparse(sparse(one, [[0, 0, 0]], [2, 3])), "do not place values")
    refused(with_sparse(sparse(one, [0, 1], [2, 3])), "do not place values")
    refused(with_sparse(sparse(one, [0], [2, -3])), "dimension 1 is -3")
    refused(with_sparse(sparse(one, [0], [2**20, 2**20])), "too large")
    refused(with_sparse(sparse(one, [0], [2**62, 2**62])), "too large")
    refused(with_sparse(sparse(one, [0], [2, 3], "")), "a sparse initializer without a name")
    model = with_sparse(sparse(one, [0], [2, 3]))
    model.graph.sparse_initializer[0].ClearField("indices")
    refused(model, "without values or indices")
    model = make_model([helper.make_node("Foo", ["x"], ["y"], domain="d", w=sparse(one, [0], [2]))], [value("x")], [])
    refused(model, "Constant's only")


# ---- functions ----

def function(name, inputs, outputs, nodes, *, attributes=(), defaults=(), domain="local",
             opsets=(("", 17), ("local", 1))):
    return helper.make_function(domain, name, inputs, outputs, nodes,
                                [helper.make_opsetid(*pair) for pair in opsets],
                                attributes=list(attributes), attribute_protos=list(defaults))


def reference(node, name, outer, kind):
    node.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=outer, type=kind))
    return node


def test_functions_are_inlined_with_their_attributes():
    leaky = function("Leaky", ["x"], ["y"], [
        reference(helper.make_node("LeakyRelu", ["x"], ["t"]), "alpha", "a", onnx.AttributeProto.FLOAT),
        reference(helper.make_node("Elu", ["t"], ["y"]), "alpha", "missing",
                  onnx.AttributeProto.FLOAT),
    ], attributes=["missing"], defaults=[helper.make_attribute("a", 0.25)])
    block = function("Block", ["p", "q"], ["r", "s", "same"], [
        helper.make_node("Add", ["t", "q"], ["r"], "add"),          # before its operand
        reference(helper.make_node("Leaky", ["p"], ["t"], "leaky", domain="local"), "a", "slope",
                  onnx.AttributeProto.FLOAT),
        helper.make_node("Leaky", ["t"], ["s"], "leaky", domain="local"),
        helper.make_node("Identity", ["p"], ["unused"]),
    ] , attributes=["slope"])
    block.output[2] = "p"  # a parameter that is handed back
    nodes = [
        helper.make_node("Block", ["x", "x"], ["a", "b", "c"], "block", domain="local", slope=0.5),
        helper.make_node("Block", ["a", "b"], ["d", "", "e"], "block", domain="local", slope=0.1),
        helper.make_node("Sum", ["a", "b", "c", "d", "e"], ["y"]),
    ]
    model = make_model(nodes, [value("x", [2, 3])], [value("y", [2, 3]), value("c", [2, 3])],
                       functions=[block, leaky], opsets=[("", 17), ("local", 1)])
    got = converted(model)
    assert not got.functions
    names = [n for node in got.graph.node for n in node.output]
    assert len(names) == len(set(names)) and {"a", "b", "c", "d", "e", "y"} <= set(names), names
    assert {"block/t", "block/leaky/t", "block_2/s"} <= set(names), names
    alphas = [node.attribute[0].f for node in got.graph.node if node.op_type == "LeakyRelu"]
    np.testing.assert_allclose(sorted(alphas), [0.1, 0.25, 0.25, 0.5])

    def block_of(p, q, slope):
        def leaky_of(x, a):
            t = np.where(x < 0, np.float32(a) * x, x)
            return np.where(t < 0, np.expm1(t), t)
        t = leaky_of(p, slope)
        return t + q, leaky_of(t, 0.25), p
    a, b, c = block_of(X, X, 0.5)
    d, _, e = block_of(a, b, 0.1)
    with Folder() as folder:
        assert not folder.convert(model)
        y, passed_on = run(folder.copy, {"x": X})
        np.testing.assert_allclose(y, a + b + c + d + e, rtol=1e-5)
        np.testing.assert_array_equal(passed_on, X)


def test_functions_may_hold_graphs():
    then = helper.make_graph([reference(helper.make_node("LeakyRelu", ["p"], ["r"]), "alpha", "a",
                                        onnx.AttributeProto.FLOAT)], "then", [], [value("r")])
    other = helper.make_graph([helper.make_node("Twice", ["t"], ["r"], domain="local")], "else", [],
                              [value("r")])
    twice = function("Twice", ["p"], ["q"], [helper.make_node("Add", ["p", "p"], ["q"])])
    choose = function("Choose", ["c", "p"], ["y"], [
        helper.make_node("Neg", ["p"], ["t"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ], attributes=["a"])
    model = make_model([helper.make_node("Choose", ["c", "x"], ["y"], domain="local", a=0.5)],
                       [value("c", [], TensorProto.BOOL), value("x", [2, 3])], [value("y", [2, 3])],
                       functions=[choose, twice], opsets=[("", 17), ("local", 1)])
    for condition in (True, False):
        same_results(model, {"c": np.array(condition), "x": X}, check=False)


def test_recursive_functions_are_refused():
    loop = function("F", ["x"], ["y"], [helper.make_node("G", ["x"], ["y"], domain="local")])
    back = function("G", ["x"], ["y"], [helper.make_node("F", ["x"], ["y"], domain="local")])
    call = helper.make_node("F", ["x"], ["y"], domain="local")
    opsets = [("", 17), ("local", 1)]
    refused(make_model([call], [value("x")], [value("y")], functions=[loop, back], opsets=opsets),
            "calls itself")
    bomb = [function(f"F{i}", ["x"], ["y"],
                     [helper.make_node(f"F{i + 1}", ["x"], [f"y{k}" if k else "y"], domain="local")
                      for k in range(10)]) for i in range(30)]
    bomb.append(function("F30", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])]))
    call = helper.make_node("F0", ["x"], ["y"], domain="local")
    refused(make_model([call], [value("x")], [value("y")], functions=bomb, opsets=opsets),
            "call each other so often")
    deep = [function(f"F{i}", ["x"], ["y"], [helper.make_node(f"F{i + 1}", ["x"], ["y"],
                                                              domain="local")]) for i in range(100)]
    refused(make_model([call], [value("x")], [value("y")], functions=deep, opsets=opsets),
            "calls within each other")
    wrong = function("F0", ["x"], ["z"], [helper.make_node("Relu", ["x"], ["y"])])
    refused(make_model([call], [value("x")], [value("y")], functions=[wrong], opsets=opsets),
            "'z' is never made")


def test_observers_are_kept_and_run_in_onnx_runtime():
    def observer(x, y, number):
        return helper.make_node("EdgeObserver", [x], [y], domain="ai.tidemark", profile_id=number,
                                kind="histogram", tensor_name=x)
    then = helper.make_graph([helper.make_node("Neg", ["r_o"], ["n"]), observer("n", "n_o", 4)],
                             "then", [], [value("n_o")])
    other = helper.make_graph([helper.make_node("Exp", ["r_o"], ["e"])], "else", [], [value("e")])
    nodes = [observer("x", "x_o", 0), helper.make_node("Relu", ["x_o"], ["r"]),
             observer("r", "r_o", 1),
             helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    body = helper.make_function("ai.tidemark", "EdgeObserver", ["a"], ["b"],
                                [helper.make_node("Identity", ["a"], ["b"])],
                                [helper.make_opsetid("", 17)],
                                ["profile_id", "kind", "tensor_name"])
    model = make_model(nodes, [value("x", [2, 3]), value("c", [], TensorProto.BOOL)],
                       [value("y", [2, 3])], functions=[body],
                       opsets=[("", 17), ("ai.tidemark", 1)])
    for condition in (True, False):
        got = same_results(model, {"x": X, "c": np.array(condition)})
        assert [n.op_type for n in got.graph.node] == ["EdgeObserver", "Relu", "EdgeObserver", "If"]
        assert len(got.functions) == 1 and got.ir_version >= 8
    # without the function, for an old operator set, and in a file of a version without functions
    old = make_model([observer("x", "o", 0), helper.make_node("Relu", ["o"], ["y"])],
                     [value("x", [2, 3])], [value("y", [2, 3])],
                     opsets=[("", 8), ("ai.tidemark", 1)], ir=3)
    with Folder() as folder:
        assert not folder.convert(old)
        onnx.checker.check_model(str(folder.copy), full_check=True)
        np.testing.assert_array_equal(run(folder.copy, {"x": X})[0], np.maximum(X, 0))


# ---- graphs ----

def test_nodes_may_come_in_any_order():
    nodes = [helper.make_node("Neg", ["b"], ["y"]), helper.make_node("Exp", ["a"], ["b"]),
             helper.make_node("Relu", ["x"], ["a"])]
    model = make_model(nodes, [value("x", [2, 3])], [value("y", [2, 3])])
    got = converted(model)
    assert [n.op_type for n in got.graph.node] == ["Relu", "Exp", "Neg"]


def test_inner_graphs_see_outer_values_and_may_hide_them():
    inner = helper.make_graph([helper.make_node("Add", ["a", "state"], ["b"]),
                               helper.make_node("Identity", ["b"], ["scan"]),
                               helper.make_node("Identity", ["cond_in"], ["cond_out"])],
                              "body", [value("i", [], TensorProto.INT64),
                                       value("cond_in", [], TensorProto.BOOL), value("state", [2, 3])],
                              [value("cond_out", [], TensorProto.BOOL), value("b", [2, 3]),
                               value("scan", [2, 3])])
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=inner),
             helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["last"], ["b"])]
    model = make_model(nodes, [value("x", [2, 3])], [value("b", [2, 3]), value("all", [None, 2, 3])],
                       initializers=[numpy_helper.from_array(np.int64(3), "n")])
    got = converted(model)
    assert [n.op_type for n in got.graph.node] == ["Relu", "Loop", "Neg"]
    body = got.graph.node[1].attribute[0].g
    assert body.output[1].name != "b" and got.graph.output[0].name == "b"
    with Folder() as folder:
        assert not folder.convert(model)
        last, every = run(folder.copy, {"x": X})
        np.testing.assert_allclose(last, -(X + 3 * np.maximum(X, 0)), rtol=1e-6)
        assert every.shape == (3, 2, 3)


def test_branches_may_return_outer_values_and_repeat_outputs():
    then = helper.make_graph([], "then", [], [value("a")])
    other = helper.make_graph([helper.make_node("Neg", ["a"], ["n"])], "else", [], [value("n")])
    nodes = [helper.make_node("Relu", ["x"], ["a"]),
             helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    model = make_model(nodes, [value("x", [2, 3]), value("c", [], TensorProto.BOOL)],
                       [value("y", [2, 3]), value("x", [2, 3]), value("w", [1]), value("y", [2, 3])],
                       initializers=[numpy_helper.from_array(np.float32([4]), "w")])
    with Folder() as folder:
        assert not folder.convert(model)
        for condition, expected in ((True, np.maximum(X, 0)), (False, -np.maximum(X, 0))):
            y, x, w, again = run(folder.copy, {"x": X, "c": np.array(condition)})
            np.testing.assert_array_equal(y, expected)
            np.testing.assert_array_equal(again, expected)
            np.testing.assert_array_equal(x, X)
            assert w == [4]


def test_initializers_among_the_inputs_are_no_inputs():
    w = numpy_helper.from_array(np.float32([1, 2, 3]), "w")
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])],
                       [value("x", [2, 3]), value("w", [3])], [value("y", [2, 3])],
                       initializers=[w], opsets=[("", 8)], ir=3)
    got = same_results(model, {"x": X})
    assert [i.name for i in got.graph.input] == ["x"]


def test_every_operator_set_is_taken():
    for opset in range(1, 25):
        model = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [2, 3])],
                           [value("y", [2, 3])], opsets=[("ai.onnx", opset)], ir=3)
        got = converted(model, check=opset >= 6)
        assert got.opset_import[0].domain == "" and got.opset_import[0].version == opset
    model.ir_version = 1
    del model.opset_import[:]
    assert converted(model, check=False).opset_import[0].version == 1
    model.ir_version = 3
    refused(model, "imports no version")


def test_errors_name_the_node_and_the_value():
    def model(*nodes, outputs=("y",), **more):
        return make_model(list(nodes), [value("x", [2, 3])], [value(o) for o in outputs], **more)
    node = helper.make_node
    w = numpy_helper.from_array(np.float32([1]), "x")
    refused(model(node("Relu", ["gone"], ["y"], "first")), "Relu 'first'", "'gone' is no input")
    refused(model(node("Relu", ["x"], ["y"]), outputs=("y", "z")), "output 1", "'z' is no input")
    refused(model(node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"], "n")), "Neg 'n'",
            "'y' is defined twice")
    refused(model(node("Relu", ["x"], ["x"], "n")), "'x' is defined twice")
    refused(model(node("Add", ["x", "b"], ["a"], "n"), node("Relu", ["a"], ["b"]),
                  node("Relu", ["b"], ["y"])), "cycle")
    refused(model(node("Relu", ["x"], ["y"]), outputs=("y", "")), "output without a name")
    refused(model(node("", ["x"], ["y"], "blank")), "'blank' has no operator")
    refused(make_model([node("Relu", ["x"], ["y"])], [value("")], [value("y")]),
            "input without a name")
    refused(make_model([node("Relu", ["x"], ["y"])], [], [value("y")], initializers=[w, w]),
            "'x' is defined twice")
    bad = model(node("LeakyRelu", ["x"], ["y"], "n"))
    bad.graph.node[0].attribute.add(name="alpha", type=4)
    refused(bad, "LeakyRelu 'n'", "attribute 'alpha'", "no value")
    bad.graph.node[0].attribute[0].type = onnx.AttributeProto.TYPE_PROTOS
    refused(bad, "attribute 'alpha'", "type 14")
    bad.graph.node[0].attribute[0].ref_attr_name = "outer"
    refused(bad, "attribute 'alpha'", "is in none")
    twice = model(node("LeakyRelu", ["x"], ["y"], "n", alpha=0.5))
    twice.graph.node[0].attribute.append(helper.make_attribute("alpha", 0.25))
    refused(twice, "LeakyRelu 'n'", "attribute 'alpha' stands twice")
    refused(model(node("Relu", ["x"], ["y"]), opsets=[("", -3)]), "version -3")
    refused(model(node("Relu", ["x"], ["y"]), opsets=[("", 3), ("ai.onnx", 4)]), "versions 3 and 4")


# ---- files that are no models ----

def test_files_of_other_kinds_are_refused_in_one_line():
    good = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x")],
                      [value("y")]).SerializeToString()
    refused(b"", "is empty")
    refused(b"ir_version: 8\ngraph {}", "not an ONNX model")
    refused(good[:-3], "cut short")
    refused(b"\x00\x00\x00\x00ORTM1234", "ONNX Runtime (.ort)")
    refused(numpy_helper.from_array(np.zeros(3, np.float32), "x").SerializeToString(),
            "not an ONNX model")
    refused(onnx.ModelProto(ir_version=8).SerializeToString(), "no graph")
    node = b"\x0a\x01x" + length_prefixed(5, b"\x1d\0\0\0\0")  # an attribute's i, as 32 bits
    refused(b"\x08\x08" + length_prefixed(7, length_prefixed(1, b"") + length_prefixed(1, node)),
            "field graph.node[1].attribute[0].i ")
    tensor = length_prefixed(1, b"\x01\xff")  # packed dims, the last without an end
    refused(b"\x08\x08" + length_prefixed(7, length_prefixed(5, tensor)), "field graph.initializer[0].dims ")
    shape = length_prefixed(2, length_prefixed(1, length_prefixed(2, b"\xff")))
    refused(b"\x08\x08" + length_prefixed(7, length_prefixed(11, shape)),
            "field graph.input[0].type.tensor_type.shape is damaged")
    refused(onnx.ModelProto(graph=onnx.GraphProto()).SerializeToString(), "no IR version")
    with Folder() as folder:
        assert "cannot be read" in roundtrip(folder.path / "absent.onnx", folder.copy)
        assert "a folder, not a file" in roundtrip(folder.path, folder.copy)


def length_prefixed(field, content):
    size, head = len(content), b""
    while size > 0x7f:
        head += bytes([size & 0x7f | 0x80])
        size >>= 7
    return bytes([field << 3 | 2]) + head + bytes([size]) + content


def test_nesting_is_limited():
    def nested(levels):
        graph = b""
        for _ in range(levels):
            attribute = length_prefixed(1, b"body") + length_prefixed(6, graph)
            node = length_prefixed(4, b"Foo") + length_prefixed(5, attribute)
            graph = length_prefixed(1, node)
        return b"\x08\x08" + length_prefixed(7, graph) + length_prefixed(8, b"\x10\x11")
    refused(nested(3000), "messages within each other")
    assert converted(nested(20), check=False).graph.node[0].op_type == "Foo"
    kind = b""
    for _ in range(100000):
        kind = length_prefixed(4, length_prefixed(1, kind))
        if len(kind) > 2**17:
            break
    info = length_prefixed(1, b"x") + length_prefixed(2, kind)
    refused(b"\x08\x08" + length_prefixed(7, length_prefixed(11, info)),
            "messages within each other")


main()
