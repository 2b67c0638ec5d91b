# SPDX-License-Identifier: Apache-2.0
"""Puts the Python package, with the extension that was built, on the path of modules.

A test file is started as FILE.py PROGRAM SOURCE_ROOT EXTENSION.
"""
import atexit
import contextlib
import io
import shutil
import sys
import tempfile
from pathlib import Path

PROGRAM, SOURCE, EXTENSION = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(sys.argv[3])
sys.path.insert(0, str(SOURCE / "tests/tools"))
from harness import main, skip  # noqa: E402, F401 - tests import them from here

FOLDER = Path(tempfile.mkdtemp(prefix="tidemark-python-"))  # removed at exit
atexit.register(shutil.rmtree, FOLDER, True)
shutil.copytree(SOURCE / "python/tidemark", FOLDER / "tidemark", ignore=shutil.ignore_patterns("*.c", "*.h"))
shutil.copy(EXTENSION, FOLDER / "tidemark")
sys.path.insert(0, str(FOLDER))


def silently(call, *args, **settings):
    """Calls without standard output."""
    with contextlib.redirect_stdout(io.StringIO()):
        return call(*args, **settings)


def raises(kind, text, call, *args, **settings):
    """The exception of this kind that the call raises; `text` is in its message."""
    try:
        silently(call, *args, **settings)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"no {kind.__name__}")
