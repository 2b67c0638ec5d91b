# SPDX-License-Identifier: Apache-2.0
"""A script that quantizes with ONNX Runtime, as it is and with one line changed: time and memory of both, each in a process of its own.

usage: drop_in.py MODEL.onnx DATA.npy [--samples N] [--rounds N] [--package FOLDER]
PACKAGE: where the package tidemark is, if it is not installed.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Who calibrates, and how: a CalibrationMethod, or a method of Tidemark's
VARIANTS = ("ONNX Runtime, MinMax", "ONNX Runtime, Entropy", "ONNX Runtime, Percentile", "tidemark.ort, MinMax",
            "tidemark.ort, Entropy", "tidemark.ort, Percentile", "tidemark.ort, mse")


def script(variant, model, data, samples, output):
    """What such a script is."""
    import numpy as np
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod
    who, how = variant.split(", ")
    if who == "tidemark.ort":
        from tidemark.ort import quantize_static  # the line that is changed
    else:
        from onnxruntime.quantization import quantize_static
    import onnx
    name = onnx.load(model, load_external_data=False).graph.input[0].name
    array = np.load(data, mmap_mode="r")

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.items = iter({name: np.ascontiguousarray(array[i % len(array)][None])} for i in range(samples))

        def get_next(self):
            return next(self.items, None)
    settings = {"calibrate_method": CalibrationMethod[how]} if how in CalibrationMethod.__members__ else {"method": how}
    begin = time.monotonic()
    quantize_static(model, output, Reader(), **settings)
    seconds, used = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": seconds, "processor": used.ru_utime + used.ru_stime, "mib": used.ru_maxrss / 1024}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--package")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.package:
        sys.path.insert(0, args.package)
    if args.variant:
        script(args.variant, args.model, args.data, args.samples, args.output)
        return
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for variant in VARIANTS:
                words = [sys.executable, __file__, args.model, args.data, "--samples", str(args.samples), "--variant", variant,
                         "--output", str(Path(folder) / "out.onnx")]
                if args.package:
                    words += ["--package", args.package]
                done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="2"))
                if done.returncode:
                    print(f"{variant}: failed: {done.stderr.strip().splitlines()[-1]}")
                    continue
                figures = json.loads(done.stdout.splitlines()[-1])
                if variant not in best or figures["seconds"] < best[variant]["seconds"]:
                    best[variant] = figures
    print(f"| quantize_static, {args.samples} samples of {Path(args.model).name} | seconds | processor seconds, all in all | peak MiB |\n"
          "| --- | --- | --- | --- |")
    for variant, figures in best.items():
        print(f"| {variant} | {figures['seconds']:.1f} | {figures['processor']:.1f} | {figures['mib']:.0f} |")


if __name__ == "__main__":
    main()
