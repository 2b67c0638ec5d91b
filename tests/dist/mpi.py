# SPDX-License-Identifier: Apache-2.0
"""Starting programs under mpirun, for the tests; skips the whole test where that can't be done."""
import os
import shutil
import subprocess
import sys

SECONDS = 120
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


def mpirun(groups, seconds=SECONDS, **options):
    """groups: (how many, words of the program) one after the other, ranks in this order."""
    words = ["mpirun", "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    for i, (count, program) in enumerate(groups):
        words += ([":"] if i else []) + ["-n", str(count), *map(str, program)]
    # what a machine without a network says of itself, and leaks of MPI's own, are not our matter
    environment = dict(os.environ, OMPI_MCA_btl="self,vader,tcp", OMPI_MCA_btl_base_warn_component_unused="0",
                       ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    environment.setdefault("TMPDIR", "/tmp")
    return subprocess.run(words, capture_output=True, text=True, timeout=seconds, env=environment, **options)


def without_mpi(words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS, **options)


def lines_of(done, start):
    """What our program said: the lines that start so."""
    return [line for line in done.stderr.splitlines() if line.startswith(start)]
