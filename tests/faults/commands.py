# SPDX-License-Identifier: Apache-2.0
"""Every way in which the program writes files: what to call, what it reads, what it writes."""
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from cli import DIGITS, DONE, FEATURES, PICTURES, tidemark

LIMIT = 8
HAS_HDF5 = "hdf5" in FEATURES
WITHOUT_MODEL = ["aimet", "litert", "tensorrt-cache", "tensorrt-ranges", "quark", "tpu-mlir", "tvm", "glow", "nncase", "csv"]
WITH_MODEL = ["qdq", "ort-cache", "ncnn-table", "mnn", "tidl"]
RELAY_FILES = ["out.relay", "out.params", "out.params.json", "out.edges.json"]


class Command:
    """Words with IN/name for what it reads and OUT/name for what it writes. `together`: the files are put in place all or none;
    else each is whole for itself. `passing`: files that come and go."""

    def __init__(self, name, words, outputs, together=True, passing=(), stdin=None):
        self.name, self.words, self.outputs, self.together, self.passing, self.stdin = name, words, outputs, together, passing, stdin

    def call(self, inputs, out):
        def place(word):
            return word.replace("IN/", f"{inputs}/").replace("OUT/", f"{out}/")
        return [place(str(word)) for word in [*self.words, "--quiet"]]


def profile(*more):
    return ["profile", "IN/m.onnx", "--data", "IN/x.npy", "--limit", LIMIT, "--threads", 1, *more]


def export(to, name, *more):
    return Command(f"export {to}", ["export", "IN/enc.json", "--to", to, "-o", f"OUT/{name}", *more], [name])


def commands():
    all_of_them = [
        Command("profile", profile("-o", "OUT/p.json"), ["p.json"]),
        Command("profile --kind range", profile("--kind", "range", "-o", "OUT/p.json"), ["p.json"]),
        Command("profile --checkpoint", profile("-o", "OUT/p.json", "--checkpoint", "OUT/c", "--every", "0.001s"), ["p.json"], passing=["c"]),
        Command("profile --resume", profile("-o", "OUT/p.json", "--checkpoint", "OUT/c", "--every", "0.001s", "--resume"), ["p.json"], passing=["c"]),
        Command("profile --log-json", profile("-o", "OUT/p.json", "--log-json"), ["p.json"]),
        Command("profile --snapshots", profile("-o", "OUT/p.json", "--snapshots", "OUT/s.json"), ["p.json", "s.json"], together=False),
        Command("profile --strata", profile("-o", "OUT/p.json", "--strata", "IN/strata.csv"), ["p.json", "p.a.json", "p.b.json"], together=False),
        Command("profile of a stream", ["profile", "IN/m.onnx", "--data", "-", "--limit", LIMIT, "-o", "OUT/p.json"], ["p.json"], stdin="x.npy"),
        Command("merge", ["merge", "IN/1.json", "IN/2.json", "-o", "OUT/m.json"], ["m.json"]),
        Command("instrument", ["instrument", "IN/m.onnx", "-o", "OUT/i.onnx"], ["i.onnx"]),
        Command("run, .npz", ["run", "IN/m.onnx", "--data", "IN/x.npy", "--limit", LIMIT, "-o", "OUT/r.npz"], ["r.npz"]),
        Command("run, .npy", ["run", "IN/m.onnx", "--data", "IN/x.npy", "--limit", LIMIT, "-o", "OUT/r.npy"], ["r.npy"]),
        Command("transform", ["transform", "IN/m.onnx", "--passes", "all", "-o", "OUT/t.onnx", "--lineage", "OUT/l.json"],
                ["t.onnx", "l.json"], together=False),
        Command("link", ["link", "IN/p.json", "IN/t.onnx", "-o", "OUT/k.json", "--report", "OUT/r.json", "--lineage-out", "OUT/l.json"],
                ["k.json", "r.json", "l.json"], together=False),
        Command("calibrate", ["calibrate", "IN/p.json", "-o", "OUT/e.json"], ["e.json"]),
        Command("simulate --search", ["simulate", "IN/m.onnx", "IN/enc.json", "--data", "IN/x.npy", "--limit", 4, "--search", "--budget", 2,
                                      "--profile", "IN/p.json", "-o", "OUT/e.json"], ["e.json"]),
        Command("report", ["report", "IN/p.json", "--encodings", "IN/enc.json", "-o", "OUT/r.html"], ["r.html"]),
    ]
    if "relay" in FEATURES:
        all_of_them += [
            Command("transform to Relay", ["transform", "IN/m.onnx", "--passes", "none", "-o", "OUT/t.relay", "--params-out", "OUT/t.params"],
                    ["t.relay", "t.params"]),
            Command("export relay", ["export", "IN/enc.json", "--to", "relay", "--model", "IN/m.onnx", "-o", "OUT/out.relay"], RELAY_FILES),
            Command("export relay, integer", ["export", "IN/enc.json", "--to", "relay", "--set", "form=integer", "--model", "IN/m.onnx",
                                              "-o", "OUT/out.relay"], RELAY_FILES),
        ]
    if HAS_HDF5:
        all_of_them += [
            Command("profile to HDF5", profile("-o", "OUT/p.h5"), ["p.h5"]),
            Command("profile to both", profile("-o", "OUT/p.json", "-o", "OUT/p.h5"), ["p.json", "p.h5"], together=False),
            Command("merge to both", ["merge", "IN/1.json", "IN/2.json", "-o", "OUT/m.json", "-o", "OUT/m.h5"], ["m.json", "m.h5"], together=False),
        ]
    return all_of_them + [export(to, "out.new") for to in WITHOUT_MODEL] + [export(to, "out.new", "--model", "IN/m.onnx") for to in WITH_MODEL]


@contextlib.contextmanager
def inputs():
    """The folder that commands read, made by the program itself."""
    folder = Path(tempfile.mkdtemp(prefix="tidemark-faults-in-"))
    run = ["--data", folder / "x.npy", "--limit", LIMIT, "--quiet"]
    try:
        shutil.copy(DIGITS, folder / "m.onnx")
        shutil.copy(PICTURES, folder / "x.npy")
        (folder / "strata.csv").write_text("a\nb\n" * (LIMIT // 2))
        for words in (["profile", folder / "m.onnx", *run, "-o", folder / "p.json"],
                      ["profile", folder / "m.onnx", *run, "--shard", "1/2", "-o", folder / "1.json"],
                      ["profile", folder / "m.onnx", *run, "--shard", "2/2", "-o", folder / "2.json"],
                      ["transform", folder / "m.onnx", "--passes", "all", "-o", folder / "t.onnx", "--quiet"],
                      ["calibrate", folder / "p.json", "-o", folder / "enc.json", "--quiet"]):
            tidemark(*words).expect(DONE)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear(folder):
    for entry in os.scandir(folder):
        shutil.rmtree(entry) if entry.is_dir() else os.unlink(entry)
