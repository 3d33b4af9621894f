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
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..errors import DTypeError, MXNetError, ShapeError
from ..formats.atomic import system_errors
from ..keywords import by_position
from ..opening import open_file

if TYPE_CHECKING:
    from ctypes import _CDataType, _NamedFuncPointer

# What a function of a library returns, None for nothing, and what it takes.
Prototype: TypeAlias = "tuple[type[_CDataType] | None, list[type[_CDataType]]]"
Fact: TypeAlias = Any  # a part of the library's description, as JSON has it

_ABI_VERSION = 1
_MAX_IDLE = 8


class _Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


_PTR, _TEXT, _INT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
_ROWS = ctypes.POINTER(_Array)
# Functions by name: what each returns and takes.
_FUNCTIONS: dict[str, Prototype] = {
    "abi_version": (_INT, []),
    "description": (_TEXT, []),
    "error_text": (_TEXT, [_INT]),
    "init": (_INT, [ctypes.POINTER(_PTR), _TEXT, _INT]),
    "target": (_TEXT, [_PTR]),
    "free": (None, [_PTR]),
}
_CALLS: dict[str, Prototype] = {
    "run": (_INT, [_PTR, _ROWS, _ROWS, ctypes.c_int64, _PTR, _SIZE]),
}
_TRAINING_FUNCTIONS: dict[str, Prototype] = {
    "step": (_INT, [_PTR, _ROWS, _ROWS, ctypes.c_double, _PTR, _SIZE]),
    "get": (_INT, [_PTR, _TEXT, _PTR, _SIZE]),
    "set": (_INT, [_PTR, _TEXT, _PTR, _SIZE]),
}
_TRAINS = "the library was compiled with --train: call step, or compile one without"


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
    A library that was compiled with ``--train`` is a :class:`TrainingLibrary`.
    Raises MXNetError for a file that is no such library, or one that this CPU cannot run.
    """
    opened = _Opened(path, name)
    kind = TrainingLibrary if opened.facts.get("states") else Library
    return kind(opened, weights, threads)


class _Opened:
    """A shared library's functions, and what it says of itself as ``facts``."""

    def __init__(self, path: str | os.PathLike[str], name: str | None) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.prefix = name or Path(self.path).name.split(".")[0].removeprefix("lib")
        with system_errors(path), open_file(path):
            pass  # the loader of the system waits for a pipe
        try:
            self._library = ctypes.CDLL(self.path)
        except OSError as error:
            raise MXNetError(f"{path}: {error}") from None
        self.declare(_FUNCTIONS)
        if (version := self.call("abi_version")) != _ABI_VERSION:
            raise MXNetError(f"{self.path} has ABI version {version}, not {_ABI_VERSION}")
        self.facts: dict[str, Fact] = json.loads(self.call("description"))
        self.declare(_TRAINING_FUNCTIONS if self.facts.get("states") else _CALLS)

    def function(self, name: str) -> _NamedFuncPointer:
        """One of its functions."""
        return getattr(self._library, f"{self.prefix}_{name}")

    def call(self, name: str, *arguments: object) -> Any:
        """What one of its functions returns."""
        return self.function(name)(*arguments)

    def require(self, code: int) -> None:
        """Raises MXNetError for an error code, with its text."""
        if code:
            text = self.call("error_text", code).decode()
            raise MXNetError(f"{os.path.basename(self.path)}: {text}")

    def declare(self, kinds: dict[str, Prototype]) -> None:
        """Say what the functions take. Raises MXNetError for a library that has other ones."""
        for name, (result, arguments) in kinds.items():
            try:
                function = self.function(name)
            except AttributeError:
                raise MXNetError(
                    f"{self.path} has no function {self.prefix}_{name}: give the name that it "
                    "was compiled with, if it is such a network; MXNet's libraries of operators "
                    "are not loaded"
                ) from None
            function.restype, function.argtypes = result, arguments


class Library:
    """A network. Call it with its inputs' arrays, in order or by name; calls from several threads
    may overlap.

    inputs, outputs  their names, in order
    target           the CPU that the code which runs is for
    """

    def __init__(
        self, opened: _Opened, weights: str | os.PathLike[str] | None, threads: int
    ) -> None:
        self._opened = opened
        self._facts = opened.facts
        self.inputs: list[str] = [fact["name"] for fact in self._facts["inputs"]]
        self.outputs: list[str] = [fact["name"] for fact in self._facts["outputs"]]
        self._weights = self._weights_path(weights)
        self._threads = threads
        self._idle: list[_Context] = [self._new_context()]
        self.target: str = opened.call("target", self._idle[0].address).decode()

    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> np.ndarray | list[np.ndarray]:
        """The output, or a list of several. Raises ShapeError and DTypeError for other arrays,
        TypeError for names that are no input's."""
        if named:
            arrays = tuple(by_position(dict.fromkeys(self.inputs, Parameter.empty), arrays, named))
        batch, given = self._checked(arrays)
        made = self._new_outputs(batch)
        try:
            context = self._idle.pop()
        except IndexError:
            context = self._new_context()
        words = context.address, _rows(given), _rows(made), batch, None, 0
        self._opened.require(self._opened.call("run", *words))
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
        run, require = self._opened.function("run"), self._opened.require
        words = context.address, _rows(given), _rows(made), batch, None, 0

        def call(kept: tuple[object, ...] = (context, given)) -> list[np.ndarray]:
            require(run(*words))
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

    def _weights_path(self, given: str | os.PathLike[str] | None) -> bytes | None:
        if given is not None:
            return os.fsencode(given)
        beside = self._facts["weights"]
        return os.fsencode(Path(self._opened.path).with_name(beside)) if beside else None

    def _new_context(self) -> _Context:
        opened, made = self._opened, ctypes.c_void_p()
        opened.require(opened.call("init", ctypes.byref(made), self._weights, self._threads))
        assert made.value is not None
        return _Context(made.value, opened.function("free"))

    def _checked(self, arrays: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]]:
        """The batch, and the inputs as contiguous arrays."""
        facts = self._facts["inputs"]
        if len(arrays) != len(facts):
            raise MXNetError(f"the network has {len(facts)} inputs, got {len(arrays)}")
        has_batch = bool(facts) and facts[0]["shape"][:1] == ["N"]
        batch = int(np.shape(arrays[0])[0]) if has_batch and np.ndim(arrays[0]) else 1
        return batch, [_checked(array, fact, batch) for array, fact in zip(arrays, facts)]


class TrainingLibrary(Library):
    """A step of training, with the weights that it trains. One call at a time may use it.

    states  names of what is learned: weights, moving statistics, the optimizer's states
    """

    def __init__(
        self, opened: _Opened, weights: str | os.PathLike[str] | None, threads: int
    ) -> None:
        super().__init__(opened, weights, threads)
        self._states = {fact["name"]: fact for fact in self._facts["states"]}
        self.states: list[str] = [*self._states]

    def step(self, *arrays: np.ndarray, learning_rate: float) -> np.ndarray | list[np.ndarray]:
        """The loss of a batch, or a list of several, after what is learned followed it.

        Raises ShapeError and DTypeError for other arrays than the library's, MXNetError for a rate
        that is not finite and while another thread is in a call.
        """
        _, given = self._checked(arrays)
        made, rate = self._new_outputs(1), float(learning_rate)
        words = self._idle[0].address, _rows(given), _rows(made), rate, None, 0
        self._opened.require(self._opened.call("step", *words))
        return made[0] if len(made) == 1 else made

    def seed(self, seed: int) -> None:
        """Let what is drawn from now on be what follows ``hybridjit.random.seed(seed)``.

        Raises ValueError for a number of other than 64 bits; a library that draws nothing takes
        any.
        """
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"a seed is between 0 and 2 ** 64 - 1, got {seed}")
        if "random_state" in self._states:
            self._opened.declare({"seed": (_INT, [_PTR, ctypes.c_uint64])})
            self._opened.require(self._opened.call("seed", self._idle[0].address, seed))

    def get(self, name: str) -> np.ndarray:
        """A copy of what is learned under this name. Raises MXNetError for a name of nothing."""
        fact = self._states.get(name)
        made = np.empty(fact["shape"] if fact else (), fact["dtype"] if fact else np.uint8)
        self._access("get", name, made)
        return made

    def set(self, name: str, array: np.ndarray) -> None:
        """Go on from this array. Raises ShapeError and DTypeError for one that does not fit."""
        fact = self._states.get(name)
        given = np.asarray(array)
        if fact is not None:
            given = _checked(given, fact, 1, "state")
        self._access("set", name, given)

    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> np.ndarray | list[np.ndarray]:
        """Raises MXNetError: the library trains."""
        raise MXNetError(_TRAINS)

    def bind(self, *arrays: np.ndarray) -> Callable[[], list[np.ndarray]]:
        """Raises MXNetError: the library trains."""
        raise MXNetError(_TRAINS)

    def _access(self, what: str, name: str, array: np.ndarray) -> None:
        words = self._idle[0].address, name.encode(), array.ctypes.data, array.nbytes
        self._opened.require(self._opened.call(what, *words))


class _Context:
    """A context of the library's, which ends with this."""

    def __init__(self, address: int, free: Callable[[int], object]) -> None:
        self.address = address
        self._end = weakref.finalize(self, free, address)


def _checked(
    array: np.ndarray, fact: dict[str, Fact], batch: int, what: str = "input"
) -> np.ndarray:
    name, wanted = fact["name"], tuple(batch if n == "N" else n for n in fact["shape"])
    found = np.asarray(array)
    if found.shape != wanted:
        raise ShapeError(f"{what} '{name}' has shape {wanted}, got {found.shape}")
    if found.dtype != np.dtype(fact["dtype"]):
        raise DTypeError(f"{what} '{name}' has type {fact['dtype']}, got {found.dtype}")
    return np.ascontiguousarray(found).reshape(wanted)


def _rows(arrays: Sequence[np.ndarray]) -> Any:
    return (_Array * max(1, len(arrays)))(*[_Array(a.ctypes.data, a.nbytes) for a in arrays])
