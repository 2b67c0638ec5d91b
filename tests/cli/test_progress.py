# SPDX-License-Identifier: Apache-2.0
"""Progress: a rewritten line on a terminal, a line at intervals elsewhere, JSON with --log-json."""
import contextlib
import json
import os
import pty
import re
import select
import subprocess
import time

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, PICTURES, PROGRAM, SECONDS, WRONG_CALL, folder, main, npy_bytes, on_terminal, tidemark

TOTAL, FIRST = 100, 57
INTERVAL = 10  # seconds between plain lines
PLAIN = re.compile(r"(\d+)( of \d+)? samples(?:, \d+\.\d (?:a second|s a sample))?(, (\d+ (s|min|h) ?)+left)?, peak \d+ MiB")


def entry(i):
    return npy_bytes([1, 3], [i, i, i])


class Fed:
    """A run that gets some samples, and the others only after its first line of progress, on a machine of any speed and load."""

    def __init__(self, words, stderr=subprocess.PIPE):
        self.process = subprocess.Popen([PROGRAM, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr)
        self.fed = 0
        self.feed(FIRST)

    def feed(self, until):
        self.process.stdin.write(b"".join(entry(i) for i in range(self.fed, until)))
        self.process.stdin.flush()
        self.fed = until

    def feed_the_rest(self):
        self.feed(TOTAL)
        self.process.stdin.close()

    def lines(self):
        """Those of the whole run. Until the first line a sample is fed every half second, and the rest after it."""
        while self.fed < TOTAL - 1 and not select.select([self.process.stderr], [], [], 0.5)[0]:
            self.feed(self.fed + 1)
        first = self.process.stderr.readline()
        self.feed_the_rest()
        rest = self.process.stderr.read()
        self.process.stderr.close()
        assert self.process.wait(timeout=SECONDS) == DONE, first + rest
        return (first + rest).decode().splitlines()


def words(path, *more, verb="profile", known=True):
    """From a file and from a stream, or from streams alone, of unknown length."""
    (path / "m.onnx").write_bytes(onnx.model([onnx.node("Add", ["a", "b"], ["y"])], [onnx.value(n, ["N", 3]) for n in "ab"],
                                             [onnx.value("y", ["N", 3])]) if known else
                                  onnx.model([onnx.node("Relu", ["b"], ["y"])], [onnx.value("b", ["N", 3])], [onnx.value("y", ["N", 3])]))
    (path / "a.npy").write_bytes(npy_bytes([TOTAL, 3]))
    return [verb, path / "m.onnx", *(["--data", f"a={path / 'a.npy'}"] if known else []), "--data", "b=-", "-o",
            path / ("p.json" if verb == "profile" else "p.npz"), *more]


def test_long_runs_print_progress_lines():
    with contextlib.ExitStack() as stack:  # each waits for ten seconds, all of them at once
        begin = time.monotonic()
        cases = [(known, Fed(words(stack.enter_context(folder()), verb=verb, known=known)))
                 for verb, known in (("profile", True), ("profile", False), ("run", True))]
        for known, fed in cases:
            lines = fed.lines()
            seen = PLAIN.fullmatch(lines[0])
            assert seen and int(seen[1]) < TOTAL and (seen[2] == f" of {TOTAL}") == known, lines
            assert bool(seen[3]) == known and "\r" not in "".join(lines), lines
            assert sum(bool(PLAIN.fullmatch(line)) for line in lines) <= 1 + (time.monotonic() - begin) / INTERVAL, lines


def test_short_runs_print_no_progress(path):
    for verb in ("profile", "run"):
        run = [verb, DIGITS, "--data", PICTURES, "--limit", 200, "-o", path / ("p.json" if verb == "profile" else "p.npz")]
        begin = time.monotonic()
        done = tidemark(*run).expect(DONE)
        assert not any(map(PLAIN.fullmatch, done.err.splitlines())) or time.monotonic() - begin > INTERVAL, done


def test_terminal_progress_line_is_rewritten(path):
    ours, theirs = pty.openpty()
    fed = Fed(words(path), theirs)
    os.close(theirs)
    said = b""
    while b"MiB" not in said:
        said += os.read(ours, 1000)
    fed.feed_the_rest()
    try:
        while chunk := os.read(ours, 1000):
            said += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert fed.process.wait(timeout=SECONDS) == DONE, said
    shown = said.decode().split("\r")
    assert PLAIN.fullmatch(shown[1].removesuffix("\x1b[K")), shown
    assert f" of {TOTAL} samples" in shown[1] and shown[0] == "" and "\x1b[KTMK" not in said.decode(), shown
    assert any(line.startswith("\x1b[K") for line in shown), "the line stays"


def test_commands_that_run_samples_many_times_show_progress(path):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 16, "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "-o", path / "e.json").expect(DONE)
    data = ["--data", PICTURES]
    for known, run in ((True, ["simulate", DIGITS, path / "e.json", *data, "--rank=9"]),
                       (False, ["simulate", DIGITS, path / "e.json", *data, "--search", "--budget", 3, "--limit", 8, "--profile",
                                path / "p.json", "-o", path / "s.json"]),
                       (True, ["link", path / "p.json", DIGITS, "--numbers", "--original", DIGITS, *data, "--samples", 8, "-o",
                               path / "l.json"])):
        status, said = on_terminal(*run)
        shown = [PLAIN.match(line) for line in re.split("[\r\n]", said)]
        assert status == DONE and {seen[2] for seen in shown if seen} == ({" of 16"} if known else {None}), said


def records(text):
    """Every line is an object; `message` is the text without --log-json."""
    seen = [json.loads(line) for line in text.splitlines()]
    for record in seen:
        assert record["level"] in ("info", "warning", "error") and record["event"] and record["message"], record
    return seen


def test_json_log_has_progress_and_done(path):
    seen = records("\n".join(Fed(words(path, "--log-json", "--nan", "warn")).lines()))
    first, done = seen[0], next(record for record in seen if record["event"] == "done")
    assert first["event"] == "progress" and first["level"] == "info", first
    assert first["total"] == TOTAL and 0 < first["samples"] < TOTAL and first["rate"] > 0 and first["seconds_left"] > 0, first
    assert first["peak_bytes"] > 1 << 20 and PLAIN.fullmatch(first["message"]), first
    assert done["samples"] == TOTAL and done["peak_bytes"] >= first["peak_bytes"] and done["rate"] > 0, done
    assert seen[-1]["message"] == f"wrote {path / 'p.json'}" and seen[-1]["event"] == "remark", seen[-1]


def test_json_log_has_errors(path):
    name = 'a "quoted" näme\\\n.onnx'
    done = tidemark("profile", path / name, "--data", PICTURES, "-o", path / "p.json", "--log-json").expect(BAD_INPUT)
    (record,) = records(done.err)
    assert record["level"] == record["event"] == "error" and 'a "quoted" näme\\' in record["message"], record
    done = tidemark("profile", path / os.fsdecode(b"\xff.onnx"), "--data", PICTURES, "-o", path / "p.json", "--log-json")
    assert "\ufffd.onnx" in records(done.expect(BAD_INPUT).err)[0]["message"]
    for more in (["--log-json"], ["--log-json", "--absent"], ["--absent", "--log-json"], ["--log-json", "--threads", "x"]):
        (record,) = records(tidemark("profile", *more).expect(WRONG_CALL).err)
        assert record["level"] == "error" and "--help" in record["message"], record


def test_json_log_has_warnings(path):
    (path / "x.npy").write_bytes(npy_bytes([4, 3], [float("nan"), *range(11)]))
    run = [*words(path, known=False)[:2], "--data", path / "x.npy", "-o", path / "p.json", "--log-json"]
    seen = records(tidemark(*run).expect(DONE).err)
    assert any(record["level"] == "warning" and "NaN" in record["message"] for record in seen), seen
    seen = records(tidemark(*run, "--quiet").expect(DONE).err)
    assert not seen, seen
    seen = records(tidemark(*run, "--quiet", "--kind", "print", "--observe", "y").expect(DONE).err)
    assert [record["event"] for record in seen] == ["value"] * 4 and seen[0]["message"].startswith("sample "), seen


def test_other_commands_log_json_too(path):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 2, "-o", path / "p.json").expect(DONE)
    for words_ in (["merge", path / "p.json", "-o", path / "q.json"], ["instrument", DIGITS, "-o", path / "i.onnx"],
                   ["run", DIGITS, "--data", PICTURES, "--limit", 2, "-o", path / "r.npz"]):
        assert records(tidemark(*words_, "--log-json").expect(DONE).err)


main()
