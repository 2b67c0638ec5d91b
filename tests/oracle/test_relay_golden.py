# SPDX-License-Identifier: Apache-2.0
"""Relay modules run: every value that TVM stored for its own dumps, integer graphs code for code, models that have an ONNX twin.

The numbers are TVM 0.14's (`relay/golden` in the folder that TIDEMARK_SHARED names), those of the reference evaluator are next to them,
and ONNX Runtime's own ranges of the twin.
"""
import importlib.util
import json
import sys

from oracle import MODELS, SHARED, folder, main, needs, np, profile, refused, skip, tidemark

needs("relay")

RELAY = SHARED / "relay"
GOLDEN, EXTRA = RELAY / "golden", RELAY / "golden" / "extra"
if not GOLDEN.is_dir():
    skip(f"there is no {GOLDEN}")
sys.dont_write_bytecode = True

NETS = ["mlp", "cnn", "resblock", "attn"]
STAGES = ["0_raw", "1_bound", "2_simplify", "3_foldconst", "4a_backfold", "4b_fwdfold", "5_canon"]
CLOSE = 1e-5  # of the tensor's largest number, or of 1
# float16 is held as float32 (as in ONNX models), so what TVM rounded to half precision is not rounded here: half a unit in the last
# of its 11 bits.
HALF = 2.0**-11


def reference():
    """The evaluator of relay/tools, with the two operators of the integer graphs that it has not."""
    spec = importlib.util.spec_from_file_location("relay_ref", RELAY / "tools" / "relay_ref.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    known = module.op_eval

    def more(op, values, attrs):
        if op == "repeat":
            return np.repeat(values[0], attrs["repeats"], attrs["axis"])
        if op == "fixed_point_multiply_per_axis":
            axis, = attrs["axes"]
            shape = [-1 if i == axis else 1 for i in range(values[0].ndim)]
            multiplier, left, right = (v.astype(np.int64).reshape(shape) for v in values[1:])
            wide = (values[0].astype(np.int64) << left) * multiplier
            return ((wide + (np.int64(1) << (30 + right))) >> (31 + right)).astype(np.int32)
        return known(op, values, attrs)

    module.op_eval = more
    return module


def run(path, model, data, *more):
    """Every value by name."""
    target = path / "values.npz"
    tidemark("run", model, "--data", data, "--values", "*", "-o", target, "--quiet", *more)
    with np.load(target) as values:
        return dict(values)


def error(ours, theirs):
    """Of the larger of 1 and the largest number."""
    assert ours.shape == theirs.shape, f"{ours.shape} is not {theirs.shape}"
    if not theirs.size:
        return 0
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    return np.abs(a - b).max() / max(1, np.abs(b).max())


# ---- TVM's dumps ----

def golden_values(net, stage):
    """(name in our graph, operator, numbers): a function's result has no name in the text, and is called "output"."""
    with np.load(GOLDEN / net / f"{stage}.npz") as values:
        for key in values.files:
            _, name, operator = key.split("|")
            yield "output" if name == "<out>" else name, operator, values[key]


def test_values_of_every_stage_equal_tvms():
    compared, halves, worst = 0, 0, 0
    with folder() as path:
        for net in NETS:
            for stage in STAGES:
                words = ["--params", GOLDEN / net / f"{net}.params"] if stage == "0_raw" else []
                ours = run(path, GOLDEN / net / f"{stage}.relay.txt", GOLDEN / net / "inputs.npz", *words)
                half = set()  # names that hold what was rounded to half precision
                for name, operator, theirs in golden_values(net, stage):
                    if theirs.dtype == np.float16 or (half and operator == "cast"):
                        half.add(name)
                    e = error(ours[name], theirs)
                    assert e <= (HALF if name in half else CLOSE), f"{net} {stage} {name} ({operator}): off by {e:.3g}"
                    compared, halves = compared + 1, halves + (name in half)
                    worst = max(worst, 0 if name in half else e)
    assert compared > 700, compared
    print(f"{compared} values, at most {worst:.2g} off; {halves} of them were rounded to half precision by TVM alone")


def test_fused_functions_are_inlined(path):
    for net in NETS:
        whole, fused = (run(path, GOLDEN / net / f"{stage}.relay.txt", GOLDEN / net / "inputs.npz")
                        for stage in ("5_canon", "6_fused"))
        assert error(fused["output"], whole["output"]) <= CLOSE, net
        assert any("/%" in name for name in fused), "a value within a call is named after it"


def test_modules_without_metadata_are_printed_and_not_run():
    count = 0
    for net in NETS:
        for stage in STAGES:
            model = GOLDEN / net / f"{stage}.nometa.txt"
            assert "%0" in tidemark("graph", model)
            if "meta[relay.Constant]" in model.read_text():
                refused(["run", model, "--data", GOLDEN / net / "inputs.npz", "-o", "/nowhere/out.npz"], f"{model}: ",
                        "metadata section, which was left out")
                count += 1
    assert count >= 6 * len(NETS), count


# ---- integers ----

def integer_graphs():
    for file in sorted(EXTRA.glob("*.txt")):
        if "#[metadata]" in file.read_text():
            yield file


def inputs_of(parsed, rng):
    return {name: rng.standard_normal(kind[1]).astype(kind[2]) for name, kind, _ in parsed.funcs["main"].params}


def test_integer_graphs_agree_code_for_code():
    evaluator, rng = reference(), np.random.default_rng(8)
    codes, graphs, left = 0, 0, []
    with folder() as path:
        for file in integer_graphs():
            parsed = evaluator.Parser(file.read_text())
            inputs = inputs_of(parsed, rng)
            np.savez(path / "data.npz", **inputs)
            ours = run(path, file, path / "data.npz")
            try:
                _, theirs = evaluator.run(parsed, "main", inputs, {})
            except NotImplementedError as missing:
                left.append(f"{file.name} ({missing})")
                continue
            graphs += 1
            for name, operator, want in theirs:
                if isinstance(want, tuple) or name is None:
                    continue
                want = np.asarray(want)
                have = ours["output" if name == "<out>" else name].reshape(want.shape)  # scalars come as a batch of one
                if want.dtype.kind in "iu":
                    assert np.array_equal(have, want), f"{file.name} {name} ({operator}): codes differ"
                    codes += want.size
                else:
                    assert error(have, want) <= CLOSE, f"{file.name} {name} ({operator})"
    assert graphs >= 8 and codes > 10000, (graphs, codes, left)
    print(f"{graphs} graphs, {codes} codes equal; not evaluated by the reference: {', '.join(left) or 'none'}")


def test_quantized_operators_equal_tvms(path):
    """qnn.* in one file, and in the other what TVM canonicalized it to."""
    rng = np.random.default_rng(5)
    np.savez(path / "data.npz", x=(2 * rng.standard_normal((1, 3, 8, 8))).astype(np.float32))
    after, plain = (run(path, EXTRA / f"fq2i_{stage}.txt", path / "data.npz") for stage in ("after", "canon"))
    for ours, theirs in (("%0", "%5"), ("%1", "%23"), ("%2", "%24"), ("%3", "%32"), ("%4", "%33"), ("output", "output")):
        assert np.array_equal(after[ours], plain[theirs]), (ours, theirs)
    assert len(np.unique(after["%3"])) > 20


def test_fixed_point_multiply_equals_tvms():
    with np.load(EXTRA / "fixed_point_multiply_v0.14_x86.npz") as stored, folder() as path:
        calls = ", ".join(f"fixed_point_multiply(%x, multiplier={m}, shift={s})"
                          for m, s in zip(stored["multiplier"], stored["shift"]))
        (path / "model.relay").write_text(f"def @main(%x: Tensor[(260), int32]) {{ ({calls}) }}\n")
        np.savez(path / "x.npz", x=stored["x"])
        ours = run(path, path / "model.relay", path / "x.npz")
        for i, want in enumerate(stored["y"]):
            assert np.array_equal(ours[f"output.{i}"], want), f"ratio {stored['ratio'][i]}"
        assert len(stored["y"]) == 9


# ---- models ----

MLP = MODELS / "mnist_mlp"
TWINS = {"dense_1_input": "dense_1_input", "v_param_1": "d1.weight", "v_param_2": "d1.bias", "%1": "/d1/Gemm_output_0",
         "%2": "/Relu_output_0", "v_param_3": "d2.weight", "v_param_4": "d2.bias", "%4": "/d2/Gemm_output_0",
         "%5": "/Relu_1_output_0", "v_param_5": "d3.weight", "v_param_6": "d3.bias", "%7": "/d3/Gemm_output_0", "output": "probs"}


def near(ours, theirs, reach):
    return abs(ours - theirs) <= CLOSE * max(1e-30, reach)


def same_record(name, ours, theirs):
    for field in ("kind", "status", "dtype", "count", "samples", "nan", "posinf", "neginf"):
        assert ours.get(field) == theirs.get(field), (name, field, ours.get(field), theirs.get(field))
    reach = max(abs(theirs["min"]), abs(theirs["max"]))
    for field in ("min", "max"):
        assert near(ours[field], theirs[field], reach), (name, field, ours[field], theirs[field])


def test_keras_mlp_equals_its_onnx_model(path):
    data, params = MLP / "inputs_512.npz", MLP / "relay" / "mnist_mlp.params"
    twin = {t["name"]: t for t in profile(MLP / "model.onnx", data, path / "twin.json")["tensors"]}
    for file, words in (("initial_v0.0.4", ["--params", params]), ("initial_v0.0.5", ["--params", params]),
                        ("bound_v0.0.5", [])):
        ours = profile(MLP / "relay" / f"{file}.relay", data, path / f"{file}.json", *words)
        assert ours["model"]["format"] == "relay", ours["model"]
        records = {t["name"]: t for t in ours["tensors"]}
        weights = [name for name in records if name.startswith(("v_param", "meta"))]
        assert len(weights) == 6, weights
        for name, other in TWINS.items():
            if words or not name.startswith("v_param"):
                same_record(name, records[name], twin[other])


def test_ids_of_both_models_are_linked_by_numbers(path):
    data, model = MLP / "inputs_512.npz", MLP / "relay" / "initial_v0.0.4.relay"
    tidemark("profile", MLP / "model.onnx", "--data", data, "-o", path / "twin.json", "--quiet")
    tidemark("link", path / "twin.json", model, "--params", MLP / "relay" / "mnist_mlp.params", "--numbers", "--original",
             MLP / "model.onnx", "--data", data, "-o", path / "linked.json", "--report", path / "report.json", "--quiet")
    found = {m["value_name"]: m["name"] for m in json.loads((path / "report.json").read_text())["matches"]}
    assert found == TWINS, found
    linked = {t["name"]: t for t in json.loads((path / "linked.json").read_text())["tensors"]}
    twin = {t["name"]: t for t in json.loads((path / "twin.json").read_text())["tensors"]}
    for name, other in TWINS.items():
        assert near(linked[name]["min"], twin[other]["min"], 1) and near(linked[name]["max"], twin[other]["max"], 1), name


def test_marvell_edges_and_digits(path):
    home = MODELS / "relay" / "marvell"
    model = home / "mnist_original_bound.relay"
    ours = run(path, model, home / "x0.npy")
    ours["%permute_input"] = np.load(home / "x0.npy")
    for name, want in json.loads((home / "edges_x0.json").read_text()).items():
        have = ours[name]
        reach = max(1, abs(want["min"]), abs(want["max"]))
        assert list(have.shape)[-len(want["shape"]):] == want["shape"], name
        for field, value in (("min", have.min()), ("max", have.max()), ("mean", have.mean(dtype=np.float64))):
            assert near(value, want[field], reach), (name, field, value, want[field])
    with np.load(home / "mnist500.npz") as digits:
        tidemark("run", model, "--data", home / "mnist500.npz", "-o", path / "logits.npz", "--quiet")
        with np.load(path / "logits.npz") as results:
            logits = results["output"].reshape(500, 10)
        assert error(logits, digits["logits"].reshape(500, 10)) <= CLOSE
        accuracy = (logits.argmax(1) == digits["labels"]).mean()
    assert accuracy == 0.97, accuracy
    print(f"500 digits: {accuracy:.1%}")


def test_conversion_to_onnx(path):
    """`transform --passes none` writes what ONNX Runtime runs to the same numbers."""
    import onnxruntime
    for net in ("mlp", "cnn", "resblock"):
        tidemark("transform", GOLDEN / net / "0_raw.relay.txt", "--params", GOLDEN / net / f"{net}.params", "--passes", "none",
                 "-o", path / "model.onnx", "--quiet")
        runtime = onnxruntime.InferenceSession(path / "model.onnx", providers=["CPUExecutionProvider"])
        with np.load(GOLDEN / net / "inputs.npz") as inputs:
            out, = runtime.run(None, dict(inputs))
        want = [values for name, _, values in golden_values(net, "0_raw") if name == "output"]
        assert error(out, want[0]) <= CLOSE, net


main()
