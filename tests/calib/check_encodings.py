# SPDX-License-Identifier: Apache-2.0
"""Reads the encodings that Tidemark writes with other people's libraries, and gives Tidemark what they wrote.

    python3 check_encodings.py ENCODINGS_TOOL SOURCE_ROOT

Needs jsonschema; TIDEMARK_TEST_PYTHON may name a Python that has it. Exits with 77 (skipped) otherwise.
"""
import copy
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PYTHON = os.environ.get("TIDEMARK_TEST_PYTHON")
if PYTHON and os.environ.get("TIDEMARK_TEST_PYTHON_RUNS") != PYTHON:
    os.environ["TIDEMARK_TEST_PYTHON_RUNS"] = PYTHON
    os.execv(PYTHON, [PYTHON, "-B"] + sys.argv)

try:
    import jsonschema
except ImportError as error:
    print(f"skipped: {error}; set TIDEMARK_TEST_PYTHON to a Python with jsonschema")
    sys.exit(77)

TOOL, ROOT = sys.argv[1], Path(sys.argv[2])
OK, FORMAT = 0, 4


def tool(*args):
    """Status and message."""
    done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.strip()


def at(*path, value=None, delete=False):
    def change(encodings):
        item = encodings
        for key in path[:-1]:
            item = item[key]
        if delete:
            del item[path[-1]]
        else:
            item[path[-1]] = value
    return change


WRONG = {
    "unknown key in an encoding": at("encodings", 0, "scales", value=[1]),
    "unknown key at the top": at("encoding", value=[]),
    "unknown key in what is expected": at("encodings", 0, "expected", "rms", value=1),
    "no scale": at("encodings", 0, "scale", delete=True),
    "no model": at("model", delete=True),
    "a scale of 0": at("encodings", 0, "scale", 0, value=0),
    "a scale beyond float32": at("encodings", 0, "scale", 0, value=1e39),
    "text for a scale": at("encodings", 0, "scale", 0, value="1"),
    "no scales": at("encodings", 0, "scale", value=[]),
    "fractional zero point": at("encodings", 0, "zero_point", 0, value=0.5),
    "unknown role": at("encodings", 0, "role", value="input"),
    "unknown type": at("encodings", 0, "dtype", value="int9"),
    "a type without codes": at("encodings", 0, "dtype", value="float32"),
    "unknown scheme": at("encodings", 0, "scheme", value="affine"),
    "negative axis": at("encodings", 1, "axis", value=-1),
    "an ID that is none": at("encodings", 0, "id", value="0"),
    "short fingerprint": at("encodings", 0, "fingerprint", value="12"),
    "one source": at("encodings", 2, "sources", value=["p0"]),
    "sources of an activation": at("encodings", 0, "sources", value=["p0", "p1"]),
    "half of what is flat": at("encodings", 0, "expected", "flat_low", delete=True),
    "a threshold with one end": at("encodings", 0, "expected", "low_to", delete=True),
    "negative error": at("encodings", 0, "expected", "mse", value=-1),
    "a use without an input": at("encodings", 3, "uses", 0, "input", delete=True),
    "a small multiplier": at("requants", 0, "multiplier", 0, value=1),
    "a shift too far": at("requants", 0, "shift", 0, value=31),
    "a decimal multiplier": at("requants", 0, "real", 0, value="x0.1"),
    "no reason": at("left", 0, "reason", delete=True),
    "another format": at("format", value="encodings"),
    "unknown rounding": at("rounding", value="up"),
    "a number for a setting": at("settings", "method", value=1),
}


class Encodings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        schema = json.loads((ROOT / "docs/encodings.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema)
        self.assertEqual(tool("sample", self.folder / "a.json"), (OK, ""))
        self.text = (self.folder / "a.json").read_text()
        self.encodings = json.loads(self.text)

    def convert(self, encodings, **options):
        (self.folder / "in.json").write_text(json.dumps(encodings, **options))
        return tool("convert", self.folder / "in.json", self.folder / "out.json")

    def test_schema_accepts_written_files(self):
        self.validator.validate(self.encodings)

    def test_schema_accepts_the_golden_files(self):
        for path in sorted((ROOT / "tests/golden").glob("encodings-1.*.json")):
            self.validator.validate(json.loads(path.read_text()))

    def test_invalid_encodings_are_rejected_by_schema_and_reader(self):
        for what, change in WRONG.items():
            with self.subTest(what):
                bad = copy.deepcopy(self.encodings)
                change(bad)
                self.assertFalse(self.validator.is_valid(bad))
                status, message = self.convert(bad)
                self.assertEqual(status, FORMAT, message)
                self.assertTrue(message.startswith(str(self.folder / "in.json")), message)
                self.assertFalse((self.folder / "out.json").exists())

    def test_extensions_are_ignored(self):
        extended = copy.deepcopy(self.encodings)
        for item in (extended, extended["model"], extended["encodings"][0], extended["left"][0], extended["requants"][0]):
            item["x-note"] = {"any": ["thing"]}
        self.validator.validate(extended)
        self.assertEqual(self.convert(extended), (OK, ""))
        self.assertEqual((self.folder / "out.json").read_text(), self.text)

    def test_any_order_and_layout_of_json_reads(self):
        backwards = dict(reversed(self.encodings.items()))
        backwards["encodings"] = [dict(reversed(e.items())) for e in backwards["encodings"]]
        self.assertEqual(self.convert(backwards, indent=3), (OK, ""))
        self.assertEqual((self.folder / "out.json").read_text(), self.text)

    def test_floats_read_back_by_way_of_a_double(self):
        for scale, bits in zip(self.encodings["encodings"][1]["scale"], (1, 0x3dcccccd, 0x71ffffff), strict=True):
            self.assertEqual(struct.pack("<f", scale), struct.pack("<I", bits))
        self.assertEqual(float.fromhex(self.encodings["requants"][0]["real"][0]), 0.1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
