# SPDX-License-Identifier: Apache-2.0
"""Profiles against other profiles, other files of the network, and consumers' files."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from . import _core
from ._files import Model, Path, called, files_of, loaded, model_file, options, path_of, several, text
from ._html import table
from ._profile import Profile
from ._run import Data, RunOptions, paths_of, readable_again, run_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack


def merge(profiles: Iterable[Profile | Path]) -> Profile:
    """The profile of what all saw, exactly: parts of one run, as profiles or files, in any order and grouping."""
    with tempfile.TemporaryDirectory() as folder:
        files, made_of = [], frozenset[str]()
        for i, part in enumerate([profiles] if isinstance(profiles, Profile) else several(profiles)):
            made_of |= files_of(part)
            if isinstance(part, Profile):
                path = os.path.join(folder, f"profile {i + 1}.{Profile.kept_as()}")
                part.write(path)
                files.append(path)
            else:
                files.append(path_of(Profile, part))
        if not files:
            raise ValueError("there is nothing to merge")
        with called("", os.path.join(folder, "")):
            return Profile(_core.merge(options(files=files)), made_of)


class RangeDifference(NamedTuple):
    """Two ranges of one value, by the weaker of their meanings."""
    meaning: str              # "exact", "step", "largest"
    a: tuple[float, float]    # of the channel that differs most
    b: tuple[float, float]
    channel: int
    share: float              # the larger end's difference, of a's range
    beyond: float             # how far b reaches outside of a, of a's range
    steps: float              # "step": the same in steps of the coarser grid
    equal: bool


class Difference(NamedTuple):
    """A value that is in both."""
    name: str
    id_a: str | None
    id_b: str | None
    range: RangeDifference | None  # None: not both have one
    distance: float | None         # of the histograms
    change: str                    # "became dead", "NaN is new", ...; ""
    drift: bool


class Diff(NamedTuple):
    """What differs between two sides, worst first."""
    values: list[Difference]
    only_a: list[str]
    only_b: list[str]
    integers: int  # values in both that are not float in either: not compared

    def __repr__(self) -> str:
        return (f"<tidemark.Diff: {len(self.drifted)} of {len(self.values)} values differ; {len(self.only_a)} only in A, "
                f"{len(self.only_b)} only in B>")

    @property
    def drifted(self) -> list[Difference]:
        """The values that differ by more than the limits."""
        return [value for value in self.values if value.drift]

    def _repr_html_(self) -> str:
        def end(pair: tuple[float, float] | None) -> str:
            return "" if pair is None else f"[{pair[0]:.6g}, {pair[1]:.6g}]"
        rows = [(v.name, end(v.range and v.range.a), end(v.range and v.range.b), "" if v.range is None else f"{v.range.share:.2%}",
                 "" if v.distance is None else f"{v.distance:.4f}", v.change) for v in self.drifted]
        return table(("value", "range in A", "range in B", "change", "distance", ""), rows,
                     f"{len(rows)} of {len(self.values)} values differ; {len(self.only_a)} only in A, {len(self.only_b)} only in B")


def _side(side: Profile | Path) -> _core.Profile | str:
    if isinstance(side, Profile):
        return side._core
    path = path_of(Profile, side)
    return _core.Profile.read(path) if _core.file_kind(path) == "profile" else path


def diff(a: Profile | Path, b: Profile | Path, *, range: float | None = None, distance: float = 0.1,
         format: str | None = None) -> Diff:
    """Compares ranges and histograms, value by value: of profiles, encodings' files, or consumers' files.

    range: an end that moved by more than this share of A's range is drift; default: 0.1 between profiles, and by the meaning
        of a consumer's file. distance: a Jensen-Shannon distance of histograms beyond this is drift.
    format: of B, where its first bytes do not determine it.
    """
    left, right = _side(a), os.fspath(b) if format and not isinstance(b, Profile) else _side(b)
    profiles = isinstance(left, _core.Profile) and isinstance(right, _core.Profile)
    values, only_a, only_b, integers = _core.diff(left, right, format)
    found = []
    for name, id_a, id_b, raw, far, change in values:
        ends = None if raw is None else RangeDifference(*raw)
        if change:
            drift = True
        elif ends is not None and not profiles and range is None:
            drift = not ends.equal
        else:
            drift = (ends is not None and ends.share > (0.1 if range is None else range)) or (far is not None and far > distance)
        found.append(Difference(name, id_a, id_b, ends, far, change, drift))
    return Diff(found, only_a, only_b, integers)


class Covered(NamedTuple):
    """What a profile has for a value, or a name, of a consumer."""
    name: str
    kind: str        # "matched", "renamed", "derived", "unseen", "missing"
    id: str | None   # in the profile
    difference: RangeDifference | None


class Check(NamedTuple):
    """Whether a profile's counts are consistent, and what it has for a consumer."""
    wrong: str | None         # which count is wrong; None: all are right
    against: list[Covered]
    coverage: float           # share of `against` with a range

    def __repr__(self) -> str:
        return f"<tidemark.Check: {self.wrong or 'nothing is wrong'}; {self.coverage:.0%} of {len(self.against)} values have a range>"

    def __bool__(self) -> bool:
        return self.wrong is None and self.coverage >= 1


def _against_model(profile: Profile, model: Model, params: Path | None) -> list[Covered]:
    by_computation: dict[tuple[int, int, int], int] = {}
    for i, _ in enumerate(profile.tensors):
        by_computation.setdefault(profile._core.computation(i), i)
    with model_file(model) as path:
        values = Profile(_core.skeleton(path, text(params)))
    found = []
    for i, value in enumerate(values.tensors):
        if value.kind == "weight" or value.dtype not in ("float32", "undefined"):
            continue
        at = by_computation.get(values._core.computation(i))
        own = None if at is None else profile.tensors[at]
        if own is None:
            found.append(Covered(value.name, "missing", None, None))
        elif own.status != "integer":
            kind = "unseen" if not own.has_range else "matched" if own.name == value.name else "renamed"
            found.append(Covered(value.name, kind, own.id, None))
    return found


def check(profile: Profile | Path, *, against: Model | None = None, params: Path | None = None,
          lineage: Path | None = None) -> Check:
    """Validates a profile's counts; with `against`, lists which values of a consumer's model, encodings or table have a range
    in it. lineage: which of the consumer's values is which, as `transform` and `link` write it. True in a condition: nothing
    is wrong, and all values have a range."""
    try:
        whole = loaded(Profile, profile)
    except _core.Error as error:
        if error.code != "MISMATCH":
            raise
        return Check(str(error), [], 0)
    if against is None:
        return Check(None, [], 1)
    found = None
    if isinstance(against, (str, os.PathLike)):
        try:
            found = [Covered(name, kind, i, None if raw is None else RangeDifference(*raw))
                     for name, kind, i, raw in _core.cover(whole._core, os.fspath(against), text(lineage))]
        except _core.Error as error:
            if error.code != "UNSUPPORTED" and not os.fspath(against).endswith(".onnx"):
                raise
    if found is None:
        found = _against_model(whole, against, params)
    have = sum(value.kind in ("matched", "renamed", "derived") for value in found)
    return Check(None, found, have / len(found) if found else 1)


class Fate(NamedTuple):
    """What became of a value of the original model."""
    id: str
    name: str
    verdict: str        # "same", "view", "affine", "quantized", "merged", "constant", "absorbed", "dead"
    new_id: str | None
    new_name: str | None
    by: str             # the pass
    remark: str


def read_lineage(path: Path) -> list[Fate]:
    """A lineage that `transform` or `link` wrote."""
    return [Fate(*row) for row in _core.read_lineage(os.fspath(path))]


class Evidence(NamedTuple):
    """Why a value is an original's."""
    evidence: str    # "none", "lineage", "content", "equal", "affine", ...
    ambiguous: bool  # several values would do: none was taken
    left_out: bool   # its counterpart is computed from other contents
    residual: float  # by numbers: the largest difference, of the range that was sampled


class Link(NamedTuple):
    """A profile on another file of the network."""
    profile: Profile          # of that file
    method: str               # "fingerprint", "lineage", "numbers"
    tolerance: float
    fates: list[Fate]         # of each original
    evidence: list[Evidence]  # for each original
    carried: dict[str, int]   # records by where their statistics are from: own, same, derived, unknown

    def __repr__(self) -> str:
        found = ", ".join(f"{n} {source}" for source, n in self.carried.items() if n)
        return f"<tidemark.Link by {self.method}: {len(self.profile)} values: {found}>"


def link(profile: Profile | Path, model: Model | None, *, lineage: Path | None = None, original: Model | None = None,
         data: Data | None = None, tensors: Path | None = None, original_params: Path | None = None, report: Path | None = None,
         lineage_out: Path | None = None, **run: Unpack[RunOptions]) -> Link:
    """Finds the value of `model` that equals each value of the profiled model, and makes the profile of `model`.

    By contents, or by `lineage` (a file of `transform`), or with `original` (the model that the profile is of) and `data` by
    numbers: both models are run on `limit` (16) samples. tensors: a .npz of the model's values by name, in place of running it;
    `model` may then be None. report, lineage_out: files that are written.
    """
    given = loaded(Profile, profile)
    for output in (report, lineage_out):
        if output is not None:
            given._not_over(output)
    numbers = original is not None
    if numbers and (data is None or lineage is not None):
        raise ValueError("original goes with data, and without lineage")
    if not numbers and (data is not None or tensors is not None or model is None):
        raise ValueError("data, tensors, and no model, go with original: only by numbers models are run")
    with ExitStack() as stack:
        path = None if model is None else stack.enter_context(model_file(model))
        first = None if original is None else stack.enter_context(model_file(original))
        again = None
        if data is not None and first is not None:
            again = stack.enter_context(readable_again(data, first, {**run, "params": original_params}))
        settings = stack.enter_context(run_settings(
            again, first or "", run, profile=given._core, model=path, params=text(run.get("params")), original=first,
            original_params=original_params, tensors=tensors, lineage=lineage, report=report, lineage_out=lineage_out,
            numbers=numbers))
        core, method, tolerance, fates, evidence, carried = _core.link(settings)
    made_of = given._files | files_of(model, lineage, original, paths_of(data), tensors, original_params, run.get("params"))
    return Link(Profile(core, made_of), method, tolerance, [Fate(*row) for row in fates], [Evidence(*row) for row in evidence], carried)
