# SPDX-License-Identifier: Apache-2.0
"""A model that adds its input to a running sum, in whole numbers, so that every statistic is known exactly; and data for it."""
import random

import onnx_bytes as onnx
from cli import npy_bytes

STEPS, WIDTH = 60, 2
LOOP = ["--feedback", "total=before"]


def running_sum(path, first="N", width=WIDTH, name="m.onnx"):
    """total = x + before, and twice that; `first` is the first dimension of x."""
    shape = [first, width] if width else [first]
    state = [first if isinstance(first, int) else 1, *shape[1:]]
    nodes = [onnx.node("Add", ["x", "before"], ["total"]), onnx.node("Add", ["total", "total"], ["doubled"])]
    inputs = [onnx.value("x", shape), onnx.value("before", state)]
    outputs = [onnx.value("doubled", shape), onnx.value("total", shape)]
    (path / name).write_bytes(onnx.model(nodes, inputs, outputs))
    return path / name


def numbers(steps=STEPS, width=WIDTH, seed=3):
    random_ = random.Random(seed)
    return [[random_.randint(-9, 9) for _ in range(width)] for _ in range(steps)]


def save(path, rows, shape=None):
    path.write_bytes(npy_bytes(shape or [len(rows), len(rows[0])], [number for row in rows for number in row]))
    return path
