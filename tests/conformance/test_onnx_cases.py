# SPDX-License-Identifier: Apache-2.0
"""Runs the test cases of the `onnx` package through `tidemark verify`.

usage: test_onnx_cases.py TIDEMARK LIST_OPS CASES [REGEX]

TIDEMARK and LIST_OPS are the built programs, CASES a folder for the cases (cases.py), made when it is not there. Cases run
whose operators all have rows and whose inputs and outputs are of types that Tidemark holds; REGEX narrows them by name.
Those in expected_failures.txt must fail, all others must pass. Exit status 77, with the reason, where `onnx` is missing.
"""
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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
SECONDS = 120  # for one case


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


def verify(tidemark, folder, case):
    """Nothing, or what is wrong in one line."""
    command = [tidemark, "verify", "-q", "--rtol", str(case["rtol"]), "--atol", str(case["atol"]),
               folder / "model.onnx", folder]
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"still runs after {SECONDS} s"
    text = " | ".join(run.stdout.decode(errors="replace").split("\n")).strip(" |")
    return "" if run.returncode == 0 else f"exit status {run.returncode}: {text}"


def main():
    if len(sys.argv) not in (4, 5):
        print(__doc__, file=sys.stderr)
        return 2
    tidemark, list_ops, root = sys.argv[1], sys.argv[2], Path(sys.argv[3])
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
    with ThreadPoolExecutor(cpu_count()) as pool:
        found = pool.map(lambda case: verify(tidemark, root / case["kind"] / case["name"], case), chosen)
        for case, wrong in zip(chosen, found, strict=True):
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
