# SPDX-License-Identifier: Apache-2.0
"""Paths, models in memory, and options as the extension takes them."""
from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import Protocol, TypeAlias, TypeVar, Union, cast, overload

from . import _core

log = logging.getLogger("tidemark")
Path: TypeAlias = Union[str, "os.PathLike[str]"]


class ModelProto(Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


Model: TypeAlias = Union[Path, bytes, ModelProto]
Config: TypeAlias = Union[Path, Mapping[str, object]]


def text(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


class OfFiles:
    """What was read from a file, or computed from files: it is written over none of them."""

    _file: str | None = None               # that it was read from
    _made_of: frozenset[str] = frozenset()  # files

    @property
    def _files(self) -> frozenset[str]:
        return self._made_of if self._file is None else self._made_of | {self._file}

    def _not_over(self, path: Path, *others: object, itself: bool = False) -> None:
        """Fails where writing to `path` would replace one of its files, or of the others'. itself: it may replace the file that
        it was read from."""
        for file in (self._made_of if itself else self._files) | files_of(*others):
            try:
                same = os.path.samefile(path, file)
            except OSError:  # one of them is gone
                continue
            if same:
                error = _core.Error(f"{os.fspath(path)} is an input, and is not written over")
                error.code, error.status = "ARGUMENT", "an argument is wrong"
                raise error


Kind = TypeVar("Kind", bound="Readable")


class Readable(Protocol):
    """A class whose objects are in files."""

    @classmethod
    def read(cls: type[Kind], path: Path) -> Kind: ...


def loaded(kind: type[Kind], given: Kind | Path) -> Kind:
    """The object, or that of the file."""
    return given if isinstance(given, kind) else kind.read(path_of(kind, given))


def path_of(kind: type[object], given: object) -> str:
    """Of the object's file."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"a tidemark.{kind.__name__}, or the path of its file, is expected, not {type(given).__name__}")
    return os.fspath(given)


Word = TypeVar("Word")


@overload
def several(words: float) -> list[float]: ...


@overload
def several(words: Iterable[Word]) -> list[Word]: ...


def several(words: float | Iterable[Word]) -> list[float] | list[Word]:
    """A list; of a text, a path or a number alone, of one."""
    one = isinstance(words, (str, os.PathLike, Real))
    return cast("list[Word]", [words] if one else list(cast("Iterable[Word]", words)))


def files_of(*words: object) -> frozenset[str]:
    """The files among paths, sources of data (`INPUT=FILE.h5:/path`), objects that were made of files, and sequences of these."""
    found: set[str] = set()
    for word in words:
        if isinstance(word, OfFiles):
            found |= word._files
        elif isinstance(word, (str, os.PathLike)):
            name = os.fspath(word)
            after = name.partition("=")[2]
            found.update(os.path.abspath(path) for path in (name, name.rpartition(":")[0], after, after.rpartition(":")[0])
                         if path and os.path.isfile(path))
        elif isinstance(word, (list, tuple)):
            found |= files_of(*word)
    return frozenset(found)


@contextmanager
def inputs_held() -> Iterator[None]:
    """What the calls within read is not written over, either."""
    _core.hold_inputs(True)
    try:
        yield
    finally:
        _core.hold_inputs(False)


@contextmanager
def called(name: str, path: str) -> Iterator[None]:
    """Errors say `name` where they have the path, which the caller does not know."""
    try:
        yield
    except _core.Error as error:
        error.args = (str(error).replace(path, name),)
        raise


@contextmanager
def model_file(model: Model) -> Iterator[str]:
    """The path of the model: its own, or that of a copy of what is in memory."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    if not isinstance(model, bytes) and not hasattr(model, "SerializeToString"):
        raise TypeError(f"a model is a path, an onnx.ModelProto or the bytes of one, not {type(model).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model if isinstance(model, bytes) else model.SerializeToString())
        with called("model.onnx", path):
            yield path


@contextmanager
def json_file(given: Config | None, name: str) -> Iterator[str | None]:
    """The path; of a mapping that of a file with it, which errors call by the name."""
    if not isinstance(given, Mapping):
        yield text(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(given, file)
        with called(name, path):
            yield path


@contextmanager
def model_file_if_any(model: Model | None) -> Iterator[str | None]:
    if model is None:
        yield None
        return
    with model_file(model) as path:
        yield path


def options(**words: object) -> dict[str, object]:
    """Paths as texts, lists as tuples."""
    def plain(word: object) -> object:
        if isinstance(word, os.PathLike):
            return os.fspath(word)
        return tuple(word) if isinstance(word, list) else word
    return {key: plain(word) for key, word in words.items()}


def numbered(mapping: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if mapping is None else dict(mapping)
