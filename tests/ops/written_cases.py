# SPDX-License-Identifier: Apache-2.0
"""Models of one node of operators in quantized files, in decoders of the newest exporters, and in files of old converters."""
import numpy as np
import onnxruntime
from contrib_cases import FLOAT, INT8, INT32, UINT8, Weight, f32, i8, i32, one, scale, u8, zero


def removed():
    x = f32(2, 3, 4, 5)
    yield one("", "Affine", [x], domain="", version=7, alpha=1.5, beta=-0.25)
    yield one("", "ParametricSoftplus", [x], domain="", version=7, alpha=1.5, beta=0.5)
    yield one("", "Scale", [x], domain="", version=7, scale=0.25)
    yield one("", "ScaledTanh", [x], domain="", version=7, alpha=1.5, beta=0.5)
    yield one("", "ImageScaler", [x], domain="", version=7, scale=0.5, bias=[0.5, -1.0, 2.0])
    yield one("", "Crop", [x], domain="", version=7, border=[1, 0, 2, 3])
    yield one("to a size", "Crop", [x], domain="", version=7, border=[1, 2, 0, 0], scale=[2, 3])


def quantized_convolutions():
    sizes = {"kernel_shape": [3, 3], "pads": [1, 1, 0, 1], "strides": [1, 2]}
    for kind, make, out, z in ((np.uint8, u8, UINT8, 120), (np.int8, i8, INT8, -3)):
        name = np.dtype(kind).name
        parts = [scale(0.02), zero(z, kind), Weight(i8(4, 2, 3, 3) // 2), scale(0.01), zero(0, np.int8), scale(0.05), zero(z, kind)]
        bias = Weight(i32(np.arange(4) * 300 - 500))
        yield one(name, "QLinearConv", [make(1, 2, 6, 7), *parts], (out,), **sizes)
        yield one(f"{name}, channels last", "QLinearConv", [make(2, 6, 7, 2), *parts, bias], (out,), channels_last=1, **sizes)
        each = [*parts[:3], scale([0.01, 0.02, 0.005, 0.01]), zero([0] * 4, np.int8), *parts[5:]]
        each[2] = Weight(i8(4, 1, 3, 3) // 2)
        yield one(f"{name}, channels last, groups, scales of channels", "QLinearConv", [make(1, 6, 7, 2), *each, bias], (out,),
                  channels_last=1, group=2, **sizes)


def quantized_embeddings():
    ids, segments = i32([[0, 4, 2], [1, 1, 3]]), i32([[0, 0, 1], [0, 1, 1]])
    mask = i32([[1, 1, 0], [1, 1, 1]])
    for kind, make in ((np.uint8, u8), (np.int8, i8)):
        words, places, parts, gamma, beta = make(5, 8), make(6, 8), make(2, 8), make(8), make(8)
        scales = [scale(value) for value in (0.02, 0.01, 0.015, 0.003, 0.004)]
        zeros = [zero(value, kind) for value in (3, 100, 7, 12, 90)]
        name = np.dtype(kind).name
        yield one(name, "QEmbedLayerNormalization", [ids, segments, words, places, parts, gamma, beta, mask, *scales, *zeros],
                  (FLOAT, INT32), epsilon=1e-5)
        scales[2] = zeros[2] = None
        yield one(f"{name}, without segments", "QEmbedLayerNormalization",
                  [ids, None, words, places, None, gamma, beta, None, *scales, *zeros], (FLOAT, INT32))


def quantized_recurrence():
    three = (FLOAT, FLOAT, FLOAT)

    def case(name, kind, directions=1, columns=False, batch=1, steps=4, more=(), **attributes):
        make = u8 if kind == np.uint8 else i8
        shape, z = ((directions, 20), 0) if columns else ((directions,), 0 if kind == np.int8 else 128)
        parts = [Weight(np.full(shape, value, np.float32) * (1 + 0.1 * np.arange(shape[-1], dtype=np.float32))) for value in (0.006, 0.008)]
        zeros = Weight(np.full(shape, z, kind))
        operands = [f32(steps, batch, 3), Weight(make(directions, 3, 20)), Weight(make(directions, 5, 20)), *more]
        operands += [None] * (8 - len(operands))
        return one(name, "DynamicQuantizeLSTM", [*operands, parts[0], zeros, parts[1], zeros], three, hidden_size=5, **attributes)

    yield case("uint8", np.uint8)
    yield case("int8", np.int8)
    yield case("both directions, biases", np.uint8, 2, more=[f32(2, 40)], direction="bidirectional")
    yield case("by column", np.int8, columns=True, more=[f32(1, 40), None, f32(1, 1, 5), f32(1, 1, 5)])
    yield case("reverse, lengths", np.int8, more=[f32(1, 40), i32([3])], direction="reverse")
    yield case("peepholes, coupled", np.int8, more=[None, None, None, None, f32(1, 15)], input_forget=1)
    yield case("batch", np.uint8, batch=3)


def with_cache_in_place(model):
    """A function of the feeds: ONNX Runtime's SparseAttention writes to the cache that it reads."""
    def run(feeds):
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        held = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
        for name, value in held.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output("y0")
        for output, cache in (("y1", "x3"), ("y2", "x4")):
            binding.bind_ortvalue_output(output, held[cache])
        session.run_with_iobinding(binding)
        return [value.numpy() for value in binding.get_outputs()]
    return run


def sparse_attention():
    rows = Weight(i32([[0, 1, 2, 4], [0, 1, 3, 5]]))
    columns = Weight(i32([[0, 1, 0, 2, -1], [0, 0, 1, 1, 2]]))
    tables = [Weight(f32(48, 8)), Weight(f32(48, 8))]

    def case(name, queries, before, **more):
        past = np.zeros((2, 1, 2, 48, 16), np.float32)  # what is behind the keys is left as it was there, and zero with us
        past[:, :, :, :before] = f32(2, 1, 2, before, 16)
        total = [Weight(i32([before + queries]))] * 2
        made = one(name, "SparseAttention", [f32(1, queries, 64), f32(1, queries, 32), f32(1, queries, 32), past[0], past[1], rows, columns,
                                             *total, *(tables if more.get("do_rotary") else [])],
                   (FLOAT, FLOAT, FLOAT), sparse_block_size=16, num_heads=4, kv_num_heads=2, **more)
        made.reference = with_cache_in_place(made.model)
        return made

    yield case("prompt", 40, 0)
    yield case("prompt, rotary", 21, 0, do_rotary=1)
    yield case("one step", 1, 37, do_rotary=1, scale=0.2)


def decoder_steps():
    three, heads = (FLOAT, FLOAT, FLOAT), {"num_heads": 2}
    name = "DecoderMaskedMultiHeadAttention"
    q, keys, values = f32(2, 1, 8), f32(2, 2, 5, 4), f32(2, 2, 5, 4)
    yield one("keys of an encoder", name, [q, keys, values], **heads)
    yield one("keys of an encoder, mask", name, [q, keys, values, i32([[1, 1, 0, 1, 1], [1, 0, 1, 1, 0]])], **heads, scale=0.3)
    yield one("keys of an encoder, scores", name, [q, keys, values], (FLOAT, None, None, FLOAT), output_qk=1, **heads)
    step = [q, f32(2, 1, 8), f32(2, 1, 8)]
    for length in (0, 3, 4):
        rest = [None, keys, values, Weight(i32([length]))]
        yield one(f"cache of {length}", name, [*step, None, *rest], three, past_present_share_buffer=1, **heads)
    masked = [*step, i32([[1, 1, 0, 1], [1, 0, 1, 1]]), None, keys, values, np.array([3], np.int32)]
    yield one("cache, mask", name, masked, three, past_present_share_buffer=1, **heads)
    yield one("cache, bias", name, [*masked, np.array([1], np.int32), None, f32(24)], three, past_present_share_buffer=1, **heads)
    yield one("cache, attention bias", name, [*step, None, f32(1, 2, 1, 4), keys, values, Weight(i32([3]))], three,
              past_present_share_buffer=1, **heads)


def delta_nets():
    both = (FLOAT, FLOAT)
    q, k, v = f32(6, 2, 8), f32(6, 2, 8), f32(6, 4, 5)
    decay, beta, state = -np.abs(f32(6, 4)), np.abs(f32(6, 4, scale=0.3)), f32(2, 4, 5, 8)
    rates, shifts = f32(4), f32(4)
    unit = {"qk_l2_norm": 1}
    yield one("", "GatedDeltaNet", [q, k, v, None, decay, beta, state], both, **unit)
    yield one("lengths", "GatedDeltaNet", [q, k, v, i32([0, 2, 6]), decay, beta, state], both, **unit)
    yield one("without state", "GatedDeltaNet", [q, k, v, i32([0, 6]), decay, beta], both, scale=0.5, **unit)
    yield one("softplus", "GatedDeltaNet", [q, k, v, None, f32(6, 4), f32(6, 4), state, rates, shifts], both, gate_activation="softplus",
              beta_activation="sigmoid", **unit)
    yield one("by key", "GatedDeltaNet", [q, k, v, None, f32(6, 4, 8), beta, state, rates, f32(4, 8)], both, gate_activation="kda",
              gate_lower_bound=-3.0, **unit)
    yield one("linear", "GatedDeltaNet", [q, k, v, None, None, None, state], both, update_rule="linear")
    yield one("gated", "GatedDeltaNet", [q, k, v, None, decay, None, state], both, update_rule="gated")
    yield one("packed", "GatedDeltaNet", [f32(6, 2 * 16 + 20), None, None, None, decay, beta, state], both, **unit)
    four = [array.reshape(2, 3, *array.shape[1:]) for array in (q, k, v, decay, beta)]
    yield one("rank 4", "GatedDeltaNet", [*four[:3], None, *four[3:], state], both, **unit)


def written_cases():
    for group in (removed, quantized_convolutions, quantized_embeddings, quantized_recurrence, sparse_attention, decoder_steps, delta_nets):
        yield from group()
