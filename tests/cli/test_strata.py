# SPDX-License-Identifier: Apache-2.0
"""`tidemark profile --strata FILE.csv`: a profile a label, and all of them are the run, bit by bit.

usage: test_strata.py PROGRAM SOURCE_ROOT FEATURES
"""
import collections
import json
import random
import signal
import struct
import subprocess

import onnx_bytes as onnx
import sources
from cli import (BAD_INPUT, BUNDLE, DIGITS, DONE, FEATURES, MACHINE, PICTURES, PROGRAM, SECONDS, WRONG_CALL, files, folder,
                 main, npy_bytes, tidemark)
from merge_shards import read_floats
from test_checkpoint import same, start, wait_for
from test_shard import FORMS, png, profile

LABELS = list(struct.unpack("<1797q", (BUNDLE / "digits-labels.npy").read_bytes()[-1797 * 8:]))
PLAIN = [DIGITS, "--data", PICTURES]
RUN = [*PLAIN, "--batch", 1]
STEP = 2 if "sanitized" in FEATURES else 1  # through lists of cases


def csv(path, labels=LABELS):
    path.write_text("".join(f"{label}\n" for label in labels))
    return path


def read(target):
    return json.loads(target.with_name(f"{target.name}.json").read_text())


def strata_of(target):
    """By label; files of other strata than these are not there."""
    names = sorted(target.parent.glob(f"{target.name}.*.json"))
    return {name.name[len(target.name) + 1:-5]: name.with_suffix("") for name in names}


def samples_of(one):
    return [sample for begin, end in one["coverage"]["ranges"] for sample in range(begin, end)]


def join(random_, parts, target, forms=FORMS):
    """All parts in random order, some of them before the others, of any of the forms."""
    parts = [f"{part}.{random_.choice(forms)}" for part in parts]
    random_.shuffle(parts)
    some = f"{target}-some.{random_.choice(forms)}"
    outputs = [word for form in FORMS for word in ("-o", f"{target}.{form}")]
    tidemark("merge", *parts[:len(parts) // 2 + 1], "-o", some).expect(DONE)
    tidemark("merge", *parts[len(parts) // 2 + 1:], some, *outputs).expect(DONE)


def check(path, words, labels, more=(), seed=0, forms=FORMS):
    """The run with strata is the run without, and the merge of the strata."""
    profile(path / "whole", *words)
    profile(path / "p", *words, "--strata", labels, *more)
    same(path / "p", path / "whole")
    strata = strata_of(path / "p")
    join(random.Random(seed), strata.values(), path / "merged", forms)
    same(path / "merged", path / "whole")
    return strata


def test_ten_digits_add_up():
    with folder() as path:
        strata = check(path, RUN, csv(path / "l.csv"))
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


def test_a_stratum_is_the_run_over_its_samples():
    with folder() as path:
        profile(path / "p", *PLAIN, "--strata", csv(path / "l.csv"))
        shape, floats = read_floats(PICTURES)
        size = len(floats) // shape[0]
        for digit in (0, 7):
            wanted = [i for i, label in enumerate(LABELS) if label == digit]
            header = npy_bytes([len(wanted), *shape[1:]])
            payload = b"".join(floats[i * size:(i + 1) * size] for i in wanted)
            (path / "x.npy").write_bytes(header[:len(header) - len(payload)] + payload)
            profile(path / "alone", DIGITS, "--data", path / "x.npy", "--batch", 1)
            alone, stratum = read(path / "alone"), read(path / f"p.{digit}")
            for one, other in zip(alone["tensors"], stratum["tensors"]):
                for at in ("min_at", "max_at"):
                    if one.get(at) and one["kind"] != "weight":
                        one[at]["sample"] = wanted[one[at]["sample"]]
                for top in [top for end in one.get("top_samples", {}).values() for top in end]:
                    top["sample"] = wanted[top["sample"]]
                assert one == other, (one["id"], digit)


def test_threads_do_not_show():
    with folder() as path:
        labels = csv(path / "l.csv")
        for threads in (1, 2, 4):
            (path / str(threads)).mkdir()
            profile(path / str(threads) / "p", *PLAIN, "--strata", labels, "--threads", threads)
        names = files(path / "1")
        assert len(names) == 11 * len(FORMS), names
        for name in names:
            first = (path / "1" / name).read_bytes()
            assert all((path / other / name).read_bytes() == first for other in "24"), name


def test_all_that_chooses_samples_goes_with_strata():
    with folder() as path:
        blocks = csv(path / "blocks.csv", [i // 60 % 4 for i in range(len(LABELS))])
        for seed, more in enumerate((["--limit", 50, "--skip", 3], ["--sample-every", 3], ["--shard", "2/3"],
                                     ["--batch", 12, "--sample-every", 2, "--kind", "range"], ["--batch", 20, "--skip", 7],
                                     ["--observe", "activations", "--kind", "minmax"])[::STEP]):
            check(path, [*RUN, *more], blocks if "--batch" in more else csv(path / "l.csv"), seed=seed)
            for file in path.glob("p.*"):
                file.unlink()
        check(path, RUN, csv(path / "one.csv", ["all of them"] * len(LABELS)))
        same(path / "p", path / "p.all%20of%20them")


def test_samples_that_never_ran_are_in_their_strata():
    if "images" not in FEATURES:
        return "built without images"
    with folder() as path:
        images = path / "images"
        images.mkdir()
        for i in range(60):
            (images / f"{i:03}.png").write_bytes(b"no picture" if i % 3 == 0 else png(i))
        words = [DIGITS, "--data", images, "--image", "color=grey", "--on-bad-sample", "skip", "--batch", 1]
        strata = check(path, words, csv(path / "l.csv", [i % 6 for i in range(60)]))
        failed = {label: read(target)["ledger"]["failed"] for label, target in strata.items()}
        assert failed == {"0": 10, "1": 0, "2": 0, "3": 10, "4": 0, "5": 0}, failed
        assert [bad["sample"] for bad in read(strata["3"])["ledger"]["bad"]] == list(range(3, 60, 6))


def test_streams_are_told_apart_as_they_come():
    with folder() as path:
        command = [PROGRAM, "profile", DIGITS, "-q", "--data", "-", "--batch", "3", "--strata", path / "l.csv"]

        def run(*words):
            return subprocess.run([*map(str, [*command, *words])], input=PICTURES.read_bytes(), capture_output=True, timeout=SECONDS)

        csv(path / "l.csv", [i // 300 for i in range(2000)])
        done = run("-o", path / "p.json")
        assert done.returncode == DONE, done.stderr
        profile(path / "whole", *RUN, "--batch", 3, "--strata", csv(path / "m.csv", [i // 300 for i in range(1797)]))
        assert sorted(strata_of(path / "p")) == list("012345")
        for label, target in strata_of(path / "p").items():
            one, other = read(target), read(path / f"whole.{label}")
            assert one["coverage"] == other["coverage"] and one["ledger"] == other["ledger"], label
            assert one["tensors"] == other["tensors"], label
        tidemark("merge", *sorted(path.glob("p.?.json")), "-o", path / "m.json").expect(DONE)
        assert (path / "m.json").read_bytes() == (path / "p.json").read_bytes()
        csv(path / "l.csv", ["a"] * 100)
        done = run("-o", path / "q.json")
        assert done.returncode == BAD_INPUT and b"sample 100 has no label" in done.stderr and done.stderr.count(b"\n") == 1
        assert not (path / "q.json").exists()


def test_shards_of_strata_are_strata():
    with folder() as path:
        labels = csv(path / "l.csv")
        profile(path / "p", *RUN, "--strata", labels)
        for k in (1, 2, 3):
            profile(path / f"s{k}", *RUN, "--strata", labels, "--shard", f"{k}/3")
        for label, target in strata_of(path / "p").items():
            join(random.Random(int(label)), [path / f"s{k}.{label}" for k in (1, 2, 3)], path / "merged")
            same(path / "merged", target)
        join(random.Random(1), [path / f"s{k}.{label}" for k in (1, 2, 3) for label in range(10)], path / "merged")
        same(path / "merged", path / "p")


def test_per_sample_is_kept_in_strata():
    if "hdf5" not in FEATURES:
        return "built without HDF5"
    with folder() as path:
        labels = csv(path / "l.csv")
        for more in (["--limit", 200], ["--limit", 300, "--sample-every", 2]):
            check(path, [*RUN, "--per-sample", *more], labels, forms=["h5"])
        tidemark("show", "--outliers", path / "p.4.h5").expect(DONE)


def test_checkpoints_hold_all_strata():
    with folder() as path:
        labels = csv(path / "l.csv")
        for more in (["--limit", 60], ["--sample-every", 3, "--limit", 40], ["--shard", "2/3", "--limit", 120])[::STEP]:
            profile(path / "plain", *RUN, *more, "--strata", labels)
            check(path, [*RUN, *more], labels, ["--checkpoint", path / "c", "--every", "0.001s"])
            for label, target in strata_of(path / "plain").items():
                same(path / f"p.{label}", target)
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


def test_a_stopped_run_goes_on_in_all_strata():
    with folder() as path:
        data, labels = sources.npy(path / "x.npy", 15), csv(path / "l.csv", LABELS * 15)
        for more in ([], ["--sample-every", 2]):
            words = [DIGITS, "--data", data, *more, "--strata", labels]
            profile(path / "whole", *words)
            if not stopped(path, words):
                return "too fast to be stopped"
            profile(path / "p", *words, "--checkpoint", path / "c")
            for label in ["", *(f".{digit}" for digit in range(10))]:
                same(path / f"p{label}", path / f"whole{label}")


def test_a_checkpoint_of_other_strata_is_refused():
    with folder() as path:
        data, labels = sources.npy(path / "x.npy", 15), csv(path / "l.csv", LABELS * 15)
        words = [DIGITS, "--data", data]
        go_on = ["profile", "-q", *words, "-o", path / "q.json", "--checkpoint", path / "c"]
        if not stopped(path, [*words, "--strata", labels]):
            return "too fast to be stopped"
        tidemark(*go_on).refuses(BAD_INPUT, "a run with strata")
        other = csv(path / "m.csv", [1, *LABELS[1:], *LABELS * 14])
        tidemark(*go_on, "--strata", other).refuses(BAD_INPUT, "another run: sample 0 is '0' there and '1' in", other)
        other = csv(path / "m.csv", ["x" if label == 0 else label for label in LABELS * 15])
        tidemark(*go_on, "--strata", other).refuses(BAD_INPUT, "the stratum '0', which the labels do not name")
        if stopped(path, words):
            tidemark(*go_on, "--strata", labels).refuses(BAD_INPUT, "a run without strata")
        assert not (path / "q.json").exists()


def branching_model(path):
    """Takes the logarithm of samples whose first number is positive, else their negative."""
    def branch(name, op, output):
        graph = onnx.block(1, onnx.node(op, ["x"], [output], op)) + onnx.block(2, name)
        graph += onnx.block(12, onnx.value(output, [1, 2]))
        return onnx.block(5, onnx.block(1, name) + onnx.block(6, graph) + onnx.number(20, 5))
    choose = onnx.node("If", ["positive"], ["y"], "choose") + branch("then_branch", "Log", "t") + branch("else_branch", "Neg", "e")
    path.write_bytes(onnx.model(
        [onnx.node("Gather", ["x", "first"], ["row"]), onnx.node("ReduceMax", ["row"], ["top"]),
         onnx.node("Greater", ["top", "zero"], ["positive"]), choose],
        [onnx.value("x", [1, 2])], [onnx.value("y", [1, 2])],
        [onnx.tensor("first", [1], [0], onnx.INT64), onnx.tensor("zero", [1, 1], [0])]))


def test_what_never_ran_in_a_stratum_is_never():
    with folder() as path:
        branching_model(path / "m.onnx")
        (path / "x.npy").write_bytes(npy_bytes([6, 2], [1, 2, -1, -2, 3, 4, -3, -4, -5, -6, 5, 6]))
        labels = csv(path / "l.csv", ["up", "down", "up", "down", "down", "up"])
        strata = check(path, [path / "m.onnx", "--data", path / "x.npy"], labels)
        status = {label: {t["name"]: t["status"] for t in read(target)["tensors"]} for label, target in strata.items()}
        assert (status["up"]["t"], status["up"]["e"]) == ("observed", "never"), status["up"]
        assert (status["down"]["t"], status["down"]["e"]) == ("never", "observed"), status["down"]


def test_names_that_are_no_file_names_are_escaped():
    with folder() as path:
        names = ["a/b", "..", "a b", "%41", 'say "hi", x', "größe", "-", "*"]
        text = "sample,label\r\n" + "".join(f'{i},"{name.replace(chr(34), 2 * chr(34))}"\r\n' for i, name in reversed([*enumerate(names)]))
        (path / "l.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
        (path / "out").mkdir()
        done = tidemark("profile", *PLAIN, "--limit", len(names), "--strata", path / "l.csv", "-o", path / "out" / "p.json")
        done.expect(DONE, "stratum 'a/b': 1 sample, wrote", "p.a%2Fb.json")
        wanted = ["p.a%2Fb", "p...", "p.a%20b", "p.%2541", "p.say%20%22hi%22%2C%20x", "p.größe", "p.-", "p.%2A", "p"]
        assert files(path / "out") == sorted(f"{name}.json" for name in wanted), files(path / "out")
        assert read(path / "out" / "p.a%2Fb")["settings"]["stratum"] == "a/b"


def test_a_file_that_another_option_names_is_refused():
    with folder() as path:
        words = ["profile", "-q", *RUN, "--strata", csv(path / "l.csv"), "-o", path / "p.json"]
        tidemark(*words, "-o", path / "p.7.json").refuses(WRONG_CALL, "-o names", "p.7.json", "stratum '7'")
        tidemark(*words, "--checkpoint", path / "p.0.json").refuses(WRONG_CALL, "--checkpoint names", "p.0.json")
        csv(path / "l.csv", ["*" * 128, *LABELS[1:]])
        tidemark(*words).refuses(MACHINE, "File name too long")
        assert files(path) == ["l.csv"]


def test_labels_that_do_not_fit_are_refused_before_the_run():
    with folder() as path:
        words = ["profile", "-q", *RUN, "--strata", path / "l.csv", "-o", path / "p.json"]
        csv(path / "l.csv", LABELS[:-1])
        tidemark(*words).refuses(BAD_INPUT, "l.csv: sample 1796 has no label")
        csv(path / "l.csv", [*LABELS, 3])
        tidemark(*words).refuses(BAD_INPUT, "sample 1797 has a label, but the data holds 1797 samples")
        csv(path / "l.csv")
        tidemark(*words, "--batch", 2).refuses(BAD_INPUT, "samples 0 ('0') and 1 ('1') are of one batch")
        (path / "l.csv").write_text("sample,label\n0,a\n2,b\n")
        tidemark(*words).refuses(BAD_INPUT, "sample 1 has no label")
        tidemark(*words, "--sample-every", 2, "--limit", 2).expect(DONE)
        assert read(path / "p.a")["coverage"] == {"total": 3, "ranges": [[0, 2]]}
        csv(path / "l.csv", LABELS[:1796])
        tidemark("profile", "-q", *RUN, "--strata", path / "l.csv", "--plan").refuses(BAD_INPUT, "sample 1796 has no label")


def test_bad_csv_is_one_line():
    with folder() as path:
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
        tidemark(*words[:-3], path, "-o", path / "p.json").refuses(BAD_INPUT, "not a regular file")
        assert files(path) == []


def plan(*more):
    lines = tidemark("profile", *RUN, "--threads", 2, "--plan", *more).expect(DONE).out.splitlines()
    rows = {line.rsplit("MiB", 1)[0].rsplit(None, 1)[0].strip(): float(line.split("MiB")[0].split()[-1]) for line in lines[1:]}
    return rows


def test_the_plan_counts_strata_and_samples():
    with folder() as path:
        one, ten = plan(), plan("--strata", csv(path / "l.csv"))
        for row in ("statistics of activations, an estimate", "statistics of constants, an estimate"):
            assert abs(ten[row] - 10 * one[row]) < 1, (one, ten)
        assert "statistics of all strata together, an estimate" in ten and "extremes of each sample" not in ten
        kept, fewer, both = plan("--per-sample"), plan("--per-sample", "--limit", 900), plan("--per-sample", "--strata", path / "l.csv")
        row = "extremes of each sample"
        assert 0 < fewer[row] < kept[row] < both[row], (fewer, kept, both)


if __name__ == "__main__":
    main(globals())
