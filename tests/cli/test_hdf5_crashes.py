# SPDX-License-Identifier: Apache-2.0
"""Files that the HDF5 library itself crashes on, or loops on: each is refused by whatever reads HDF5, in one line."""
import shutil

from cli import ANSWER_NO, BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, SOURCE, folder, main, needs, skip, tidemark

FOUND = sorted((SOURCE / "tests/fuzz").glob("*/*/hdf5-*"))
ENDS = ("crashes on it", "timed out reading it")


def readers(bad, good, encodings, out):
    """Every command that reads HDF5, with the file in each place that takes one."""
    return [
        ["show", bad],
        ["check", bad],
        ["merge", bad, "-o", out / "m.json"],
        ["merge", good, bad, "-o", out / "m.h5"],
        ["diff", bad, good],
        ["diff", good, bad],
        ["calibrate", bad, "-o", out / "e.json"],
        ["report", bad, "-o", out / "r.html"],
        ["report", good, "--since", bad, "-o", out / "r.html"],
        ["link", bad, DIGITS, "-o", out / "l.json"],
        ["link", good, DIGITS, "--lineage", bad, "-o", out / "l.json"],
        ["graph", DIGITS, "--lineage", bad],
        ["profile", DIGITS, "--data", bad, "-o", out / "p.json"],
        ["run", DIGITS, "--data", bad, "-o", out / "o.npz"],
        ["simulate", DIGITS, encodings, "--data", bad],
    ]


def test_files_that_crash_the_library_are_refused():
    if "sanitized" in FEATURES:
        skip("sanitizers report errors of HDF5 itself in the process that reads the file")
    needs("hdf5")
    assert len(FOUND) >= 5, FOUND
    told = survived = 0
    with folder() as path:
        good, encodings, out = path / "good.json", path / "e.json", path / "out"
        tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 2, "-o", good).expect(DONE)
        tidemark("calibrate", good, "-o", encodings).expect(DONE)
        out.mkdir()
        bad = path / "bad.h5"
        for found in FOUND:
            shutil.copyfile(found, bad)
            if found.parent.name == "hdf5_data":  # its first byte is not of the file
                bad.write_bytes(found.read_bytes()[1:])
            for words in readers(bad, good, encodings, out):
                # a loop takes its seconds: once is enough
                if "loop" in found.name and words[:2] != ["diff", bad]:
                    continue
                done = tidemark(*words, seconds=300)
                if done.status in (DONE, ANSWER_NO):  # what it read outside its memory may be there, or another part is whole
                    survived += 1
                    for written in out.iterdir():
                        written.unlink()
                    continue
                done.refuses(BAD_INPUT, "bad.h5")
                told += any(end in done.err for end in ENDS)
                assert not list(out.iterdir()), (found, words)
    # Which of them a library survives is its own business.
    return f"{len(FOUND)} files, over which the library died {told} times; read {survived} times"


main()
