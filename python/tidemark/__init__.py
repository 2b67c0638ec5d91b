# SPDX-License-Identifier: Apache-2.0
"""Tidemark: the range of every tensor of a neural network, measured over calibration data.

    import numpy as np, tidemark
    profile = tidemark.profile("model.onnx", np.load("samples.npy"))
    profile["conv1_out"].max
    profile.calibrate(method="mse").export("tensorrt-cache", "model.cache")
"""
from __future__ import annotations

from ._compare import Ranking, Search, Simulation, rank, search, simulate
from ._core import Error, formats as _formats, limits as _limits, methods as _methods, set_limits as _set_limits, version as _version
from ._encodings import Encoding, Encodings
from ._model import Transformed, Verdict, graph, instrument, passes, patterns, transform, verify
from ._profile import Profile, Tensor
from ._quantize import Quantized, check_target, quantize, targets
from ._relate import Check, Diff, Fate, Link, check, diff, link, merge, read_lineage
from ._run import Figure, RunOptions, bench, plan_memory, profile, run, step_costs

__version__ = _version()
__all__ = ["Check", "Diff", "Encoding", "Encodings", "Error", "Fate", "Figure", "Link", "Profile", "Quantized", "Ranking",
           "RunOptions", "Search", "Simulation", "Tensor", "Transformed", "Verdict", "bench", "calibration_methods",
           "check", "check_target", "diff", "export_formats", "graph", "instrument", "link", "merge", "passes", "patterns", "plan_memory",
           "profile", "quantize", "rank", "read_lineage", "run", "search", "set_limits", "simulate", "step_costs",
           "targets", "transform", "verify"]


def calibration_methods() -> dict[str, str]:
    """The names that `method` may have, and what each does."""
    return dict(_methods())


def export_formats() -> dict[str, str]:
    """The names that `format` of Encodings.export may have, and who reads each."""
    return {name: consumer for name, consumer, _ in _formats()}


def set_limits(*, operations: float | None = None, memory: int | None = None) -> None:
    """Bounds what this process may take; 0: no limit. None: as it was.

    operations: of one batch, estimated from shapes (1e15 at first). memory: bytes of models and data, all together; a run's
    `memory_limit` chooses fewer workers, smaller batches, and at last `stream_layers`, to stay below one.
    """
    if (operations or 0) < 0 or (memory or 0) < 0:
        raise ValueError("limits are 0 or more")
    was = _limits()
    _set_limits(was[0] if operations is None else operations, was[1] if memory is None else memory)
