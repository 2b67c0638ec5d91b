# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: checks lib/ and tools/ against the table of modules in lib/meson.build.

- A file in lib/MODULE includes "OTHER/x.h" only when OTHER is MODULE, base, or among what MODULE uses, directly or
  through another module. A public header <tidemark/NOUN.h> counts as the module NOUN's where there is such a module.
- Each row uses only modules above it; each .c under lib/ is listed, once, in its own module's row.
- Some libraries may be included by one module only (OWNED).
- Only lib/hdf5, which does it in a process of its own, opens and reads with the HDF5 library (READS); others write with it.
- lib/ does not fork.
- What judges a model (JUDGES) never blames the call.
- The headers of two modules define no struct, enum or union of the same name.
- tools/ includes <tidemark/...>, the C library and its own headers, nothing else.
"""
import re

import tree

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]')
# what an include looks like -> the one module that may have it
OWNED = [
    (re.compile(r"^(oneapi/|dnnl)"), "kernel", "oneDNN"),
    (re.compile(r"^protobuf-c/|\.pb-c\.h$"), "model", "protobuf-c"),
]
# a call by which the HDF5 library reads a file
READS = re.compile(r"\b(H5(?:[A-Z]+_?open\w*|[DAR]read\w*|[LOAG](?:iterate|visit|get_info|get_objinfo)\w*|Fis_\w+|LT\w*(?:read|open)\w*))\s*\(")
# a process is started by posix_spawn: fork without exec is not safe in a program with threads
FORKS = re.compile(r"\b(v?fork|_Fork|clone3?)\s*\(")
DEFINES = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+) \{", re.M)
# what these refuse is in a file: exit status 3, not 2
JUDGES = {"graph", "ops", "pass", "plan"}
BLAMES_CALL = re.compile(r"\b(TMK_ARGUMENT)\b")
GENERATED = {"tmk_version.h"}
C_LIBRARY_FOLDERS = {"sys", "linux", "arpa", "netinet"}


class Table:
    """rows: module -> (line, modules it names, its .c files); others: .c files named elsewhere in lib/meson.build."""

    def __init__(self, text):
        text = tree.without_meson_comments(text)
        self.rows, self.others, self.problems = {}, [], []
        taken = []
        for start in re.finditer(r"^\s*modules\s*\+?=\s*\[", text, re.M):
            end = closing(text, start.end() - 1)
            taken.append((start.start(), end))
            self._read_rows(text, start.end(), end)
        rest = "".join(c for i, c in enumerate(text) if not any(a <= i < b for a, b in taken))
        self.others = re.findall(r"'([^']+\.c)'", rest)

    def _read_rows(self, text, i, end):
        while (i := text.find("[", i, end)) != -1:
            stop = closing(text, i)
            line = text.count("\n", 0, i) + 1
            row = re.match(r"\[\s*'(\w+)'\s*,\s*\[([^\]]*)\]\s*,", text[i:stop])
            if not row:
                self.problems.append((line, "a row reads ['module', [modules], sources, dependencies]"))
            else:
                uses = re.findall(r"'(\w+)'", row[2])
                for used in uses:
                    if used not in self.rows:
                        self.problems.append((line, f"{row[1]} uses {used}, which is not above it"))
                self.rows[row[1]] = (line, uses, re.findall(r"'([^']+\.c)'", text[i:stop]))
            i = stop

    def allowed(self, module):
        """The module itself, base, and everything below it."""
        found, waiting = set(), [module, "base"]
        while waiting:
            name = waiting.pop()
            if name in self.rows and name not in found:
                found.add(name)
                waiting += self.rows[name][1]
        return found


def closing(text, start):
    """Just behind the bracket that closes the one at `start`; the end of the text where there is none."""
    depth, quoted = 0, False
    for i in range(start, len(text)):
        if text[i] == "'":
            quoted = not quoted
        elif not quoted and text[i] in "[]":
            depth += 1 if text[i] == "[" else -1
            if depth == 0:
                return i + 1
    return len(text)


def includes(path):
    """(line, '<' or '"', what is included)"""
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1], found[2]


def calls(root, path, pattern, why):
    text = path.read_text(encoding="utf-8", errors="replace")
    return [tree.at(root, path, text.count("\n", 0, found.start()) + 1, f"{found[1]}: {why}") for found in pattern.finditer(text)]


def reads_outside(root, path):
    return calls(root, path, READS, "only lib/hdf5 reads with the HDF5 library")


def check_table(root, table):
    where = root / "lib" / "meson.build"
    problems = [tree.at(root, where, line, text) for line, text in table.problems]
    listed = list(table.others)
    for module, (line, _, sources) in table.rows.items():
        listed += sources
        for source in sources:
            if not source.startswith(module + "/"):
                problems.append(tree.at(root, where, line, f"{source} is not in the module {module}"))
    for source in sorted(set(listed)):
        if listed.count(source) > 1:
            problems.append(tree.at(root, where, 1, f"{source} is listed twice"))
    for path in tree.files(root / "lib"):
        name = path.relative_to(root / "lib").as_posix()
        module = name.partition("/")[0]
        if path.suffix == ".c" and module in table.rows and name not in listed:
            problems.append(tree.at(root, path, 1, "is not listed in lib/meson.build"))
    return problems


def check_module_include(table, module, mark, name):
    """What is wrong with the include, or None."""
    for pattern, owner, library in OWNED:
        if pattern.search(name):
            return None if module == owner else f"only lib/{owner} includes {library}"
    first, _, rest = name.partition("/")
    if mark == "<":
        other = rest.removesuffix(".h") if first == "tidemark" else None
        if first in table.rows and rest:
            return f'a header of this project is included as "{name}"'
        if other not in table.rows:
            return None
    elif name in GENERATED:
        return None
    elif first not in table.rows or not rest:
        return f'"{name}" does not name a module: write "module/x.h"'
    else:
        other = first
    if other not in table.allowed(module):
        return f"{module} may not use {other}"
    return None


def check_lib(root, table):
    problems = []
    for path in tree.files(root / "lib"):
        parts = path.relative_to(root / "lib").parts
        if path.suffix not in {".c", ".h", ".inc"}:
            continue
        if len(parts) < 2 or parts[0] not in table.rows:
            problems.append(tree.at(root, path, 1, "is in no module of lib/meson.build"))
            continue
        for line, mark, name in includes(path):
            if wrong := check_module_include(table, parts[0], mark, name):
                problems.append(tree.at(root, path, line, wrong))
        problems += calls(root, path, FORKS, "lib starts programs by posix_spawn")
        if parts[0] in JUDGES:
            problems += calls(root, path, BLAMES_CALL, "the model is wrong here, not the call")
        if parts[0] != "hdf5":
            problems += reads_outside(root, path)
    return problems


def check_tags(root):
    owners, problems = {}, []
    for path in tree.files(root / "lib"):
        if path.suffix != ".h":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for found in DEFINES.finditer(text):
            if owners.setdefault(found[1], path.parent) != path.parent:
                problems.append(tree.at(root, path, text.count("\n", 0, found.start()) + 1,
                                        f"{found[1]} is defined in lib/{owners[found[1]].name}, too"))
    return problems


def check_tools(root, table):
    problems = []
    for path in tree.files(root / "tools"):
        if path.suffix not in {".c", ".h", ".inc"}:
            continue
        for line, mark, name in includes(path):
            first, _, rest = name.partition("/")
            if mark == '"':
                own = (path.parent / name).is_file() or (root / "tools" / name).is_file()
            else:
                own = not rest or first in C_LIBRARY_FOLDERS | {"tidemark"}
                own = own and not any(pattern.search(name) for pattern, _, _ in OWNED)
            if not own:
                problems.append(tree.at(root, path, line,
                                        f"tools/ may not include {name}: only <tidemark/...> and its own"))
        problems += reads_outside(root, path)
    return problems


def check(root):
    table = Table((root / "lib" / "meson.build").read_text(encoding="utf-8"))
    if not table.rows:
        return ["lib/meson.build:1: has no table of modules"]
    return check_table(root, table) + check_lib(root, table) + check_tags(root) + check_tools(root, table)


if __name__ == "__main__":
    tree.main(check)
