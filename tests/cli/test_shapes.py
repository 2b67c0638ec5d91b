# SPDX-License-Identifier: Apache-2.0
"""Inputs without elements, and wrong names of dimensions."""
import json
import math
import struct
import zipfile

import onnx_bytes as onnx
from cli import BAD_INPUT, DONE, FEATURES, WRONG_CALL, main, npy_bytes, tensors_of, tidemark

SAMPLES, STEPS, WIDTH = 4, 3, 8


def write_step(path, x=("b", "s", WIDTH), past=("b", "p", WIDTH), y=("b", "s", WIDTH)):
    """A step of attention with a cache: keys are those of the past and the new ones."""
    weights = onnx.tensor("w", [WIDTH, WIDTH], [(7 * i % 19 - 9) / 16 for i in range(WIDTH * WIDTH)])
    two = onnx.tensor("two", [], [2.0])
    nodes = [onnx.node("MatMul", ["x", "w"], ["new"], "project"), onnx.node("Mul", ["past", "two"], ["old"], "twice"),
             onnx.node("Concat", ["old", "new"], ["keys"], "join", axis=1),
             onnx.node("Transpose", ["keys"], ["turned"], "turn", perm=[0, 2, 1]),
             onnx.node("MatMul", ["x", "turned"], ["y0"], "score"), onnx.node("Softmax", ["y0"], ["p"], "softmax"),
             onnx.node("MatMul", ["p", "keys"], ["y"], "mix")]
    path.write_bytes(onnx.model(nodes, [onnx.value("x", x), onnx.value("past", past)],
                                [onnx.value("y", y), onnx.value("keys", ("b", "t", WIDTH))], [weights, two]))
    return path


def array(shape, first=0):
    return npy_bytes(shape, [((first + i) * 13 % 29 - 14) / 8 for i in range(math.prod(shape))])


def tensor_file(path, name, shape):
    path.write_bytes(onnx.tensor(name, shape, [(i * 13 % 29 - 14) / 8 for i in range(math.prod(shape))]))


def write_data(path, past=0):
    """The same samples as an .npz, two .npy, a stream of records and folders of test sets, by name."""
    shapes = {"x": [SAMPLES, STEPS, WIDTH], "past": [SAMPLES, past, WIDTH]}
    with zipfile.ZipFile(path / "d.npz", "w") as z:
        for name, shape in shapes.items():
            (path / f"{name}.npy").write_bytes(array(shape))
            z.writestr(f"{name}.npy", array(shape))
    one = {name: [1, *shape[1:]] for name, shape in shapes.items()}
    stream = b"".join(array(one[name], s * STEPS * WIDTH if name == "x" else 0) for s in range(SAMPLES)
                      for name in shapes)
    return ["--data", path / "d.npz"], ["--data", f"x={path / 'x.npy'}", "--data", f"past={path / 'past.npy'}"], stream


def profile(path, words, stream=None, model="step.onnx"):
    """What the profile has of the run and of values, and standard error."""
    words = ["profile", path / model, "-q", "-o", path / "p.json", "--batch", 1, *words]
    done = tidemark(*words, **({"input": stream} if stream else {})).expect(DONE)
    seen = json.loads((path / "p.json").read_text())
    return {key: seen[key] for key in ("ledger", "tensors")}, done.err


def test_inputs_may_be_empty(path):
    write_step(path / "step.onnx")
    npz, npy, stream = write_data(path)
    want, _ = profile(path, npz)
    by_name = tensors_of(want)
    for name in ("past", "old"):
        assert by_name[name]["count"] == 0 and by_name[name]["status"] == "observed", by_name[name]
    assert by_name["keys"]["expected_count"] == SAMPLES * STEPS * WIDTH
    for words, stream_of in [(npy, None), (["--data", "-"], stream), (["--data", path / "x.npy", "--dim", "p=0"], None),
                             ([*npz, "--dim", "p=0"], None)]:
        got, _ = profile(path, words, stream_of)
        assert got == want, words
    for more in (["--batch", "2"], ["--kind", "range"], ["--kind", "guard"], ["--exclude", "0"]):
        profile(path, [*npz, *more])
    for k in (1, 2):
        tidemark("profile", path / "step.onnx", "-q", *npz, "-b1", "--shard", f"{k}/2", "-o", path / f"{k}.json").expect(DONE)
    tidemark("merge", path / "1.json", path / "2.json", "-o", path / "all.json").expect(DONE)
    assert json.loads((path / "all.json").read_text())["tensors"] == want["tensors"]


def test_every_command_accepts_empty_values(path):
    write_step(path / "step.onnx")
    npz, _, _ = write_data(path)
    files = ["p.json"] + (["p.h5"] if "hdf5" in FEATURES else [])
    out = [word for name in files for word in ("-o", path / name)]
    more = ["--per-sample"] if len(files) > 1 else []
    tidemark("profile", path / "step.onnx", *npz, *out[-2:], *more).expect(DONE)
    tidemark("profile", path / "step.onnx", *npz, *out).expect(DONE)
    for name in files:
        tidemark("check", path / name).expect(DONE, ": valid: ")
        tidemark("show", path / name, "past").expect(DONE, "0 elements")
    tidemark("report", path / files[-1], "-o", path / "r.html").expect(DONE)
    tidemark("calibrate", path / "p.json", "-o", path / "e.json").expect(DONE)
    for how in ([], ["--integer"], ["--rank"]):
        tidemark("simulate", path / "step.onnx", path / "e.json", *npz, *how).expect(DONE)
    tidemark("export", path / "e.json", "--to", "qdq", "--model", path / "step.onnx", "-o", path / "q.onnx").expect(DONE)
    tidemark("run", path / "q.onnx", *npz, "-o", path / "q.npz").expect(DONE)
    tidemark("run", path / "step.onnx", *npz, "-o", path / "all.npz").expect(DONE)
    case = path / "case" / "test_data_set_0"
    case.mkdir(parents=True)
    tensor_file(case / "input_0.pb", "x", [1, STEPS, WIDTH])
    tensor_file(case / "input_1.pb", "past", [1, 0, WIDTH])
    tidemark("run", path / "step.onnx", "--data", case, "-o", path / "out.npz").expect(DONE)
    with zipfile.ZipFile(path / "out.npz") as made:
        for i, name in enumerate(("y", "keys")):
            values = made.read(f"{name}.npy")[-4 * STEPS * WIDTH:]
            (case / f"output_{i}.pb").write_bytes(onnx.tensor(name, [1, STEPS, WIDTH], struct.unpack(f"<{STEPS * WIDTH}f", values)))
    tidemark("verify", path / "step.onnx", path / "case").expect(DONE)


def test_no_samples_are_refused(path):
    write_step(path / "step.onnx")
    (path / "x.npy").write_bytes(array([0, STEPS, WIDTH]))
    run = ["run", path / "step.onnx", "-o", path / "o.npz", "--data"]
    tidemark(*run, path / "x.npy", "--dim", "p=0").refuses(BAD_INPUT, "no samples for input")
    tidemark("run", path / "step.onnx", "-o", path / "o.npz", "--dim", "b=0").refuses(WRONG_CALL, "no data sets the number")
    (path / "x.npy").write_bytes(array([SAMPLES, STEPS, WIDTH]))
    tidemark(*run, path / "x.npy").refuses(WRONG_CALL, "not clear which input")


def test_wrong_dimension_names_are_ignored(path):
    """A model whose names all mean something else runs; "?" and the empty name are none at all."""
    npz, _, _ = write_data(path, past=2)
    write_step(path / "step.onnx")
    want, said = profile(path, npz)
    assert not said, said
    for x, past in [(("?",) * 3, ("?",) * 3), (("",) * 3, ("",) * 3), (("N",) * 3, ("N",) * 3),
                    (("N", "N", WIDTH), ("N", "M", "M"))]:
        write_step(path / "odd.onnx", x, past, x)
        got, said = profile(path, npz, model="odd.onnx")
        assert not said, (x, past, said)
        for a, b in zip(got["tensors"], want["tensors"], strict=True):
            assert {**a, "shape": 0} == {**b, "shape": 0}, (x, past)
        tidemark("calibrate", path / "p.json", "-o", path / "e.json").expect(DONE)
        tidemark("simulate", path / "odd.onnx", path / "e.json", *npz).expect(DONE)
        tidemark("export", path / "e.json", "--to", "qdq", "--model", path / "odd.onnx", "-o", path / "q.onnx").expect(DONE)
        tidemark("run", path / "q.onnx", *npz, "-o", path / "q.npz").expect(DONE)
    write_step(path / "odd.onnx", ("b", "s", WIDTH), ("b", "s", WIDTH), (9, 9, 9))
    done = tidemark("run", path / "odd.onnx", *npz, "-o", path / "o.npz").expect(DONE)
    assert done.err.count("dimension 's' is 3 in input 'x' and 2 in 'past'") == 1, done
    tidemark("run", path / "odd.onnx", *npz, "-o", path / "o.npz", "--dim", "s=3").refuses(BAD_INPUT, "'s' is 2 in input 'past'")


def test_conflicting_shapes_are_refused(path):
    add = onnx.node("Add", ["x", "y"], ["z"], "add")
    (path / "add.onnx").write_bytes(onnx.model([add], [onnx.value("x", ["b", "n", 4]), onnx.value("y", ["b", "n", 4])],
                                               [onnx.value("z", ["b", "n", 4])]))
    (path / "x.npy").write_bytes(array([2, 3, 4]))
    (path / "y.npy").write_bytes(array([2, 2, 4]))
    done = tidemark("run", path / "add.onnx", "-o", path / "o.npz", "--data", f"x={path / 'x.npy'}", "--data", f"y={path / 'y.npy'}")
    done.expect(BAD_INPUT, "dimension 'n' is 3 in input 'x' and 2 in 'y'", "do not broadcast")


main()
