# SPDX-License-Identifier: Apache-2.0
"""`mpirun tidemark profile --feedback`: PROGRAM SOURCE_ROOT FEATURES. Whole sequences are handed out, so that ranks don't show."""
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from mpi import SECONDS, lines_of, mpirun, need_mpirun, ranks_of, start, without_mpi
from test_feedback import LOOP, numbers, running_sum, save

PROGRAM, WRONG_CALL = sys.argv[1], 2

need_mpirun(set(sys.argv[3].split(",")))
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder)
    words = [PROGRAM, "profile", running_sum(path), "--data", save(path / "x.npy", numbers(2000)), *LOOP]
    for rule in ("every=7", "every=600"):
        done = without_mpi([*words, "--reset", rule, "-o", path / "alone.json"])
        assert done.returncode == 0, done
        for ranks in (2, 3):
            done = mpirun([(ranks, [*words, "--reset", rule, "--threads", 1, "-o", path / "team.json"])])
            assert done.returncode == 0, done
            assert (path / "team.json").read_bytes() == (path / "alone.json").read_bytes(), (rule, ranks)
    long = [*words[:3], "--data", save(path / "long.npy", numbers(40000)), *LOOP, "--reset", "every=50"]
    done = without_mpi([*long, "-o", path / "alone.json"])
    assert done.returncode == 0, done
    keeping = [*long, "--threads", 1, "--checkpoint", path / "c", "--every", "0.02s", "-o", path / "team.json"]
    job = start([(2, keeping)])
    while not (path / "c").exists() and job.poll() is None:
        time.sleep(0.002)
    for process in ranks_of(job).values():
        os.kill(process, signal.SIGKILL)
    job.communicate(timeout=SECONDS)
    done = mpirun([(3, keeping)])
    assert done.returncode == 0, done
    assert (path / "team.json").read_bytes() == (path / "alone.json").read_bytes()
    done = mpirun([(2, [*words, "-o", path / "no.json"])])
    said = lines_of(done, "tidemark")
    assert done.returncode == WRONG_CALL and len(said) == 1 and "runs in one process" in said[0], done
    assert not (path / "no.json").exists()
