#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chooses the tests that CI runs under AddressSanitizer at every commit, by the lines of lib/ and tools/ that each test reaches.

    reach.py BUILD_FOLDER LIST [--share 0.99] [--jobs 2]

Builds BUILD_FOLDER with clang's coverage, runs each test alone that a build with sanitizers has, and writes LIST, one name a line: beside
the suites `unit` and `fuzz`, which always run, the tests that reach that share of the lines that all tests reach. Each is the one with
the most new lines a second of processor time. A test that fails counts with the lines it reached: where memory or files are limited,
what writes the coverage prints messages of its own. Needs clang and llvm (llvm-profdata, llvm-cov), and TIDEMARK_TEST_PYTHON as the
tests do.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))
from portion import OF_SOURCES, suites_of

ALWAYS = {"unit", "fuzz"}
FLAGS = "-fprofile-instr-generate -fcoverage-mapping"
LEAST = 0.3  # seconds that any test costs


def set_up(folder, *options):
    environment = os.environ | {"CC": os.environ.get("CC", "clang"), "LLVM_PROFILE_FILE": os.devnull}
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", folder, ROOT, "-Db_ndebug=false", "-Dpython=disabled", "--buildtype=debugoptimized", *options],
                       check=True, env=environment)
    return environment


def build(folder):
    environment = set_up(folder, "-Doptimization=1", f"-Dc_args={FLAGS}", f"-Dc_link_args={FLAGS}")
    subprocess.run(["ninja", "-C", folder], check=True, env=environment)


def sanitized_suites(folder):
    """Of the tests of a build with sanitizers, which is configured and not built."""
    set_up(folder, "-Db_sanitize=address,undefined", "-Db_lundef=false")
    return {name: of for name, of in suites_of(folder).items() if not of & OF_SOURCES}


def programs(folder):
    """The library and every program of ours that has code of lib/ or tools/."""
    yield folder / "lib" / "libtidemark.so"
    yield from sorted(path for path in (folder / "tools").iterdir() if path.is_file() and os.access(path, os.X_OK) and not path.suffix)


def lines_of(folder, profiles, scratch):
    """The lines that are known, and those that ran."""
    merged = scratch / "merged"
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-o", merged, *profiles], check=True)
    first, *others = programs(folder)
    told = subprocess.run(["llvm-cov", "export", "-format=lcov", f"-instr-profile={merged}", first,
                           *(word for path in others for word in ("-object", path))], check=True, capture_output=True, text=True).stdout
    known, ran, name = set(), set(), None
    for line in told.splitlines():
        if line.startswith("SF:"):
            path = Path(line[3:]).resolve()
            name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT / "lib") or path.is_relative_to(ROOT / "tools") else None
        elif line.startswith("DA:") and name:
            number, count = line[3:].split(",")[:2]
            known.add((name, int(number)))
            if count != "0":
                ran.add((name, int(number)))
    return known, ran


def run_alone(folder, name):
    """The seconds of processors that a test takes, the lines there are and it reaches, none if it is skipped, and whether it failed."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(["meson", "test", "-C", folder, "--no-rebuild", "--logbase", f"reach-{name}", name], capture_output=True,
                              env=os.environ | {"LLVM_PROFILE_FILE": f"{scratch}/%4m.profraw"}, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        profiles = list(scratch.glob("*.profraw"))
        lines = lines_of(folder, profiles, scratch) if profiles else (set(), set())
        return name, seconds, *lines, done.returncode != 0


def choose(reached, seconds, first, share):
    """The names, in the order of their choice, and the lines that the first ones and these reach. Prints what each adds."""
    every = len(set().union(*reached.values()))
    ran = set().union(*(reached[name] for name in first))
    left, chosen = set(reached) - first, []
    while len(ran) < share * every:
        best = max(sorted(left), key=lambda name: len(reached[name] - ran) / max(seconds[name], LEAST))
        chosen.append(best)
        left.remove(best)
        before, ran = len(ran), ran | reached[best]
        print(f"{best:28} {len(ran) - before:6} lines {seconds[best]:6.1f} s {100 * len(ran) / every:6.2f} %")
    return chosen, ran


def main():
    parser = argparse.ArgumentParser(usage="reach.py BUILD_FOLDER LIST [--share 0.99] [--jobs 2]")
    parser.add_argument("build", type=Path)
    parser.add_argument("list", type=Path)
    parser.add_argument("--share", type=float, default=0.99)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    folder = asked.build.resolve()
    build(folder)
    suites = sanitized_suites(folder.with_name(f"{folder.name}-sanitized"))
    reached, seconds, known, failed = {}, {}, set(), []
    with ProcessPoolExecutor(asked.jobs) as pool:
        for name, took, lines, ran, bad in pool.map(run_alone, [folder] * len(suites), suites):
            reached[name], seconds[name] = ran, took
            known |= lines
            failed += [name] * bad
            print(f"{name}: {len(ran)} lines, {took:.1f} s", flush=True)
    first = {name for name, of in suites.items() if of & ALWAYS}
    chosen, ran = choose(reached, seconds, first, asked.share)
    every = set().union(*reached.values())
    asked.list.write_text("".join(f"{name}\n" for name in sorted(chosen)), encoding="utf-8")
    by_first = set().union(*(reached[name] for name in first))
    print(f"{len(known)} lines, {len(every)} reached; by the {len(first)} tests that always run {len(by_first)}, "
          f"with {len(chosen)} more {len(ran)} ({100 * len(ran) / len(every):.2f} %)")
    print(f"{sum(seconds.values()):.0f} s for all, {sum(seconds[name] for name in first):.0f} s for the first, "
          f"{sum(seconds[name] for name in chosen):.0f} s for the others chosen")
    if failed:
        print(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
