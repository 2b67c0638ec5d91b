# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/ops.md is what the operator table says, or writes it.

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

The operators that Tidemark runs: {operators} of them, in {rows} rows, one a meaning that some versions of the operator set share.
A model that uses another operator or version is refused, with a line that names every such node.

All of them compute in float32, the integers from 8 to 64 bits, and booleans. float16, bfloat16 and double tensors are widened or narrowed
to float32 when a model is read. Of narrower types, integers of 2 and 4 bits go through Cast and DequantizeLinear, and all go through what moves
elements; strings and maps are not held. Sequences of tensors, and optional
tensors and sequences, go through the operators that say so; no range is kept of them, only of the tensors that are put in and taken out.

Random operators draw by their attribute `seed`, or, without it, by a fixed seed of their own place in the graph: the same numbers in
every run and every batch, and not those of another program.

*Versions*: of the operator set, from and to, of each row; "-" means that the newest known version is included.
*Inputs*, *outputs*: how many there may be. *Channels*: where the first output has the channels for which ranges are kept one by one:
on axis 1, on the last axis, where the first input has them ("inherit"), or nowhere. *Flags*: `pure`, the same inputs give the same outputs, so constants are folded;
`view`, the first output is the first input's elements in the same order; `inplace`, the first output may replace the first input in memory;
`shape-only`, elements of the inputs are not looked at; `sizes-itself`, the size of an output is known only once it has been computed;
`takes-any`, inputs may be sequences and optionals; `makes-sequences`, all outputs are sequences.

| operator | versions | inputs | outputs | channels | flags |
| --- | --- | --- | --- | --- | --- |
"""


def page(list_ops):
    rows, lines = read_rows(list_ops), []
    for row in sorted(rows, key=lambda row: (row.domain != "ai.onnx", row.domain, row.name, row.since)):
        name = row.name if row.domain == "ai.onnx" else f"{row.domain}::{row.name}"
        until = "" if row.until is None else row.until
        versions = row.since if row.since == row.until else f"{row.since}-{until}"
        flags = " ".join(f"`{flag}`" for flag in row.flags)
        lines.append(f"| {name} | {versions} | {row.inputs} | {row.outputs} | {row.channels} | {flags} |")
    operators = len({(row.domain, row.name) for row in rows})
    return HEAD.format(operators=operators, rows=len(rows)) + "\n".join(lines) + "\n"


def settle(page, usage):
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
    sys.exit(settle(page, __doc__))
