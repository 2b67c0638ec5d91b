# SPDX-License-Identifier: Apache-2.0
"""Runs the test cases of the `onnx` package as `tidemark verify` does.

usage: test_onnx_cases.py VERIFY_CASES LIST_OPS CASES [REGEX]

VERIFY_CASES and LIST_OPS are built programs of tests/tools, CASES a folder for the cases (cases.py), made when it is not there. Cases run
whose operators all have rows and whose inputs and outputs are of types that Tidemark holds; REGEX narrows them by name.
Those in expected_failures.txt must fail, all others must pass. Exit status 77, with the reason, where `onnx` is missing.
"""
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from os import cpu_count
from pathlib import Path

from op_rows import has_row, read_rows

try:
    import onnx
    from cases import make_cases
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HELD = {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "BOOL", "INT8", "INT16", "INT32", "INT64",
        "UINT8", "UINT16", "UINT32", "UINT64", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "sequence_type", "optional_type"}
SECONDS = 600  # for all of them


def covers(releases, version):
    """Is the version one of "1.17,1.19-1.21,1.23-"?"""
    def number(text):
        return tuple(map(int, text.split(".")[:2]))
    spans = [word.partition("-") for word in releases.split(",")]
    return any(number(first) <= number(version) <= number(last or ("2.0" if dash else first)) for first, dash, last in spans)


def read_expected(version):
    """Name to reason: lines "name  reason", or "name@RELEASES  reason"; # begins a comment."""
    path = Path(__file__).with_name("expected_failures.txt")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    expected = {}
    for line in lines:
        (name, _, releases), reason = line.split(maxsplit=1)[0].partition("@"), line.split(maxsplit=1)[1]
        if not releases or covers(releases, version):
            expected[name] = reason
    return expected


def verify(program, root, cases):
    """Of each case nothing, or what is wrong in one line."""
    lines = "".join(f"{case['rtol']}\t{case['atol']}\t{folder / 'model.onnx'}\t{folder}\n"
                    for case in cases for folder in [root / case["kind"] / case["name"]])
    run = subprocess.run([program], input=lines, stdout=subprocess.PIPE, text=True, timeout=SECONDS)
    found = run.stdout.split("\n")[:-1]
    missing, ended = len(cases) - len(found), f"the process ended here with status {run.returncode}"
    if missing:
        found += [ended, *["was not run"] * (missing - 1)]
    elif run.returncode:
        found[-1] = ended
    return found


def main():
    if len(sys.argv) not in (4, 5):
        print(__doc__, file=sys.stderr)
        return 2
    program, list_ops, root = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    pattern = re.compile(sys.argv[4] if len(sys.argv) > 4 else "")
    rows, expected, counts, problems = read_rows(list_ops), read_expected(onnx.__version__), Counter(), []
    chosen = []
    for case in make_cases(root):
        if not pattern.search(case["name"]):
            continue
        if not all(has_row(rows, *operator) for operator in case["operators"]):
            counts["with operators that have no row"] += 1
        elif not set(case["types"]) <= HELD:
            counts["of types that are not held"] += 1
        else:
            chosen.append(case)
    parts = [chosen[i::cpu_count()] for i in range(cpu_count())]
    with ThreadPoolExecutor(len(parts)) as pool:
        answers = pool.map(lambda part: verify(program, root, part), parts)
        for case, wrong in chain.from_iterable(zip(*pair, strict=True) for pair in zip(parts, answers, strict=True)):
            name = case["name"]
            counts["failed as expected" if wrong and name in expected else "failed" if wrong else "passed"] += 1
            if wrong and name not in expected:
                problems.append(f"{case['kind']}/{name}: {wrong}")
            elif not wrong and name in expected:
                problems.append(f"{case['kind']}/{name}: passes, though expected_failures.txt has: {expected[name]}")
    names = {case["name"] for case in chosen}
    problems += [f"{name}: is expected to fail, but did not run" for name in expected
                 if pattern.search(name) and name not in names]
    if not counts["passed"]:
        problems.append("nothing passed")
    for problem in problems:
        print(problem)
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
