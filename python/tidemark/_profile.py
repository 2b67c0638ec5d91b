# SPDX-License-Identifier: Apache-2.0
"""Profiles as mappings from names to tensors."""
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _core
from ._encodings import Encodings

if TYPE_CHECKING:
    import pandas


class Channels(NamedTuple):
    """Extremes of each channel; NaN where a channel had no finite number."""
    axis: int
    min: np.ndarray
    max: np.ndarray


class Bins(NamedTuple):
    """The exact histogram: float32's own bins by sign, exponent and 7 bits of mantissa. Zeros are in none."""
    low: np.ndarray    # lower and upper end
    high: np.ndarray
    count: np.ndarray
    mean: np.ndarray   # exact, of the bin's elements


class Quantile(NamedTuple):
    value: float
    low: float   # it is proven to lie between these
    high: float


class Tensor:
    """What was seen of one value. Figures are attributes: id, name, kind, status, dtype, shape, op, node, fingerprint, path and,
    where numbers were seen, count, min, max, min_at and max_at (sample, element), mean, std, std_low and std_high (between which the
    standard deviation is proven to lie), sum, zeros, nan, posinf, neginf, and sentinel: what min or max looks as if it stood for, as
    numbers in masks do."""

    def __init__(self, core: Any, index: int):
        self._core, self._index = core, index
        self._record: dict[str, Any] = core.record(index)

    def __getattr__(self, name: str) -> Any:
        record = self.__dict__.get("_record", {})
        if name in record:
            return record[name]
        if name in ("count", "zeros", "nan", "posinf", "neginf"):
            return 0
        if name in ("min", "max", "mean", "std", "std_low", "std_high", "sum", "min_at", "max_at", "sentinel"):
            return None
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._record})

    def __repr__(self) -> str:
        seen = f"[{self.min}, {self.max}]" if self.min is not None else self.status
        return f"<tidemark.Tensor {self.id} {self.name!r} {self.dtype} {self.shape} {seen}>"

    def as_dict(self) -> dict[str, Any]:
        """All figures."""
        return dict(self._record)

    @property
    def bins(self) -> Bins | None:
        """The exact histogram, ascending; None where there is none."""
        raw = self._core.bins(self._index)
        if raw is None:
            return None
        number, count, dropped = (np.frombuffer(data, dtype) for data, dtype in zip(raw, ("u2", "u8", "u8")))
        start = (number.astype("u4") << 16).view("f4").astype("f8")
        with np.errstate(invalid="ignore"):
            end = ((number.astype("u4") << 16) + 0xFFFF).view("f4").astype("f8")
        mean = start + (end - start) * (dropped / count) / 0xFFFF
        order = np.argsort(start, kind="stable")
        return Bins(*(a[order] for a in (np.minimum(start, end), np.maximum(start, end), count, mean)))

    def histogram(self, bins: int = 2048, range: tuple[float, float] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Counts and edges, as numpy.histogram gives them; counts are fractions where bins of the exact histogram are cut."""
        low, high = range or (self.min, self.max)
        if low is None or high is None:
            raise ValueError(f"{self.name!r} has no numbers")
        if low == high:
            low, high = low - 0.5, high + 0.5
        counts = np.frombuffer(self._core.linear(self._index, bins, low, high), "f8")
        return counts, np.linspace(low, high, bins + 1)

    def quantile(self, q: float) -> Quantile:
        """The smallest element that a share of q of all does not exceed, and its proven interval."""
        return Quantile(*self._core.quantile(self._index, q))

    @property
    def channels(self) -> Channels | None:
        """Extremes by channel; None where they were not kept."""
        raw = self._core.channels(self._index)
        if raw is None:
            return None
        low, high = (np.frombuffer(data, "f4").copy() for data in raw[1:])
        low[low > high], high[np.isnan(low) | (low > high)] = np.nan, np.nan
        return Channels(raw[0], low, high)

    @property
    def samples(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Least and greatest number of each sample, with per_sample=True."""
        raw = self._core.samples(self._index)
        return None if raw is None else (np.frombuffer(raw[0], "f4"), np.frombuffer(raw[1], "f4"))


class Profile(Mapping[str, Tensor]):
    """A profile: a mapping from names to tensors, in the order of their IDs. An ID ("p12") finds its tensor, too; a value
    without a name, or with another's, goes by its ID."""

    def __init__(self, core: Any):
        self._core = core
        self._tensors = [Tensor(core, i) for i in range(len(core))]
        self._ids = {t.id: t for t in self._tensors}
        self._names: dict[str, Tensor] = {}
        for tensor in self._tensors:
            self._names[tensor.name if tensor.name and tensor.name not in self._names else tensor.id] = tensor

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Profile:
        """From a file, JSON or HDF5."""
        return cls(_core.Profile.read(os.fspath(path)))

    def write(self, path: str | os.PathLike[str]) -> None:
        """To a file, .json or .h5: whole or not at all."""
        self._core.write(os.fspath(path))

    def __getitem__(self, key: str) -> Tensor:
        return self._names[key] if key in self._names else self._ids[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<tidemark.Profile of {self.model['file']!r}: {len(self)} values, {self.ledger['run']} samples>"

    @property
    def tensors(self) -> list[Tensor]:
        """All of them, by ID."""
        return list(self._tensors)

    @property
    def model(self) -> dict[str, str]:
        """file, sha256, format."""
        return self._core.info()["model"]

    @property
    def ledger(self) -> dict[str, int]:
        """Samples: offered = run + skipped + failed."""
        return self._core.info()["ledger"]

    @property
    def settings(self) -> dict[str, str]:
        """Settings that bear on the numbers."""
        return self._core.info()["settings"]

    def to_pandas(self) -> pandas.DataFrame:
        """A row a value, a column a figure, indexed by ID."""
        import pandas
        return pandas.DataFrame([t.as_dict() for t in self._tensors]).set_index("id")

    def calibrate(self, method: str | None = None, *, parameter: float = 0, dtype: str | None = None, scheme: str | None = None,
                  scales: str | None = None, pow2: bool = False, weights_method: str | None = None,
                  weights_dtype: str | None = None, weights_scheme: str | None = None, weights_scales: str | None = None,
                  rounding: str | None = None, pow2_requant: bool = False,
                  config: str | os.PathLike[str] | None = None, sensitive: str | None = None,
                  target: str | os.PathLike[str] | None = None) -> Encodings:
        """Encodings by `method` (tidemark.calibration_methods()): see `tidemark calibrate --help`. target: as --target."""
        remarks: list[str] = []
        core = _core.calibrate(self._core, method=method, parameter=parameter, dtype=dtype, scheme=scheme, scales=scales, pow2=pow2,
                               weights_method=weights_method, weights_dtype=weights_dtype, weights_scheme=weights_scheme,
                               weights_scales=weights_scales, rounding=rounding, pow2_requant=pow2_requant,
                               config=None if config is None else os.fspath(config), remarks=remarks, sensitive=sensitive,
                               target=None if target is None else os.fspath(target))
        return Encodings(core, remarks)

    def report(self, path: str | os.PathLike[str], *, since: Profile | None = None, encodings: Encodings | None = None,
               title: str | None = None) -> None:
        """One HTML page; see `tidemark report --help`."""
        _core.report(self._core, os.fspath(path), since and since._core, encodings and encodings._core, title)
