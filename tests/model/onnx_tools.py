# SPDX-License-Identifier: Apache-2.0
"""Making models, converting them with tests/tools/roundtrip, and running what comes out."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from harness import main, skip  # noqa: E402, F401 - tests import them from here

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    skip(missing)

ROUNDTRIP, SOURCE = sys.argv[1], Path(sys.argv[2])
MODELS = Path(os.environ.get("TIDEMARK_SHARED") or SOURCE.parent / "shared") / "models"
if not MODELS.is_dir():
    import small_models
    MODELS = Path(tempfile.mkdtemp(prefix="tidemark-models-"))
    atexit.register(shutil.rmtree, MODELS, True)
    small_models.write(MODELS)
FLOAT = TensorProto.FLOAT
onnxruntime.set_default_logger_severity(4)


def roundtrip(source, target, *more):
    done = subprocess.run([ROUNDTRIP, str(source), str(target), *map(str, more)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), f"crashed: {done.returncode} {done.stderr}"
    return done.stderr.strip() if done.returncode else None


def session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def run(model, feeds):
    return session(model).run(None, feeds)


def value(name, shape=None, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def make_model(nodes, inputs, outputs, *, initializers=(), functions=(), opsets=(("", 17),), ir=8):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    imports = [helper.make_opsetid(*pair) for pair in opsets]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=ir)


class Folder:
    """A temporary folder with one model; `copy` is what we made of it."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="tidemark-onnx-"))
        self.copy = self.path / "copy.onnx"
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def convert(self, model, *more):
        source = self.path / "model.onnx"
        if isinstance(model, bytes):
            source.write_bytes(model)
        elif isinstance(model, onnx.ModelProto):
            source.write_bytes(model.SerializeToString())
        else:
            source = model
        return roundtrip(source, self.copy, *more)


def refused(model, *texts):
    with Folder() as folder:
        error = folder.convert(model)
        assert error, f"not refused; expected {texts}"
        assert "\n" not in error and "model.onnx" in error, error
        for text in texts:
            assert text in error, f"{text!r} is not in {error!r}"
        assert not folder.copy.exists()


def converted(model, check=True):
    with Folder() as folder:
        error = folder.convert(model)
        assert not error, error
        if check:
            onnx.checker.check_model(str(folder.copy), full_check=True)
        return onnx.load(str(folder.copy))


def same_results(model, feeds, exact=True, check=True):
    """Runs the model and what we made of it."""
    with Folder() as folder:
        error = folder.convert(model)
        assert not error, error
        if check:
            onnx.checker.check_model(str(folder.copy), full_check=True)
        expected, got = run(folder.path / "model.onnx", feeds), run(folder.copy, feeds)
        for e, g in zip(expected, got, strict=True):
            if exact:
                np.testing.assert_array_equal(e, g)
            else:
                np.testing.assert_allclose(np.asarray(e, np.float64), np.asarray(g, np.float64),
                                           rtol=2e-3, atol=2e-3)
        return onnx.load(str(folder.copy))


X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
