# SPDX-License-Identifier: Apache-2.0
"""`tidemark calibrate`: the type of each value, by default, by the rules, and by a config."""
import functools
import hashlib
import json
import math
import random
import struct
import tempfile
from pathlib import Path

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, PICTURES, SOURCE, WRONG_CALL, files, main, npy_bytes, subset, tidemark


@functools.lru_cache(maxsize=None)
def profile_of(model, data, *more):
    """The path of its profile; made once."""
    path = Path(KEPT.name) / f"{len(files(Path(KEPT.name)))}.json"
    tidemark("profile", model, "--data", data, "-o", path, "-q", *more).expect(DONE)
    return path


KEPT = tempfile.TemporaryDirectory(prefix="tidemark-cli-")


def digits():
    return profile_of(DIGITS, PICTURES, "--limit", 100)


def float32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


class Encodings:
    """What calibrate wrote, with the profile."""

    def __init__(self, profile, path, *words, config=None):
        if config is not None:
            (path / "config.json").write_text(json.dumps(config))
            words = [*words, "--config", path / "config.json"]
        if not any(str(word).startswith("--sensitive") for word in words):
            words = ["--sensitive=quantize", *words]  # rules have most to do there
        self.done = tidemark("calibrate", profile, "-o", path / "enc.json", *words).expect(DONE)
        self.text = (path / "enc.json").read_text()
        self.file = json.loads(self.text)
        self.values = {t["name"]: t for t in json.loads(Path(profile).read_text())["tensors"]}
        self.left = {e["name"]: e["reason"] for e in self.file["left"]}
        self.items = {}
        for item in self.file["encodings"]:
            self.items.setdefault(item["name"], []).append(item)
        self.balance()

    def balance(self):
        """Every value is encoded, or there is a reason; one that is both is so for some of its readers only."""
        assert set(self.items) | set(self.left) == set(self.values)
        for name in set(self.items) & set(self.left):
            assert all("uses" in item for item in self.items[name]), name

    def __getitem__(self, name):
        (item,) = self.items[name]
        return item

    def quantized(self, role=None):
        return {name for name, items in self.items.items() if any(role in (None, item["role"]) for item in items)}


def by_default(path):
    return Encodings(digits(), path)


def test_a_model_is_its_external_data_too(path):
    """A profile's hash is of the weights beside the model's file as well: a model of the same bytes with others is another."""
    nodes, width = [onnx.node("MatMul", ["x", "v"], ["h"]), onnx.node("MatMul", ["h", "w"], ["y"])], 8
    weights = [onnx.tensor(n, [width, width], [], external={"location": f"{n}.bin"}) for n in "wv"]
    model, hashes = onnx.model(nodes, [onnx.value("x", ["N", width])], [onnx.value("y", ["N", width])], weights), {}
    rows = {name: struct.pack("<64f", *(math.sin(k * i + 1) for i in range(64))) for k, name in enumerate(["v", "w", "other"], 1)}
    (path / "x.npy").write_bytes(npy_bytes([16, width], [math.cos(i) for i in range(16 * width)]))
    for folder, of_w in (("a", "w"), ("b", "other"), ("c", "w")):
        (path / folder).mkdir()
        for name, data in (("m.onnx", model), ("v.bin", rows["v"]), ("w.bin", rows[of_w])):
            (path / folder / name).write_bytes(data)
        tidemark("profile", path / folder / "m.onnx", "--data", path / "x.npy", "-o", path / folder / "p.json", "-q").expect(DONE)
        hashes[folder] = json.loads((path / folder / "p.json").read_text())["model"]["sha256"]
    assert hashes["a"] == hashes["c"] != hashes["b"], hashes
    # as data, the same bytes have the hash that is a part of it
    (path / "d.bin").write_bytes(rows["v"] + rows["w"])
    tidemark("profile", path / "a" / "m.onnx", "--data", path / "d.bin", "-o", path / "d.json", "-q").expect(DONE)
    of_data = json.loads((path / "d.json").read_text())["data"][0]["hash"].removeprefix("xxh128:")
    of_file = hashlib.sha256(model).hexdigest()
    assert hashes["a"] == hashlib.sha256((of_file + of_data).encode()).hexdigest()

    old = (path / "a" / "p.json").read_text().replace(hashes["a"], of_file)  # as former versions wrote it
    (path / "a" / "old.json").write_text(old)
    (path / "b" / "p.json").write_text((path / "a" / "p.json").read_text())
    for profile, is_found in (("a/p.json", True), ("a/old.json", True), ("b/p.json", False)):
        done = tidemark("calibrate", path / profile, "-o", path / "e.json").expect(DONE)
        assert ("weights have their extremes" in done.err) != is_found, done
        words = ["export", path / "e.json", "--to", "qdq", "-o", path / "q.onnx", "--model", path / profile[0] / "m.onnx"]
        assert ("not the file that was profiled" in tidemark(*words).expect(DONE).err) != is_found, profile


def test_the_default_is_uint8_with_int8_weights_by_channel_and_int32_biases(path):
    enc = by_default(path)
    assert {i["dtype"] for items in enc.items.values() for i in items if i["role"] == "activation"} == {"uint8"}
    for name in ("conv1.weight", "conv2.weight", "dense1.weight", "dense2.weight"):
        weight, seen = enc[name], enc.values[name]["channels"]
        assert (weight["dtype"], weight["scheme"], weight["narrow"], weight["axis"]) == ("int8", "symmetric", True, 0)
        for scale, low, high in zip(weight["scale"], seen["min"], seen["max"], strict=True):
            assert abs(scale - 2 * max(-low, high) / 254) < 1e-6 * scale
    bias = enc["dense1.bias"]
    assert (bias["dtype"], bias["rule"], bias["sources"]) == ("int32", "input-times-weight", ["p20", "p21"])
    for scale, weight in zip(bias["scale"], enc["dense1.weight"]["scale"], strict=True):
        assert abs(scale - enc["flat_out"]["scale"][0] * weight) < 1e-6 * scale
    assert enc.left == {f"norm{i}.{part}": f"a parameter of BatchNormalization 'norm{i}', which no arithmetic of integers has "
                        "codes for" for i in (1, 2) for part in ("mean", "var")}


def test_file_identifies_the_model_and_the_profile(path):
    enc, profile = by_default(path), json.loads(digits().read_text())
    assert (enc.file["format"], enc.file["version"]) == ("tidemark-encodings", {"major": 1, "minor": 0})
    for key in ("file", "sha256", "format", "graph_fingerprint"):
        assert enc.file["model"][key] == profile["model"][key]
    assert enc.file["samples"] == 100
    assert enc.file["settings"]["method"] == "auto"
    for name, items in enc.items.items():
        for item in items:
            assert item["fingerprint"] == enc.values[name]["fingerprint"]
            assert (item["observed_min"], item["observed_max"]) == (enc.values[name]["min"], enc.values[name]["max"])


def test_only_products_and_what_moves_between_them_are_quantized_by_default(path):
    enc = Encodings(digits(), path, "--sensitive=float")
    assert enc.file["settings"]["sensitive"] == "float"
    assert {i["role"] for items in enc.items.values() for i in items} == {"activation", "weight", "bias"}
    assert {"conv1.weight", "conv2.weight", "dense1.weight", "dense2.weight", "dense1.bias"} <= set(enc.items)
    assert "pattern input-norm" in enc.left["image"] and "BatchNormalization 'norm1'" in enc.left["conv1_out"]
    assert "pattern softmax" in enc.left["probabilities"] and "relu1_out" in enc.items
    assert Encodings(digits(), path, "--sensitive=quantize").file["settings"]["sensitive"] == "quantize"
    tidemark("calibrate", digits(), "-o", path / "e.json", "--sensitive=no").refuses(WRONG_CALL, "float, quantize, uint16 or int16")


def test_a_float_softmax_has_the_range_that_was_seen(path):
    nodes = [onnx.node("Softmax", ["x"], ["s"], "soft", axis=1), onnx.node("MatMul", ["s", "w"], ["y"], "dense")]
    weights = onnx.tensor("w", [64, 8], [i % 7 - 3 for i in range(512)])
    (path / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 64])], [onnx.value("y", ["N", 8])], [weights]))
    (path / "x.npy").write_bytes(npy_bytes([4, 64], [i % 5 / 5 for i in range(256)]))
    profile = profile_of(path / "m.onnx", path / "x.npy")
    assert Encodings(profile, path)["s"]["high"] == [1]
    for sensitive, config in (("float", {}), ("quantize", {"rules": [{"match": {"op": "Softmax"}, "quantize": False}]})):
        assert Encodings(profile, path, f"--sensitive={sensitive}", config=config)["s"]["high"][0] < 0.05, sensitive


def test_rules_are_applied_and_named(path):
    enc = by_default(path)
    for before, behind in (("norm1_out", "relu1_out"), ("dense1_out", "relu3_out")):
        assert enc[before]["rule"] == "activation-after-relu"
        assert (enc[before]["scale"], enc[before]["zero_point"]) == (enc[behind]["scale"], [0])
        assert enc[before]["group"] == enc[behind]["group"]
    for name in ("pool_out", "flat_out"):
        assert enc[name]["rule"] == "pass-through-shares"
        assert enc[name]["scale"] == enc["relu2_out"]["scale"]
    assert enc["probabilities"]["rule"] == "softmax-output"
    assert (enc["probabilities"]["low"], enc["probabilities"]["high"]) == ([0], [1])
    off = Encodings(digits(), path, config={"built_in": {
        "activation-after-relu": False, "pass-through-shares": False, "softmax-output": False}})
    assert not any(i["rule"] not in ("", "input-times-weight") for items in off.items.values() for i in items)
    assert off["norm1_out"]["zero_point"] != [0]
    assert off["probabilities"]["method"] == "auto"


def test_what_a_relu_cuts_off_needs_no_codes_where_its_result_stays_float(path):
    enc = Encodings(digits(), path, "--method", "minmax", config={"rules": [{"match": {"node": "dense2"}, "quantize": False}]})
    assert "dense2" in enc.left["relu3_out"] and enc["dense1_out"]["rule"] == "activation-after-relu"
    assert (enc["dense1_out"]["zero_point"], enc["dense1_out"]["low"]) == ([0], [0])
    assert enc["dense1_out"]["high"] == [enc.values["relu3_out"]["max"]]
    assert enc["dense1_out"]["observed_min"] == enc.values["dense1_out"]["min"] < 0


def test_equal_profiles_give_equal_bytes(path):
    assert by_default(path).text == by_default(path).text


def test_options_set_types_methods_and_grids(path):
    enc = Encodings(digits(), path, "--dtype", "int8", "--scheme", "symmetric", "--weights-dtype", "int4",
                    "--weights-per-tensor")
    assert (enc["conv1_out"]["dtype"], enc["conv1_out"]["zero_point"], enc["conv1_out"]["narrow"]) == ("int8", [0], True)
    assert (enc["conv1.weight"]["dtype"], len(enc["conv1.weight"]["scale"])) == ("int4", 1)
    enc = Encodings(digits(), path, "--method", "minmax", "--per-channel")
    assert len(enc["conv1_out"]["scale"]) == 16 and enc["conv1_out"]["axis"] == 1
    assert enc["conv1_out"]["low"] == enc.values["conv1_out"]["channels"]["min"]
    enc = Encodings(digits(), path, "--percentile", 99)
    assert enc["conv1_out"]["method"] == "percentile"
    assert enc["conv1_out"]["high"][0] < enc.values["conv1_out"]["max"]
    told = enc["conv1_out"]["expected"]
    assert told["high_from"] <= enc["conv1_out"]["high"][0] <= told["high_to"] <= told["high_from"] * 1.008
    assert told["clipped_low"] <= told["clipped"] <= told["clipped_high"] < 0.02
    enc = Encodings(digits(), path, "--pow2")
    assert all(float32(s).hex().startswith("0x1.0000000000000p")
               for items in enc.items.values() for i in items for s in i["scale"])
    enc = Encodings(digits(), path, "--rounding", "float_rne")
    assert enc.file["rounding"] == "float_rne"
    enc = Encodings(digits(), path, "--weights-scheme", "asymmetric", "--weights-dtype", "uint8")
    assert any(z for z in enc["conv1.weight"]["zero_point"])


def test_ranges_of_weights_are_searched_over_the_weights(path):
    plain = by_default(path)
    for method in ("auto", "mse", "l4"):
        enc = Encodings(digits(), path, "--weights-method", method, "--model", DIGITS)
        assert enc.file["settings"]["weights-method"] == method
        for name in enc.quantized("weight"):
            made, before = enc[name], plain[name]
            searched = method != "auto" or name.startswith(("conv", "dense"))  # those that sum products
            assert made["method"] == (method if searched else "minmax") and before["method"] == "minmax", name
            assert made["axis"] == before["axis"] and len(made["scale"]) == len(before["scale"])
            assert (made["scale"] != before["scale"]) == searched, name
        for name in enc.quantized("activation"):
            assert enc.items[name] == plain.items[name], name
    one = Encodings(digits(), path, "--weights-method", "mse", "--weights-per-tensor", "--model", DIGITS)["conv1.weight"]
    assert one["axis"] is None and one["method"] == "mse" and "expected" not in one
    some = Encodings(digits(), path, "--model", DIGITS, config={
        "rules": [{"match": {"name": "conv1.weight"}, "method": "l4"}], "defaults": {"weight": {"method": "mse"}}})
    assert some["conv1.weight"]["method"] == "l4"
    assert some["dense1.weight"]["method"] == "mse"


def test_the_model_is_looked_for_beside_the_profile(path):
    (path / "p.json").write_bytes(digits().read_bytes())
    call = ["calibrate", path / "p.json", "-o", path / "enc.json", "--weights-method", "mse"]
    tidemark(*call).refuses(BAD_INPUT, "--model FILE", "digits.onnx")
    (path / "digits.onnx").write_bytes(DIGITS.read_bytes())
    tidemark(*call).expect(DONE)
    assert '"method":"mse"' in (path / "enc.json").read_text()
    tidemark(*call, "--model", path / "none").refuses(BAD_INPUT, "none")
    done = tidemark("calibrate", digits(), "-o", path / "enc.json", "--method", "l4")
    done.refuses(WRONG_CALL, "--method l4")
    (path / "c.json").write_text('{"defaults":{"method":"l4"}}')
    tidemark("calibrate", digits(), "-o", path / "enc.json", "--config", path / "c.json").refuses(BAD_INPUT, "l4 is a method for weights")


def test_the_profiled_model_is_used_where_it_is_found(path):
    def calibrated(*words, folder=path):
        done = tidemark("calibrate", path / "p.json", "-o", path / "enc.json", *words, cwd=folder).expect(DONE)
        return json.loads((path / "enc.json").read_text())["settings"]["weights-method"], "--model digits.onnx" in done.err

    (path / "p.json").write_bytes(digits().read_bytes())
    (path / "here").mkdir()
    assert calibrated() == ("minmax", True)
    model = path / "digits.onnx"
    model.write_bytes(DIGITS.read_bytes() + b"\xfa\x01\x00")  # of that name, and another file
    assert calibrated() == ("minmax", True)
    model.write_bytes(DIGITS.read_bytes())
    assert calibrated() == calibrated("--model", DIGITS) == ("auto", False)
    found = (path / "enc.json").read_bytes()
    assert calibrated("--weights-method", "minmax") == ("minmax", False)
    model.rename(path / "here" / "digits.onnx")
    assert calibrated(folder=path / "here") == ("auto", False) and (path / "enc.json").read_bytes() == found


def test_matrix_products_have_scales_by_block(path):
    enc = Encodings(digits(), path, "--weights-block", 24, "--weights-dtype", "int4", "--model", DIGITS)
    assert enc.file["settings"]["weights-block"] == "24"
    blocked = {name for name in enc.quantized("weight") if "block" in enc[name]}
    assert blocked == {name for name in enc.quantized("weight") if name.startswith("dense")}, blocked
    for name in blocked:
        item, shape = enc[name], enc.values[name]["shape"]
        axis = item["axis"]
        count = -(-shape[axis] // 24) * shape[1 - axis]
        assert item["block"] == 24 and item["method"] == "mse" and not item["narrow"] and len(item["scale"]) == count and not {"zero_point", "low", "clip_max"} & set(item)
        assert axis == 1 - by_default(path)[name]["axis"]
    sums = {item["id"] for items in enc.items.values() for item in items if "block" in item}
    biases = [reason for name, reason in enc.left.items() if "scales by block" in reason]
    assert len(biases) == len(blocked) and sums
    assert not any(r["op"] in ("Gemm", "MatMul") for r in enc.file["requants"])
    plain = Encodings(digits(), path, "--weights-block", 24, "--weights-method", "minmax", "--weights-dtype", "int4", "--model", DIGITS)
    assert all(plain[name]["method"] == "minmax" and plain[name]["narrow"] for name in blocked)
    asymmetric = Encodings(digits(), path, "--model", DIGITS, config={
        "rules": [{"match": {"op": "dense"}, "block": 32, "dtype": "uint4", "scheme": "asymmetric", "method": "mse"}]})
    item = asymmetric[sorted(blocked)[0]]
    assert item["block"] == 32 and len(item["zero_point"]) == len(item["scale"]) and "block" not in asymmetric["conv1.weight"]
    for value in (0, 1.5, "32", 65537):
        (path / "c.json").write_text(json.dumps({"defaults": {"block": value}}))
        tidemark("calibrate", digits(), "-o", path / "e.json", "--config", path / "c.json").refuses(BAD_INPUT, "'block'")
    for value in (1, 65537):
        tidemark("calibrate", digits(), "-o", path / "e.json", "--weights-block", value).refuses(WRONG_CALL, "2 to 65536")


def test_a_search_knows_the_weights(path):
    Encodings(digits(), path, "--weights-block", 16, "--weights-method", "mse", "--model", DIGITS)
    done = tidemark("simulate", DIGITS, path / "enc.json", "--data", PICTURES, "--limit", 16, "--search", "--profile", digits(),
                    "--budget", 2, "-o", path / "better.json", "--write-config", path / "c.json").expect(DONE)
    assert '"block":16' in (path / "better.json").read_text(), done.stderr
    assert json.loads((path / "c.json").read_text())["defaults"]["weight"]["block"] == 16


def test_requantizations_are_exact_multipliers(path):
    enc = by_default(path)
    (dense,) = [r for r in enc.file["requants"] if r["node"] == "dense1"]
    assert (dense["id"], dense["operand"]) == ("p23", None)
    for real, weight in zip(dense["real"], enc["dense1.weight"]["scale"], strict=True):
        wanted = enc["flat_out"]["scale"][0] * weight / enc["dense1_out"]["scale"][0]
        assert abs(float.fromhex(real) - wanted) < 1e-6 * wanted
    for requant in enc.file["requants"]:
        for q, shift, real in zip(requant["multiplier"], requant["shift"], requant["real"], strict=True):
            assert abs(q * 2.0 ** (shift - 31) - float.fromhex(real)) <= 2.0 ** (shift - 32)
        assert 0.5 <= requant["error"] < 0.51
    enc = Encodings(digits(), path, "--pow2-requant")
    assert enc.file["pow2_requant"]
    for requant in enc.file["requants"]:
        assert set(requant["multiplier"]) == {1 << 30}
        for q, shift, real in zip(requant["multiplier"], requant["shift"], requant["real"], strict=True):
            assert q * 2.0 ** (shift - 31) == float.fromhex(real)


# ---- the config ----

def test_the_schema_has_the_keys_that_are_taken(path):
    schema = json.loads((SOURCE / "docs/config.schema.json").read_text())
    rule = schema["$defs"]["rule"]["properties"]
    places = [(schema["properties"], lambda it: it), (schema["properties"]["defaults"]["properties"], lambda it: {"defaults": it}),
              (schema["$defs"]["settings"]["properties"], lambda it: {"defaults": {"weight": it}}),
              (rule, lambda it: {"rules": [{"match": {}, **it}]}), (rule["match"]["properties"], lambda it: {"rules": [{"match": it}]})]
    every = {key for properties, _ in places for key in properties} | {"none"}
    for properties, wrap in places:
        for key in subset(sorted(every)):
            (path / "c.json").write_text(json.dumps(wrap({key: {}})))
            done = tidemark("calibrate", digits(), "-o", path / "enc.json", "--config", path / "c.json")
            assert ("unknown key" in done.err) == (key not in properties), (key, sorted(properties), done.err)


def test_operator_left_float_has_float_inputs_and_outputs(path):
    enc = Encodings(digits(), path, config={"rules": [{"match": {"op": "dense"}, "quantize": False}]})
    usual = by_default(path)
    gone = {"flat_out", "dense1_out", "relu3_out", "dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias"}
    assert usual.quantized() - enc.quantized() == gone
    behind = "dense1_out"  # Relu clips it, and dense2 reads the result
    assert "it moves or clips what Gemm 'dense1' computes" in enc.left[behind]
    assert all("rules[0]" in enc.left[name] and "dense" in enc.left[name] for name in gone - {behind})
    enc = Encodings(digits(), path, config={"rules": [{"match": {"op": "dense"}, "quantize": False},
                                                      {"match": {"op": "relu"}, "quantize": True}]})
    assert usual.quantized() - enc.quantized() == gone - {behind} and enc[behind]["role"] == "activation"


def test_first_and_last_layers_can_be_skipped(path):
    enc = Encodings(digits(), path, config={"skip_first_layer": True, "skip_last_layer": True})
    gone = by_default(path).quantized() - enc.quantized()
    assert gone == {"scale_out", "conv1.weight", "relu3_out", "dense2.weight", "dense2.bias"}
    assert "skip_first_layer" in enc.left["conv1.weight"] and "skip_last_layer" in enc.left["dense2.bias"]


def test_later_rules_win_and_match_by_anything(path):
    enc = Encodings(digits(), path, config={
        "defaults": {"quantize": False, "activation": {"dtype": "int16", "scheme": "symmetric"}},
        "rules": [{"match": {"kind": "weight"}, "quantize": True, "per_channel": False},
                  {"match": {"name": "conv?.weight"}, "quantize": False},
                  {"match": {"id": "p11"}, "quantize": True, "dtype": "int4"},
                  {"match": {"node": "softmax", "kind": "output"}, "quantize": True, "range": [0, 2]}]})
    assert enc.quantized() == {"norm1.scale", "norm2.scale", "dense1.weight", "dense2.weight", "conv2.weight",
                               "probabilities"}
    assert enc["conv2.weight"]["dtype"] == "int4" and len(enc["conv2.weight"]["scale"]) == 1
    out = enc["probabilities"]
    assert (out["dtype"], out["high"], out["method"], out["rule"]) == ("int16", [2], "given", "config")


def test_consumers_may_have_different_encodings_of_one_value(path):
    model = onnx.model([onnx.node("Relu", ["x"], ["r"], "relu"), onnx.node("Sigmoid", ["r"], ["a"], "left"),
                        onnx.node("Tanh", ["r"], ["b"], "right")], [onnx.value("x", ["N", 4])], [onnx.value("a", ["N", 4]), onnx.value("b", ["N", 4])])
    (path / "m.onnx").write_bytes(model)
    (path / "x.npy").write_bytes(npy_bytes((8, 4), [float(i - 8) for i in range(32)]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-o", path / "p.json").expect(DONE)
    enc = Encodings(path / "p.json", path, config={"rules": [{"match": {"node": "left"}, "dtype": "uint16"}]})
    special, general = enc.items["r"]
    assert (special["dtype"], special["uses"]) == ("uint16", [{"node": "left", "op": "Sigmoid", "input": 0}])
    assert general["dtype"] == "uint8" and "uses" not in general
    assert enc["a"]["dtype"] == "uint16", "what the operator makes, too"
    enc = Encodings(path / "p.json", path, config={"rules": [{"match": {"node": "left"}, "quantize": False}]})
    assert enc["r"]["uses"] == [{"node": "right", "op": "Tanh", "input": 0}]
    assert "float for Sigmoid 'left'" in enc.left["r"]


def test_requantization_exists_for_the_quantized_consumers(path):
    model = onnx.model([onnx.node("MatMul", ["x", "w"], ["y"], "dense"), onnx.node("Relu", ["y"], ["a"], "left"),
                        onnx.node("Sigmoid", ["y"], ["b"], "right")], [onnx.value("x", ["N", 2])],
                       [onnx.value("a", ["N", 2]), onnx.value("b", ["N", 2])], [onnx.tensor("w", [2, 2], [1, -2, 3, 4])])
    (path / "m.onnx").write_bytes(model)
    (path / "x.npy").write_bytes(npy_bytes((8, 2), [float(i - 8) for i in range(16)]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-o", path / "p.json").expect(DONE)
    enc = Encodings(path / "p.json", path, config={"rules": [{"match": {"node": "right"}, "quantize": False}]})
    assert enc["y"]["uses"] == [{"node": "left", "op": "Relu", "input": 0}]
    (dense,) = [r for r in enc.file["requants"] if r["op"] == "MatMul"]
    assert (dense["id"], len(dense["real"])) == (enc["y"]["id"], 2)


def test_unmatched_rule_is_reported(path):
    enc = Encodings(digits(), path, config={"rules": [{"match": {"op": "lstm"}, "quantize": False}]})
    assert "rules[0] matches nothing" in enc.done.err


def test_wrong_configs_are_refused_in_one_line(path):
    wrong = [
        ("[]", "not a JSON object"), ("{", ""), ('{"rule":[]}', "unknown key 'rule'"),
        ('{"rules":[{"match":{"opp":"Conv"}}]}', "rules[0]: 'match': unknown key 'opp'"),
        ('{"rules":[{}]}', "rules[0]: 'match'"), ('{"rules":[{"match":{},"dtype":"int9"}]}', "'int9'"),
        ('{"rules":[{"match":{},"method":"best"}]}', "no method 'best'; there are auto"),
        ('{"rules":[{"match":{},"scheme":"affine"}]}', "no scheme 'affine'"),
        ('{"rules":[{"match":{"id":"12"}}]}', "'12' is not an ID"), ('{"rules":[{"match":{"kind":"bais"}}]}', "'bais'"),
        ('{"rules":[{"match":{},"range":[2,1]}]}', "'range'"), ('{"rules":[{"match":{},"percentile":5}]}', "'percentile'"),
        ('{"rules":[{"match":{"kind":"bias"},"dtype":"int8"}]}', "a bias is int32"),
        ('{"rules":[{"match":{},"dtype":"int32"}]}', "only a bias is int32"),
        ('{"rules":[{"match":{},"quantize":1}]}', "'quantize'"), ('{"built_in":{"magic":true}}', "'magic'"),
        ('{"skip_first_layer":"yes"}', "'skip_first_layer'"), ('{"defaults":{"weight":{"x":1}}}', "'defaults': 'weight'"),
        ('{"skip_first_layer":true,"skip_first_layer":true}', "stands twice"), ("\xff", "UTF-8"),
    ]
    for text, says in wrong:
        (path / "c.json").write_bytes(text.encode("latin-1"))
        done = tidemark("calibrate", digits(), "-o", path / "enc.json", "--config", path / "c.json")
        done.refuses(BAD_INPUT, "c.json", says)
    tidemark("calibrate", digits(), "-o", path / "enc.json", "--config", path / "none.json").refuses(BAD_INPUT, "none.json")
    assert files(path) == ["c.json"]


def test_wrong_calls_are_refused_in_one_line(path):
    call = ["calibrate", digits(), "-o", path / "enc.json"]
    for words, says in ((["--method", "best"], "mse"), (["--dtype", "int9"], "int9"), (["--scheme", "x"], "symmetric"),
                        (["--percentile", 20], "above 50"), (["--percentile", 99, "--method", "mse"], "--method mse"),
                        (["--rounding", "up"], "single_half_up"), (["--weights-method", "entropy"], "auto, minmax, mse or l4")):
        tidemark(*call, *words).refuses(WRONG_CALL, says)
    tidemark("calibrate", digits()).refuses(WRONG_CALL, "-o")
    tidemark("calibrate", digits(), digits(), "-o", path / "e").refuses(WRONG_CALL, "one PROFILE")
    assert not files(path)


def test_profile_without_histograms_is_refused_with_a_hint(path):
    profile = profile_of(DIGITS, PICTURES, "--limit", 20, "--kind", "range")
    tidemark("calibrate", profile, "-o", path / "enc.json").refuses(BAD_INPUT, "scale_out", "--method minmax")
    enc = Encodings(profile, path, "--method", "minmax")
    assert "expected" not in enc["conv1_out"]


def test_damaged_profiles_do_not_crash(path):
    text, random_ = bytearray(digits().read_bytes()), random.Random(1)
    for _ in range(40):
        bad = bytearray(text)
        for _ in range(random_.choice((1, 3, 30))):
            bad[random_.randrange(len(bad))] = random_.choice(b'0199"{}[],:xp')
        (path / "bad.json").write_bytes(bad)
        done = tidemark("calibrate", path / "bad.json", "-o", path / "enc.json", "-q")
        if done.status != DONE:
            done.refuses(BAD_INPUT, "")


def test_json_equals_the_file(path):
    enc = Encodings(digits(), path, "--json")
    told = json.loads(enc.done.out)
    assert {e["name"] for e in told["encodings"]} == enc.quantized()
    assert {e["name"]: e["reason"] for e in told["left"]} == enc.left


# ---- a perceptron, which TVM's quantization leaves float ----

def write_mlp(path):
    sizes, random_ = (16, 12, 12, 10), random.Random(2)
    nodes, weights, at = [], [], "x"
    for i, (n, m) in enumerate(zip(sizes, sizes[1:]), 1):
        weights += [onnx.tensor(f"d{i}.weight", [m, n], [random_.gauss(0, 0.4) for _ in range(m * n)]),
                    onnx.tensor(f"d{i}.bias", [m], [random_.gauss(0, 0.4) for _ in range(m)])]
        nodes.append(onnx.node("Gemm", [at, f"d{i}.weight", f"d{i}.bias"], [f"sum{i}"], f"d{i}", transB=1))
        nodes.append(onnx.node("Relu", [f"sum{i}"], [f"relu{i}"], f"r{i}") if i < 3 else onnx.node("Softmax", ["sum3"], ["probs"], "classes", axis=1))
        at = f"relu{i}"
    (path / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 16])], [onnx.value("probs", ["N", 10])], weights))
    (path / "x.npy").write_bytes(npy_bytes([40, 16], [random_.random() for _ in range(640)]))


def test_the_mlp_in_int8_throughout_then_without_dense(path):
    write_mlp(path)
    profile = profile_of(path / "m.onnx", path / "x.npy")
    enc = Encodings(profile, path, config={"defaults": {"activation": {"dtype": "int8", "scheme": "symmetric"}}})
    assert not enc.left
    roles = {}
    for items in enc.items.values():
        for item in items:
            roles.setdefault((item["role"], item["dtype"]), []).append(item["name"])
    assert {key: len(names) for key, names in roles.items()} == {
        ("activation", "int8"): 7, ("weight", "int8"): 3, ("bias", "int32"): 3}
    assert [r["op"] for r in enc.file["requants"]] == ["Gemm"] * 3
    for word in ("dense", "nn.dense", "Dense", "Gemm"):
        enc = Encodings(profile, path, config={"rules": [{"match": {"op": word}, "quantize": False}]})
        floats = {"x", "relu1", "relu2"} | {f"d{i}.{p}" for i in (1, 2, 3) for p in ("weight", "bias")}
        floats |= {"sum1", "sum2"}  # Relu clips them
        assert set(enc.left) == floats and not enc.file["requants"]
        assert enc.quantized() == {"sum3", "probs"}


def test_parts_of_what_has_no_codes_have_their_own_scale(path):
    """A QDQ model has codes behind Relu, Clip and Where only if their operands have."""
    ends = [onnx.tensor(f"at{i}", [1], [i], onnx.INT64) for i in (0, 4, 8)] + [onnx.tensor("axis", [1], [1], onnx.INT64)]
    rest = [onnx.tensor("zero", [], [0.]), onnx.tensor("mask", [8], [1] * 8, onnx.BOOL),
            *(onnx.tensor(f"w{i}", [4, 4], [.1 * k - .7 for k in range(16)]) for i in range(2))]
    (path / "x.npy").write_bytes(npy_bytes([8, 8], [(1000 if k % 8 < 4 else 1) * (k % 13 - 6) for k in range(64)]))
    firsts = (("Relu", "x"), ("Clip", "x", "zero"), ("Where", "mask", "x", "zero"), ("Sigmoid", "x"))
    for op, *operands in firsts:
        nodes = [onnx.node(op, operands, ["y"], "first"),
                 *(onnx.node("Slice", ["y", f"at{4 * i}", f"at{4 * i + 4}", "axis"], [f"half{i}"], f"slice{i}") for i in range(2)),
                 *(onnx.node("MatMul", [f"half{i}", f"w{i}"], [f"z{i}"], f"product{i}") for i in range(2))]
        model = path / f"parts_{op}.onnx"
        model.write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 8])], [onnx.value(f"z{i}", ["N", 4]) for i in range(2)], ends + rest))
        enc = Encodings(profile_of(model, path / "x.npy"), path, "--method", "minmax", "--sensitive=quantize")
        scales = [enc.items[f"half{i}"][0]["scale"][0] for i in range(2)]
        assert scales[0] == scales[1] if op == "Sigmoid" else scales[0] > 900 * scales[1], (op, scales)


def test_a_rule_chooses_the_method_of_a_constant_operand(path):
    """Else it has the range that it has, whatever the method of activations; as it is, or moved."""
    nodes = [onnx.node("Identity", ["raw"], ["moved"], "move"), onnx.node("MatMul", ["x", "w"], ["y"], "product"),
             onnx.node("Mul", ["y", "factors"], ["u"], "first"), onnx.node("Mul", ["u", "moved"], ["z"], "second")]
    parts = [onnx.tensor(name, [4, 64], [1 + k % 7 + 1000 * (k == 9) for k in range(256)]) for name in ("raw", "factors")]
    (path / "constants.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", [4, 4])], [onnx.value("z", [4, 64])],
                                                     [*parts, onnx.tensor("w", [4, 64], [.1] * 256)]))
    (path / "x4.npy").write_bytes(npy_bytes([4, 4], [k - 8 for k in range(16)]))
    profile = profile_of(path / "constants.onnx", path / "x4.npy")
    rules = [{"match": {"name": name}, "percentile": 99} for name in ("factors", "moved", "raw")]
    by_rule = Encodings(profile, path, config={"rules": rules})
    for name in ("factors", "moved"):
        assert Encodings(profile, path, "--percentile", 99)[name]["high"][0] > 1000, name
        assert by_rule[name]["method"] == "percentile" and by_rule[name]["high"][0] < 8, name


main()
