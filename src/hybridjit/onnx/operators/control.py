"""ONNX's branches and loops: a graph has none, so conditions choose where they are constants,
and loops whose number of steps is one are written out, step by step."""

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
    """The results of one of two graphs; of both, element by element, where the graph chooses."""
    branches = use.graph("then_branch"), use.graph("else_branch")
    if condition.array is not None:
        return g.inlined(branches[0 if _truth(condition) else 1], ())
    made = [g.inlined(branch, ()) for branch in branches]
    return [_chosen(g, condition, a, b) for a, b in zip(*made, strict=True)]


def _truth(condition: Value) -> bool:
    """Raises ValueError for more than one element."""
    assert condition.array is not None
    return bool(condition.array.reshape(()))


def _chosen(g: Importer, condition: Value, a: Value, b: Value) -> Value:
    """One of two values of one type."""
    if a.type != b.type:
        raise ShapeError(f"it chooses between {a.type} and {b.type} while it runs: of one type")
    shape = g.shape(a)
    where = g.op("Reshape", as_number(g, condition), shape=(1,) * max(len(shape), 1), at="choice")
    whole = to_shape(g, where, shape or (1,))
    # bool is no operand of `where`
    sides = [as_number(g, x) for x in (a, b)]
    made = g.op("where", whole, *sides)
    made = made if g.dtype(made) == g.dtype(a) else g.op("Cast", made, dtype=g.dtype(a), at="bool")
    return made if shape else g.scalar(made)


@translates("Loop")
def loop(
    g: Importer, use: Use, count: Value | None = None, condition: Value | None = None, *start: Value
) -> Sequence[Value]:
    """What is carried from step to step in the end, and rows of what each step gives.

    A condition that the graph computes keeps what is carried as it was, up to a count of steps
    that is a constant.
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
            "its number of steps depends on values that the graph computes: the condition has to "
            "be a constant where there is no count of steps, or where each step gives a row"
        )


def _stacked(g: Importer, use: Use, rows: list[list[Value]], count: int) -> Iterator[Value]:
    """Each result of all steps along a first axis."""
    if count > 0 and not rows:
        raise MXNetError("it has no step, and each one would give a row of a type not known")
    for each in zip(*rows, strict=True):
        yield _joined(g, each, 0)


def _joined(g: Importer, rows: Sequence[Value], axis: int) -> Value:
    """Values side by side along a new axis."""
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
    """A graph for each slice of sequences: what is carried in the end, and rows of results."""
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
    """Operator set 8: each sample of a batch by itself, all sequences of one length."""
    lengths, *whole = operands
    if lengths is not None:
        raise MXNetError("sequence_lens: sequences of one length are there")
    samples = zip(*(_slices(g, x, 0) for x in whole if x is not None), strict=True)
    made = [_scan(g, use, sample) for sample in samples]
    return [_joined(g, each, 0) for each in zip(*made, strict=True)]


def _slices(g: Importer, x: Value, axis: int) -> Sequence[Value]:
    """What stands at each place of an axis, without the axis."""
    count = g.shape(x)[axis]
    g.spend_steps(count)
    if not count:
        raise MXNetError("a sequence without elements: what each step would give is not known")
    parts = g.outputs(
        "SliceChannel", x, num_outputs=count, axis=axis % g.rank(x), squeeze_axis=True, at="steps"
    )
    return parts if g.rank(x) > 1 else [g.scalar(part) for part in parts]
