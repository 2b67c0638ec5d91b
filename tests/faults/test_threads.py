# SPDX-License-Identifier: Apache-2.0
"""Threads that cannot start, the n-th or all from the n-th on: a command continues with those that it has, down to the one that it
begins with, and ends with the same bytes; it prints this once for each kind of work.

usage: test_threads.py PROGRAM SOURCE_ROOT FEATURES PRELOAD

Prints a table.
"""
import os
import re
import sys

from test_alloc import IMAGE, PRELOAD, Inputs, Table
from cli import DONE, FEATURES, folder, tidemark
from injected import OPTIONAL, Job, Sweep

THREADS = ["--threads", 4, "--batch", 1, "--quiet"]
WARNING = re.compile(r"([0-9]+ of [0-9]+) threads that ([a-z ]+) could not start \(Resource temporarily unavailable\); continuing with ([0-9]+)\n")


def jobs(have, out):
    run = ["--data", have.x, *THREADS]
    profile = ["profile", have.net, "-o", out / "p.json"]
    yield Job("profile", [*profile, *run], [out / "p.json"])
    yield Job("profile-checkpoint", [*profile, *run, "--checkpoint", out / "c", "--every", "0.0001s"], [out / "p.json"],
              kept={out / "c": None})
    yield Job("profile-stream", [*profile, "--data", "-", *THREADS], [out / "p.json"], stdin=have.stream)
    if "images" in FEATURES:
        yield Job("profile-images", [*profile, "--data", have.png, "--image", IMAGE, *THREADS], [out / "p.json"])
    yield Job("simulate", ["simulate", have.net, have.encodings, *run])
    yield Job("simulate-rank", ["simulate", have.net, have.encodings, *run, "--rank=2"])
    yield Job("run", ["run", have.net, *run, "-o", out / "o.npz"], [out / "o.npz"])
    yield Job("link-numbers", ["link", have.profiles[0], have.small, "--numbers", "--original", have.net, *run, "-o", out / "k.json"],
              [out / "k.json"])
    yield Job("bench", ["bench", have.net, *run, "--repeat", 1, "--seconds", 0.001, "--json"], figures=True)


class Survivors(Sweep):
    def judge(self, fault):
        outcome = super().judge(fault)
        assert outcome == OPTIONAL, "it did not continue without"
        return outcome


def check_warning(fault, words, expected):
    """The first thread hashes, the second one loads; the others work, or read ahead."""
    done = tidemark(*words, env={**os.environ, "LD_PRELOAD": str(PRELOAD), "TIDEMARK_FAIL": fault})
    assert done.status == DONE, f"{fault}: {done}"
    assert sorted(WARNING.findall(done.err)) == sorted(expected), f"{fault}: {done.err}"


def check_warnings(have, out):
    profile = ["profile", have.net, "-o", out / "w.json", "--threads", 4, "--batch", 1]
    checkpoints = [*profile, "--data", have.x, "--checkpoint", out / "w", "--every", "0.0001s"]
    hashing = ("1 of 1", "hash the data", "1")
    check_warning("thread:0", checkpoints, [])
    check_warning("thread:1+", checkpoints, [hashing, ("5 of 5", "run the model", "1")])
    check_warning("thread:2", checkpoints, [("1 of 5", "run the model", "4")])
    check_warning("thread:4+", checkpoints, [("3 of 5", "run the model", "2")])
    if "images" in FEATURES:
        check_warning("thread:1+", [*profile, "--data", have.png, "--image", IMAGE], [hashing, ("5 of 5", "run the model", "1"), ("4 of 4", "read ahead", "1")])


def main():
    table = Table("threads")
    with folder() as inputs, folder() as out, folder() as own:
        have = Inputs(inputs)
        check_warnings(have, out)
        for job in jobs(have, out):
            with Survivors(PRELOAD, own, job) as sweep:
                calls = sweep.calls["thread"]
                assert calls, f"{job.name} starts no threads"
                table.add(sweep, calls, [f"thread:{n}{more}" for n in range(1, calls + 1) for more in ("", "+")])
    sys.exit(table.end())


if __name__ == "__main__":
    main()
