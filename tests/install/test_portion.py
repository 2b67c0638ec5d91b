# SPDX-License-Identifier: Apache-2.0
"""Portions of the tests together are all the tests of this build: PROGRAM BUILD_FOLDER."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PORTION, FOLDER = sys.argv[1], Path(sys.argv[2])
TESTS = json.loads((FOLDER / "meson-info" / "intro-tests.json").read_text(encoding="utf-8"))
SUITES = {test["name"]: {suite.rpartition(":")[2] for suite in test["suite"]} for test in TESTS}
BUILT = {name for name, of in SUITES.items() if not of & {"lint", "static"}}


def call(*words):
    return subprocess.run([sys.executable, "-B", PORTION, FOLDER, *words], capture_output=True, text=True)


def portion(*words):
    done = call(*words)
    assert done.returncode == 0, done.stderr
    names = done.stdout.splitlines()
    assert len(names) == len(set(names)), "a test is there twice"
    return set(names)


def all_portions_are_all_tests():
    every_time = {name for name, of in SUITES.items() if "unit" in of and "threads" not in of}
    for parts in (1, 3, 10):
        rest = []
        for part in range(1, parts + 1):
            names = portion(f"{part}/{parts}", "--suite", "unit", "--no-suite", "threads")
            assert every_time <= names
            rest += names - every_time
        assert sorted(rest) == sorted(BUILT - every_time), "each of the others is in one portion"


def without_suites_a_portion_is_one_of_all():
    assert portion("1/1") == BUILT


def listed_tests_are_in_every_portion():
    listed = sorted(BUILT)[::5]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        print(*listed, sep="\n", file=file, flush=True)
        parts = [portion(f"{part}/2", "--list", file.name) for part in (1, 2)]
        assert parts[0] & parts[1] == set(listed) and parts[0] | parts[1] == BUILT
        print("no-such-test", file=file, flush=True)
        done = call("1/2", "--list", file.name)
        assert done.returncode == 2 and "no test called no-such-test" in done.stderr, done.stderr


def others_are_refused():
    for wrong in ("0/3", "4/3", "1", "1/0", "a/b", ""):
        done = call(wrong)
        assert done.returncode == 2 and repr(wrong) in done.stderr, (wrong, done.stderr)


for case in (all_portions_are_all_tests, without_suites_a_portion_is_one_of_all, listed_tests_are_in_every_portion,
             others_are_refused):
    case()
    print("ok", case.__name__.replace("_", " "))
