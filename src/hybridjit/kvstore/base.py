"""What a store is: values by key, added up over devices. Stores of one's own derive from this.

In: a key, the arrays of all devices. Out: their sum in all arrays. A class that is registered is
found by ``mx.kv.create`` under its name in lower case.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from ..nd import NDArray

if TYPE_CHECKING:
    from ..optimizer import Optimizer

_Class = TypeVar("_Class", bound="type[KVStoreBase]")

Value = NDArray | Sequence[NDArray]
# A key, a number or a string, with its array or those of all devices, or lists of each.
Keys: TypeAlias = Any
Values: TypeAlias = Any


class KVStoreBase:
    """Base of stores that a Trainer or a Module can use: a subclass overrides all of it.

    What it does not override raises NotImplementedError, which says what it has to do. Without the
    capability "optimizer" a store only adds up, and is not asked for the methods of optimizers.
    """

    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}
    OPTIMIZER = "optimizer"

    def broadcast(self, key: Keys, value: Values, out: Values, priority: int = 0) -> None:
        """Keep ``value`` under a key, and write it to all arrays of ``out``."""
        raise _undefined(
            type(self),
            "broadcast(key, value, out, priority=0)",
            "keep `value` under `key` and write it to every array of `out`",
        )

    def pushpull(self, key: Keys, value: Values, out: Values = None, priority: int = 0) -> None:
        """Add up ``value``, and write the sum to ``out``, or else to ``value``."""
        raise _undefined(
            type(self),
            "pushpull(key, value, out=None, priority=0)",
            "add up the arrays of `value` and write the sum, or what its optimizer makes of it, to "
            "every array of `out`, or else of `value`",
        )

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update what is kept by this optimizer."""
        raise _undefined(
            type(self), "set_optimizer(optimizer)", "update what it keeps by `optimizer`"
        )

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do this: "optimizer" is to update what it keeps."""
        raise _undefined(
            KVStoreBase,
            "is_capable(capability), a static method,",
            'say whether it can do "optimizer": update what it keeps',
        )

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        raise _undefined(
            type(self),
            "save_optimizer_states(fname, dump_optimizer=False)",
            "write the states of its optimizer to the file, and with dump_optimizer itself",
        )

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        raise _undefined(
            type(self), "load_optimizer_states(fname)", "read what save_optimizer_states wrote"
        )

    @property
    def type(self) -> str:
        """The store's name."""
        raise _undefined(type(self), "type, a property,", "be its name, a string")

    @property
    def rank(self) -> int:
        """This worker's number."""
        raise _undefined(type(self), "rank, a property,", "be the number of this worker, from 0 on")

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        raise _undefined(type(self), "num_workers, a property,", "be how many workers add up")

    @staticmethod
    def register(klass: _Class) -> _Class:
        """Make a store known to ``create`` by its name in lower case."""
        assert isinstance(klass, type)
        name = klass.__name__.lower()
        if name in KVStoreBase.kv_registry:
            old = KVStoreBase.kv_registry[name]
            logging.warning("New kvstore %s is overriding existing kvstore %s", klass, old)
        KVStoreBase.kv_registry[name] = klass
        return klass


@KVStoreBase.register
class TestStore(KVStoreBase):
    """Adds up over the devices of one process, and updates nothing."""

    def broadcast(self, key: Keys, value: Values, out: Values, priority: int = 0) -> None:
        """Write ``value`` to all arrays of ``out``."""
        for array in as_list(out):
            array[:] = value

    def pushpull(self, key: Keys, value: Values, out: Values = None, priority: int = 0) -> None:
        """Write the sum of ``value`` to ``out``, or else to ``value``."""
        total = summed(as_list(value))
        for array in as_list(value if out is None else out):
            array[:] = total

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Only for "optimizer", which it is not. Raises ValueError for another one."""
        require_capability(capability)
        return False

    @property
    def type(self) -> str:
        """Its name."""
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
        f"{store.__name__} does not define {what} of KVStoreBase: it has to {contract}"
    )


def require_capability(capability: str) -> None:
    """Raises ValueError for what no store is asked for."""
    if capability.lower() != KVStoreBase.OPTIMIZER:
        raise ValueError(f"Unknown capability: {capability}")


def as_list(value: Values) -> list[NDArray]:
    """Several arrays as they are, one as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def summed(arrays: Sequence[NDArray]) -> NDArray:
    """The sum over devices, in memory of its own where the first array is."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array.as_in_context(total.context)
    return total
