# SPDX-License-Identifier: Apache-2.0
"""`tidemark profile --checkpoint FILE`: a run that is killed or stopped resumes where it was and ends with the same bytes.

usage: test_checkpoint.py PROGRAM SOURCE_ROOT FEATURES [--kills N]

`--kills N`: about so many kills in all; the more, the better for finding what happens rarely.
"""
import random
import signal
import subprocess
import sys
import time

import sources
from cli import (BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, PROGRAM, SECONDS, WRONG_CALL, files, folder, main, needs,
                 skip, subset, tidemark)
from kills import Kills
from runs import FORMS, assert_equal, labels_file, ledger, merge, outputs, profile, start, wait_for

KILLS = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 8 if "sanitized" in FEATURES else 30
SLOW = 10 if "sanitized" in FEATURES else 1


def wait_for_handlers(process, number):
    """Until the program handles the signal itself."""
    until = time.monotonic() + SECONDS
    while True:
        caught = next(line for line in open(f"/proc/{process.pid}/status") if line.startswith("SigCgt"))
        if int(caught.split()[1], 16) >> (number - 1) & 1:
            return
        assert time.monotonic() < until and process.poll() is None, "the signal is not looked at"
        time.sleep(0.002)


def total(all_kills):
    killed, resumed, profiles = (sum(getattr(kills, name) for kills in all_kills) for name in ("killed", "resumed", "profiles"))
    assert resumed, "no run went on"
    return f"killed {killed} times, went on {resumed} times, {profiles} of {profiles} profiles byte-identical"


def kills_of(part):
    return max(1, KILLS * part // 100)


def test_checkpoints_do_not_change_the_profile():
    for more in subset(([], ["--batch", 16, "--threads", 3], ["--batch", 7, "--skip", 5, "--sample-every", 3], ["--kind", "range"]), 2):
        with folder() as path:
            words = [DIGITS, "--data", PICTURES, *more]
            profile(path / "whole", *words)
            done = tidemark("profile", *words, *outputs(path / "p"), "--checkpoint", path / "c", "--every", "0.002s")
            done.expect(DONE, "checkpoints took")
            assert_equal(path / "p", path / "whole")
            assert files(path) == sorted(f"{name}.{form}" for name in ("p", "whole") for form in FORMS), files(path)


BOTH = (signal.SIGKILL, signal.SIGTERM)


def test_killed_runs_resume_to_equal_profiles():
    done = []
    for seed, more in enumerate(subset(([], ["--batch", 16], ["--batch", 5, "--skip", 13, "--sample-every", 2]), 2)):
        with folder() as path:
            done.append(Kills(path, [DIGITS, "--data", sources.npy(path / "x.npy", 3), *more], seed).go(kills_of(12)))
    return total(done)


def test_killed_runs_resume_for_every_data_source():
    done = []
    kinds = [(sources.raw, "x.bin"), (sources.npz, "x.npz"), (sources.hdf5, "x.h5") if sources.HAS_HDF5 else (sources.npy, "x.npy")]
    for seed, (write, name) in enumerate(subset(kinds, 2)):
        with folder() as path:
            data = write(path / name, 3)
            done.append(Kills(path, [DIGITS, "--data", data], seed, BOTH).go(kills_of(10)))
    with folder() as path:
        done.append(Kills(path, [DIGITS, "--data", sources.sets(path / "sets", 1500)], 2, BOTH).go(kills_of(10)))
    return total(done)


def test_killed_runs_with_strata_resume_to_equal_profiles(path):
    labels = labels_file(path / "l.csv", [sample % 5 for sample in range(1797 * 3)])
    words = [DIGITS, "--data", sources.npy(path / "x.npy", 3), "--strata", labels]
    return total([Kills(path, words, 0, BOTH).go(kills_of(12))])


def test_stopped_runs_resume_to_equal_profiles():
    done = []
    for seed, number in enumerate((signal.SIGTERM, signal.SIGINT)):
        with folder() as path:
            words = [DIGITS, "--data", sources.npy(path / "x.npy", 3), "--batch", 3]
            done.append(Kills(path, words, seed, (number,)).go(kills_of(8)))
    return total(done)


def test_killed_shards_resume_to_equal_profiles(path):
    words = [DIGITS, "--data", sources.npy(path / "x.npy", 6), "--batch", 4]
    profile(path / "all", *words)
    parts, done = [], []
    for k in (1, 2, 3):
        part = path / f"part-{k}"
        part.mkdir()
        done.append(Kills(part, [*words, "--shard", f"{k}/3"], k, BOTH).go(kills_of(3)))
        parts.append(part / "p")
    merge(random.Random(0), parts, path / "merged")
    assert_equal(path / "merged", path / "all")
    return total(done)


def test_bad_samples_are_counted_once(path):
    needs("images")
    images = sources.images(path / "images", 1500, lambda i: i % 5 == 2)
    words = [DIGITS, "--data", images, "--image", "color=grey", "--on-bad-sample", "skip", "--batch", 4]
    done = Kills(path, words, 0, BOTH).go(kills_of(12))
    seen = ledger(path / "p")
    assert (seen["failed"], seen["run"]) == (300, 1200) and len(seen["bad"]) == 100, seen
    return total([done])


def test_stopped_run_keeps_its_checkpoint_and_resumes_there(path):
    words = ["profile", DIGITS, "--data", sources.npy(path / "x.npy", 30), "--threads", 1]
    process = start(*words, *outputs(path / "p"), "--checkpoint", path / "c", "--every", "0.05s")
    wait_for(path / "c", process)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=SECONDS)[1].decode()
    lines = [line for line in said.splitlines() if "samples," not in line]
    assert process.returncode == 128 + signal.SIGTERM and len(lines) == 1, said
    assert "stopped" in said and str(path / "c") in said and "resumes" in said, said
    assert files(path) == ["c", "x.npy"], files(path)
    done = tidemark(*words, *outputs(path / "p"), "--checkpoint", path / "c")
    done.expect(DONE, "resuming from a checkpoint: ", f"of {30 * 1797} samples are done")
    assert "c" not in files(path)
    profile(path / "whole", *words[1:])
    assert_equal(path / "p", path / "whole")


def test_stopped_run_without_checkpoint_writes_nothing():
    for number in (signal.SIGTERM, signal.SIGINT):
        with folder() as path:
            sources.npy(path / "x.npy", 60)
            process = start("profile", DIGITS, "--data", path / "x.npy", "--threads", 1, *outputs(path / "p"))
            wait_for_handlers(process, number)
            time.sleep(0.1)
            process.send_signal(number)
            said = process.communicate(timeout=SECONDS)[1].decode()
            assert process.returncode == 128 + number, (process.returncode, said)
            assert "--checkpoint" in said and "nothing is written" in said and files(path) == ["x.npy"], said


def test_second_signal_terminates_at_once(path):
    if "late-signals" in FEATURES:
        skip("ThreadSanitizer delays signals while fread waits")
    process = subprocess.Popen([PROGRAM, "profile", DIGITS, "--data", "-", "-o", path / "p.json"], stdin=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdin.write(PICTURES.read_bytes()[:40000])  # the rest does not come
    process.stdin.flush()
    wait_for_handlers(process, signal.SIGINT)
    time.sleep(0.2 * SLOW)  # until it waits for what does not come: before that, one signal is enough
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # of the second after which one signal is enough
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=SECONDS) == -signal.SIGINT
    process.stderr.close()
    process.stdin.close()
    assert files(path) == []


def make_checkpoint(path, *words):
    """That of a run that was stopped."""
    process = start("profile", *words, *outputs(path / "q"), "--threads", 1, "--checkpoint", path / "c", "--every", "0.05s")
    wait_for(path / "c", process)
    process.kill()
    process.communicate(timeout=SECONDS)
    assert (path / "c").exists(), "it was too quick"


def test_a_checkpoint_of_another_run_is_refused(path):
    data = sources.npy(path / "x.npy", 40)
    make_checkpoint(path, DIGITS, "--data", data, "--batch", 2)
    before = (path / "c").read_bytes()
    other = path / "other.onnx"
    other.write_bytes(DIGITS.read_bytes() + b"\x32\x00")  # an empty doc_string
    same_data, more = ["--data", data], ["--batch", 2]
    for words, texts in (([DIGITS, *same_data, "--batch", 1], ["'batch'", "'1'", "'2'"]),
                         ([DIGITS, *same_data, *more, "--kind", "range"], ["'kind'"]),
                         ([DIGITS, *same_data, *more, "--observe", "weights"], ["'observe'"]),
                         ([DIGITS, *same_data, *more, "--limit", 1000], ["samples in all", "1000"]),
                         ([DIGITS, *same_data, *more, "--skip", 2], ["setting"]),
                         ([DIGITS, "--data", PICTURES, *more], ["data's hash"]),
                         ([other, *same_data, *more], ["sha256"]),
                         ([DIGITS, *same_data, *more, "--shard", "2/2"], ["shard 2/2"])):
        done = tidemark("profile", *words, *outputs(path / "p"), "--checkpoint", path / "c")
        done.refuses(BAD_INPUT, path / "c", "another run", *texts)
        assert (path / "c").read_bytes() == before
    for place in (len(before) // 2, len(before) - 1, 3):
        damaged = bytearray(before)
        damaged[place] ^= 1
        (path / "d").write_bytes(damaged)
        tidemark("profile", DIGITS, *same_data, *more, *outputs(path / "p"), "--checkpoint", path / "d").refuses(BAD_INPUT, path / "d")
    for name in (data, DIGITS):
        tidemark("profile", DIGITS, *same_data, *more, *outputs(path / "p"), "--checkpoint", name).refuses(WRONG_CALL, "name the same file")
    (path / "other.npy").write_bytes(data.read_bytes())
    tidemark("profile", DIGITS, *same_data, *more, *outputs(path / "p"), "--checkpoint", path / "other.npy").refuses(BAD_INPUT, "not a checkpoint")
    assert not any(name.startswith("p.") for name in files(path))
    tidemark("profile", DIGITS, *same_data, *more, *outputs(path / "p"), "--checkpoint", path / "c").expect(DONE, "resuming")


def test_resume_option_reports_whether_a_checkpoint_exists(path):
    words = ["profile", DIGITS, "--data", sources.npy(path / "x.npy", 15), *outputs(path / "p"), "--checkpoint", path / "c",
             "--every", "60s", "--resume"]
    tidemark(*words).expect(DONE, "no checkpoint", path / "c", "starting from the first sample")
    (path / "p.json").rename(path / "whole.json")
    make_checkpoint(path, *words[1:4])
    assert "from the first sample" not in tidemark(*words).expect(DONE, "resuming from a checkpoint").err
    assert (path / "p.json").read_bytes() == (path / "whole.json").read_bytes()


def test_usage_errors_are_refused(path):
    words = ["profile", DIGITS, "--data", PICTURES, "-o", path / "p.json"]
    for every in ("", "0", "-1s", "5 m", "10x", "s", "nan", "1e999"):
        tidemark(*words, "--checkpoint", path / "c", "--every", every).refuses(WRONG_CALL, "--every", "10s")
    tidemark(*words, "--every", "1s").refuses(WRONG_CALL, "--checkpoint")
    tidemark(*words, "--resume").refuses(WRONG_CALL, "--checkpoint")
    tidemark(*words, "--checkpoint", path / "p.json").refuses(WRONG_CALL, "same file")
    tidemark(*words, "--checkpoint", path / "no" / "c").refuses((BAD_INPUT, 4), "no")
    with open(PICTURES, "rb") as stream:
        done = tidemark("profile", DIGITS, "--data", "-", "-o", path / "p.json", "--checkpoint", path / "c", stdin=stream)
    done.refuses(WRONG_CALL, "stream")
    assert files(path) == []


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in a job in the background it is ignored, by all children too
    main()
