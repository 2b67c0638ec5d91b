# SPDX-License-Identifier: Apache-2.0
"""Tidemark: the range of every tensor of a neural network, measured over calibration data.

    import numpy as np, tidemark
    profile = tidemark.profile("model.onnx", np.load("samples.npy"))
    profile["conv1_out"].max
    profile.calibrate(method="mse").export("tensorrt-cache", "model.cache")
"""
from ._core import Error, methods as _methods, version as _version
from ._encodings import Encoding, Encodings
from ._profile import Profile, Tensor
from ._run import profile

__version__ = _version()
__all__ = ["Encoding", "Encodings", "Error", "Profile", "Tensor", "calibration_methods", "profile"]


def calibration_methods() -> dict[str, str]:
    """The names that `method` may have, and what each does."""
    return dict(_methods())
