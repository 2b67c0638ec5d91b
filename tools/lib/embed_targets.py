# SPDX-License-Identifier: Apache-2.0
"""The tables of targets as C texts, without blanks. usage: embed_targets.py OUT.c FILE.json..."""
import json
import sys
from pathlib import Path

texts, rows = [], []
for file in sorted(map(Path, sys.argv[2:])):
    table = json.loads(file.read_text())
    if table["name"] != file.stem:
        sys.exit(f"{file}: its name is {table['name']}")
    data = json.dumps(table, separators=(",", ":")).encode() + b"\0"
    texts.append(f"static const char text_{len(rows)}[] = {{{', '.join(map(str, data))}}};")
    rows.append(f'    {{"{table["name"]}", text_{len(rows)}}},')
Path(sys.argv[1]).write_text("\n".join([
    "/* Made by tools/lib/embed_targets.py. */", "#include <stddef.h>",
    "extern const struct tmk_target_text { const char *name, *text; } tmk_target_texts[];", *texts,
    "const struct tmk_target_text tmk_target_texts[] = {", *rows, "    {NULL, NULL},", "};"]) + "\n")
