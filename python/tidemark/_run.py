# SPDX-License-Identifier: Apache-2.0
"""Runs of a model over data: what people have as data becomes records for the library."""
from __future__ import annotations

import importlib
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict, TypeAlias, TypeVar, Union, cast

import numpy as np
import numpy.typing as npt

from . import _core
from ._files import Model, Path, called, files_of, log, model_file, numbered, options, several, text
from ._profile import Profile, RunReport

if TYPE_CHECKING:
    from typing_extensions import TypeGuard, Unpack


class Reader(Protocol):
    """ONNX Runtime's CalibrationDataReader."""

    def get_next(self) -> Mapping[str, npt.ArrayLike] | None: ...


Item: TypeAlias = Union[npt.ArrayLike, "tuple[npt.ArrayLike, ...]", Mapping[str, npt.ArrayLike]]
Data: TypeAlias = Union[Path, Sequence[Path], Item, Iterable[Item], Reader]
Labels: TypeAlias = Union[Path, npt.ArrayLike]
Result = TypeVar("Result")
_JSON = 3  # of the views of a graph


class RunOptions(TypedDict, total=False):
    """What every function takes that runs a model over data, as the commands of the program do."""
    params: Path | None          # the weights of a Relay module
    image: str | None            # how images are prepared: see `tidemark profile --help`
    on_bad_sample: str           # "stop" (default) at a file that cannot be read, or "skip" it
    dims: Mapping[str, int]      # sizes of free dimensions
    feedback: Mapping[str, str]  # from outputs to the inputs of the next step
    reset: str | None            # where sequences begin: "never", "every=N", "source"
    limit: int | None            # at most so many samples, 1 or more; None: all, or as many as the function says
    skip: int                    # leave out so many at the start
    sample_every: int | None     # 1 or more
    threads: int                 # 0: as many as processors
    batch: int
    max_iterations: int
    memory_limit: int            # bytes; 0: none
    stream_layers: bool          # of profile: blocks of the network one after the other; chosen where memory_limit needs it
    # Called with (samples done, samples in all or 0); True: a bar, where tqdm is installed. rank, search and link run samples many
    # times, and count them each time.
    progress: Callable[[int, int], None] | bool | None


class _Tensor(Protocol):
    """PyTorch's."""
    dtype: object

    def detach(self) -> _Tensor: ...
    def cpu(self) -> _Tensor: ...
    def float(self) -> _Tensor: ...


def _array(value: object) -> npt.NDArray[np.generic]:
    """In C order, aligned, and of a type that buffers have; without a copy where it already is."""
    if hasattr(value, "detach"):  # of PyTorch, whose gradients and bfloat16 NumPy does not take
        tensor = cast(_Tensor, value).detach().cpu()
        value = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        value = np.from_dlpack(cast("npt.NDArray[np.generic]", value))
    if _is_ragged(value):
        raise ValueError("an array of samples that differ in length; give one after the other, in a list of mappings or a generator")
    array = np.asarray(cast("npt.NDArray[np.generic]", value))
    if not _is_numbers(array):
        raise TypeError(f"an array of numbers is wanted, not of {array.dtype.name}")
    wanted = np.dtype(np.float32) if array.dtype.name == "bfloat16" else array.dtype.newbyteorder("=")
    return np.require(array, wanted, requirements=["C", "A"])


def paths_of(data: object) -> list[str] | None:
    """None: they are none."""
    if isinstance(data, (str, os.PathLike)):
        return [os.fspath(data)]
    if isinstance(data, (list, tuple)) and data and all(isinstance(word, (str, os.PathLike)) for word in data):
        return [os.fspath(word) for word in data]
    return None


def _is_numbers(value: object) -> bool:
    dtype = getattr(value, "dtype", None)
    return str(dtype) in ("torch.bfloat16", "bfloat16") or (np.dtype(dtype) if isinstance(dtype, np.dtype) else np.asarray(value).dtype).kind in "biuf"


def _is_ragged(value: object) -> bool:
    """Samples that differ in length, as tokenizers give them without padding?"""
    return isinstance(value, (list, tuple)) and len({np.shape(x)[:1] if hasattr(x, "shape") else len(x) for x in value if hasattr(x, "__len__")}) > 1


class _Frame(Protocol):
    """A DataFrame of pandas or of polars."""
    @property
    def columns(self) -> Iterable[str]: ...
    def __getitem__(self, name: str, /) -> object: ...


def _unframed(item: object, path: str, run: RunOptions) -> object:
    """Of a DataFrame a mapping where columns have the names of inputs, else one array, whose features are the columns."""
    if not (hasattr(item, "columns") and hasattr(item, "to_numpy")):
        return item
    columns = {name: cast(_Frame, item)[name] for name in cast(_Frame, item).columns}
    ranks = _ranks(path, run)
    if ranks.keys() & columns.keys():
        return {name: _column(column, ranks.get(name, 0)) for name, column in columns.items()}
    for name, column in columns.items():
        if not _is_numbers(np.asarray(column)):
            raise TypeError(f"column {name!r} of the DataFrame is not of numbers, and no column has the name of an input ({', '.join(ranks)})")
    return np.column_stack(cast("list[npt.NDArray[np.generic]]", list(columns.values())))


def _column(column: object, rank: int) -> object:
    """For an input of this rank; 0: it is for none. Arrays or lists in the cells are samples."""
    array = np.asarray(column)
    if not rank or array.dtype.kind == "O":
        return array.tolist() if rank else array
    return array[:, None] if array.ndim < rank == 2 else array


def _items(data: object, path: str, run: RunOptions) -> Iterator[object]:
    """What comes one after the other: an array, a mapping or a DataFrame is one item, a reader is asked until it has no more, and what
    holds samples that differ in length has several."""
    for item in _given(data):
        item = _unframed(item, path, run)
        if not isinstance(item, Mapping) or not any(map(_is_ragged, item.values())):
            yield item
            continue
        lengths = {name: len(value) for name, value in item.items() if hasattr(value, "__len__")}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the data have different numbers of samples: {lengths}")
        for i in range(max(lengths.values())):
            yield {name: item[name][i] for name in lengths}


def _given(data: object) -> Iterator[object]:
    if hasattr(data, "get_next"):
        while (item := cast(Reader, data).get_next()) is not None:
            yield item
    elif isinstance(data, (np.ndarray, Mapping)) or hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        yield data
    elif (hasattr(data, "__iter__") or hasattr(data, "__getitem__")) and not isinstance(data, (bytes, bytearray)):
        yield from cast("Iterable[object]", data)
    else:
        raise TypeError(f"data are paths, an array, a mapping from names to arrays, or an iterable of these, not {type(data).__name__}")


def _are_several(item: object) -> TypeGuard[Sequence[object]]:
    """An array for each input, and not one array as nested lists?"""
    return isinstance(item, tuple) or (isinstance(item, list) and bool(item) and hasattr(item[0], "__array__") and not np.isscalar(item[0]))


class _Lacks(Exception):
    """The first item has nothing for an input."""

    def __init__(self, error: Exception, items: Iterable[object]):
        super().__init__(str(error))
        self.error, self.items = error, items


class _Records:
    """Gives the library its records: inputs take turns."""

    def __init__(self, data: object, path: str, run: RunOptions):
        self._items = iter(_items(data, path, run))
        self._item: object = None
        self._asked: set[str] = set()
        self._count = 0

    def __call__(self, name: str) -> npt.NDArray[np.generic] | None:
        if self._item is None or name in self._asked:
            self._item, self._asked = next(self._items, None), set()
            if self._item is None:
                return None
            self._count += 1
        self._asked.add(name)
        item = self._item
        if isinstance(item, Mapping):
            if name not in item:
                raise self._lacking(ValueError(f"the data have nothing for input '{name}', only for {sorted(item)}"))
            return _array(item[name])
        if _are_several(item):
            if len(item) < len(self._asked):
                raise self._lacking(ValueError(f"a tuple of {len(item)} arrays, but input '{name}' wants one more"))
            return _array(item[len(self._asked) - 1])
        if len(self._asked) > 1:
            raise self._lacking(ValueError(f"one array, but '{name}' is another input; give a mapping from names to arrays"))
        return _array(item)

    def _lacking(self, error: Exception) -> Exception:
        """Where nothing has run yet, the rest may follow from tokens."""
        return _Lacks(error, itertools.chain([self._item], self._items)) if self._count == 1 else error


@contextmanager
def _progress(progress: object) -> Iterator[object]:
    """What the extension calls."""
    if progress is not True:
        yield progress or None
        return
    try:
        tqdm = importlib.import_module("tqdm.auto")  # whose types not everybody has
    except ImportError:
        yield None
        return
    with tqdm.tqdm(unit=" samples") as bar:
        def show(done: int, total: int) -> None:
            bar.total = total or None
            bar.update(done - bar.n)
        yield show


@contextmanager
def run_settings(data: object, path: str, run: RunOptions, **more: object) -> Iterator[dict[str, object]]:
    """The options of a run, with others, as the extension takes them."""
    words = cast("dict[str, object]", dict(run))
    words.pop("params", None)
    bad = words.pop("on_bad_sample", "stop")
    if bad not in ("stop", "skip"):
        raise ValueError(f"on_bad_sample is 'stop' or 'skip', not {bad!r}")
    for name in ("limit", "sample_every"):
        if words.get(name) == 0:
            raise ValueError(f"{name} is 1 or more, or None")
    feedback = [f"{out}={into}" for out, into in (run.get("feedback") or {}).items()]
    with _progress(words.get("progress")) as progress:
        words.update(more, progress=progress, remark=log.warning, skip_bad=bad == "skip", feedback=feedback,
                     dims=numbered(run.get("dims")))
        paths = paths_of(data)
        if paths is not None:
            words["data"] = paths
        elif data is not None:
            words.update(data=["-"], next=_Records(data, path, run), label="data")
        yield options(**words)


def _ranks(path: str, run: RunOptions) -> dict[str, int]:
    """Of the model's inputs."""
    graph = json.loads(_core.graph(path, text(run.get("params")), _JSON, None, False))
    return {value["name"]: len(value["shape"] or ()) for value in graph["values"] if value["id"] in graph["inputs"]}


def _inputs(path: str, run: RunOptions) -> Set[str]:
    """Those that want data."""
    return _ranks(path, run).keys() - (run.get("feedback") or {}).values()


def _write_items(data: object, path: str, run: RunOptions, folder: str) -> str:
    """What comes one after the other, as a file: arrays by the inputs' names, or, where those of a name differ in shape or the
    rest follows from tokens, as prompts."""
    ranks = _ranks(path, run)
    items: list[dict[str, npt.NDArray[np.generic]]] = []
    limit = run.get("limit")
    left = run.get("skip", 0) + limit * (run.get("sample_every") or 1) if limit else None
    others: list[str] = []
    for item in _items(data, path, run):
        named = item if isinstance(item, Mapping) else dict(zip(ranks, item if _are_several(item) else [item]))
        arrays = {name: _array(named[name]) for name in ranks if name in named}
        others = others or sorted(named.keys() - ranks.keys())
        items.append({name: array if 0 < ranks[name] <= array.ndim else array[None] for name, array in arrays.items()})
        if left is not None and items[-1]:
            left -= max(len(array) for array in items[-1].values())
            if left <= 0:  # an iterable may have no end
                break
    first = items[0] if items else {}
    if not first:
        only = f", only for {others}" if others else ""
        raise ValueError(f"the data have nothing for the inputs {', '.join(ranks)}{only}")
    if _inputs(path, run) <= first.keys() and all({n: a.shape[1:] for n, a in item.items()} == {n: a.shape[1:] for n, a in first.items()} for item in items):
        file = os.path.join(folder, "data.npz")
        np.savez(file, **{name: np.concatenate([item[name] for item in items]) for name in first})  # type: ignore[arg-type]
        return file
    file = os.path.join(folder, "data.jsonl")
    with open(file, "w") as out:
        for item in items:
            for sample in zip(*(zip([name] * len(array), array) for name, array in item.items() if array[:1].size)):
                out.write(json.dumps({name: array.tolist() for name, array in sample}) + "\n")
    return file


@contextmanager
def readable_again(data: Data, path: str, run: RunOptions) -> Iterator[Data]:
    """The model's data such that they can be read more than once: arrays become a file for that."""
    if paths_of(data) is not None:
        yield data
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            data = cast("Data", _unframed(data, path, run))
            if isinstance(data, np.ndarray) and len(_ranks(path, run)) == 1:
                file = os.path.join(folder, "data.npy")
                np.save(file, _array(data))
            elif isinstance(data, Mapping) and not any(map(_is_ragged, data.values())) and _inputs(path, run) <= data.keys():
                file = os.path.join(folder, "data.npz")
                wanted = _ranks(path, run).keys() | {name for name, array in data.items() if _is_numbers(array)}  # labels, too
                np.savez(file, **{name: _array(data[name]) for name in wanted & data.keys()})  # type: ignore[arg-type]
            else:
                file = _write_items(data, path, run, folder)
        except OSError as error:
            raise OSError(error.errno, f"the data, which are read more than once, have no room in {tempfile.gettempdir()} ({error}); TMPDIR "
                          "names another folder") from error
        with called("data", file):
            yield file


def filled(call: Callable[[Data], Result], data: Data, path: str, run: RunOptions) -> Result:
    """Calls with the data; where inputs have none that follow from tokens, such as masks and caches, with a file of prompts."""
    try:
        return call(data)
    except _Lacks as lacks:
        error = lacks.error
        with readable_again(cast("Data", lacks.items), path, run) as file:
            try:
                return call(file)
            except _core.Error as wrong:
                if "has no data" not in str(wrong) and "has nothing for" not in str(wrong):
                    raise
        raise error from None


@contextmanager
def labels_file(labels: Labels | None) -> Iterator[str | None]:
    """The path, or a name in the data; of an array a file."""
    if labels is None or isinstance(labels, (str, os.PathLike)):
        yield text(labels)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "labels.npy")
        np.save(file, np.asarray(labels))
        with called("labels.npy", file):
            yield file


def _runs_of(share: float) -> int:
    if not isinstance(share, Real):
        raise TypeError(f"histogram_share is a number, such as 1/8, not {share!r}")
    runs = round(1 / share) if 0 < share <= 1 else 0
    if not runs or abs(runs * share - 1) > 1e-9:
        raise ValueError(f"histogram_share is 1/K for a whole number K, not {share}")
    return runs


def profile(model: Model, data: Data, *, observe: Sequence[str] = (), kind: str = "histogram", per_sample: bool = False,
            fail_on_nan: bool = False, exclude: float | Iterable[float] = (), strata: Path | None = None,
            shard: tuple[int, int] | None = None, checkpoint: Path | None = None, checkpoint_every: float = 60,
            until_stable: float = 0, snapshots: Path | None = None, round_half: bool = False, generate: int = 0,
            eos: int | Iterable[int] = (), exclude_padding: str | None = None, histogram_share: float = 1,
            **run: Unpack[RunOptions]) -> Profile:
    """Runs calibration data through the model once, and measures every tensor.

    model: a path (.onnx, or Relay text with `params`), an onnx.ModelProto, or the bytes of one.
    data: paths as `tidemark profile --data` takes them; or an array (first axis: samples); a mapping from input names to
        arrays; a DataFrame, whose columns are inputs or else the features of one; an iterable of arrays, tuples, mappings or
        DataFrames; or a CalibrationDataReader of ONNX Runtime. Arrays in C order are
        read where they lie (with shard, memory_limit or stream_layers they become a file first). Of an input's own rank, the first axis
        counts samples; of one rank less, an array is one sample.
    observe: "all", "activations", "weights", or globs on names. kind: "histogram", "range", "minmax", "guard".
    exclude: finite numbers, such as -1e9 of a mask. Elements that equal one are in no range, moment and histogram.
    exclude_padding: an input [batch, length]. Elements of positions where it is 0 are left out as `exclude` leaves others out,
        of every value whose axes are known to count prompts and positions.
    strata: a CSV file with a label for each sample; the result's `strata` are the profiles of each label's samples.
    shard: (k, n) is the k-th of n parts of the samples, from 1; `merge` puts the parts together.
    checkpoint: a file that is written every `checkpoint_every` seconds; where it exists the run is resumed from it. It stays:
        remove it when the profile is written.
    until_stable: ends the run once no threshold moved by more than this share of its range, such as 0.005.
    snapshots: a .json file for how far thresholds moved between 1, 2, 4, 8, ... samples.
    histogram_share: 1/K, such as 1/8: histograms of inputs and activations count one run of 64 elements in K, which can be
        quicker; extremes, counts, zeros and sums stay those of all elements.
    round_half: rounds inputs and results to float16 or bfloat16 where the model has these types; else they are float32.
    generate: after each sample, a prompt, so many greedy steps of decoding; see docs/data.md. A pair of `feedback` with the
        logits and the token IDs names those two. eos: tokens that end a prompt.
    Other arguments: tidemark.RunOptions.

    The interpreter's lock is released while the network runs. Raises tidemark.Error, or what the data raise.
    """
    if shard is not None and not (isinstance(shard, (tuple, list)) and len(shard) == 2):
        raise ValueError(f"shard is (k, n), the k-th of n parts from 1, not {shard!r}")
    with ExitStack() as stack:
        path, folder = stack.enter_context(model_file(model)), stack.enter_context(tempfile.TemporaryDirectory())
        source = data
        if run.get("memory_limit") or run.get("stream_layers") or shard is not None:
            source = stack.enter_context(readable_again(data, path, run))
        files: dict[str, str] = {}

        def stratum(label: str) -> str:
            return files.setdefault(label, os.path.join(folder, f"{len(files)}.{Profile.kept_as()}"))
        part, parts = shard or (None, None)

        def measure(source: Data) -> tuple[_core.Profile, _core.Report]:
            with run_settings(source, path, run, observe=several(observe), kind=kind, per_sample=per_sample, fail_on_nan=fail_on_nan,
                              exclude=several(exclude), strata=strata, stratum=stratum if strata is not None else None, shard=part,
                              shards=parts, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
                              until_stable=until_stable or None, snapshots=snapshots, round_half=round_half, generate=generate,
                              eos=several(eos), exclude_padding=exclude_padding,
                              histogram_share=_runs_of(histogram_share)) as settings:
                return _core.profile(path, text(run.get("params")), settings)
        core, report = filled(measure, source, path, run)
        made = Profile(core, files_of(model, paths_of(data), strata, run.get("params")))
        made.run_report = RunReport(**report)
        made.strata = {label: Profile.read(file) for label, file in files.items()}
        return made


def run(model: Model, data: Data, output: Path, *, values: Sequence[str] = (), **run: Unpack[RunOptions]) -> None:
    """Plain inference: writes values (names or globs; none: the outputs) as arrays to a .npz, or a .npy for one."""
    def infer(source: Data) -> None:
        with run_settings(source, path, run, observe=several(values), output=output) as settings:
            _core.run(path, text(run.get("params")), settings)
    with model_file(model) as path:
        filled(infer, data, path, run)


def plan_memory(model: Model, data: Data, **run: Unpack[RunOptions]) -> dict[str, int | str]:
    """The bytes that `profile` is expected to take, and what they are for; nothing is run."""
    with model_file(model) as path, readable_again(data, path, run) as again, run_settings(again, path, run, memory=True) as settings:
        return cast("dict[str, int | str]", _core.run(path, text(run.get("params")), settings))


class Figure(NamedTuple):
    """How fast one kind of run is."""
    what: str
    samples_per_second: float  # of the best round
    cost: float | None         # over the bare run, as a share


class Step(NamedTuple):
    """What one step of a run cost, all its runs on all threads together."""
    name: str
    what: str    # operators
    kernel: str
    runs: int
    seconds: float
    observe_seconds: float


_KINDS = {"bare": None, "minmax": "minmax", "ranges": "range", "histograms": "histogram"}


def bench(model: Model, data: Data, *, figures: Sequence[str] = (), repeat: int = 5, seconds: float = 1,
          histogram_share: float = 1, **run: Unpack[RunOptions]) -> list[Figure]:
    """What observing costs: the model is run without observers, with min and max, with ranges and with histograms, in turn;
    with a `histogram_share` below 1 also with histograms thinned so ("thinned").

    Each figure runs for `seconds` in `repeat` rounds; the best round counts.
    """
    runs = _runs_of(histogram_share)
    kinds = {**_KINDS, "thinned": "histogram"} if runs > 1 else _KINDS
    chosen = several(figures)
    if repeat < 1 or not set(chosen) <= set(kinds):
        raise ValueError(f"repeat is at least 1, and figures are of {', '.join(kinds)}")
    best = dict.fromkeys(chosen or kinds, 0.0)
    params = text(run.get("params"))
    with model_file(model) as path, readable_again(data, path, run) as again:
        for _ in range(repeat):
            for figure in best:
                done, spent, begin = 0, 0.0, time.monotonic()
                while not done or time.monotonic() - begin < seconds / repeat:
                    kind = kinds[figure]
                    if kind is None:
                        with run_settings(again, path, run, bare=True) as settings:
                            samples, took = cast("tuple[int, float]", _core.run(path, params, settings))
                    else:
                        share = runs if figure == "thinned" else 1
                        with run_settings(again, path, run, kind=kind, histogram_share=share) as settings:
                            report = _core.profile(path, params, settings)[1]
                            samples, took = report["samples"], report["seconds"]
                    done, spent = done + samples, spent + took
                    if not samples:
                        break
                best[figure] = max(best[figure], done / spent if spent > 0 else 0)
    bare = best.get("bare", 0)
    return [Figure(name, rate, bare / rate - 1 if bare and rate else None) for name, rate in best.items()]


def step_costs(model: Model, data: Data, *, kind: str | None = "histogram", **run: Unpack[RunOptions]) -> list[Step]:
    """What each step of a run costs, in the order in which they run. kind: of the observers; None: there are none."""
    def measure(source: Data) -> list[Step]:
        with run_settings(source, path, run, costs=True, bare=kind is None, kind=kind) as settings:
            return [Step(*row) for row in cast("list[tuple[str, str, str, int, float, float]]",
                                               _core.run(path, text(run.get("params")), settings))]
    with model_file(model) as path:
        return filled(measure, data, path, run)
