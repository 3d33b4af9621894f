"""Check mode: every step against its NumPy reference, one thread, poisoned memory.

Slow on purpose. It names the first step that differs, instead of a wrong answer far from its cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InternalError
from ..ir.plan import Step, View, strided

if TYPE_CHECKING:
    from .executable import Executable, Instance

# Largest difference allowed, as a part of the largest result: a step sums in another order than
# its reference.
TOLERANCE = 2e-4


class Checker:
    """One checked run of an executable."""

    def __init__(
        self,
        executable: Executable,
        instance: Instance,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        self.executable = executable
        self.instance = instance
        self.inputs = inputs
        self.outputs = outputs
        # What each buffer should hold: the results as they were when their step ended.
        self._kept = {
            b.number: np.full(b.nbytes, 0xFF, np.uint8)
            for b in executable.plan.buffers
            if b.kind in ("arena", "output")
        }

    def run(self) -> None:
        """Run all steps. Raises InternalError at the first that is wrong."""
        arena = self.instance.arena
        arena.poison()
        before = [array.copy() for array in self.inputs]
        position = 0
        for step, row in zip(self.executable.plan.steps, self.executable.code.calls):
            self._run_step(step, position, position + len(row))
            position += len(row)
            arena.check_canaries(f"step {step.number} {step.name}")
            self._bury(step.number)
        for array, copy in zip(self.inputs, before):
            if array.tobytes() != copy.tobytes():
                raise InternalError("bug in hybridjit: a step wrote to an input")

    def _run_step(self, step: Step, first: int, last: int) -> None:
        reads = [self._array(view).copy() for view in step.reads]
        self._require_kept(step, reads)
        wanted = self.executable.reference(step, reads)
        if first == last:
            self.executable.run_host(step, self.instance, self.inputs, self.outputs)
        else:
            self.executable.run_steps(self.instance, first, last)
        for view, right in zip(step.writes, wanted):
            if not _is_random(step):
                self._compare(step, self._array(view), right.reshape(view.shape))
            strided(self._kept[view.buffer], view)[...] = self._array(view)

    def _require_kept(self, step: Step, reads: Sequence[np.ndarray]) -> None:
        """Raises InternalError if an operand is not what its own step left there."""
        for view, array in zip(step.reads, reads):
            kept = self._kept.get(view.buffer)
            if kept is not None and strided(kept, view).tobytes() != array.tobytes():
                raise InternalError(
                    f"bug in hybridjit: step {step.number} ({step.kind}: {step.name}) reads "
                    f"{self.executable.plan.buffers[view.buffer]}, which another step overwrote"
                )

    def _array(self, view: View) -> np.ndarray:
        return self.executable.array(view, self.instance, self.inputs, self.outputs)

    def _compare(self, step: Step, found: np.ndarray, right: np.ndarray) -> None:
        if found.dtype.kind != "f":
            worst = 0.0 if (found == right).all() else np.inf
        else:
            worst = difference(found, right)
        if worst > TOLERANCE:
            members = ", ".join(v.describe() for v in step.group.members)
            raise InternalError(
                f"bug in hybridjit: step {step.number} ({step.kind}: {members}) differs from its "
                f"reference by {worst:.2g} of the largest value; allowed is {TOLERANCE:g}"
            )

    def _bury(self, number: int) -> None:
        """NaN over every buffer whose life ends with this step."""
        for buffer in self.executable.plan.buffers:
            if buffer.kind == "arena" and buffer.last == number:
                self.instance.arena.poison(buffer.offset, buffer.offset + buffer.nbytes)


def _is_random(step: Step) -> bool:
    """Whether the reference, run again, gives something else."""
    return any(v.op is not None and v.op.is_random for v in step.group.members)


def difference(found: np.ndarray, right: np.ndarray) -> float:
    """The largest difference as a part of the largest right value; inf where NaN or inf differ."""
    if found.size == 0:
        return 0.0
    special = ~np.isfinite(right)
    if (np.isnan(found) != np.isnan(right)).any():
        return float("inf")
    infinite = special & ~np.isnan(right)
    if (found[infinite] != right[infinite]).any():
        return float("inf")
    gap = np.abs(found[~special].astype(np.float64) - right[~special])
    scale = np.abs(right[~special]).max(initial=0.0)
    return float(gap.max(initial=0.0) / max(scale, 1e-30)) if gap.any() else 0.0
