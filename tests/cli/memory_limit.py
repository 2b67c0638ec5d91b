# SPDX-License-Identifier: Apache-2.0
"""Runs of the program under a memory limit, which they must keep."""
import os
import subprocess

from cli import FEATURES, PROGRAM, Done

PROGRAM_ITSELF = 96  # MiB: its libraries, with threads
SECONDS = 10  # of a processor


def within(limit, *words, cwd):
    """A run in the folder `cwd` with --memory-limit, in MiB, that keeps it and SECONDS."""
    out, err = os.path.join(cwd, "out"), os.path.join(cwd, "err")
    with open(out, "wb") as to, open(err, "wb") as errors:
        process = subprocess.Popen([PROGRAM, *map(str, words), "--memory-limit", f"{limit}M"], cwd=cwd,
                                   stdin=subprocess.DEVNULL, stdout=to, stderr=errors)
        status, usage = os.wait4(process.pid, 0)[1:]
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout, process.stderr = open(out).read(), open(err, errors="surrogateescape").read()
    done = Done(words, process)
    if "sanitized" not in FEATURES:
        assert usage.ru_maxrss >> 10 < limit + PROGRAM_ITSELF, f"{usage.ru_maxrss >> 10} MiB: {done}"
        assert usage.ru_utime + usage.ru_stime < SECONDS, done
    return done
