# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out at the n-th allocation of a command, for n from the first to the last: status 4 and one line, outputs
as they were; or, where the allocation did not matter, the whole right answer.

usage: test_alloc.py PROGRAM SOURCE_ROOT FEATURES PRELOAD [POINTS [JOB...]]

Takes POINTS (15) of each command's allocations. Prints a table.
"""
import collections
import os
import re
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))

import onnx_bytes as onnx
from cli import ANSWER_NO, DONE, FEATURES, SOURCE, WRONG_CALL, folder, npy_bytes, tidemark
from injected import FAILED, OPTIONAL, Job, Sweep

PRELOAD = Path(sys.argv[4]).resolve()
POINTS, MOST_OTHERS = 15, 100
IMAGE = "color=grey,resize=3x3"
# Faults of libraries without a workaround, "library" in the table; see docs/memory-faults.md.
EXCEPTIONS = (("libdnnl", "ended by SIG"), ("libzip", "status 3: .*(zip archive|unpacked)"),
              ("libhdf5", "ended by SIG|status 3: |status 4: |not one line|status 0, but said"),
              ("dlopen+", "ended by SIG|not one line|status [0-9]+, but said|status 3: .*HDF5 library cannot be loaded"),
              ("", "status 3: .*(HDF5 library crashes|HDF5: )"), ("libgomp", "not one line.*libgomp: Out of memory"))
ONE_THREAD = ["--threads", 1, "--quiet"]
TOLD = 6


def write_net(path):
    """Convolution, Relu, matrix product: a few values of a few elements, so that there are few allocations."""
    weights = [onnx.tensor("w", [2, 1, 2, 2], [0.5, -0.25, 1, 0.125, -1, 0.5, 0.25, -0.5]), onnx.tensor("b", [2], [0.5, -0.5]),
               onnx.tensor("m", [8, 2], [k / 8 - 1 for k in range(16)])]
    nodes = [onnx.node("Conv", ["x", "w", "b"], ["c"], "conv"), onnx.node("Relu", ["c"], ["r"], "relu"),
             onnx.node("Flatten", ["r"], ["f"], "flatten"), onnx.node("MatMul", ["f", "m"], ["y"], "product")]
    path.write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 1, 3, 3])], [onnx.value("y", ["N", 2])], weights))
    return path


def values(n):
    return [(k * 7 % 11) / 4 - 1 for k in range(n)]


class Inputs:
    """Everything that commands read, made once."""

    def __init__(self, path):
        self.path = path
        self.net = write_net(path / "net.onnx")
        self.x, self.labels = path / "x.npy", path / "labels.npy"
        self.x.write_bytes(npy_bytes([4, 1, 3, 3], values(36)))
        self.labels.write_bytes(npy_bytes([4], [0, 1, 0, 1], kind="<i8"))
        self.stream = path / "stream"
        self.stream.write_bytes(self.x.read_bytes() * 2)
        self.raw = path / "x.bin"
        self.raw.write_bytes(struct.pack("<36f", *values(36)))
        self.sets = path / "test_data_set_0"
        self.sets.mkdir()
        (self.sets / "input_0.pb").write_bytes(onnx.tensor("x", [1, 1, 3, 3], values(9)))
        (self.sets / "output_0.pb").write_bytes(onnx.tensor("y", [1, 2], values(2)))
        self.strata = path / "strata.csv"
        self.strata.write_text("one\nother\none\nother\n")
        if "images" in FEATURES:
            self.png, self.jpeg = path / "png", path / "jpeg"
            for images in (self.png, self.jpeg):
                images.mkdir()
            for name, kind in ((self.png / "1.png", "clear"), (self.jpeg / "1.jpg", "jpeg")):
                name.write_bytes((SOURCE / "tests/fuzz/corpus/images" / kind).read_bytes().split(b"\n", 1)[1])
        self.npz, self.small, self.relay, self.lineage, self.encodings = (
            path / name for name in ("x.npz", "small.onnx", "net.relay", "l.json", "e.json"))
        self.profiles = [path / f"{name}.json" for name in ("a", "b")]
        for shard, profile in zip(("1/2", "2/2"), self.profiles):
            tidemark("profile", self.net, "--data", self.x, "--shard", shard, "--batch", 1, "-o", profile, *ONE_THREAD).expect(0)
        tidemark("calibrate", self.profiles[0], "-o", self.encodings).expect(0)
        tidemark("transform", self.net, "--passes", "all", "-o", self.small, "--lineage", self.lineage).expect(0)
        if "relay" in FEATURES:
            tidemark("transform", self.net, "--passes", "none", "-o", self.relay).expect(0)
        tidemark("run", self.net, "--data", self.x, "--values", "x", "-o", self.npz).expect(0)
        if "hdf5" in FEATURES:
            self.hdf5 = path / "a.h5"
            tidemark("merge", self.profiles[0], "-o", self.hdf5).expect(DONE)
        self.checkpoint = self.interrupted()
        self.formats = self.exported()
        self.coverage = tidemark("check", self.profiles[0], "--against", self.small, "--lineage", self.lineage).status


    def exported(self):
        """The formats that need no more, such as a template."""
        export = ["export", self.encodings, "--model", self.net, "-o", self.path / "out", "--to"]
        listed = tidemark(*export, "?").refuses(WRONG_CALL, "there are").err
        return [form for form in listed.split("there are ")[1].strip().split(", ") if tidemark(*export, form).status == DONE]

    def interrupted(self):
        """A checkpoint in the middle of a run: memory ran out."""
        checkpoint, report = self.path / "c", self.path / "report"
        words = ["profile", self.net, "--data", self.x, *ONE_THREAD, "--batch", 1, "-o", self.path / "no.json", "--checkpoint",
                 checkpoint, "--every", "0.0001s"]
        environment = {**os.environ, "LD_PRELOAD": str(PRELOAD), "TIDEMARK_FAIL_REPORT": str(report)}
        tidemark(*words, env=environment).expect(DONE)
        n = int(report.read_text().split()[1])
        while not checkpoint.exists():
            n -= 20
            assert n > 0, "no checkpoint was left"
            tidemark(*words, env={**environment, "TIDEMARK_FAIL": f"alloc:{n}"})
        return checkpoint.read_bytes()


def jobs(have, out):
    """`have` are the inputs; outputs go to folder `out`."""
    one, both = have.profiles[0], have.profiles
    run = ["--data", have.x, *ONE_THREAD]

    def makes(name, words, output, also=(), **more):
        return Job(name, [*words, "-o", out / output, "--quiet"], [out / output, *also], **more)

    yield makes("profile-json", ["profile", have.net, *run], "p.json")
    yield makes("profile-per-value", ["profile", have.net, *run, "--kind", "range", "--observe", "*", "--exclude", "0.5",
                                      "--memory-limit", "1G"], "p.json")
    yield makes("profile-snapshots", ["profile", have.net, *run, "--snapshots", out / "s.json"], "p.json",
                also=[out / "s.json"])
    yield makes("profile-raw", ["profile", have.net, "--data", f"x={have.raw}", "--threads", 1], "p.json")
    yield makes("profile-npz", ["profile", have.net, "--data", have.npz, "--threads", 1], "p.json")
    yield makes("profile-sets", ["profile", have.net, "--data", have.sets.parent, "--threads", 1], "p.json")
    yield makes("profile-stream", ["profile", have.net, "--data", "-", "--threads", 1], "p.json", stdin=have.stream)
    yield makes("profile-strata", ["profile", have.net, *run, "--strata", have.strata], "p.json")
    keep = ["profile", have.net, *run, "--batch", 1, "--checkpoint", out / "c"]
    yield makes("profile-checkpoint", [*keep, "--every", "0.0001s"], "p.json", kept={out / "c": None})
    yield makes("profile-resume", keep, "p.json", kept={out / "c": have.checkpoint})
    if "hdf5" in FEATURES:
        yield makes("profile-hdf5", ["profile", have.net, *run], "p.h5")
        yield Job("show-hdf5", ["show", have.hdf5])
    if "images" in FEATURES:
        yield makes("profile-png", ["profile", have.net, "--data", have.png, "--image", IMAGE, "--threads", 1], "p.json")
        yield makes("profile-jpeg", ["profile", have.net, "--data", have.jpeg, "--image", IMAGE, "--threads", 1], "p.json")
    yield makes("merge", ["merge", *both], "m.json")
    yield makes("calibrate", ["calibrate", one, "--method", "minmax"], "e.json")
    for method in ("percentile", "entropy", "auto"):
        yield makes(f"calibrate-{method}", ["calibrate", one, "--method", method], "e.json")
    for form in have.formats:
        yield makes(f"export-{form}", ["export", have.encodings, "--model", have.net, "--to", form], f"{form}.out")
    yield makes("report", ["report", one], "r.html")
    yield makes("instrument", ["instrument", have.net], "i.onnx")
    yield makes("transform", ["transform", have.net, "--passes", "all", "--lineage", out / "l.json"], "t.onnx", also=[out / "l.json"])
    if "relay" in FEATURES:
        yield makes("transform-relay", ["transform", have.net, "--passes", "none"], "t.relay")
        yield makes("profile-relay", ["profile", have.relay, *run], "p.json")
    yield makes("link", ["link", one, have.small], "k.json")
    yield makes("link-lineage", ["link", one, have.small, "--lineage", have.lineage], "k.json")
    yield makes("link-numbers", ["link", one, have.small, "--numbers", "--original", have.net, *run], "k.json")
    yield makes("run", ["run", have.net, *run], "y.npz")
    yield makes("run-npy", ["run", have.net, *run], "y.npy")
    yield Job("simulate", ["simulate", have.net, have.encodings, *run])
    yield Job("simulate-integer", ["simulate", have.net, have.encodings, *run, "--integer", "--labels", have.labels, "--json"])
    yield Job("simulate-rank", ["simulate", have.net, have.encodings, *run, "--rank=2"])
    yield makes("simulate-search", ["simulate", have.net, have.encodings, *run, "--search", "--profile", one, "--budget", 2], "e.json")
    yield Job("verify", ["verify", have.net, have.sets], status=ANSWER_NO)
    yield Job("graph", ["graph", have.net])
    yield Job("graph-dot", ["graph", have.net, "--dot"])
    yield Job("graph-json", ["graph", have.net, "--json"])
    yield Job("graph-ops", ["graph", have.net, "--ops"])
    yield Job("show", ["show", one])
    yield Job("show-value", ["show", one, "p2"])
    yield Job("check", ["check", one])
    yield Job("check-against", ["check", one, "--against", have.small, "--lineage", have.lineage, "--json"], status=have.coverage)
    yield Job("diff", ["diff", *both, "--all"], status=ANSWER_NO)
    yield Job("diff-json", ["diff", *both, "--json"], status=ANSWER_NO)
    yield Job("bench", ["bench", have.net, *run, "--repeat", 1, "--seconds", 0.001, "--per-op"], figures=True)
    yield Job("help", ["profile", "--help"])


def faults(calls, points):
    """So many allocations of each part, the first and the last among them; a fifth as many from which on there is none, and
    those at random."""
    others = min(points // 5, MOST_OTHERS)
    yield from (f"alloc:{n}" for n in spread(calls, points))
    yield from (f"alloc:{n}+" for n in spread(calls, others))
    yield from (f"alloc:1%{seed}" for seed in range(others))


def spread(calls, n):
    return sorted({1 + k * (calls - 1) // (n - 1) for k in range(n)}) if n < calls else range(1, calls + 1)


class Table:
    """Of what commands do; prints a line for each."""

    def __init__(self, what):
        self.bad = 0
        print(f"{'command':<24}{what:>12}{'faults':>8}{'status 4':>10}{'no matter':>11}{'library':>9}{'wrong':>7}", flush=True)

    def add(self, sweep, calls, tried):
        outcomes, wrong = collections.Counter(), collections.defaultdict(list)
        for fault in tried:
            try:
                outcomes[sweep.judge(fault)] += 1
            except AssertionError as error:
                trace = sweep.trace.read_text()
                if any(library in trace and re.match(remark, str(error), re.DOTALL) for library, remark in EXCEPTIONS):
                    outcomes["library"] += 1
                    continue
                outcomes["wrong"] += 1
                wrong[re.sub(r"[0-9]+", "#", str(error))].append((fault, trace))
        self.bad += outcomes["wrong"]
        print(f"{sweep.job.name:<24}{calls:>12}{outcomes.total():>8}{outcomes[FAILED]:>10}{outcomes[OPTIONAL]:>11}"
              f"{outcomes['library']:>9}{outcomes['wrong']:>7}", flush=True)
        for said, where in wrong.items():
            print(f"    {len(where)} times, at {[fault for fault, _ in where[:TOLD]]}: {said}\n{where[0][1]}", flush=True)

    def end(self):
        return 1 if self.bad else 0


def main():
    points = int(sys.argv[5]) if len(sys.argv) > 5 else POINTS
    names = set(sys.argv[6:])
    table = Table("allocations")
    with folder() as inputs, folder() as out, folder() as own:
        for job in jobs(Inputs(inputs), out):
            if names and job.name not in names:
                continue
            with Sweep(PRELOAD, own, job) as sweep:
                table.add(sweep, sweep.calls["alloc"], faults(sweep.calls["alloc"], points))
            for path in out.iterdir():
                path.unlink()
    sys.exit(table.end())


if __name__ == "__main__":
    main()
