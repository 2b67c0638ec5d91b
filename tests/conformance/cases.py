# SPDX-License-Identifier: Apache-2.0
"""The test cases of the installed `onnx` package as folders, in the layout of ONNX's own test data.

FOLDER/KIND/NAME/model.onnx and test_data_set_N/{input,output}_M.pb, and FOLDER/index.json, a list with an object a case:
kind, name, rtol, atol, the (domain, operator, version) triples that it uses, and the types of its inputs and outputs.
Kinds: node (made by the package as it loads, or folders of older releases), simple, pytorch-converted and pytorch-operator (folders of the package),
light (models of the package whose weights are made when they run; their input is made here by the same rule).
"""
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests

try:
    from onnx.backend.test.loader import load_node_model_tests
except ImportError:  # before 1.22 they are folders
    load_node_model_tests = None

LAYOUT = 1  # to be raised when this file writes something else
FOLDERS = ("simple", "pytorch-converted", "pytorch-operator", *(() if load_node_model_tests else ("node",)))


def _to_proto(value, info):
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(np.asarray(value), info.name)


def _type_name(info):
    kind = info.type.WhichOneof("value")
    return onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type) if kind == "tensor_type" else kind


def _operators(nodes, versions):
    found = set()
    for node in nodes:
        domain = node.domain or "ai.onnx"
        found.add((domain, node.op_type, versions.get(domain, 0)))
        for attribute in node.attribute:
            for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                found |= _operators(graph.node, versions)
    return found


def _describe(kind, name, rtol, atol, model):
    versions = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    weights = {weight.name for weight in model.graph.initializer}
    values = [info for info in model.graph.input if info.name not in weights] + list(model.graph.output)
    return {"kind": kind, "name": name, "rtol": rtol, "atol": atol,
            "operators": sorted(_operators(model.graph.node, versions)),
            "types": sorted({_type_name(info) for info in values})}


def _write_set(folder, stem, values, infos):
    folder.mkdir(parents=True, exist_ok=True)
    for i, (value, info) in enumerate(zip(values, infos, strict=False)):
        (folder / f"{stem}_{i}.pb").write_bytes(_to_proto(value, info).SerializeToString())


def _make_node_cases(root):
    index = []
    for case in load_node_model_tests() if load_node_model_tests else ():
        folder = root / "node" / case.name
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        for i, (inputs, outputs) in enumerate(case.data_sets):
            _write_set(folder / f"test_data_set_{i}", "input", inputs, case.model.graph.input)
            _write_set(folder / f"test_data_set_{i}", "output", outputs, case.model.graph.output)
        index.append(_describe("node", case.name, case.rtol, case.atol, case.model))
    return index


def _copy_folders(root):
    index = []
    for kind in FOLDERS:
        for case in load_model_tests(kind=kind):
            folder = root / kind / case.name
            shutil.copytree(case.model_dir, folder)
            if not any(folder.glob("test_data_set_*")):
                continue
            model = onnx.load(folder / "model.onnx")
            index.append(_describe(kind, case.name, case.rtol, case.atol, model))
    return index


def _make_light_cases(root):
    index = []
    for path in sorted(Path(DATA_DIR, "light").glob("*.onnx")):
        folder = root / "light" / path.stem
        folder.mkdir(parents=True)
        shutil.copy(path, folder / "model.onnx")
        model = onnx.load(path)
        weights = {weight.name for weight in model.graph.initializer}
        info = next(info for info in model.graph.input if info.name not in weights)
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        count = int(np.prod(shape))
        ramp = (np.arange(count).reshape(shape) / count).astype(np.float32)
        _write_set(folder / "test_data_set_0", "input", [ramp], [info])
        shutil.copy(path.with_name(f"{path.stem}_output_0.pb"), folder / "test_data_set_0" / "output_0.pb")
        index.append(_describe("light", path.stem, 2e-3, 1e-7, model))
    return index


def make_cases(root):
    """Makes the folder unless it is there from this version of `onnx`; answers its index."""
    stamp, version = root / "version.txt", f"{LAYOUT} {onnx.__version__}\n"
    if not (stamp.exists() and stamp.read_text() == version):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            index = _make_node_cases(root) + _copy_folders(root) + _make_light_cases(root)
        (root / "index.json").write_text(json.dumps(index))
        stamp.write_text(version)
    return json.loads((root / "index.json").read_text())
