"""Proposals: boxes in the order of their scores, each kept unless a better one covers it, until
there are enough; kept ones are repeated if there are too few.

A unit of work is the rows of one image. They are sorted by the digits of their scores; then each
box is compared with all kept ones, a vector of them at a time: their corners and areas are stored
by column in scratch. Boxes include both of their corner pixels. The arithmetic is that of the
reference, operation by operation, so that the same boxes stay.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ..._core.target import SINGLE, ElementTypes
from ...ir.plan import Step
from ..call import Address, Call, Scratch, Setting
from ..llvm.builder import LoopBuilder
from ..llvm.types import I8, I64, Value
from ..math.numbers import FloatMath, float_math, float_numbers_of
from ..spec import KernelSpec
from .gather.emit import copy_run
from .parts.arguments import Arguments
from .parts.digits import DIGITS, digit_sort, key_of
from .parts.merging import load_place
from .record import register

_WIDTH = 5  # of a row: score and corners, or image and corners
_AREA = 4  # stored data of a kept box: corners, area
_LINE = 64


@dataclass(frozen=True)
class ProposeSpec(KernelSpec):
    """The best of ``count`` rows of each image; arguments: x, boxes, scores, scratch, images.

    most     rows that are considered
    rows     rows of an image in the result
    overlap  a box is dropped above this overlap
    """

    count: int
    most: int
    rows: int
    overlap: float
    element: ElementTypes = SINGLE
    kind = "propose"

    @property
    def wanted(self) -> int:
        """Maximal number of kept boxes."""
        return min(self.most, self.rows)

    def capacity(self, lanes: int) -> int:
        """Memory for them, in full vectors."""
        return -(-self.wanted // lanes) * lanes

    def scratch_bytes(self, lanes: int, element_bytes: int) -> int:
        """Two orders of the rows and of their keys, counts, and the kept boxes."""
        nbytes = 32 * self.count + 8 * DIGITS + (_AREA + 1) * element_bytes * self.capacity(lanes)
        return -(-nbytes // _LINE) * _LINE


def choose_propose(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call."""
    anchor, target = step.group.anchor, setting.target
    images, count, _ = anchor.inputs[0].type.dims
    attrs = anchor.attrs
    spec = ProposeSpec(
        count, attrs["before"], attrs["after"], attrs["threshold"], element=target.element
    )
    scratch = Scratch(spec.scratch_bytes(target.lanes, target.element_bytes))
    places = [Address(view) for view in (step.reads[0], *step.writes)]
    return (Call(spec, (*places, scratch, images), images * spec.most * spec.wanted),)


def emit_propose(b: LoopBuilder, spec: ProposeSpec, args: Arguments) -> None:
    """boxes, scores = image and corners, and the score, of the kept rows of x."""
    x, boxes, scores = args.pointer("x"), args.pointer("boxes"), args.pointer("scores")
    scratch, images = args.pointer("scratch"), args.integer("images")
    nbytes = spec.scratch_bytes(b.lanes, b.target.element_bytes)
    of_image = _Proposals(b, spec, b.at(scratch, b.mul(args.tid, nbytes), I8))
    with b.each_unit(images, args.share, args.shares) as image:
        first = b.mul(image.index, spec.rows)
        of_image.emit(
            image.index,
            b.at(x, b.mul(image.index, spec.count * _WIDTH)),
            b.at(boxes, b.mul(first, _WIDTH)),
            b.at(scores, first),
        )


class _Proposals:
    """Code for the rows of one image, in private scratch."""

    def __init__(self, b: LoopBuilder, spec: ProposeSpec, scratch: Value) -> None:
        self.b, self.spec = b, spec
        self.orders = scratch, b.at(scratch, spec.count, I64)
        self.kept_boxes = b.at(scratch, 32 * spec.count + 8 * DIGITS, I8)
        self.vectors = float_math(b)
        self.numbers = float_numbers_of(b, b.number(0), spec.element.computed)

    def emit(self, image: Value, x: Value, boxes: Value, scores: Value) -> None:
        b, spec = self.b, self.spec
        computed = spec.element.computed

        def key(row: Value) -> Value:
            score = b.load_scalar(x, b.mul(row, _WIDTH))
            return key_of(b, score, computed, ascending=False)

        order = digit_sort(b, self.orders, spec.count, key)
        number = b.b.sitofp(image, b.element)
        kept = b.scratch(I64)
        b.b.store(b.i64(0), kept, align=8)
        with b.loop("best", 0, spec.most) as best, b.when(self._is_wanted(kept)):
            row = b.at(x, b.mul(load_place(b, order, best.index), _WIDTH))
            self._keep(row, number, boxes, scores, kept)
        self._repeat(boxes, scores, b.b.load(kept, typ=I64, align=8))

    def _is_wanted(self, kept: Value) -> Value:
        count = self.b.b.load(kept, typ=I64, align=8)
        return self.b.less(count, self.b.i64(self.spec.wanted))

    def _keep(self, row: Value, number: Value, boxes: Value, scores: Value, kept: Value) -> None:
        """Keep a row, unless a kept box covers it."""
        b = self.b
        count = b.b.load(kept, typ=I64, align=8)
        box = [b.load_scalar(row, 1 + k) for k in range(4)]
        known = [*box, self._area(self.numbers, box)]
        with b.when(b.b.not_(self._is_covered(known, count))):
            for place, value in enumerate(known):
                b.store(value, self._known(place), count)
            target = b.at(boxes, b.mul(count, _WIDTH))
            for place, value in enumerate([number, *box]):
                b.store(value, target, place)
            b.store(b.load_scalar(row, 0), scores, count)
            b.b.store(b.add(count, 1), kept, align=8)

    def _known(self, place: int) -> Value:
        """A column of the kept boxes' data: a corner coordinate or the area."""
        return self.b.at(self.kept_boxes, place * self.spec.capacity(self.b.lanes))

    def _area(self, n: FloatMath, box: list[Value]) -> Value:
        one = n.const(1.0)
        return n.mul(*(n.add(n.sub(box[k + 2], box[k]), one) for k in (0, 1)))

    def _is_covered(self, known: list[Value], count: Value) -> Value:
        """Whether a kept box overlaps the box too much; NaN is too much."""
        b, spec, n = self.b, self.spec, self.vectors
        zero, one, wide = b.splat(0.0), b.splat(1.0), [b.splat(value) for value in known]
        most = spec.capacity(b.lanes) // b.lanes
        with b.loop("kept", 0, count, b.lanes, carry=[zero], most=most) as kept:
            other = [b.load(self._known(place), kept.index) for place in range(_AREA + 1)]
            sizes = []
            for k in (0, 1):
                low, high = n.max(wide[k], other[k]), n.min(wide[k + 2], other[k + 2])
                sizes.append(n.max(n.add(n.sub(high, low), one), zero))
            shared = n.mul(*sizes)
            share = n.div(shared, n.sub(n.add(other[_AREA], wide[_AREA]), shared))
            hits = b.b.not_(n.le(share, b.splat(spec.overlap)))
            hits = b.b.and_(hits, b.mask_first(b.sub(count, kept.index)))
            kept.yields([b.b.select(hits, one, kept.carried[0])])
        return self.numbers.gt(b.reduce_lanes(kept.results[0], self.numbers.max), b.number(0))

    def _repeat(self, boxes: Value, scores: Value, kept: Value) -> None:
        """Repeat the kept rows in the rows after them."""
        b, spec = self.b, self.spec
        with b.loop("again", kept, spec.rows, most=spec.rows) as again:
            source = b.sub(again.index, kept)
            from_, to = (b.at(boxes, b.mul(row, _WIDTH)) for row in (source, again.index))
            copy_run(b, from_, to, _WIDTH, b.element)
            b.store(b.load_scalar(scores, source), scores, again.index)


register("propose", choose_propose, {ProposeSpec: emit_propose}, in_one_type=True)
