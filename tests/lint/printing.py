# SPDX-License-Identifier: Apache-2.0
"""The program prints strings through tools/printing.c only, which escapes what no terminal may be shown.

Elsewhere in tools: no call that writes a string to a stream as it is. Single characters may be written, and table.c writes the codes of
its colours.
"""
import re

import tree

RAW = re.compile(r"(?<![\w])(?:v?printf|v?fprintf|v?dprintf|puts|fputs|fwrite|write|perror)\s*\(")
LITERAL = r'"(?:[^"\\]|\\.)*"'
# An argument of print_out with a line end, which would be escaped: it belongs into the format.
LINE_END = re.compile(rf'\bprint_out\(\s*(?:{LITERAL}|PRIu64|\s)+,(?:[^";]|{LITERAL})*?(?<=[?:,(] )"[^"]*\\n(?:[^"\\]|\\.)*"')
MAY = {
    "printing.c": RAW,
    "messages.c": re.compile(r"fprintf\(stderr, (?:\"[^%]*\"|\", \\\"[a-z_]+\\\": %[.0-9a-z]+\"|\"\{\\\"event\\\")|fputs\(\", \\\"message\\\": \", stderr\)"),
    "progress.c": re.compile(r'fprintf\(stderr, "\\r%s\\033\[K", text\)|fputs\(erase, stderr\)|write\(STDERR_FILENO, erase'),
    "table.c": re.compile(r'fputs\(codes\[hue\], stdout\)|fputs\("[^"]*", stdout\)|fwrite\(\*c, 1, n, stdout\)'),
    "simulate_search.c": re.compile(r"write\(t->to, "),  # arrays to the user's own program
    "ending.c": re.compile(r"write\(STDERR_FILENO, line.text, line.len\)"),  # in a handler of a signal
    "stop.c": re.compile(r"write\(STDERR_FILENO, (?:json|line), sizeof"),  # likewise
    "help.c": re.compile(r'fputs\("[^"]*", stdout\)|fprintf\(to, "'),
}


def check(root):
    problems = []
    for path in tree.files(root):
        if path.parent != root / "tools" or path.suffix not in {".c", ".h"}:
            continue
        text = path.read_text(encoding="utf-8")
        for found in RAW.finditer(text):
            allowed = MAY.get(path.name)
            if not (allowed and allowed.match(text, found.start())):
                number = text.count("\n", 0, found.start()) + 1
                problems.append(tree.at(root, path, number, f"prints as it is: {found[0].strip()}; use print_out, put_quoted or put_lines"))
        for found in LINE_END.finditer(text):
            problems.append(tree.at(root, path, text.count("\n", 0, found.start()) + 1, "escapes a line end: put it into the format"))
    return problems


if __name__ == "__main__":
    tree.main(check)
