# SPDX-License-Identifier: Apache-2.0
"""Models in float16, of which ONNX Runtime's quantizers write files that it does not load."""
from __future__ import annotations

import functools
from collections.abc import Sequence

from ._ort_types import Member

_HALF_OPSET = 19  # ONNX's QuantizeLinear takes float16 from here on, com.microsoft's in all


def want_qdq(form: Member, halves: Sequence[str]) -> None:
    """Raises for operators of quantized numbers, whose scales are float32."""
    if form.name == "QOperator" and halves:
        raise ValueError(f"'{halves[0]}' is float16, whose QLinear operators ONNX Runtime does not have: pass quant_format=QuantFormat.QDQ")


@functools.lru_cache(maxsize=None)
def quantizer_class() -> type:
    """ONNX Runtime's QDQQuantizer, with scales of each value's type and operators that take them."""
    from onnxruntime.quantization import QDQQuantizer
    from onnxruntime.quantization.calibrate import TensorData
    from onnxruntime.quantization.quant_utils import ms_domain

    class Quantizer(QDQQuantizer):  # type: ignore[misc]
        def adjust_tensor_ranges(self) -> None:
            """ONNX Runtime's gives results of Softmax a range of float32."""
            kinds = {name: _kind(data) for name, data in self.tensors_range.items()}
            super().adjust_tensor_ranges()
            for name in [name for name, kind in kinds.items() if kind and kind != _kind(self.tensors_range[name])]:
                data = self.tensors_range[name]
                self.tensors_range[name] = TensorData(lowest=data.lowest.astype(kinds[name]), highest=data.highest.astype(kinds[name]))
            if "float16" in kinds.values() and self.opset_version < _HALF_OPSET:
                self.qdq_op_domain = ms_domain

    return Quantizer


def _kind(data: object) -> str | None:
    """The type of a range; means and deviations have none."""
    return str(data.lowest.dtype) if hasattr(data, "lowest") else None
