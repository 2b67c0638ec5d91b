# SPDX-License-Identifier: Apache-2.0
"""Models as ONNX Runtime writes them once optimised, with operators of its own, give ONNX Runtime's outputs.

usage: test_optimised.py PROGRAM SOURCE_ROOT FEATURES
"""
from oracle import main, model_names, model_of, np, onnx, onnxruntime, samples, tidemark

COUNT = 2  # samples


def optimised(source, target):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    return onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def test_optimised_models_give_onnx_runtimes_outputs(path):
    found = 0
    for name in model_names():
        session = optimised(model_of(name), path / "m.onnx")
        names = [output.name for output in session.get_outputs()]
        for feed in samples(name, COUNT):
            np.savez(path / "in.npz", **{key: value[None] for key, value in feed.items()})
            tidemark("run", path / "m.onnx", "--data", path / "in.npz", "-q", "-o", path / "out.npz")
            with np.load(path / "out.npz") as ours:
                for output, want in zip(names, session.run(names, feed), strict=True):
                    got, span = ours[output][0], float(np.ptp(want)) if want.size else 0
                    assert (got.dtype, got.shape) == (want.dtype, want.shape), (name, output)
                    assert np.allclose(got, want, 1e-4, max(1e-5, 1e-4 * span), equal_nan=True), f"{name}: {output}"
        found += sum(node.domain == "com.microsoft" for node in onnx.load(path / "m.onnx").graph.node)
    assert found, "no optimised model has an operator of ONNX Runtime's domain"
    return f"{found} nodes of com.microsoft"


main()
