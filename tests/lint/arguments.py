# SPDX-License-Identifier: Apache-2.0
"""No call in lib/relay has two arguments that make something: C leaves their order open.

What a compiler evaluates first comes first in the graph or the text, so that gcc's and clang's files would differ. Items of an
initializer list are left out: compilers make them from left to right.
"""
import re

import tree

CALL = re.compile(r"\b(?!(?:if|for|while|switch|sizeof)\b)\w+\(")
MAKES = re.compile(
    r"\b(?:tmk_rl_(?:[123n]|cast|transpose|reshape|along|clip|list|scalar|array|reorder|laid_out|same)"
    r"|tmk_re_(?:[12n]|in|clip|transposed|constant|batch_matmul)|tmk_rb_(?:cast|reshape|call|project)"
    r"|(?:make|emit)_\w+|swap_last_axes|zero_point|norm_factor|constant_by_channel)\(")


def arguments(text, start):
    """The arguments of the call whose bracket is open before `start`; none where one is an initializer list."""
    depth, begin, found = 1, start, []
    for i in range(start, len(text)):
        c = text[i]
        if c in "{};":
            return []
        depth += (c in "([") - (c in ")]")
        if depth == 0 or (depth == 1 and c == ","):
            found.append(text[begin:i])
            begin = i + 1
        if depth == 0:
            return found
    return []


def check(root):
    problems = []
    for path in tree.files(root):
        if path.parent != root / "lib" / "relay" or path.suffix != ".c":
            continue
        text = path.read_text(encoding="utf-8")
        for call in CALL.finditer(text):
            if sum(bool(MAKES.search(argument)) for argument in arguments(text, call.end())) > 1:
                number = text.count("\n", 0, call.start()) + 1
                problems.append(tree.at(root, path, number, f"two arguments of {call[0]}...) make something: make one before"))
    return problems


if __name__ == "__main__":
    tree.main(check)
