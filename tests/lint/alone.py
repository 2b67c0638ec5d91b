# SPDX-License-Identifier: Apache-2.0
"""Each source that meson compiles together with others includes what it uses, so that it compiles alone, too.

    alone.py BUILD

Where the library is a static one, meson before 1.3 compiles each alone (lib/meson.build).
"""
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compiled import TOGETHER, sources_of

NO_OUTPUT = {"-o": 2, "-MF": 2, "-MQ": 2, "-MD": 1}


def look(path, command):
    """What the compiler has against the source; empty: nothing."""
    words, kept = shlex.split(command["command"]), []
    while words:
        taken = NO_OUTPUT.get(words[0], 0)
        kept += [] if taken else words[:1]
        del words[:max(taken, 1)]
    done = subprocess.run([*kept, "-fsyntax-only", "-Werror=implicit-function-declaration", "-Werror=missing-prototypes"], cwd=command["directory"],
                          capture_output=True, text=True, errors="replace", check=False)
    return f"{path}:\n{done.stderr}" if done.returncode else ""


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    listed = json.loads(Path(sys.argv[1], "compile_commands.json").read_text(encoding="utf-8"))
    sources = {path: one for command in listed if TOGETHER.search(command["file"]) for path, one in sources_of(command)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [said for said in pool.map(look, sources, sources.values()) if said]
    print("".join(problems) + f"alone: {len(sources)} files, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
