# SPDX-License-Identifier: Apache-2.0
"""Prompts of different lengths in a .jsonl file, through a decoder with masks, positions and a cache that is empty at first: ranges beside
ONNX Runtime's over the same prompts."""
import json

# First: it leaves the test out where packages are missing.
from oracle import execute, main, profile, session

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PROMPTS = [[1, 5, 7], [2], [3, 3, 9, 0, 8, 11, 4], [6, 10]]


def decoder(path, state=None, coordinates=None):
    """One head: scores of the tokens over the cache and themselves, masked, and the mean that they give; a state of a fixed size is added.
    Positions may have several coordinates."""
    random = np.random.default_rng(1)
    stored = {name: random.standard_normal(shape).astype("f4") for name, shape in
              {"words": (12, 8), "places": (32, 8), "wq": (8, 4), "wk": (8, 4), "wv": (8, 4)}.items()}
    stored |= {"one": np.float32(1), "far": np.float32(-1e4), "axes": np.array([1])}
    steps = [("Gather", ["words", "input_ids"], "w"), ("Gather", ["places", "position_ids"], "p"), ("Add", ["w", "p"], "x"),
             ("MatMul", ["x", "wq"], "q"), ("MatMul", ["x", "wk"], "new_k"), ("MatMul", ["x", "wv"], "new_v"),
             ("Concat", ["past.key", "new_k"], "k"), ("Concat", ["past.value", "new_v"], "v"), ("Transpose", ["k"], "kt"),
             ("MatMul", ["q", "kt"], "scores"), ("Cast", ["attention_mask"], "seen"), ("Sub", ["one", "seen"], "unseen"),
             ("Mul", ["unseen", "far"], "bias"), ("Unsqueeze", ["bias", "axes"], "row"), ("Add", ["scores", "row"], "masked"),
             ("Softmax", ["masked"], "shares"), ("MatMul", ["shares", "v"], "mean" if state else "y")]
    steps += [("Add", ["mean", state], "y")] if state else []
    if coordinates:
        steps[1:2] = [("ReduceMax", ["position_ids"], "place"), ("Gather", ["places", "place"], "p")]
    extra = {"Concat": {"axis": 1}, "Transpose": {"perm": [0, 2, 1]}, "Cast": {"to": TensorProto.FLOAT},
             "ReduceMax": {"axes": [0], "keepdims": 0}}
    nodes = [helper.make_node(op, inputs, [output], output, **extra.get(op, {})) for op, inputs, output in steps]
    inputs = {"input_ids": (TensorProto.INT64, ["N", "T"]), "attention_mask": (TensorProto.INT64, ["N", "P+T"]),
              "position_ids": (TensorProto.INT64, [coordinates, "N", "T"] if coordinates else ["N", "T"]), "past.key": (TensorProto.FLOAT, ["N", "P", 4]),
              "past.value": (TensorProto.FLOAT, ["N", "P", 4])} | ({state: (TensorProto.FLOAT, ["N", 1, 4])} if state else {})
    graph = helper.make_graph(nodes, "decoder", [helper.make_tensor_value_info(name, *of) for name, of in inputs.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "T", 4])],
                              [numpy_helper.from_array(np.asarray(values), name) for name, values in stored.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path / "m.onnx")
    return model


def feeds_of(tokens, mask=None):
    ids = np.array([tokens])
    none = np.zeros((1, 0, 4), "f4")
    return {"input_ids": ids, "attention_mask": np.ones_like(ids) if mask is None else np.array([mask]),
            "position_ids": np.arange(len(tokens))[None], "past.key": none, "past.value": none}


def expected(model, feeds):
    """The ends of each result, by ONNX Runtime."""
    whole = onnx.shape_inference.infer_shapes(model)
    known = {info.name: info for info in [*whole.graph.value_info, *whole.graph.output]}
    names = [name for node in model.graph.node for name in node.output]
    del whole.graph.output[:]
    whole.graph.output.extend(known[name] for name in names)
    run = session(whole)
    values = [run.run(names, feed) for feed in feeds]
    return {name: (min(v[i].min() for v in values), max(v[i].max() for v in values)) for i, name in enumerate(names)}


def compare(measured, ends):
    tensors = {tensor["name"]: tensor for tensor in measured["tensors"]}
    for name, (low, high) in ends.items():
        got = tensors[name]["min"], tensors[name]["max"]
        assert np.allclose(got, (low, high), rtol=1e-5, atol=1e-6), f"{name}: {got}, not {low, high}"


def test_lines_of_token_ids(path):
    model = decoder(path)
    (path / "prompts.jsonl").write_text("\n\n".join(map(json.dumps, PROMPTS)) + "\n \n")
    measured = profile(path / "m.onnx", path / "prompts.jsonl", path / "p.json")
    assert measured["data"][0]["samples"] == len(PROMPTS), measured["data"]
    compare(measured, expected(model, map(feeds_of, PROMPTS)))
    again = profile(path / "m.onnx", path / "prompts.jsonl", path / "again.json", "--threads", "1")
    assert again == measured


def test_lines_with_arrays_by_name(path):
    model = decoder(path)
    masks = [[1] * (len(tokens) - 1) + [0] * (len(tokens) > 1) + [1] * (len(tokens) == 1) for tokens in PROMPTS]
    lines = [{"input_ids": tokens, "attention_mask": mask} for tokens, mask in zip(PROMPTS, masks)]
    lines[1]["input_ids"] = [lines[1]["input_ids"]]  # with the batch's axis
    (path / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    measured = profile(path / "m.onnx", path / "prompts.jsonl", path / "p.json")
    compare(measured, expected(model, map(feeds_of, PROMPTS, masks)))


def test_states_of_a_fixed_size(path):
    model = decoder(path, "past.0.conv")
    (path / "prompts.jsonl").write_text("\n".join(map(json.dumps, PROMPTS)))
    measured = profile(path / "m.onnx", path / "prompts.jsonl", path / "p.json")
    compare(measured, expected(model, [feeds_of(tokens) | {"past.0.conv": np.zeros((1, 1, 4), "f4")} for tokens in PROMPTS]))
    decoder(path, "past_key_cross_0")  # which an encoder makes
    done = execute("profile", path / "m.onnx", "--data", path / "prompts.jsonl", "-o", path / "q.json", status=3)
    assert "'past_key_cross_0' has no free size that could be 0; give it data of its own" in done.stderr, done.stderr


def test_positions_with_coordinates(path):
    model = decoder(path, coordinates=3)
    (path / "prompts.jsonl").write_text("\n".join(map(json.dumps, PROMPTS)))
    measured = profile(path / "m.onnx", path / "prompts.jsonl", path / "p.json")
    compare(measured, expected(model, [feeds_of(tokens) | {"position_ids": np.tile(np.arange(len(tokens)), (3, 1, 1))} for tokens in PROMPTS]))


def test_embeddings_in_place_of_tokens(path):
    model = decoder(path)
    del model.graph.node[0]
    model.graph.node[1].input[0] = "inputs_embeds"
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, ["N", "T", 8]))
    onnx.save(model, path / "m.onnx")
    rows = [np.random.default_rng(len(tokens)).standard_normal((len(tokens), 8)).astype("f4") for tokens in PROMPTS]
    lines = [{"inputs_embeds": (row if i else row[None]).tolist()} for i, row in enumerate(rows)]  # one with the batch's axis
    (path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    measured = profile(path / "m.onnx", path / "prompts.jsonl", path / "p.json")
    feeds = [feeds_of(tokens) | {"inputs_embeds": row[None]} for tokens, row in zip(PROMPTS, rows)]
    for feed in feeds:
        del feed["input_ids"]
    compare(measured, expected(model, feeds))


def test_bad_lines_are_named(path):
    decoder(path)
    for text, why in (("[1]\n[]\n", "line 2: holds no token"), ('{"input_ids": []}\n', "line 1: holds no token"), ('[1, 2]\n{"a": [1]}\n', "line 2: has nothing for the input 'input_ids'"), ("[1]\n\n[1.5]\n", "line 3: 1.5 is no int64"),
                      ("[1]\n[2,", "line 2"), ("[[1, 2], [3]]\n", "line 1: arrays of one level differ in length"), ("\n", "holds no line"),
                      ('"text"\n', "line 1: is neither an array of token ids nor an object"), ('[1, "a"]\n', "line 1: holds something"),
                      ("[99]\n", "")):
        (path / "bad.jsonl").write_text(text)
        done = execute("profile", path / "m.onnx", "--data", path / "bad.jsonl", "-o", path / "p.json", status=3)
        assert why in done.stderr and len(done.stderr.splitlines()) <= 2, done.stderr
        assert not (path / "p.json").exists()


def test_damaged_bytes_are_refused_or_read(path):
    decoder(path)
    random = np.random.default_rng(9)
    good = "".join(json.dumps({"input_ids": tokens}) + "\n" for tokens in PROMPTS).encode()
    refused = 0
    for _ in range(60):
        bad = bytearray(good)
        for at in random.integers(0, len(bad), random.integers(1, 4)):
            bad[at] = random.choice(list(b'[]{},"\n\0e9-\xff'))
        (path / "bad.jsonl").write_bytes(bytes(bad))
        done = execute("profile", path / "m.onnx", "--data", path / "bad.jsonl", "-o", path / "p.json", "--quiet", status=(0, 3))
        refused += done.returncode == 3
    assert 30 < refused < 60


main()
