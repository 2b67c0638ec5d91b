# SPDX-License-Identifier: Apache-2.0
"""ONNX said in Relay: the reference reader computes ONNX Runtime's numbers from it, and so do we when it is read again."""
# First: it leaves the test out where packages are missing.
from oracle import (folder, graph_inputs, main, model_names, model_of, needs, present, refused, samples, session,
                    sources, tidemark)
from relay_reference import Module

import numpy as np
import onnx

needs("relay")

# What Relay has no words for: loops, and shapes that are computed from the data's.
UNSAYABLE = {name: what for real, what in (("char_gpt", "Shape"), ("dtln_lstm", "LSTM"), ("yunet_dynamic", "Shape"),
                                               ("small_encoder", "MatMul"), ("gtcrn_gru", "GRU"), ("magika_filetype", "Shape"))
             for name in present(real)}
SAYABLE = [name for name in model_names() if name not in UNSAYABLE]


def said(name, path):
    text, params = path / f"{name}.relay", path / f"{name}.params"
    tidemark("transform", model_of(name), "--passes", "none", "-o", text, "--params-out", params)
    return text, params


def computed(name, feed):
    """ONNX Runtime's outputs, and the feed in the model's own shapes."""
    run = session(model_of(name))
    shaped = {value.name: feed[value.name] if feed[value.name].ndim == len(value.shape) else feed[value.name][None]
              for value in run.get_inputs() if value.name in feed}
    return run.run(None, shaped), shaped


def close(got, want, what):
    assert got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}"
    scale = float(np.abs(want).max()) or 1.0
    error = float(np.abs(got - want).max()) / scale
    assert error <= 1e-5, f"{what}: off by {error:.3g} of {scale:.3g}"


def test_reference_reader_computes_the_same():
    for name in SAYABLE:
        with folder() as path:
            module = Module(*said(name, path))
            want, feed = computed(name, samples(name, 1)[0])
            got, _ = module.run(*[feed[key] for key in graph_inputs(onnx.load(model_of(name)))])
            for i, (a, b) in enumerate(zip(got, want)):
                close(a, b, f"{name}, output {i}")


def test_reimported_module_computes_the_same():
    for name in SAYABLE:
        with folder() as path:
            text, params = said(name, path)
            data = [word for source in sources(name) for word in ("--data", source)]
            tidemark("run", model_of(name), *data, "--limit", 2, "-o", path / "a.npz")
            tidemark("run", text, "--params", params, *data, "--limit", 2, "-o", path / "b.npz")
            with np.load(path / "a.npz") as a, np.load(path / "b.npz") as b:
                for x, y in zip(a.files, b.files):
                    close(b[y], a[x], f"{name}, {x}")


def test_weights_keep_their_names_and_bytes():
    for name in SAYABLE:
        with folder() as path:
            module = Module(*said(name, path))
            stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model_of(name)).graph.initializer}
            escaped = {"".join(c if c.isalnum() or c in "_/" else f"_x{ord(c):02x}" for c in key): key for key in stored}
            for key, array in module.params.items():
                original = escaped.get(key.removeprefix("v_x_"))
                if original is not None:
                    assert array.dtype == stored[original].dtype and array.tobytes() == stored[original].tobytes(), key
            assert any(key.removeprefix("v_x_") in escaped for key in module.params), name


def test_unsupported_operators_are_reported_in_one_line():
    for name, what in UNSAYABLE.items():
        with folder() as path:
            refused(["transform", model_of(name), "--passes", "none", "-o", path / "out.relay"], what)
            assert not (path / "out.relay").exists()


main()
