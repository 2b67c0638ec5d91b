# SPDX-License-Identifier: Apache-2.0
"""The defaults of this project, ONNX Runtime, NNCF and AIMET on the same networks and samples: decibels, right classes, time, memory.

    test_peers.py PROGRAM RESULTS.json [--models DIR] [--only NAMES] [--tools NAMES] [--nncf PYTHON] [--aimet PYTHON] [--table]

Each half of the samples calibrates (at most 64 of it) and the other half judges, so that each sample judges once. Every tool is a process
of its own, two threads; its processor time and peak memory are the larger of both halves. ONNX Runtime runs all files, with
session.x64quantprecision=1. PYTHON is an interpreter that has the tool; without it, the tool is left out. ONNX Runtime's rows are its best
of MinMax, Entropy and Percentile by decibels, of all operators and of MatMul, Conv and Gemm. "tidemark" are profile, calibrate and export
with their defaults, "quantize" is the command of that name. RESULTS is continued.

The loss is that of right classes where samples have labels, else the share of samples whose class differs from the float network's (of
magika_filetype, whose float network is right about all files, that is the same). Its interval is of 95 %: by paired bootstrap over samples
for losses, Wilson's for shares. Status 1: the better of ours is more than 0.3 dB below another.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TOOLS = ["tidemark", "quantize", "ort", "ort core", "nncf", "aimet"]
OURS = TOOLS[:2]
CALIBRATED, SLACK = 64, .3
NO_CLASSES = ["ultraface_rfb320", "mlperf_ad_autoencoder", "dtln_lstm", "char_gpt", "gtcrn_gru", "super_resolution", "yunet_dynamic"]


# ---- in the process of a tool ----

def quantize_here(tool, model, data, out):
    import onnx
    with np.load(data) as file:
        columns = {key: file[key] for key in file.files}
    feeds = [{key: column[i] for key, column in columns.items()} for i in range(len(next(iter(columns.values()))))]
    loaded = onnx.load(model)
    if next(one.version for one in loaded.opset_import if one.domain in ("", "ai.onnx")) < 13:
        loaded.ir_version = max(loaded.ir_version, 4)
        loaded = onnx.version_converter.convert_version(loaded, 13)
    if tool == "nncf":
        import nncf
        onnx.save(nncf.quantize(loaded, nncf.Dataset(feeds)), out)
    elif tool == "aimet":
        from aimet_onnx import QuantizationSimModel
        simulation = QuantizationSimModel(loaded, dummy_input=feeds[0])
        simulation.compute_encodings(feeds)
        onnx.save(simulation.to_onnx_qdq(), out)
    else:
        from onnxruntime import quantization
        which, method = tool.rsplit(" ", 1)
        onnx.save(loaded, out + ".newer")
        rest = iter(feeds)

        class Reader(quantization.CalibrationDataReader):
            def get_next(self):
                return next(rest, None)
        quantization.quantize_static(out + ".newer", out, Reader(), per_channel=True, activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8, calibrate_method=quantization.CalibrationMethod[method],
                                     op_types_to_quantize=["MatMul", "Conv", "Gemm"] if which == "ort core" else None)


# ---- samples and labels ----

def samples_of(folder):
    """Feeds; and of each the right class, several, or None."""
    from test_methods import feeds_of
    feeds = feeds_of(folder)
    if folder.name == "mnist_cnn":
        with np.load(folder / "samples_u8.npz") as file:
            return [{"Input3": x[None, None].astype(np.float32)} for x in file["x"]], file["labels"].tolist()
    if folder.name == "mnist_mlp":
        with np.load(folder.parent / "mnist_cnn" / "samples_u8.npz") as file:
            return [{"dense_1_input": x.reshape(1, 784).astype(np.float32) / 255} for x in file["x"]], file["labels"].tolist()
    if folder.name == "squeezenet10":
        known = {one["name"]: one["accept"] for one in json.loads((folder / "labels.json").read_text())}
        with np.load(folder / "samples_u8.npz") as file:
            return feeds, [known[str(name)] or None for name in file["names"]]
    if folder.name == "mlperf_vww_mobilenet":
        with np.load(folder / "inputs_16.npz") as file:
            return feeds, file["labels"].tolist()
    if (folder / "inputs.npz").exists():
        with np.load(folder / "inputs.npz") as file:
            if "labels" in file.files and file["labels"].ndim == 1:
                return feeds, file["labels"].tolist()
    return feeds, [None] * len(feeds)


# ---- measuring ----

def ours(program, model, data, out, tool):
    here = str(Path(out).parent)
    if tool == "quantize":
        return [[program, "quantize", model, "--data", data, "-t", "2", "--quiet", "-o", out]]
    return [[program, "profile", model, "--data", data, "-t", "2", "--quiet", "-o", f"{here}/p.json"],
            [program, "calibrate", f"{here}/p.json", "--model", model, "--quiet", "-o", f"{here}/e.json"],
            [program, "export", f"{here}/e.json", "--model", model, "--to", "qdq", "--quiet", "-o", out]]


# A process that is small: the peak of a child counts that of the process that started it.
STARTER = """import os, sys
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as file:
    print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss, file=file)
sys.exit(os.waitstatus_to_exitcode(status) != 0)"""


def run_measured(commands):
    """Seconds of processors (a busy machine does not change them), and megabytes at the peak."""
    spent, most = 0., 0
    for command in commands:
        with tempfile.NamedTemporaryFile() as figures:
            child = subprocess.run([sys.executable, "-S", "-c", STARTER, figures.name] + [str(word) for word in command], text=True,
                                   errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env=dict(os.environ, OMP_NUM_THREADS="2", CUDA_VISIBLE_DEVICES=""))
            if child.returncode:
                raise RuntimeError((child.stdout.strip().splitlines() or [f"status {child.returncode}"])[-1][:200])
            seconds, kib = map(float, figures.read().split())
            most, spent = max(most, kib), spent + seconds
    return spent, most / 1024


def classes_of(outputs, n):
    return outputs[0].reshape(n, -1).argmax(1).tolist()


def measure(options, name, tool):
    from test_methods import FIRST_OUTPUT, outputs, ratio
    folder = options.models / name
    feeds, labels = samples_of(folder)
    model, only_first = folder / "model.onnx", name in FIRST_OUTPUT
    row = {"db": [], "seconds": 0, "megabytes": 0, "float": [], "made": [], "labels": labels[1::2] + labels[::2]}
    for known, judged in ((feeds[::2], feeds[1::2]), (feeds[1::2], feeds[::2])):
        known = [known[i] for i in np.linspace(0, len(known) - 1, min(len(known), CALIBRATED)).astype(int)]
        with tempfile.TemporaryDirectory(prefix="tidemark-peers-") as here:
            data, out = f"{here}/data.npz", f"{here}/out.onnx"
            np.savez(data, **{key: np.stack([feed[key] for feed in known]) for key in known[0]})
            python = {"nncf": options.nncf, "aimet": options.aimet}.get(tool, sys.executable)
            commands = ours(options.program, model, data, out, tool) if tool in OURS else \
                [[python, __file__, "--quantize", tool, model, data, out]]
            seconds, megabytes = run_measured(commands)
            wanted, made = outputs(model, judged, only_first), outputs(out, judged, only_first)
        row["db"].append(ratio(wanted, made))
        row["seconds"], row["megabytes"] = max(row["seconds"], seconds), max(row["megabytes"], megabytes)
        row["float"] += classes_of(wanted, len(judged))
        row["made"] += classes_of(made, len(judged))
    return row


# ---- the table ----

def accuracy(name, row):
    """How many are right, and the loss in percent with its interval."""
    if name in NO_CLASSES:
        return "", ""
    def right(found, label):
        return found in label if isinstance(label, list) else found == label
    pairs = [(right(f, label), right(m, label)) for f, m, label in zip(row["float"], row["made"], row["labels"]) if label is not None]
    if pairs:
        gaps = np.array([int(f) - int(m) for f, m in pairs])
        drawn = np.random.default_rng(0).integers(0, len(gaps), (4000, len(gaps)))
        low, high = np.percentile(gaps[drawn].mean(1), [2.5, 97.5]) * 100
        found = f"{sum(m for _, m in pairs)} of {len(pairs)} (float {sum(f for f, _ in pairs)})"
        return found, f"{100 * gaps.mean():.1f} ({low:.1f} … {high:.1f})"
    n, z = len(row["float"]), 1.96
    p = sum(f != m for f, m in zip(row["float"], row["made"])) / n
    middle, half = (p + z * z / 2 / n) / (1 + z * z / n), z * np.sqrt(p * (1 - p) / n + z * z / 4 / n / n) / (1 + z * z / n)
    return f"as float {round((1 - p) * n)} of {n}", f"{100 * p:.1f} ({100 * max(middle - half, 0):.1f} … {100 * (middle + half):.1f})"


def table(options, results):
    print("| network | tool | dB | right classes | loss in % (95 %) | seconds | MB |\n" + "| --- " * 7 + "|")
    holds = True
    for name in options.only:
        best = {}
        for tool in options.tools:
            rows = [row for key, row in results.items() if key == f"{name}|{tool}" or key.startswith(f"{name}|{tool} ") and
                    key.split("|")[1].rsplit(" ", 1)[0] == tool]
            good = [row for row in rows if "db" in row]
            if good:
                best[tool] = max(good, key=lambda row: np.mean(row["db"]))
                row = best[tool]
                print(f"| {name} | {tool} | {np.mean(row['db']):.1f} | {' | '.join(accuracy(name, row))} | {row['seconds']:.1f} | "
                      f"{row['megabytes']:.0f} |")
            elif rows:
                print(f"| {name} | {tool} | fails: {rows[0]['error']} | | | | |")
        mine = max((np.mean(best[tool]["db"]) for tool in OURS if tool in best), default=np.inf)
        holds &= all(np.mean(row["db"]) <= mine + SLACK for row in best.values())
    return holds


def main():
    if sys.argv[1:2] == ["--quantize"]:
        quantize_here(*sys.argv[2:])
        return
    import onnxruntime
    from test_methods import SHARED, save, words
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "models", metavar="DIR")
    parser.add_argument("--only", type=words, default=SHARED, metavar="NAMES")
    parser.add_argument("--tools", type=words, default=TOOLS, metavar="NAMES")
    parser.add_argument("--nncf", metavar="PYTHON")
    parser.add_argument("--aimet", metavar="PYTHON")
    parser.add_argument("--table", action="store_true", help="measures nothing, prints what RESULTS has")
    options = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    results = json.loads(options.results.read_text()) if options.results.exists() else {}
    for name in [] if options.table else options.only:
        for tool in options.tools:
            if tool in ("nncf", "aimet") and not getattr(options, tool):
                continue
            for kind in [f"{tool} {method}" for method in ("MinMax", "Entropy", "Percentile")] if tool.startswith("ort") else [tool]:
                if f"{name}|{kind}" not in results:
                    try:
                        results[f"{name}|{kind}"] = measure(options, name, kind)
                    except Exception as error:  # tools may raise anything
                        if tool in OURS:
                            raise
                        results[f"{name}|{kind}"] = {"error": f"{type(error).__name__}: {error}"[:160]}
                    save(options.results, results)
    sys.exit(0 if table(options, results) else 1)


if __name__ == "__main__":
    main()
