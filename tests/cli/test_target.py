# SPDX-License-Identifier: Apache-2.0
"""`--target`: tables of targets, and what calibrate, check, export and simulate make of them."""
import json
import math
import os

import onnx_bytes as onnx
from cli import ANSWER_NO, BAD_INPUT, DIGITS, DONE, PICTURES, SOURCE, WRONG_CALL, main, npy_bytes, subset, tidemark

TABLES = SOURCE / "share" / "targets"
NAMES = sorted(path.stem for path in TABLES.glob("*.json"))
CACHE = {}
OWN = {
    "format": "tidemark-target", "name": "mine", "title": "A processor of ours", "sources": {"manual": "Its manual"},
    "exports": ["csv"],
    "defaults": {"activation": ["int8 symmetric"], "weight": ["int8 symmetric", "int4 symmetric"], "bias": ["int32"],
                 "weight_scales": ["tensor"]},
    "operators": [{"op": ["Conv", "Relu"], "source": "manual"},
                  {"op": ["MaxPool"], "source": "manual", "same_scale": "input"},
                  {"op": ["MatMul"], "source": "manual", "activation": ["int16 symmetric"], "weight_scales": ["channel"]}],
}


def digits():
    """The text of a profile of the bundled network; made once."""
    if not CACHE:
        CACHE["digits"] = tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 50, "-q", "-o", "/dev/stdout").expect(DONE).out
    return CACHE["digits"]


def calibrate(path, *words):
    (path / "p.json").write_text(digits())
    return tidemark("calibrate", path / "p.json", "-o", path / "enc.json", "-q", *words)


def encodings(path):
    return json.loads((path / "enc.json").read_text())


def own_table(path, **changes):
    file = path / "mine.json"
    file.write_text(json.dumps({**OWN, **changes}))
    return file


def test_each_table_is_listed_and_names_its_sources():
    listed = tidemark("calibrate", "--target", "help").expect(DONE).out.splitlines()
    assert [line.split()[0] for line in listed] == NAMES, listed
    assert {"ort-cpu", "ort-qnn", "openvino", "tensorrt", "litert", "ncnn", "xnnpack", "ethos-u", "tvm-byoc"} <= set(NAMES)
    formats = {line.split()[0] for line in tidemark("export", "--to", "help").out.splitlines() if not line.startswith(" ")}
    for name in NAMES:
        table = json.loads((TABLES / f"{name}.json").read_text())
        assert set(table["exports"]) <= formats | {"relay"}, table["exports"]
        used = {row["source"] for row in table["operators"] + table.get("fused", [])}
        assert used == set(table["sources"]), f"{name}: {used}"


def test_a_search_keeps_to_its_target(path):
    for name in subset(("openvino", "ort-cpu", "ort-qnn")):
        calibrate(path, "--target", name).expect(DONE)
        found = json.loads(tidemark("simulate", DIGITS, path / "enc.json", "--data", PICTURES, "--limit", 8, "--search", "--profile",
                                    path / "p.json", "--target", name, "--goal", "70dB", "--budget", 30, "-o", path / "better.json", "--json",
                                    "-q").expect(DONE).out)
        assert found["chosen"] and found["after"] > found["before"], (name, found)
        tidemark("check", path / "better.json", "--target", name, "--against", DIGITS).expect(DONE)
    # without its target the same search finds what it has no kernels for
    calibrate(path, "--dtype", "int8", "--scheme", "symmetric").expect(DONE)
    tidemark("simulate", DIGITS, path / "enc.json", "--data", PICTURES, "--limit", 8, "--search", "--profile", path / "p.json", "--goal", "90dB",
             "--budget", 30, "-o", path / "better.json", "-q").expect(DONE)
    tidemark("check", path / "better.json", "--target", "tensorrt", "--against", DIGITS).expect(ANSWER_NO)


def test_each_target_allows_what_is_calibrated_for_it(path):
    for name in NAMES:
        calibrate(path, "--target", name).expect(DONE)
        assert encodings(path)["settings"]["target"] == name
        for words in ((), ("--against", DIGITS), ("--against", path / "p.json")):
            tidemark("check", path / "enc.json", "--target", name, *words).expect(DONE, ": 0 uses of codes")


def test_what_has_no_kernel_stays_float_with_the_reason(path):
    calibrate(path, "--target", "ncnn").expect(DONE)
    reasons = {left["reason"].split(" '")[0]: left["reason"] for left in encodings(path)["left"]}
    assert reasons["float for MaxPool"].endswith("ncnn has no integer kernel for it"), reasons


def test_rows_give_types_schemes_granularity_and_shared_scales(path):
    calibrate(path, "--target", own_table(path)).expect(DONE)
    made = encodings(path)
    by_role = {}
    for item in made["encodings"]:
        by_role.setdefault(item["role"], []).append(item)
    assert {item["axis"] for item in by_role["weight"] if item["name"].startswith("conv")} == {None}
    assert {item["dtype"] for item in by_role["activation"]} <= {"int8", "int16"}
    assert all(item["scheme"] == "symmetric" for item in by_role["activation"])
    tidemark("check", path / "enc.json", "--target", path / "mine.json", "--against", DIGITS).expect(DONE)


def test_products_of_few_channels_can_stay_float(path):
    def few(least, *words):
        rows = [{**row, "least_channels": least} if "Conv" in row["op"] else row for row in OWN["operators"]]
        calibrate(path, "--target", own_table(path, operators=rows), *words).expect(DONE)
        return {left["name"] for left in encodings(path)["left"] if left["reason"].endswith("is no quicker in codes of so few channels")}
    found = few(17)  # one has 1 and 16, the other 16 and 32
    assert "conv1.weight" in found and "conv2.weight" not in found, found
    assert "conv1.weight" not in few(16)
    config = path / "config.json"
    config.write_text(json.dumps({"rules": [{"match": {"op": "Conv"}, "quantize": True}]}))
    assert not few(17, "--config", config)
    config.write_text(json.dumps({"rules": [{"match": {"op": "Gemm"}, "quantize": True}]}))  # not its bias, which TensorRT has in float
    calibrate(path, "--target", "tensorrt", "--config", config).expect(DONE)
    assert "dense2.weight" in {item["name"] for item in encodings(path)["encodings"]}
    calibrate(path, "--target", own_table(path, operators=[{**OWN["operators"][0], "least_channels": "17"}])).expect(BAD_INPUT, "least_channels")


def test_check_lists_what_is_not_allowed(path):
    calibrate(path).expect(DONE)
    done = tidemark("check", path / "enc.json", "--target", "tensorrt", "--against", DIGITS).expect(ANSWER_NO)
    assert "uint8 asymmetric; tensorrt has int8 symmetric" in done.out and "Conv" in done.out, done
    told = json.loads(tidemark("check", path / "enc.json", "--target", "tensorrt", "--against", DIGITS, "--json").out)
    assert told["target"] == "tensorrt" and told["by"] == "operator" and len(told["findings"]) > 5, told
    told = json.loads(tidemark("check", path / "enc.json", "--target", "tensorrt", "--json").out)
    assert told["by"] == "type" and told["findings"], told
    calibrate(path, "--sensitive=quantize").expect(DONE)
    made = encodings(path)
    share = next(item for item in made["encodings"] if item["rule"] == "pass-through-shares")
    share["scale"] = [share["scale"][0] * 2]
    for key in ("group", "clip_min", "clip_max"):
        share.pop(key)
    (path / "other.json").write_text(json.dumps(made))
    tidemark("check", path / "other.json", "--target", "ort-cpu", "--against", DIGITS).expect(ANSWER_NO, "different scales")


def test_options_against_the_table_are_refused(path):
    calibrate(path, "--target", "ncnn", "--dtype", "int16").refuses(BAD_INPUT, "int16", "ncnn has int8 symmetric")
    assert not (path / "enc.json").exists()
    calibrate(path, "--target", "ort-cpu", "--dtype", "int8", "--scheme", "symmetric").expect(DONE)
    assert encodings(path)["settings"]["dtype"] == "int8"


def test_a_config_goes_over_the_table_and_keeps_its_numbers(path):
    config = path / "c.json"
    config.write_text(json.dumps({"rules": [{"match": {"op": "conv2d"}, "quantize": False}, {"match": {"op": "LSTM"}, "dtype": "int8"}]}))
    (path / "p.json").write_text(digits())
    done = tidemark("calibrate", path / "p.json", "-o", path / "enc.json", "--target", "ort-cpu", "--config", config).expect(DONE)
    assert "rules[1] matches nothing" in done.err and "rules[2]" not in done.err, done
    assert any("rules[0] of the config" in left["reason"] for left in encodings(path)["left"])
    config.write_text(json.dumps({"rules": [{"match": {"except_op": ["conv", "relu"]}, "quantize": False}]}))
    calibrate(path, "--config", config).expect(DONE)
    kinds = {item["name"] for item in encodings(path)["encodings"] if item["role"] == "weight"}
    assert kinds == {"conv1.weight", "conv2.weight"}, kinds


def left_and_encoded(path, target, nodes, shape, *constants):
    """Reasons of what stays float, by name, and names of what does not, of a network from x to y of one shape."""
    (path / "net.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", shape)], [onnx.value("y", shape)], constants))
    count = math.prod(shape)
    (path / "x.npy").write_bytes(npy_bytes([4, *shape[1:]], [(i * 37 % 101) / 50 - 1 for i in range(4 * count)]))
    tidemark("profile", path / "net.onnx", "--data", path / "x.npy", "-o", path / "p.json", "-q").expect(DONE)
    tidemark("calibrate", path / "p.json", "-o", path / "enc.json", "--target", target, "-q").expect(DONE)
    tidemark("check", path / "enc.json", "--target", target, "--against", path / "p.json").expect(DONE)
    return {item["name"]: item["reason"] for item in encodings(path)["left"]}, {item["name"] for item in encodings(path)["encodings"]}


def test_fused_operators_have_no_codes_between_them(path):
    """Conv, Add of another value, Relu: TensorRT computes all three in one step."""
    nodes = [onnx.node("Conv", ["x", "w"], ["c"], "conv"), onnx.node("Add", ["c", "x"], ["s"], "add"),
             onnx.node("Relu", ["s"], ["r"], "relu"), onnx.node("Conv", ["r", "w"], ["y"], "last")]
    weight = onnx.tensor("w", [16, 16, 1, 1], [0.25, -0.5, 0.125, 1.0] * 64)  # of fewer channels it leaves all float
    left, encoded = left_and_encoded(path, "tensorrt", nodes, [1, 16, 4, 4], weight)
    assert "Conv and Add in one step" in left["c"] and "Add and Relu in one step" in left["s"], left
    assert {"x", "r"} <= encoded


def test_a_product_has_no_codes_before_its_bias(path):
    """Also where biases are float: codes of what lacks its bias are no input of any kernel, and cost up to 8 dB."""
    nodes = [onnx.node("MatMul", ["x", "w"], ["p"], "product"), onnx.node("Add", ["b", "p"], ["s"], "add"),
             onnx.node("MatMul", ["s", "w"], ["q"], "last"), onnx.node("Add", ["q", "b"], ["y"], "end")]
    constants = onnx.tensor("w", [2, 2], [0.25, -0.5, 0.125, 1.0]), onnx.tensor("b", [2], [0.5, -0.25])
    for name in ("openvino", "ort-cpu"):
        left, encoded = left_and_encoded(path, name, nodes, [1, 3, 2], *constants)
        assert "the accumulator" in left["p"] and "the accumulator" in left["q"], (name, left)
        assert {"x", "s", "w"} <= encoded and ("b" in encoded) == (name == "ort-cpu"), (name, encoded)


def test_what_has_no_codes_hinders_no_target(path):
    """An operand of equal scales that is no number; arithmetic on constants, whose result is a weight."""
    constants = [onnx.tensor("w", [2, 2], [0.25, -0.5, 0.125, 1.0]), onnx.tensor("b", [2], [0.5, -0.25]),
                 onnx.tensor("none", [1], [-math.inf])]
    nodes = [onnx.node("MatMul", ["x", "w"], ["p"], "product"), onnx.node("Max", ["none", "p", "x"], ["m"], "most"),
             onnx.node("MatMul", ["w", "w"], ["c"], "constant"), onnx.node("Add", ["c", "b"], ["v"], "sum"),
             onnx.node("Add", ["m", "b"], ["s"], "add"), onnx.node("Gemm", ["s", "v"], ["y"], "last")]
    for name in NAMES:
        left, encoded = left_and_encoded(path, name, nodes, [1, 2], *constants)
        assert "none" in left and "v" in encoded, (name, left)


def test_means_have_a_scale_of_their_own_where_the_target_takes_one(path):
    nodes = [onnx.node("Conv", ["x", "w"], ["c"], "first"), onnx.node("AveragePool", ["c"], ["a"], "pool", kernel_shape=[2, 2]),
             onnx.node("Conv", ["a", "w"], ["y"], "last")]
    model = onnx.model(nodes, [onnx.value("x", [1, 1, 4, 4])], [onnx.value("y", [1, 1, 3, 3])], [onnx.tensor("w", [1, 1, 1, 1], [1.0])])
    (path / "m.onnx").write_bytes(model)
    (path / "x.npy").write_bytes(npy_bytes([1, 1, 4, 4], [(k * 7 % 16) - 8 for k in range(16)]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-q", "-o", path / "p.json").expect(DONE)
    for name, own in (("tvm-byoc", True), ("ort-qnn", True), ("litert", False), ("ethos-u", False)):
        tidemark("calibrate", path / "p.json", "--target", name, "-q", "-o", path / "enc.json").expect(DONE)
        scale = {item["name"]: item["scale"] for item in encodings(path)["encodings"] if item["role"] == "activation"}
        assert (scale["a"] < scale["c"]) == own and (own or scale["a"] == scale["c"]), (name, scale)


def test_export_takes_the_format_and_the_limits_from_the_table(path):
    calibrate(path, "--target", own_table(path)).expect(DONE)
    tidemark("export", path / "enc.json", "--target", path / "mine.json", "-o", path / "out.csv").expect(DONE, "for csv")
    calibrate(path).expect(DONE)
    tidemark("export", path / "enc.json", "--target", "ncnn", "--to", "ncnn-table", "--model", DIGITS, "-o", path / "t.table").refuses(
        BAD_INPUT, "nothing was written", "calibrate with --target ncnn")
    assert not (path / "t.table").exists()


def test_simulate_tells_what_the_target_does_not_allow(path):
    calibrate(path).expect(DONE)
    done = tidemark("simulate", DIGITS, path / "enc.json", "--data", PICTURES, "--limit", 4, "--target", "tensorrt").expect(DONE)
    assert "uses of codes that tensorrt does not allow" in done.err, done
    calibrate(path, "--target", "tensorrt").expect(DONE)
    done = tidemark("simulate", DIGITS, path / "enc.json", "--data", PICTURES, "--limit", 4, "--target", "tensorrt").expect(DONE)
    assert "does not allow" not in done.err, done


def test_tables_of_ones_own_are_found_by_name(path):
    folder = path / "tables"
    folder.mkdir()
    own_table(folder)
    (path / "p.json").write_text(digits())
    words = ("calibrate", path / "p.json", "-o", path / "enc.json", "-q", "--target", "mine")
    tidemark(*words, env={**os.environ, "TIDEMARK_TARGETS": f"{path}/none:{folder}"}).expect(DONE)
    tidemark(*words).refuses(WRONG_CALL, "there is no target 'mine'", "ort-cpu")
    tidemark(*words[:-1], "ort-cpi").refuses(WRONG_CALL, "did you mean 'ort-cpu'")


def test_constants_that_are_parameters_and_weights_of_zeros_have_a_place(path):
    nodes = [onnx.node("Mul", ["x", "zero"], ["scaled"], "mul"), onnx.node("Range", ["zero", "three", "one"], ["steps"], "range"),
             onnx.node("MatMul", ["x", "w"], ["product"], "product"), onnx.node("Add", ["scaled", "product"], ["sum"], "sum"),
             onnx.node("Add", ["sum", "steps"], ["y"], "add")]
    constants = [onnx.tensor("zero", [], [0.]), onnx.tensor("three", [], [3.]), onnx.tensor("one", [], [1.]), onnx.tensor("w", [3, 3], [0.] * 9)]
    (path / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", [1, 3])], [onnx.value("y", [1, 3])], constants))
    (path / "x.npy").write_bytes(npy_bytes([8, 3], [.5 * i - 6 for i in range(24)]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-o", path / "p.json", "-q").expect(DONE)
    for name in NAMES:
        tidemark("calibrate", path / "p.json", "--target", name, "-o", path / "enc.json", "-q").expect(DONE)
        tidemark("check", path / "enc.json", "--target", name, "--against", path / "m.onnx").expect(DONE)


def test_wrong_tables_are_refused_in_one_line(path):
    row = OWN["operators"][0]
    for changes, *texts in (
            ({"format": "x"}, "'format' is 'x'"),
            ({"more": 1}, "more"),
            ({"exports": []}, "names no format"),
            ({"defaults": {"activation": ["int9"]}}, "'defaults'", "'int9' is no type"),
            ({"defaults": {"activation": ["int8 even"]}}, "'int8 even'"),
            ({"defaults": {"activation": "int8"}}, "not a list"),
            ({"operators": [{**row, "source": "hearsay"}]}, "operators[0]", "hearsay"),
            ({"operators": [row, row]}, "operators[1]", "Conv has an entry already"),
            ({"operators": [{**row, "op": ["Relu", "Konv"]}]}, "operators[0]", "there is no operator 'Konv' (did you mean 'Conv'?)"),
            ({"fused": [{"op": ["Conv", "RELU"], "source": "manual"}]}, "fused[0]", "did you mean 'Relu'?"),
            ({"operators": [{**row, "same_scale": "some"}]}, "same_scale"),
            ({"operators": [{**row, "weight_scales": []}]}, "weight_scales"),
            ({"operators": [{**row, "op": "Conv"}]}, "op"),
            ({"operators": [{**row, "op": [1]}]}, "op"),
            ({"fused": [{"op": ["Conv"], "source": "manual"}]}, "fused[0]", "two operator types"),
            ({"config": {"rules": [{"match": {"op": 3}}]}}, "op"),
            ({"config": {"nothing": 1}}, "nothing")):
        calibrate(path, "--target", own_table(path, **changes)).refuses(BAD_INPUT, *texts)
    calibrate(path, "--target", own_table(path, operators=[{**row, "op": ["Conv", "NpuFancyPooling"]}])).expect(DONE)
    (path / "mine.json").write_text("{")
    calibrate(path, "--target", path / "mine.json").refuses(BAD_INPUT, "mine.json")
    calibrate(path, "--target", path / "none.json").refuses(BAD_INPUT, "none.json")
    tidemark("export", path / "enc.json", "-o", path / "x").expect(WRONG_CALL, "which format?")


main()
