# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: running the program, folders that are watched, a list of tests.

Only Python's standard library. A test file is started as FILE.py PROGRAM SOURCE_ROOT FEATURES, where FEATURES is a list with
commas ("hdf5,sanitized").
"""
import contextlib
import fcntl
import os
import pty
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import traceback
from pathlib import Path

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
FEATURES = set(sys.argv[3].split(",")) - {""}
BUNDLE = SOURCE / "bundle"
DIGITS, PICTURES = BUNDLE / "digits.onnx", BUNDLE / "digits.npy"
DONE, ANSWER_NO, WRONG_CALL, BAD_INPUT, MACHINE = range(5)
SECONDS = 600 if "sanitized" in FEATURES else 60
ADDRESS_SPACE = 4 << 30


class Done:
    """What a run of the program left behind."""

    def __init__(self, words, process):
        self.words = [str(word) for word in words]
        self.status, self.out, self.err = process.returncode, process.stdout, process.stderr

    def __str__(self):
        return f"tidemark {' '.join(self.words)}\n  status {self.status}\n  out {self.out[-600:]!r}\n  err {self.err[-600:]!r}"

    def expect(self, status, *texts):
        """This exit status; every text in what the program said (either stream)."""
        assert self.status == status, f"expected status {status}: {self}"
        for text in texts:
            assert str(text) in self.out + self.err, f"{text!r} was not said: {self}"
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
        assert self.err.startswith("tidemark"), f"who says so? {self}"
        assert all(c >= " " for c in self.err[:-1]), f"control characters: {self}"


def tidemark(*words, seconds=SECONDS, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("env", {name: value for name, value in os.environ.items() if name != "COLUMNS"})
    process = subprocess.run([PROGRAM, *map(str, words)], stderr=subprocess.PIPE, timeout=seconds,
                             encoding="utf-8", errors="surrogateescape", **options)
    process.stdout = process.stdout or ""
    return Done(words, process)


def on_terminal(*words, columns=0, **environment):
    """The exit status, and what a terminal of so many columns (0: it doesn't say) shows. OSError: there are no terminals."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
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


@contextlib.contextmanager
def folder():
    """A folder for one test; anybody may look into it."""
    path = Path(tempfile.mkdtemp(prefix="tidemark-cli-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def small_disk(size):
    """A file system of `size` bytes, or None where this process may not mount one."""
    with folder() as path:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
        try:
            mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
        except FileNotFoundError:
            mounted = False
        try:
            yield path if mounted else None
        finally:
            if mounted:
                subprocess.run(["umount", str(path)], check=True)


def somebody_else():
    """Options for `tidemark` under which file permissions count, or None: root reads and writes everything."""
    if os.geteuid() != 0:
        return {}
    options = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        return options if tidemark("--version", **options).status == DONE else None
    except (OSError, subprocess.SubprocessError):
        return None


def files(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def npy_bytes(shape, values=None, kind="<f4", fortran=False):
    """A .npy file: `values` (default: zeros) packed as `kind`."""
    letter = {"<f4": "f", "<i8": "q", "<f8": "d", "|u1": "B", "<i4": "i", "|b1": "?"}[kind]
    count = 1
    for dim in shape:
        count *= dim
    header = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {tuple(shape)!r}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    data = struct.pack(f"<{count}{letter}", *(values or [0] * count))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1") + data


def main(tests):
    """Runs every function of the dictionary whose name begins with test_."""
    failed = 0
    tests = {name: test for name, test in tests.items() if name.startswith("test_") and callable(test)}
    for name, test in tests.items():
        try:
            remark = test()
            print(f"ok: {name}{': ' + remark if remark else ''}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED: {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(tests) - failed} of {len(tests)} passed")
    sys.exit(1 if failed else 0)
