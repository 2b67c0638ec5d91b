# SPDX-License-Identifier: Apache-2.0
"""`profile --round-half` beside ONNX Runtime, which rounds each result of a model in half precision: ranges, value by value."""
import json

# First: it leaves the test out where packages are missing.
from oracle import execute, folder, main, onnxruntime, profile, refused, tidemark

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SAMPLES, TOKENS, WIDTH, HEADS = 8, 12, 32, 4


class Encoder:
    """A block of a vision transformer in single operators; all activations are of `kind`. No value inside is declared."""

    def __init__(self, kind):
        self.kind, self.random, self.nodes, self.stored = kind, np.random.default_rng(3), [], []

    def constant(self, values):
        name = f"c{len(self.stored)}"
        values = np.asarray(values)
        if values.dtype == np.int64:
            self.stored.append(numpy_helper.from_array(values, name))
        else:
            self.stored.append(helper.make_tensor(name, self.kind, values.shape, values.astype("f4").ravel().tolist()))
        return name

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], f"n{len(self.nodes)}", **attributes))
        return name

    def dense(self, x, inner, outer, spread):
        product = self.node("MatMul", x, self.constant(self.random.standard_normal((inner, outer)) * spread / inner ** .5))
        return self.node("Add", product, self.constant(self.random.standard_normal(outer) * .1))

    def norm(self, x):
        centered = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        squares = self.node("ReduceMean", self.node("Pow", centered, self.constant(np.float32(2))), axes=[-1])
        root = self.node("Sqrt", self.node("Add", squares, self.constant(np.float32(1e-4))))
        return self.node("Mul", self.node("Div", centered, root), self.constant(1 + self.random.standard_normal(WIDTH) * .1))

    def heads(self, x):
        split = self.node("Reshape", x, self.constant(np.array([0, TOKENS, HEADS, WIDTH // HEADS])))
        return self.node("Transpose", split, perm=[0, 2, 1, 3])

    def model(self):
        x = self.norm("x")
        q, k, v = (self.heads(self.dense(x, WIDTH, WIDTH, 2)) for _ in range(3))
        scores = self.node("Div", self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2])), self.constant(np.float32(8 ** .5)))
        # softmax in float32, as exporters write it
        wide = self.node("Softmax", self.node("Cast", scores, to=TensorProto.FLOAT), axis=-1)
        mixed = self.node("MatMul", self.node("Cast", wide, to=self.kind), v)
        mixed = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), self.constant(np.array([0, TOKENS, WIDTH])))
        x = self.node("Add", "x", self.dense(mixed, WIDTH, WIDTH, 1))
        inner = self.dense(self.norm(x), WIDTH, 4 * WIDTH, 3)
        gate = self.node("Add", self.node("Erf", self.node("Div", inner, self.constant(np.float32(2 ** .5)))), self.constant(np.float32(1)))
        inner = self.node("Mul", self.node("Mul", inner, gate), self.constant(np.float32(.5)))
        y = self.node("Relu", self.node("Add", x, self.dense(inner, 4 * WIDTH, WIDTH, 1)))
        graph = helper.make_graph(self.nodes, "encoder", [helper.make_tensor_value_info("x", self.kind, ["N", TOKENS, WIDTH])],
                                  [helper.make_tensor_value_info(y, self.kind, ["N", TOKENS, WIDTH])], self.stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def every_value(model, samples):
    """What ONNX Runtime makes of each value, each node in a session of its own: within one session its CPU provider computes neighbouring
    nodes in float32 without rounding between them."""
    whole = onnx.shape_inference.infer_shapes(model)
    known = {info.name: info for info in [*whole.graph.value_info, *whole.graph.output, *whole.graph.input]}
    values = {"x": list(samples)}
    stored = {tensor.name: tensor for tensor in whole.graph.initializer}
    for node in whole.graph.node:
        inputs = [name for name in dict.fromkeys(node.input) if name in values]
        graph = helper.make_graph([node], "one", [known[name] for name in inputs], [known[node.output[0]]],
                                  [stored[name] for name in dict.fromkeys(node.input) if name in stored])
        session = onnxruntime.InferenceSession(helper.make_model(graph, opset_imports=model.opset_import, ir_version=8).SerializeToString(),
                                               providers=["CPUExecutionProvider"])
        values[node.output[0]] = [session.run(None, {name: values[name][i] for name in inputs})[0] for i in range(len(samples))]
    return {name: np.stack(made).astype("f8") for name, made in values.items()}


def distance(measured, values):
    """The largest difference of an end, as a share of the range, over the values; and where."""
    worst = (0, "")
    for tensor in measured["tensors"]:
        if tensor["name"] in values:
            low, high = values[tensor["name"]].min(), values[tensor["name"]].max()
            off = max(abs(tensor["min"] - low), abs(tensor["max"] - high)) / max(high - low, 1e-9)
            worst = max(worst, (off, tensor["name"]))
    return worst


def write(path, kind):
    model = Encoder(kind).model()
    samples = (np.random.default_rng(5).standard_normal((SAMPLES, 1, TOKENS, WIDTH)) * 3).astype(np.float16)
    onnx.save(model, path / "m.onnx")
    np.save(path / "x.npy", samples)
    return model, samples


def test_float16_ranges_are_those_of_onnxruntime(path):
    model, samples = write(path, TensorProto.FLOAT16)
    values = every_value(model, samples)
    exact = distance(profile(path / "m.onnx", path / "x.npy", path / "exact.json"), values)
    rounded_profile = profile(path / "m.onnx", path / "x.npy", path / "rounded.json", "--round-half")
    rounded = distance(rounded_profile, values)
    assert rounded_profile["settings"]["round-half"] == "true"
    assert rounded[0] <= 1e-3 and rounded[0] < exact[0], (rounded, exact)
    return f"{len(values)} values: at most {rounded[0]:.1e} of the range off, {exact[0]:.1e} without --round-half"


def test_bfloat16_values_are_such(path):
    write(path, TensorProto.BFLOAT16)
    model = Encoder(TensorProto.BFLOAT16).model()
    wide = {node.output[0] for node in model.graph.node if node.op_type == "Softmax" or node.attribute and node.attribute[0].name == "to"
            and node.attribute[0].i == TensorProto.FLOAT}
    measured = profile(path / "m.onnx", path / "x.npy", path / "p.json", "--round-half", "--observe", "activations")
    rest = {tensor["name"]: [int(np.float32(tensor[end]).view("u4")) & 0xffff for end in ("min", "max")]
            for tensor in measured["tensors"] if "min" in tensor}
    assert not any(any(ends) for name, ends in rest.items() if name not in wide), rest
    assert len(rest) > 30 and any(any(rest[name]) for name in wide)


def test_inputs_are_rounded_and_large_numbers_become_infinite(path):
    graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [4])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path / "m.onnx")
    np.save(path / "x.npy", np.array([[1.0003, 300, -2.5, 6e-8]], "f4"))
    measured = {t["name"]: t for t in profile(path / "m.onnx", path / "x.npy", path / "p.json", "--round-half")["tensors"]}
    assert (measured["x"]["min"], measured["x"]["max"]) == (-2.5, 300)
    assert measured["y"]["counts"]["pos_inf"] == 1 if "counts" in measured["y"] else "inf" in json.dumps(measured["y"])


def test_a_model_without_half_precision_is_refused(path):
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path / "m.onnx")
    np.save(path / "x.npy", np.ones((1, 4), "f4"))
    done = execute("profile", path / "m.onnx", "--data", path / "x.npy", "-o", path / "p.json", "--round-half", status=2)
    assert "has no float16 or bfloat16 values" in done.stderr, done.stderr
    assert not (path / "p.json").exists()


main()
