"""Readers of ONNX's branches and loops, which symbols do not have.

Constant conditions select a branch, computed ones select elementwise; loops with a constant number
of steps are unrolled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...errors import MXNetError, ShapeError
from ..importer import Importer, Value
from ..use import Use
from .pointwise import as_number, to_shape
from .table import translates


@translates("If")
def choose(g: Importer, use: Use, condition: Value) -> Sequence[Value]:
    """Results of the selected graph; elementwise selection between both for a computed
    condition."""
    branches = use.graph("then_branch"), use.graph("else_branch")
    if condition.array is not None:
        return g.inlined(branches[0 if _truth(condition) else 1], ())
    made = [g.inlined(branch, ()) for branch in branches]
    return [_chosen(g, condition, a, b) for a, b in zip(*made, strict=True)]


def _truth(condition: Value) -> bool:
    """Bool of a constant. Raises ValueError for more than one element."""
    assert condition.array is not None
    return bool(condition.array.reshape(()))


def _chosen(g: Importer, condition: Value, a: Value, b: Value) -> Value:
    """Elementwise selection between two values of equal types."""
    if a.type != b.type:
        raise ShapeError(
            f"it selects between {a.type} and {b.type} at run time: their types must be equal"
        )
    shape = g.shape(a)
    where = g.op("Reshape", as_number(g, condition), shape=(1,) * max(len(shape), 1), at="choice")
    whole = to_shape(g, where, shape or (1,))
    # `where` does not accept bool operands.
    sides = [as_number(g, x) for x in (a, b)]
    made = g.op("where", whole, *sides)
    made = made if g.dtype(made) == g.dtype(a) else g.op("Cast", made, dtype=g.dtype(a), at="bool")
    return made if shape else g.scalar(made)


@translates("Loop")
def loop(
    g: Importer, use: Use, count: Value | None = None, condition: Value | None = None, *start: Value
) -> Sequence[Value]:
    """Final carried values, and stacked rows of each step's results.

    A computed condition keeps carried values unchanged once false, up to a constant number of
    steps.
    """
    body = use.graph("body")
    steps = None if count is None else g.ints(count, "M")[0]
    carried, rows = list(start), []
    alive = None if condition is None or condition.array is not None else condition
    is_over = condition is not None and condition.array is not None and not _truth(condition)
    number = 0
    while not is_over and (steps is None or number < steps):
        given = condition or g.constant(np.array(True))
        place = g.constant(np.array(number, np.int64))
        goes_on, *made = g.inlined(body, (place, given, *carried))
        after, row = made[: len(start)], made[len(start) :]
        carried = [*after] if alive is None else _kept(g, alive, after, carried)
        rows.append(row)
        condition, number = goes_on, number + 1
        if goes_on.array is not None:
            is_over = not _truth(goes_on)
        else:
            alive = goes_on if alive is None else _both(g, alive, goes_on)
            _require_fixed(steps, row)
    return [*carried, *_stacked(g, use, rows, len(use.outputs) - len(start))]


def _kept(g: Importer, alive: Value, after: list[Value], before: list[Value]) -> list[Value]:
    return [_chosen(g, alive, a, b) for a, b in zip(after, before, strict=True)]


def _both(g: Importer, a: Value, b: Value) -> Value:
    sides = (g.op("Reshape", as_number(g, x), shape=(1,), at="condition") for x in (a, b))
    return g.op("broadcast_logical_and", *sides, at="alive")


def _require_fixed(steps: int | None, row: Sequence[Value]) -> None:
    if steps is None or row:
        raise MXNetError(
            "its number of steps depends on computed values: the condition must "
            "be a constant without a count of steps, or if steps have row results"
        )


def _stacked(g: Importer, use: Use, rows: list[list[Value]], count: int) -> Iterator[Value]:
    """Each result of all steps, stacked along a first axis."""
    if count > 0 and not rows:
        raise MXNetError("it has 0 steps, so the type of its row results is unknown")
    for each in zip(*rows, strict=True):
        yield _joined(g, each, 0)


def _joined(g: Importer, rows: Sequence[Value], axis: int) -> Value:
    """Values stacked along a new axis."""
    place = axis % (g.rank(rows[0]) + 1)
    whole = [
        g.op("expand_dims", x, axis=place, at="row")
        if g.rank(x)
        else g.op("Reshape", x, shape=(1,), at="row")
        for x in rows
    ]
    return g.op("Concat", *whole, num_args=len(whole), dim=place)


@translates("Scan")
def scan(g: Importer, use: Use, *operands: Value | None) -> Sequence[Value]:
    """A graph for each slice of sequences: final carried values, and rows of results."""
    if use.opset < 9:
        return _scan_batch(g, use, operands)
    return _scan(g, use, [x for x in operands if x is not None])


def _scan(g: Importer, use: Use, operands: Sequence[Value]) -> Sequence[Value]:
    body, width = use.graph("body"), use.number("num_scan_inputs")
    count = len(operands) - width
    carried, sequences = list(operands[:count]), operands[count:]
    axes = use.ints("scan_input_axes", (0,) * width)
    slices = [_slices(g, x, axis) for x, axis in zip(sequences, axes, strict=True)]
    backwards = use.ints("scan_input_directions", use.ints("directions", (0,) * width))
    slices = [s[::-1] if back else s for s, back in zip(slices, backwards, strict=True)]
    rows = []
    for parts in zip(*slices, strict=True):
        made = g.inlined(body, (*carried, *parts))
        carried = [*made[:count]]
        rows.append(made[count:])
    columns = [*zip(*rows, strict=True)]
    axes = use.ints("scan_output_axes", (0,) * len(columns))
    turned = use.ints("scan_output_directions", (0,) * len(columns))
    ordered = (c[::-1] if back else c for c, back in zip(columns, turned, strict=True))
    return [*carried, *(_joined(g, c, axis) for c, axis in zip(ordered, axes, strict=True))]


def _scan_batch(g: Importer, use: Use, operands: Sequence[Value | None]) -> Sequence[Value]:
    """Operator set 8: each sample of a batch separately, all sequences of equal length."""
    lengths, *whole = operands
    if lengths is not None:
        raise MXNetError("sequence_lens is not supported: sequences must have equal lengths")
    samples = zip(*(_slices(g, x, 0) for x in whole if x is not None), strict=True)
    made = [_scan(g, use, sample) for sample in samples]
    return [_joined(g, each, 0) for each in zip(*made, strict=True)]


def _slices(g: Importer, x: Value, axis: int) -> Sequence[Value]:
    """Slices along an axis, without the axis."""
    count = g.shape(x)[axis]
    g.spend_steps(count)
    if not count:
        raise MXNetError(
            "a sequence without elements: the types of each step's results are unknown"
        )
    parts = g.outputs(
        "SliceChannel", x, num_outputs=count, axis=axis % g.rank(x), squeeze_axis=True, at="steps"
    )
    return parts if g.rank(x) > 1 else [g.scalar(part) for part in parts]
