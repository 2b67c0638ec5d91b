# SPDX-License-Identifier: Apache-2.0
"""`tidemark link`: values of a profile are matched with those of another file of the network."""
import json
import math

import onnx_bytes as ob
from cli import BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, WRONG_CALL, folder, main, npy_bytes, tensors_of, tidemark

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


def pairs(report, part="matches"):
    return {m["name"]: m["value_name"] for m in report[part]}


def both(report):
    return {**pairs(report), **pairs(report, "left_out")}


def never(out):
    return {name for name, t in tensors_of(out).items() if t["status"] == "never"}


def hold_against_a_run(path, model, out, *data):
    """What was carried is what a run of the other file finds; returns its names."""
    tidemark("profile", path / model, *data, "-o", path / "run.json").expect(DONE)
    want, carried = tensors_of(path / "run.json"), []
    for name, tensor in tensors_of(out).items():
        if tensor["status"] != "never" and tensor["kind"] != "weight":
            carried.append(name)
            for field in ("min", "max", "sum", "count", "zeros"):
                assert tensor.get(field) == want[name].get(field), (name, field, tensor.get(field), want[name].get(field))
    return sorted(carried)


def retensors_of(prefix):
    inner = ["c1", "r1", "rp", "r1c", "c2", "r2", "w1", "w2", "pads"]
    return {**{name: prefix + name for name in inner}, "x": "x", "y": "y"}


def test_renamed_and_reordered_network_is_matched(path):
    start(path)
    (path / "b.onnx").write_bytes(network("other_", backwards=True))
    out, report = link(path, "b.onnx")
    assert pairs(report) == retensors_of("other_"), pairs(report)
    assert {m["evidence"] for m in report["matches"]} == {"content"}
    assert not report["ambiguous"] and not report["unmatched"] and not report["unmatched_values"]
    tidemark("profile", path / "b.onnx", "--data", path / "x.npy", "-o", path / "b.json").expect(DONE)
    want, got = tensors_of(path / "b.json"), tensors_of(out)
    for name, tensor in want.items():
        for field in ("min", "max", "sum", "count", "zeros"):
            assert got[name].get(field) == tensor.get(field), (name, field)


def test_retrained_weights_leave_matches_out(path):
    start(path)
    (path / "b.onnx").write_bytes(network("other_", factor=1.25))
    done = tidemark("link", path / "a.json", path / "b.onnx", "--json", "--report", path / "report.json", "-o", path / "out.json")
    done.expect(DONE, "other weights", "--numbers")
    summary, report = json.loads(done.out), json.loads((path / "report.json").read_text())
    assert pairs(report) == {"x": "x", "pads": "other_pads"}, pairs(report)
    assert both(report) == retensors_of("other_"), report
    assert {m["evidence"] for m in report["left_out"]} == {"structure"}, report["left_out"]
    assert summary["evidence"]["structure"] == 0 and summary["evidence"]["content"] == 2 and summary["left_out"] == 9, summary
    out = json.loads((path / "out.json").read_text())
    assert never(out) == set(retensors_of("other_").values()) - {"x", "other_pads", "other_w1", "other_w2"}, never(out)


def test_weights_and_operands_match_after_an_edit(path):
    start(path)
    (path / "b.onnx").write_bytes(network("other_", scaled=True))
    out, report = link(path, "b.onnx")
    assert both(report) == retensors_of("other_"), both(report)
    assert set(pairs(report)) == {"x", "w1", "w2", "pads"}, pairs(report)
    assert hold_against_a_run(path, "b.onnx", out, "--data", path / "x.npy") == ["x"]
    by = {m["name"]: m["evidence"] for part in ("matches", "left_out") for m in report[part]}
    assert by["c1"] == "weights" and by["r1"] == "operands" and by["w1"] == "content", by
    unmatched = {v["name"] for v in report["unmatched_values"]}
    assert unmatched == set(pairs(report, "left_out").values()) | {"other_half", "other_scaled"}, unmatched


def test_equal_names_are_no_evidence(path):
    """A batch norm was folded into the convolution before it, and every name was kept."""
    start_numbers(path)
    weights = {"t1": "w", "t2": "b", "t5": "k"}
    (path / "b.onnx").write_bytes(compiled(names={"in0": "x", "t3": "c", "t4": "r", "t6": "y", **weights}))
    out, report = link(path, "b.onnx")
    assert pairs(report) == {"x": "x", "k": "k"}, pairs(report)
    assert {"c", "r", "y"} <= set(pairs(report, "left_out")) and {"c", "r", "y"} == never(out), report
    assert hold_against_a_run(path, "b.onnx", out, "--data", path / "x.npy") == ["x"]


def loop(before, count=2, step="Add"):
    """A loop over what an operator makes of x."""
    body = ob.graph([ob.node("Identity", ["on"], ["still"]), ob.node(step, ["s", "s"], ["t"])],
                    [ob.value("i", [], ob.INT64), ob.value("on", [], ob.BOOL), ob.value("s", [1, 4])],
                    [ob.value("still", [], ob.BOOL), ob.value("t", [1, 4])])
    return ob.model([ob.node(before, ["x"], ["h"]), ob.node("Loop", ["m", "", "h"], ["y"], body=body)], [ob.value("x", [1, 4])],
                    [ob.value("y", [1, 4])], [ob.tensor("m", [], [count], ob.INT64)])


def test_values_of_bodies_match_only_under_equal_loops(path):
    (path / "x.npy").write_bytes(npy_bytes((SAMPLES, 1, 4), numbers(SAMPLES * 4, 3)))
    (path / "a.onnx").write_bytes(loop("Relu"))
    tidemark("profile", path / "a.onnx", "--data", path / "x.npy", "-o", path / "a.json").expect(DONE)
    for other, carried in ((loop("Relu"), {"x", "h", "s", "t", "y"}), (loop("Abs"), {"x"}), (loop("Relu", count=3), {"x", "h"}),
                           (loop("Relu", step="Mul"), {"x", "h"})):
        (path / "b.onnx").write_bytes(other)
        out, report = link(path, "b.onnx")
        found = set(hold_against_a_run(path, "b.onnx", out, "--data", path / "x.npy"))
        assert {"x", "h", "s", "t", "y"} & found == carried, (found, report["matches"])


def test_reordered_inputs_are_matched_by_name(path):
    def difference(first, second):
        return ob.model([ob.node("Sub", [first, second], ["d"]), ob.node("Relu", ["d"], ["y"])],
                        [ob.value(n, [1, 4]) for n in (first, second)], [ob.value("y", [1, 4])])

    data = []
    for seed, name in enumerate("pq"):
        (path / f"{name}.npy").write_bytes(npy_bytes((SAMPLES, 1, 4), [(seed + 1) * n for n in numbers(SAMPLES * 4, seed)]))
        data += ["--data", f"{name}={path / name}.npy"]
    (path / "a.onnx").write_bytes(difference("p", "q"))
    (path / "b.onnx").write_bytes(difference("q", "p"))
    tidemark("profile", path / "a.onnx", *data, "-o", path / "a.json").expect(DONE)
    out, report = link(path, "b.onnx")
    assert pairs(report) == {"p": "p", "q": "q"}, report
    assert hold_against_a_run(path, "b.onnx", out, *data) == ["p", "q"]


def test_states_match_only_under_equal_feedback(path):
    def network_with_state(factor):
        nodes = [ob.node("Add", ["x", "h"], ["a"]), ob.node("Mul", ["a", "k"], ["next"]), ob.node("Relu", ["x"], ["r"])]
        return ob.model(nodes, [ob.value("x", [1, 4]), ob.value("h", [1, 4])], [ob.value("next", [1, 4]), ob.value("r", [1, 4])],
                        [ob.tensor("k", [1], [factor])])

    (path / "x.npy").write_bytes(npy_bytes((SAMPLES, 1, 4), numbers(SAMPLES * 4, 3)))
    (path / "a.onnx").write_bytes(network_with_state(0.5))
    data = ["--data", f"x={path / 'x.npy'}", "--feedback", "next=h"]
    tidemark("profile", path / "a.onnx", *data, "-o", path / "a.json").expect(DONE)
    for factor, carried in ((0.5, ["a", "h", "next", "r", "x"]), (0.25, ["r", "x"])):
        (path / "b.onnx").write_bytes(network_with_state(factor))
        out, _ = link(path, "b.onnx")
        assert hold_against_a_run(path, "b.onnx", out, *data) == carried, factor


def test_identical_subgraphs_are_ambiguous(path):
    """Two convolutions of one input with retrained weights, of which one is gone: which is left?"""
    def twins(names, factor):
        nodes = [ob.node("Conv", ["x", "w" + n], ["c" + n]) for n in names]
        nodes += [ob.node("Relu", ["c" + names[0]], ["y"])] if len(names) == 1 else \
            [ob.node("Mul", ["c" + n for n in names], ["y"])]
        weights = [conv_weights("w" + n, 1, seed + 1, factor) for seed, n in enumerate(names)]
        return ob.model(nodes, [ob.value("x", [1, 1, SIDE, SIDE])], [ob.value("y", [1, CHANNELS, SIDE - 2, SIDE - 2])], weights)

    start(path)
    (path / "t.onnx").write_bytes(twins(["1", "2"], 1.0))
    tidemark("profile", path / "t.onnx", "--data", path / "x.npy", "-o", path / "t.json").expect(DONE)
    (path / "b.onnx").write_bytes(twins(["9"], 2.0))
    _, report = link(path, "b.onnx", profile="t.json")
    assert pairs(report) == {"x": "x"}, pairs(report)
    assert {m["name"] for m in report["ambiguous"]} == {"c1", "c2", "w1", "w2"}, report["ambiguous"]
    assert all(len(m["candidates"]) == 1 for m in report["ambiguous"])


def test_profile_is_transferred_over_a_lineage(path):
    start(path)
    tidemark("transform", path / "a.onnx", "--passes", "eliminate-dead", "-o", path / "b.onnx",
             "--lineage", path / "l.json").expect(DONE)
    out, report = link(path, "b.onnx", "--lineage", path / "l.json", "--lineage-out", path / "l2.json")
    assert report["method"] == "lineage" and {m["evidence"] for m in report["matches"]} == {"lineage"}
    assert (path / "l2.json").read_bytes() == (path / "l.json").read_bytes()
    assert tensors_of(out)["y"]["max"] == tensors_of(path / "a.json")["y"]["max"]


def test_a_lineage_of_other_models_is_refused(path):
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


def test_long_chains_and_many_consumers_are_linked_in_time(path):
    """Behind an edit a chain of other operators, and readers of one value, half of them by another operator: with nothing alike,
    or all, each value tried for each original would take minutes."""
    steps = 3000 if "sanitized" in FEATURES else 12000

    def large(p, ops, edit):
        nodes = [ob.node(edit, ["x"], [p + "first"]), ob.node("MatMul", [p + "first", p + "telling"], [p + "e"])]
        nodes += [ob.node(ops[2 * i // steps], [p + "e", p + "s"], [f"{p}h{i}"]) for i in range(steps)]
        nodes += [ob.node(ops[1], [f"{p}c{i - 1}" if i else p + "e", p + "s"], [f"{p}c{i}"]) for i in range(steps)]
        nodes += [ob.node("Sum", [f"{p}h{i}" for i in range(at, at + 500)], [f"{p}t{at}"]) for at in range(0, steps, 500)]
        nodes.append(ob.node("Sum", [f"{p}t{at}" for at in range(0, steps, 500)] + [f"{p}c{steps - 1}"], ["y"]))
        weights = [ob.tensor(p + "s", [1], [0.5]), ob.tensor(p + "telling", [4, 4], numbers(16, 3))]
        return ob.model(nodes, [ob.value("x", [1, 4])], [ob.value("y", [1, 4])], weights)

    (path / "a.onnx").write_bytes(large("", ["Mul", "Add"], "Neg"))
    (path / "b.onnx").write_bytes(large("z", ["Mul", "Sub"], "Abs"))
    (path / "x.npy").write_bytes(npy_bytes((1, 1, 4), [1.0, 2.0, 3.0, 4.0]))
    tidemark("profile", path / "a.onnx", "--data", path / "x.npy", "-o", path / "a.json").expect(DONE)
    _, report = link(path, "b.onnx")
    assert pairs(report) == {"x": "x", "s": "zs", "telling": "ztelling"}, report["counts"]
    assert pairs(report, "left_out") == {"e": "ze", "y": "y"}, report["counts"]
    assert {m["name"] for m in report["ambiguous"]} == {f"h{i}" for i in range(steps // 2)}, report["counts"]
    assert all(len(m["candidates"]) == 16 for m in report["ambiguous"])


# ---- by numbers ----

GAMMA, BETA, MEAN, VAR, EPSILON = [0.5, -2.0, 3.0], [0.1, 0.2, -0.3], [0.05, -0.1, 0.2], [0.25, 4.0, 1.0], 1e-5


def with_batch_norm(lift=0.0):
    """conv, batch norm, relu, identity, add; lift: how far the batch norm lifts everything up."""
    nodes = [ob.node("Conv", ["x", "w"], ["c"]), ob.node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]),
             ob.node("Relu", ["n"], ["r"]), ob.node("Identity", ["r"], ["i"]), ob.node("Add", ["i", "k"], ["y"])]
    vectors = {"g": GAMMA, "b": [x + lift for x in BETA], "m": MEAN, "v": VAR}
    weights = [conv_weights("w", 1, 1), ob.tensor("k", [1], [0.75])] + [ob.tensor(n, [CHANNELS], v) for n, v in vectors.items()]
    return ob.model(nodes, [ob.value("x", [1, 1, SIDE, SIDE])], [ob.value("y", [1, CHANNELS, SIDE - 2, SIDE - 2])], weights)


def compiled(lift=0.0, relu=True, names=None):
    """The same by another compiler: no batch norm, no identity, and no name of before, or `names` instead."""
    n = lambda name: (names or {}).get(name, name)
    scale = [g / math.sqrt(v + EPSILON) for g, v in zip(GAMMA, VAR)]
    kernel = numbers(CHANNELS * 9, 1)
    folded = [x * scale[i // 9] for i, x in enumerate(kernel)]
    shift = [b + lift - m * s for b, m, s in zip(BETA, MEAN, scale)]
    nodes = [ob.node("Conv", [n("in0"), n("t1"), n("t2")], [n("t3")])] + ([ob.node("Relu", [n("t3")], [n("t4")])] if relu else []) + \
        [ob.node("Add", [n("t4" if relu else "t3"), n("t5")], [n("t6")])]
    weights = [ob.tensor(n("t1"), [CHANNELS, 1, 3, 3], folded), ob.tensor(n("t2"), [CHANNELS], shift), ob.tensor(n("t5"), [1], [0.75])]
    return ob.model(nodes, [ob.value(n("in0"), [1, 1, SIDE, SIDE])], [ob.value(n("t6"), [1, CHANNELS, SIDE - 2, SIDE - 2])], weights)


def start_numbers(path, lift=0.0, relu=True):
    (path / "a.onnx").write_bytes(with_batch_norm(lift))
    (path / "b.onnx").write_bytes(compiled(lift, relu))
    (path / "x.npy").write_bytes(npy_bytes((SAMPLES, 1, SIDE, SIDE), numbers(SAMPLES * SIDE * SIDE, 7)))
    tidemark("profile", path / "a.onnx", "--data", path / "x.npy", "-o", path / "a.json").expect(DONE)


def by_numbers(path, *model, more=()):
    words = ["link", path / "a.json", *model, "-o", path / "out.json", "--report", path / "report.json", "--lineage-out",
             path / "l.json", "--numbers", "--original", path / "a.onnx", "--data", f"x={path / 'x.npy'}", *more]
    tidemark(*words).expect(DONE)
    return [json.loads((path / name).read_text()) for name in ("out.json", "report.json", "l.json")]


WANTED = {"x": "in0", "w": "t1", "c": "t3", "n": "t3", "r": "t4", "i": "t4", "k": "t5", "y": "t6"}


def test_compiled_model_is_matched_by_numbers(path):
    start_numbers(path)
    out, report, lineage = by_numbers(path, path / "b.onnx")
    assert pairs(report) == WANTED, pairs(report)
    verdicts = {o["name"]: o["verdict"] for o in lineage["originals"]}
    assert [verdicts[n] for n in "xwcnriky"] == ["same", "affine", "affine", "same", "same", "merged", "same", "same"], verdicts
    affine = {o["name"]: o for o in lineage["originals"]}["c"]["affine"]
    for channel in range(CHANNELS):
        scale = GAMMA[channel] / math.sqrt(VAR[channel] + EPSILON)
        assert abs(affine["scale"][channel] - scale) < 1e-5 * abs(scale), affine
        assert abs(affine["shift"][channel] - BETA[channel] + MEAN[channel] * scale) < 1e-5, affine
    tidemark("profile", path / "b.onnx", "--data", path / "x.npy", "-o", path / "b.json").expect(DONE)
    want, got = tensors_of(path / "b.json"), tensors_of(out)
    for name, tensor in want.items():
        reach = 1e-4 * (tensor["max"] - tensor["min"])
        assert abs(got[name]["min"] - tensor["min"]) <= reach and abs(got[name]["max"] - tensor["max"]) <= reach, name


def test_equal_numbers_are_reported_as_ambiguous(path):
    """All inputs of the Relu are positive: is what is left of the two the sum before it, or the Relu?"""
    start_numbers(path, lift=50.0, relu=False)
    _, report, lineage = by_numbers(path, path / "b.onnx")
    assert {m["name"]: len(m["candidates"]) for m in report["ambiguous"]} == {"n": 1, "r": 1, "i": 1}, report["ambiguous"]
    assert not {"n", "r", "i"} & set(pairs(report)), pairs(report)
    assert {o["verdict"] for o in lineage["originals"] if o["name"] in ("n", "r", "i")} <= {"dead", "absorbed"}
    (path / "b.onnx").write_bytes(compiled(50.0))  # with a Relu, operators decide
    _, report, _ = by_numbers(path, path / "b.onnx")
    assert pairs(report)["r"] == "t4" and not report["ambiguous"], report


# ---- by numbers that were rounded ----

def plain():
    """conv, relu, conv."""
    nodes = [ob.node("Conv", ["x", "w1"], ["c1"]), ob.node("Relu", ["c1"], ["r1"]), ob.node("Conv", ["r1", "w2"], ["y"])]
    weights = [conv_weights("w1", 1, 1), conv_weights("w2", CHANNELS, 2)]
    return ob.model(nodes, [ob.value("x", [1, 1, SIDE, SIDE])], [ob.value("y", [1, CHANNELS, SIDE - 4, SIDE - 4])], weights)


def halved(p):
    """The same in float16, with float32 outside; p: a prefix of inner names."""
    nodes = [ob.node("Cast", ["x"], [p + "xh"], to=ob.FLOAT16), ob.node("Conv", [p + "xh", p + "w1"], [p + "c1"]),
             ob.node("Relu", [p + "c1"], [p + "r1"]), ob.node("Conv", [p + "r1", p + "w2"], [p + "yh"]),
             ob.node("Cast", [p + "yh"], ["y"], to=ob.FLOAT)]
    weights = [ob.tensor(p + name, [CHANNELS, n, 3, 3], numbers(CHANNELS * n * 9, seed), ob.FLOAT16)
               for name, n, seed in (("w1", 1, 1), ("w2", CHANNELS, 2))]
    return ob.model(nodes, [ob.value("x", [1, 1, SIDE, SIDE])], [ob.value("y", [1, CHANNELS, SIDE - 4, SIDE - 4])], weights)


def quantized(p, top):
    """The same between QuantizeLinear and DequantizeLinear, as ONNX Runtime writes it: what feeds a Relu has the Relu's name, and its
    zero point does the Relu's work. top: the largest number behind the Relu."""
    nodes, weights = [], []

    def rounded(name, scale, zero, result):
        weights.extend([ob.tensor(p + name + "_s", [], [scale]), ob.tensor(p + name + "_z", [], [zero], ob.UINT8)])
        ends = [p + name + "_s", p + name + "_z"]
        nodes.extend([ob.node("QuantizeLinear", [name if name == "x" else p + name, *ends], [p + name + "_q"]),
                      ob.node("DequantizeLinear", [p + name + "_q", *ends], [result])])

    def weight(name, n, seed):
        values = numbers(CHANNELS * n * 9, seed)
        scale = max(map(abs, values)) / 127
        weights.extend([ob.tensor(p + name + "_q", [CHANNELS, n, 3, 3], [round(v / scale) for v in values], ob.INT8),
                        ob.tensor(p + name + "_s", [], [scale])])
        nodes.append(ob.node("DequantizeLinear", [p + name + "_q", p + name + "_s"], [p + name + "_dq"]))

    rounded("x", 2 / 255, 128, p + "x_dq")
    weight("w1", 1, 1)
    nodes.append(ob.node("Conv", [p + "x_dq", p + "w1_dq"], [p + "r1"]))
    rounded("r1", top / 255, 0, p + "r1_dq")
    weight("w2", CHANNELS, 2)
    nodes.append(ob.node("Conv", [p + "r1_dq", p + "w2_dq"], ["y"]))
    return ob.model(nodes, [ob.value("x", [1, 1, SIDE, SIDE])], [ob.value("y", [1, CHANNELS, SIDE - 4, SIDE - 4])], weights)


def start_plain(path):
    (path / "a.onnx").write_bytes(plain())
    (path / "x.npy").write_bytes(npy_bytes((SAMPLES, 1, SIDE, SIDE), numbers(SAMPLES * SIDE * SIDE, 7)))
    tidemark("profile", path / "a.onnx", "--data", path / "x.npy", "-o", path / "a.json").expect(DONE)


def test_float16_is_matched_within_its_precision():
    for prefix in ("", "h_"):
        with folder() as path:
            start_plain(path)
            (path / "b.onnx").write_bytes(halved(prefix))
            _, report, _ = by_numbers(path, path / "b.onnx")
            assert pairs(report) == {"x": "x", "y": "y", **{name: prefix + name for name in ("w1", "w2", "c1", "r1")}}, pairs(report)
            assert report["tolerance"] == 1 / 32 and all(m.get("residual", 0) < 0.01 for m in report["matches"]), report


def test_value_and_its_quantized_copy_are_distinguished():
    for prefix in ("", "q_"):
        with folder() as path:
            start_plain(path)
            top = tensors_of(path / "a.json")["r1"]["max"]
            (path / "b.onnx").write_bytes(quantized(prefix, top))
            _, report, _ = by_numbers(path, path / "b.onnx")
            assert pairs(report) == {"x": "x", "y": "y", "w1": prefix + "w1_dq", "w2": prefix + "w2_dq", "c1": prefix + "r1",
                                     "r1": prefix + "r1_dq"}, pairs(report)
            assert report["tolerance"] == 0.25, report


def test_differences_below_the_quantization_step_are_ambiguous(path):
    """Two sums that differ by less than 8 bits hold; of the copy's, one is gone."""
    def sums(prefix, count, quantize):
        names = [prefix + f"s{i}" for i in range(count)]
        first = prefix + "dq" if quantize else "x"
        nodes = [ob.node("QuantizeLinear", ["x", "s", "z"], [prefix + "q"]), ob.node("DequantizeLinear", [prefix + "q", "s", "z"], [prefix + "dq"])]
        nodes = (nodes if quantize else []) + [ob.node("Add", [before, "k0" if i == 0 else "k1"], [name])
                                               for i, (before, name) in enumerate(zip([first, *names], names))]
        nodes.append(ob.node("Exp", [names[-1]], ["y"]))
        weights = [ob.tensor("k0", [1], [0.75]), ob.tensor("k1", [1], [0.0005]), ob.tensor("s", [], [2 / 255]), ob.tensor("z", [], [128], ob.UINT8)]
        shape = [1, 1, SIDE, SIDE]
        return ob.model(nodes, [ob.value("x", shape)], [ob.value("y", shape)], weights[:4 if quantize else 2])

    start_plain(path)
    (path / "a.onnx").write_bytes(sums("", 2, False))
    (path / "b.onnx").write_bytes(sums("q_", 1, True))
    tidemark("profile", path / "a.onnx", "--data", path / "x.npy", "-o", path / "a.json").expect(DONE)
    _, report, _ = by_numbers(path, path / "b.onnx")
    assert not {"s0", "s1"} & set(pairs(report)), pairs(report)
    assert {m["name"] for m in report["ambiguous"]} == {"s0", "s1"}, report["ambiguous"]


def test_stored_tensors_replace_the_model(path):
    start_numbers(path)
    tidemark("run", path / "b.onnx", "--data", path / "x.npy", "--values", "t3", "--values", "t4", "--values", "t6", "-o",
             path / "t.npz").expect(DONE)
    found = {name: value for name, value in WANTED.items() if value in ("t3", "t4", "t6")}
    out, report, _ = by_numbers(path, more=["--tensors", path / "t.npz"])
    assert pairs(report) == found, pairs(report)
    assert sorted(tensors_of(out)) == ["t3", "t4", "t6"]
    want = tensors_of(path / "a.json")
    assert tensors_of(out)["t4"]["max"] == want["r"]["max"] and tensors_of(out)["t6"]["min"] == want["y"]["min"]
    _, report, _ = by_numbers(path, path / "b.onnx", more=["--tensors", path / "t.npz"])
    assert {**pairs(report), **found} == pairs(report) and pairs(report)["w"] == "t1"


def test_numbers_of_another_model_or_without_data_are_refused(path):
    start_numbers(path)
    words = ["link", path / "a.json", path / "b.onnx", "-o", path / "out.json", "--numbers"]
    tidemark(*words, "--original", path / "b.onnx", "--data", path / "x.npy").refuses(BAD_INPUT, "b.onnx", "a.onnx")
    tidemark(*words, "--data", path / "x.npy").expect(WRONG_CALL, "--original")
    tidemark(*words, "--original", path / "a.onnx").expect(WRONG_CALL, "--data")
    tidemark(*words, "--original", path / "a.onnx", "--data", "-").expect(WRONG_CALL, "read more than once")
    tidemark(*words[:-1], "--data", path / "x.npy").expect(WRONG_CALL, "--numbers")
    (path / "t.npz").write_bytes(b"PK nothing")
    tidemark("link", path / "a.json", "-o", path / "out.json", "--numbers", "--original", path / "a.onnx", "--data",
             path / "x.npy", "--tensors", path / "t.npz").refuses(BAD_INPUT, "t.npz")
    assert not (path / "out.json").exists()


def test_usage_errors_are_refused(path):
    start(path)
    for words in (("link", path / "a.json", "-o", "o.json"), ("link", path / "a.json", path / "a.onnx"),
                  ("link", path / "a.json", path / "a.onnx", "-o", "o.json", "--nonsense")):
        tidemark(*words).expect(WRONG_CALL)
    tidemark("link", path / "a.onnx", path / "a.onnx", "-o", path / "o.json").refuses(BAD_INPUT, "a.onnx")
    tidemark("link", path / "a.json", path / "a.json", "-o", path / "o.json").refuses(BAD_INPUT, "a.json")


main()
