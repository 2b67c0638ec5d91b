#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed over networks of today, beside ONNX Runtime: in turns, each figure in a fresh process, the best of several rounds.

    modern.py --tidemark BUILD/tools/tidemark --generators DIR --work DIR [--only vit,convnext] [--rounds 3] [--seconds 6]
              [--share 8] [--json FILE]

Prints a table in Markdown: Tidemark bare, with minima and maxima, with thinned histograms (one run of 64 elements in --share), with
histograms; ONNX Runtime with its optimisations and without; the ratios and the costs over bare. Two threads; ONNX Runtime runs a
sample at a time, Tidemark takes the batch that it chooses. --generators has vision.py, llama.py and data.py, which write the larger
networks with random weights; bert6 and mobilenetv2 are those of models.py. Each figure runs for --seconds, and each run of Tidemark
over so many samples (SAMPLES, SMALL_SAMPLES) that packing the weights and counting their elements, once a run, is a few percent of it; ONNX Runtime's
session is made before its time begins. Needs numpy, onnx and onnxruntime, and what the generators need.
"""
import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
THREADS, TOKENS, SAMPLES, SMALL_SAMPLES = 2, 128, 96, 256
# name: what it is called, and words for the generator
VISION = {"vit": "ViT-B", "convnext": "ConvNeXt-B", "yolo": "YOLO-like, 640"}
LLAMA = {"llama": ("Llama 125M, 128 tokens", "decomposed", "fp32"), "genai": ("the same as genai", "genai", "fp32"),
         "int4": ("as genai, int4 weights", "genai", "int4")}
SMALL = {"bert6": ("BERT-6", "sequences"), "mobilenetv2": ("MobileNetV2", "images")}
NETWORKS = {**VISION, **{name: row[0] for name, row in {**LLAMA, **SMALL}.items()}}
FIGURES = ("bare", "minmax", "thinned", "histograms")
ROWS = [("Tidemark, bare", "bare"), ("Tidemark, minmax", "minmax"), ("Tidemark, thinned histograms", "thinned"),
        ("Tidemark, histograms", "histograms"), ("ONNX Runtime, not optimised", "plain"), ("ONNX Runtime, optimised", "optimised")]
RATIOS = [("histograms ÷ ONNX Runtime not optimised", "histograms", "plain"),
          ("histograms ÷ ONNX Runtime optimised", "histograms", "optimised"),
          ("thinned ÷ ONNX Runtime not optimised", "thinned", "plain"), ("thinned ÷ ONNX Runtime optimised", "thinned", "optimised")]
COSTS = [("cost of minmax over bare, %", "minmax"), ("cost of thinned histograms over bare, %", "thinned"),
         ("cost of histograms over bare, %", "histograms")]


def call(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def made(args, name):
    """The model and its data, made where they are missing."""
    folder = args.work / name
    data = folder / ("data.npz" if name not in SMALL else "data.npy")
    if not data.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if name in VISION:
            call(sys.executable, args.generators / "vision.py", name, folder)
            few = np.load(folder / "x.npz")
            np.savez(data, **{key: np.concatenate([few[key]] * (SAMPLES // len(few[key]))) for key in few.files})
        elif name in LLAMA:
            call(sys.executable, args.generators / "llama.py", folder, "--size", "125m", "--style", LLAMA[name][1], "--wt", LLAMA[name][2])
            call(sys.executable, args.generators / "data.py", data, "125m", TOKENS, 0, SAMPLES)
        else:
            kind = SMALL[name][1]
            call(sys.executable, HERE / "models.py", "--out", folder, "--only", name, f"--{kind}", SMALL_SAMPLES)
            (folder / f"{name}.onnx").rename(folder / "model.onnx")
            (folder / f"{kind}.npy").rename(data)
    return folder / "model.onnx", data


def of_tidemark(args, model, data, figure):
    """Of two processors, the seconds in between are not counted."""
    answer = json.loads(call(args.tidemark, "bench", model, "--data", data, "--threads", THREADS, "--repeat", 1, "--seconds",
                             args.seconds, "--histogram-share", f"1/{args.share}", "--figure", figure, "--json"))
    return answer["figures"][0]["samples_per_s"]


def infer(what, model, data, seconds):
    """In a process of its own: samples a second of ONNX Runtime."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    if what == "plain":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    loaded = np.load(data)
    ranks = {value.name: len(value.shape) for value in session.get_inputs()}
    arrays = {name: loaded[name] for name in loaded.files} if hasattr(loaded, "files") else {next(iter(ranks)): loaded}
    count = len(next(iter(arrays.values())))

    def sample(i):
        return {name: array[i] if array.ndim > ranks[name] else array[i:i + 1] for name, array in arrays.items() if name in ranks}
    for i in range(2):
        session.run(None, sample(i))
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        session.run(None, sample(done % count))
        done += 1
    print(done / (time.perf_counter() - begin))


def measure(args, name):
    model, data = made(args, name)
    best = dict.fromkeys([*FIGURES, "plain", "optimised"], 0.0)
    rounds = []
    for _ in range(args.rounds):
        found = {figure: of_tidemark(args, model, data, figure) for figure in FIGURES}
        found.update({what: float(call(sys.executable, __file__, "--infer", what, model, data, args.seconds))
                      for what in ("plain", "optimised")})
        rounds.append(found)
        best = {what: max(best[what], rate) for what, rate in found.items()}
    print(f"{name}: {best}", file=sys.stderr, flush=True)
    return best, rounds


def table(best):
    names = list(best)
    lines = [["samples a second", *(NETWORKS[name] for name in names)], ["---"] + ["---:"] * len(names)]
    lines += [[text, *(f"{best[name][what]:.2f}" for name in names)] for text, what in ROWS]
    lines += [[text, *(f"{best[name][over] / best[name][under]:.2f}" for name in names)] for text, over, under in RATIOS]
    lines += [[text, *(f"{100 * (best[name]['bare'] / best[name][what] - 1):.1f}" for name in names)] for text, what in COSTS]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--infer", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--tidemark", type=Path, metavar="PATH", help="the program, built for release")
    parser.add_argument("--generators", type=Path, metavar="DIR", help="with vision.py, llama.py and data.py")
    parser.add_argument("--work", type=Path, metavar="DIR", help="for models and inputs (3 GB); they are made where they are missing")
    parser.add_argument("--only", default=",".join(NETWORKS), metavar="A,B", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="the best counts (default: 3)")
    parser.add_argument("--seconds", type=float, default=6, metavar="S", help="for each figure of a round (default: 6)")
    parser.add_argument("--share", type=int, default=8, metavar="K", help="of thinned histograms: 1/K (default: 8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every single measure")
    args = parser.parse_args()
    if args.infer:
        what, model, data, seconds = args.infer
        infer(what, Path(model), Path(data), float(seconds))
        return
    if not (args.tidemark and args.work and args.generators):
        parser.error("--tidemark, --generators and --work are needed")
    names = [name for name in args.only.split(",") if name]
    if unknown := set(names) - set(NETWORKS):
        parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    best, rounds = {}, {}
    for name in names:
        best[name], rounds[name] = measure(args, name)
        if args.json:
            args.json.write_text(json.dumps({"share": args.share, "rounds": rounds}, indent=1) + "\n")
    print(table(best))


if __name__ == "__main__":
    main()
