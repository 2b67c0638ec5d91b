# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/relay-ops.md is what the table of Relay's operators says, or writes it.

usage: relay_ops_page.py LIST_RELAY_OPS PAGE [--write]

LIST_RELAY_OPS is the program tests/tools/list_relay_ops. `meson compile -C BUILD refresh-relay-ops-page` writes the page. Only
Python's standard library.
"""
import subprocess
import sys

from ops_page import settle

HEAD = """\
# Operators of Relay

<!-- Made from the operator table by `meson compile -C BUILD refresh-relay-ops-page`; a test compares. -->

The operators that are read from Relay text (see [relay.md](relay.md)): {n} of them. A module that uses another is refused, with a
line that names every such operator with its place. An attribute that is not listed is refused too: it might change what is computed.

*Attributes* that stand without a default must be given. *Becomes*: what the graph has in its place, ONNX's operators of operator
set 21 where no domain is named. The last of them gives the value its name in the text, `%5`; what others give on the way is named
`%5/...`. Where a layout is not the one that ONNX knows, there is a Transpose before and behind. *Written for*: the ONNX operator that
`transform -o OUT.relay` writes as this one.

Where Relay means something else than the ONNX operator of that name:

- `round` and the quantized operators take ties away from zero;
- pools with `ceil_mode` keep windows that begin past the data (an average of nothing is 0, a maximum the lowest number);
- `take` cuts indices to the axis; `divide` of integers goes towards zero, `floor_divide` down;
- `nn.batch_matmul` without attributes transposes its second operand up to TVM 0.7; shapes decide, then the version;
- `fixed_point_multiply` and `qnn.requantize` are TVM's arithmetic for x86, bit for bit;
- float16, bfloat16 and float64 are held as float32, as in ONNX models: a `cast` to them rounds nothing.

| operator | operands | attributes | becomes | written for |
| --- | --- | --- | --- | --- |
"""
TAIL = """
ONNX operators that are written by other means: {several}.
"""


def page(list_relay_ops):
    rows = subprocess.run([list_relay_ops], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    lines, several = [], []
    for name, operands, attributes, becomes, written in sorted(row.split("\t") for row in rows):
        if name == "-":
            several.append(written)
            continue
        shown = "" if attributes == "-" else "any" if attributes == "any" else ", ".join(f"`{attribute}`" for attribute in attributes.split("; "))
        lines.append(f"| `{name}` | {operands} | {shown} | {becomes} | {written} |")
    return HEAD.format(n=len(lines)) + "\n".join(lines) + "\n" + TAIL.format(several=", ".join(several))


if __name__ == "__main__":
    sys.exit(settle(page, __doc__))
