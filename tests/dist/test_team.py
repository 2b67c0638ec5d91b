# SPDX-License-Identifier: Apache-2.0
"""An invented run by teams of several sizes: work ranges follow the speed of ranks; ranks fail at every stage."""
import re
import sys

# First: it finds the modules of tests/cli.
from mpi import lines_of, mpirun, without_mpi

from cli import main, subset

TOOL = sys.argv[4]
FORMAT = 4  # TMK_FORMAT
MISMATCH = 12
ATTEMPTS = 20  # on a machine that is busy with other things every rank is slow at times


def words(out, samples, slow=-1, failing=-1, when="never"):
    return [TOOL, out, samples, slow, failing, when]


def shares(done):
    return sorted(int(m[1]) for m in re.finditer(r"did (\d+) samples", done.err))


def test_profiles_of_any_number_of_ranks_are_equal(path):
    for samples in subset((1, 200, 5), 2):
        alone, team = path / "alone.json", path / "team.json"
        without_mpi(words(alone, samples)).expect(0)
        for ranks in subset((1, 2, 3, 4, 7)):
            done = mpirun([(ranks, words(team, samples))]).expect(0)
            assert team.read_bytes() == alone.read_bytes(), (samples, ranks)
            assert sum(shares(done)) == samples and len(shares(done)) == ranks, done.err
            team.unlink()


def test_slow_ranks_get_fewer_samples(path):
    without_mpi(words(path / "alone.json", 900)).expect(0)
    for slow in (0, 2):
        for _ in range(ATTEMPTS):
            done = mpirun([(3, words(path / "team.json", 900, slow))]).expect(0)
            assert (path / "team.json").read_bytes() == (path / "alone.json").read_bytes()
            least, middle, most = shares(done)
            if least < 150 and middle > 300:
                break
        else:
            raise AssertionError(done.err)


def test_failure_at_any_stage_ends_all_ranks_with_one_line(path):
    for when in ("start", "run", "gather", "end"):
        for failing in subset((0, 1, 3)):
            done = mpirun([(4, words(path / "team.json", 300, 2, failing, when))]).expect(FORMAT)
            assert lines_of(done.err, "tool:") == [f"tool: rank {failing}: made to fail at '{when}'"], done.err
            # rank 0 has written before a later rank reports that it failed at the end
            assert not (path / "team.json").exists() or (when == "end" and failing)
            (path / "team.json").unlink(missing_ok=True)


def test_different_work_of_a_rank_is_refused(path):
    done = mpirun([(3, words(path / "team.json", 300, -1, 2, "other"))]).expect(MISMATCH)
    said = lines_of(done.err, "tool:")
    assert len(said) == 1 and "rank 2: has other data or options" in said[0] and "up to 299" in said[0], done.err


main()
