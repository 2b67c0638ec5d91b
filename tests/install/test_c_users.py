# SPDX-License-Identifier: Apache-2.0
"""The library for C programs: it is installed, and the examples are built against it by pkg-config and run.

usage: test_c_users.py BUILD_ROOT SOURCE_ROOT COMPILER...
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD, SOURCE, COMPILER = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
BUNDLE = SOURCE / "bundle"


def run(*words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{words}: {done.stdout[-500:]} {done.stderr[-1500:]}"
    return done.stdout


def install(target):
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", target, "--quiet")
    pc = next(target.rglob("tidemark.pc"))
    library = next(target.rglob("libtidemark.so"))
    usual = {name: value for name, value in os.environ.items() if name != "TIDEMARK_LIBEXEC"}
    return {**usual, "PKG_CONFIG_PATH": str(pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(target),
            "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "LD_LIBRARY_PATH": str(library.parent)}


def main():
    missing = [tool for tool in ("meson", "pkg-config") if not shutil.which(tool)]
    if missing:
        print(f"skipped: no {missing[0]} here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = install(folder / "root")
        # as where the headers of what the library uses are not installed
        alone = {**environment, "PKG_CONFIG_LIBDIR": environment["PKG_CONFIG_PATH"]}
        flags = run("pkg-config", "--cflags", "--libs", "tidemark", env=alone).split()
        assert "-ltidemark" in flags, flags
        for example in sorted((SOURCE / "examples").glob("*.c")):
            run(*COMPILER, "-std=c11", "-Wall", "-Werror", example, *flags, "-o", folder / example.stem, env=environment)
        run(folder / "profile_from_memory", BUNDLE / "digits.onnx", folder / "p.json", env=environment)
        profile = json.loads((folder / "p.json").read_text())
        assert profile["ledger"]["run"] == 100 and profile["data"][0]["source"] == "camera", profile["data"]
        image = profile["tensors"][0]
        assert image["count"] == 6400 and (image["min"], image["max"]) == (0, 16), image
        said = run(folder / "custom_observer", BUNDLE / "digits.onnx", BUNDLE / "digits.npy", env=environment)
        rows = {line.split()[1]: int(line.split()[2]) for line in said.splitlines()}
        assert rows["image"] > 5 and rows["relu1_out"] > 10 and rows["probabilities"] == 0, rows
        program = next(path for path in (folder / "root").rglob("bin/tidemark") if path.is_file())
        assert "self-test: passed" in run(program, "doctor", env=environment)  # finds its files
        helpers = [path.name for path in (folder / "root").rglob("tidemark-read-*")]
        if "tidemark-read-hdf5" in helpers:
            run(program, "profile", BUNDLE / "digits.onnx", "--data", BUNDLE / "digits.npy", "-o", folder / "p.h5", "--quiet", env=environment)
            assert "relu1_out" in run(program, "show", folder / "p.h5", env=environment)
        print(f"  two examples built by pkg-config and run; helper programs found: {', '.join(helpers)}")


if __name__ == "__main__":
    main()
