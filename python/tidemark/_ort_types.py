# SPDX-License-Identifier: Apache-2.0
"""Types of what tidemark.ort uses of onnxruntime.quantization, which has none."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol, TypedDict

import numpy as np


class Member(Protocol):
    """Of an enumeration: QuantType, QuantFormat, CalibrationMethod."""
    @property
    def name(self) -> str: ...


class Reader(Protocol):
    """CalibrationDataReader: an item is an array for each input; None ends the data."""
    def get_next(self) -> Mapping[str, np.ndarray] | None: ...


class Range(Protocol):
    """TensorData."""
    @property
    def lowest(self) -> np.ndarray: ...

    @property
    def highest(self) -> np.ndarray: ...


class Ranges(Protocol):
    """TensorsData: ranges by the names of values."""
    def __getitem__(self, name: str) -> Range: ...

    def to_dict(self) -> dict[str, object]: ...


class Calibrater(Protocol):
    """CalibraterBase."""
    execution_providers: Sequence[object]

    def augment_graph(self) -> None: ...

    def create_inference_session(self) -> None: ...

    def collect_data(self, data_reader: Reader) -> None: ...

    def compute_data(self) -> Ranges: ...


class Measured(Calibrater, Protocol):
    """Tidemark's own."""
    halves: list[str]  # names of values in float16

    def checked(self, item: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]: ...


class Arguments(TypedDict, total=False):
    """Of quantize_static, as far as they are looked at."""
    model_input: object
    calibration_data_reader: Reader
    calibration_cache_path: str | os.PathLike[str] | None
    calibrate_method: Member | None
    quant_format: Member
    activation_type: Member | None
    weight_type: Member | None
    per_channel: bool | None
    op_types_to_quantize: Sequence[str] | None
    nodes_to_quantize: Sequence[str] | None
    nodes_to_exclude: Sequence[str] | None
    extra_options: dict[str, object] | None
