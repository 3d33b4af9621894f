"""Strides: propagate strides to producers, so that pixels without a reader are not computed.

A 1x1 convolution of stride 2 reads every second pixel of an image. If the others have no readers,
the stride moves to the producer of the image: through pointwise values, whose other operands are
sliced with the stride, to convolutions, whose strides are multiplied. ResNet's stages end in this
pattern.
"""

from __future__ import annotations

from ..._core.symbolic import are_same
from ..._core.types import Shape
from ...ir.building import building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import rebuild
from ...ops.nn.convolution import CONVOLUTION
from ...ops.nn.window_geometry import is_channel_last
from ...ops.tensor.primitives import part

_TITLE = "x that 1x1 layers read every so many places  =>  x at these places"


def move_strides(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Move the strides of 1x1 convolutions to the layers that compute their data."""
    if graph.purpose.training or graph.purpose.goes_back:
        return graph
    moved = _Strides(graph)
    return moved.run(fired) if moved.sparse else graph


class _Strides:
    """The values to be computed with strides.

    steps   for each value whose readers all skip the same pixels, the stride along each axis
    sparse  the values that are computed at these positions only
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: dict[Value, Shape] = {}
        for value in reversed(graph.values):
            self._note_steps(value)
        self.sparse: set[Value] = set()
        for value in graph.values:
            if value in self.steps and self._can_be_sparse(value):
                self.sparse.add(value)

    def _note_steps(self, value: Value) -> None:
        readers = self.graph.uses[value]
        if value.op is None or len(value.types) > 1 or value in self.graph.output_values:
            return
        asked = {self._asked(reader, value) for reader in readers}
        if len(asked) == 1 and set(steps := asked.pop()) - {1}:
            self.steps[value] = steps

    def _asked(self, reader: Value, value: Value) -> Shape:
        """The stride along each axis with which a reader reads ``value``."""
        every = (1,) * len(value.shape)
        own = self.steps.get(reader, (1,) * len(reader.shape))
        assert reader.op is not None
        if reader.op is CONVOLUTION:
            is_data = [use.value for use in reader.inputs].index(value) == 0
            if not is_data or not _is_one_place(reader):
                return every
            return tuple(a * b for a, b in zip(own, _strides_of(reader)))
        if reader.op.is_pointwise and _are_same_shape(value, reader):
            return own
        return every

    def _can_be_sparse(self, value: Value) -> bool:
        assert value.op is not None
        if value.op is CONVOLUTION:
            return True
        fits = all(len(u.type.dims) == len(value.shape) for u in value.inputs)
        return value.op.is_pointwise and fits and any(u.value in self.sparse for u in value.inputs)

    def run(self, fired: list[str] | None) -> Graph:
        done: dict[Value, Value] = {}
        for value in self.graph.values:
            inputs = tuple(Use(done[use.value], use.index) for use in value.inputs)
            if value.op is CONVOLUTION:
                done[value] = self._convolution(value, inputs)
            elif value in self.sparse:
                done[value] = self._pointwise(value, inputs)
            else:
                done[value] = rebuild(value, inputs)
            if value in self.sparse and fired is not None:
                fired.append(f"{value.name}: {_TITLE}")
        return self.graph.with_outputs(Use(done[u.value], u.index) for u in self.graph.outputs)

    def _convolution(self, value: Value, inputs: tuple[Use, ...]) -> Value:
        """The layer with its own and its readers' stride, divided by the stride of its data."""
        assert value.op is not None
        data = value.inputs[0].value
        strides = _strides_of(value)
        if value in self.sparse:
            strides = tuple(a * b for a, b in zip(strides, self.steps[value]))
        if data in self.sparse:
            strides = tuple(a // b for a, b in zip(strides, self.steps[data]))
        if strides == _strides_of(value) and data not in self.sparse:
            return rebuild(value, inputs)
        stride = tuple(strides[axis] for axis in _spatial_axes(value))
        attrs = {**value.attrs, "stride": stride}
        return building(value).op(value.op, *inputs, **attrs).value

    def _pointwise(self, value: Value, inputs: tuple[Use, ...]) -> Value:
        assert value.op is not None
        steps, g = self.steps[value], building(value)
        operands = []
        for number, (old, use) in enumerate(zip(value.inputs, inputs)):
            if old.value not in self.sparse:
                step = tuple(s if d > 1 else 1 for s, d in zip(steps, use.type.dims))
                none = (None,) * len(step)
                if set(step) - {1}:
                    use = part(g, use, none, none, step, at=f"places{number}")
            operands.append(use)
        return g.op(value.op, *operands, **value.attrs).value


def _is_one_place(layer: Value) -> bool:
    """Whether each output of a convolution reads one pixel of its data."""
    return set(layer.attrs["kernel"]) == {1} and not any(layer.attrs["pad"])


def _spatial_axes(layer: Value) -> range:
    rank = len(layer.shape) - 2
    first = 1 if is_channel_last(layer.attrs["layout"], rank) else 2
    return range(first, first + rank)


def _strides_of(layer: Value) -> Shape:
    """The stride of a convolution along each axis of its data."""
    axes = _spatial_axes(layer)
    given = dict(zip(axes, layer.attrs["stride"] or (1,) * len(axes)))
    return tuple(given.get(axis, 1) for axis in range(len(layer.shape)))


def _are_same_shape(one: Value, other: Value) -> bool:
    """Whether two values have one shape for all sizes; no guard is recorded."""
    return len(one.shape) == len(other.shape) and all(map(are_same, one.shape, other.shape))
