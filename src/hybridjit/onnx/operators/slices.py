"""Readers of ONNX's Slice: bounds that are known, and windows that the graph places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core.symbolic import count_of, indices
from ...errors import MXNetError
from ...ir.node import Output
from ..importer import Importer, Value
from ..use import Use
from .table import translates

# Operators that keep the value of one element; a start and an end may pass through them apart.
_SAME_VALUE = {"expand_dims", "Reshape", "_np_reshape", "squeeze", "identity", "_copy"}


@translates("Slice")
def slice_(
    g: Importer,
    use: Use,
    x: Value,
    starts: Value | None = None,
    ends: Value | None = None,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    """Slices of some axes with steps."""
    rank = g.rank(x)
    if use.opset < 10:
        first, last, chosen = use.ints("starts"), use.ints("ends"), use.ints("axes")
        return _sliced(g, x, _parts(rank, chosen, first, last, (1,) * len(first)))
    chosen = () if axes is None else g.ints(axes, "axes")
    step = () if steps is None else g.ints(steps, "steps")
    if starts is not None and ends is not None and not (starts.is_constant and ends.is_constant):
        widths = _widths(g, starts, ends)
        return _windows(g, x, starts, _parts(rank, chosen, widths, widths, step))
    first, last = g.ints(starts, "starts"), g.ints(ends, "ends")
    return _sliced(g, x, _parts(rank, chosen, first, last, step))


_Parts = dict[int, tuple[int, int, int]]


def _parts(
    rank: int, axes: Sequence[int], first: Sequence[int], last: Sequence[int], steps: Sequence[int]
) -> _Parts:
    """Begin, end and step by axis."""
    bounds = zip(first, last, steps or (1,) * len(first))
    return {axis % rank: bound for axis, bound in zip(axes or range(rank), bounds)}


def _sliced(g: Importer, x: Value, parts: _Parts) -> Value:
    """Slices of some axes; a negative step goes from a later start to an earlier end."""
    shape = g.shape(x)
    bounds = [
        indices(slice(*parts[i]), n) if i in parts else (0, n, 1) for i, n in enumerate(shape)
    ]
    if any(count_of(*b) == 0 for b in bounds):
        sizes = tuple(count_of(*b) for b in bounds)
        return g.filled(sizes, np.zeros(1, g.dtype(x)))
    begin, end, step = zip(*((b, None if e < 0 else e, s) for b, e, s in bounds))
    return g.op("slice", x, begin=begin, end=end, step=step)


def _widths(g: Importer, starts: Value, ends: Value) -> Sequence[int]:
    """``ends - starts``, where one is the other plus or minus a constant. Raises MXNetError."""
    count = g.type(starts).size or 1
    first, last = (_source(g.edge(x), count) for x in (starts, ends))
    found = _added(g, last, first, count)
    if found is None:
        found = _subtracted(g, first, last, count)
    if found is None:
        raise MXNetError(
            "its operands 'starts' and 'ends' are computed by the graph, but the result must have "
            "one size: both must be constants, or one of them the other plus a constant"
        )
    return tuple(np.broadcast_to(found.reshape(-1), (count,)).tolist())


def _source(output: Output, count: int) -> Output:
    """The output that computes bounds; of a single one, before operators that keep its value."""
    while count == 1 and output.node.op is not None and output.node.op.name in _SAME_VALUE:
        output = output.node.inputs[0]
    return output


def _added(g: Importer, whole: Output, part: Output, count: int) -> np.ndarray | None:
    """The constant that is added to ``part``; None unless ``whole`` is this sum."""
    node = whole.node
    if node.op is None or node.op.name != "broadcast_add":
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        if _source(one, count) == part:
            return _constant(g, other)
    return None


def _subtracted(g: Importer, rest: Output, part: Output, count: int) -> np.ndarray | None:
    """The constant that is subtracted from ``part``; None unless ``rest`` is this difference."""
    node = rest.node
    if node.op is None or node.op.name != "broadcast_sub" or _source(node.inputs[0], count) != part:
        return None
    return _constant(g, node.inputs[1])


def _constant(g: Importer, output: Output) -> np.ndarray | None:
    """Elements of a constant that does not depend on sizes of inputs."""
    name = output.node.name
    return None if name in g.sized else g.params.get(name)


def _windows(g: Importer, x: Value, starts: Value, parts: _Parts) -> Value:
    """Windows of known widths at computed starts, which must lie inside of the operand."""
    for place, (axis, (_, width, step)) in enumerate(parts.items()):
        if step < 1:
            raise MXNetError(f"a step of {step} from a start that the graph computes")
        start = g.op("slice_axis", starts, axis=0, begin=place, end=place + 1, at="start")
        offsets = g.constant(np.arange(0, width, step, dtype=np.int64))
        chosen = g.op("broadcast_add", start, offsets, at="places")
        x = g.op("take", x, chosen, axis=axis, mode="raise", at="window")
    return x
