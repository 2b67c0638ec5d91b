# SPDX-License-Identifier: Apache-2.0
"""The interface for C programs: every declaration of the public headers, member for member, and the symbols of the library.

usage: interface.py [--update] SOURCE_ROOT [LIBRARY] -- COMPILER...

The headers are preprocessed and compared with interface.txt, which a person reviews: whatever a program that was compiled
against the last release would notice is a line there. LIBRARY must export exactly the functions that the headers declare.
"""
import difflib
import re
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "TIDEMARK_0.1"
LIST = Path(__file__).with_name("interface.txt")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[A-Za-z_]\w*|\.?\d[\w.]*|\.\.\.|->|<<|>>|\S')
# Compilers' spellings; they differ, and change no call.
NOT_SHOWN = {"TMK_API", "TMK_NODISCARD", "TMK_PRINTF"}


def preprocess(compiler, root):
    """The lines that our own headers became, macros' definitions among them."""
    names = sorted(path.name for path in (root / "include" / "tidemark").glob("*.h"))
    unit = "".join(f"#include <tidemark/{name}>\n" for name in names)
    done = subprocess.run([*compiler, "-x", "c", "-std=c17", "-E", "-dD", "-I", root / "include", "-"], input=unit,
                          capture_output=True, text=True, check=True)
    ours, lines = False, []
    for line in done.stdout.splitlines():
        if marker := re.match(r'#\s*(?:line\s+)?\d+ "(.*?)"', line):
            ours = "/tidemark/" in marker[1]
        elif ours:
            lines.append(line)
    return lines


def spaced(tokens):
    text = " ".join(tokens)
    text = re.sub(r" ([,;)\]])", r"\1", text)
    text = re.sub(r"([(\[]) ", r"\1", text)
    text = re.sub(r"(\w) \[", r"\1[", text)
    text = re.sub(r"(\w) \((?!\*)", r"\1(", text)
    return re.sub(r"\* (?=[\w*)])", "*", text)


def without_attributes(tokens):
    kept, i = [], 0
    while i < len(tokens):
        if tokens[i] == "__attribute__":
            depth = 0
            while True:
                i += 1
                depth += {"(": 1, ")": -1}.get(tokens[i], 0)
                if depth == 0:
                    break
        elif tokens[i:i + 2] == ["[", "["]:
            while tokens[i:i + 2] != ["]", "]"]:
                i += 1
            i += 1
        else:
            kept.append(tokens[i])
        i += 1
    return kept


def declarations(lines):
    """One text a declaration or macro, sorted: struct and enum have a line a member."""
    found, code = [], []
    for line in lines:
        if define := re.match(r"#define (\w+)(.*)", line):
            name = define[1]
            # Guards, and macros that the headers take away again, are not part of the interface.
            if define[2].strip() and name not in NOT_SHOWN and f"#undef {name}" not in lines:
                # Of a list only the name: the enums that are made of it show the rest.
                found.append(line.split(")", 1)[0] + ")" if define[2].startswith("(") else re.sub(r"\s+", " ", line))
        elif not line.startswith("#"):
            code.append(line)
    depth, rows, row = 0, [], []
    tokens = without_attributes(TOKEN.findall("\n".join(code)))
    for token in tokens:
        row.append(token)
        depth += {"{": 1, "}": -1}.get(token, 0)
        ends = token in "{;" or (token == "," and depth > 0 and rows[0].startswith("enum"))
        if token == "}" and len(row) > 1:
            rows.append("    " * (depth + 1) + spaced(row[:-1]))
            row = ["}"]
        if ends:
            indent = depth - (1 if token == "{" else 0)
            rows.append("    " * indent + spaced(row))
            row = []
            if depth == 0:
                found.append("\n".join(rows))
                rows = []
    assert depth == 0 and not row, f"not understood: {row}"
    return sorted(set(found), key=lambda text: (not text.startswith("#define"), text))


def functions(texts):
    """Names: what is neither a macro nor a type, and has parameters."""
    return {name[1] for text in texts if (name := re.match(r"[^#{]*?\b(tmk_\w+)\(", text))}


def check_symbols(library, listed):
    told = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = dict(line.split()[-1].partition("@@")[::2] for line in told.splitlines() if line.split()[1] != "A")
    problems = [f"{name} is exported, and no public header declares it" for name in sorted(exported.keys() - listed)]
    problems += [f"{name} is declared, and not exported" for name in sorted(listed - exported.keys())]
    return problems + [f"{name} has the version {version!r}" for name, version in sorted(exported.items()) if version != VERSION]


def main():
    words = sys.argv[1:]
    update = words[0] == "--update"
    root, *library = words[update:words.index("--")]
    texts = declarations(preprocess(words[words.index("--") + 1:], Path(root)))
    text = "\n".join(texts) + "\n"
    if update:
        LIST.write_text(text, encoding="utf-8")
    problems = list(difflib.unified_diff(LIST.read_text(encoding="utf-8").splitlines(), text.splitlines(),
                                         "listed", "declared", lineterm="", n=1))
    if problems:
        problems.append(f"If that is meant: {Path(sys.argv[0]).name} --update, and state in the commit what programs must change.")
    if library and not shutil.which("nm"):
        print("  the library's symbols were not looked at: there is no nm here")
    elif library:
        problems += check_symbols(library[0], functions(texts))
    print("\n".join(problems) or f"  {len(texts)} declarations, {len(functions(texts))} of them functions")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
