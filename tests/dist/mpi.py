# SPDX-License-Identifier: Apache-2.0
"""Starting programs under mpirun, for the tests; skips the whole test where that can't be done."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

SECONDS = 600 if "sanitized" in sys.argv[-1] else 120
SKIPPED = 77


def need_mpirun(features):
    if "mpi" not in features:
        print("skipped: this build has no MPI")
        sys.exit(SKIPPED)
    if not shutil.which("mpirun"):
        print("skipped: there is no mpirun")
        sys.exit(SKIPPED)
    try:
        done = mpirun([(2, ["true"])], seconds=30)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode:
        print("skipped: mpirun can't start two processes here:", done and done.stderr[-500:])
        sys.exit(SKIPPED)


def prepared(groups):
    """The words of a job, and the environment to start it in. groups: (how many, words of the program) one after the other,
    ranks in this order."""
    words = ["mpirun", "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    for i, (count, program) in enumerate(groups):
        words += ([":"] if i else []) + ["-n", str(count), *map(str, program)]
    # what a machine without a network says of itself, and leaks of MPI's own, are not our matter
    environment = dict(os.environ, OMPI_MCA_btl="self,vader,tcp", OMPI_MCA_btl_base_warn_component_unused="0",
                       ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    environment.setdefault("TMPDIR", "/tmp")
    return words, environment


def mpirun(groups, seconds=SECONDS, **options):
    words, environment = prepared(groups)
    return subprocess.run(words, capture_output=True, text=True, timeout=seconds, env=environment, **options)


def start(groups):
    """A job that goes on by itself."""
    words, environment = prepared(groups)
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def ranks_of(job):
    """The processes of a job on this machine, by rank, as far as they run yet."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (entry / "environ").read_bytes().split(b"\0") if parent == job.pid else []
        except OSError:  # it has ended
            continue
        for variable in variables:
            name, _, value = variable.partition(b"=")
            if name == b"OMPI_COMM_WORLD_RANK":
                found[int(value)] = int(entry.name)
    return found


def without_mpi(words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS, **options)


def lines_of(done, start):
    """What our program said: the lines that start so."""
    return [line for line in done.stderr.splitlines() if line.startswith(start)]
