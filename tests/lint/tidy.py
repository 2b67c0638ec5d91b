# SPDX-License-Identifier: Apache-2.0
"""What every file owes the next reader: a length that fits a head, a licence line, no path of one person's machine."""
import re

import tree

MOST_LINES = 800
SOURCES = {".c", ".h", ".inc", ".in", ".py", ".sh", ".proto"}
LICENCE = "SPDX-License-Identifier: "
# A folder that exists on one machine, with what may precede a path in code or prose.
LOCAL_PATH = re.compile(rb"""(?:^|[\s"'`(=:<,\[{;])(/(?:work|home|root)(?:/[\w.]|(?=[\s"'`),;]|$)))""", re.M)


def check(root):
    problems = []
    for path in tree.files(root):
        content = path.read_bytes()
        if found := LOCAL_PATH.search(content):
            line = content.count(b"\n", 0, found.start(1)) + 1
            problems.append(tree.at(root, path, line, f"names a path of one machine: {found[1].decode()}…"))
        if path.suffix not in SOURCES and not tree.is_script(path):
            continue
        lines = content.decode("utf-8", errors="replace").splitlines()
        if len(lines) > MOST_LINES:
            problems.append(tree.at(root, path, len(lines), f"has more than {MOST_LINES} lines"))
        first = 1 if lines and lines[0].startswith("#!") else 0
        if len(lines) <= first or LICENCE not in lines[first]:
            problems.append(tree.at(root, path, first + 1, "this line is not the SPDX line"))
    return problems


if __name__ == "__main__":
    tree.main(check)
