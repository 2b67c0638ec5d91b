# SPDX-License-Identifier: Apache-2.0
"""The process that reads an HDF5 file stands still, as where its disk is gone: that ends, in one line. Slow is another matter.
So is a disk that is slow to keep a checkpoint: the run comes on.

usage: test_stalls.py PROGRAM SOURCE_ROOT FEATURES PRELOAD
"""
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))

from cli import BAD_INPUT, DIGITS, DONE, PICTURES, folder, main, npy_bytes, tidemark

PRELOAD = Path(sys.argv[4]).resolve()
QUIET = 12  # looks in a row that find that nothing has happened are the end


def with_profile(how, check):
    with folder() as here:
        tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 2, "-o", here / "p.h5", "--quiet").expect(DONE)
        environment = {**os.environ, "LD_PRELOAD": str(PRELOAD), "TIDEMARK_STALL": how}
        check(lambda *words: tidemark(*words, seconds=20, env=environment), here)


def test_stalled_hdf5_reader_is_stopped():
    def check(run, here):
        for words in (["show", here / "p.h5"], ["calibrate", here / "p.h5", "-o", here / "e.json"],
                      ["run", DIGITS, "--data", here / "p.h5", "-o", here / "y.npz"]):
            run(*words).refuses(BAD_INPUT, "p.h5", "has not come on")
        assert os.listdir(here) == ["p.h5"]
    with_profile("stop", check)


def test_slow_hdf5_reader_is_awaited():
    def check(run, here):
        assert run("show", here / "p.h5").expect(DONE).out == tidemark("show", here / "p.h5").out
    with_profile(str(2 * QUIET), check)


def test_slow_checkpoints_leave_half_of_the_time():
    def check(run, here):
        (here / "x.npy").write_bytes(npy_bytes([3000, 1, 8, 8], [k % 17 for k in range(3000 * 64)]))
        done = run("profile", DIGITS, "--data", here / "x.npy", "--batch", 1, "--threads", 1, "--checkpoint", here / "c", "--every", "0.001s", "-o", here / "q.json")
        n, took = re.search(r"(\d+) checkpoints took ([\d.]+) s of it", done.expect(DONE).err).groups()
        whole = float(re.search(r" in ([\d.]+) s", done.err)[1])
        assert int(n) >= 1 and float(took) <= whole / 2 + 0.5, done.err
    with_profile("sync", check)


main()
