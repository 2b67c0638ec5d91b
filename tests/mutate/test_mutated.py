# SPDX-License-Identifier: Apache-2.0
"""Damaged models, profiles and data through the program: nothing crashes, hangs or exhausts the machine, and every error states where.

usage: test_mutated.py PROGRAM SOURCE_ROOT FEATURES [--count N] [--family NAME] [--only NUMBER] [--jobs N] [--log FILE] [--keep FOLDER]

--count 2000 is the full measure (data: a quarter of it); without, a small slice. A case is made from its family, its number and
the seed alone, so --family models --only 123 makes it again, and --keep leaves its files.
"""
import argparse
import collections
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import outcome

try:
    import cases
    import sources
    if cases.damage_files.h5py is None:
        raise ImportError("no h5py")
    import PIL  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing} (TIDEMARK_TEST_PYTHON names the interpreter that has it)")
    sys.exit(77)

SEED = 11
EVERY = None  # what is damaged; made before the workers start


def run_case(program, family, number, keep=None):
    """What became of the case, as an object for the log."""
    dice = random.Random(f"{SEED} {family} {number}")
    folder = Path(keep or tempfile.mkdtemp(prefix="tidemark-mutated-"))
    folder.mkdir(exist_ok=True)
    try:
        case = cases.FAMILIES[family](dice, EVERY, folder)
        faults, worst = [], {"cpu": 0.0, "rss": 0}
        for i, words in enumerate(case.commands):
            done = outcome.run(program, words, folder)
            subject = next((s for s in case.subjects if s.name in done.err), case.subjects[0])
            found = done.faults(subject)
            if i and done.status != outcome.DONE:
                found.append(f"what {case.commands[0][0]} wrote is not good")
            if not i and done.status not in (outcome.DONE, outcome.ANSWER_NO) and any(folder.glob("out*")):
                found.append("something was written")
            faults += found
            worst = {"cpu": max(worst["cpu"], done.cpu), "rss": max(worst["rss"], done.rss)}
            if i == 0:
                first = done
            if keep:
                print(f"-- tidemark {' '.join(done.words)}\n   status {done.status}, {done.cpu:.1f} s\n   {done.err[-3000:]}{done.out[-300:]}")
            if done.status != outcome.DONE:
                break
        return {"family": family, "number": number, "kind": case.kind, "verb": first.verb, "status": first.status, "faults": faults,
                "message": done.err[-2500:] if faults else first.err[:400], "words": done.words, **worst}
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def run_one(task):
    program, family, number = task
    try:
        return run_case(program, family, number)
    except Exception:  # the driver's own
        return {"family": family, "number": number, "kind": "driver", "verb": "", "status": -1, "faults": ["driver"], "cpu": 0, "rss": 0,
                "message": traceback.format_exc()[-1500:]}


def table(results):
    columns = collections.defaultdict(collections.Counter)
    for one in results:
        kind = " ".join(one["kind"].split()[:2])
        column = "fault" if one["faults"] else f"status {one['status']}"
        columns[kind][column] += 1
    heads = sorted({c for row in columns.values() for c in row})
    lines = [f"{'what was damaged':32}" + "".join(f"{h:>10}" for h in heads)]
    for kind in [*sorted(columns), "all"]:
        row = columns[kind] if kind != "all" else sum(columns.values(), collections.Counter())
        lines.append(f"{kind:32}" + "".join(f"{row[h]:>10}" for h in heads))
    slow, large = max(results, key=lambda r: r["cpu"]), max(results, key=lambda r: r["rss"])
    lines.append(f"slowest: {slow['cpu']:.1f} s of the processor ({slow['family']} {slow['number']}, {slow['verb']}); most memory: "
                 f"{large['rss'] >> 20} MiB ({large['family']} {large['number']}, {large['verb']})")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("root", type=lambda path: Path(path).resolve())
    parser.add_argument("features")
    parser.add_argument("--small", action="store_true", help="leave out the larger models")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--family", choices=cases.FAMILIES)
    parser.add_argument("--only", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--maker", type=os.path.abspath, help="the program that makes the whole profiles, where another is quicker")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--keep")
    return parser.parse_args()


def main():
    global EVERY
    options = arguments()
    for part in ("hdf5", "images", "relay"):
        if part not in options.features.split(","):
            print(f"skipped: built without {part}")
            return 77
    shared = Path(os.environ.get("TIDEMARK_SHARED") or options.root.parent / "shared")
    begin = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory(prefix="tidemark-sources-") as folder:
        EVERY = sources.Sources(options.maker or options.program, options.root, shared, folder, options.small)
        print(f"{len(EVERY.models)} models, {len(EVERY.small)} with profiles, {len(EVERY.tables)} tables: {time.monotonic() - begin:.0f} s", flush=True)
        if options.only is not None:
            print(json.dumps(run_case(options.program, options.family, options.only, options.keep), indent=1))
            return 0
        families = [options.family] if options.family else list(cases.FAMILIES)
        wanted = [(family, i) for family in families for i in range(options.first, options.first + options.count // (4 if family == "data" else 1))]
        log = open(options.log, "a") if options.log else None
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            for one in pool.imap_unordered(run_one, [(options.program, *which) for which in wanted]):
                results.append(one)
                if log:
                    print(json.dumps(one), file=log, flush=True)
                if one["faults"]:
                    print(f"{one['family']} {one['number']} ({one['kind']}, {one['verb']}): {', '.join(one['faults'])}\n    {one['message'][:300].strip()}", flush=True)
    print(table(results))
    bad = sum(bool(one["faults"]) for one in results)
    print(f"{len(results) - bad} of {len(results)} as specified, {time.monotonic() - begin:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
