"""Order: the first elements of each row and their indices, stable, NaN last.

A unit of work is a row. A few elements of a long row are selected. Short rows are sorted by
merging, others by radix sort on integer keys with the order of the floats, lowest digit first:
20,000 elements in 0.2 ms.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ..._core.symbolic import hint_of
from ..._core.target import SINGLE, ElementTypes
from ...ir.plan import Step
from ..call import Address, Argument, Call, Scratch, Setting
from ..llvm import ALL_PASSES
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I8, I64, Value
from ..spec import Extent, KernelSpec
from .parts.arguments import Arguments
from .parts.digits import DIGITS, digit_sort, key_of
from .parts.merging import load_place, merge_sort
from .parts.selection import FEW, LONG_HEAP, MOST, precedes, selection_of
from .record import register

_LINE = 64
_SHORT = 48
# Least ratio of a row's length to the number of selected elements. In the worst case, where each
# element precedes all before it, selecting 32 takes as long as sorting.
_LONG = 8


@dataclass(frozen=True)
class OrderSpec(KernelSpec):
    """The first ``most`` of ``count`` elements; arguments: x, y, places, scratch, rows.

    by_digits  whether rows are sorted by the digits of their keys instead of merging
    selects    whether the elements are selected without sorting the row
    in_heap    whether the selected elements are in a heap while the row is read
    """

    count: Extent
    most: Extent
    ascending: bool
    by_digits: bool
    element: ElementTypes = SINGLE
    selects: bool = False
    in_heap: bool = False
    kind = "order"
    extents = ("count", "most")

    @property
    def needs_passes(self) -> int:  # type: ignore[override]
        """A heap's loops take 1.24 times as long with the two usual passes."""
        return ALL_PASSES if self.in_heap else True

    @property
    def scratch_bytes(self) -> int:
        """Two orders of a row, and for radix sort two rows of keys and the counts."""
        if self.selects:
            return 0
        nbytes = 32 * self.count + 8 * DIGITS if self.by_digits else 16 * self.count
        return -(-nbytes // _LINE) * _LINE  # type: ignore[no-any-return]


def choose_order(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call."""
    anchor, target = step.group.anchor, setting.target
    rows, count = anchor.inputs[0].type.dims
    most, ascending = anchor.attrs["k"], anchor.attrs["is_ascend"]
    long = _LONG if most <= FEW else LONG_HEAP
    selects = bool(most <= MOST and count >= long * most)
    # Clearing and adding the counts takes as long as merging this many elements.
    by_digits = not selects and bool(count > _SHORT)
    in_heap = selects and bool(most > FEW)
    spec = OrderSpec(count, most, ascending, by_digits, target.element, selects, in_heap)
    places = [Address(view) for view in (step.reads[0], *step.writes)]
    args: tuple[Argument, ...] = (*places, Scratch(spec.scratch_bytes), rows)
    each = 1 if selects else 4 if by_digits else int(hint_of(count)).bit_length()
    return (Call(spec, args, rows * count * each),)


def emit_order(b: LoopBuilder, spec: OrderSpec, args: Arguments) -> None:
    """y, places = the elements of x in order, and their indices."""
    x, y, places = args.pointer("x"), args.pointer("y"), args.pointer("places")
    scratch, rows = args.pointer("scratch"), args.integer("rows")
    spec = args.sized(spec)
    scratch = b.at(scratch, b.mul(args.tid, _scratch_bytes(b, spec)), I8)
    orders = scratch, b.at(scratch, spec.count, I64)
    with b.each_unit(rows, args.share, args.shares) as unit:
        row = b.at(x, b.mul(unit.index, spec.count))
        first = b.mul(unit.index, spec.most)
        _emit_row(b, spec, row, b.at(y, first), b.at(places, first, I64), orders)


def _scratch_bytes(b: LoopBuilder, spec: OrderSpec) -> Index:
    if isinstance(spec.count, int):
        return spec.scratch_bytes
    more, each = (8 * DIGITS, 32) if spec.by_digits else (0, 16)
    return b.mul(b.divided_up(b.add(b.mul(spec.count, each), more), _LINE), _LINE)


def _emit_row(
    b: LoopBuilder,
    spec: OrderSpec,
    x: Value,
    y: Value,
    places: Value,
    orders: tuple[Value, Value],
) -> None:
    if spec.selects:
        selection_of(b, x, y, places, spec.most, spec.ascending, spec.in_heap).emit(spec.count)
        return

    def key(place: Value) -> Value:
        return key_of(b, b.load_scalar(x, place), spec.element.computed, spec.ascending)

    if spec.by_digits:
        order = digit_sort(b, orders, spec.count, key)
    else:
        with b.loop("place", 0, spec.count) as place:
            b.b.store(place.index, b.at(orders[0], place.index, I64), align=8)
        order = merge_sort(
            b, orders, b.i64(spec.count), spec.count, lambda i: b.load_scalar(x, i),
            lambda one, other: precedes(b, one, other, spec.ascending),
        )  # fmt: skip
    with b.loop("first", 0, spec.most) as first:
        found = load_place(b, order, first.index)
        b.store(b.load_scalar(x, found), y, first.index)
        b.b.store(found, b.at(places, first.index, I64), align=8)


register("order", choose_order, {OrderSpec: emit_order}, in_one_type=True)
