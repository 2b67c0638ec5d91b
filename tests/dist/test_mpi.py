# SPDX-License-Identifier: Apache-2.0
"""`mpirun tidemark profile` gives the bytes of `tidemark profile` for any number of ranks, at any speed; when a rank fails, all
end, with one line and its exit status."""
import os

# First: it finds the modules of tests/cli.
from mpi import FORMATS, check_equal, lines_of, mpirun, profile_words, without_mpi

from cli import ANSWER_NO, BAD_INPUT, DONE, FEATURES, MACHINE, PICTURES, PROGRAM, WRONG_CALL, main, skip, subset


def run_team(path, groups):
    done = mpirun(groups).expect(DONE)
    check_equal(path, done)
    return done


def run_alone(path, *more):
    without_mpi(profile_words(path, "alone", *more)).expect(DONE)


def floats_replaced(source, target, begin, bits):
    """A copy of a .npy whose floats are `bits` from element `begin` on."""
    content = bytearray(source.read_bytes())
    start = 10 + int.from_bytes(content[8:10], "little")
    n = (len(content) - start) // 4
    begin = begin if begin >= 0 else n + begin
    content[start + 4 * begin:] = bits * (n - begin)
    target.write_bytes(content)


def check_failure(path, groups, status, *texts):
    done = mpirun(groups).expect(status)
    said = lines_of(done.err)
    assert len(said) == 1 and all(str(text) in said[0] for text in texts), done
    assert not list(path.glob("team.*")), "a profile was left"


def test_profiles_of_any_number_of_ranks_are_equal(path):
    run_alone(path)
    for ranks in subset((1, 2, 3, 5)):
        done = run_team(path, [(ranks, profile_words(path, "team"))])
        assert done.err.count("values: ") == 1 and done.err.count("wrote ") == len(FORMATS), done.err
        assert (f"on {ranks} ranks" in done.err) == (ranks > 1), done.err


def test_options_give_equal_profiles_too(path):
    for more in (("--batch", 7), ("--batch", 4, "--skip", 5, "--limit", 333, "--sample-every", 3), ("--limit", 1),
                 ("--limit", 3, "--kind", "range")):
        run_alone(path, *more)
        for ranks in subset((2, 5)):
            run_team(path, [(ranks, profile_words(path, "team", *more))])


def test_ranks_of_different_speed_give_equal_profiles(path):
    run_alone(path)
    slow = ["nice", "-n", "19"]
    run_team(path, [(1, profile_words(path, "team", threads=3)), (1, slow + profile_words(path, "team")), (1, profile_words(path, "team"))])
    run_team(path, [(1, slow + profile_words(path, "team")), (2, profile_words(path, "team", threads=2))])


def test_quiet_prints_nothing(path):
    done = mpirun([(2, profile_words(path, "team", "--quiet"))])
    assert done.status == DONE and not done.err and not done.out, done


def test_missing_file_on_one_rank_is_reported_with_the_rank(path):
    for rank in subset((0, 1, 2)):
        for broken in ({"model": path / "gone.onnx"}, {"data": path / "gone.npy"}):
            groups = [(1, profile_words(path, "team", **(broken if i == rank else {}))) for i in range(3)]
            check_failure(path, groups, BAD_INPUT, f"rank {rank}: ", next(iter(broken.values())))


def test_nan_fail_ends_all_ranks(path):
    bad = path / "nan.npy"
    floats_replaced(PICTURES, bad, -1, b"\0\0\xc0\x7f")
    check_failure(path, [(4, profile_words(path, "team", "--nan", "fail", data=bad))], ANSWER_NO, "sample 1796", "NaN")
    floats_replaced(PICTURES, bad, 0, b"\0\0\xc0\x7f")
    check_failure(path, [(4, profile_words(path, "team", "--nan", "fail", data=bad))], ANSWER_NO, "rank ", "NaN")


def test_unwritable_output_is_reported(path):
    check_failure(path, [(3, profile_words(path / "gone", "team"))], MACHINE, "rank 0: ", path / "gone")


def test_different_data_or_options_of_a_rank_are_refused(path):
    other = path / "other.npy"
    floats_replaced(PICTURES, other, -5, b"\0\0\0\0")
    check_failure(path, [(2, profile_words(path, "team")), (1, profile_words(path, "team", data=other))], BAD_INPUT, "rank 2")
    check_failure(path, [(1, profile_words(path, "team")), (1, profile_words(path, "team", "--limit", 100))], BAD_INPUT,
          "rank 1: has other data or options than rank 0")


def test_empty_selection_is_refused(path):
    check_failure(path, [(3, profile_words(path, "team", "--skip", 5000))], WRONG_CALL, "skipping 5000 leaves none")


def test_stream_is_refused(path):
    with PICTURES.open("rb") as pipe:
        done = mpirun([(2, profile_words(path, "team", data="-"))], stdin=pipe)
    said = lines_of(done.expect(WRONG_CALL).err)
    assert len(said) == 1 and "standard input can feed one process" in said[0], done


def test_strata_are_refused(path):
    (path / "labels.csv").write_text("a\nb\n" * 1000)
    check_failure(path, [(2, profile_words(path, "team", "--strata", path / "labels.csv"))], WRONG_CALL, "strata are for one process")


def test_usage_error_is_printed_once(path):
    done = mpirun([(3, profile_words(path, "team", "--bogus"))])
    assert done.status == WRONG_CALL and len(lines_of(done.err, "tidemark profile: ")) == 1, done


def test_ranks_may_run_shards(path):
    groups = [(1, profile_words(path, f"shard-{k}", "--shard", f"{k}/2")) for k in (1, 2)]
    mpirun(groups).expect(DONE)
    run_alone(path)
    without_mpi([PROGRAM, "merge", path / "shard-1.json", path / "shard-2.json", "-o", path / "merged.json"]).expect(DONE)
    assert (path / "merged.json").read_bytes() == (path / "alone.json").read_bytes()


def test_single_rank_does_not_start_mpi(path):
    run_alone(path)
    done = without_mpi(profile_words(path, "team"), env=dict(os.environ, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1"))
    assert done.status == DONE and "on 1 threads" in done.err, done
    assert (path / "team.json").read_bytes() == (path / "alone.json").read_bytes()


def test_build_without_mpi_reports_it(path):
    if "mpi" in FEATURES:
        skip("the build has mpi")
    for rank in range(2):
        done = without_mpi(profile_words(path, "team"), env=dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2"))
        assert done.status == BAD_INPUT and not list(path.iterdir()), done
        assert len(lines_of(done.err, "tidemark: ")) == (rank == 0) and (rank or "without MPI" in done.err), done


main()
