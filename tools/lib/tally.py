# SPDX-License-Identifier: Apache-2.0
"""Counts the results in meson's testlog.json; the last line reads "N passed, N failed, N skipped".

    tally.py TESTLOG

Exit status 0 when something passed and nothing failed.
"""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def last_line(text):
    return (text or "").strip().rpartition("\n")[2]


def main():
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} TESTLOG", file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], encoding="utf-8") as log:
            tests = [json.loads(line) for line in log if line.strip()]
    except OSError as error:
        print(f"{sys.argv[1]}: {error.strerror}: no test was run", file=sys.stderr)
        tests = []
    skipped = [test for test in tests if test["result"] in SKIPPED]
    failed = [test for test in tests if test["result"] not in PASSED | SKIPPED]
    passed = len(tests) - len(skipped) - len(failed)
    for test in skipped:
        print(f"skipped: {test['name']}: {last_line(test.get('stdout')) or 'no reason given'}")
    for test in failed:
        print(f"failed: {test['name']} ({test['result'].lower()})")
    print("check: all is well" if passed and not failed else "check: not all is well")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
