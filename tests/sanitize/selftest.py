# SPDX-License-Identifier: Apache-2.0
"""run.py fails a test that hides a sanitizer's report, and no other: selftest.py COMPILER..."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RUN = Path(__file__).resolve().parent / "run.py"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.endswith("SAN_OPTIONS")}  # run.py may run this too
SWALLOW = "import subprocess, sys; subprocess.run(sys.argv[1:], capture_output=True)"
PROGRAMS = {
    "writes_behind": "char *p = malloc(2); p[n + 1] = 1; free(p);",
    "leaks": "char *volatile p = malloc(2); p = malloc((unsigned)n); free(p);",
    "behaves": "char *p = malloc(2); p[n] = 1; free(p);",
    "asks_for_too_much": "char *volatile p = malloc((unsigned long)n << 62); if (p) abort();",
}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, body in PROGRAMS.items():
            source = folder / f"{program}.c"
            source.write_text(f"#include <stdlib.h>\nint main(int n, char **words) {{ (void)words; {body} return 0; }}\n")
            built = subprocess.run([*sys.argv[1:], "-w", "-fsanitize=address", source, "-o", folder / program], capture_output=True)
            if built.returncode:
                print("skipped: this compiler has no AddressSanitizer")
                sys.exit(77)
            (folder / "reports").mkdir()
            done = subprocess.run([sys.executable, RUN, folder / "reports", sys.executable, "-c", SWALLOW, folder / program],
                                  capture_output=True, text=True, env=ENVIRONMENT)
            bad = program in ("writes_behind", "leaks")
            assert done.returncode == (99 if bad else 0), f"{program}: {done}"
            assert ("ERROR: " in done.stderr) == bad, f"{program}: {done.stderr}"
            (folder / "reports").rmdir()
        done = subprocess.run([sys.executable, RUN, folder, sys.executable, "-c", "import sys; sys.exit(77)"], env=ENVIRONMENT)
        assert done.returncode == 77, done


if __name__ == "__main__":
    main()
