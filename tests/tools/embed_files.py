# SPDX-License-Identifier: Apache-2.0
"""Files as a C table, by their names. usage: embed_files.py OUT.c FILE..."""
import sys
from pathlib import Path

lines = ["/* Made by tests/tools/embed_files.py. */", '#include "fuzz/embedded.h"']
rows = []
for i, path in enumerate(map(Path, sys.argv[2:])):
    content = path.read_bytes()
    lines += [f"static const unsigned char file{i}[] = {{", *(",".join(map(str, content[at:at + 40])) + "," for at in range(0, len(content), 40)), "};"]
    rows.append(f'    {{"{path.name}", file{i}, sizeof file{i}}},')
Path(sys.argv[1]).write_text("\n".join([*lines, "const struct embedded embedded[] = {", *rows, "    {0},", "};"]) + "\n")
