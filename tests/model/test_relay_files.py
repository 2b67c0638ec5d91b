# SPDX-License-Identifier: Apache-2.0
"""Relay texts and params files that TVM wrote: read, printed, read again; and read, before and after, by another reader.

usage: test_relay_files.py RELAY_TEXT RELAY_DAMAGE SOURCE_ROOT

RELAY_TEXT and RELAY_DAMAGE are tests/tools/relay_text and relay_damage. The files are taken from the folder that
TIDEMARK_SHARED names, or from ../shared next to the source; exit status 77 without them. The other reader is that folder's
relay/tools/relay_ref.py, and needs NumPy.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from harness import main, skip  # noqa: E402

TEXT, DAMAGE, SOURCE = sys.argv[1], sys.argv[2], Path(sys.argv[3])
SHARED = Path(os.environ.get("TIDEMARK_SHARED") or SOURCE.parent / "shared")
FOLDERS = [SHARED / "relay" / "golden", SHARED / "models" / "mnist_mlp" / "relay", SHARED / "models" / "relay"]
if not FOLDERS[0].is_dir():
    skip(f"there is no {FOLDERS[0]}")

TEXTS = sorted(path for folder in FOLDERS for ending in ("*.relay", "*.txt") for path in folder.rglob(ending))
# What tvm.ir.save_json wrote, each with the text of the same module and the values of its edges.
JSONS = sorted(FOLDERS[0].glob("*/[0-9]*.json"))
PARAMS = sorted(path for folder in FOLDERS for path in folder.rglob("*.params"))
# Printed with other bytes before the metadata: lines broken by hand, and a remark that is missing.
REFLOWED = {"mnist_original_bound.relay", "quantized_v0.0.4.relay"}

PACKED = "nn_contrib_conv2d_NCHWc_add_nn_relu"


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.splitlines()


def test_texts_read_back_equal():
    assert len(TEXTS) >= 75
    for path, said in zip(TEXTS, run(TEXT, *TEXTS), strict=True):
        exact = path.name not in REFLOWED
        assert said.startswith(f"{path}: equal{', exact' if exact else ''}, "), said


def test_params_are_the_same_bytes():
    assert len(PARAMS) >= 9
    for path, said in zip(PARAMS, run(TEXT, *PARAMS), strict=True):
        assert said.startswith(f"{path}: exact, "), said


def test_json_reads_back_as_text():
    assert len(JSONS) >= 28
    for path, said in zip(JSONS, run(TEXT, *JSONS), strict=True):
        assert said.startswith(f"{path}: equal, "), said


def plain_type(attribute):
    """The type in C++ that the page states of "name", "name:type", "name=default" or "name:type=default"; "object" for what is none."""
    name, kind, default = re.fullmatch(r"(\w+)(?::(\w+))?(?:=(.*))?", attribute).groups()
    if not kind and default:
        kind = "bool" if default in ("True", "False") else "int" if re.fullmatch(r"-?\d+", default) else \
            "real" if re.fullmatch(r"-?[\d.]+(e-?\d+)?", default) else None
    return name, kind or "object"


def test_plain_attributes_are_tvms():
    schema = json.loads((SHARED / "relay" / "attr_schema.json").read_text())
    names = {"int": "int", "int32_t": "int", "double": "real", "bool": "bool"}
    compared = 0
    for row in re.findall(r"^\| `([\w.]+)` \| [^|]* \| ([^|]*) \|", (SOURCE / "docs" / "relay-ops.md").read_text(), re.M):
        key = (schema["ops"].get(row[0]) or {}).get("attrs")
        if not key or row[1] == "any":
            continue
        fields = {field: names.get(kind, "object") for field, kind, _ in schema["attrs"][f"relay.attrs.{key}"]}
        ours = dict(plain_type(attribute) for attribute in re.findall(r"`([^`]*)`", row[1]))
        assert all(kind == "object" for field, kind in fields.items() if field not in ours), (row, fields)
        assert all(fields.get(field, kind) == kind for field, kind in ours.items()), (row, fields)
        compared += 1
    assert compared > 50, compared


def other_reader():
    """The parser that TVM's text was checked with; skips the test where Python lacks what it imports."""
    sys.path.insert(0, str(SHARED / "relay" / "tools"))
    try:
        import relay_ref
    except ImportError as missing:
        skip(missing)
    return relay_ref


def test_json_computes_what_tvm_computed(folder):
    relay_ref = other_reader()
    import numpy as np
    out = Path(folder) / "out"
    for path in JSONS:
        run(TEXT, "-o", out, path)
        module, text = relay_ref.Parser(out.read_text()), relay_ref.Parser(path.with_suffix(".relay.txt").read_text())
        names = [sorted(node["op"] for node in parser.funcs["main"].nodes) for parser in (module, text)]
        assert names[0] == names[1], path
        inputs, params = (dict(np.load(path.parent / f"{kind}.npz")) for kind in ("inputs", "params"))
        result, _ = relay_ref.run(module, "main", inputs, params)
        edges = np.load(path.with_suffix(".npz"))
        (key,) = (key for key in edges if "|<out>|" in key)
        assert np.abs(result - edges[key]).max() < 1e-5, path


def test_a_graph_with_packed_kernels_is_refused():
    graph = FOLDERS[0] / "extra" / "graph.json"
    done = subprocess.run([TEXT, graph], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout.count("\n") == 1, done
    assert f"{PACKED} (node 4)" in done.stdout and done.stdout.count("(node") == 1, done.stdout


def as_lists(value):
    """Attributes, arguments and constants as what compares by ==."""
    if isinstance(value, (list, tuple)):
        return [as_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    if hasattr(value, "tobytes"):
        return [value.dtype.name, list(value.shape), value.tobytes()]
    if hasattr(value, "funcs") or hasattr(value, "nodes"):
        return as_lists([value.params, value.nodes, value.out])
    return value


def test_reference_reader_parses_the_same(folder):
    relay_ref = other_reader()
    out = Path(folder) / "out"
    for path in TEXTS:
        run(TEXT, "-o", out, path)
        before, after = relay_ref.Parser(path.read_text()), relay_ref.Parser(out.read_text())
        assert list(before.funcs) == list(after.funcs), path
        for name in before.funcs:
            assert as_lists(before.funcs[name]) == as_lists(after.funcs[name]), f"{path}: {name}"
        constants = {key: value for key, value in before.meta.items() if hasattr(value, "tobytes")}
        assert as_lists(constants) == as_lists(
            {key: value for key, value in after.meta.items() if hasattr(value, "tobytes")}), path


def test_damaged_files_do_not_crash():
    small = [path for path in TEXTS if path.stat().st_size < 100_000]
    assert run(DAMAGE, 2000, *small)[-1].endswith(" 0 wrong")
    assert run(DAMAGE, 1000, *JSONS)[-1].endswith(" 0 wrong")
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph.json"
        graph.write_text((FOLDERS[0] / "extra" / "graph.json").read_text().replace(PACKED, "where"))
        assert run(DAMAGE, 500, graph)[-1].endswith(" 0 wrong")
    assert run(DAMAGE, 2000, *(path for path in PARAMS if path.stat().st_size < 100_000))[-1].endswith(" 0 wrong")


main()
