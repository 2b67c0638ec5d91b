# SPDX-License-Identifier: Apache-2.0
"""`tidemark profile --shard K/N`: the parts of a run, merged, are the run, bit by bit.

usage: test_shard.py PROGRAM SOURCE_ROOT FEATURES

Real models are taken from $TIDEMARK_SHARED/models, or from ../shared/models beside the source, when they are there.
"""
import json
import os
import random
import struct
import subprocess
import zlib
from pathlib import Path

from cli import (BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, PROGRAM, SECONDS, SOURCE, WRONG_CALL, folder, main, npy_bytes,
                 tidemark)

MODELS = Path(os.environ.get("TIDEMARK_SHARED") or SOURCE.parent / "shared") / "models"
REAL = (("mnist_cnn", "x_64.npy", 41), ("mlperf_ic_resnet8", "inputs_57.npz", 9), ("dtln_lstm", "inputs_400.npz", 30),
        ("char_gpt", "inputs_64.npz", 7))
FORMS = ("json", "h5") if "hdf5" in FEATURES else ("json",)


def profile(target, *words):
    outputs = [word for form in FORMS for word in ("-o", f"{target}.{form}")]
    return tidemark("profile", "--quiet", *words, *outputs).expect(DONE)


def merge(random_, parts, target):
    """All parts, in random order and groups of random sizes and formats."""
    parts, made = [f"{part}.{random_.choice(FORMS)}" for part in parts], 0
    random_.shuffle(parts)
    while len(parts) > 1 and random_.random() < 0.7:
        size, made = random_.randint(1, len(parts)), made + 1
        group = f"{target}-{made}.{random_.choice(FORMS)}"
        tidemark("merge", *parts[:size], "-o", group).expect(DONE)
        parts = parts[size:] + [group]
        random_.shuffle(parts)
    outputs = [word for form in FORMS for word in ("-o", f"{target}.{form}")]
    tidemark("merge", *parts, *outputs).expect(DONE, "the whole run")


def equal(one, other):
    for form in FORMS:
        assert Path(f"{one}.{form}").read_bytes() == Path(f"{other}.{form}").read_bytes(), f"{one} and {other}: {form}"


def check(path, words, counts=(3,) if "sanitized" in FEATURES else (1, 2, 3, 7), seed=0):
    random_ = random.Random(seed)
    whole = path / "whole"
    profile(whole, *words)
    for count in counts:
        parts = [path / f"part-{count}-{k}" for k in range(1, count + 1)]
        for k, part in enumerate(parts, 1):
            profile(part, *words, "--shard", f"{k}/{count}", "--threads", random_.randint(1, 3))
        for _ in range(2):
            merge(random_, parts, path / "merged")
            equal(path / "merged", whole)


def ledger(target):
    seen = json.loads(Path(f"{target}.json").read_text())
    return {**seen["ledger"], **seen["coverage"]}


def test_parts_of_digits_make_the_whole():
    for seed, more in enumerate(([], ["--batch", 16], ["--batch", 7, "--kind", "range"], ["--batch", 5, "--skip", 13],
                                 ["--sample-every", 3], ["--batch", 4, "--sample-every", 3, "--skip", 2, "--limit", 51])):
        with folder() as path:
            limit = [] if "--limit" in more else ["--limit", 120]
            check(path, [DIGITS, "--data", PICTURES, *limit, *more], seed=seed)


def test_parts_of_real_models_make_the_whole():
    if not MODELS.is_dir():
        return f"no models in {MODELS}"
    done = []
    for name, data, limit in REAL:
        if (MODELS / name / data).exists():
            for batch in (1, 4):
                with folder() as path:
                    words = [MODELS / name / "model.onnx", "--data", MODELS / name / data, "--limit", limit, "--batch", batch]
                    check(path, words, counts=(2, 3), seed=batch)
            done.append(name)
    return ", ".join(done) or "none is there"


def test_what_a_part_says_of_itself():
    with folder() as path:
        words = [DIGITS, "--data", PICTURES, "--limit", 100, "--batch", 16]
        want = [(0, 32), (32, 64), (64, 100)]  # 7 batches: 2, 2 and 3 of them
        for k, (begin, end) in enumerate(want, 1):
            profile(path / "p", *words, "--shard", f"{k}/3")
            seen = ledger(path / "p")
            assert seen["total"] == 100 and seen["ranges"] == [[begin, end]], seen
            assert (seen["first_sample"], seen["end_sample"]) == (begin, end), seen
            assert seen["offered"] == seen["run"] == end - begin and not seen["skipped"] and not seen["failed"], seen


def test_a_part_without_samples():
    with folder() as path:
        words = [DIGITS, "--data", PICTURES, "--limit", 3]
        check(path, words, counts=(5,))
        profile(path / "p", *words, "--shard", "1/5")
        seen = ledger(path / "p")
        assert seen["run"] == seen["offered"] == 0 and seen["ranges"] == [] and seen["total"] == 3, seen


def fixed_model(path):
    """Runs four samples at a time and no others."""
    import onnx_bytes as onnx
    path.write_bytes(onnx.model([onnx.node("Relu", ["x"], ["y"])], [onnx.value("x", [4, 3])], [onnx.value("y", [4, 3])]))


def test_what_fills_no_batch_is_skipped_once():
    with folder() as path:
        fixed_model(path / "m.onnx")
        (path / "x.npy").write_bytes(npy_bytes([22, 3], [i % 7 - 3 for i in range(66)]))
        for more in ([], ["--skip", 2], ["--sample-every", 2]):
            check(path, [path / "m.onnx", "--data", path / "x.npy", *more])
        profile(path / "p", path / "m.onnx", "--data", path / "x.npy", "--shard", "6/6")
        assert ledger(path / "p")["skipped"] == 2 and ledger(path / "p")["run"] == 0


def png(i):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + bytes((7 * i * i + 13 * k + y) % 256 for k in range(8)) for y in range(8))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def test_bad_samples_are_counted_once_and_listed_in_order():
    if "images" not in FEATURES:
        return "built without images"
    with folder() as path:
        images = path / "images"
        images.mkdir()
        for i in range(330):
            (images / f"{i:03}.png").write_bytes(b"no picture" if i % 2 and i < 250 else png(i))
        for batch in (1, 4):
            words = [DIGITS, "--data", images, "--image", "color=grey", "--on-bad-sample", "skip", "--batch", batch]
            check(path, words, counts=(2, 7), seed=batch)
        seen = json.loads((path / "merged.json").read_text())
        assert seen["ledger"]["failed"] == 125 and seen["ledger"]["run"] == 205, seen["ledger"]
        assert [bad["sample"] for bad in seen["ledger"]["bad"]] == list(range(1, 200, 2)), seen["ledger"]["bad"]
        for i in range(4):
            (images / f"{i:03}.png").write_bytes(b"no picture")
        check(path, [*words, "--limit", 8], counts=(2,))


def test_what_merge_says_of_parts():
    with folder() as path:
        words = [DIGITS, "--data", PICTURES, "--limit", 40, "--batch", 1]
        for k in (1, 2, 3, 4):
            profile(path / f"p{k}", *words, "--shard", f"{k}/4")
        profile(path / "half", *words, "--shard", "1/2")
        p = [path / f"p{k}.json" for k in (1, 2, 3, 4)]
        tidemark("merge", p[0], p[3], "-o", path / "m.json").expect(DONE, "with gaps: 20 of 40 samples (0 to 10, 30 to 40)")
        tidemark("merge", p[2], p[1], path / "m.json", "-o", path / "m.json").expect(DONE, "40 samples: the whole run")
        tidemark("merge", p[0], p[0], "-o", path / "m.json").refuses(BAD_INPUT, "both hold samples 0 to 10")
        tidemark("merge", p[1], path / "half.json", "-o", path / "m.json").refuses(BAD_INPUT, "both hold samples 10 to 20")
        profile(path / "other", DIGITS, "--data", PICTURES, "--limit", 41, "--batch", 1, "--shard", "2/4")
        tidemark("merge", p[0], path / "other.json", "-o", path / "m.json").refuses(BAD_INPUT, "samples in all is 40")


def test_wrong_command_lines():
    with folder() as path:
        words = ["profile", DIGITS, "-o", path / "p.json"]
        for shard in ("0/3", "4/3", "1", "1/", "/3", "1/0", "-1/3", "1/3x", "a/b", "1/99999999999", ""):
            tidemark(*words, "--data", PICTURES, "--shard", shard).refuses(WRONG_CALL, "--shard", "K/N")
        done = subprocess.run([PROGRAM, *map(str, words), "--data", "-", "--shard", "1/2"], input=PICTURES.read_bytes(),
                              capture_output=True, timeout=SECONDS)
        said = done.stderr.decode()
        assert done.returncode == WRONG_CALL and "stream" in said and said.count("\n") == 1, said


if __name__ == "__main__":
    main(globals())
