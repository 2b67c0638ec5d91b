# SPDX-License-Identifier: Apache-2.0
"""The Keras MNIST MLP as its users store it, Relay text and a params file: profiled, calibrated, exported with dense, bias_add and
activations in 8 bits, evaluated by the reference reader on real digits; then with dense left out, by a config."""
import json

# First: it leaves the test out where packages are missing.
from oracle import MODELS, folder, main, needs, skip, tidemark
from relay_reference import Module

import numpy as np

needs("relay")

MLP = MODELS / "mnist_mlp"
TEXTS = [MLP / "relay" / f"initial_v{version}.relay" for version in ("0.0.5", "0.0.4")]
PARAMS = MLP / "relay" / "mnist_mlp.params"
DIGITS = MLP / "inputs_512.npz"
TOLD = 512
if not PARAMS.is_file():
    skip(f"there is no {PARAMS}")


def digits():
    with np.load(DIGITS) as arrays:
        return arrays["dense_1_input"][:TOLD], arrays["labels"][:TOLD]


def accuracy(module):
    pictures, labels = digits()
    guesses = [int(np.argmax(module.run(picture)[0][0])) for picture in pictures]
    return float(np.mean(np.array(guesses) == labels)), guesses


def exported(path, text, config=None, *settings):
    tidemark("profile", text, "--params", PARAMS, "--data", DIGITS, "--quiet", "-o", path / "profile.json")
    more = []
    if config:
        (path / "config.json").write_text(json.dumps(config))
        more = ["--config", path / "config.json"]
    tidemark("calibrate", path / "profile.json", "--sensitive=quantize", "--quiet", *more, "-o", path / "encodings.json")
    tidemark("export", path / "encodings.json", "--model", text, "--params", PARAMS, "--to", "relay", *settings, "-o",
             path / "out.relay")
    return Module(path / "out.relay", path / "out.params")


def types(module, op):
    return [call["ty"] for call in module.calls(op)]


def test_annotations_keep_the_text():
    for text in TEXTS:
        with folder() as path:
            module, plain = exported(path, text), Module(text, PARAMS)
            assert PARAMS.read_bytes() == (path / "out.params").read_bytes(), "the parameters are not the same bytes"
            assert [c["op"] for c in module.calls() if not c["op"].startswith("annotation.")] == [c["op"] for c in plain.calls()]
            pictures, _ = digits()
            for picture in pictures[:4]:
                assert np.array_equal(module.run(picture)[0][0], plain.run(picture)[0][0])
            names = {c["attrs"]["name"] for c in module.calls("annotation.quantize_info")}
            assert {name for name, _, _ in module.main.params} <= names, names


def test_int8_accuracy_equals_float():
    right, guesses = accuracy(Module(TEXTS[0], PARAMS))
    with folder() as path:
        module = exported(path, TEXTS[0], None, "--set", "form=integer")
        assert len(module.calls("nn.dense")) == 3 and all(ty.endswith("int32]") for ty in types(module, "nn.dense"))
        assert sorted(str(a.dtype) for a in module.params.values() if a.ndim == 2) == ["int8"] * 3
        quantized, others = accuracy(module)
    same = float(np.mean(np.array(guesses) == np.array(others)))
    print(f"   of {TOLD} digits right: float {right:.4f}, integers {quantized:.4f}; the same answer to {same:.4f}")
    assert quantized >= right - 0.01 and same >= 0.98


def test_dense_stays_float_where_the_config_says_so():
    right, _ = accuracy(Module(TEXTS[0], PARAMS))
    with folder() as path:
        config = {"rules": [{"match": {"op": "nn.dense"}, "quantize": False}]}
        module = exported(path, TEXTS[0], config, "--set", "form=integer")
        assert len(module.calls("nn.dense")) == 3 and all(ty.endswith("float32]") for ty in types(module, "nn.dense"))
        assert any("int" in ty for ty in types(module, "add")), "nothing is quantized"
        quantized, _ = accuracy(module)
    print(f"   of {TOLD} digits right: float {right:.4f}, all but dense in 8 bits {quantized:.4f}")
    assert quantized >= right - 0.01


main()
