# SPDX-License-Identifier: Apache-2.0
"""The process that reads an HDF5 file stands still, as where its disk is gone: that ends, in one line. Slow is another matter.

usage: test_stalls.py PROGRAM SOURCE_ROOT FEATURES PRELOAD
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))

from cli import BAD_INPUT, DIGITS, DONE, PICTURES, folder, main, tidemark

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


main()
