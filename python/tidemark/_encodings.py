# SPDX-License-Identifier: Apache-2.0
"""Encodings as a mapping from names."""
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _core


class Encoding(NamedTuple):
    """How a value is quantized: code = clip(rint(x / scale) + zero_point)."""
    id: str
    name: str
    role: str         # "activation", "weight", "bias"
    dtype: str        # of the codes
    symmetric: bool
    axis: int | None  # along which scales differ
    scale: np.ndarray
    zero_point: np.ndarray
    low: np.ndarray   # the range that was chosen
    high: np.ndarray
    method: str
    rule: str         # why it is not what the method alone says
    group: int        # values of one group share scale and zero point; 0: alone
    expected: dict[str, float] | None  # mse, sqnr (decibels), clipped (share), tying


class Left(NamedTuple):
    """A value that stays float, and why."""
    id: str
    name: str
    reason: str


class Encodings(Mapping[str, Encoding]):
    """Encodings by name; a value without a name goes by its ID."""

    def __init__(self, core: Any, remarks: list[str] | None = None):
        self._core = core
        self.remarks = remarks or []
        self._items: dict[str, Encoding] = {}
        for item in core.items():
            for key, dtype in (("scale", "f4"), ("zero_point", "i4"), ("low", "f4"), ("high", "f4")):
                item[key] = np.frombuffer(item[key], dtype)
            encoding = Encoding(**item)
            self._items[encoding.name if encoding.name and encoding.name not in self._items else encoding.id] = encoding

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Encodings:
        """From a file that `write` or `tidemark calibrate` wrote."""
        return cls(_core.Encodings.read(os.fspath(path)))

    def write(self, path: str | os.PathLike[str]) -> None:
        """As JSON, whole or not at all."""
        self._core.write(os.fspath(path))

    def __getitem__(self, key: str) -> Encoding:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<tidemark.Encodings: {len(self)} values, {len(self.left)} stay float>"

    @property
    def left(self) -> list[Left]:
        """What stays float, and why."""
        return [Left(*row) for row in self._core.left()]

    def export(self, format: str, path: str | os.PathLike[str], *, model: str | os.PathLike[str] | None = None,
               params: str | os.PathLike[str] | None = None, template: str | os.PathLike[str] | None = None,
               names: str | os.PathLike[str] | None = None, **settings: object) -> list[Left]:
        """Writes a vendor's file (`tidemark export --to help` lists the formats); answers with what was not written, and why."""
        def text(path: str | os.PathLike[str] | None) -> str | None:
            return None if path is None else os.fspath(path)
        words = tuple(f"{key}={value}" for key, value in settings.items())
        rows = _core.export(self._core, format, os.fspath(path), model=text(model), params=text(params), template=text(template),
                            names=text(names), settings=words)
        return [Left(*row) for row in rows]
