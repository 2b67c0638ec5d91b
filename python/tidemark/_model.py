# SPDX-License-Identifier: Apache-2.0
"""A model file, looked at, instrumented, transformed and verified."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from . import _core
from ._files import Model, Path, loaded, model_file, options, several, text
from ._profile import Profile
from ._relate import Fate

_VIEWS = ("text", "dot", "ops", "json")


def graph(model: Model, view: str = "text", *, params: Path | None = None, lineage: Path | None = None,
          patterns: bool = False) -> str:
    """The model as text, one line a node, with profile IDs; or as "dot" (Graphviz), "ops" (operators, and which are not
    supported) or "json". lineage: old and new values side by side instead; the model is either. patterns: of view "dot", nodes of patterns
    that `calibrate` leaves float are filled and named; `patterns` lists them."""
    if view not in _VIEWS:
        raise ValueError(f"view is one of {', '.join(_VIEWS)}, not {view!r}")
    if patterns and (view != "dot" or lineage is not None):
        raise ValueError("patterns are marked in the view 'dot'")
    with model_file(model) as path:
        return _core.graph(path, text(params), _VIEWS.index(view), text(lineage), patterns)


class PatternNode(NamedTuple):
    """A node that belongs to a pattern."""
    pattern: str     # "layer-norm"
    occurrence: int  # nodes of one occurrence have the same number, from 1
    op: str
    node: str        # its name
    id: str          # of its first result


def patterns(model: Model, *, params: Path | None = None) -> list[PatternNode]:
    """The nodes that belong to LayerNorm, GELU and other patterns, which `calibrate` leaves float."""
    with model_file(model) as path:
        return [PatternNode(*row) for row in _core.patterns(path, text(params))]


def instrument(model: Model, output: Path, *, observe: Sequence[str] = (), kind: str | None = None,
               params: Path | None = None) -> int:
    """Writes the model with an observer on every selected value; any ONNX runtime runs it. How many observers there are."""
    with model_file(model) as path:
        return _core.instrument(path, text(params), os.fspath(output), options(observe=several(observe), kind=kind))


def passes() -> dict[str, str]:
    """The names of graph passes, in the order of "all", and what each does."""
    return dict(_core.passes())


class AfterPass(NamedTuple):
    """The graph after a pass."""
    name: str
    changed: bool
    graph: str


class Transformed(NamedTuple):
    """What passes did."""
    fates: list[Fate]  # of each value of the original
    nodes_before: int
    nodes_after: int
    observers_before: int
    observers_after: int
    changed: bool
    after: list[AfterPass]  # with after=True

    def __repr__(self) -> str:
        return f"<tidemark.Transformed: {self.nodes_before} nodes became {self.nodes_after}; {len(self.fates)} values>"


def transform(model: Model, output: Path, passes: Sequence[str] = ("all",), *, lineage: Path | None = None,
              profile: Profile | Path | None = None, observers: str = "transparent", after: bool = False, params: Path | None = None,
              params_out: Path | None = None) -> Transformed:
    """Runs graph passes over the model and writes it, as .onnx or .relay.

    passes: names of tidemark.passes(), in order; ("all",); or (): only the format changes.
    profile: of the model, for passes that go by ranges. lineage: a file, .json or .h5, for what became of each value. observers: "transparent", or "barrier": their values stay.
    after: keep the graph after each pass. params_out: with .relay, a file for the weights.
    """
    if observers not in ("transparent", "barrier"):
        raise ValueError(f"observers is 'transparent' or 'barrier', not {observers!r}")
    graphs: list[tuple[str, bool, str]] = []
    given = None if profile is None else loaded(Profile, profile)
    for written in (output, lineage, params_out):
        if given is not None and written is not None:
            given._not_over(written)
    words = options(profile=None if given is None else given._core, passes=several(passes), barrier=observers == "barrier", lineage=lineage, params_out=params_out)
    if after:
        words["after"] = graphs
    with model_file(model) as path:
        fates, *counts, changed = _core.transform(path, text(params), os.fspath(output), words)
    before, now, observers_before, observers_now = counts
    return Transformed([Fate(*row) for row in fates], before, now, observers_before, observers_now, bool(changed),
                       [AfterPass(*row) for row in graphs])


class Verdict(NamedTuple):
    """One output of one test set, compared."""
    set: str
    output: str
    ok: bool
    why: str      # not ok: what differs, where
    worst: float  # largest |actual - expected| / (atol + rtol * |expected|)


def verify(model: Model, *folders: Path, rtol: float = 1e-3, atol: float = 1e-7, threads: int = 0, max_iterations: int = 0,
           params: Path | None = None) -> list[Verdict]:
    """Compares the model's outputs with ONNX test sets: folders of input_0.pb, output_0.pb, ..., or folders of such."""
    words = options(rtol=rtol, atol=atol, threads=threads, max_iterations=max_iterations)
    with model_file(model) as path:
        return [Verdict(*row) for folder in folders for row in _core.verify(path, text(params), os.fspath(folder), words)]
