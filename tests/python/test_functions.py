# SPDX-License-Identifier: Apache-2.0
"""Every command of the program has its function in Python, with each of its options; the functions give what the commands give."""
import filecmp
import inspect
import json
import os
import pickle
import re
import shutil
import subprocess
import sys

from package import FOLDER, PROGRAM, SOURCE, main, raises, skip

try:
    import numpy as np
    import tidemark
except ImportError as missing:  # without NumPy, or with an extension for another Python
    skip(missing)

DIGITS, PICTURES, LABELS = (str(SOURCE / "bundle" / name) for name in ("digits.onnx", "digits.npy", "digits-labels.npy"))
DATA = np.load(PICTURES)[:64]
PROFILE = tidemark.profile(DIGITS, DATA)
ENCODINGS = PROFILE.calibrate("minmax")

# What a command is in Python.
FUNCTIONS = {
    "profile": [tidemark.profile, tidemark.plan_memory, tidemark.Profile.write],
    "merge": [tidemark.merge, tidemark.Profile.write],
    "show": [tidemark.Profile.to_pandas, tidemark.Profile.read, tidemark.Tensor.to_dict],
    "check": [tidemark.check, tidemark.check_target],
    "diff": [tidemark.diff],
    "instrument": [tidemark.instrument],
    "transform": [tidemark.transform, tidemark.passes],
    "link": [tidemark.link, tidemark.Profile.write],
    "calibrate": [tidemark.Profile.calibrate, tidemark.calibration_methods, tidemark.Encodings.write],
    "export": [tidemark.Encodings.export, tidemark.export_formats],
    "report": [tidemark.Profile.report],
    "graph": [tidemark.graph, tidemark.patterns],
    "run": [tidemark.run],
    "simulate": [tidemark.simulate, tidemark.rank, tidemark.search],
    "verify": [tidemark.verify],
    "bench": [tidemark.bench, tidemark.step_costs],
    "quantize": [tidemark.quantize, tidemark.targets, tidemark.Profile.write, tidemark.Encodings.write],
}
# Options with another name in Python.
RENAMED = {
    "dim": "dims", "nan": "fail_on_nan", "every": "checkpoint_every", "observers": "observers", "print-after": "after",
    "params-out": "params_out", "samples": "limit", "numbers": "original", "figure": "figures", "rank": "most",
    "max-operations": "operations", "memory-limit": "memory", "percentile": "parameter", "per-channel": "scales", "weights-per-tensor": "weights_scales", "list": "method", "to": "format",
    "set": "settings", "dot": "view", "ops": "view", "output": "output",
}
# Options without a parameter, and why.
WITHOUT = {
    "help": "docstrings", "quiet": "nothing is printed", "log-json": "nothing is printed", "json": "results are objects",
    "wide": "nothing is printed", "output": "Profile.write, Encodings.write, or the path is a parameter", "sort": "sorted()",
    "filter": "a comprehension", "all": "results hold everything", "coverage": "Check.coverage", "plan": "plan_memory",
    "resume": "a checkpoint that exists is resumed", "search": "its own function", "per-op": "step_costs", "nodes": "a comprehension",
    "timeout": "the process's; raise in progress=", "convergence": "snapshots=", "show patterns": "patterns()", "outliers": "printed only",
    "metric-command": "metric=", "metric-timeout": "raise in metric=", "diff limit": "a slice", "quantize profile": "Quantized.profile", "quantize encodings": "Quantized.encodings",
}


def parameters(function):
    found = set()
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and name == "run":
            found |= set(tidemark.RunOptions.__annotations__)
        found.add(name)
    return found


def test_every_command_has_its_function():
    listed = [line.split()[0] for line in subprocess.run([PROGRAM, "--help"], capture_output=True, text=True).stdout.splitlines()
              if line.startswith("  ")]
    assert set(listed) - {"doctor"} == set(FUNCTIONS), listed
    lacking = []
    for command, functions in FUNCTIONS.items():
        assert all(function.__doc__ for function in functions), command
        text = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True).stdout
        options = re.findall(r"^(?:  -\w, |      )--([a-z][a-z0-9-]*)", text, re.M)
        assert options, text
        have = set().union(*map(parameters, [*functions, tidemark.set_limits]))
        lacking += [f"{command} --{o}" for o in options
                    if RENAMED.get(o, o.replace("-", "_")) not in have and not {o, f"{command} {o}"} & set(WITHOUT)]
    assert not lacking, lacking


def program(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def bytes_of(profile, folder):
    profile.write(folder / "bytes.json")
    return (folder / "bytes.json").read_bytes()


def test_merge_gives_the_whole(folder):
    parts = [tidemark.profile(DIGITS, PICTURES, shard=(k, 3)) for k in (1, 2, 3)]
    parts[1].write(folder / "two.json")
    whole = tidemark.profile(DIGITS, PICTURES)
    assert bytes_of(tidemark.merge([parts[2], folder / "two.json", parts[0]]), folder) == bytes_of(whole, folder)
    raises(tidemark.Error, "", lambda: tidemark.merge([parts[0], parts[0]]))
    raises(ValueError, "nothing", lambda: tidemark.merge([]))


def test_nothing_is_written_over_what_it_was_made_of(folder):
    model, data, config, own, link, encodings = (folder / name for name in (
        "digits.onnx", "data.npy", "config.json", "p.json", "link", "e.json"))
    parts = [folder / "1.json", folder / "2.json"]
    shutil.copy(DIGITS, model)
    np.save(data, DATA)
    config.write_text("{}")
    for k, part in enumerate(parts, 1):
        tidemark.profile(model, data, shard=(k, 2)).write(part)
    measured = tidemark.profile(model, data)
    measured.write(own)
    link.symlink_to(own)
    profile = tidemark.Profile.read(own)
    profile.calibrate().write(encodings)
    chosen, found = tidemark.Encodings.read(encodings), profile.calibrate(config=config)
    merged, again = tidemark.merge(parts), tidemark.merge([tidemark.Profile.read(part) for part in parts])
    linked = tidemark.link(own, model).profile
    searched = tidemark.search(model, chosen, data, profile=own, budget=2, limit=8).encodings
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for call in (lambda: profile.report(own), lambda: profile.report(link), lambda: profile.report(encodings, encodings=chosen),
                 lambda: profile.report(parts[0], since=parts[0]), lambda: measured.report(data),
                 lambda: measured.write(data), lambda: merged.write(parts[1]), lambda: again.write(parts[0]), lambda: linked.write(own),
                 lambda: chosen.export("csv", encodings), lambda: chosen.export("qdq", encodings, model=model),
                 lambda: found.export("csv", own), lambda: found.write(own), lambda: found.write(config),
                 lambda: searched.write(encodings), lambda: searched.write(own),
                 lambda: tidemark.link(profile, model, lineage_out=own), lambda: tidemark.link(profile, model, report=own),
                 lambda: tidemark.transform(model, own, profile=own),
                 lambda: tidemark.search(model, chosen, data, profile=own, write_config=encodings, budget=1)):
        assert raises(tidemark.Error, "is an input", call).code == "ARGUMENT"
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    profile.write(own)  # what it was read from may be replaced by itself
    chosen.write(encodings)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_objects_may_be_paths(folder):
    own, encodings = folder / "p.json", folder / "e.json"
    tidemark.profile(DIGITS, PICTURES, limit=16).write(own)
    chosen = tidemark.Profile.read(own).calibrate()
    chosen.write(encodings)
    assert tidemark.simulate(DIGITS, encodings, PICTURES, limit=8).values == tidemark.simulate(DIGITS, chosen, PICTURES, limit=8).values
    assert tidemark.rank(DIGITS, str(encodings), PICTURES, limit=4).values
    assert tidemark.check_target(encodings, "ort-cpu", own) == tidemark.check_target(chosen, "ort-cpu", tidemark.Profile.read(own))
    tidemark.Profile.read(own).report(folder / "r.html", since=own, encodings=encodings)
    raises(TypeError, "tidemark.Encodings", tidemark.simulate, DIGITS, {}, PICTURES)
    raises(TypeError, "tidemark.Profile", tidemark.link, None, DIGITS)


def test_options_of_profile_are_the_programs(folder):
    labels = folder / "labels.csv"
    labels.write_text("".join(f"{'ab'[i % 2]}\n" for i in range(64)))
    np.save(folder / "d.npy", DATA)
    split = tidemark.profile(DIGITS, DATA, strata=labels)
    assert set(split.strata) == {"a", "b"} and split.strata["a"].ledger["run"] == 32
    stable = tidemark.profile(DIGITS, PICTURES, until_stable=0.5, snapshots=folder / "s.json")
    assert stable.run_report.stable and stable.run_report.samples < 1797 and json.loads((folder / "s.json").read_text())
    program("profile", DIGITS, "--data", PICTURES, "--until-stable", "0.5", "-o", folder / "p.json", "--quiet")
    assert bytes_of(stable, folder) == (folder / "p.json").read_bytes()
    some = tidemark.profile(DIGITS, folder / "d.npy", sample_every=2, exclude=[16.0], checkpoint=folder / "c")
    assert some.ledger["run"] == 32 and some["image"].max < 16 and not (folder / "c").exists() or (folder / "c").is_file()
    raises(ValueError, "on_bad_sample", lambda: tidemark.profile(DIGITS, DATA, on_bad_sample="no"))
    raises(tidemark.Error, "", lambda: tidemark.profile(DIGITS, DATA, dims={"batch": 3, "nothing": 2}))
    assert tidemark.plan_memory(DIGITS, DATA)["total"] > 0
    for name in ("limit", "sample_every"):  # as the program's
        for call in (lambda **run: tidemark.profile(DIGITS, DATA, **run), lambda **run: tidemark.quantize(DIGITS, DATA, folder / "q.onnx", **run)):
            raises(ValueError, f"{name} is 1 or more", lambda call=call, name=name: call(**{name: 0}))
    every = tidemark.profile(DIGITS, DATA, limit=None, sample_every=None)
    assert every.ledger["run"] == len(DATA)


def test_thinned_histograms_are_the_programs(folder):
    thinned = tidemark.profile(DIGITS, PICTURES, histogram_share=1 / 4, limit=64)
    program("profile", DIGITS, "--data", PICTURES, "--limit", 64, "--histogram-share", "1/4", "-o", folder / "p.json", "--quiet")
    assert bytes_of(thinned, folder) == (folder / "p.json").read_bytes()
    value, weight = thinned["conv1_out"], next(t for t in thinned.tensors if t.kind == "weight")
    assert value.histogram_share == 1 / 4 and 0 < value.rank_error < 0.1
    assert weight.histogram_share == 1 and weight.rank_error == 0
    assert value.bins.count.sum() < value.count - value.zeros
    for share in (0, 2, 0.3, -0.5):
        raises(ValueError, "whole number", lambda share=share: tidemark.profile(DIGITS, DATA, histogram_share=share))


def test_progress_is_shown_by_tqdm():
    seen = []

    def show(done, total):
        seen.append((done, total))
    tidemark.profile(DIGITS, PICTURES, limit=64, progress=show)
    assert seen[0] == (0, 64) and seen[-1] == (64, 64), seen
    tidemark.profile(DIGITS, DATA[:8], progress=True)
    runs = {}
    for name, call in (("rank", lambda: tidemark.rank(DIGITS, ENCODINGS, PICTURES, most=6, limit=8, progress=show)),
                       ("link", lambda: tidemark.link(PROFILE, DIGITS, original=DIGITS, data=PICTURES, limit=8, progress=show)),
                       ("search", lambda: tidemark.search(DIGITS, ENCODINGS, PICTURES, profile=PROFILE, budget=6, limit=8,
                                                          progress=show))):
        seen.clear()
        call()
        runs[name] = list(seen)
        assert seen[0][0] == 0 and all(a[0] <= b[0] for a, b in zip(seen, seen[1:])), (name, seen)
    assert runs["rank"][-1] == runs["link"][-1] == (16, 16), runs
    assert runs["search"][-1][0] > 16 and not any(total for _, total in runs["search"]), runs


def test_diff_is_the_programs(folder):
    other = tidemark.profile(DIGITS, DATA[:8] * 2)
    PROFILE.write(folder / "a.json")
    other.write(folder / "b.json")
    ours, theirs = tidemark.diff(PROFILE, other), json.loads(program("diff", folder / "a.json", folder / "b.json", "--json"))
    assert [v.name for v in ours.drifted] == [v["name"] for v in theirs["values"]] and ours.drifted[0].range.share > 0.1
    assert not tidemark.diff(PROFILE, folder / "a.json").drifted
    ENCODINGS.export("tensorrt-cache", folder / "cache")
    assert "<table>" in tidemark.diff(PROFILE, folder / "cache")._repr_html_()


def test_simulate_is_the_programs(folder):
    ENCODINGS.write(folder / "e.json")
    np.save(folder / "d.npy", DATA)
    for words, named in (([], {}), (["--integer"], {"integer": True}), (["--requant", "fixed"], {"requant": "fixed"})):
        theirs = json.loads(program("simulate", DIGITS, folder / "e.json", "--data", folder / "d.npy", *words, "--json"))
        ours = tidemark.simulate(DIGITS, ENCODINGS, DATA, **named)
        assert [v.id for v in ours.values] == [v["id"] for v in theirs["values"]] and ours.agreement == theirs["agreement"]
        assert all(a.sqnr == float("inf") or np.isclose(a.sqnr, b["sqnr"]) for a, b in zip(ours.values, theirs["values"]))
    np.save(folder / "l.npy", np.load(LABELS)[:64])
    assert tidemark.simulate(DIGITS, ENCODINGS, DATA, labels=folder / "l.npy").accuracy_float > 0.9
    ranking = tidemark.rank(DIGITS, ENCODINGS, DATA, most=4)
    assert len(ranking.values) == 4 and ranking.values[0].sqnr <= ranking.values[1].sqnr
    found = tidemark.search(DIGITS, ENCODINGS, PICTURES, profile=PROFILE, budget=4)
    assert found.after >= found.before and found.tried <= 4 and len(found.encodings)
    right = np.load(LABELS)
    calls = []

    def accuracy(outputs, samples):
        calls.append(samples)
        return np.mean(outputs[0].argmax(-1) == right[samples.first:samples.first + samples.count])
    words = {"profile": PROFILE, "budget": 3, "limit": 16, "skip": 8}
    by_metric = tidemark.search(DIGITS, ENCODINGS, np.load(PICTURES), metric=accuracy, **words)
    by_labels = tidemark.search(DIGITS, ENCODINGS, PICTURES, labels=LABELS, **words)
    assert by_metric.own.after.metric == by_labels.own.after.accuracy == by_labels.points[-1].judged and by_metric.after == by_labels.after
    assert {(samples.first, samples.count) for samples in calls} == {(8, 16), (8, 8), (16, 8)}
    assert by_labels.judged_by == "crossed" and (by_labels.first, by_labels.split, by_labels.judged_samples) == (8, 16, 16)
    assert tidemark.search(DIGITS, ENCODINGS, PICTURES, metric=lambda outputs, samples: 1, goal="metric-1%", **words).tried == 0
    assert tidemark.search(DIGITS, ENCODINGS, PICTURES, goal=1, seconds=60, **words).tried == 0
    raises(ZeroDivisionError, "", lambda: tidemark.search(DIGITS, ENCODINGS, PICTURES, metric=lambda outputs, samples: 1 / 0, **words))
    raises(ValueError, "accuracy-0.5%", lambda: tidemark.search(DIGITS, ENCODINGS, PICTURES, goal="best", **words))
    raises(tidemark.Error, "no labels", lambda: tidemark.search(DIGITS, ENCODINGS, PICTURES, goal="accuracy-1%", **words))
    raises(ValueError, "requant", lambda: tidemark.simulate(DIGITS, ENCODINGS, DATA, requant="no"))


def test_quantize_is_the_programs(folder):
    ours = tidemark.quantize(DIGITS, PICTURES, folder / "ours.onnx")
    theirs = json.loads(program("quantize", DIGITS, "--data", PICTURES, "-o", folder / "theirs.onnx", "--json"))
    assert (folder / "ours.onnx").read_bytes() == (folder / "theirs.onnx").read_bytes()
    assert ours.held_out == 64 == theirs["judged_on"] and np.isclose(ours.sqnr, theirs["sqnr"])
    assert ours.profile.run_report.samples == ours.profile.ledger["run"] == 1797 - 64 and ours.profile.run_report.seconds > 0
    few = tidemark.quantize(DIGITS, DATA[:4], folder / "few.onnx")
    assert ours.method in {one.name for one in ours.tried} and ours.tried[0].name == "auto" and not few.tried and few.method is None
    named = tidemark.quantize(DIGITS, PICTURES, folder / "named.onnx", method="minmax")
    assert named.method is None and {e.method for e in named.encodings.values() if e.role == "activation"} == {"minmax"}
    assert few.held_out == 0 and few.simulation.samples == 4 == few.profile.run_report.samples
    assert named.profile.run_report.samples == 1797 - 64 and "<table>" in few._repr_html_()
    assert "tensorrt" in tidemark.targets() and tidemark.check_target(ours.encodings, "ort-cpu", ours.profile) == []
    raises(tidemark.Error, "no-target", lambda: tidemark.quantize(DIGITS, DATA, folder / "x.onnx", target="no-target"))
    for taken in ("model.onnx", "model.link.onnx"):  # it is folded first, and what is exported is another file
        shutil.copy(DIGITS, folder / "model.onnx")
        if taken != "model.onnx":
            (folder / taken).symlink_to(folder / "model.onnx")
        raises(tidemark.Error, "is an input", lambda: tidemark.quantize(folder / "model.onnx", DATA, folder / taken))
        assert filecmp.cmp(folder / "model.onnx", DIGITS, shallow=False)
    raises(ValueError, "feedback", lambda: tidemark.quantize(DIGITS, DATA, folder / "x.onnx", feedback={"a": "b"}))


def test_outputs_are_tried_before_a_run(folder):
    nowhere, no_data = folder / "no-folder" / "x.onnx", folder / "no-data.npy"
    raises(tidemark.Error, "no-folder", lambda: tidemark.quantize(DIGITS, no_data, nowhere))
    raises(tidemark.Error, "no-folder", lambda: tidemark.quantize(DIGITS, no_data, folder / "x.onnx", folded=nowhere))
    raises(tidemark.Error, "no-folder", lambda: tidemark.search(DIGITS, ENCODINGS, no_data, profile=PROFILE, write_config=nowhere))


def test_models_are_transformed_and_linked(folder):
    small = folder / "small.onnx"
    done = tidemark.transform(DIGITS, small, ["all"], lineage=folder / "l.json", after=True)
    assert done.nodes_after < done.nodes_before and done.changed and len(done.after) > 1
    assert tidemark.read_lineage(folder / "l.json") == done.fates and done.fates[0].verdict == "same"
    by_lineage = tidemark.link(PROFILE, small, lineage=folder / "l.json")
    assert by_lineage.method == "lineage" and by_lineage.profile["image"].max == PROFILE["image"].max
    by_numbers = tidemark.link(PROFILE, small, original=DIGITS, data=DATA)
    assert by_numbers.method == "numbers" and sum(e.evidence == "equal" for e in by_numbers.evidence) > 3
    assert tidemark.link(PROFILE, DIGITS).carried["same"] > 3
    raises(ValueError, "original", lambda: tidemark.link(PROFILE, small, data=DATA))
    assert tidemark.instrument(DIGITS, folder / "seen.onnx", observe=["activations"]) > 3
    assert "@p0" in tidemark.graph(DIGITS) and "Conv" in tidemark.graph(DIGITS, "ops") and json.loads(tidemark.graph(DIGITS, "json"))
    assert [(node.pattern, node.node) for node in tidemark.patterns(DIGITS)] == [("input-norm", "scale"), ("softmax", "softmax")]
    assert tidemark.graph(DIGITS, "dot", patterns=True) == program("graph", DIGITS, "--dot", "--patterns")
    raises(ValueError, "view 'dot'", lambda: tidemark.graph(DIGITS, patterns=True))
    assert "fold-constant" in tidemark.passes()
    raises(tidemark.Error, "no-pass", lambda: tidemark.transform(DIGITS, small, ["no-pass"]))


def test_check_finds_ranges(folder):
    same = tidemark.check(PROFILE, against=DIGITS)
    assert same and same.coverage == 1 and {v.kind for v in same.against} == {"matched"}
    ENCODINGS.export("tensorrt-cache", folder / "cache")
    assert tidemark.check(PROFILE, against=folder / "cache").against[0].difference is not None
    PROFILE.write(folder / "p.json")
    data = json.loads((folder / "p.json").read_text())
    data["ledger" if "ledger" in data else "samples"]["run"] += 1
    (folder / "p.json").write_text(json.dumps(data))
    assert not tidemark.check(folder / "p.json")


def test_outputs_run_and_verify(folder):
    tidemark.run(DIGITS, DATA, folder / "out.npz")
    with np.load(folder / "out.npz") as arrays:
        assert len(arrays[arrays.files[0]]) == 64
    try:
        from onnx import numpy_helper
    except ImportError as error:
        skip(error)
    with np.load(folder / "out.npz") as arrays:
        for name, array in (("input_0", DATA), ("output_0", arrays[arrays.files[0]])):
            (folder / f"{name}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    verdicts = tidemark.verify(DIGITS, folder)
    assert [v.ok for v in verdicts] == [True], verdicts


def test_limits_are_the_processes():
    tidemark.set_limits(operations=10)
    try:
        raises(tidemark.Error, "operations", lambda: tidemark.profile(DIGITS, DATA))
    finally:
        tidemark.set_limits(operations=1e15)
    tidemark.set_limits(memory=1000)
    try:
        assert raises(tidemark.Error, "", lambda: tidemark.profile(DIGITS, DATA)).code == "LIMIT"
    finally:
        tidemark.set_limits(memory=0)


def test_bench_measures():
    figures = tidemark.bench(DIGITS, DATA, figures=["bare", "histograms"], repeat=1, seconds=0.01)
    assert [f.what for f in figures] == ["bare", "histograms"] and figures[0].samples_per_second > 0 and figures[0].cost == 0
    thinned = tidemark.bench(DIGITS, DATA, figures=["thinned"], repeat=1, seconds=0.01, histogram_share=1 / 8)
    assert [f.what for f in thinned] == ["thinned"] and thinned[0].samples_per_second > 0
    assert {"Conv"} & {word for step in tidemark.step_costs(DIGITS, DATA) for word in step.what.split("+")}


def test_objects_are_shown_and_kept():
    hostile = tidemark._html.table(("<a>",), [("<script>",)], "<b>")
    assert "<script>" not in hostile and "<a>" not in hostile and "<b>" not in hostile
    for thing in (PROFILE, PROFILE["conv1_out"], ENCODINGS, tidemark.simulate(DIGITS, ENCODINGS, DATA)):
        assert "<table>" in thing._repr_html_()
    assert "<svg" in PROFILE._repr_html_()
    again = pickle.loads(pickle.dumps(PROFILE))
    assert again.to_dict() == PROFILE.to_dict() and pickle.loads(pickle.dumps(PROFILE["image"])).max == PROFILE["image"].max
    assert again.run_report == PROFILE.run_report and again.run_report.samples == 64
    assert pickle.loads(pickle.dumps(ENCODINGS)).to_dict() == ENCODINGS.to_dict()
    try:
        assert set(ENCODINGS.to_pandas()["dtype"]) >= {"uint8", "int8"}
    except ImportError:
        pass


def test_a_histogram_is_drawn():
    """Into axes of matplotlib, or of a stand-in."""
    class Axes:
        def stairs(self, counts, edges, fill):
            assert counts.sum() == PROFILE["image"].count and len(edges) == len(counts) + 1 == 17 and fill

        def set(self, title, xlabel, ylabel, yscale):
            assert title == "image" and yscale == "linear"
    axes = Axes()
    assert PROFILE["image"].plot(axes, 16, logarithmic=False) is axes
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("agg")
    assert PROFILE["image"].plot().get_title() == "image"


def test_results_are_short_and_kept(folder):
    """What each function answers with has a line as its repr, however large the network, and can be pickled."""
    labels = folder / "labels.csv"
    labels.write_text("".join(f"{'ab'[i % 2]}\n" for i in range(64)))
    small = folder / "small.onnx"
    results = [
        tidemark.profile(DIGITS, DATA, strata=labels), PROFILE["image"], ENCODINGS, next(iter(ENCODINGS.values())),
        tidemark.simulate(DIGITS, ENCODINGS, DATA), tidemark.rank(DIGITS, ENCODINGS, DATA, most=2),
        tidemark.search(DIGITS, ENCODINGS, PICTURES, profile=PROFILE, budget=1, limit=8), tidemark.diff(PROFILE, PROFILE),
        tidemark.quantize(DIGITS, DATA[:4], folder / "few.onnx"), tidemark.check(PROFILE, against=DIGITS),
        tidemark.transform(DIGITS, small, ["all"], lineage=folder / "l.json"), tidemark.read_lineage(folder / "l.json")[0],
        tidemark.link(PROFILE, small, lineage=folder / "l.json"), *tidemark.bench(DIGITS, DATA[:2], figures=["bare"], repeat=1, seconds=0.01)]
    classes = {getattr(tidemark, name) for name in tidemark.__all__ if isinstance(getattr(tidemark, name), type)}
    assert classes - {tidemark.Error, tidemark.RunOptions, tidemark.Verdict} == set(map(type, results)), classes
    for result in results:
        assert type(result).__name__ in repr(result) and "\n" not in repr(result) and len(repr(result)) < 700, repr(result)
        assert repr(pickle.loads(pickle.dumps(result))) == repr(result)
    assert set(pickle.loads(pickle.dumps(results[0])).strata) == {"a", "b"}
    error = pickle.loads(pickle.dumps(raises(tidemark.Error, "", lambda: tidemark.profile(folder / "none.onnx", DATA))))
    assert error.code == "READ" and "none.onnx" in str(error)


def test_prompts_are_decoded():
    try:
        from decoders import decoder, prompt_feed
    except ImportError as error:
        skip(error)
    model, prompts = decoder(), [[1, 5, 7], [2], [6, 10, 3, 3]]
    feeds = [prompt_feed(model, prompt) for prompt in prompts]
    feeds = [{name: array for name, array in feed.items() if array.size} for feed in feeds]
    made = tidemark.profile(model, iter(feeds), dims={"past": 0}, generate=4, eos=[7])
    lines = FOLDER / "prompts.jsonl"
    lines.write_text("".join(f"{prompt}\n" for prompt in prompts))
    again = tidemark.profile(model, lines, generate=4, eos=[7])
    assert [(t.min, t.max, t.count) for t in made.tensors] == [(t.min, t.max, t.count) for t in again.tensors]
    assert made.settings["generate"] == "4" and made.ledger["run"] == 3, made.settings
    raises(TypeError, "eos", tidemark.profile, model, lines, generate=4, eos=["x"])


def test_module_is_the_program():
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-m", "tidemark", "--version"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stdout == program("--version"), done
    gone = subprocess.run([sys.executable, "-m", "tidemark", "--version"], capture_output=True, text=True,
                          env={**environment, "PATH": str(FOLDER)})
    assert gone.returncode in (0, 3), gone  # 0: the package is installed in this Python, too


def test_types_are_strict():
    package = SOURCE / "python" / "tidemark"
    for file in package.glob("*.py*"):
        text = re.sub(r"import Any, cast\n|def __getattr__.*-> Any:", "", file.read_text()) if file.name == "ort.py" else file.read_text()
        assert not re.search(r"\bAny\b", text), f"{file.name}: Any"
    try:
        from mypy import api
    except ImportError as error:
        skip(error)
    said, wrong, status = api.run(["--strict", "--no-incremental", "--config-file", str(SOURCE / "pyproject.toml"), str(package)])
    assert status == 0, said + wrong


main()
