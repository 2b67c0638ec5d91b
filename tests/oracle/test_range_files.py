# SPDX-License-Identifier: Apache-2.0
"""Files of ranges in every consumer's form, of one network: each holds what its form can keep of the same ranges.

usage: test_range_files.py PROGRAM SHARED HDF5 YAML   (HDF5 and YAML: yes or no)
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, SHARED, HDF5, YAML = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "yes", sys.argv[4] == "yes"
EXAMPLES = SHARED / "formats" / "examples"
if not EXAMPLES.is_dir():
    print(f"skipped: no examples of formats at {EXAMPLES}")
    sys.exit(77)

FILES = {  # file -> format, meaning, how many values of the network it names
    "ort/calib_cache.min.json": ("ort-cache", "exact", 4),
    "ort/calib_cache.full.json": ("ort-cache", "exact", 4),
    "litert/calibration_result.json": ("litert", "exact", 3),
    "quark/save_and_restore.json": ("quark", "exact", 4),
    "glow/twoconv.profile.yaml": ("glow", "exact", 4),
    "onert/twoconv.minmax.h5": ("onert", "exact", 3),
    "qnn_aimet/twoconv.v0.6.1.encodings": ("aimet", "step", 3),
    "qnn_aimet/twoconv.v1.0.0.encodings": ("aimet", "step", 3),
    "qnn_aimet/twoconv.v2.0.0.encodings": ("aimet", "step", 3),
    "ort/twoconv.qdq.u8s8.onnx": ("qdq", "step", 3),
    "tensorrt/twoconv.calib.cache": ("tensorrt", "largest", 4),
    "tensorrt/twoconv.dynamic_range.txt": ("tensorrt-ranges", "largest", 4),
    "ncnn/twoconv.table": ("ncnn", "largest", 4),
    "rknn/twoconv.quantization.cfg": ("rknn", "exact", 4),
}
TOLERANCE = 1e-5  # a last digit more or less: another executor measured, and some forms keep 6 digits
# What these files hold differs from the ranges on purpose: see the notes beside them.
DIFFERENT = {"rknn/twoconv.quantization.cfg": {"conv1_out", "y"}}  # behind its Relu; widened or narrowed by hand


def run(*words, status=0):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode in (status if isinstance(status, tuple) else (status,)), (words, done)
    return done.stdout


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "p.json"
        run("profile", EXAMPLES / "twoconv.onnx", "--data", EXAMPLES / "calib_x.npy", "-o", profile, "--quiet")
        names = {t["name"] for t in json.loads(profile.read_text())["tensors"] if t["kind"] != "weight"}
        for file, (form, meaning, n) in FILES.items():
            if (form == "onert" and not HDF5) or (form in ("glow", "rknn") and not YAML):
                print(f"  {file}: this build can't read it")
                continue
            found = json.loads(run("diff", profile, EXAMPLES / file, "--json", "--all", status=(0, 1)))
            told = json.loads(run("check", profile, "--against", EXAMPLES / file, "--json", status=(0, 1)))["against"]
            values = [v for v in found["values"] if form == "ncnn" or v["name"] in names]
            off = {v["name"] for v in values
                   if not (v["equal"] if meaning == "step" else v["range_change"] <= TOLERANCE)} - DIFFERENT.get(file, set())
            good = told["format"] == form and len(values) == n and not off and all(v["meaning"] == meaning for v in values)
            failures += not good
            print(f"  {'ok  ' if good else 'BAD '} {file}: {told['format']}, {len(values)} values, {meaning}"
                  f"{f'; off: {sorted(off)}' if off else ''}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
