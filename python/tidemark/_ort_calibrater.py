# SPDX-License-Identifier: Apache-2.0
"""A calibrater of ONNX Runtime's kind whose ranges Tidemark measures."""
from __future__ import annotations

import functools
import logging
import mmap
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from . import _core
from ._files import options
from ._ort_types import Calibrater, Measured, Member, Range, Ranges, Reader
from ._profile import Profile, Tensor

if TYPE_CHECKING:
    import onnx

_LOG = logging.getLogger("tidemark")
_WAITING = 4      # items of a reader that wait for the run
_SMALL = 1 << 16  # bytes of an initializer that shape inference may look at
# Settings of ONNX Runtime's calibraters, with their defaults, that only those can honour
_ONLY_THEIRS: dict[str, dict[str, object]] = {"MinMax": {"per_channel": False},
                                              "Entropy": {"num_bins": 128, "num_quantized_bins": 128},
                                              "Percentile": {"num_bins": 2048}, "Distribution": {}}
_BINS = {"Entropy": 128, "Percentile": 2048, "Distribution": 2048}
_METHODS = {"Entropy": "entropy", "Percentile": "percentile"}  # those of the same meaning
# Rules of `calibrate` that ONNX Runtime's quantizer applies itself, or does not know
_RULES = ("activation-after-relu", "pass-through-shares", "concat-inputs-share", "residual-adds-share", "softmax-output",
          "sigmoid-output", "bias-add", "bias-fits", "masks-stay-float")


class _Run:
    """A run over items that come one by one, on a thread of its own: the caller's thread reads."""

    def __init__(self, path: str, settings: dict[str, object]):
        self._path, self._settings = path, settings
        self._items: queue.Queue[dict[str, np.ndarray] | None] = queue.Queue(_WAITING)
        self._item: dict[str, np.ndarray] | None = None
        self._asked: set[str] = set()
        self._result: _core.Profile | None = None
        self._error: BaseException | None = None
        self._stop = False
        self.count = 0  # items that were given
        self.unproven: list[dict[str, np.ndarray]] | None = []  # the items, until one of them went through
        self._thread = threading.Thread(target=self._work, name="tidemark", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._result, _ = _core.profile(self._path, None, {"data": ("-",), "next": self._next, "label": "the reader", "whole": True,
                                                               "progress": self._progress, **options(**self._settings)})
        except BaseException as error:  # noqa: BLE001 - raised by the thread that gives the items
            self._error = error

    def _next(self, name: str) -> np.ndarray | None:
        if self._item is None or name in self._asked:
            self._item, self._asked = self._items.get(), set()
        if self._item is None or self._stop:
            return None
        self._asked.add(name)
        return self._item[name]

    def _progress(self, done: int, total: int) -> None:
        if self._stop:
            raise KeyboardInterrupt
        if done:
            self.unproven = None

    def _put(self, item: dict[str, np.ndarray] | None) -> None:
        while True:
            if self._error is not None:
                raise self._error
            try:
                self._items.put(item, timeout=0.05)
                return
            except queue.Full:
                pass

    def give(self, item: dict[str, np.ndarray]) -> None:
        """Raises what the run raised."""
        if (unproven := self.unproven) is not None:
            unproven.append(item)
        self.count += 1
        self._put(item)

    def finish(self) -> Profile:
        """Raises what the run raised."""
        try:
            self._put(None)
            self._thread.join()
        except KeyboardInterrupt:
            self.abandon()
            raise
        if self._error is not None:
            raise self._error
        assert self._result is not None
        self.unproven = None
        return Profile(self._result)

    def abandon(self) -> None:
        """Ends the run; what it saw is lost."""
        self._stop = True
        while self._thread.is_alive():
            try:
                self._items.put_nowait(None)
            except queue.Full:
                pass
            self._thread.join(0.05)


_MODEL_GRAPH, _GRAPH_INITIALIZER = 7, 5            # numbers of fields in onnx.proto
_TENSOR_DATA = frozenset((4, 5, 6, 7, 9, 10, 11))  # the elements, in a field for each way to store them


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Of a serialized message: each field's number, where it and its value begin, and where it ends."""
    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at
    while at < end:
        begin = at
        tag, at = varint(at)
        value, kind = at, tag & 7
        if kind == 0:
            at = varint(at)[1]
        elif kind == 2:
            size, value = varint(at)
            at = value + size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        if kind not in (0, 1, 2, 5) or at > end:
            raise ValueError("damaged or truncated")
        yield tag >> 3, begin, value, at


def _without_weights(path: str) -> tuple[onnx.ModelProto, set[str]]:
    """The model without the elements of its large initializers, whose names these are. They are never in memory."""
    import onnx
    model, names = onnx.ModelProto(), set()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for number, begin, value, end in _fields(data, 0, len(data)):
            if number != _MODEL_GRAPH:
                model.MergeFromString(data[begin:end])
                continue
            for part, first, inside, last in _fields(data, value, end):
                if part != _GRAPH_INITIALIZER or last - first <= _SMALL:
                    model.graph.MergeFromString(data[first:last])
                    continue
                weight = b"".join(data[i:k] for n, i, _, k in _fields(data, inside, last) if n not in _TENSOR_DATA)
                model.graph.initializer.append(onnx.TensorProto.FromString(weight))
                names.add(model.graph.initializer[-1].name)
    return model, names


def _skeleton(path: str) -> onnx.ModelProto:
    """The model without its large weights, with shapes inferred: ONNX Runtime chooses values by what inference finds."""
    import onnx
    from google.protobuf.message import DecodeError
    try:
        model, names = _without_weights(path)
    except (ValueError, IndexError, DecodeError) as error:
        raise ValueError(f"{path}: cannot be read as an ONNX model: {error}") from error
    names |= {w.name for w in model.graph.initializer if w.data_location == w.EXTERNAL}
    inputs = {value.name for value in model.graph.input}
    small = [w for w in model.graph.initializer if w.name not in names]
    stand_ins = [onnx.helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in model.graph.initializer
                 if w.name in names - inputs]
    del model.graph.initializer[:]
    model.graph.initializer.extend(small)
    model.graph.input.extend(stand_ins)
    model = onnx.shape_inference.infer_shapes(model)
    if stand_ins:
        del model.graph.input[-len(stand_ins):]
    model.graph.initializer.extend(onnx.TensorProto(name=name) for name in sorted(names))
    return model


def _constants_of(model: onnx.ModelProto) -> list[str]:
    """Results of nodes that read initializers alone, or nothing."""
    varies = {value.name for value in model.graph.input} - {weight.name for weight in model.graph.initializer}
    found = []
    for node in model.graph.node:
        has_graphs = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if has_graphs or not varies.isdisjoint(node.input):
            varies.update(node.output)
        else:
            found += node.output
    return found


def _extremes(tensor: Tensor) -> tuple[float, float]:
    """As numpy.nanmin and nanmax return them, infinities included; (0, 0) where there is no number."""
    low, high = tensor.min, tensor.max
    if tensor.neginf:
        low = -np.inf
        high = high if high is not None else -np.inf
    if tensor.posinf:
        high = np.inf
        low = low if low is not None else np.inf
    return (0.0, 0.0) if low is None or high is None else (low, high)


class _Again:
    """A reader: items that were read before, then the rest."""

    def __init__(self, items: list[dict[str, np.ndarray]], rest: Reader | None = None):
        self._items, self._rest = iter(items), rest

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        item = next(self._items, None)
        return self._rest.get_next() if item is None and self._rest is not None else item


class Grid:
    """What an activation is quantized to: the methods that look at errors need it. by_name: values with another one."""

    def __init__(self, dtype: str = "uint8", symmetric: bool = False, by_name: dict[str, tuple[str, bool]] | None = None):
        self.default, self.by_name = (dtype, symmetric), by_name or {}


@functools.lru_cache(maxsize=None)
def calibrater_class() -> Callable[..., Measured]:
    """The class; made when it is first asked for, since onnxruntime and onnx need not be there."""
    import onnx
    from onnxruntime.quantization import calibrate as theirs
    from onnxruntime.quantization.quant_utils import load_model_with_shape_infer

    class TidemarkRanges(theirs.TensorsData):  # type: ignore[misc]
        """TensorsData that name the method of Tidemark by which they were chosen, in ONNX Runtime's cache too."""

        def __init__(self, calibrate_method: Member, data: dict[str, Range], method: str | None, exclude: list[float]):
            super().__init__(calibrate_method, data)
            self.method, self.exclude = method, exclude

        def to_dict(self) -> dict[str, object]:
            return {**super().to_dict(), "tidemark_method": self.method, "tidemark_exclude": self.exclude}

    class TidemarkCalibrater(theirs.CalibraterBase):  # type: ignore[misc]
        """See tidemark.ort.create_calibrator."""

        def __init__(self, model_path: object, op_types_to_calibrate: Sequence[str] | None,
                     augmented_model_path: str | os.PathLike[str], calibrate_method: Member, use_external_data_format: bool,
                     extra_options: dict[str, object], method: str | None, grid: Grid, threads: int,
                     excluded: Iterable[str] | None, exclude: Iterable[float]):
            if not isinstance(model_path, (str, os.PathLike)):
                raise ValueError("model_path should be model path.")
            self.op_types_to_calibrate = op_types_to_calibrate
            self.augmented_model_path = augmented_model_path
            self.use_external_data_format = use_external_data_format
            self.symmetric = bool(extra_options.get("symmetric", calibrate_method.name == "Percentile" and method is None))
            self.per_channel = bool(extra_options.get("per_channel", False))
            self.augment_model = self.infer_session = None
            self.execution_providers = ["CPUExecutionProvider"]
            self.model_path, self.calibrate_method, self.method = os.fspath(model_path), calibrate_method, method
            self._options, self._grid, self._threads = extra_options, grid, threads
            self._moving = calibrate_method.name == "MinMax" and method is None and bool(extra_options.get("moving_average"))
            self._share = cast("float", extra_options.get("averaging_constant", 0.01))
            if self._moving and not 0 <= self._share <= 1:
                raise ValueError("Invalid averaging constant, which should not be < 0 or > 1.")
            self._excluded = set(excluded or ())
            self._exclude = [float(number) for number in exclude]
            self._types: dict[str, np.dtype[np.generic]] = {}
            self._run: _Run | None = None
            self._ends: list[int] = []  # of the run's items, where each call of collect_data ended
            self._ranges: dict[str, Range] | None = None
            self._instead: Calibrater | None = None  # ONNX Runtime's own calibrater, where Tidemark can't do it
            reason = [f"'{key}' is a setting of ONNX Runtime's own histograms or of ranges by channel"
                      for key, default in _ONLY_THEIRS[calibrate_method.name].items()
                      if extra_options.get(key, default) != default and (method is None or key == "per_channel")]
            if calibrate_method.name == "Percentile" and method is None and cast("float", extra_options.get("percentile", 99.999)) <= 50:
                reason.append("a percentile of 50 or less")
            self._reason = reason[0] if reason else ""

        # ---- what ONNX Runtime's calibraters have ----

        @functools.cached_property
        def model(self) -> onnx.ModelProto:
            """The model with shapes inferred, as ONNX Runtime's calibraters hold it; read at the first use."""
            return cast("onnx.ModelProto", load_model_with_shape_infer(Path(self.model_path)))

        def augment_graph(self) -> None:
            """Nothing is added to the graph: chooses the values that are measured, and writes no file."""
            skeleton = _skeleton(self.model_path)
            weights = {w.name for w in skeleton.graph.initializer}
            names, infos = self.select_tensors_to_calibrate(skeleton)
            self._types = {name: onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
                           for name, info in infos.items() if name in names}
            self._inputs = [value.name for value in skeleton.graph.input if value.name not in weights]
            self.halves = [name for name, kind in self._types.items() if kind == np.float16]
            self._around = [(node.name, {*node.input, *node.output}) for node in skeleton.graph.node
                            if node.op_type != "Constant" and node.name not in self._excluded]
            self._constants = [name for name in _constants_of(skeleton) if name in self._types]

        def create_inference_session(self) -> None:
            """There is no session: Tidemark runs the network itself, on the processor."""
            others = [p for p in self.execution_providers or [] if (p if isinstance(p, str) else p[0]) != "CPUExecutionProvider"]
            if others:
                _LOG.warning("execution providers %s have no effect: Tidemark runs the network on the processor", others)

        def collect_data(self, data_reader: Reader) -> None:
            """Runs the network over what the reader gives, each item as it is; may be called again for more. The reader is
            asked by the calling thread; a few of its items are kept at a time."""
            if self._instead is None and self._reason:
                self._give_up(self._reason)
            if self._instead is not None:
                self._instead.collect_data(data_reader)
                return
            try:
                self._collect(data_reader)
            except _core.Error as error:
                self._instead_of(error).collect_data(_Again(self._unproven, data_reader))
            except BaseException:
                if self._run is not None:
                    self._run.abandon()
                    self._run = None
                raise

        def compute_data(self) -> Ranges:
            """The ranges of the values, as TensorsData."""
            if self._instead is None and self._run is not None:
                try:
                    profile = self._run.finish()
                    self._merge(self._ranges_of(profile))
                    self._run, self._ends = None, []
                except _core.Error as error:
                    self._instead_of(error).collect_data(_Again(self._unproven))
            if self._instead is not None:
                return self._instead.compute_data()
            if self._ranges is None:
                raise ValueError("No data is collected.")
            return TidemarkRanges(self.calibrate_method, dict(self._ranges), self.method, self._exclude)

        # ---- the run ----

        def _collect(self, reader: Reader) -> None:
            while item := reader.get_next():
                if self._run is None:
                    self._run = self._begin()
                self._run.give(self.checked(item))
            if self._run is None and self._ranges is None:
                raise ValueError("No data is collected.")
            if self._run is not None:
                self._ends.append(self._run.count)

        def _begin(self) -> _Run:
            extremes = self.method in ("minmax", "moving-average") or (not self.method and self.calibrate_method.name == "MinMax")
            run = _Run(self.model_path, {"kind": "minmax" if extremes else "histogram", "threads": self._threads,
                                         "observe": ["activations", *map(_literally, self._constants)],
                                         "per_sample": self._moving or self.method == "moving-average",
                                         "exclude": self._exclude})
            weakref.finalize(self, run.abandon)
            return run

        def checked(self, item: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            """Copies: ONNX Runtime has processed an item before it reads the next, so a reader may reuse one buffer."""
            for name in item:
                if name not in self._inputs:
                    raise ValueError(f"the reader gives '{name}', but the model's inputs are {self._inputs}")
            for name in self._inputs:
                if name not in item:
                    raise ValueError(f"the reader gives nothing for input '{name}', only {sorted(item)}")
            return {name: np.array(item[name], order="C", copy=True) for name in self._inputs}

        def _instead_of(self, error: _core.Error) -> Calibrater:
            """ONNX Runtime's own calibrater, where what the run was given is still there; else raises the error."""
            run, self._run = self._run, None
            if run is None or run.unproven is None or self._ranges is not None:
                raise error
            self._unproven = run.unproven
            self._give_up(str(error), error)
            return cast("Calibrater", self._instead)

        def _give_up(self, reason: str, error: BaseException | None = None) -> None:
            if self.method is not None or self._exclude:
                asked = f"method={self.method!r}" if self.method is not None else f"exclude={self._exclude}"
                raise error or ValueError(f"{asked}: {reason}")
            _LOG.warning("ONNX Runtime's own calibrater measures the ranges: %s", reason)
            # before 1.21 it has no such argument
            providers = {} if self.execution_providers == ["CPUExecutionProvider"] else {"providers": self.execution_providers}
            self._instead = theirs.create_calibrator(
                Path(self.model_path), self.op_types_to_calibrate, augmented_model_path=self.augmented_model_path,
                calibrate_method=self.calibrate_method, use_external_data_format=self.use_external_data_format,
                extra_options=self._options, **providers)

        # ---- ranges ----

        def _ranges_of(self, profile: Profile) -> dict[str, Range]:
            found = {t.name: t for t in profile.tensors if not t.path and t.name in self._types}
            chosen = self._chosen(profile)
            made: dict[str, Range] = {}
            odd = set()
            for name, dtype in self._types.items():
                tensor = found[name]
                if tensor.neginf or tensor.posinf or tensor.nan or tensor.sentinel:
                    odd.add(name)
                made[name] = self._range_of(tensor, dtype, chosen.get(tensor.id))
            self._tell_of_masks(odd)
            return made

        def _tell_of_masks(self, names: set[str]) -> None:
            around = [node for node, values in self._around if not names.isdisjoint(values)]
            if around:
                named = [node for node in around if node]
                unnamed = "" if len(named) == len(around) else ", once all nodes have names"
                _LOG.warning("%d values hold NaN, infinities or numbers that stand for them, as masks do (%s): over such a range "
                             "nothing else is told apart. Keep the nodes around them float: nodes_to_exclude=%s%s", len(names),
                             ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else ""), named, unnamed)

        def _chosen(self, profile: Profile) -> dict[str, tuple[float, float]]:
            """(low, high) by ID, where a method chooses them."""
            method = self.method or _METHODS.get(self.calibrate_method.name)
            if method in (None, "minmax"):
                return {}
            parameter = 0.0  # the method's default
            if method == "percentile":
                parameter = float(cast("float", self._options.get("percentile", 0.0 if self.method else 99.999)))
            theirs_alone = not self.method and method == "percentile"  # whether by magnitude: ONNX Runtime has a setting of its own
            grids = dict.fromkeys([self._grid.default, *self._grid.by_name.values()])
            made: dict[str, tuple[float, float]] = {}
            for dtype, symmetric in grids:
                by_magnitude = self.symmetric if theirs_alone else symmetric or self.symmetric
                scheme = "symmetric" if by_magnitude else "asymmetric"
                # what constants alone make is a value like others there: one range, by the same method
                rules = [{"match": {"name": _literally(name)}, "method": method, "per_channel": False, "scheme": scheme, "dtype": dtype,
                          **({"percentile": parameter} if parameter else {})} for name in self._constants if method != "moving-average"]
                for e in profile.calibrate(method, parameter=parameter, dtype=dtype, scheme=scheme, sensitive="quantize",
                                           config={"built_in": dict.fromkeys(_RULES, False), "rules": rules}).values():
                    if self._grid.by_name.get(e.name, self._grid.default) == (dtype, symmetric):
                        made[e.id] = (float(e.low[0]), float(e.high[0]))
            return made

        def _range_of(self, tensor: Tensor, dtype: np.dtype[np.generic], chosen: tuple[float, float] | None) -> Range:
            low, high = chosen or _extremes(tensor)
            more = {}
            if self.calibrate_method.name in _BINS and self.method is None:
                hist, edges = self._histogram_of(tensor, dtype)
                more = {"hist": hist, "bins": edges}
                if self.calibrate_method.name == "Distribution":
                    power = {"same": 1, "p3": 1.0 / 3.0}[cast("str", self._options.get("scenario", "same"))]
                    avg, std = theirs.HistogramCollector._avg_std(hist, edges, power=power)
                    return cast("Range", theirs.TensorData(avg=avg, std=std, hist=hist, hist_edges=edges, lowest=edges.min(),
                                                           highest=edges.max()))
            extremes = self.calibrate_method.name == "MinMax"
            if self._moving and tensor.samples is not None and np.isfinite([low, high]).all():
                low, high = self._moving_average(tensor)
            elif self.symmetric and (self.method or extremes):
                low, high = _symmetric(low, high)
            shape = (1,) if extremes else ()  # of ONNX Runtime's
            return cast("Range", theirs.TensorData(lowest=np.full(shape, low).astype(dtype), highest=np.full(shape, high).astype(dtype),
                                                   **more))

        def _moving_average(self, tensor: Tensor) -> tuple[float, float]:
            """Of each call of collect_data the mean of its items' extremes; of the calls an exponential mean. What no item has numbers
            of, as a constant, has its extremes."""
            calls = [tuple(float(np.nanmean(part)) for part in parts)
                     for parts in zip(*(np.split(each, self._ends[:-1]) for each in tensor.samples or ())) if not np.isnan(parts[0]).all()]
            calls = calls or [_extremes(tensor)]
            if self.symmetric:
                calls = [_symmetric(*call) for call in calls]
            low, high = (functools.reduce(lambda old, new: old + self._share * (new - old), ends) for ends in zip(*calls))
            return low, high

        def _histogram_of(self, tensor: Tensor, dtype: np.dtype[np.generic]) -> tuple[np.ndarray, np.ndarray]:
            """As ONNX Runtime lays it out: zero is in the middle. Sums are rounded, not parts of elements, of which most would be 0."""
            far = max(abs(tensor.min or 0.0), abs(tensor.max or 0.0))
            counts, edges = tensor.histogram(cast("int", self._options.get("num_bins", _BINS[self.calibrate_method.name])), (-far, far))
            return np.diff(np.rint(np.cumsum(counts)), prepend=0).astype(np.int64), edges.astype(dtype)

        def _merge(self, more: dict[str, Range]) -> None:
            """With the ranges of data that were computed before."""
            if self._ranges is None:
                self._ranges = more
                return
            if self.calibrate_method.name != "MinMax" or self.method not in (None, "minmax"):
                raise ValueError("collect_data was called after compute_data: what was counted before is gone; "
                                 "collect all data first")
            for name, new in more.items():
                old = self._ranges[name]
                pairs = ((old.lowest, new.lowest, np.minimum), (old.highest, new.highest, np.maximum))
                low, high = (a + self._share * (b - a) if self._moving else f(a, b) for a, b, f in pairs)
                self._ranges[name] = theirs.TensorData(lowest=low, highest=high)

    return TidemarkCalibrater


def _symmetric(low: float, high: float) -> tuple[float, float]:
    far = max(abs(low), abs(high))
    return -far, far


def _literally(name: str) -> str:
    """A glob that is exactly this name."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
