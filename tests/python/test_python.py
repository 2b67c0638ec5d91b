# SPDX-License-Identifier: Apache-2.0
"""The Python package, as it is built here: what it measures is what the program measures; data come as arrays, mappings,
iterators and ONNX Runtime's readers; the drop-in quantizes at least as well as what it stands in for.
"""
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from package import PROGRAM, SOURCE, main, raises, skip

try:
    import numpy as np
    import tidemark
except ImportError as missing:  # without NumPy, or with an extension for another Python
    skip(missing)

DIGITS, PICTURES, LABELS = (str(SOURCE / "bundle" / name) for name in ("digits.onnx", "digits.npy", "digits-labels.npy"))
DATA = np.load(PICTURES)
FIGURES = ("id", "kind", "status", "count", "min", "max", "mean", "zeros")


def figures(profile):
    return [tuple(t.as_dict().get(key) for key in FIGURES) for t in profile.tensors]


def test_arrays_may_be_empty(folder):
    sys.path.insert(0, str(SOURCE / "tests" / "cli"))
    import onnx_bytes as onnx
    join = onnx.node("Concat", ["past", "x"], ["y"], "join", axis=1)
    model = folder / "join.onnx"
    model.write_bytes(onnx.model([join], [onnx.value("x", ["b", "s", 4]), onnx.value("past", ["b", "p", 4])],
                                 [onnx.value("y", ["b", "t", 4])]))
    x, past = np.arange(24, dtype="f4").reshape(2, 3, 4), np.zeros((2, 0, 4), "f4")
    for data in ({"x": x, "past": past}, [{"x": x[i:i + 1], "past": past[i:i + 1]} for i in range(2)]):
        seen = {t.name: t.as_dict() for t in tidemark.profile(str(model), data).tensors}
        assert seen["past"]["count"] == 0 and seen["y"]["max"] == 23, seen


def test_arrays_and_files_give_equal_profiles(folder):
    wanted = figures(tidemark.profile(DIGITS, PICTURES))
    assert figures(tidemark.profile(DIGITS, DATA)) == wanted
    assert figures(tidemark.profile(DIGITS, {"image": DATA}, threads=1)) == wanted
    assert figures(tidemark.profile(DIGITS, (x for x in DATA))) == wanted  # a sample each, without its axis
    assert figures(tidemark.profile(DIGITS, [DATA[:100], DATA[100:]])) == wanted
    assert figures(tidemark.profile(DIGITS, DATA.astype("f8"))) == wanted
    assert figures(tidemark.profile(DIGITS, np.asfortranarray(DATA))) == wanted
    path = folder / "p.json"
    subprocess.run([PROGRAM, "profile", DIGITS, "--data", PICTURES, "-o", path, "--quiet"], check=True)
    read = tidemark.Profile.read(path)
    assert figures(read) == wanted
    read.write(folder / "again.json")
    assert json.loads((folder / "again.json").read_text()) == json.loads(path.read_text())


def test_profile_is_a_mapping():
    profile = tidemark.profile(DIGITS, DATA, per_sample=True)
    assert len(profile) == len(list(profile)) == 29 and profile["p0"] is profile["image"] and "relu1_out" in profile
    image = profile["image"]
    assert (image.min, image.max, image.count) == (DATA.min(), DATA.max(), DATA.size)
    counts, edges = image.histogram(17, (0, 17))
    assert np.array_equal(counts, np.histogram(DATA, edges)[0])
    bins = profile["conv1_out"].bins
    assert bins.count.sum() == profile["conv1_out"].count - profile["conv1_out"].zeros and np.all(np.diff(bins.low) > 0)
    assert np.isclose((bins.mean * bins.count).sum(), profile["conv1_out"].sum, rtol=1e-6)
    low, high = image.samples
    assert np.array_equal(high, DATA.reshape(len(DATA), -1).max(1)) and low.max() == 0
    assert profile["conv1_out"].channels.max.max() == np.float32(profile["conv1_out"].max)
    middle = image.quantile(0.9)
    assert middle.low <= np.quantile(DATA, 0.9, method="inverted_cdf") <= middle.high
    raises(AttributeError, "nonsense", lambda: image.nonsense)
    raises(TypeError, "there is no option 'limits'", lambda: tidemark.profile(DIGITS, DATA, limits=3))
    raises(OverflowError, "threads", lambda: tidemark.profile(DIGITS, DATA, threads=1 << 40))
    try:
        frame = profile.to_pandas()
        assert frame.loc["p0"]["max"] == 16 and len(frame) == 29
    except ImportError:
        pass


def test_errors_are_raised():
    def broken():
        yield DATA[:3]
        raise RuntimeError("the disk is gone")
    raises(RuntimeError, "the disk is gone", lambda: tidemark.profile(DIGITS, broken()))
    raises(ValueError, "picture", lambda: tidemark.profile(DIGITS, {"picture": DATA}))
    error = raises(tidemark.Error, "none.onnx", lambda: tidemark.profile("none.onnx", DATA))
    assert error.status and isinstance(error, ValueError)
    raises(tidemark.Error, "[1,1,4,8]", lambda: tidemark.profile(DIGITS, DATA[:, :, :4]))
    for data in (DATA.astype("u1"), DATA[:4].reshape(2, 2, 8, 2, 4)):
        said = str(raises(tidemark.Error, "image", lambda data=data: tidemark.profile(DIGITS, data)))
        assert "-:" not in said and "python:" not in said, said
    raises(tidemark.Error, "data: is empty", lambda: tidemark.profile(DIGITS, []))
    raises(ZeroDivisionError, "", lambda: tidemark.profile(DIGITS, DATA, progress=lambda done, total: 1 / 0))
    raises(tidemark.Error, "no-such", lambda: tidemark.profile(DIGITS, DATA[:5]).calibrate("no-such"))


def test_other_threads_run_during_a_profile():
    ticks, over = [], threading.Event()

    def tick():
        while not over.wait(0.001):
            ticks.append(time.monotonic())
    thread = threading.Thread(target=tick)
    thread.start()
    data, most = np.concatenate([DATA] * 4), 0
    for _ in range(20):  # on a busy machine the thread may not get a processor in time
        begin = time.monotonic()
        tidemark.profile(DIGITS, data)
        end = time.monotonic()
        most = max(most, sum(begin < t < end for t in ticks))
        if most > 3:
            break
    over.set()
    thread.join()
    assert most > 3, f"{most} ticks during a profile: the interpreter was held"


def test_profile_is_calibrated_and_exported(folder):
    encodings = tidemark.profile(DIGITS, DATA).calibrate("minmax", sensitive="quantize")
    conv = encodings["conv1_out"]
    assert conv.dtype == "uint8" and conv.scale.shape == (1,) and encodings["conv1.weight"].axis == 0
    assert all(left.reason for left in encodings.left)
    path = folder / "cache"
    skipped = encodings.export("tensorrt-cache", path)
    assert path.read_text().startswith("TRT-") and all(left.reason for left in skipped)
    encodings.write(folder / "e.json")
    again = tidemark.Encodings.read(folder / "e.json")
    assert again["conv1_out"].scale == conv.scale
    profile = tidemark.profile(DIGITS, DATA[:50])
    profile.report(folder / "r.html", encodings=encodings)
    assert "</html>" in (folder / "r.html").read_text()
    ranking = {"samples": 1, "not_tried": 0, "ranking": [{"id": "p12", "name": profile["p12"].name, "sqnr": 20.5, "expected_sqnr": None}]}
    (folder / "rank.json").write_text(json.dumps(ranking))
    profile.report(folder / "r.html", since=[profile, profile], simulation=[folder / "rank.json"], model=DIGITS)
    page = (folder / "r.html").read_text()
    assert '"ranking":{"rows":[[12,20.5,null]]' in page and "kernel_shape" in page and page.count('"only_now":[') == 2
    raises(tidemark.Error, "neither 'values'", lambda: profile.report(folder / "none.html", simulation=[folder / "e.json"]))
    raises(TypeError, "tidemark.Profile", lambda: profile.report(folder / "none.html", since=[encodings]))


def test_weights_are_searched_and_have_blocks(folder):
    profile = tidemark.profile(DIGITS, DATA[:20])
    encodings = profile.calibrate(weights_method="l4", weights_dtype="int4", weights_block=32, model=DIGITS)
    weights = [one for one in encodings.values() if one.role == "weight"]
    blocked = [one for one in weights if one.block]
    assert blocked and all(one.block == 32 and one.scale.size > 10 for one in blocked)
    assert all(one.method == "l4" for one in weights) and encodings["conv1.weight"].block == 0
    encodings.write(folder / "e.json")
    for name, one in tidemark.Encodings.read(folder / "e.json").items():
        assert np.array_equal(one.scale, encodings[name].scale) and np.array_equal(one.zero_point, encodings[name].zero_point)
    raises(ValueError, "need the model", lambda: profile.calibrate(weights_block=32))


def test_no_output_replaces_an_input(folder):
    model, names = folder / "m.onnx", folder / "names.map"
    model.write_bytes(Path(DIGITS).read_bytes())
    names.write_text('{"conv1_out": "c"}')
    encodings = tidemark.profile(model, DATA[:20]).calibrate("minmax")
    os.link(model, folder / "hard.onnx")
    for path in (model, folder / "hard.onnx"):
        error = raises(tidemark.Error, "is an input", lambda: encodings.export("qdq", path, model=model))
        assert isinstance(error, ValueError)
    raises(tidemark.Error, "is an input", lambda: encodings.export("csv", names, names=names))
    assert model.read_bytes() == Path(DIGITS).read_bytes() and names.read_text().startswith("{")
    encodings.export("csv", names)  # nothing reads it now
    assert not names.read_text().startswith("{")


def test_drop_in_quantizes_as_well_as_onnx_runtime(folder):
    try:
        import onnxruntime
        from onnxruntime import quantization as ort
        import tidemark.ort
    except ImportError as error:
        skip(error)
    labels = np.load(LABELS)

    class Reader(ort.CalibrationDataReader):
        def __init__(self):
            self.items = iter({"image": DATA[i:i + 1]} for i in range(0, 400))

        def get_next(self):
            return next(self.items, None)

    def accuracy(path):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", "1")
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return float(np.mean(session.run(None, {"image": DATA[400:]})[0].argmax(1) == labels[400:]))
    theirs, ours = folder / "theirs.onnx", folder / "ours.onnx"
    ort.quantize_static(DIGITS, theirs, Reader())
    tidemark.ort.quantize_static(DIGITS, ours, Reader())
    found = {"float": accuracy(DIGITS), "ONNX Runtime": accuracy(theirs), "with Tidemark": accuracy(ours)}
    print("  accuracy:", {name: f"{value:.4f}" for name, value in found.items()})
    assert found["with Tidemark"] >= found["ONNX Runtime"] - 0.002, found


main()
