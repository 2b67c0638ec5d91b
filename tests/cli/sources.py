# SPDX-License-Identifier: Apache-2.0
"""The bundled pictures as every kind of source; each function writes one and gives its path back."""
import os
import shutil
import struct
import subprocess
import zipfile

import onnx_bytes as onnx
from cli import FEATURES, PICTURES, npy_bytes, skip
from merge_shards import read_floats
from png import png

PYTHON = os.environ.get("TIDEMARK_TEST_PYTHON")
HAS_HDF5 = "hdf5" in FEATURES and bool(PYTHON)
ENTRY = 256  # bytes of a picture


def need_hdf5():
    """Skips the test where no HDF5 file can be written and read."""
    if not HAS_HDF5:
        skip("no HDF5 in this build, or no TIDEMARK_TEST_PYTHON with h5py to write it")


def npy(path, times=1):
    """The pictures over and over; 15 times are a second or so of work for one thread."""
    shape, floats = read_floats(PICTURES)
    path.write_bytes(npy_bytes([shape[0] * times, *shape[1:]], data=floats * times))
    return path


def fortran(path):
    """As .npy with the first axis the fastest."""
    shape, floats = read_floats(PICTURES)
    values = struct.unpack(f"<{len(floats) // 4}f", floats)
    entry = len(values) // shape[0]
    path.write_bytes(npy_bytes(shape, [value for k in range(entry) for value in values[k::entry]], fortran=True))
    return path


def npz(path, times=1):
    """An archive with one packed member, for the input of the bundled model."""
    shape, floats = read_floats(PICTURES)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image.npy", npy_bytes([shape[0] * times, *shape[1:]], data=floats * times))
    return path


def raw(path, times=1):
    path.write_bytes(read_floats(PICTURES)[1] * times)
    return path


def picture(i):
    """A grey PNG of 8 x 8 pixels, another for each number."""
    return png(8, 8, [bytes((7 * i * i + 13 * k + y) % 256 for k in range(8)) for y in range(8)])


def images(path, count, bad=lambda i: False):
    """A folder of PNG files, of which the `bad` ones are no pictures."""
    path.mkdir()
    for i in range(count):
        (path / f"{i:04}.png").write_bytes(b"no picture" if bad(i) else picture(i))
    return path


def sets(path, count):
    """ONNX test sets."""
    shape, floats = read_floats(PICTURES)
    for i in range(count):
        folder = path / f"test_data_set_{i}"
        folder.mkdir(parents=True)
        values = struct.unpack_from("<64f", floats, i * ENTRY)
        (folder / "input_0.pb").write_bytes(onnx.tensor("image", [1, *shape[1:]], values))
    return path


def hdf5(path, times=1):
    """As dataset /x, a chunk a picture, so that each is read on its own. Only where HAS_HDF5."""
    script = ("import h5py, numpy, sys; x = numpy.load(sys.argv[1]); x = numpy.concatenate([x] * int(sys.argv[3])); "
              "h5py.File(sys.argv[2], 'w').create_dataset('x', data=x, chunks=(1, *x.shape[1:]))")
    subprocess.run([PYTHON, "-c", script, str(PICTURES), str(path), str(times)], check=True)
    return path


def again(write, path):
    """Puts right what happened to a source."""
    if path.is_dir():
        shutil.rmtree(path)
    return write(path)
