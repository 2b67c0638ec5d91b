# SPDX-License-Identifier: Apache-2.0
"""Models that ask for more memory than there may be, or never end: one line with the node, and no more memory than allowed."""
import struct

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, main, needs, tidemark
from memory_limit import within

LIMIT = 64  # MiB
I64, BOOL = onnx.INT64, onnx.BOOL
SCALAR = onnx.value("x", [1])


def ints(name, *values, dims=None):
    return onnx.tensor(name, [len(values)] if dims is None else dims, values, I64)


def loop(body_nodes, made, trips, carried, initializers=()):
    """A model whose node 'bomb' repeats these nodes, which make d (the condition) and `made`, from v."""
    body = onnx.graph([onnx.node("Identity", ["c"], ["d"]), *body_nodes],
                      [onnx.value("i", [], I64), onnx.value("c", [], BOOL), *carried],
                      [onnx.value("d", [], BOOL), *(onnx.value(m, []) for m in made)])
    return onnx.node("Loop", [*trips, "x"], ["y"], "bomb", body=body), initializers


BIG = 1 << 20


def bombs():
    """Name: node 'bomb', which makes y from x: float32[1] of ones; its initializers; nodes before it."""
    one_shape = [onnx.value("v", ["n"])]
    yield "ConstantOfShape", onnx.node("ConstantOfShape", ["s"], ["y"], "bomb"), [ints("s", BIG, BIG)], []
    yield "Expand", onnx.node("Expand", ["x", "s"], ["y"], "bomb"), [ints("s", BIG, BIG)], []
    yield "Tile", onnx.node("Tile", ["x", "s"], ["y"], "bomb"), [ints("s", BIG * BIG)], []
    yield "Range", onnx.node("Range", ["a", "b", "c"], ["y"], "bomb"), [
        ints("a", 0, dims=[]), ints("b", BIG * BIG, dims=[]), ints("c", 1, dims=[])], []
    yield "Pad", onnx.node("Pad", ["x", "s"], ["y"], "bomb"), [ints("s", BIG * BIG, 0)], []
    yield "OneHot", onnx.node("OneHot", ["k", "depth", "x2"], ["y"], "bomb"), [
        ints("k", 1), ints("depth", BIG * BIG, dims=[]), onnx.tensor("x2", [2], [0, 1])], []
    yield "Resize", onnx.node("Resize", ["x", "", "", "s"], ["y"], "bomb"), [ints("s", BIG * BIG)], []
    # the shape is in the data
    to_ints = onnx.node("Cast", ["x"], ["n"], "cast", to=I64)
    yield "data-dependent", onnx.node("ConstantOfShape", ["m"], ["y"], "bomb"), [ints("k", BIG * BIG)], [
        to_ints, onnx.node("Mul", ["n", "k"], ["m"], "mul")]
    yield "too many at once", onnx.node("Concat", [f"v{i}" for i in range(64)], ["y"], "bomb", axis=0), [ints("s", BIG)], [
        onnx.node("Expand", ["x", "s"], [f"v{i}"], f"bomb{i}") for i in range(64)]
    # loops: what grows, what is piled up, what is kept in a sequence
    node, _ = loop([onnx.node("Concat", ["v", "v"], ["w"], "inner", axis=0)], ["w"], ["trips", ""], one_shape)
    yield "doubling", node, [ints("trips", 60, dims=[])], []
    body = onnx.graph([onnx.node("Identity", ["c"], ["d"]), onnx.node("Expand", ["v", "s"], ["w"], "inner"),
                       onnx.node("Identity", ["v"], ["u"])],
                      [onnx.value("i", [], I64), onnx.value("c", [], BOOL), *one_shape],
                      [onnx.value("d", [], BOOL), onnx.value("u", []), onnx.value("w", [])])
    yield "stacking", onnx.node("Loop", ["trips", "", "x"], ["z", "y"], "bomb", body=body), [
        ints("trips", BIG, dims=[]), ints("s", BIG // 8)], []
    body = onnx.graph([onnx.node("Identity", ["c"], ["d"]), onnx.node("Expand", ["x", "s"], ["w"], "inner"),
                       onnx.node("SequenceInsert", ["v", "w"], ["u"], "insert")],
                      [onnx.value("i", [], I64), onnx.value("c", [], BOOL), onnx.block(1, "v")],
                      [onnx.value("d", [], BOOL), onnx.block(1, "u")])
    yield "sequence", onnx.node("ConcatFromSequence", ["q"], ["y"], "bomb3", axis=0), [
        ints("trips", BIG, dims=[]), ints("s", BIG // 8)], [
        onnx.node("SequenceEmpty", [], ["e"], "empty"), onnx.node("Loop", ["trips", "", "e"], ["q"], "bomb", body=body)]


def write_models(here):
    (here / "ones.bin").write_bytes(struct.pack("<f", 1))
    for name, node, initializers, before in bombs():
        path = here / f"{name}.onnx"
        path.write_bytes(onnx.model([*before, node], [SCALAR], [onnx.value("y", [])], initializers))
        yield name, path


def test_models_that_exceed_the_limit_are_refused(here):
    for name, path in write_models(here):
        said = within(LIMIT, "run", path, "--data", "ones.bin", "-o", "y.npz", cwd=here)
        said.refuses(BAD_INPUT, "bomb", "limit")
        assert not (here / "y.npz").exists(), name


def test_every_command_that_runs_models_keeps_the_limit(here):
    for name, path in write_models(here):
        data = ["--data", "ones.bin"]
        within(LIMIT, "profile", path, *data, "--threads", 2, "-o", "p.json", cwd=here).expect(BAD_INPUT, "limit")
        within(LIMIT, "bench", path, *data, "--seconds", "0.1", cwd=here).expect(BAD_INPUT, "limit")
        assert not (here / "p.json").exists(), name
        # these need not run it: what they print or write is of the model's own size
        for words in (["graph", path], ["instrument", path, "-o", "i.onnx"],
                      ["transform", path, "--passes", "all", "-o", "t.onnx"]):
            assert within(LIMIT, *words, cwd=here).status in (DONE, BAD_INPUT), words


def test_packed_weights_count_against_the_limit(here):
    needs("onednn")
    side, most = 8192, 200  # MiB; the weights' file is mapped, and what was read of it counts as the program's
    with open(here / "w.bin", "wb") as weights:
        weights.truncate(side * side * 4)
    (here / "x.bin").write_bytes(bytes(side * 4))
    weights = onnx.tensor("w", [side, side], [], external={"location": "w.bin"})
    (here / "m.onnx").write_bytes(onnx.model([onnx.node("MatMul", ["x", "w"], ["y"], "bomb")], [onnx.value("x", [1, side])],
                                             [onnx.value("y", [1, side])], [weights]))
    said = within(most, "run", "m.onnx", "--data", "x.bin", "-o", "y.npz", cwd=here)
    said.refuses(BAD_INPUT, "'bomb'", "weights for oneDNN", "limit")


def test_generated_code_counts_against_the_limit(here):
    needs("onednn")
    n = 1500
    (here / "x.bin").write_bytes(bytes(64 * 64 * 4))
    weights = [onnx.tensor(f"w{i}", [16, 1, 1 + i % 50, 1 + i // 50], [0.5] * 16 * (1 + i % 50) * (1 + i // 50)) for i in range(n)]
    (here / "m.onnx").write_bytes(onnx.model([onnx.node("Conv", ["x", f"w{i}"], [f"y{i}"], f"bomb{i}") for i in range(n)],
                                             [onnx.value("x", [1, 1, 64, 64])], [onnx.value("y0", list("abcd"))], weights))
    within(LIMIT, "run", "m.onnx", "--data", "x.bin", "-o", "y.npz", cwd=here).refuses(BAD_INPUT, "bomb", "oneDNN", "limit")


def test_a_model_within_the_limit_runs(here):
    free = tidemark("run", DIGITS, "--data", PICTURES, "--limit", 40, "-o", here / "free.npz").expect(DONE)
    within(LIMIT, "run", DIGITS.resolve(), "--data", PICTURES.resolve(), "--limit", 40, "-o", here / "kept.npz", cwd=here).expect(DONE)
    assert (here / "free.npz").read_bytes() == (here / "kept.npz").read_bytes(), free


def test_default_limit_is_below_the_memory_of_the_machine():
    said = tidemark("profile", DIGITS, "--data", PICTURES, "--plan").expect(DONE, "9/10 of what is free")
    limit = int(said.out.splitlines()[0].split()[-2])
    with open("/proc/meminfo") as info:
        total = next(int(line.split()[1]) / 1024 for line in info if line.startswith("MemTotal"))
    assert 0 < limit < total, said
    tidemark("profile", DIGITS, "--data", PICTURES, "--plan", "--memory-limit", "2G").expect(DONE, "as given, is 2048 MiB")


def test_parsed_models_count_against_the_limit(here):
    path = here / "empty.onnx"
    path.write_bytes(onnx.number(1, 8) + onnx.block(7, b"".join([onnx.block(1, b"")] * 1000000)))
    said = within(LIMIT, "graph", path, cwd=here)
    said.refuses(BAD_INPUT, "limit")


def test_many_unknown_operators_are_listed_in_time(here):
    path = here / "unknown.onnx"
    path.write_bytes(onnx.model([onnx.node(f"Foo{i}", ["x"], [f"y{i}"]) for i in range(100000)], [SCALAR], [onnx.value("y0", [1])]))
    said = within(1024, "transform", path, "--passes", "all", "-o", "t.onnx", cwd=here)
    said.refuses(BAD_INPUT, "100000 nodes", "Foo0", "and others")


# ---- loops ----

def test_endless_loops_are_stopped(here):
    (here / "ones.bin").write_bytes(struct.pack("<f", 1))
    node, _ = loop([onnx.node("Abs", ["v"], ["w"], "inner")], ["w"], ["", ""], [onnx.value("v", ["n"])])
    path = here / "forever.onnx"
    path.write_bytes(onnx.model([node], [SCALAR], [onnx.value("y", [])]))
    words = [path, "--data", here / "ones.bin"]
    tidemark("run", *words, "-o", here / "y.npz", "--max-iterations", 1000).refuses(
        BAD_INPUT, "bomb", "1000 times", "--max-iterations")
    tidemark("profile", *words, "-o", here / "p.json", "--max-iterations", 1000).refuses(BAD_INPUT, "bomb", "1000 times")
    tidemark("bench", *words, "--max-iterations", 1000, "--seconds", "0.1").refuses(BAD_INPUT, "bomb", "1000 times")
    sets = here / "sets"
    sets.mkdir()
    (sets / "input_0.pb").write_bytes(onnx.tensor("x", [1], [1.0]))
    (sets / "output_0.pb").write_bytes(onnx.tensor("y", [1], [1.0]))
    tidemark("verify", path, sets, "--max-iterations", 1000).refuses(BAD_INPUT, "bomb", "1000 times")
    assert not list(here.glob("[yp].*"))


def test_loops_within_max_iterations_run(here):
    (here / "ones.bin").write_bytes(struct.pack("<f", 1))
    node, _ = loop([onnx.node("Abs", ["v"], ["w"], "inner")], ["w"], ["trips", ""], [onnx.value("v", ["n"])])
    path = here / "thousand.onnx"
    path.write_bytes(onnx.model([node], [SCALAR], [onnx.value("y", [])], [ints("trips", 1000, dims=[])]))
    words = ["run", path, "--data", here / "ones.bin", "-o", here / "y.npz", "--max-iterations"]
    tidemark(*words, 999).refuses(BAD_INPUT, "999 times")
    tidemark(*words, 1000).expect(DONE)


def test_invalid_memory_limits_are_refused():
    for word in ("much", "-1M", "1Q", "0"):
        tidemark("graph", DIGITS, "--memory-limit", word).refuses(WRONG_CALL, "--memory-limit")


if __name__ == "__main__":
    main()
