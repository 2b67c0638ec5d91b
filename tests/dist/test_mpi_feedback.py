# SPDX-License-Identifier: Apache-2.0
"""`mpirun tidemark profile --feedback`: ranks get whole sequences, so that the profile does not depend on their number."""
import os
import signal

# First: it finds the modules of tests/cli.
from mpi import SECONDS, lines_of, mpirun, ranks_of, start, wait_for, without_mpi

from cli import DONE, PROGRAM, WRONG_CALL, main
from running_sum import LOOP, numbers, running_sum, save


def check_equal(path):
    assert (path / "team.json").read_bytes() == (path / "alone.json").read_bytes()


def words(path, steps=2000):
    return [PROGRAM, "profile", running_sum(path), "--data", save(path / "x.npy", numbers(steps)), *LOOP]


def test_profiles_of_any_number_of_ranks_are_equal(path):
    for rule in ("every=7", "every=600"):
        run = [*words(path), "--reset", rule]
        without_mpi([*run, "-o", path / "alone.json"]).expect(DONE)
        for ranks in (2, 3):
            mpirun([(ranks, [*run, "--threads", 1, "-o", path / "team.json"])]).expect(DONE)
            check_equal(path)


def test_killed_job_can_be_resumed(path):
    run = [*words(path, 40000), "--reset", "every=50"]
    without_mpi([*run, "-o", path / "alone.json"]).expect(DONE)
    run += ["--threads", 1, "--checkpoint", path / "c", "--every", "0.02s", "-o", path / "team.json"]
    job = start([(2, run)])
    wait_for(path / "c", job)
    for process in ranks_of(job).values():
        os.kill(process, signal.SIGKILL)
    job.communicate(timeout=SECONDS)
    mpirun([(3, run)]).expect(DONE)
    check_equal(path)


def test_one_sequence_for_several_ranks_is_refused(path):
    done = mpirun([(2, [*words(path), "-o", path / "no.json"])]).expect(WRONG_CALL)
    said = lines_of(done.err)
    assert len(said) == 1 and "runs in one process" in said[0], done
    assert not (path / "no.json").exists()


main()
