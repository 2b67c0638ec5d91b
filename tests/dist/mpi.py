# SPDX-License-Identifier: Apache-2.0
"""Runs programs under mpirun. A test file is started as FILE.py PROGRAM SOURCE_ROOT FEATURES TEAM_TOOL."""
import functools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
from cli import DIGITS, FEATURES, PICTURES, PROGRAM, Done, skip  # noqa: E402

SECONDS = 600 if "sanitized" in FEATURES else 120
FORMATS = ["json", "h5"] if "hdf5" in FEATURES else ["json"]


@functools.lru_cache(maxsize=None)
def reason_to_skip(programs=1):
    """Why mpirun cannot start two processes, of one program or of two; None if it can."""
    if "mpi" not in FEATURES:
        return "the build has no mpi"
    if not shutil.which("mpirun"):
        return "there is no mpirun"
    words, environment = command([(2 // programs, ["true"])] * programs)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, env=environment)
    except subprocess.TimeoutExpired:
        return "mpirun does not start two processes in 30 s"
    what = "processes" if programs == 1 else "programs"
    return f"mpirun cannot start two {what}: status {done.returncode} {done.stderr[-500:]}" if done.returncode else None


def need_mpirun(groups=()):
    reason = reason_to_skip(min(max(len(groups), 1), 2))
    if reason:
        skip(reason)


@functools.lru_cache(maxsize=None)
def transports():
    """Of Open MPI; the one for shared memory has another name from release 5 on."""
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"Open MPI\) (\d+)", said)
    return "self,sm" if release and int(release[1]) >= 5 else "self,vader,tcp"


def command(groups):
    """The words of a job, and its environment. groups: (number of ranks, words of the program), in the order of ranks."""
    words = ["mpirun", "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    for i, (count, program) in enumerate(groups):
        words += ([":"] if i else []) + ["-n", str(count), *map(str, program)]
    # no warnings about a missing network, and no reports of leaks in MPI itself
    environment = dict(os.environ, OMPI_MCA_btl=transports(), OMPI_MCA_btl_base_warn_component_unused="0",
                       ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    environment.setdefault("TMPDIR", "/tmp")
    return words, environment


# Open MPI itself sometimes fails to start while other jobs start; nothing of ours has run then.
ATTEMPTS = 3


def mpirun(groups, **options):
    need_mpirun(groups)
    words, environment = command(groups)
    for _ in range(ATTEMPTS):
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, env=environment, **options)
        if done.returncode == 0 or "orte_init failed" not in done.stderr:
            break
    return Done(words, done)


def start(groups):
    """A running job."""
    need_mpirun(groups)
    words, environment = command(groups)
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
    return Done(words, subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS, **options))


def lines_of(text, start="tidemark"):
    """Lines that the program wrote, not mpirun."""
    return [line for line in text.splitlines() if line.startswith(start)]


def wait_for(path, job):
    """Until the file exists, while the job runs."""
    until = time.monotonic() + SECONDS
    while not path.exists():
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.002)


def profile_words(path, name, *more, model=DIGITS, data=PICTURES, threads=1):
    """The words of a run that writes `name` in every format into the folder."""
    outputs = [word for end in FORMATS for word in ("-o", path / f"{name}.{end}")]
    return [PROGRAM, "profile", model, "--data", data, "--threads", threads, *outputs, *more]


def check_equal(path, done):
    """The profile of the team has the bytes of the one of a single process, and is removed."""
    for end in FORMATS:
        team = path / f"team.{end}"
        assert team.read_bytes() == (path / f"alone.{end}").read_bytes(), done
        team.unlink()
