# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone, without a warning, and is installed.

    headers.py ROOT LANGUAGE [COMPILER...]      (LANGUAGE is c or c++)

Without a compiler the exit status is 77: skipped.
"""
import re
import subprocess
import sys
from pathlib import Path

import tree

STANDARD = {"c": "-std=c17", "c++": "-std=c++17"}


def compile_alone(compiler, language, include, name):
    """The compiler's messages, empty when there are none."""
    command = [*compiler, "-x", language, STANDARD[language], "-Wall", "-Wextra", "-Wpedantic", "-Werror",
               "-fsyntax-only", "-I", str(include), "-"]
    # Twice, for the guard; and a declaration, since a unit of C may not be empty.
    unit = f"#include <tidemark/{name}>\n#include <tidemark/{name}>\ntypedef int tmk_not_empty;\n"
    done = subprocess.run(command, input=unit, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or f"exit status {done.returncode}"


def check(root, language, compiler):
    folder = root / "include" / "tidemark"
    meson = tree.without_meson_comments((folder / "meson.build").read_text(encoding="utf-8"))
    installed = re.findall(r"'([^']+\.h)'", meson)
    headers = sorted(path.name for path in folder.glob("*.h"))
    problems = [] if headers else ["include/tidemark:1: has no header"]
    for name in headers:
        if name not in installed:
            problems.append(f"include/tidemark/{name}:1: is not listed in include/tidemark/meson.build")
        if said := compile_alone(compiler, language, root / "include", name):
            problems.append(f"include/tidemark/{name}:1: does not compile alone as {language}:\n{said}")
    return problems


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in STANDARD:
        print(f"usage: {sys.argv[0]} ROOT c|c++ [COMPILER...]", file=sys.stderr)
        return 2
    root, language, compiler = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]
    if not compiler:
        print(f"skipped: no {language} compiler")
        return 77
    return tree.report("headers", check(root, language, compiler))


if __name__ == "__main__":
    sys.exit(main())
