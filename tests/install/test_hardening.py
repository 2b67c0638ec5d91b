# SPDX-License-Identifier: Apache-2.0
"""What was built for release is as hard to steer as the compiler and the linker can make it.

usage: test_hardening.py READELF [PROGRAM|LIBRARY...]; without a file it prints that the build is of another kind
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path


def read_elf(readelf, option, path):
    return subprocess.run([readelf, "-W", option, path], capture_output=True, text=True, check=True,
                          env={"LC_ALL": "C"}).stdout


def lacks(readelf, path):
    """What the file at `path` should have, and has not."""
    segments = read_elf(readelf, "-l", path)
    dynamic = read_elf(readelf, "-d", path)
    imports = set(re.findall(r"UND (\w+)", read_elf(readelf, "--dyn-syms", path)))
    is_library = ".so" in Path(path).name
    found = {
        "a place in memory that is not known before": re.search(r"Type:\s+DYN\b", read_elf(readelf, "-h", path)) is not None
        and (is_library or " PIE" in dynamic),
        "no segment that can be written and run": not re.search(r"^\s+(?:LOAD|GNU_STACK) .* RWE ", segments, re.M),
        "a segment for the stack's permissions": "GNU_STACK" in segments,
        "tables that can't be written once loaded": "GNU_RELRO" in segments,
        "every symbol bound when loaded": re.search(r"\bBIND_NOW\b|\bFlags:.*\bNOW\b", dynamic) is not None,
        "guards in its stack frames": "__stack_chk_fail" in imports,
    }
    # The Python module calls next to nothing of libc's itself.
    if not Path(path).name.startswith("_core"):
        found["the checked form of libc's functions"] = any(re.fullmatch(r"__\w+_chk", name) for name in imports)
    return [what for what, there in found.items() if not there]


def main():
    readelf, files = sys.argv[1], sys.argv[2:]
    reason = "built with a sanitizer or without optimization" if not files else ""
    if not shutil.which(readelf):
        reason = f"there is no {readelf} here"
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    missing = {path: lacks(readelf, path) for path in files}
    for path, names in missing.items():
        print(f"  {Path(path).name}: " + ("; ".join(f"lacks {name}" for name in names) or "all there"))
    sys.exit(1 if any(missing.values()) else 0)


if __name__ == "__main__":
    main()
