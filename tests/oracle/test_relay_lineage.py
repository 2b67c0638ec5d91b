# SPDX-License-Identifier: Apache-2.0
"""Lineages of `transform` where one side is Relay: the new side has the IDs of the file that was written, and a profile that `link`
transfers over the lineage has the ranges of a fresh profile of that file."""
import json
from dataclasses import dataclass, field
from pathlib import Path

from oracle import MODELS, SHARED, chosen_models, execute, folder, main, model_of, needs, profile, skip, sources, subset, tidemark

needs("relay")

VERDICTS = ["same", "view", "affine", "quantized", "merged", "constant", "absorbed", "dead"]
MATCHED = ["same", "view", "affine", "quantized", "merged"]
GOLDEN = SHARED / "relay" / "golden"


@dataclass
class Case:
    name: str
    model: Path
    data: list
    params: Path = None
    limit: list = field(default_factory=lambda: ["--limit", 3])

    @property
    def words(self):
        return ["--params", self.params] if self.params else []


@dataclass
class Result:
    """A file that `transform` wrote, and its lineage."""
    path: Path
    words: list
    lineage: dict

    def values(self):
        graph = json.loads(tidemark("graph", self.path, *self.words, "--json"))
        return sorted(graph["values"], key=lambda value: int(value["id"][1:]))


def onnx_cases():
    return [Case(name, model_of(name), sources(name)) for name in subset(chosen_models(), 2)]


def relay_cases():
    for net, stages in (("mlp", ("0_raw", "2_simplify")), ("cnn", ("5_canon", "6_fused")), ("resblock", ("2_simplify", "6_fused")),
                        ("attn", ("0_raw", "5_canon"))):
        for stage in stages:
            params = GOLDEN / net / f"{net}.params" if stage == "0_raw" else None
            yield Case(f"{net}, {stage}", GOLDEN / net / f"{stage}.relay.txt", [GOLDEN / net / "inputs.npz"], params, [])
    mnist = MODELS / "mnist_mlp" / "relay"
    for name in ("bound_v0.0.5", "initial_v0.0.5"):
        yield Case(name, mnist / f"{name}.relay", sources("mnist_mlp"), mnist / "mnist_mlp.params")


def transform(case, passes, target, params=None):
    """None where Relay has no operator for some node."""
    lines = target.with_suffix(".lineage.json")
    words = ["transform", case.model, *case.words, "--passes", passes, "-o", target, "--lineage", lines, "--quiet",
             *(["--params-out", params] if params else [])]
    done = execute(*words, status=(0, 3))
    if done.returncode:
        assert "Relay cannot express" in done.stderr, f"{case.name}, {passes}: {done.stderr}"
        return None
    return Result(target, ["--params", params] if params else [], json.loads(lines.read_text()))


def check_ids(what, result):
    wanted = [(v["id"], v["name"], v["fingerprint"]) for v in result.lineage["values"]]
    assert wanted == [(v["id"], v["name"], v["fingerprint"]) for v in result.values()], what


def check_verdicts(what, case, result, passes):
    """Every original has one verdict; what the outputs need is matched."""
    originals, values = result.lineage["originals"], {v["id"]: v for v in result.lineage["values"]}
    graph = json.loads(tidemark("graph", case.model, *case.words, "--json"))
    assert [o["id"] for o in originals] == [f"p{i}" for i in range(len(graph["values"]))], what
    for o in originals:
        assert (o["value"] is not None) or o["verdict"] in ("constant", "dead"), f"{what}: {o}"
        assert passes != "none" or o["verdict"] in ("same", "merged", "constant", "dead"), f"{what}: {o}"
        if o["verdict"] in ("same", "merged") and o["shape"] is not None and values[o["value"]]["shape"] is not None:
            new = values[o["value"]]
            assert o["dtype"] == new["dtype"] and len(o["shape"]) == len(new["shape"]), f"{what}: {o}, {new}"
    return {verdict: sum(o["verdict"] == verdict for o in originals) for verdict in VERDICTS}


def check_ranges(what, carried, fresh, lineage):
    """How many values have a range in both; every value that is matched exactly has one in both or in neither."""
    exact = {o["value"] for o in lineage["originals"] if o["verdict"] in ("same", "view", "merged")}
    compared, worst = 0, 0.0
    for a, b in zip(carried["tensors"], fresh["tensors"], strict=True):
        assert (a["id"], a["name"]) == (b["id"], b["name"]), what
        if a.get("min") is None or b.get("min") is None or "float" not in a["dtype"]:
            assert a["id"] not in exact or (a.get("min") is None) == (b.get("min") is None), f"{what}: {a['name']}"
            continue
        reach = (b["max"] - b["min"]) or max(abs(b["max"]), 1)
        worst = max(worst, abs(a["min"] - b["min"]) / reach, abs(a["max"] - b["max"]) / reach)
        assert worst <= 1e-4, f"{what}: '{a['name']}' differs by {worst:.1e} of its range"
        compared += 1
    return compared, worst


def check(path, case, passes, ending, params):
    """The result, or None; and what was found, in words."""
    what = f"{case.name}, {passes}, {ending}"
    result = transform(case, passes, path / f"new.{ending}", path / "new.params" if params else None)
    if not result:
        return None, "Relay lacks an operator"
    check_ids(what, result)
    counts = check_verdicts(what, case, result, passes)
    profile(case.model, case.data, path / "old.json", *case.limit, *case.words)
    tidemark("link", path / "old.json", result.path, *result.words, "--lineage", path / "new.lineage.json", "-o",
             path / "linked.json", "--quiet")
    fresh = profile(result.path, case.data, path / "fresh.json", *case.limit, *result.words)
    compared, worst = check_ranges(what, json.loads((path / "linked.json").read_text()), fresh, result.lineage)
    assert compared or not sum(counts[verdict] for verdict in MATCHED), what
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return result, f"{told}; {compared} ranges, at most {worst:.1e} apart"


def run(cases, ways):
    """How many of the cases were written, by way."""
    written = dict.fromkeys(ways, 0)
    for case in cases:
        for way in ways:
            with folder() as path:
                result, told = check(path, case, *way)
            written[way] += result is not None
            print(f"  {case.name}, {' '.join(map(str, way))}: {told}", flush=True)
    return written


def test_lineages_from_onnx_to_relay():
    written = run(onnx_cases(), [("none", "relay", False), ("all", "relay", True)])
    assert min(written.values()) >= 3, written


def test_lineages_from_relay_to_relay_and_onnx():
    """Of the models that Relay has the operators for."""
    for case in onnx_cases()[::2]:
        with folder() as path:
            first = transform(case, "none", path / "first.relay", path / "first.params")
            if first:
                again = Case(f"{case.name} from Relay", first.path, case.data, path / "first.params")
                run([again], [("all", "relay", False), ("none", "onnx", False), ("all", "onnx", False)])


def test_lineages_of_tvms_texts():
    if not GOLDEN.is_dir():
        skip(f"there is no {GOLDEN}")
    written = run(relay_cases(), [("none", "relay", True), ("all", "relay", False), ("all", "onnx", False)])
    assert min(written.values()) >= 8, written


main()
