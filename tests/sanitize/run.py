# SPDX-License-Identifier: Apache-2.0
"""Runs a test of a build with sanitizers, and fails it if any process that it started was reported, whichever process captured its output.

    run.py BUILD_FOLDER COMMAND [WORD...]

Meson puts this before every test of such a build (tests/meson.build). The environment's options of a sanitizer come last.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPORTED = 99  # no test expects it
# memory that was asked for and refused: the program reports it itself, and is tested for that; or of a sanitizer itself, in a helper
# program at its limit, which then ends
REFUSED = re.compile(r"==\d+==(WARNING|ERROR): \w+ failed to allocate .*|=+|ERROR: Failed to mmap")
COMMON = f"exitcode={REPORTED}:allocator_may_return_null=1"
OPTIONS = {
    "ASAN_OPTIONS": f"{COMMON}:detect_stack_use_after_return=1",
    "LSAN_OPTIONS": f"suppressions={HERE / 'leaks.txt'}:print_suppressions=0",
    "TSAN_OPTIONS": f"{COMMON}:suppressions={HERE / 'races.txt'}:second_deadlock_stack=1:history_size=4",
    "UBSAN_OPTIONS": f"exitcode={REPORTED}:print_stacktrace=1",
}


def reports(folder):
    for path in sorted(folder.iterdir()):
        text = path.read_text(errors="replace")
        if any(line and not REFUSED.fullmatch(line) for line in text.splitlines()):
            yield text


def main():
    with tempfile.TemporaryDirectory(prefix="reports-", dir=sys.argv[1]) as folder:
        os.chmod(folder, 0o777)  # some tests run the program as another user
        environment = dict(os.environ)
        for name, options in OPTIONS.items():
            environment[name] = f"{options}:log_path={folder}/report:{os.environ.get(name, '')}"
        status = subprocess.run(sys.argv[2:], env=environment).returncode
        found = list(reports(Path(folder)))
    for text in found:
        print(text, file=sys.stderr)
    if found:
        print(f"{len(found)} processes were reported by a sanitizer", file=sys.stderr)
    return REPORTED if found else status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
