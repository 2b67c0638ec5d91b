# SPDX-License-Identifier: Apache-2.0
"""Properties that hold for any data: Hypothesis makes arrays of special numbers and odd shapes, and shrinks what breaks a property.

    test_numbers.py PROGRAM SOURCE_ROOT FEATURES [EXAMPLES]

The same examples in every run, unless EXAMPLES (a count) is given: then others, and so many of each property. Exits with 77 (skipped)
where Hypothesis, NumPy or onnx is missing; TIDEMARK_TEST_PYTHON may name a Python that has them.
"""
import fractions
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
EXAMPLES = int(sys.argv[4]) if len(sys.argv) > 4 else None
sys.path[:0] = [str(SOURCE / folder) for folder in ("tests/tools", "tests/profile", "examples")]
from harness import main, skip  # noqa: E402

try:
    import hypothesis
    import numpy as np
    import onnx
    from hypothesis import strategies as st
    from onnx import helper, numpy_helper
except ImportError as missing:
    skip(missing)
import profile_rules  # noqa: E402
import read_profile  # noqa: E402

hypothesis.settings.register_profile("here", derandomize=EXAMPLES is None, max_examples=EXAMPLES or 25, deadline=None, database=None,
                                     suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("here")
MOST_RANK, DONE, ANSWER_NO, BAD_INPUT = 12, 0, 1, 3
TINY = float(np.finfo("f4").tiny)
# Bits of a float32: zeros, denormals, the ends of exponents, infinities, NaN with payloads of either sign; and any bits.
SPECIAL = [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x3f800000, 0xbf800000, 0x3f7fffff,
           0x4b800001, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0xff812345, 0x7f7f0000, 0x33d6bf95]
BITS = st.one_of(st.sampled_from(SPECIAL), st.integers(0, 2**32 - 1))


@st.composite
def arrays(draw, most_rank=5, samples=st.integers(1, 6)):
    rank = draw(st.integers(1, most_rank))
    shape = [draw(samples), *(draw(st.sampled_from([0, 1, 1, 2, 3, 5])) for _ in range(rank - 1))]
    bits = draw(st.lists(BITS, min_size=1, max_size=40))
    return np.resize(np.array(bits, "u4"), math.prod(shape)).view("f4").reshape(shape)


def write_model(path, shape):
    """x itself, a copy, the parts that Relu and Clip leave, a sum with a constant, and the shape."""
    value = lambda name, kind=onnx.TensorProto.FLOAT, dims=None: helper.make_tensor_value_info(name, kind, dims)
    nodes = [helper.make_node("Identity", ["x"], ["copy"]), helper.make_node("Relu", ["copy"], ["relu"]),
             helper.make_node("Clip", ["copy", "low", "high"], ["clip"]), helper.make_node("Neg", ["x"], ["minus"]),
             helper.make_node("Add", ["relu", "half"], ["sum"])]
    stored = [numpy_helper.from_array(np.float32(v), name) for name, v in (("low", -1), ("high", TINY), ("half", 0.5))]
    graph = helper.make_graph(nodes, "numbers", [value("x", dims=["N", *shape[1:]])], [value("sum"), value("clip"), value("minus")], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def execute(folder, *words, status=(DONE,)):
    done = subprocess.run([PROGRAM, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                          check=False)
    assert done.returncode in status, f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr}"
    if done.returncode == BAD_INPUT:
        assert done.stderr.count("\n") == 1, done.stderr
    return done


class Case:
    """A folder with the model, the data, and `p.json`."""

    def __init__(self, array, *words):
        self.folder, self.array = Path(tempfile.mkdtemp(prefix="tidemark-test-")), array
        np.save(self.folder / "x.npy", array)
        write_model(self.folder / "m.onnx", array.shape)
        self.profile("p.json", *words)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, *words, **options):
        return execute(self.folder, *words, **options)

    def profile(self, name, *words):
        self.execute("profile", "m.onnx", "--data", "x.npy", "-q", "-o", name, *words)
        return read_profile.read(self.folder / name)


def expected(x):
    """What the profile has of these numbers, by NumPy and exact fractions."""
    finite = x[np.isfinite(x)].astype("f8")
    bits, size = x.view("u4"), np.abs(finite)
    nonzero = bits[np.isfinite(x) & (x != 0)]
    bins, counts = np.unique(nonzero >> 16, return_counts=True)
    total = sum((fractions.Fraction(v) for v in finite.tolist()), fractions.Fraction(0))
    return {"count": x.size, "nan": int(np.isnan(x).sum()), "posinf": int((x == np.inf).sum()), "neginf": int((x == -np.inf).sum()),
            "zeros": int((finite == 0).sum()), "negative_zeros": int((bits == 0x80000000).sum()), "sum": float(total),
            "denormals": int(((size > 0) & (size < TINY)).sum()), "negatives": int((finite < 0).sum()),
            "min": float(finite.min()) if finite.size else None, "max": float(finite.max()) if finite.size else None,
            "bins": bins.tolist(), "counts": counts.tolist()}


def check_numbers(profile, values):
    tensors = {value["name"]: value for value in profile["tensors"]}
    assert profile_rules.check(profile) == []
    for name, x in values.items():
        value = tensors[name]
        if value["level"] == "none":
            assert x.size == 0, f"{name} was not observed"
            continue
        found = {key: value.get(key) for key in expected(x)} | {key: value["histogram"][key] for key in ("bins", "counts")}
        assert found == expected(x), f"{name}: {found} and {expected(x)}"


@hypothesis.given(arrays())
def test_statistics_are_those_of_numpy(array):
    with Case(array) as case, np.errstate(all="ignore"):
        flat = array.ravel()
        minus = (flat.view("u4") ^ np.uint32(0x80000000)).view("f4")
        check_numbers(read_profile.read(case.folder / "p.json"), {"x": flat, "copy": flat, "minus": minus})


@hypothesis.given(arrays(), st.one_of(st.sampled_from([1, 2, 3, 7, 4096]), st.integers(1, 4096)), st.integers(1, 4))
def test_batch_and_threads_do_not_show(array, batch, threads):
    with Case(array, "--batch", 1, "--threads", 1) as case:
        one = read_profile.read(case.folder / "p.json")
        other = case.profile("q.json", "--batch", batch, "--threads", threads)
        for a, b in zip(one["tensors"], other["tensors"]):
            for key in ("updates", "observed_shapes", "samples"):
                a.pop(key, None), b.pop(key, None)
            assert a == b, a["name"]


@hypothesis.given(arrays(samples=st.integers(2, 6)), st.integers(2, 3))
def test_shards_merge_to_the_whole(array, n):
    with Case(array, "--batch", 1) as case:
        parts = [f"part{k}.json" for k in range(1, n + 1)]
        for k, part in enumerate(parts, 1):
            if case.execute("profile", "m.onnx", "--data", "x.npy", "--batch", 1, "-q", "--shard", f"{k}/{n}", "-o", part,
                            status=(DONE, 2, BAD_INPUT)).returncode != DONE:
                return  # more shards than samples
        case.execute("merge", *parts, "-q", "-o", "merged.json")
        assert (case.folder / "merged.json").read_bytes() == (case.folder / "p.json").read_bytes()


@hypothesis.settings(max_examples=EXAMPLES or 10)
@hypothesis.given(arrays(), st.sampled_from(["auto", "minmax", "mse", "percentile", "entropy"]), st.sampled_from(["uint8", "int8", "uint16"]),
                  st.booleans())
def test_every_verb_takes_the_profile(array, method, dtype, channels):
    with Case(array) as case:
        scheme = "symmetric" if dtype == "int8" else "asymmetric"
        case.execute("calibrate", "p.json", "--sensitive=quantize", "--method", method, "--dtype", dtype, "--scheme", scheme,
                     *(["--per-channel"] if channels else []), "-q", "-o", "e.json")
        encodings = json.loads((case.folder / "e.json").read_text())["encodings"]
        for encoding in encodings:
            assert all(math.isfinite(s) and s > 0 for s in encoding["scale"]), encoding
            low, high = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int32": (0, 0)}[encoding["dtype"]]
            assert all(low <= zero <= high for zero in encoding["zero_point"]), encoding
        for words in (["show", "p.json"], ["check", "p.json"], ["diff", "p.json", "p.json"], ["report", "p.json", "-o", "r.html", "-q"],
                      ["profile", "m.onnx", "--data", "x.npy", "-q", "-o", "p.h5"]):
            case.execute(*words)
        case.execute("export", "e.json", "--to", "csv", "-o", "e.csv", "-q", status=(DONE, ANSWER_NO))
        case.execute("export", "e.json", "--to", "qdq", "--model", "m.onnx", "-o", "q.onnx", "-q", status=(DONE, ANSWER_NO))
        case.execute("simulate", "m.onnx", "e.json", "--data", "x.npy", "-q", status=(DONE, ANSWER_NO, BAD_INPUT))


@hypothesis.given(st.integers(1, 32), st.integers(0, 2))
def test_ranks_are_taken_or_refused(rank, samples):
    folder = Path(tempfile.mkdtemp(prefix="tidemark-test-"))
    try:
        array = np.ones([samples] + [1] * (rank - 1), "f4")
        np.save(folder / "x.npy", array)
        write_model(folder / "m.onnx", array.shape)
        done = execute(folder, "profile", "m.onnx", "--data", "x.npy", "-q", "-o", "p.json", status=(DONE, BAD_INPUT))
        assert (done.returncode == DONE) == (rank <= MOST_RANK and samples > 0), f"rank {rank}, {samples} samples: {done.stderr}"
        assert (folder / "p.json").exists() == (done.returncode == DONE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


LARGE = st.one_of(st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, -1]),
                  st.integers(0, 2**64))
# The ends of float32, what is subnormal in it or becomes so when it is divided by 127 or 255, and what is no scale.
SCALES = st.one_of(st.sampled_from([1e-45, 1e-42, 5.877472e-39, TINY, 1.5e-36, 1e-30, 1.0, 3e37, 3.4028235e38, 0.0, -1.0, 1e39]),
                   st.integers(1, 0x7f7fffff).map(lambda bits: float(np.uint32(bits).view("f4"))))


def numbers_in(tree, at=()):
    """Where whole numbers stand, as numbers or as digits."""
    if isinstance(tree, (dict, list)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from numbers_in(value, (*at, key))
    elif isinstance(tree, int) and not isinstance(tree, bool):
        yield at


def put(tree, at, value):
    for key in at[:-1]:
        tree = tree[key]
    tree[at[-1]] = value


@hypothesis.settings(max_examples=EXAMPLES or 10)
@hypothesis.given(arrays(most_rank=3), st.data())
def test_counts_of_any_size_are_kept_or_refused(array, data):
    """In every place of a profile, as numbers and as digits: what one verb takes, all take, and HDF5 keeps it."""
    with Case(array) as case:
        tree = json.loads((case.folder / "p.json").read_text())
        places = sorted(numbers_in(tree), key=str)
        for at in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=4, unique=True)):
            value = data.draw(LARGE)
            put(tree, at, str(value) if abs(value) >= 2**53 or data.draw(st.booleans()) else value)
        (case.folder / "n.json").write_text(json.dumps(tree))
        taken = case.execute("merge", "n.json", "-q", "-o", "a.json", status=(DONE, BAD_INPUT)).returncode
        for words in (["show", "n.json"], ["show", "n.json", "--json"], ["report", "n.json", "-q", "-o", "r.html"],
                      ["calibrate", "n.json", "--sensitive=quantize", "-q", "-o", "e.json"], ["merge", "n.json", "-q", "-o", "a.h5"]):
            assert case.execute(*words, status=(DONE, BAD_INPUT)).returncode == taken, words
        if taken == DONE:
            assert profile_rules.check(read_profile.read(case.folder / "a.json")) == []
            case.execute("merge", "a.h5", "-q", "-o", "b.json")
            assert (case.folder / "b.json").read_bytes() == (case.folder / "a.json").read_bytes()


@hypothesis.settings(max_examples=EXAMPLES or 10)
@hypothesis.given(st.lists(BITS, min_size=1, max_size=8), SCALES, st.sampled_from(["uint8", "int8", "uint16"]))
def test_scales_of_any_size_are_used_or_refused(bits, scale, dtype):
    """By every reader of encodings, which agree."""
    with Case(np.array(bits, "u4").view("f4").reshape(-1, 1)) as case:
        case.execute("calibrate", "p.json", "--sensitive=quantize", "--dtype", dtype, "-q", "-o", "e.json")
        tree = json.loads((case.folder / "e.json").read_text())
        for encoding in tree["encodings"]:
            if encoding["role"] == "activation":
                encoding["scale"] = [scale]
        (case.folder / "n.json").write_text(json.dumps(tree))
        taken = case.execute("diff", "n.json", "e.json", "-q", status=(DONE, ANSWER_NO, BAD_INPUT)).returncode == BAD_INPUT
        for words in (["export", "n.json", "--to", "csv", "-q", "-o", "n.csv"], ["export", "n.json", "--model", "m.onnx", "--to", "qdq", "-q", "-o", "n.onnx"],
                      ["simulate", "m.onnx", "n.json", "--data", "x.npy", "--json"], ["simulate", "m.onnx", "n.json", "--data", "x.npy", "--integer", "--json"]):
            done = case.execute(*words, status=(DONE, ANSWER_NO, BAD_INPUT))
            assert (done.returncode == BAD_INPUT) == taken, words
            if done.stdout:
                json.loads(done.stdout, parse_constant=lambda word: 1 / 0)


main()
