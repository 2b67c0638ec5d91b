# SPDX-License-Identifier: Apache-2.0
"""What the lints share: which files the tree has, and how a lint is run.

A lint is a function from the tree's root to a list of lines "file:line: what is wrong". Only Python's standard library.
"""
import os
import sys
from pathlib import Path

PASSED_OVER = {"__pycache__", "tidemark-quickstart"}


def _is_ours(folder):
    if folder.name in PASSED_OVER or folder.name.startswith("build"):
        return False
    if folder.name.startswith(".") and folder.name != ".ci":
        return False
    if folder.parent.name == "subprojects" and folder.name != "packagefiles":
        return False
    return not ((folder / "meson-private").exists() or (folder / "pyvenv.cfg").exists())


def files(root):
    """Every file of the project below `root`, sorted; not what was built, fetched or installed there."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if _is_ours(Path(folder, name))]
        found += [Path(folder, name) for name in names if name != ".git"]
    return sorted(path for path in found if path.is_file())


def is_script(path):
    """An executable text without a suffix, such as tools/check."""
    if path.suffix:
        return False
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def without_meson_comments(text):
    """The same lines, each cut at a '#' that stands outside a string."""
    lines = []
    for line in text.splitlines():
        quoted = False
        for i, character in enumerate(line):
            if character == "'" and line[i - 1:i] != "\\":
                quoted = not quoted
            elif character == "#" and not quoted:
                line = line[:i]
                break
        lines.append(line)
    return "\n".join(lines)


def at(root, path, line, text):
    return f"{path.relative_to(root)}:{line}: {text}"


def report(name, problems):
    """Prints the problems; answers the exit status."""
    for problem in problems:
        print(problem)
    print(f"{name}: {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems else 0


def main(check):
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} ROOT", file=sys.stderr)
        sys.exit(2)
    sys.exit(report(Path(sys.argv[0]).stem, check(Path(sys.argv[1]).resolve())))
