# SPDX-License-Identifier: Apache-2.0
"""Every verb but `bench`, which prints times, over one model: command lines for the tests that go through all of them.

Commands are run in a folder of their own, with the names of outputs relative to it, so that nothing that a run leaves behind
depends on where it ran.
"""
import subprocess
from pathlib import Path


def commands(model, data, sets=None, samples=4):
    """[words]; each may use what those before it wrote. A verb that refuses the model is one more result to compare."""
    feed = [word for source in data for word in ("--data", source)] + ["--limit", samples]
    few = feed[:-1] + [2]
    return [
        ["profile", model, *feed, "-o", "p.json"],
        ["profile", model, *feed, "--threads", 2, "-o", "p2.json"],
        ["profile", model, *feed, "--kind", "range", "-o", "range.json"],
        ["show", "p.json"], ["show", "p.json", "--json"], ["show", "p.json", "--outliers"],
        ["check", "p.json"], ["merge", "p.json", "-o", "merged.json"],
        ["graph", model],
        ["instrument", model, "-o", "observed.onnx"],
        ["transform", model, "--passes", "all", "-o", "small.onnx", "--lineage", "lineage.json", "--json"],
        ["transform", model, "--passes", "none", "-o", "same.relay"],
        ["link", "p.json", "small.onnx", "-o", "linked.json", "--report", "linked-report.json"],
        ["link", "p.json", "small.onnx", "--numbers", "--original", model, *few[:-2], "--samples", 2, "-o", "numbers.json",
         "--report", "numbers-report.json"],
        ["calibrate", "p.json", "-o", "e.json"],
        ["calibrate", "p.json", "--dtype", "int8", "--scheme", "symmetric", "--method", "minmax", "-o", "s.json"],
        ["calibrate", "p.json", "--per-channel", "-o", "channels.json"],
        ["diff", "p.json", "range.json"], ["diff", "p.json", "e.json", "--all"], ["diff", "s.json", "p.json", "--all"],
        ["diff", "p.json", "channels.json", "--json"], ["diff", "e.json", "s.json"],
        ["export", "e.json", "--to", "qdq", "--model", model, "-o", "qdq.onnx"],
        ["export", "e.json", "--to", "ort-cache", "--model", model, "-o", "cache.json"],
        ["export", "e.json", "--to", "csv", "-o", "e.csv"],
        ["quantize", model, *feed, "-o", "int8.onnx"],
        ["report", "p.json", "-o", "report.html"],
        ["run", model, *feed, "-o", "outputs.npz"],
        ["run", model, *feed, "--threads", 1, "-o", "outputs1.npz"],
        ["simulate", model, "e.json", *few], ["simulate", model, "e.json", *few, "--integer", "--json"],
        ["simulate", model, "s.json", *few, "--rank=3"],
        ["simulate", model, "e.json", *few, "--search", "--profile", "p.json", "--budget", 2, "-o", "better.json"],
        *([["verify", model, sets, "--rtol", 0.1, "--atol", 0.1]] if sets else []),
    ]


def run(program, words, folder, before=(), seconds=600):
    """The exit status, stdout and stderr of one command, as bytes."""
    done = subprocess.run([*before, program, *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=seconds)
    return done.returncode, done.stdout, done.stderr


def shared_models(root):
    """(name, model, data, sets) of each model next to the checkout; none where there are none."""
    found = []
    for model in sorted((Path(root) / "models").glob("*/model.onnx")):
        sets = sorted(model.parent.glob("test_data_set_*"))
        data = sorted(model.parent.glob("inputs_[0-9]*.npz")) or sorted(model.parent.glob("inputs.npz")) or [model.parent]
        found.append((model.parent.name, model, data[:1], sets[0] if sets else None))
    return found
