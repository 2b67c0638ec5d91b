# SPDX-License-Identifier: Apache-2.0
"""Nothing of the fast-math family: it makes isnan() answer 0, and lets two builds give two results.

Looked for where flags are given (meson files, scripts) and where C source can give them (pragmas, attributes).
The root's meson.build must ask for c_std=c17 and -ffp-contract=off; another -ffp-contract may stand only on a line
that names the module kernel.
"""
import re

import tree

FAMILY = (r"fast-math|unsafe-math-optimizations|finite-math-only|associative-math|reciprocal-math|"
          r"no-signed-zeros|no-trapping-math|no-math-errno|cx-limited-range|cx-fortran-rules|"
          r"approx-func|no-honor-nans|no-honor-infinities|fp-model=(?:fast|aggressive)")
FLAG = re.compile(rf"-f(?:{FAMILY})\b|-Ofast\b|-mrecip\b|-menable-(?:no-nans|no-infs|unsafe-fp-math)\b")
CONTRACT = re.compile(r"-ffp-contract=(?!off\b)")
IN_SOURCE = re.compile(
    rf"(?:#[ \t]*pragma|_Pragma|__attribute__|\boptimize)\b.*(?:{FAMILY}|\bOfast\b|\bfloat_control\b|"
    r"\bFP_CONTRACT[ \t]+ON\b|\bclang[ \t]+fp\b)")


def check(root):
    problems = []
    for path in tree.files(root):
        if path.name in {"meson.build", "meson_options.txt"}:
            text = tree.without_meson_comments(path.read_text(encoding="utf-8"))
            wrong = [FLAG, CONTRACT]
        elif path.suffix in {".sh", ".wrap", ".ini"} or tree.is_script(path):
            text, wrong = path.read_text(encoding="utf-8", errors="replace"), [FLAG, CONTRACT]
        elif path.suffix in {".c", ".h", ".inc"}:
            text, wrong = path.read_text(encoding="utf-8", errors="replace"), [IN_SOURCE]
        else:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for pattern in wrong:
                if not (found := pattern.search(line)):
                    continue
                if pattern is CONTRACT and "kernel" in line:
                    continue
                problems.append(tree.at(root, path, number, f"fast math: {found[0].strip()}"))
    top = tree.without_meson_comments((root / "meson.build").read_text(encoding="utf-8"))
    for needed in ("c_std=c17", "-ffp-contract=off"):
        if needed not in top:
            problems.append(f"meson.build:1: does not ask for {needed}")
    return problems


if __name__ == "__main__":
    tree.main(check)
