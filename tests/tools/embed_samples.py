# SPDX-License-Identifier: Apache-2.0
"""The operators' samples as a C table. usage: embed_samples.py OUT.c op_samples.txt"""
import sys
from pathlib import Path

rows = []
for sample in Path(sys.argv[2]).read_text().removeprefix("# ").split("\n# "):
    head, text = sample.split("\n", 1)
    operator, since = head.split()
    domain, _, name = operator.rpartition("::")
    quoted = "".join(char if char.isalnum() or char == " " else f"\\{ord(char):03o}" for char in text.rstrip("\n") + "\n")
    rows.append(f'    {{"{domain}", "{name}", {since}, "{quoted}"}},')
Path(sys.argv[1]).write_text("\n".join([
    "/* Made by tests/tools/embed_samples.py. */", '#include "tools/op_rows.h"', "const struct op_sample op_samples[] = {",
    *rows, "    {0},", "};"]) + "\n")
