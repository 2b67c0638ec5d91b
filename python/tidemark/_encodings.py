# SPDX-License-Identifier: Apache-2.0
"""Encodings as a mapping from names."""
from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core
from ._files import Config, Model, OfFiles, Path, json_file, log, model_file_if_any, text
from ._html import table

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]


class Encoding(NamedTuple):
    """How a value is quantized: code = clip(rint(x / scale) + zero_point)."""
    id: str
    name: str
    role: str         # "activation", "weight", "bias"
    dtype: str        # of the codes
    symmetric: bool
    axis: int | None  # along which scales differ
    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int32]
    low: npt.NDArray[np.float32]   # the range that was chosen
    high: npt.NDArray[np.float32]
    method: str
    rule: str         # why it differs from the method's result
    group: int        # values of one group share scale and zero point; 0: alone
    expected: dict[str, float] | None  # mse, sqnr (decibels), clipped (share), tying
    block: int = 0    # indices of the axis that share a scale; 0: scales are by index


class Left(NamedTuple):
    """A value that stays float, and why."""
    id: str
    name: str
    reason: str


class Encodings(OfFiles, Mapping[str, Encoding]):
    """Encodings by name; an ID ("p12") finds its encoding, too, and a value without a name goes by it."""

    def __init__(self, core: _core.Encodings, remarks: list[str] | None = None, made_of: frozenset[str] = frozenset()):
        self._core, self._made_of = core, made_of
        self.remarks = remarks or []
        self._items: dict[str, Encoding] = {}
        self._ids: dict[str, Encoding] = {}
        for item in core.items():
            encoding = Encoding(item["id"], item["name"], item["role"], item["dtype"], item["symmetric"], item["axis"],
                                np.frombuffer(item["scale"], np.float32), np.frombuffer(item["zero_point"], np.int32),
                                np.frombuffer(item["low"], np.float32), np.frombuffer(item["high"], np.float32),
                                item["method"], item["rule"], item["group"], item["expected"], item["block"])
            self._ids[encoding.id] = encoding
            self._items[encoding.name if encoding.name and encoding.name not in self._items else encoding.id] = encoding

    @classmethod
    def read(cls, path: Path) -> Encodings:
        """From a file that `write` or `tidemark calibrate` wrote."""
        made = cls(_core.Encodings.read(os.fspath(path)))
        made._file = os.path.abspath(path)
        return made

    def write(self, path: Path) -> None:
        """As JSON: whole or not at all, and over no file that they were made of."""
        self._not_over(path, itself=True)
        self._core.write(os.fspath(path))

    def __getitem__(self, key: str) -> Encoding:
        if key in self._items:
            return self._items[key]
        if key not in self._ids and (why := self._why_left.get(key)):
            raise KeyError(f"{key!r} stays float: {why}")
        return self._ids[key]

    @functools.cached_property
    def _why_left(self) -> dict[str, str]:
        return {key: left.reason for left in self.left for key in (left.id, left.name)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<tidemark.Encodings: {len(self)} values, {len(self.left)} stay float>"

    def __reduce__(self) -> tuple[Callable[[bytes, list[str]], Encodings], tuple[bytes, list[str]]]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "e.json")
            self.write(path)
            with open(path, "rb") as file:
                return _encodings_of, (file.read(), self.remarks)

    def to_dict(self) -> dict[str, object]:
        """encodings: a dictionary a value, arrays as lists; left: what stays float."""
        def plain(encoding: Encoding) -> dict[str, object]:
            return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in encoding._asdict().items()}
        return {"encodings": [plain(e) for e in self.values()], "left": [left._asdict() for left in self.left]}

    def to_pandas(self) -> pandas.DataFrame:
        """A row a value, indexed by ID."""
        import pandas
        return pandas.DataFrame([e._asdict() for e in self.values()]).set_index("id")

    def _repr_html_(self) -> str:
        def end(numbers: npt.NDArray[np.generic]) -> str:
            return f"{numbers[0]:.6g}" if len(numbers) == 1 else f"{len(numbers)} channels"
        rows = [(e.id, e.name, e.role, e.dtype, end(e.scale), end(e.zero_point), end(e.low), end(e.high), e.method,
                 f"{e.expected['sqnr']:.1f}" if e.expected else "") for e in self.values()]
        return table(("id", "value", "role", "type", "scale", "zero point", "low", "high", "method", "expected dB"), rows,
                     f"{len(self)} values, {len(self.left)} stay float")

    @property
    def rounding(self) -> str:
        """How integer arithmetic rounds."""
        return self._core.rounding()

    @property
    def left(self) -> list[Left]:
        """What stays float, and why."""
        return [Left(*row) for row in self._core.left()]

    def export(self, format: str, path: Path, *, model: Model | None = None,
               params: Path | None = None, template: Path | None = None,
               names: Config | None = None, keep_names: bool = False, target: Path | None = None,
               **settings: object) -> list[Left]:
        """Writes a vendor's file, of a format of tidemark.export_formats(); answers with what was not written, and why.

        model: the model that the format needs, or names fit to. names: a mapping, or a JSON file of one, from names of the model to others;
        keep_names: values that it does not have keep theirs. template: the consumer's own file. target: its limits
        hold. Others: settings of the format. Remarks go to the logger "tidemark", at level INFO."""
        self._not_over(path)
        words, remarks = tuple(f"{key}={value}" for key, value in settings.items()), list[str]()
        with model_file_if_any(model) as file, json_file(names, "names.json") as translated:
            rows = _core.export(self._core, format, os.fspath(path), model=file, params=text(params), template=text(template),
                                names=translated, settings=words, keep_names=keep_names, target=text(target), remarks=remarks)
        for remark in remarks:
            log.info("%s", remark)
        return [Left(*row) for row in rows]


def _encodings_of(data: bytes, remarks: list[str]) -> Encodings:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "e.json")
        with open(path, "wb") as file:
            file.write(data)
        return Encodings(_core.Encodings.read(path), remarks)
