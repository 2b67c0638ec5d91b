# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's own operators, those of ai.onnx.ml, and real models as it writes them once optimised, against ONNX Runtime.

usage: test_contrib.py PROGRAM LIST_OPS SOURCE_ROOT [REGEX]

Each case of contrib_cases.py, ml_cases.py and written_cases.py is a model of one node with random inputs, run by ONNX Runtime without optimisations and by
`tidemark run`, and must survive `tidemark instrument`. Real models are taken from the folder that TIDEMARK_SHARED names, or
from ../shared next to the source, without which they are left out, and from the files that TIDEMARK_EXTRA_MODELS lists with
colons between. REGEX narrows cases and models by name. Exit status 77, with the reason, where the Python packages are missing.
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
MODELS = Path(os.environ.get("TIDEMARK_SHARED") or SOURCE.parent / "shared") / "models"
RTOL, ATOL = 1e-4, 1e-5
STEPS = 0.02  # the part of 8-bit results that may be one step away: sums that lie between two
SECONDS = 300
onnxruntime.set_default_logger_severity(4)


def tidemark(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise AssertionError(f"tidemark {words[0]}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def session(model, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, target=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    if target:
        options.optimized_model_filepath = str(target)
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


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
    listed = tidemark("graph", folder / "model.onnx", "--ops")
    assert "0 unsupported" in listed and case.operator in listed, listed
    tidemark("instrument", folder / "model.onnx", "-q", "-o", folder / "observed.onnx")
    domains = {opset.domain: opset.version for opset in onnx.load(folder / "observed.onnx").opset_import}
    assert domains.get(case.model.graph.node[0].domain), f"operator sets are {domains}"


def check_attributes():
    """Rows of ONNX Runtime's domain have the attributes of its schemas, whether they read them or refuse them."""
    rows = {row.name: set(row.attributes) for row in read_rows(LIST_OPS) if row.domain == "com.microsoft"}
    for schema in onnxruntime.capi.onnxruntime_pybind11_state.get_all_operator_schema():
        if schema.domain == "com.microsoft" and schema.name in rows:
            apart = rows[schema.name] ^ set(schema.attributes)
            assert not apart, f"{schema.name}: not in both, row and schema: {sorted(apart)}"


# ---- real models ----

def stored_feeds(path):
    """The tensors of the first test set next to the model, if there is one."""
    files = sorted((path.parent / "test_data_set_0").glob("input_*.pb"), key=lambda file: (len(file.name), file.name))
    return [onnx.numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())) for file in files]


def random_feed(value, numbers):
    shape = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
    if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
        return numbers.integers(0, 40, shape)
    return numbers.standard_normal(shape).astype(np.float32)


def check_model(path, folder):
    """How many nodes of ONNX Runtime's domain the optimised model has."""
    target = folder / "model.onnx"
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    runtime = session(path, level, target)
    model, numbers = onnx.load(target), np.random.default_rng(5)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    given = stored_feeds(path) or [random_feed(value, numbers) for value in inputs]
    feeds = {value.name: array for value, array in zip(inputs, given, strict=True)}
    names = [value.name for value in model.graph.output]
    ours = run_ours(target, feeds, folder, names)
    for name, mine, want in zip(names, ours, runtime.run(names, feeds), strict=True):
        span = float(want.max() - want.min()) if want.size else 0
        wrong = difference(mine, want, RTOL, max(ATOL, 1e-4 * span))
        assert not wrong, f"{name}: {wrong}"
    return sum(node.domain == "com.microsoft" for node in model.graph.node)


def main():
    problems, counts = [], [0, 0, 0]
    check_attributes()
    for case in chain(cases(), ml_cases(), written_cases()):
        if not PATTERN.search(case.name):
            continue
        counts[0] += 1
        with tempfile.TemporaryDirectory(prefix="tidemark-contrib-") as folder:
            try:
                check_case(case, Path(folder))
            except Exception as wrong:  # whatever it is, the other cases run
                problems.append(f"{case.name}: {type(wrong).__name__}: {wrong}")
    extra = os.environ.get("TIDEMARK_EXTRA_MODELS", "").split(os.pathsep)
    for path in sorted(MODELS.glob("*/model.onnx")) + [Path(name) for name in extra if name]:
        name = path.parent.name if path.name == "model.onnx" else path.stem
        if not PATTERN.search(name):
            continue
        counts[1] += 1
        with tempfile.TemporaryDirectory(prefix="tidemark-contrib-") as folder:
            try:
                counts[2] += check_model(path, Path(folder))
            except Exception as wrong:
                problems.append(f"optimised {name}: {type(wrong).__name__}: {wrong}")
    if not MODELS.is_dir():
        print(f"left out: real models, since there is no {MODELS}")
    elif not PATTERN.pattern and counts[1] and not counts[2]:
        problems.append("no optimised model had an operator of ONNX Runtime's domain")
    for problem in problems:
        print(problem)
    print(f"{counts[0]} cases, {counts[1]} models with {counts[2]} nodes of com.microsoft, {len(problems)} problems")
    return 1 if problems or not counts[0] + counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
