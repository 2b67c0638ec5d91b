# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's own operators and those of ai.onnx.ml against ONNX Runtime.

usage: test_contrib.py PROGRAM LIST_OPS SOURCE_ROOT [REGEX]

Each case of contrib_cases.py, ml_cases.py and written_cases.py is a model of one node with random inputs, run by ONNX Runtime without
optimisations and by `tidemark run`; the first of each operator must survive `tidemark instrument`. REGEX narrows them by name. Exit status 77, with the reason,
where the Python packages are missing.
"""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "conformance"))
from op_rows import read_rows  # noqa: E402

try:
    import numpy as np
    import onnx
    import onnxruntime
    from contrib_cases import cases
    from ml_cases import ml_cases
    from written_cases import written_cases
except ImportError as missing:
    print(f"skipped: {missing} (TIDEMARK_TEST_PYTHON names the interpreter that has it)")
    sys.exit(77)

PROGRAM, LIST_OPS, SOURCE = os.path.abspath(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
PATTERN = re.compile(sys.argv[4] if len(sys.argv) > 4 else "")
RTOL, ATOL = 1e-4, 1e-5
STEPS = 0.02  # the part of 8-bit results that may be one step away: sums that lie between two
SECONDS = 300
onnxruntime.set_default_logger_severity(4)


def tidemark(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise AssertionError(f"tidemark {words[0]}: status {done.returncode}: {done.stderr.strip()}")


def session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def session_of_node(model):
    """Of a node with int8 weights with exact sums, if the node's kernel has them: on processors without VNNI those of 16 bits saturate."""
    if any(tensor.data_type == onnx.TensorProto.INT8 for tensor in model.graph.initializer):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.x64quantprecision", "1")
        with contextlib.suppress(onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented):
            return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session(model)


def run_ours(model, feeds, folder, names):
    """One run with whole inputs: each array is stacked on a new axis of one entry."""
    np.savez(folder / "in.npz", **{name: value[None] for name, value in feeds.items()})
    tidemark("run", model, "--data", folder / "in.npz", "-q", "-o", folder / "out.npz")
    with np.load(folder / "out.npz") as arrays:
        return [arrays[name][0] for name in names]


def difference(ours, theirs, rtol=RTOL, atol=ATOL):
    """Nothing, or what is wrong."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
    if ours.dtype.kind in "iub":
        steps = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        allowed = 1 if ours.dtype.itemsize < 4 else 0
        if steps.size and (steps.max() > allowed or (steps > 0).mean() > max(STEPS, 1.0 / steps.size)):
            return f"{int((steps > 0).sum())} of {steps.size} integers differ, by {steps.max()}"
        return ""
    if not np.allclose(ours, theirs, rtol, atol, equal_nan=True):
        return f"differs by {np.abs(ours - theirs).max():.2e}, of {np.abs(theirs).max():.2e}"
    return ""


def check_case(case, folder):
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    names = [value.name for value in case.model.graph.output]
    reference = case.reference or case.model
    theirs = reference(case.feeds) if callable(reference) else session_of_node(reference).run(names, case.reference_feeds)
    ours = run_ours(folder / "model.onnx", case.feeds, folder, names)
    for name, mine, want in zip(names, ours, theirs, strict=True):
        wrong = difference(mine, np.asarray(want))
        assert not wrong, f"{name}: {wrong}"


def check_instrument(case, folder):
    tidemark("instrument", folder / "model.onnx", "-q", "-o", folder / "observed.onnx")
    observed = onnx.load(folder / "observed.onnx")
    assert case.operator in {node.op_type for node in observed.graph.node}
    domains = {opset.domain: opset.version for opset in observed.opset_import}
    assert domains.get(case.model.graph.node[0].domain), f"operator sets are {domains}"


def check_attributes():
    """Rows of ONNX Runtime's domain have the attributes of its schemas, whether they read them or refuse them."""
    rows = {row.name: set(row.attributes) for row in read_rows(LIST_OPS) if row.domain == "com.microsoft"}
    for schema in onnxruntime.capi.onnxruntime_pybind11_state.get_all_operator_schema():
        if schema.domain == "com.microsoft" and schema.name in rows:
            apart = rows[schema.name] ^ set(schema.attributes)
            assert not apart, f"{schema.name}: not in both, row and schema: {sorted(apart)}"


def main():
    problems, count, operators = [], 0, set()
    check_attributes()
    for case in chain(cases(), ml_cases(), written_cases()):
        if not PATTERN.search(case.name):
            continue
        count += 1
        with tempfile.TemporaryDirectory(prefix="tidemark-contrib-") as folder:
            try:
                check_case(case, Path(folder))
                if case.operator not in operators:
                    operators.add(case.operator)
                    check_instrument(case, Path(folder))
            except Exception as wrong:  # whatever it is, the other cases run
                problems.append(f"{case.name}: {type(wrong).__name__}: {wrong}")
    for problem in problems:
        print(problem)
    print(f"{count} cases, {len(problems)} problems")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())
