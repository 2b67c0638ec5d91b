# SPDX-License-Identifier: Apache-2.0
"""cppcheck finds nothing in the library, the program and the Python module; cppcheck.txt has the exceptions.

usage: cppcheck.py BUILD CPPCHECK|""
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compiled import commands

OURS = ("lib", "tools", "python", "examples")
VERSION = "2.10"  # others find other things
KINDS = "warning,performance,portability"


def main():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} BUILD CPPCHECK")
    build, program, here = Path(sys.argv[1]).resolve(), sys.argv[2], Path(__file__).resolve().parent
    if not program:
        print("skipped: there is no cppcheck here")
        sys.exit(77)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    if version != VERSION:
        print(f"skipped: cppcheck {version}, whose findings are not those of {VERSION}")
        sys.exit(77)
    chosen = list(commands(build, here.parents[1], OURS).values())
    # What did not change since the last time is not looked at again.
    kept = build / "cppcheck"
    kept.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as project:
        json.dump(chosen, project)
        project.flush()
        done = subprocess.run(
            [program, f"--project={project.name}", f"--enable={KINDS}", "--quiet", f"-j{os.cpu_count()}",
             "--error-exitcode=1", f"--cppcheck-build-dir={kept}", f"--suppressions-list={here / 'cppcheck.txt'}",
             "--template={file}:{line}: {severity}: {id}: {message}"],
            capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr, end="")
    print(f"cppcheck: {len(chosen)} files")
    sys.exit(1 if done.returncode or not chosen else 0)


if __name__ == "__main__":
    main()
