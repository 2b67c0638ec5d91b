# SPDX-License-Identifier: Apache-2.0
"""Profile, calibrate, compare and export in one go."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from . import _core
from ._compare import Simulation, simulate
from ._encodings import Encodings, Left
from ._files import Config, Model, Path, files_of, inputs_held, json_file, loaded, model_file, text
from ._model import graph, transform
from ._profile import Profile, RunReport
from ._run import Data, Labels, RunOptions, paths_of, profile, readable_again, run_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

_FEWEST, _SHARE, _MOST = 8, 4, 64  # as the program


class Tried(NamedTuple):
    """A method of activations, judged in two folds: each half of the samples judges encodings made of the other half. Decibels of the
    outputs, or, where these are results of a Softmax, of what it reads; NaN: it was not better than the first by 1.5 dB on 8 samples of the
    first half, or on all of it, and judged no further."""
    name: str
    typical: float      # of the samples' noise, as a geometric mean
    first_half: float   # the same, of each half
    second_half: float
    sqnr: float         # of all samples together


class Quantized(NamedTuple):
    """What `quantize` did."""
    profile: Profile
    encodings: Encodings
    simulation: Simulation
    held_out: int         # samples that were judged and not calibrated on; 0: the same are both
    format: str
    left_out: list[Left]  # what the format cannot hold
    folded: int           # BatchNormalizations
    method: str | None    # of tried, which is better; None: a method was given, or there are fewer than 32 samples
    tried: list[Tried]
    weights: str | None   # the method of weights; None: the config names one

    @property
    def sqnr(self) -> float:
        """Decibels of the output that is worst; inf: no error; nan: an output has no finite numbers."""
        return self.simulation.sqnr

    def __repr__(self) -> str:
        return (f"<tidemark.Quantized: {self.format}, {len(self.encodings)} encodings, outputs {self.sqnr:.1f} dB on "
                f"{self.simulation.samples} samples that were {'not ' if self.held_out else 'also '}calibrated on>")

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.simulation._repr_html_()}"


def targets() -> list[str]:
    """The names of built-in targets."""
    return _core.targets(None)


def check_target(encodings: Encodings | Path, target: Path, profile: Profile | Path | None = None) -> list[str]:
    """Uses of codes that the target does not have, a line each. profile: that the encodings were made of."""
    return _core.check_target(loaded(Encodings, encodings)._core, os.fspath(target),
                              None if profile is None else loaded(Profile, profile)._core)


def _format(output: str, target: str | None) -> str:
    if target is None and not output.endswith(".onnx"):
        raise ValueError(f"{output}: without a target an ONNX model is written, whose name ends in .onnx")
    formats = ["qdq"] if target is None else _core.targets(target)
    if target is None or (output.endswith(".onnx") and "qdq" in formats):
        return "qdq"
    if output.endswith(".onnx"):
        ending = next(row[2] for row in _core.formats() if row[0] == formats[0]).split()[0]
        raise ValueError(f"{target} reads no ONNX model with codes; an output named .{ending} becomes {formats[0]}")
    return formats[0]


class _Counted(Exception):
    """The number of samples is known."""


def _count(path: str, data: Data, run: RunOptions) -> int:
    """Samples of the run."""
    count = 0

    def keep(done: int, total: int) -> None:
        nonlocal count
        count = max(done, total)
        if total:
            raise _Counted
    counting: RunOptions = {**run, "progress": keep}
    with run_settings(data, path, counting, bare=True) as settings:
        try:
            _core.run(path, text(run.get("params")), settings)
        except _Counted:
            pass
    return count


_PASSES = ("simplify-inference", "fold-scale-axis", "fold-bias")  # as the program


def _norms(path: str) -> int:
    return sum(int(line.split()[2]) for line in graph(path, "ops").splitlines() if line.startswith("BatchNormalization "))


@contextmanager
def _folded(path: str, format: str, template: Path | None, params: object, keep: Path | None) -> Iterator[tuple[str, int]]:
    """The model with BatchNormalization folded, and how many were; the same model where that changes nothing."""
    before = 0 if format != "qdq" or template is not None or params is not None else _norms(path)
    if not before and keep is None:
        yield path, 0
        return
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        made = os.path.join(folder, ".folded".join(os.path.splitext(os.path.basename(path)))) if keep is None else os.fspath(keep)
        done = transform(path, made, _PASSES)
        if keep is None and done.nodes_after >= done.nodes_before:
            yield path, 0
            return
        try:
            yield made, before - _norms(made)
        except _core.Error as error:  # of the file that the caller knows
            if keep is None:
                error.args = (str(error).replace(made, path),)
            raise


def quantize(model: Model, data: Data, output: Path, *, target: Path | None = None, config: Config | None = None,
             method: str | None = None, labels: Labels | None = None, template: Path | None = None, folded: Path | None = None,
             **run: Unpack[RunOptions]) -> Quantized:
    """Chooses scales from three quarters of the samples, runs the quantized network in parallel with the float one on the first quarter
    (at most 64; of fewer than 8 samples, on all), and writes it for readers of QDQ models, or for the target; of fewer than 256 samples,
    with scales from all. For readers of QDQ models BatchNormalization is first folded into the convolutions before it. folded: a file for
    that float model, which profile and encodings are of.

    method: of activations, as for Profile.calibrate; None: `auto`, unless another one is better on samples that were left out.

    labels: as for `simulate`. Other arguments: tidemark.RunOptions.
    """
    if run.get("feedback"):
        raise ValueError("models with feedback take profile, calibrate and export")
    format = _format(os.fspath(output), text(target))
    for path, endings in ((output, next(row[2] for row in _core.formats() if row[0] == format)), (folded, "onnx")):
        if path is not None:
            _core.can_write(os.fspath(path), endings)
    skip, limit = run.get("skip", 0), run.get("limit")
    with inputs_held(), model_file(model) as given, readable_again(data, given, run) as again, \
            json_file(config, "config.json") as rules, _folded(given, format, template, run.get("params"), folded) as (path, n_folded):
        total = _count(path, again, run)
        held_out = 0 if total < _FEWEST else min(total // _SHARE, _MOST)
        rest: RunOptions = {**run, "skip": skip + held_out, "limit": limit - held_out if limit else None}
        first: RunOptions = {**run, "limit": held_out or limit}
        with run_settings(again, path, rest, method=method, config=rules, target=text(target)) as settings:
            made, report, found, chosen, weights = _core.choose_method(path, text(run.get("params")), settings)
        tried = [Tried(*one) for one in found]
        best = tried[chosen].name if tried else None

        def calibrated(core: _core.Profile, report: RunReport | None) -> tuple[Profile, Encodings]:
            of = Profile(core, files_of(model, paths_of(data), config, run.get("params")))
            of.run_report = report
            return of, of.calibrate(best or method, config=config, target=target, weights_method=weights, model=path,
                                    params=run.get("params"))

        profiled, encodings = calibrated(made, RunReport(**report))
        simulation = simulate(path, encodings, again, labels=labels, **first)
        if 0 < held_out < _MOST:  # a quarter is missed in ranges
            whole = profile(path, again, **run)
            profiled, encodings = calibrated(whole._core, whole.run_report)
        left_out = encodings.export(format, output, model=path, params=run.get("params"), template=template, target=target)
    return Quantized(profiled, encodings, simulation, held_out, format, left_out, n_folded, best, tried, weights)
