# SPDX-License-Identifier: Apache-2.0
"""A made-up run by teams of several sizes: TOOL FEATURES. The shares are seen, speeds differ, ranks fail at every stage."""
import re
import sys
import tempfile
from pathlib import Path

from mpi import lines_of, mpirun, need_mpirun, without_mpi

TOOL, FEATURES = sys.argv[1], set(sys.argv[2].split(","))
FORMAT = 4  # TMK_FORMAT
MISMATCH = 12
ATTEMPTS = 20  # on a machine that is busy with other things every rank is slow at times


def words(out, samples, slow=-1, failing=-1, when="never"):
    return [TOOL, out, samples, slow, failing, when]


def shares(done):
    return sorted(int(m[1]) for m in re.finditer(r"did (\d+) samples", done.stderr))


def equal_bytes_whatever_the_ranks(path):
    for samples in (1, 5, 200):
        alone, team = path / "alone.json", path / "team.json"
        assert without_mpi(words(alone, samples)).returncode == 0
        for ranks in (1, 2, 3, 4, 7):
            done = mpirun([(ranks, words(team, samples))])
            assert done.returncode == 0, done.stderr
            assert team.read_bytes() == alone.read_bytes(), (samples, ranks)
            assert sum(shares(done)) == samples and len(shares(done)) == ranks, done.stderr
            team.unlink()


def slow_ranks_get_less(path):
    assert without_mpi(words(path / "alone.json", 900)).returncode == 0
    for slow in (0, 2):
        for _ in range(ATTEMPTS):
            done = mpirun([(3, words(path / "team.json", 900, slow))])
            assert done.returncode == 0, done.stderr
            assert (path / "team.json").read_bytes() == (path / "alone.json").read_bytes()
            least, middle, most = shares(done)
            if least < 150 and middle > 300:
                break
        else:
            raise AssertionError(done.stderr)


def a_failure_anywhere_ends_all_with_one_line(path):
    for when in ("start", "run", "gather", "end"):
        for failing in (0, 1, 4):
            done = mpirun([(5, words(path / "team.json", 300, 3, failing, when))])
            assert done.returncode == FORMAT, (when, failing, done)
            assert lines_of(done, "tool:") == [f"tool: rank {failing}: made to fail at '{when}'"], done.stderr
            # rank 0 has written before a later rank says that it failed at the end
            assert not (path / "team.json").exists() or (when == "end" and failing)
            (path / "team.json").unlink(missing_ok=True)


def other_work_is_refused(path):
    done = mpirun([(3, words(path / "team.json", 300, -1, 2, "other"))])
    assert done.returncode == MISMATCH, done
    said = lines_of(done, "tool:")
    assert len(said) == 1 and "rank 2: has other data or options" in said[0] and "up to 299" in said[0], done.stderr


need_mpirun(FEATURES)
for test in (equal_bytes_whatever_the_ranks, slow_ranks_get_less, a_failure_anywhere_ends_all_with_one_line,
             other_work_is_refused):
    with tempfile.TemporaryDirectory() as folder:
        test(Path(folder))
    print("ok", test.__name__.replace("_", " "), flush=True)
