#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images as the loader makes them, against Pillow and NumPy doing the same on the same photographs.

    python3 tests/bench/images.py BUILD/bench_image FOLDER...

Both read a file, decode it, resize the shorter side to 256, crop 224 from the middle, normalise and lay it out as NCHW float32, on
one thread; in turn, the least of several rounds each, in processor time. Needs NumPy and Pillow.
"""
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROUNDS = 5
SHORTER, CROP = 256, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SPEC = f"resize={SHORTER},crop={CROP},mean={':'.join(map(str, MEAN))},std={':'.join(map(str, STD))}"
ENDINGS = {".jpg", ".jpeg", ".png"}


def with_pillow(path):
    with Image.open(path) as file:
        image = file.convert("RGB")
    width, height = image.size
    short = min(width, height)
    image = image.resize((width * SHORTER // short, height * SHORTER // short), Image.Resampling.BILINEAR)
    left, top = round((image.width - CROP) / 2), round((image.height - CROP) / 2)
    pixels = np.asarray(image.crop((left, top, left + CROP, top + CROP)), np.float32) / np.float32(255)
    pixels = (pixels - np.float32(MEAN)) / np.float32(STD)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def seconds_of_pillow(path):
    before = time.thread_time()
    with_pillow(path)
    return time.thread_time() - before


def main():
    program, folders = sys.argv[1], sys.argv[2:]
    paths = sorted(path for folder in folders for path in Path(folder).iterdir() if path.suffix.lower() in ENDINGS)
    ours = {path: float("inf") for path in paths}
    theirs = dict(ours)
    with subprocess.Popen([program, SPEC], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loader:
        for _ in range(ROUNDS):
            for path in paths:
                print(path, file=loader.stdin, flush=True)
                ours[path] = min(ours[path], float(loader.stdout.readline()))
                theirs[path] = min(theirs[path], seconds_of_pillow(path))
        loader.stdin.close()
    print(f"{'':30} {'pixels':>11} {'here':>9} {'Pillow':>9}  Pillow / here")
    for path in paths:
        with Image.open(path) as image:
            size = f"{image.width}x{image.height}"
        print(f"{path.name[:30]:30} {size:>11} {ours[path] * 1e3:6.2f} ms {theirs[path] * 1e3:6.2f} ms  {theirs[path] / ours[path]:.2f}")
    here, there = sum(ours.values()), sum(theirs.values())
    print(f"{'all':30} {len(paths):>11} {here * 1e3:6.1f} ms {there * 1e3:6.1f} ms  {there / here:.2f}")


main()
