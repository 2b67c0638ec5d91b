# SPDX-License-Identifier: Apache-2.0
"""`tidemark link`: a profile finds its values again in another file of the network."""
import json

import onnx_bytes as ob
from cli import BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, folder, main, npy_bytes, tidemark

CHANNELS, SIDE, SAMPLES = 3, 6, 12


def numbers(count, seed):
    """Numbers between -1 and 1, the same on every machine."""
    out = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        out.append(seed / (1 << 30) - 1)
    return out


def conv_weights(name, n_in, seed, factor=1.0):
    return ob.tensor(name, [CHANNELS, n_in, 3, 3], [factor * x for x in numbers(CHANNELS * n_in * 9, seed)])


def network(prefix="", factor=1.0, backwards=False, scaled=False):
    """conv, relu, conv, relu, add of both relus. backwards: weights and independent nodes in another order."""
    p = prefix
    first = p + "scaled" if scaled else "x"
    nodes = [ob.node("Conv", [first, p + "w1"], [p + "c1"]), ob.node("Relu", [p + "c1"], [p + "r1"]),
             ob.node("Conv", [p + "rp", p + "w2"], [p + "c2"]), ob.node("Relu", [p + "c2"], [p + "r2"]),
             ob.node("Add", [p + "r1c", p + "r2"], ["y"])]
    pads = [ob.node("Pad", [p + "r1", p + "pads"], [p + "rp"]), ob.node("Identity", [p + "r1"], [p + "r1c"])]
    nodes[2:2] = reversed(pads) if backwards else pads
    weights = [conv_weights(p + "w1", 1, 1, factor), conv_weights(p + "w2", CHANNELS, 2, factor),
               ob.tensor(p + "pads", [8], [0, 0, 1, 1, 0, 0, 1, 1], ob.INT64)]
    if scaled:
        nodes.insert(0, ob.node("Mul", ["x", p + "half"], [p + "scaled"]))
        weights.append(ob.tensor(p + "half", [1], [0.5]))
    return ob.model(nodes, [ob.value("x", [1, 1, SIDE, SIDE])], [ob.value("y", [1, CHANNELS, SIDE - 2, SIDE - 2])],
                    weights[::-1] if backwards else weights)


def start(path):
    """The network, data, and its profile: what every test begins with."""
    (path / "a.onnx").write_bytes(network())
    (path / "x.npy").write_bytes(npy_bytes((SAMPLES, 1, SIDE, SIDE), numbers(SAMPLES * SIDE * SIDE, 7)))
    tidemark("profile", path / "a.onnx", "--data", path / "x.npy", "-o", path / "a.json").expect(DONE)


def link(path, model, *more, profile="a.json"):
    tidemark("link", path / profile, path / model, "-o", path / "out.json", "--report", path / "report.json", *more).expect(DONE)
    return json.loads((path / "out.json").read_text()), json.loads((path / "report.json").read_text())


def named(profile):
    return {t["name"]: t for t in profile["tensors"]}


def pairs(report):
    return {m["name"]: m["value_name"] for m in report["matches"]}


def renamed(prefix):
    inner = ["c1", "r1", "rp", "r1c", "c2", "r2", "w1", "w2", "pads"]
    return {**{name: prefix + name for name in inner}, "x": "x", "y": "y"}


def test_other_names_and_another_order_are_the_same_network():
    with folder() as path:
        start(path)
        (path / "b.onnx").write_bytes(network("other_", backwards=True))
        out, report = link(path, "b.onnx")
        assert pairs(report) == renamed("other_"), pairs(report)
        assert {m["evidence"] for m in report["matches"]} == {"content"}
        assert not report["ambiguous"] and not report["unmatched"] and not report["unmatched_values"]
        tidemark("profile", path / "b.onnx", "--data", path / "x.npy", "-o", path / "b.json").expect(DONE)
        want, got = named(json.loads((path / "b.json").read_text())), named(out)
        for name, tensor in want.items():
            for field in ("min", "max", "sum", "count", "zeros"):
                assert got[name].get(field) == tensor.get(field), (name, field)


def test_other_weights_are_matched_by_structure_and_said_so():
    with folder() as path:
        start(path)
        (path / "b.onnx").write_bytes(network("other_", factor=1.25))
        done = tidemark("link", path / "a.json", path / "b.onnx", "--json", "--report", path / "report.json")
        done.expect(DONE, "other weights")
        summary, report = json.loads(done.out), json.loads((path / "report.json").read_text())
        assert pairs(report) == renamed("other_")
        by = {m["name"]: m["evidence"] for m in report["matches"]}
        assert by["x"] == by["pads"] == "content" and by["c1"] == by["w1"] == by["y"] == "structure", by
        assert summary["evidence"]["structure"] == 9 and summary["evidence"]["content"] == 2, summary


def test_behind_an_edit_weights_and_operands_speak():
    with folder() as path:
        start(path)
        (path / "b.onnx").write_bytes(network("other_", scaled=True))
        _, report = link(path, "b.onnx")
        assert pairs(report) == renamed("other_"), pairs(report)
        by = {m["name"]: m["evidence"] for m in report["matches"]}
        assert by["c1"] == "weights" and by["r1"] == "operands" and by["w1"] == "content", by
        assert sorted(v["name"] for v in report["unmatched_values"]) == ["other_half", "other_scaled"]


def test_twins_are_not_told_apart_by_guessing():
    """Two convolutions of one input with retrained weights, of which one is gone: which is left?"""
    def twins(names, factor):
        nodes = [ob.node("Conv", ["x", "w" + n], ["c" + n]) for n in names]
        nodes += [ob.node("Relu", ["c" + names[0]], ["y"])] if len(names) == 1 else \
            [ob.node("Mul", ["c" + n for n in names], ["y"])]
        weights = [conv_weights("w" + n, 1, seed + 1, factor) for seed, n in enumerate(names)]
        return ob.model(nodes, [ob.value("x", [1, 1, SIDE, SIDE])], [ob.value("y", [1, CHANNELS, SIDE - 2, SIDE - 2])], weights)

    with folder() as path:
        start(path)
        (path / "t.onnx").write_bytes(twins(["1", "2"], 1.0))
        tidemark("profile", path / "t.onnx", "--data", path / "x.npy", "-o", path / "t.json").expect(DONE)
        (path / "b.onnx").write_bytes(twins(["9"], 2.0))
        _, report = link(path, "b.onnx", profile="t.json")
        assert pairs(report) == {"x": "x"}, pairs(report)
        assert {m["name"] for m in report["ambiguous"]} == {"c1", "c2", "w1", "w2"}, report["ambiguous"]
        assert all(len(m["candidates"]) == 1 for m in report["ambiguous"])


def test_a_lineage_carries_as_the_passes_said():
    with folder() as path:
        start(path)
        tidemark("transform", path / "a.onnx", "--passes", "eliminate-dead", "-o", path / "b.onnx",
                 "--lineage", path / "l.json").expect(DONE)
        out, report = link(path, "b.onnx", "--lineage", path / "l.json", "--lineage-out", path / "l2.json")
        assert report["method"] == "lineage" and {m["evidence"] for m in report["matches"]} == {"lineage"}
        assert (path / "l2.json").read_bytes() == (path / "l.json").read_bytes()
        assert named(out)["y"]["max"] == named(json.loads((path / "a.json").read_text()))["y"]["max"]


def test_a_lineage_of_other_models_is_refused():
    with folder() as path:
        start(path)
        tidemark("transform", path / "a.onnx", "--passes", "eliminate-dead", "-o", path / "b.onnx", "--lineage", path / "l.json").expect(DONE)
        (path / "other.onnx").write_bytes(network(scaled=True))
        words = ("link", path / "a.json", path / "other.onnx", "-o", path / "out.json", "--lineage", path / "l.json")
        tidemark(*words).refuses(BAD_INPUT, "l.json", "other.onnx", "b.onnx")
        tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 2, "-o", path / "d.json").expect(DONE)
        words = ("link", path / "d.json", path / "b.onnx", "-o", path / "out.json", "--lineage", path / "l.json")
        tidemark(*words).refuses(BAD_INPUT, "l.json", "digits.onnx", "a.onnx")
        (path / "r.onnx").write_bytes(network(factor=2.0))
        tidemark("profile", path / "r.onnx", "--data", path / "x.npy", "-o", path / "r.json").expect(DONE)
        words = ("link", path / "r.json", path / "b.onnx", "-o", path / "out.json", "--lineage", path / "l.json")
        tidemark(*words).refuses(BAD_INPUT, "r.onnx", "other weights")
        assert not (path / "out.json").exists()


def test_wrong_calls():
    with folder() as path:
        start(path)
        for words in (("link", path / "a.json", "-o", "o.json"), ("link", path / "a.json", path / "a.onnx"),
                      ("link", path / "a.json", path / "a.onnx", "-o", "o.json", "--nonsense")):
            tidemark(*words).expect(WRONG_CALL)
        tidemark("link", path / "a.onnx", path / "a.onnx", "-o", path / "o.json").refuses(BAD_INPUT, "a.onnx")
        tidemark("link", path / "a.json", path / "a.json", "-o", path / "o.json").refuses(BAD_INPUT, "a.json")


if __name__ == "__main__":
    main(globals())
