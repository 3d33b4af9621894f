"""Base class of stores: values by key, added up over devices.

Input: a key and the arrays of all devices. Output: their sum, in all arrays. ``mx.kv.create`` finds
registered subclasses by their name in lower case.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from .._core.frames import public_methods
from ..nd import NDArray

if TYPE_CHECKING:
    from ..optimizer import Optimizer

_Class = TypeVar("_Class", bound="type[KVStoreBase]")

Value = NDArray | Sequence[NDArray]
# A key (integer or string) with one array or those of all devices; or lists of keys and arrays.
Keys: TypeAlias = Any
Values: TypeAlias = Any


@public_methods
class KVStoreBase:
    """Base of stores for a Trainer or a Module: a subclass overrides all methods and properties.

    Those not overridden raise NotImplementedError with a description of the expected behaviour. A
    store without the capability "optimizer" only adds up; its optimizer methods are never called.
    """

    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}
    OPTIMIZER = "optimizer"

    def broadcast(self, key: Keys, value: Values, out: Values, priority: int = 0) -> None:
        """Store ``value`` under a key, and write it to all arrays of ``out``."""
        raise _undefined(
            type(self),
            "broadcast(key, value, out, priority=0)",
            "store `value` under `key` and write it to every array of `out`",
        )

    def pushpull(self, key: Keys, value: Values, out: Values = None, priority: int = 0) -> None:
        """Add up ``value``, and write the sum to ``out``, by default to ``value``."""
        raise _undefined(
            type(self),
            "pushpull(key, value, out=None, priority=0)",
            "add up the arrays of `value` and write the sum, or the result of its optimizer, to "
            "every array of `out`, by default of `value`",
        )

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored values with this optimizer."""
        raise _undefined(
            type(self), "set_optimizer(optimizer)", "update stored values with `optimizer`"
        )

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store has a capability; "optimizer" is to update stored values."""
        raise _undefined(
            KVStoreBase,
            "is_capable(capability), a static method,",
            'return whether it has the capability "optimizer", to update stored values',
        )

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        raise _undefined(
            type(self),
            "save_optimizer_states(fname, dump_optimizer=False)",
            "write the states of its optimizer, with dump_optimizer also the optimizer, to the "
            "file",
        )

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        raise _undefined(
            type(self), "load_optimizer_states(fname)", "read a file of save_optimizer_states"
        )

    @property
    def type(self) -> str:
        """The store's name."""
        raise _undefined(type(self), "type, a property,", "return its name, a string")

    @property
    def rank(self) -> int:
        """This worker's number."""
        raise _undefined(
            type(self), "rank, a property,", "return the number of this worker, counted from 0"
        )

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        raise _undefined(type(self), "num_workers, a property,", "return the number of workers")

    @staticmethod
    def register(klass: _Class) -> _Class:
        """Register a store class for ``create`` under its name in lower case."""
        assert isinstance(klass, type)
        name = klass.__name__.lower()
        if name in KVStoreBase.kv_registry:
            old = KVStoreBase.kv_registry[name]
            logging.warning("New kvstore %s is overriding existing kvstore %s", klass, old)
        KVStoreBase.kv_registry[name] = klass
        return klass


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store that adds up over the devices of one process, without optimizer."""

    def broadcast(self, key: Keys, value: Values, out: Values, priority: int = 0) -> None:
        """Write ``value`` to all arrays of ``out``."""
        for array in as_list(out):
            array[:] = value

    def pushpull(self, key: Keys, value: Values, out: Values = None, priority: int = 0) -> None:
        """Write the sum of ``value`` to ``out``, by default to ``value``."""
        total = summed(as_list(value))
        for array in as_list(value if out is None else out):
            array[:] = total

    @staticmethod
    def is_capable(capability: str) -> bool:
        """False for "optimizer". Raises ValueError for another capability."""
        require_capability(capability)
        return False

    @property
    def type(self) -> str:
        """The store's name."""
        return "teststore"

    @property
    def rank(self) -> int:
        """0: there is one worker."""
        return 0

    @property
    def num_workers(self) -> int:
        """1."""
        return 1


def _undefined(store: type, what: str, contract: str) -> NotImplementedError:
    return NotImplementedError(
        f"{store.__name__} does not define {what} of KVStoreBase: it must {contract}"
    )


def require_capability(capability: str) -> None:
    """Raise ValueError for an unknown capability."""
    if capability.lower() != KVStoreBase.OPTIMIZER:
        raise ValueError(f"Unknown capability: {capability}")


def as_list(value: Values) -> list[NDArray]:
    """The list of arrays; a list of one for a single array."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def summed(arrays: Sequence[NDArray]) -> NDArray:
    """The sum over devices, in new memory, on the device of the first array."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array.as_in_context(total.context)
    return total
