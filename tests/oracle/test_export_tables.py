# SPDX-License-Identifier: Apache-2.0
"""Table formats against the worked examples, number by number, bit by bit as float32."""
import json
import re

import numpy as np
import oracle
from oracle import folder
from twoconv import EXAMPLES, RANGES, export


def same(ours, theirs, where="", derived=()):
    """Equal trees; numbers are equal as float32, those of the derived keys to seven digits."""
    if isinstance(theirs, dict):
        assert sorted(ours) == sorted(theirs), f"{where}: {sorted(ours)} and {sorted(theirs)}"
        for key in theirs:
            same(ours[key], theirs[key], f"{where}/{key}", derived)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs)):
            same(a, b, f"{where}/{i}", derived)
    elif isinstance(theirs, float) and where.endswith(derived):
        assert np.isclose(ours, theirs, rtol=1e-7, atol=0), f"{where}: {ours!r} and {theirs!r}"
    elif isinstance(theirs, float):
        assert np.float32(ours) == np.float32(theirs), f"{where}: {ours!r} and {theirs!r}"
    else:
        assert ours == theirs, f"{where}: {ours!r} and {theirs!r}"


def words(path):
    """Lines of words that are numbers or not; comments are left out."""
    def word(text):
        try:
            return float(np.float32(text))
        except ValueError:
            return text
    return [[word(w) for w in re.split(r"[ :]+", line)] for line in path.read_text().splitlines() if not line.startswith("#")]


def test_aimet():
    with folder() as path:
        for version in ("0.6.1", "1.0.0", "2.0.0"):
            ours = json.loads(export(path, "out", "aimet", "--set", f"version={version}").read_text())
            theirs = json.loads((EXAMPLES / "qnn_aimet" / f"twoconv.v{version}.encodings").read_text())
            if version == "2.0.0":
                for side in (ours, theirs):
                    side["encodings"].sort(key=lambda e: e["name"])
            same(ours, theirs, derived=("/min", "/max"))  # offset times a scale that the example has in double


def test_litert_and_quark():
    with folder() as path:
        same(json.loads(export(path, "out", "litert").read_text()),
             json.loads((EXAMPLES / "litert" / "calibration_result.json").read_text()))
        same(json.loads(export(path, "out", "quark", all_activations=True).read_text()),
             json.loads((EXAMPLES / "quark" / "save_and_restore.json").read_text()))


def test_tensorrt():
    with folder() as path:
        ours = export(path, "out", "tensorrt-cache", all_activations=True)
        assert ours.read_bytes() == (EXAMPLES / "tensorrt" / "twoconv.calib.cache").read_bytes()
        ours = export(path, "out", "tensorrt-ranges", all_activations=True)
        assert words(ours) == words(EXAMPLES / "tensorrt" / "twoconv.dynamic_range.txt")


def test_tpu_mlir():
    """The example has seven decimals."""
    with folder() as path:
        ours = words(export(path, "out", "tpu-mlir", all_activations=True))
        theirs = words(EXAMPLES / "tpu_mlir" / "twoconv_cali_table")
        assert [row[0] for row in ours] == [row[0] for row in theirs]
        assert np.allclose([row[1:] for row in ours], [row[1:] for row in theirs], rtol=0, atol=5e-7)


def test_ncnn_table():
    with folder() as path:
        ours = export(path, "out", "ncnn-table")
        assert words(ours) == words(EXAMPLES / "ncnn" / "twoconv.table")
        table = dict((row[0], row[1:]) for row in words(export(path, "out", "ncnn-table", "--set", "winograd=6bit")))
        assert table["conv1_param_0"] == [float(np.float32(31) / np.float32(m)) for m in RANGES["conv1.weight"]["channel_absmax"]]


oracle.main(globals())
