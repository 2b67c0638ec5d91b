#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which lines of the readers the fuzz targets' inputs reach: a table, one row a target.

usage: coverage.py BUILD [--corpus FOLDER] [--missed] [TARGET...]

Builds in BUILD with clang's coverage and puts through each target its seeds, its regressions and FOLDER/TARGET, for example the
inputs that tests/fuzz/run.py found (BUILD/fuzz-corpus). Only the files that the target is about count. --missed names, below the
table, the functions in them that no input reached.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDEN, GOLDEN_TOO = ROOT / "tests/golden", {"profile", "encodings"}
SECONDS = 1800
# What each target is there to reach; a file that is missing in a build without some library counts for nothing.
ABOUT = {
    "checkpoint": ["lib/profile/checkpoint.c", "lib/stats/codec.c", "lib/stats/restore.c", "lib/stats/codec.c"],
    "config": ["lib/calib/config.c", "lib/calib/match.c"],
    "encodings": ["lib/calib/encodings_read.c", "lib/calib/encodings.c", "lib/calib/json_file.c"],
    "graphs": ["lib/exec/*.c", "lib/kernel/*.c", "lib/ops/*.c", "lib/plan/*.c"],
    "hdf5_answers": ["lib/hdf5/file.c"],
    "hdf5_data": ["lib/data/source_hdf5.c"],
    "hdf5_edits": ["lib/profile/hdf5*.c"],
    "images": ["lib/data/image*.c"],
    "lineage": ["lib/profile/lineage*.c"],
    "names": ["lib/export/names.c"],
    "npy": ["lib/data/npy.c", "lib/data/source_npy.c"],
    "npz": ["lib/data/source_npz.c", "lib/data/npy.c"],
    "onert": ["lib/export/read_onert.c"],
    "onnx": ["lib/model/onnx_file.c", "lib/model/onnx_import.c", "lib/model/onnx_names.c",
             "lib/model/onnx_nodes.c", "lib/model/onnx_tensor.c", "lib/model/onnx_values.c", "lib/model/onnx_values.c",
             "lib/model/wire.c", "lib/model/onnx_import.c"],
    "options": ["tools/options.c"],
    "params": ["lib/relay/params.c"],
    "passes": ["lib/pass/*.c", "lib/graph/rewrite.c", "lib/graph/verify.c"],
    "profile": ["lib/profile/coverage.c", "lib/profile/field*.c", "lib/profile/*_fields.c", "lib/profile/file.c",
                "lib/profile/flags.c", "lib/profile/hdf5*.c", "lib/profile/profile.c"],
    "ranges": ["lib/export/ranges.c", "lib/export/read_*.c"],
    "relay": ["lib/relay/*.c"],
    "stream": ["lib/data/source_stream.c"],
}
# Their own targets.
APART = {"relay": ["lib/relay/params.c"], "ranges": ["lib/export/read_onert.c"]}

def files_of(target):
    def named(patterns):
        return {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(named(ABOUT[target]) - named(APART.get(target, [])))

def build(folder):
    flags = "-fprofile-instr-generate -fcoverage-mapping"
    # What the build itself runs is not measured.
    environment = os.environ | {"CC": os.environ.get("CC", "clang"), "LLVM_PROFILE_FILE": os.devnull}
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", folder, ROOT, "-Dbuildtype=debugoptimized", "-Dmpi=disabled", "-Donednn=disabled",
                        f"-Dc_args={flags}", f"-Dc_link_args={flags}"],
                       check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, "tests/fuzz/replay"], check=True, env=environment, stdout=subprocess.DEVNULL)

def inputs_of(target, corpus):
    # The fixtures of profiles and encodings are seeds of theirs.
    folders = [HERE / "corpus" / target, HERE / "regressions" / target, *([GOLDEN] if target in GOLDEN_TOO else []),
               *([corpus / target] if corpus else [])]
    return [folder for folder in folders if folder.is_dir()]

def measure(folder, target, corpus):
    """How many inputs there were, how it ended, llvm-cov's account of the files, and functions that nothing reached."""
    program, folders = folder / "tests/fuzz/replay", inputs_of(target, corpus)
    with tempfile.TemporaryDirectory() as name:
        raw, merged = Path(name) / "raw", Path(name) / "merged"
        # A reader may have processes of its own: one file each.
        done = subprocess.run([program, target, *folders], capture_output=True, timeout=SECONDS,
                              env=os.environ | {"LLVM_PROFILE_FILE": f"{raw}-%p"})
        subprocess.run(["llvm-profdata", "merge", "-sparse", "-o", merged, *Path(name).glob("raw-*")], check=True)
        told = subprocess.run(["llvm-cov", "export", program, f"-instr-profile={merged}"],
                              check=True, capture_output=True, text=True)
    data, ours = json.loads(told.stdout)["data"][0], set(files_of(target))
    # The compiler was called in the build folder: names have ".." in them.
    files = [each["summary"] for each in data["files"] if Path(each["filename"]).resolve() in ours]
    missed = {each["name"].split(":")[-1] for each in data["functions"]
              if not each["count"] and Path(each["filenames"][0]).resolve() in ours}
    return sum(len(list(each.iterdir())) for each in folders), done.returncode, files, sorted(missed)

def main():
    parser = argparse.ArgumentParser(usage="coverage.py BUILD [--corpus FOLDER] [--missed] [TARGET...]")
    parser.add_argument("build", type=Path)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--missed", action="store_true")
    asked = parser.parse_intermixed_args()
    targets = asked.targets or sorted(ABOUT)
    unknown = sorted({path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.c")} - ABOUT.keys())
    folder = asked.build.resolve()
    build(folder)
    print(f"{'target':<12}{'inputs':>8}{'lines':>8}{'reached':>9}{'functions':>11}{'reached':>9}{'branches':>10}{'reached':>9}")
    missed, bad = {}, False
    for target in targets:
        inputs, status, files, missed[target] = measure(folder, target, asked.corpus)
        row = f"{target:<12}{inputs:>8}"
        for kind, width in (("lines", 8), ("functions", 11), ("branches", 10)):
            count, covered = (sum(each[kind][key] for each in files) for key in ("count", "covered"))
            row += f"{count:>{width}}{100 * covered / max(count, 1):>7.1f} %"
        print(row + (f"  ended with {status}" if status else ""), flush=True)
        bad = bad or status != 0
    if asked.missed:
        for target, names in missed.items():
            print(f"\n{target}: {' '.join(names) or 'none'}")
    if unknown:
        print(f"not in the table of {Path(__file__).name}: {' '.join(unknown)}", file=sys.stderr)
    sys.exit(1 if bad or unknown else 0)

if __name__ == "__main__":
    main()
