"""Arrays for the outputs of a call: fresh ones, the caller's, an updated input's, or saved memory.

Input: the arrays of a call. Output: an array for each output, or an error before any write.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .._core.types import shape_text
from ..errors import DTypeError, MXNetError, ShapeError
from ..ir.plan import Plan
from ..ir.sized import graph_of, output_types_of
from .arena import address_of
from .saved import SAVED, Layout, Typed

Outs = Sequence["np.ndarray | None"]


# An array of a call: its first byte and the one after its last, its number (inputs before outputs),
# and whether the call writes it. A plain tuple: each call makes one for each array.
_Place = tuple[int, int, int, bool]


class Spans(NamedTuple):
    """The bytes of arrays that do not overlap, in the order of their addresses."""

    starts: list[int]
    stops: list[int]

    def are_apart_from(self, array: np.ndarray) -> bool:
        """Whether an array contains none of these bytes."""
        start = address_of(array)
        before = bisect_left(self.starts, start + array.nbytes) - 1
        return before < 0 or self.stops[before] <= start


def spans(bounds: Iterable[tuple[int, int]]) -> Spans:
    """The spans that begin and end at these addresses."""
    found = sorted((start, stop) for start, stop in bounds if stop > start)
    return Spans([start for start, _ in found], [stop for _, stop in found])


class _Fitting(NamedTuple):
    """The arrays of the latest call whose outputs passed the checks.

    inputs, outs  references to each of them; they return None for arrays that are gone or absent
    written       the bytes of outs
    """

    inputs: list[Callable[[], object]]
    outs: list[Callable[[], object]]
    written: Spans

    def serves(self, inputs: Sequence[np.ndarray], outs: Outs) -> bool:
        """Whether these outs are the same, and the inputs are the same or do not overlap outs."""
        for ref, out in zip(self.outs, outs):
            if ref() is not out or out is not None and not out.flags.writeable:
                return False
        apart = self.written.are_apart_from
        return all(ref() is x or apart(x) for ref, x in zip(self.inputs, inputs))


class Results:
    """Makes and checks the arrays that calls of one plan write.

    is_plain  whether every output is visible and updates nothing
    """

    def __init__(self, plan: Plan) -> None:
        graph = graph_of(plan)
        purpose = graph.purpose
        self.types: list[Typed] = output_types_of(plan)
        self.updated = dict(graph.updated)
        self.is_plain = not self.updated and not purpose.saved
        self._visible = len(self.types) - purpose.saved
        self._inputs = [value.name for value in graph.inputs]
        self._saved = Layout(self.types[self._visible :])
        self._fitting: _Fitting | None = None  # of the latest call that was checked
        if purpose.saved:
            SAVED.serve(self, self._saved.nbytes)

    def arrays(self, inputs: Sequence[np.ndarray], outs: Outs | None = None) -> list[np.ndarray]:
        """An array for each output: from ``outs`` if given there, else as the purpose says.

        Raises MXNetError, ShapeError or DTypeError for an array that the call cannot write, before
        any write.
        """
        if outs is None and not self.updated:
            return self._filled([None] * len(self.types))
        given: Outs = (None,) * len(self.types) if outs is None else outs
        if len(given) != len(self.types):
            raise MXNetError(
                f"outs has one entry for each of {len(self.types)} outputs, got {len(given)}"
            )
        if self._fitting is not None and self._fitting.serves(inputs, given):
            return self._filled([*given])
        for number, index in self.updated.items():
            name = f"input '{self._inputs[index]}', which output {number} updates,"
            _require_writable(name, inputs[index], self.types[number])
            if given[number] is not None and given[number] is not inputs[index]:
                raise MXNetError(f"{name} receives the output: outs[{number}] must be None or it")
        found: list[np.ndarray | None] = [*given]
        for number, index in self.updated.items():
            found[number] = inputs[index]
        for number, out in enumerate(given):
            if out is not None:
                _require_writable(f"outs[{number}]", out, self.types[number])
        places = self._places(inputs, given)
        self._require_apart(places)
        if not self.updated:
            self._fitting = _fitting(inputs, given, places)
        return self._filled(found)

    def _filled(self, found: list[np.ndarray | None]) -> list[np.ndarray]:
        """The given arrays, completed by new ones."""
        saved = [i for i in range(self._visible, len(found)) if found[i] is None]
        if saved:
            are_all = len(saved) == len(found) - self._visible
            layout = self._saved if are_all else Layout([self.types[i] for i in saved])
            for i, array in zip(saved, SAVED.take(layout)):
                found[i] = array
        return [
            np.empty(*self.types[i]) if array is None else array for i, array in enumerate(found)
        ]

    def _places(self, inputs: Sequence[np.ndarray], outs: Outs) -> list[_Place]:
        written = set(self.updated.values())
        places = [_place(array, i, i in written) for i, array in enumerate(inputs)]
        for number, out in enumerate(outs, len(inputs)):
            if out is not None and number - len(inputs) not in self.updated:
                places.append(_place(out, number, True))
        return places

    def _require_apart(self, places: Iterable[_Place]) -> None:
        """Raise MXNetError if an array that is written shares a byte with another."""
        read_end = written_end = 0  # the ends of the arrays seen so far, and their numbers
        last_read = last_written = -1
        for start, stop, number, is_written in sorted(places):
            if start == stop:
                continue
            if start < written_end:
                self._refuse(last_written, number)
            if is_written and start < read_end:
                self._refuse(last_read, number)
            if is_written and stop > written_end:
                written_end, last_written = stop, number
            elif not is_written and stop > read_end:
                read_end, last_read = stop, number

    def _refuse(self, one: int, other: int) -> None:
        raise MXNetError(
            "an array that a call writes must not share memory with its other arrays: "
            f"{self._name(one)} and {self._name(other)} do"
        )

    def _name(self, number: int) -> str:
        count = len(self._inputs)
        return f"input '{self._inputs[number]}'" if number < count else f"outs[{number - count}]"


def nothing() -> object:
    """A reference to no array."""
    return None


def _fitting(inputs: Sequence[np.ndarray], outs: Outs, places: Iterable[_Place]) -> _Fitting:
    return _Fitting(
        [weakref.ref(array) for array in inputs],
        [nothing if out is None else weakref.ref(out) for out in outs],
        spans((start, stop) for start, stop, _, is_written in places if is_written),
    )


def _place(array: np.ndarray, number: int, is_written: bool) -> _Place:
    start = address_of(array)
    return start, start + array.nbytes, number, is_written


def _require_writable(name: str, array: np.ndarray, kind: Typed) -> None:
    """Raise MXNetError, ShapeError or DTypeError for an array that kernels cannot write."""
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
