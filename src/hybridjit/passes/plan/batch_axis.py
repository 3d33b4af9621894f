"""Sample rows: find which rows of a dense layer certainly belong to one sample of the batch.

Input: a graph with unmerged views. Output: the graph with the rows of one sample, for each dense
layer for which they are known.

Operators do not state which axis is the batch, but samples are independent along it. Therefore, an
axis along which a sum, a softmax, a norm or a product runs anywhere in the graph is not the batch,
and rows along it, or along a part of it, belong to one sample: the positions of a sequence before
attention, the windows of an image, or the steps of a recurrent layer. In a recurrent layer, the
batch is the inner axis: the distance between rows of a sample is the number of samples.

An axis is tracked through the graph as digits: parts of an axis of an operand, or of an axis that
an operator introduces, with a stride of ``inner``. Reshapes split and join digits, transposes move
them, and pointwise operators unite digits of their operands. An axis of size 1 has a digit as well,
so that a batch of one sample is found wherever a larger one is; for this reason the pass runs
before views are merged, which would drop axes of size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import TypeAlias

from ..._core.frozen import dataclass, replace
from ..._core.types import Shape, product
from ...ir.graph import Graph, SampleRows, Use, Value
from ...ir.sized import is_symbolic
from ...ops.nn.embedding_table import EMBEDDING
from ...ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ...ops.record import OpDef
from ...ops.rules import normalized_axis, reduced_axes
from ...ops.tensor.joining import CONCAT
from ...ops.tensor.primitives import BROADCAST_TO, RESHAPE_TO, SLICE, TRANSPOSE, permutation
from .normalised_rows import layers_with_normalised_rows


@dataclass(frozen=True)
class Digit:
    """``size`` indices, at a distance of ``inner``, of the axis with this number."""

    axis: int
    inner: int
    size: int


# The digits of an axis, the outermost first.
Axis: TypeAlias = tuple[Digit, ...]
# Digits with their outer and their inner parts.
Splits: TypeAlias = set[tuple[Digit, Digit, Digit]]


def infer_batch_axis(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph with ``sample_rows`` of its dense layers, by name; for inference only.

    Layers whose rows are normalised have none, so that their kernels do not combine rows.
    """
    layers = [value for value in graph.values if value.op is FULLY_CONNECTED]
    if graph.purpose.training or not layers:
        return graph
    exact = layers_with_normalised_rows(graph)
    layers = [value for value in layers if value not in exact]
    axes = _Axes(graph)
    rows = ((value.name, axes.own_rows(value)) for value in layers)
    found = tuple((name, of_sample) for name, of_sample in rows if of_sample.count > 1)
    if fired is not None:
        fired += [f"{name}: {of_sample}" for name, of_sample in found]
    return replace(graph, sample_rows=found) if found else graph


class _Axes:
    """The axes of the values of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._fixed = set(graph.params)
        self._axes: dict[Value, tuple[Axis, ...]] = {}
        self._same: dict[Digit, Digit] = {}
        self._met: set[Digit] = set()
        self._splits: Splits = set()
        self._number = 0
        for value in graph.values:
            if value.op is not None and all(use.value in self._fixed for use in value.inputs):
                self._fixed.add(value)
            self._axes[value] = self._follow(value)
        self._met = set(map(self._first, self._met))
        self._mark_parts()

    def _mark_parts(self) -> None:
        """Mark the parts of marked digits, and digits whose parts are marked."""
        splits = {tuple(map(self._first, split)) for split in self._splits}
        count = -1
        while count != len(self._met):
            count = len(self._met)
            for whole, outer, inner in splits:
                if whole in self._met:
                    self._met |= {outer, inner}
                elif {outer, inner} <= self._met:
                    self._met.add(whole)

    def own_rows(self, dense: Value) -> SampleRows:
        """The rows of a dense layer that certainly belong to one sample.

        A single row if rows of other samples are between and around them, even if the batch has one
        sample: a sample's bits do not depend on the size of the batch.
        """
        digits = self._axes[dense][0]
        inner = [*takewhile(lambda digit: not self._is_met(digit), reversed(digits))]
        own = [*takewhile(self._is_met, reversed(digits[: len(digits) - len(inner)]))]
        if inner and len(inner) + len(own) < len(digits):
            return SampleRows()
        return SampleRows(_size(own), _size(inner)) if own else SampleRows()

    def _is_met(self, digit: Digit) -> bool:
        return self._first(digit) in self._met

    # --- equal digits ---

    def _new(self, shape: Shape) -> tuple[Axis, ...]:
        """Axes without known properties."""
        self._number += len(shape)
        first = self._number - len(shape)
        return tuple((Digit(first + i, 1, size),) for i, size in enumerate(shape))

    def _first(self, digit: Digit) -> Digit:
        """The representative of a set of equal digits; shortens the path to it (union-find)."""
        passed = []
        while digit in self._same:
            passed.append(digit)
            digit = self._same[digit]
        self._same.update(dict.fromkeys(passed, digit))
        return digit

    def _unite(self, one: Axis, other: Axis) -> None:
        """Record that the indices of one axis are all or some of the other's.

        Axes of size 1 are not united: an axis of size 1 that is broadcast has nothing in common
        with the other.
        """
        if len(one) != len(other):
            return
        for a, b in zip(one, other):
            first, second = self._first(a), self._first(b)
            if first != second and a.size > 1 < b.size:
                self._same[first] = second

    def _meet(self, axes: Sequence[Axis]) -> None:
        """Record that a reduction, softmax, norm or product runs along these axes."""
        self._met.update(digit for axis in axes for digit in axis if digit.size > 1)

    # --- operators ---

    def _follow(self, value: Value) -> tuple[Axis, ...]:
        """The axes of the first result."""
        if value.op is None or not value.inputs or any(use.index for use in value.inputs):
            return self._new(value.shape)
        follow = _RULES.get(value.op) or _OF_KERNELS.get(value.op.kernel)
        return follow(self, value) if follow else self._new(value.shape)

    def _of(self, use: Use) -> tuple[Axis, ...]:
        return self._axes[use.value]

    def _activations(self, value: Value) -> list[Use]:
        """Operands that depend on inputs; parameters do not count, as one may serve several
        axes."""
        return [use for use in value.inputs if use.value not in self._fixed]

    def _pointwise(self, value: Value) -> tuple[Axis, ...]:
        axes: list[Axis] = list(self._new(value.shape))
        for use in self._activations(value):
            of_use = self._of(use)
            for place, axis in zip(range(len(axes) - len(of_use), len(axes)), of_use):
                if _size(axis) == value.shape[place]:
                    axes[place] = self._joined(axes[place], axis)
        return tuple(axes)

    def _joined(self, known: Axis, axis: Axis) -> Axis:
        """United axes, as the one with more digits."""
        self._unite(known, axis)
        return known if len(known) > len(axis) else axis

    def _reshape(self, value: Value) -> tuple[Axis, ...]:
        digits = [digit for axis in self._of(value.inputs[0]) for digit in axis]
        return _regrouped(digits, value.shape, self._splits) or self._new(value.shape)

    def _transpose(self, value: Value) -> tuple[Axis, ...]:
        axes = self._of(value.inputs[0])
        return tuple(axes[i] for i in permutation(len(axes), value.attrs["axes"]))

    def _part(self, value: Value) -> tuple[Axis, ...]:
        """Slices of an axis, concatenation along it and padding keep the identity of the axis.

        One position of a longer axis, as the queries of joined queries, keys and values, has one
        element for any batch: it is not the batch.
        """
        axes = list(self._new(value.shape))
        for use in self._activations(value):
            sizes = use.type.dims
            for place, axis in enumerate(self._of(use)):
                if sizes[place] == value.shape[place]:
                    axes[place] = self._joined(axes[place], axis)
                else:
                    self._unite(axes[place], axis)
        if value.op is SLICE:
            sizes = value.inputs[0].type.dims
            pairs = zip(axes, sizes, value.shape)
            single = (a for a, n, m in pairs if not is_symbolic((n, m)) and n != m == 1)
            self._met.update(digit for axis in single for digit in axis)
        return tuple(axes)

    def _dense(self, value: Value) -> tuple[Axis, ...]:
        rows, *columns = self._of(value.inputs[0])
        self._meet(columns)
        return (rows, *self._new(value.shape[1:]))

    def _batch_dot(self, value: Value) -> tuple[Axis, ...]:
        (*batch, rows, inner), (*others, across, columns) = map(self._of, value.inputs)
        for one, other in zip(batch, others):
            self._unite(one, other)
        self._unite(inner, across)
        self._meet((inner, across))
        return (*batch, rows, columns)

    def _along_axis(self, value: Value) -> tuple[Axis, ...]:
        """Softmax and norms; for norms without the attribute ``axis``, their axes stay unmarked."""
        axes, axis = self._of(value.inputs[0]), value.attrs.get("axis")
        if value.shape != value.inputs[0].type.dims:
            return self._new(value.shape)
        if isinstance(axis, int):
            self._meet([axes[normalized_axis(axis, len(axes))]])
        return axes

    def _reduce(self, value: Value) -> tuple[Axis, ...]:
        axes, attrs = self._of(value.inputs[0]), value.attrs
        if "axis" not in attrs:
            return self._new(value.shape)
        reduced = reduced_axes(len(axes), attrs["axis"], attrs.get("exclude", False))
        self._meet([axes[i] for i in reduced])
        kept = tuple(axis for i, axis in enumerate(axes) if i not in reduced)
        if len(value.shape) == len(axes):
            new = self._new(value.shape)
            return tuple(new[i] if i in reduced else axis for i, axis in enumerate(axes))
        return kept if len(value.shape) == len(kept) else self._new(value.shape)

    def _embedding(self, value: Value) -> tuple[Axis, ...]:
        return (*self._of(value.inputs[0]), *self._new(value.shape[-1:]))

    def _steps(self, value: Value) -> tuple[Axis, ...]:
        """The steps of a recurrent layer are its data's first axis; the batch is the second."""
        steps, batch, _ = self._of(value.inputs[0])
        self._meet([steps])
        return (steps, batch, *self._new(value.shape[2:]))

    def _images(self, value: Value) -> tuple[Axis, ...]:
        """Convolutions and pooling: the first axis is the batch; the others belong to one image."""
        new = self._new(value.shape[1:])
        self._meet(new)
        return (self._of(value.inputs[0])[0], *new)


def _size(digits: Iterable[Digit]) -> int:
    return product(tuple(digit.size for digit in digits))


def _regrouped(digits: list[Digit], shape: Shape, splits: Splits) -> tuple[Axis, ...]:
    """Axes of the sizes in ``shape``, from these digits, which are split if necessary; () if sizes
    do not divide each other. ``splits`` gets the digits that are split or joined.
    """
    rest, axes = list(reversed(digits)), []
    for place, size in enumerate(shape):
        axis = _taken(rest, size, splits)
        if _size(axis) != size:
            return ()
        # A batch of size 1 without a separate axis in the shape belongs to the axis before it.
        ones = len([*takewhile(lambda digit: digit.size == 1, reversed(rest))])
        ones -= len([*takewhile(lambda each: each == 1, shape[place + 1 :])])
        axes.append((*_rejoined(axis, splits), *(rest.pop() for _ in range(ones))))
    return tuple(axes)


def _rejoined(axis: Axis, splits: Splits) -> Axis:
    """The axis with one digit for adjacent parts of a digit."""
    found: list[Digit] = []
    for digit in axis:
        if found and found[-1].axis == digit.axis and found[-1].inner == digit.inner * digit.size:
            outer = found.pop()
            whole = Digit(digit.axis, digit.inner, outer.size * digit.size)
            splits.add((whole, outer, digit))
            digit = whole
        found.append(digit)
    return tuple(found)


def _taken(rest: list[Digit], size: int, splits: Splits) -> Axis:
    """Remove the digits of an axis of this size from the end of the list; fewer if they do not fit.

    An axis of size 1 takes a digit of size 1 if that is next.
    """
    axis: list[Digit] = []
    while rest and (size > 1 or not axis and rest[-1].size == 1):
        digit = rest.pop()
        if digit.size > size and digit.size % size == 0:
            inner = digit.size // size
            rest.append(Digit(digit.axis, digit.inner, inner))
            outer = Digit(digit.axis, digit.inner * inner, size)
            splits.add((digit, outer, rest[-1]))
            digit = outer
        if not digit.size or size % digit.size:
            break
        size //= digit.size
        axis.append(digit)
    return tuple(axis)


Rule: TypeAlias = Callable[[_Axes, Value], tuple[Axis, ...]]
_RULES: dict[OpDef, Rule] = {
    RESHAPE_TO: _Axes._reshape,
    TRANSPOSE: _Axes._transpose,
    SLICE: _Axes._part,
    CONCAT: _Axes._part,
    BROADCAST_TO: _Axes._pointwise,
    FULLY_CONNECTED: _Axes._dense,
    BATCH_DOT: _Axes._batch_dot,
    EMBEDDING: _Axes._embedding,
}
_OF_KERNELS: dict[str, Rule] = {
    "pointwise": _Axes._pointwise,
    "softmax": _Axes._along_axis,
    "norm": _Axes._along_axis,
    "reduce": _Axes._reduce,
    "conv": _Axes._images,
    "pool": _Axes._images,
    "pad": _Axes._part,
    "recurrent": _Axes._steps,
}
