# SPDX-License-Identifier: Apache-2.0
"""Profiles as mappings from names to tensors."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core
from ._encodings import Encodings
from ._files import Config, Model, OfFiles, Path, files_of, json_file, loaded, model_file_if_any, several, text
from ._html import bars, table

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from matplotlib.axes import Axes  # type: ignore[import-not-found, unused-ignore]


class Channels(NamedTuple):
    """Extremes of each channel; NaN where a channel had no finite number."""
    axis: int
    min: npt.NDArray[np.float32]
    max: npt.NDArray[np.float32]


class Bins(NamedTuple):
    """The exact histogram: float32's own bins by sign, exponent and 7 bits of mantissa. Zeros are in none."""
    low: npt.NDArray[np.float64]    # lower and upper end
    high: npt.NDArray[np.float64]
    count: npt.NDArray[np.uint64]   # type: ignore[assignment]  # as tuple.count
    mean: npt.NDArray[np.float64]   # exact, of the bin's elements


class Quantile(NamedTuple):
    value: float
    low: float   # it is proven to lie between these
    high: float


class RunReport(NamedTuple):
    """What a run was like; not part of a profile, since it differs from run to run."""
    samples: int
    batches: int
    seconds: float
    setup_seconds: float
    threads: int
    checkpoints: int  # that were written
    stable: bool      # until_stable ended the run


class Tensor:
    """What was seen of one value. Where no numbers were seen counts are 0, and other figures None."""

    def __init__(self, core: _core.Profile, index: int):
        self._core, self._index = core, index
        self._record = record = core.record(index)
        self.id: str = record["id"]
        self.name: str = record["name"]
        self.fingerprint: str = record["fingerprint"]
        self.path: str = record["path"]      # of the sub-graph; "" in the main graph
        self.kind: str = record["kind"]      # "input", "activation", "weight", ...
        self.inner: bool = record["inner"]   # lies inside the operator that makes it
        self.status: str = record["status"]  # "observed", "derived", "constant", "integer", "dead", "never"
        self.dtype: str = record["dtype"]
        self.shape: tuple[int, ...] | None = record["shape"]
        self.op: str = record["op"]          # that makes it
        self.node: str = record["node"]
        self.count: int = record.get("count", 0)
        self.zeros: int = record.get("zeros", 0)
        self.nan: int = record.get("nan", 0)
        self.posinf: int = record.get("posinf", 0)
        self.neginf: int = record.get("neginf", 0)
        self.min: float | None = record.get("min")
        self.max: float | None = record.get("max")
        self.min_at: tuple[int, int] | None = record.get("min_at")  # sample, element
        self.max_at: tuple[int, int] | None = record.get("max_at")
        self.mean: float | None = record.get("mean")
        self.std: float | None = record.get("std")
        self.std_low: float | None = record.get("std_low")          # the deviation is proven to lie between these
        self.std_high: float | None = record.get("std_high")
        self.sum: float | None = record.get("sum")
        self.histogram_share: float = record.get("histogram_share", 1.0)  # the histogram counts such a part of the elements
        # With 99 % confidence quantiles are no further off in rank than this, if elements are independent; 8 times this if those
        # of a run of 64 are the same. 0: all are counted.
        self.rank_error: float = record.get("rank_error") or 0.0
        # What min or max looks as if it stood for, as numbers in masks do.
        self.sentinel: str | None = record.get("sentinel")

    def __repr__(self) -> str:
        seen = f"[{self.min}, {self.max}]" if self.min is not None else self.status
        return f"<tidemark.Tensor {self.id} {self.name!r} {self.dtype} {self.shape} {seen}>"

    def __reduce__(self) -> tuple[Callable[[Profile, str], Tensor], tuple[Profile, str]]:
        return _tensor_of, (Profile(self._core), self.id)

    def to_dict(self) -> dict[str, object]:
        """All figures that are known."""
        return dict(self._record)

    as_dict = to_dict

    @property
    def has_range(self) -> bool:
        """Whether it has statistics of floats."""
        return "nan" in self._record

    def _repr_html_(self) -> str:
        return table(("figure", ""), [*((key, str(value)) for key, value in self._record.items()), ("histogram", _picture(self))],
                     self.name)

    @property
    def bins(self) -> Bins | None:
        """The exact histogram, ascending; None where there is none."""
        raw = self._core.bins(self._index)
        if raw is None:
            return None
        number = np.frombuffer(raw[0], np.uint16).astype(np.uint32) << 16
        count, dropped = np.frombuffer(raw[1], np.uint64), np.frombuffer(raw[2], np.uint64)
        start = number.view(np.float32).astype(np.float64)
        with np.errstate(invalid="ignore"):
            end = (number + 0xFFFF).view(np.float32).astype(np.float64)
        mean = start + (end - start) * (dropped / count) / 0xFFFF
        order = np.argsort(start, kind="stable")
        return Bins(np.minimum(start, end)[order], np.maximum(start, end)[order], count[order], mean[order])

    def histogram(self, bins: int = 2048, range: tuple[float, float] | None = None) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Counts and edges, as numpy.histogram gives them; counts are fractions where bins of the exact histogram are cut."""
        low, high = (self.min, self.max) if range is None else range
        if low is None or high is None:
            raise ValueError(f"{self.name!r} has no numbers")
        if low == high:
            low, high = low - 0.5, high + 0.5
        counts = np.frombuffer(self._core.linear(self._index, bins, low, high), np.float64)
        return counts, np.linspace(low, high, bins + 1)

    def plot(self, axes: Axes | None = None, bins: int = 256, logarithmic: bool = True) -> Axes:
        """The histogram, drawn with matplotlib into these axes, or into new ones; the axes."""
        if axes is None:
            from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]
            axes = pyplot.subplots()[1]
        axes.stairs(*self.histogram(bins), fill=True)
        axes.set(title=self.name or self.id, xlabel="value", ylabel="elements", yscale="symlog" if logarithmic else "linear")
        return axes

    def quantile(self, q: float) -> Quantile:
        """The smallest element that a share of q of all does not exceed, and its proven interval: estimates where not all
        elements are counted (`histogram_share`)."""
        return Quantile(*self._core.quantile(self._index, q))

    @property
    def channels(self) -> Channels | None:
        """Extremes by channel; None where they were not kept."""
        raw = self._core.channels(self._index)
        if raw is None:
            return None
        low, high = (np.frombuffer(data, np.float32).copy() for data in raw[1:])
        low[low > high], high[np.isnan(low) | (low > high)] = np.nan, np.nan
        return Channels(raw[0], low, high)

    @property
    def samples(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]] | None:
        """Min and max of each sample, with per_sample=True."""
        raw = self._core.samples(self._index)
        return None if raw is None else (np.frombuffer(raw[0], np.float32), np.frombuffer(raw[1], np.float32))


def _picture(tensor: Tensor) -> str:
    """The histogram, where there is one."""
    if tensor.min is None or tensor.max is None or tensor.bins is None:
        return ""
    return bars([float(n) for n in tensor.histogram(48)[0]])


def _figure(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


class Profile(OfFiles, Mapping[str, Tensor]):
    """A profile: a mapping from names to tensors, in the order of their IDs. An ID ("p12") finds its tensor, too; a value
    without a name, or with another's, goes by its ID."""

    def __init__(self, core: _core.Profile, made_of: frozenset[str] = frozenset()):
        self._core, self._made_of = core, made_of
        self.run_report: RunReport | None = None  # of a profile that tidemark.profile or quantize made
        self.strata: dict[str, Profile] = {}      # of each label's samples, with strata=
        self._tensors = [Tensor(core, i) for i in range(len(core))]
        self._ids = {t.id: t for t in self._tensors}
        self._names: dict[str, Tensor] = {}
        for tensor in self._tensors:
            self._names[tensor.name if tensor.name and tensor.name not in self._names else tensor.id] = tensor

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Profile:
        """From a file, JSON or HDF5."""
        made = cls(_core.Profile.read(os.fspath(path)))
        made._file = os.path.abspath(path)
        return made

    def write(self, path: str | os.PathLike[str]) -> None:
        """To a file, .json or .h5: whole or not at all, and over none that it was made of."""
        self._not_over(path, itself=True)
        self._core.write(os.fspath(path))

    @staticmethod
    def kept_as() -> str:
        """The format that keeps all of a profile, as an extension."""
        return "h5" if "hdf5" in _core.features().split() else "json"

    def __reduce__(self) -> tuple[Callable[[bytes], Profile], tuple[bytes], dict[str, object]]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"p.{self.kept_as()}")
            self.write(path)
            with open(path, "rb") as file:
                return _profile_of, (file.read(),), {"run_report": self.run_report, "strata": self.strata}

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

    def to_dict(self) -> dict[str, object]:
        """model, ledger, settings, and a dictionary a value."""
        return {**self._core.info(), "values": [t.to_dict() for t in self._tensors]}

    def to_pandas(self) -> pandas.DataFrame:
        """A row a value, a column a figure, indexed by ID."""
        import pandas
        return pandas.DataFrame([t.to_dict() for t in self._tensors]).set_index("id")

    def _repr_html_(self) -> str:
        rows = [(t.id, t.name, t.op, t.status, _figure(t.min), _figure(t.max), _figure(t.mean), _figure(t.std), _picture(t))
                for t in self._tensors]
        return table(("id", "value", "operator", "status", "min", "max", "mean", "std", "histogram"), rows,
                     f"{self.model['file']}: {len(self)} values, {self.ledger['run']} samples")

    def calibrate(self, method: str | None = None, *, parameter: float = 0, dtype: str | None = None, scheme: str | None = None,
                  scales: str | None = None, pow2: bool = False, weights_method: str | None = None,
                  weights_dtype: str | None = None, weights_scheme: str | None = None, weights_scales: str | None = None,
                  rounding: str | None = None, pow2_requant: bool = False,
                  config: Config | None = None, sensitive: str | None = None,
                  target: str | os.PathLike[str] | None = None, weights_block: int = 0,
                  model: Model | None = None, params: str | os.PathLike[str] | None = None) -> Encodings:
        """Encodings by `method` (tidemark.calibration_methods()): see `tidemark calibrate --help`. target: as --target.
        config: a file as docs/calibrate.md describes it, or a mapping with what it has.

        model: that the weights are read from, for weights_method "auto" (the default with it), "mse" or "l4" and for
        weights_block; without it weights have their min and max."""
        if parameter < 0:
            raise ValueError("parameter is 0, for the method's own, or more")
        remarks: list[str] = []
        with model_file_if_any(model) as file, json_file(config, "config.json") as rules:
            core = _core.calibrate(self._core, method=method, parameter=parameter, dtype=dtype, scheme=scheme, scales=scales,
                                   pow2=pow2, weights_method=weights_method, weights_dtype=weights_dtype,
                                   weights_scheme=weights_scheme, weights_scales=weights_scales, rounding=rounding,
                                   pow2_requant=pow2_requant, config=rules, remarks=remarks, sensitive=sensitive,
                                   target=text(target), weights_block=weights_block, model=file, params=text(params))
        return Encodings(core, remarks, self._files | files_of(config, model, params, target))

    def report(self, path: str | os.PathLike[str], *, since: Profile | Path | Sequence[Profile | Path] = (), encodings: Encodings | Path | None = None,
               title: str | None = None, simulation: Sequence[str | os.PathLike[str]] = (),
               model: Model | None = None, params: str | os.PathLike[str] | None = None) -> None:
        """One HTML page; see `tidemark report --help`. since: earlier profiles, oldest first. simulation: files of
        `tidemark simulate --json`. Profiles and encodings may be paths of their files."""
        earlier = [loaded(Profile, one) for one in ((since,) if isinstance(since, (Profile, str, os.PathLike)) else since)]
        chosen = None if encodings is None else loaded(Encodings, encodings)
        self._not_over(path, earlier, chosen)
        with model_file_if_any(model) as file:
            _core.report(self._core, os.fspath(path), tuple(one._core for one in earlier),
                         None if chosen is None else chosen._core, title, tuple(os.fspath(one) for one in several(simulation)), file,
                         text(params))


def _profile_of(data: bytes) -> Profile:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p")
        with open(path, "wb") as file:
            file.write(data)
        return Profile.read(path)


def _tensor_of(profile: Profile, key: str) -> Tensor:
    return profile[key]
