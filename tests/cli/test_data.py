# SPDX-License-Identifier: Apache-2.0
"""Data sources: every kind gives the same profile, and the sample counts state which samples ran."""
import json
import os
import stat
import struct
import threading
import zipfile

import onnx_bytes as onnx
from cli import (BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, WRONG_CALL, folder, main, needs, npy_bytes, skip, subset, tensors_of,
                 tidemark)
from png import png

N, PIXELS = 21, 64
NODE, VALUE = onnx.node, onnx.value


def picture(i):
    return [(7 * i * i + 13 * k + i * k) % 256 for k in range(PIXELS)]


def numbers(first=0, end=N):
    """As images come out: float32 of pixel / 255."""
    return [struct.unpack("f", struct.pack("f", p * (1 / 255)))[0] for i in range(first, end) for p in picture(i)]


def record(first=0, end=N):
    return npy_bytes([end - first, 1, 8, 8], numbers(first, end))


def image(i):
    return png(8, 8, [bytes(picture(i)[8 * y:8 * y + 8]) for y in range(8)])


def profile(path, *data, stream=None, model=DIGITS, status=DONE, more=()):
    """The profile without its description of the data, and that; or the line on stderr."""
    words = [word for source in data for word in ("--data", source)]
    done = tidemark("profile", model, "--quiet", "-o", path / "p.json", *words, *more, input=stream or b"").expect(status)
    if status != DONE:
        return done.err
    seen = json.loads((path / "p.json").read_text())
    spec = more[list(more).index("--image") + 1] if "--image" in more else None
    assert seen["settings"].pop("image", None) == spec, seen["settings"]
    (path / "p.json").unlink()
    return seen, seen.pop("data")


def write_images(path, which=range(N)):
    path.mkdir()
    for i in which:
        (path / f"{i:03}.png").write_bytes(image(i))
    return path


GREY = ("--image", "color=grey")
HAS_IMAGES = "images" in FEATURES


def test_every_source_gives_the_same_profile():
    with folder() as path:
        array = path / "x.npy"
        array.write_bytes(record())
        (path / "x.bin").write_bytes(struct.pack(f"{N * PIXELS}f", *numbers()))
        with zipfile.ZipFile(path / "x.npz", "w") as z:
            z.writestr("image.npy", record())
            z.writestr("labels.npy", npy_bytes([N]))
        thirds = b"".join(record(i, i + 7) for i in range(0, N, 7))
        single = b"".join(npy_bytes([1, 8, 8], numbers(i, i + 1)) for i in range(N))
        for batch in subset((1, 4, N, 100), 2):
            more = ("--batch", batch)
            want, about = profile(path, array, more=more)
            assert want["ledger"]["run"] == N and about[0]["samples"] == N
            for data, stream in [(path / "x.bin", None), (f"image={path / 'x.bin'}", None), (path / "x.npz", None),
                                 ("-", record()), ("-", thirds), ("-", single), ("image=-", thirds)]:
                got, about = profile(path, data, stream=stream, more=more)
                assert got == want, (data, batch)
                assert about[0]["samples"] == N and len(about[0]["hash"]) == len("xxh128:") + 32
            if HAS_IMAGES:
                if batch == 1:
                    write_images(path / "f")
                    (path / "list.txt").write_text("".join(f"f/{i:03}.png\n" for i in range(N)))
                for source in (path / "f", f"{path / 'f'}/", path / "list.txt"):
                    for threads in (1, 3):
                        got, about = profile(path, source, more=more + GREY + ("--threads", threads))
                        assert got == want, (source, batch)
                assert about[0]["source"] == "list.txt"
        if HAS_IMAGES:
            got, _ = profile(path, path / "f" / "000.png", more=GREY)
            want, _ = profile(path, array, more=("--limit", 1))
            assert got == want
    return "" if HAS_IMAGES else "without images"


def test_every_source_selects_the_same_samples(path):
    array = path / "x.npy"
    array.write_bytes(record())
    images = write_images(path / "f") if HAS_IMAGES else None
    for words, batch, chosen in [
            (["--limit", 5], 1, range(5)), (["--skip", 19], 1, range(19, N)), (["--skip", 3, "--limit", 4], 1, range(3, 7)),
            (["--sample-every", 5], 1, range(0, N, 5)), (["--sample-every", 4, "--skip", 2], 1, range(2, N, 4)),
            (["--sample-every", 4, "--limit", 2], 1, [0, 4]), (["--limit", 500], 1, range(N)),
            (["--sample-every", 2], 4, [*range(4), *range(8, 12), *range(16, 20)]),
            (["--skip", 6, "--limit", 7], 4, range(6, 13)),
            (["--skip", 6, "--sample-every", 2, "--limit", 5], 4, [6, 7, 12, 13, 14])]:
        more = [*words, "--batch", batch]
        want, _ = profile(path, array, more=more)
        ledger = want["ledger"]
        chosen = list(chosen)
        assert (ledger["offered"], ledger["run"]) == (len(chosen), len(chosen)), (more, ledger)
        assert (ledger["first_sample"], ledger["end_sample"]) == (chosen[0], chosen[-1] + 1), (more, ledger)
        assert (ledger["skipped"], ledger["failed"]) == (0, 0), (more, ledger)
        first = tensors_of(want)["image"]
        pixels = [p for i in chosen for p in picture(i)]
        assert abs(first["max"] - max(pixels) / 255) < 1e-6 and first["count"] == len(pixels)
        assert first["max_at"]["sample"] == next(i for i in chosen if max(pixels) in picture(i))
        got, _ = profile(path, "-", stream=record(0, 10) + record(10, N), more=more)
        assert got == want, more
        if images:
            got, _ = profile(path, images, more=[*more, *GREY])
            assert got == want, more
        assert want["settings"].get("sample-every", "1") == str(words[words.index("--sample-every") + 1]
                                                                if "--sample-every" in words else 1)
    said = profile(path, array, more=["--skip", N], status=WRONG_CALL)
    assert "skipping 21" in said, said
    said = profile(path, "-", stream=record(), more=["--skip", N], status=BAD_INPUT)
    assert "sample 21" in said, said


def fixed_batch(size):
    return onnx.model([NODE("Relu", ["x"], ["y"])], [VALUE("x", [size, 2])], [VALUE("y", [size, 2])])


def test_incomplete_batches_of_fixed_size_are_skipped_and_counted(path):
    model, data = path / "m.onnx", path / "x.npy"
    model.write_bytes(fixed_batch(4))
    data.write_bytes(npy_bytes([11, 2], [*range(22)]))
    for more, run, skipped in [((), 8, 3), (("--skip", 4), 4, 3), (("--skip", 5), 0, 0), (("--limit", 7), 4, 3),
                               (("--skip", 2), 4, 5), (("--sample-every", 2), 4, 3)]:
        if not run:
            assert "4 at a time" in profile(path, data, model=model, more=more, status=BAD_INPUT)
            continue
        for source, stream in [(data, None), ("-", data.read_bytes())]:
            ledger = profile(path, source, stream=stream, model=model, more=more)[0]["ledger"]
            assert (ledger["run"], ledger["skipped"]) == (run, skipped), (source, more, ledger)
    said = profile(path, "-", stream=npy_bytes([3, 2]), model=model, status=BAD_INPUT)
    assert "fill no batch of 4" in said, said


def two_inputs():
    return onnx.model([NODE("Add", ["a", "b"], ["y"])], [VALUE(n, ["N", 2]) for n in "ab"], [VALUE("y", ["N", 2])])


def test_stream_records_alternate_between_inputs(path):
    model = path / "m.onnx"
    model.write_bytes(two_inputs())
    a, b = [*range(12)], [*range(100, 112)]
    (path / "a.npy").write_bytes(npy_bytes([6, 2], a))
    (path / "b.npy").write_bytes(npy_bytes([6, 2], b))
    turns = b"".join(npy_bytes([3, 2], x[i:i + 6]) for i in (0, 6) for x in (a, b))
    uneven = (npy_bytes([4, 2], a[:8]) + npy_bytes([2, 2], b[:4]) + npy_bytes([2, 2], a[8:]) + npy_bytes([4, 2], b[4:]))
    for batch in (1, 2, 4, 5):
        more = ("--batch", batch)
        want, _ = profile(path, f"a={path / 'a.npy'}", f"b={path / 'b.npy'}", model=model, more=more)
        assert profile(path, "-", stream=turns, model=model, more=more)[0] == want
        mixed = profile(path, f"a={path / 'a.npy'}", "b=-", stream=npy_bytes([6, 2], b), model=model, more=more)
        assert mixed[0] == want
        got = profile(path, "-", stream=uneven, model=model, more=more)[0]
        assert got["ledger"]["run"] == 6
    for stream, text in [(npy_bytes([6, 2], a), "without one for 'b'"),
                         (npy_bytes([6, 2], a) + npy_bytes([5, 2], b[:10]), "ends after 5 samples for 'b'"),
                         (npy_bytes([5, 2], a[:10]) + npy_bytes([6, 2], b), None)]:
        if text:
            assert text in profile(path, "-", stream=stream, model=model, status=BAD_INPUT)
    said = profile(path, f"a={path / 'a.npy'}", "b=-", stream=npy_bytes([5, 2], b[:10]), model=model, status=BAD_INPUT)
    assert "ends after 5 samples for 'b'" in said, said
    said = profile(path, f"a={path / 'a.npy'}", "b=-", stream=npy_bytes([7, 2]), model=model, status=BAD_INPUT)
    assert "continues after 6 samples for 'b'" in said, said
    assert "twice" in profile(path, "a=-", "b=-", model=model, status=WRONG_CALL)


def test_records_may_differ_in_free_dimensions(path):
    model = path / "m.onnx"
    model.write_bytes(onnx.model([NODE("Relu", ["x"], ["y"])], [VALUE("x", ["N", "T"])], [VALUE("y", ["N", "T"])]))
    stream = b"".join(npy_bytes([n, t], [n * t - k for k in range(n * t)]) for n, t in [(1, 3), (2, 5), (1, 5), (2, 1)])
    for batch, calls in [(1, 6), (2, 4), (10, 3)]:
        got, about = profile(path, "-", stream=stream, model=model, more=("--batch", batch))
        x = tensors_of(got)["x"]
        assert (x["count"], x["max"], x["max_at"]["sample"]) == (20, 10, 1), x
        assert got["ledger"]["run"] == 6 and got["ledger"]["batches"] == calls, (batch, got["ledger"])
        assert about[0]["samples"] == 6


def test_stream_is_read_up_to_the_limit_only(path):
    reading, writing = os.pipe()
    os.write(writing, record(0, 2) + record(2, 4))
    try:  # the stream stays open: who waits for more of it would wait for ever
        done = tidemark("profile", DIGITS, "--data", "-", "--limit", 4, "--quiet", "-o", path / "p.json", stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    done.expect(DONE)
    assert json.loads((path / "p.json").read_text())["ledger"]["run"] == 4


def test_invalid_streams_are_refused(path):
    whole = record()
    for stream, text in [(b"", "is empty"), (b"hello, world, hello", "record 1"), (whole[:-1], "truncated"),
                         (whole[:60], "truncated"), (whole + whole[:5], "record 2"), (whole + b"\0" * 200, "record 2"),
                         (whole + npy_bytes([2, 1, 8, 8], kind="<i4"), "record 2: is int32"),
                         (whole + npy_bytes([2, 8]), "record 2"), (npy_bytes([2, 8]), "the array has"),
                         (whole.replace(b"(21,", b"(99999999,"), "truncated")]:
        said = profile(path, "-", stream=stream, status=BAD_INPUT)
        assert text in said and said.count("\n") == 1, (text, said)


def test_streams_are_not_read_again(path):
    """By what runs the same samples more than once: it would get others each time."""
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 40, "--quiet", "-o", path / "p.json").expect(DONE)
    tidemark("calibrate", path / "p.json", "--quiet", "-o", path / "e.json").expect(DONE)
    simulate, numbers = ["simulate", DIGITS, path / "e.json"], ["link", path / "p.json", DIGITS, "--numbers", "--original", DIGITS]
    for words in ([*simulate, "--rank"], [*simulate, "--search", "--profile", path / "p.json", "-o", path / "n.json"],
                  [*numbers, "-o", path / "n.json"], ["bench", DIGITS], ["quantize", DIGITS, "-o", path / "n.onnx"]):
        for data in ("-", "image=-"):
            with open(PICTURES, "rb") as stream:
                tidemark(*words, "--data", data, stdin=stream).refuses(WRONG_CALL, "read more than once")
    assert {file.name for file in path.iterdir()} == {"p.json", "e.json"}


def test_pipes_and_devices_as_files_are_refused(path):
    fifo = path / "pipe.npy"
    os.mkfifo(fifo)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    for source in (fifo, "/dev/zero", "/dev/null"):
        said = profile(path, source, status=BAD_INPUT)
        assert "standard input" in said and str(source) in said, said


def test_fifo_as_standard_input_is_read(path):
    fifo = path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(record()))
    writer.start()
    with open(fifo, "rb") as stream:
        tidemark("profile", DIGITS, "--data", "-", "--quiet", "-o", path / "p.json", stdin=stream).expect(DONE)
    writer.join()


def test_raw_files_take_the_shape_of_their_input(path):
    raw, model = path / "x.bin", path / "m.onnx"
    raw.write_bytes(struct.pack("12f", *range(12)))
    model.write_bytes(onnx.model([NODE("Relu", ["x"], ["y"])], [VALUE("x", ["N", "T"])], [VALUE("y", ["N", "T"])]))
    assert "--dim" in profile(path, raw, model=model, status=BAD_INPUT)
    for t in (1, 3, 12):
        got, _ = profile(path, raw, model=model, more=("--dim", f"T={t}"))
        assert got["ledger"]["run"] == 12 // t
    assert "no whole number of entries" in profile(path, raw, model=model, more=("--dim", "T=5"), status=BAD_INPUT)
    model.write_bytes(onnx.model([NODE("Neg", ["x"], ["y"])], [VALUE("x", ["N", 2], onnx.INT64)],
                                 [VALUE("y", ["N", 2], onnx.INT64)]))
    assert "int64" in profile(path, raw, model=model, status=BAD_INPUT)
    raw.write_bytes(b"")
    assert "x.bin" in profile(path, raw, status=BAD_INPUT)


def test_bad_images_stop_the_run_or_are_listed(path):
    needs("images")
    images = write_images(path / "f")
    clean, _ = profile(path, images, more=GREY)
    (images / "005.png").write_bytes(b"junk")
    (images / "006.png").write_bytes(image(6)[:70])
    (images / "020.png").unlink()
    (images / "020.png").symlink_to("nowhere")
    said = profile(path, images, more=GREY, status=BAD_INPUT)
    assert "005.png" in said and "sample 5" in said and "--on-bad-sample=skip" in said, said
    for batch, calls in [(1, 18), (4, 6), (7, 3)]:
        words = [*GREY, "--on-bad-sample=skip", "--batch", batch]
        got, _ = profile(path, images, more=words)
        ledger = got["ledger"]
        assert (ledger["offered"], ledger["run"], ledger["skipped"], ledger["failed"]) == (21, 18, 0, 3), ledger
        assert ledger["batches"] == calls and ledger["end_sample"] == 21, (batch, ledger)
        assert [(bad["sample"], bad["file"]) for bad in ledger["bad"]] == [
            (5, "005.png"), (6, "006.png"), (20, "020.png")], ledger
        assert "neither" in ledger["bad"][0]["why"] and str(path) not in json.dumps(ledger)
        assert profile(path, images, more=[*words, "--threads", 3])[0] == got
        first = tensors_of(got)["image"]
        pixels = [p for i in range(20) if i not in (5, 6) for p in picture(i)]
        assert first["max_at"]["sample"] == next(i for i in range(20) if max(pixels) in picture(i) and i not in (5, 6))
    for name in ["p.json"] + (["p.h5"] if "hdf5" in FEATURES else []):
        tidemark("profile", DIGITS, "--data", images, *GREY, "--on-bad-sample", "skip", "-o", path / name).expect(DONE)
        tidemark("show", path / name).expect(DONE)
    whole = json.loads((path / "p.json").read_text())
    for spoilt, text in [([*whole["ledger"]["bad"], {"sample": 20, "file": "", "why": ""}], "4 bad samples are listed"),
                         (whole["ledger"]["bad"][::-1], "of order"), ([{"sample": 21, "file": "", "why": ""}], "range"),
                         ([{"sample": 5, "file": ""}], "'why'")]:
        changed = {**whole, "ledger": {**whole["ledger"], "bad": spoilt}}
        (path / "changed.json").write_text(json.dumps(changed))
        tidemark("show", path / "changed.json").refuses(BAD_INPUT, "changed.json", text)
    said = profile(path, images / "005.png", more=[*GREY, "--on-bad-sample=skip"], status=BAD_INPUT)
    assert "no sample is left" in said and "005.png" in said, said
    assert clean["ledger"]["failed"] == 0 and "bad" not in clean["ledger"]
    assert "stop or skip" in profile(path, images, more=["--on-bad-sample=no"], status=WRONG_CALL)


def test_bad_test_sets_can_be_skipped(path):
    model = path / "m.onnx"
    model.write_bytes(two_inputs())
    for i in range(4):
        (path / "sets" / f"test_data_set_{i}").mkdir(parents=True)
        for k, name in enumerate("ab"):
            (path / "sets" / f"test_data_set_{i}" / f"input_{k}.pb").write_bytes(
                onnx.tensor(name, [1, 2], [10 * i + k, -i]))
    (path / "sets" / "test_data_set_2" / "input_1.pb").write_bytes(b"junk")
    said = profile(path, path / "sets", model=model, status=BAD_INPUT)
    assert "test_data_set_2/input_1.pb" in said and "sample 2" in said, said
    ledger = profile(path, path / "sets", model=model, more=["--on-bad-sample=skip"])[0]["ledger"]
    assert (ledger["run"], ledger["failed"], ledger["offered"]) == (3, 1, 4), ledger
    assert [(bad["sample"], bad["file"]) for bad in ledger["bad"]] == [(2, "test_data_set_2")], ledger


def test_bad_image_skips_the_sample_of_all_inputs(path):
    needs("images")
    model = path / "m.onnx"
    model.write_bytes(onnx.model([NODE("Add", ["a", "b"], ["y"])], [VALUE(n, ["N", 1, 8, 8]) for n in "ab"],
                                 [VALUE("y", ["N", 1, 8, 8])]))
    images = write_images(path / "f")
    (path / "b.npy").write_bytes(record())
    words = [f"a={images}", f"b={path / 'b.npy'}"]
    for batch in (1, 5):
        more = [*GREY, "--batch", batch, "--on-bad-sample=skip"]
        (images / "007.png").write_bytes(image(7))
        want, _ = profile(path, *words, model=model, more=more)
        y = tensors_of(want)["y"]
        assert abs(y["max"] - 2 * max(p for i in range(N) for p in picture(i)) / 255) < 1e-5
        (images / "007.png").write_bytes(b"")
        got, _ = profile(path, *words, model=model, more=more)
        a, b = (tensors_of(got)[name] for name in "ab")
        assert got["ledger"]["failed"] == 1
        assert (a["count"], a["histogram"], a["sum"]) == (b["count"], b["histogram"], b["sum"])
        assert profile(path, *words, model=model, more=[*more, "--threads", 1])[0] == got


def test_bad_images_reduce_the_complete_batches_of_fixed_size(path):
    needs("images")
    model = path / "m.onnx"
    model.write_bytes(onnx.model([NODE("Relu", ["x"], ["y"])], [VALUE("x", [4, 1, 8, 8])], [VALUE("y", [4, 1, 8, 8])]))
    images = write_images(path / "f")
    for bad in (5, 6):
        (images / f"{bad:03}.png").write_bytes(b"")
    ledger = profile(path, images, model=model, more=[*GREY, "--on-bad-sample=skip"])[0]["ledger"]
    assert (ledger["run"], ledger["failed"], ledger["skipped"]) == (16, 2, 3), ledger


def test_mismatched_images_are_reported(path):
    if not HAS_IMAGES:
        (path / "x.png").write_bytes(image(0))
        assert "no images" in profile(path, path / "x.png", status=BAD_INPUT)
        skip("the build has no images")
    images = write_images(path / "f", range(2))
    assert "[1,3,8,8]" in profile(path, images, status=BAD_INPUT)
    assert "--image" in profile(path, images, more=["--image", "size=3"], status=WRONG_CALL)
    assert "9 x 9" in profile(path, images, more=["--image", "color=grey,crop=9"], status=BAD_INPUT)
    (path / "list.txt").write_text("f/000.png\nabsent.png\n")
    said = profile(path, path / "list.txt", more=GREY, status=BAD_INPUT)
    assert "list.txt" in said and "absent.png" in said, said
    (path / "empty.txt").write_text("\n\n")
    assert "names no images" in profile(path, path / "empty.txt", status=BAD_INPUT)
    (path / "none").mkdir()
    refused = profile(path, path / "none", status=BAD_INPUT)
    assert "none: is a folder, and no source of data" in refused and len(refused) < 400, refused


def test_run_takes_every_source_too(path):
    (path / "x.npy").write_bytes(record())
    tidemark("run", DIGITS, "--data", path / "x.npy", "--skip", 3, "--limit", 4, "-o", path / "a.npz").expect(DONE)
    with open(path / "x.npy", "rb") as stream:
        tidemark("run", DIGITS, "--data", "-", "--skip", 3, "--limit", 4, "-o", path / "b.npz", stdin=stream).expect(DONE)
    assert (path / "a.npz").read_bytes() == (path / "b.npz").read_bytes()


def test_the_help_names_every_kind_of_source():
    done = tidemark("profile", "--help").expect(DONE, "--image", "--on-bad-sample", "--sample-every", "--skip", "resize=", "mean=R:G:B")
    words = " ".join(done.out.split())
    for kind in (".npy", ".npz", ".h5:/path", ".bin", ".jsonl", "test sets", "PNG", "standard input"):
        assert kind in words, kind


main()
