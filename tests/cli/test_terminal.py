# SPDX-License-Identifier: Apache-2.0
"""What every command leaves on a terminal, and in one file for both output streams."""
import contextlib
import json
import re
import subprocess

import onnx_bytes as onnx
from cli import ANSWER_NO, DIGITS, DONE, PICTURES, PROGRAM, folder, main, npy_bytes, on_terminal, skip, tidemark

PROGRESS = re.compile(r"\d samples, ([0-9.]+ (a second|s a sample)|peak)")
RUN = ["--data", PICTURES, "--limit", 12, "--batch", 1]


@contextlib.contextmanager
def inputs():
    with folder() as here:
        for n, name in ((20, "p.json"), (6, "q.json")):
            tidemark("profile", DIGITS, "--data", PICTURES, "--limit", n, "-o", here / name).expect(DONE)
        tidemark("calibrate", here / "p.json", "--sensitive=quantize", "-o", here / "e.json").expect(DONE)
        tidemark("transform", DIGITS, "--passes", "fold-constant", "-o", here / "t.onnx").expect(DONE)
        yield here


def running(here):
    """Commands that run a model for a while, and show how far they are."""
    profile, encodings = here / "p.json", here / "e.json"
    simulate = ["simulate", DIGITS, encodings, *RUN]
    return [
        ["profile", DIGITS, *RUN, "-o", here / "new.json"],
        ["profile", DIGITS, *RUN, "-o", here / "new.json", "--kind", "print", "--observe", "probabilities"],
        ["run", DIGITS, *RUN, "-o", here / "new.npz"],
        simulate, [*simulate, "--json"], [*simulate, "--rank=3"],
        [*simulate, "--search", "--profile", profile, "--budget", "2", "-o", here / "new.json"],
        ["bench", DIGITS, *RUN, "--repeat", 1, "--seconds", 0.01],
        ["link", profile, here / "t.onnx", "-o", here / "new.json", "--numbers", "--original", DIGITS, "--json", *RUN],
    ]


def looking(here):
    """Commands that print what they find, and the statuses that they end with."""
    profile = here / "p.json"
    return [
        (["show", profile], DONE), (["show", profile, "--outliers"], DONE), (["show", profile, "--nodes"], DONE),
        (["diff", profile, here / "q.json"], ANSWER_NO), (["check", profile, "--against", DIGITS], DONE),
        (["calibrate", profile, "-o", here / "new.json"], DONE), (["calibrate", profile, "-o", here / "new.json", "--list"], DONE),
        (["transform", DIGITS, "--passes", "all", "-o", here / "new.onnx"], DONE),
        (["transform", DIGITS, "--passes", "all", "-o", here / "new.onnx", "--print-after"], DONE),
        (["export", here / "e.json", "--to", "csv", "-o", here / "new.csv", "--json"], DONE),
        (["link", profile, here / "t.onnx", "-o", here / "new.json", "--json"], DONE),
    ]


def screen(said):
    """The lines that are left on a terminal after all of it."""
    lines = [""]
    column = 0
    for piece in re.split(r"(\r|\n|\x1b\[[0-9;]*[A-Za-z])", said):
        if piece == "\n":
            lines.append("")
        elif piece == "\r":
            column = 0
        elif piece == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif not piece.startswith("\x1b"):
            lines[-1] = lines[-1][:column] + piece + lines[-1][column + len(piece):]
        column = 0 if piece == "\n" else column + (len(piece) if piece[:1] not in ("\r", "\x1b") else 0)
    return lines


def stable(text):
    """Without the figures that no two runs share: those of time, and the columns that they make wider."""
    return re.sub(r" +", " ", re.sub(r"-?[0-9.]+ (s\b|%|MiB)|\"seconds\":[0-9.]+", "", text))


def slowly(here):
    """A stream of 24 pictures that pauses for a second, so that progress is drawn on a machine of any speed."""
    (here / "half").write_bytes(npy_bytes([12, 1, 8, 8], [i % 17 for i in range(12 * 64)]))
    return subprocess.Popen(["sh", "-c", 'cat "$0"; sleep 1; cat "$0"', here / "half"], stdout=subprocess.PIPE).stdout


def test_progress_is_erased_before_other_output():
    with inputs() as here:
        stream = ["--data", "-", "--batch", 1]
        streams = [["profile", DIGITS, *stream, "-o", here / "new.json"], ["run", DIGITS, *stream, "-o", here / "new.npz"],
                   ["simulate", DIGITS, here / "e.json", *stream]]
        for words, slow in [*((words, False) for words in running(here)), *((words, True) for words in streams)]:
            try:
                status, said = on_terminal(*words, columns=80, stdin=slowly(here) if slow else subprocess.DEVNULL)
            except OSError as error:
                skip(f"no terminal: {error}")
            assert status == DONE, (words, said)
            assert PROGRESS.search(said) or not slow, f"no progress was drawn: {words}"
            left = [line for line in screen(said) if PROGRESS.search(line)]
            assert not left, (words, left)
            for before in said.split("\r\x1b[K")[:-1]:  # between drawing and erasing nothing else was printed
                drawing = before.rsplit("\r", 1)[-1]
                assert "\n" not in drawing.split("\x1b[K", 1)[0] or not PROGRESS.search(drawing), (words, said)


def test_progress_fits_the_terminal(path):
    """On any width it is one line; on a terminal without escapes it is as in a file."""
    words = ["profile", DIGITS, "--data", "-", "--batch", 1, "-o", path / "new.json"]
    for columns, environment in ((40, {}), (12, {}), (80, {"COLUMNS": "30"}), (80, {"TERM": "dumb"})):
        try:
            status, said = on_terminal(*words, columns=columns, stdin=slowly(path), **environment)
        except OSError as error:
            skip(f"no terminal: {error}")
        drawn = [line.split("\x1b[K")[0] for line in said.split("\r") if re.match(r"[0-9]+ sa", line)]
        assert status == DONE and bool(drawn) == ("TERM" not in environment), said
        width = int(environment.get("COLUMNS", columns))
        assert all(len(line) < width for line in drawn) and max([width - 1, *map(len, drawn)]) == width - 1, drawn
        assert "\x1b" not in said or drawn, said


def test_streams_keep_their_order_in_one_file():
    """What goes to stdout stays together, and what is said before and after it stands before and after it."""
    with inputs() as here:
        for words in [*(words for words in running(here) if words[0] != "bench"), *(words for words, _ in looking(here))]:
            apart = tidemark(*words)
            with (here / "both").open("w+") as both:
                subprocess.run([PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, stdout=both, stderr=both)
                both.seek(0)
                together = both.read()
            assert stable(apart.out) in stable(together), (words, together)
            assert len(together.splitlines()) == len((apart.out + apart.err).splitlines()), (words, together)
            said = [line for line in apart.err.splitlines() if not re.search(r"[0-9] s\b", line)]
            if apart.out and said and "--search" not in words:
                assert together.index(said[-1]) > together.index(apart.out.splitlines()[0][:8]), (words, together)


LONG = "/backbone/stage.3/block.11/attention/output/dense/LayerNormalization_after_the_residual/value.of.the.{}"


def long_names(here):
    """Commands that print tables of a network whose names are long, without and with --wide."""
    a, b, c = (LONG.format(x) for x in "abc")
    (here / "m.onnx").write_bytes(onnx.model([onnx.node("Relu", [a], [b], LONG.format("node1")), onnx.node("Exp", [b], [c], LONG.format("node2"))],
                                             [onnx.value(a, ["N", 4])], [onnx.value(c, ["N", 4])]))
    for name, scale in (("x", 1), ("y", 3)):
        (here / f"{name}.npy").write_bytes(npy_bytes([8, 4], [scale * (i - 16) / 8 for i in range(32)]))
        tidemark("profile", here / "m.onnx", "--data", here / f"{name}.npy", "-o", here / f"{name}.json").expect(DONE)
    tidemark("calibrate", here / "x.json", "--sensitive=quantize", "-o", here / "xe.json").expect(DONE)
    run = [here / "m.onnx", here / "xe.json", "--data", here / "x.npy"]
    return [
        ["show", here / "x.json"], ["show", here / "x.json", "--outliers"], ["diff", here / "x.json", here / "y.json", "--all"],
        ["calibrate", here / "x.json", "--sensitive=quantize", "-o", here / "new.json"],
        ["calibrate", here / "x.json", "-o", here / "new.json", "--list"],
        ["simulate", *run], ["simulate", *run, "--rank"],
    ]


def test_every_help_fits_80_columns():
    listed = [line.split()[0] for line in tidemark("--help").out.splitlines() if line.startswith("  ")]
    assert len(listed) > 10
    for words in (["--help"], *([verb, "--help"] for verb in listed)):
        for line in tidemark(*words).expect(DONE).out.splitlines():
            assert len(line) <= 80 and line == line.rstrip(), (words, line)


def test_tables_fit_80_columns():
    with inputs() as here:
        commands = [*(words for words in running(here) if words[0] in ("simulate", "bench") and "--json" not in words),
                    *(words for words, _ in looking(here) if words[0] in ("show", "diff", "calibrate") and "--nodes" not in words),
                    ["bench", DIGITS, *RUN, "--repeat", 1, "--seconds", 0.01, "--per-op"], *long_names(here)]
        for words in commands:
            for line in tidemark(*words).out.splitlines():
                assert len(line) <= 80, (words, line)
        for words in long_names(here):
            assert LONG[:40] not in tidemark(*words).out, words
            assert any(LONG.format(x) in tidemark(*words, "--wide").out for x in "abc"), words


def test_float_values_are_counted_by_reason():
    with inputs() as here:
        words = ["calibrate", here / "p.json", "--sensitive=quantize", "-o", here / "new.json"]
        left = [item["name"] for item in json.loads(tidemark(*words, "--json").out)["left"]]
        said, listed = tidemark(*words).out, tidemark(*words, "--list").out
        assert f"{len(left)} values stay float" in said and "norm1.mean" in left
        assert not any(re.search(rf"\b{name}\b", said) for name in left), said
        reasons = [line.split() for line in said.split("--list names them):")[1].splitlines() if re.match(r" +\d+  ", line)]
        assert sum(int(reason[0]) for reason in reasons) == len(left) and len(reasons) == 1, said
        assert all(re.search(rf"\b{name}\b", listed) for name in left), listed


main()
