# SPDX-License-Identifier: Apache-2.0
"""Methods of `calibrate` and of ONNX Runtime by many random splits of each network's samples.

    test_methods.py PROGRAM RESULTS.json [--models DIR] [--only NAMES] [--types uint8,uint16] [--counts 4,16,64,all] [--splits 10]
                    [--methods auto,minmax,...] [--peers] [--before-softmax] [--minutes N] [--table]

A split calibrates on COUNT samples (`all`: three quarters of them) and judges by up to 24 others: ONNX Runtime runs the QDQ file with
session.x64quantprecision=1, and the outputs' signal-to-noise ratio is kept in RESULTS, so that a run can be continued. Folders of DIR have
model.onnx and samples, as those of trained.py. --peers adds ONNX Runtime's quantize_static, uint8 and int8 by channel, of all operators
and of MatMul, Conv and Gemm. Other options of `calibrate` are left at their defaults, and the model is not found, but by the method
"calibrate", which is the default with the model. "quantize" is the command of that name, which has the same samples to calibrate on.
"auto~1" is a copy of auto, and so is each other number: its ranges are up to 1 % wider or narrower, at random, which the methods could not
tell apart. How far copies are above one another is luck, and so is as much of how far methods are above auto.
--before-softmax judges what a Softmax reads in place of its result, whose noise depends most of all on how near the judging samples are to
a threshold; such runs need RESULTS of their own.

--table prints medians, and of differences from the first method on the same splits the 90 % interval of the median (bootstrap). Its status
is 1 where the first method is below another one by more than 0.3 decibels and the interval proves it.
"""
import argparse
import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import networks
import numpy as np
import onnx
import onnxruntime

JUDGED, SLACK = 24, .3
METHODS = ["auto", "minmax", "mse", "percentile", "entropy"]
PEERS = [f"{method} {which}" for method in ("MinMax", "Entropy", "Percentile") for which in ("all", "core")]
CORE = ["MatMul", "Conv", "Gemm"]
SHARED = ["mlperf_ic_resnet8", "mlperf_vww_mobilenet", "mnist_cnn", "mnist_mlp", "squeezenet10", "ultraface_rfb320",
          "mlperf_ad_autoencoder", "dtln_lstm", "char_gpt", "magika_filetype", "gtcrn_gru", "super_resolution", "yunet_dynamic"]
FIRST_OUTPUT = ["gtcrn_gru"]  # the others are caches


# ---- a network ----

def feeds_of(folder):
    """All samples, as lists of arrays of one sample each; those of unlike sizes are cropped to the smallest."""
    stored = sorted(folder.glob("inputs*.npz"))
    if not stored or folder.name.startswith(("ultraface", "squeezenet")):
        feeds = networks.shared_feeds(folder)
        least = {key: np.min([feed[key].shape for feed in feeds], axis=0) for key in feeds[0]}
        return [{key: feed[key][tuple(slice(size) for size in least[key])] for key in feed} for feed in feeds]
    inputs = networks.inputs_of(onnx.load(folder / "model.onnx"))
    with np.load(stored[0]) as arrays:
        wanted = {key: arrays[key] for key in inputs}
    return [{key: wanted[key][i] for key in inputs} for i in range(len(wanted[inputs[0]]))]


def before_softmax(path):
    """The model whose outputs are what a Softmax reads, where they are its results."""
    model = onnx.load(path)
    makers = {name: node for node in model.graph.node for name in node.output}
    for value in model.graph.output:
        node = makers.get(value.name)
        while node is not None and node.op_type in ("QuantizeLinear", "DequantizeLinear", "Identity", "Reshape", "Flatten", "Squeeze"):
            node = makers.get(node.input[0])
        if node is not None and node.op_type == "Softmax":
            value.CopyFrom(onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None))
    return model.SerializeToString()


def outputs(model, feeds, only_first=False, logits=False):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(before_softmax(model) if logits else str(model), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs() if value.type == "tensor(float)"][:1 if only_first else None]
    if all(isinstance(value.shape[0], str) for value in session.get_inputs()):
        feeds = [{key: np.concatenate([feed[key] for feed in feeds]) for key in feeds[0]}]
    runs = [session.run(names, feed) for feed in feeds]
    return [np.concatenate([run[i].ravel() for run in runs]).astype(np.float64) for i in range(len(names))]


def ratio(wanted, made):
    """Decibels; outputs count equally."""
    noise = [np.sum((y - x) ** 2) / np.sum(x ** 2) for x, y in zip(wanted, made) if np.any(x)]
    noise = np.mean(noise)
    return float(-10 * np.log10(max(noise, 1e-15))) if np.isfinite(noise) else -99.


class Split:
    """Files of one split, and the judged outputs of the float network."""

    def __init__(self, program, model, feeds, count, number, here, logits=False):
        order = np.random.default_rng([number, count]).permutation(len(feeds))
        self.known, self.judged = [feeds[i] for i in order[:count]], [feeds[i] for i in order[count:count + JUDGED]]
        self.program, self.model, self.here = program, model, here
        self.only_first = model.parent.name in FIRST_OUTPUT
        self.logits = logits
        self.wanted = outputs(model, self.judged, self.only_first, logits)

    def judge(self, made):
        return ratio(self.wanted, outputs(made, self.judged, self.only_first, self.logits))

    def write(self, name, feeds):
        np.savez(self.here / name, **{key: np.stack([feed[key] for feed in feeds]) for key in feeds[0]})
        return self.here / name

    def run(self, *words):
        done = subprocess.run([self.program, *map(str, words), "--quiet"], capture_output=True, encoding="utf-8")
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")

    def ours(self, method, dtype):
        """method: its name, and further options of `calibrate` behind it; or "quantize", and options of that."""
        profile = self.here / "profile.json"
        method, _, copy = method.partition("~")
        if method.split()[0] == "quantize":
            return self.quantized(method.split()[1:], dtype)
        if not profile.exists():
            self.run("profile", self.model, "--data", self.write("data.npz", self.known), "-t", 1, "-o", profile)
        words = ["--model", self.model] if method == "calibrate" else ["--method", *method.split()]
        self.run("calibrate", profile, *words, "--dtype", dtype, "-o", self.here / "e.json")
        if copy:
            self.run("calibrate", profile, *words, "--dtype", dtype, "--config", self.shaken(int(copy)), "-o", self.here / "e.json")
        self.run("export", self.here / "e.json", "--model", self.model, "--to", "qdq", "-o", self.here / "q.onnx")
        return self.judge(self.here / "q.onnx")

    def shaken(self, number):
        """A config with the ranges of e.json, each times a number near 1; what shares a scale shares it."""
        rules = []
        for one in json.loads((self.here / "e.json").read_text())["encodings"]:
            if one["role"] == "activation" and one["method"] == "auto":
                key = zlib.crc32(str(one.get("group") or one["id"]).encode())
                by = 1 + np.random.default_rng([number, key]).uniform(-.01, .01)
                rules.append({"match": {"id": one["id"], "kind": "activation"}, "range": [one["low"][0] * by, one["high"][0] * by]})
        (self.here / "shaken.json").write_text(json.dumps({"rules": rules}))
        return self.here / "shaken.json"

    def quantized(self, more, dtype):
        """Of fewer than 256 samples `quantize` makes the file from all; of more, it leaves the first 64 out: others are put there."""
        left_out = 64 if len(self.known) >= 256 else 0
        feeds = [self.judged[i % len(self.judged)] for i in range(left_out)] + self.known
        config = self.here / "config.json"
        config.write_text(json.dumps({"defaults": {"activation": {"dtype": dtype}}}))
        self.run("quantize", self.model, "--data", self.write("all.npz", feeds), "-t", 1, "--config", config, *more, "-o", self.here / "q.onnx")
        return self.judge(self.here / "q.onnx")

    def peer(self, name, dtype):
        from onnxruntime import quantization
        method, which = name.split()
        newer, made, feeds = self.here / "newer.onnx", self.here / "peer.onnx", iter(self.known)

        class Reader(quantization.CalibrationDataReader):
            def get_next(self):
                return next(feeds, None)
        if not newer.exists():
            model = onnx.load(self.model)
            if next(one.version for one in model.opset_import if one.domain in ("", "ai.onnx")) < (21 if dtype == "uint16" else 13):
                model.ir_version = max(model.ir_version, 4)
                model = onnx.version_converter.convert_version(model, 13)
            onnx.save(model, newer)
        types = {"uint8": quantization.QuantType.QUInt8, "uint16": quantization.QuantType.QUInt16}
        with contextlib.redirect_stdout(io.StringIO()):
            quantization.quantize_static(
                newer, made, Reader(), per_channel=True, activation_type=types[dtype], weight_type=quantization.QuantType.QInt8,
                calibrate_method=getattr(quantization.CalibrationMethod, method), op_types_to_quantize=CORE if which == "core" else None)
        return self.judge(made)


# ---- results: {"network|type|count|split": {method: decibels, or what went wrong}} ----

def measure(options, results):
    deadline = time.monotonic() + 60 * options.minutes
    feeds = {name: feeds_of(options.models / name) for name in options.only}
    for number in range(options.splits):  # so that each network has some splits early
        for name in options.only:
            whole = 3 * len(feeds[name]) // 4
            for count in options.counts:
                amount = whole if count == "all" else int(count)
                if count != "all" and amount >= whole:
                    continue
                for dtype in options.types:
                    cell = results.setdefault(f"{name}|{dtype}|{count}|{number}", {})
                    missing = [method for method in options.methods + (PEERS if options.peers else []) if method not in cell]
                    if not missing:
                        continue
                    if time.monotonic() > deadline:
                        return
                    with tempfile.TemporaryDirectory(prefix="tidemark-methods-") as here:
                        split = Split(options.program, options.models / name / "model.onnx", feeds[name], amount, number, Path(here),
                                      options.before_softmax)
                        for method in missing:
                            try:
                                cell[method] = round((split.peer if method in PEERS else split.ours)(method, dtype), 3)
                            except Exception as error:  # a peer may raise anything
                                if method not in PEERS:
                                    raise
                                cell[method] = f"{type(error).__name__}: {error}"[:200]
                    save(options.results, results)


def save(path, results):
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(results, indent=0))
    os.replace(beside, path)


def interval(values):
    """Of the median, 90 %."""
    chosen = np.random.default_rng(0).integers(0, len(values), (2000, len(values)))
    return np.percentile(np.median(np.asarray(values)[chosen], axis=1), [5, 95])


def table(options, results):
    """True where no method is proven to be better than the first by more than SLACK."""
    first, *others = options.methods + (PEERS if options.peers else [])
    print(f"| network | type | samples | splits | {first} | " + " | ".join(others) + " |\n" + "| --- " * (5 + len(others)) + "|")
    holds = True
    for name in options.only:
        for dtype in options.types:
            for count in options.counts:
                cells = [results.get(f"{name}|{dtype}|{count}|{number}", {}) for number in range(options.splits)]
                cells = [cell for cell in cells if isinstance(cell.get(first), float)]
                if not cells:
                    continue
                row = [f"{np.median([cell[first] for cell in cells]):.1f}"]
                for method in others:
                    gains = [cell[method] - cell[first] for cell in cells if isinstance(cell.get(method), float)]
                    if not gains:
                        row.append("fails" if any(method in cell for cell in cells) else "")
                        continue
                    low, high = interval(gains)
                    row.append(f"{np.median(gains):+.1f} ({low:+.1f} … {high:+.1f})")
                    holds &= method in PEERS or low <= SLACK
                print(f"| {name} | {dtype} | {count} | {len(cells)} | " + " | ".join(row) + " |")
    return holds


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "models", metavar="DIR")
    parser.add_argument("--only", type=words, metavar="NAMES")
    parser.add_argument("--methods", type=words, default=METHODS, metavar="NAMES", help="the first is compared with the others")
    parser.add_argument("--types", type=words, default=["uint8", "uint16"], metavar="TYPES")
    parser.add_argument("--counts", type=words, default=["4", "16", "64", "all"], metavar="NUMBERS")
    parser.add_argument("--splits", type=int, default=10, metavar="N")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--before-softmax", action="store_true")
    parser.add_argument("--minutes", type=float, default=1e9, metavar="N", help="no new split after so long")
    parser.add_argument("--table", action="store_true", help="measures nothing, prints what RESULTS has")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(4)
    if not options.only:
        found = sorted(path.parent.name for path in options.models.glob("*/model.onnx"))
        options.only = [name for name in SHARED if name in found] or found
    results = json.loads(options.results.read_text()) if options.results.exists() else {}
    if not options.table:
        measure(options, results)
    sys.exit(0 if table(options, results) else 1)


if __name__ == "__main__":
    main()
