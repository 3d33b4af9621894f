"""The graph of one sample, from the graph of a batch whose size is a constant of the program.

Input: the graph of a batch, whose inputs begin with the batch axis. Output: the same values for one
sample; None where values mix samples, or where a sample's indices of an axis are not adjacent.

The batch is tracked through the graph as the outer part of one axis of each value: in dense layers
on sequences, the rows of a sample are adjacent, in products of attention the heads of a sample. All
samples share the parameters. A parameter that has the batch axis must repeat the values of one
sample; its bind graph determines whether it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..._core.symbolic import Size
from ..._core.types import Shape, product
from ...errors import MXNetError
from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value
from ...ops.nn.matrix_products import BATCH_DOT
from ...ops.record import OpDef
from ...ops.sequence.attention import ATTENTION
from ...ops.tensor.primitives import (
    BROADCAST_TO,
    RESHAPE_TO,
    SLICE,
    TRANSPOSE,
    narrow,
    permutation,
)
from .sample_axes import MixedError, SampleAxes, require


def graph_of_sample(graph: Graph) -> Graph | None:
    """The graph of the first sample, without groups; None if it cannot be derived."""
    sizes = (n for value in graph.values for t in value.types for n in t.dims)
    batches = {value.shape[0] if value.shape else 0 for value in graph.inputs}
    if any(isinstance(n, Size) for n in sizes) or len(batches) != 1 or max(batches) < 2:
        return None
    try:
        return _Sampler(graph, *batches).graph()
    except (MixedError, MXNetError):  # a rule rejects a shape, which is valid for this batch only
        return None


class _Sampler(SampleAxes):
    """The values of one sample.

    new     values of one sample, by value of the batch
    parts   batch axis and parameter of one sample, for each parameter that has the batch axis
    """

    def __init__(self, graph: Graph, batch: int) -> None:
        super().__init__(graph.inputs)
        assert graph.bind is not None
        self._whole, self._bind, self._batch = graph, graph.bind, batch
        self._new: dict[Value, Value] = {}
        self._parts: dict[Value, tuple[int, Value]] = {}

    def graph(self) -> Graph:
        """The graph; raises :class:`MixedError`."""
        whole = self._whole
        for value in whole.inputs:
            one = value.type.with_shape((1, *value.shape[1:]))
            self._new[value] = Value(None, value.name, {}, (), (one,))
        for value in whole.values:
            if value.op is not None:
                self.axes[value], self._new[value] = self._made(value)
        is_whole = (
            self.axes.get(use.value) == 0 and use.type.dims[0] == self._batch
            for use in whole.outputs
        )
        if not all(is_whole):
            raise MixedError
        found = replace(
            whole,
            inputs=tuple(self._new[value] for value in whole.inputs),
            params=tuple(self._parts.get(v, (0, v))[1] for v in whole.params),
            outputs=tuple(Use(self._new[use.value], use.index) for use in whole.outputs),
            groups=(),
            bind=self._bind_of_one(),
        )
        if any(value in self._parts for value in found.values):
            raise MixedError  # another value reads the whole parameter
        return found

    def _made(self, value: Value) -> tuple[int, Value]:
        """The axis of the batch, and the value of one sample."""
        assert value.op is not None
        rule = _OF_OPERATORS.get(value.op)
        axis, attrs = rule(self, value) if rule else (self.axis_of(value), {})
        inputs = [self._operand(use, axis, len(value.shape)) for use in value.inputs]
        one = building(value).op(value.op, *inputs, **{**value.attrs, **attrs}).value
        for old, new in zip(value.types, one.types):
            if new.dtype != old.dtype or new.dims != self._sizes_of_one(old.dims, axis):
                raise MixedError
        return axis, one

    def _operand(self, use: Use, axis: int, rank: int) -> Use:
        """An operand for one sample: of a batched value, or a parameter for all samples."""
        if use.value in self.axes:
            return Use(self._new[use.value], use.index)
        return Use(self._parts[use.value][1]) if use.value in self._parts else use

    def _sizes_of_one(self, sizes: Shape, axis: int) -> Shape:
        if axis >= len(sizes) or sizes[axis] % self._batch:
            raise MixedError
        return (*sizes[:axis], sizes[axis] // self._batch, *sizes[axis + 1 :])

    # --- parameters with the batch axis ---

    def take_part(self, use: Use, axis: int) -> None:
        """Replace a parameter that repeats the values of one sample by these values."""
        known = self._parts.get(use.value)
        if known is None:
            sizes = self._sizes_of_one(use.type.dims, axis)
            number = self._whole.params.index(use.value)
            if not _repeats(self._bind.outputs[number], axis):
                raise MixedError
            one = Value(None, use.value.name, {}, (), (use.type.with_shape(sizes),))
            known = self._parts[use.value] = axis, one
        if known[0] != axis:
            raise MixedError

    def _bind_of_one(self) -> Graph:
        outputs = list(self._bind.outputs)
        for number, value in enumerate(self._whole.params):
            if value in self._parts:
                axis, one = self._parts[value]
                builder = ValueBuilder(f"{value.name}:of_sample")
                outputs[number] = narrow(builder, outputs[number], axis, 0, one.shape[axis])
        return replace(self._bind, outputs=tuple(outputs))

    # --- operators whose attributes differ for one sample, or whose operands are matrices ---

    def _cut(self, value: Value) -> _Found:
        axis, end = self.axis_of(value), value.attrs["end"]
        if axis >= len(value.attrs["begin"]):
            return axis, {}
        require(end[axis] in (None, value.inputs[0].type.dims[axis]), axis)
        return axis, {"end": (*end[:axis], None, *end[axis + 1 :])}

    def _reshaped(self, value: Value) -> _Found:
        """A reshape that preserves the elements before the batch, and keeps a sample's adjacent."""
        axis, sizes = self.of_first(value), value.inputs[0].type.dims
        before = product(sizes[:axis])
        for place, size in enumerate(value.shape):
            if product(value.shape[:place]) == before and size % self._batch == 0:
                return place, {"shape": self._sizes_of_one(value.shape, place)}
        raise MixedError

    def _broadcast(self, value: Value) -> _Found:
        axis = self.of_first(value) + len(value.shape) - len(value.inputs[0].type.dims)
        return axis, {"shape": self._sizes_of_one(value.shape, axis)}

    def _products(self, value: Value) -> _Found:
        """Batches of products, whose last two axes are matrices, and attention."""
        axis = self.same(value)
        return require(axis < len(value.shape) - 2, axis), {}

    def _attended(self, value: Value) -> _Found:
        """Attention: the first axis of all operands is the batch."""
        axes = [self.axes.get(use.value, 0) for use in value.inputs]
        own = [use for use in value.inputs if use.value not in self.axes]
        fits = all(not use.type.dims or use.type.dims[0] == 1 for use in own)
        return require(fits and not any(axes), 0), {}


_Found = tuple[int, dict[str, Any]]
_OF_OPERATORS: dict[OpDef, Callable[[_Sampler, Value], _Found]] = {
    RESHAPE_TO: _Sampler._reshaped,
    BROADCAST_TO: _Sampler._broadcast,
    SLICE: _Sampler._cut,
    BATCH_DOT: _Sampler._products,
    ATTENTION: _Sampler._attended,
}


def _repeats(use: Use, axis: int) -> bool:
    """Whether all indices of an axis of a value of parameters have the same contents."""
    value = use.value
    if value.op is BROADCAST_TO:
        place = axis + len(value.inputs[0].type.dims) - len(value.shape)
        return place < 0 or value.inputs[0].type.dims[place] == 1
    if value.op is TRANSPOSE:
        return _repeats(value.inputs[0], permutation(len(value.shape), value.attrs["axes"])[axis])
    if value.op is RESHAPE_TO:
        sizes, before = value.inputs[0].type.dims, product(value.shape[:axis])
        same = [place for place in range(len(sizes)) if product(sizes[:place]) == before]
        own = [place for place in same if sizes[place] == value.shape[axis]]
        return bool(own) and _repeats(value.inputs[0], own[0])
    return False
