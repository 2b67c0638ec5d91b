# SPDX-License-Identifier: Apache-2.0
"""`tidemark simulate`: the table, the object, labels, integer modes, the ranking, and what is refused."""
import json
import struct

from cli import BAD_INPUT, BUNDLE, DIGITS, DONE, PICTURES, WRONG_CALL, main, tidemark

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


def test_search_starts_with_groups_and_judges_on_other_samples(path):
    encodings, better, config = start(path, "--method", "mse"), path / "better.json", path / "found.json"
    words = ["--search", "--profile", path / "p.json", "-o", better, "--write-config", config]
    done = tidemark("simulate", DIGITS, encodings, "--data", PICTURES, "--limit", 64, *words)
    done.expect(DONE, "what stays float by default: float", "judged on 64 other samples, from number 64 of", "8-bit products")
    found = json.loads(simulate(encodings, *words, "--json").expect(DONE).out)
    assert (found["judged"], found["judged_from"]) == (64, 64) and found["judged_after"] > found["judged_before"]
    points = found["points"]
    assert len(points) == found["chosen"] + 1 and points[0]["share8"] == 1 and points[-1]["front"]
    assert abs(points[-1]["sqnr"] - found["after"]) < 3 and points[0]["bytes"] <= points[-1]["bytes"]
    for here, there in zip(points, points[1:]):  # of the front: each has more decibels, or costs less
        assert there["sqnr"] > here["sqnr"]
    assert f"{points[-1]['sqnr']:.2f}" in done.out
    # the config alone makes the same encodings
    tidemark("calibrate", path / "p.json", "-q", "--config", config, "-o", path / "again.json").expect(DONE)
    one, two = (json.loads(file.read_text())["encodings"] for file in (better, path / "again.json"))
    assert one == two


def test_search_ends_at_a_goal_and_takes_samples_of_its_own(path):
    encodings, better = start(path), path / "better.json"
    words = ["--search", "--profile", path / "p.json", "-o", better, "--json"]
    all_of_it = json.loads(simulate(encodings, *words).expect(DONE).out)
    goal = (all_of_it["before"] + all_of_it["after"]) / 2
    some = json.loads(simulate(encodings, *words, "--goal", f"{goal}dB").expect(DONE).out)
    assert goal <= some["after"] <= all_of_it["after"] and some["tried"] < all_of_it["tried"]
    reached = json.loads(simulate(encodings, *words, "--goal", "1").expect(DONE).out)
    assert (reached["tried"], reached["chosen"], reached["before"]) == (0, 0, reached["after"])
    own = json.loads(simulate(encodings, *words, "--search-data", PICTURES, "--goal", "1dB").expect(DONE).out)
    assert (own["judged"], own["judged_from"]) == (64, 0) and own["judged_before"] == own["before"]
    for text in ("-3dB", "high", "30 percent"):
        simulate(encodings, *words, "--goal", text).refuses(WRONG_CALL, "decibels")
    simulate(encodings, "--goal", "30dB").refuses(WRONG_CALL, "go with --search")


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


main()
