# SPDX-License-Identifier: Apache-2.0
"""Threads that cannot start, the n-th or all from the n-th on: a command goes on with those that it has and ends with the same
bytes, or with status 4 and one line.

usage: test_threads.py PROGRAM SOURCE_ROOT FEATURES PRELOAD

Prints a table.
"""
import sys

from test_alloc import IMAGE, PRELOAD, Inputs, Table
from cli import FEATURES, folder
from injected import Job, Sweep

THREADS = ["--threads", 4, "--batch", 1, "--quiet"]


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
    yield Job("link-numbers", ["link", have.profiles[0], have.small, "--numbers", "--original", have.net, *run, "-o", out / "k.json"],
              [out / "k.json"])
    yield Job("bench", ["bench", have.net, *run, "--repeat", 1, "--seconds", 0.001, "--json"], figures=True)


def main():
    table = Table("threads")
    with folder() as inputs, folder() as out, folder() as own:
        for job in jobs(Inputs(inputs), out):
            with Sweep(PRELOAD, own, job) as sweep:
                calls = sweep.calls["thread"]
                assert calls, f"{job.name} starts no threads"
                table.add(sweep, calls, [f"thread:{n}{more}" for n in range(1, calls + 1) for more in ("", "+")])
    sys.exit(table.end())


if __name__ == "__main__":
    main()
