"""An image: the kernel calls of a plan as data, with addresses relative to symbolic bases.

Input: the calls that ``codegen`` chose. Output: rows of integers, and relocations: the slots that
hold addresses once memory is allocated. The runtime fills in the addresses of the process; a
library that is compiled ahead of time would fill in those of its data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np

from .._core.frozen import dataclass

# (packed, rows, size): these rows of the weight, in whole blocks, each with ``size`` elements.
Unpack = Callable[[np.ndarray, slice, int], np.ndarray]


class Packing(Protocol):
    """The packed layout of a weight that a kernel reads, as frozen data.

    rows       number of rows of the weight that are packed as a block, 0 if rows are mixed
    unpacking  the function that restores the weight, every bit of it; None if this is impossible
    """

    @property
    def rows(self) -> int: ...

    @property
    def unpacking(self) -> Unpack | None: ...

    def size(self, weight: np.ndarray) -> int:
        """The number of elements of the packed weight."""


# (packing, weight, out): write the packed weight to ``out``.
Pack = Callable[..., None]


@dataclass(frozen=True)
class Packed:
    """Parameter ``index`` of the run graph, packed for a kernel as elements of type ``element``.

    ``index`` None stands for ``size`` zeros: the bias of a layer that has none.
    """

    index: int | None
    packing: Packing
    size: int = 0
    element: str = "float32"


class Base(Enum):
    """The base of an address; ``number`` in a :class:`Relocation` distinguishes several."""

    ARENA = "the arena"
    WEIGHT = "parameter ``number`` of the run graph, as it is"
    PACKED = "entry ``number`` of the image's packed weights"
    SCRATCH = "working memory, a part for each thread"
    SHARED = "working memory of all threads"
    FLAG = "the flag"


class Relocation(NamedTuple):
    """Slot ``slot`` holds the address ``offset`` bytes after a base."""

    slot: int
    base: Base
    number: int
    offset: int


# A slot, the number of an array of the call, an offset in bytes. Plain tuples: every call iterates
# over them.
Patch = tuple[int, int, int]


class KernelCall(NamedTuple):
    """A kernel by name, its first slot, and ``unfenced``: up to this number of threads, each
    continues with the next call without waiting for the others.
    """

    kernel: str
    slot: int
    unfenced: int = 0


class Tables(NamedTuple):
    """The integers of an image as arrays, from which an instance is made without a loop in Python.

    values   for each slot its value, or the offset to add to an address
    bases    the bases of addresses that are constant for an instance; ``of_base`` has for each slot
             the number of its base, counted from 1, and 0 for a plain value
    places   for each slot that a call fills: the number of an array (inputs before outputs), the
             slot, and the offset to add to the array's address
    kernels  names of kernels; ``rows`` has for each call the number of its kernel, its first slot
             and ``unfenced``
    """

    values: np.ndarray
    of_base: np.ndarray
    bases: tuple[tuple[Base, int], ...]
    places: np.ndarray
    kernels: tuple[str, ...]
    rows: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for a in (self.values, self.of_base, self.places, self.rows))

    def slots(self, addresses: np.ndarray) -> np.ndarray:
        """The arguments of all calls, with the addresses of the bases, counted from 1."""
        slots: np.ndarray = self.values + addresses[self.of_base]
        return slots

    def steps(self, addresses: Mapping[str, int], base: int) -> np.ndarray:
        """A row for each call: addresses of its kernel and its arguments, and ``unfenced``."""
        known = np.array([*map(addresses.__getitem__, self.kernels)], np.int64)
        steps: np.ndarray = self.rows.copy()
        steps[:, 0] = known[self.rows[:, 0]]
        steps[:, 1] = base + 8 * self.rows[:, 1]
        return steps


@dataclass(frozen=True)
class Image:
    """The arguments with which a plan's kernels are called.

    slots        arguments of all calls, one after the other; 0 for an address
    relocations  addresses that are constant for an instance
    inputs, outputs  addresses that change with every call: patches by the call's arrays
    packed       the packed weights, each once
    calls        every kernel call in order; ``counts`` has the number of calls of each step, 0 for
                 a host step
    flagged      the steps that may raise the flag
    scratch_bytes, shared_bytes  scratch memory for each thread, and for all of them together
    work         approximate number of multiplications of all calls
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

    def tables(self, inputs: int) -> Tables:
        """The image's integers as arrays, for a plan with ``inputs`` inputs."""
        values = np.array(self.slots, np.int64)
        of_base = np.zeros(len(self.slots), np.intp)
        bases: dict[tuple[Base, int], int] = {}
        for slot, base, number, offset in self.relocations:
            values[slot] = offset
            of_base[slot] = 1 + bases.setdefault((base, number), len(bases))
        places = [(number, slot, offset) for slot, number, offset in self.inputs]
        places += [(inputs + number, slot, offset) for slot, number, offset in self.outputs]
        kernels: dict[str, int] = {}
        rows = [
            (kernels.setdefault(c.kernel, len(kernels)), c.slot, c.unfenced) for c in self.calls
        ]
        return Tables(
            values,
            of_base,
            tuple(bases),
            np.array(places, np.int64).reshape(-1, 3),
            tuple(kernels),
            np.array(rows, np.int64).reshape(-1, 3),
        )
