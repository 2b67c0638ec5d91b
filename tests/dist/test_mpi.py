# SPDX-License-Identifier: Apache-2.0
"""`mpirun tidemark profile` against `tidemark profile`: PROGRAM SOURCE_ROOT FEATURES. The same bytes for any number of ranks, at
any speed; and one line, the right exit status and an end for all when a rank fails."""
import os
import sys
import tempfile
from pathlib import Path

from mpi import lines_of, mpirun, need_mpirun, without_mpi

PROGRAM, BUNDLE, FEATURES = sys.argv[1], Path(sys.argv[2]) / "bundle", set(sys.argv[3].split(","))
MODEL, DATA = BUNDLE / "digits.onnx", BUNDLE / "digits.npy"
DONE, ANSWER_NO, WRONG_CALL, BAD_INPUT, MACHINE = range(5)
FORMATS = ["json", "h5"] if "hdf5" in FEATURES else ["json"]


def words(path, name, *more, model=MODEL, data=DATA, threads=1):
    outputs = [word for end in FORMATS for word in ("-o", path / f"{name}.{end}")]
    return [PROGRAM, "profile", model, "--data", data, "--threads", threads, *outputs, *more]


def same_as_alone(path, groups):
    done = mpirun(groups)
    assert done.returncode == DONE, done.stderr
    for end in FORMATS:
        team = path / f"team.{end}"
        assert team.read_bytes() == (path / f"alone.{end}").read_bytes(), (groups, done.stderr)
        team.unlink()
    return done


def alone(path, *more):
    done = without_mpi(words(path, "alone", *more))
    assert done.returncode == DONE, done.stderr


def floats_replaced(source, target, begin, bits):
    """A copy of a .npy whose floats are `bits` from element `begin` on."""
    content = bytearray(source.read_bytes())
    start = 10 + int.from_bytes(content[8:10], "little")
    n = (len(content) - start) // 4
    begin = begin if begin >= 0 else n + begin
    content[start + 4 * begin:] = bits * (n - begin)
    target.write_bytes(content)


def fails(path, groups, status, *texts):
    done = mpirun(groups)
    said = lines_of(done, "tidemark")
    assert done.returncode == status, (groups, done)
    assert len(said) == 1, done.stderr
    for text in texts:
        assert str(text) in said[0], (text, said)
    assert not list(path.glob("team.*")), "a profile was left"


def the_bytes_do_not_depend_on_the_ranks(path):
    alone(path)
    for ranks in (1, 2, 3, 5):
        done = same_as_alone(path, [(ranks, words(path, "team"))])
        assert done.stderr.count("values: ") == 1 and done.stderr.count("wrote ") == len(FORMATS), done.stderr
        assert (f"on {ranks} ranks" in done.stderr) == (ranks > 1), done.stderr


def nor_do_they_with_options(path):
    for more in (("--batch", 7), ("--batch", 4, "--skip", 5, "--limit", 333, "--sample-every", 3), ("--limit", 1),
                 ("--limit", 3, "--kind", "range")):
        alone(path, *more)
        for ranks in (2, 5):
            same_as_alone(path, [(ranks, words(path, "team", *more))])


def speeds_may_differ(path):
    alone(path)
    slow = ["nice", "-n", "19"]
    same_as_alone(path, [(1, words(path, "team", threads=3)), (1, slow + words(path, "team")), (1, words(path, "team"))])
    same_as_alone(path, [(1, slow + words(path, "team")), (2, words(path, "team", threads=2))])


def quiet_is_quiet(path):
    done = mpirun([(2, words(path, "team", "--quiet"))])
    assert done.returncode == DONE and not done.stderr and not done.stdout, done


def a_missing_file_on_one_rank(path):
    for rank in (0, 1, 2):
        for broken in ({"model": path / "gone.onnx"}, {"data": path / "gone.npy"}):
            groups = [(1, words(path, "team", **(broken if i == rank else {}))) for i in range(3)]
            fails(path, groups, BAD_INPUT, f"rank {rank}: ", next(iter(broken.values())))


def a_nan_where_that_is_to_stop_the_run(path):
    bad = path / "nan.npy"
    floats_replaced(DATA, bad, -1, b"\0\0\xc0\x7f")
    fails(path, [(4, words(path, "team", "--nan", "fail", data=bad))], ANSWER_NO, "sample 1796", "NaN")
    floats_replaced(DATA, bad, 0, b"\0\0\xc0\x7f")
    fails(path, [(4, words(path, "team", "--nan", "fail", data=bad))], ANSWER_NO, "rank ", "NaN")


def an_output_that_cannot_be_written(path):
    fails(path, [(3, words(path / "gone", "team"))], MACHINE, "rank 0: ", path / "gone")


def other_data_on_one_rank(path):
    other = path / "other.npy"
    floats_replaced(DATA, other, -5, b"\0\0\0\0")
    fails(path, [(2, words(path, "team")), (1, words(path, "team", data=other))], BAD_INPUT, "rank 2")
    fails(path, [(1, words(path, "team")), (1, words(path, "team", "--limit", 100))], BAD_INPUT,
          "rank 1: has other data or options than rank 0")


def nothing_to_run(path):
    fails(path, [(3, words(path, "team", "--skip", 5000))], WRONG_CALL, "skipping 5000 leaves none")


def a_stream_is_for_one_process(path):
    with DATA.open("rb") as pipe:
        done = mpirun([(2, words(path, "team", data="-"))], stdin=pipe)
    said = lines_of(done, "tidemark")
    assert done.returncode == WRONG_CALL and len(said) == 1 and "standard input can feed one process" in said[0], done


def strata_are_for_one_process(path):
    (path / "labels.csv").write_text("a\nb\n" * 1000)
    fails(path, [(2, words(path, "team", "--strata", path / "labels.csv"))], WRONG_CALL, "strata are for one process")


def a_wrong_call_is_told_once(path):
    done = mpirun([(3, words(path, "team", "--bogus"))])
    assert done.returncode == WRONG_CALL and len(lines_of(done, "tidemark profile: ")) == 1, done


def shards_are_on_their_own(path):
    groups = [(1, words(path, f"shard-{k}", "--shard", f"{k}/2")) for k in (1, 2)]
    done = mpirun(groups)
    assert done.returncode == DONE, done.stderr
    alone(path)
    done = without_mpi([PROGRAM, "merge", path / "shard-1.json", path / "shard-2.json", "-o", path / "merged.json"])
    assert done.returncode == DONE, done.stderr
    assert (path / "merged.json").read_bytes() == (path / "alone.json").read_bytes()


def without_others_mpi_is_not_started(path):
    alone(path)
    done = without_mpi(words(path, "team"), env=dict(os.environ, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1"))
    assert done.returncode == DONE and "on 1 threads" in done.stderr, done
    assert (path / "team.json").read_bytes() == (path / "alone.json").read_bytes()


def a_build_without_mpi_says_so(path):
    for rank in range(2):
        done = without_mpi(words(path, "team"), env=dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2"))
        assert done.returncode == BAD_INPUT and not list(path.iterdir()), done
        assert len(lines_of(done, "tidemark: ")) == (rank == 0) and (rank or "without MPI" in done.stderr), done


def run_all(*tests):
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder))
        print("ok", test.__name__.replace("_", " "), flush=True)


run_all(without_others_mpi_is_not_started)
if "mpi" not in FEATURES:
    run_all(a_build_without_mpi_says_so)
need_mpirun(FEATURES)
run_all(the_bytes_do_not_depend_on_the_ranks, nor_do_they_with_options, speeds_may_differ, quiet_is_quiet,
        a_missing_file_on_one_rank, a_nan_where_that_is_to_stop_the_run, an_output_that_cannot_be_written,
        other_data_on_one_rank, nothing_to_run, a_stream_is_for_one_process, strata_are_for_one_process,
        a_wrong_call_is_told_once, shards_are_on_their_own)
