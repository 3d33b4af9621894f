"""Pointwise kernels whose results are pixels of two to four adjacent channels, read plane by plane.

A vector of pixels of each plane is computed and interleaved in registers: the bytes of a picture of
3x224x224 are quantized to channels-last in 0.030 ms, in 0.055 ms if they are quantized first and
then moved one by one (Zen 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..._core.frozen import dataclass
from ..._core.symbolic import Size as Symbolic
from ..call import GivenNumbers
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.elements import ELEMENTS, stored
from ..llvm.indices import Index
from ..llvm.types import I32, Value, vector_of
from ..spec import Ints, KernelSpec, Program, Size, Sizes
from .parts.arguments import Arguments
from .parts.cost import is_plain
from .parts.partial import read_vector
from .parts.program import evaluate

_Side: TypeAlias = tuple[list[Value], list[list[Index]]]  # arrays, and the strides of each
# Most planes whose vectors are held at the same time.
_MOST_PLANES = 4
# Most operations, which are unrolled for each plane.
_MOST_OPERATIONS = 6
# Adjacent vectors of pixels of a unit of work.
_VECTORS = 8
# Element types in memory that vectors of this kernel hold.
_TYPES = {"float32", "uint8", "int8"}


@dataclass(frozen=True)
class InterleavedSpec(KernelSpec):
    """A program over ``(count, pixels, planes)``; arguments: operands, results, count, given
    integers.

    Operands have adjacent pixels, or one value for all pixels of a plane; results have adjacent
    planes, pixel after pixel.
    """

    pixels: Size
    planes: int
    reads: tuple[Sizes, ...]
    writes: tuple[Sizes, ...]
    program: Program
    kind = "interleaved"

    @property
    def needs_passes(self) -> bool:  # type: ignore[override]
        """As for pointwise kernels."""
        return not is_plain(self.program)


def is_interleaved(
    program: Program, sizes: Ints, columns: Sequence[Ints], lanes: int, is_in_place: bool
) -> bool:
    """Whether a program over this space reads planes and writes pixels.

    The last vector of pixels begins where it is full: an operand that a result overwrites would be
    read again.
    """
    reads, writes = columns[: program.inputs], columns[program.inputs :]
    is_short = len(program.instrs) <= _MOST_OPERATIONS
    is_short &= {*program.value_types} <= _TYPES
    if is_in_place or not is_short or not 2 <= len(sizes) <= 3:
        return False
    pixels, planes = sizes[-2:]
    if isinstance(planes, Symbolic) or not 2 <= planes <= _MOST_PLANES or pixels < lanes:
        return False
    are_planes = all(each[-2] in (0, 1) for each in reads) and any(each[-2] for each in reads)
    return are_planes and all(each[-2:] == (planes, 1) for each in writes)


def interleaved_spec(
    program: Program, sizes: Ints, columns: Sequence[Ints]
) -> tuple[InterleavedSpec, list[int]]:
    """The spec of a program over this space, and the integers of its calls: the count first."""
    numbers = GivenNumbers()
    count, pixels, planes = sizes if len(sizes) == 3 else (1, *sizes)
    strides = [each if len(sizes) == 3 else (0, *each) for each in columns]
    given = [numbers.each(tuple(each)) for each in strides]
    spec = InterleavedSpec(
        pixels=numbers.any(pixels),
        planes=planes,
        reads=tuple(given[: program.inputs]),
        writes=tuple((*each[:1], planes, 1) for each in given[program.inputs :]),
        program=program,
    )
    return spec, [count, *numbers.values]


def emit_interleaved(b: LoopBuilder, spec: InterleavedSpec, args: Arguments) -> None:
    """for (count, pixels) by vectors: results = program(operands) of each plane, interleaved"""
    reads = args.pointers("x", len(spec.reads))
    writes = args.pointers("y", len(spec.writes))
    count = args.integer("count")
    read_strides, write_strides = (
        [args.given(each) for each in side] for side in (spec.reads, spec.writes)
    )
    (pixels,) = args.given((spec.pixels,))
    width = _VECTORS * b.lanes
    steps = b.divmod(b.add(pixels, width - 1), width)[0]
    with b.each_unit(b.mul(count, steps), args.share, args.shares) as unit:
        image, step = b.split(unit.index, (0, steps))
        bases, targets = (
            [b.at(p, b.mul(image, each[0]), ELEMENTS[t].stored) for p, each, t in zip(*side)]
            for side in (
                (reads, read_strides, spec.program.value_types),
                (writes, write_strides, spec.program.output_types),
            )
        )
        left = b.mul(step, width)
        right = b.min(b.add(left, width), pixels)
        with b.loop("pixels", left, right, b.lanes, most=_VECTORS) as loop:
            at = b.min(loop.index, b.sub(pixels, b.lanes))
            _emit_pixels(b, spec, (bases, read_strides), targets, at)


def _emit_pixels(
    b: LoopBuilder, spec: InterleavedSpec, reads: _Side, targets: list[Value], at: Index
) -> None:
    """A vector of pixels: the program on each plane, and one store of each result."""
    types, found = spec.program.value_types, []
    for plane in range(spec.planes):
        operands = [
            read_vector(
                b, p, b.add(b.mul(plane, each[2]), b.mul(at, each[1])), each[1], b.lanes, dtype
            )
            for p, each, dtype in zip(*reads, types)
        ]
        found.append(evaluate(b, spec.program, operands))
    for number, (target, dtype) in enumerate(zip(targets, spec.program.output_types)):
        planes = [stored(b, results[number], dtype) for results in found]
        place = b.at(target, b.mul(at, spec.planes), ELEMENTS[dtype].stored)
        b.store(_interleaved(b, planes), place)


def _interleaved(b: LoopBuilder, planes: list[Value]) -> Value:
    """The first element of each vector, then the second ones, and so on."""
    count, lanes = len(planes), planes[0].type.count
    padded = planes + planes[:1] * (len(planes) % 2)
    pairs = [b.joined(*padded[i : i + 2]) for i in range(0, len(padded), 2)]
    order = [plane * lanes + lane for lane in range(lanes) for plane in range(count)]
    pattern = ir.Constant(vector_of(I32, len(order)), order)
    return b.b.shuffle_vector(pairs[0], pairs[-1], pattern)
