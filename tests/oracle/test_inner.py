# SPDX-License-Identifier: Apache-2.0
"""What lies inside fused operators: its statistics are those of the same network in single operators, as ONNX Runtime runs it."""
import json

from oracle import execute, folder, main, profile, tidemark

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SAMPLES, BATCH, QUERIES, PAST, HEADS, GROUPS, SIZE = 3, 2, 5, 3, 4, 2, 8
WIDE, KEYS = HEADS * SIZE, QUERIES + PAST
node = helper.make_node
rng = np.random.default_rng(11)


def floats(*shape):
    return rng.normal(0, 1, shape).astype(np.float32)


def model(nodes, inputs, weights, outputs):
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)])


class Case:
    """A fused node, the same in single operators, and which value of those each inner value is."""

    def __init__(self, fused, single, inputs, weights, values, outputs=("y",)):
        self.inputs = inputs  # name -> [SAMPLES, ...]
        self.fused = model(fused, {k: v[0] for k, v in inputs.items()}, weights, outputs)
        self.single = model(single, {k: v[0] for k, v in inputs.items()}, weights, values.values())
        self.values, self.weights = values, weights

    def reference(self):
        session = onnxruntime.InferenceSession(self.single.SerializeToString(), providers=["CPUExecutionProvider"])
        runs = [session.run(None, {k: v[i] for k, v in self.inputs.items() if k in {x.name for x in session.get_inputs()}})
                for i in range(SAMPLES)]
        return {inner: np.stack([run[k] for run in runs]) for k, inner in enumerate(self.values)}

    def check(self, path, net=None, prefix="fused/", *more):
        net = net or self.fused
        onnx.save(net, path / "net.onnx")
        np.savez(path / "data.npz", **self.inputs)
        found = {t["name"]: t for t in profile(path / "net.onnx", path / "data.npz", path / "p.json", *more)["tensors"] if t.get("inner")}
        assert set(found) == {prefix + name for name in self.values}, sorted(found)
        for name, real in self.reference().items():
            seen, width = found[prefix + name], float(real.max() - real.min())
            assert seen["count"] == real.size, (name, seen["count"], real.shape)
            for key, want in (("min", real.min()), ("max", real.max()), ("mean", real.mean(dtype=np.float64))):
                assert abs(seen[key] - want) <= 1e-4 * width, (name, key, seen[key], want)
            where = seen["max_at"]
            if np.partition(real.ravel(), -2)[-2] < real.max() - 1e-5 * width:
                assert np.argmax(real[where["sample"]]) == where["index"], (name, where)
        return found


def split(x, heads, out):
    """[B,S,heads * size] as [B,heads,S,size]."""
    return [node("Reshape", [x, f"shape{heads}"], [out + "_4"]), node("Transpose", [out + "_4"], [out], perm=[0, 2, 1, 3])]


def attend(q, k, mask):
    return [node("Transpose", [k], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", [q, "kt"], ["product"]),
            node("Mul", ["product", "scale"], ["scores"]), node("Add", ["scores", mask], ["masked"]),
            node("Softmax", ["masked"], ["probabilities"], axis=-1)]


def constants():
    causal = np.where(np.arange(KEYS)[None] > np.arange(QUERIES)[:, None] + PAST, np.float32(-1e30), np.float32(0))
    return {"shape4": np.int64([0, -1, HEADS, SIZE]), "shape2": np.int64([0, -1, GROUPS, SIZE]), "scale": np.float32(SIZE ** -0.5),
            "causal": causal, "repeat": np.int64([0, 0, 0, 1, 1])}


ATTENDED = {"scores": "scores", "probabilities": "probabilities"}


def group_query(packed, rotary):
    kv = GROUPS * SIZE
    inputs = {"qkv": floats(SAMPLES, BATCH, QUERIES, WIDE + 2 * kv), "past_k": floats(SAMPLES, BATCH, GROUPS, PAST, SIZE),
              "past_v": floats(SAMPLES, BATCH, GROUPS, PAST, SIZE)}
    angles = np.arange(KEYS)[:, None] / 10 ** (np.arange(SIZE // 2) / 4)
    weights = constants() | {"lengths": np.full(BATCH, KEYS - 1, np.int32), "total": np.int32(KEYS), "cos": np.cos(angles).astype(np.float32),
                             "sin": np.sin(angles).astype(np.float32), "parts": np.int64([WIDE, kv, kv]),
                             "positions": np.arange(PAST, KEYS)[None].repeat(BATCH, 0), "order": np.int64([0, 0, 1, 1]),
                             "first": np.int64([0])}
    cut = [node("Split", ["qkv", "parts"], ["q", "k", "v"], axis=2)]
    operands = ["qkv", "", ""] if packed else ["q", "k", "v"]
    fused = ([] if packed else cut) + [node(
        "GroupQueryAttention", operands + ["past_k", "past_v", "lengths", "total"] + (["cos", "sin"] if rotary else []), ["y", "pk", "pv"],
        "fused", domain="com.microsoft", num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=int(rotary))]
    single = cut + split("q", HEADS, "q4") + split("k", GROUPS, "k4")
    q, k = "q4", "k4"
    if rotary:
        single += [node("RotaryEmbedding", [x, "cos", "sin", "positions"], [x + "r"]) for x in (q, k)]
        q, k = "q4r", "k4r"
    single += [node("Concat", ["past_k", k], ["keys"], axis=2), node("Gather", ["keys", "order"], ["k_all"], axis=1)]
    values = ({"query": "q", "key": "k", "value": "v"} if packed else {}) | ({"query_rotated": q, "key_rotated": k} if rotary else {})
    return Case(fused, single + attend(q, "k_all", "causal"), inputs, weights, values | ATTENDED)


def multi_head(bias):
    inputs = {n: floats(SAMPLES, BATCH, QUERIES, WIDE) for n in "qkv"}
    weights = constants() | {"bias": floats(3 * WIDE), "none": np.float32(0)} | {b: floats(WIDE) for b in ("bq", "bk", "bv")}
    weights["bias"] = np.concatenate([weights[b] for b in ("bq", "bk", "bv")])
    fused = [node("MultiHeadAttention", ["q", "k", "v"] + (["bias"] if bias else []), ["y"], "fused", domain="com.microsoft", num_heads=HEADS)]
    single, names = [], list("qkv")
    if bias:
        single = [node("Add", [n, "b" + n], [n + "b"]) for n in "qkv"]
        names = ["qb", "kb", "vb"]
    single += split(names[0], HEADS, "q4") + split(names[1], HEADS, "k4") + attend("q4", "k4", "none")
    return Case(fused, single, inputs, weights, (dict(zip(("query", "key", "value"), names)) if bias else {}) | ATTENDED)


def projected():
    inputs = {"x": floats(SAMPLES, BATCH, QUERIES, 12)}
    weights = constants() | {"w": floats(12, 3 * WIDE), "b": floats(3 * WIDE), "parts": np.int64([WIDE] * 3),
                             "square": np.triu(np.full((QUERIES, QUERIES), np.float32(-1e30)), 1)}
    single = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["pb"]), node("Split", ["pb", "parts"], ["q", "k", "v"], axis=2)]
    single += split("q", HEADS, "q4") + split("k", HEADS, "k4") + attend("q4", "k4", "square")
    return Case([node("Attention", ["x", "w", "b"], ["y"], "fused", domain="com.microsoft", num_heads=HEADS, unidirectional=1)], single, inputs,
                weights, {"query": "q", "key": "k", "value": "v"} | ATTENDED)


def standard():
    inputs = {"q": floats(SAMPLES, BATCH, QUERIES, WIDE), "k": floats(SAMPLES, BATCH, KEYS, GROUPS * SIZE),
              "v": floats(SAMPLES, BATCH, KEYS, GROUPS * SIZE)}
    weights = constants() | {"order": np.int64([0, 0, 1, 1])}
    single = split("q", HEADS, "q4") + split("k", GROUPS, "k4") + [node("Gather", ["k4", "order"], ["k_all"], axis=1)]
    return Case([node("Attention", ["q", "k", "v", "causal"], ["y"], "fused", q_num_heads=HEADS, kv_num_heads=GROUPS)],
                single + attend("q4", "k_all", "causal"), inputs, weights, ATTENDED)


def experts():
    tokens, wide, inner, count, chosen = 7, 6, 10, 5, 2
    inputs = {"x": floats(SAMPLES, tokens, wide), "router": floats(SAMPLES, tokens, count)}
    weights = {"w1": floats(count, inner, wide), "w2": floats(count, wide, inner), "k": np.int64([chosen]), "last": np.int64([-1]),
               "middle": np.int64([1])}
    # the chosen experts of each token in ascending order, and their matrices
    single = [node("TopK", ["router", "k"], ["best", "which"]), node("TopK", ["which", "k"], ["ordered", "at"], largest=0),
              node("Unsqueeze", ["x", "middle"], ["row"]), node("Shape", ["ordered"], ["shape"]),
              node("Unsqueeze", ["ordered", "last"], ["column"]), node("Shape", ["column"], ["columns"]),
              node("Expand", ["row", "columns"], ["given"]), node("Gather", ["w1", "ordered"], ["m1"]), node("Gather", ["w2", "ordered"], ["m2"]),
              node("Unsqueeze", ["given", "last"], ["given4"]), node("MatMul", ["m1", "given4"], ["h4"]), node("Relu", ["h4"], ["r4"]),
              node("MatMul", ["m2", "r4"], ["o4"]), node("Squeeze", ["r4", "last"], ["hidden"]), node("Squeeze", ["o4", "last"], ["made"])]
    return Case([node("MoE", ["x", "router", "w1", "", "w2"], ["y"], "fused", domain="com.microsoft", k=chosen, activation_type="relu",
                      normalize_routing_weights=1)],
                single, inputs, weights, {"expert_input": "given", "expert_hidden": "hidden", "expert_output": "made"})


def skip(op):
    inputs = {"x": floats(SAMPLES, BATCH, QUERIES, WIDE), "s": floats(SAMPLES, BATCH, QUERIES, WIDE)}
    return Case([node(op, ["x", "s", "g"], ["y"], "fused", domain="com.microsoft")], [node("Add", ["x", "s"], ["sum"])], inputs,
                {"g": floats(WIDE)}, {"input_skip_bias_sum": "sum"})


CASES = {
    "GroupQueryAttention": lambda: group_query(False, True), "GroupQueryAttention, packed": lambda: group_query(True, True),
    "GroupQueryAttention, plain": lambda: group_query(False, False), "MultiHeadAttention": lambda: multi_head(False),
    "MultiHeadAttention, bias": lambda: multi_head(True), "Attention": projected, "ONNX Attention": standard, "MoE": experts,
    "SkipLayerNormalization": lambda: skip("SkipLayerNormalization"),
    "SkipSimplifiedLayerNormalization": lambda: skip("SkipSimplifiedLayerNormalization")}


def test_inner_values_are_those_of_single_operators():
    for name, make in CASES.items():
        with folder() as path:
            try:
                make().check(path)
            except AssertionError as wrong:
                raise AssertionError(f"{name}: {wrong}") from wrong
    return ", ".join(CASES)


def within_if(case):
    """The fused node in the branch of an If, where values have memory instead of being shown piece by piece."""
    graph = case.fused.graph
    then = helper.make_graph(list(graph.node), "then", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    other = helper.make_graph([node("Constant", [], ["z"], value=numpy_helper.from_array(np.zeros(1, np.float32)))], "else", [],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
    first = graph.input[0].name
    nodes = [node("ReduceMax", [first], ["most"], keepdims=0), node("Greater", ["most", "low"], ["is"]),
             node("If", ["is"], ["out"], "if", then_branch=then, else_branch=other)]
    return model(nodes, {k: v[0] for k, v in case.inputs.items()}, case.weights | {"low": np.float32(-1e9)}, ["out"])


def test_the_same_inside_a_branch():
    for make in CASES.values():
        case = make()
        with folder() as path:
            case.check(path, within_if(case))


def test_the_same_in_several_threads_and_shards():
    case = group_query(True, True)
    with folder() as path:
        whole = case.check(path)
        assert case.check(path, None, "fused/", "--threads", "2") == whole
        for i in (1, 2):
            tidemark("profile", path / "net.onnx", "--data", path / "data.npz", "--quiet", "--shard", f"{i}/2", "-o", path / f"{i}.h5")
        tidemark("merge", path / "1.h5", path / "2.h5", "--quiet", "-o", path / "m.json")
        merged = {t["name"]: t for t in json.loads((path / "m.json").read_text())["tensors"] if t.get("inner")}
        assert merged == whole


def test_they_are_followed_and_no_file_has_them():
    case = group_query(True, True)
    with folder() as path:
        whole = case.check(path)
        tidemark("calibrate", path / "p.json", "--quiet", "-o", path / "e.json")
        left = {v["name"]: v["reason"] for v in json.loads((path / "e.json").read_text())["left"]}
        assert all("inside an operator" in left[name] for name in whole)
        tidemark("export", path / "e.json", "--to", "qdq", "--model", path / "net.onnx", "--quiet", "-o", path / "qdq.onnx")
        assert [len(n.output) for n in onnx.load(path / "qdq.onnx").graph.node if n.name == "fused"] == [3]
        onnxruntime.InferenceSession(path / "qdq.onnx", providers=["CPUExecutionProvider"])
        tidemark("transform", path / "net.onnx", "--passes", "all", "-o", path / "t.onnx", "--lineage", path / "l.json", "--quiet")
        tidemark("link", path / "p.json", path / "t.onnx", "--lineage", path / "l.json", "--quiet", "-o", path / "tp.json")
        moved = {t["name"]: t for t in json.loads((path / "tp.json").read_text())["tensors"] if t.get("inner")}
        assert {n: (t["count"], t["min"], t["max"]) for n, t in moved.items()} == {n: (t["count"], t["min"], t["max"]) for n, t in whole.items()}
        # by numbers, to the network in single operators
        onnx.save(case.single, path / "single.onnx")
        tidemark("link", path / "p.json", path / "single.onnx", "--numbers", "--original", path / "net.onnx", "--data", path / "data.npz",
                 "--quiet", "-o", path / "sp.json")
        single = {t["name"]: t for t in json.loads((path / "sp.json").read_text())["tensors"]}
        assert single["scores"]["count"] == whole["fused/scores"]["count"]


def test_patterns_choose_them():
    case = multi_head(False)
    with folder() as path:
        case.check(path)
        found = profile(path / "net.onnx", path / "data.npz", path / "q.json", "--observe", "*/scores")["tensors"]
        assert {t["name"] for t in found if t.get("count")} == {"fused/scores"}
        execute("profile", path / "net.onnx", "--data", path / "data.npz", "--quiet", "-o", path / "r.json", "--observe", "*/nothing", status=3)


main()
