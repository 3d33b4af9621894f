"""An image: a plan's kernel calls as data, linked to everything but addresses.

In: what ``codegen`` chose. Out: rows of numbers, and a list of those that are addresses once there
is memory. The runtime puts a process's own addresses in; a library that is compiled ahead of time
would put in those of its data.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np

from ..records import dataclass

# (packed, rows, size): these rows of the weight, of whole blocks, ``size`` elements in each.
Unpack = Callable[[np.ndarray, slice, int], np.ndarray]


class Packing(Protocol):
    """How a kernel wants a weight: frozen data.

    rows       how many rows of the weight are packed as a block, 0 where the rows are mixed
    unpacking  what gives the weight back, every bit of it; None where nothing does
    """

    @property
    def rows(self) -> int: ...

    @property
    def unpacking(self) -> Unpack | None: ...

    def size(self, weight: np.ndarray) -> int:
        """How many elements the packed weight has."""


# (packing, weight, out): write the packed weight to ``out``.
Pack = Callable[..., None]


@dataclass(frozen=True)
class Packed:
    """Parameter ``index`` of the run graph, packed for a kernel as elements of type ``element``.

    ``index`` None stands for ``size`` zeros: the bias of a layer without one.
    """

    index: int | None
    packing: Packing
    size: int = 0
    element: str = "float32"


class Base(Enum):
    """What an address counts from; ``number`` in a :class:`Relocation` tells which of several."""

    ARENA = "the arena"
    WEIGHT = "parameter ``number`` of the run graph, as it is"
    PACKED = "entry ``number`` of the image's packed weights"
    SCRATCH = "working memory, a part for each thread"
    SHARED = "working memory of all threads"
    FLAG = "the flag"


class Relocation(NamedTuple):
    """Slot ``slot`` holds the address ``offset`` bytes behind a base."""

    slot: int
    base: Base
    number: int
    offset: int


# A slot, the number of an array of the call, an offset in bytes. Plain tuples: every call goes
# through them.
Patch = tuple[int, int, int]


class KernelCall(NamedTuple):
    """A kernel by name, its first slot, and of how many threads each goes on to the next call
    without waiting for the others: of so many or fewer.
    """

    kernel: str
    slot: int
    unfenced: int = 0


@dataclass(frozen=True)
class Image:
    """What a plan's kernels are called with.

    slots        arguments of all calls, one after the other; 0 where an address belongs
    relocations  addresses that stay for an instance
    inputs, outputs  addresses that change with every call: patches by the call's arrays
    packed       the packed weights, each once
    calls        every kernel call in order; ``counts`` says how many each step has, 0 for one that
                 the host runs
    flagged      the steps that may raise the flag
    scratch_bytes, shared_bytes  working memory for each thread, and for all of them
    work         multiplications of all calls, about
    """

    slots: tuple[int, ...]
    relocations: tuple[Relocation, ...]
    inputs: tuple[Patch, ...]
    outputs: tuple[Patch, ...]
    packed: tuple[Packed, ...]
    calls: tuple[KernelCall, ...]
    counts: tuple[int, ...]
    flagged: frozenset[int]
    scratch_bytes: int
    shared_bytes: int
    work: int
