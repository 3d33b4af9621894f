"""Arrays that give up their memory while somebody else keeps their values in another order.

A compiled net packs its weights. Large ones need not be there twice: the array is *lent*, and gets
memory of its own again when anybody looks at it. Nobody can tell, except by how much memory there
is: what is lent is seen by no other array, no NumPy array and no other library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..forks import Rank, held_at_fork
from ..types import TensorType, type_of
from ..unwinding import finished, holding

if TYPE_CHECKING:
    from .memory import DenseArray

_lock = held_at_fork(Rank.LENDING)


class Loan(NamedTuple):
    """What an array was, and how its values come back."""

    type: TensorType
    restore: Callable[[], np.ndarray]


@holding(_lock)
def lend(array: DenseArray, restore: Callable[[], np.ndarray], version: int) -> bool:
    """Free the memory of ``array`` until it is looked at; False if somebody else knows it too.

    ``restore`` makes a fresh array with the values that were there at ``version`` of the storage;
    False if it was written since.
    """
    if array._storage.exposed or not _COUNTS_REFERENCES:
        return False
    data = array._data
    try:
        array._loan = Loan(type_of(data), restore)
        # First out of sight, then a look at who else holds it. Whoever writes holds it until the
        # version has advanced: he is seen by one or the other, or comes later and waits.
        del array._data
        is_known = data.base is not None or sys.getrefcount(data) > _ALONE
        if is_known or array._storage.version != version or not data.flags.owndata:
            _keep(array, data)
            return False
        return True
    except BaseException:
        _keep(array, data)
        raise


@finished
def _keep(array: DenseArray, data: np.ndarray) -> None:
    """Let ``array`` have its memory again."""
    array._data = data
    array._loan = None


@holding(_lock)
def give_back(array: DenseArray) -> np.ndarray:
    """The memory of an array that was lent, filled again."""
    loan = array._loan
    if loan is not None:
        _keep(array, loan.restore())
    return array._data


def type_of_array(array: DenseArray) -> TensorType:
    """Shape and dtype, without a look at the values."""
    loan = array._loan
    return type_of(array._data) if loan is None else loan.type


def is_lent(array: DenseArray) -> bool:
    """Whether the values are elsewhere."""
    return array._loan is not None


def _count_alone() -> int:
    """What a reference count says of an array that one variable holds."""
    data = np.empty(1)
    return sys.getrefcount(data)


_ALONE = _count_alone()
_COUNTS_REFERENCES = getattr(sys, "_is_gil_enabled", lambda: True)()
