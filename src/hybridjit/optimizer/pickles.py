"""Optimizer states as pickles in MXNet's format, written and read.

Input: states by index, optionally with the optimizer; or untrusted bytes. Output: bytes that MXNet
reads; or states. Reading executes only functions of this module: it makes arrays, optimizers and
schedulers of known classes, and plain Python values.
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
_LEVELS, _PARTS = 4, 16  # limits of nested tuples in a state; MXNet uses two levels and three parts


class _Pickler(pickle._Pickler):  # pure Python: names can be changed
    """Pickler that writes hybridjit's classes under their names in MXNet."""

    def save_global(self, obj: object, name: str | None = None) -> None:
        """Write the class ``obj`` by module and name; classes of other packages unchanged."""
        module, name = _mxnets_name(obj)
        self.save(module)  # type: ignore[attr-defined]
        self.save(name)  # type: ignore[attr-defined]
        self.write(pickle.STACK_GLOBAL)  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    def reducer_override(self, obj: object) -> Any:
        """Write an array as MXNet pickles it: a record of its array file format."""
        if not isinstance(obj, NDArray):
            return NotImplemented
        return NDArray, (None,), {"handle": bytearray(params.dump_record(obj._data))}


def dump_states(states: Mapping[Index, State], optimizer: Optimizer | None) -> bytes:
    """The states, or the pair of states and optimizer."""
    out = io.BytesIO()
    _Pickler(out, 4).dump(states if optimizer is None else (states, optimizer))
    return out.getvalue()


def load_states(data: bytes | bytearray) -> tuple[dict[Index, State], Optimizer | None]:
    """Read a pickle of :func:`dump_states` or of MXNet. Raises ModelFormatError for other bytes."""
    found = read_pickle(bytes(data), Names(_known, _Builder(len(data)).build))
    optimizer = None
    if isinstance(found, tuple) and len(found) == 2:
        found, optimizer = found
    if not isinstance(found, dict):
        raise ModelFormatError(f"states of an optimizer must be a dictionary, got {type(found)}")
    if not isinstance(optimizer, (Optimizer, type(None))):
        raise ModelFormatError(
            f"the second element of a pair with states must be an optimizer, got {type(optimizer)}"
        )
    for index, state in found.items():
        _check(index, state, _LEVELS)
    return found, optimizer


def _check(index: object, state: State, levels: int) -> None:
    """Raise ModelFormatError unless ``state`` is an array or a small nest of tuples of arrays."""
    if isinstance(state, (tuple, list)):
        if not levels or len(state) > _PARTS:
            raise ModelFormatError(
                f"the state of {index} exceeds {_LEVELS} levels of tuples with {_PARTS} elements"
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
    """The class or function that a pickle may name; None for all others.

    Names are compared with existing classes. No module attribute is read, because some modules
    import or run code for unknown names.
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
    return same[-1] if same else None  # if a class was redefined, the newer one


def _with_subclasses(kind: type) -> Iterator[type]:
    """``kind`` and all its subclasses, the oldest first."""
    yield kind
    below: type
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)


class _Builder:
    """Restores the state of created objects; limits the bytes of arrays to the pickle's size.

    Otherwise a small pickle could refer to a large record repeatedly.
    """

    def __init__(self, size: int) -> None:
        self._left = size

    def build(self, target: Any, state: Any) -> None:
        """Apply ``state``, a dictionary of attributes. Raises ModelFormatError for other types."""
        if isinstance(target, np.dtype):
            return  # its name already has byte order and size
        is_attributes = isinstance(state, dict) and all(isinstance(key, str) for key in state)
        if not is_attributes or not isinstance(target, (NDArray, Optimizer, LRScheduler)):
            raise ModelFormatError(f"{type(target).__name__} has no state of type {type(state)}")
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
    """The bytes themselves for a bytearray: it is only read."""
    if not isinstance(data, bytes):
        raise ModelFormatError(f"a bytearray must be made of bytes, got {type(data)}")
    return data


def _dtype(text: str, *flags: object) -> np.dtype:
    if not isinstance(text, str) or not re.fullmatch("[fiu][1248]|b1", text):
        raise ModelFormatError(f"an element type must be numeric, got {text!r}")
    return np.dtype(text)


def _number(dtype: np.dtype, data: bytes) -> np.generic:
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
        raise ModelFormatError("a NumPy scalar needs a type and bytes")
    if len(data) != dtype.itemsize:
        raise ModelFormatError(f"a {dtype} must have {dtype.itemsize} bytes, got {len(data)}")
    return np.frombuffer(data, dtype)[0]


_CALLED: dict[tuple[str, str], Callable[..., object]] = {
    _ARRAY: _no_array,
    ("builtins", "bytearray"): _bytes,
    ("numpy", "dtype"): _dtype,
    ("numpy.core.multiarray", "scalar"): _number,
    ("numpy._core.multiarray", "scalar"): _number,
}
