# SPDX-License-Identifier: Apache-2.0
"""Two runs of every command write the same bytes, to standard output and to files."""
import json

import every_verb
import onnx_bytes as onnx
from cli import DIGITS, DONE, PICTURES, PROGRAM, SOURCE, folder, main, npy_bytes, tidemark

SHARED = SOURCE.parent / "shared"
QUICK = {"mnist_cnn", "dtln_lstm"}  # tests/heavy/test_sweep.py has them all


def left_behind(model, data, sets, samples):
    with folder() as path:
        said = [(words, every_verb.run(PROGRAM, words, path)[:2]) for words in every_verb.commands(model, data, sets, samples)]
        return said, {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def check_twice(model, data, sets=None, samples=4):
    (said, files), (again, more) = left_behind(model, data, sets, samples), left_behind(model, data, sets, samples)
    for (words, one), (_, other) in zip(said, again):
        assert one == other, f"two runs differ: {words}: {one[1][:300]!r} and {other[1][:300]!r}"
        assert one[0] in (0, 1) or "same.relay" in words, f"status {one[0]} of {words}"  # Relay lacks some operators
    assert files.keys() == more.keys()
    for name in files:
        assert files[name] == more[name], f"{name} differs between two runs"
    assert files["outputs.npz"] == files["outputs1.npz"], "threads show in the outputs of run"
    return {" ".join(map(str, words[:2])): result for words, result in said}


def mixed_model(path):
    """Float, int64 and bool results without a type in the file, a shape that depends on numbers, one for two readers."""
    nodes = [onnx.node("MatMul", ["x", "w"], ["m"], "mul"), onnx.node("Relu", ["m"], ["r"], "relu"),
             onnx.node("Shape", ["r"], ["shape"], "shape"), onnx.node("Gather", ["shape", "one"], ["size"], "size"),
             onnx.node("Greater", ["r", "half"], ["over"], "over"), onnx.node("Not", ["over"], ["under"], "under"),
             onnx.node("NonZero", ["over"], ["where"], "where"), onnx.node("Cast", ["under"], ["kept"], "cast", to=1),
             onnx.node("ArgMax", ["r"], ["best"], "best", axis=1), onnx.node("Add", ["kept", "r"], ["y"], "add")]
    model = onnx.model(nodes, [onnx.value("x", ["N", 4])],
                       [onnx.value("y", ["N", 4]), onnx.value("best", ["N", 1], onnx.INT64)],
                       [onnx.tensor("w", [4, 4], [(i * 7 % 11 - 5) / 8 for i in range(16)]), onnx.tensor("one", [], [1], onnx.INT64),
                        onnx.tensor("half", [], [0.5])])
    (path / "mixed.onnx").write_bytes(model)
    (path / "x.npy").write_bytes(npy_bytes([12, 4], [((i * 13) % 29 - 14) / 7 for i in range(48)]))
    return path / "mixed.onnx", path / "x.npy"


def test_commands_on_small_models_are_reproducible():
    with folder() as path:
        model, data = mixed_model(path)
        check_twice(model, [data], samples=12)
    check_twice(DIGITS, [PICTURES])


def test_commands_on_shared_models_are_reproducible():
    for name, model, data, sets in every_verb.shared_models(SHARED):
        if name in QUICK:
            check_twice(model, data, sets)


def test_only_float_values_are_compared(path):
    model, data = mixed_model(path)
    tidemark("profile", model, "--data", data, "-q", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "-q", "-o", path / "e.json").expect(DONE)
    words = ["simulate", model, path / "e.json", "--data", data, "-q"]
    answer = json.loads(tidemark(*words, "--json").expect(DONE).out)
    names = {value["name"] for value in answer["values"]}
    assert {"r", "y"} <= names and not names & {"shape", "size", "over", "under", "where", "best", "one"}, names
    assert all(value["max_error"] < 100 for value in answer["values"]), answer
    ranked = json.loads(tidemark(*words, "--rank", "--json").expect(DONE).out)
    assert ranked["ranking"] and all(v["sqnr"] is None or v["sqnr"] > 0 for v in ranked["ranking"]), ranked


def test_outputs_of_run_do_not_depend_on_threads(path):
    model, data = mixed_model(path)
    for threads in (1, 2, 7):
        tidemark("run", model, "--data", data, "--batch", 1, "--threads", threads, "-o", path / f"{threads}.npz").expect(DONE)
    assert (path / "1.npz").read_bytes() == (path / "2.npz").read_bytes() == (path / "7.npz").read_bytes()


def test_print_observers_of_a_file_print(path):
    tidemark("instrument", DIGITS, "--kind", "print", "-o", path / "print.onnx").expect(DONE)
    words = ["profile", path / "print.onnx", "--data", PICTURES, "--limit", 2, "-o", path / "p.json"]
    said = tidemark(*words).expect(DONE).err
    assert said.count("sample 0 p") >= 10 and "'conv1_out' float32" in said, said
    assert "sample 0 p" not in tidemark(*words, "--kind", "range").expect(DONE).err


main()
