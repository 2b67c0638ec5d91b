# SPDX-License-Identifier: Apache-2.0
"""Small language models with random weights, in the forms that exporters give them: decoders, and an encoder."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, HEAD, LAYERS = 23, 32, 2, 16, 2
CACHES = [f"past_key_values.{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value")]
# Names of outputs: optimum's; those that torch's tracing leaves; none.
PRESENT = {"optimum": lambda i: CACHES[i].replace("past_key_values", "present"), "dynamo": lambda i: f"cat_{i + 1}"}


class Graph:
    """Nodes, and the constants that they read."""

    def __init__(self, seed, opset):
        self.random, self.opset, self.nodes, self.stored = np.random.default_rng(seed), opset, [], {}

    def weight(self, name, *shape, scale=1.0):
        self.stored[name] = (self.random.standard_normal(shape) * scale).astype("f4")
        return name

    def constant(self, values, dtype=np.int64):
        array = np.asarray(values, dtype)
        name = f"c{array.dtype}{array.shape}{array.tolist()}"
        self.stored[name] = array
        return name

    def add(self, op, inputs, name, domain="", **attributes):
        outputs = [name] if isinstance(name, str) else name
        self.nodes.append(helper.make_node(op, inputs, outputs, f"{outputs[0]}_node", domain=domain, **attributes))
        return outputs[0]

    def linear(self, x, name, inputs, outputs):
        return self.add("MatMul", [x, self.weight(f"{name}.weight", inputs, outputs, scale=inputs ** -0.5)], name)

    def norm(self, x, name):
        return self.add("LayerNormalization", [x, self.weight(f"{name}.weight", WIDTH), self.weight(f"{name}.bias", WIDTH)], name, axis=-1)

    def heads(self, x, name, heads):
        split = self.add("Reshape", [x, self.constant([0, -1, heads, HEAD])], f"{name}_split")
        return self.add("Transpose", [split], f"{name}_heads", perm=[0, 2, 1, 3])

    def joined(self, x, name):
        back = self.add("Transpose", [x], f"{name}_back", perm=[0, 2, 1, 3])
        return self.add("Reshape", [back, self.constant([0, -1, WIDTH])], f"{name}_joined")

    def mlp(self, x, name):
        wide = self.linear(x, f"{name}_up", WIDTH, 3 * WIDTH)
        active = self.add("Mul", [wide, self.add("Sigmoid", [wide], f"{name}_gate")], f"{name}_active")
        return self.linear(active, f"{name}_down", 3 * WIDTH, WIDTH)

    def model(self, inputs, outputs):
        def described(values):
            return [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in values.items()]
        graph = helper.make_graph(self.nodes, "language", described(inputs), described(outputs),
                                  [numpy_helper.from_array(array, name) for name, array in self.stored.items()])
        made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", self.opset),
                                                                      helper.make_opsetid("com.microsoft", 1)])
        onnx.checker.check_model(made) if self.opset < 23 and not any(node.domain for node in self.nodes) else None
        return made


def _bias(g, tokens, columns, keys, far=-1e4):
    """[batch, 1, tokens, keys]: a large negative number at padding, and where a token would see a later one."""
    rows = g.add("Shape", [tokens], "tokens_shape")
    new = g.add("Gather", [rows, g.constant(1)], "new")
    total = g.add("Gather", [g.add("Shape", [columns], "mask_shape"), g.constant(1)], "total")
    first = g.add("Sub", [total, new], "before")
    places = g.add("Range", [first, total, g.constant(1)], "query_places")
    others = g.add("Range", [g.constant(0), total, g.constant(1)], "key_places")
    later = g.add("Greater", [g.add("Unsqueeze", [others, g.constant([0])], "key_row"),
                              g.add("Unsqueeze", [places, g.constant([1])], "query_column")], "later")
    causal = g.add("Where", [later, g.constant(far, np.float32), g.constant(0, np.float32)], "causal")
    seen = g.add("Cast", [g.add("Unsqueeze", [keys, g.constant([1, 2])], "mask_row")], "mask_float", to=TensorProto.FLOAT)
    padding = g.add("Mul", [g.add("Sub", [g.constant(1, np.float32), seen], "unseen"), g.constant(far, np.float32)], "padding_bias")
    return g.add("Add", [padding, causal], "bias")


def _attend(g, x, layer, bias, past, style):
    """What the layer's attention makes, and its keys and values, new ones behind those of the cache."""
    name = f"l{layer}"
    q, k, v = (g.heads(g.linear(x, f"{name}_{kind}", WIDTH, WIDTH), f"{name}_{kind}", HEADS) for kind in "qkv")
    if past:
        keys, values = (PRESENT["dynamo" if style == "dynamo" else "optimum"](2 * layer + i) for i in range(2))
    if style == "op23":
        g.add("Attention", [q, k, v, bias, *past], [f"{name}_mixed", keys, values], scale=HEAD ** -0.5)
        return g.joined(f"{name}_mixed", f"{name}_mixed")
    if past:
        k, v = g.add("Concat", [past[0], k], keys, axis=2), g.add("Concat", [past[1], v], values, axis=2)
    scores = g.add("MatMul", [q, g.add("Transpose", [k], f"{name}_kt", perm=[0, 1, 3, 2])], f"{name}_scores")
    scaled = g.add("Mul", [scores, g.constant(HEAD ** -0.5, np.float32)], f"{name}_scaled")
    shares = g.add("Softmax", [g.add("Add", [scaled, bias], f"{name}_masked")], f"{name}_shares", axis=-1)
    return g.joined(g.add("MatMul", [shares, v], f"{name}_mixed"), f"{name}_mixed")


def _attend_genai(g, x, layer, lengths, total, past):
    name = f"l{layer}"
    q, k, v = (g.linear(x, f"{name}_{kind}", WIDTH, WIDTH) for kind in "qkv")
    outputs = [f"{name}_mixed", *(PRESENT["optimum"](2 * layer + i) for i in range(2))]
    return g.add("GroupQueryAttention", [q, k, v, *past, lengths, total, "cos", "sin"], outputs, "com.microsoft", num_heads=HEADS,
                 kv_num_heads=HEADS, scale=HEAD ** -0.5, do_rotary=1)


def decoder(style="optimum", seed=3, positions=64):
    """Of at most so many positions. `style`: optimum, dynamo (outputs without names that say anything), op23 (Attention), genai (GroupQueryAttention and lengths
    made of the mask), plain (no cache)."""
    g = Graph(seed, 23 if style == "op23" else 17)
    inputs = {"input_ids": (TensorProto.INT64, ["batch", "sequence"]), "attention_mask": (TensorProto.INT64, ["batch", "total"])}
    if style != "genai":
        inputs["position_ids"] = (TensorProto.INT64, ["batch", "sequence"])
    outputs = {"scores" if style == "dynamo" else "logits": (TensorProto.FLOAT, ["batch", "sequence", VOCABULARY])}
    if style != "plain":
        head = "kv_cache_dim" if style == "genai" else HEAD  # as onnxruntime-genai declares it
        inputs |= {name: (TensorProto.FLOAT, ["batch", HEADS, "past", head]) for name in CACHES}
        present = PRESENT["dynamo" if style == "dynamo" else "optimum"]
        outputs |= {present(i): (TensorProto.FLOAT, ["batch", HEADS, "total", head]) for i in range(len(CACHES))}
    x = g.add("Gather", [g.weight("words", VOCABULARY, WIDTH), "input_ids"], "embedded")
    if style == "genai":
        angles = np.arange(positions)[:, None] * 100.0 ** (-np.arange(HEAD // 2) / (HEAD // 2))
        g.stored |= {"cos": np.cos(angles).astype("f4"), "sin": np.sin(angles).astype("f4")}
        seen = g.add("Sub", [g.add("ReduceSum", ["attention_mask", g.constant([1])], "seen", keepdims=0), g.constant(1)], "seen_less")
        lengths = g.add("Cast", [seen], "lengths", to=TensorProto.INT32)
        total = g.add("Gather", [g.add("Shape", ["attention_mask"], "mask_shape"), g.constant(1)], "total_long")
        total = g.add("Cast", [total], "total_length", to=TensorProto.INT32)
    else:
        x = g.add("Add", [x, g.add("Gather", [g.weight("places", positions, WIDTH), "position_ids"], "placed")], "x")
        bias = _bias(g, "input_ids", "attention_mask", "attention_mask")
    for layer in range(LAYERS):
        past = [] if style == "plain" else CACHES[2 * layer:2 * layer + 2]
        y = g.norm(x, f"l{layer}_norm1")
        mixed = _attend_genai(g, y, layer, lengths, total, past) if style == "genai" else _attend(g, y, layer, bias, past, style)
        x = g.add("Add", [x, g.linear(mixed, f"l{layer}_out", WIDTH, WIDTH)], f"l{layer}_sum1")
        x = g.add("Add", [x, g.mlp(g.norm(x, f"l{layer}_norm2"), f"l{layer}_mlp")], f"l{layer}_sum2")
    logits = g.linear(g.norm(x, "last"), "head", WIDTH, VOCABULARY)
    g.nodes[-1].output[0] = next(iter(outputs))
    assert logits == "head"
    return g.model(inputs, outputs)


def static_decoder(places=24):
    """The decoder op23 with caches of a fixed size, which TensorScatter writes to where an input says."""
    made = decoder("op23")
    graph, unused = made.graph, {"bias"}
    for node in list(graph.node):
        if node.op_type == "Attention":
            written = [helper.make_node("TensorScatter", [node.input[4 + i], node.input[1 + i], "write_indices"], [node.output[1 + i]], axis=2)
                       for i in range(2)]
            at = list(graph.node).index(node)
            rest = list(graph.node)[at + 1:]
            del graph.node[at:]
            graph.node.extend([*written, helper.make_node("Attention", [node.input[0], *node.output[1:3], "", "", "", "nonpad_kv_seqlen"],
                                                          [node.output[0]], scale=HEAD ** -0.5, is_causal=1), *rest])
    for node in reversed(list(graph.node)):  # what only made the bias
        if set(node.output) <= unused or not any(name in other.input for other in graph.node for name in node.output) and not set(
                node.output) & {output.name for output in graph.output}:
            graph.node.remove(node)
    inputs = [value for value in graph.input if value.name != "attention_mask"]
    for value in [*inputs, *graph.output]:
        if value.name.startswith(("past", "present")):
            value.type.tensor_type.shape.dim[2].dim_value = places
    del graph.input[:]
    graph.input.extend([*inputs, *(helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"]) for name in
                                   ("write_indices", "nonpad_kv_seqlen"))])
    made.opset_import[0].version = 24
    return made


def encoder(mask=TensorProto.INT64, merged=False, seed=5, far=float(np.finfo("f4").min)):
    """Like BERT: embeddings, layers of attention and GELU, a pooled token and classes. mask: the type of attention_mask. merged: the
    axes of batch and sequence are one between the layers."""
    g = Graph(seed, 17)
    inputs = {"input_ids": (TensorProto.INT64, ["batch", "sequence"]), "attention_mask": (mask, ["batch", "sequence"]),
              "token_type_ids": (TensorProto.INT64, ["batch", "sequence"])}
    shape = g.add("Shape", ["input_ids"], "ids_shape")
    length = g.add("Gather", [shape, g.constant([1])], "length")
    places = g.add("Slice", [g.constant(np.arange(64)[None].tolist()), g.constant([0]), length, g.constant([1])], "place_ids")
    x = g.add("Add", [g.add("Gather", [g.weight("words", VOCABULARY, WIDTH), "input_ids"], "embedded"),
                      g.add("Gather", [g.weight("types", 2, WIDTH), "token_type_ids"], "typed")], "embedded_typed")
    x = g.norm(g.add("Add", [x, g.add("Gather", [g.weight("places", 64, WIDTH), places], "placed")], "embeddings"), "embeddings_norm")
    seen = g.add("Cast", [g.add("Unsqueeze", ["attention_mask", g.constant([1, 2])], "mask_row")], "mask_float", to=TensorProto.FLOAT)
    bias = g.add("Mul", [g.add("Sub", [g.constant(1, np.float32), seen], "unseen"), g.constant(far, np.float32)], "bias")
    if merged:
        x = g.add("Reshape", [x, g.constant([-1, WIDTH])], "flat")
    for layer in range(LAYERS):
        name = f"l{layer}"
        y = x
        if merged:
            y = g.add("Reshape", [x, g.add("Concat", [shape, g.constant([WIDTH])], f"{name}_shape", axis=0)], f"{name}_whole")
        mixed = _attend(g, y, layer, bias, [], "plain")
        out = g.linear(mixed, f"{name}_out", WIDTH, WIDTH)
        if merged:
            out = g.add("Reshape", [out, g.constant([-1, WIDTH])], f"{name}_flat")
        x = g.norm(g.add("Add", [out, x], f"{name}_sum1"), f"{name}_norm1")
        wide = g.add("Add", [g.linear(x, f"{name}_up", WIDTH, 4 * WIDTH), g.weight(f"{name}_up.bias", 4 * WIDTH)], f"{name}_wide")
        erf = g.add("Erf", [g.add("Div", [wide, g.constant(2 ** 0.5, np.float32)], f"{name}_div")], f"{name}_erf")
        gelu = g.add("Mul", [wide, g.add("Add", [erf, g.constant(1, np.float32)], f"{name}_erf1")], f"{name}_gelu2")
        gelu = g.add("Mul", [gelu, g.constant(0.5, np.float32)], f"{name}_gelu")
        x = g.norm(g.add("Add", [g.linear(gelu, f"{name}_down", 4 * WIDTH, WIDTH), x], f"{name}_sum2"), f"{name}_norm2")
    if merged:
        x = g.add("Reshape", [x, g.add("Concat", [shape, g.constant([WIDTH])], "last_shape", axis=0)], "last_whole")
    first = g.add("Gather", [x, g.constant(0)], "first", axis=1)
    pooled = g.add("Tanh", [g.linear(first, "pooler", WIDTH, WIDTH)], "pooled")
    g.linear(pooled, "classes", WIDTH, 3)
    g.linear(x, "tags", WIDTH, 5)
    return g.model(inputs, {"classes": (TensorProto.FLOAT, ["batch", 3]), "tags": (TensorProto.FLOAT, ["batch", "sequence", 5])})


def padded_prompts(prompts, left):
    """Token IDs and their mask, of one length."""
    length = max(map(len, prompts))
    spare = [[0] * (length - len(prompt)) for prompt in prompts]
    ids = [s + p if left else p + s for s, p in zip(spare, prompts, strict=True)]
    mask = [s + [1] * len(p) if left else [1] * len(p) + s for s, p in zip(spare, prompts, strict=True)]
    return np.array(ids), np.array(mask)


def prompt_feed(model, tokens, mask=None):
    """The feed of a prefill: tokens of one prompt, or of several that a mask pads to one length."""
    ids = np.atleast_2d(np.asarray(tokens, np.int64))
    mask = np.ones_like(ids) if mask is None else np.asarray(mask, np.int64)
    feed = {"input_ids": ids, "attention_mask": mask, "position_ids": np.maximum(np.cumsum(mask, 1) - 1, 0),
            "token_type_ids": ids % 2}
    feed |= {name: np.zeros((len(ids), HEADS, 0, HEAD), "f4") for name in CACHES}
    return {value.name: feed[value.name] for value in model.graph.input}


def next_feed(feed, logits, caches):
    """The feed of the next step by the largest logit of each prompt's last token. caches: by the names of inputs."""
    ids, mask, rows = feed["input_ids"], feed["attention_mask"], np.arange(len(feed["input_ids"]))
    kept = mask[:, -ids.shape[1]:] != 0
    last = ids.shape[1] - 1 - kept[:, ::-1].argmax(1)
    tokens = logits[rows, last].argmax(-1)[:, None]
    mask = np.concatenate([mask, np.ones_like(tokens)], 1)
    if not caches:
        positions = np.concatenate([feed["position_ids"], feed["position_ids"][rows, last][:, None] + 1], 1)
        return {"input_ids": np.concatenate([ids, tokens], 1), "attention_mask": mask, "position_ids": positions}
    made = {"input_ids": tokens, "attention_mask": mask, **caches}
    if "position_ids" in feed:
        made["position_ids"] = feed["position_ids"][rows, last][:, None] + 1
    return made
