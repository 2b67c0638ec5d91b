# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/: all are listed in docs/README.md, links lead somewhere, rows of tables fit, and the files that the map and the recipes name are there.

    pages.py ROOT
"""
import re

import tree

NAMING_FILES = ("map.md", "adding.md")  # other pages name files of users, too
PROMISE = re.compile(r"\| `(tests/[\w./-]+)`: `(\w+)` \|$")  # the test that holds it: every row of SECURITY.md has one
LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")
PATH = re.compile(r"`((?:\w[\w.-]*/)+[\w.-]*)`")
CELL = re.compile(r"(?<!\\)\|")
STARTS = (".", "lib", "include", "tests")  # `graph/rewrite.h` is of lib/, `tidemark/link.h` of include/


def numbered(page):
    return enumerate(page.read_text(encoding="utf-8").splitlines(), 1)


def uneven_rows(root, page):
    """Rows of a table that do not have as many cells as its head."""
    problems, cells, fenced = [], None, False
    for line, text in numbered(page):
        fenced ^= text.lstrip().startswith("```")
        if fenced or not text.startswith("|"):
            cells = None
            continue
        n = len(CELL.findall(text))
        cells = cells or n
        if n != cells:
            problems.append(tree.at(root, page, line, f"has {n - 1} cells in a table of {cells - 1} columns"))
    return problems


def untested(root, page, line, text):
    """A promise without the name of a test that there is."""
    found = PROMISE.search(text)
    if found and (root / found[1]).exists() and re.search(rf"\b(TEST\()?{found[2]}[()]", (root / found[1]).read_text(encoding="utf-8")):
        return []
    return [tree.at(root, page, line, "promises what no test holds")]


def check(root):
    docs = root / "docs"
    pages = sorted(path for path in docs.rglob("*") if path.suffix == ".md")
    problems, listed = [], set()
    for page in [root / "README.md", root / "SECURITY.md", *pages]:
        problems += uneven_rows(root, page) if page.exists() else []
        for line, text in numbered(page) if page.exists() else ():
            for target in LINK.findall(text):
                if "://" in target:
                    continue
                if not (page.parent / target).exists():
                    problems.append(tree.at(root, page, line, f"links to {target}, which is not there"))
                if page == docs / "README.md":
                    listed.add((page.parent / target).resolve())
            held = page.name == "SECURITY.md" and text.startswith("| ") and not text.endswith(("| test |", "| --- |"))
            if held or PROMISE.search(text):
                problems += untested(root, page, line, text)
            if page.parent != docs or page.name not in NAMING_FILES:
                continue
            for path in PATH.findall(text):
                if not any((root / start / path).exists() for start in STARTS):
                    problems.append(tree.at(root, page, line, f"names {path}, which is not there"))
    problems += [tree.at(root, page, 1, "is not listed in docs/README.md") for page in pages
                 if page.name != "README.md" and page.resolve() not in listed]
    return problems


if __name__ == "__main__":
    tree.main(check)
