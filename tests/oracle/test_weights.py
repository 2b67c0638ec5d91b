# SPDX-License-Identifier: Apache-2.0
"""Ranges of weights by mse and l4, and scales by block: codes against NumPy's, and ONNX Runtime on the exported file.

Activations stay float, so that a model whose weights are NumPy's dequantized ones must give the same outputs.
"""
import json

# First: it leaves the test out where packages are missing.
from oracle import execute, folder, main, model_of, present, profile, refused, samples, sources, subset, tidemark

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

NETWORKS = ["digits", *present("char_gpt", "mlperf_ic_resnet8", "mlperf_ad_autoencoder")]
COUNT = 4
ALONE = {"rules": [{"match": {"kind": "activation"}, "quantize": False}, {"match": {"kind": "bias"}, "quantize": False}]}
LIMITS = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255)}
FORMS = [
    ["--weights-method", "mse"],
    ["--weights-method", "l4", "--weights-scheme", "asymmetric", "--weights-dtype", "uint8"],
    ["--weights-method", "mse", "--weights-per-tensor"],
    ["--weights-dtype", "int4", "--weights-block", "32", "--weights-method", "minmax"],
    ["--weights-dtype", "int4", "--weights-block", "32"],  # mse
    ["--weights-dtype", "uint4", "--weights-block", "16", "--weights-method", "l4", "--weights-scheme", "asymmetric"],
    ["--weights-dtype", "int8", "--weights-block", "24", "--weights-method", "mse"],
]


def calibrated(path, name, *words):
    if not (path / f"{name}.json").exists():
        profile(model_of(name), sources(name), path / f"{name}.json", "--limit", COUNT)
        (path / "alone.json").write_text(json.dumps(ALONE))
    tidemark("calibrate", path / f"{name}.json", "--model", model_of(name), "--config", path / "alone.json", "-o", path / "enc.json",
             "--quiet", *words)
    return json.loads((path / "enc.json").read_text())["encodings"]


def expanded(encoding, numbers, shape):
    """One number for each element of a weight of this shape."""
    numbers, axis, block = np.asarray(numbers), encoding["axis"], encoding.get("block", 0)
    if axis is None:
        return np.full(shape, numbers[0])
    if not block:
        return np.broadcast_to(numbers.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)
    blocks = numbers.reshape([-(-n // block) if i == axis else n for i, n in enumerate(shape)])
    return np.repeat(blocks, block, axis=axis).take(range(shape[axis]), axis=axis)


def zero_points(encoding):
    middle = {"int4": 0, "int8": 0, "uint4": 8, "uint8": 128}[encoding["dtype"]]
    return encoding.get("zero_point", [middle] * len(encoding["scale"]))


def codes_of(encoding, real):
    lowest, highest = LIMITS[encoding["dtype"]]
    lowest += bool(encoding["narrow"])
    scale = expanded(encoding, np.asarray(encoding["scale"], np.float32), real.shape)
    zero = expanded(encoding, zero_points(encoding), real.shape)
    return np.clip(np.rint(real / scale) + zero, lowest, highest).astype(np.int32), scale, zero


def session(model, optimised=False):
    """Optimised, blocks become MatMulNBits, which rounds the operand too unless its accuracy is that of float32 (1)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def weights_of(model, encodings):
    """{name: (encoding, numbers)} of the initializers that have one."""
    stored = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    return {one["name"]: (one, stored[one["name"]]) for one in encodings if one["role"] == "weight" and one["name"] in stored}


def test_codes_are_numpys_and_onnx_runtime_runs_them(path):
    blocked = 0
    for i, name in enumerate(subset(NETWORKS, 2)):
        model = onnx.load(model_of(name))
        for words in FORMS[i % 2::2] if i else FORMS:
            encodings = calibrated(path, name, *words)
            tidemark("export", path / "enc.json", "--to", "qdq", "--model", model_of(name), "-o", path / "q.onnx", "--quiet")
            made = onnx.load(path / "q.onnx")
            stored = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer}
            nodes = {node.input[0]: node for node in made.graph.node if node.op_type == "DequantizeLinear"}
            weights = weights_of(model, encodings)
            assert weights, (name, words)
            for key, (encoding, real) in weights.items():
                codes = stored.get(f"{key}_quantized")
                if codes is None:  # a Reshape of it is the weight
                    continue
                wanted, scale, zero = codes_of(encoding, real)
                assert np.array_equal(codes.astype(np.int32), wanted), (name, words, key)
                attributes = {one.name: one.i for one in nodes[f"{key}_quantized"].attribute}
                assert attributes.get("block_size", 0) == encoding.get("block", 0), (name, key)
                assert stored[f"{key}_scale"].size == len(encoding["scale"])
                blocked += encoding.get("block", 0) > 0
                for one in model.graph.initializer:
                    if one.name == key:
                        one.CopyFrom(numpy_helper.from_array(((wanted - zero) * scale).astype(np.float32), key))
            reference = session(model.SerializeToString())
            for ours in (session(str(path / "q.onnx")), session(str(path / "q.onnx"), optimised=True)):
                for feed in samples(name, COUNT):
                    for x, y in zip(ours.run(None, feed), reference.run(None, feed)):
                        if x.dtype == np.float32:
                            assert np.allclose(x, y, rtol=1e-3, atol=1e-3 * (np.abs(y).max() + 1e-6)), (name, words)
            model = onnx.load(model_of(name))
    assert blocked


def test_searched_ranges_are_never_worse_than_the_extremes(path):
    for i, name in enumerate(subset(NETWORKS, 2)):
        model = onnx.load(model_of(name))
        for words in FORMS[i % 2::2] if i else FORMS:
            power = 4 if "l4" in words else 2
            if "minmax" in words:
                continue
            errors = []
            for some in (words, [*words, "--weights-method", "minmax"]):  # the last one given counts
                sums = {}
                for key, (encoding, real) in weights_of(model, calibrated(path, name, *some)).items():
                    codes, scale, zero = codes_of(encoding, real)
                    sums[key] = np.sum(np.abs((codes - zero) * scale.astype(np.float64) - real) ** power)
                errors.append(sums)
            assert all(errors[0][key] <= errors[1][key] * 1.000001 for key in errors[0]), (name, words)
            assert sum(errors[0].values()) < sum(errors[1].values()), (name, words)


def test_simulate_sees_what_onnx_runtime_computes(path):
    name = "digits"
    calibrated(path, name, *FORMS[4])
    tidemark("export", path / "enc.json", "--to", "qdq", "--model", model_of(name), "-o", path / "q.onnx", "--quiet")
    told = json.loads(tidemark("simulate", model_of(name), path / "enc.json", "--data", sources(name)[0], "--limit", COUNT, "--json"))
    output = next(value for value in told["values"] if value["output"])
    ours, reference = session(str(path / "q.onnx")), session(str(model_of(name)))
    runs = [(ours.run(None, feed)[0], reference.run(None, feed)[0]) for feed in samples(name, COUNT)]
    noise, power = sum(np.sum((x - y) ** 2.) for x, y in runs), sum(np.sum(y ** 2.) for _, y in runs)
    assert abs(10 * np.log10(power / noise) - output["sqnr"]) < 0.1
    words = ["--data", sources(name)[0], "--limit", COUNT, "--json"]
    integer = json.loads(tidemark("simulate", model_of(name), path / "enc.json", "--integer", *words))
    assert abs(next(value for value in integer["values"] if value["output"])["sqnr"] - output["sqnr"]) < 0.1
    ranked = tidemark("simulate", model_of(name), path / "enc.json", "--rank", *words)
    assert "dense1.weight" in ranked, ranked


def test_chosen_values_have_16_bits(path):
    profile(model_of("digits"), sources("digits"), path / "digits.json", "--limit", 64)
    rules = [{"match": {"name": "relu1_out"}, "dtype": "uint16"}, {"match": {"name": "conv1.weight"}, "dtype": "int16"}]
    found = []
    for config in ({}, {"rules": rules}):
        (path / "c.json").write_text(json.dumps(config))
        tidemark("calibrate", path / "digits.json", "--config", path / "c.json", "-o", path / "enc.json", "-q")
        tidemark("export", path / "enc.json", "--to", "qdq", "--model", model_of("digits"), "-o", path / "q.onnx", "-q")
        told = json.loads(tidemark("simulate", model_of("digits"), path / "enc.json", "--data", sources("digits")[0], "--limit", 64,
                                   "--json"))
        zeros = {one.name: one.data_type for one in onnx.load(path / "q.onnx").graph.initializer if one.name.endswith("_zero_point")}
        ours, reference = session(str(path / "q.onnx")), session(str(model_of("digits")))
        runs = [(ours.run(None, feed)[0], reference.run(None, feed)[0]) for feed in samples("digits", 64)]
        noise, power = sum(np.sum((x - y) ** 2.) for x, y in runs), sum(np.sum(y ** 2.) for _, y in runs)
        assert abs(10 * np.log10(power / noise) - next(value["sqnr"] for value in told["values"] if value["output"])) < 0.3
        found.append(next(value["sqnr"] for value in told["values"] if value["name"] == "relu1_out"))
        wide = {name for name, kind in zeros.items() if kind in (onnx.TensorProto.UINT16, onnx.TensorProto.INT16)}
        assert wide == ({f"{one['match']['name']}_zero_point" for one in rules} if config else set()), zeros
    assert found[1] > found[0] + 8, found
    return f"relu1_out {found[0]:.1f} dB, with 16 bits {found[1]:.1f}"


def test_who_has_no_blocks_leaves_them_out_by_name(path):
    encodings = calibrated(path, "digits", *FORMS[3])
    blocked = {one["name"] for one in encodings if one.get("block")}
    assert blocked
    for form in ("aimet", "csv", "tvm", "quark"):
        done = execute("export", path / "enc.json", "--to", form, "--model", model_of("digits"), "-o", path / f"{form}.out", "--json",
                       status=(0, 1, 2, 3))
        told = json.loads(done.stdout) if done.stdout else {}
        left = {one["name"] for one in told.get("skipped", []) if "block" in one["why"]}
        assert left == blocked or "scales by block" in done.stderr, (form, done.stdout, done.stderr)
    done = execute("export", path / "enc.json", "--to", "qdq", "--model", model_of("digits"), "-o", path / "q.onnx", "--set",
                   "domain=com.microsoft", status=2)
    assert "scales by block" in done.stderr


def coded(path, kind, scale, zero, bias, moved=(), **more):
    """y = x * DequantizeLinear(codes) + b, profiled."""
    make = onnx.helper.make_node
    codes = np.arange(64 * 8).reshape(64, 8) % 16 - (8 if kind == onnx.TensorProto.INT4 else 0)
    codes = onnx.helper.make_tensor("codes", kind, (8, 64) if moved else (64, 8), (codes.T if moved else codes).flatten())
    nodes = [make("DequantizeLinear", ["codes", "scale", *(["zero"] if zero is not None else [])], ["d"], **more), *moved,
             make("Gemm", ["x", moved[-1].output[0] if moved else "d", "b"], ["y"])]
    stored = [codes, numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(bias, "b"),
              *([numpy_helper.from_array(zero, "zero")] if zero is not None else [])]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [4, 64])], [value("y", 1, [4, 8])], stored)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), path / "coded.onnx")
    np.save(path / "x.npy", np.random.default_rng(1).normal(size=(4, 64)).astype("f4"))
    profile(path / "coded.onnx", path / "x.npy", path / "coded.json")


def recalled(path, *words):
    """What calibrate says of the weight, and why the bias stays float; both forms run."""
    model = path / "coded.onnx"
    tidemark("calibrate", path / "coded.json", "--model", model, "-o", path / "enc.json", "--quiet", *words)
    for form in ([], ["--integer"]):
        tidemark("simulate", model, path / "enc.json", "--data", path / "x.npy", *form)
    made = json.loads((path / "enc.json").read_text())
    weight = [one for one in made["encodings"] if one["role"] == "weight"][-1]
    return weight, [left["reason"] for left in made["left"] if left["name"] == "b"]


def test_codes_that_the_model_has_are_kept(path):
    scale, zero, bias = np.linspace(0.01, 0.02, 8, dtype="f4"), np.arange(8, dtype="u1"), np.ones(8, "f4")
    transpose = onnx.helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0])
    coded(path, onnx.TensorProto.UINT8, scale, zero, bias, [transpose], axis=0)
    weight, bias_is_float = recalled(path)
    assert weight["rule"] == "has-codes" and weight["dtype"] == "uint8" and weight["axis"] == 1 and not bias_is_float
    assert np.array_equal(np.float32(weight["scale"]), scale) and weight["zero_point"] == zero.tolist()
    weight, _ = recalled(path, "--target", "litert")  # its weights are int8
    assert weight["rule"] != "has-codes" and weight["dtype"] == "int8"
    coded(path, onnx.TensorProto.UINT8, scale * np.float32(1e-9), zero, bias, axis=-1)
    assert "int32 does not hold it" in recalled(path)[1][0]
    blocks = np.linspace(0.01, 0.02, 32, dtype="f4").reshape(4, 8)
    coded(path, onnx.TensorProto.INT4, blocks, None, bias, axis=0, block_size=16)
    weight, bias_is_float = recalled(path)
    assert weight["rule"] == "has-codes" and weight["block"] == 16 and "by block" in bias_is_float[0]
    assert np.array_equal(np.float32(weight["scale"]), blocks.flatten())


def test_the_weights_must_be_those_that_were_profiled(path):
    calibrated(path, "digits")
    other = onnx.load(model_of("digits"))
    for one in other.graph.initializer:
        if one.data_type == onnx.TensorProto.FLOAT:
            one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one) * np.float32(2), one.name))
    onnx.save(other, path / "other.onnx")
    refused(["calibrate", path / "digits.json", "--model", path / "other.onnx", "--weights-method", "mse", "-o", path / "enc.json"],
            "is not the weight that was profiled")
    refused(["calibrate", path / "digits.json", "--weights-method", "mse", "-o", path / "enc.json"], "--model FILE")
    (path / "block.json").write_text('{"defaults": {"weight": {"block": 32}}}')
    done = execute("calibrate", path / "digits.json", "--config", path / "block.json", "-o", path / "enc.json", status=2)
    assert "need the model" in done.stderr


if __name__ == "__main__":
    main()
