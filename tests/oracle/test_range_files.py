# SPDX-License-Identifier: Apache-2.0
"""Files of ranges in every consumer's form, of one network: each holds what its form can keep of the same ranges."""
import json

from oracle import FEATURES, main, profile, tidemark
import format_examples  # behind oracle, which finds it and leaves the test out where packages are missing

EXAMPLES = format_examples.folder()

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
# What these files hold differs from the ranges on purpose: see the notes with them.
DIFFERENT = {"rknn/twoconv.quantization.cfg": {"conv1_out", "y"}}  # behind its Relu; widened or narrowed by hand


def compare(reference, names, file):
    """What is wrong, or nothing."""
    form, meaning, count = FILES[file]
    found = json.loads(tidemark("diff", reference, EXAMPLES / file, "--json", "--all", status=(0, 1)))
    told = json.loads(tidemark("check", reference, "--against", EXAMPLES / file, "--json", status=(0, 1)))["against"]
    values = [v for v in found["values"] if form == "ncnn" or v["name"] in names]
    off = {v["name"] for v in values if not (v["equal"] if meaning == "step" else v["range_change"] <= TOLERANCE)}
    off -= DIFFERENT.get(file, set())
    good = told["format"] == form and len(values) == count and not off and all(v["meaning"] == meaning for v in values)
    return "" if good else f"{file}: {told['format']}, {len(values)} values, {meaning}; off: {sorted(off)}"


def test_each_file_holds_the_ranges_of_a_profile(path):
    measured = profile(EXAMPLES / "twoconv.onnx", EXAMPLES / "calib_x.npy", path / "p.json")
    names = {t["name"] for t in measured["tensors"] if t["kind"] != "weight"}
    lacking = {"onert": "hdf5", "glow": "yaml", "rknn": "yaml"}
    readable = [file for file, (form, *_) in FILES.items() if lacking.get(form) in (None, *FEATURES)]
    wrong = [text for text in (compare(path / "p.json", names, file) for file in readable) if text]
    assert not wrong, "\n".join(wrong)
    return f"{len(readable)} of {len(FILES)} files"


main()
