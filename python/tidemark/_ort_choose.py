# SPDX-License-Identifier: Apache-2.0
"""What a call of quantize_static leaves open, chosen by Tidemark."""
from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from ._ort_calibrater import _Run
from ._ort_types import Arguments, Measured, Member, Reader
from ._profile import Profile

if TYPE_CHECKING:
    import onnx

# Arguments of quantize_static that decide how good the result is
_OPEN = ("op_types_to_quantize", "calibrate_method", "per_channel", "activation_type", "weight_type")
_METHODS = {"MinMax": "minmax", "Entropy": "entropy", "Percentile": "percentile"}


def left_open(given: Arguments, method: str | None) -> list[str]:
    """The arguments, of those that matter, that the call does not have; None counts as not given."""
    names = [name for name in _OPEN if given.get(name) is None and not (name == "calibrate_method" and method)]
    if given.get("nodes_to_quantize"):
        names = [name for name in names if name != "op_types_to_quantize"]
    return names


@contextlib.contextmanager
def _as_file(model: object) -> Iterator[str]:
    """The path of a model that may be in memory."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    import onnx
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save_model(cast("onnx.ModelProto", model), path, save_as_external_data=True, location="weights")
        yield path


def _profile(path: str, calibrater: Measured, reader: Reader, threads: int, exclude: Sequence[float]) -> Profile:
    """Of all values, weights too, over what the reader gives."""
    run = _Run(path, {"kind": "histogram", "threads": threads, "observe": [], "per_sample": False,
                      "exclude": list(map(float, exclude))})
    try:
        while item := reader.get_next():
            run.give(calibrater.checked(item))
    except BaseException:
        run.abandon()
        raise
    if not run.count:
        run.abandon()
        raise ValueError("No data is collected.")
    return run.finish()


def _type(kind: Member | None) -> str | None:
    return None if kind is None else str(kind.name)[1:].lower()


def quantize_chosen(quantize: Callable[..., object], create: Callable[[str], Measured], given: Arguments, method: str | None,
                    threads: int, exclude: Sequence[float]) -> None:
    """Calls ONNX Runtime's function `quantize` with what is given, and Tidemark's choice of the rest, over Tidemark's ranges."""
    from onnxruntime.quantization import QuantType
    options = dict(given.get("extra_options") or {})
    asked = given.get("calibrate_method")
    if options.get("SmoothQuant") or given.get("calibration_cache_path") is not None:
        raise ValueError("choose='tidemark' does not go with SmoothQuant, which changes the network, or calibration_cache_path")
    if asked is not None and asked.name not in _METHODS:
        raise ValueError(f"choose='tidemark' does not go with calibrate_method={asked.name}")
    method = method or (_METHODS[asked.name] if asked is not None else None)
    scales = None if given.get("per_channel") is None else "channel" if given["per_channel"] else "tensor"
    with _as_file(given["model_input"]) as path, tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        calibrater = create(path)
        profile = _profile(path, calibrater, given["calibration_data_reader"], threads, exclude)
        symmetric = options.get("ActivationSymmetric")
        encodings = profile.calibrate(
            method, parameter=float(cast("float", options.get("CalibPercentile", 0))) if method == "percentile" else 0,
            dtype=_type(given.get("activation_type")), weights_dtype=_type(given.get("weight_type")), weights_scales=scales,
            scheme=None if symmetric is None else "symmetric" if symmetric else "asymmetric")
        cache = os.path.join(folder, "cache.json")
        encodings.export("ort-cache", cache, model=path)
        with open(cache, encoding="utf-8") as file:
            chosen = json.load(file)["tidemark"]["quantize_static"]
        for name in ("activation_type", "weight_type"):
            chosen[name] = QuantType[chosen[name]]
        excluded: Sequence[str] | None = [*(given.get("nodes_to_exclude") or ()), *chosen.pop("nodes_to_exclude")]
        if "op_types_to_quantize" not in left_open(given, method):
            excluded = given.get("nodes_to_exclude")  # the script chose which
        arguments = {**chosen, **{name: value for name, value in given.items() if value is not None or name not in chosen},
                     "model_input": path, "calibration_data_reader": None, "calibration_cache_path": cache,
                     "nodes_to_exclude": excluded, "extra_options": {**chosen.get("extra_options", {}), **options}}
        arguments.pop("calibrate_method", None)  # the file has MinMax, whatever chose its ranges
        quantize(**arguments)
