# SPDX-License-Identifier: Apache-2.0
"""`tidemark merge`: the same bits as one run, and what it refuses."""
import json
import math
import random
import struct

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, files, main, needs, npy_bytes, tensors_of, tidemark
from merge_shards import make_shards



def changed(source, target, change):
    profile = json.loads(source.read_text())
    change(profile)
    target.write_text(json.dumps(profile))
    return target


def test_merged_shards_equal_the_run(path):
    shards = make_shards(path, DIGITS, PICTURES, [10, 77, 78], limit=120)
    whole, target = (path / "whole.json").read_bytes(), path / "merged.json"
    for seed in range(4):
        random.Random(seed).shuffle(shards)
        done = tidemark("merge", *shards, "-o", target).expect(DONE, "4 profiles, 120 samples: the whole run", "wrote")
        assert not done.out and target.read_bytes() == whole
    tidemark("merge", *shards[:2], "-o", path / "a.json").expect(DONE, "gaps")
    tidemark("merge", *shards[2:], "-o", path / "b.json").expect(DONE, "gaps")
    tidemark("merge", path / "b.json", path / "a.json", "-o", target).expect(DONE, "2 profiles, 120")
    assert target.read_bytes() == whole
    tidemark("merge", target, "-o", path / "again.json", "--quiet").expect(DONE)
    assert (path / "again.json").read_bytes() == whole


def tight_model(path):
    path.write_bytes(onnx.model([onnx.node("Relu", ["x"], ["y"]), onnx.node("Identity", ["y"], ["z"])],
                                [onnx.value("x", ["N", 3000])], [onnx.value("z", ["N", 3000])]))


def test_merged_squares_equal_those_of_one_run(path):
    """Each sample's negative numbers lie in bins of their own: each shard keeps the squares of x and of what follows from it, all of them don't."""
    tight_model(path / "net.onnx")
    values = [1.0 + 1e-4 * math.sin(i * i) if i % 2 else -(2.0 ** (i // 3000)) * (1 + i % 180 / 180) for i in range(12000)]
    (path / "x.npy").write_bytes(npy_bytes((4, 3000), values))
    shards = make_shards(path, path / "net.onnx", path / "x.npy", [1, 2, 3], limit=4)
    tidemark("merge", *reversed(shards), "-o", path / "merged.json").expect(DONE)
    assert (path / "merged.json").read_bytes() == (path / "whole.json").read_bytes()
    by_name = tensors_of(path / "merged.json")
    assert "squares" not in by_name["x"]["histogram"] and "squares" not in by_name["y"]["histogram"]
    one = tensors_of(shards[0])
    for name in "xyz":
        assert "squares" in one[name]["histogram"] and "std_bracket" not in one[name]
    numbers = [struct.unpack("f", struct.pack("f", max(v, 0)))[0] for v in values[:3000]]
    mean = math.fsum(numbers) / 3000
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in numbers) / 3000)
    assert abs(one["y"]["std"] / std - 1) < 1e-12


def test_batches_and_ranges_merge_too(path):
    for more in (["--batch", "13"], ["--kind", "range"], ["--batch", "13", "--threads", "3"]):
        shards = make_shards(path, DIGITS, PICTURES, [13, 91], *more, limit=120)
        tidemark("merge", *reversed(shards), "-o", path / "merged.json").expect(DONE)
        assert (path / "merged.json").read_bytes() == (path / "whole.json").read_bytes(), more


def branch_model(path):
    """One branch or the other by the sign of the sum, so that a shard may see one only; and a Shape, a constant of integers."""
    def branch(op, output):
        return onnx.graph([onnx.node(op, ["x"], [output], op)], [], [onnx.value(output, ["N", 3])])

    choose = onnx.node("If", ["which"], ["y"], "choose", then_branch=branch("Relu", "t"), else_branch=branch("Neg", "e"))
    total = onnx.node("ReduceSum", ["x"], ["sum"], keepdims=0)
    path.write_bytes(onnx.model(
        [total, onnx.node("Greater", ["sum", "zero"], ["which"]), choose, onnx.node("Shape", ["x"], ["s"])],
        [onnx.value("x", ["N", 3])], [onnx.value("y", ["N", 3]), onnx.value("s", [2], onnx.INT64)],
        [onnx.tensor("zero", [], [0.0])]))


def test_branches_that_ran_in_some_shards_are_merged(path):
    model, data = path / "if.onnx", path / "x.npy"
    branch_model(model)
    data.write_bytes(npy_bytes([6, 3], [1, 2, 3, 1, 0, 0, -1, 0, 0, -4, 2, 1, 5, 5, 5, -2, -2, 1]))
    shards = make_shards(path, model, data, [2, 4])
    first = tensors_of(shards[0])
    assert (first["t"]["status"], first["e"]["status"]) == ("observed", "never")
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        tidemark("merge", *(shards[i] for i in order), "-o", path / "m.json").expect(DONE)
        assert (path / "m.json").read_bytes() == (path / "whole.json").read_bytes()


def test_hdf5_profiles_are_merged(path):
    needs("hdf5")
    shards = make_shards(path, DIGITS, PICTURES, [60], limit=120)
    tidemark("merge", path / "whole.json", "-o", path / "whole.h5").expect(DONE)
    tidemark("merge", shards[0], "-o", path / "first.h5").expect(DONE)
    tidemark("merge", shards[1], path / "first.h5", "-o", path / "m.json", "-o", path / "m.h5").expect(DONE)
    assert (path / "m.json").read_bytes() == (path / "whole.json").read_bytes()
    assert (path / "m.h5").read_bytes() == (path / "whole.h5").read_bytes()


def test_gaps_are_allowed_and_reported(path):
    shards = make_shards(path, DIGITS, PICTURES, [10, 30], limit=40)
    target = path / "m.json"
    done = tidemark("merge", shards[2], shards[0], "-o", target).expect(DONE, "with gaps", "20 of 40", "0 to 10, 30 to 40")
    assert done.err.count("\n") == 2, done
    profile = json.loads(target.read_text())
    assert profile["coverage"] == {"total": 40, "ranges": [[0, 10], [30, 40]]}
    assert (profile["ledger"]["first_sample"], profile["ledger"]["end_sample"], profile["ledger"]["run"]) == (0, 40, 20)
    assert not tidemark("merge", shards[2], shards[0], "-o", target, "--quiet").expect(DONE).err


def test_profiles_of_different_runs_are_refused(path):
    one, two = make_shards(path, DIGITS, PICTURES, [20], limit=40)
    other, target = path / "other.json", path / "m.json"

    def put(keys, value):
        def change(profile):
            for key in keys[:-1]:
                profile = profile[key]
            profile[keys[-1]] = value
        return change

    for keys, value, texts in (
            (["model", "sha256"], "0" * 64, ["the model's sha256", "0" * 64]),
            (["model", "graph_fingerprint"], "0" * 16, ["the model's fingerprint"]),
            (["data", 0, "hash"], "sha256:00", ["'image'", "the data's hash", "sha256:00"]),
            (["data", 0, "samples"], 7, ["entries", "1797", "7"]),
            (["settings", "batch"], "2", ["the setting 'batch' is '1' in the first and '2' in the second"]),
            (["settings", "kind"], "range", ["the setting 'kind'"]),
            (["coverage", "total"], 41, ["samples in all is 40", "41"]),
            (["producer", "isa"], "abacus", ["the instruction set", "abacus"]),
            (["producer", "kernels"], "hand", ["the kernels' library", "hand"]),
            (["producer", "version"], "0.0.0", ["version", "0.0.0"])):
        changed(two, other, put(keys, value))
        tidemark("merge", one, other, "-o", target).refuses(BAD_INPUT, f"{one} and {other}: ", *texts)
    tidemark("merge", one, two, two, "-o", target).refuses(BAD_INPUT, f"{two} and {two}: both hold samples 20 to 40")
    tidemark("merge", one, path / "whole.json", "-o", target).refuses(BAD_INPUT, "both hold samples 0 to 20")
    tidemark("merge", one, PICTURES, "-o", target).refuses(BAD_INPUT, "digits.npy")
    tidemark("merge", one, path / "absent.json", "-o", target).refuses(BAD_INPUT, "absent.json")
    assert "m.json" not in files(path), "something was written"


def test_usage_errors_are_refused(path):
    one, two = make_shards(path, DIGITS, PICTURES, [3], limit=5)
    tidemark("merge").refuses(WRONG_CALL, "PROFILE")
    tidemark("merge", one, two).refuses(WRONG_CALL, "-o")
    tidemark("merge", one, two, "-o", path / "m.txt").refuses(WRONG_CALL, "m.txt", ".json")


main()
