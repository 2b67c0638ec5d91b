# SPDX-License-Identifier: Apache-2.0
"""The reference reader examples/read_profile.py over all that Tidemark writes, and the conformance files over both readers.

    test_reader.py PROGRAM SOURCE_ROOT

Needs NumPy, h5py and jsonschema; TIDEMARK_TEST_PYTHON may name a Python that has them. Exits with 77 (skipped) otherwise.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PYTHON = os.environ.get("TIDEMARK_TEST_PYTHON")
if PYTHON and os.environ.get("TIDEMARK_TEST_PYTHON_RUNS") != PYTHON:
    os.environ["TIDEMARK_TEST_PYTHON_RUNS"] = PYTHON
    os.execv(PYTHON, [PYTHON, "-B"] + sys.argv)

PROGRAM, ROOT = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests" / "tools")]
try:
    import h5py  # noqa: F401  (read_profile imports it where it needs it)
    import jsonschema
    import profile_rules
    import read_profile
    import small_models
except ImportError as error:
    print(f"skipped: {error}; set TIDEMARK_TEST_PYTHON to a Python with h5py, jsonschema and onnx")
    sys.exit(77)

CONFORMANCE = ROOT / "tests" / "conformance" / "profile"
REFUSED, MOST_LINES = (1, 3), 150  # a rule of the numbers is broken, or the syntax
# Options that change what a profile holds.
RUNS = {"plain": [], "range": ["--kind", "range"], "minmax": ["--kind", "minmax"], "batches": ["--batch", 3, "--threads", 2],
        "samples": ["--per-sample"], "activations": ["--observe", "activations"], "excluded": ["--exclude", "0"],
        "thinned": ["--histogram-share", "1/2"], "part": ["--limit", 5, "--skip", 2], "shard": ["--shard", "1/2"]}


def tidemark(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)


class Reader(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_the_reader_is_short_and_needs_no_library_of_ours(self):
        lines = (ROOT / "examples/read_profile.py").read_text().splitlines()
        self.assertLessEqual(len(lines), MOST_LINES)
        imported = {line.split()[1] for line in lines if line.strip().startswith(("import ", "from "))}
        self.assertEqual(imported, {"json", "sys", "numpy", "h5py"})

    def check_pair(self, one, other):
        profile, same = read_profile.read(one), read_profile.read(other)
        self.assertEqual(profile_rules.check(profile), [], one)
        for value, again in zip(profile["tensors"], same["tensors"]):
            value.setdefault("count", 0)  # version 1.0 leaves it out where nothing was counted
            self.assertEqual(value, again, f"{one}: {value['id']}")
        self.assertEqual(profile, same)
        return profile

    def test_golden_files(self):
        files = sorted((ROOT / "tests/golden").glob("profile-1.*.json"))
        self.assertGreaterEqual(len(files), 5)
        for path in files:
            self.check_pair(path, path.with_suffix(".h5"))

    def test_profiles_that_are_written(self):
        models = self.folder / "models"
        small_models.write(models)
        levels, checked = set(), 0
        for i, model in enumerate(sorted(models.glob("*/model.onnx"))):
            data = sorted(model.parent.glob("inputs_[0-9]*.npz")) or sorted(model.parent.glob("inputs.npz")) or [model.parent]
            for name in RUNS if i % 8 == 0 else ["plain"]:
                path = self.folder / f"{name}.json"
                done = tidemark("profile", model, "--data", data[0], *RUNS[name], "-q", "-o", path, "-o", path.with_suffix(".h5"))
                self.assertEqual(done.returncode, 0, f"{model.parent.name} {name}: {done.stderr}")
                profile = self.check_pair(path, path.with_suffix(".h5"))
                levels |= {value["level"] for value in profile["tensors"]}
                checked += len(profile["tensors"])
        self.assertEqual(levels, {"none", "integer", "minmax", "range", "histogram"})
        self.assertGreater(checked, 1000)

    def test_conformance_files(self):
        index = json.loads((CONFORMANCE / "index.json").read_text())
        self.assertEqual({path.name for path in CONFORMANCE.glob("*.json")} - {"index.json"}, set(index))
        schema = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/profile.schema.json").read_text()))
        for name, entry in index.items():
            with self.subTest(name):
                path = CONFORMANCE / name
                done = tidemark("check", path)
                self.assertIn(done.returncode, (0,) if entry["valid"] else REFUSED, done.stderr)
                self.assertEqual(schema.is_valid(json.loads(path.read_text())), entry.get("rule") != 0)
                if entry.get("rule") == 0:
                    continue
                broken = {rule for rule, _ in profile_rules.check(read_profile.read(path))}
                self.assertEqual(broken & {entry.get("rule")}, broken if entry["valid"] else {entry["rule"]})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=1)
