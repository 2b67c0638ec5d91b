# SPDX-License-Identifier: Apache-2.0
"""Disks that fill up or become read-only, and data that goes away, in the middle of a run: one clear line, the right exit status,
no half-written output, and a checkpoint from which a later run ends with the bytes of a run that was never interrupted.

Prints the faults as a table.
"""
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys

import onnx_bytes as onnx
import sources
from cli import (BAD_INPUT, DIGITS, DONE, MACHINE, PICTURES, PROGRAM, SECONDS, Done, files, folder, main, needs,
                 small_disk, tidemark)
from merge_shards import read_floats
from runs import ledger

FAULTS = []
PIPE_BYTES, AT_ONCE = 4096, 512
IMAGES = 400
GREY = ["--image", "color=grey"]


def note(fault, done, status, *texts):
    """One line on stderr besides the samples', with every text in it; goes into the table."""
    done.err = "".join(line for line in done.err.splitlines(keepends=True) if not line.startswith("sample "))
    done.refuses(status, *texts)
    FAULTS.append((fault, str(done.status), done.err.strip()))


class Held:
    """A run that prints a line a sample into a small pipe, and so blocks without a reader: it is in the middle of its work,
    and has a checkpoint, when something happens to it, however fast or busy the machine is."""

    def __init__(self, model, data, target, checkpoint, *more):
        self.words = ["profile", model, "--data", data, *more, "--kind", "print", "--observe", "image", "--threads", 1]
        self.target, self.checkpoint = target, checkpoint
        self.keeping = ["-o", target, "--checkpoint", checkpoint]

    def whole(self):
        """The bytes of a run that nothing happens to."""
        with folder() as path:
            tidemark(*self.words, "-o", path / "p.json").expect(DONE)
            return (path / "p.json").read_bytes()

    def __enter__(self):
        self.stderr, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        command = [PROGRAM, *map(str, [*self.words, *self.keeping]), "--every", "0.001s", "--quiet"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing)
        os.close(writing)
        self.said = b""
        while not self.checkpoint.exists():
            assert self.read(), f"it ended before there was a checkpoint: {self.said[-500:]}"
        return self

    def read(self):
        got = os.read(self.stderr, AT_ONCE)
        self.said += got
        return got

    def end(self, meanwhile=lambda: None):
        """Lets it run to its end; its messages without the samples' lines."""
        while self.read():
            meanwhile()
        said = self.said.decode(errors="replace")
        status = self.process.wait(timeout=SECONDS)
        return Done(self.words, subprocess.CompletedProcess(self.words, status, "", said))

    def __exit__(self, *error):
        os.close(self.stderr)
        self.process.kill()
        self.process.wait()

    def resume(self, whole):
        """A later run resumes it, and ends like one without a fault."""
        tidemark(*self.words, *self.keeping).expect(DONE, "resuming from a checkpoint")
        assert self.target.read_bytes() == whole, "not the bytes of a run that was not interrupted"
        assert not self.checkpoint.exists()


def fill(disk):
    """Takes all that is left of a small disk."""
    with open(disk / "filler", "ab", buffering=0) as filler:
        for size in (4096, 1):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                pass


def remount(disk, how):
    """Not possible while a file of it is being written."""
    return subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], capture_output=True).returncode == 0


def cut_a_byte(path):
    os.truncate(path, path.stat().st_size - 1)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


# ---- disks ----

def test_full_disk_of_the_checkpoint_ends_the_run():
    with folder() as path, small_disk(1 << 20) as disk:
        held = Held(DIGITS, PICTURES, path / "p.json", disk / "c")
        whole = held.whole()
        with held:
            note("disk of the checkpoint full in mid-run", held.end(lambda: fill(disk)), MACHINE, disk / "c", "space")
        assert files(path) == [] and files(disk) == ["c", "filler"], (files(path), files(disk))
        (disk / "filler").unlink()
        held.resume(whole)


def test_full_disk_of_the_output_ends_the_run():
    with folder() as path, small_disk(1 << 20) as disk:
        held = Held(DIGITS, PICTURES, disk / "p.json", path / "c")
        whole = held.whole()
        with held:
            fill(disk)
            note("disk of the output full in mid-run", held.end(), MACHINE, disk / "p.json", "space")
        assert files(path) == ["c"] and files(disk) == ["filler"], (files(path), files(disk))
        note("disk of the output still full", tidemark(*held.words, *held.keeping, "--quiet"), MACHINE, disk / "p.json", "space")
        assert files(path) == ["c"] and files(disk) == ["filler"], (files(path), files(disk))
        (disk / "filler").unlink()
        held.resume(whole)


def test_read_only_disk_ends_the_run():
    for what in ("checkpoint", "output"):
        with folder() as path, small_disk(1 << 20) as disk:
            target, checkpoint = (path / "p.json", disk / "c") if what == "checkpoint" else (disk / "p.json", path / "c")
            held = Held(DIGITS, PICTURES, target, checkpoint)
            whole = held.whole()
            with held:
                while not remount(disk, "ro"):
                    assert held.read(), "it cannot be made read-only"
                note(f"disk of the {what} read-only in mid-run", held.end(), MACHINE, f"{disk}/", "Read-only")
            assert files(path) + files(disk) == ["c"], (files(path), files(disk))
            note(f"disk of the {what} read-only from the start", tidemark(*held.words, *held.keeping), MACHINE, f"{disk}/", "Read-only")
            assert files(path) + files(disk) == ["c"], (files(path), files(disk))
            assert remount(disk, "rw")
            held.resume(whole)


def test_unwritable_places_are_reported():
    for target in ("/proc/p.json", "/proc/self/p.json", "/dev/null/p.json"):
        words = ["profile", DIGITS, "--data", PICTURES, "--limit", 4]
        note(f"output in {os.path.dirname(target)}", tidemark(*words, "-o", target), MACHINE, target)
        with folder() as path:
            done = tidemark(*words, "-o", path / "p.json", "--checkpoint", target)
            note(f"checkpoint in {os.path.dirname(target)}", done, MACHINE, target)
            assert files(path) == []


def test_removed_output_folder_is_reported(path):
    (path / "out").mkdir()
    held = Held(DIGITS, PICTURES, path / "out" / "p.json", path / "c")
    whole = held.whole()
    with held:
        (path / "out").rmdir()
        note("folder of the output removed in mid-run", held.end(), MACHINE, path / "out" / "p.json", "No such file")
    assert files(path) == ["c"]
    (path / "out").mkdir()
    held.resume(whole)


# ---- data ----

def check_damage(fault, name, write, damage, *texts, more=()):
    """`damage` happens to the data in mid-run; then the data is put right again."""
    with folder() as path:
        data = write(path / name)
        held = Held(DIGITS, f"{data}:/x" if data.suffix == ".h5" else data, path / "p.json", path / "c", *more)
        whole = held.whole()
        with held:
            damage(data)
            note(fault, held.end(), BAD_INPUT, *texts)
        assert "c" in files(path) and not any(name.startswith(("p.", "c.")) for name in files(path)), files(path)
        sources.again(write, data)
        held.resume(whole)


def test_shrinking_files_end_the_run():
    check_damage(".npy shrinks in mid-run", "x.npy", sources.npy, truncate, "x.npy", "sample")
    check_damage(".npy in Fortran order shrinks in mid-run", "x.npy", sources.fortran, truncate, "x.npy")
    check_damage(".npy in Fortran order shrinks by a byte", "x.npy", sources.fortran, cut_a_byte, "x.npy", "sample")
    check_damage(".bin shrinks in mid-run", "x.bin", sources.raw, truncate, "x.bin", "sample")


def test_removed_open_file_is_read_to_its_end(path):
    held = Held(DIGITS, sources.npy(path / "x.npy"), path / "p.json", path / "c")
    whole = held.whole()
    with held:
        (path / "x.npy").unlink()
        held.end().expect(DONE)
    assert held.target.read_bytes() == whole


def write_images(path):
    return sources.images(path, IMAGES)


def write_sets(path):
    return sources.sets(path, IMAGES)


def test_removed_or_shrinking_images_end_the_run(path):
    needs("images")
    last = f"{IMAGES - 1:04}.png"
    for fault, damage in (("folder of images removed in mid-run", shutil.rmtree),
                          ("image removed in mid-run", lambda path: (path / last).unlink()),
                          ("image shrinks in mid-run", lambda path: truncate(path / last))):
        check_damage(fault, "images", write_images, damage, ".png", "sample", "--on-bad-sample=skip", more=GREY)
    held = Held(DIGITS, write_images(path / "x"), path / "p.json", path / "c", *GREY, "--on-bad-sample=skip")
    with held:
        (path / "x" / last).unlink()
        held.end().expect(DONE)
    seen = ledger(path / "p")
    assert seen["failed"] == 1 and seen["run"] == IMAGES - 1 and seen["bad"][0]["file"] == last, seen


def test_removed_or_shrinking_test_sets_end_the_run():
    last = f"test_data_set_{IMAGES - 1}"
    check_damage("ONNX test sets removed in mid-run", "sets", write_sets, shutil.rmtree, "input_0.pb", "sample")
    check_damage("ONNX test set shrinks in mid-run", "sets", write_sets, lambda path: truncate(path / last / "input_0.pb"),
                 "input_0.pb", "sample")


def test_truncated_hdf5_ends_the_run(path):
    sources.need_hdf5()
    check_damage(".h5 shrinks in mid-run", "x.h5", sources.hdf5, truncate, "x.h5", "sample")
    truncate(sources.hdf5(path / "x.h5"))
    done = tidemark("profile", DIGITS, "--data", f"{path / 'x.h5'}:/x", "-o", path / "p.json")
    note(".h5 truncated from the start", done, BAD_INPUT, "x.h5", "truncated")
    assert files(path) == ["x.h5"]


WEIGHTS = struct.pack("<8192f", *range(8192))


def write_model(path, weights):
    """They are read from their file as they lie: smaller ones would be copied."""
    weight = onnx.tensor("w", [128, 8, 8], [], external={"location": weights})
    path.write_bytes(onnx.model([onnx.node("Add", ["image", "w"], ["y"])], [onnx.value("image", ["N", 1, 8, 8])],
                                [onnx.value("y", ["N", 128, 8, 8])], [weight]))
    return path


def test_shrinking_weights_end_the_run(path):
    model, weights = write_model(path / "m.onnx", "w.bin"), path / "w.bin"
    weights.write_bytes(WEIGHTS)
    held = Held(model, PICTURES, path / "p.json", path / "c")
    whole = held.whole()
    with held:
        os.truncate(weights, 0)
        note("file of weights shrinks in mid-run", held.end(), BAD_INPUT, weights)
    assert files(path) == ["c", "m.onnx", "w.bin"]
    weights.write_bytes(WEIGHTS)
    held.resume(whole)


def test_errors_are_logged_as_json(path):
    weights = path / 'the "w".bin'
    weights.write_bytes(WEIGHTS)
    held = Held(write_model(path / "m.onnx", weights.name), PICTURES, path / "p.json", path / "c", "--log-json")
    with held:
        os.truncate(weights, 0)
        done = held.end()
    record = json.loads(done.expect(BAD_INPUT).err.splitlines()[-1])
    assert record["event"] == record["level"] == "error" and str(weights) in record["message"], record


LOADER = """
import os, signal, sys
record = open(sys.argv[1], "rb").read()
for piece in (record, record, record[:int(sys.argv[2])]):
    sys.stdout.buffer.write(piece)
sys.stdout.buffer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_truncated_record_of_a_stream_is_reported():
    record = PICTURES.read_bytes()
    header = len(record) - len(read_floats(PICTURES)[1])
    for where, end in (("header", header - 20), ("elements", header + 700)):
        with folder() as path:
            with open(path / "stream", "w+b") as stream:
                stream.write(record + record[:end])
                stream.seek(0)
                done = tidemark("profile", DIGITS, "--data", "-", "--batch", 1, "--quiet", "-o", path / "p.json", stdin=stream)
            note(f"standard input ends inside a record's {where}", done, BAD_INPUT, "standard input", "record 2", "sample 1797")
            assert files(path) == ["stream"]


def test_killed_writer_of_a_stream_is_reported():
    """In the middle of a record, and of a header, when records before it have gone through."""
    record = PICTURES.read_bytes()
    header = len(record) - len(read_floats(PICTURES)[1])
    for where, end in (("header", header - 20), ("elements", header + 700)):
        with folder() as path:
            loader = subprocess.Popen([sys.executable, "-c", LOADER, str(PICTURES), str(end)], stdout=subprocess.PIPE)
            done = tidemark("profile", DIGITS, "--data", "-", "--batch", 1, "--quiet", "-o", path / "p.json", stdin=loader.stdout)
            loader.stdout.close()
            assert loader.wait() == -signal.SIGKILL
            note(f"loader killed inside a record's {where}", done, BAD_INPUT, "standard input", "record 3", "sample 3594")
            assert files(path) == []


def show_table():
    """Without the folders of this run."""
    width = max((len(fault) for fault, _, _ in FAULTS), default=0)
    for fault, status, said in FAULTS:
        print(f"{fault:{width}} | {status} | {re.sub('[^ ]*/tidemark-cli-[^/]*/', '', said)}")


if __name__ == "__main__":
    try:
        main()
    finally:
        show_table()
