#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the fuzz targets with clang and runs them one after the other; prints a table.

usage: run.py BUILD [--seconds N] [--alloc] [--merge] [TARGET...]

--alloc: each target with allocations that fail (alloc.c).
--merge: instead, inputs found that reach what the seeds do not become seeds, found-HASH in corpus/TARGET.

What was found stays in BUILD: fuzz-corpus/TARGET (inputs that reach new edges) and fuzz-crashes/TARGET. Exit status 1
when there is a crash, a leak or a hang.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDEN = {"profile", "encodings"}
# HDF5 itself leaks when a file is damaged.
LEAKY = {"hdf5_data", "hdf5_edits", "lineage", "onert", "profile"}
ALLOC = "alloc_"  # before a target: allocations fail, too
NO_ALLOC = {"graphs"}  # checks far more than outcomes
MEMORY = "/dev/shm"
MOST_BYTES = 80_000  # larger than any seed
MOST_SEED, MOST_FILES = 8_000, 40  # bytes of a seed that was found; of a target's


def plain(target):
    """A target, whether or not its memory runs out."""
    return target.removeprefix(ALLOC)


def build(folder, targets):
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", folder, ROOT, "-Dfuzz=enabled", "-Db_sanitize=address,undefined",
                        "-Db_lundef=false", "-Dbuildtype=debugoptimized", "-Dmpi=disabled"],
                       check=True, env=os.environ | {"CC": os.environ.get("CC", "clang")}, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, *(f"tests/fuzz/fuzz_{t}" for t in targets)], check=True,
                   stdout=subprocess.DEVNULL)


def last(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def run(folder, target, seconds):
    """Executions, seconds, edges, features, and the files that crashed."""
    found, crashes = folder / "fuzz-corpus" / target, folder / "fuzz-crashes" / target
    for each in (found, crashes):
        each.mkdir(parents=True, exist_ok=True)
    before = set(crashes.iterdir())
    seeds = [HERE / "corpus" / plain(target), HERE / "regressions" / plain(target),
             *([ROOT / "tests/golden"] if plain(target) in GOLDEN else [])]
    with tempfile.TemporaryDirectory(prefix="tidemark-fuzz-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as own:
        done = subprocess.run(
            [folder / f"tests/fuzz/fuzz_{target}", found, *(seed for seed in seeds if seed.is_dir()),
             f"-max_total_time={seconds}", "-rss_limit_mb=2048", "-timeout=10", f"-max_len={MOST_BYTES}",
             f"-detect_leaks={0 if plain(target) in LEAKY else 1}", f"-artifact_prefix={crashes}/", "-close_fd_mask=1",
             "-print_final_stats=1"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            env=os.environ | {"OMP_NUM_THREADS": "1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "TMPDIR": own,
                              "ASAN_OPTIONS": f"detect_leaks={0 if plain(target) in LEAKY else 1}"})
    (folder / f"fuzz-{target}.log").write_text(done.stderr)
    new = sorted(set(crashes.iterdir()) - before)
    if done.returncode == 0:  # libFuzzer writes in the processes, too, that HDF5 files are read by and may kill
        for left in new:
            left.unlink()
        new = []
    if done.returncode and not new:
        print(f"{target} failed; see {folder}/fuzz-{target}.log", file=sys.stderr)
    log = done.stderr
    return {"runs": last(r"stat::number_of_executed_units: +(\d+)", log) or last(r"#(\d+)", log),
            "rate": last(r"stat::average_exec_per_sec: +(\d+)", log) or last(r"exec/s: (\d+)", log),
            "edges": last(r"cov: (\d+)", log), "of": last(r"\((\d+) inline 8-bit counters\)", log),
            "corpus": len(list(found.iterdir())), "bad": bool(new or done.returncode), "new": new}


def merge(folder, target):
    """How many inputs became seeds, and their bytes."""
    corpus = HERE / "corpus" / target
    for old in corpus.glob("found-*"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="tidemark-merge-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as name:
        kept = Path(name) / "kept"
        corpus.mkdir(exist_ok=True)
        shutil.copytree(corpus, kept)
        for each in (HERE / "regressions" / target, *([ROOT / "tests/golden"] if target in GOLDEN else [])):
            for path in each.iterdir() if each.is_dir() else []:
                shutil.copy(path, kept / f"{each.name}-{path.name}")
        before = {path.name for path in kept.iterdir()}
        subprocess.run([folder / f"tests/fuzz/fuzz_{target}", "-set_cover_merge=1", kept, folder / "fuzz-corpus" / target, f"-max_len={MOST_SEED}",
                        "-rss_limit_mb=2048", "-timeout=10", "-detect_leaks=0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True, env=os.environ | {"TMPDIR": name, "ASAN_OPTIONS": "detect_leaks=0"})
        new = sorted((path for path in kept.iterdir() if path.name not in before and path.stat().st_size <= MOST_SEED), key=lambda path: path.stat().st_size)
        chosen = new[::-(len(new) // MOST_FILES + 1)]  # of all sizes
        for path in chosen:
            shutil.copy(path, corpus / f"found-{path.name[:12]}")
        return len(chosen), sum(path.stat().st_size for path in chosen)


def main():
    parser = argparse.ArgumentParser(usage="run.py BUILD [--seconds N] [--alloc] [--merge] [TARGET...]")
    parser.add_argument("build", type=Path)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--alloc", action="store_true")
    parser.add_argument("--merge", action="store_true")
    asked = parser.parse_intermixed_args()
    targets = asked.targets or sorted(path.stem[len("fuzz_"):] for path in HERE.glob("fuzz_*.c"))
    if asked.alloc:
        targets = [ALLOC + target for target in targets if target not in NO_ALLOC]
    folder = asked.build.resolve()
    build(folder, targets)
    if asked.merge:
        for target in targets:
            print("{}: {} seeds of {} bytes".format(target, *merge(folder, target)), flush=True)
        return
    print(f"{'target':<18}{'executions':>12}{'a second':>10}{'edges':>8}{'of':>8}{'corpus':>8}  crashes", flush=True)
    bad = False
    for target in targets:
        r = run(folder, target, asked.seconds)
        bad = bad or r["bad"]
        print(f"{target:<18}{r['runs']:>12}{r['rate']:>10}{r['edges']:>8}{r['of']:>8}{r['corpus']:>8}  "
              f"{len(r['new']) or ('failed' if r['bad'] else 0)}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
