# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the models of the `onnx` package's test cases: ONNX Runtime must give the same with both files.

usage: test_round_trip.py ROUNDTRIP CASES [REGEX]

ROUNDTRIP is tests/tools/roundtrip, CASES a folder for the cases (cases.py), made when it is not there; REGEX narrows them by
name. Cases that ONNX Runtime can't run as they are, and random ones, are counted and left out. All numbers must be the same
within the case's tolerance, or within that of float16 where Tidemark widens to float32; how many have the same bits is
counted. Exit status 77, with the reason, where `onnx` or ONNX Runtime are missing.
"""
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime
    from cases import make_cases
    from onnx import numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SECONDS = 300  # for all of them
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# Cases that must fail, and why.
EXPECTED = {
    "test_ai_onnx_ml_label_encoder_tensor_mapping": "an attribute is a string tensor",
    "test_bitcast_float64_to_int64": "doubles are held as float32",
    "test_bitcast_int64_to_float64": "doubles are held as float32",
}
NARROW = {np.dtype(np.float16), np.dtype(np.float64)}  # held as float32
WIDENED = {"FLOAT16", "BFLOAT16", "DOUBLE"}  # the same, as the index names them
HALF = (2e-3, 1e-5)
READERS = {"tensor_type": (onnx.TensorProto, numpy_helper.to_array), "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
           "optional_type": (onnx.OptionalProto, numpy_helper.to_optional)}


def session(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def read_feeds(model, folder):
    """A value an input, from input_M.pb: by the names in the files where those are the graph's, else in the graph's order."""
    infos, feeds = {info.name: info for info in model.graph.input}, {}
    for i in range(len(list(folder.glob("input_*.pb")))):
        data = (folder / f"input_{i}.pb").read_bytes()
        info = model.graph.input[i]
        proto, convert = READERS[info.type.WhichOneof("value")]
        if proto is onnx.TensorProto:
            info = infos.get(proto.FromString(data).name, info)
        feeds[info.name] = convert(proto.FromString(data))
    return feeds


def widened(value):
    """As the importer holds it: the other floats are float32."""
    if isinstance(value, list):
        return [widened(one) for one in value]
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype in NARROW else value


def close(one, two, tolerance):
    """0: other numbers; 1: the same within the tolerance; 2: the same bits."""
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return min((close(a, b, tolerance) for a, b in zip(one, two, strict=True)), default=2)
    if not isinstance(one, np.ndarray) or not isinstance(two, np.ndarray) or one.shape != two.shape:
        return 2 if one is None and two is None else 0
    if one.dtype != (two.dtype if one.dtype not in NARROW else one.dtype):
        return 0
    if one.dtype == object:  # strings
        return 2 if np.array_equal(one, two) else 0
    if one.dtype == two.dtype and one.tobytes() == two.tobytes():
        return 2
    return 1 if np.allclose(widened(one), widened(two), *tolerance, equal_nan=True) else 0


def convert(roundtrip, pairs):
    """Of each pair, a model and the file that it is written to, nothing, or what is wrong in one line."""
    done = subprocess.run([roundtrip], input="".join(f"{path}\t{copy}\n" for path, copy in pairs), stdout=subprocess.PIPE, text=True,
                          timeout=SECONDS)
    found = done.stdout.split("\n")[:-1]
    assert done.returncode == 0 and len(found) == len(pairs), f"status {done.returncode} at {pairs[len(found) - 1]}"
    return found


def compare(folder, case, copy, refused):
    """What became of the case, and what is wrong in one line, or nothing."""
    if {operator for _, operator, _ in case["operators"]} & RANDOM or "training_dropout" in case["name"]:
        return "random", ""
    path = folder / "model.onnx"
    try:
        original, model = session(path), onnx.load(path)
        names = {node.name for node in original.get_inputs()}
        feeds = [{name: value for name, value in read_feeds(model, one).items() if name in names}
                 for one in sorted(folder.glob("test_data_set_*"))]
        expected = [original.run(None, feed) for feed in feeds]
    except Exception:  # whatever it does not support
        return "not run by ONNX Runtime", ""
    if refused:
        return "refused", refused
    tolerance, result = (HALF if WIDENED & set(case["types"]) else (case["rtol"], case["atol"])), 2
    try:
        ours = session(copy)
        if [node.name for node in ours.get_outputs()] != [node.name for node in original.get_outputs()]:
            return "different", "the outputs have other names"
        for feed, wanted in zip(feeds, expected, strict=True):
            got = ours.run(None, feed)
            for node, one, two in zip(ours.get_outputs(), wanted, got, strict=True):
                result = min(result, close(one, two, tolerance))
                if not result:
                    return "different", f"'{node.name}' differs"
    except Exception as error:
        return "not run once written", str(error).replace("\n", " ")
    return ("", "the same within the tolerance", "the same bits")[result], ""


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    roundtrip, root = sys.argv[1], Path(sys.argv[2])
    pattern = re.compile(sys.argv[3] if len(sys.argv) > 3 else "")
    onnxruntime.set_default_logger_severity(4)
    chosen = [case for case in make_cases(root) if pattern.search(case["name"])]
    counts, problems = Counter(), []
    with tempfile.TemporaryDirectory(prefix="tidemark-round-") as target, ThreadPoolExecutor(cpu_count()) as pool:
        folders = [root / case["kind"] / case["name"] for case in chosen]
        copies = [Path(target, f"{i}.onnx") for i in range(len(chosen))]
        refused = convert(roundtrip, [(folder / "model.onnx", copy) for folder, copy in zip(folders, copies, strict=True)])
        for case, (what, wrong) in zip(chosen, pool.map(compare, folders, chosen, copies, refused), strict=True):
            name = case["name"]
            counts[f"{what}, as expected" if wrong and name in EXPECTED else what] += 1
            if wrong and name not in EXPECTED:
                problems.append(f"{case['kind']}/{name}: {what}: {wrong}")
            elif not wrong and name in EXPECTED:
                problems.append(f"{case['kind']}/{name}: {what}, though it was expected to fail: {EXPECTED[name]}")
    if not counts["the same bits"]:
        problems.append("nothing was compared")
    for problem in problems:
        print(problem)
    print("; ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
