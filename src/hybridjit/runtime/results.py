"""Where the outputs of a call go: fresh arrays, the caller's, an input's own, or saved memory.

In: the arrays of a call. Out: an array for each output, or an error before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import DTypeError, MXNetError, ShapeError
from ..ir.plan import Plan
from ..types import shape_text
from .arena import address_of
from .saved import SAVED, Typed

Outs = Sequence["np.ndarray | None"]


class _Place(NamedTuple):
    """An array of a call, what to call it, and whether the call writes to it."""

    start: int
    stop: int
    name: str
    is_written: bool


class Results:
    """Makes and checks the arrays that calls of one plan write to.

    is_plain  whether every output is visible and updates nothing
    """

    def __init__(self, plan: Plan) -> None:
        purpose = plan.graph.purpose
        self.types: list[Typed] = [(v.shape, v.dtype) for v in plan.outputs]
        self.updated = dict(plan.graph.updated)
        self.is_plain = not self.updated and not purpose.saved
        self._visible = len(self.types) - purpose.saved
        self._inputs = [value.name for value in plan.graph.inputs]
        if purpose.saved:
            sizes = (
                v.dtype.itemsize * int(np.prod(v.shape)) for v in plan.outputs[self._visible :]
            )
            SAVED.serve(self, sum(sizes))

    def arrays(self, inputs: Sequence[np.ndarray], outs: Outs | None = None) -> list[np.ndarray]:
        """An array for each output: of ``outs`` where it has one, else as the purpose says.

        Raises MXNetError, ShapeError or DTypeError for an array that the call cannot write to:
        nothing is written then.
        """
        given: Outs = (None,) * len(self.types) if outs is None else outs
        if len(given) != len(self.types):
            raise MXNetError(
                f"outs has one entry for each of {len(self.types)} outputs, got {len(given)}"
            )
        for number, index in self.updated.items():
            name = f"input '{self._inputs[index]}', which output {number} updates,"
            _require_writable(name, inputs[index], self.types[number])
            if given[number] is not None and given[number] is not inputs[index]:
                raise MXNetError(f"{name} is where the output goes: outs[{number}] is None or it")
        found: list[np.ndarray | None] = [*given]
        for number, index in self.updated.items():
            found[number] = inputs[index]
        for number, out in enumerate(given):
            if out is not None:
                _require_writable(f"outs[{number}]", out, self.types[number])
        _require_apart(self._places(inputs, given))
        return self._filled(found)

    def _filled(self, found: list[np.ndarray | None]) -> list[np.ndarray]:
        """The arrays that are there, and new ones."""
        saved = [i for i in range(self._visible, len(found)) if found[i] is None]
        made = dict(zip(saved, SAVED.take([self.types[i] for i in saved]))) if saved else {}
        return [
            made[i] if i in made else np.empty(*self.types[i]) if array is None else array
            for i, array in enumerate(found)
        ]

    def _places(self, inputs: Sequence[np.ndarray], outs: Outs) -> Iterator[_Place]:
        written = set(self.updated.values())
        for index, (name, array) in enumerate(zip(self._inputs, inputs)):
            yield _place(f"input '{name}'", array, index in written)
        for number, out in enumerate(outs):
            if out is not None and number not in self.updated:
                yield _place(f"outs[{number}]", out, True)


def _place(name: str, array: np.ndarray, is_written: bool) -> _Place:
    start = address_of(array)
    return _Place(start, start + array.nbytes, name, is_written)


def _require_writable(name: str, array: np.ndarray, kind: Typed) -> None:
    """Raises MXNetError, ShapeError or DTypeError for an array that kernels cannot write to."""
    shape, dtype = kind
    if not isinstance(array, np.ndarray):
        raise MXNetError(f"{name} is a NumPy array, got {type(array).__name__}")
    if array.shape != shape:
        raise ShapeError(f"{name} has shape {shape_text(shape)}, got {shape_text(array.shape)}")
    if array.dtype != dtype:
        raise DTypeError(f"{name} has type {dtype}, got {array.dtype}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        why = "read-only" if array.flags.c_contiguous else "not C-contiguous"
        raise MXNetError(f"{name} is written by the call, and the array is {why}")


def _require_apart(places: Iterator[_Place]) -> None:
    """Raises MXNetError if an array that is written shares a byte with another."""
    last: dict[bool, _Place] = {}  # of those that are written and of the others, what ends last
    for place in sorted(p for p in places if p.start < p.stop):
        for is_written, other in last.items():
            if (is_written or place.is_written) and place.start < other.stop:
                raise MXNetError(
                    f"what a call writes shares no memory with its other arrays: {other.name} and "
                    f"{place.name} do"
                )
        other = last.get(place.is_written, place)
        last[place.is_written] = max(other, place, key=lambda p: p.stop)
