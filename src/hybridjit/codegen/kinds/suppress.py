"""box_nms: boxes in the order of their scores, each kept unless a better one covers it.

A unit of work is the rows of one batch. The valid rows are sorted by merging, which is stable. Then
each box is compared with all kept ones, a vector of them at a time: their corners, areas and ids
are stored by column in scratch. The arithmetic is that of the reference, operation by operation, so
that the same boxes stay.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ..._core.target import SINGLE, ElementTypes, Target
from ..._core.types import product
from ...ir.plan import Step
from ..call import Address, Call, Scratch, Setting
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I8, I64, Value
from ..math.numbers import float_math, float_numbers_of
from ..spec import Extent, KernelSpec
from .gather.emit import copy_run, fill_run
from .parts.arguments import Arguments
from .parts.merging import load_place, merge_sort
from .record import register

# Stored data of each kept box: corners, area, id.
_AREA, _ID = 4, 5
_LINE = 64


@dataclass(frozen=True)
class SuppressSpec(KernelSpec):
    """Suppression in batches of [count, width]; arguments: x, y, scratch, batches.

    overlap, valid  a box is dropped above this overlap; valid scores are above this
    most            rows that are considered
    coords, score   columns of the first of four coordinates and of the score
    ids             column of the id that compared boxes share; -1 to compare all boxes
    labels          column of the id that differs from ``background``; -1 if all rows are valid
    centred         whether boxes are given as centre and size; the next field is whether they are
                    written in the other form
    """

    count: Extent
    width: int
    overlap: float
    valid: float
    most: Extent
    coords: int
    score: int
    ids: int
    labels: int
    background: int
    centred: bool
    turned: bool
    element: ElementTypes = SINGLE
    kind = "suppress"
    extents = ("count", "most")

    def scratch_bytes(self, lanes: int, element_bytes: int) -> Extent:
        """Two orders of the rows, and the data of the kept boxes."""
        capacity = -(-self.most // lanes) * lanes
        nbytes = 16 * self.count + 6 * element_bytes * capacity
        return -(-nbytes // _LINE) * _LINE


def _capacity(b: LoopBuilder, spec: SuppressSpec) -> Index:
    """Maximal number of kept boxes, in full vectors."""
    return b.mul(b.divided_up(spec.most, b.lanes), b.lanes)


def choose_suppress(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call."""
    anchor, target = step.group.anchor, setting.target
    attrs, (count, width) = anchor.attrs, anchor.shape[-2:]
    spec = SuppressSpec(
        count=count,
        width=width,
        overlap=attrs["overlap_thresh"],
        valid=attrs["valid_thresh"],
        most=min(attrs["topk"], count) if attrs["topk"] > 0 else count,
        coords=attrs["coord_start"],
        score=attrs["score_index"],
        ids=-1 if attrs["force_suppress"] else max(-1, attrs["id_index"]),
        labels=max(-1, attrs["id_index"]),
        background=attrs["background_id"],
        centred=attrs["in_format"] == "center",
        turned=attrs["in_format"] != attrs["out_format"],
        element=target.element,
    )
    return (call_for(step, spec, target),)


def call_for(step: Step, spec: SuppressSpec, target: Target) -> Call:
    """The call of a kernel that compares the rows of each batch."""
    batches = product(step.group.anchor.shape[:-2])
    scratch = Scratch(spec.scratch_bytes(target.lanes, target.element_bytes))
    args = (Address(step.reads[0]), Address(step.writes[0]), scratch, batches)
    return Call(spec, args, batches * spec.count * spec.count)


def emit_suppress(b: LoopBuilder, spec: SuppressSpec, args: Arguments) -> None:
    """y = the kept rows of x, best first, then rows of -1."""
    emit_batches(b, spec, args, Suppression)


def emit_batches(
    b: LoopBuilder, spec: SuppressSpec, args: Arguments, code: type[Suppression]
) -> None:
    """The rows of one batch after the other, each thread in private scratch."""
    x, y = args.pointer("x"), args.pointer("y")
    scratch, batches = args.pointer("scratch"), args.integer("batches")
    spec = args.sized(spec)
    of_box = 6 * b.target.element_bytes
    nbytes = b.add(b.mul(16, spec.count), b.mul(of_box, _capacity(b, spec)))
    nbytes = b.mul(b.divided_up(nbytes, _LINE), _LINE)
    scratch = b.at(scratch, b.mul(args.tid, nbytes), I8)
    of_batch = code(b, spec, scratch)
    with b.each_unit(batches, args.share, args.shares) as unit:
        first = b.mul(unit.index, b.mul(spec.count, spec.width))
        of_batch.emit(b.at(x, first), b.at(y, first))


class Suppression:
    """Code for the rows of one batch, in private scratch."""

    def __init__(self, b: LoopBuilder, spec: SuppressSpec, scratch: Value) -> None:
        self.b, self.spec = b, spec
        self.orders = scratch, b.at(scratch, spec.count, I64)
        self.boxes = b.at(scratch, b.mul(16, spec.count), I8)
        self.capacity = _capacity(b, spec)
        self.most = spec.most if isinstance(spec.most, int) else None
        self.vectors = float_math(b)
        self.numbers = float_numbers_of(b, b.number(0), spec.element.computed)

    def emit(self, x: Value, y: Value) -> None:
        b, spec = self.b, self.spec
        found = self._valid_rows(x)
        order = self._sorted(x, found)
        fill_run(b, self.boxes, b.mul(6, self.capacity), b.element, 0)
        fill_run(b, y, b.mul(spec.count, spec.width), b.element, -1)
        kept = b.scratch(I64)
        b.b.store(b.i64(0), kept, align=8)
        with b.loop("best", 0, b.min(found, spec.most), most=self.most) as best:
            row = b.at(x, b.mul(load_place(b, order, best.index), spec.width))
            self._keep(row, y, kept)

    def _valid_rows(self, x: Value) -> Value:
        """Store the valid rows, in their order; returns their number."""
        b, spec, numbers = self.b, self.spec, self.numbers
        with b.loop("row", 0, spec.count, carry=[b.i64(0)]) as row:
            (found,) = row.carried
            at = b.mul(row.index, spec.width)
            valid = self._is_valid(b.load_scalar(x, b.add(at, spec.score)))
            if spec.labels >= 0:
                label = b.load_scalar(x, b.add(at, spec.labels))
                valid = b.b.and_(valid, numbers.ne(label, b.number(spec.background)))
            b.b.store(row.index, b.at(self.orders[0], found, I64), align=8)
            row.yields([b.add(found, b.b.zext(valid, I64))])
        return row.results[0]

    def _is_valid(self, score: Value) -> Value:
        return self.numbers.gt(score, self.b.number(self.spec.valid))

    def _sorted(self, x: Value, found: Value) -> Value:
        """The rows by descending score, stable."""
        b, spec = self.b, self.spec

        def score(row: Value) -> Value:
            return b.load_scalar(x, b.add(b.mul(row, spec.width), spec.score))

        return merge_sort(b, self.orders, found, spec.count, score, self.numbers.gt)

    def _keep(self, row: Value, y: Value, kept: Value) -> None:
        """Keep a row, unless a kept box covers it."""
        b, spec = self.b, self.spec
        count = b.b.load(kept, typ=I64, align=8)
        known = self._known_of(row)
        share = self._largest_share(known, count)
        covered = self.numbers.gt(share, b.number(spec.overlap))
        with b.when(b.b.not_(covered)):
            self._remember(known, count)
            target = b.at(y, b.mul(count, spec.width))
            copy_run(b, row, target, spec.width, b.element)
            if spec.turned:
                self._turn(row, target)
            b.b.store(b.add(count, 1), kept, align=8)

    def _known_of(self, row: Value) -> list[Value]:
        """Corners, area and id of a row's box."""
        b, spec = self.b, self.spec
        box = self._corners(row)
        label = self._class_of(b.load_scalar(row, spec.ids)) if spec.ids >= 0 else b.number(0)
        return [*box, self._area(box), label]

    def _class_of(self, label: Value) -> Value:
        """The id converted to int32: truncated, the smallest integer for NaN and out of range."""
        b, n = self.b, self.numbers
        smallest, end = b.number(-(2.0**31)), b.number(2.0**31)
        fits = n.mask_and(n.ge(label, smallest), n.lt(label, end))
        return n.select(fits, n.trunc(label), smallest)

    def _remember(self, known: list[Value], count: Value) -> None:
        """Store the data of a further kept box."""
        for place, value in enumerate(known):
            self.b.store(value, self._known(place), count)

    def _known(self, place: int) -> Value:
        """A column of the kept boxes' data: a corner coordinate, the area or the id."""
        return self.b.at(self.boxes, self.b.mul(place, self.capacity))

    def _corners(self, row: Value) -> list[Value]:
        b, spec, numbers = self.b, self.spec, self.numbers
        box = [b.load_scalar(row, spec.coords + i) for i in range(4)]
        if not spec.centred:
            return box
        halves = [numbers.div(size, b.number(2)) for size in box[2:]]
        low = [numbers.sub(c, half) for c, half in zip(box, halves)]
        return low + [numbers.add(c, half) for c, half in zip(box, halves)]

    def _area(self, box: list[Value]) -> Value:
        n, zero = self.numbers, self.b.number(0)
        sizes = [n.max(n.sub(box[i + 2], box[i]), zero) for i in range(2)]
        return n.mul(*sizes)

    def _largest_share(self, box: list[Value], count: Value) -> Value:
        """The largest overlap of the box with a kept one of its id."""
        b, spec, n = self.b, self.spec, self.vectors
        zero, wide = b.splat(0.0), [b.splat(value) for value in box]
        most = self.capacity // b.lanes if isinstance(self.capacity, int) else None
        with b.loop("kept", 0, count, b.lanes, carry=[zero], most=most) as kept:
            other = [b.load(self._known(place), kept.index) for place in range(6)]
            sizes = []
            for i in range(2):
                low, high = n.max(other[i], wide[i]), n.min(other[i + 2], wide[i + 2])
                sizes.append(n.max(n.sub(high, low), zero))
            shared = n.mul(*sizes)
            union = n.sub(n.add(other[_AREA], wide[_AREA]), shared)
            hits = n.gt(union, zero)
            if spec.ids >= 0:
                hits = b.b.and_(hits, n.eq(other[_ID], wide[_ID]))
            share = b.b.select(hits, n.div(shared, union), zero)
            kept.yields([b.b.select(n.gt(share, kept.carried[0]), share, kept.carried[0])])
        return b.reduce_lanes(kept.results[0], self.numbers.max)

    def _turn(self, row: Value, target: Value) -> None:
        """Write the box in the other form: as corners, or as centre and size."""
        b, spec, n = self.b, self.spec, self.numbers
        if spec.centred:
            turned = self._corners(row)
        else:
            box = self._corners(row)
            sizes = [n.sub(box[i + 2], box[i]) for i in range(2)]
            turned = [n.add(box[i], n.div(sizes[i], b.number(2))) for i in range(2)] + sizes
        for i, value in enumerate(turned):
            b.store(value, target, spec.coords + i)


register("suppress", choose_suppress, {SuppressSpec: emit_suppress}, in_one_type=True)
