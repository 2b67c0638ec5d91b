# SPDX-License-Identifier: Apache-2.0
"""`tidemark profile --strata FILE.csv`: a profile a label, and all of them are the run, bit by bit."""
import collections
import random
import signal
import struct

import onnx_bytes as onnx
import sources
from cli import (BAD_INPUT, BUNDLE, DIGITS, DONE, FEATURES, MACHINE, PICTURES, SECONDS, WRONG_CALL, files, main, needs,
                 npy_bytes, skip, subset, tidemark)
from merge_shards import read_floats
from runs import FORMS, assert_equal, labels_file, outputs, profile, read, start, strata_of, wait_for

LABELS = list(struct.unpack("<1797q", (BUNDLE / "digits-labels.npy").read_bytes()[-1797 * 8:]))
FOUR = [digit % 4 for digit in LABELS]
PLAIN = [DIGITS, "--data", PICTURES]
RUN = [*PLAIN, "--batch", 1]


def samples_of(one):
    return [sample for begin, end in one["coverage"]["ranges"] for sample in range(begin, end)]


def join(random_, parts, target, forms=FORMS):
    """All parts in random order, some of them before the others, of any of the forms."""
    parts = [f"{part}.{random_.choice(forms)}" for part in parts]
    random_.shuffle(parts)
    some = f"{target}-some.{random_.choice(forms)}"
    tidemark("merge", *parts[:len(parts) // 2 + 1], "-o", some).expect(DONE)
    tidemark("merge", *parts[len(parts) // 2 + 1:], some, *outputs(target)).expect(DONE)


def check(path, words, labels, more=(), seed=0, forms=FORMS):
    """The run with strata is the run without, and the merge of the strata."""
    profile(path / "whole", *words)
    profile(path / "p", *words, "--strata", labels, *more)
    assert_equal(path / "p", path / "whole")
    strata = strata_of(path / "p")
    join(random.Random(seed), strata.values(), path / "merged", forms)
    assert_equal(path / "merged", path / "whole")
    return strata


def test_strata_add_up_to_the_run(path):
    strata = check(path, RUN, labels_file(path / "l.csv", LABELS))
    assert sorted(strata) == [str(digit) for digit in range(10)], strata
    whole, counts = read(path / "p"), collections.defaultdict(collections.Counter)
    for label, target in strata.items():
        one = read(target)
        assert one["settings"].pop("stratum") == label and one["settings"] == whole["settings"]
        wanted = [i for i, digit in enumerate(LABELS) if str(digit) == label]
        assert samples_of(one) == wanted and one["ledger"]["run"] == len(wanted), one["ledger"]
        for tensor in one["tensors"]:
            if tensor["kind"] != "weight" and tensor["level"] == "histogram":
                for bin_, count in zip(tensor["histogram"]["bins"], tensor["histogram"]["counts"]):
                    counts[tensor["id"]][bin_] += count
    assert len(counts) > 10
    for tensor in whole["tensors"]:
        if tensor["id"] in counts:
            histogram = tensor["histogram"]
            assert counts[tensor["id"]] == dict(zip(histogram["bins"], histogram["counts"])), tensor["id"]
    tidemark("show", path / "p.3.json").expect(DONE, "of the stratum '3'")


def test_stratum_equals_a_run_over_its_samples(path):
    profile(path / "p", *PLAIN, "--strata", labels_file(path / "l.csv", LABELS))
    shape, floats = read_floats(PICTURES)
    size = len(floats) // shape[0]
    for digit in (0, 7):
        wanted = [i for i, label in enumerate(LABELS) if label == digit]
        (path / "x.npy").write_bytes(npy_bytes([len(wanted), *shape[1:]], data=b"".join(floats[i * size:(i + 1) * size] for i in wanted)))
        profile(path / "alone", DIGITS, "--data", path / "x.npy", "--batch", 1)
        alone, stratum = read(path / "alone"), read(path / f"p.{digit}")
        for one, other in zip(alone["tensors"], stratum["tensors"]):
            for at in ("min_at", "max_at"):
                if one.get(at) and one["kind"] != "weight":
                    one[at]["sample"] = wanted[one[at]["sample"]]
            for top in [top for end in one.get("top_samples", {}).values() for top in end]:
                top["sample"] = wanted[top["sample"]]
            assert one == other, (one["id"], digit)


def test_threads_do_not_change_strata(path):
    labels = labels_file(path / "l.csv", FOUR)
    for threads in (1, 4):
        (path / str(threads)).mkdir()
        profile(path / str(threads) / "p", *PLAIN, "--strata", labels, "--threads", threads)
    names = files(path / "1")
    assert len(names) == 5 * len(FORMS), names
    for name in names:
        first = (path / "1" / name).read_bytes()
        assert (path / "4" / name).read_bytes() == first, name


def test_strata_work_with_every_selection_of_samples(path):
    blocks = labels_file(path / "blocks.csv", [i // 60 % 4 for i in range(len(LABELS))])
    for seed, more in enumerate((["--limit", 50, "--skip", 3], ["--limit", 300, "--shard", "2/3", "--observe", "activations", "--kind", "minmax"],
                                 ["--batch", 12, "--sample-every", 2, "--kind", "range"])):
        check(path, [*RUN, *more], blocks if "--batch" in more else labels_file(path / "l.csv", FOUR), seed=seed)
        for file in path.glob("p.*"):
            file.unlink()
    check(path, RUN, labels_file(path / "one.csv", ["all of them"] * len(LABELS)))
    assert_equal(path / "p", path / "p.all%20of%20them")


def test_failed_samples_are_counted_in_their_strata(path):
    needs("images")
    images = sources.images(path / "images", 60, lambda i: i % 3 == 0)
    words = [DIGITS, "--data", images, "--image", "color=grey", "--on-bad-sample", "skip", "--batch", 1]
    strata = check(path, words, labels_file(path / "l.csv", [i % 6 for i in range(60)]))
    failed = {label: read(target)["ledger"]["failed"] for label, target in strata.items()}
    assert failed == {"0": 10, "1": 0, "2": 0, "3": 10, "4": 0, "5": 0}, failed
    assert [bad["sample"] for bad in read(strata["3"])["ledger"]["bad"]] == list(range(3, 60, 6))


def test_streams_are_divided_into_strata(path):
    words = ["profile", DIGITS, "-q", "--data", "-", "--batch", "3", "--strata", path / "l.csv"]
    labels_file(path / "l.csv", [i // 300 for i in range(2000)])
    tidemark(*words, "-o", path / "p.json", input=PICTURES.read_bytes()).expect(DONE)
    profile(path / "whole", *RUN, "--batch", 3, "--strata", labels_file(path / "m.csv", [i // 300 for i in range(1797)]))
    assert sorted(strata_of(path / "p")) == list("012345")
    for label, target in strata_of(path / "p").items():
        one, other = read(target), read(path / f"whole.{label}")
        assert one["coverage"] == other["coverage"] and one["ledger"] == other["ledger"], label
        assert one["tensors"] == other["tensors"], label
    tidemark("merge", *sorted(path.glob("p.?.json")), "-o", path / "m.json").expect(DONE)
    assert (path / "m.json").read_bytes() == (path / "p.json").read_bytes()
    labels_file(path / "l.csv", ["a"] * 100)
    tidemark(*words, "-o", path / "q.json", input=PICTURES.read_bytes()).refuses(BAD_INPUT, "sample 100 has no label")
    assert not (path / "q.json").exists()


def test_merged_shards_of_strata_equal_the_strata(path):
    labels = labels_file(path / "l.csv", FOUR)
    profile(path / "p", *RUN, "--strata", labels)
    for k in (1, 2, 3):
        profile(path / f"s{k}", *RUN, "--strata", labels, "--shard", f"{k}/3")
    for label, target in [*strata_of(path / "p").items()][::2]:
        join(random.Random(int(label)), [path / f"s{k}.{label}" for k in (1, 2, 3)], path / "merged")
        assert_equal(path / "merged", target)
    join(random.Random(1), [path / f"s{k}.{label}" for k in (1, 2, 3) for label in range(4)], path / "merged")
    assert_equal(path / "merged", path / "p")


def test_per_sample_is_kept_in_strata(path):
    needs("hdf5")
    labels = labels_file(path / "l.csv", FOUR)
    check(path, [*RUN, "--per-sample", "--limit", 200, "--sample-every", 2], labels, forms=["h5"])
    tidemark("show", "--outliers", path / "p.3.h5").expect(DONE)


def test_checkpoints_do_not_change_strata(path):
    labels = labels_file(path / "l.csv", FOUR)
    for more in subset((["--sample-every", 3, "--limit", 40], ["--shard", "2/3", "--limit", 120]), 2):
        profile(path / "plain", *RUN, *more, "--strata", labels)
        check(path, [*RUN, *more], labels, ["--checkpoint", path / "c", "--every", "0.001s"])
        for label, target in strata_of(path / "plain").items():
            assert_equal(path / f"p.{label}", target)
        assert not (path / "c").exists()
        for file in [*path.glob("p.*"), *path.glob("plain.*")]:
            file.unlink()


def stopped(path, words):
    """A run with strata that was stopped at its first checkpoint, which is kept. False: it was done before."""
    (path / "c").unlink(missing_ok=True)
    process = start("profile", *words, "-o", path / "p.json", "--checkpoint", path / "c", "--every", "0.001s", "--threads", 1)
    wait_for(path / "c", process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    return process.returncode != DONE


def test_stopped_run_resumes_all_strata(path):
    data, labels = sources.npy(path / "x.npy", 6), labels_file(path / "l.csv", FOUR * 6)
    for more in subset(([], ["--sample-every", 2]), 2):
        words = [DIGITS, "--data", data, *more, "--strata", labels]
        profile(path / "whole", *words)
        if not stopped(path, words):
            skip("the run ended before it was stopped")
        profile(path / "p", *words, "--checkpoint", path / "c")
        for label in ["", *(f".{digit}" for digit in range(4))]:
            assert_equal(path / f"p{label}", path / f"whole{label}")


def test_a_checkpoint_of_other_strata_is_refused(path):
    data, labels = sources.npy(path / "x.npy", 15), labels_file(path / "l.csv", LABELS * 15)
    words = [DIGITS, "--data", data]
    go_on = ["profile", "-q", *words, "-o", path / "q.json", "--checkpoint", path / "c"]
    if not stopped(path, [*words, "--strata", labels]):
        skip("the run ended before it was stopped")
    tidemark(*go_on).refuses(BAD_INPUT, "a run with strata")
    other = labels_file(path / "m.csv", [1, *LABELS[1:], *LABELS * 14])
    tidemark(*go_on, "--strata", other).refuses(BAD_INPUT, "another run: sample 0 is '0' there and '1' in", other)
    other = labels_file(path / "m.csv", ["x" if label == 0 else label for label in LABELS * 15])
    tidemark(*go_on, "--strata", other).refuses(BAD_INPUT, "the stratum '0', which the labels do not name")
    if stopped(path, words):
        tidemark(*go_on, "--strata", labels).refuses(BAD_INPUT, "a run without strata")
    assert not (path / "q.json").exists()


def branching_model(path):
    """Takes the logarithm of samples whose first number is positive, else their negative."""
    def branch(op, output):
        return onnx.graph([onnx.node(op, ["x"], [output], op)], [], [onnx.value(output, [1, 2])])

    choose = onnx.node("If", ["positive"], ["y"], "choose", then_branch=branch("Log", "t"), else_branch=branch("Neg", "e"))
    path.write_bytes(onnx.model(
        [onnx.node("Gather", ["x", "first"], ["row"]), onnx.node("ReduceMax", ["row"], ["top"]),
         onnx.node("Greater", ["top", "zero"], ["positive"]), choose],
        [onnx.value("x", [1, 2])], [onnx.value("y", [1, 2])],
        [onnx.tensor("first", [1], [0], onnx.INT64), onnx.tensor("zero", [1, 1], [0])]))


def test_values_without_runs_in_a_stratum_have_status_never(path):
    branching_model(path / "m.onnx")
    (path / "x.npy").write_bytes(npy_bytes([6, 2], [1, 2, -1, -2, 3, 4, -3, -4, -5, -6, 5, 6]))
    labels = labels_file(path / "l.csv", ["up", "down", "up", "down", "down", "up"])
    strata = check(path, [path / "m.onnx", "--data", path / "x.npy"], labels)
    status = {label: {t["name"]: t["status"] for t in read(target)["tensors"]} for label, target in strata.items()}
    assert (status["up"]["t"], status["up"]["e"]) == ("observed", "never"), status["up"]
    assert (status["down"]["t"], status["down"]["e"]) == ("never", "observed"), status["down"]


def test_labels_are_escaped_in_file_names(path):
    names = ["a/b", "..", "a b", "%41", 'say "hi", x', "größe", "-", "*"]
    text = "sample,label\r\n" + "".join(f'{i},"{name.replace(chr(34), 2 * chr(34))}"\r\n' for i, name in reversed([*enumerate(names)]))
    (path / "l.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (path / "out").mkdir()
    done = tidemark("profile", *PLAIN, "--limit", len(names), "--strata", path / "l.csv", "-o", path / "out" / "p.json")
    done.expect(DONE, "stratum 'a/b': 1 sample, wrote", "p.a%2Fb.json")
    wanted = ["p.a%2Fb", "p...", "p.a%20b", "p.%2541", "p.say%20%22hi%22%2C%20x", "p.größe", "p.-", "p.%2A", "p"]
    assert files(path / "out") == sorted(f"{name}.json" for name in wanted), files(path / "out")
    assert read(path / "out" / "p.a%2Fb")["settings"]["stratum"] == "a/b"


def test_output_that_another_option_names_is_refused(path):
    words = ["profile", "-q", *RUN, "--strata", labels_file(path / "l.csv", LABELS), "-o", path / "p.json"]
    tidemark(*words, "-o", path / "p.7.json").refuses(WRONG_CALL, "-o names", "p.7.json", "stratum '7'")
    tidemark(*words, "--checkpoint", path / "p.0.json").refuses(WRONG_CALL, "--checkpoint names", "p.0.json")
    labels_file(path / "l.csv", ["*" * 128, *LABELS[1:]])
    tidemark(*words).refuses(MACHINE, "File name too long")
    assert files(path) == ["l.csv"]


def test_mismatched_labels_are_refused_before_the_run(path):
    words = ["profile", "-q", *RUN, "--strata", path / "l.csv", "-o", path / "p.json"]
    labels_file(path / "l.csv", LABELS[:-1])
    tidemark(*words).refuses(BAD_INPUT, "l.csv: sample 1796 has no label")
    labels_file(path / "l.csv", [*LABELS, 3])
    tidemark(*words).refuses(BAD_INPUT, "sample 1797 has a label, but the data holds 1797 samples")
    labels_file(path / "l.csv", LABELS)
    tidemark(*words, "--batch", 2).refuses(BAD_INPUT, "samples 0 ('0') and 1 ('1') are of one batch")
    (path / "l.csv").write_text("sample,label\n0,a\n2,b\n")
    tidemark(*words).refuses(BAD_INPUT, "sample 1 has no label")
    tidemark(*words, "--sample-every", 2, "--limit", 2).expect(DONE)
    assert read(path / "p.a")["coverage"] == {"total": 3, "ranges": [[0, 2]]}
    labels_file(path / "l.csv", LABELS[:1796])
    tidemark("profile", "-q", *RUN, "--strata", path / "l.csv", "--plan").refuses(BAD_INPUT, "sample 1796 has no label")


def test_invalid_csv_is_refused_in_one_line(path):
    words = ["profile", "-q", *RUN, "--strata", path / "l.csv", "-o", path / "p.json"]
    for text, said in ((b"", "there is no label"), (b"sample,label\n", "there is no label"), (b"a\n\nb\n", "line 2: the label is empty"),
                       (b"a,b\n", "line 1: 2 fields, not 1"), (b"a,b,c\n", "line 1: more than two fields"),
                       (b"sample,label\n1\n", "line 2: 1 field, not 2"), (b"sample,label\n-1,a\n", "line 2: '-1' is no sample's index"),
                       (b"sample,label\n99999999999999999999,a\n", "is no sample's index"),
                       (b"sample,label\n0,a\n3,b\n0,a\n", "lines 2 and 4: sample 0 is listed twice"),
                       (b'a\n"b\nc', "line 2: a quote that is never closed"), (b'"a"b\n', "text behind a closing quote"),
                       (b'a"b\n', "a quote inside a field"), (b"a\tb\n", "control character \\x09"), (b"a\0b\n", "control character \\x00"),
                       (b"\xff\xfe\n", "line 1: the label is not UTF-8"), (b"x" * 129, "the label has 129 bytes"),
                       (b"".join(b"%d\n" % i for i in range(1001)), "line 1001: '1000' is one label more than 1000")):
        (path / "l.csv").write_bytes(text)
        tidemark(*words).refuses(BAD_INPUT, "l.csv", said)
    (path / "l.csv").unlink()
    tidemark(*words).refuses(BAD_INPUT, "l.csv", "No such file")
    with open(path / "l.csv", "wb") as file:
        file.truncate((256 << 20) + 1)
    tidemark(*words).refuses(BAD_INPUT, "bytes of labels")
    (path / "l.csv").unlink()
    tidemark(*words[:-3], path, "-o", path / "p.json").refuses(BAD_INPUT, "a folder, not a file")
    assert files(path) == []


def plan(*more):
    lines = tidemark("profile", *RUN, "--threads", 2, "--plan", *more).expect(DONE).out.splitlines()
    rows = {line.rsplit("MiB", 1)[0].rsplit(None, 1)[0].strip(): float(line.split("MiB")[0].split()[-1]) for line in lines[1:]}
    return rows


def test_the_plan_counts_strata_and_samples(path):
    one, ten = plan(), plan("--strata", labels_file(path / "l.csv", LABELS))
    row = "statistics of activations in the end, an estimate"
    assert abs(ten[row] - 10 * one[row]) < 1, (one, ten)
    assert "statistics of all strata together, an estimate" in ten and "min and max of each sample" not in ten
    kept, fewer, both = plan("--per-sample"), plan("--per-sample", "--limit", 900), plan("--per-sample", "--strata", path / "l.csv")
    row = "min and max of each sample"
    assert 0 < fewer[row] < kept[row] < both[row], (fewer, kept, both)


if __name__ == "__main__":
    main()
