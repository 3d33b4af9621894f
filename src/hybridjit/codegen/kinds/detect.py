"""Detections: rows above a threshold, best first; rows covered by a better one lose their id.

A unit of work is the rows of one batch; sorting and comparison are those of box_nms.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ...ir.plan import Step
from ..call import Call, Setting
from ..llvm.builder import LoopBuilder
from ..llvm.types import I64, Value
from .gather.emit import copy_run, fill_run
from .parts.arguments import Arguments
from .parts.merging import load_place
from .record import register
from .suppress import Suppression, SuppressSpec, call_for, emit_batches


@dataclass(frozen=True)
class DetectSpec(SuppressSpec):
    """Detections of [count, 6], id, score and box; arguments: x, y, scratch, batches.

    Scores are valid from ``valid`` on, and boxes are covered from the overlap ``overlap`` on.

    suppresses  whether rows are sorted and compared
    """

    suppresses: bool = True
    kind = "detect"


def choose_detect(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call."""
    anchor, target = step.group.anchor, setting.target
    attrs, (count, width) = anchor.attrs, anchor.shape[-2:]
    most = attrs["nms_topk"]
    spec = DetectSpec(
        count=count,
        width=width,
        overlap=attrs["nms_threshold"],
        valid=attrs["threshold"],
        most=min(most, count) if most > 0 else count,
        coords=2,
        score=1,
        ids=-1 if attrs["force_suppress"] else 0,
        labels=-1,
        background=-1,
        centred=False,
        turned=False,
        element=target.element,
        suppresses=0 < attrs["nms_threshold"] <= 1,
    )
    return (call_for(step, spec, target),)


def emit_detect(b: LoopBuilder, spec: DetectSpec, args: Arguments) -> None:
    """y = the valid rows of x, then rows of -1."""
    emit_batches(b, spec, args, _Detection)


class _Detection(Suppression):
    spec: DetectSpec

    def emit(self, x: Value, y: Value) -> None:
        b, spec = self.b, self.spec
        found = self._valid_rows(x)
        fill_run(b, y, b.mul(spec.count, spec.width), b.element, -1)
        self._copy_all(x, y, found)
        if not spec.suppresses:
            return
        order = self._sorted(x, found)
        fill_run(b, self.boxes, b.mul(6, self.capacity), b.element, 0)
        kept = b.scratch(I64)
        b.b.store(b.i64(0), kept, align=8)
        with b.loop("best", 0, b.min(found, spec.most), most=self.most) as best:
            row = b.at(x, b.mul(load_place(b, order, best.index), spec.width))
            target = b.at(y, b.mul(best.index, spec.width))
            copy_run(b, row, target, spec.width, b.element)
            self._judge(row, target, kept)

    def _copy_all(self, x: Value, y: Value, found: Value) -> None:
        """Copy the rows in their order; rows that are not compared lose their id."""
        b, spec = self.b, self.spec
        most = spec.count if isinstance(spec.count, int) else None
        with b.loop("row", 0, found, most=most) as row:
            source = b.at(x, b.mul(load_place(b, self.orders[0], row.index), spec.width))
            target = b.at(y, b.mul(row.index, spec.width))
            copy_run(b, source, target, spec.width, b.element)
            if spec.suppresses:
                b.store(b.number(-1), target, 0)

    def _judge(self, row: Value, target: Value, kept: Value) -> None:
        """Clear the id of a row that a kept one covers; keep the row otherwise."""
        b, spec = self.b, self.spec
        count = b.b.load(kept, typ=I64, align=8)
        known = self._known_of(row)
        share = self._largest_share(known, count)
        covered = self.numbers.ge(share, b.number(spec.overlap))
        with b.when(covered):
            b.store(b.number(-1), target, 0)
        with b.when(b.b.not_(covered)):
            self._remember(known, count)
            b.b.store(b.add(count, 1), kept, align=8)

    def _is_valid(self, score: Value) -> Value:
        """Whether the score reaches the threshold; False for NaN."""
        return self.numbers.ge(score, self.b.number(self.spec.valid))


register("detect", choose_detect, {DetectSpec: emit_detect}, in_one_type=True)
