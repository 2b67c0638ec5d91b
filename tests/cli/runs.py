# SPDX-License-Identifier: Apache-2.0
"""Profiles in every format of the build, by `target`, their path without the ending: written, compared and merged; and runs that are
interrupted."""
import json
import random
import subprocess
import time
from pathlib import Path

from cli import DONE, FEATURES, PROGRAM, SECONDS, tidemark

FORMS = ("json", "h5") if "hdf5" in FEATURES else ("json",)


def outputs(target):
    """The options that write it."""
    return [word for form in FORMS for word in ("-o", f"{target}.{form}")]


def profile(target, *words):
    return tidemark("profile", "--quiet", *words, *outputs(target)).expect(DONE)


def read(target):
    return json.loads(Path(f"{target}.json").read_text())


def ledger(target):
    profile = read(target)
    return {**profile["ledger"], **profile["coverage"]}


def labels_file(path, labels):
    """For --strata: a line a sample."""
    path.write_text("".join(f"{label}\n" for label in labels))
    return path


def strata_of(target):
    """The targets of the strata of a run, by label."""
    target = Path(target)
    names = sorted(target.parent.glob(f"{target.name}.*.json"))
    return {name.name[len(target.name) + 1:-5]: name.with_suffix("") for name in names}


def assert_equal(one, other):
    for form in FORMS:
        assert Path(f"{one}.{form}").read_bytes() == Path(f"{other}.{form}").read_bytes(), f"{one} and {other}: {form}"


def merge(random_, parts, target):
    """All parts, in random order and groups of random sizes and formats."""
    parts, made = [f"{part}.{random_.choice(FORMS)}" for part in parts], 0
    random_.shuffle(parts)
    while len(parts) > 1 and random_.random() < 0.7:
        size, made = random_.randint(1, len(parts)), made + 1
        group = f"{target}-{made}.{random_.choice(FORMS)}"
        tidemark("merge", *parts[:size], "-o", group).expect(DONE)
        parts = parts[size:] + [group]
        random_.shuffle(parts)
    tidemark("merge", *parts, *outputs(target)).expect(DONE, "the whole run")


def check_shards(path, words, counts=(3,), seed=0, merges=1):
    """Merged shards are equal to one run, whatever their number, their threads and the order of merging."""
    random_ = random.Random(seed)
    profile(path / "whole", *words)
    for count in counts:
        parts = [path / f"part-{count}-{k}" for k in range(1, count + 1)]
        for k, part in enumerate(parts, 1):
            profile(part, *words, "--shard", f"{k}/{count}", "--threads", random_.randint(1, 3))
        for _ in range(merges):
            merge(random_, parts, path / "merged")
            assert_equal(path / "merged", path / "whole")


def check_reproducible(path, words):
    """Threads, shards and checkpoints do not change a byte. Leaves path/whole, and its shards path/part-3-K."""
    check_shards(path, words, counts=(3,), merges=1)
    for more in (["--threads", 1], ["--threads", 4], ["--checkpoint", path / "c", "--every", "0.0001s"]):
        profile(path / "p", *words, *more)
        assert_equal(path / "p", path / "whole")


# ---- interrupted runs ----

def start(*words, **options):
    """The process of a run."""
    return subprocess.Popen([PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


def wait_for(path, process):
    """Until the file exists or the process ends."""
    until = time.monotonic() + SECONDS
    while not path.exists() and process.poll() is None:
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.002)
