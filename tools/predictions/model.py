"""The cycles of a step, as named terms: its instructions, and the bytes that it moves.

Constants are of the emitted code (instructions of a formula, cycles in which a loop turns), and
were measured on Zen 5 over the networks of the comparison. Properties that differ between CPUs,
instructions in a cycle and bytes in a cycle from each memory, is of their families:
``codegen.families``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kernels import direct_cycles, taps_inside, tile_cycles, winograd_cycles
from memory import Levels, Operands

from hybridjit._core.target import Target
from hybridjit._core.types import product
from hybridjit.codegen.families import family_of
from hybridjit.codegen.kinds.parts.cost import is_long
from hybridjit.codegen.kinds.parts.window import tiles_of_row
from hybridjit.codegen.spec import Program
from hybridjit.ir.plan import Step
from hybridjit.profiling import flops
from hybridjit.runtime.profiling import Part

# Of each kind of kernel without a specific count: the share of the peak that its loops reach.
SHARES = {"recurrent": 0.83, "matmul": 0.94, "softmax": 0.52}
_LONG, _SHORT = 30, 2  # instructions of a program's operation: with a function in it, or not
_START = 400  # cycles in which a call begins and ends


@dataclass(frozen=True)
class Terms:
    """Cycles of a step.

    compute   instructions
    weights   bytes of weights, the next of which are asked for while these are used
    operands  bytes of other steps' results, and of results
    hidden    of the shorter of the instructions and the weights, the part that hides behind the
              longer; and of the operands'
    beside    instructions while which no memory is waited for
    """

    compute: float
    weights: float = 0.0
    operands: float = 0.0
    hidden: tuple[float, float] = (0.8, 0.75)
    beside: float = 0.0

    @property
    def cycles(self) -> float:
        together = _overlap(self.compute, self.weights, self.hidden[0])
        return _overlap(together, self.operands, self.hidden[1]) + self.beside + _START


def _overlap(first: float, second: float, hidden: float) -> float:
    return max(first, second) + (1 - hidden) * min(first, second)


@dataclass(frozen=True)
class Work:
    """A call, its bytes, and its target CPU."""

    part: Part
    operands: Operands
    target: Target

    @property
    def spec(self) -> Any:
        return self.part.call.spec

    @property
    def instructions(self) -> float:
        return family_of(self.target).instructions(self.target)

    @property
    def vectors(self) -> int:
        """Vectors of the largest operand or result."""
        step: Step = self.part.step
        return max(-(-product(_sizes(v)) // self.target.lanes) for v in (*step.reads, *step.writes))

    @property
    def rows(self) -> int:
        return product(self.part.step.writes[0].shape[:-1])

    def epilogue(self) -> float:
        """Cycles of the epilogue of each vector."""
        return program_instructions(self.spec.program) / self.instructions


def _sizes(view: Any) -> tuple[int, ...]:
    return tuple(size for size, stride in zip(view.shape, view.strides) if stride)


def program_instructions(program: Program) -> int:
    each = (replace(program, instrs=(instr,)) for instr in program.instrs)
    return sum(_LONG if is_long(one) else _SHORT for one in each)


def terms(work: Work) -> Terms:
    """The terms of a call by its kind; those of other kinds have a share of the peak."""
    kind = work.spec.kind
    of_kind = _OF_KIND.get(kind, _by_share)
    return of_kind(work)


def _moved(work: Work) -> Terms:
    """The terms of memory alone."""
    moved = (work.operands.read + work.operands.written).cycles(work.target)
    return Terms(0.0, work.operands.weights.cycles(work.target), moved)


def _by_share(work: Work) -> Terms:
    share, family = SHARES.get(work.spec.kind, 1.0), family_of(work.target)
    lanes = work.target.lanes
    compute = flops(work.part) / (2 * lanes * family.sums(work.target) * share)
    return replace(_moved(work), compute=compute)


def _conv(work: Work) -> Terms:
    spec = work.spec
    vectors = product(spec.out) * -(-spec.oc // work.target.lanes) * spec.groups
    compute = direct_cycles(spec, work.target) + vectors * work.epilogue()
    return replace(_moved(work), compute=compute)


def _dense(work: Work) -> Terms:
    spec, lanes = work.spec, work.target.lanes
    blocks, rest = divmod(-(-spec.oc // lanes), spec.nv)
    sums = family_of(work.target).sums(work.target)
    tiles = -(-work.rows // spec.mr)
    height = work.rows / tiles
    each = blocks * tile_cycles(height, spec.nv, spec.ic, sums)
    each += tile_cycles(height, rest, spec.ic, sums) if rest else 0
    vectors = work.rows * -(-spec.oc // lanes)
    turns = tiles * (blocks + bool(rest)) * spec.ic / spec.unroll
    compute = tiles * each + turns + vectors * (1 + work.epilogue())
    return replace(_moved(work), compute=compute)


def _winograd(work: Work) -> Terms:
    """Filters that serve one register tile of a block are half waited for: none asks for them."""
    spec, target = work.spec, work.target
    family, cycles = family_of(target), winograd_cycles(spec, target)
    is_near = cycles.again and 4 * spec.points * spec.ic * spec.oc <= target.l2_bytes // 2
    again = cycles.again / (family.second_level if is_near else family.third_level)
    moved = _moved(work)
    return replace(
        moved,
        compute=cycles.products,
        weights=moved.weights + again,
        hidden=(0.9 if cycles.ahead else 0.5, 0.4),
        beside=cycles.transforms,
    )


def _depthwise(work: Work) -> Terms:
    """A vector of the input is loaded once for its row of taps, and so are the filters."""
    spec = work.spec
    vectors = -(-spec.channels // work.target.lanes)
    lines = taps_inside(spec, 0) * taps_inside(spec, 1)
    compute = 0.0
    for tile in tiles_of_row(spec, spec.cols):
        products = sum(high - low for low, high in tile.reach)
        loads = len(_positions(spec, tile)) + spec.kernel[2]
        waits = 4 * spec.kernel[2] / min(spec.nv, vectors) * work.instructions
        shuffles = 2 * len(_positions(spec, tile)) if spec.group > 1 else 0
        line = spec.group * max(products, loads, shuffles, waits) / work.instructions
        stores = spec.out[0] * spec.out[1] * tile.width * (1 + work.epilogue())
        compute += vectors * (lines * (line + 4 / spec.nv) + stores)
    return replace(_moved(work), compute=compute, hidden=(0.5, 0.5))


def _positions(spec: Any, tile: Any) -> set[int]:
    reached = enumerate(tile.reach)
    places = ((tap, m) for tap, (low, high) in reached for m in range(low, high))
    return {m * spec.stride[2] + tap * spec.dilate[2] for tap, m in places}


_POOLED = 4  # vectors of channels that are done together
# How much slower bytes come that lie in pieces of so few vectors, each of them far from the next.
_IN_PIECES = Levels(second=2.1, third=1.55, memory=1.0)


def _pool(work: Work) -> Terms:
    spec, target = work.spec, work.target
    vectors = -(-spec.channels // target.lanes)
    blocks = -(-vectors // _POOLED)
    lines = taps_inside(spec, 0) * taps_inside(spec, 1)
    taps = lines * taps_inside(spec, 2)
    outs = product(spec.out)
    per_tap = max(1.7 / work.instructions, 2.2 / min(_POOLED, vectors))
    compute = taps * vectors * per_tap + lines * spec.out[2] * blocks
    compute += outs * vectors * (1 + work.epilogue()) + 3.4 * outs * blocks
    read = work.operands.read
    if blocks > 1:
        read = Levels(*(nbytes * slower for nbytes, slower in zip(read.each, _IN_PIECES.each)))
    moved = (read + work.operands.written).cycles(target)
    return Terms(compute, 0.0, moved, hidden=(1.0, 0.85))


def _pointwise(work: Work) -> Terms:
    """Where the loop over the last axis is one of several, each turn of the others begins it."""
    rows = work.rows if work.spec.dims else 1
    compute = work.vectors * (0.65 + 0.95 * work.epilogue()) + 6 * rows + 1000
    return replace(_moved(work), compute=compute, hidden=(1.0, 0.8))


def _norm(work: Work) -> Terms:
    compute = work.vectors * 2.8 / work.instructions + 66 * work.rows
    return replace(_moved(work), compute=compute, hidden=(1.0, 0.9))


_OF_KIND: dict[str, Callable[[Work], Terms]] = {
    "conv": _conv,
    "dense": _dense,
    "winograd": _winograd,
    "depthwise": _depthwise,
    "pool": _pool,
    "pointwise": _pointwise,
    "turned": _pointwise,
    "norm": _norm,
}
