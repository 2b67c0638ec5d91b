# SPDX-License-Identifier: Apache-2.0
"""`profile --histogram-share 1/K`: what is of all elements stays as it was, the rest is told, and nothing but the data decides what is
counted."""
import json

from cli import BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, WRONG_CALL, main, tidemark
from runs import check_reproducible, profile, read

OF_ALL = ("count", "samples", "min", "max", "min_at", "max_at", "zeros", "negative_zeros", "nan", "posinf", "neginf", "sum", "mean",
          "channels", "top_samples")
DATA = ["--data", PICTURES, "--limit", 64]


def values(target):
    return {value["name"]: value for value in read(target)["tensors"]}


def test_all_but_the_histogram_is_of_all_elements(path):
    profile(path / "whole", DIGITS, *DATA)
    profile(path / "thinned", DIGITS, *DATA, "--histogram-share", "1/3")
    assert read(path / "thinned")["settings"]["histogram-share"] == "1/3"
    whole, thinned = values(path / "whole"), values(path / "thinned")
    some = 0
    for name, value in thinned.items():
        expected = whole[name]
        for key in OF_ALL if expected["status"] != "derived" else OF_ALL[:-1]:  # what is derived has no top samples of its own
            assert value.get(key) == expected.get(key), (name, key)
        if value["kind"] == "weight":
            assert "thinned" not in value and value.get("histogram") == expected.get("histogram"), name
            continue
        others = expected["count"] - expected["zeros"]
        if "thinned" not in value:  # a Relu follows from it, or from what it follows from
            assert value["histogram"] == expected["histogram"], name
            continue
        counted = sum(value["histogram"]["counts"])
        assert value["thinned"]["share"] == 3 and int(value["thinned"]["sum"], 16) / 2**149 == value["sum"], name
        assert counted == others if value["count"] <= 64 * 3 * 64 else counted < 0.5 * others, (name, counted, others)
        some += counted < others
        bracket = value.get("std_bracket", {"low": value["std"], "high": value["std"]})
        assert bracket["low"] <= expected["std"] * (1 + 1e-6) and expected["std"] <= bracket["high"] * (1 + 1e-6), name
        assert abs(value["std"] - expected["std"]) <= 0.1 * expected["std"], name
    assert some >= 2, some
    assert thinned["relu1_out"] == whole["relu1_out"] and whole["relu1_out"]["status"] == "derived"


def test_threads_shards_and_checkpoints_do_not_change_a_byte(path):
    check_reproducible(path, [DIGITS, "--data", PICTURES, "--limit", 200, "--histogram-share", "1/4"])


def test_batches_choose_the_same_elements(path):
    """Products may round otherwise for another number of rows: of values whose elements are the same."""
    found = {}
    for batch in (1, 7):
        for share in ((), ("--histogram-share", "1/4")):
            profile(path / "p", DIGITS, *DATA, "--batch", batch, *share)
            found[batch, bool(share)] = {name: [value["histogram"][key] for key in ("bins", "counts", "low")]
                                         for name, value in values(path / "p").items() if value["kind"] != "weight"}
    same = [name for name, whole in found[1, False].items() if whole == found[7, False][name]]
    thinned = [name for name in same if found[1, True][name] != found[1, False][name]]
    assert thinned, found
    for name in same:
        assert found[1, True][name] == found[7, True][name], name


def test_readers_are_told(path):
    profile(path / "p", DIGITS, *DATA, "--histogram-share", "1/4")
    profile(path / "whole", DIGITS, *DATA)
    bound = "histograms count one run of 64 elements in 4: with 99 % confidence"
    tidemark("check", path / "p.json").expect(DONE)
    for words in (["calibrate", "p.json", "-o", "e.json"], ["diff", "p.json", "whole.json", "--distance", 1],
                  ["profile", DIGITS, *DATA, "--histogram-share", "1/4", "-o", "again.json"]):
        assert bound in tidemark(*words, cwd=path).expect(DONE).err, words
    assert " ".join(bound.split()) in " ".join(tidemark("show", path / "p.json").expect(DONE).out.split())
    assert "histograms count" not in tidemark("show", path / "whole.json").expect(DONE).out
    entry = " ".join(tidemark("show", path / "p.json", "p0").expect(DONE).out.split())
    assert "1/4:" in entry and "in rank with 99 % confidence" in entry, entry
    figures = json.loads(tidemark("show", path / "p.json", "--json").expect(DONE).out)
    assert any(value.get("thinned", {}).get("rank_error", 0) > 0 for value in figures), figures
    tidemark("report", path / "p.json", "-o", path / "r.html").expect(DONE)
    assert bound in (path / "r.html").read_text()
    for method in ("minmax", "percentile", "mse", "entropy", "auto"):
        tidemark("calibrate", path / "p.json", "-o", path / "e.json", "--method", method, "-q").expect(DONE)


def test_other_shares_do_not_merge(path):
    for name, more in (("a", ["--histogram-share", "1/4"]), ("b", ["--histogram-share", "1/8"]), ("c", [])):
        profile(path / name, DIGITS, *DATA, *more, "--shard", "2/2" if name == "a" else "1/2")
    tidemark("merge", path / "a.json", path / "b.json", "-o", path / "m.json").refuses(
        BAD_INPUT, "the setting 'histogram-share' is '1/4' in the first and '1/8' in the second")
    tidemark("merge", path / "a.json", path / "c.json", "-o", path / "m.json").refuses(
        BAD_INPUT, "the setting 'histogram-share' is in the first only")
    tidemark("merge", path / "c.json", path / "a.json", "-o", path / "m.json").refuses(
        BAD_INPUT, "the setting 'histogram-share' is in the second only")


def test_one_of_one_is_the_default(path):
    profile(path / "whole", DIGITS, *DATA)
    profile(path / "p", DIGITS, *DATA, "--histogram-share", "1/1")
    assert (path / "p.json").read_bytes() == (path / "whole.json").read_bytes()


def test_what_is_no_share_is_refused(path):
    run = ["profile", DIGITS, *DATA, "-o", path / "p.json", "--histogram-share"]
    for word in ("8", "1/0", "1/65", "2/3", "1/", "1/-2", "1/8x", "0.5"):
        tidemark(*run, word).refuses(WRONG_CALL, "--histogram-share takes 1/1 to 1/64", word)
    tidemark(*run, "1/8", "--kind", "range").refuses(WRONG_CALL, "no histograms to thin")
    tidemark(*run, "1/8", "--stream-layers").refuses((WRONG_CALL, BAD_INPUT), "layers can't be streamed with thinned histograms")
    assert "hdf5" not in FEATURES or not (path / "p.json").exists()


main()
