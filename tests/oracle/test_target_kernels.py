# SPDX-License-Identifier: Apache-2.0
"""What the tables of targets say of ONNX Runtime, QNN, LiteRT, XNNPACK and Ethos-U, asked of these: an operator of each row, in codes.

Vela is taken from PATH, or the program that TIDEMARK_VELA names.
"""
import importlib
import json
import os
import re
import shutil
import subprocess

# First: it leaves the test out where packages are missing.
from oracle import SOURCE, folder, main, skip

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

SCALE = .02
WINDOW = (1, 4, 8, 8)
FLOAT = onnx.TensorProto.FLOAT


def rows_of(name):
    """Operator: the types of its activations."""
    table = json.loads((SOURCE / "share" / "targets" / f"{name}.json").read_text())
    return {op: row.get("activation", table["defaults"]["activation"]) for row in table["operators"] for op in row["op"]}


# ---- ONNX Runtime ----

# What an operator has besides its activations: constants, attributes, the shape of a weight, the number of activations or results.
ONNX_CASES = {
    "Conv": {"weight": (4, 4, 3, 3)}, "Gemm": {"weight": (8, 5), "shape": (3, 8), "axis": 1}, "MatMul": {"weight": (8, 5), "shape": (3, 8), "axis": 1},
    "Add": {"operands": 2}, "Mul": {"operands": 2}, "Where": {"operands": 2}, "Concat": {"operands": 2, "axis": 1},
    "LeakyRelu": {}, "Sigmoid": {}, "Softmax": {}, "GlobalAveragePool": {}, "AveragePool": {"kernel_shape": [2, 2]}, "Relu": {}, "Flatten": {},
    "Clip": {"constants": [np.float32(0), np.float32(255 * SCALE)]}, "MaxPool": {"kernel_shape": [2, 2]}, "Reshape": {"constants": [[1, -1]]},
    "Transpose": {"perm": [0, 2, 3, 1]}, "Squeeze": {"constants": [[0]]}, "Unsqueeze": {"constants": [[0]]}, "Slice": {"constants": [[0], [2], [1]]},
    "Resize": {"constants": [None, np.float32([1, 1, 2, 2])], "mode": "nearest"}, "Gather": {"constants": [[0, 1]], "axis": 1},
    "Split": {"constants": [[2, 2]], "axis": 1, "results": 2}, "DepthToSpace": {"blocksize": 2},
    "Expand": {"constants": [[2, 4, 8, 8]]}, "Tile": {"constants": [[1, 1, 1, 2]]},
    "GatherElements": {"constants": [np.zeros((1, 1, 8, 8), np.int64)], "axis": 1}, "ReduceMax": {"axes": [2]}, "ReduceMin": {"axes": [2]},
    # none of the table's
    "SpaceToDepth": {"blocksize": 2}, "Tanh": {}, "Sub": {"operands": 2}, "Pad": {"constants": [[0, 0, 1, 1, 0, 0, 1, 1]]}, "Max": {"operands": 2},
}
MERGED = {"Relu", "Clip"}  # into the codes of their results, where these begin at zero


def onnx_model(op, dtype, weight=None, weight_type=np.int8, by_channel=True, bias=0, shape=WINDOW, operands=1, results=1, constants=(),
               axis=None, opset=17, **attributes):
    initializers, nodes = [], []
    domain = "com.microsoft" if np.dtype(dtype).itemsize > 1 else ""
    if axis is not None and not weight:
        attributes["axis"] = axis

    def constant(name, value):
        initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def pair(value, name, zero):
        scale, zero = constant(f"{name}_scale", np.float32(SCALE)), constant(f"{name}_zero", np.array(zero, dtype))
        nodes.append(helper.make_node("QuantizeLinear", [value, scale, zero], [f"{name}_codes"], domain=domain))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_codes", scale, zero], [name], domain=domain))
        return name
    limits = np.iinfo(dtype)
    middle, lowest = (limits.min + limits.max + 1) // 2, limits.min
    read = [pair(f"in{i}", f"x{i}", middle) for i in range(operands)]
    if weight:
        axis = axis or 0
        scales = weight[axis] if by_channel else ()
        codes = np.random.default_rng(0).integers(1, 127, weight).astype(weight_type)
        nodes.append(helper.make_node("DequantizeLinear", [constant("w_codes", codes), constant("w_scale", np.full(scales, .01, np.float32)),
                                                           constant("w_zero", np.zeros(scales, weight_type))], ["w"], axis=axis))
        read.append("w")
    if bias:
        nodes.append(helper.make_node("DequantizeLinear", [constant("b_codes", np.ones(bias, np.int32)), constant("b_scale", np.float32(SCALE * .01))], ["b"]))
        read.append("b")
    if op == "Where":
        read.insert(0, constant("condition", np.arange(np.prod(shape)).reshape(shape) % 2 == 0))
    read += ["" if value is None else constant(f"c{i}", value) for i, value in enumerate(constants)]
    nodes.append(helper.make_node(op, read, [f"y{i}" for i in range(results)], **attributes))
    made = [pair(f"y{i}", f"out{i}", lowest if op in MERGED else middle) for i in range(results)]
    graph = helper.make_graph(nodes, op, [helper.make_tensor_value_info(f"in{i}", FLOAT, shape) for i in range(operands)],
                              [helper.make_tensor_value_info(name, FLOAT, None) for name in made], initializers)
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=sets, ir_version=9))


def reads_float(path, op, dtype):
    """Does ONNX Runtime compute any operator on what it dequantized?"""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path / "optimized.onnx")
    model = onnx_model(op, dtype, **ONNX_CASES[op])
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(path / "optimized.onnx").graph.node
    floats = {name for node in nodes if node.op_type == "DequantizeLinear" for name in node.output}
    return any(name in floats for node in nodes if node.op_type != "QuantizeLinear" for name in node.input)


def test_onnx_runtime_computes_each_row_in_codes(path):
    rows = rows_of("ort-cpu")
    for op in sorted(set(rows) | set(ONNX_CASES)):
        for dtype in (np.uint8, np.int8):
            assert reads_float(path, op, dtype) == (op not in rows), f"{op} {np.dtype(dtype)}: {'' if op in rows else 'not '}in the table"
    return {"operators": len(rows)}


# ---- QNN ----

# As ONNX_CASES, of operators that have no row for ONNX Runtime's CPU.
QNN_CASES = {
    "ConvTranspose": {"weight": (4, 4, 2, 2)}, "Div": {"operands": 2}, "Min": {"operands": 2}, "PRelu": {"weight": (4, 1, 1)},
    "LayerNormalization": {"weight": (8,), "weight_type": np.uint8, "bias": 8}, "InstanceNormalization": {"weight": (4,), "bias": 4},
    "BatchNormalization": {"weight": (4,), "bias": 4, "constants": [np.zeros(4, np.float32), np.ones(4, np.float32)]},
    "ReduceMean": {"axes": [2]}, "ReduceSum": {"constants": [[2]]}, "Gelu": {"opset": 20}, "Pow": {"constants": [np.float32(2)]},
    **{op: {} for op in ("Elu", "HardSigmoid", "HardSwish", "GlobalMaxPool", "Sqrt", "Exp", "Abs", "Neg", "Log", "LogSoftmax", "Softplus")},
}


def qnn():
    """The options of a session on the simulated processor, with nothing left to ONNX Runtime's CPU."""
    try:
        module = importlib.import_module("onnxruntime_qnn")
    except ImportError as missing:
        skip(missing)
    provider = "QNNExecutionProvider"
    if provider not in {device.ep_name for device in onnxruntime.get_ep_devices()}:
        onnxruntime.register_execution_provider_library(provider, module.get_library_path())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider]
    options.add_provider_for_devices(devices[:1], {"backend_path": os.path.join(os.path.dirname(module.get_library_path()), "libQnnHtp.so")})
    return options


def is_taken(options, model):
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options)
    except Exception as error:  # its classes are many
        return str(error)
    return True


def test_qnn_takes_each_row_in_8_and_16_bits(path):
    options, rows = qnn(), rows_of("ort-qnn")
    cases = {**ONNX_CASES, **QNN_CASES}
    assert set(rows) <= set(cases), set(rows) - set(cases)
    for op in rows:
        for dtype in (np.uint8, np.uint16):
            assert is_taken(options, onnx_model(op, dtype, **{"by_channel": False, **cases[op]})) is True, (op, dtype)
    # why LayerNormalization has a row of its own, and Erf none
    case = {**cases["LayerNormalization"], "weight_type": np.int8, "by_channel": False}
    assert is_taken(options, onnx_model("LayerNormalization", np.uint8, **case)) is not True
    assert is_taken(options, onnx_model("Erf", np.uint8)) is not True
    return {"operators": len(rows)}


# ---- LiteRT and XNNPACK ----

def litert():
    try:
        return importlib.import_module("ai_edge_litert.interpreter"), importlib.import_module("tflite_operators")
    except ImportError as missing:
        skip(missing)


def run_litert(interpreters, content, delegate):
    """Did the delegate take the operator? Raises where there is no kernel."""
    kinds = interpreters.OpResolverType
    one = interpreters.Interpreter(model_content=content,
                                   experimental_op_resolver_type=kinds.BUILTIN if delegate else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    one.allocate_tensors()
    for detail in one.get_input_details():
        one.set_tensor(detail["index"], np.ones(detail["shape"], detail["dtype"]))
    one.invoke()
    return any("elegate" in detail["op_name"] or detail["op_name"] == "DELEGATE" for detail in one._get_ops_details())


def types_of(words):
    return {word.split()[0] for word in words} & {"int8", "int16"}


def has_kernel(interpreters, content):
    try:
        run_litert(interpreters, content, False)
    except (RuntimeError, ValueError):
        return False
    return True


def test_litert_has_a_kernel_for_each_row_and_type(path):
    interpreters, operators = litert()
    rows = rows_of("litert")
    assert set(rows) <= set(operators.CASES), set(rows) - set(operators.CASES)
    for op, words in rows.items():
        for dtype in ("int8", "int16"):
            kernels = [has_kernel(interpreters, operators.model_of(one, dtype)) for one in operators.CASES[op]]
            assert all(kernels) == (dtype in types_of(words)), f"{op} {dtype}: {kernels}, the table has {words}"
    return {"operators": len(rows)}


def test_xnnpack_takes_each_row(path):
    interpreters, operators = litert()
    rows = rows_of("xnnpack")
    # Relu and Clip are fused into what is before them; LiteRT's own kernels copy codes for the others
    elsewhere = {"RELU", "RELU6", "SQUEEZE", "EXPAND_DIMS", "RESIZE_NEAREST_NEIGHBOR"}
    for op in rows:
        for one in operators.CASES[op]:
            assert one[0] in elsewhere or run_litert(interpreters, operators.model_of(one, "int8"), True), f"{op}: {one[0]}"
    for op in ("Div", "Softmax", "AveragePool", "Gather", "Max"):  # has the delegate more than the table?
        assert op not in rows and not run_litert(interpreters, operators.model_of(operators.CASES[op][0], "int8"), True), op
    return {"operators": len(rows)}


# ---- Ethos-U ----

def on_processor(vela, file, path):
    """How many operators Vela leaves to the processor."""
    done = subprocess.run([vela, "--accelerator-config", "ethos-u55-128", "--output-dir", path, file], capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"CPU operators = (\d+)", done.stdout)[1])


def test_vela_puts_each_row_on_the_ethos_u55(path):
    vela = os.environ.get("TIDEMARK_VELA") or shutil.which("vela")
    if not vela:
        skip("vela is not installed")
    operators = litert()[1]
    rows = rows_of("ethos-u")
    assert set(rows) <= set(operators.CASES), set(rows) - set(operators.CASES)
    for op, words in rows.items():
        for dtype in sorted(types_of(words)):
            for one in operators.CASES[op]:
                (path / f"{op}.tflite").write_bytes(operators.model_of(one, dtype))
                assert not on_processor(vela, path / f"{op}.tflite", path), f"{op} {dtype}: {one[0]}"
    for op in ("Div", "Gather"):
        (path / f"{op}.tflite").write_bytes(operators.model_of(operators.CASES[op][0], "int8"))
        assert on_processor(vela, path / f"{op}.tflite", path), op
    return {"operators": len(rows)}


main()
