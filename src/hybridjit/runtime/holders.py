"""Objects that hold arrays of training from call to call: gradients, and states of optimizers.

Input: holders, registered as long as they live. Output: the total bytes of their arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from .._core.live_set import LiveSet
from .arena import address_of


class Holder(Protocol):
    """An object that holds arrays."""

    def _held(self) -> Iterable[np.ndarray]:
        """The arrays that it holds now."""


GRADIENTS: LiveSet[Holder] = LiveSet()
STATES: LiveSet[Holder] = LiveSet()


def held_bytes(holders: Iterable[Holder]) -> int:
    """The bytes of all arrays held, each memory once even if several hold it."""
    found: dict[int, int] = {}
    for holder in holders:
        for array in holder._held():
            address = address_of(array)
            found[address] = max(array.nbytes, found.get(address, 0))
    return sum(found.values())
