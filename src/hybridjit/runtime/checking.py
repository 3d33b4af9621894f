"""Check mode: each step against its NumPy reference, on one thread, in poisoned and fenced memory.

Input: an executable and the arrays of a call. Output: the outputs, or an InternalError that names
the first step that gives a wrong result, reads dead memory, or writes outside its results. Inputs
and outputs are copies between canaries; the arena is poisoned when it is fresh and wherever a
buffer's lifetime ends; and each step may change only its results. Slow on purpose: an error is
reported where it arises.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .._core.frozen import dataclass
from .._core.types import BFLOAT16
from ..errors import InternalError
from ..ir.plan import Step, View, strided
from ..ops.bfloat16 import from_bfloat16
from .arena import Arena
from .instance import Instance, Prepared

# Largest accepted difference relative to the largest result: a step adds in another order than its
# reference.
TOLERANCE = 2e-4
# The same for a whole network against float32, by the precision of its products.
TOLERANCES = {"float32": TOLERANCE, "bfloat16": 0.05, "int8": 0.2}
# The same relative to the sum of the absolute values of a sum's terms: a gradient that is exactly 0
# consists of rounding errors only.
TOLERANCE_OF_TERMS = 1e-6
# A bfloat16 result rounds either way if the sum is between two representable values.
TOLERANCE_OF_BFLOAT16 = 2.0**-7
# A step that fuses float16 operators keeps their intermediate values in single precision; the
# reference rounds each: the results differ by a unit in the last place.
_OF_ROUNDED = {BFLOAT16: TOLERANCE_OF_BFLOAT16, np.dtype(np.float16): 2.0**-10}
# Allowed error of a step as a multiple of the error of NumPy's float32 computation.
MORE_THAN_NUMPY = 20

_SUMS = frozenset({"reduce", "gemm", "conv", "deconv"})


@dataclass(frozen=True)
class Ran:
    """A step that was run, with its results and those of its references for the same operands.

    reads  the operands
    """

    step: Step
    found: list[np.ndarray]
    wanted: list[np.ndarray]
    reads: list[np.ndarray]


class Fenced:
    """A copy of an array between canaries; ``array`` None gives poison of this type."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, array: np.ndarray | None) -> None:
        self.arena = Arena(int(np.prod(shape)) * dtype.itemsize)
        self.array = self.arena.bytes.view(dtype).reshape(shape)
        if array is None:
            self.arena.poison()
        else:
            self.array[...] = array


class Checker:
    """One checked run of an executable on an unshared instance."""

    def __init__(
        self, executable: Prepared, instance: Instance, inputs: Sequence[np.ndarray]
    ) -> None:
        self.executable = executable
        self.instance = instance
        self._given = [Fenced(a.shape, a.dtype, a) for a in inputs]
        self._made = [Fenced(shape, dtype, None) for shape, dtype in executable.results.types]
        self.inputs = [fenced.array for fenced in self._given]
        self.outputs = [fenced.array for fenced in self._made]
        for number, index in executable.results.updated.items():
            self.outputs[number] = self.inputs[index]
        instance.connect(*self.inputs, *self.outputs)
        # Expected contents of each buffer: the results as they were when their step ended.
        self._kept = {
            b.number: np.full(b.nbytes, 0xFF, np.uint8)
            for b in executable.plan.buffers
            if b.kind in ("arena", "output", "saved")
        }
        self._kept |= {
            b.number: self.inputs[b.index].reshape(-1).view(np.uint8).copy()
            for b in executable.plan.buffers
            if b.kind == "input" and b.index in executable.results.updated.values()
        }

    def run(self) -> list[np.ndarray]:
        """The outputs of all steps. Raises InternalError at the first wrong step."""
        for ran in self.steps():
            if not is_random(ran.step):
                self._require_near(ran)
        return self.outputs

    def _require_near(self, ran: Ran) -> None:
        gaps = [difference(*pair) for pair in zip(ran.found, ran.wanted)]
        if max(gaps, default=0.0) <= TOLERANCE:
            return
        for gap, allowed, view in zip(gaps, self.rounding(ran), ran.step.writes):
            tolerance = _OF_ROUNDED.get(view.dtype, TOLERANCE)
            if not gap <= max(tolerance, allowed):
                raise InternalError(
                    f"bug in hybridjit: {describe(ran.step)} differs from its reference by "
                    f"{gap:.2g} of the largest value; allowed is {tolerance:g}"
                )

    def rounding(self, ran: Ran) -> list[float]:
        """The possible rounding error of each result after cancellation, relative to its largest
        value.

        It follows from the error of NumPy in float32 and, for sums, from the size of the terms.
        """
        operands = list(map(_as_float, ran.reads))
        wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in operands]
        exact = self.executable.reference(ran.step, wide)
        sizes = [0.0] * len(ran.wanted)
        if ran.step.kind in _SUMS and len(ran.step.group.members) == 1:
            terms = self.executable.reference(ran.step, [np.abs(x) for x in operands])
            sizes = [float(np.abs(t).max(initial=0.0)) for t in terms]
        return [
            max(lost_by(w, e), TOLERANCE_OF_TERMS * size / largest(w))
            for w, e, size in zip(ran.wanted, exact, sizes)
        ]

    def steps(self) -> Iterator[Ran]:
        """Run one step after the other. Raises InternalError for a step that corrupts memory."""
        self.instance.arena.poison()
        self._seen = [memory.bytes.copy() for memory in self._memories()]
        weights = self.instance.binding.arrays()
        sums = checksums(weights)
        position = 0
        for step, count in zip(self.executable.plan.steps, self.executable.code.image.counts):
            yield self._run_step(step, position, position + count)
            position += count
            self._bury(step.number)
        if checksums(weights) != sums:
            raise InternalError("bug in hybridjit: a step wrote to a weight")

    def _run_step(self, step: Step, first: int, last: int) -> Ran:
        reads = [self._array(view).copy() for view in step.reads]
        self._require_kept(step, reads)
        wanted = self.executable.reference(step, reads)
        if first == last:
            self.executable.run_host(step, self.instance, self.inputs, self.outputs)
        else:
            self.executable.run_steps(self.instance, first, last)
        self._require_untouched(step)
        found = [self._array(view).copy() for view in step.writes]
        for view, array in zip(step.writes, found):
            strided(self._kept[view.buffer], view)[...] = array
        shaped = [right.reshape(view.shape) for view, right in zip(step.writes, wanted)]
        return Ran(step, found, shaped, reads)

    def _memories(self) -> list[Arena]:
        """All memory that a step can reach except weights and scratch: the arena comes first."""
        return [self.instance.arena, *(f.arena for f in (*self._given, *self._made))]

    def _require_kept(self, step: Step, reads: Sequence[np.ndarray]) -> None:
        """Raise InternalError if an operand differs from the result that its producer stored."""
        for view, array in zip(step.reads, reads):
            kept = self._kept.get(view.buffer)
            if kept is not None and strided(kept, view).tobytes() != array.tobytes():
                raise InternalError(
                    f"bug in hybridjit: {describe(step)} reads "
                    f"{self.executable.plan.buffers[view.buffer]}, which another step overwrote"
                )

    def _require_untouched(self, step: Step) -> None:
        """Raise InternalError if the step changed a byte outside its results.

        The new contents of its results are the expected ones from then on.
        """
        memories, name = self._memories(), describe(step)
        for memory in (*memories, self.instance.scratch):
            memory.check_canaries(name)
        own: dict[int, np.ndarray] = {}
        for view in step.writes:
            number, start, stop = self._place(view)
            mine = own.setdefault(number, np.zeros(len(self._seen[number]), np.uint8))
            unsigned = replace(view, dtype=np.dtype(f"u{view.dtype.itemsize}"))
            strided(mine[start:stop], unsigned)[...] = np.iinfo(unsigned.dtype).max
        for number, (memory, seen) in enumerate(zip(memories, self._seen)):
            if _are_equal(memory.bytes, seen):
                continue
            if number not in own or ((memory.bytes != seen) & (own[number] == 0)).any():
                raise InternalError(f"bug in hybridjit: {name} wrote beside its results")
            seen[...] = memory.bytes

    def _place(self, view: View) -> tuple[int, int, int]:
        """The memory that holds a view's buffer, and the buffer's first and last byte."""
        buffer = self.executable.plan.buffers[view.buffer]
        if buffer.kind == "arena":
            return 0, buffer.offset, buffer.offset + buffer.nbytes
        before = 1 if buffer.kind == "input" else 1 + len(self._given)
        return before + buffer.index, 0, buffer.nbytes

    def _bury(self, number: int) -> None:
        """Poison every buffer whose lifetime ends with this step."""
        for buffer in self.executable.plan.buffers:
            if buffer.kind == "arena" and buffer.last == number:
                start, stop = buffer.offset, buffer.offset + buffer.nbytes
                self.instance.arena.poison(start, stop)
                self._seen[0][start:stop] = self.instance.arena.bytes[start:stop]

    def _array(self, view: View) -> np.ndarray:
        return self.executable.array(view, self.instance, self.inputs, self.outputs)


def _as_float(array: np.ndarray) -> np.ndarray:
    """bfloat16 widened to float32; other types unchanged."""
    return from_bfloat16(array) if array.dtype == BFLOAT16 else array


def _are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have the same bytes; compares words, 8 times as fast as bytes."""
    words = len(one) // 8 * 8
    same = (one[:words].view(np.uint64) == other[:words].view(np.uint64)).all()
    return bool(same and (one[words:] == other[words:]).all())


def checksums(arrays: Sequence[np.ndarray]) -> list[int]:
    """A checksum of the contents of each contiguous array."""
    return [zlib.crc32(array.reshape(-1).view(np.uint8).data) for array in arrays]


def describe(step: Step) -> str:
    """A step in messages: ``step 3 (conv: Convolution 'conv0', relu 'relu0')``."""
    members = ", ".join(value.describe() for value in step.group.members)
    return f"step {step.number} ({step.kind}: {members})"


def is_random(step: Step) -> bool:
    """Whether running the reference again gives another result."""
    return any(v.op is not None and v.op.is_random for v in step.group.members)


def lost_by(right: np.ndarray, exact: np.ndarray) -> float:
    """The error that a kernel may have, from the error of NumPy's ``right`` against ``exact``
    (float64).

    Relative to the largest right value.
    """
    if right.dtype.kind != "f" or right.size == 0:
        return 0.0
    gaps = np.abs(right.astype(np.float64) - exact.reshape(right.shape))
    finite = gaps[np.isfinite(gaps)]
    return MORE_THAN_NUMPY * float(finite.max(initial=0.0)) / largest(right)


def largest(array: np.ndarray) -> float:
    """The largest finite absolute value, at least 1e-30: differences are divided by it."""
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return max(float(finite.max(initial=0.0)), 1e-30)


def difference(found: np.ndarray, right: np.ndarray) -> float:
    """The largest difference relative to the largest right value; inf if NaN or inf differ.

    Integer types have to be equal.
    """
    found, right = _as_float(found), _as_float(right)
    if found.dtype.kind != "f":
        return 0.0 if (found == right).all() else float("inf")
    if found.size == 0:
        return 0.0
    special = ~np.isfinite(right)
    if (np.isnan(found) != np.isnan(right)).any():
        return float("inf")
    infinite = special & ~np.isnan(right)
    if (found[infinite] != right[infinite]).any():
        return float("inf")
    gap = np.abs(found[~special].astype(np.float64) - right[~special])
    return float(gap.max(initial=0.0)) / largest(right) if gap.any() else 0.0
