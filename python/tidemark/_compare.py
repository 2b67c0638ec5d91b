# SPDX-License-Identifier: Apache-2.0
"""A network under encodings against the float network."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import _core
from ._encodings import Encodings
from ._files import Model, Path, model_file, text
from ._html import table
from ._profile import Profile
from ._run import Data, RunOptions, run_settings

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

    def worst(self, n: int = 10) -> list[Simulated]:
        """The values that lose most first."""
        return sorted(self.values, key=lambda value: value.sqnr)[:n]

    def _repr_html_(self) -> str:
        return table(("id", "value", "type", "SQNR dB", "cosine", "max error", "clipped"),
                     [(v.id, v.name, v.dtype or "float", f"{v.sqnr:.2f}", f"{v.cosine:.7f}", f"{v.max_error:.5g}", f"{v.clipped:.4%}")
                      for v in self.worst(len(self.values))], f"{self.samples} samples")


def simulate(model: Model, encodings: Encodings, data: Data, *, integer: bool = False, requant: str | None = None,
             rounding: str | None = None, labels: Path | None = None, **run: Unpack[RunOptions]) -> Simulation:
    """Runs the quantized network in parallel with the float one, and compares every value.

    integer: integer arithmetic, else float operators between quantized values. requant: "float", "fixed" or "pow2";
        rounding: a name that `tidemark simulate --help` lists; each implies `integer`. Default: as in the encodings.
    labels: the right classes: a .npy, or the name of an array in an .npz of the data.
    Other arguments: tidemark.RunOptions.
    """
    if requant not in (None, "float", "fixed", "pow2"):
        raise ValueError(f"requant is 'float', 'fixed' or 'pow2', not {requant!r}")
    of_encodings = encodings.rounding
    if requant == "float":
        rounding = rounding or "float_rne"
    elif requant and of_encodings == "float_rne":
        rounding = rounding or "single_half_up"
    with model_file(model) as path, run_settings(
            data, run, integer=bool(integer or requant or rounding), rounding=rounding,
            pow2=None if requant is None else requant == "pow2", labels=labels) as settings:
        s = _core.simulate(path, text(run.get("params")), encodings._core, settings)
    n = s["predictions"]
    labelled = s["labelled"] and n
    return Simulation([Simulated(*row) for row in s["values"]], s["samples"], s["seconds"], s["agree"] / n if n else None,
                      s["right_float"] / n if labelled else None, s["right_quantized"] / n if labelled else None,
                      s["alone"] and Codes(*s["alone"]), s["whole"] and Codes(*s["whole"]), s["remarks"])


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

    def _repr_html_(self) -> str:
        return table(("id", "value", "type", "outputs' dB", "expected dB"),
                     [(v.id, v.name, v.dtype, f"{v.sqnr:.2f}", f"{v.expected:.2f}") for v in self.values],
                     f"each value quantized alone, on {self.samples} samples; {self.not_tried} not tried")


def rank(model: Model, encodings: Encodings, data: Data, *, most: int = 64, **run: Unpack[RunOptions]) -> Ranking:
    """Quantizes one value at a time: at most `most` values, those that are expected to lose most, on `limit` (8) samples."""
    with model_file(model) as path, run_settings(data, run, most=most) as settings:
        values, samples, left_out = _core.rank(path, text(run.get("params")), encodings._core, settings)
    return Ranking([Sensitivity(*row) for row in values], samples, left_out)


class SearchPoint(NamedTuple):
    """Encodings that were at hand during a search."""
    sqnr: float    # decibels of the outputs
    bytes: float   # of the weights
    share8: float  # of multiplications: with at most 8 bits


class Search(NamedTuple):
    """Better encodings, and what was done for them."""
    encodings: Encodings
    before: float  # decibels, of the network's outputs; inf: no error
    after: float
    tried: int
    chosen: int
    samples: int
    judged: int           # samples that nothing was chosen by; 0: none
    judged_before: float
    judged_after: float
    points: list[SearchPoint]
    choices: list[str]


def search(model: Model, encodings: Encodings, data: Data, *, profile: Profile, config: Path | None = None, target: Path | None = None,
           budget: int = 128, goal: float = 0, search_data: Sequence[Path] = (), write_config: Path | None = None,
           **run: Unpack[RunOptions]) -> Search:
    """Tries other methods, and float, for the values that cost most; on `limit` (16) samples.

    profile: that the encodings were made of; config and target: and with. budget: encodings that are tried at most. goal:
        decibels of the outputs at which it ends. search_data: samples that choices are made by; data is then for the verdict.
    write_config: a file for the config that gives the result.
    """
    choices: list[str] = []
    words = {"profile": profile._core, "config": text(config), "budget": budget, "goal": goal,
             "target": text(target), "search_data": [os.fspath(path) for path in search_data], "write_config": text(write_config)}
    with model_file(model) as path, run_settings(data, run, **words) as settings:
        settings["choices"] = choices
        found = _core.search(path, text(run.get("params")), encodings._core, settings)
    return Search(Encodings(found[0]), *found[1:9], [SearchPoint(*point) for point in found[9]], choices)
