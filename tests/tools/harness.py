# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a script: its functions whose names begin with test_, in their order. A test with a parameter gets a new
folder, which is removed after it. Python's standard library only.

Exit status: 0; 1 if a test failed; 77 if all were skipped. What a test returns is printed next to its name.
"""
import contextlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

_running = False


class Skipped(Exception):
    """The running test cannot run here; the text is the reason."""


def skip(reason):
    """Skips the running test or, outside of tests, the whole script."""
    if _running:
        raise Skipped(reason)
    print(f"skipped: {reason}")
    sys.exit(77)


def subset(items, step=3):
    """All of them; one in `step` where the features, the third argument, are of a build with sanitizers."""
    return list(items)[::step if "sanitized" in sys.argv[3].split(",") else 1]


@contextlib.contextmanager
def folder():
    """A temporary folder that every user may read."""
    path = Path(tempfile.mkdtemp(prefix="tidemark-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def small_disk(size):
    """A file system of `size` bytes; skips the test where this process may not mount one."""
    with folder() as path:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
        try:
            mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
        except FileNotFoundError:
            mounted = False
        if not mounted:
            skip("no file system can be mounted here")
        try:
            yield path
        finally:
            subprocess.run(["umount", str(path)], check=True)


def _call(test):
    if not inspect.signature(test).parameters:
        return test()
    with folder() as path:
        return test(path)


def main(tests=None):
    """Runs the tests of the script, or those of a dictionary by name, and exits."""
    global _running
    _running = True
    script = vars(sys.modules["__main__"]).items()
    tests = tests or {name: test for name, test in script if name.startswith("test_") and test.__module__ == "__main__"}
    counts = {"ok": 0, "skipped": 0, "FAILED": 0}
    for name, test in tests.items():
        begin = time.monotonic()
        try:
            result, remark = "ok", _call(test)
        except Skipped as reason:
            result, remark = "skipped", reason
        except Exception:
            result, remark = "FAILED", traceback.format_exc()
        counts[result] += 1
        print(f"{result}: {name} ({time.monotonic() - begin:.1f} s){f': {remark}' if remark else ''}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    sys.exit(1 if counts["FAILED"] else 0 if counts["ok"] else 77)
