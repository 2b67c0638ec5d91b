# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/ops.md agrees with the operator table, or writes it.

usage: ops_page.py LIST_OPS PAGE [--write]

LIST_OPS is the program tests/tools/list_ops. `meson compile -C BUILD refresh-ops-page` writes the page. Only Python's
standard library.
"""
import difflib
import sys
from pathlib import Path

from op_rows import read_rows

HEAD = """\
# Operators

<!-- Made from the operator table by `meson compile -C BUILD refresh-ops-page`; a test compares. -->

Tidemark runs {operators} operators, in {rows} rows. A row is one meaning of an operator, which some
versions of the operator set share. A model with another operator or version is refused with one
line. It names the unsupported operators (at most 32) and, for each, the first four nodes and the
count of the others.

## Types

| type | support |
| --- | --- |
| float32, integers of 8 to 64 bits, booleans | computed |
| float16, bfloat16, double | converted to float32 when a model is read |
| integers of 4 bits | moved (Reshape, Transpose, Gather, ...); made by QuantizeLinear; read by DequantizeLinear and Cast |
| integers of 2 bits | moved; read by DequantizeLinear and Cast |
| float8 | moved; made by QuantizeLinear and Cast; read by DequantizeLinear and Cast |
| float4 | moved; read by DequantizeLinear and Cast |
| float8_e8m0 | moved only |
| strings | not supported: classes that are strings, in a classifier of `ai.onnx.ml`, are refused |
| maps | not supported; what ZipMap would make maps of stays the tensor of scores, [samples, classes], which `profile` observes before it |
| sequences of tensors, optional tensors and sequences | accepted by the operators with the flag `takes-any`; ranges are kept of the tensors that are put in and taken out, not of the sequence |

Random operators draw by their attribute `seed`, or, without it, by a fixed seed of their position
in the graph: the same numbers in every run and every batch, and not those of another program.

Of the 2,033 test cases of onnx 1.23 itself 1,904 have operators and types of this page; 1,891 of
them pass. `tests/conformance/expected_failures.txt` lists the other 13, and those of the releases
since 1.13, with reasons.

## Table

*Versions* are those of the operator set, first and last, of each row; "-" includes the newest
supported version. *Inputs* and *outputs* are the counts allowed. *Channels*: the axis of the first
output along which ranges per channel are kept: axis 1, the last axis, that of the first input
("inherit"), or none.

| flag | meaning |
| --- | --- |
| `pure` | the same inputs give the same outputs, so constants are folded |
| `view` | the first output has the first input's elements in the same order |
| `inplace` | the first output may replace the first input in memory |
| `shape-only` | elements of the inputs are not read |
| `sizes-itself` | the size of an output is known only after it has been computed |
| `takes-any` | inputs may be sequences and optionals |
| `makes-sequences` | all outputs are sequences |

| operator | versions | inputs | outputs | channels | flags |
| --- | --- | --- | --- | --- | --- |
"""

INNER = """
## Inner values

Values that an operator has inside, which `profile` observes as `NODE/WHAT` (`OUTPUT/WHAT` of a node
without a name). `scores` are the scaled products of queries and keys before a cap, a bias or a mask,
`probabilities` their softmax; `query`, `key` and `value` are there where they are no operands of the
node. `expert_input`, `expert_hidden` and `expert_output` are [tokens, k, ...]: of each token the rows
of its k experts, in the order of these. A sum that is an output of the node is observed as that.

| operator | values |
| --- | --- |
"""


def page(list_ops):
    rows, lines = read_rows(list_ops), []
    for row in sorted(rows, key=lambda row: (row.domain != "ai.onnx", row.domain, row.name, row.since)):
        name = row.name if row.domain == "ai.onnx" else f"{row.domain}::{row.name}"
        until = "" if row.until is None else row.until
        versions = row.since if row.since == row.until else f"{row.since}-{until}"
        flags = " ".join(f"`{flag}`" for flag in row.flags)
        lines.append(f"| {name} | {versions} | {row.inputs} | {row.outputs} | {row.channels} | {flags} |")
    inner = [f"| {row.domain}::{row.name} | {', '.join(f'`{name}`' for name in row.inner)} |" for row in sorted(rows) if row.inner]
    operators = len({(row.domain, row.name) for row in rows})
    return HEAD.format(operators=operators, rows=len(rows)) + "\n".join(lines) + "\n" + INNER + "\n".join(dict.fromkeys(inner)) + "\n"


def compare_or_write(page, usage):
    """For a page made of what a program prints: PROGRAM PAGE [--write]; the exit status."""
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--write"]):
        print(usage, file=sys.stderr)
        return 2
    path, want = Path(sys.argv[2]), page(sys.argv[1])
    if sys.argv[3:]:
        path.write_text(want, encoding="utf-8")
        return 0
    have = path.read_text(encoding="utf-8") if path.exists() else ""
    sys.stdout.writelines(difflib.unified_diff(have.splitlines(True), want.splitlines(True), str(path), "the table"))
    return 0 if have == want else 1


if __name__ == "__main__":
    sys.exit(compare_or_write(page, __doc__))
