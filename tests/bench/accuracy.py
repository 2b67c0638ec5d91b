# SPDX-License-Identifier: Apache-2.0
"""What quantizing costs in accuracy: ours, method by method, and ONNX Runtime's own calibraters on the same samples.

    accuracy.py PROGRAM [--models DIR] [--only mnist_cnn,...] [--methods mse,...] [--no-peers]

PROGRAM profiles and calibrates (uint8 activations, int8 weights by channel) and writes QDQ ONNX; ONNX Runtime's quantize_static makes
the same kind of model with its MinMax, Entropy and Percentile. ONNX Runtime runs them all, with session.x64quantprecision=1. Calibration
samples and those that are judged are disjoint. Prints a markdown table: right answers where there are labels, agreement with the
float network's first choice, and how far outputs are from the float network's, as a signal-to-noise ratio in decibels.
"""
import argparse
import contextlib
import io
import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization

METHODS = ["auto", "mse", "minmax", "percentile", "entropy", "moving-average"]
PEERS = ["MinMax", "Entropy", "Percentile"]


# ---- samples: name of the input, then folds of calibration, judged, labels of the judged (or None) ----

def halves(x, labels=None):
    """Few samples: each half is judged by what the other one gave, seen also mirrored and moved by some pixels."""
    for calibration, judged in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
        axis = 2 if x.shape[-1] == 3 else 3  # rows; columns follow
        seen = [x[judged], np.flip(x[judged], axis + 1)]
        seen += [np.roll(one, step, axis + across) for one in seen[:2] for across in (0, 1) for step in (-3, 3)]
        yield x[calibration], np.concatenate(seen), None if labels is None else labels[judged] * len(seen)


def digits_of_cnn(folder):
    with np.load(folder / "samples_u8.npz") as file:
        x = file["x"].astype(np.float32)[:, None, None]
        return "Input3", [(x[:256], x[256:], file["labels"][256:].astype(int))]


def digits_of_mlp(folder):
    with np.load(folder / "inputs_512.npz") as file, np.load(folder.parent / "mnist_cnn" / "samples_u8.npz") as more:
        x = (more["x"].astype(np.float32) / 255).reshape(-1, 1, 784)
        return "dense_1_input", [(file["dense_1_input"][:256], x, more["labels"].astype(int))]


def photographs(folder):
    known = {one["name"]: one["accept"] for one in json.loads((folder / "labels.json").read_text())}
    with np.load(folder / "samples_u8.npz") as file:
        mean = np.array([103.94, 116.78, 123.68], np.float32)
        x = (file["x"][..., ::-1].astype(np.float32) - mean).transpose(0, 3, 1, 2)[:, None]
        return "data_0", list(halves(x, [known[str(name)] for name in file["names"]]))


def people(folder):
    with np.load(folder / "inputs_16.npz") as file:
        return "input_1", list(halves(file["input_1"], [[label] for label in file["labels"].tolist()]))


def cuts(folder):
    with np.load(folder / "inputs_57.npz") as file:
        return "input_1", list(halves(file["input_1"]))


def text(folder):
    with np.load(folder / "inputs_64.npz") as file:
        return "ids", [(file["ids"][::2], file["ids"][1::2], file["next"][1::2])]


NETWORKS = {"mnist_cnn": digits_of_cnn, "mnist_mlp": digits_of_mlp, "squeezenet10": photographs, "mlperf_vww_mobilenet": people,
            "mlperf_ic_resnet8": cuts, "char_gpt": text}


# ---- models ----

def ours(program, network, here, methods):
    """Profiles once; yields a QDQ model a method, and one more whose Concats rescale their operands, as ONNX Runtime's do."""
    def run(*words):
        done = subprocess.run([program, *map(str, words)], capture_output=True, encoding="utf-8")
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    run("profile", network, "--data", here / "calibration.npz", "--per-sample", "--quiet", "-o", here / "profile.h5")
    (here / "untied.json").write_text('{"built_in": {"concat-inputs-share": false}}')
    variants = [(method, "--method", method) for method in methods]
    if any(node.op_type == "Concat" for node in onnx.load(network).graph.node):
        variants.append((f"{methods[0]}, Concat untied", "--method", methods[0], "--config", here / "untied.json"))
    for i, (which, *options) in enumerate(variants):
        encodings, made = here / f"{i}.json", here / f"{i}.onnx"
        run("calibrate", here / "profile.h5", *options, "--quiet", "-o", encodings)
        run("export", encodings, "--model", network, "--to", "qdq", "--quiet", "-o", made)
        yield f"ours, {which}", made


class Reader(quantization.CalibrationDataReader):
    def __init__(self, name, samples):
        self.feeds = iter([{name: sample} for sample in samples])

    def get_next(self):
        return next(self.feeds, None)


def peers(network, here, name, samples):
    """As a user would: an opset with scales by channel, shapes known, then quantize_static."""
    model = onnx.load(network)
    if next(one.version for one in model.opset_import if one.domain in ("", "ai.onnx")) < 13:
        model.ir_version = max(model.ir_version, 4)
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, here / "newer.onnx")
    for peer in PEERS:
        made = here / f"{peer}.onnx"
        method = getattr(quantization.CalibrationMethod, peer)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                quantization.quantize_static(here / "newer.onnx", made, Reader(name, samples), per_channel=True,
                                             activation_type=quantization.QuantType.QUInt8, calibrate_method=method,
                                             weight_type=quantization.QuantType.QInt8)
        except ValueError as failure:
            made = str(failure)
        yield f"ONNX Runtime, {peer}", made


def outputs(model, name, samples):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options)
    return np.stack([session.run(None, {name: sample})[0] for sample in samples])


# ---- judging ----

def first_choices(made, labels):
    """The index of the largest score; networks for text have one a character."""
    if isinstance(labels, np.ndarray) and labels.ndim == 3:
        return made.argmax(-1)
    return made.reshape(len(made), -1).argmax(1)


def right(chosen, labels):
    if isinstance(labels, list):
        hits = [choice in accepted for choice, accepted in zip(chosen, labels) if accepted]
    else:
        hits = chosen == np.asarray(labels).reshape(np.shape(chosen))
    return f"{np.sum(hits)} of {np.size(hits)} ({100 * np.mean(hits):.2f} %)"


def judge(made, wanted, labels):
    """Of one model a fold: all folds count together."""
    made, wanted = np.concatenate(made), np.concatenate(wanted)
    if labels[0] is None:
        labels = None
    else:
        labels = sum(labels, []) if isinstance(labels[0], list) else np.concatenate(labels)
    chosen, expected = first_choices(made, labels), first_choices(wanted, labels)
    noise = np.mean((made.astype(np.float64) - wanted) ** 2)
    ratio = 10 * np.log10(np.mean(wanted.astype(np.float64) ** 2) / noise) if noise > 0 else np.inf
    return [right(chosen, labels) if labels is not None else "-", f"{100 * np.mean(chosen == expected):.2f} %", f"{ratio:.2f}"]


def models(arguments, network, here, name, calibration):
    """(which, model or what is wrong), ours first."""
    here.mkdir()
    np.savez(here / "calibration.npz", **{name: calibration})
    yield from ours(arguments.program, network, here, arguments.methods.split(","))
    if not arguments.no_peers:
        yield from peers(network, here, name, calibration)


def rows(arguments, network, here):
    model = arguments.models / network / "model.onnx"
    name, folds = NETWORKS[network](model.parent)
    labels = [labels for _, _, labels in folds]
    wanted = [outputs(model, name, judged) for _, judged, _ in folds]
    yield [network, "float32", *judge(wanted, wanted, labels)]
    each = [models(arguments, model, here / str(i), name, calibration) for i, (calibration, _, _) in enumerate(folds)]
    for of_folds in zip(*each):
        which, failed = of_folds[0][0], [made for _, made in of_folds if not isinstance(made, Path)]
        if failed:
            yield [network, which, f"failed: {failed[0]}", "", ""]
            continue
        made = [outputs(made, name, judged) for (_, made), (_, judged, _) in zip(of_folds, folds)]
        yield [network, which, *judge(made, wanted, labels)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "models", metavar="DIR")
    parser.add_argument("--only", default=",".join(NETWORKS), metavar="NAMES")
    parser.add_argument("--methods", default=",".join(METHODS), metavar="NAMES")
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(4)
    print("| network | model | right | as float32 | dB |\n| --- | --- | --- | --- | --- |", flush=True)
    for network in arguments.only.split(","):
        with tempfile.TemporaryDirectory(prefix="tidemark-accuracy-") as here:
            try:
                for row in rows(arguments, network, Path(here)):
                    print("| " + " | ".join(row) + " |", flush=True)
            except RuntimeError as failure:
                sys.exit(str(failure))


if __name__ == "__main__":
    main()
