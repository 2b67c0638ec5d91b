# SPDX-License-Identifier: Apache-2.0
"""`tidemark simulate`: the table, the object, labels, integer modes, the ranking, and what is refused."""
import json
import math
import struct
import sys
import time

import onnx_bytes as onnx
from cli import BAD_INPUT, BUNDLE, DIGITS, DONE, FEATURES, MACHINE, PICTURES, WRONG_CALL, main, npy_bytes, tidemark

LABELS = BUNDLE / "digits-labels.npy"


def start(path, *words):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 64, "--quiet", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "--quiet", "--sensitive=quantize", *words, "-o", path / "enc.json").expect(DONE)
    return path / "enc.json"


def simulate(encodings, *words):
    return tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--limit", 64, "--quiet", *words)


def read(encodings, *words):
    return json.loads(simulate(encodings, "--json", *words).expect(DONE).out)


def without_time(answer):
    return {key: value for key, value in answer.items() if key != "seconds"}


def test_report_has_every_value_and_the_accuracy(path):
    encodings = start(path)
    answer = read(encodings, "--labels", LABELS)
    quantized = {entry["id"] for entry in json.loads(encodings.read_text())["encodings"]}
    assert answer["samples"] == 64 and answer["predictions"] == 64
    assert answer["accuracy_float"] > 0.9 and answer["accuracy_quantized"] > 0.9 and answer["agreement"] > 0.9
    ids = [int(value["id"][1:]) for value in answer["values"]]
    assert ids == sorted(set(ids)) and len(ids) > 5
    for value in answer["values"]:
        assert value["quantized"] <= (value["id"] in quantized), value
        assert value["sqnr"] is None or 10 < value["sqnr"] < 200, value
        assert 0.9 < value["cosine"] < 1.0001 and value["max_error"] >= 0 and 0 <= value["clipped"] < 0.1, value
    assert any(value["output"] for value in answer["values"]) and any(value["weight"] for value in answer["values"])
    done = simulate(encodings, "--labels", LABELS, "--sort").expect(DONE, "SQNR dB", "accuracy: float", "same class")
    worst = [float(line[52:61]) for line in done.out.splitlines()[1:4]]
    assert worst == sorted(worst), done


def test_shares_have_intervals(path):
    """Wilson's of one share, Newcombe's of the difference of two, which are not 0 wide where no class changes."""
    answer = read(start(path), "--labels", LABELS)
    n, z = answer["predictions"], 1.959964

    def wilson(share):
        middle, half = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)

    low, high = answer["agreement_interval"]
    assert all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip((low, high), wilson(answer["agreement"]), strict=True))
    low, high = answer["accuracy_interval"]
    assert low < answer["accuracy_quantized"] - answer["accuracy_float"] < high and high - low > 0.02, answer["accuracy_interval"]


def test_integer_outputs_are_classes(path):
    """As a classifier of scikit-learn has them: classes first, which ArgMax and Gather make of probabilities."""
    weights = [1, 0, 0, 0, 1, 0, 0, 0, 1]
    nodes = [onnx.node("MatMul", ["x", "w"], ["p"], "product"), onnx.node("ArgMax", ["p"], ["i"], "best", axis=1, keepdims=0),
             onnx.node("Gather", ["names", "i"], ["label"], "name")]
    weights = [onnx.tensor("w", [3, 3], weights), onnx.tensor("names", [3], [5, 7, 9], onnx.INT64)]
    x, label, p = onnx.value("x", ["N", 3]), onnx.value("label", ["N"], onnx.INT64), onnx.value("p", ["N", 3])
    (path / "m.onnx").write_bytes(onnx.model(nodes, [x], [label, p], weights))
    (path / "x.npy").write_bytes(npy_bytes([8, 3], [1, 0, 0, 0, 1, 0, 0, 0, 1, 3, 1, 2] * 2))
    write_npy(path / "labels.npy", [5, 7, 9, 9, 5, 7, 9, 5])
    words = ["--data", path / "x.npy", "--labels", path / "labels.npy"]
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-q", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "-q", "-o", path / "enc.json").expect(DONE)
    answer = json.loads(tidemark("simulate", path / "m.onnx", path / "enc.json", *words, "--json").expect(DONE).out)
    assert answer["accuracy_float"] == answer["accuracy_quantized"] == 7 / 8 and answer["agreement"] == 1, answer
    tidemark("quantize", path / "m.onnx", *words, "-o", path / "q.onnx").expect(DONE, "accuracy")
    # Labels that nothing can be compared with are an error.
    last = onnx.node("ReduceSum", ["p", "last"], ["y"], "sum", keepdims=0)
    weights.append(onnx.tensor("last", [1], [1], onnx.INT64))
    (path / "m.onnx").write_bytes(onnx.model([nodes[0], last], [x], [onnx.value("y", ["N"])], weights))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-q", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "-q", "-o", path / "enc.json").expect(DONE)
    for command in (["simulate", path / "m.onnx", path / "enc.json"], ["quantize", path / "m.onnx", "-o", path / "r.onnx"]):
        tidemark(*command, *words).refuses(BAD_INPUT, "float32[1]", "has no classes that labels could be compared with")
    assert not (path / "r.onnx").exists()
    simulate_search = ["--search", "--profile", path / "p.json", "-o", path / "better.json"]
    tidemark("simulate", path / "m.onnx", path / "enc.json", *words, *simulate_search).refuses(BAD_INPUT, "has no classes")


def test_pixels_have_classes_where_labels_say_so(path):
    """[N, classes, height, width], as networks that classify pixels answer; of [N, 1, height, width] and the like there are none."""
    def prepare(name, channels, weights):
        node = onnx.node("Conv", ["x", "w"], ["y"], "classify")
        (path / f"{name}.onnx").write_bytes(onnx.model([node], [onnx.value("x", ["N", 2, 2, 3])], [onnx.value("y", ["N", channels, 2, 3])],
                                                       [onnx.tensor("w", [channels, 2, 1, 1], weights)]))
        tidemark("profile", path / f"{name}.onnx", "--data", path / "x.npy", "-q", "-o", path / "p.json").expect(DONE)
        tidemark("calibrate", path / "p.json", "-q", "-o", path / f"{name}.json").expect(DONE)
        return ["simulate", path / f"{name}.onnx", path / f"{name}.json", "--data", path / "x.npy", "--json"]
    first, second = [9, 1, 2, 8, 3, 4], [1, 5, 6, 2, 7, 7]
    (path / "x.npy").write_bytes(npy_bytes([2, 2, 2, 3], first + second + second + first))
    pixels = prepare("pixels", 2, [1, 0, 0, 1])
    best = [int(b > a) for a, b in [*zip(first, second), *zip(second, first)]]
    (path / "labels.npy").write_bytes(npy_bytes([2, 2, 3], [1 - best[0], *best[1:]], kind="<i4"))
    answer = json.loads(tidemark(*pixels, "--labels", path / "labels.npy").expect(DONE).out)
    assert round(answer["accuracy_float"] * 12, 6) == round(answer["accuracy_quantized"] * 12, 6) == 11 and answer["agreement"] == 1, answer
    assert "agreement" not in json.loads(tidemark(*pixels).expect(DONE).out)
    mask = prepare("mask", 1, [1, -1])
    assert "agreement" not in json.loads(tidemark(*mask).expect(DONE).out)
    (path / "few.npy").write_bytes(npy_bytes([2, 5], [0] * 10, kind="<i4"))
    tidemark(*pixels, "--labels", path / "few.npy").refuses(BAD_INPUT, "float32[1,2,2,3]", "(5 a sample)")


def test_rows_have_classes_where_they_are_scores(path):
    """[N, T, C]: a decoder's logits, not the hidden states that other networks give in this shape; labels decide in any case."""
    width = 4
    tensors = {"w": onnx.tensor("w", [width, width], [math.sin(i * i) for i in range(16)]), "b": onnx.tensor("b", [width], [1, 2, 3, 4]),
               "two": onnx.tensor("two", [1], [2])}
    first = onnx.node("MatMul", ["x", "w"], ["p"], "product")
    cases = {
        "logits": ([onnx.node("Add", ["b", "p"], ["y"])], True),
        "softmax": ([onnx.node("Add", ["p", "b"], ["q"]), onnx.node("Softmax", ["q"], ["r"]), onnx.node("Identity", ["r"], ["y"])], True),
        "softcap": ([onnx.node("Div", ["p", "two"], ["q"]), onnx.node("Tanh", ["q"], ["r"]), onnx.node("Mul", ["two", "r"], ["y"])], True),
        "norm": ([onnx.node("LayerNormalization", ["p", "b"], ["y"])], False),
        "residual": ([onnx.node("Add", ["x", "p"], ["y"])], False),
        "boxes": ([onnx.node("Concat", ["p", "p"], ["y"], axis=1)], False),
    }
    (path / "x.npy").write_bytes(npy_bytes([4, 2, width], [math.cos(3 * i) for i in range(8 * width)]))
    for name, (nodes, have) in cases.items():
        words = b"".join(nodes)
        (path / "m.onnx").write_bytes(onnx.model([first, *nodes], [onnx.value("x", ["N", 2, width])], [onnx.value("y", ["N", "T", width])],
                                                 [tensor for key, tensor in tensors.items() if key == "w" or onnx.block(1, key) in words]))
        tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-q", "-o", path / "p.json").expect(DONE)
        tidemark("calibrate", path / "p.json", "--sensitive=quantize", "-q", "-o", path / "e.json").expect(DONE)
        run = ["simulate", path / "m.onnx", path / "e.json", "--data", path / "x.npy", "--json"]
        assert ("agreement" in json.loads(tidemark(*run).expect(DONE).out)) == have, name
        rows = 4 if name == "boxes" else 2
        (path / "l.npy").write_bytes(npy_bytes([4, rows], [0] * 4 * rows, kind="<i4"))
        assert json.loads(tidemark(*run, "--labels", path / "l.npy").expect(DONE).out)["predictions"] == 4 * rows, name


def test_biases_of_products_with_three_axes_are_compared(path):
    """QDQ files give them the rank of the product."""
    numbers = [0.5, -1, 2, 0.25, 1, -2, 3, -0.5, 1]
    model = onnx.model([onnx.node("MatMul", ["x", "w"], ["p"], "product"), onnx.node("Add", ["p", "b"], ["s"], "sum"),
                        onnx.node("MatMul", ["s", "w"], ["q"], "later"), onnx.node("Add", ["q", "b"], ["y"], "last")],
                       [onnx.value("x", ["N", 2, 3])], [onnx.value("y", ["N", 2, 3])],
                       [onnx.tensor("w", [3, 3], numbers), onnx.tensor("b", [3], [1, 2, 3])])
    (path / "m.onnx").write_bytes(model)
    (path / "x.npy").write_bytes(npy_bytes([4, 2, 3]))
    tidemark("profile", path / "m.onnx", "--data", path / "x.npy", "-q", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "-q", "-o", path / "enc.json").expect(DONE)
    done = tidemark("simulate", path / "m.onnx", path / "enc.json", "--data", path / "x.npy").expect(DONE)
    biases = [line.split() for line in done.out.splitlines() if line.split()[1:2] == ["b"]]
    assert biases and all(words[-1] == "weight" for words in biases) and "another shape" not in done.err, done


def test_integer_modes_and_threads_agree(path):
    encodings = start(path)
    fixed = read(encodings, "--requant", "fixed", "--threads", 1)
    assert without_time(fixed) == without_time(read(encodings, "--integer", "--threads", 3))
    alone = fixed["against_float_requantization"]["alone"]
    assert alone["codes"] > 64 and alone["largest_difference"] <= 1 and alone["equal"] > 0.99, alone
    for rounding in ("single_half_up", "single_half_away", "gemmlowp_double"):
        alone = read(encodings, "--rounding", rounding)["against_float_requantization"]["alone"]
        assert alone["largest_difference"] <= 1, (rounding, alone)
    floats = read(encodings, "--requant", "float")
    assert "against_float_requantization" not in floats
    assert all("stays float" in line for line in floats["remarks"])
    said = tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--limit", 8, "--integer").expect(DONE)
    assert all(line in said.err for line in floats["remarks"]), said


def test_power_of_two_scales_requantize_within_one_code(path):
    encodings = start(path, "--pow2")
    alone = read(encodings, "--requant", "pow2")["against_float_requantization"]["alone"]
    assert alone["largest_difference"] <= 1, alone


def test_ranking_starts_with_the_largest_error(path):
    encodings = start(path)
    answer = json.loads(simulate(encodings, "--rank", "--json").expect(DONE).out)
    costs = [value["sqnr"] if value["sqnr"] is not None else 1e9 for value in answer["ranking"]]
    assert costs == sorted(costs) and costs[0] < 100 and answer["not_tried"] == 0
    few = json.loads(simulate(encodings, "--rank=3", "--json").expect(DONE).out)
    assert len(few["ranking"]) == 3 and few["not_tried"] == len(costs) - 3
    simulate(encodings, "--rank=3").expect(DONE, "outputs' dB", "each value quantized alone")


def test_search_improves_the_encodings(path):
    encodings, better = start(path), path / "better.json"
    words = ["--search", "--profile", path / "p.json", "-o", better, "--json"]
    found = json.loads(simulate(encodings, *words, "--budget", 12).expect(DONE).out)
    assert found["tried"] == 12 and found["samples"] == 64 and found["chosen"] > 0 and found["after"] > found["before"]
    document = json.loads(better.read_text())
    assert "12 tried on 64 samples" in document["settings"]["search"] and "config" not in document["settings"]
    outputs = [[value["sqnr"] for value in read(which)["values"] if value["output"]] for which in (encodings, better)]
    assert abs(outputs[0][0] - found["before"]) < 1e-6 and abs(outputs[1][0] - found["after"]) < 1e-6, (outputs, found)
    (path / "config.json").write_text(json.dumps({"rules": [{"match": {"op": "Softmax"}, "quantize": False}]}))
    simulate(encodings, *words, "--config", path / "config.json").refuses(BAD_INPUT, "other encodings than these")
    simulate(encodings, "--search", "-o", better).refuses(WRONG_CALL, "--profile and -o")


def test_search_starts_with_groups_and_judges_each_half_by_the_other(path):
    encodings, better, config = start(path), path / "better.json", path / "found.json"
    words = ["--search", "--profile", path / "p.json", "-o", better, "--write-config", config]
    done = tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--limit", 64, *words)
    done.expect(DONE, "what calibrate does by default: auto, also of weights", "8-bit products", "by the first half of the samples alone",
                "chosen by 64 samples of --data, from 0", "cross-validated, 2 folds: samples before 32")
    found = json.loads(simulate(encodings, *words, "--json").expect(DONE).out)
    assert (found["samples"], found["from"], found["judged"], found["judged_from"], found["judged_by"]) == (64, 0, 64, 0, "crossed")
    assert found["judged_before"] == found["before"] < found["judged_after"]
    points = found["points"]
    assert len(points) == found["chosen"] + 1 and points[0]["share8"] == 1 and points[-1]["front"]
    assert abs(points[-1]["sqnr"] - found["after"]) < 1e-6 and points[0]["bytes"] <= points[-1]["bytes"]
    front = [point for point in points if point["front"]]
    for here, there in zip(front, front[1:]):  # each has more decibels, and costs more
        assert there["sqnr"] > here["sqnr"] and (there["bytes"] > here["bytes"] or there["share8"] < here["share8"])
    assert f"{points[-1]['sqnr']:.2f}" in done.out
    # the config alone makes the same encodings
    tidemark("calibrate", path / "p.json", "-q", "--model", DIGITS, "--config", config, "-o", path / "again.json").expect(DONE)
    one, two = (json.loads(file.read_text())["encodings"] for file in (better, path / "again.json"))
    assert one == two
    few = json.loads(tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--limit", 3, *words, "--budget", 1, "--json").expect(DONE).out)
    assert (few["judged_by"], few["judged"], few["judged_after"]) == ("not", 0, None)


def test_search_halves_are_judged_by_what_the_other_half_chose(path):
    encodings = start(path)
    common = ["--search", "--profile", path / "p.json", "--budget", 8, "--json", "-q"]
    both = json.loads(tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--limit", 16, *common, "-o", path / "a.json").expect(DONE).out)
    noise = 0
    for first, second in ((0, 8), (8, 0)):  # the half that is judged, the half that chooses
        tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--skip", second, "--limit", 8, *common, "-o", path / "half.json").expect(DONE)
        done = tidemark("simulate", DIGITS, path / "half.json", "--data", PICTURES, "--skip", first, "--limit", 8, "--json", "-q").expect(DONE)
        noise += 10 ** (-[v["sqnr"] for v in json.loads(done.out)["values"] if v["output"]][0] / 10) / 2
    # the squares of both halves differ a little
    assert abs(both["judged_after"] - -10 * math.log10(noise)) < 1, (both, noise)


def test_search_without_a_goal_keeps_what_calibrate_makes_where_changes_lose_on_other_samples(path):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 4, "--quiet", "-o", path / "p.json").expect(DONE)
    dropped = 0
    for sensitive, skip, limit in (("float", 40, 4), ("float", 100, 6), ("quantize", 40, 4)):
        tidemark("calibrate", path / "p.json", "-q", f"--sensitive={sensitive}", "-o", path / "enc.json").expect(DONE)
        words = ["--search", "--profile", path / "p.json", "--skip", skip, "--limit", limit, "-o", path / "b.json", "--json"]
        for own in ([], ["--search-data", PICTURES])[:1 + (skip == 100)]:
            done = tidemark("simulate", DIGITS, path / "enc.json", "--data", PICTURES, *words, *own).expect(DONE)
            found = json.loads(done.out)
            same, result = (json.loads((path / name).read_text()) for name in ("enc.json", "b.json"))
            if not own:
                assert found["judged_after"] >= found["judged_before"] - 0.3, found
            assert len(found["points"]) == found["chosen"] + 1 and abs(found["points"][-1]["sqnr"] - found["after"]) < 1e-6
            assert found["chosen"] or same["encodings"] == result["encodings"]
            if "changes dropped" in done.err:
                assert found["chosen"] == (found["after"] > found["before"]) and "changes dropped" in result["settings"]["search"]
                dropped += 1
    assert dropped >= 2, dropped


def test_search_ends_at_a_goal_and_takes_samples_of_its_own(path):
    encodings, better = start(path), path / "better.json"
    words = ["--search", "--profile", path / "p.json", "-o", better, "--json"]
    all_of_it = json.loads(simulate(encodings, *words).expect(DONE).out)
    goal = (all_of_it["before"] + all_of_it["after"]) / 2
    some = json.loads(simulate(encodings, *words, "--goal", f"{goal}dB").expect(DONE).out)
    assert goal <= some["after"] <= all_of_it["after"] and some["tried"] < all_of_it["tried"]
    reached = json.loads(simulate(encodings, *words, "--goal", "1").expect(DONE).out)
    assert (reached["tried"], reached["chosen"], reached["before"]) == (0, 0, reached["after"])
    # more than what is worth its cost: as few values as it takes in 16 bits, then in float
    high = json.loads(simulate(encodings, *words, "--goal", f"{all_of_it['after'] + 8}dB").expect(DONE).out)
    assert high["after"] >= all_of_it["after"] + 8 and high["points"][-1]["share8"] < all_of_it["points"][-1]["share8"], (high, all_of_it)
    own = json.loads(simulate(encodings, *words, "--search-data", PICTURES, "--goal", "1dB").expect(DONE).out)
    assert (own["judged"], own["judged_from"], own["judged_by"]) == (64, 0, "data") and own["judged_before"] == own["before"]
    for text in ("-3dB", "high", "30 percent", "accuracy", "accuracy+1%", "accuracy-0.5", "0dB"):
        simulate(encodings, *words, "--goal", text).refuses(WRONG_CALL, "accuracy-0.5%")
    simulate(encodings, "--goal", "30dB").refuses(WRONG_CALL, "go with --search")


def test_search_for_a_goal_returns_products_to_8_bits(path):
    encodings, better = start(path, "--method", "mse"), path / "better.json"
    words = ["--search", "--profile", path / "p.json", "-o", better, "--search-data", PICTURES, "--goal", "62.5dB", "--json"]
    found = json.loads(simulate(encodings, *words).expect(DONE).out)
    first, last = (json.loads(file.read_text()) for file in (encodings, better))
    shares = [point["share8"] for point in found["points"]]
    assert found["after"] >= 62.5 and shares[-1] > min(shares) and "; operands of " in last["settings"]["search"], found
    types = {item["id"]: item["dtype"] for item in first["encodings"]}
    for item in last["encodings"]:
        assert item["dtype"] in (types[item["id"]], "uint16", "int16", "int32"), item


def test_search_knows_what_calibrate_does_by_default(path):
    encodings, better = start(path, "--method", "percentile", "--percentile", 90), path / "better.json"
    words = ["--search", "--profile", path / "p.json", "-o", better, "--write-config", path / "found.json", "--json"]
    found = json.loads(simulate(encodings, *words, "--budget", 2).expect(DONE).out)
    assert "what calibrate does by default: auto, also of weights" in json.loads(better.read_text())["settings"]["search"]
    tidemark("calibrate", path / "p.json", "-q", "--model", DIGITS, "-o", path / "default.json").expect(DONE)
    default = [value["sqnr"] for value in read(path / "default.json")["values"] if value["output"]]
    assert found["before"] < default[0] - 1 and abs(found["after"] - default[0]) < 1e-6, (found, default)
    tidemark("calibrate", path / "p.json", "-q", "--model", DIGITS, "--config", path / "found.json", "-o", path / "again.json").expect(DONE)
    one, two = (json.loads(file.read_text())["encodings"] for file in (path / "default.json", path / "again.json"))
    assert one == two


def test_search_ends_when_its_time_is_spent(path):
    encodings, better = start(path), path / "better.json"
    words = ["--search", "--profile", path / "p.json", "-o", better, "--json"]
    late = json.loads(simulate(encodings, *words, "--budget", "0.001s").expect(DONE).out)
    assert (late["out_of_time"], late["tried"], late["after"]) == (True, 0, late["before"])
    assert json.loads(simulate(encodings, *words, "--budget", "3,60s").expect(DONE).out)["tried"] == 3
    for text in ("0", "many", "1.5", "10s,20s", "5,", "-1s", "5,6"):
        simulate(encodings, *words, "--budget", text).refuses(WRONG_CALL, "128,60s")


def test_search_goes_by_accuracy(path):
    # all of the network's range in few codes: classes get lost
    (path / "bad.json").write_text(json.dumps({"sensitive": "quantize", "rules": [{"match": {"kind": "input"}, "range": [0, 0.05]},
                                                                                  {"match": {"op": "Softmax"}, "range": [0, 0.01]}]}))
    start(path)
    encodings, better = path / "e.json", path / "better.json"
    tidemark("calibrate", path / "p.json", "-q", "--config", path / "bad.json", "-o", encodings).expect(DONE)
    words = ["--search", "--profile", path / "p.json", "-o", better, "--config", path / "bad.json"]
    found = json.loads(simulate(encodings, *words, "--labels", LABELS, "--goal", "accuracy-0.5%", "--json").expect(DONE).out)
    accuracy = found["accuracy"]
    assert accuracy["before"] < accuracy["float"] - 0.05 and accuracy["after"] >= accuracy["float"] - 0.005, accuracy
    assert found["points"][0]["judged"] == accuracy["before"] and found["points"][-1]["judged"] == accuracy["after"]
    seen = read(better, "--labels", LABELS)
    assert (seen["accuracy_float"], seen["accuracy_quantized"]) == (accuracy["float"], accuracy["after"])
    simulate(encodings, *words, "--labels", LABELS, "--budget", 1).expect(DONE)
    shown = tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--limit", 64, *words, "--labels", LABELS, "--budget", 1)
    shown.expect(DONE, "accuracy: ", "95% within")
    simulate(encodings, *words, "--goal", "accuracy-1%").refuses(BAD_INPUT, "there are no labels")
    simulate(encodings, *words, "--labels", LABELS, "--search-data", PICTURES).refuses(WRONG_CALL, "labels of one set of data")


METRIC = """
import os, sys
import struct
data = sys.stdin.buffer.read()
assert data[:8] == b"\\x93NUMPY\\x01\\x00", data[:8]
size = struct.unpack("<H", data[8:10])[0]
header = data[10:10 + size].decode()
count, classes = eval(header)["shape"]
values = struct.unpack(f"<{{count * classes}}f", data[10 + size:])
assert count == int(os.environ["TIDEMARK_SAMPLES"]), header
first = int(os.environ["TIDEMARK_FIRST"])
assert os.environ["TIDEMARK_DATA"].endswith("digits.npy")
labels = {labels}[first:first + count]
right = sum(max(range(classes), key=lambda c: values[i * classes + c]) == labels[i] for i in range(count))
print(right / count)
"""


def test_search_goes_by_the_number_of_a_command(path):
    encodings, better = start(path), path / "better.json"
    raw = LABELS.read_bytes()
    size = struct.unpack("<H", raw[8:10])[0]
    assert "'<i8'" in raw[10:10 + size].decode() or "'<i4'" in raw[10:10 + size].decode(), raw[:80]
    code = "q" if "'<i8'" in raw[10:10 + size].decode() else "i"
    labels = list(struct.unpack(f"<{len(raw[10 + size:]) // struct.calcsize(code)}{code}", raw[10 + size:]))
    (path / "metric.py").write_text(METRIC.format(labels=labels))
    words = ["--search", "--profile", path / "p.json", "-o", better]
    command = f"{sys.executable} {path / 'metric.py'}"
    by_metric = json.loads(simulate(encodings, *words, "--metric-command", command, "--budget", 3, "--json").expect(DONE).out)
    by_labels = json.loads(simulate(encodings, *words, "--labels", LABELS, "--budget", 3, "--json").expect(DONE).out)
    assert by_metric["metric"] == by_labels["accuracy"] and by_metric["after"] == by_labels["after"], (by_metric, by_labels)
    assert by_metric["points"][0]["judged"] == by_metric["metric"]["before"]
    at_once = json.loads(simulate(encodings, *words, "--metric-command", "echo 1", "--goal", "metric-1%", "--json").expect(DONE).out)
    assert at_once["tried"] == 0 and at_once["metric"]["float"] == 1
    tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--limit", 8, *words, "--metric-command", "echo 2.5", "--budget", 1).expect(
        DONE, "metric: 2.5 before, 2.5 after, 2.5 in float")
    for text, message in (("exit 4", "--metric-command: ended with status 4"), ("echo high", "it printed 'high', and not one number"),
                          ("echo 1 2", "it printed '1 2'"), ("true", "it printed ''"), ("kill -9 $$", "ended by signal 9"),
                          ("echo nan", "the metric is nan"), ("cat", "and not one number")):
        simulate(encodings, *words, "--metric-command", text).refuses(BAD_INPUT, message)
    begin = time.monotonic()
    simulate(encodings, *words, "--metric-command", "sleep 60 | cat", "--metric-timeout", "0.3").refuses(BAD_INPUT, "no answer after 0.3 s")
    assert time.monotonic() - begin < 30
    simulate(encodings, *words, "--goal", "metric-1%").refuses(WRONG_CALL, "takes --metric-command")
    for option in ("-o", "--write-config"):  # before anything is tried
        simulate(encodings, *words, "--metric-command", "false", option, path / "none" / "f.json").refuses(MACHINE, "none/f.json")
    simulate(encodings, "--metric-command", "echo 1").refuses(WRONG_CALL, "go with --search")
    simulate(encodings, *words, "--metric-command", "echo 1", "--metric-timeout", "-1").refuses(WRONG_CALL, "metric-timeout")


def write_npy(path, values):
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (117 - len(header)) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}i", *values))


def test_usage_errors_and_bad_files_are_refused(path):
    encodings = start(path)
    tidemark("simulate", DIGITS).refuses(WRONG_CALL, "which encodings?")
    simulate(encodings, "--requant", "exact").refuses(WRONG_CALL, "float, fixed or pow2")
    simulate(encodings, "--rounding", "up").refuses(WRONG_CALL, "no rounding 'up'")
    simulate(path / "none.json").refuses(BAD_INPUT, "none.json")
    simulate(encodings, "--labels", "classes").refuses(BAD_INPUT, "'classes'")
    write_npy(path / "few.npy", [1, 2, 3])
    simulate(encodings, "--labels", path / "few.npy").refuses(BAD_INPUT, "labels for 3 samples only")
    document = json.loads(encodings.read_text())
    document["encodings"][0]["fingerprint"] = "0123456789abcdef"
    (path / "other.json").write_text(json.dumps(document))
    simulate(path / "other.json").refuses(BAD_INPUT, "another model")


if "late-signals" in FEATURES:  # ThreadSanitizer: whatever starts threads in its own way, once
    main({test.__name__: test for test in (test_integer_modes_and_threads_agree, test_ranking_starts_with_the_largest_error,
                                           test_search_improves_the_encodings)})
if "sanitized" in FEATURES:  # searches that do what those of the other tests do, and are looked at more closely
    del test_search_starts_with_groups_and_judges_each_half_by_the_other, test_search_ends_at_a_goal_and_takes_samples_of_its_own
main()
