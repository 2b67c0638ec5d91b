# SPDX-License-Identifier: Apache-2.0
"""A wheel in a fresh virtual environment of each Python: installed, quantizes a model, gives the bytes of another build.

usage: test_wheel.py WHEEL SOURCE_ROOT [--against PROGRAM] [PYTHON...]

PROGRAM is a build from source on this machine, with the oneDNN version of the wheel. Prints a line of seconds for each Python. Ends with
status 77 where there is no such wheel: `tools/wheel` makes it.
"""
import argparse
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

MOST_MEGABYTES = 15


def run(*words, **options):
    begin = time.monotonic()
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout, time.monotonic() - begin


def fastest(*words):
    return min(run(*words)[1] for _ in range(7))


def profile_of(program, source, folder, name, *data):
    out = Path(folder) / name
    run(program, "profile", source / "bundle/digits.onnx", "--data", *(data or [source / "bundle/digits.npy"]), "-o", out, "-q")
    return out.read_bytes()


def write_pictures(folder):
    """Grey PNG files of 8 x 8 pixels, which a program of its own decodes."""
    folder.mkdir()
    for seed in range(16):
        rows = b"".join(b"\0" + bytes((seed * 37 + row * 11 + x * 7) % 256 for x in range(8)) for row in range(8))
        chunks = ((b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
        (folder / f"{seed}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks))


def check(python, wheel, source, against):
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        bin_folder = Path(folder) / "bin"
        _, installing = run(bin_folder / "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        program, inside = bin_folder / "tidemark", bin_folder / "python"
        out = Path(folder) / "digits.int8.onnx"
        verdict, quantizing = run(program, "quantize", source / "bundle/digits.onnx", "--data", source / "bundle/digits.npy", "-o", out)
        assert verdict.startswith("good:") and out.stat().st_size > 0, verdict
        told, _ = run(program, "doctor")
        assert "self-test: passed" in told and all(f"reading {kind}: " in told for kind in ("hdf5", "images")), told
        pictures = Path(folder) / "pictures"
        write_pictures(pictures)
        images = ("p-images.json", pictures, "--image", "color=grey")
        for name, *data in (("p.json",), ("p.h5",), images):
            made = profile_of(program, source, folder, name, *data)
            run(program, "show", Path(folder) / name)  # HDF5 is read by a program of its own, too
            if against:
                assert made == profile_of(against, source, folder, "other-" + name, *data), f"{name} differs"
        by_python = Path(folder) / "by-python.json"
        for data in (f"{str(source / 'bundle/digits.npy')!r}", f"{str(pictures)!r}, image='color=grey'"):
            run(inside, "-c", f"import tidemark; tidemark.profile({str(source / 'bundle/digits.onnx')!r}, {data}).write({str(by_python)!r})",
                cwd=folder)
        assert by_python.read_bytes() == (Path(folder) / "p-images.json").read_bytes()
        run(inside, "-m", "tidemark", "--version", cwd=folder)
        bare, whole = fastest(inside, "-c", "import numpy"), fastest(inside, "-c", "import tidemark")
        print(f"{run(inside, '--version')[0].strip()}: install {installing:.1f} s, quantize {quantizing:.2f} s, --version "
              f"{1000 * fastest(program, '--version'):.1f} ms, import tidemark {1000 * whole:.0f} ms (numpy alone {1000 * bare:.0f} ms)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("pythons", nargs="*", default=[sys.executable])
    options = parser.parse_intermixed_args()
    if not options.wheel.is_file():
        print(f"skipped: {options.wheel} is not there")
        sys.exit(77)
    size = options.wheel.stat().st_size / 1e6
    assert size <= MOST_MEGABYTES, f"{size:.1f} MB"
    for python in options.pythons:
        check(python, options.wheel.resolve(), options.source.resolve(), options.against and options.against.resolve())


main()
