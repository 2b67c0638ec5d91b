# SPDX-License-Identifier: Apache-2.0
"""The two-convolution network of the worked examples: its encodings by the formats' formulas, its data, and how near a quantized
output comes."""
import json

import numpy as np

from oracle import profile, session, tidemark
import format_examples  # behind oracle, which finds it and leaves the test out where packages are missing

EXAMPLES = format_examples.folder()
MODEL = EXAMPLES / "twoconv.onnx"
RANGES = json.loads((EXAMPLES / "ranges.json").read_text())
SAMPLES = np.load(EXAMPLES / "calib_x.npy")
OUTPUT_STEP = 0.06859117


def reference():
    run = session(MODEL)
    return np.concatenate([run.run(None, {"x": x})[0] for x in SAMPLES])


def sqnr(got):
    """Decibels against fp32."""
    want = reference().astype(np.float64)
    return 10 * np.log10((want ** 2).sum() / ((want - got) ** 2).sum())


def activation(name, symmetric):
    low, high = min(RANGES[name]["min"], 0.0), max(RANGES[name]["max"], 0.0)
    if symmetric:
        most = max(-low, high)
        return {"dtype": "int8", "scheme": "symmetric", "narrow": True, "scale": [float(np.float32(2 * most / 254))],
                "zero_point": [0], "low": [-most], "high": [most]}
    scale = (high - low) / 255
    return {"dtype": "uint8", "scheme": "asymmetric", "scale": [float(np.float32(scale))],
            "zero_point": [int(np.rint(-low / scale))], "low": [low], "high": [high]}


def weight(name):
    most = RANGES[name]["channel_absmax"]
    return {"dtype": "int8", "scheme": "symmetric", "narrow": True, "axis": 0,
            "scale": [float(np.float32(2 * m / 254)) for m in most], "zero_point": [0] * len(most), "low": [-m for m in most],
            "high": most, "observed_min": RANGES[name]["min"], "observed_max": RANGES[name]["max"]}


def encodings(path, symmetric=False, all_activations=False):
    """Writes enc.json: conv1_out stays float (Relu takes it in) unless all activations are asked for."""
    made = profile(MODEL, EXAMPLES / "calib_x.npy", path / "p.json", "--observe", "weights")
    document = {"format": "tidemark-encodings", "version": {"major": 1, "minor": 0},
                "producer": {"name": "test", "version": "0"}, "settings": {}, "samples": len(SAMPLES),
                "model": {key: made["model"][key] for key in ("file", "sha256", "format", "graph_fingerprint")},
                "rounding": "single_half_up", "pow2_requant": False, "encodings": [], "left": [], "requants": []}
    for tensor in made["tensors"]:
        name = tensor["name"]
        if name.endswith(".bias") or (name == "conv1_out" and not all_activations):
            document["left"].append({"id": tensor["id"], "name": name, "reason": "the test says so"})
            continue
        role = "weight" if name.endswith(".weight") else "activation"
        numbers = weight(name) if role == "weight" else activation(name, symmetric)
        document["encodings"].append({"id": tensor["id"], "fingerprint": tensor["fingerprint"], "name": name, "role": role,
                                      "method": "minmax", "rule": "", **numbers})
    (path / "enc.json").write_text(json.dumps(document))
    return path / "enc.json"


def calibrated(path, *words):
    """The same ranges by the program itself: every activation, biases too, conv1_out by what is behind Relu."""
    tidemark("profile", MODEL, "--data", EXAMPLES / "calib_x.npy", "-o", path / "p.json", "--quiet")
    tidemark("calibrate", path / "p.json", "--sensitive=quantize", "--method", "minmax", "-o", path / "enc.json", "--quiet", *words)
    return path / "enc.json"


def export(path, target, to, *more, symmetric=False, all_activations=False, by_hand=True, runtime=None):
    """The file that the format makes of the network's encodings; runtime: --target of both commands."""
    more = (*more, "--target", runtime) if runtime else more
    made = calibrated(path, *more[-2:]) if runtime else encodings(path, symmetric, all_activations) if by_hand else calibrated(path)
    tidemark("export", made, "--to", to, "-o", path / target, "--model", MODEL, *more)
    return path / target
