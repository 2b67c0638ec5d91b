# SPDX-License-Identifier: Apache-2.0
"""The tables of `show` and `diff`: --sort, --filter, colours, and terminals of any width."""
import json
import math
import os
import re

import onnx_bytes as onnx
from cli import ANSWER_NO, DIGITS, DONE, PICTURES, WRONG_CALL, main, npy_bytes, on_terminal, skip, subset, tidemark

RED, YELLOW, BLOCKS = "\033[31m", "\033[33m", "▁▂▃▄▅▆▇█"


def profile(path, limit, data=PICTURES):
    tidemark("profile", DIGITS, "--data", data, "--limit", limit, "--quiet", "-o", path).expect(DONE)
    return path


def shown(path, *words):
    return json.loads(tidemark("show", path, "--json", *words).expect(DONE).out)


def plain(text):
    return re.sub("\033\\[[0-9]*m", "", text).replace("\r", "").splitlines()


def test_values_are_filtered(here):
    a = profile(here / "a.json", 20)
    everything = shown(a)
    for words, passes in {
        ("kind=activation",): lambda v: v["kind"] == "activation",
        ("kind!=weight", "name=relu*"): lambda v: v["kind"] != "weight" and v["name"].startswith("relu"),
        ("status=derived",): lambda v: v["status"] == "derived",
        ("op=Conv",): lambda v: v["name"] in ("conv1_out", "conv2_out"),
        ("max>4", "min<-4"): lambda v: v["max"] > 4 and v["min"] < -4,
        ("zeros>0.4",): lambda v: v["zeros"] > 0.4 * v["count"],
        ("dead-channels>0",): lambda v: v.get("dead_channels", 0) > 0,
        ("saturated>0",): lambda v: v["saturated"],
        ("nonfinite>0",): lambda v: v["nan"] + v["posinf"] + v["neginf"] > 0,
    }.items():
        wanted = [v for v in everything if passes(v)]
        options = [word for text in words for word in ("--filter", text)]
        assert shown(a, *options) == wanted, words
        assert len(tidemark("show", a, *options).out.splitlines()) == len(wanted) + 2, words
    assert len(shown(a, "--filter", "dead-channels>0")) and len(shown(a, "--filter", "op=Conv")) == 2
    assert [v["name"] for v in shown(a, "*1*", "--filter", "op=Relu")] == ["relu1_out"]
    for wrong in ("max=3", "kind>3", "colour=red", "kind", "max>many", "max>", "!=3"):
        tidemark("show", a, "--filter", wrong).refuses(WRONG_CALL, "--filter")


def test_values_are_sorted(here):
    a = profile(here / "a.json", 20)
    everything = shown(a)
    for key, order in {
        "id": lambda v: int(v["id"][1:]),
        "name": lambda v: v["name"].encode(),
        "min": lambda v: v["min"],
        "max": lambda v: -v["max"],
        "range": lambda v: v["min"] - v["max"],
        "count": lambda v: -v["count"],
        "zeros": lambda v: -v["zeros"] / v["count"],
        "std": lambda v: -v["std"],
    }.items():
        found = shown(a, "--sort", key)
        assert found == sorted(everything, key=order), key  # equal ones by ID
        lines = tidemark("show", a, "--sort", key).expect(DONE).out.splitlines()[2:]
        assert [line.split()[0] for line in lines] == [v["id"] for v in found], key
    tidemark("show", a, "--sort", "colour").refuses(WRONG_CALL, "--sort", "colour", "range")
    tidemark("show", a, "--sort", "id", "--nodes").refuses(WRONG_CALL, "--sort")


def test_differences_are_sorted_and_filtered(here):
    a, b = profile(here / "a.json", 64), profile(here / "b.json", 3)
    found = json.loads(tidemark("diff", a, b, "--json", "--all").expect(ANSWER_NO).out)
    assert found["compared"] == 29
    for key, order in {"name": lambda v: v["name"].encode(), "change": lambda v: -v["range_change"],
                       "distance": lambda v: -v["distance"], "beyond": lambda v: -v["beyond"]}.items():
        now = json.loads(tidemark("diff", a, b, "--json", "--all", "--sort", key).out)["values"]
        wanted = sorted(sorted(found["values"], key=lambda v: v["name"].encode()), key=order)
        assert now == wanted, key
    weights = json.loads(tidemark("diff", a, b, "--json", "--all", "--filter", "kind=weight").expect(DONE).out)
    assert weights["drifted"] == 0 and 0 < weights["compared"] < 29, weights
    tidemark("diff", a, b, "--filter", "name=conv?_out", "--filter", "op=Conv").expect(ANSWER_NO, "2 of 2 values differ")
    ranges = {"CLS": "TensorsData", "data": {"image": {"CLS": "TensorData", "lowest": 0, "highest": 16}}}
    (here / "cache.json").write_text(json.dumps(ranges))
    cache = here / "cache.json"
    tidemark("diff", cache, cache, "--filter", "name=image").expect(DONE, "0 of 1")
    tidemark("diff", cache, cache, "--filter", "kind=input").refuses(WRONG_CALL, "profile")
    tidemark("diff", a, cache, "--filter", "kind=input").expect(DONE, "0 of 1")
    tidemark("diff", a, b, "--sort", "colour").refuses(WRONG_CALL, "colour", "distance")


def test_differences_have_both_histograms(here):
    a, b = profile(here / "a.json", 64), profile(here / "b.json", 3)
    line = next(line for line in tidemark("diff", a, b, "--all", "--wide").out.splitlines() if " image " in line)
    # of one axis, 16 cells each: the same range has its ends in the same cells
    left, right = line[-33:-17], line[-16:]
    assert all(text[0] in BLOCKS and text[-1] in BLOCKS for text in (left, right)), line
    assert set(left + right) <= set(BLOCKS + " ") and left != right, line
    line = next(line for line in tidemark("diff", a, b, "--wide").out.splitlines() if " relu1_out " in line)
    assert line[-18] in BLOCKS and line[-2:] == "  ", f"B has nothing where A has its largest count: {line}"


def test_colours_are_for_terminals_only(here):
    spoilt = [0.0] * 64 + [math.nan] + [16.0] * 63
    (here / "nan.npy").write_bytes(npy_bytes([2, 1, 8, 8], spoilt))
    a, b = profile(here / "a.json", 20), profile(here / "b.json", 2, here / "nan.npy")
    try:
        status, said = on_terminal("show", b, columns=200)
    except OSError as error:
        skip(f"no terminal: {error}")
    red = [line for line in said.splitlines() if line.startswith(RED)]
    assert status == DONE and any(" image " in line for line in red), said
    assert all("NaN" in line for line in red) and len(red) < len(said.splitlines()) - 2, said
    status, said = on_terminal("show", a)
    yellow = [line.split()[1] for line in said.splitlines() if line.startswith(YELLOW)]
    wanted = {v["name"] for v in shown(a) if v.get("dead_channels") or v["saturated"] or v["status"] == "dead"}
    assert set(yellow) == wanted and wanted and RED not in said, said
    status, said = on_terminal("diff", a, b)
    assert status == ANSWER_NO and said.splitlines()[1].startswith(RED), said
    for words in (["show", a], ["show", b, "image"], ["diff", a, b]):
        assert "\033" in on_terminal(*words)[1] and "\033" not in tidemark(*words).out, words
        assert "\033" not in on_terminal(*words, NO_COLOR="1")[1], words
        assert "\033" not in on_terminal(*words, TERM="dumb")[1], words


def test_tables_fit_the_terminal(here):
    a, b = profile(here / "a.json", 64), profile(here / "b.json", 3)
    try:
        wide = plain(on_terminal("show", a, columns=300)[1])
    except OSError as error:
        skip(f"no terminal: {error}")
    assert wide == tidemark("show", a, "--wide").out.splitlines() == plain(on_terminal("show", a, "--wide", columns=60)[1])
    assert plain(on_terminal("show", a, columns=80)[1]) == tidemark("show", a).out.splitlines()
    assert plain(on_terminal("show", a, columns=80, COLUMNS="300")[1]) == wide
    for columns in (60, 80, 100, 132, 170):
        lines = plain(on_terminal("show", a, columns=columns)[1])
        lines = lines[next(i for i, line in enumerate(lines) if line.startswith("id ")):]
        assert len(lines) == 30 and max(map(len, lines)) <= columns, (columns, lines)
        end = lines[0].index("max") + len("max")
        for line in lines[1:]:
            assert line[end - 1] != " " and line[end:end + 1] in ("", " "), (columns, line)
        lines = plain(on_terminal("diff", a, b, columns=columns)[1])
        assert max(map(len, lines)) <= columns, (columns, lines)
        end = lines[0].index("JS") + len("JS")
        assert all(line[end - 1].isdigit() for line in lines[1:-1]), (columns, lines)


def test_why_values_differ_is_told_in_narrow_tables(here):
    """It is behind the last column, for which no room is left."""
    sides = []
    for name, first in (("a", 1.0), ("b", math.nan)):
        (here / f"{name}.npy").write_bytes(npy_bytes([4, 1, 8, 8], [first] + [1, 2, 3] * 85))
        sides.append(profile(here / f"{name}.json", 4, here / f"{name}.npy"))
    changes = {value["name"]: value.get("change") for value in json.loads(tidemark("diff", *sides, "--json").out)["values"]}
    assert changes["image"] and "NaN" in changes["image"], changes
    for columns in (40, 60, 80, 132):
        lines = tidemark("diff", *sides, env={**os.environ, "COLUMNS": str(columns)}).expect(ANSWER_NO).out.splitlines()
        assert max(map(len, lines)) <= columns, lines
        assert sum(changes["image"] in line for line in lines) >= sum(change == changes["image"] for change in changes.values()), lines


def test_texts_fit_80_columns(here):
    a = profile(here / "a.json", 64)
    commands = [["export", "--to", "help"], ["transform", "--passes", "help"], *(["show", a, v["id"]] for v in subset(shown(a)))]
    for words in commands:
        lines = tidemark(*words).expect(DONE).out.splitlines()
        assert lines and max(map(len, lines)) <= 80, (words, lines)
    data = [i / 7 for i in range(48)]
    (here / "x.npy").write_bytes(npy_bytes([6, 8], data))
    name = "a/name/that/is/long/" * 3 + "node"
    nodes = [onnx.node("Sigmoid", ["x"], ["y"], name), onnx.node("Sqrt", ["z"], ["r"])]
    nodes += [onnx.node("Neg", ["x"], [f"n{i}"]) for i in range(30)] + [onnx.node("Sum", [f"n{i}" for i in range(30)], ["z"])]
    (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 8])], [onnx.value("y", ["N", 8]), onnx.value("r", ["N", 8])]))
    (here / "x.npy").write_bytes(npy_bytes([6, 8], [float("nan")] + data[1:]))
    tidemark("profile", here / "m.onnx", "--data", here / "x.npy", "-o", here / "b.json", "--quiet").expect(DONE)
    for value in subset(shown(here / "b.json")):
        lines = tidemark("show", here / "b.json", value["id"]).expect(DONE).out.splitlines()
        assert all(len(line) <= 80 or line.strip() == f"'{name}'" for line in lines), lines


main()
