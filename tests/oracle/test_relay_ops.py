# SPDX-License-Identifier: Apache-2.0
"""Every operator of Relay that is read, against NumPy: layouts, defaults, codes of shapes, integers."""
import itertools
import math
import re

import oracle
from oracle import SOURCE, folder, main, needs, np, tidemark

needs("relay")

RNG = np.random.default_rng(3)
CLOSE = 2e-6
USED = set()  # operators of the calls that ran


def real(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def positive(*shape):
    return np.abs(real(*shape)) + np.float32(0.5)


def whole(kind, low, high, *shape):
    return RNG.integers(low, high, shape).astype(kind)


def kind_of(x):
    return "bool" if x.dtype == np.bool_ else x.dtype.name


def compare(call, a, b):
    b = np.asarray(b)
    assert a.size == b.size and a.shape[a.ndim - b.ndim:] == b.shape, f"{call}: {a.shape} is not {b.shape}"
    a = a.reshape(b.shape)
    if b.dtype.kind in "iub":
        assert a.dtype == b.dtype and np.array_equal(a, b), f"{call}: {a.dtype} {a.ravel()[:8]} is not {b.dtype} {b.ravel()[:8]}"
    else:
        off = np.abs(a.astype(np.float64) - b).max() if b.size else 0
        assert off <= CLOSE * max(1, np.abs(b).max()), f"{call}: off by {off:.3g}"


def cases(rows):
    """Rows of (call, inputs, what each result is): one module whose @main gives all results."""
    params, calls, data = [], [], {}
    for k, (call, inputs, *_) in enumerate(rows):
        for name, x in inputs.items():
            params.append(f"%{name}_{k}: Tensor[({', '.join(map(str, x.shape))}), {kind_of(x)}]")
            data[f"{name}_{k}"] = x[None]  # a batch of one sample, of one rank more: whole
        calls.append(re.sub(r"%(\w+)", rf"%\1_{k}", call))
    USED.update(re.findall(r"([a-z_][\w.]*)\(", " ".join(calls)))
    with folder() as path:
        (path / "model.relay").write_text(f"def @main({', '.join(params)}) {{\n  (" + ",\n  ".join(calls) + ")\n}\n")
        np.savez(path / "data.npz", **data)
        tidemark("run", path / "model.relay", "--data", path / "data.npz", "-o", path / "out.npz", "--quiet")
        with np.load(path / "out.npz") as out:
            have = {name: out[name] for name in out.files}
    for k, (call, _, *wanted) in enumerate(rows):
        names = [f"output.{k}"] if len(wanted) == 1 else [f"output.{k}.{i}" for i in range(len(wanted))]
        for name, want in zip(names, wanted):
            compare(call, have[name], want)


# ---- element by element ----

def test_elementwise():
    x, p, u = real(2, 3, 4), positive(2, 3, 4), np.clip(real(2, 3, 4) / 4, -0.9, 0.9).astype(np.float32)
    i, j = whole("int32", -20, 20, 2, 5), whole("int32", 1, 7, 2, 5) * RNG.choice([-1, 1], (2, 5)).astype("int32")
    b, c = RNG.random((2, 5)) < 0.5, RNG.random((2, 5)) < 0.5
    half = np.array([-2.5, -1.5, -0.5, 0.49999997, 0.5, 1.5, 2.5, 8388609], np.float32)
    away = np.array([-3, -2, -1, 0, 1, 2, 3, 8388609], np.float32)
    erf = np.vectorize(math.erf)
    unary = [("abs", x, np.abs), ("negative", x, np.negative), ("exp", x, np.exp), ("log", p, np.log), ("log2", p, np.log2),
             ("log10", p, np.log10), ("sqrt", p, np.sqrt), ("rsqrt", p, lambda v: 1 / np.sqrt(v)), ("floor", x, np.floor),
             ("ceil", x, np.ceil), ("sign", x, np.sign), ("tanh", x, np.tanh), ("sin", x, np.sin), ("cos", x, np.cos),
             ("tan", u, np.tan), ("sinh", x, np.sinh), ("cosh", x, np.cosh), ("asin", u, np.arcsin), ("acos", u, np.arccos),
             ("atan", x, np.arctan), ("asinh", x, np.arcsinh), ("acosh", p + 1, np.arccosh), ("atanh", u, np.arctanh),
             ("erf", x, erf), ("fast_erf", x, erf), ("fast_exp", x, np.exp), ("fast_tanh", x, np.tanh),
             ("sigmoid", x, lambda v: 1 / (1 + np.exp(-v))), ("nn.relu", x, lambda v: np.maximum(v, 0)),
             ("copy", x, lambda v: v), ("on_device", x, lambda v: v), ("device_copy", x, lambda v: v), ("isnan", x, np.isnan),
             ("isinf", x, np.isinf), ("bitwise_not", i, np.invert), ("logical_not", b, np.logical_not)]
    unary += [(f"annotation.{name}", x, lambda v: v) for name in
              ("stop_fusion", "cast_hint", "checkpoint", "bitpack_start", "bitpack_end", "compiler_begin", "compiler_end",
               "quantize_info")]
    binary = [("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("divide", np.divide), ("power", np.power),
              ("maximum", np.maximum), ("minimum", np.minimum), ("greater", np.greater), ("greater_equal", np.greater_equal),
              ("less", np.less), ("less_equal", np.less_equal), ("equal", np.equal), ("not_equal", np.not_equal),
              ("floor_divide", np.floor_divide), ("floor_mod", np.mod), ("mod", np.fmod)]
    integer = [("divide", lambda a, d: np.trunc(a / d).astype("int32")), ("floor_divide", np.floor_divide), ("floor_mod", np.mod),
               ("mod", np.fmod), ("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)]
    logical = [("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)]
    shift = whole("int32", 0, 5, 2, 5)
    cases([(f"{op}(%x)", {"x": v}, f(v)) for op, v, f in unary]
          + [(f"{op}(%x, %y)", {"x": p, "y": np.roll(p, 1, 1)[:, :1]}, f(p, np.roll(p, 1, 1)[:, :1])) for op, f in binary]
          + [(f"{op}(%x, %y)", {"x": i, "y": j}, f(i, j)) for op, f in integer]
          + [(f"{op}(%x, %y)", {"x": b, "y": c}, f(b, c)) for op, f in logical]
          + [("round(%x)", {"x": half}, away),
             ("right_shift(%x, %y)", {"x": i, "y": shift}, i >> shift), ("left_shift(%x, %y)", {"x": i, "y": shift}, i << shift),
             ("clip(%x, a_min=-0.5f, a_max=1f)", {"x": x}, x.clip(-0.5, 1)),
             ("clip(%x, a_min=-3f, a_max=300f)", {"x": i.astype("int8")}, i.astype("int8").clip(-3, 127)),
             ('cast(%x, dtype="int8")', {"x": (x * 5)}, np.trunc(x * 5).astype("int8")),
             ('cast(%x, dtype="int64")', {"x": i}, i.astype("int64")), ("cast_like(%x, %y)", {"x": x, "y": i}, np.trunc(x).astype("int32")),
             ("nn.leaky_relu(%x)", {"x": x}, np.where(x > 0, x, x * np.float32(0.25))),
             ("nn.prelu(%x, %a)", {"x": x, "a": p[0, :, 0]}, np.where(x > 0, x, x * p[0, :, 0][:, None])),
             ("nn.prelu(%x, %a, axis=2)", {"x": x, "a": p[0, 0]}, np.where(x > 0, x, x * p[0, 0])),
             ("where(%c, %x, %y)", {"c": b, "x": i, "y": j}, np.where(b, i, j)),
             ("nn.dropout(%x).0", {"x": x}, x), ("%x + 1f", {"x": x}, x + 1)])


# ---- matrices, normalizations ----

def normal(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_matrices_and_normalizations():
    x, w, t = real(2, 5), real(3, 5), real(2, 4, 5)
    a, b, g, h = real(2, 3, 4), real(2, 4, 6), positive(4), real(4)
    i8, j8 = whole("int8", -128, 128, 2, 5), whole("int8", -128, 128, 3, 5)
    image, c1, c2, m, v = real(2, 4, 3, 5), positive(4), real(4), real(4), positive(4)
    spread = (slice(None), None, None)
    bn = (image - m[spread]) / np.sqrt(v[spread] + 1e-5)
    bn_inputs = {"x": image, "g": c1, "b": c2, "m": m, "v": v}
    last = image.transpose(0, 2, 3, 1).copy()
    squares = (image**2)
    around = np.stack([squares[:, max(0, c - 1):c + 2].sum(1) for c in range(4)], 1)
    padded = np.pad(x, ((1, 0), (2, 1)))
    cases([
        ("nn.dense(%x, %w, units=3)", {"x": x, "w": w}, x @ w.T), ("nn.dense(%x, %w, units=None)", {"x": t, "w": w}, t @ w.T),
        ('nn.dense(%x, %w, units=3, out_dtype="int32")', {"x": i8, "w": j8}, i8.astype("int32") @ j8.T.astype("int32")),
        ("nn.matmul(%x, %w, units=None, transpose_b=True)", {"x": x, "w": w}, x @ w.T),
        ("nn.matmul(%x, %w, units=None, transpose_a=True)", {"x": x.T.copy(), "w": w.T.copy()}, x @ w.T),
        ("nn.batch_matmul(%a, %b)", {"a": a, "b": b}, a @ b),
        ("nn.batch_matmul(%a, %b, transpose_b=True)", {"a": a, "b": b.transpose(0, 2, 1).copy()}, a @ b),
        ("nn.batch_matmul(%a, %b, transpose_a=True)", {"a": a.transpose(0, 2, 1).copy(), "b": b}, a @ b),
        ("nn.batch_matmul(%a, %b)", {"a": a, "b": b.transpose(0, 2, 1).copy()}, a @ b),  # as up to TVM 0.7
        ("nn.bias_add(%x, %b)", {"x": image, "b": m}, image + m[spread]),
        ("nn.bias_add(%x, %b, axis=-1)", {"x": last, "b": m}, last + m),
        ("nn.batch_norm(%x, %g, %b, %m, %v).0", bn_inputs, bn * c1[spread] + c2[spread]),
        ("nn.batch_norm(%x, %g, %b, %m, %v, scale=False, center=False).0", bn_inputs, bn),
        ("nn.batch_norm(%x, %g, %b, %m, %v, axis=3, epsilon=1e-05f).0", {**bn_inputs, "x": last},
         (bn * c1[spread] + c2[spread]).transpose(0, 2, 3, 1)),
        ("nn.layer_norm(%x, %g, %b)", {"x": a, "g": g, "b": h}, normal(a, 2) * g + h),
        ("nn.layer_norm(%x, %g, %b, axis=1)", {"x": b, "g": g, "b": h}, normal(b, 1) * g[:, None] + h[:, None]),
        ("nn.instance_norm(%x, %g, %b)", {"x": image, "g": c1, "b": c2}, normal(image, (2, 3)) * c1[spread] + c2[spread]),
        ("nn.group_norm(%x, %g, %b, num_groups=2)", {"x": image, "g": c1, "b": c2},
         normal(image.reshape(2, 2, 2, 3, 5), (2, 3, 4)).reshape(image.shape) * c1[spread] + c2[spread]),
        ("nn.l2_normalize(%x, eps=0.001f, axis=[1])", {"x": image}, image / np.sqrt(np.maximum(squares.sum(1, keepdims=True), 1e-3))),
        ("nn.lrn(%x, size=3, alpha=0.3f)", {"x": image}, image / (2 + 0.1 * around)**0.75),
        ("nn.softmax(%x)", {"x": a}, softmax(a, -1)), ("nn.softmax(%x, axis=1)", {"x": a}, softmax(a, 1)),
        ("nn.fast_softmax(%x)", {"x": a}, softmax(a, -1)), ("nn.log_softmax(%x)", {"x": a}, np.log(softmax(a, -1))),
        ("nn.batch_flatten(%x)", {"x": image}, image.reshape(2, -1)),
        ("nn.pad(%x, 0, pad_width=[[1, 0], [2, 1]])", {"x": x}, padded),
        ("nn.pad(%x, pad_width=[[1, 0], [2, 1]], pad_value=0f)", {"x": x}, padded),  # as up to TVM 0.7
        ("nn.pad(%x, 3, pad_width=[[1, 0], [2, 1]])", {"x": i8}, np.pad(i8, ((1, 0), (2, 1)), constant_values=3)),
        ('nn.pad(%x, 0f, pad_width=[[1, 0], [2, 1]], pad_mode="edge")', {"x": x}, np.pad(x, ((1, 0), (2, 1)), "edge")),
        ('nn.mirror_pad(%x, pad_width=[[1, 0], [2, 1]], mode="REFLECT")', {"x": x}, np.pad(x, ((1, 0), (2, 1)), "reflect")),
    ])


# ---- convolutions and pools ----

def convolve(x, w, stride=1, pads=None, dilation=1, groups=1):
    """N C ... with O I ... of any rank, by definition."""
    n = x.ndim - 2
    pads = pads or [0] * 2 * n
    x = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[n + i]) for i in range(n)])
    out = [(x.shape[2 + i] - (w.shape[2 + i] - 1) * dilation - 1) // stride + 1 for i in range(n)]
    wide = np.int64 if x.dtype.kind == "i" else np.float64
    y = np.zeros((x.shape[0], w.shape[0], *out), wide)
    per, took = w.shape[0] // groups, w.shape[1]
    for tap in itertools.product(*map(range, w.shape[2:])):
        cut = tuple(slice(k * dilation, k * dilation + (o - 1) * stride + 1, stride) for k, o in zip(tap, out))
        for g in range(groups):
            part = x[(slice(None), slice(g * took, (g + 1) * took), *cut)].astype(wide)
            y[:, g * per:(g + 1) * per] += np.einsum("nc...,oc->no...", part, w[(slice(g * per, (g + 1) * per), slice(None), *tap)].astype(wide))
    return y


def transposed(x, w, stride, pad, extra):
    """w is (in, out, ...): every element adds its kernel."""
    n, c, h, k = x.shape[0], x.shape[1], x.shape[2], w.shape[2]
    y = np.zeros((n, w.shape[1], (h - 1) * stride + k + extra, (x.shape[3] - 1) * stride + w.shape[3] + extra))
    for i, j in itertools.product(range(h), range(x.shape[3])):
        y[:, :, i * stride:i * stride + k, j * stride:j * stride + w.shape[3]] += np.einsum("nc,cohw->nohw", x[:, :, i, j], w)
    return y[:, :, pad:y.shape[2] - pad, pad:y.shape[3] - pad]


def nhwc(x):
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def test_convolutions():
    x, w, d = real(2, 4, 7, 6), real(6, 4, 3, 2), real(4, 1, 3, 3)
    line, volume = real(2, 3, 9), real(1, 2, 4, 5, 3)
    wl, wv, grouped = real(5, 3, 3), real(4, 2, 2, 3, 2), real(6, 2, 3, 3)
    i8, w8 = whole("int8", -128, 128, 1, 4, 7, 6), whole("int8", -128, 128, 6, 4, 3, 2)
    up = real(4, 5, 3, 2)
    y = convolve(x, w, 2, [1, 0, 2, 1])
    same = {"x": nhwc(x), "w": None}
    attrs = "strides=[2, 2], padding=[1, 0, 2, 1], channels=6, kernel_size=[3, 2]"
    layouts = [("OHWI", (0, 2, 3, 1)), ("HWIO", (2, 3, 1, 0)), ("HWOI", (2, 3, 0, 1))]
    deep = np.repeat(d, 2, 0) + real(8, 1, 3, 3)
    cases([
        (f"nn.conv2d(%x, %w, {attrs})", {"x": x, "w": w}, y),
        ("nn.conv2d(%x, %w, padding=[1, 1], dilation=[2, 2])", {"x": x, "w": w}, convolve(x, w, 1, [1, 1, 1, 1], 2)),
        ("nn.conv2d(%x, %w, padding=[1], groups=4)", {"x": x, "w": d}, convolve(x, d, 1, [1] * 4, groups=4)),
        ("nn.conv2d(%x, %w, groups=2)", {"x": x, "w": grouped}, convolve(x, grouped, groups=2)),
        ('nn.conv2d(%x, %w, out_dtype="int32")', {"x": i8, "w": w8}, convolve(i8, w8).astype("int32")),
        ("nn.conv1d(%x, %w, padding=[1, 0])", {"x": line, "w": wl}, convolve(line, wl, 1, [1, 0])),
        ("nn.conv3d(%x, %w, padding=[0, 1, 1])", {"x": volume, "w": wv}, convolve(volume, wv, 1, [0, 1, 1, 0, 1, 1])),
        (f'nn.conv2d(%x, %w, {attrs}, data_layout="NHWC", kernel_layout="HWIO", out_layout="NCHW")',
         {"x": nhwc(x), "w": w.transpose(2, 3, 1, 0).copy()}, y),
        ('nn.conv2d(%x, %w, groups=4, data_layout="NHWC", kernel_layout="HWOI")',
         {"x": nhwc(x), "w": deep.reshape(4, 2, 3, 3).transpose(2, 3, 0, 1).copy()}, nhwc(convolve(x, deep, groups=4))),
        ("nn.conv2d_transpose(%x, %w, strides=[2, 2], padding=[1, 1], output_padding=[1, 1], channels=5)", {"x": x, "w": up},
         transposed(x, up, 2, 1, 1)),
        ('nn.conv2d_transpose(%x, %w, channels=5, kernel_layout="OIHW")', {"x": x, "w": up.transpose(1, 0, 2, 3).copy()},
         transposed(x, up, 1, 0, 0)),
        ('nn.conv2d_transpose(%x, %w, channels=5, kernel_layout="OIHW")', {"x": x, "w": up}, transposed(x, up, 1, 0, 0)),  # up to 0.10
        ("nn.conv1d_transpose(%x, %w)", {"x": x[:, :, 0].copy(), "w": up[:, :, 0].copy()},
         transposed(x[:, :, :1], up[:, :, :1], 1, 0, 0)[:, :, 0]),
        ("nn.conv3d_transpose(%x, %w)", {"x": x[:, :, None], "w": up[:, :, None]}, transposed(x, up, 1, 0, 0)[:, :, None]),
    ] + [(f'nn.conv2d(%x, %w, {attrs}, data_layout="NHWC", kernel_layout="{layout}")', {**same, "w": w.transpose(perm).copy()}, nhwc(y))
         for layout, perm in layouts])


def windows(x, size, stride, pads, ceil, fold):
    """fold(elements, how many lie inside, how many count with padding) of every window of the last two axes, as TVM lays them."""
    out = [(x.shape[2 + i] + pads[i] + pads[2 + i] - size[i] + (stride[i] - 1) * ceil) // stride[i] + 1 for i in range(2)]
    y = np.zeros((*x.shape[:2], *out), x.dtype)
    for i, j in itertools.product(*map(range, out)):
        begin = [i * stride[0] - pads[0], j * stride[1] - pads[1]]
        ends = [begin[k] + size[k] for k in range(2)]
        cut = x[:, :, max(begin[0], 0):max(ends[0], 0), max(begin[1], 0):max(ends[1], 0)]
        padded = math.prod(max(0, min(ends[k], x.shape[2 + k] + pads[2 + k]) - begin[k]) for k in range(2))
        y[:, :, i, j] = fold(cut.reshape(*x.shape[:2], -1), padded)
    return y


def largest(part, padded):
    return part.max(-1) if part.shape[-1] else -np.finfo(np.float32).max


def mean(part, padded):
    return part.mean(-1) if part.shape[-1] else 0


def mean_padded(part, padded):
    return part.sum(-1) / max(padded, 1)


def whole_mean(part, padded):
    return np.trunc(part.sum(-1) / max(part.shape[-1], 1)).astype(part.dtype)


def test_pools():
    x, i = real(2, 3, 7, 6), whole("int32", -1000, 1000, 1, 2, 7, 6)
    i8 = whole("int8", -128, 128, 1, 2, 7, 6)
    size, stride, pads = (3, 2), (2, 2), (1, 0, 1, 1)
    attrs = "pool_size=[3, 2], strides=[2, 2], padding=[1, 0, 1, 1]"
    wide = "pool_size=[2, 2], strides=[4, 3], padding=[0, 0, 1, 0], ceil_mode=True"  # windows that begin past the data
    far = ((2, 2), (4, 3), (0, 0, 1, 0), 1)
    line, volume = real(1, 2, 9), real(1, 2, 4, 6, 2)

    def adaptive(x, out, fold):
        y = np.zeros((*x.shape[:2], *out), x.dtype)
        for a, b in itertools.product(*map(range, out)):
            cut = [slice(k * n // o, -(-(k + 1) * n // o)) for k, n, o in zip((a, b), x.shape[2:], out)]
            y[:, :, a, b] = fold(x[(slice(None), slice(None), *cut)], (2, 3))
        return y

    cases([
        (f"nn.max_pool2d(%x, {attrs})", {"x": x}, windows(x, size, stride, pads, 0, largest)),
        (f"nn.max_pool2d(%x, {attrs}, ceil_mode=True)", {"x": x}, windows(x, size, stride, pads, 1, largest)),
        (f"nn.max_pool2d(%x, {attrs})", {"x": i8}, windows(i8, size, stride, pads, 0, largest)),
        (f"nn.max_pool2d(%x, {attrs})", {"x": i}, windows(i, size, stride, pads, 0, largest)),
        (f"nn.avg_pool2d(%x, {attrs})", {"x": x}, windows(x, size, stride, pads, 0, mean)),
        (f"nn.avg_pool2d(%x, {attrs}, ceil_mode=True)", {"x": x}, windows(x, size, stride, pads, 1, mean)),
        (f"nn.avg_pool2d(%x, {attrs}, ceil_mode=True, count_include_pad=True)", {"x": x}, windows(x, size, stride, pads, 1, mean_padded)),
        (f"nn.avg_pool2d(%x, {attrs}, ceil_mode=True)", {"x": i}, windows(i, size, stride, pads, 1, whole_mean)),
        (f"nn.avg_pool2d(%x, {wide})", {"x": x}, windows(x, *far, mean)),
        (f"nn.max_pool2d(%x, {wide})", {"x": x}, windows(x, *far, largest)),
        (f'nn.max_pool2d(%x, {attrs}, layout="NHWC")', {"x": nhwc(x)}, nhwc(windows(x, size, stride, pads, 0, largest))),
        (f'nn.avg_pool2d(%x, {attrs}, layout="NHWC", out_layout="NCHW")', {"x": nhwc(x)}, windows(x, size, stride, pads, 0, mean)),
        ("nn.max_pool1d(%x, pool_size=[3], strides=[2])", {"x": line}, np.stack([line[:, :, k:k + 3].max(2) for k in (0, 2, 4, 6)], 2)),
        ("nn.avg_pool1d(%x, pool_size=[3], strides=[2])", {"x": line}, np.stack([line[:, :, k:k + 3].mean(2) for k in (0, 2, 4, 6)], 2)),
        ("nn.max_pool3d(%x, pool_size=[2, 2, 2], strides=[2, 2, 2])", {"x": volume},
         volume.reshape(1, 2, 2, 2, 3, 2, 1, 2).max((3, 5, 7))),
        ("nn.avg_pool3d(%x, pool_size=[2, 2, 2], strides=[2, 2, 2])", {"x": volume},
         volume.reshape(1, 2, 2, 2, 3, 2, 1, 2).mean((3, 5, 7))),
        ("nn.global_avg_pool2d(%x)", {"x": x}, x.mean((2, 3), keepdims=True)),
        ("nn.global_max_pool2d(%x)", {"x": x}, x.max((2, 3), keepdims=True)),
        ('nn.global_avg_pool2d(%x, layout="NHWC")', {"x": nhwc(x)}, nhwc(x.mean((2, 3), keepdims=True))),
        ("nn.adaptive_avg_pool2d(%x, output_size=[1, 1])", {"x": x}, x.mean((2, 3), keepdims=True)),
        ("nn.adaptive_avg_pool2d(%x, output_size=[3, 4])", {"x": x}, adaptive(x, (3, 4), np.mean)),
        ("nn.adaptive_avg_pool2d(%x, output_size=[7, 3])", {"x": x}, adaptive(x, (7, 3), np.mean)),
        ("nn.adaptive_max_pool2d(%x, output_size=[3, 4])", {"x": x}, adaptive(x, (3, 4), np.max)),
        ('nn.adaptive_avg_pool2d(%x, output_size=[3, 4], layout="NHWC")', {"x": nhwc(x)}, nhwc(adaptive(x, (3, 4), np.mean))),
        ("nn.adaptive_avg_pool1d(%x, output_size=[3])", {"x": line}, line.reshape(1, 2, 3, 3).mean(3)),
        ("nn.adaptive_max_pool1d(%x, output_size=[3])", {"x": line}, line.reshape(1, 2, 3, 3).max(3)),
        ("nn.adaptive_avg_pool3d(%x, output_size=[2, 3, 1])", {"x": volume}, volume.reshape(1, 2, 2, 2, 3, 2, 1, 2).mean((3, 5, 7))),
        ("nn.adaptive_max_pool3d(%x, output_size=[2, 3, 1])", {"x": volume}, volume.reshape(1, 2, 2, 2, 3, 2, 1, 2).max((3, 5, 7))),
    ])


# ---- shapes, slices, reductions ----

def test_shapes_and_slices():
    x, v, i = real(2, 3, 8), real(6), whole("int32", 0, 5, 2, 3)
    flat, at = x.reshape(-1), np.array([[0, 1], [5, 7]], "int32")
    wrap = np.array([-1, 2, 9], "int32")
    image, wide = real(1, 8, 2, 3), real(1, 1, 2, 4)
    places = np.array([[0, 1, 1], [2, 0, 1]], "int64")

    def codes(text, *shape):
        return f"reshape(%x, newshape=[{text}])", {"x": x}, x.reshape(shape)

    cases([
        codes("0, -1", 2, 24), codes("-2", 2, 3, 8), codes("0, -3", 2, 24), codes("-3, 0", 6, 8), codes("0, 0, -4, 2, -1", 2, 3, 2, 4),
        codes("0, 0, -4, -1, 4", 2, 3, 2, 4), codes("-4, 1, 2, -2", 1, 2, 3, 8), codes("-1", 48), codes("6, -1", 6, 8),
        ("contrib_reverse_reshape(%x, newshape=[-1, 0])", {"x": x}, x.reshape(6, 8)),
        ("reshape_like(%x, %y)", {"x": x, "y": real(6, 8)}, x.reshape(6, 8)),
        ("transpose(%x)", {"x": x}, x.T), ("transpose(%x, axes=[0, 2, 1])", {"x": x}, x.transpose(0, 2, 1)),
        ('layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")', {"x": image}, nhwc(image)),
        ("expand_dims(%x, axis=1, num_newaxis=2)", {"x": x}, x[:, None, None]), ("expand_dims(%x, axis=-1)", {"x": x}, x[..., None]),
        ("squeeze(%x, axis=[0])", {"x": image}, image[0]), ("squeeze(%x)", {"x": image}, image[0]),
        ("reverse(%x, axis=1)", {"x": x}, x[:, ::-1]),
        ("concatenate((%x, %y), axis=1)", {"x": x, "y": x[:, :1].copy()}, np.concatenate([x, x[:, :1]], 1)),
        ("stack((%x, %y), axis=1)", {"x": x, "y": -x}, np.stack([x, -x], 1)),
        ("split(%x, indices_or_sections=2, axis=2)", {"x": x}, *np.split(x, 2, 2)),
        ("split(%x, indices_or_sections=[1, 5], axis=-1)", {"x": x}, *np.split(x, [1, 5], 2)),
        ("strided_slice(%x, begin=[0, 1, -2], end=[2, 3, -8], strides=[1, 1, -3])", {"x": x}, x[:, 1:, -2:-8:-3]),
        ("strided_slice(%x, begin=[1, 2], end=[2, 6], strides=[1], axes=[1, 2])", {"x": x}, x[:, 1:2, 2:6]),
        ('strided_slice(%x, begin=[1, 0, 3], end=[1, -1, 2], slice_mode="size")', {"x": x}, x[1:2, :, 3:5]),
        ("slice_like(%x, %y)", {"x": x, "y": real(1, 2, 8)}, x[:1, :2]), ("slice_like(%x, %y, axes=[1])", {"x": x, "y": real(9, 2, 9)}, x[:, :2]),
        ("take(%x, %i)", {"x": x, "i": at}, flat[at]), ("take(%x, %i, axis=1)", {"x": x, "i": at[:1] + 1}, np.take(x, [1, 2], 1)[:, None]),
        ('take(%x, %i, mode="wrap")', {"x": v, "i": wrap}, v[wrap % 6]), ("take(%x, %i)", {"x": v, "i": wrap}, v[wrap.clip(0, 5)]),
        ("gather(%x, %i, axis=1)", {"x": x[:, :, 0].copy(), "i": (i % 3).astype("int64")}, np.take_along_axis(x[:, :, 0], i % 3, 1)),
        ("gather_nd(%x, %i)", {"x": x, "i": places}, x[places[0], places[1]]),
        ('one_hot(%i, 1f, 0f, depth=5, dtype="float32")', {"i": i}, np.eye(5, dtype=np.float32)[i]),
        ("broadcast_to(%x, shape=[4, 6])", {"x": v}, np.broadcast_to(v, (4, 6))),
        ("broadcast_to_like(%x, %y)", {"x": v, "y": real(2, 6)}, np.broadcast_to(v, (2, 6))),
        ("tile(%x, reps=[2, 1, 3])", {"x": v}, np.tile(v, (2, 1, 3))), ("tile(%x, reps=[2])", {"x": x}, np.tile(x, 2)),
        ("repeat(%x, repeats=3, axis=1)", {"x": x}, np.repeat(x, 3, 1)), ("repeat(%x, repeats=2)", {"x": x}, np.repeat(x, 2)),
        ("multiply(%x, full(2f, shape=[6]))", {"x": v}, v * 2), ("full_like(%x, 3f)", {"x": x}, np.full_like(x, 3)),
        ('add(%x, zeros(shape=[6], dtype="float32"))', {"x": v}, v), ('add(%x, ones(shape=[6], dtype="float32"))', {"x": v}, v + 1),
        ("zeros_like(%x)", {"x": x}, 0 * x), ("ones_like(%x)", {"x": x}, np.ones_like(x)),
        ('add(%x, arange(1f, 7f, 1f, dtype="float32"))', {"x": v}, v + np.arange(1, 7, dtype=np.float32)),
        ('shape_of(%x, dtype="int32")', {"x": x}, np.array([2, 3, 8], "int32")),
        ("nn.depth_to_space(%x, block_size=2)", {"x": image}, image.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)),
        ("nn.space_to_depth(%x, block_size=2)", {"x": wide}, wide.reshape(1, 1, 1, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 4, 1, 2)),
    ])


def test_reductions():
    x, i, b = real(2, 3, 4), whole("int32", -9, 9, 2, 3, 4), RNG.random((2, 3, 4)) < 0.8
    m = x.mean(1, keepdims=True)
    cases([
        ("sum(%x, axis=[1])", {"x": x}, x.sum(1)), ("sum(%x)", {"x": x}, x.sum()), ("sum(%x, axis=[1], exclude=True)", {"x": x}, x.sum((0, 2))),
        ("sum(%x, axis=[0, 2], keepdims=True)", {"x": i}, i.sum((0, 2), keepdims=True, dtype="int32")),
        ("sum(%x, axis=[-1])", {"x": i.astype("int8")}, i.astype("int8").sum(-1, dtype="int8")),
        ("mean(%x, axis=[1, 2])", {"x": x}, x.mean((1, 2))), ("max(%x, axis=[-1])", {"x": x}, x.max(-1)), ("min(%x, axis=1)", {"x": i}, i.min(1)),
        ("prod(%x, axis=[2])", {"x": x}, x.prod(2)), ("logsumexp(%x, axis=[1])", {"x": x}, np.log(np.exp(x).sum(1))),
        ("all(%x, axis=[1])", {"x": b}, b.all(1)), ("any(%x, axis=[1])", {"x": ~b}, (~b).any(1)),
        ("argmax(%x, axis=[1])", {"x": x}, x.argmax(1).astype("int32")), ("argmin(%x, axis=[-1], keepdims=True)", {"x": x}, x.argmin(-1)[..., None].astype("int32")),
        ("argmax(%x)", {"x": x}, np.int32(x.argmax())), ("cumsum(%x, axis=1)", {"x": x}, x.cumsum(1)),
        ("variance(%x, %m, axis=[1])", {"x": x, "m": m}, x.var(1)), ("variance(%x, %m, axis=[1], unbiased=True)", {"x": x, "m": m}, x.var(1, ddof=1)),
    ])


# ---- images ----

def sampled(x, at, axis):
    """Linear between neighbours, the border's beyond it."""
    low = np.floor(at).astype(int)
    part = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    pick = [np.take(x, np.clip(low + d, 0, x.shape[axis] - 1), axis) for d in (0, 1)]
    return pick[0] * (1 - part) + pick[1] * part


def test_images():
    x = real(1, 2, 3, 4)
    half = [(np.arange(n * k) + 0.5) / k - 0.5 for n, k in ((3, 2), (4, 3))]
    linear = sampled(sampled(x, half[0], 2), half[1], 3)
    plain = sampled(sampled(x, np.arange(6) / 2, 2), np.arange(8) / 2, 3)
    corners = sampled(sampled(x, np.linspace(0, 2, 6), 2), np.linspace(0, 3, 8), 3)
    twice = x.repeat(2, 2).repeat(2, 3)
    cases([
        ("image.resize2d(%x, size=[6, 12])", {"x": x}, linear), ('image.resize2d(%x, size=[6, 12], layout="NHWC")', {"x": nhwc(x)}, nhwc(linear)),
        ('image.resize2d(%x, size=[6, 8], coordinate_transformation_mode="align_corners")', {"x": x}, corners),
        ('image.resize2d(%x, size=[6, 8], method="nearest_neighbor", coordinate_transformation_mode="asymmetric", '
         'rounding_method="floor")', {"x": x}, twice),
        ("nn.upsampling(%x, scale_h=2f, scale_w=2f)", {"x": x}, twice),
        ('nn.upsampling(%x, scale_h=2f, scale_w=2f, layout="NHWC")', {"x": nhwc(x)}, nhwc(twice)),
        ('nn.upsampling(%x, scale_h=2f, scale_w=2f, method="bilinear")', {"x": x}, plain),
        ('nn.upsampling(%x, scale_h=2f, scale_w=2f, method="bilinear", align_corners=True)', {"x": x}, corners),
    ])


# ---- quantized ----

def fixed(ratio):
    m, e = math.frexp(ratio)
    m = math.floor(m * 2**31 + 0.5)
    return (m // 2, e + 1) if m == 2**31 else (m, e)


def rescale(x, ratio, away=False):
    """TVM's requantization of int32: up at ties, or away from zero."""
    m, shift = fixed(ratio)
    product = (x.astype(object) * 2**max(shift, 0)) * m
    right = 31 + max(-shift, 0)
    return np.vectorize(lambda p: (p + 2**(right - 1) - (1 if away and p < 0 else 0)) >> right)(product).astype(np.int64)


def single(v):
    return float(np.float32(v))


def codes(x, kind="int8"):
    limits = np.iinfo(kind)
    return np.clip(x, limits.min, limits.max).astype(kind)


def half_away(x):
    return np.sign(x) * np.floor(np.abs(x) + np.float32(0.5))


def test_quantized():
    x, a, b = real(2, 3, 4), whole("int8", -128, 128, 2, 3, 4), whole("int8", -128, 128, 2, 3, 4)
    big = whole("int32", -30000, 30000, 2, 3, 4)
    s, t, o = single(0.05), single(0.031), single(0.08)
    scales = np.array([0.02, 0.5, 0.011], np.float32)
    w8, dense = whole("int8", -128, 128, 5, 4), whole("int8", -128, 128, 3, 4)
    image, kernel = whole("uint8", 0, 256, 1, 2, 5, 5), whole("int8", -128, 128, 3, 2, 2, 2)
    wide = [v.astype(np.int64) for v in (a, b)]
    left, right = rescale(wide[0] - 3, s / o) + 7, rescale(wide[1] + 2, t / o) + 7
    product = (wide[0] - 3) * (wide[1] + 2)
    both = single(np.float32(s) * np.float32(t))
    through = [("tanh", np.tanh), ("sigmoid", lambda v: 1 / (1 + np.exp(-v))), ("exp", np.exp),
               ("erf", np.vectorize(math.erf))]
    small = whole("int8", -100, 100, 2, 3)
    reals = (small.astype(np.float32) - np.float32(4)) * np.float32(0.0125)
    roots = whole("int8", 5, 100, 2, 3)
    root = (roots.astype(np.float32) - np.float32(4)) * np.float32(0.0125)
    rows = [
        ('qnn.quantize(%x, 0.05f, 3, out_dtype="int8")', {"x": x}, codes(half_away(x / np.float32(0.05)) + 3)),
        ('qnn.quantize(%x, 0.05f, 128, out_dtype="uint8")', {"x": x}, codes(half_away(x / np.float32(0.05)) + 128, "uint8")),
        ("qnn.dequantize(%a, 0.05f, 3)", {"a": a}, (a.astype(np.int32) - 3) * np.float32(0.05)),
        ("qnn.requantize(%x, 0.05f, 0, 0.08f, 7)", {"x": big}, codes(rescale(big, s / o) + 7)),
        ('qnn.requantize(%x, 0.05f, 5, 0.08f, 0, rounding="TONEAREST", out_dtype="int32")', {"x": big},
         rescale(big - 5, s / o, True).astype("int32")),
        ('qnn.requantize(%x, 0.25f, 0, 0.5f, 0, out_dtype="uint8")', {"x": big}, codes((big + 1) >> 1, "uint8")),
        ("qnn.add(%a, %b, 0.05f, 3, 0.031f, -2, 0.08f, 7)", {"a": a, "b": b}, codes(left + right - 7)),
        ("qnn.subtract(%a, %b, 0.05f, 3, 0.031f, -2, 0.08f, 7)", {"a": a, "b": b}, codes(left - right + 7)),
        ("qnn.mul(%a, %b, 0.05f, 3, 0.031f, -2, 0.08f, 7)", {"a": a, "b": b}, codes(rescale(product, both / o) + 7)),
        ("qnn.concatenate((%a, %b), (0.05f, 0.031f), (3, -2), 0.08f, 7, axis=1)", {"a": a, "b": b}, np.concatenate([codes(left), codes(right)], 1)),
        ("qnn.dense(%x, %w, 3, 0, 0.05f, 0.1f, units=3)", {"x": w8, "w": dense},
         (w8.astype("int32") - 3) @ dense.T.astype("int32")),
        ('qnn.conv2d(%x, %w, 120, -2, 0.05f, 0.1f, padding=[1, 1, 1, 1], out_dtype="int32")', {"x": image, "w": kernel},
         convolve(image.astype(np.int64) - 120, kernel.astype(np.int64) + 2, 1, [1] * 4).astype("int32")),
        ("relay.op.annotation.simulated_quantize(%x, 0.0625f, -20f, 20f, kind=3)", {"x": x},
         half_away(x * 16).clip(-20, 20) / np.float32(16)),
        ("relay.op.annotation.simulated_quantize(%x, 0.0625f, -127f, 127f, kind=0)", {"x": x}, x),
        ("fixed_point_multiply(%x, multiplier=1288490189, shift=-3)", {"x": big}, rescale(big, 1288490189 / 2**34).astype("int32")),
    ]
    rows += [(f"qnn.{name}(%x, 0.0125f, 4, 0.01f, -3)", {"x": small}, codes(half_away(f(reals).astype(np.float32) / np.float32(0.01)) - 3))
             for name, f in through]
    rows += [(f"qnn.{name}(%x, 0.0125f, 4, 0.1f, -3)", {"x": roots}, codes(half_away(f(root).astype(np.float32) / np.float32(0.1)) - 3))
             for name, f in (("sqrt", np.sqrt), ("rsqrt", lambda v: 1 / np.sqrt(v)))]
    cases(rows)


# ---- functions, if, let ----

def refused(path, text, *texts):
    (path / "model.relay").write_text(text)
    oracle.refused(["run", path / "model.relay", "--data", path / "no.npy", "-o", path / "out.npz"], *texts)


def run_text(path, text, x):
    (path / "model.relay").write_text(text)
    np.save(path / "x.npy", x[None])
    tidemark("run", path / "model.relay", "--data", path / "x.npy", "--values", "*", "-o", path / "out.npz", "--quiet")
    with np.load(path / "out.npz") as out:
        return {name: out[name].reshape(-1) for name in out.files}


def test_functions_let_and_if():
    x = real(3)
    with folder() as path:
        values = run_text(path, """
def @main(%x: Tensor[(3), float32]) -> (Tensor[(3), float32], Tensor[(3), float32]) {
  let %f = fn (%y: Tensor[(3), float32], Primitive=1) { %0 = add(%y, 1f); multiply(%0, %0) };
  let %twice: Tensor[(3), float32] = multiply(%x, 2f);
  %3 = %f(%twice);
  %4 = (%3, @helper(%3));
  (%4.1, %4.0)
}
def @helper(%z) { %0 = negative(%z); abs(%0) }
""", x)
        assert compare("let", values["twice"], 2 * x) is None and compare("call", values["%3"], (2 * x + 1)**2) is None
        compare("inner", values["%3/%0"], 2 * x + 1)
        compare("global", values["%4.1/%0"], -(2 * x + 1)**2)
        for greater in (x, -x):
            values = run_text(path, """
def @main(%x: Tensor[(3), float32]) {
  %0 = sum(%x);
  %1 = greater(%0, 0f);
  %2 = if (%1) { %3 = multiply(%x, 2f); add(%3, %x) } else { negative(%x) };
  add(%2, 1f)
}
""", greater)
            compare("if", values["output"], (3 * greater if greater.sum() > 0 else -greater) + 1)


def test_unsupported_modules_are_refused(path):
    tensor = "Tensor[(2, 3), float32]"
    refused(path, f"def @main(%x: {tensor}) {{\n  %0 = vision.roi_pool(%x, %x);\n  my.op(nn.relu(%0), my.op(%x))\n}}\n",
            "vision.roi_pool at 2:8, my.op at 3:3, my.op at 3:22")
    assert "my.op" in tidemark("graph", path / "model.relay") and "relay" in tidemark("graph", "--ops", path / "model.relay")
    for body, *words in (("nn.relu(%x, %x)", "2 operands"), ("nn.dense(%x, %x, unit=3)", "'unit'", "2:3"),
                         ('nn.softmax(%x, axis="1")', "'axis'"), ("clip(%x, a_min=0f)", "'a_max'"),
                         ("reshape(%x, newshape=[4, 2])", "reshape"), ("nn.softmax(%x, axis=2)", "axis 2"),
                         ("split(%x, indices_or_sections=2, axis=1)", "equal parts"), ("%x.0", "no tuple"),
                         ("@main(%x)", "itself"), ("@nobody(%x)", "@nobody"), ("add((%x, %x), %x)", "operand 0"),
                         ('nn.conv2d(%x, %x, data_layout="NCHW4c")', "NCHW4c"),
                         (f"add(%x, %x) /* ty=Tensor[(2, 4), float32] */", "[2,4]", "[2,3]")):
        refused(path, f"def @main(%x: {tensor}) {{\n  {body}\n}}\n", *words)


def test_every_operator_of_the_table_was_run():
    page = (SOURCE / "docs" / "relay-ops.md").read_text()
    names = set(re.findall(r"^\| `([^`]+)` \|", page, re.M))
    elsewhere = {"fixed_point_multiply_per_axis"}  # test_relay_golden.py
    assert len(names) > 150 and not names - USED - elsewhere, sorted(names - USED - elsewhere)


main()
