# SPDX-License-Identifier: Apache-2.0
"""What is damaged: real models with data that fits them, and the files that the program makes of them."""
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import format_examples
import small_models

TESTDATA = Path("/usr/share/libonnx-testdata/data")  # Debian's libonnx-testdata
# Folder of ../shared/models: how often it is taken.
REAL = {"mnist_cnn": 10, "mlperf_ic_resnet8": 8, "char_gpt": 4, "dtln_lstm": 5, "mlperf_ad_autoencoder": 4, "mlperf_vww_mobilenet": 3,
        "mnist_mlp": 2, "super_resolution": 1, "yunet_dynamic": 2, "ultraface_rfb320": 1, "squeezenet10": 1}
TABLES = ("litert/calibration_result.json", "ort/calib_cache.full.json", "ort/calib_cache.min.json", "qnn_aimet/twoconv.v0.6.1.encodings",
          "qnn_aimet/twoconv.v1.0.0.encodings", "qnn_aimet/twoconv.v2.0.0.encodings", "quark/save_and_restore.json",
          "ort/twoconv.qdq.u8s8.onnx", "ort/twoconv.qdq.s8s8sym.onnx", "onert/twoconv.minmax.h5", "glow/twoconv.profile.yaml",
          "rknn/twoconv.quantization.cfg", "tensorrt/twoconv.calib.cache", "tensorrt/twoconv.dynamic_range.txt", "ncnn/twoconv.table")
TEMPLATES = {"ncnn-int8": "ncnn/twoconv.param", "openvino": "openvino/twoconv.xml", "rknn": "rknn/twoconv.quantization.cfg"}
CONFIG = re.compile(r"```json\n(.*?)```", re.S)


class Model:
    """A model's file, how often it is taken, and what was made of it (None: nothing could be)."""

    def __init__(self, path, weight, params=None, sets=None):
        self.path, self.weight, self.params, self.sets = Path(path), weight, params, sets
        self.data = self.profile = self.encodings = None

    @property
    def relay(self):
        return self.path.suffix == ".relay"


def feeds(model, samples=2, most=1 << 20):
    """Arrays by name that fit the inputs of a parsed model, with a first axis of samples; fewer where there is no array for one."""
    random = np.random.default_rng(7)
    stored = {tensor.name for tensor in model.graph.initializer}
    arrays = {}
    for info in model.graph.input:
        kind = info.type.tensor_type
        if info.name in stored or not info.type.HasField("tensor_type"):
            continue
        shape = [dim.dim_value if 0 < dim.dim_value < 1024 else 2 for dim in kind.shape.dim]
        try:
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        except KeyError:
            continue
        if int(np.prod([float(n) for n in shape])) > most or dtype.kind not in "fiub" or len(shape) > 20:
            continue
        array = random.standard_normal([samples, *shape])
        arrays[info.name] = (array if dtype.kind == "f" else abs(array) * 3).astype(dtype)
    return arrays


def save(path, arrays):
    """An .npz, or False: names that no archive holds."""
    try:
        if any("\0" in name or name in ("file", "") for name in arrays):
            return False
        np.savez(path, **arrays)
    except (OSError, TypeError, ValueError):  # TypeError: a name that is no text
        return False
    return True


class Sources:
    def __init__(self, program, root, shared, folder, small):
        self.program, self.root, self.shared, self.folder = program, Path(root), Path(shared), Path(folder)
        self.models = [Model(self.root / "bundle/digits.onnx", 20)]
        self.models += [Model(path, weight, sets=path.parent) for name, weight in REAL.items()
                        for path in [self.shared / "models" / name / "model.onnx"] if path.exists() and not (small and path.stat().st_size > 200_000)]
        small_models.write(self.folder / "networks")
        made = sorted((self.folder / "networks").glob("*/model.onnx"))
        self.models += [Model(path, 2, sets=path.parent) for path in made]
        self.sets = made[0].parent  # for `verify` of a model that has none
        examples = self.shared / "formats/examples"
        if not examples.is_dir():
            examples = self.folder / "examples"
            examples.mkdir()
            format_examples.write(examples)
        self.tables = [examples / name for name in TABLES if (examples / name).exists()]
        self.templates = {form: examples / name for form, name in TEMPLATES.items() if (examples / name).exists()}
        self.models += [Model(path, 4) for path in sorted([*examples.glob("*.onnx"), *examples.glob("ort/*.onnx")])]
        self.named = list(self.models)
        self._relay()
        self._backend()
        for model in self.named:
            self._derive(model)
        self.small = [m for m in self.named if m.encodings and m.path.stat().st_size < 400_000]
        self.of_examples = next((m for m in self.named if m.path.name == "twoconv.onnx"), self.named[0])
        self.checkpoint = self._checkpoint()
        self.lineages = [self._lineage(model, form) for model in self.small[:4] for form in ("json", "h5")]
        self.config = CONFIG.search((self.root / "docs/calibrate.md").read_text())[1].encode()
        self.tables += [made for model in self.small for form in ("csv", "quark", "aimet", "glow") for made in [self._export(model, form)] if made]

    def run_program(self, *words, check=True, **options):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, errors="replace", **options)
        if check and done.returncode:
            raise RuntimeError(f"tidemark {words}: {done.stderr}")
        return done.returncode == 0

    def _relay(self):
        found = []
        for path in sorted(self.shared.glob("models/mnist_mlp/relay/*.relay")):
            found.append((path, path.with_name("mnist_mlp.params") if "initial" in path.name else None))
        for folder in sorted(self.shared.glob("relay/golden/*")):
            params = next(iter(folder.glob("*.params")), None)
            found += [(path, params if "0_raw" in path.name else None) for path in sorted(folder.glob("*.relay.txt"))]
        for i, (path, params) in enumerate(found):
            copy = self.folder / f"{i}-{path.name.removesuffix('.txt').removesuffix('.relay')}.relay"
            copy.write_bytes(path.read_bytes())
            self.models.append(Model(copy, 15 / len(found), params))

    def _backend(self):
        """The small cases of ONNX's own test data: Debian's, and what the Python package has in files."""
        folders = [TESTDATA, Path(onnx.__file__).parent / "backend/test/data"]
        paths = [path for folder in folders for path in sorted(folder.glob("*/*/model.onnx")) if path.stat().st_size < 500_000]
        for path in paths:
            self.models.append(Model(path, 45 / len(paths), sets=path.parent))

    def _derive(self, model):
        """Data, profiles and encodings of a named model."""
        stem = self.folder / f"{model.path.parent.name}-{model.path.stem}"
        arrays = feeds(onnx.load(model.path, load_external_data=False))
        data = Path(f"{stem}.npz")
        if not save(data, arrays):
            return
        model.data = data
        profile = Path(f"{stem}.json")
        if not self.run_program("profile", model.path, "--data", data, "--quiet", "-o", profile, "-o", f"{stem}.h5", check=False):
            return
        model.profile = profile
        if self.run_program("calibrate", profile, "--quiet", "-o", f"{stem}.enc.json", check=False):
            model.encodings = Path(f"{stem}.enc.json")
        for k in (1, 2):
            self.run_program("profile", model.path, "--data", data, "--quiet", "--shard", f"{k}/2", "-o", f"{stem}.{k}.json", "-o", f"{stem}.{k}.h5", check=False)

    def shard(self, model, k, form):
        return model.profile.with_suffix(f".{k}.{form}")

    def _lineage(self, model, form):
        target = model.profile.with_suffix(f".lineage.{form}")
        self.run_program("transform", model.path, "--passes", "all", "-o", model.profile.with_suffix(".small.onnx"), "--lineage", target, "--quiet")
        return model, target, model.profile.with_suffix(".small.onnx")

    def _export(self, model, form):
        target = model.profile.with_suffix(f".{form}")
        return target if self.run_program("export", model.encodings, "--to", form, "-o", target, "--quiet", check=False) else None

    def _checkpoint(self):
        """That of a run over many digits that was killed: (words of the run, the file)."""
        data, target = self.folder / "many.npy", self.folder / "checkpoint"
        np.save(data, np.tile(np.load(self.root / "bundle/digits.npy"), (40, 1, 1, 1)))
        words = [self.models[0].path, "--data", data, "--quiet", "--threads", "1"]
        run = subprocess.Popen([self.program, "profile", *map(str, words), "-o", str(self.folder / "never.json"), "--checkpoint",
                                str(target), "--every", "0.05s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not target.exists() and run.poll() is None:
            time.sleep(0.01)
        run.kill()
        run.wait()
        for left in self.folder.glob("*.tmp-*"):
            left.unlink()
        return words, target
