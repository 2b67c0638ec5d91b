# SPDX-License-Identifier: Apache-2.0
"""`python -m tidemark` is the program `tidemark` that was installed with the package, else that of PATH."""
import os
import shutil
import sys
import sysconfig


def program() -> str | None:
    """Its path; None where there is none."""
    folders = [sysconfig.get_path("scripts", scheme) for scheme in (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))]
    for folder in folders:
        path = os.path.join(folder, "tidemark")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return shutil.which("tidemark")


def main() -> None:
    path = program()
    if path is None:
        print("tidemark: the program is neither in this Python's folder of scripts nor in PATH; install the package again",
              file=sys.stderr)
        sys.exit(3)
    os.execv(path, ["tidemark", *sys.argv[1:]])


if __name__ == "__main__":
    main()
