# SPDX-License-Identifier: Apache-2.0
"""A drop-in for onnxruntime.quantization: ONNX Runtime quantizes, from ranges that Tidemark measures.

    -from onnxruntime.quantization import quantize_static
    +from tidemark.ort import quantize_static

What this module does not define is ONNX Runtime's own.
"""
from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from . import _core
from ._ort_calibrater import _LOG, Grid, calibrater_class
from ._ort_choose import left_open, quantize_chosen
from ._ort_half import quantizer_class, want_qdq
from ._ort_types import Arguments, Measured, Member

__all__ = ["create_calibrator", "quantize", "quantize_static"]


def __getattr__(name: str) -> Any:  # of any type: ONNX Runtime has no stubs
    if name.startswith("__"):
        raise AttributeError(name)
    from onnxruntime import quantization
    try:
        return getattr(quantization, name)
    except AttributeError:
        raise AttributeError(f"neither tidemark.ort nor onnxruntime.quantization has '{name}'") from None


def __dir__() -> list[str]:
    from onnxruntime import quantization
    return sorted({*__all__, *(name for name in dir(quantization) if not name.startswith("_"))})


def create_calibrator(model: str | os.PathLike[str], op_types_to_calibrate: Sequence[str] | None = None,
                      augmented_model_path: str | os.PathLike[str] = "augmented_model.onnx", calibrate_method: Member | None = None,
                      use_external_data_format: bool = False, providers: Sequence[object] | None = None,
                      extra_options: Mapping[str, object] | None = None, *, method: str | None = None,
                      activation_type: Member | None = None, activation_symmetric: bool = False, threads: int = 0,
                      overrides: Mapping[str, Sequence[Mapping[str, object]]] | None = None,
                      nodes_to_exclude: Iterable[str] | None = None, exclude: Sequence[float] = ()) -> Measured:
    """As onnxruntime.quantization.create_calibrator: an object with collect_data(reader) and compute_data(), which answers
    with TensorsData for this very model. No augmented model is written.

    calibrate_method: MinMax (the default), Entropy, Percentile, Distribution. method: a name of
        tidemark.calibration_methods(), in its place.
    activation_type (a QuantType, else QUInt8), activation_symmetric, overrides (TensorQuantOverrides): what the ranges are
        for. Methods that look at the error of quantization need it; MinMax, Percentile and Distribution do not.
    threads: 0 is one a processor. nodes_to_exclude: names of nodes that will stay float, about which nothing need be told.
    exclude: finite numbers, such as -1e9 of a mask. Elements that equal one are in no range; codes clip them to its end.
        The range of a value with such elements is the min and max of the others, whichever the method.
    """
    from onnxruntime.quantization import CalibrationMethod
    if method is not None and method not in dict(_core.methods()):
        raise ValueError(f"method={method!r}: there are {', '.join(dict(_core.methods()))}")
    if calibrate_method is None:
        calibrate_method = CalibrationMethod.MinMax
    if calibrate_method not in list(CalibrationMethod):
        raise ValueError(f"Unsupported calibration method {calibrate_method}")
    if method is not None and calibrate_method == CalibrationMethod.Distribution:
        raise ValueError(f"method={method!r}: Distribution is about means and deviations, for which there is one method only")
    default = (_dtype(activation_type) if activation_type is not None else "uint8", bool(activation_symmetric))
    by_name = {name: (_dtype(cast("Member", of[0]["quant_type"])) if "quant_type" in of[0] else default[0],
                      bool(of[0].get("symmetric", default[1]))) for name, of in (overrides or {}).items() if of}
    calibrater = calibrater_class()(model, op_types_to_calibrate, augmented_model_path, calibrate_method,
                                    use_external_data_format, dict(extra_options or {}), method,
                                    Grid(*default, by_name), threads, nodes_to_exclude, exclude)
    calibrater.augment_graph()
    if providers:
        calibrater.execution_providers = providers
    calibrater.create_inference_session()
    return calibrater


def quantize_static(*args: object, method: str | None = None, threads: int = 0, exclude: Sequence[float] = (),
                    choose: str | None = None, **settings: object) -> None:
    """onnxruntime.quantization.quantize_static, with its own arguments; ranges are measured by Tidemark.

    method: a name of tidemark.calibration_methods(), in place of `calibrate_method`. threads: 0 is one a processor.
    exclude: finite numbers, such as -1e9 of a mask, that are in no range; see create_calibrator.
    choose: who chooses what the call leaves open (operators, method, types, scales by channel): "tidemark", as
        `tidemark calibrate` does by default; "onnxruntime", by its defaults. None: ONNX Runtime, and the log states it.
    """
    if choose not in (None, "tidemark", "onnxruntime"):
        raise ValueError(f"choose={choose!r}: there are 'tidemark' and 'onnxruntime'")
    theirs = importlib.import_module("onnxruntime.quantization.quantize")  # the package has a function of this name
    bound = inspect.signature(theirs.quantize_static).bind(*args, **settings)
    open_to_choice = left_open(cast("Arguments", bound.arguments), method)
    if choose == "tidemark":
        quantize_chosen(theirs.quantize_static, lambda path: create_calibrator(path, exclude=exclude),
                        cast("Arguments", dict(bound.arguments)),
                        method, threads, exclude)
        return
    if choose is None and open_to_choice:
        _LOG.warning("%s: not given, so ONNX Runtime's defaults hold. choose=\"tidemark\" usually loses less: it leaves float what "
                     "8 bits harm, and scales weights by channel; choose=\"onnxruntime\" says that the defaults are meant",
                     ", ".join(open_to_choice))
    bound.apply_defaults()
    given = cast("Arguments", bound.arguments)
    options = given.get("extra_options") or {}
    _check_cache(given.get("calibration_cache_path"), method, exclude)

    def create(*words: object, **named: object) -> Measured:
        made = cast("Callable[..., Measured]", create_calibrator)(
            *words, **named, method=method, threads=threads, exclude=exclude, activation_type=given["activation_type"],
            activation_symmetric=options.get("ActivationSymmetric", False), overrides=options.get("TensorQuantOverrides"),
            nodes_to_exclude=given.get("nodes_to_exclude"))
        want_qdq(given["quant_format"], made.halves)
        return made
    _with(theirs.quantize_static, create_calibrator=create, QDQQuantizer=quantizer_class())(*args, **settings)


def quantize(*args: object, method: str | None = None, threads: int = 0, exclude: Sequence[float] = (), choose: str | None = "onnxruntime",
             **settings: object) -> None:
    """onnxruntime.quantization.quantize; with a StaticQuantConfig, ranges are measured by Tidemark. See quantize_static."""
    theirs = importlib.import_module("onnxruntime.quantization.quantize")  # the package has a function of this name
    _with(theirs.quantize, quantize_static=functools.partial(quantize_static, method=method, threads=threads, exclude=exclude,
                                                             choose=choose))(
        *args, **settings)


def _with(function: Callable[..., None], **replaced: object) -> Callable[..., None]:
    """The same function, for this call alone, that finds other functions under these names of its module."""
    function = inspect.unwrap(function)
    for name in replaced:
        if name not in function.__code__.co_names or name not in function.__globals__:
            import onnxruntime
            raise RuntimeError(f"{function.__name__} of onnxruntime {onnxruntime.__version__} does not call {name}: "
                               "tidemark.ort does not know this version")
    made = types.FunctionType(function.__code__, {**function.__globals__, **replaced}, function.__name__,
                              function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _dtype(kind: Member) -> str:
    """Of a QuantType: "QUInt8" is uint8."""
    return str(kind.name)[1:].lower()


def _check_cache(path: str | os.PathLike[str] | None, method: str | None, exclude: Sequence[float]) -> None:
    """ONNX Runtime compares its own method with the cache's; it ignores what Tidemark adds."""
    if path is None or not os.path.isfile(path):
        return
    with open(path, encoding="utf-8") as file:
        made = json.load(file)
    was, now = ((m, sorted(map(float, e or ()))) for m, e in ((made.get("tidemark_method"), made.get("tidemark_exclude")), (method, exclude)))
    if was != now:
        raise ValueError(f"Calibration cache at {path} was produced with method={was[0]!r}, exclude={was[1]}, but quantize_static was "
                         f"called with method={now[0]!r}, exclude={now[1]}. Delete the cache or pass matching arguments.")
