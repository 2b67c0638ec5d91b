# SPDX-License-Identifier: Apache-2.0
"""Time has a bound: what could not end is refused, --timeout and one signal end what runs."""
import os
import signal
import subprocess
import time

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, PROGRAM, WRONG_CALL, folder, main, npy_bytes, subset, tidemark

BEGIN = 2.5 if "sanitized" in FEATURES else 0.8  # seconds after which a run is in the middle of its work
END = 60  # seconds in which it ends, on a busy machine; without what is tested it would take hours
INT64 = 7


def write(path, nodes, inputs, outputs, constants=(), version=17):
    path.write_bytes(onnx.model(nodes, inputs, outputs, constants, opsets=(("", version),)))


def model(path, op, shapes, out=None, constants=(), version=17, **attributes):
    """One node over inputs of these shapes, zeros all of them; the options that give them."""
    names = [f"x{i}" for i in range(len(shapes))]
    write(path, [onnx.node(op, [*names, *(c[0] for c in constants)], ["y"], "slow", **attributes)],
          [onnx.value(name, shape) for name, shape in zip(names, shapes)], [onnx.value("y", out or ["a"])],
          [onnx.tensor(name, dims, values, dtype) for name, dims, values, dtype in constants], version)
    words = []
    for name, shape in zip(names, shapes):
        file = path.with_name(f"{name}.npy")
        head = npy_bytes([1, *shape], data=b"")
        with open(file, "wb") as to:  # a file with holes
            to.write(head)
            size = 4
            for d in shape:
                size *= d
            to.truncate(len(head) + size)
        words += ["--data", f"{name}={file}",]
    return [path, *words]


def test_what_could_not_end_is_refused(here):
    letters = "abcdefgh"
    words = model(here / "e.onnx", "Einsum", [[512]] * 8, equation=",".join(letters) + "->")
    begin = time.monotonic()
    tidemark("run", *words, "-o", here / "y.npz").refuses(BAD_INPUT, "slow", "operations", "--max-operations")
    assert time.monotonic() - begin < END


COSTLY = [  # operations of the one node, at least and at most
    ("Einsum", [[20]] * 4, {"equation": "a,b,c,d->"}, (), 17, 1.6e5, 7e5),
    ("Einsum", [[50, 60], [60, 70]], {"equation": "ab,bc->ac"}, (), 17, 2.1e5, 5e5),
    ("MatMul", [[50, 60], [60, 70]], {}, (), 17, 2.1e5, 2.2e5),
    ("Gemm", [[60, 50], [60, 70]], {"transA": 1}, (), 17, 2.1e5, 2.2e5),
    ("Conv", [[1, 4, 20, 20], [8, 4, 3, 3]], {"pads": [1, 1, 1, 1]}, (), 17, 1.15e5, 1.3e5),
    ("ConvTranspose", [[1, 4, 20, 20], [4, 8, 3, 3]], {}, (), 17, 1.15e5, 1.3e5),
    ("AveragePool", [[1, 1, 40, 40]], {"kernel_shape": [20, 20]}, (), 17, 1.7e5, 1.8e5),
    ("MaxPool", [[1, 1, 40, 40]], {"kernel_shape": [20, 20]}, (), 17, 1.7e5, 1.8e5),
    ("LRN", [[1, 30, 20, 20]], {"size": 15}, (), 17, 1.8e5, 2.1e5),
    ("Det", [[50, 50]], {}, (), 17, 1.2e5, 1.4e5),
    ("DFT", [[1, 211, 2]], {}, (), 17, 1.7e5, 2e5),
    ("NonMaxSuppression", [[1, 300, 4], [1, 2, 300]], {}, (("n", [1], [300], INT64),), 17, 1.7e5, 2e5),
    ("NonMaxSuppression", [[1, 300, 4], [1, 2, 300]], {}, (("n", [1], [3], INT64),), 17, 3e3, 5e3),
    ("Relu", [[100, 100]], {}, (), 17, 2e4, 2e4),
]


def test_estimates_are_of_the_right_size(here):
    for op, shapes, attributes, constants, version, least, most in subset(COSTLY):
        words = ["run", *model(here / "m.onnx", op, shapes, constants=constants, version=version, **attributes), "-o", here / "y.npz"]
        tidemark(*words, "--max-operations", least * .9).refuses(BAD_INPUT, "slow", "operations")
        tidemark(*words, "--max-operations", most * 1.1).expect(DONE)


def test_constants_are_not_computed_beyond_it(here):
    """A node over constants runs while a model is opened or planned."""
    ones = [onnx.tensor(n, [300, 300], [1] * 90000) for n in "ab"]
    write(here / "c.onnx", [onnx.node("MatMul", ["a", "b"], ["c"], "slow"), onnx.node("Add", ["x", "c"], ["y"])],
          [onnx.value("x", [300, 300])], [onnx.value("y", [300, 300])], ones)
    (here / "x.npy").write_bytes(npy_bytes([300, 300]))
    for words in (["run", here / "c.onnx", "--data", here / "x.npy", "-o", here / "y.npz"],
                  ["profile", here / "c.onnx", "--data", here / "x.npy", "-o", here / "p.json"]):
        tidemark(*words, "--max-operations", "1e6").refuses(BAD_INPUT, "slow", "operations")
        tidemark(*words).expect(DONE)


def test_wrong_words():
    for word in ("x", "-1", "0", "", "nan", "inf"):
        tidemark("graph", DIGITS, "--max-operations", word).refuses(WRONG_CALL, "--max-operations")
        tidemark("graph", DIGITS, "--timeout", word).refuses(WRONG_CALL, "--timeout")


def slow_node(here):
    """A pool that takes hours, and is one node."""
    return model(here / "slow.onnx", "AveragePool", [[1, 1, 4000, 4000]], kernel_shape=[3999, 3999], pads=[1999, 1999, 1999, 1999])


def test_timeout_ends_a_long_node(here):
    words = slow_node(here)
    for verb, more in (("run", ["-o", here / "y.npz"]), ("profile", ["-o", here / "p.json"]), ("profile", ["-o", here / "p.json", "--checkpoint", here / "c"]),
                       ("bench", [])):
        begin = time.monotonic()
        done = tidemark(verb, *words, *more, "--timeout", "1s", "--threads", 2)
        assert done.status == -signal.SIGALRM and time.monotonic() - begin < END, done
        assert done.err.count("--timeout is over") == 1, done
    assert not (here / "p.json").exists() and not (here / "y.npz").exists()


def many(here, rows=4_000_000):
    head = npy_bytes([rows, 1, 8, 8], data=b"")
    with open(here / "many.npy", "wb") as to:
        to.write(head)
        to.truncate(len(head) + rows * 256)
    return ["profile", DIGITS, "--data", here / "many.npy", "--batch", 1, "--threads", 1, "-o", here / "p.json"]


def test_timeout_keeps_what_is_done(here):
    words = [*many(here), "--checkpoint", here / "c", "--timeout", 2]
    tidemark(*words).expect(128 + signal.SIGALRM)
    assert (here / "c").exists() and not (here / "p.json").exists()
    tidemark(*words).expect(128 + signal.SIGALRM, "resuming from a checkpoint")


def end(process, number):
    process.send_signal(number)
    return process.wait(timeout=END)


def test_one_signal_ends_an_idle_stream(here):
    for number in subset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
        process = subprocess.Popen([PROGRAM, "profile", DIGITS, "--data", "-", "-o", here / "p.json"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda by=number: signal.signal(by, signal.SIG_DFL))  # which nohup ignores
        process.stdin.write(npy_bytes([1, 8, 8]))
        process.stdin.flush()
        time.sleep(BEGIN)
        assert end(process, number) == -number
        process.stdin.close()
        process.stderr.close()


def test_a_signal_leaves_all_strata_or_none(here):
    labels = 200 if "sanitized" in FEATURES else 400
    (here / "s.csv").write_text("".join(f"l{i}\n" for i in range(labels)))
    words = [PROGRAM, "profile", DIGITS, "--data", PICTURES, "--limit", labels, "--strata", here / "s.csv", "-o", here / "p.json"]
    process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE)
    while process.poll() is None and not list(here.glob("p.*.json")):
        time.sleep(.0005)
    process.send_signal(signal.SIGTERM)
    status = process.wait(timeout=120)
    process.stderr.close()
    written = len(list(here.glob("p*.json")))
    assert (status, written) in ((0, labels + 1), (-signal.SIGTERM, 0), (128 + signal.SIGTERM, 0)), (status, written)


def test_one_signal_ends_a_long_node_and_the_checkpoint_stays(here):
    tidemark(*many(here), "--checkpoint", here / "c", "--timeout", 1).expect(128 + signal.SIGALRM)
    before = (here / "c").read_bytes()
    process = subprocess.Popen([PROGRAM, "profile", *map(str, slow_node(here)), "-o", here / "p.json", "--checkpoint", here / "d"], stderr=subprocess.PIPE)
    time.sleep(BEGIN)
    assert end(process, signal.SIGTERM) == -signal.SIGTERM
    process.stderr.close()
    assert (here / "c").read_bytes() == before and not (here / "p.json").exists()
    assert sorted(os.listdir(here)) == ["c", "many.npy", "slow.onnx", "x0.npy"]


main()
