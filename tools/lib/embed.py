# SPDX-License-Identifier: Apache-2.0
"""Files as C texts, several in one as FILE+FILE. usage: embed.py OUT.c NAME=FILE..."""
import sys
from pathlib import Path

parts = ["/* Made by tools/lib/embed.py. */"]
for word in sys.argv[2:]:
    name, file = word.split("=", 1)
    data = b"".join(Path(part).read_bytes() for part in file.split("+")) + b"\0"
    rows = [", ".join(f"{byte - 256 if byte > 127 else byte}" for byte in data[i:i + 32]) for i in range(0, len(data), 32)]
    parts += [f"extern const char {name}[];", f"const char {name}[] = {{", ",\n".join(rows), "};"]
Path(sys.argv[1]).write_text("\n".join(parts) + "\n")
