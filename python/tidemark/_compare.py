# SPDX-License-Identifier: Apache-2.0
"""A network under encodings against the float network."""
from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _core
from ._encodings import Encodings
from ._files import Config, Model, Path, files_of, json_file, loaded, model_file, several, text
from ._html import table
from ._profile import Profile
from ._run import Data, Labels, RunOptions, filled, labels_file, paths_of, readable_again, run_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Simulated(NamedTuple):
    """One value, float against quantized, over all samples."""
    id: str
    name: str
    dtype: str | None   # of its codes; None: it stays float
    output: bool        # of the network
    weight: bool
    elements: int       # that are finite in both
    sqnr: float         # decibels; inf: no error
    cosine: float
    max_error: float
    clipped: float      # share of the float elements beyond the lowest and highest code


class Codes(NamedTuple):
    """Codes against those of float requantization."""
    codes: int
    equal: int
    largest: int  # difference


class Simulation(NamedTuple):
    """A network under encodings."""
    values: list[Simulated]
    samples: int
    seconds: float
    agreement: float | None           # share of predictions that are the float network's; None: no output is a class
    accuracy_float: float | None      # None: there are no labels
    accuracy_quantized: float | None
    alone: Codes | None               # integer form: each requantization of the same accumulators
    whole: Codes | None               # all codes of the network
    remarks: list[str]                # what stays float, and why
    agreement_interval: tuple[float, float] | None = None  # 95 %
    accuracy_interval: tuple[float, float] | None = None   # of accuracy_quantized - accuracy_float, 95 %

    @property
    def sqnr(self) -> float:
        """Decibels of the output that is worst; inf: no error; nan: an output has no finite numbers."""
        outputs = [value for value in self.values if value.output]
        return min((value.sqnr for value in outputs), default=float("inf")) if all(value.elements for value in outputs) else float("nan")

    def __repr__(self) -> str:
        return f"<tidemark.Simulation: {len(self.values)} values, {self.samples} samples, outputs {self.sqnr:.1f} dB>"

    def worst(self, n: int = 10) -> list[Simulated]:
        """The values that lose most first."""
        return sorted(self.values, key=lambda value: value.sqnr)[:n]

    def _repr_html_(self) -> str:
        return table(("id", "value", "type", "SQNR dB", "cosine", "max error", "clipped"),
                     [(v.id, v.name, v.dtype or "float", f"{v.sqnr:.2f}", f"{v.cosine:.7f}", f"{v.max_error:.5g}", f"{v.clipped:.4%}")
                      for v in self.worst(len(self.values))], f"{self.samples} samples")


def simulate(model: Model, encodings: Encodings | Path, data: Data, *, integer: bool = False, requant: str | None = None,
             rounding: str | None = None, labels: Labels | None = None, **run: Unpack[RunOptions]) -> Simulation:
    """Runs the quantized network in parallel with the float one, and compares every value.

    integer: integer arithmetic, else float operators between quantized values. requant: "float", "fixed" or "pow2";
        rounding: a name that `tidemark simulate --help` lists; each implies `integer`. Default: as in the encodings.
    labels: the right classes: an array, a .npy, or the name of an array in an .npz of the data.
    Other arguments: tidemark.RunOptions.
    """
    if requant not in (None, "float", "fixed", "pow2"):
        raise ValueError(f"requant is 'float', 'fixed' or 'pow2', not {requant!r}")
    chosen = loaded(Encodings, encodings)
    of_encodings = chosen.rounding
    if requant == "float":
        rounding = rounding or "float_rne"
    elif requant and of_encodings == "float_rne":
        rounding = rounding or "single_half_up"
    with model_file(model) as path, labels_file(labels) as right:
        def compare(source: Data) -> _core.Simulation:
            with run_settings(source, path, run, integer=bool(integer or requant or rounding), rounding=rounding,
                              pow2=None if requant is None else requant == "pow2", labels=right) as settings:
                return _core.simulate(path, text(run.get("params")), chosen._core, settings)
        s = filled(compare, data, path, run)
    n = s["predictions"]
    labelled = s["labelled"] and n
    return Simulation([Simulated(*row) for row in s["values"]], s["samples"], s["seconds"], s["agree"] / n if n else None,
                      s["right_float"] / n if labelled else None, s["right_quantized"] / n if labelled else None,
                      s["alone"] and Codes(*s["alone"]), s["whole"] and Codes(*s["whole"]), s["remarks"],
                      s["agreement"] if n else None, s["change"] if labelled else None)


class Sensitivity(NamedTuple):
    """What it costs to quantize this value and no other."""
    id: str
    name: str
    dtype: str
    sqnr: float      # decibels, of the network's outputs; inf: they do not change
    expected: float  # decibels, of the value itself by its histogram; inf: not known


class Ranking(NamedTuple):
    """Values by what they cost, most first."""
    values: list[Sensitivity]
    samples: int
    not_tried: int

    def __repr__(self) -> str:
        return f"<tidemark.Ranking: {len(self.values)} values on {self.samples} samples, {self.not_tried} not tried>"

    def _repr_html_(self) -> str:
        return table(("id", "value", "type", "outputs' dB", "expected dB"),
                     [(v.id, v.name, v.dtype, f"{v.sqnr:.2f}", f"{v.expected:.2f}") for v in self.values],
                     f"each value quantized alone, on {self.samples} samples; {self.not_tried} not tried")


def rank(model: Model, encodings: Encodings | Path, data: Data, *, most: int = 64, **run: Unpack[RunOptions]) -> Ranking:
    """Quantizes one value at a time: at most `most` values, those that are expected to lose most, on `limit` (8) samples."""
    with model_file(model) as path, readable_again(data, path, run) as again, run_settings(again, path, run, most=most) as settings:
        values, samples, left_out = _core.rank(path, text(run.get("params")), loaded(Encodings, encodings)._core, settings)
    return Ranking([Sensitivity(*row) for row in values], samples, left_out)


class SearchPoint(NamedTuple):
    """Encodings that were at hand during a search."""
    sqnr: float    # decibels of the outputs
    judged: float  # accuracy, or the metric; nan: the search goes by decibels
    bytes: float   # of the weights
    share8: float  # of multiplications: with at most 8 bits


class Quality(NamedTuple):
    """How good outputs are."""
    sqnr: float      # decibels; inf: no error
    accuracy: float  # share of right classes; nan: no labels
    margin: float    # of its difference from float32: half of the 95 % interval
    metric: float    # nan: none


class Figures(NamedTuple):
    """Of the float network, of the first encodings, and of those that were found."""
    in_float: Quality
    before: Quality
    after: Quality


class Samples(NamedTuple):
    """Samples that outputs are of."""
    first: int  # number in the data
    count: int  # type: ignore[assignment]  # as tuple.count
    data: list[str]


class Search(NamedTuple):
    """Better encodings, and what was done for them."""
    encodings: Encodings
    tried: int
    chosen: int
    samples: int    # that choices were made by
    first: int      # number of the first in the data
    own: Figures    # on these
    judged_by: str  # "crossed": each half of the samples by a search on the other; "data": on data; "not"
    judged_samples: int
    judged_first: int
    split: int      # crossed: the second half begins there
    judged: Figures
    points: list[SearchPoint]
    out_of_time: bool
    choices: list[str]

    def __repr__(self) -> str:
        return (f"<tidemark.Search: {self.chosen} of {self.tried} tries chosen, outputs {self.before:.1f} to {self.after:.1f} dB"
                f" on {self.samples} samples>")

    @property
    def before(self) -> float:
        """Decibels on the samples of the search."""
        return self.own.before.sqnr

    @property
    def after(self) -> float:
        """Decibels on the samples of the search."""
        return self.own.after.sqnr


Metric: TypeAlias = Callable[[list[npt.NDArray[np.generic]], Samples], float]
_JUDGED = ("not", "crossed", "data")


def search(model: Model, encodings: Encodings | Path, data: Data, *, profile: Profile | Path, config: Config | None = None, target: Path | None = None,
           budget: int = 128, seconds: float = 0, goal: str | float | None = None, labels: Labels | None = None, metric: Metric | None = None,
           search_data: Sequence[Path] = (), write_config: Path | None = None, **run: Unpack[RunOptions]) -> Search:
    """Tries other methods, 16 bits and float, by groups, then by values; on `limit` (32) samples.

    profile: that the encodings were made of; config and target: and with. budget: encodings that are tried at most; seconds:
        after which no more are tried. goal: where it ends: "30dB", "accuracy-0.5%", "metric-1%"; a number is decibels.
    metric: what candidates are judged by, larger is better: called with all outputs (the first axis counts samples) and which
        samples these are of, for the float network and for each candidate. labels: by accuracy; see `simulate`.
    search_data: samples that choices are made by; data is then for the verdict. Without it each half of the samples judges a
        search that had the other half.
    write_config: a file for the config that gives the result.
    """
    choices: list[str] = []

    def call(outputs: list[tuple[bytes, str, tuple[int, ...]]], first: int, count: int, sources: list[str]) -> float:
        assert metric is not None
        arrays = [np.frombuffer(bytes_, np.dtype(dtype)).reshape(shape) for bytes_, dtype, shape in outputs]
        return float(metric(arrays, Samples(first, count, sources)))

    given, start = loaded(Profile, profile), loaded(Encodings, encodings)
    if write_config is not None:
        given._not_over(write_config, start)
        _core.can_write(os.fspath(write_config), "json yaml yml")
    words = {"profile": given._core, "budget": budget, "seconds": seconds or None,
             "goal": None if not goal else goal if isinstance(goal, str) else f"{goal}dB",
             "metric": call if metric else None, "target": text(target),
             "search_data": [os.fspath(path) for path in several(search_data)], "write_config": text(write_config)}
    with model_file(model) as path, readable_again(data, path, run) as again, labels_file(labels) as right, \
            json_file(config, "config.json") as rules, run_settings(again, path, run, labels=right, config=rules, **words) as settings:
        settings["choices"] = choices
        found = _core.search(path, text(run.get("params")), start._core, settings)
    own, judged = (Figures(*(Quality(*quality) for quality in figures)) for figures in (found[6], found[10]))
    made_of = given._files | start._files | files_of(model, paths_of(data), config, target, labels, search_data, run.get("params"))
    return Search(Encodings(found[0], made_of=made_of), *found[1:5], own, _JUDGED[found[5]], *found[7:10], judged,
                  [SearchPoint(*point) for point in found[11]], found[12], choices)
