"""Pointwise kernels: a program over every element of a strided index space."""

from __future__ import annotations

from typing import Any

from ..builder import Index, LoopBuilder
from ..elements import ELEMENTS
from ..spec import PointwiseSpec
from .arguments import Arguments
from .program import evaluate
from .tail import read_vector, write_vector


def emit_pointwise(b: LoopBuilder, spec: PointwiseSpec, args: Arguments) -> None:
    """for (count, *dims): results = program(operands), vectors along the last axis."""
    reads = [args.pointer(f"x{i}") for i in range(len(spec.reads))]
    writes = [args.pointer(f"y{i}") for i in range(len(spec.writes))]
    count = args.integer("count")
    if not spec.dims:
        _emit_line(b, spec, reads, writes, count, args)
        return
    outer = spec.dims[:-1]
    units: Index = count
    for size in outer:
        units = b.mul(units, size)
    begin, end = b.share(units, args.tid, args.threads)
    with b.loop("unit", begin, end) as unit:
        place = b.split(unit.index, (0, *outer))
        types = _types(spec)
        bases, targets = (
            [b.at(p, b.dot(place, s), ELEMENTS[t].stored) for p, s, t in zip(*side)]
            for side in ((reads, spec.reads, types[0]), (writes, spec.writes, types[1]))
        )
        _emit_row(b, spec, bases, targets, spec.dims[-1])


def _emit_line(
    b: LoopBuilder,
    spec: PointwiseSpec,
    reads: list[Any],
    writes: list[Any],
    count: Any,
    args: Arguments,
) -> None:
    """One axis of a length known only at run time, cut into blocks of ``spec.block``."""
    blocks = b.b.udiv(b.add(count, spec.block - 1), b.i64(spec.block))
    begin, end = b.share(blocks, args.tid, args.threads)
    start, stop = b.mul(begin, spec.block), b.min(b.mul(end, spec.block), count)
    whole = b.sub(stop, b.b.urem(b.sub(stop, start), b.i64(b.lanes)))
    with b.loop("i", start, whole, b.lanes) as i:
        _emit_vector(b, spec, reads, writes, i.index, b.lanes)
    with b.loop("tail", whole, stop) as i:
        _emit_vector(b, spec, reads, writes, i.index, 1)


def _emit_row(
    b: LoopBuilder, spec: PointwiseSpec, reads: list[Any], writes: list[Any], size: int
) -> None:
    whole = size - size % b.lanes
    if whole == b.lanes:
        _emit_vector(b, spec, reads, writes, 0, b.lanes)
    elif whole:
        with b.loop("i", 0, whole, b.lanes) as i:
            _emit_vector(b, spec, reads, writes, i.index, b.lanes)
    if size % b.lanes:
        _emit_vector(b, spec, reads, writes, whole, size % b.lanes)


def _emit_vector(
    b: LoopBuilder, spec: PointwiseSpec, reads: list[Any], writes: list[Any], i: Index, n: int
) -> None:
    types = _types(spec)
    values = [
        read_vector(b, p, b.mul(i, s[-1]), s[-1], n, t)
        for p, s, t in zip(reads, spec.reads, types[0])
    ]
    results = evaluate(b, spec.program, values)
    for value, p, s, t in zip(results, writes, spec.writes, types[1]):
        write_vector(b, value, p, b.mul(i, s[-1]), s[-1], n, t)


def _types(spec: PointwiseSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The element types of operands and results."""
    program = spec.program
    return program.value_types[: program.inputs], program.output_types
