"""States of optimizers as MXNet's pickles, both ways.

In: states by index, maybe with the optimizer; or bytes from anywhere. Out: bytes that MXNet reads;
or states, of which nothing was run but what this module knows: arrays, optimizers and schedulers
of known classes, plain Python values.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import ModelFormatError
from ..formats.mxnet import params
from ..formats.mxnet.pickles import Names, read_pickle
from ..lr_scheduler import FactorScheduler, LRScheduler
from ..nd import NDArray
from .base import Index, Optimizer, State

_PACKAGE = __name__.partition(".")[0]
_ARRAY = ("mxnet.ndarray.ndarray", "NDArray")
_LEVELS, _PARTS = 4, 16  # of tuples in a state: MXNet's have two levels and three parts


class _Pickler(pickle._Pickler):  # the one that Python is written in: names can be changed
    """Writes hybridjit's classes under the names that they have in MXNet."""

    def save_global(self, obj: object, name: str | None = None) -> None:
        """The class ``obj`` by module and name; those of other packages as they are."""
        module, name = _mxnets_name(obj)
        self.save(module)  # type: ignore[attr-defined]
        self.save(name)  # type: ignore[attr-defined]
        self.write(pickle.STACK_GLOBAL)  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    def reducer_override(self, obj: object) -> Any:
        """An array as MXNet pickles it: the record of its array files."""
        if not isinstance(obj, NDArray):
            return NotImplemented
        return NDArray, (None,), {"handle": bytearray(params.dump_record(obj._data))}


def dump_states(states: Mapping[Index, State], optimizer: Optimizer | None) -> bytes:
    """The states, or the pair of states and optimizer."""
    out = io.BytesIO()
    _Pickler(out, 4).dump(states if optimizer is None else (states, optimizer))
    return out.getvalue()


def load_states(data: bytes | bytearray) -> tuple[dict[Index, State], Optimizer | None]:
    """What :func:`dump_states` or MXNet wrote. Raises ModelFormatError for anything else."""
    found = read_pickle(bytes(data), Names(_known, _Builder(len(data)).build))
    optimizer = None
    if isinstance(found, tuple) and len(found) == 2:
        found, optimizer = found
    if not isinstance(found, dict):
        raise ModelFormatError(f"states of an optimizer are a dictionary, got {type(found)}")
    if not isinstance(optimizer, (Optimizer, type(None))):
        raise ModelFormatError(f"an optimizer goes with states, got {type(optimizer)}")
    for index, state in found.items():
        _check(index, state, _LEVELS)
    return found, optimizer


def _check(index: object, state: State, levels: int) -> None:
    """Raises ModelFormatError unless ``state`` is arrays, or few of them in tuples or lists."""
    if isinstance(state, (tuple, list)):
        if not levels or len(state) > _PARTS:
            raise ModelFormatError(
                f"the state of {index} is nested deeper than {_LEVELS} tuples of {_PARTS} parts"
            )
        for part in state:
            _check(index, part, levels - 1)
    elif isinstance(state, NDArray) and state._data is None:
        raise ModelFormatError(f"the state of {index} is an array without values")


def _mxnets_name(obj: Any) -> tuple[str, str]:
    name = obj.__qualname__
    if obj is NDArray:
        return _ARRAY
    module = obj.__module__
    if module.startswith(f"{_PACKAGE}.optimizer.") and not module.endswith(".contrib"):
        return "mxnet.optimizer.optimizer", name
    if module.startswith(f"{_PACKAGE}."):
        module = "mxnet" + module.removeprefix(_PACKAGE)
    return module, name


def _known(module: str, name: str) -> Callable[..., object] | None:
    """The class or function that a pickle may name; None for everything else.

    A name is compared with those of the classes that exist. No module is asked for it: some
    import or run code for names that they do not have yet.
    """
    if (module, name) in _CALLED:
        return _CALLED[module, name]
    if module == "mxnet.optimizer" or module.startswith("mxnet.optimizer."):
        found = Optimizer.opt_registry.get(name.lower())
        return found if found is not None and found.__name__ == name else None
    wanted = (module, name)
    same = [
        kind
        for root in (Optimizer, LRScheduler)
        for kind in _with_subclasses(root)
        if wanted in ((kind.__module__, kind.__qualname__), _mxnets_name(kind))
    ]
    return same[-1] if same else None  # a class that was defined again: the newer one


def _with_subclasses(kind: type) -> Iterator[type]:
    """``kind`` and all classes below it, the oldest first."""
    yield kind
    below: type
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)


class _Builder:
    """Gives what was made its state; arrays take no more bytes than the pickle has.

    Without that a record of many numbers could be named again and again.
    """

    def __init__(self, size: int) -> None:
        self._left = size

    def build(self, target: Any, state: Any) -> None:
        """``state`` is a dictionary of attributes. Raises ModelFormatError for another one."""
        if isinstance(target, np.dtype):
            return  # its byte order and size stand in its name already
        is_attributes = isinstance(state, dict) and all(isinstance(key, str) for key in state)
        if not is_attributes or not isinstance(target, (NDArray, Optimizer, LRScheduler)):
            raise ModelFormatError(f"{type(target).__name__} takes no state {type(state)}")
        if isinstance(target, NDArray):
            target.__setstate__({"handle": self._record(state.get("handle"))})
        elif isinstance(target, (Optimizer, FactorScheduler)):
            target.__setstate__(state)
        else:
            target.__dict__.update(state)

    def _record(self, handle: object) -> bytearray:
        if not isinstance(handle, bytes):
            raise ModelFormatError("an array in a pickle has no values")
        self._left -= len(handle)
        if self._left < 0:
            raise ModelFormatError("the arrays of a pickle take more bytes than it has")
        return bytearray(handle)


def _no_array(handle: None = None) -> NDArray:
    return NDArray(None)  # type: ignore[arg-type]


def _bytes(data: bytes = b"") -> bytes:
    """A bytearray is read, never written: its bytes do."""
    if not isinstance(data, bytes):
        raise ModelFormatError(f"a bytearray is made of bytes, got {type(data)}")
    return data


def _dtype(text: str, *flags: object) -> np.dtype:
    if not isinstance(text, str) or not re.fullmatch("[fiu][1248]|b1", text):
        raise ModelFormatError(f"an element type is a number's, got {text!r}")
    return np.dtype(text)


def _number(dtype: np.dtype, data: bytes) -> np.generic:
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
        raise ModelFormatError("a number of NumPy is a type and its bytes")
    if len(data) != dtype.itemsize:
        raise ModelFormatError(f"a {dtype} has {dtype.itemsize} bytes, got {len(data)}")
    return np.frombuffer(data, dtype)[0]


_CALLED: dict[tuple[str, str], Callable[..., object]] = {
    _ARRAY: _no_array,
    ("builtins", "bytearray"): _bytes,
    ("numpy", "dtype"): _dtype,
    ("numpy.core.multiarray", "scalar"): _number,
    ("numpy._core.multiarray", "scalar"): _number,
}
