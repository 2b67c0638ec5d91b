# SPDX-License-Identifier: Apache-2.0
"""Control-C ends each function that runs a network, long before it would have ended by itself."""
import os
import signal
import threading
import time

from package import FOLDER, SOURCE, main, skip

try:
    import numpy as np
    import onnx
    import tidemark
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    skip(missing)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its jobs in the background ignore it
DIGITS, PICTURES = (str(SOURCE / "bundle" / name) for name in ("digits.onnx", "digits.npy"))
FEW = np.load(PICTURES)[:64]
PROFILE = tidemark.profile(DIGITS, FEW)
ENCODINGS = PROFILE.calibrate("minmax")
AFTER, SOON = 0.5, 10.0  # seconds: until the signal comes; a function that ignores it takes longer


def zeros(name, shape):
    """A file of float32 zeros without blocks on the disk."""
    path = str(FOLDER / f"{name}.npy")
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape).flush()
    return path


def slow_network(products=20):
    """A sample takes a tenth of a second or more, for 20 products."""
    weight = numpy_helper.from_array(np.zeros(SHAPE[1:], np.float32), "w")
    names = ["x", *(f"v{i}" for i in range(1, products)), "y"]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y"))
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in zip(names, names[1:])]
    model = helper.make_model(helper.make_graph(nodes, "products", [x], [y], [weight]), opset_imports=[helper.make_opsetid("", 13)],
                              ir_version=8)
    path = FOLDER / f"slow-{products}.onnx"
    onnx.save(model, path)
    return str(path)


def endless_network():
    """A sample runs through more iterations than there is time for."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["was", "was"], ["now"]), helper.make_node("Identity", ["goes"], ["goes_on"])], "body",
        [value("i", TensorProto.INT64, []), value("goes", TensorProto.BOOL, []), value("was", TensorProto.FLOAT, [1, 4])],
        [value("goes_on", TensorProto.BOOL, []), value("now", TensorProto.FLOAT, [1, 4])])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)], "endless", [value("x", TensorProto.FLOAT, [1, 4])],
        [value("y", TensorProto.FLOAT, [1, 4])], [helper.make_tensor("trips", TensorProto.INT64, [], [1 << 40])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), FOLDER / "endless.onnx")
    return str(FOLDER / "endless.onnx")


def interrupted(call, *args, after=AFTER, **settings):
    """The signal comes while it runs."""
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(after, send)
    timer.start()
    try:
        call(*args, **settings)
    except KeyboardInterrupt:
        took = time.monotonic() - sent[0]
        print(f"{call.__name__}: {took:.2f} s")
        assert took < SOON, took
    else:
        raise AssertionError(f"{call.__name__} ended by itself")
    finally:
        timer.cancel()


SHAPE = (1, 768, 768)
SLOW = slow_network()
MANY = zeros("many", (1 << 22, *FEW.shape[1:]))  # minutes of the small network


def endless():
    while True:
        yield FEW[0]


def test_profile():
    interrupted(tidemark.profile, DIGITS, MANY)
    interrupted(tidemark.profile, DIGITS, endless(), threads=1)
    checkpoint = FOLDER / "checkpoint"
    interrupted(tidemark.profile, DIGITS, zeros("fewer", (1 << 20, *FEW.shape[1:])), checkpoint=checkpoint)  # has the hash of all data
    assert checkpoint.exists()  # what is done is kept


def test_inside_a_batch():
    sample = np.zeros((1, *SHAPE[1:]), np.float32)
    interrupted(tidemark.profile, slow_network(10000), sample)
    interrupted(tidemark.profile, endless_network(), np.zeros((1, 4), np.float32), max_iterations=1 << 41)


def test_run():
    interrupted(tidemark.run, DIGITS, MANY, FOLDER / "out.npy")
    assert not (FOLDER / "out.npy").exists()


def test_costs():
    interrupted(tidemark.bench, DIGITS, MANY)
    interrupted(tidemark.step_costs, DIGITS, MANY)


def test_comparisons():
    interrupted(tidemark.simulate, DIGITS, ENCODINGS, MANY)
    interrupted(tidemark.rank, DIGITS, ENCODINGS, MANY, limit=1 << 22)
    interrupted(tidemark.search, DIGITS, ENCODINGS, MANY, profile=PROFILE, limit=1 << 22)


def test_quantize():
    interrupted(tidemark.quantize, DIGITS, MANY, FOLDER / "int8.onnx")
    assert not (FOLDER / "int8.onnx").exists()


def large_weights():
    random = np.random.default_rng(1)
    side = 4096
    weights = [numpy_helper.from_array(random.standard_normal((side, side // 2)).astype(np.float32), f"w{i}") for i in range(2)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, n)) for name, n in (("x", side), ("y0", side // 2), ("y1", side // 2))]
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(2)]
    model = helper.make_model(helper.make_graph(nodes, "weights", ends[:1], ends[1:], weights), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 13)])
    onnx.save(model, FOLDER / "weights.onnx")
    return FOLDER / "weights.onnx", np.zeros((1, side), np.float32)


def test_weights():
    """While their ranges are searched, and while they are quantized and compared, before any sample runs."""
    model, data = large_weights()
    profile = tidemark.profile(model, data)
    interrupted(profile.calibrate, weights_method="mse", model=model)
    encodings, seen = profile.calibrate("minmax"), []
    for call in (tidemark.simulate, tidemark.rank):
        interrupted(call, model, encodings, data, progress=lambda done, total: seen.append(done), after=0.02)
        assert not seen, call


def test_report():
    n = 100  # some milliseconds each
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(n)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 256)) for name in ("v0", f"v{n}"))
    onnx.save(helper.make_model(helper.make_graph(nodes, "deep", [x], [y]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
              FOLDER / "deep.onnx")
    profile = tidemark.profile(FOLDER / "deep.onnx", np.random.default_rng(1).standard_normal((8, 256), np.float32))
    interrupted(profile.report, FOLDER / "page.html", after=0.02)
    assert not (FOLDER / "page.html").exists()


def test_link():
    profile = tidemark.profile(SLOW, np.zeros((1, *SHAPE[1:]), np.float32))
    interrupted(tidemark.link, profile, SLOW, original=SLOW, data=zeros("link", (256, *SHAPE[1:])), limit=256)


def test_verify():
    """Of many test sets."""
    sets = FOLDER / "sets"
    first = sets / "test_data_set_0"
    first.mkdir(parents=True)
    for name, file in (("x", "input_0.pb"), ("y", "output_0.pb")):
        (first / file).write_bytes(numpy_helper.from_array(np.zeros(SHAPE, np.float32), name).SerializeToString())
    for i in range(1, 2000):
        (sets / f"test_data_set_{i}").symlink_to(first)
    interrupted(tidemark.verify, SLOW, sets)


def test_handlers_of_the_caller():
    """Another handler runs, and the run goes on; an exception that it raises ends the run."""
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    timer = threading.Timer(AFTER, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()

    def until_seen():
        while not seen:
            yield FEW[0]
    profile = tidemark.profile(DIGITS, until_seen())
    signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT] and profile.run_report.samples > 0


main()
