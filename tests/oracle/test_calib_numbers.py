# SPDX-License-Identifier: Apache-2.0
"""The numbers of calibration against those who decide: grids against ONNX Runtime, roundings against Python's integers and
TVM's own results, methods against the raw activations of real networks. Started with calib_tool with the arguments of oracle.py."""
import json
import sys

from oracle import FEATURES, SHARED, folder, main, model_of, np, present, profile, skip, sources, subset, tidemark

TOOL = sys.argv[4]
NETWORKS = ["mnist_cnn", "mlperf_ic_resnet8", "char_gpt"]
TYPES = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


def tool(*words, lines=()):
    text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
    return [line.split() for line in tidemark(*words, program=TOOL, input=text).splitlines()]


# ---- grids ----

def ranges():
    rng = np.random.default_rng(5)
    ends = np.concatenate([rng.normal(size=(300, 2)), 10.0 ** rng.uniform(-42, 38, (300, 2)) * rng.choice([-1, 1], (300, 2)),
                           [[0, 0], [0, 1], [-1, 0], [2, 3], [-3, -2], [-3.4e38, 3.4e38], [0, 1e-36], [-1e-44, 1e-40]]])
    return np.sort(ends.astype(np.float32), axis=1)


def test_grids_equal_onnx_runtimes():
    from onnxruntime.quantization import quant_utils
    kinds = {"int4": "INT4", "uint4": "UINT4", "int8": "INT8", "uint8": "UINT8", "int16": "INT16", "uint16": "UINT16"}
    pairs = ranges()
    for dtype, kind in kinds.items():
        for symmetric in (False, True):
            lowest, highest = quant_utils.get_qmin_qmax_for_qType(getattr(quant_utils.onnx_proto.TensorProto, kind),
                                                                  symmetric=symmetric)
            flags = "-" + "s" * symmetric + "n" * (int(lowest) != TYPES[dtype][0])
            ours = tool("fit", dtype, flags, lines=[[repr(float(low)), repr(float(high))] for low, high in pairs])
            for (low, high), (scale, zero_point) in zip(pairs, ours):
                wanted_zero, wanted = quant_utils.compute_scale_zp(np.array(low), np.array(high), lowest, highest, symmetric)
                if wanted == 1 and wanted_zero == 0 and symmetric:  # nothing but zeros: a symmetric type keeps its zero point
                    wanted_zero = (int(lowest) + int(highest) + 1) // 2
                assert np.float32(scale) == np.float32(wanted) and int(zero_point) == int(wanted_zero), \
                    (dtype, symmetric, low, high, scale, zero_point, wanted, wanted_zero)


# ---- fixed point ----

def parts(real):
    """TensorFlow Lite's QuantizeMultiplier, in exact arithmetic."""
    fraction, shift = np.frexp(real)
    q, shift = int(np.floor(float(fraction) * 2 ** 31 + 0.5)), int(shift)
    return (q // 2, shift + 1) if q == 2 ** 31 else (q, shift)


def half_up(x, q, shift):
    return (2 * x * q + 2 ** (31 - shift)) // 2 ** (32 - shift)


def half_away(x, q, shift):
    return half_up(x, q, shift) if x >= 0 else -half_up(-x, q, shift)


def divide_away(x, n):
    """x / 2^n, ties away from zero."""
    return (abs(x) + (2 ** n >> 1) >> n) * (1 if x >= 0 else -1)


def double(x, q, shift):
    product = (x << max(shift, 0)) * q
    high = (2 * product + 2 ** 31) // 2 ** 32  # ties go up
    return divide_away(high, max(-shift, 0))


def saturated(x):
    return max(-2 ** 31, min(2 ** 31 - 1, x))


def test_roundings_equal_exact_integers():
    rng = np.random.default_rng(6)
    reals = [2.0 ** -7, 0.75, 0.0018843, 0.5, 1.0, 3.7, 1e-6, 2.0 ** -31, *rng.uniform(0, 1, 8), *10 ** rng.uniform(-8, 1, 8)]
    accumulators = [*range(-300, 300), -2 ** 31, 2 ** 31 - 1, *map(int, rng.integers(-2 ** 31, 2 ** 31, 300))]
    exact = {"single_half_up": half_up, "single_half_away": half_away, "gemmlowp_double": double}
    lines = [(x, repr(float(real))) for real in reals for x in accumulators]
    for rounding, function in exact.items():
        for (x, text), (q, shift, y) in zip(lines, tool("multiply", rounding, lines=lines)):
            assert (int(q), int(shift)) == parts(float(text)), (text, q, shift)
            if abs(x << max(int(shift), 0)) < 2 ** 31:  # engines are undefined beyond
                assert int(y) == saturated(function(x, int(q), int(shift))), (rounding, x, text, y)
    for (x, text), (_, _, y) in zip(lines, tool("multiply", "float_rne", lines=lines)):
        wanted = saturated(int(np.rint(np.float32(x) * np.float32(float(text)))))
        assert int(y) == wanted, (x, text, y, wanted)


def test_single_half_up_equals_tvm():
    """TVM wraps around at the ends of int32, and where a power of two multiplies what is not small; we saturate."""
    path = SHARED / "relay" / "golden" / "extra" / "fixed_point_multiply_v0.14_x86.npz"
    if not path.is_file():
        skip(f"there is no {path}")
    with np.load(path) as golden:
        compared = 0
        for i in range(len(golden["multiplier"])):
            real = float(golden["multiplier"][i]) * 2.0 ** (int(golden["shift"][i]) - 31)
            ours = tool("multiply", "single_half_up", lines=[(x, repr(real)) for x in golden["x"]])
            for x, y, (q, shift, made) in zip(golden["x"].tolist(), golden["y"][i].tolist(), ours):
                assert (int(q), int(shift)) == (golden["multiplier"][i], golden["shift"][i])
                right = max(-int(shift) + 1, 0)
                wraps = abs(x * real) >= 2 ** 31 - 1 or abs(x) + 2 ** right >= 2 ** 31
                if not wraps:
                    assert int(made) == y, (x, real, made, y)
                    compared += 1
        assert compared >= 0.95 * golden["y"].size, compared


# ---- methods on the activations of real networks ----

FIELDS = ["id", "low", "high", "low_from", "low_to", "high_from", "high_to", "flat", "flat_low", "flat_high", "scale",
          "zero_point", "mse", "mse_low", "mse_high", "clipped", "clipped_low", "clipped_high", "codes"]


def choices(path, method, parameter, dtype, flags):
    return {int(row[0]): dict(zip(FIELDS, map(float, row))) for row in tool("choose", path, method, parameter, dtype, flags)}


def codes(x, dtype, narrow, scale, zero_point):
    lowest, highest = TYPES[dtype]
    q = np.rint(x / np.float32(scale)).astype(np.float64) + zero_point
    return np.clip(q, lowest + narrow, highest)


def error_of(x, dtype, narrow, scale, zero_point):
    q = codes(x, dtype, narrow, scale, zero_point)
    real = np.float32(scale) * (q - zero_point).astype(np.float32)
    return float(np.mean((real.astype(np.float64) - x) ** 2))


def brute_force(x, dtype, flags):
    """The least mean squared error over ranges that shrink both ends alike, or stop at one of them."""
    lowest, highest = TYPES[dtype]
    lowest += "n" in flags
    low, high = min(float(x.min()), 0), max(float(x.max()), 0)
    best = np.inf
    for share in np.linspace(1, 0.02, 50):
        reach = max(-low, high) * share
        from_, to = max(low, -reach), min(high, reach)
        if "s" in flags:
            scale, zero_point = np.float32(2 * reach / (highest - lowest)), round((lowest + highest) / 2)
        else:
            exact = (to - from_) / (highest - lowest)
            scale, zero_point = np.float32(exact), int(np.rint(lowest - from_ / exact)) if exact > 0 else 0
        if scale > np.finfo(np.float32).tiny:
            best = min(best, error_of(x, dtype, "n" in flags, scale, zero_point))
    return best


def each_network():
    for name in subset(present(*NETWORKS), 2):
        with folder() as here:
            data = [word for one in sources(name) for word in ("--data", one)]
            made = profile(model_of(name), sources(name), here / "p.json", "--limit", 4)
            tidemark("run", model_of(name), *data, "--limit", 4, "--values", "*", "--quiet", "-o", here / "values.npz")
            with np.load(here / "values.npz") as arrays:
                raw = {}
                for tensor in made["tensors"]:
                    if tensor["name"] in arrays.files and arrays[tensor["name"]].dtype == np.float32:
                        x = arrays[tensor["name"]].ravel()
                        x = x[np.isfinite(x)]
                        if x.size and tensor["kind"] != "weight" and np.abs(x).max() > 1e-30:
                            raw[int(tensor["id"][1:])] = x
                assert len(raw) > 5, (name, len(raw))
                yield name, here / "p.json", raw


def hold_errors(name, path, raw):
    """What is proven holds on the raw numbers, and nothing tried by brute force is better than our uncertainty."""
    worst = 0
    for dtype, flags in (("uint8", "-"), ("int8", "-sn"), ("uint4", "-")):
        for method in ("mse", "minmax"):
            for id, row in choices(path, method, 0, dtype, flags).items():
                if id not in raw:
                    continue
                x = raw[id]
                true = error_of(x, dtype, "n" in flags, row["scale"], int(row["zero_point"]))
                assert row["mse_low"] <= true <= row["mse_high"], (name, id, dtype, method, row, true)
                lowest, highest = TYPES[dtype]
                k = x.astype(np.float64) / row["scale"] + row["zero_point"]
                clipped = np.mean((k > highest + 0.5) | (k < lowest + ("n" in flags) - 0.5))
                assert row["clipped_low"] - 1e-12 <= clipped <= row["clipped_high"] + 1e-12, (name, id, dtype, row, clipped)
                used = np.unique(codes(x, dtype, "n" in flags, row["scale"], row["zero_point"])).size
                assert row["codes"] <= used, (name, id, dtype, row, used)
                if method == "mse" and x.size <= 20000:
                    best = brute_force(x, dtype, flags)
                    worst = max(worst, true / best if best > 0 else 1)
                    assert true <= best * 1.02 + 1e-30, (name, id, dtype, flags, true, best)
    print(f"{name}: at worst {worst:.5f} of the error that brute force finds")


def hold_percentiles(name, path, raw):
    for percent in (99.99, 99, 90):
        for id, row in choices(path, "percentile", percent, "uint8", "-").items():
            if id in raw:
                x = np.sort(raw[id])
                rank = int(np.ceil((1 - (1 - percent / 100) / 2) * x.size)) - 1
                assert row["high_from"] <= x[rank] <= row["high_to"], (name, id, percent, row, x[rank])
                low = x[x.size - 1 - rank]
                assert row["low_from"] <= low <= row["low_to"], (name, id, percent, row, low)
        for id, row in choices(path, "percentile", percent, "int8", "-sn").items():
            if id in raw:
                x = np.sort(np.abs(raw[id]))
                at, made = x[int(np.ceil(percent / 100 * x.size)) - 1], max(-row["low"], row["high"])
                assert abs(made - at) <= 0.0039 * at, (name, id, percent, row, at)


def test_methods_keep_their_error_bounds_on_real_activations():
    seen = 0
    for name, path, raw in each_network():
        hold_errors(name, path, raw)
        hold_percentiles(name, path, raw)
        seen += 1
    assert seen, "no network was there"


def test_moving_average_equals_that_of_the_samples(here):
    if "hdf5" not in FEATURES:
        skip("built without HDF5")
    network, = present("mnist_cnn")
    tidemark("profile", model_of(network), "--data", sources(network)[0], "--limit", 16, "--per-sample", "--quiet",
             "-o", here / "p.h5", "-o", here / "p.json")
    made = json.loads((here / "p.json").read_text())
    sums = [t for t in made["tensors"] if (t["producer"] or {}).get("op") == "Add"]
    id, name = int(sums[1]["id"][1:]), sums[1]["name"]
    tidemark("run", model_of(network), "--data", sources(network)[0], "--limit", 16, "--values", name, "--quiet",
             "-o", here / "values.npz")
    with np.load(here / "values.npz") as arrays:
        x = arrays[name].reshape(16, -1)
    low, high = x[0].min(), x[0].max()
    for sample in x[1:]:
        low, high = low + np.float32(0.1) * (sample.min() - low), high + np.float32(0.1) * (sample.max() - high)
    row = choices(here / "p.h5", "moving-average", 0.1, "uint8", "-")[id]
    assert (np.float32(row["low"]), np.float32(row["high"])) == (low, high), (row, low, high)


main()
