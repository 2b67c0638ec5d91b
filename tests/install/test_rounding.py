# SPDX-License-Identifier: Apache-2.0
"""No result of the library's is one of float functions whose last bits are another version of the C library's to choose.

usage: test_rounding.py READELF LIBRARY

Vector functions (libmvec) and most functions of floats change from one glibc to the next. Those of doubles may stay: what is
stored of them has been rounded to float, or is a score or an estimate. lib/ops/functions_body.h has ours.
"""
import re
import shutil
import subprocess
import sys

FLOATS = r"(?:a?(?:sin|cos|tan)h?|atan2|sincos|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|cbrt|hypot|erfc?|[lt]?gamma)f"
CHANGING = re.compile(rf"_ZGV\w+|{FLOATS}")


def main():
    readelf, library = sys.argv[1:]
    if not shutil.which(readelf):
        print(f"skipped: there is no {readelf} here")
        sys.exit(77)
    told = subprocess.run([readelf, "-W", "--dyn-syms", "-d", library], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stdout
    imports = set(re.findall(r"UND (\w+)", told))
    assert "exp" in imports, "the imports were not found"
    wrong = sorted(name for name in imports if CHANGING.fullmatch(name)) + re.findall(r"libmvec[\w.]*", told)
    assert not wrong, f"taken from the C library: {' '.join(wrong)}"


main()
