# SPDX-License-Identifier: Apache-2.0
"""Paths, models in memory, and options as the extension takes them."""
from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeAlias, Union

from . import _core

log = logging.getLogger("tidemark")
Path: TypeAlias = Union[str, "os.PathLike[str]"]


class ModelProto(Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


Model: TypeAlias = Union[Path, ModelProto]


def text(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


@contextmanager
def inputs_held() -> Iterator[None]:
    """What the calls within read is not written over, either."""
    _core.hold_inputs(True)
    try:
        yield
    finally:
        _core.hold_inputs(False)


@contextmanager
def model_file(model: Model) -> Iterator[str]:
    """The path of the model: its own, or that of a copy of what is in memory."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        yield path


def options(**words: object) -> dict[str, object]:
    """Paths as texts, lists as tuples."""
    def plain(word: object) -> object:
        if isinstance(word, os.PathLike):
            return os.fspath(word)
        return tuple(word) if isinstance(word, list) else word
    return {key: plain(word) for key, word in words.items()}


def numbered(mapping: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if mapping is None else dict(mapping)
