# SPDX-License-Identifier: Apache-2.0
"""Models of one node of ONNX Runtime's own operators, with random inputs."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, UINT8, INT8, INT32 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32
NUMBERS = np.random.default_rng(20240229)


class Case:
    """A model, its feeds, and the reference: itself, another model with other feeds, or a function of the feeds."""

    def __init__(self, name, model, feeds, reference=None):
        self.name, self.model, self.feeds = name, model, feeds
        self.operator = model.graph.node[0].op_type
        self.reference, self.reference_feeds = reference, feeds
        if isinstance(reference, Case):
            self.reference, self.reference_feeds = reference.model, reference.feeds


class Weight:
    """An operand that is an initializer."""

    def __init__(self, array):
        self.array = array


def one(name, op, operands, outputs=(FLOAT,), domain="com.microsoft", version=17, reference=None, **attributes):
    """operands: arrays, Weights, None for an absent one; outputs: their types, None for one that is not wanted."""
    names, feeds, inputs, weights = [], {}, [], []
    for i, operand in enumerate(operands):
        if operand is None:
            names.append("")
            continue
        names.append(f"x{i}")
        array = operand.array if isinstance(operand, Weight) else operand
        if isinstance(operand, Weight):
            weights.append(numpy_helper.from_array(array, names[-1]))
        else:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(names[-1], kind, array.shape))
            feeds[names[-1]] = array
    results = ["" if kind is None else f"y{i}" for i, kind in enumerate(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    values = [helper.make_tensor_value_info(result, kind, None) for result, kind in zip(results, outputs) if result]
    graph = helper.make_graph([node], "one", inputs, values, weights)
    opsets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1),
              helper.make_opsetid("ai.onnx.ml", 5 if op == "TreeEnsemble" else 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return Case(f"{op} {name}".strip(), model, feeds, reference)


def f32(*shape, scale=1.0):
    return (NUMBERS.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape):
    return NUMBERS.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return NUMBERS.integers(-128, 128, shape).astype(np.int8)


def i32(values):
    return np.array(values, np.int32)


def scale(value):
    return Weight(np.array(value, np.float32))


def zero(value, kind=np.uint8):
    return Weight(np.array(value, kind))


# ---- fused operators ----

def fused():
    x, w, b = f32(2, 4, 7, 6), f32(6, 2, 3, 2), f32(6)
    more = {"group": 2, "pads": [1, 0, 1, 1], "strides": [1, 2], "kernel_shape": [3, 2]}
    for activation, params in (("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.2]),
                               ("Clip", [-0.5, 1.5]), ("HardSigmoid", [0.3, 0.4])):
        extra = {"activation_params": params} if params else {}
        yield one(activation, "FusedConv", [x, w, b], activation=activation, **extra, **more)
    yield one("without activation or bias", "FusedConv", [x, w], **more)
    yield one("with Z", "FusedConv", [x, w, b, f32(2, 6, 7, 3)], activation="Relu", **more)
    yield one("with Z, without bias", "FusedConv", [x, w, None, f32(2, 6, 7, 3)], **more)
    yield one("auto_pad, 1-D", "FusedConv", [f32(1, 3, 11), f32(2, 3, 4)], activation="Tanh", auto_pad="SAME_UPPER")
    for activation, params in (("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("Elu", {"activation_alpha": 0.7}),
                               ("LeakyRelu", {"activation_alpha": 0.2}), ("Softplus", {}), ("Softsign", {}),
                               ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
                               ("Selu", {"activation_alpha": 1.5, "activation_gamma": 1.1}),
                               ("ThresholdedRelu", {"activation_alpha": 0.5})):
        yield one(activation, "FusedGemm", [f32(5, 7), f32(7, 3), f32(3)], activation=activation, **params)
    yield one("transposed", "FusedGemm", [f32(7, 5), f32(3, 7), f32(5, 1)], activation="Relu", transA=1, transB=1,
              alpha=0.5, beta=2.0)
    yield one("plain", "FusedMatMul", [f32(2, 3, 4, 5), f32(2, 1, 5, 6)])
    yield one("one B for all", "FusedMatMul", [f32(2, 3, 4, 5), f32(5, 6)], alpha=0.5)
    yield one("transA", "FusedMatMul", [f32(2, 3, 5, 4), f32(5, 6)], transA=1)
    yield one("transA and transB", "FusedMatMul", [f32(3, 5, 4), f32(3, 6, 5)], alpha=0.125, transA=1, transB=1)
    yield one("transBatchA", "FusedMatMul", [f32(4, 2, 3, 5), f32(2, 3, 5, 6)], transBatchA=1)
    yield one("transBatchA and transBatchB", "FusedMatMul", [f32(4, 2, 3, 5), f32(6, 2, 3, 5)], transBatchA=1, transB=1,
              transBatchB=1, alpha=2.0)
    yield one("transBatchA and transA", "FusedMatMul", [f32(5, 3, 4), f32(3, 5, 6)], transBatchA=1, transA=1)
    for name, shape, inner in (("inner", (2, 1, 1, 5), 1), ("outer", (1, 1, 4, 5), 0)):
        data, bias = f32(2, 3, 4, 5), f32(*shape)
        yield one(name, "BiasSoftmax", [data, bias], axis=3, is_inner_broadcast=inner,
                  reference=lambda feeds: [softmax(feeds["x0"] + feeds["x1"])])


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def gelus():
    x, b = f32(3, 5, 8, scale=3), f32(8)
    yield one("", "Gelu", [x])
    yield one("", "BiasGelu", [x, b])
    yield one("", "FastGelu", [x])
    yield one("with bias", "FastGelu", [x, b])
    yield one("", "QuickGelu", [x])
    yield one("alpha", "QuickGelu", [x], alpha=1.5)


# ---- normalisation ----

def norms():
    x, skip, gamma, beta, bias = f32(2, 5, 8), f32(2, 5, 8), f32(8), f32(8), f32(8)
    yield one("", "SkipLayerNormalization", [x, skip, gamma, beta, bias], epsilon=1e-5)
    yield one("gamma only", "SkipLayerNormalization", [x, skip, gamma])
    yield one("sum", "SkipLayerNormalization", [x, skip, gamma, beta, bias], (FLOAT, None, None, FLOAT), epsilon=1e-3)
    yield one("broadcast skip", "SkipLayerNormalization", [x, f32(1, 5, 8), gamma, beta], (FLOAT, None, None, FLOAT))
    yield one("skip of rank 2", "SkipLayerNormalization", [x, f32(5, 8), gamma, None, bias])
    yield one("rank 2", "SkipLayerNormalization", [f32(6, 8), f32(6, 8), gamma, beta])
    yield one("", "SkipSimplifiedLayerNormalization", [x, skip, gamma])
    yield one("bias and sum", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], (FLOAT, None, None, FLOAT))
    yield one("", "SimplifiedLayerNormalization", [x, gamma], domain="", epsilon=1e-3)
    yield one("axis", "SimplifiedLayerNormalization", [x, f32(5, 8)], (FLOAT, FLOAT), domain="", axis=1)
    plain = one("", "SimplifiedLayerNormalization", [x, gamma], domain="")
    yield one("own domain", "SimplifiedLayerNormalization", [x, gamma], reference=plain)
    yield one("old operator set", "LayerNormalization", [x, gamma, beta], (FLOAT, FLOAT, FLOAT), domain="", version=13)
    ids, segments, places = i32([[0, 4, 2], [1, 1, 3]]), i32([[0, 0, 1], [0, 1, 1]]), i32([[2, 1, 5]])
    tables = [f32(5, 8), f32(6, 8), f32(2, 8)]
    mask = i32([[1, 1, 0], [1, 1, 1]])
    yield one("", "EmbedLayerNormalization", [ids, segments, *tables, gamma, beta, mask], (FLOAT, INT32, FLOAT))
    yield one("without segments", "EmbedLayerNormalization", [ids, None, *tables[:2], None, gamma, beta], (FLOAT, INT32))
    yield one("positions", "EmbedLayerNormalization", [ids, None, *tables[:2], None, gamma, beta, None, places],
              (FLOAT, INT32), epsilon=1e-3)


# ---- attention ----

def attention():
    x, w, b = f32(2, 4, 8), f32(8, 24), f32(24)
    yield one("", "Attention", [x, w, b], num_heads=2)
    yield one("absent inputs at the end", "Attention", [x, w, b, None, None, None, None], num_heads=2)
    yield one("unidirectional", "Attention", [x, w, b], num_heads=4, unidirectional=1)
    yield one("scale", "Attention", [x, w, b], num_heads=2, scale=0.3)
    yield one("ends", "Attention", [x, w, b, i32([3, 4])], num_heads=2)
    yield one("ends and beginnings", "Attention", [x, w, b, i32([3, 4, 1, 2])], num_heads=2)
    yield one("a mask of keys", "Attention", [x, w, b, i32([[1, 1, 0, 1], [0, 1, 1, 1]])], num_heads=2)
    yield one("a mask without effect", "Attention", [x, w, b, i32([[1], [0]])], num_heads=2)
    mask = NUMBERS.integers(0, 2, (2, 4, 4)).astype(np.int32)
    yield one("a mask of queries and keys", "Attention", [x, w, b, mask], num_heads=2, mask_filter_value=-50.0)
    yield one("a causal mask", "Attention", [x, w, b, mask], num_heads=2, unidirectional=1)
    yield one("a bias", "Attention", [x, w, b, None, None, f32(1, 2, 4, 4)], num_heads=2)
    yield one("three sizes", "Attention", [x, f32(8, 22), f32(22)], num_heads=2, qkv_hidden_sizes=[8, 8, 6])
    yield one("past", "Attention", [x, w, b, None, f32(2, 2, 2, 3, 4)], (FLOAT, FLOAT), num_heads=2, unidirectional=1)
    yield one("past and a mask", "Attention", [x, w, b, i32(NUMBERS.integers(0, 2, (2, 7))), f32(2, 2, 2, 3, 4)],
              (FLOAT, FLOAT), num_heads=2)
    yield one("present", "Attention", [x, w, b, None, Weight(f32(2, 2, 2, 0, 4))], (FLOAT, FLOAT), num_heads=2)
    qx, qw = u8(2, 4, 8), i8(8, 24)
    parts = [scale(0.02), scale(0.01)]
    yield one("", "QAttention", [qx, Weight(qw), b, *parts, None, zero(120), zero(3, np.int8)], num_heads=2)
    yield one("masked, causal", "QAttention", [qx, Weight(qw), b, *parts, i32([3, 4]), zero(120), zero(0, np.int8)],
              num_heads=2, unidirectional=1)
    yield one("past", "QAttention", [qx, Weight(qw), b, *parts, None, zero(120), zero(0, np.int8), f32(2, 2, 2, 3, 4)],
              (FLOAT, FLOAT), num_heads=2)


def group_query():
    heads, three = {"num_heads": 4, "kv_num_heads": 2}, (FLOAT, FLOAT, FLOAT)
    tables = [Weight(f32(16, 8)), Weight(f32(16, 8))]

    def case(name, operands, outputs=three, **attributes):
        return one(name, "GroupQueryAttention", operands, outputs, **heads, **attributes)

    def normalized(x, weight, epsilon):
        rows = x.reshape(*x.shape[:2], -1, 16)
        return (rows / np.sqrt((rows * rows).mean(-1, keepdims=True) + epsilon) * weight.array).reshape(x.shape).astype(np.float32)

    q, k, v = f32(2, 3, 64), f32(2, 3, 32), f32(2, 3, 32)
    prompt = [Weight(i32([2, 2])), Weight(i32([3]))]
    empty = [Weight(f32(2, 2, 0, 16))] * 2
    yield case("prompt", [q, k, v, None, None, *prompt])
    yield case("prompt with an empty past", [q, k, v, *empty, *prompt, *tables], do_rotary=1)
    step = [f32(2, 1, 64), f32(2, 1, 32), f32(2, 1, 32), f32(2, 2, 5, 16), f32(2, 2, 5, 16), Weight(i32([5, 3])), Weight(i32([6]))]
    yield case("one step, two lengths", [*step, *tables], do_rotary=1)
    yield case("one step, positions", [*step, *tables, np.array([[4], [7]], np.int64)], do_rotary=1)
    q, k, v = q[:1], k[:1], v[:1]
    later = [f32(1, 2, 5, 16), f32(1, 2, 5, 16), Weight(i32([7])), Weight(i32([8]))]
    yield case("past", [q, k, v, *later])
    yield case("rotary", [q, k, v, *later, *tables], do_rotary=1, scale=0.3)
    yield case("rotary, interleaved", [q, k, v, *later, *tables], do_rotary=1, rotary_interleaved=1)
    yield case("packed", [f32(1, 3, 128), None, None, *later, *tables], do_rotary=1)
    yield case("window", [q, k, v, *later], local_window_size=2)
    yield case("softcap", [q, k, v, *later], softcap=1.5)
    yield case("smooth softmax", [q, k, v, *later], smooth_softmax=1)
    yield case("bias", [q, k, v, *later, None, None, None, f32(1, 4, 3, 8)])
    yield case("sink", [q, k, v, *later, None, None, None, None, Weight(f32(4))])
    yield case("not causal", [q, k, v, *later], causal=0)
    norms = [Weight(f32(16)), Weight(f32(16))]
    yield case("normalized heads", [q, k, v, *later, *tables, *[None] * 5, *norms], do_rotary=1, qk_norm_epsilon=0.1, k_norm_epsilon=0.3,
               reference=case("", [normalized(q, norms[0], 0.1), normalized(k, norms[1], 0.3), v, *later, *tables], do_rotary=1))
    for bits, kind, new in ((8, INT8, i8), (4, UINT8, u8)):
        caches = [new(1, 2, 5, 2 * bits), new(1, 2, 5, 2 * bits), *later[2:]]
        for quant, shape in (("PER_TENSOR", (1,)), ("PER_CHANNEL", (1, 2, 1, 16))):
            scales = [Weight(np.abs(f32(*shape)) / 2**bits + np.float32(4 / 2**bits)) for _ in range(2)]
            coded = {"k_quant_type": quant, "v_quant_type": quant, "kv_cache_bit_width": bits, "do_rotary": 1}
            yield case(f"cache of {bits} bits, {quant}", [q, k, v, *caches, *tables, *[None] * 3, *scales], (FLOAT, kind, kind), **coded)
            no_past = [Weight(new(2, 2, 0, 2 * bits))] * 2
            yield case(f"{bits} bits, {quant}, packed prompt", [f32(2, 3, 128), None, None, *no_past, *prompt, *tables, *[None] * 3, *scales],
                       (FLOAT, kind, kind), **coded)
    headless = [Weight(f32(2, 2, 0, 0))] * 2  # as of a cache whose head size is symbolic
    q, k, v = f32(2, 3, 64), f32(2, 3, 32), f32(2, 3, 32)
    yield case("past without heads", [q, k, v, *headless, *prompt], reference=case("", [q, k, v, *empty, *prompt]))


def few_bits():
    a = f32(2, 3, 40)
    for bits in (2, 4, 8):
        sizes = {"K": 40, "N": 5, "bits": bits, "block_size": 16}
        b, scales = Weight(u8(5, 3, 2 * bits)), Weight(f32(5, 3, scale=0.1))
        zeros = Weight(u8(5, (3 * bits + 7) // 8))
        if bits != 8:  # codes beyond the last block's are no zero points
            zeros.array[:, -1] &= (1 << (3 * bits % 8 or 8)) - 1
        yield one(f"{bits} bits", "MatMulNBits", [a, b, scales], **sizes)
        yield one(f"{bits} bits, zero points", "MatMulNBits", [a, b, scales, zeros], **sizes)
        yield one(f"{bits} bits, bias", "MatMulNBits", [a, b, scales, None, None, Weight(f32(5))], **sizes)
    for quant, name in ((0, "fp4"), (1, "nf4")):  # blocks do not end with rows
        yield one(name, "MatMulBnb4", [a, Weight(u8(100)), Weight(np.abs(f32(13)))], K=40, N=5, block_size=16, quant_type=quant)
    groups = Weight(i32([k % 3 for k in range(40)]))
    yield one("groups", "MatMulNBits", [a, Weight(u8(5, 3, 8)), Weight(f32(5, 3)), None, groups], K=40, N=5, bits=4, block_size=16)


def experts():
    x, logits = f32(5, 32), f32(5, 4)
    fc1, fc2, b1, b2 = Weight(f32(4, 16, 32, scale=0.3)), Weight(f32(4, 32, 16, scale=0.3)), Weight(f32(4, 16)), Weight(f32(4, 32))
    for act in ("relu", "gelu", "silu", "identity"):
        yield one(act, "MoE", [x, logits, fc1, b1, fc2, b2], k=2, activation_type=act)
    yield one("normalized", "MoE", [x, logits, fc1, None, fc2, None], k=2, normalize_routing_weights=1)
    yield one("three axes", "MoE", [f32(2, 3, 32), f32(6, 4), fc1, b1, fc2, None], k=1)
    gated = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}
    yield one("swiglu", "MoE", [x, logits, Weight(f32(4, 32, 32, scale=0.3)), Weight(f32(4, 32)), fc2, b2], **gated)
    for bits in (4, 8):
        packed = [Weight(u8(4, 32, 4 * bits)), Weight(f32(4, 32, scale=0.05)), Weight(f32(4, 32)),
                  Weight(u8(4, 32, 2 * bits)), Weight(f32(4, 32, scale=0.05)), Weight(f32(4, 32))]
        yield one(f"{bits} bits", "QMoE", [x, logits, *packed], expert_weight_bits=bits, **gated)
        yield one(f"{bits} bits, mixed", "QMoE", [x, logits, *packed, None, None, None, None, None, None, np.abs(f32(5, 4))],
                  expert_weight_bits=bits, **gated)
        if bits == 8:
            continue  # ONNX Runtime has blocks of 8 bits with activations in int8 only
        blocks = [packed[0], Weight(f32(4, 32, 2, scale=0.05)), None, packed[3], Weight(f32(4, 32, 1, scale=0.05)), None]
        yield one(f"{bits} bits in blocks", "QMoE", [x, logits, *blocks], expert_weight_bits=bits, block_size=16, **gated)


def gathered_codes():
    indices = np.array([[0, 3], [-1, 2]], np.int64)
    for bits in (2, 4, 8):
        scales, zeros = Weight(f32(5, 2, scale=0.1)), Weight(u8(5, (2 * bits + 7) // 8))
        if bits != 8:
            zeros.array[:] &= (1 << 2 * bits % 8) - 1 if bits != 4 else 255
        table = Weight(u8(5, 4 * bits))
        yield one(f"{bits} bits", "GatherBlockQuantized", [table, indices, scales], bits=bits, block_size=16)
        yield one(f"{bits} bits, zero points", "GatherBlockQuantized", [table, indices, scales, zeros], bits=bits, block_size=16)


def multihead():
    q, k, v, b = f32(2, 4, 8), f32(2, 5, 8), f32(2, 5, 6), f32(22)
    yield one("", "MultiHeadAttention", [q, k, v], num_heads=2)
    yield one("bias", "MultiHeadAttention", [q, k, v, b], num_heads=2, scale=0.3)
    yield one("a mask of keys", "MultiHeadAttention", [q, k, v, b, i32([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]])], num_heads=2)
    yield one("a mask of queries and keys", "MultiHeadAttention",
              [q, k, v, None, i32(NUMBERS.integers(0, 2, (2, 4, 5)))], num_heads=2)
    yield one("attention bias", "MultiHeadAttention", [q, k, v, b, None, f32(2, 2, 4, 5)], num_heads=2)
    yield one("shared attention bias", "MultiHeadAttention", [q, k, v, b, None, f32(1, 1, 4, 5)], num_heads=2)
    same = f32(2, 4, 8), f32(2, 4, 8), f32(2, 4, 8)
    yield one("unidirectional", "MultiHeadAttention", [*same], num_heads=2, unidirectional=1)
    yield one("products", "MultiHeadAttention", [q, k, v, b], (FLOAT, FLOAT, FLOAT), num_heads=2)
    yield one("past", "MultiHeadAttention", [*same, None, None, None, f32(2, 2, 3, 4), f32(2, 2, 3, 4)],
              (FLOAT, FLOAT, FLOAT), num_heads=2)
    yield one("keys and values of another node", "MultiHeadAttention", [q, f32(2, 2, 5, 4), f32(2, 2, 5, 4)], num_heads=2)
    heads = [part.reshape(2, 4, 2, 1, 4) for part in same]
    plain = one("", "MultiHeadAttention", [*same], num_heads=2)
    yield one("packed", "MultiHeadAttention", [np.concatenate(heads, 3)], num_heads=2, reference=plain)
    yield one("packed keys and values", "MultiHeadAttention", [same[0], np.concatenate(heads[1:], 3)], num_heads=2,
              reference=plain)
    bias = f32(24)
    yield one("packed, bias", "MultiHeadAttention", [np.concatenate(heads, 3), None, None, bias], num_heads=2,
              reference=one("", "MultiHeadAttention", [*same, bias], num_heads=2))


def rotary():
    angles = f32(9, 2)
    tables = [np.cos(angles), np.sin(angles)]
    first, places = np.array([2], np.int64), np.array([[0, 1, 2], [6, 7, 8]], np.int64)
    for interleaved in (0, 1):
        yield one(f"interleaved {interleaved}", "RotaryEmbedding", [f32(2, 3, 12), places, *tables], interleaved=interleaved)
        yield one(f"rank 4, interleaved {interleaved}", "RotaryEmbedding", [f32(2, 5, 3, 4), first, *tables],
                  interleaved=interleaved)
    yield one("a part", "RotaryEmbedding", [f32(2, 3, 12), first, *tables], num_heads=2, rotary_embedding_dim=4)


# ---- 8 bits ----

def eight_bits():
    for make, kind, z in ((u8, np.uint8, 119), (i8, np.int8, -7)):
        out, name = helper.np_dtype_to_tensor_dtype(np.dtype(kind)), np.dtype(kind).name
        x, more = make(2, 3, 4, 5), [scale(0.03), zero(z, kind)]
        for op in ("QLinearAdd", "QLinearMul"):
            for case, other in (("", make(2, 3, 4, 5)), ("broadcast", make(3, 1, 1)), ("a scalar", make(1))):
                yield one(f"{name} {case}", op, [x, *more, other, scale(0.07), zero(z - 1, kind), scale(0.09), zero(z, kind)],
                          (out,))
        none = zero(0, kind)
        yield one(f"{name} without zero points", "QLinearAdd", [x, scale(0.03), None, x, scale(0.02), None, scale(0.06)],
                  (out,), reference=one("", "QLinearAdd", [x, scale(0.03), none, x, scale(0.02), none, scale(0.06), none],
                                        (out,)))
        yield one(name, "QLinearSigmoid", [x, *more, scale(1 / 256), zero(0, kind)], (out,))
        yield one(name, "QLinearLeakyRelu", [x, *more, scale(0.02), zero(z, kind)], (out,), alpha=0.2)
        yield one(name, "QLinearWhere", [f32(3, 1, 5) > 0, x, *more, make(4, 1), scale(0.05), zero(3, kind), scale(0.04), zero(1, kind)], (out,))
        yield one(name, "QLinearConcat", [scale(0.05), zero(z, kind), x, *more, make(2, 1, 4, 5), scale(0.04), zero(3, kind)],
                  (out,), axis=1)
        yield one(name, "QLinearSoftmax", [x, *more, scale(1 / 256), zero(-128 if kind == np.int8 else 0, kind)], (out,),
                  axis=-1, opset=13)
        yield one(f"{name} axis 1", "QLinearSoftmax",
                  [x, scale(0.01), zero(z, kind), scale(1 / 256), zero(-128 if kind == np.int8 else 0, kind)], (out,), axis=1,
                  opset=13)
        yield one(f"{name} flattened", "QLinearSoftmax",
                  [x, scale(0.01), zero(z, kind), scale(1 / 1024), zero(-128 if kind == np.int8 else 0, kind)], (out,), axis=2,
                  opset=12)
        yield one(name, "QLinearAveragePool", [x, *more, scale(0.0231), zero(z, kind)], (out,), kernel_shape=[2, 3],
                  pads=[1, 0, 0, 1], strides=[1, 2])
        yield one(f"{name} padding counts", "QLinearAveragePool", [x, *more, scale(0.0231), zero(z, kind)], (out,),
                  kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
        yield one(f"{name} channels last", "QLinearAveragePool", [x, *more, scale(0.0231), zero(z, kind)], (out,),
                  kernel_shape=[2, 3], channels_last=1)
        for last in (0, 1):
            yield one(f"{name} channels_last {last}", "QLinearGlobalAveragePool", [x, *more, scale(0.01), zero(z, kind)],
                      (out,), channels_last=last)
        yield one(name, "NhwcMaxPool", [x], (out,), kernel_shape=[2, 2], pads=[1, 0, 1, 0], strides=[2, 1])


def products():
    a, w, b = u8(2, 3, 8), i8(8, 5), f32(5)
    columns = Weight(np.abs(f32(5)) + np.float32(0.01))
    yield one("", "MatMulIntegerToFloat", [a, Weight(w), scale(0.02), scale(0.03)])
    yield one("columns", "MatMulIntegerToFloat",
              [a, Weight(w), scale(0.02), columns, zero(120), Weight(i8(5)), b])
    yield one("int8", "MatMulIntegerToFloat", [i8(2, 3, 8), Weight(w), scale(0.02), columns, zero(-3, np.int8)])
    yield one("", "DynamicQuantizeMatMul", [f32(2, 3, 8), Weight(w), scale(0.03)])
    yield one("columns", "DynamicQuantizeMatMul", [f32(2, 3, 8), Weight(w), columns, Weight(i8(5)), b])
    yield one("uint8", "DynamicQuantizeMatMul", [f32(6, 8), Weight(u8(8, 5)), scale(0.03), zero(9), b])
    x = f32(2, 3, 4)
    for kind in (np.uint8, np.int8, np.uint16, np.int16):
        out, name = helper.np_dtype_to_tensor_dtype(np.dtype(kind)), np.dtype(kind).name
        step = scale(0.02 if np.dtype(kind).itemsize == 1 else 0.0001)
        yield one(name, "QuantizeLinear", [x, step, zero(7, kind)], (out,))
        yield one(name, "DequantizeLinear", [NUMBERS.integers(0, 127, (2, 3, 4)).astype(kind), step, zero(7, kind)])
    three = scale([0.01, 0.02, 0.03])
    yield one("axis", "QuantizeLinear", [x, three, zero([1, 2, 3], np.int16)], (TensorProto.INT16,), axis=1)
    yield one("axis", "DequantizeLinear", [i32(NUMBERS.integers(-99, 99, (2, 3, 4))), three], axis=1)


def gemms_of_8_bits():
    for make, kind, z in ((u8, np.uint8, 119), (i8, np.int8, -7)):
        out, name = helper.np_dtype_to_tensor_dtype(np.dtype(kind)), np.dtype(kind).name
        more, small = [scale(0.03), zero(z, kind)], [scale(0.05), zero(z, kind)]
        weights = [Weight(i8(4, 6)), scale(0.002), zero(1, np.int8)]
        bias = Weight(np.array([400, -900, 30, 7], np.int32))
        yield one(name, "QGemm", [make(3, 6), *more, *weights, None, *small], (out,), transB=1)
        yield one(f"{name} bias", "QGemm", [make(3, 6), *more, *weights, bias, *small], (out,), transB=1)
        columns = [Weight(i8(6, 4)), scale([0.001, 0.002, 0.003, 0.004]), zero([0, 0, 0, 0], np.int8)]
        yield one(f"{name} by columns, transposed", "QGemm", [make(6, 3), *more, *columns, None, *small], (out,), transA=1,
                  alpha=0.5)
        yield one(f"{name} to float", "QGemm", [make(3, 6), *more, Weight(i8(6, 4)), scale(0.02), zero(0, np.int8), bias])


# ---- linear attention, and what stands around it ----

def linear_attention():
    x, w, b = f32(2, 6, 9), f32(6, 1, 4), f32(6)
    both = (FLOAT, FLOAT)
    yield one("", "CausalConvWithState", [x, w, b], both)
    yield one("silu, past", "CausalConvWithState", [x, w, None, f32(2, 6, 3)], both, activation="silu")
    yield one("dilation", "CausalConvWithState", [x, w, b, f32(2, 6, 6)], both, dilation=2)
    yield one("shorter than its state", "CausalConvWithState", [f32(2, 6, 1), w, b, f32(2, 6, 3)], both)
    yield one("channels last", "CausalConvWithState", [f32(2, 9, 2, 3), w, b, f32(2, 3, 2, 3)], both, channels_last=1)
    q, k, v, past = f32(2, 5, 4 * 8), f32(2, 5, 2 * 8), f32(2, 5, 2 * 6), f32(2, 2, 8, 6)
    decay, beta = -np.abs(f32(2, 5, 2)), np.abs(f32(2, 5, 2, scale=0.3))
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    yield one("linear", "LinearAttention", [q, k, v], both, update_rule="linear", **heads)
    yield one("gated delta", "LinearAttention", [q, k, v, past, decay, beta], both, **heads)
    yield one("gated by key", "LinearAttention", [q, k, v, None, -np.abs(f32(2, 5, 16))], both, update_rule="gated", **heads)
    yield one("delta", "LinearAttention", [q, k, v, None, None, beta[:, :, :1].copy()], both, update_rule="delta", scale=0.5, **heads)
    four = [f32(2, 5, 4 * 6), f32(2, 4, 8, 6), -np.abs(f32(2, 5, 4)), np.abs(f32(2, 5, 4, scale=0.3))]
    fewer = {"q_num_heads": 2, "kv_num_heads": 4}
    yield one("states share queries", "LinearAttention", [f32(2, 5, 16), f32(2, 5, 32), *four], both, **fewer)
    yield one("states share queries and keys", "LinearAttention", [f32(2, 5, 16), f32(2, 5, 16), *four], both, **fewer)
    a = f32(2, 5, 3, scale=4)
    yield one("", "LinearAttentionGate", [a, f32(3), f32(3), f32(2, 5, 3)], both)
    yield one("decay alone", "LinearAttentionGate", [a, f32(3), f32(3)])
    rows = f32(2, 5, 12)
    yield one("", "GatedRMSNorm", [rows, f32(12), f32(2, 5, 12)])
    yield one("by head", "GatedRMSNorm", [rows, f32(4), f32(2, 5, 12)], activation="sigmoid", epsilon=0.1)
    yield one("grouped", "BranchwiseRMSNorm", [f32(2, 5, 3, 4), f32(3, 4)])
    yield one("flattened, one scale for all", "BranchwiseRMSNorm", [rows, f32(4)], num_branches=3, epsilon=0.01)
    yield one("flattened, scales", "BranchwiseRMSNorm", [rows, f32(12)], num_branches=3)
    yield one("without scale", "BranchwiseRMSNorm", [f32(2, 3, 4)])
    yield one("", "ScaledSiLU", [rows], alpha=1.5)
    yield one("scale as input", "ScaledSiLU", [rows, np.array(0.3, np.float32)], alpha=1.5)
    yield one("", "GatedAdd", [rows, f32(2, 5, 12), f32(2, 5, 1)])


def three_positions():
    tables = [f32(9, 6), f32(9, 6)]
    places = NUMBERS.integers(0, 9, (3, 2, 5))
    for layout in (0, 1):
        yield one(f"layout {layout}", "MRotaryEmbedding", [f32(2, 5, 36), places, *tables], mrope_section=[2, 2, 2],
                  mrope_layout=layout, num_heads=3, rotary_embedding_dim=12)
        yield one(f"layout {layout}, uneven", "MRotaryEmbedding", [f32(2, 3, 5, 16), places, *tables], mrope_section=[3, 2, 1],
                  mrope_layout=layout, num_heads=3, rotary_embedding_dim=12)
        yield one(f"layout {layout}, interleaved", "MRotaryEmbedding", [f32(2, 3, 5, 12), places, *tables],
                  mrope_section=[2, 3, 1], mrope_layout=layout, interleaved=1)


# ---- operators of ONNX under ONNX Runtime's name, and what the exporters of PyTorch write with them ----

def renamed():
    yield one("upper", "Trilu", [f32(3, 4, 5), np.array(1, np.int64)])
    yield one("lower", "Trilu", [f32(4, 5)], upper=0)
    yield one("", "GridSample", [f32(1, 2, 5, 5), f32(1, 3, 4, 2)])
    yield one("nearest", "GridSample", [f32(1, 2, 5, 5), f32(1, 3, 4, 2)], mode="nearest", padding_mode="border", align_corners=1)
    yield one("", "GatherND", [f32(3, 4, 5), np.array([[0, 1], [2, 3]], np.int64)])
    yield one("int32", "GatherND", [f32(3, 4, 5), i32([[0, 1], [2, 3]])])
    yield one("", "TransposeMatMul", [f32(2, 4, 3), f32(2, 4, 5)], transA=1, alpha=0.5)
    yield one("", "Range", [np.array(1, np.float32), np.array(9, np.float32), np.array(2, np.float32)])
    yield one("", "Pad", [f32(2, 3), np.array([1, 0, 0, 2], np.int64), np.array(2, np.float32)])
    yield one("edge", "Pad", [f32(2, 3), np.array([1, 0, 0, 2], np.int64)], mode="edge")
    yield one("", "Inverse", [f32(2, 4, 4) + 3 * np.eye(4, dtype=np.float32)])
    yield one("one", "Inverse", [np.array([[0, 2], [4, 0]], np.float32)])
    for metric in ("euclidean", "sqeuclidean"):
        yield one(metric, "CDist", [f32(4, 3), f32(5, 3)], metric=metric)


def cases():
    for group in (fused, gelus, norms, attention, multihead, group_query, few_bits, rotary, eight_bits, products, gemms_of_8_bits,
                  experts, gathered_codes, linear_attention, three_positions, renamed):
        yield from group()
