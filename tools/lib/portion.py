# SPDX-License-Identifier: Apache-2.0
"""The names of the tests of some suites or of a list, and a portion of the others, a line each, for `meson test`.

    portion.py BUILD_FOLDER K/N [--suite NAME]... [--no-suite NAME]... [--list FILE]

Of the tests that these options leave out every Nth from the Kth on, in order of their names: N runs, K from 1 to N, have them all. Only
what looks at the sources, and not at what was built, is in no portion. FILE has a name a line.
"""
import argparse
import json
import re
import sys
from pathlib import Path

OF_SOURCES = {"lint", "static"}


def portion(text):
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N with K from 1 to N")
    return int(match[1]), int(match[2])


def suites_of(folder):
    """{name: suites} of the tests of a build folder."""
    tests = json.loads((folder / "meson-info" / "intro-tests.json").read_text(encoding="utf-8"))
    return {test["name"]: {suite.rpartition(":")[2] for suite in test["suite"]} for test in tests}


def chosen(tests, which, suites, left_out, listed):
    """tests: {name: set of suites}."""
    wanted = listed | {name for name, of in tests.items() if of & suites and not of & left_out}
    others = sorted(name for name, of in tests.items() if name not in wanted and not of & OF_SOURCES)
    return wanted.union(others[which[0] - 1::which[1]])


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s BUILD_FOLDER K/N [--suite NAME]... [--no-suite NAME]... [--list FILE]")
    parser.add_argument("folder", type=Path)
    parser.add_argument("portion", type=portion)
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--no-suite", action="append", default=[])
    parser.add_argument("--list", type=Path)
    asked = parser.parse_args()
    tests = suites_of(asked.folder)
    listed = set(asked.list.read_text(encoding="utf-8").split()) if asked.list else set()
    if listed - tests.keys():
        parser.error(f"{asked.list}: there is no test called {', '.join(sorted(listed - tests.keys()))}")
    print(*sorted(chosen(tests, asked.portion, set(asked.suite), set(asked.no_suite), listed)), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
