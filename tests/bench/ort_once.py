#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One figure of ONNX Runtime, in a process of its own, as one line of JSON.

    ort_once.py WHAT MODEL.onnx INPUTS.npy [--samples N] [--batch N] [--threads N] [--seconds S]

WHAT: plain or optimised (inference, every graph optimization off or on), minmax, entropy or percentile (the calibraters of
onnxruntime.quantization, with their own defaults, over every float value). Inference goes over the samples again until S
seconds have gone by; a calibrater sees each once.

    rate       samples a second. minmax: until the ranges are there; entropy and percentile: until the histograms are, since
               Tidemark chooses no thresholds either
    ready_s    from the model's file to a session that runs, imports of packages left out
    total_s    ready_s and the run
    values     how many a calibrater observed
"""
import argparse
import itertools
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.quantization import calibrate

WARM_UP = 2
CALIBRATERS = {"minmax": calibrate.MinMaxCalibrater, "entropy": calibrate.EntropyCalibrater,
               "percentile": calibrate.PercentileCalibrater}


class Samples:
    """Batches read from the file one at a time: mapped pages would count as memory of the process."""

    def __init__(self, path):
        array = np.load(path, mmap_mode="r")
        self.count, self.shape, self.begin = len(array), array.shape[1:], array.offset
        self.size = int(np.prod(self.shape))
        self.file = open(path, "rb")

    def batch(self, first, count):
        self.file.seek(self.begin + 4 * self.size * first)
        return np.fromfile(self.file, np.float32, self.size * count).reshape(count, *self.shape)


def batches(samples, total, size):
    for first in range(0, total, size):
        yield samples.batch(first, min(size, total - first))


class Reader(calibrate.CalibrationDataReader):
    def __init__(self, name, given):
        self.name, self.given = name, given

    def get_next(self):
        batch = next(self.given, None)
        return None if batch is None else {self.name: batch}


def session_of(model, threads, optimised):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def infer(args, samples):
    begin = time.perf_counter()
    session = session_of(args.model, args.threads, args.what == "optimised")
    name = session.get_inputs()[0].name
    ready = time.perf_counter() - begin
    for batch in batches(samples, min(WARM_UP * args.batch, args.samples), args.batch):
        session.run(None, {name: batch})
    done, begin = 0, time.perf_counter()
    for first in itertools.cycle(range(0, args.samples, args.batch)):
        count = min(args.batch, args.samples - first)
        session.run(None, {name: samples.batch(first, count)})
        done += count
        if done >= args.samples and time.perf_counter() - begin >= args.seconds:
            break
    seconds = time.perf_counter() - begin
    return {"rate": done / seconds, "ready_s": ready, "total_s": ready + seconds}


def calibrated(args, samples, folder):
    begin = time.perf_counter()
    calibrater = CALIBRATERS[args.what](args.model, augmented_model_path=os.path.join(folder, "augmented.onnx"))
    calibrater.augment_graph()
    # what create_inference_session does, with a number of threads
    calibrater.infer_session = session_of(calibrater.augmented_model_path, args.threads, optimised=False)
    name = calibrater.infer_session.get_inputs()[0].name
    ready = time.perf_counter() - begin
    begin = time.perf_counter()
    calibrater.collect_data(Reader(name, batches(samples, args.samples, args.batch)))
    collected = time.perf_counter() - begin
    values = len(calibrater.compute_data().data)
    total = time.perf_counter() - begin
    seconds = total if args.what == "minmax" else collected
    return {"rate": args.samples / seconds, "ready_s": ready, "total_s": ready + seconds, "values": values}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plain", "optimised", *CALIBRATERS])
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0)
    args = parser.parse_args()
    samples = Samples(args.inputs)
    if args.samples > samples.count:
        parser.error(f"{args.inputs} has {samples.count} samples")
    with tempfile.TemporaryDirectory() as folder:
        found = calibrated(args, samples, folder) if args.what in CALIBRATERS else infer(args, samples)
    print(json.dumps({**found, "version": onnxruntime.__version__}))


if __name__ == "__main__":
    main()
