# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/relay-ops.md matches the table of Relay's operators, or writes it.

usage: relay_ops_page.py LIST_RELAY_OPS PAGE [--write]

LIST_RELAY_OPS is the program tests/tools/list_relay_ops. `meson compile -C BUILD refresh-relay-ops-page` writes the page. Only
Python's standard library.
"""
import subprocess
import sys
import textwrap

from ops_page import compare_or_write

HEAD = """\
# Operators of Relay

<!-- Made from the operator table by `meson compile -C BUILD refresh-relay-ops-page`; tested. -->

The {n} operators that are read from Relay text (see [relay.md](relay.md)). A module that uses
another one is rejected, with a line that names every such operator with its place. Attributes that
are not listed are rejected, too, since they might change the result.

*Attributes* without a default are required. Of those with another type than that of the default, or
without one, the type is stated where TVM has `int`, `real` (`double`) or `bool`, or else `object`
(`tvm.ir.save_json`). *Becomes*: the graph's operators, ONNX's of operator
set 21 where no domain is named. The last of them gives the value its name in the text, `%5`;
intermediate results are named `%5/...`. Where the layout is not that of ONNX, there is a Transpose
before and behind. *Written for*: the ONNX operator that `transform -o OUT.relay` writes as this one.

Where Relay differs from the ONNX operator of that name:

- `round` and the quantized operators take ties away from zero;
- pools with `ceil_mode` keep windows that begin past the data (an average of nothing is 0, a maximum
  the lowest number);
- `take` clamps indices to the axis; `divide` of integers rounds towards zero, `floor_divide` down;
- `nn.batch_matmul` without attributes transposes its second operand up to TVM 0.7; shapes decide,
  then the version;
- `fixed_point_multiply` and `qnn.requantize` are TVM's arithmetic for x86, bit for bit;
- float16, bfloat16 and float64 are computed as float32, as in ONNX models: a `cast` to them rounds
  nothing.

| operator | operands | attributes | becomes | written for |
| --- | --- | --- | --- | --- |
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
    tail = textwrap.fill(f"ONNX operators that are written by other means: {', '.join(several)}.", 100)
    return HEAD.format(n=len(lines)) + "\n".join(lines) + "\n\n" + tail + "\n"


if __name__ == "__main__":
    sys.exit(compare_or_write(page, __doc__))
