# SPDX-License-Identifier: Apache-2.0
"""Reads what Tidemark writes with other people's libraries, and gives Tidemark what they wrote.

    python3 check_profile.py PROFILE_TOOL SOURCE_ROOT

Needs h5py, numpy and jsonschema; TIDEMARK_TEST_PYTHON may name a Python that has them. Exits with 77 (skipped) otherwise.
"""
import copy
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

try:
    import h5py
    import jsonschema
    import numpy
except ImportError as error:
    print(f"skipped: {error}; set TIDEMARK_TEST_PYTHON to a Python with h5py, numpy and jsonschema")
    sys.exit(77)

TOOL, ROOT = sys.argv[1], Path(sys.argv[2])
OK, FORMAT, UNSUPPORTED, MISMATCH = 0, 4, 5, 12
HAS_HDF5 = True
NOWHERE = 2**64 - 1


def tool(*args):
    """Status and message."""
    done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.strip()


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, *names, kind="sample"):
        paths = [self.folder / name for name in names]
        self.assertEqual(tool(kind, *paths), (OK, ""))
        return paths


class TheSchema(InFolder):
    def setUp(self):
        super().setUp()
        schema = json.loads((ROOT / "docs/profile.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema)
        (path,) = self.write("a.json")
        self.profile = json.loads(path.read_text())

    def test_schema_accepts_written_files(self):
        self.validator.validate(self.profile)

    def test_schema_accepts_the_golden_files(self):
        for path in sorted((ROOT / "tests/golden").glob("profile-1.*.json")):
            self.validator.validate(json.loads(path.read_text()))

    def test_invalid_profiles_are_rejected_by_schema_and_reader(self):
        def at(path, value, delete=False):
            def change(profile):
                item = profile
                for key in path[:-1]:
                    item = item[key]
                if delete:
                    del item[path[-1]]
                else:
                    item[path[-1]] = value
            return change
        wrong = {
            "unknown key in a value": at(["tensors", 0, "mni"], 1),
            "unknown key at the top": at(["tensor"], []),
            "no min": at(["tensors", 0, "min"], None, delete=True),
            "no ledger": at(["ledger"], None, delete=True),
            "text for a count": at(["tensors", 0, "count"], "many"),
            "negative count": at(["tensors", 0, "nan"], -1),
            "unknown status": at(["tensors", 0, "status"], "fine"),
            "unknown type": at(["tensors", 0, "dtype"], "float31"),
            "another format": at(["format"], "profile"),
            "bin out of range": at(["tensors", 0, "histogram", "bins", 0], 65536),
            "min beyond float32": at(["tensors", 0, "min"], -1e39),
            "an ID that is none": at(["tensors", 0, "id"], "0"),
            "an operand that is none": at(["tensors", 3, "operands", 0], "relu"),
            "short fingerprint": at(["tensors", 0, "fingerprint"], "12"),
            "derived, and no rule": at(["tensors", 3, "derivation"], None, delete=True),
            "negative dimension": at(["tensors", 0, "shape", 1], -1),
            "fractional version": at(["version", "minor"], 0.5),
            "excluded nothing": at(["tensors", 2, "excluded"], 0),
            "five top samples": at(["tensors", 0, "top_samples", "min"], [{"value": 0, "sample": 100}] * 5),
            "top samples at one end": at(["tensors", 0, "top_samples", "max"], None, delete=True),
            "a range that is no pair": at(["coverage", "ranges", 0], [100]),
            "unknown key in the coverage": at(["coverage", "part"], 1),
        }
        for what, change in wrong.items():
            with self.subTest(what):
                bad = copy.deepcopy(self.profile)
                change(bad)
                self.assertFalse(self.validator.is_valid(bad))
                path = self.folder / "bad.json"
                path.write_text(json.dumps(bad))
                status, message = tool("convert", path, self.folder / "out.json")
                self.assertIn(status, (FORMAT, MISMATCH), message)
                self.assertTrue(message.startswith(str(path)), message)
                self.assertFalse((self.folder / "out.json").exists())

    def test_excluded_numbers_are_validated(self):
        self.assertEqual(self.profile["tensors"][2]["excluded"], 1)
        for number in (2, None):
            bad = copy.deepcopy(self.profile)
            bad["tensors"][2]["excluded"] = number
            if number is None:
                del bad["tensors"][2]["excluded"]
            path = self.folder / "bad.json"
            path.write_text(json.dumps(bad))
            status, message = tool("convert", path, self.folder / "out.json")
            self.assertEqual(status, FORMAT, message)
            self.assertIn("what was excluded", message)

    def test_extensions_are_ignored(self):
        extended = copy.deepcopy(self.profile)
        extended["x-note"] = {"any": ["thing"]}
        extended["tensors"][0]["x-note"] = 1
        extended["model"]["x-note"] = 1
        self.validator.validate(extended)
        path = self.folder / "extended.json"
        path.write_text(json.dumps(extended))
        self.assertEqual(tool("convert", path, self.folder / "out.json"), (OK, ""))
        self.assertEqual(json.loads((self.folder / "out.json").read_text()), self.profile)

    def test_any_order_and_layout_of_json_reads(self):
        path = self.folder / "indented.json"
        path.write_text(json.dumps(dict(reversed(self.profile.items())), indent=3))
        self.assertEqual(tool("convert", path, self.folder / "out.json"), (OK, ""))
        self.assertEqual(json.loads((self.folder / "out.json").read_text()), self.profile)


class Floats(InFolder):
    def test_read_back_by_way_of_a_double(self):
        (path,) = self.write("a.json")
        tensor = json.loads(path.read_text())["tensors"][0]
        self.assertEqual(numpy.float32(tensor["max"]), numpy.float32(3e38))
        self.assertEqual(numpy.float32(tensor["channels"]["min"][1]), numpy.float32(-1e10))

    def test_a_histogram_gives_exact_sums(self):
        (path,) = self.write("a.json")
        for tensor in json.loads(path.read_text())["tensors"]:
            if tensor["level"] != "histogram":
                continue
            histogram = tensor["histogram"]
            total = 0
            for number, count, low in zip(*(histogram[key] for key in ("bins", "counts", "low"))):
                sign = -1 if number >> 15 else 1
                exponent, mantissa = number >> 7 & 255, (number & 127) << 16
                lead = (1 << 23) if exponent else 0
                total += sign * (count * (lead | mantissa) + low) << max(exponent, 1)
            if "thinned" in tensor:  # of some elements
                self.assertNotEqual(total / 2**150, tensor["sum"])
                total = int(tensor["thinned"]["sum"], 16) << 1
            self.assertEqual(total / 2**150, tensor["sum"], tensor["id"])


class Hdf5(InFolder):
    def setUp(self):
        super().setUp()
        if not HAS_HDF5:
            self.skipTest("built without HDF5")
        self.json, self.path = self.write("a.json", "a.h5")
        self.profile = json.loads(self.json.read_text())

    def test_equal_profiles_are_equal_bytes(self):
        (again,) = self.write("again.h5")
        self.assertEqual(self.path.read_bytes(), again.read_bytes())
        other = self.folder / "other.h5"
        self.assertEqual(tool("convert", self.json, other), (OK, ""))
        self.assertEqual(self.path.read_bytes(), other.read_bytes())

    def test_hdf5_equals_json(self):
        with h5py.File(self.path) as file:
            self.assertEqual(file.attrs["format"], "tidemark-profile")
            self.assertEqual(list(file.attrs["version"]), [1, 4])
            self.assertEqual(file.attrs["model_sha256"], self.profile["model"]["sha256"])
            self.assertEqual(file.attrs["samples_run"], self.profile["ledger"]["run"])
            header = json.loads(file["header"][()])
            self.assertEqual(header, {k: v for k, v in self.profile.items() if k != "tensors"})
            rows = file["tensors"][:]
            self.assertEqual(len(rows), len(self.profile["tensors"]))
            self.assertEqual(set(json.loads(file["tensors"].attrs["columns"])), set(rows.dtype.names))
            for position, tensor in enumerate(self.profile["tensors"]):
                self.check_row(file, position, rows[position], tensor)

    def check_row(self, file, position, row, tensor):
        self.assertEqual(f"p{row['id']}", tensor["id"])
        self.assertEqual(f"{row['fingerprint']:016x}", tensor["fingerprint"])
        for key in ("name", "kind", "status", "dtype", "origin", "level"):
            self.assertEqual(row[key].decode(), tensor[key])
        self.assertEqual(row["path"].decode(), tensor.get("path", ""))
        self.assertEqual(json.loads(row["shape"]), tensor["shape"])
        self.assertEqual(json.loads(row["observed_shapes"]), tensor["observed_shapes"])
        self.assertEqual(row["expected_count"], tensor["expected_count"])
        self.assertEqual(row["producer_output"], (tensor["producer"] or {"output": -1})["output"])
        consumers = [c for c in file["consumers"][:] if c["tensor_id"] == row["id"]]
        self.assertEqual([c["op"].decode() for c in consumers], [c["op"] for c in tensor["consumers"]])
        def pairs(group, column):
            return [other.item() for one, other in zip(file[group]["tensor"], file[group][column]) if one == row["id"]]

        self.assertEqual([f"p{other}" for other in pairs("operands", "operand")], tensor.get("operands", []))
        tops = tensor.get("top_samples", {"min": [], "max": []})
        for end in tops:
            rows = list(zip(pairs("top_samples", end), pairs("top_samples", end + "_sample")))
            self.assertEqual(rows, [(float(numpy.float32(top["value"])), top["sample"]) for top in tops[end]])
        cause = tensor.get("nonfinite")
        self.assertEqual([f"p{other}" for other in pairs("nonfinite", "from")],
                         ["p-1"] if cause == {"origin": True} else cause["inherits"] if cause else [])
        begin, end = file["histograms/offsets"][position:position + 2]
        if tensor["level"] in ("range", "histogram"):
            self.assertEqual(row["excluded"], tensor.get("excluded", 0))
            for key in ("count", "samples", "updates", "nan", "posinf", "neginf", "zeros",
                        "negative_zeros", "denormals", "negatives", "sum", "mean", "std"):
                self.assertEqual(row[key], tensor[key], key)
            for key in ("min", "max"):
                self.assertEqual(row[key], numpy.float32(tensor[key]))
                where = tensor[key + "_at"] or {"sample": NOWHERE, "index": NOWHERE}
                self.assertEqual(row[key + "_sample"], where["sample"])
                self.assertEqual(row[key + "_index"], where["index"])
            histogram = tensor["histogram"]
            self.assertEqual(list(file["histograms/bins"][begin:end]), histogram["bins"])
            self.assertEqual(list(file["histograms/counts"][begin:end]), histogram["counts"])
            self.assertEqual(list(file["histograms/low"][begin:end]), histogram["low"])
            kept = histogram.get("squares")
            self.assertEqual(row["squares_kept"], tensor["level"] == "histogram" and "thinned" not in tensor)
            self.assertEqual(json.loads(row["thinned"]), tensor.get("thinned"))
            self.assertEqual(list(file["histograms/squares"][begin:end]), kept or [0] * (end - begin))
            bracket = tensor.get("std_bracket", {"low": row["std"] * (1 - 1e-5), "high": row["std"] * (1 + 1e-5)})
            self.assertTrue(bracket["low"] <= row["std_low"] <= row["std"] <= row["std_high"] <= bracket["high"])
            self.check_channels(file, position, row, tensor)
        else:
            self.assertEqual(begin, end)
            self.assertTrue(numpy.isnan(row["min"]))
        if tensor["level"] == "integer":
            (integer,) = [i for i in file["integers"][:] if i["tensor_id"] == row["id"]]
            self.assertEqual(integer["min"], int(tensor["min"]))
            self.assertEqual(integer["max"], int(tensor["max"]))

    def check_channels(self, file, position, row, tensor):
        begin, end = file["channels/offsets"][position:position + 2]
        channels = tensor.get("channels", {"axis": -1, "min": [], "max": []})
        self.assertEqual(row["channel_axis"], channels["axis"])
        for key in ("min", "max"):
            values = [None if numpy.isnan(v) else v for v in file["channels/" + key][begin:end]]
            expected = [v if v is None else numpy.float32(v) for v in channels[key]]
            self.assertEqual(values, expected)

    def test_bins_have_edges(self):
        with h5py.File(self.path) as file:
            edges = file["bin_edges"][:]
            self.assertTrue(file["bin_edges"].is_scale)
            for number in (0, 1, 0x3f80, 0x7f7f):
                bits = numpy.uint32(number << 16)
                self.assertEqual(edges[number], bits.view(numpy.float32))
            self.assertEqual(edges[0xbf80], -(1 + 2.0**-7))
            self.assertEqual(edges[0xff7f], -(2.0**128))
            self.assertTrue(numpy.isnan(edges[0x7f80]))

    def test_tables_have_dimension_scales(self):
        with h5py.File(self.path) as file:
            self.assertEqual(file["tensors"].dims[0].label, "tensor")
            self.assertEqual(list(file["tensors"].dims[0][0][:]), list(file["tensors"]["id"]))
            self.assertEqual(file["tensors"].compression, "gzip")

    def test_extremes_of_samples_lie_within_those_of_all(self):
        for group, number in (("min", -3.4e38), ("max", 3.4e38), ("min", 3.4e38), ("min", numpy.nan)):
            path = self.write("s.h5", kind="samples")[0]
            with h5py.File(path, "r+") as file:
                file["samples"][group][0, 1] = number
            status, message = tool("convert", path, self.folder / "out.h5")
            self.assertEqual(status, MISMATCH)
            self.assertIn("sample 101", message)

    def test_extremes_of_samples_are_kept(self):
        path, again, plain = self.write("s.h5", kind="samples")[0], self.folder / "t.h5", self.folder / "p.json"
        with h5py.File(path) as file:
            self.assertEqual(list(file["samples/tensor"]), [0])
            self.assertEqual(list(file["samples/sample"]), [100, 101, 102, 103])
            least = file["samples/min"][:]
            self.assertEqual(least.shape, (1, 4))
            self.assertEqual(least[0, 0], numpy.float32(-7.25))
            self.assertTrue(numpy.isnan(least[0, 3]))
            self.assertEqual(file["samples/max"].dims[1].label, "sample")
        self.assertEqual(tool("convert", path, again), (OK, ""))
        self.assertEqual(path.read_bytes(), again.read_bytes())
        self.assertEqual(tool("convert", path, plain), (OK, ""))

    def test_files_of_h5py_are_read(self):
        """A copy through h5py: another layout, more columns, a newer file format."""
        path = self.folder / "copy.h5"
        with h5py.File(self.path) as old, h5py.File(path, "w", libver=("v110", "v110")) as new:
            for name in old:
                if name not in ("tensors", "tensor"):
                    old.copy(name, new)
            rows = old["tensors"][:]
            types = [("extra", "i4")] + [(n, old["tensors"].dtype[n]) for n in reversed(rows.dtype.names)]
            wider = numpy.zeros(len(rows), dtype=types)
            for name in rows.dtype.names:
                wider[name] = rows[name]
            new["tensors"] = wider
        out = self.folder / "out.json"
        self.assertEqual(tool("convert", path, out), (OK, ""))
        self.assertEqual(out.read_bytes(), self.json.read_bytes())

    def changed(self, change):
        path = self.folder / "changed.h5"
        path.write_bytes(self.path.read_bytes())
        with h5py.File(path, "r+") as file:
            change(file)
        return tool("convert", path, self.folder / "out.json")

    def test_damage_is_found(self):
        def put(name, at, value):
            def change(file):
                file[name][at] = value
            return change

        def cell(column, at, value):
            def change(file):
                rows = file["tensors"][:]
                rows[column][at] = value
                file["tensors"][:] = rows
            return change

        def remove(name):
            def change(file):
                del file[name]
            return change

        def huge(file):
            del file["histograms/bins"]
            file["histograms"].create_dataset("bins", shape=(2**40,), dtype="u2", chunks=(2**10,))

        def outside(file):
            del file["histograms/bins"]
            file["histograms"]["bins"] = h5py.ExternalLink("/etc/passwd", "/")

        def external(file):
            n = file["histograms/bins"].shape[0]
            del file["histograms/bins"]
            file["histograms"].create_dataset(
                "bins", shape=(n,), dtype="u2", external=[(str(self.json), 0, 2 * n)])

        def ragged(file):
            some = file["channels/max"][:2]
            del file["channels/max"]
            file["channels"]["max"] = some

        damage = {
            "count": (cell("count", 0, 25), "add up"),
            "expected count": (cell("expected_count", 0, 25), "expected_count says 25"),
            "min": (cell("min", 0, 1), "extremes"),
            "sum": (cell("sum", 0, 1), "'sum'"),
            "equal IDs": (cell("id", 1, 0), "tensors[1]"),
            "status": (cell("status", 0, b"fine"), "no status 'fine'"),
            "type": (cell("dtype", 0, b"int8"), "type is int8"),
            "level": (cell("level", 0, b"none"), "without floats"),
            "shape": (cell("shape", 0, b"[1,"), "shape"),
            "axis": (cell("channel_axis", 0, 77), "channel"),
            "derivation": (cell("derivation_from", 3, b'["p8"]'), "p8"),
            "offsets fall": (put("histograms/offsets", 2, 0), "offsets"),
            "offsets run over": (put("histograms/offsets", -1, 10**9), "offsets"),
            "first offset": (put("histograms/offsets", 0, 1), "offsets"),
            "bin counts": (put("histograms/counts", 0, 2), "add up"),
            "low sums": (put("histograms/low", 0, 2**40), "sum"),
            "bin order": (put("histograms/bins", 0, 60000), "bins"),
            "no header": (remove("header"), "'header'"),
            "an operand that is nowhere": (put("operands/operand", 0, 77), "p77"),
            "operands of nothing": (put("operands/tensor", 0, 77), "p77"),
            "top samples of nothing": (put("top_samples/tensor", 0, 77), "p77"),
            "a top sample that is too far": (put("top_samples/max", 0, 3.2e38), "top samples"),
            "a top sample out of order": (put("top_samples/min", 1, 5), "order"),
            "a top sample twice": (put("top_samples/max_sample", 1, 103), "order"),
            "a top sample of another run": (put("top_samples/max_sample", 2, 17), "range"),
            "a fifth top sample": (put("top_samples/tensor", 4, 0), "more than 4"),
            "half of the top samples": (remove("top_samples/min"), "min"),
            "half of the operands": (remove("operands/operand"), "operand"),
            "no tensors": (remove("tensors"), "'tensors'"),
            "no channels": (remove("channels"), "'channels/offsets'"),
            "no integers": (remove("integers"), "'integers'"),
            "more than the file holds": (huge, "claims more"),
            "a link to elsewhere": (outside, "points elsewhere"),
            "data elsewhere": (external, "outside the file"),
            "channels of two sizes": (ragged, "different sizes"),
        }
        for what, (change, words) in damage.items():
            with self.subTest(what):
                status, message = self.changed(change)
                self.assertIn(status, (FORMAT, MISMATCH), message)
                self.assertIn(words, message)

    def test_a_truncated_file_is_an_error(self):
        whole = self.path.read_bytes()
        path = self.folder / "cut.h5"
        for size in (8, 100, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            status, message = tool("convert", path, self.folder / "out.json")
            self.assertEqual(status, FORMAT, message)


if __name__ == "__main__":
    probe = tempfile.mkdtemp()
    HAS_HDF5 = tool("sample", Path(probe) / "probe.h5")[0] != UNSUPPORTED
    for left in Path(probe).iterdir():
        left.unlink()
    os.rmdir(probe)
    unittest.main(argv=[sys.argv[0]], verbosity=1)
