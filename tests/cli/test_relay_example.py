# SPDX-License-Identifier: Apache-2.0
"""examples/relay_from_tvm.py: its tables work without TVM; what needs TVM compiles."""
import json
import sys

from cli import SOURCE, main

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "examples"))
import relay_from_tvm  # noqa: E402


def test_edges_are_found_by_every_name(path):
    entry = {"profile_id": "p3", "name": "fc1", "relay_name": "%1", "ndom_scale": 0.5}
    table = {"values": {"p3": entry}, "names": {"fc1": "p3"}, "relay_names": {"%1": "p3"}}
    (path / "out.edges.json").write_text(json.dumps(table))
    edges = relay_from_tvm.Edges(path / "out.edges.json")
    assert edges.by_id("p3") == edges.by_name("fc1") == edges.by_relay_name("%1") == entry


def test_functions_without_tvm_raise_import_error():
    for needs_tvm in (relay_from_tvm.register, lambda: relay_from_tvm.load("a", "b"),
                      lambda: relay_from_tvm.annotated(None, None), lambda: relay_from_tvm.without_annotations(None)):
        try:
            needs_tvm()
        except ImportError as missing:
            assert "tvm" in str(missing)
        else:
            assert "tvm" in sys.modules


main()
