# SPDX-License-Identifier: Apache-2.0
"""Other threads run while the library works, and may use the same objects."""
import functools
import json
import operator
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from package import FOLDER, SOURCE, main, skip

try:
    import numpy as np
    import tidemark
    from tidemark import _compare, _core, _encodings, _model, _profile, _quantize, _relate, _run
except ImportError as missing:  # without NumPy, or with an extension for another Python
    skip(missing)

DIGITS, PICTURES = (str(SOURCE / "bundle" / name) for name in ("digits.onnx", "digits.npy"))
DATA = FOLDER / "data.npy"
np.save(DATA, np.load(PICTURES)[:32])
PROFILE = tidemark.profile(DIGITS, DATA)
ENCODINGS = PROFILE.calibrate()
# They read no file, and compute nothing.
AT_ONCE = {"features", "formats", "hold_inputs", "limits", "methods", "passes", "set_limits", "version"}
PROMPT = 10.0  # seconds, in which a thread gets a processor


class Recorder:
    """Stands for the extension module, and keeps the first call of each function."""

    def __init__(self):
        self.calls = {}

    def __getattr__(self, name):
        found = getattr(_core, name)
        if isinstance(found, type) or not callable(found):
            return found

        def call(*args, **named):
            self.calls.setdefault(name, functools.partial(found, *args, **named))
            return found(*args, **named)
        return call


def recorded():
    """Every function of the extension, as the package calls it."""
    recorder = Recorder()
    modules = (_compare, _encodings, _model, _profile, _quantize, _relate, _run)
    for module in modules:
        module._core = recorder
    try:
        PROFILE.write(FOLDER / "p.json")
        tidemark.profile(DIGITS, DATA)
        tidemark.run(DIGITS, DATA, FOLDER / "out.npz")
        encodings = PROFILE.calibrate(target="ort-cpu")
        encodings.export("qdq", FOLDER / "qdq.onnx", model=DIGITS)
        encodings.export("tensorrt-cache", FOLDER / "cache")
        PROFILE.report(FOLDER / "r.html")
        tidemark.transform(DIGITS, FOLDER / "small.onnx", lineage=FOLDER / "l.json")
        tidemark.quantize(FOLDER / "small.onnx", str(DATA), FOLDER / "int8.onnx", target="ort-cpu")
        tidemark.check_target(encodings, "ort-cpu")
        tidemark.rank(DIGITS, encodings, DATA, most=1, limit=2)
        tidemark.search(DIGITS, encodings, str(DATA), profile=PROFILE, budget=1, limit=4)
        tidemark.graph(DIGITS)
        tidemark.patterns(DIGITS)
        tidemark.instrument(DIGITS, FOLDER / "seen.onnx")
        tidemark.read_lineage(FOLDER / "l.json")
        tidemark.link(PROFILE, FOLDER / "small.onnx", lineage=FOLDER / "l.json")
        tidemark.verify(DIGITS, set_of_files())
        tidemark.merge([FOLDER / "p.json"])
        tidemark.diff(PROFILE, FOLDER / "cache")
        tidemark.check(PROFILE, against=FOLDER / "cache")
        tidemark.check(PROFILE, against=DIGITS)
    finally:
        for module in modules:
            module._core = _core
    return {**recorder.calls,
            "Profile.read": functools.partial(_core.Profile.read, str(FOLDER / "p.json")),
            "Profile.write": functools.partial(PROFILE._core.write, str(FOLDER / "again.json")),
            "Encodings.write": functools.partial(ENCODINGS._core.write, str(FOLDER / "e.json")),
            "Encodings.read": functools.partial(_core.Encodings.read, str(FOLDER / "e.json"))}


def set_of_files():
    try:
        from onnx import numpy_helper
    except ImportError as missing:
        skip(missing)
    folder = FOLDER / "set"
    folder.mkdir(exist_ok=True)
    with np.load(FOLDER / "out.npz") as arrays:
        for name, array in (("input_0", np.load(DATA)), ("output_0", arrays[arrays.files[0]])):
            (folder / f"{name}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    return folder


def test_every_function_lets_others_run():
    """Between the two marks no bytecode of this thread is run, so that the interpreter changes threads only where the function lets it."""
    calls = recorded()
    functions = {name for name in dir(_core) if not name.startswith("_") and not isinstance(getattr(_core, name), type)}
    assert functions - AT_ONCE == {name for name in calls if "." not in name} - AT_ONCE, functions ^ set(calls)
    state, over = {"inside": False, "seen": 0}, threading.Event()

    def watch():
        while not over.is_set():
            if state["inside"]:
                state["seen"] += 1
    mark = functools.partial(operator.setitem, state, "inside")
    thread = threading.Thread(target=watch)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # the watcher asks for its turn at once, and gets it when the interpreter is let go
    thread.start()
    held = []
    try:
        for name, call in calls.items():
            state["seen"], end = 0, time.monotonic() + PROMPT
            while not state["seen"] and time.monotonic() < end:
                list(map(functools.partial.__call__, [functools.partial(mark, True), call, functools.partial(mark, False)]))
            if not state["seen"] and name not in AT_ONCE:
                held.append(name)
    finally:
        over.set()
        sys.setswitchinterval(before)
        thread.join()
    assert not held, f"no other thread runs during {held}"


def test_threads_share_objects(folder):
    """What several threads read at a time is what one reads; HDF5 files are written one after the other."""
    methods = ["auto", "mse", "percentile", "entropy"]

    def work(number):
        encodings = PROFILE.calibrate(methods[number % len(methods)], model=DIGITS, weights_method="mse")
        encodings.export("qdq", folder / f"{number}.onnx", model=DIGITS)
        name = folder / f"{number}.{PROFILE.kept_as()}"
        PROFILE.write(name)
        tidemark.transform(DIGITS, folder / f"{number}.small.onnx", lineage=folder / f"{number}.l.{PROFILE.kept_as()}")
        again = tidemark.Profile.read(name)
        PROFILE.report(folder / f"{number}.html", encodings=encodings)
        drift = tidemark.diff(PROFILE, again)
        return (json.dumps(encodings.to_dict()), (folder / f"{number}.onnx").read_bytes(), name.read_bytes(), again.to_dict(),
                (folder / f"{number}.html").read_bytes(), len(drift.drifted), tidemark.check(PROFILE, against=DIGITS))
    alone = [work(number) for number in range(len(methods))]
    with ThreadPoolExecutor(8) as pool:
        for number, made in enumerate(pool.map(work, range(24))):
            assert made == alone[number % len(methods)], number


main()
