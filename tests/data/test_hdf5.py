# SPDX-License-Identifier: Apache-2.0
"""Holds the reading of HDF5 datasets against h5py, and against .npy files of the same numbers.

usage: test_hdf5.py DUMP_SOURCE TIDEMARK DIGITS_MODEL DIGITS_DATA

DUMP_SOURCE is tests/tools/dump_source. Exit status 77 when NumPy or h5py is missing.
"""
import json
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DUMP, TIDEMARK, MODEL, DATA = sys.argv[1:5]
del sys.argv[1:]
TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]


def sample(code, shape, order="="):
    count = int(np.prod(shape))
    random = np.random.default_rng(len(shape))
    if code == "b1":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    return np.frombuffer(random.bytes(count * np.dtype(code).itemsize), np.dtype(order + code)).reshape(shape)


class HDF5(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "a.h5"

    def dump(self, source, step=1000000):
        """Name: what was printed of the array."""
        done = subprocess.run([DUMP, str(source), str(step)], capture_output=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        if done.returncode:
            raise RuntimeError(done.stderr.decode().strip())
        self.assertEqual(done.stderr, b"")
        return {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.decode().splitlines()[:-1]}

    def test_every_type_reads_as_from_npy(self):
        for code in TYPES:
            for order in "<>":
                array = sample(code, (5, 3, 2), order)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    np.save(self.folder / "a.npy", array)
                with h5py.File(self.path, "w") as f:
                    f["deep/x"] = array
                with self.subTest(code=code, order=order):
                    want = self.dump(self.folder / "a.npy")[""]
                    got = self.dump(f"{self.path}:/deep/x")[""]
                    self.assertEqual(got[:3], want[:3])
                    if np.dtype(code).kind == "f":  # the payload of a NaN may differ
                        got, want = (np.frombuffer(bytes.fromhex(x[3]), np.float32) for x in (got, want))
                        np.testing.assert_array_equal(got, want)
                    else:
                        self.assertEqual(got[3], want[3])

    def test_layouts_and_steps(self):
        array = sample("f4", (23, 4, 3))
        layouts = [{}, {"chunks": (1, 4, 3)}, {"chunks": (7, 2, 3), "compression": "gzip"},
                   {"chunks": True, "shuffle": True, "fletcher32": True, "compression": "gzip"}, {"maxshape": (None, 4, 3)},
                   {"chunks": (23, 4, 3), "compression": "gzip"}]
        np.save(self.folder / "a.npy", array)
        want = self.dump(self.folder / "a.npy")[""]
        for layout in layouts:
            with h5py.File(self.path, "w") as f:
                f.create_dataset("x", data=array, **layout)
            for step in (1, 5, 23, 100):
                with self.subTest(layout=layout, step=step):
                    self.assertEqual(self.dump(f"{self.path}:/x", step)[""], want)

    def test_a_large_chunk_is_unpacked_once(self):
        array = np.zeros((2048, 512), np.float32)
        with h5py.File(self.path, "w") as f:
            f.create_dataset("x", data=array, chunks=array.shape, compression="gzip")
        self.assertIn("", self.dump(f"{self.path}:/x", 1))  # minutes, otherwise

    def test_a_group_gives_its_datasets_by_name(self):
        with h5py.File(self.path, "w") as f:
            f["g/b"], f["g/a"], f["g/h/c"], f["top"] = np.zeros((2, 1)), np.ones(3), np.zeros(1), np.zeros(4)
            f["text"] = np.array(["x", "y"], h5py.string_dtype())
        self.assertEqual(list(self.dump(f"{self.path}:/g")), ["a", "b"])
        arrays = self.dump(self.path)
        self.assertEqual(list(arrays), ["text", "top"])
        self.assertEqual(arrays["text"][0], "undefined")

    def test_unreadable_files_are_refused(self):
        with h5py.File(self.path, "w") as f:
            f["x"] = np.zeros(3)
            f["complex"] = np.zeros(3, complex)
            f.create_group("empty")
        for inside, text in [("/nope", "no dataset or group"), ("/empty", "no datasets"), ("/x/y", "no dataset or group")]:
            with self.subTest(inside), self.assertRaisesRegex(RuntimeError, text):
                self.dump(f"{self.path}:{inside}")
        whole = self.path.read_bytes()
        for end in (0, 8, 100, len(whole) - 1):
            self.path.write_bytes(whole[:end])
            with self.subTest(end=end), self.assertRaisesRegex(RuntimeError, "a.h5"):
                self.dump(f"{self.path}:/x")
        with self.assertRaisesRegex(RuntimeError, "cannot be read"):
            self.dump(f"{self.folder / 'absent.h5'}:/x")

    def test_colon_in_a_file_name_is_kept(self):
        folder = self.folder / "a:"
        folder.mkdir()
        np.save(folder / "x.npy", np.ones(3, np.float32))
        self.assertIn("", self.dump(folder / "x.npy"))
        with h5py.File(folder / "y.h5", "w") as f:
            f["z"] = np.ones(3)
        self.assertIn("", self.dump(f"{folder / 'y.h5'}:/z"))

    def test_profiles_agree_with_those_of_npy(self):
        array = np.load(DATA)[:30]
        with h5py.File(self.path, "w") as f:
            f.create_dataset("set/image", data=array.astype(np.float32), chunks=(4, *array.shape[1:]), compression="gzip")
        np.save(self.folder / "a.npy", array.astype(np.float32))

        def profile(source, *more):
            out = self.folder / "p.json"
            subprocess.run([TIDEMARK, "profile", MODEL, "--quiet", "--data", source, "-o", out, *more], check=True, timeout=60)
            seen = json.loads(out.read_text())
            return seen.pop("data"), seen

        for more in ([], ["--batch", "7"], ["--skip", "3", "--sample-every", "4"]):
            _, want = profile(self.folder / "a.npy", *more)
            for source in (f"{self.path}:/set/image", f"{self.path}:/set", f"image={self.path}:/set/image"):
                about, got = profile(source, *more)
                self.assertEqual(got, want)
                self.assertEqual(about[0]["samples"], 30)
                self.assertTrue(about[0]["source"].startswith("a.h5:/set"))


if __name__ == "__main__":
    unittest.main()
