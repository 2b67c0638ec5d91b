#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy finds nothing in any C source; .clang-tidy has the exceptions. Minutes, thus no test.

usage: clang_tidy.py BUILD [SOURCE...]        BUILD was made by clang, and built
"""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compiled import commands

OURS = ("lib", "tools", "python", "examples", "tests")
FOUND = (": warning: ", ": error: ")


def look(folder, path):
    """The warnings of one source and its headers, and the whole output."""
    done = subprocess.run(["clang-tidy", "-p", folder, "--quiet", "--warnings-as-errors=*", str(path)],
                          capture_output=True, text=True, errors="replace", check=False)
    found = {line for line in done.stdout.splitlines() if any(mark in line for mark in FOUND)}
    if done.returncode and not found:
        found.add(f"{path}: clang-tidy ended with {done.returncode}: {done.stderr.strip()}")
    return found, done.stdout


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    root = Path(__file__).resolve().parents[2]
    chosen = commands(Path(sys.argv[1]).resolve(), root, OURS)
    if wanted := [Path(name).resolve() for name in sys.argv[2:]]:
        chosen = {path: chosen[path] for path in wanted}
    problems = set()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        # With a source's first command alone: tests build some sources again.
        Path(folder, "compile_commands.json").write_text(json.dumps(list(chosen.values())), encoding="utf-8")
        for found, said in pool.map(lambda path: look(folder, path), chosen):
            if found - problems:
                print(said, end="", flush=True)
            problems |= found
    print(f"clang-tidy: {len(chosen)} files, {len(problems)} problems")
    sys.exit(1 if problems or not chosen else 0)


if __name__ == "__main__":
    main()
