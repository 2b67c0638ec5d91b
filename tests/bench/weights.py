# SPDX-License-Identifier: Apache-2.0
"""Methods for weights, judged by random splits of the samples into some to calibrate on and others.

    weights.py PROGRAM [--models DIR] [--only NAMES] [--forms NAMES] [--splits 4]

For each network and form of weights: the median over splits of the outputs' signal-to-noise ratio with min and max, in decibels, and by
how much mse and l4 differ from it. ONNX Runtime runs the QDQ models.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "heavy"))
import networks

MOST = 12  # samples on each side
METHODS = ["minmax", "mse", "l4"]
FLOAT = {"rules": [{"match": {"kind": "activation"}, "quantize": False}, {"match": {"kind": "bias"}, "quantize": False}]}
INT4 = ["--weights-dtype", "int4"]
FORMS = {  # name: options, activations are quantized
    "int8": ([], True),
    "int8 one scale": (["--weights-per-tensor"], True),
    "int8 asymmetric": (["--weights-scheme", "asymmetric"], True),
    "int8 alone": ([], False),
    "int4 alone": (INT4, False),
    "int4 one scale alone": ([*INT4, "--weights-per-tensor"], False),
    "int4 block 32 alone": ([*INT4, "--weights-block", "32"], False),
    "uint4 block 32 asymmetric alone": (["--weights-dtype", "uint4", "--weights-scheme", "asymmetric", "--weights-block", "32"], False),
}


def feeds_of(folder):
    """All samples of one shape."""
    feeds = all_feeds(folder)
    return [feed for feed in feeds if all(np.shape(feed[key]) == np.shape(feeds[0][key]) for key in feed)]


def all_feeds(folder):
    arrays = sorted(folder.glob("inputs*.npz"))
    if folder.name.startswith(("ultraface", "squeezenet")) or not arrays:
        return networks.shared_feeds(folder)
    inputs = networks.inputs_of(onnx.load(folder / "model.onnx"))
    with np.load(arrays[0]) as held:
        if any(key not in held for key in inputs):
            return networks.shared_feeds(folder)
        wanted = {key: held[key] for key in inputs}
    return [{key: wanted[key][i] for key in inputs} for i in range(len(wanted[inputs[0]]))]


def outputs(model, feeds):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options)
    names = [value.name for value in session.get_outputs() if value.type == "tensor(float)"]
    runs = [session.run(names, feed) for feed in feeds]
    return [np.concatenate([run[i].ravel() for run in runs]).astype(np.float64) for i in range(len(names))]


def ratio(wanted, made):
    """Outputs count equally."""
    noise = [np.sum((y - x) ** 2) / np.sum(x ** 2) for x, y in zip(wanted, made) if np.any(x)]
    return -10 * np.log10(max(np.mean(noise), 1e-15))


def judge(arguments, model, feeds, split, forms):
    """{form: {method: decibels}}"""
    order = np.random.default_rng(split).permutation(len(feeds))
    half = min(len(feeds) // 2, MOST)
    known, judged = [feeds[i] for i in order[:half]], [feeds[i] for i in order[half:2 * half]]

    def run(*words):
        subprocess.run([arguments.program, *map(str, words), "--quiet"], check=True, stderr=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as temporary:
        here = Path(temporary)
        np.savez(here / "data.npz", **{key: np.stack([feed[key] for feed in known]) for key in known[0]})
        run("profile", model, "--data", here / "data.npz", "-o", here / "p.json")
        (here / "float.json").write_text(json.dumps(FLOAT))
        wanted, found = outputs(model, judged), {}
        for form in forms:
            words, activations = FORMS[form]
            found[form] = {}
            for method in METHODS:
                run("calibrate", here / "p.json", "--model", model, "--weights-method", method, *words, "-o", here / "e.json",
                    *([] if activations else ["--config", here / "float.json"]))
                run("export", here / "e.json", "--model", model, "--to", "qdq", "-o", here / "q.onnx")
                found[form][method] = ratio(wanted, outputs(here / "q.onnx", judged))
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "models", metavar="DIR")
    parser.add_argument("--only", default="", metavar="NAMES")
    parser.add_argument("--forms", default=",".join(FORMS), metavar="NAMES")
    parser.add_argument("--splits", type=int, default=4, metavar="N")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    forms = arguments.forms.split(",")
    names = arguments.only.split(",") if arguments.only else sorted(p.parent.name for p in arguments.models.glob("*/model.onnx"))
    gains = {form: {method: [] for method in METHODS[1:]} for form in forms}
    print("| network | weights | minmax | mse | l4 |\n| --- | --- | --- | --- | --- |")
    for name in names:
        feeds = feeds_of(arguments.models / name)
        if len(feeds) < 4:
            print(f"| {name} | {len(feeds)} samples of one shape: left out | | | |")
            continue
        runs = [judge(arguments, arguments.models / name / "model.onnx", feeds, i, forms) for i in range(arguments.splits)]
        for form in forms:
            median = np.median([run[form]["minmax"] for run in runs])
            differences = [np.median([run[form][method] - run[form]["minmax"] for run in runs]) for method in METHODS[1:]]
            for method, difference in zip(METHODS[1:], differences):
                gains[form][method].append(difference)
            print(f"| {name} | {form} | {median:.1f} | " + " | ".join(f"{d:+.1f}" for d in differences) + " |", flush=True)
    for form in forms:
        print(f"| median | {form} | | " + " | ".join(f"{np.median(gains[form][m]):+.2f}" for m in METHODS[1:]) + " |")


if __name__ == "__main__":
    main()
