"""Compiled libraries in Python, by ``ctypes`` and NumPy, without the compiler.

Input: the path of a shared library of ``hybridjit compile --library``. Output: a callable on
arrays whose results have the bits of the network's.
"""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from collections.abc import Callable, Sequence
from inspect import Parameter
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._core.frames import public, public_methods
from .._core.keywords import by_position
from .._core.safe_open import open_file
from ..errors import DTypeError, MXNetError, ShapeError
from ..formats.atomic import system_errors
from .elf import require_whole

if TYPE_CHECKING:
    from ctypes import _CDataType, _NamedFuncPointer

# Result type of a library's function (None for void), and its argument types.
Prototype: TypeAlias = "tuple[type[_CDataType] | None, list[type[_CDataType]]]"
Fact: TypeAlias = Any  # an element of the library's JSON description

_ABI_VERSION, _SIZED_ABI_VERSION = 1, 2
_MAX_IDLE = 8


class _Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


_PTR, _TEXT, _INT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
_ROWS = ctypes.POINTER(_Array)
# Functions by name: result type and argument types.
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
_SIZES = ctypes.POINTER(ctypes.c_int64)
_SIZED_CALLS: dict[str, Prototype] = {
    "shapes": (_INT, [_PTR, _SIZES, _SIZES, ctypes.POINTER(_SIZE)]),
    "run": (_INT, [_PTR, _ROWS, _ROWS, _SIZES, _PTR, _SIZE]),
}
_TRAINING_FUNCTIONS: dict[str, Prototype] = {
    "step": (_INT, [_PTR, _ROWS, _ROWS, ctypes.c_double, _PTR, _SIZE]),
    "get": (_INT, [_PTR, _TEXT, _PTR, _SIZE]),
    "set": (_INT, [_PTR, _TEXT, _PTR, _SIZE]),
}
_TRAINS = "the library was compiled with --train: call step, or compile a library without --train"


@public
def load(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    threads: int = 1,
    name: str | None = None,
) -> Library:
    """Open a shared library.

    weights     the file of its weights; by default the one next to the library, if it needs one
    threads     number of threads of a call, for libraries compiled with ``--threads``
    name        prefix of its functions; by default the file's name
    A library that was compiled with ``--train`` is a :class:`TrainingLibrary`.
    Raises MXNetError for other files, and for a library that this CPU cannot run.
    """
    opened = _Opened(path, name)
    kind = TrainingLibrary if opened.facts.get("states") else Library
    return kind(opened, weights, threads)


_versions: dict[str, list[tuple[int, int]]] = {}  # device and inode of files loaded, by path


def _own_name(path: str) -> str:
    """The path, written in another way for each file that was loaded from it.

    The system's loader knows a library by this text: it would return the old library for a new
    file, without looking at it.
    """
    status = os.stat(path)
    versions = _versions.setdefault(path, [])
    file = (status.st_dev, status.st_ino)
    if file not in versions:
        versions.append(file)
    folder, name = os.path.split(path)
    return os.path.join(folder, *["."] * versions.index(file), name)


class _Opened:
    """A shared library: its functions, and its JSON description as ``facts``."""

    def __init__(self, path: str | os.PathLike[str], name: str | None) -> None:
        self.path = os.path.abspath(os.fspath(path))
        stem = Path(self.path).name.split(".")[0]
        self.prefix = name or stem
        with system_errors(path), open_file(path) as file:  # raises for a pipe: CDLL would block
            require_whole(self.path, file)
        try:
            self._library = ctypes.CDLL(_own_name(self.path))
        except OSError as error:
            raise MXNetError(f"{path}: {error}") from None
        if name is None and not hasattr(self._library, f"{stem}_abi_version"):
            self.prefix = stem.removeprefix("lib")  # of a file that was renamed for the linker
        self.declare(_FUNCTIONS)
        version = self.call("abi_version")
        if version not in (_ABI_VERSION, _SIZED_ABI_VERSION):
            known = f"{_ABI_VERSION} or {_SIZED_ABI_VERSION}"
            raise MXNetError(f"{self.path} has ABI version {version}, not {known}")
        self.facts: dict[str, Fact] = json.loads(self.call("description"))
        calls = _SIZED_CALLS if self.facts.get("sizes") else _CALLS
        self.declare(_TRAINING_FUNCTIONS if self.facts.get("states") else calls)

    def function(self, name: str) -> _NamedFuncPointer:
        """The function with this name, without its prefix."""
        return getattr(self._library, f"{self.prefix}_{name}")

    def call(self, name: str, *arguments: object) -> Any:
        """Call the function with this name, and return its result."""
        return self.function(name)(*arguments)

    def require(self, code: int) -> None:
        """Raise MXNetError with the library's message for an error code."""
        if code:
            text = self.call("error_text", code).decode()
            raise MXNetError(f"{os.path.basename(self.path)}: {text}")

    def declare(self, kinds: dict[str, Prototype]) -> None:
        """Set the types of functions. Raises MXNetError if the library lacks one of them."""
        for name, (result, arguments) in kinds.items():
            try:
                function = self.function(name)
            except AttributeError:
                raise MXNetError(
                    f"{self.path} has no function {self.prefix}_{name}: pass name= with the name "
                    "given at compilation, if hybridjit wrote this library; MXNet's libraries of "
                    "operators are not supported"
                ) from None
            function.restype, function.argtypes = result, arguments


class Library:
    """A network. Call it with arrays for its inputs, in order or by name. Calls from several
    threads may overlap.

    inputs, outputs     their names, in order
    target              the CPU of the code in use
    """

    @public
    def __init__(
        self, opened: _Opened, weights: str | os.PathLike[str] | None, threads: int
    ) -> None:
        self._opened = opened
        self._facts = opened.facts
        self.inputs: list[str] = [fact["name"] for fact in self._facts["inputs"]]
        self.outputs: list[str] = [fact["name"] for fact in self._facts["outputs"]]
        self._sizes: list[str] = [fact["name"] for fact in self._facts.get("sizes", ())]
        self._weights = self._weights_path(weights)
        self._threads = threads
        self._idle: list[_Context] = [self._new_context()]
        self.target: str = opened.call("target", self._idle[0].address).decode()

    @public
    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> np.ndarray | list[np.ndarray]:
        """The output, or a list of several. Raises ShapeError and DTypeError for arrays of another
        shape or dtype, TypeError for unknown names."""
        if named:
            arrays = tuple(by_position(dict.fromkeys(self.inputs, Parameter.empty), arrays, named))
        sizes, given = self._checked(arrays)
        try:
            context = self._idle.pop()
        except IndexError:
            context = self._new_context()
        made = self._new_outputs(sizes, context)
        words = context.address, _rows(given), _rows(made), sizes, None, 0
        self._opened.require(self._opened.call("run", *words))
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(context)
        return made[0] if len(made) == 1 else made

    @public
    def bind(self, *arrays: np.ndarray) -> Callable[[], list[np.ndarray]]:
        """A function that reads these arrays at every call, and returns the same output arrays.

        It has a private context: its calls must not overlap. Raises as a call does, and
        MXNetError for an array that is not contiguous.
        """
        sizes, given = self._checked(arrays)
        for name, array, mine in zip(self.inputs, arrays, given):
            if not np.shares_memory(array, mine) and mine.size:
                raise MXNetError(f"input '{name}' must be contiguous to be bound without a copy")
        context = self._new_context()
        made = self._new_outputs(sizes, context)
        run, require = self._opened.function("run"), self._opened.require
        words = context.address, _rows(given), _rows(made), sizes, None, 0

        def call(kept: tuple[object, ...] = (context, given)) -> list[np.ndarray]:
            require(run(*words))
            return made

        return call

    @property
    def dtypes(self) -> list[str]:
        """The inputs' element types, as NumPy calls them."""
        return [fact["dtype"] for fact in self._facts["inputs"]]

    def _new_outputs(self, sizes: Any, context: _Context) -> list[np.ndarray]:
        """Arrays for the outputs of a call: ``sizes`` as :meth:`_checked` gives them."""
        facts = self._facts["outputs"]
        shapes = [[sizes if n == "N" else n for n in fact["shape"]] for fact in facts]
        if self._sizes:
            numbers = (ctypes.c_int64 * max(1, sum(map(len, shapes))))()
            self._opened.require(self._opened.call("shapes", context.address, sizes, numbers, None))
            left = iter(numbers)
            shapes = [[next(left) for _ in shape] for shape in shapes]
        return [np.empty(shape, fact["dtype"]) for shape, fact in zip(shapes, facts)]

    def _weights_path(self, given: str | os.PathLike[str] | None) -> bytes | None:
        if given is not None:
            with system_errors(given):
                return os.fsencode(given)
        beside = self._facts["weights"]
        return os.fsencode(Path(self._opened.path).with_name(beside)) if beside else None

    def _new_context(self) -> _Context:
        opened, made = self._opened, ctypes.c_void_p()
        threads = ctypes.c_int(index(self._threads))
        opened.require(opened.call("init", ctypes.byref(made), self._weights, threads))
        assert made.value is not None
        return _Context(made.value, opened.function("free"))

    def _checked(self, arrays: Sequence[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
        """The batch size, or all sizes of a call that gives sizes; and the inputs as contiguous
        arrays.
        """
        facts = self._facts["inputs"]
        if len(arrays) != len(facts):
            raise MXNetError(f"the network has {len(facts)} inputs, got {len(arrays)}")
        if self._sizes:
            named = _named_sizes(arrays, facts)
            given = [_checked(array, fact, named) for array, fact in zip(arrays, facts)]
            numbers = [named[name] for name in self._sizes]
            return (ctypes.c_int64 * len(numbers))(*numbers), given
        has_batch = bool(facts) and facts[0]["shape"][:1] == ["N"]
        batch = int(np.shape(arrays[0])[0]) if has_batch and np.ndim(arrays[0]) else 1
        known = {"N": batch}
        return batch, [_checked(array, fact, known) for array, fact in zip(arrays, facts)]


@public_methods
class TrainingLibrary(Library):
    """A training step with the weights that it trains. One call at a time may use it.

    states      names of its states: weights, moving statistics, states of the optimizer
    """

    def __init__(
        self, opened: _Opened, weights: str | os.PathLike[str] | None, threads: int
    ) -> None:
        super().__init__(opened, weights, threads)
        self._states = {fact["name"]: fact for fact in self._facts["states"]}
        self.states: list[str] = [*self._states]

    def step(self, *arrays: np.ndarray, learning_rate: float) -> np.ndarray | list[np.ndarray]:
        """Train on a batch, and return its loss, or a list of several.

        Raises ShapeError and DTypeError for arrays of another shape or dtype, MXNetError for a
        learning rate that is not finite in float32 and while another thread is in a call.
        """
        _, given = self._checked(arrays)
        made, rate = self._new_outputs(1, self._idle[0]), float(learning_rate)
        words = self._idle[0].address, _rows(given), _rows(made), rate, None, 0
        self._opened.require(self._opened.call("step", *words))
        return made[0] if len(made) == 1 else made

    def seed(self, seed: int) -> None:
        """Set the random generator: the next draws equal those after
        ``hybridjit.random.seed(seed)``.

        Raises ValueError for a seed outside of 64 bits. No effect if the library draws nothing.
        """
        if not 0 <= index(seed) < 1 << 64:
            raise ValueError(f"a seed must be between 0 and 2 ** 64 - 1, got {seed}")
        if "random_state" in self._states:
            self._opened.declare({"seed": (_INT, [_PTR, ctypes.c_uint64])})
            self._opened.require(self._opened.call("seed", self._idle[0].address, seed))

    def get(self, name: str) -> np.ndarray:
        """A copy of the state with this name. Raises MXNetError for an unknown name."""
        fact = self._states.get(name)
        made = np.empty(fact["shape"] if fact else (), fact["dtype"] if fact else np.uint8)
        self._access("get", name, made)
        return made

    def set(self, name: str, array: np.ndarray) -> None:
        """Overwrite a state. Raises ShapeError and DTypeError for an array that does not fit."""
        fact = self._states.get(name)
        given = np.asarray(array)
        if fact is not None:
            given = _checked(given, fact, {}, "state")
        self._access("set", name, given)

    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> np.ndarray | list[np.ndarray]:
        """Raises MXNetError: the library trains."""
        raise MXNetError(_TRAINS)

    def bind(self, *arrays: np.ndarray) -> Callable[[], list[np.ndarray]]:
        """Raises MXNetError: the library trains."""
        raise MXNetError(_TRAINS)

    def _access(self, what: str, name: str, array: np.ndarray) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a state is named by a string, got {type(name).__name__}")
        words = (
            self._idle[0].address,
            name.encode(errors="replace"),
            array.ctypes.data,
            array.nbytes,
        )
        self._opened.require(self._opened.call(what, *words))


class _Context:
    """A context of the library, freed with this object."""

    def __init__(self, address: int, free: Callable[[int], object]) -> None:
        self.address = address
        self._end = weakref.finalize(self, free, address)


def _checked(
    array: np.ndarray, fact: dict[str, Fact], sizes: dict[str, int], what: str = "input"
) -> np.ndarray:
    name, wanted = fact["name"], tuple(sizes.get(n, n) for n in fact["shape"])
    found = np.asarray(array)
    if found.shape != wanted:
        raise ShapeError(f"{what} '{name}' must have shape {wanted}, got {found.shape}")
    if found.dtype != np.dtype(fact["dtype"]):
        raise DTypeError(f"{what} '{name}' must have type {fact['dtype']}, got {found.dtype}")
    return np.require(found, requirements=("C", "A")).reshape(wanted)


def _named_sizes(arrays: Sequence[np.ndarray], facts: Sequence[Fact]) -> dict[str, int]:
    """The sizes of a call by name: each is an axis of an input."""
    found: dict[str, int] = {}
    for array, fact in zip(arrays, facts):
        for size, given in zip(fact["shape"], np.shape(array)):
            if isinstance(size, str):
                found.setdefault(size, given)
    return found


def _rows(arrays: Sequence[np.ndarray]) -> Any:
    return (_Array * max(1, len(arrays)))(*[_Array(a.ctypes.data, a.nbytes) for a in arrays])
