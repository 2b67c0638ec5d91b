# SPDX-License-Identifier: Apache-2.0
"""`mpirun tidemark profile --checkpoint FILE`: a job that was killed or stopped, or one rank of it, can be resumed with any number
of ranks, and writes the bytes of an uninterrupted run."""
import contextlib
import os
import random
import signal
import time

# First: it finds the modules of tests/cli.
from mpi import SECONDS, check_equal, lines_of, mpirun, profile_words, ranks_of, start, wait_for, without_mpi

import sources
from cli import BAD_INPUT, DONE, FEATURES, MACHINE, main, subset

STEPS = (("--batch", 3), ("--batch", 4, "--skip", 5, "--sample-every", 3))
TIMES = 8 if "sanitized" in FEATURES else 20  # the pictures over and over: half a second or so of work for one thread
KILLS = 4


def long_data(path, times=TIMES):
    return sources.npy(path / "x.npy", times)


def words(path, name, data, *more, every="0.05s"):
    return profile_words(path, name, *more, "--checkpoint", path / "c", "--every", every, data=data)


def run_alone(path, data, *more):
    without_mpi(profile_words(path, "alone", *more, data=data)).expect(DONE)


def check_finished(path, done):
    check_equal(path, done)
    assert not (path / "c").exists(), "the checkpoint is still there"


def end(job):
    said = job.communicate(timeout=SECONDS)[1]
    return job.returncode, said


def resume(path, ranks, data, *more):
    """A job of so many ranks, or a single process, from the checkpoint to the end."""
    command = words(path, "team", data, *more)
    done = mpirun([(ranks, command)]) if ranks else without_mpi(command)
    check_finished(path, done.expect(DONE, "resuming from a checkpoint: "))


def test_checkpoints_do_not_change_the_profile(path):
    data = long_data(path)
    for ranks, more in subset(((3, STEPS[0]), (2, STEPS[1]))):
        run_alone(path, data, *more)
        done = mpirun([(ranks, words(path, "team", data, *more, every="0.02s"))])
        check_finished(path, done.expect(DONE, "checkpoints took"))


def test_job_with_a_killed_rank_can_be_resumed(path):
    data, random_ = long_data(path), random.Random(0)
    run_alone(path, data, *STEPS[0])
    for victims, then in subset((([0], 2), ([2], 3), ([0, 1, 2], None)), 2):
        job = start([(3, words(path, "team", data, *STEPS[0]))])
        wait_for(path / "c", job)
        ranks = ranks_of(job)
        assert sorted(ranks) == [0, 1, 2], ranks
        time.sleep(random_.uniform(0, 0.1))
        for rank in victims:
            os.kill(ranks[rank], signal.SIGKILL)
        status, said = end(job)
        assert status != DONE and not list(path.glob("team.*")), (status, said)
        resume(path, then, data, *STEPS[0])


def test_job_that_is_killed_repeatedly_can_be_resumed(path):
    data, random_ = long_data(path), random.Random(1)
    run_alone(path, data, *STEPS[1])
    killed = resumed = 0
    while True:
        job = start([(random_.randint(1, 3), words(path, "team", data, *STEPS[1], every="0.02s"))])
        time.sleep(random_.uniform(0.2, 0.5))
        number = random_.choice((signal.SIGKILL, signal.SIGTERM))
        for pid in list(ranks_of(job).values())[:1 if number == signal.SIGTERM else 3] if killed < KILLS else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        status, said = end(job)
        resumed += "resuming from a checkpoint" in said
        if status == DONE:
            break
        killed += 1
        assert killed <= KILLS, said
    check_finished(path, said)
    return f"killed {killed} times, resumed {resumed} times"


def test_sigterm_to_one_rank_stops_all(path):
    data = long_data(path)
    run_alone(path, data)
    for asked in subset((0, 2)):
        job = start([(3, words(path, "team", data))])
        wait_for(path / "c", job)
        os.kill(ranks_of(job)[asked], signal.SIGTERM)
        status, said = end(job)
        told = lines_of(said)
        assert status == 128 + signal.SIGTERM and len(told) == 1, (status, said)
        assert "stopped, with " in told[0] and str(path / "c") in told[0], said
        assert not list(path.glob("team.*")), "a profile was left"
        resume(path, asked or None, data)


def test_sigterm_to_mpirun_stops_all(path):
    data = long_data(path, 3 * TIMES)
    run_alone(path, data)
    job = start([(2, words(path, "team", data))])
    wait_for(path / "c", job)
    job.send_signal(signal.SIGTERM)  # which it passes on a second later, or not at all
    status, said = end(job)
    if (path / "c").exists():
        assert status != DONE and not list(path.glob("team.*")), (status, said)
        resume(path, 2, data)
    else:
        check_finished(path, said)


def test_checkpoint_of_another_run_is_refused(path):
    data = long_data(path)
    job = start([(2, words(path, "team", data, *STEPS[0]))])
    wait_for(path / "c", job)
    os.kill(ranks_of(job)[1], signal.SIGTERM)
    end(job)
    before = (path / "c").read_bytes()
    done = mpirun([(2, words(path, "team", data, *STEPS[1]))]).expect(BAD_INPUT)
    told = lines_of(done.err)
    assert len(told) == 1 and "another run" in told[0], done
    assert (path / "c").read_bytes() == before and not list(path.glob("team.*"))


def test_unwritable_checkpoint_is_reported(path):
    done = mpirun([(2, profile_words(path, "team", "--checkpoint", path / "gone" / "c"))]).expect(MACHINE)
    told = lines_of(done.err)
    assert len(told) == 1 and "gone" in told[0] and not list(path.iterdir()), done


main()
