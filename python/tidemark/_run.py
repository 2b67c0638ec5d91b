# SPDX-License-Identifier: Apache-2.0
"""From what people have as data to records for the library."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from ._profile import Profile


def _array(value: Any) -> np.ndarray:
    """In C order and aligned; without a copy where it already is."""
    return np.require(value, requirements=["C", "A"])


def _is_paths(data: Any) -> bool:
    def path(word: Any) -> bool:
        return isinstance(word, (str, os.PathLike))
    return path(data) or (isinstance(data, (list, tuple)) and bool(data) and all(map(path, data)))


def _items(data: Any) -> Iterable[Any]:
    """What comes one after the other: an array or a mapping is one item, a reader is asked until it has no more."""
    if hasattr(data, "get_next"):  # ONNX Runtime's CalibrationDataReader
        while (item := data.get_next()) is not None:
            yield item
    elif isinstance(data, (np.ndarray, Mapping)) or hasattr(data, "__array_interface__"):
        yield data
    else:
        yield from data


class _Records:
    """Gives the library its records: inputs take turns."""

    def __init__(self, data: Any):
        self._items, self._item = iter(_items(data)), None
        self._asked: set[str] = set()

    def __call__(self, name: str) -> np.ndarray | None:
        if self._item is None or name in self._asked:
            self._item, self._asked = next(self._items, None), set()
            if self._item is None:
                return None
        self._asked.add(name)
        item = self._item
        if isinstance(item, Mapping):
            if name not in item:
                raise KeyError(f"the data have nothing for input '{name}', only for {sorted(item)}")
            return _array(item[name])
        if isinstance(item, (tuple, list)) and item and not np.isscalar(item[0]):
            if len(item) < len(self._asked):
                raise ValueError(f"a tuple of {len(item)} arrays, but input '{name}' wants one more")
            return _array(item[len(self._asked) - 1])
        if len(self._asked) > 1:
            raise ValueError(f"one array, but '{name}' is another input; give a mapping from names to arrays")
        return _array(item)


def profile(model: Any, data: Any, *, params: str | os.PathLike[str] | None = None, observe: Sequence[str] = (),
            kind: str = "histogram", threads: int = 0, batch: int = 0, limit: int = 0, skip: int = 0, memory_limit: int = 0,
            per_sample: bool = False, fail_on_nan: bool = False, exclude: Sequence[float] = (), image: str | None = None,
            progress: Callable[[int, int], None] | None = None) -> Profile:
    """Runs calibration data through the model once, and measures every tensor.

    model: a path (.onnx, or Relay text with `params`), or an onnx.ModelProto.
    data: paths as `tidemark profile --data` takes them; or an array (first axis: samples); a mapping from input names to
        arrays; an iterable of arrays, tuples or mappings; or a CalibrationDataReader of ONNX Runtime. Arrays in C order are
        read where they lie. Of an input's own rank, the first axis counts samples; of one rank less, an array is one sample.
    exclude: finite numbers, such as -1e9 of a mask. Elements that equal one are in no range, moment and histogram.
    progress: called with (samples done, samples in all or 0).

    The interpreter's lock is released while the network runs. Raises tidemark.Error, or what the data raise.
    """
    words: dict[str, Any] = dict(observe=list(observe), kind=kind, threads=threads, batch=batch, limit=limit, skip=skip,
                                 memory_limit=memory_limit, per_sample=per_sample, fail_on_nan=fail_on_nan, exclude=list(exclude), image=image,
                                 progress=progress, params=None if params is None else os.fspath(params))
    if _is_paths(data):
        words["data"] = [os.fspath(path) for path in ([data] if isinstance(data, (str, os.PathLike)) else data)]
    else:
        words.update(data=["-"], next=_Records(data), label="data")
    if isinstance(model, (str, os.PathLike)):
        return Profile(_core.profile(os.fspath(model), **words))
    with tempfile.TemporaryDirectory() as folder:  # a ModelProto
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        return Profile(_core.profile(path, **words))
