# SPDX-License-Identifier: Apache-2.0
"""`tidemark profile --shard K/N`: the parts of a run, merged, are the run, bit by bit."""
import onnx_bytes as onnx
import sources
from cli import BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, folder, main, needs, npy_bytes, subset, tidemark
from runs import check_shards, ledger, profile, read


def test_merged_shards_equal_the_run():
    for seed, (counts, more) in enumerate(subset((
            ((1, 2, 3, 7), []), ((7,), ["--batch", 16]), ((2,), ["--batch", 7, "--kind", "range"]), ((7,), ["--batch", 5, "--skip", 13]),
            ((3,), ["--sample-every", 3]), ((7,), ["--batch", 4, "--sample-every", 3, "--skip", 2, "--limit", 51])), 2)):
        with folder() as path:
            limit = [] if "--limit" in more else ["--limit", 120]
            check_shards(path, [DIGITS, "--data", PICTURES, *limit, *more], counts, seed, merges=2)


def test_shard_records_its_samples(path):
    words = [DIGITS, "--data", PICTURES, "--limit", 100, "--batch", 16]
    want = [(0, 32), (32, 64), (64, 100)]  # 7 batches: 2, 2 and 3 of them
    for k, (begin, end) in enumerate(want, 1):
        profile(path / "p", *words, "--shard", f"{k}/3")
        seen = ledger(path / "p")
        assert seen["total"] == 100 and seen["ranges"] == [[begin, end]], seen
        assert (seen["first_sample"], seen["end_sample"]) == (begin, end), seen
        assert seen["offered"] == seen["run"] == end - begin and not seen["skipped"] and not seen["failed"], seen


def test_empty_shards_are_merged(path):
    words = [DIGITS, "--data", PICTURES, "--limit", 3]
    check_shards(path, words, counts=(5,))
    profile(path / "p", *words, "--shard", "1/5")
    seen = ledger(path / "p")
    assert seen["run"] == seen["offered"] == 0 and seen["ranges"] == [] and seen["total"] == 3, seen


def fixed_model(path):
    """Runs four samples at a time and no others."""
    path.write_bytes(onnx.model([onnx.node("Relu", ["x"], ["y"])], [onnx.value("x", [4, 3])], [onnx.value("y", [4, 3])]))


def test_incomplete_batches_are_skipped_once(path):
    fixed_model(path / "m.onnx")
    (path / "x.npy").write_bytes(npy_bytes([22, 3], [i % 7 - 3 for i in range(66)]))
    for more in ([], ["--skip", 2], ["--sample-every", 2]):
        check_shards(path, [path / "m.onnx", "--data", path / "x.npy", *more])
    profile(path / "p", path / "m.onnx", "--data", path / "x.npy", "--shard", "6/6")
    assert ledger(path / "p")["skipped"] == 2 and ledger(path / "p")["run"] == 0


def test_bad_samples_are_counted_once_and_listed_in_order(path):
    needs("images")
    images = sources.images(path / "images", 330, lambda i: i % 2 and i < 250)
    for batch in (1, 4):
        words = [DIGITS, "--data", images, "--image", "color=grey", "--on-bad-sample", "skip", "--batch", batch]
        check_shards(path, words, counts=(2 if batch == 1 else 7,), seed=batch)
    seen = read(path / "merged")
    assert seen["ledger"]["failed"] == 125 and seen["ledger"]["run"] == 205, seen["ledger"]
    assert [bad["sample"] for bad in seen["ledger"]["bad"]] == list(range(1, 200, 2)), seen["ledger"]["bad"]
    for i in range(4):
        (images / f"{i:04}.png").write_bytes(b"no picture")
    check_shards(path, [*words, "--limit", 8], counts=(2,))


def test_merge_reports_gaps_and_overlaps(path):
    words = [DIGITS, "--data", PICTURES, "--limit", 40, "--batch", 1]
    for k in (1, 2, 3, 4):
        profile(path / f"p{k}", *words, "--shard", f"{k}/4")
    profile(path / "half", *words, "--shard", "1/2")
    p = [path / f"p{k}.json" for k in (1, 2, 3, 4)]
    tidemark("merge", p[0], p[3], "-o", path / "m.json").expect(DONE, "with gaps: 20 of 40 samples (0 to 10, 30 to 40)")
    tidemark("merge", p[2], p[1], path / "m.json", "-o", path / "whole.json").expect(DONE, "40 samples: the whole run")
    tidemark("merge", p[0], p[0], "-o", path / "m.json").refuses(BAD_INPUT, "both hold samples 0 to 10")
    tidemark("merge", p[1], path / "half.json", "-o", path / "m.json").refuses(BAD_INPUT, "both hold samples 10 to 20")
    profile(path / "other", DIGITS, "--data", PICTURES, "--limit", 41, "--batch", 1, "--shard", "2/4")
    tidemark("merge", p[0], path / "other.json", "-o", path / "m.json").refuses(BAD_INPUT, "samples in all is 40")


def test_usage_errors_are_refused(path):
    words = ["profile", DIGITS, "-o", path / "p.json"]
    for shard in ("0/3", "4/3", "1", "1/", "/3", "1/0", "-1/3", "1/3x", "a/b", "1/99999999999", ""):
        tidemark(*words, "--data", PICTURES, "--shard", shard).refuses(WRONG_CALL, "--shard", "K/N")
    tidemark(*words, "--data", "-", "--shard", "1/2", input=PICTURES.read_bytes()).refuses(WRONG_CALL, "stream")


if __name__ == "__main__":
    main()
