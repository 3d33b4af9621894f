"""One graph for all values of a model's symbolic sizes.

A model is read twice, with two values for each symbolic size. Both graphs must have the same nodes;
differences between them depend on the symbolic sizes. Shapes in attributes are replaced by codes
that copy or infer a size; constants whose elements are equal along a symbolic axis are broadcast.
If the model can be read with a third value, of other remainders, the graph must be the same then:
the padding of ``auto_pad`` depends on the remainder of a size by the stride.

Input: the symbolic sizes, and a function that reads the model for given sizes. Output: one graph
for all sizes, or None if the graphs differ in another way, such as in the number of steps of a
loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._core.types import Shape, TensorType, is_known_shape, type_of
from ..errors import MXNetError
from ..ir.node import Node, Output, apply, topological, variable
from ..ops.namespace import attr_texts
from ..ops.registry import lookup
from ..passes.infer import infer_node_types

Sizes = Mapping[str, Sequence["int | str"]]  # for each input: integers, or names of symbolic sizes
Make = Callable[[Mapping[str, Shape]], "Imported"]
# Values of symbolic sizes. The first two are far apart, so that graphs differ if a node limits a
# size to a count between them. None is 1, which would broadcast, and image sizes are divisible by 2
# five times. The third has other remainders by 2 to 8: an image of this size may be impossible.
_BATCH, _SMALL, _LARGE, _OTHER, _STEP = 2, 64, 4096, 83, 32
_COPY, _INFER, _JOIN, _CUT = 0, -1, -3, -4  # codes in the shape of a Reshape
Pair = tuple[int, int]
Values = tuple[int, int, int]


class Imported(NamedTuple):
    """Graph, parameters, input types by name, and output names.

    sized  names of parameters that may depend on input sizes
    """

    heads: tuple[Output, ...]
    params: dict[str, np.ndarray]
    inputs: dict[str, TensorType]
    outputs: tuple[str, ...]
    sized: frozenset[str]


class _DiffersError(Exception):
    """The two graphs differ in a way that copied and inferred sizes cannot express."""


def for_all_sizes(make: Make, sizes: Sizes) -> Imported | None:
    """Graph for all symbolic sizes, or None."""
    try:
        *usual, other = stand_in_shapes(sizes)
        pair = [make(shapes) for shapes in usual]
        made = _Merge(*pair).graph(sizes)
        _require_same_types(made, pair)
        if (third := _made_if_possible(make, other)) is not None:
            _require_equal(made, _Merge(pair[0], third).graph(sizes))
    except (MXNetError, _DiffersError):
        return None
    return made


def stand_in_shapes(sizes: Sizes) -> list[dict[str, Shape]]:
    """Input shapes of three calls that differ in all symbolic sizes."""
    numbers = _stand_ins(sizes)
    return [
        {
            name: tuple(numbers[n][k] if isinstance(n, str) else n for n in dims)
            for name, dims in sizes.items()
        }
        for k in range(3)
    ]


def _stand_ins(sizes: Sizes) -> dict[str, Values]:
    """Three values for each symbolic size, different from those of the other sizes."""
    found: dict[str, Values] = {}
    for dims in sizes.values():
        for axis, name in enumerate(dims):
            if isinstance(name, str) and name not in found:
                more = _STEP * len(found)
                small = _SMALL if axis or more else _BATCH
                found[name] = small + more, _LARGE + more, _OTHER + more
    return found


def _made_if_possible(make: Make, shapes: Mapping[str, Shape]) -> Imported | None:
    try:
        return make(shapes)
    except MXNetError:
        return None


def _require_equal(one: Imported, other: Imported) -> None:
    """Raise _DiffersError unless both graphs have the same nodes and parameters."""
    if _described(one) != _described(other):
        raise _DiffersError
    for name, array in one.params.items():
        if not _same(array, other.params[name]):
            raise _DiffersError


def _described(made: Imported) -> list[tuple[object, ...]]:
    """Nodes in order with their operands' positions, and the shapes of parameters."""
    order = topological(made.heads)
    places = {node: i for i, node in enumerate(order)}
    nodes: list[tuple[object, ...]] = [
        (n.op, n.name, n.text, *((places[use.node], use.index) for use in n.inputs)) for n in order
    ]
    return [*nodes, *((name, array.shape) for name, array in made.params.items())]


def _require_same_types(made: Imported, pair: Sequence[Imported]) -> None:
    for one in pair:
        found = infer_node_types(made.heads, _known(made.params, one.inputs))
        right = infer_node_types(one.heads, _known(one.params, one.inputs))
        for head, like in zip(made.heads, one.heads):
            if found[head.node][head.index] != right[like.node][like.index]:
                raise _DiffersError


def _known(
    params: Mapping[str, np.ndarray], inputs: Mapping[str, TensorType]
) -> dict[str, TensorType]:
    return {**{name: type_of(a) for name, a in params.items()}, **inputs}


class _Merge:
    """Merges two graphs node by node; shapes are handled in pairs, one of each graph."""

    def __init__(self, one: Imported, other: Imported) -> None:
        self._pair = one, other
        self._types = [infer_node_types(g.heads, _known(g.params, g.inputs)) for g in self._pair]
        self._params = dict(one.params)
        self._variables: dict[str, Output] = {}
        self._made: dict[Output, Output] = {}

    def graph(self, sizes: Sizes) -> Imported:
        """The merged graph. Raises _DiffersError."""
        orders = [topological(g.heads) for g in self._pair]
        if len(orders[0]) != len(orders[1]):
            raise _DiffersError
        self._variables = {n.name: Output(n) for n in orders[0] if n.name in self._pair[0].inputs}
        for a, b in zip(*orders):
            self._add(a, b)
        inputs = {
            name: t.with_shape(tuple(n if isinstance(n, int) else None for n in sizes[name]))
            if name in sizes
            else t
            for name, t in self._pair[0].inputs.items()
        }
        heads = tuple(self._made[head] for head in self._pair[0].heads)
        return self._pair[0]._replace(heads=heads, params=self._params, inputs=inputs)

    def _add(self, a: Node, b: Node) -> None:
        if (a.op, a.name, len(a.inputs)) != (b.op, b.name, len(b.inputs)):
            raise _DiffersError
        if a.op is None:
            self._made[Output(a)] = self._variable(a)
            return
        inputs = tuple(self._made[x] for x in a.inputs)
        if a.text == b.text:
            node = replace(a, inputs=inputs)
        else:
            rule = _RULES.get(a.op.name)
            if rule is None:
                raise _DiffersError
            node = rule(self, a, b, inputs)
        for i in range(len(a.output_names)):
            self._made[Output(a, i)] = Output(node, i)

    def dims(self, x: Output, like: Output) -> tuple[Shape, Shape]:
        """Shapes of a value of the first graph and of the corresponding value of the second."""
        shapes = (
            self._types[0][x.node][x.index].shape,
            self._types[1][like.node][like.index].shape,
        )
        if not all(map(is_known_shape, shapes)):
            raise _DiffersError
        return shapes  # type: ignore[return-value]

    def _variable(self, a: Node) -> Output:
        """Merge an input, or a parameter that both graphs have."""
        if a.name not in self._params:
            return Output(a)
        one, other = (g.params.get(a.name) for g in self._pair)
        if one is None or other is None:
            raise _DiffersError
        if one.shape == other.shape and one.dtype == other.dtype and _same(one, other):
            return Output(a)
        return self._spread(a, one, other)

    def _spread(self, a: Node, one: np.ndarray, other: np.ndarray) -> Output:
        """Broadcast a constant whose elements are equal along the axes of different sizes."""
        if one.ndim != other.ndim or not one.size:
            raise _DiffersError
        lone = tuple(slice(m if m == n else 1) for m, n in zip(one.shape, other.shape))
        small = np.ascontiguousarray(one[lone])
        if not (_same(one, small) and _same(other, small)):
            raise _DiffersError
        self._params[a.name] = small
        start = Output(variable(a.name, {**a.text, "__shape__": str(small.shape)}))
        return self.like_inputs(start, a.name, small.shape, (one.shape, other.shape))

    def like_inputs(self, x: Output, name: str, old: Shape, new: tuple[Shape, Shape]) -> Output:
        """Broadcast ``x`` of shape ``old`` to the sizes of inputs."""
        for axis, (size, *pair) in enumerate(zip(old, *new)):
            if pair[0] == pair[1]:
                continue
            if size != 1:
                raise _DiffersError
            source, place = self._with_size((pair[0], pair[1]))
            op, text = lookup("broadcast_like"), {"lhs_axes": (axis,), "rhs_axes": (place,)}
            x = Output(apply(op, f"{name}:axis{axis}", (x, source), attr_texts(op, text)))
        return x

    def _with_size(self, pair: tuple[int, int]) -> tuple[Output, int]:
        """Input and axis with this pair of sizes."""
        for name, source in self._variables.items():
            one, other = (g.inputs[name].dims for g in self._pair)
            for axis, found in enumerate(zip(one, other)):
                if found == pair:
                    return source, axis
        raise _DiffersError


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    equal = a == b
    return bool((equal | ((a != a) & (b != b))).all())  # NaNs count as equal


def _reshape(merge: _Merge, a: Node, b: Node, inputs: tuple[Output, ...]) -> Node:
    """Copy sizes that differ from the operand where it has them; infer at most one."""
    old = [*zip(*merge.dims(a.inputs[0], b.inputs[0]))]
    ends = merge.dims(Output(a), Output(b))
    if len(ends[0]) != len(ends[1]):
        raise _DiffersError
    new = [*zip(*ends)]
    shape = [
        m if m == n and m else _COPY if old[i : i + 1] == [(m, n)] else _INFER
        for i, (m, n) in enumerate(new)
    ]
    if shape.count(_INFER) > 1:
        shape = _joined(old, new)
    elif _INFER not in shape and any(shape):  # a constant would fit the file's sizes only
        last = max(i for i, size in enumerate(shape) if size != _COPY)
        shape[last] = _INFER
    return _with(a, inputs, shape=tuple(shape))


def _joined(old: Sequence[Pair], new: Sequence[Pair]) -> list[int]:
    """Shape codes that copy an axis, merge two, or split one into two."""
    shape: list[int] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            shape, i, j = [*shape, _COPY], i + 1, j + 1
        elif _product(old[i : i + 2]) == new[j]:
            shape, i, j = [*shape, _JOIN], i + 2, j + 1
        elif _product(new[j : j + 2]) == old[i]:
            cut = [m if m == n else _INFER for m, n in new[j : j + 2]]
            shape, i, j = [*shape, _CUT, *cut], i + 1, j + 2
        else:
            raise _DiffersError
    if i < len(old) or j < len(new):
        raise _DiffersError
    return shape


def _product(pairs: Sequence[Pair]) -> Pair:
    return math.prod(m for m, _ in pairs), math.prod(n for _, n in pairs)


def _broadcast(merge: _Merge, a: Node, b: Node, inputs: tuple[Output, ...]) -> Node:
    """Copy sizes that differ from inputs; 0 keeps the operand's size."""
    old = merge.dims(a.inputs[0], b.inputs[0])
    new = merge.dims(Output(a), Output(b))
    grown = tuple(
        tuple(pair[0] if pair == kept else m for m, pair, kept in zip(side, zip(*new), zip(*old)))
        for side in new
    )
    start = tuple(
        pair[0] if pair == kept else size for size, pair, kept in zip(old[0], zip(*new), zip(*old))
    )
    x = merge.like_inputs(inputs[0], a.name, start, (grown[0], grown[1]))
    shape = tuple(m if m == n else 0 for m, n in zip(*new))
    return _with(a, (x,), shape=shape)


def _slice(merge: _Merge, a: Node, b: Node, inputs: tuple[Output, ...]) -> Node:
    """Count bounds that differ from the end of the operand's axis."""
    old = merge.dims(a.inputs[0], b.inputs[0])
    changed = {}
    for key in ("begin", "end"):
        places = zip(_listed(a.attrs[key]), _listed(b.attrs[key]), *old)
        changed[key] = tuple(_place(*place) for place in places)
    if a.attrs.get("step") != b.attrs.get("step"):
        raise _DiffersError
    return _with(a, inputs, **changed)


def _slice_axis(merge: _Merge, a: Node, b: Node, inputs: tuple[Output, ...]) -> Node:
    """As :func:`_slice`, along one axis."""
    axis = a.attrs["axis"]
    if axis != b.attrs["axis"]:
        raise _DiffersError
    m, n = (shape[axis] for shape in merge.dims(a.inputs[0], b.inputs[0]))  # type: ignore[index]
    changed = {key: _place(a.attrs[key], b.attrs[key], m, n) for key in ("begin", "end")}
    return _with(a, inputs, **changed)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, (tuple, list)) else ()


def _place(m: object, n: object, size: int, other: int) -> int | None:
    """Index along an axis, relative to its end where the two graphs differ."""
    if m == n:
        return m  # type: ignore[return-value]
    if not isinstance(m, int) or not isinstance(n, int) or m - size != n - other or m > size:
        raise _DiffersError
    return m - size or None


def _with(a: Node, inputs: tuple[Output, ...], **attrs: object) -> Node:
    assert a.op is not None
    return apply(a.op, a.name, inputs, {**a.text, **attr_texts(a.op, attrs)})


_RULES: dict[str, Callable[[_Merge, Node, Node, tuple[Output, ...]], Node]] = {
    "Reshape": _reshape,
    "broadcast_to": _broadcast,
    "slice": _slice,
    "slice_axis": _slice_axis,
}
