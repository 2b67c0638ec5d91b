# SPDX-License-Identifier: Apache-2.0
"""What the tests against ONNX Runtime share: the program, the models and their data, profiles, a list of tests.

A test file is started as FILE.py PROGRAM SOURCE_ROOT FEATURES. Real models are in the folder that TIDEMARK_SHARED names, or in
../shared next to the source. Without that folder the small networks of tests/tools/small_models.py are made and taken instead. Exit
status 77, with the reason, when the Python packages are missing.
"""
import atexit
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from harness import Skipped as LeftOut  # noqa: E402, F401 - for tests/heavy
from harness import folder, main, skip, subset  # noqa: E402, F401 - tests import them from here

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
FEATURES = set(sys.argv[3].split(",")) - {""}
SHARED = Path(os.environ.get("TIDEMARK_SHARED") or SOURCE.parent / "shared")
BUNDLE, MODELS = SOURCE / "bundle", SHARED / "models"
SECONDS = 900


def needs(feature):
    if feature not in FEATURES:
        skip(f"the build has no {feature}")


try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    skip(f"{missing} (TIDEMARK_TEST_PYTHON names the interpreter that has it)")

onnxruntime.set_default_logger_severity(4)
# Real networks, and the small one of the same kind.
STAND_INS = {
    "char_gpt": "small_decoder", "dtln_lstm": "small_lstm", "mlperf_ad_autoencoder": "small_autoencoder",
    "mlperf_ic_resnet8": "small_resnet", "mlperf_vww_mobilenet": "small_mobilenet", "mnist_cnn": "small_cnn",
    "mnist_mlp": "small_mlp", "squeezenet10": "small_fire", "super_resolution": "small_upscaler",
    "yunet_dynamic": "small_detector"}
if not MODELS.is_dir():
    import small_models
    MODELS = Path(tempfile.mkdtemp(prefix="tidemark-models-"))
    atexit.register(shutil.rmtree, MODELS, True)
    small_models.write(MODELS)
UNSUPPORTED = {}  # a model folder: why it cannot run


def execute(*words, status=0, program=PROGRAM, **options):
    """The finished process of the program, which exits with this status, or one of these."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, encoding="utf-8", errors="surrogateescape",
                          timeout=SECONDS, **options)
    expected = status if isinstance(status, tuple) else (status,)
    assert done.returncode in expected, f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr}"
    return done


def tidemark(*words, **options):
    """The standard output of `execute`."""
    return execute(*words, **options).stdout


def refused(words, *texts):
    """The program exits with status 3 and one line on stderr that has every text in it."""
    said = execute(*words, status=3).stderr
    assert said.count("\n") == 1 and all(str(text) in said for text in texts), (words, said)


def profile(model, data, target, *more):
    """Profiles and reads the JSON back; `data` is what follows --data."""
    data = data if isinstance(data, list) else [data]
    words = [word for one in data for word in ("--data", one)]
    tidemark("profile", model, *words, "--quiet", "-o", target, *more)
    return json.loads(Path(target).read_text())


# ---- real models ----

def present(*names):
    """These networks, or their stand-ins, as far as they are here."""
    found = [name if name == "digits" or model_of(name).is_file() else STAND_INS.get(name, name) for name in names]
    return [name for name in found if model_of(name).is_file()]


def model_of(name):
    return BUNDLE / "digits.onnx" if name == "digits" else MODELS / name / "model.onnx"


def model_names():
    """The bundled model, then every other."""
    return ["digits"] + sorted(path.parent.name for path in MODELS.glob("*/model.onnx"))


def chosen_models(first=0):
    """All of these; where TIDEMARK_HALF_MODELS is set, as by .ci/run, which has 20 minutes, every other one from the first-th on."""
    return model_names()[first::2] if os.environ.get("TIDEMARK_HALF_MODELS") else model_names()


def graph_inputs(model):
    """Names of the inputs that are not initializers repeated, as old files do."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in stored]


def samples(name, count=None):
    """A list of feeds, at most `count`: from the .npz in the model's folder, or from its test sets."""
    if name == "digits":
        return [{"image": picture[None]} for picture in np.load(BUNDLE / "digits.npy")[:count]]
    inputs = graph_inputs(onnx.load(model_of(name)))
    for path in sorted((MODELS / name).glob("inputs*.npz")):
        with np.load(path) as arrays:
            wanted = {key: arrays[key][:count] for key in inputs}
        return [{key: wanted[key][i] for key in inputs} for i in range(len(wanted[inputs[0]]))]
    feeds = []
    for path in stored_sets(name)[:count]:
        tensors = [onnx.TensorProto.FromString((path / f"input_{i}.pb").read_bytes()) for i in range(len(inputs))]
        feeds.append({key: onnx.numpy_helper.to_array(tensor) for key, tensor in zip(inputs, tensors)})
    return feeds


def stored_sets(name):
    return sorted((MODELS / name).glob("test_data_set_*"))


def sources(name):
    """The value of --data for the samples of `samples(name)`."""
    if name == "digits":
        return [BUNDLE / "digits.npy"]
    archives = sorted((MODELS / name).glob("inputs*.npz"))
    return archives[:1] or [MODELS / name]


def photographs(name, target):
    """All pictures of a model as float32 in its own layout, cut along the first axis: a .npy file."""
    if name in STAND_INS.values():
        np.save(target, np.concatenate([next(iter(feed.values())) for feed in samples(name)]))
        return target
    with np.load(MODELS / name / "samples_u8.npz") as arrays:
        pixels = arrays["x"].astype(np.float32)
    if name == "mnist_cnn":
        pixels = pixels[:, None]
    elif name == "ultraface_rfb320":
        pixels = ((pixels - 127) / 128).transpose(0, 3, 1, 2)
    elif name == "squeezenet10":
        mean = np.array([103.94, 116.78, 123.68], np.float32)
        pixels = (pixels - mean).transpose(0, 3, 1, 2)
    np.save(target, np.ascontiguousarray(pixels, np.float32))
    return target


def session(model, fused=False):
    """Node by node; or as ONNX Runtime fuses it, with sums of 32 bits if the model loads so: those of 16 bits, which processors without
    VNNI take else, saturate."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    if fused:
        options.enable_mem_reuse, options.log_severity_level = False, 4
        options.add_session_config_entry("session.x64quantprecision", "1")
        with contextlib.suppress(onnxruntime.capi.onnxruntime_pybind11_state.Fail):
            return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        options.add_session_config_entry("session.x64quantprecision", "0")
    else:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
