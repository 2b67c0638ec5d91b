# SPDX-License-Identifier: Apache-2.0
"""Small networks in which float and quantized operators meet in every way that a setting of ONNX Runtime's quantizer can make: NETWORKS
has functions of a cases.Builder; each returns the inputs, the outputs and the operator set, if it is not 17."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import cases

FEEDS = 16
PICTURE = {"x": [1, 3, 12, 12]}


def conv(add, x, into, out, kernel=3, bias=True, **more):
    pads = more.pop("pads", [kernel // 2] * 4)
    return add("Conv", x, add.weight(out, into, kernel, kernel), *([add.weight(out)] if bias else []), pads=pads, **more)


def ints(add, *numbers):
    return add.constant(np.array(numbers))


def number(add, value):
    return add.constant(np.float32(value))


def chain(add):
    x = add("Relu", conv(add, "x", 3, 8))
    x = add("Relu", conv(add, x, 8, 8))
    x = add("Relu", conv(add, x, 8, 8))
    conv(add, x, 8, 4, kernel=1)
    return PICTURE, [add.nodes[-1].output[0]]


def no_activations(add):
    """Conv behind Conv: a float one reads and makes what its neighbours read as codes."""
    x = "x"
    for into, out in ((3, 8), (8, 8), (8, 8), (8, 8), (8, 4)):
        x = conv(add, x, into, out)
    return PICTURE, [x]


def residual(add):
    x = add("Relu", conv(add, "x", 3, 8))
    for _ in range(2):
        y = conv(add, add("Relu", conv(add, x, 8, 8)), 8, 8)
        x = add("Relu", add("Add", y, x))
    return PICTURE, [add("Gemm", add("Flatten", add("GlobalAveragePool", x)), add.weight(8, 5), add.weight(5))]


def branches(add):
    """Two operators read one value, the middle one with an activation."""
    x = add("Relu", conv(add, "x", 3, 8))
    a, b, c = add("Sigmoid", conv(add, x, 8, 8)), conv(add, x, 8, 8), conv(add, x, 8, 8, kernel=1)
    return PICTURE, [conv(add, add("Add", add("Mul", a, b), c), 8, 4)]


def concat(add):
    x = add("Relu", conv(add, "x", 3, 8))
    a, b, c = conv(add, x, 8, 4), add("Relu", conv(add, x, 8, 4)), add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    return PICTURE, [conv(add, add("Concat", a, b, c, axis=1), 16, 4)]


def shared_weight(add):
    weight, bias = add.weight(8, 8, 3, 3), add.weight(8)
    x = add("Relu", conv(add, "x", 3, 8))
    for _ in range(3):
        x = add("Relu", add("Conv", x, weight, bias, pads=[1] * 4))
    return PICTURE, [x]


def shared_matrix(add):
    weight = add.weight(16, 16)
    x = add("Tanh", add("MatMul", "x", weight))
    x = add("Tanh", add("MatMul", x, weight))
    return {"x": [1, 6, 16]}, [add("Softmax", add("MatMul", x, weight))]


def gemms(add):
    x = add("Relu", add("Gemm", "x", add.weight(24, 16), add.weight(24), transB=1))
    x = add("Gemm", x, add.weight(24, 24), add.weight(24))
    x = add("Relu", x)
    return {"x": [4, 16]}, [add("Gemm", x, add.weight(24, 5), alpha=.5)]


def constant_left(add):
    """MatMul with a constant first operand, and with two that are computed."""
    x = add("MatMul", add.weight(8, 6, scale=.4), "x")
    y = add("MatMul", x, add.weight(16, 8, scale=.3))
    z = add("MatMul", y, x)
    return {"x": [6, 16]}, [add("MatMul", z, add.weight(16, 4, scale=.3))]


def dense_biases(add):
    def dense(x, into, out):
        return add("Add", add("MatMul", x, add.weight(into, out, scale=into ** -.5)), add.weight(out))
    x = add("Relu", dense("x", 16, 24))
    x = add("Relu", dense(x, 24, 24))
    return {"x": [1, 5, 16]}, [dense(x, 24, 4)]


def attention(add):
    def dense(x, out=16):
        return add("Add", add("MatMul", x, add.weight(16, out, scale=.3)), add.weight(out))
    def heads(x, perm):
        return add("Transpose", add("Reshape", x, ints(add, 0, 0, 4, 4)), perm=perm)
    scores = add("MatMul", heads(dense("x"), [0, 2, 1, 3]), heads(dense("x"), [0, 2, 3, 1]))
    scores = add("Softmax", add("Mul", scores, number(add, .5)))
    y = add("Transpose", add("MatMul", scores, heads(dense("x"), [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    y = add("Add", dense(add("Reshape", y, ints(add, 0, 0, 16))), "x")
    return {"x": [1, 7, 16]}, [add("LayerNormalization", y, add.constant(np.ones(16, np.float32)), add.weight(16))]


def gate(add):
    x = conv(add, "x", 3, 8)
    pooled = add("GlobalAveragePool", x)
    small = add("Relu", conv(add, pooled, 8, 4, kernel=1))
    x = add("Mul", x, add("HardSigmoid", conv(add, small, 4, 8, kernel=1)))
    return PICTURE, [conv(add, x, 8, 4)]


def swish(add):
    x = conv(add, "x", 3, 8)
    x = add("Mul", x, add("Sigmoid", x))
    x = conv(add, x, 8, 8)
    x = add("Mul", x, add("Sigmoid", x))
    return PICTURE, [conv(add, x, 8, 4)]


def generator(add):
    x = add("Relu", cases._batch_norm(add, add("ConvTranspose", "x", add.weight(8, 16, 4, 4, scale=.1)), 16))
    x = add("Relu", cases._batch_norm(add, add("ConvTranspose", x, add.weight(16, 8, 4, 4, scale=.1), strides=[2, 2], pads=[1] * 4), 8))
    x = add("ConvTranspose", x, add.weight(8, 3, 4, 4, scale=.1), add.weight(3), strides=[2, 2], pads=[1] * 4)
    return {"x": [1, 8, 1, 1]}, [add("Tanh", x)]


def up_and_down(add):
    x = add("Relu", conv(add, "x", 3, 8))
    y = add("Relu", conv(add, add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 8, 8))
    y = add("Resize", y, "", number(add, [1, 1, 2, 2]), mode="linear")
    return PICTURE, [conv(add, add("Concat", x, y, axis=1), 16, 4)]


def split(add):
    x = conv(add, "x", 3, 8)
    a, b = add("Split", x, n=2, axis=1)
    y = add("Add", conv(add, a, 4, 4), add("Relu", b))
    return PICTURE, [conv(add, y, 4, 4), add("Sigmoid", a)]


def moved(add):
    """What only moves elements between float and quantized operators."""
    x = conv(add, "x", 3, 8)
    y = add("Transpose", add("Reshape", x, ints(add, 0, 8, -1)), perm=[0, 2, 1])
    y = add("MatMul", y, add.weight(8, 8))
    y = add("Reshape", add("Transpose", y, perm=[0, 2, 1]), ints(add, 0, 8, 12, 12))
    y = add("Slice", y, ints(add, 1), ints(add, 7), ints(add, 1))
    return PICTURE, [conv(add, add("AveragePool", y, kernel_shape=[2, 2]), 6, 4), add("Unsqueeze", add("Squeeze", x, ints(add, 0)), ints(add, 0))]


def clipped(add):
    x = add("Clip", conv(add, "x", 3, 8), number(add, 0), number(add, 6))
    x = add("Clip", conv(add, x, 8, 8), number(add, -1), number(add, 1))
    x = conv(add, x, 8, 8)
    y = add("Relu", x)
    return PICTURE, [conv(add, add("Add", x, y), 8, 4)]


def padded(add):
    x = add("Relu", conv(add, "x", 3, 8))
    x = add("Pad", x, ints(add, 0, 0, 1, 1, 0, 0, 1, 1), number(add, 0))
    x = conv(add, x, 8, 8, pads=[0] * 4)
    x = add("Pad", x, ints(add, 0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    return PICTURE, [conv(add, x, 8, 4, pads=[0] * 4)]


def inner_outputs(add):
    """Values that are returned and read."""
    x = conv(add, "x", 3, 8)
    y = add("Relu", x)
    z = conv(add, y, 8, 8)
    return PICTURE, [x, y, z, conv(add, z, 8, 4)]


def returned_input(add):
    """An input is an output, too."""
    return PICTURE, ["x", conv(add, add("Relu", conv(add, "x", 3, 8)), 8, 4)]


def two_inputs(add):
    a, b = conv(add, "x", 3, 8), conv(add, "z", 3, 8)
    y = add("Where", add("Greater", a, b), a, b)
    return {**PICTURE, "z": [1, 3, 12, 12]}, [conv(add, add("Add", y, add("Mul", a, b)), 8, 4)]


def embedding(add):
    x = add("Gather", add.weight(30, 16, scale=1.), "ids")
    y = add("Gelu", add("MatMul", x, add.weight(16, 24)))
    y = add("Add", add("MatMul", y, add.weight(24, 16)), x)
    return {"ids": ([1, 6], TensorProto.INT64)}, [add("MatMul", y, add.weight(16, 8))], 20


def tied_embedding(add):
    table = add.weight(30, 16, scale=.5)
    x = add("Gather", table, "ids")
    x = add("Tanh", add("MatMul", x, add.weight(16, 16)))
    return {"ids": ([1, 6], TensorProto.INT64)}, [add("MatMul", x, add("Transpose", table, perm=[1, 0]))]


def erf_gelu(add):
    x = conv(add, "x", 3, 8)
    y = add("Add", add("Erf", add("Div", x, number(add, 2 ** .5))), number(add, 1))
    return PICTURE, [conv(add, add("Mul", add("Mul", x, y), number(add, .5)), 8, 4)]


def norms(add):
    x = conv(add, "x", 3, 8, bias=False)
    x = add("LeakyRelu", cases._batch_norm(add, x, 8))
    x = add("InstanceNormalization", conv(add, x, 8, 8), add.constant(np.ones(8, np.float32)), add.weight(8))
    return PICTURE, [conv(add, add("PRelu", x, number(add, np.full((8, 1, 1), .2))), 8, 4)]


def depthwise(add):
    x = add("Clip", conv(add, "x", 3, 8), number(add, 0), number(add, 6))
    x = add("Clip", add("Conv", x, add.weight(8, 1, 3, 3), add.weight(8), group=8, pads=[1] * 4), number(add, 0), number(add, 6))
    x = conv(add, x, 8, 8, kernel=1)
    y = add("Conv", x, add.weight(8, 1, 3, 3), add.weight(8), group=8, pads=[1] * 4)
    return PICTURE, [conv(add, add("Add", x, y), 8, 4, kernel=1)]


def lstm(add):
    x = add("Tanh", add("MatMul", "x", add.weight(8, 16)))
    x, _, _ = add("LSTM", x, add.weight(1, 32, 16, scale=.3), add.weight(1, 32, 8, scale=.3), add.weight(1, 64), hidden_size=8, n=3)
    x = add("MatMul", add("Squeeze", x, ints(add, 1)), add.weight(8, 8))
    return {"x": [5, 1, 8]}, [add("Softmax", add("MatMul", x, add.weight(8, 4)))]


def _body(name, make, outputs):
    """A sub-graph that reads values of the graph around it."""
    inner = cases.Builder(77)
    x = make(inner)
    for i, node in enumerate(inner.nodes):  # names of its own
        for k, key in enumerate(node.output):
            for other in inner.nodes:
                other.input[:] = [f"{name}_{key}" if word == key else word for word in other.input]
            x = f"{name}_{key}" if x == key else x
            node.output[k] = f"{name}_{key}"
        node.name = f"{name}_n{i}"
    stored = []
    for tensor in inner.initializers:
        for node in inner.nodes:
            node.input[:] = [f"{name}_{tensor.name}" if word == tensor.name else word for word in node.input]
        stored.append(numpy_helper.from_array(numpy_helper.to_array(tensor), f"{name}_{tensor.name}"))
    return helper.make_graph(inner.nodes, name, [], [helper.make_tensor_value_info(x, TensorProto.FLOAT, outputs)], stored)


def conditional(add):
    x = add("Relu", conv(add, "x", 3, 8))
    shape = [1, 8, 12, 12]
    y = add("If", add("Greater", add("ReduceMax", x, keepdims=0), number(add, 3)),
            then_branch=_body("then", lambda inner: inner("Conv", x, inner.weight(8, 8, 3, 3), pads=[1] * 4), shape),
            else_branch=_body("else", lambda inner: inner("Mul", x, number(inner, .5)), shape))
    return PICTURE, [conv(add, add("Add", x, y), 8, 4)]


def loop(add):
    """The body reads a constant and a value around it."""
    weight = add.weight(16, 16)
    start = add("MatMul", "x", weight)
    names = [("i", TensorProto.INT64, []), ("go_in", TensorProto.BOOL, []), ("state", TensorProto.FLOAT, [4, 16])]
    outs = [("go_out", TensorProto.BOOL, []), ("next", TensorProto.FLOAT, [4, 16])]
    nodes = [helper.make_node("Identity", ["go_in"], ["go_out"], "b0"), helper.make_node("MatMul", ["state", weight], ["product"], "b1"),
             helper.make_node("Add", ["product", start], ["sum"], "b2"), helper.make_node("Tanh", ["sum"], ["next"], "b3")]
    body = helper.make_graph(nodes, "body", *[[helper.make_tensor_value_info(*one) for one in table] for table in (names, outs)])
    y = add("Loop", add.constant(np.array(3)), add.constant(np.array(True)), start, body=body)
    return {"x": [4, 16]}, [add("Sigmoid", add("MatMul", add("Reshape", y, ints(add, 4, 16)), add.weight(16, 4)))]


def set_11(add):
    """An operator set without scales per channel."""
    x = add("Relu", conv(add, "x", 3, 8))
    y = add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    y = conv(add, y, 8, 8)
    return PICTURE, [conv(add, add("Squeeze", add("Unsqueeze", add("Add", x, y), axes=[0]), axes=[0]), 8, 4)], 11


def unit_ends(add):
    """The first and the last operators are none that settings name."""
    x = add("Mul", add("Sub", "x", number(add, .5)), number(add, 2))
    x = add("Relu", conv(add, x, 3, 8))
    return PICTURE, [add("Softmax", add("Reshape", conv(add, x, 8, 4), ints(add, 1, -1)))]


def reductions(add):
    x = add("Relu", conv(add, "x", 3, 8))
    y = add("ReduceMean", x, axes=[2, 3], keepdims=0)
    z = add("ReduceMax", conv(add, x, 8, 8), axes=[2, 3], keepdims=0)
    y = add("Gemm", add("Concat", y, z, axis=1), add.weight(16, 8), add.weight(8))
    return PICTURE, [add("Gemm", add("Relu", y), add.weight(8, 4), add.weight(4)), add("ArgMax", y, axis=1)]


def space_to_depth(add):
    x = conv(add, "x", 3, 8)
    y = conv(add, add("SpaceToDepth", x, blocksize=2), 32, 32)
    return PICTURE, [conv(add, add("DepthToSpace", y, blocksize=2), 8, 4)]


def top_k(add):
    x = add("Gemm", "x", add.weight(16, 16), add.weight(16))
    values, order = add("TopK", x, ints(add, 4), n=2)
    y = add("Gemm", values, add.weight(4, 8), add.weight(8))
    return {"x": [4, 16]}, [add("Gemm", y, add.weight(8, 4), add.weight(4)), add("GatherElements", x, order, axis=1)]


def softmax_8(add):
    """Before version 13 Softmax and its like go over all axes behind the first that is named; operator set 8."""
    x = add("Relu", conv(add, "x", 3, 8))
    x = add("Softmax", add("Mul", x, number(add, 3)), axis=2)
    x = conv(add, x, 8, 4)
    return PICTURE, [add("LogSoftmax", x), x], 8


def constant_nodes(add):
    """Weights that are Constant nodes, as exporters without constant folding leave them."""
    def weight(*shape, scale=1.):
        return add("Constant", value=numpy_helper.from_array((scale * add.rng.standard_normal(shape)).astype(np.float32)))
    x = add("Relu", add("Conv", "x", weight(8, 3, 3, 3, scale=.2), add.weight(8), pads=[1] * 4))
    x = add("MatMul", add("Flatten", add("GlobalAveragePool", x)), weight(8, 6))
    return PICTURE, [add("Add", x, weight(6))]


NETWORKS = {make.__name__: make for make in (
    chain, no_activations, residual, branches, concat, shared_weight, shared_matrix, gemms, constant_left, dense_biases, attention, gate,
    swish, generator, up_and_down, split, moved, clipped, padded, inner_outputs, returned_input, two_inputs, embedding, tied_embedding,
    erf_gelu, norms, depthwise, lstm, conditional, loop, set_11, unit_ends, reductions, space_to_depth, top_k,
    softmax_8, constant_nodes)}


def make(name):
    """(model, feeds)"""
    add = cases.Builder(list(NETWORKS).index(name) + 100)
    inputs, outputs, opset = (*NETWORKS[name](add), 17)[:3]
    graph_inputs = {key: value if isinstance(value, tuple) else (value, TensorProto.FLOAT) for key, value in inputs.items()}
    infos = [helper.make_tensor_value_info(key, kind, shape) for key, (shape, kind) in graph_inputs.items()]
    unknown = [onnx.ValueInfoProto(name=key) for key in outputs]
    graph = helper.make_graph(add.nodes, name, infos, [], add.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    known = {value.name: value for value in [*onnx.shape_inference.infer_shapes(model).graph.value_info, *infos]}
    model.graph.output.extend(known.get(value.name, value) for value in unknown)
    onnx.checker.check_model(model)
    def feed(shape, kind):
        if kind == TensorProto.INT64:
            return add.rng.integers(0, 30, shape)
        return cases.smooth(add.rng, *shape) if len(shape) == 4 and shape[2] > 1 else add.rng.standard_normal(shape).astype(np.float32)
    return model, [{key: feed(*value) for key, value in graph_inputs.items()} for _ in range(FEEDS)]
