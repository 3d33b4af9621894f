"""A compiled library in Python, by ``ctypes`` and NumPy: no compiler is loaded, or needed.

In: the path of a shared library that ``hybridjit compile --library`` wrote. Out: a callable on
arrays, whose results have the bits of the network's.
"""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DTypeError, MXNetError, ShapeError

_ABI_VERSION = 1
_MAX_IDLE = 8


class _Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def load(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    threads: int = 1,
    name: str | None = None,
) -> Library:
    """The network in a shared library.

    weights  the file of its weights; by default the one beside the library, where it has one
    threads  how many compute a call, where the library was compiled with ``--threads``
    name     the prefix of its functions; by default what the file is called
    Raises MXNetError for a file that is no such library, or one that this CPU cannot run.
    """
    return Library(path, weights, threads, name)


class Library:
    """A network. Call it with its inputs' arrays; calls from several threads may overlap.

    inputs, outputs  their names, in order
    target           the CPU that the code which runs is for
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        weights: str | os.PathLike[str] | None,
        threads: int,
        name: str | None,
    ) -> None:
        self._path = os.path.abspath(os.fspath(path))
        self._prefix = name or Path(self._path).name.split(".")[0].removeprefix("lib")
        try:
            self._library = ctypes.CDLL(self._path)
        except OSError as error:
            raise MXNetError(f"{path}: {error}") from None
        self._declare()
        self._facts: dict[str, Any] = json.loads(self._call("description"))
        self.inputs: list[str] = [fact["name"] for fact in self._facts["inputs"]]
        self.outputs: list[str] = [fact["name"] for fact in self._facts["outputs"]]
        self._weights = self._weights_path(weights)
        self._threads = threads
        self._idle: list[_Context] = [self._new_context()]
        self.target: str = self._call("target", self._idle[0].address).decode()

    def __call__(self, *arrays: np.ndarray) -> np.ndarray | list[np.ndarray]:
        """The output, or a list of several. Raises ShapeError and DTypeError for other arrays."""
        batch, given = self._checked(arrays)
        made = self._new_outputs(batch)
        try:
            context = self._idle.pop()
        except IndexError:
            context = self._new_context()
        words = context.address, _rows(given), _rows(made), batch, None, 0
        self._require(self._call("run", *words))
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(context)
        return made[0] if len(made) == 1 else made

    def bind(self, *arrays: np.ndarray) -> Callable[[], list[np.ndarray]]:
        """A function that reads these arrays at every call, and gives the same outputs' arrays.

        It has a context of its own: calls of it do not overlap. Raises as a call does, and
        MXNetError for an array that is not contiguous.
        """
        batch, given = self._checked(arrays)
        for name, array, mine in zip(self.inputs, arrays, given):
            if not np.shares_memory(array, mine) and mine.size:
                raise MXNetError(f"input '{name}' is bound as it lies, and is not contiguous")
        made, context = self._new_outputs(batch), self._new_context()
        run = getattr(self._library, f"{self._prefix}_run")
        words = context.address, _rows(given), _rows(made), batch, None, 0

        def call(kept: tuple[object, ...] = (context, given)) -> list[np.ndarray]:
            self._require(run(*words))
            return made

        return call

    @property
    def dtypes(self) -> list[str]:
        """The inputs' element types, as NumPy calls them."""
        return [fact["dtype"] for fact in self._facts["inputs"]]

    def _new_outputs(self, batch: int) -> list[np.ndarray]:
        return [
            np.empty([batch if n == "N" else n for n in fact["shape"]], fact["dtype"])
            for fact in self._facts["outputs"]
        ]

    def _declare(self) -> None:
        """Say what the functions take. Raises MXNetError for a library that has other ones."""
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        rows = ctypes.POINTER(_Array)
        kinds: dict[str, tuple[Any, list[Any]]] = {
            "abi_version": (number, []),
            "description": (text, []),
            "error_text": (text, [number]),
            "init": (number, [ctypes.POINTER(pointer), text, number]),
            "target": (text, [pointer]),
            "run": (number, [pointer, rows, rows, ctypes.c_int64, pointer, ctypes.c_size_t]),
            "free": (None, [pointer]),
        }
        for name, (result, arguments) in kinds.items():
            try:
                function = getattr(self._library, f"{self._prefix}_{name}")
            except AttributeError:
                raise MXNetError(
                    f"{self._path} has no function {self._prefix}_{name}: give the name that it "
                    "was compiled with, if it is such a network; MXNet's libraries of operators "
                    "are not loaded"
                ) from None
            function.restype, function.argtypes = result, arguments
        if (version := self._call("abi_version")) != _ABI_VERSION:
            raise MXNetError(f"{self._path} has ABI version {version}, not {_ABI_VERSION}")

    def _call(self, name: str, *arguments: object) -> Any:
        return getattr(self._library, f"{self._prefix}_{name}")(*arguments)

    def _require(self, code: int) -> None:
        if code:
            text = self._call("error_text", code).decode()
            raise MXNetError(f"{os.path.basename(self._path)}: {text}")

    def _weights_path(self, given: str | os.PathLike[str] | None) -> bytes | None:
        if given is not None:
            return os.fsencode(given)
        beside = self._facts["weights"]
        return os.fsencode(Path(self._path).with_name(beside)) if beside else None

    def _new_context(self) -> _Context:
        made = ctypes.c_void_p()
        self._require(self._call("init", ctypes.byref(made), self._weights, self._threads))
        assert made.value is not None
        return _Context(made.value, getattr(self._library, f"{self._prefix}_free"))

    def _checked(self, arrays: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]]:
        """The batch, and the inputs as contiguous arrays."""
        facts = self._facts["inputs"]
        if len(arrays) != len(facts):
            raise MXNetError(f"the network has {len(facts)} inputs, got {len(arrays)}")
        has_batch = bool(facts) and facts[0]["shape"][:1] == ["N"]
        batch = int(np.shape(arrays[0])[0]) if has_batch and np.ndim(arrays[0]) else 1
        return batch, [_checked(array, fact, batch) for array, fact in zip(arrays, facts)]


class _Context:
    """A context of the library's, which ends with this."""

    def __init__(self, address: int, free: Any) -> None:
        self.address = address
        self._end = weakref.finalize(self, free, address)


def _checked(array: np.ndarray, fact: dict[str, Any], batch: int) -> np.ndarray:
    name, wanted = fact["name"], tuple(batch if n == "N" else n for n in fact["shape"])
    found = np.asarray(array)
    if found.shape != wanted:
        raise ShapeError(f"input '{name}' has shape {wanted}, got {found.shape}")
    if found.dtype != np.dtype(fact["dtype"]):
        raise DTypeError(f"input '{name}' has type {fact['dtype']}, got {found.dtype}")
    return np.ascontiguousarray(found).reshape(wanted)


def _rows(arrays: Sequence[np.ndarray]) -> Any:
    return (_Array * max(1, len(arrays)))(*[_Array(a.ctypes.data, a.nbytes) for a in arrays])
