# SPDX-License-Identifier: Apache-2.0
"""Values called like markup, formulas, escape sequences and paths: what every command prints and writes about them."""
import csv
import html.parser
import json
import struct

import onnx_bytes as onnx
from cli import ANSWER_NO, BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, main, npy_bytes, on_terminal, subset, tidemark

NAMES = ["<script>alert(1)</script>", "</script><!--<script>", "=cmd|' /C calc'!A0", "\x1b[31mred\x1b[0m\x1b]0;title\x07", "\u202eevil\u202c",
         "\u2066x\u2069", "\x9b31m", "new\nline", "tab\there", "return\rhere", "quo\"te's", "back\\slash", "- item: !!python/object:x", "{a: b}", "# c",
         "&amp;", "%s%n%d", "a,b;c", "../x", "/etc/x", ".", "  blank  ", '"]; evil [label="', "{<|>}", "~", "null", "1e5", "@at", " ", "-", "+1",
         "x" * 300, "]]>", "%1 = Neg(%0)", "\ufeffmark"]
LAST, FREE = "out\x1b[2J<i>", "N\x1b[31m<d>"
TURNS = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
SUFFIX = {"mnn": ".json", "qdq": ".onnx"}


def write_model(path):
    nodes, last = [], "x"
    for i, name in enumerate(NAMES):
        nodes.append(onnx.node(("Neg", "Relu", "Sigmoid", "Abs")[i % 4], [last], [name], name + "!"))
        last = name
    nodes.append(onnx.node("MatMul", [last, "w<b>\n=1"], [LAST]))
    path.write_bytes(onnx.model(nodes, [onnx.value("x", [FREE, 4])], [onnx.value(LAST, [FREE, 4])],
                                [onnx.tensor("w<b>\n=1", [4, 4], [.5] * 16)]))


def harmless(text):
    return not [c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0" or c in TURNS or "\udc80" <= c <= "\udcff"]


def run(*words, statuses=(DONE,)):
    done = tidemark(*words)
    assert done.status in statuses, done
    assert harmless(done.out) and harmless(done.err), done
    return done


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.tags, self.handlers = [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on")]


def prepare(here):
    model, data, profile = here / "m.onnx", here / "x.bin", here / "p.json"
    write_model(model)
    data.write_bytes(struct.pack("<16f", *[i / 8 - 1 for i in range(16)]))
    run("profile", model, "--data", data, "-o", profile)
    return model, data, profile


def test_output_has_no_control_characters(here):
    model, data, profile = prepare(here)
    run("graph", model), run("graph", model, "--dot"), run("graph", model, "--ops")
    run("show", profile), run("show", profile, "--nodes"), run("check", profile), run("diff", profile, profile)
    for name in NAMES:
        run("show", profile, "--", name, statuses=(DONE, BAD_INPUT))
    run("calibrate", profile, "--sensitive=quantize", "-o", here / "e.json")
    run("simulate", model, here / "e.json", "--data", data)
    run("instrument", model, "-o", here / "i.onnx"), run("graph", here / "i.onnx")
    run("transform", model, "--passes", "all", "-o", here / "t.onnx", "--lineage", here / "l.json")
    run("graph", here / "t.onnx", "--lineage", here / "l.json", statuses=(DONE, BAD_INPUT))
    run("link", profile, here / "t.onnx", "-o", here / "k.json", statuses=(DONE, ANSWER_NO))
    run("profile", here / "missing\x1b[31m\u202e.onnx", "--data", data, "-o", here / "q.json", statuses=(BAD_INPUT,))
    try:
        status, said = on_terminal("show", str(profile), columns=100, NO_COLOR="1")
    except OSError:
        return
    assert status == DONE and harmless(said.replace("\r\n", "\n")), said


HOSTILE = "h\x1b[2J\x9b31m\u0085\u202e\u2066\x07i"


def leaves(tree, at=()):
    """The strings in a JSON tree, as paths; of each list the first element."""
    if isinstance(tree, str):
        yield at
    elif isinstance(tree, dict):
        for key, below in tree.items():
            yield from leaves(below, (*at, key))
    elif isinstance(tree, list) and tree:
        yield from leaves(tree[0], (*at, 0))


def with_leaf(tree, at, text):
    copy = json.loads(json.dumps(tree))
    below = copy
    for key in at[:-1]:
        below = below[key]
    below[at[-1]] = text
    return copy


def test_every_string_of_a_file_is_escaped(here):
    """Each kind of string of profiles, encodings and lineages in turn, through two of the commands that read it; files that are
    refused are named in the message."""
    model, _, profile = prepare(here)
    run("calibrate", profile, "-o", here / "e.json")
    run("transform", model, "--passes", "all", "-o", here / "t.onnx", "--lineage", here / "l.json")
    bad = here / f"{HOSTILE}.json"
    shown = turn = 0
    for whole, commands in (
            (profile, [["show"], ["show", "--json"], ["show", "--nodes"], ["show", "--nodes", "--json"], ["show", "--outliers"], ["show", "--", "p1"],
                       ["check"], ["check", "--json"], ["diff", profile, "--all"], ["diff", profile, "--json"], ["calibrate", "-o", here / "x.json"],
                       ["merge", "-o", here / "x.json"]]),
            (here / "e.json", [["diff", profile, "--all"], ["export", "--to", "csv", "-o", here / "x.csv", "--json"]]),
            (here / "l.json", [["graph", model, "--lineage"]])):
        tree = json.loads(whole.read_text())
        for at in subset(sorted(set(leaves(tree)), key=str), 2):
            bad.write_text(json.dumps(with_leaf(tree, at, HOSTILE)))
            every = at[0] == "model" or at[-1] in ("name", "op", "domain")
            for command in commands if every else [commands[turn % len(commands)], commands[(turn + 1) % len(commands)]]:
                words = [*command, bad] if command[0] in ("diff", "graph") else [command[0], bad, *command[1:]]
                shown += run(*words, statuses=range(5)).status == DONE
            turn += 2
    assert shown > 50, shown


def test_operators_and_domains_are_escaped(here):
    path = here / f"{HOSTILE}.onnx"
    path.write_bytes(onnx.model([onnx.node(f"Op{HOSTILE}", ["x"], ["y"], f"n{HOSTILE}", domain=f"d{HOSTILE}", **{f"a{HOSTILE}": HOSTILE})],
                                [onnx.value("x", [HOSTILE, 4])], [onnx.value("y", [HOSTILE, 4])], opsets=(("", 17), (f"d{HOSTILE}", 1))))
    for view in ((), ("--ops",), ("--dot",), ("--json",)):
        run("graph", path, *view, statuses=range(5))
    for words in (["instrument", path, "-o", here / "i.onnx"], ["transform", path, "--passes", "all", "--print-after", "-o", here / "t.onnx"],
                  ["profile", path, "--plan"], ["verify", path, here], ["run", path, "-o", here / "o.npz"], ["bench", path]):
        run(*words, statuses=range(5))
    good, _, profile = prepare(here)
    for words in (["transform", good, "--passes", "all", "--print-after", "-o", here / "t.onnx"],
                  ["transform", good, "--passes", "all", "--json", "-o", here / "t.onnx"], ["graph", good, "--json"],
                  ["show", profile, "--json"], ["show", profile, "--nodes", "--json"], ["diff", profile, profile, "--json", "--all"]):
        run(*words)


def test_json_with_unusual_names_reads_back(here):
    _, _, profile = prepare(here)
    names = {tensor["name"] for tensor in json.loads(profile.read_text(encoding="utf-8"))["tensors"]}
    assert {*NAMES, LAST, "x", "w<b>\n=1"} == names, names
    assert {value["name"] for value in json.loads(tidemark("show", profile, "--json").expect(DONE).out)} == names
    json.loads(tidemark("graph", here / "m.onnx", "--json").expect(DONE).out)


def test_report_escapes_names(here):
    _, _, profile = prepare(here)
    run("profile", DIGITS, "--data", PICTURES, "--limit", 4, "-o", here / "d.json")
    for which in ("p", "d"):
        run("report", here / f"{which}.json", "-o", here / f"{which}.html")
    ours, theirs = Page(here / "d.html"), Page(here / "p.html")
    assert theirs.tags.count("script") == ours.tags.count("script") and not theirs.handlers, theirs.tags
    assert set(theirs.tags) <= set(ours.tags), set(theirs.tags) - set(ours.tags)


def test_exports_stay_in_their_folder_and_are_valid(here):
    model, _, profile = prepare(here)
    run("calibrate", profile, "--sensitive=quantize", "-o", here / "e.json")
    formats = [line.split()[0] for line in tidemark("export", "--to", "help").out.splitlines() if line[:1].strip()]
    assert "csv" in formats and len(formats) > 10, formats
    out = here / "in" / "side"
    out.mkdir(parents=True)
    for name in formats:
        run("export", here / "e.json", "--model", model, "--to", name, "-o", out / (name + SUFFIX.get(name, "")),
            statuses=(DONE, ANSWER_NO, WRONG_CALL, BAD_INPUT))
    assert [path.name for path in (here / "in").iterdir()] == ["side"]
    assert all(path.name.split(".")[0] in formats for path in out.iterdir()), sorted(out.iterdir())
    with open(out / "csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["name"] for row in rows} >= {*NAMES, LAST}, rows
    for path in out.iterdir():
        if path.suffix == ".json" or path.name in ("aimet", "glow-json"):
            json.loads(path.read_text(encoding="utf-8"))
    written = {path.name for path in here.iterdir()} - {"in"}
    assert written == {"m.onnx", "x.bin", "p.json", "e.json"}, written


def test_long_names_are_cut_between_characters(here):
    """Whatever is cut, and goes to a file, stays text: names of every length modulo the bytes of a character."""
    for shift in range(3):
        name, path = "a" * shift + "€" * 400, here / f"long{shift}"
        path.mkdir()
        model, data = path / "m.onnx", path / "x.npy"
        arms = [onnx.graph([onnx.node(op, [name], [op], name)], [], [onnx.value(op, [])]) for op in ("Relu", "Neg")]
        nodes = [onnx.node("If", ["c"], [name + "y"], name, then_branch=arms[0], else_branch=arms[1]),
                 onnx.node("MatMul", [name + "y", "w"], [name + "z"], name + "n"), onnx.node("Sin", [name + "z"], ["y"], name + "s")]
        model.write_bytes(onnx.model(nodes, [onnx.value(name, [name, 4])], [onnx.value("y", [name, 4])],
                                     [onnx.tensor("c", [], [1], onnx.BOOL), onnx.tensor("w", [4, 4], [.5] * 16)]))
        data.write_bytes(npy_bytes([2, 4], [1, -2, 3, -4] * 2))
        tidemark("profile", model, "--data", data, "-o", path / "p.json", "-o", path / "p.h5").expect(DONE)
        tidemark("calibrate", path / "p.json", "-o", path / "e.json").expect(DONE)
        tidemark("transform", model, "--passes", "all", "-o", path / "t.onnx", "--lineage", path / "l.json").expect(DONE)
        tidemark("link", path / "p.json", path / "t.onnx", "-o", path / "k.json").expect(DONE)
        for form in ("qdq", "csv", "quark"):
            done = tidemark("export", path / "e.json", "--model", model, "--to", form, "-o", path / f"x{SUFFIX.get(form, '')}")
            assert done.status in (DONE, ANSWER_NO), done
        for words in (["simulate", model, path / "e.json", "--data", data, "--integer", "--json"], ["graph", model, "--json"], ["show", path / "p.json", "--json"],
                      ["simulate", model, path / "e.json", "--data", data, "--json"], ["bench", model, "--data", data, "--seconds", ".01", "--per-op", "--json"]):
            json.loads(tidemark(*words).expect(DONE).out.encode("utf-8", "surrogateescape").decode("utf-8"))
        for file in path.glob("*.json"):
            json.loads(file.read_text(encoding="utf-8"))


def test_names_that_are_no_text_are_refused_before_a_run(here):
    """Profiles and lineages cannot have them: the model is named, and nothing is written."""
    data = here / "text.npy"
    data.write_bytes(npy_bytes([2, 4], [1, -2, 3, -4] * 2))
    for broken in (b"node", b"mid", b"axis", b"Neg", b"some"):
        model, out = here / "text.onnx", here / "text.json"
        content = onnx.model([onnx.node("Relu", ["x"], ["mid"], "node"), onnx.node("Neg", ["mid"], ["y"], domain="some" if broken == b"some" else "")],
                             [onnx.value("x", ["axis", 4])], [onnx.value("y", ["axis", 4])])
        model.write_bytes(content.replace(broken, broken[:-1] + b"\xff"))
        for words in (["profile", model, "--data", data, "-o", out], ["transform", model, "--passes", "all", "-o", out.with_suffix(".t.onnx"), "--lineage", out]):
            done = tidemark(*words).expect(BAD_INPUT)
            assert done.err.startswith(f"tidemark: {model}: ") and not list(here.glob("text.*json")), done


main()
