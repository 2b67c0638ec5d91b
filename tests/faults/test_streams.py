# SPDX-License-Identifier: Apache-2.0
"""Results without a reader, and outputs that are no plain files."""
import contextlib
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
import commands  # noqa: E402
import sources  # noqa: E402
from cli import (ANSWER_NO, BAD_INPUT, DIGITS, DONE, MACHINE, PICTURES, PROGRAM, SECONDS, WRONG_CALL, files, folder,
                 main, skip, tidemark)  # noqa: E402

QUICK = ["profile", DIGITS, "--data", PICTURES, "--limit", 8, "--quiet"]
CONTROL_C = signal.SIGINT


def closing(*streams):
    """Options for `tidemark` that start it without these."""
    def close():
        for stream in streams:
            os.close(stream)
    return {"preexec_fn": close}


@contextlib.contextmanager
def unread_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def printing(inputs):
    """Commands whose result is what they print, and the status that they end with."""
    return [
        (["--version"], DONE), (["--help"], DONE), (["help", "profile"], DONE), (["completion", "bash"], DONE),
        (["graph", DIGITS], DONE), (["graph", DIGITS, "--dot"], DONE), (["graph", DIGITS, "--ops"], DONE),
        (["show", inputs / "p.json"], DONE), (["show", inputs / "p.json", "--json"], DONE),
        (["check", inputs / "p.json", "--json"], DONE), (["diff", inputs / "p.json", inputs / "1.json", "--json"], ANSWER_NO),
        (["calibrate", inputs / "p.json", "-o", os.devnull, "--json"], DONE),
        (["export", "--to", "help"], DONE), (["export", inputs / "enc.json", "--to", "csv", "-o", os.devnull, "--json"], DONE),
        (["transform", DIGITS, "--passes", "help"], DONE),
        (["link", inputs / "p.json", inputs / "t.onnx", "--json"], DONE),
        (["simulate", DIGITS, inputs / "enc.json", "--data", PICTURES, "--limit", 4], DONE),
    ]


def test_unwritable_results_are_reported():
    with commands.inputs() as inputs, open("/dev/full", "w") as full, open(os.devnull, "w") as nowhere:
        for words, status in printing(inputs):
            words = words if words[0] in ("--version", "--help", "help", "completion") else [*words, "--quiet"]
            tidemark(*words, stdout=nowhere).expect(status)
            for options in ({"stdout": full}, closing(1)):
                tidemark(*words, **options).refuses(MACHINE, "standard output")
            with unread_pipe() as pipe:
                done = tidemark(*words, stdout=pipe)
            assert done.status == -signal.SIGPIPE and not done.err, f"not quiet about a closed pipe: {done}"


def test_closed_standard_streams_are_not_written(path):
    whole = tidemark(*QUICK, "-o", path / "whole.json").expect(DONE) and (path / "whole.json").read_bytes()
    for closed in ((0,), (1,), (2,), (0, 1, 2)):
        tidemark(*QUICK, "-o", path / "p.json", **closing(*closed)).expect(DONE)
        assert (path / "p.json").read_bytes() == whole, closed
        (path / "p.json").unlink()
    assert tidemark("profile", path / "none.onnx", "--data", "-", "-o", path / "p.json", **closing(2)).status == BAD_INPUT
    tidemark("profile", DIGITS, "--data", "-", "-o", path / "p.json", "--quiet", **closing(0)).refuses(BAD_INPUT, "standard input")
    with open("/dev/full", "w") as full:
        process = subprocess.run([PROGRAM, *map(str, QUICK[:-1]), "-o", str(path / "p.json")], stdin=subprocess.DEVNULL, stderr=full)
    assert process.returncode == DONE and (path / "p.json").read_bytes() == whole


def test_devices_and_pipes_are_written_directly(path):
    whole = tidemark(*QUICK, "-o", path / "whole.json").expect(DONE) and (path / "whole.json").read_text()
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        assert tidemark(*QUICK, "-o", name).expect(DONE).out == whole, name
    with open(path / "appended", "w+") as shared:
        shared.write("before\n")
        shared.flush()
        tidemark(*QUICK, "-o", "/dev/stdout", stdout=shared).expect(DONE)
        assert (path / "appended").read_text() == "before\n" + whole
    tidemark(*QUICK, "-o", os.devnull).expect(DONE)
    os.mkfifo(path / "p.json")
    said = []
    reader = threading.Thread(target=lambda: said.append((path / "p.json").read_text()))
    reader.start()
    tidemark(*QUICK, "-o", path / "p.json").expect(DONE)
    reader.join()
    assert said == [whole] and stat.S_ISFIFO((path / "p.json").stat().st_mode)
    tidemark(*QUICK, "-o", "/dev/full").refuses(MACHINE, "/dev/full", "space")
    with unread_pipe() as pipe:
        tidemark(*QUICK, "-o", "/dev/stdout", stdout=pipe).expect(MACHINE, "/dev/stdout")
    tidemark("transform", DIGITS, "--passes", "all", "-o", os.devnull, "--quiet").refuses(WRONG_CALL, os.devnull)


def test_links_and_long_names_are_written(path):
    (path / "there").mkdir()
    (path / "p.json").symlink_to("there/real.json")
    tidemark(*QUICK, "-o", path / "p.json").expect(DONE)
    assert (path / "p.json").is_symlink() and files(path / "there") == ["real.json"]
    (path / "there" / "real.json").chmod(0o600)
    tidemark(*QUICK, "-o", path / "p.json").expect(DONE)
    assert stat.S_IMODE((path / "there" / "real.json").stat().st_mode) == 0o600
    (path / "d.json").mkdir()
    tidemark(*QUICK, "-o", path / "d.json").refuses(MACHINE, path / "d.json", "directory")
    tidemark(*QUICK, "-o", path / f"{'n' * 250}.json").expect(DONE)
    tidemark(*QUICK, "-o", path / f"{'n' * 251}.json").refuses(MACHINE, "too long")
    deep = path
    while len(str(deep)) < 3850:
        deep = deep / ("d" * 250)
        os.mkdir(deep)
    target = deep / f"{'n' * (4089 - len(str(deep)))}.json"
    tidemark(*QUICK, "-o", target).expect(DONE)
    tidemark(*QUICK, "-o", f"{target}.json").refuses(MACHINE, "tidemark: /", "name too long")
    shutil.rmtree(path / ("d" * 250))


def test_independent_outputs_are_written_despite_a_failure(path):
    done = tidemark(*QUICK, "-o", "/dev/full", "-o", path / "p.json", "--snapshots", path / "s.json")
    done.refuses(MACHINE, "/dev/full", "space")
    assert files(path) == ["p.json", "s.json"]
    tidemark("merge", path / "p.json", "-o", "/dev/full", "-o", path / "m.json", "--quiet").refuses(MACHINE, "/dev/full")
    assert files(path) == ["m.json", "p.json", "s.json"]


class OnTerminal:
    """A run in the middle of its work, whose progress a terminal shows."""

    def __init__(self, path):
        master, slave = pty.openpty()
        data = sources.npy(path / "x.npy", 200)
        command = [PROGRAM, "profile", str(DIGITS), "--data", str(data), "--threads", "1", "-o", str(path / "p.json")]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
        os.close(slave)
        self.master, self.shown = master, b""
        until = time.monotonic() + SECONDS
        while b" samples" not in self.shown:
            assert time.monotonic() < until, self.shown
            self.shown += os.read(master, 4096)

    def end(self):
        with contextlib.suppress(OSError):  # the other side is closed
            while piece := os.read(self.master, 4096):
                self.shown += piece
        os.close(self.master)
        return self.process.wait(timeout=SECONDS), self.shown.decode()


def test_sigint_erases_the_progress_line():
    for times in (1, 2):
        with folder() as path:
            try:
                run = OnTerminal(path)
            except OSError:
                skip("there are no terminals")
            before = files(path)
            for _ in range(times):
                run.process.send_signal(CONTROL_C)
            status, shown = run.end()
            assert status in (-CONTROL_C, 128 + CONTROL_C), (status, shown)
            last = shown.rsplit("\r\x1b[K", 1)
            assert len(last) == 2 and "a second" not in last[1], f"the progress line stays: {shown!r}"
            assert files(path) == before


main()
