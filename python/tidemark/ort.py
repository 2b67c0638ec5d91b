# SPDX-License-Identifier: Apache-2.0
"""A drop-in for ONNX Runtime's static quantization, with ranges that Tidemark measures and chooses.

    -from onnxruntime.quantization import quantize_static
    +from tidemark.ort import quantize_static

The data pass through the network once, in bounded memory; ONNX Runtime (1.27 and later) then quantizes from the ranges. Its own
`calibrate_method` is not used: `method` is Tidemark's (mean squared error unless said otherwise).
"""
from __future__ import annotations

import os
import tempfile
from typing import Any

from ._run import profile


def calibration_cache(model: Any, reader: Any, path: str | os.PathLike[str], *, method: str | None = None, **settings: Any) -> None:
    """Writes the ranges as ONNX Runtime's calibration cache. settings: those of tidemark.profile."""
    profile(model, reader, **settings).calibrate(method).export("ort-cache", path)


def quantize_static(model_input: Any, model_output: Any, calibration_data_reader: Any, *args: Any, method: str | None = None,
                    threads: int = 0, **settings: Any) -> None:
    """As onnxruntime.quantization.quantize_static, with Tidemark's ranges. Every other argument goes to ONNX Runtime."""
    from onnxruntime import quantization as ort
    settings.pop("calibrate_method", None)
    if "calibration_cache_path" in settings:
        raise TypeError("calibration_cache_path is what this function makes; give it to ONNX Runtime's own")
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "ranges.json")
        calibration_cache(model_input, calibration_data_reader, cache, method=method, threads=threads)
        ort.quantize_static(model_input, model_output, None, *args, calibrate_method=ort.CalibrationMethod.MinMax,
                            calibration_cache_path=cache, **settings)
