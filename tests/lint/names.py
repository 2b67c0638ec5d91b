# SPDX-License-Identifier: Apache-2.0
"""Every name that a Python file uses is defined in it, imported, or built in: a test that skips is otherwise a test that fails."""
import builtins
import symtable

import tree

KNOWN = {*dir(builtins), "__file__", "__name__", "__doc__", "__path__"}


def _tables(table):
    yield table
    for child in table.get_children():
        yield from _tables(child)


def check(root):
    problems = []
    for path in tree.files(root):
        if path.suffix != ".py":
            continue
        text = path.read_text(encoding="utf-8")
        if "import *" in text:
            continue
        module = symtable.symtable(text, str(path), "exec")
        tables = list(_tables(module))
        defined = {s.get_name() for s in module.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
        defined |= {s.get_name() for t in tables for s in t.get_symbols() if s.is_declared_global() and s.is_assigned()}
        for name in sorted({s.get_name() for t in tables for s in t.get_symbols() if s.is_global() and s.is_referenced()} - defined - KNOWN):
            problems.append(f"{path.relative_to(root)}: '{name}' is defined nowhere")
    return problems


if __name__ == "__main__":
    tree.main(check)
