# SPDX-License-Identifier: Apache-2.0
"""`tidemark diff`, and `tidemark check --against` a consumer's file."""
import json

from cli import ANSWER_NO, BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, main, tidemark


def profile(path, *words):
    tidemark("profile", DIGITS, "--data", PICTURES, "--quiet", "-o", path, *words).expect(DONE)
    return path


def ranges_of(path):
    return {t["name"]: (t["min"], t["max"]) for t in json.loads(path.read_text())["tensors"]
            if t.get("count") and t["kind"] != "weight" and t["dtype"] == "float32"}


def cache(path, ranges):
    data = {name: {"CLS": "TensorData", "lowest": low, "highest": high} for name, (low, high) in ranges.items()}
    path.write_text(json.dumps({"CLS": "TensorsData", "data": data}))
    return path


def test_equal_profiles_do_not_differ_and_others_do(here):
    a, b = profile(here / "a.json", "--limit", 64), profile(here / "b.json", "--limit", 64, "--threads", 1)
    done = tidemark("diff", a, b).expect(DONE, "0 of 29 values differ")
    few = profile(here / "few.json", "--limit", 3)
    found = json.loads(tidemark("diff", a, few, "--json").expect(ANSWER_NO).out)
    assert found["drifted"] > 0 and found["compared"] == 29, found
    worst = [max(v.get("range_change") or 0, v.get("distance", 0)) for v in found["values"]]
    assert worst == sorted(worst, reverse=True) and all(v["drift"] for v in found["values"]), worst
    assert all(v["beyond"] == 0 for v in found["values"]), "three of the samples cannot reach further"
    done = tidemark("diff", few, a, "--range", 100, "--distance", 1).expect(DONE)
    assert "0 of 29" in done.out, done
    assert len(tidemark("diff", a, few, "--all").out.splitlines()) == 1 + 29 + 1
    assert len(tidemark("diff", a, few, "--limit", 2).out.splitlines()) == 1 + 2 + 1


def test_encodings_cover_their_profile(here):
    """A symmetric grid, one by channel and that of a bias reach further than anything was seen, and are no drift."""
    a = profile(here / "a.json", "--limit", 32)
    for words in ((), ("--per-channel",), ("--dtype", "int8", "--scheme", "symmetric")):
        tidemark("calibrate", a, "-q", "--method", "minmax", *words, "-o", here / "e.json").expect(DONE)
        made = {e["name"]: e for e in json.loads((here / "e.json").read_text())["encodings"]}
        for sides in ((a, here / "e.json"), (here / "e.json", a)):
            found = json.loads(tidemark("diff", *sides, "--json", "--all").out)
            assert found["compared"] >= 10, found
            for value in found["values"]:
                if not made[value["name"]]["rule"] and not made[value["name"]].get("group"):
                    assert not value["drift"], (words, value)
                assert not (made[value["name"]]["role"] == "bias" and value["drift"]), (words, value)
        names = json.loads(tidemark("diff", here / "e.json", a, "--json").out)["only_b"]
        assert set(names) <= set(json.loads(a.read_text())["tensors"][i]["name"] for i in range(29)), names


def test_renamed_values_are_matched(here):
    a = profile(here / "a.json", "--limit", 20)
    document = json.loads(a.read_text())
    for tensor in document["tensors"]:
        tensor["name"] = "other " + tensor["name"]
    (here / "b.json").write_text(json.dumps(document))
    tidemark("diff", a, here / "b.json").expect(DONE, "0 of 29 values differ")


def test_transformed_graph_is_matched_by_equal_values(here):
    a = profile(here / "a.json", "--limit", 20)
    tidemark("transform", DIGITS, "--passes", "all", "-o", here / "t.onnx", "--lineage", here / "l.json",
             "--quiet").expect(DONE)
    tidemark("profile", here / "t.onnx", "--data", PICTURES, "--limit", 20, "--quiet", "-o", here / "t.json").expect(DONE)
    found = json.loads(tidemark("diff", a, here / "t.json", "--json", "--all").expect(DONE).out)
    assert found["compared"] >= 8 and not found["drifted"], found  # folded weights are others, not drifted ones
    assert "norm1.scale" in found["only_a"] and "conv1.weight" in found["only_a"], found


def test_profile_is_compared_with_a_cache_of_ranges(here):
    a = profile(here / "a.json", "--limit", 20)
    ranges = ranges_of(a)
    exact = cache(here / "exact.json", ranges)
    tidemark("diff", a, exact).expect(DONE, f"0 of {len(ranges)} values differ")
    tidemark("check", a, "--against", exact).expect(DONE, f"{len(ranges)} ranges compared, {len(ranges)} agree")
    first = next(iter(ranges))
    short = dict(ranges, stranger=(0, 1))
    short[first] = (ranges[first][0], ranges[first][1] * 1.5)
    short.pop(list(ranges)[-1])
    wrong = cache(here / "wrong.json", short)
    found = json.loads(tidemark("diff", a, wrong, "--json").expect(ANSWER_NO).out)
    assert [v["name"] for v in found["values"]] == [first] and found["only_b"] == ["stranger"], found
    assert found["values"][0]["meaning"] == "exact" and list(ranges)[-1] in found["only_a"], found
    done = tidemark("check", a, "--against", wrong).expect(ANSWER_NO, "missing  stranger", "1 values of the profile")
    assert "KeyError" in done.out, done
    tidemark("check", a, "--against", wrong, "--coverage", 90).expect(DONE)
    found = json.loads(tidemark("check", a, "--against", wrong, "--json").out)["against"]
    assert found["missing"] == 1 and found["unnamed"] == 1 and found["format"] == "ort-cache", found


def test_check_follows_the_lineage(here):
    a = profile(here / "a.json", "--limit", 20)
    tidemark("transform", DIGITS, "--passes", "all", "-o", here / "t.onnx", "--lineage", here / "l.json",
             "--quiet").expect(DONE)
    tidemark("profile", here / "t.onnx", "--data", PICTURES, "--limit", 20, "--quiet", "-o", here / "t.json").expect(DONE)
    theirs = ranges_of(here / "t.json")
    table = cache(here / "table.json", theirs)
    done = tidemark("check", a, "--against", table, "--lineage", here / "l.json").expect(DONE)
    assert f"100.00 % of {len(theirs)} names" in done.out, done
    assert "derived  " in done.out and "same as p" in done.out, done
    done = tidemark("check", a, "--against", table, "--lineage", a)
    assert done.status == BAD_INPUT and "a.json" in done.err, done


def test_one_sided_thresholds_are_compared(here):
    a = profile(here / "a.json", "--limit", 20)
    ranges = ranges_of(a)
    lines = [f"{name}: {max(abs(low), abs(high)):.9g}" for name, (low, high) in ranges.items()]
    (here / "ranges.txt").write_text("\n".join(lines) + "\n")
    tidemark("diff", a, here / "ranges.txt").expect(DONE, f"0 of {len(ranges)} values differ")
    # a table without signs: the range of a value in [-5, 1] is given as 1
    name = next(n for n, (low, high) in ranges.items() if -low > high)
    lines = [f"{n}: {max(low, high, 1e-3):.9g}" for n, (low, high) in ranges.items()]
    (here / "ranges.txt").write_text("\n".join(lines) + "\n")
    found = json.loads(tidemark("diff", a, here / "ranges.txt", "--json").expect(ANSWER_NO).out)
    assert name in [v["name"] for v in found["values"]], found


def test_files_that_cannot_be_compared_are_both_named(here):
    a = profile(here / "a.json", "--limit", 5)
    tidemark("calibrate", a, "-q", "--per-channel", "-o", here / "b.json").expect(DONE)
    tree = json.loads((here / "b.json").read_text())
    channels = next(e for e in tree["encodings"] if len(e["scale"]) > 2)
    for key in ("scale", "zero_point", "low", "high", "clip_min", "clip_max"):
        channels[key].pop()
    (here / "c.json").write_text(json.dumps(tree))
    for sides in (("b.json", "c.json"), ("c.json", "b.json")):
        tidemark("diff", *(here / side for side in sides)).refuses(BAD_INPUT, f"{here / sides[0]} and {here / sides[1]}: ", channels["name"], "channels")


def test_usage_errors_and_bad_files_are_refused(here):
    a = profile(here / "a.json", "--limit", 5)
    tidemark("diff", a).refuses(WRONG_CALL, "A and B")
    tidemark("diff", a, here / "none").refuses(BAD_INPUT, "none")
    (here / "odd").write_text("neither this nor that")
    tidemark("diff", a, here / "odd").refuses(BAD_INPUT, "odd", "ort-cache")
    tidemark("diff", a, here / "odd", "--format", "no-such").refuses(WRONG_CALL, "no-such")
    (here / "odd").write_bytes(a.read_bytes()[:-100])
    tidemark("diff", a, here / "odd").refuses(BAD_INPUT, "odd")


main()
