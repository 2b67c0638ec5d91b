# SPDX-License-Identifier: Apache-2.0
"""`mpirun tidemark profile --checkpoint FILE`: PROGRAM SOURCE_ROOT FEATURES. A job of which a rank, or all, were killed or
stopped goes on with any number of ranks, and ends with the bytes of a run that nobody disturbed."""
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from mpi import SECONDS, lines_of, mpirun, need_mpirun, ranks_of, start, without_mpi

PROGRAM, BUNDLE, FEATURES = sys.argv[1], Path(sys.argv[2]) / "bundle", set(sys.argv[3].split(","))
MODEL, DATA = BUNDLE / "digits.onnx", BUNDLE / "digits.npy"
DONE, ANSWER_NO, WRONG_CALL, BAD_INPUT, MACHINE = range(5)
FORMATS = ["json", "h5"] if "hdf5" in FEATURES else ["json"]
STEPS = (("--batch", 3), ("--batch", 4, "--skip", 5, "--sample-every", 3))
TIMES = 8 if "sanitized" in FEATURES else 40  # the pictures over and over: a second or so of work for one thread
STEP = 2 if "sanitized" in FEATURES else 1  # through lists of cases


def long_data(path, times=TIMES):
    content, target = DATA.read_bytes(), path / "x.npy"
    start_of_floats = 10 + int.from_bytes(content[8:10], "little")
    header = content[10:start_of_floats].decode("latin-1")
    samples = int(header.split("'shape': (")[1].split(",")[0])
    header = header.replace(f"({samples},", f"({samples * times},").rstrip().ljust(start_of_floats - 11) + "\n"
    target.write_bytes(content[:10] + header.encode("latin-1") + content[start_of_floats:] * times)
    return target


def words(path, name, data, *more):
    outputs = [word for end in FORMATS for word in ("-o", path / f"{name}.{end}")]
    return [PROGRAM, "profile", MODEL, "--data", data, "--threads", 1, *outputs, *more]


def kept(path, name, data, *more, every="0.05s"):
    return words(path, name, data, *more, "--checkpoint", path / "c", "--every", every)


def undisturbed(path, data, *more):
    done = without_mpi(words(path, "alone", data, *more))
    assert done.returncode == DONE, done.stderr


def same(path):
    for end in FORMATS:
        assert (path / f"team.{end}").read_bytes() == (path / f"alone.{end}").read_bytes(), end
        (path / f"team.{end}").unlink()
    assert not (path / "c").exists(), "the checkpoint is still there"


def wait_for(path, job):
    until = time.monotonic() + SECONDS
    while not path.exists():
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.002)


def end(job):
    said = job.communicate(timeout=SECONDS)[1]
    return job.returncode, said


def goes_on(path, ranks, data, *more):
    """A job of so many ranks, or a single process, from the checkpoint to the end."""
    command = kept(path, "team", data, *more)
    done = mpirun([(ranks, command)]) if ranks else without_mpi(command)
    assert done.returncode == DONE, done.stderr
    assert "going on from a checkpoint: " in done.stderr, done.stderr
    same(path)


def checkpoints_do_not_show(path):
    data = long_data(path)
    for more in ((), *STEPS, ("--kind", "range"))[::STEP]:
        undisturbed(path, data, *more)
        for ranks in (2, 3):
            done = mpirun([(ranks, kept(path, "team", data, *more, every="0.02s"))])
            assert done.returncode == DONE and "checkpoints took" in done.stderr, done.stderr
            same(path)


def a_killed_rank_takes_the_job_but_not_what_is_done(path):
    data, random_ = long_data(path), random.Random(0)
    undisturbed(path, data, *STEPS[0])
    for victims, then in (([0], 2), ([1], 1), ([2], 3), ([0, 1, 2], None), ([0, 1, 2], 3))[::STEP]:
        job = start([(3, kept(path, "team", data, *STEPS[0]))])
        wait_for(path / "c", job)
        ranks = ranks_of(job)
        assert sorted(ranks) == [0, 1, 2], ranks
        time.sleep(random_.uniform(0, 0.1))
        for rank in victims:
            os.kill(ranks[rank], signal.SIGKILL)
        status, said = end(job)
        assert status != DONE and not list(path.glob("team.*")), (status, said)
        goes_on(path, then, data, *STEPS[0])


def again_and_again(path):
    data, random_ = long_data(path), random.Random(1)
    undisturbed(path, data, *STEPS[1])
    killed = resumed = 0
    while True:
        job = start([(random_.randint(1, 3), kept(path, "team", data, *STEPS[1], every="0.02s"))])
        time.sleep(random_.uniform(0.2, 0.5))
        number = random_.choice((signal.SIGKILL, signal.SIGTERM))
        for pid in list(ranks_of(job).values())[:1 if number == signal.SIGTERM else 3] if killed < 8 // STEP else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        status, said = end(job)
        resumed += "going on from a checkpoint" in said
        if status == DONE:
            break
        killed += 1
        assert killed <= 8 // STEP, said
    same(path)
    print(f"# killed {killed} times, went on {resumed} times")


def one_rank_that_is_asked_stops_all(path):
    data = long_data(path)
    undisturbed(path, data)
    for asked in (0, 1, 2)[::STEP]:
        job = start([(3, kept(path, "team", data))])
        wait_for(path / "c", job)
        os.kill(ranks_of(job)[asked], signal.SIGTERM)
        status, said = end(job)
        told = [line for line in said.splitlines() if line.startswith("tidemark")]
        assert status == 128 + signal.SIGTERM and len(told) == 1, (status, said)
        assert "stopped, with " in told[0] and str(path / "c") in told[0], said
        assert not list(path.glob("team.*")), "a profile was left"
        goes_on(path, asked or None, data)


def the_launcher_can_be_asked(path):
    data = long_data(path, 3 * TIMES)
    undisturbed(path, data)
    job = start([(2, kept(path, "team", data))])
    wait_for(path / "c", job)
    job.send_signal(signal.SIGTERM)  # which it passes on a second later, or not at all
    status, said = end(job)
    if (path / "c").exists():
        assert status != DONE and not list(path.glob("team.*")), (status, said)
        goes_on(path, 2, data)
    else:
        same(path)


def a_checkpoint_of_another_run_is_refused(path):
    data = long_data(path)
    job = start([(2, kept(path, "team", data, *STEPS[0]))])
    wait_for(path / "c", job)
    os.kill(ranks_of(job)[1], signal.SIGTERM)
    end(job)
    before = (path / "c").read_bytes()
    done = mpirun([(2, kept(path, "team", data, *STEPS[1]))])
    told = lines_of(done, "tidemark")
    assert done.returncode == BAD_INPUT and len(told) == 1 and "another run" in told[0], done.stderr
    assert (path / "c").read_bytes() == before and not list(path.glob("team.*"))


def one_that_cannot_be_written(path):
    done = mpirun([(2, words(path, "team", DATA, "--checkpoint", path / "gone" / "c"))])
    told = lines_of(done, "tidemark")
    assert done.returncode == MACHINE and len(told) == 1 and "gone" in told[0] and not list(path.iterdir()), done.stderr


need_mpirun(FEATURES)
for test in (checkpoints_do_not_show, a_killed_rank_takes_the_job_but_not_what_is_done, again_and_again,
             one_rank_that_is_asked_stops_all, the_launcher_can_be_asked, a_checkpoint_of_another_run_is_refused,
             one_that_cannot_be_written):
    with tempfile.TemporaryDirectory() as folder:
        test(Path(folder))
    print("ok", test.__name__.replace("_", " "), flush=True)
