# SPDX-License-Identifier: Apache-2.0
"""LiteRT models of one operator in codes, for each ONNX operator that LiteRT has a kernel of. Needs ai-edge-litert and flatbuffers."""
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

PICTURE = (1, 8, 8, 4)
TYPES = {"int8": schema.TensorType.INT8, "int16": schema.TensorType.INT16}
# Results of fixed range: scale and zero point, at 8 and at 16 bits.
FIXED = {"LOGISTIC": ((2 ** -8, -128), (2 ** -15, 0)), "SOFTMAX": ((2 ** -8, -128), (2 ** -15, 0)), "TANH": ((2 ** -7, 0), (2 ** -15, 0))}
VERSIONS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "PRELU": 1, "ELU": 1, "HARD_SWISH": 1, "NEG": 1, "RESHAPE": 1,
            "EXPAND_DIMS": 1}  # the others: 2
SCALE, WEIGHT_SCALE = .02, .01


def weight(*shape, axis=None):
    return "weight", np.random.default_rng(0).integers(-127, 127, shape).astype(np.int8), axis


def options(kind, **fields):
    return kind, fields


def values(*shapes):
    return [("value", shape) for shape in shapes]


def case(op, inputs, *results, how=None):
    return op, how, inputs, results


def unary(op, how=None):
    return [case(op, values(PICTURE), PICTURE, how=how)]


def binary(op, how):
    return [case(op, values(PICTURE, PICTURE), PICTURE, how=options(how))]


def reduced(op, *results, axes=(1, 2), keep=True, shape=PICTURE):
    return case(op, [*values(shape), ("constant", list(axes))], *results, how=options("Reducer", keepDims=keep))


def pooled(op):
    return [case(op, values(PICTURE), (1, 4, 4, 4), how=options("Pool2D", padding=1, strideW=2, strideH=2, filterWidth=2, filterHeight=2))]


def given(op, *constants, to, how=None, shape=PICTURE):
    return case(op, [*values(shape), *(("constant", one) for one in constants)], to, how=how and options(*how[:1], **dict(how[1:])))


WINDOW = dict(padding=0, strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1)
ROW, SMALL = (1, 256), (1, 4, 4, 4)
# ONNX operator: its LiteRT forms.
CASES = {
    "Conv": [case("CONV_2D", [*values(PICTURE), weight(4, 3, 3, 4, axis=0), ("bias", 4)], PICTURE, how=options("Conv2D", **WINDOW)),
             case("DEPTHWISE_CONV_2D", [*values(PICTURE), weight(1, 3, 3, 4, axis=3), ("bias", 4)], PICTURE,
                  how=options("DepthwiseConv2D", depthMultiplier=1, **WINDOW))],
    "ConvTranspose": [case("TRANSPOSE_CONV", [("constant", [1, 16, 16, 4]), weight(4, 2, 2, 4, axis=0), *values(PICTURE)], (1, 16, 16, 4),
                           how=options("TransposeConv", padding=0, strideW=2, strideH=2))],
    "Gemm": [case("FULLY_CONNECTED", [*values((1, 16)), weight(8, 16, axis=axis), ("bias", 8)], (1, 8), how=options("FullyConnected"))
             for axis in (0, None)],
    "MatMul": [case("BATCH_MATMUL", values((1, 4, 8), (1, 8, 4)), (1, 4, 4), how=options("BatchMatMul"))],
    "Add": binary("ADD", "Add"), "Sub": binary("SUB", "Sub"), "Mul": binary("MUL", "Mul"), "Div": binary("DIV", "Div"),
    "Max": binary("MAXIMUM", "MaximumMinimum"), "Min": binary("MINIMUM", "MaximumMinimum"),
    "GlobalAveragePool": [reduced("MEAN", (1, 1, 1, 4))],
    "ReduceMean": [reduced("MEAN", (1, 4), keep=False), reduced("MEAN", (1, 8, 1), axes=[2], shape=(1, 8, 4))],
    "ReduceSum": [reduced("SUM", (1, 1, 1, 4))],
    "ReduceMax": [reduced("REDUCE_MAX", (1, 1, 8, 4), axes=[1])], "ReduceMin": [reduced("REDUCE_MIN", (1, 1, 8, 4), axes=[1])],
    "Relu": unary("RELU"), "Clip": unary("RELU6"), "LeakyRelu": unary("LEAKY_RELU", options("LeakyRelu", alpha=.1)),
    "PRelu": [case("PRELU", [*values(PICTURE), weight(1, 1, 4)], PICTURE)],
    "Elu": unary("ELU"), "Sigmoid": unary("LOGISTIC"), "Tanh": unary("TANH"), "HardSwish": unary("HARD_SWISH", options("HardSwish")),
    "Gelu": unary("GELU", options("Gelu")), "Abs": unary("ABS", options("Abs")), "Neg": unary("NEG", options("Neg")),
    "Softmax": [case("SOFTMAX", values((1, 16)), (1, 16), how=options("Softmax", beta=1.))],
    "Concat": [case("CONCATENATION", values(PICTURE, PICTURE), (1, 8, 8, 8), how=options("Concatenation", axis=3))],
    "AveragePool": pooled("AVERAGE_POOL_2D"), "MaxPool": pooled("MAX_POOL_2D"),
    "Reshape": [given("RESHAPE", ROW, to=ROW, how=("Reshape", ("newShape", ROW)))],
    "Flatten": [given("RESHAPE", ROW, to=ROW, how=("Reshape", ("newShape", ROW)))],
    "Transpose": [given("TRANSPOSE", [0, 3, 1, 2], to=(1, 4, 8, 8), how=("Transpose",))],
    "Squeeze": [given("SQUEEZE", to=(1, 8, 4), how=("Squeeze", ("squeezeDims", [1])), shape=(1, 1, 8, 4))],
    "Unsqueeze": [given("EXPAND_DIMS", 1, to=(1, 1, 8, 4), how=("ExpandDims",), shape=(1, 8, 4))],
    "Slice": [given("STRIDED_SLICE", [0] * 4, SMALL, [1] * 4, to=SMALL, how=("StridedSlice",)),
              given("SLICE", [0] * 4, SMALL, to=SMALL, how=("Slice",))],
    "Split": [case("SPLIT", [("constant", 3), *values(PICTURE)], (1, 8, 8, 2), (1, 8, 8, 2), how=options("Split", numSplits=2))],
    "Resize": [given("RESIZE_BILINEAR", [16, 16], to=(1, 16, 16, 4), how=("ResizeBilinear",)),
               given("RESIZE_NEAREST_NEIGHBOR", [16, 16], to=(1, 16, 16, 4), how=("ResizeNearestNeighbor",))],
    "Pad": [given("PAD", [[0, 0], [1, 1], [1, 1], [0, 0]], to=(1, 10, 10, 4), how=("Pad",))],
    "Gather": [given("GATHER", [0, 2], to=(1, 2, 8, 4), how=("Gather", ("axis", 1)))],
    "GatherND": [given("GATHER_ND", [[0], [2]], to=(2, 4), how=("GatherNd",), shape=(8, 4))],
    "SpaceToDepth": [given("SPACE_TO_DEPTH", to=(1, 4, 4, 16), how=("SpaceToDepth", ("blockSize", 2)))],
    "DepthToSpace": [given("DEPTH_TO_SPACE", to=(1, 16, 16, 1), how=("DepthToSpace", ("blockSize", 2)))],
    "Where": [case("SELECT_V2", [("condition", PICTURE), *values(PICTURE, PICTURE)], PICTURE, how=options("SelectV2"))],
    "Expand": [given("BROADCAST_TO", PICTURE, to=PICTURE, shape=(1, 1, 8, 4))],
    "Tile": [given("TILE", [1, 2, 1], to=(1, 16, 4), how=("Tile",), shape=(1, 8, 4))],
}


def model_of(one, dtype):
    """The file of a case, activations int8 or int16."""
    op, how, inputs, results = one
    wide = dtype == "int16"
    model, graph, node, code = schema.ModelT(), schema.SubGraphT(), schema.OperatorT(), schema.OperatorCodeT()
    model.version, model.description, model.buffers = 3, b"one operator", [schema.BufferT()]
    graph.name, graph.tensors, graph.inputs, graph.outputs = b"main", [], [], []

    def add(shape, kind, scale=None, zero=0, data=None, axis=0):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = f"t{len(graph.tensors)}".encode(), list(shape), kind, 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            model.buffers.append(buffer)
            tensor.buffer = len(model.buffers) - 1
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.float32(scale))
            tensor.quantization.zeroPoint = np.full(tensor.quantization.scale.size, zero, np.int64)
            tensor.quantization.quantizedDimension = axis
        graph.tensors.append(tensor)
        return len(graph.tensors) - 1

    node.opcodeIndex, node.inputs, node.outputs = 0, [], []
    by_channel = any(kind == "weight" and rest[1] is not None for kind, *rest in inputs)
    for kind, *rest in inputs:
        if kind in ("value", "condition"):
            at = add(rest[0], *((TYPES[dtype], SCALE) if kind == "value" else (schema.TensorType.BOOL,)))
            graph.inputs.append(at)
        elif kind == "weight":
            data, axis = rest
            at = add(data.shape, TYPES["int8"], WEIGHT_SCALE if axis is None else np.full(data.shape[axis], WEIGHT_SCALE), 0, data, axis or 0)
        elif kind == "bias":
            data = np.zeros(rest[0], np.int64 if wide else np.int32)
            at = add(data.shape, schema.TensorType.INT64 if wide else schema.TensorType.INT32,
                     np.full(rest[0] if by_channel else 1, SCALE * WEIGHT_SCALE), 0, data)
        else:
            data = np.asarray(rest[0], np.int32)
            at = add(data.shape, schema.TensorType.INT32, data=data)
        node.inputs.append(at)
    for shape in results:
        node.outputs.append(add(shape, TYPES[dtype], *(FIXED[op][wide] if op in FIXED else (SCALE,))))
    graph.outputs = list(node.outputs)
    if how:
        node.builtinOptionsType, node.builtinOptions = getattr(schema.BuiltinOptions, how[0] + "Options"), getattr(schema, how[0] + "OptionsT")()
        for name, value in how[1].items():
            setattr(node.builtinOptions, name, value)
    code.builtinCode = getattr(schema.BuiltinOperator, op)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), VERSIONS.get(op, 2)
    model.operatorCodes, graph.operators, model.subgraphs = [code], [node], [graph]
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
