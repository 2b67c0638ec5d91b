# SPDX-License-Identifier: Apache-2.0
"""Attention with additive masks: what numbers were left out of stays float, in `calibrate`, `simulate` and QDQ models, and still masks.

Without a mask's numbers, its range is [0, 0]: codes for that would make nothing of the mask.
"""
import json

from oracle import folder, main, session, tidemark

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDE, SAMPLES = 8, 16, 24
LOWEST = float(np.finfo(np.float32).min)


def encoder(path, form, number):
    """One head of attention over x [N, 8, 16] with kept tokens [N, 8], its first token's result to four classes."""
    rng = np.random.default_rng(7)
    weights = {name: rng.normal(0, 0.6 / np.sqrt(shape[0]) * 2, shape).astype(np.float32) for name, shape in
               {"wq": (WIDE, WIDE), "wk": (WIDE, WIDE), "wv": (WIDE, WIDE), "wo": (WIDE, 4)}.items()}
    weights |= {"number": np.float32([number]), "one": np.float32([1]), "zero": np.float32([0]), "axis": np.int64([1]),
                "first": np.int64(0)}
    node = helper.make_node
    nodes = [node("MatMul", ["x", w], [o], o) for w, o in (("wq", "q"), ("wk", "k"), ("wv", "v"))]
    nodes += [node("Transpose", ["k"], ["kt"], "kt", perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["scores"], "scores")]
    if form == "mul":  # (1 - keep) * number, added
        nodes += [node("Sub", ["one", "keep"], ["gone"], "gone"), node("Mul", ["gone", "number"], ["flat"], "flat")]
    else:
        nodes.append(node("Cast", ["keep"], ["kept"], "kept", to=TensorProto.BOOL))
        if form == "where-add":
            nodes.append(node("Where", ["kept", "zero", "number"], ["flat"], "flat"))
    if form == "where":  # in place of the scores
        nodes += [node("Unsqueeze", ["kept", "axis"], ["wide"], "wide"),
                  node("Where", ["wide", "scores", "number"], ["masked"], "masked")]
    else:
        nodes += [node("Unsqueeze", ["flat", "axis"], ["wide"], "wide"), node("Add", ["scores", "wide"], ["masked"], "masked")]
    nodes += [node("Softmax", ["masked"], ["share"], "share", axis=-1), node("MatMul", ["share", "v"], ["mixed"], "mixed"),
              node("Add", ["mixed", "x"], ["sum"], "sum"), node("Gather", ["sum", "first"], ["head"], "head", axis=1),
              node("MatMul", ["head", "wo"], ["y"], "y")]
    used = {name for n in nodes for name in n.input}
    graph = helper.make_graph(
        nodes, "attention", [helper.make_tensor_value_info("x", 1, ["N", TOKENS, WIDE]),
                             helper.make_tensor_value_info("keep", 1, ["N", TOKENS])],
        [helper.make_tensor_value_info("y", 1, ["N", 4])],
        [numpy_helper.from_array(a, name) for name, a in weights.items() if name in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def inputs(seed):
    rng = np.random.default_rng(seed)
    keep = (np.arange(TOKENS) < rng.integers(2, TOKENS, (SAMPLES, 1))).astype(np.float32)
    return {"x": rng.normal(0, 1, (SAMPLES, TOKENS, WIDE)).astype(np.float32), "keep": keep}


def run(path, feed):
    return session(path, fused=True).run(None, feed)[0]


def check(form, number, excluded, *rules):
    with folder() as path:
        model, data = path / "net.onnx", path / "data.npz"
        encoder(model, form, number)
        np.savez(data, **inputs(1))
        tidemark("profile", model, "--data", data, "--quiet", "-o", path / "p.json", *([f"--exclude={number!r}"] if excluded else []))
        config = path / "config.json"
        config.write_text(json.dumps({"built_in": dict.fromkeys(rules, False)}))
        tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--config", config, "--quiet", "-o", path / "e.json")
        values = json.loads((path / "p.json").read_text())["tensors"]
        encodings = json.loads((path / "e.json").read_text())
        left_out = {value["id"]: value["name"] for value in values if value.get("excluded")}
        assert bool(left_out) == excluded, left_out
        assert {"masked"} <= set(left_out.values()) or not excluded or number == -1e4
        assert not {e["id"] for e in encodings["encodings"]} & set(left_out)
        for value in encodings["left"]:
            assert value["id"] not in left_out or "left out" in value["reason"], value
        assert set(left_out) <= {value["id"] for value in encodings["left"]}
        simulated = {value["name"]: value for value in json.loads(tidemark("simulate", model, path / "e.json", "--data", data, "--json"))["values"]}
        tidemark("export", path / "e.json", "--to", "qdq", "--model", model, "--quiet", "-o", path / "qdq.onnx")
        feed = inputs(2)
        plain, ours = run(model, feed), run(path / "qdq.onnx", feed)
        ratio = 10 * np.log10(np.sum(plain ** 2) / np.sum((plain - ours) ** 2))
        feed["x"] = np.where(feed["keep"][..., None] > 0, feed["x"], -feed["x"])
        assert np.array_equal(run(path / "qdq.onnx", feed), ours), "what is masked is seen"
        assert ratio > 25, f"{form} {number}: {ratio:.1f} dB"
        return f"{form} {number:g}{' excluded' if excluded else ''}: {ratio:.1f} dB"


def test_values_with_excluded_numbers_stay_float():
    return "; ".join(check(form, number, True) for form in ("mul", "where-add", "where") for number in (LOWEST, -1e4))


def test_values_with_excluded_numbers_stay_float_without_the_rule():
    return check("mul", LOWEST, True, "masks-stay-float")


def test_masks_stay_float_without_exclusion():
    return "; ".join(check(form, number, False) for form, number in
                     (("mul", LOWEST), ("where-add", -np.inf), ("where", -np.inf), ("where-add", -1e4)))


main()
