# SPDX-License-Identifier: Apache-2.0
from typing import TypeAlias, TypedDict

class Error(ValueError):
    """What the library refused, and why."""
    status: str
    code: str

class _Named(TypedDict):
    id: str
    name: str
    fingerprint: str
    path: str
    kind: str
    inner: bool
    status: str
    dtype: str
    shape: tuple[int, ...] | None
    op: str
    node: str

class Record(_Named, total=False):
    count: int
    zeros: int
    nan: int
    posinf: int
    neginf: int
    samples: int
    min: float | None
    max: float | None
    min_at: tuple[int, int] | None
    max_at: tuple[int, int] | None
    sentinel: str | None
    mean: float | None
    std: float | None
    std_low: float | None
    std_high: float | None
    sum: float | None
    histogram_share: float
    rank_error: float | None

class Info(TypedDict):
    model: dict[str, str]
    ledger: dict[str, int]
    settings: dict[str, str]

class Report(TypedDict):
    samples: int
    batches: int
    seconds: float
    setup_seconds: float
    threads: int
    checkpoints: int
    stable: bool

class Profile:
    def __len__(self) -> int: ...
    def record(self, i: int, /) -> Record: ...
    def computation(self, i: int, /) -> tuple[int, int, int]: ...
    def bins(self, i: int, /) -> tuple[bytes, bytes, bytes] | None: ...
    def linear(self, i: int, n: int, lo: float, hi: float, /) -> bytes: ...
    def channels(self, i: int, /) -> tuple[int, bytes, bytes] | None: ...
    def samples(self, i: int, /) -> tuple[bytes, bytes] | None: ...
    def quantile(self, i: int, q: float, /) -> tuple[float, float, float]: ...
    def info(self) -> Info: ...
    @staticmethod
    def read(path: str, /) -> Profile: ...
    def write(self, path: str, /) -> None: ...

class Item(TypedDict):
    id: str
    name: str
    role: str
    dtype: str
    symmetric: bool
    axis: int | None
    scale: bytes
    zero_point: bytes
    low: bytes
    high: bytes
    method: str
    rule: str
    group: int
    expected: dict[str, float] | None
    block: int

class Encodings:
    def items(self) -> list[Item]: ...
    def left(self) -> list[tuple[str, str, str]]: ...
    def rounding(self) -> str: ...
    @staticmethod
    def read(path: str, /) -> Encodings: ...
    def write(self, path: str, /) -> None: ...

_Range = tuple[str, tuple[float, float], tuple[float, float], int, float, float, float, bool]
_Fate = tuple[str, str, str, str | None, str | None, str, str]

class Simulation(TypedDict):
    values: list[tuple[str, str, str | None, bool, bool, int, float, float, float, float]]
    samples: int
    seconds: float
    predictions: int
    agree: int
    labelled: bool
    right_float: int
    right_quantized: int
    alone: tuple[int, int, int] | None
    whole: tuple[int, int, int] | None
    remarks: list[str]
    agreement: tuple[float, float]
    change: tuple[float, float]

def profile(model: str, params: str | None, settings: dict[str, object], /) -> tuple[Profile, Report]: ...
def choose_method(model: str, params: str | None, settings: dict[str, object], /
                  ) -> tuple[Profile, Report, list[tuple[str, float, float, float, float]], int, str | None]: ...
def simulate(model: str, params: str | None, encodings: Encodings, settings: dict[str, object], /) -> Simulation: ...
def rank(model: str, params: str | None, encodings: Encodings, settings: dict[str, object], /
         ) -> tuple[list[tuple[str, str, str, float, float]], int, int]: ...
_Quality: TypeAlias = tuple[float, float, float, float]


def search(model: str, params: str | None, encodings: Encodings, settings: dict[str, object], /
           ) -> tuple[Encodings, int, int, int, int, int, tuple[_Quality, _Quality, _Quality], int, int, int,
                      tuple[_Quality, _Quality, _Quality], list[tuple[float, float, float, float]], bool]: ...
def graph(model: str, params: str | None, view: int, lineage: str | None, patterns: bool, /) -> str: ...
def patterns(model: str, params: str | None, /) -> list[tuple[str, int, str, str, str]]: ...
def instrument(model: str, params: str | None, output: str, settings: dict[str, object], /) -> int: ...
def passes() -> list[tuple[str, str]]: ...
def transform(model: str, params: str | None, output: str, settings: dict[str, object], /
              ) -> tuple[list[_Fate], int, int, int, int, bool]: ...
def run(model: str, params: str | None, settings: dict[str, object], /) -> object: ...
def verify(model: str, params: str | None, folder: str, settings: dict[str, object], /
           ) -> list[tuple[str, str, bool, str, float]]: ...
def merge(settings: dict[str, object], /) -> Profile: ...
def diff(a: Profile | str, b: Profile | str, format: str | None, /) -> tuple[
    list[tuple[str, str | None, str | None, _Range | None, float | None, str]], list[str], list[str], int]: ...
def can_write(path: str, endings: str | None, /) -> None: ...
def file_kind(path: str, /) -> str: ...
def skeleton(model: str, params: str | None, /) -> Profile: ...
def cover(profile: Profile, path: str, lineage: str | None, /) -> list[tuple[str, str, str | None, _Range | None]]: ...
def read_lineage(path: str, /) -> list[_Fate]: ...
def link(settings: dict[str, object], /) -> tuple[
    Profile, str, float, list[_Fate], list[tuple[str, bool, bool, float]], dict[str, int]]: ...
def calibrate(profile: Profile, *, method: str | None, parameter: float, dtype: str | None, scheme: str | None, scales: str | None,
              pow2: bool, weights_method: str | None, weights_dtype: str | None, weights_scheme: str | None,
              weights_scales: str | None, rounding: str | None, pow2_requant: bool, config: str | None, remarks: list[str],
              sensitive: str | None, target: str | None, weights_block: int, model: str | None,
              params: str | None) -> Encodings: ...
def export(encodings: Encodings, format: str, path: str, *, model: str | None, params: str | None, template: str | None,
           names: str | None, settings: tuple[str, ...], keep_names: bool, target: str | None,
           remarks: list[str]) -> list[tuple[str, str, str]]: ...
def report(profile: Profile, path: str, earlier: tuple[Profile, ...], encodings: Encodings | None, title: str | None,
           results: tuple[str, ...], model: str | None, params: str | None, /) -> None: ...
def check_target(encodings: Encodings, target: str, profile: Profile | None, /) -> list[str]: ...
def formats() -> list[tuple[str, str, str]]: ...
def targets(name: str | None, /) -> list[str]: ...
def methods() -> list[tuple[str, str]]: ...
def version() -> str: ...
def hold_inputs(begin: bool, /) -> None: ...
def set_limits(operations: float, memory: int, /) -> None: ...
def limits() -> tuple[float, int]: ...
def features() -> str: ...
