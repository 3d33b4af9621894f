"""Templates: plans and images with symbolic sizes, and their integers for the sizes of a call.

Input: a plan and an image whose integers may be :class:`.._core.symbolic.Size`. Output: the image
with plain integers. One function, generated from the symbolic expressions, computes them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from .._core.frozen import dataclass, replace
from .._core.lazy import Late
from .._core.symbolic import Scope, Size, values_function
from .._core.types import TensorType, product, require_possible
from ..errors import MXNetError
from .argument_rows import FIRST_NUMBER, ONE, ZERO, rows_of
from .plan import Plan
from .plan_image import Image, KernelCall, Packed, Tables
from .sized import SizedBind, SizedPlan, Types

if TYPE_CHECKING:
    from . import prologue
else:
    prologue = Late(".prologue", __package__)


@dataclass(frozen=True)
class Repeat:
    """A kernel call that is repeated for each integer from ``low`` to below ``high``; the symbol
    ``step`` represents that integer in its arguments.
    """

    step: Size
    low: int
    high: Size


class SizedImage:
    """The image of a template for the sizes of a call. Its integers are in :class:`Tables`."""

    def __init__(
        self, packed: tuple[Packed, ...], flagged: frozenset[int], made: Tables,
        counts: tuple[int, ...], numbers: Sequence[int],
    ) -> None:  # fmt: skip
        self._tables = made
        self.packed, self.flagged, self.counts = packed, flagged, counts
        self.scratch_bytes, self.shared_bytes, self.work = numbers

    def tables(self, inputs: int) -> Tables:
        """The image's integers as arrays."""
        return self._tables

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        names = self._tables.kernels
        return tuple(KernelCall(names[kernel], *row) for kernel, *row in self._tables.rows.tolist())


def slot_columns(image: Image, repeats: Mapping[int, Repeat]) -> tuple[list[Any], list[Any]]:
    """The integer or offset of each slot, and its increment per round of a repeated call."""
    first: list[Any] = [*image.slots]
    for relocation in image.relocations:
        first[relocation.slot] = relocation.offset
    for slot, _, offset in (*image.inputs, *image.outputs):
        first[slot] = offset
    added: list[Any] = [0] * len(first)
    ends = [*(call.slot for call in image.calls[1:]), len(first)]
    for number, repeat in repeats.items():
        for slot in range(image.calls[number].slot, ends[number]):
            if isinstance(first[slot], Size):
                first[slot], added[slot] = first[slot].along(repeat.step, repeat.low)
    return first, added


class Sized(NamedTuple):
    """The integers of a template for given sizes.

    types    shapes and dtypes of the outputs; ``output_bytes`` is their total size
    arena    bytes of the arena
    working  bytes of scratch memory per thread and of all threads, and number of multiplications
    numbers  integers for the template's ``rows``, see :mod:`.argument_rows`
    rounds   number of rounds of each repeated call
    """

    types: Types
    output_bytes: int
    arena: int
    working: Sequence[int]
    numbers: np.ndarray
    rounds: tuple[int, ...]


class Template:
    """A plan and its image with symbolic integers, which are evaluated for given sizes.

    parameters  names of the symbols, in the order of :meth:`at`'s arguments
    repeats     repetitions of kernel calls, by the number of the call in the image
    last        value of ``unfenced`` in the last round of each repeated call
    bind        the bind graph, which the templates of a plan share
    """

    def __init__(
        self, scope: Scope, plan: Plan, image: Image,
        repeats: Mapping[int, Repeat], last: Mapping[int, int], bind: SizedBind,
    ) -> None:  # fmt: skip
        self.plan, self.image, self._bind = plan, image, bind
        self.parameters = tuple(scope.symbols)
        first, added = slot_columns(image, repeats)
        plain = [0 if isinstance(n, Size) else n for n in first]
        self._tables = _without_symbols(image, plain).tables(len(plan.graph.inputs))
        distinct = _Distinct(FIRST_NUMBER)
        self._first, self._added = distinct.places(first), distinct.places(added)
        self._moves = not set(self._tables.places[:, 1].tolist()).isdisjoint(
            self._first[0].tolist()
        )
        self._add = np.array([0 if isinstance(n, Size) else n for n in added], np.int64)
        shapes = [view.shape for view in plan.outputs]
        self._dtypes = [view.dtype for view in plan.outputs]
        working = [image.scratch_bytes, image.shared_bytes, image.work]
        bounds = [n for r in repeats.values() for n in (r.low, r.high)]
        start = FIRST_NUMBER + len(distinct.sizes)
        ends = {n: (start + 2 * i, start + 2 * i + 1) for i, n in enumerate(repeats)}
        checked = _Distinct.of(size for shape in shapes for size in shape)
        nbytes: list[Any] = [product(v.shape) * v.dtype.itemsize for v in plan.outputs]
        self._columns: list[list[Any]] = [
            [sum(nbytes), plan.arena_bytes, *_Distinct.of(nbytes)], [1, *checked], working, shapes,
            [ZERO, ONE, *distinct.sizes, *bounds],
        ]  # fmt: skip
        self._scope = scope
        self._evaluate = values_function(scope, self.parameters, self._columns)
        self.is_native = False
        self._prologue: prologue.Prologue | None = None
        self._ends = -2 * len(repeats)
        self.rows = rows_of(self._tables, self._first, (self._add, self._added), ends, last)
        self.bases = self._tables.bases
        self.pattern: object = None  # set by the runtime: how calls at further sizes run
        self._layout = _Layout(self._tables, repeats, last) if repeats else None
        self._steps = [n for n, count in enumerate(image.counts) for _ in range(count)]
        self._repeated = sorted(repeats)

    def at(self, sizes: Sequence[int]) -> tuple[Plan, SizedImage]:
        """The plan and the image for these sizes. Raises ShapeError if they exceed any memory."""
        made = self.evaluated(sizes)
        values = dict(zip(self.parameters, sizes))
        plan = SizedPlan(self.plan, values, made.arena, made.types, self._bind)
        tables, counts = self._tables_for(made), self._counted(made.rounds)
        image = SizedImage(self.image.packed, self.image.flagged, tables, counts, made.working)
        return cast(Plan, plan), image  # SizedPlan has all fields of a plan

    def use_native(
        self, run: prologue.RunPrologue, conditions: Sequence[prologue.Condition] = ()
    ) -> None:
        """Compute the integers by machine code, where possible, for sizes with these conditions."""
        self.is_native = True
        nbytes, dims, working, shapes, numbers = self._columns
        limits = [*conditions, *(prologue.Condition(size, "<=", _COMMON) for size in nbytes)]
        limits += [prologue.Condition(size, ">=", 1) for size in dims]
        few = [*nbytes[:2], *working, *(size for shape in shapes for size in shape)]
        self._ranks, self._few = [*map(len, shapes)], len(few)
        with suppress(MXNetError):
            self._prologue = prologue.Prologue(self._scope, limits, [*few, *numbers], run)

    def by_machine_code(self, sizes: Sequence[int]) -> Sized | None:
        """All integers for these sizes; None if Python has to compute them."""
        found = self._prologue(sizes) if self._prologue else None
        if found is None:
            return None
        output_bytes, arena, *few = found[: self._few].tolist()
        working, dims = few[:3], iter(few[3:])
        types = [
            (tuple(islice(dims, rank)), dtype) for rank, dtype in zip(self._ranks, self._dtypes)
        ]
        numbers = found[self._few :]
        return Sized(types, output_bytes, arena, working, numbers, self._rounds(numbers))

    def evaluated(self, sizes: Sequence[int]) -> Sized:
        """All integers for these sizes. Raises ShapeError if they exceed any memory."""
        return self.by_machine_code(sizes) or self._by_python(sizes)

    def _rounds(self, numbers: np.ndarray) -> tuple[int, ...]:
        if not self._ends:
            return ()
        ends = iter(numbers[self._ends :].tolist())
        return tuple(max(0, high - low) for low, high in zip(ends, ends))

    def _by_python(self, sizes: Sequence[int]) -> Sized:
        nbytes, dims, working, shapes, numbers = self._evaluate(*sizes)
        types, (output_bytes, arena, *_) = [*zip(shapes, self._dtypes)], nbytes
        if min(dims) < 1 or max(nbytes) > _COMMON:
            require_possible(TensorType(*each) for each in types)
            require_possible([TensorType((arena,), _BYTE)])
        made = np.array(numbers, np.int64)
        return Sized(types, output_bytes, arena, working, made, self._rounds(made))

    def _tables_for(self, made: Sized) -> Tables:
        """The tables of an executable for these integers."""
        values = _filled(self._tables.values, self._first, made.numbers)
        tables = self._tables._replace(values=values)
        if self._layout is not None:
            added = _filled(self._add, self._added, made.numbers)
            return self._layout.unrolled(tables, added, made.rounds)
        if self._moves:
            places = tables.places.copy()
            places[:, 2] = values[places[:, 1]]
            tables = tables._replace(places=places)
        return tables

    def _counted(self, rounds: Sequence[int]) -> tuple[int, ...]:
        """The number of calls of each step for these rounds of the repeated calls."""
        if not rounds:
            return self.image.counts
        counts = list(self.image.counts)
        for number, count in zip(self._repeated, rounds):
            counts[self._steps[number]] += count - 1
        return tuple(counts)


class _Rounds(NamedTuple):
    """Layout of the tables for given numbers of rounds of the repeated calls.

    slots   slot of the template for each slot of the tables
    turns   number of the round for each slot of the tables
    filled  slots that ``places`` fills
    """

    slots: np.ndarray
    turns: np.ndarray
    filled: np.ndarray
    of_base: np.ndarray
    places: np.ndarray
    rows: np.ndarray


# Most slots in the layouts that are kept: those for 60 lengths of an LSTM up to 64 have 30,000.
_MOST_SLOTS = 1 << 17


class _Layout:
    """Layouts of the tables of a template, by the rounds of its repeated calls."""

    def __init__(
        self, once: Tables, repeats: Mapping[int, Repeat], last: Mapping[int, int]
    ) -> None:
        self._once = once
        self._repeated = np.array(sorted(repeats), np.intp)
        self._last = np.array([last[number] for number in sorted(repeats)], np.int64)
        self._begins = once.rows[:, 1]
        self._widths = np.diff(self._begins, append=len(once.values))
        self._calls = np.arange(len(once.rows))
        self._arrays = np.full(len(once.values), -1)  # index of the call's array, by slot
        self._arrays[once.places[:, 1]] = once.places[:, 0]
        self._known: OrderedDict[tuple[int, ...], _Rounds] = OrderedDict()

    def unrolled(self, once: Tables, added: np.ndarray, rounds: tuple[int, ...]) -> Tables:
        """The tables with one entry per round of each repeated call; each round adds ``added`` to
        the slots of the call.
        """
        laid = self._known.get(rounds) or self._remembered(rounds)
        values = once.values.take(laid.slots)
        values += laid.turns * added.take(laid.slots)
        places = laid.places.copy()
        places[:, 2] = values.take(laid.filled)
        return once._replace(values=values, of_base=laid.of_base, places=places, rows=laid.rows)

    def _remembered(self, rounds: tuple[int, ...]) -> _Rounds:
        """A new layout; the oldest layouts are dropped if there are too many slots."""
        made = self._known[rounds] = self._laid_out(rounds)
        while sum(len(each.slots) for each in self._known.values()) > _MOST_SLOTS:
            self._known.popitem(last=False)
        return made

    def _laid_out(self, rounds: Sequence[int]) -> _Rounds:
        counts = np.ones(len(self._calls), np.intp)
        counts[self._repeated] = rounds
        call = np.repeat(self._calls, counts)
        ends = np.cumsum(counts)
        turns = np.arange(len(call)) - np.repeat(ends - counts, counts)
        widths = self._widths[call]
        stops = np.cumsum(widths)
        begins = stops - widths
        slots = np.arange(stops[-1]) + np.repeat(self._begins[call] - begins, widths)
        rows = self._once.rows[call]
        rows[:, 1] = begins
        is_made = counts[self._repeated] > 0
        rows[ends[self._repeated[is_made]] - 1, 2] = self._last[is_made]
        arrays = self._arrays[slots]
        (filled,) = np.nonzero(arrays >= 0)
        places = np.stack([arrays[filled], filled, filled], axis=1)
        of_base = self._once.of_base[slots]
        return _Rounds(slots, np.repeat(turns, widths), filled, of_base, places, rows)


# Slots, and the index of the distinct number that each slot receives.
_Places: TypeAlias = "tuple[np.ndarray, np.ndarray]"


class _Distinct:
    """Distinct symbolic numbers, whose indices start at ``first``."""

    def __init__(self, first: int = 0) -> None:
        self._start = first
        self.sizes: list[Size] = []
        self._known: dict[tuple[object, ...], int] = {}

    @staticmethod
    def of(numbers: Iterable[Any]) -> list[Size]:
        """The distinct symbolic numbers among these numbers."""
        made = _Distinct()
        made.places([*numbers])
        return made.sizes

    def places(self, numbers: Sequence[Any]) -> _Places:
        """Positions of symbolic numbers, and the index of the distinct number at each position."""
        where = [i for i, number in enumerate(numbers) if isinstance(number, Size)]
        which = [self._place(numbers[i]) for i in where]
        return np.array(where, np.intp), np.array(which, np.intp)

    def _place(self, size: Size) -> int:
        found = self._known.setdefault(size.key, self._start + len(self.sizes))
        if found == self._start + len(self.sizes):
            self.sizes.append(size)
        return found


def _filled(plain: np.ndarray, places: _Places, found: np.ndarray) -> np.ndarray:
    """A copy of ``plain`` with the values of symbolic numbers filled in."""
    made: np.ndarray = plain.copy()
    made[places[0]] = found[places[1]]
    return made


_BYTE = np.dtype(np.uint8)
# Most bytes of an array without empty axes for which no further check is needed.
_COMMON = 1 << 40


def _without_symbols(image: Image, plain: Sequence[int]) -> Image:
    """The image with 0 for symbolic integers; ``plain`` holds the integers of its slots."""
    relocations = tuple(r._replace(offset=plain[r.slot]) for r in image.relocations)
    inputs, outputs = (
        tuple((slot, number, plain[slot]) for slot, number, _ in side)
        for side in (image.inputs, image.outputs)
    )
    return replace(
        image, slots=tuple(plain), relocations=relocations, inputs=inputs, outputs=outputs
    )
