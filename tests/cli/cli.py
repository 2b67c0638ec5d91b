# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: running the program, and files for it. Python's standard library only.

A test file is started as FILE.py PROGRAM SOURCE_ROOT FEATURES, where FEATURES is a list with commas ("hdf5,sanitized").
"""
import contextlib
import fcntl
import io
import json
import math
import os
import pty
import resource
import struct
import subprocess
import sys
import termios
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from harness import folder, main, skip, small_disk, subset  # noqa: E402, F401 - tests import them from here

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
FEATURES = set(sys.argv[3].split(",")) - {""}
BUNDLE = SOURCE / "bundle"
DIGITS, PICTURES = BUNDLE / "digits.onnx", BUNDLE / "digits.npy"
DONE, ANSWER_NO, WRONG_CALL, BAD_INPUT, MACHINE = range(5)
SECONDS = 600 if "sanitized" in FEATURES else 60
ADDRESS_SPACE = 4 << 30


def needs(feature):
    """Skips the test, or the whole script, where the build lacks the feature."""
    if feature not in FEATURES:
        skip(f"the build has no {feature}")


class Done:
    """The exit status and the output of a run."""

    def __init__(self, words, process):
        self.words = [str(word) for word in words]
        self.status, self.out, self.err = process.returncode, process.stdout, process.stderr

    def __str__(self):
        return f"tidemark {' '.join(self.words)}\n  status {self.status}\n  out {self.out[-600:]!r}\n  err {self.err[-600:]!r}"

    def expect(self, status, *texts):
        """This exit status; every text on one of the output streams."""
        assert self.status == status, f"expected status {status}: {self}"
        for text in texts:
            assert str(text) in self.out + self.err, f"{text!r} is missing in the output: {self}"
        return self

    def refuses(self, statuses, *texts):
        """One of these exit statuses, one line on stderr with every text in it, nothing on stdout."""
        statuses = (statuses,) if isinstance(statuses, int) else statuses
        assert self.status in statuses, f"expected a status of {statuses}: {self}"
        self.says_one_line()
        assert not self.out, f"something on stdout: {self}"
        for text in texts:
            assert str(text) in self.err, f"{text!r} is not in the message: {self}"
        return self

    def says_one_line(self):
        assert self.err.endswith("\n") and self.err.count("\n") == 1, f"not one line on stderr: {self}"
        assert self.err.startswith("tidemark"), f"no name of the program: {self}"
        assert all(c >= " " for c in self.err[:-1]), f"control characters: {self}"


def _text(output):
    return io.TextIOWrapper(io.BytesIO(output or b""), encoding="utf-8", errors="surrogateescape").read()


def tidemark(*words, seconds=SECONDS, **options):
    """Runs the program; the options are those of subprocess.run, where `input` are bytes."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("env", {name: value for name, value in os.environ.items() if name != "COLUMNS"})
    process = subprocess.run([PROGRAM, *map(str, words)], stderr=subprocess.PIPE, timeout=seconds, **options)
    process.stdout, process.stderr = _text(process.stdout), _text(process.stderr)
    return Done(words, process)


def on_terminal(*words, columns=0, stdin=subprocess.DEVNULL, **environment):
    """The exit status, and what a terminal of so many columns (0: unknown) shows. OSError: there are no terminals."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, *map(str, words)], stdin=stdin, stdout=slave, stderr=slave,
                               env={**{name: value for name, value in os.environ.items() if name != "COLUMNS"}, "TERM": "xterm", "NO_COLOR": "", **environment})
    os.close(slave)
    said = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        said += piece
    os.close(master)
    return process.wait(), said.decode()


def _limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def bounded():
    """Options for `tidemark` that keep a run from taking the machine's memory; a sanitizer's shadow is larger than any limit."""
    return {} if "sanitized" in FEATURES else {"preexec_fn": _limit_memory}


def other_user():
    """Options for `tidemark` to run as a user for whom file permissions count, as they do not for root; skips the test where that
    is not possible."""
    if os.geteuid() != 0:
        return {}
    options = {"user": 65534, "group": 65534, "extra_groups": []}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        if tidemark("--version", **options).status == DONE:
            return options
    return skip("no other user can run the program here")


def files(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def npy_bytes(shape, values=None, kind="<f4", fortran=False, data=None):
    """A .npy file: `values` (default: zeros) packed as `kind`, or bytes of them."""
    letter = {"<f4": "f", "<i8": "q", "<f8": "d", "|u1": "B", "<i4": "i", "|b1": "?"}[kind]
    count = math.prod(shape)
    header = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {tuple(shape)!r}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    if data is None:
        data = struct.pack(f"<{count}{letter}", *(values or [0] * count))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1") + data


def read_npy(data):
    """(type, shape, bytes of the elements) of a .npy file."""
    length = int.from_bytes(data[8:10], "little")
    header = eval(data[10:10 + length], {"__builtins__": {}})
    assert not header["fortran_order"]
    return header["descr"], header["shape"], data[10 + length:]


def save_rows(path, rows, shape=None):
    """A .npy file of float32, of the shape of the rows or another."""
    path.write_bytes(npy_bytes(shape or [len(rows), len(rows[0])], [number for row in rows for number in row]))
    return path


def tensors_of(profile):
    """The values of a profile in JSON, a path or its contents, by name."""
    profile = profile if isinstance(profile, dict) else json.loads(profile.read_text())
    return {tensor["name"]: tensor for tensor in profile["tensors"]}
