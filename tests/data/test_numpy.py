# SPDX-License-Identifier: Apache-2.0
"""Holds the reading and writing of NumPy files against NumPy.

usage: test_numpy.py DUMP_SOURCE

DUMP_SOURCE is tests/tools/dump_source. Exit status 77 when NumPy is missing.
"""
import ctypes
import io
import itertools
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile
from pathlib import Path

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DUMP = sys.argv.pop(1)
TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
SHAPES = [(1,), (7,), (0,), (5, 3), (4, 0, 2), (3, 2, 4), (2, 3, 1, 5), (2,) * 12]


def sample(code, shape, order="=", seed=0):
    """All kinds of bits: for floats that means denormals, infinities and NaN too."""
    dtype = np.dtype(order + code)
    count = int(np.prod(shape))
    random = np.random.default_rng(seed)
    if code == "b1":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


def as_read(array):
    """What a reader hands out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if array.dtype.kind == "f":
            return array.astype(np.float32)
    return array.astype(array.dtype.newbyteorder("="))


XXHASH = ctypes.CDLL("libxxhash.so.0")


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


XXHASH.XXH3_128bits.restype = Hash128
XXHASH.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh128(content):
    digest = XXHASH.XXH3_128bits(content, len(content))
    return f"{digest.high:016x}{digest.low:016x}"


def dump(source, step=1000000):
    done = subprocess.run([DUMP, str(source), str(step)], capture_output=True, timeout=60, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"crashed: {done.returncode} {done.stderr!r}")
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    *lines, digest = done.stdout.decode().splitlines()
    assert digest == xxh128(Path(source).read_bytes())
    arrays = {}
    for line in lines:
        name, dtype, origin, *rest = line.split("\t")
        arrays[name] = origin if dtype == "undefined" else (dtype, origin, *rest)
    return arrays


class NumPy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_reads(self, seen, array):
        dtype, origin, shape, elements = seen
        want = as_read(array)
        self.assertEqual(dtype, want.dtype.name)
        self.assertEqual(origin, array.dtype.name)
        self.assertEqual(shape, "[" + ",".join(map(str, array.shape)) + "]")
        got = np.frombuffer(bytes.fromhex(elements), want.dtype).reshape(want.shape)
        if want.dtype.kind == "f":
            nan = np.isnan(want)
            np.testing.assert_array_equal(np.isnan(got), nan)
            got, want = np.where(nan, np.float32(0), got), np.where(nan, np.float32(0), want)
        self.assertEqual(got.tobytes(), want.tobytes())

    def test_every_npy_reads_the_same(self):
        path = self.folder / "a.npy"
        for seed, (code, order, shape) in enumerate(itertools.product(TYPES, "<>", SHAPES)):
            array = sample(code, shape, order, seed)
            for laid_out in [np.ascontiguousarray(array), np.asfortranarray(array)]:
                with self.subTest(code=code, order=order, shape=shape, fortran=laid_out is not array):
                    np.save(path, laid_out)
                    self.assert_reads(dump(path)[""], array)

    def test_slices_add_up(self):
        path = self.folder / "a.npy"
        for code, order, step in itertools.product(["f4", "f2", "i8"], "<>", [1, 2, 3]):
            array = sample(code, (7, 3, 2), order)
            for laid_out in [array, np.asfortranarray(array)]:
                np.save(path, laid_out)
                self.assert_reads(dump(path, step)[""], array)

    def test_every_version_reads_the_same(self):
        path = self.folder / "a.npy"
        array = sample("f4", (3, 4))
        for version in [(1, 0), (2, 0), (3, 0)]:
            with open(path, "wb") as file:
                np.lib.format.write_array(file, array, version=version)
            self.assert_reads(dump(path)[""], array)

    def test_every_npz_reads_the_same(self):
        arrays = {f"{code}/{i}": sample(code, shape, "><"[i % 2], i)
                  for i, (code, shape) in enumerate(itertools.product(TYPES, SHAPES))}
        arrays["größe"] = sample("f4", (2,))
        for save in [np.savez, np.savez_compressed]:
            path = self.folder / "a.npz"
            save(path, **arrays)
            seen = dump(path)
            self.assertEqual(list(seen), list(arrays))
            for name, array in arrays.items():
                with self.subTest(save=save.__name__, name=name):
                    self.assert_reads(seen[name], array)

    def test_streamed_npz_reads_the_same(self):
        array = sample("f8", (100, 3))
        class Pipe(io.RawIOBase):
            def __init__(self, file):
                self.file = file
            def writable(self):
                return True
            def write(self, data):
                return self.file.write(data)
        path = self.folder / "a.npz"
        with open(path, "wb") as file, zipfile.ZipFile(Pipe(file), "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("x.npy", "w") as member:
                np.lib.format.write_array(member, array)
        self.assert_reads(dump(path)["x"], array)

    def test_unreadable_types_are_named_and_left_alone(self):
        arrays = {
            "objects": np.array([{}, None], dtype=object), "text": np.array(["a", "é"]), "bytes": np.array([b"ab"]),
            "fields": np.zeros(3, dtype=[("a", "<f4"), ("b'", "<i2", (2,))]), "complex": np.zeros(2, "c8"),
            "dates": np.array(["2020-01-01"], dtype="M8[D]"), "long": np.zeros(2, np.longdouble),
            "deep": np.zeros((1,) * 13, np.float32), "good": sample("f4", (3,)),
        }
        path = self.folder / "a.npz"
        np.savez(path, **arrays)
        seen = dump(path)
        self.assert_reads(seen["good"], arrays["good"])
        self.assertIn("pickles are not read", seen["objects"])
        for name in set(arrays) - {"good"}:
            self.assertIsInstance(seen[name], str, name)
            np.save(self.folder / "a.npy", arrays[name])
            with self.assertRaises(RuntimeError):
                dump(self.folder / "a.npy")

    def test_two_arrays_in_one_npy_are_refused(self):
        path = self.folder / "a.npy"
        with open(path, "wb") as file:
            np.save(file, np.zeros(3))
            np.save(file, np.zeros(3))
        with self.assertRaisesRegex(RuntimeError, "more than one array"):
            dump(path)

    def test_numpy_reads_what_we_write(self):
        arrays = {f"/{code}:{i}": sample(code, shape, "=", i)
                  for i, (code, shape) in enumerate(itertools.product(TYPES, SHAPES))}
        arrays["größe"] = sample("u1", (2,))
        np.savez(self.folder / "in.npz", **arrays)
        subprocess.run([DUMP, self.folder / "in.npz", "-o", self.folder / "out.npz"], check=True, timeout=60)
        self.assertIsNone(zipfile.ZipFile(self.folder / "out.npz").testzip())
        with np.load(self.folder / "out.npz", allow_pickle=False) as back:
            self.assertEqual(back.files, list(arrays))
            for name, array in arrays.items():
                want = as_read(array)
                self.assertEqual(back[name].dtype, want.dtype)
                self.assertTrue(back[name].flags.c_contiguous)
                np.testing.assert_array_equal(back[name], want)
        for shape in SHAPES:
            array = sample("i4", shape)
            np.save(self.folder / "in.npy", array)
            subprocess.run([DUMP, self.folder / "in.npy", "-o", self.folder / "out.npy"], check=True, timeout=60)
            np.testing.assert_array_equal(np.load(self.folder / "out.npy"), array)


if __name__ == "__main__":
    unittest.main()
