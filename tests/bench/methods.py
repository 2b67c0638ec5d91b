# SPDX-License-Identifier: Apache-2.0
"""Calibration methods judged by many random splits of the samples into some to calibrate on and others.

    methods.py PROGRAM [--models DIR] [--only NAMES] [--methods auto,mse,...] [--counts 4,16] [--splits 10] [--dtype uint8]

For each network, number of calibration samples and method: the median over splits of the outputs' signal-to-noise ratio, in decibels,
and of its difference from minmax on the same split, with the standard error of that median. One split is weak evidence: the same range
moves by several decibels from one to the next. ONNX Runtime runs the QDQ models, with session.x64quantprecision=1.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "heavy"))
import networks

JUDGED = 20  # samples, at most
NETWORKS = ["mlperf_ic_resnet8", "mlperf_vww_mobilenet", "mnist_cnn", "mnist_mlp", "squeezenet10", "ultraface_rfb320",
            "mlperf_ad_autoencoder", "dtln_lstm", "char_gpt"]


def feeds_of(folder):
    """All samples; networks.shared_feeds has a few of them."""
    if folder.name.startswith(("ultraface", "squeezenet")):
        return networks.shared_feeds(folder)
    inputs = networks.inputs_of(onnx.load(folder / "model.onnx"))
    with np.load(next(iter(sorted(folder.glob("inputs*.npz"))))) as arrays:
        wanted = {key: arrays[key] for key in inputs}
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


def judge(arguments, model, feeds, count, split):
    """{method: decibels}."""
    order = np.random.default_rng([split, count]).permutation(len(feeds))
    known, judged = [feeds[i] for i in order[:count]], [feeds[i] for i in order[count:count + JUDGED]]
    def run(*words):
        subprocess.run([arguments.program, *map(str, words), "--quiet"], check=True, stderr=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as temporary:
        here = Path(temporary)
        np.savez(here / "data.npz", **{key: np.stack([feed[key] for feed in known]) for key in known[0]})
        run("profile", model, "--data", here / "data.npz", "-o", here / "p.json")
        wanted, found = outputs(model, judged), {}
        for method in arguments.methods.split(","):
            run("calibrate", here / "p.json", "--method", method, "--dtype", arguments.dtype,
                "--sensitive", arguments.sensitive, "-o", here / "e.json")
            run("export", here / "e.json", "--model", model, "--to", "qdq", "-o", here / "q.onnx")
            found[method] = ratio(wanted, outputs(here / "q.onnx", judged))
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "models", metavar="DIR")
    parser.add_argument("--only", default=",".join(NETWORKS), metavar="NAMES")
    parser.add_argument("--methods", default="minmax,auto,mse,percentile,entropy", metavar="NAMES", help="the first is the reference")
    parser.add_argument("--counts", default="4,16", metavar="NUMBERS")
    parser.add_argument("--splits", type=int, default=10, metavar="N")
    parser.add_argument("--dtype", default="uint8", metavar="TYPE")
    parser.add_argument("--sensitive", default="quantize", choices=["quantize", "float"])
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    methods = arguments.methods.split(",")
    print("| network | samples | " + " | ".join(methods) + " |\n| --- " + "| --- " * (len(methods) + 1) + "|")
    for name in arguments.only.split(","):
        feeds = feeds_of(arguments.models / name)
        for count in map(int, arguments.counts.split(",")):
            if 4 * count > 3 * len(feeds):
                continue
            runs = [judge(arguments, arguments.models / name / "model.onnx", feeds, count, i) for i in range(arguments.splits)]
            cells = [f"{np.median([run[methods[0]] for run in runs]):.1f}"]
            for method in methods[1:]:
                gains = np.array([run[method] - run[methods[0]] for run in runs])
                cells.append(f"{np.median(gains):+.2f} ± {1.25 * gains.std() / len(gains) ** 0.5:.2f}")
            print(f"| {name} | {count} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
