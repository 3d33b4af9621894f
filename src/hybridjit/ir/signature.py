"""The graph's contract with its callers: the order of inputs, and sizes that it is fixed to.

Input: a graph whose variables carry this contract as attributes, which MXNet stores and ignores.
Output: the inputs in call order, and copies of the graph with other attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from .._core.frozen import replace
from .._core.types import PartialShape
from ..errors import AttributeValueError
from ..ops.attrs import Attr
from .node import Node, Output, topological

# The position of an input in a call, if the graph reads its inputs in another order.
ORDER_KEY = "__input_index__"
# Start of the names of attributes of one input: the position and the name of an unread input.
UNREAD_KEY = "__unread_input_"
# The shape that a graph was made for, -1 for arbitrary sizes.
SIZES_KEY = "__fixed_shape__"
_DIGITS = 9  # of a position: a longer one, as in a malformed file, is ignored
_LAST = 10**_DIGITS
_SHAPE = Attr("shape", "shape")


def in_call_order(outputs: Iterable[Output], names: Iterable[str]) -> list[str]:
    """``names`` and the inputs that no node reads, in the order of a call: by their positions, then
    the others in the given order.
    """
    nodes = [node for node in topological(outputs) if node.is_variable]
    places = {node.name: _place(node.text.get(ORDER_KEY, "")) for node in nodes}
    unread = {
        name: _place(key.removeprefix(UNREAD_KEY).removesuffix("__"))
        for node in nodes
        for key, name in node.text.items()
        if key.startswith(UNREAD_KEY) and name and name not in places
    }
    places |= unread
    return sorted(dict.fromkeys([*names, *unread]), key=lambda name: places.get(name, _LAST))


def _place(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else _LAST


def in_order(outputs: Sequence[Output], names: Sequence[str]) -> tuple[Output, ...]:
    """The graph with its inputs and their positions in ``names``, unless it has these already."""
    found = dict.fromkeys(n.name for n in topological(outputs) if n.is_variable)
    read = [name for name in names if name in found]
    if in_call_order(outputs, [name for name in found if name in read]) == [*names] or not found:
        return tuple(outputs)
    texts = {name: {ORDER_KEY: str(names.index(name))} for name in read}
    unread = {f"{UNREAD_KEY}{i}__": name for i, name in enumerate(names) if name not in found}
    texts.setdefault(next(iter(read or found)), {}).update(unread)
    return annotated(_without(outputs, UNREAD_KEY), texts)


def fixed_to(shape: PartialShape) -> dict[str, str]:
    """The attribute of an input with fixed sizes; None stands for any size."""
    if all(size is None for size in shape) and shape:
        return {}
    return {SIZES_KEY: str(tuple(-1 if size is None else size for size in shape))}


def fixed_shapes(outputs: Iterable[Output]) -> dict[str, PartialShape]:
    """The shapes of inputs that the graph was made for, None for arbitrary sizes."""
    found = {n.name: fixed_shape(n) for n in topological(outputs) if n.is_variable}
    return {name: shape for name, shape in found.items() if shape is not None}


def fixed_shape(node: Node) -> PartialShape | None:
    """The shape in the attribute of :func:`fixed_to`; None if it is absent or malformed."""
    sizes = shape_of(node, SIZES_KEY)
    return None if sizes is None else tuple(None if size < 0 else size for size in sizes)


def shape_of(node: Node, key: str) -> tuple[int, ...] | None:
    """An attribute of a variable as a shape; None if it is absent or malformed."""
    if key not in node.text:
        return None
    try:
        return _SHAPE.parse(node.text[key])  # type: ignore[no-any-return]
    except AttributeValueError:
        return None


def without_sizes(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """The same graph for arbitrary sizes."""
    return _without(outputs, SIZES_KEY)


def _without(outputs: Iterable[Output], start: str) -> tuple[Output, ...]:
    """The same graph without attributes whose names have this start."""

    def free(node: Node) -> Node:
        text = {key: value for key, value in node.text.items() if not key.startswith(start)}
        return node if len(text) == len(node.text) else replace(node, text=text)

    return rebuilt(outputs, free)


def annotated(
    outputs: Iterable[Output], texts: Mapping[str, Mapping[str, str]]
) -> tuple[Output, ...]:
    """The same graph with further attributes of variables, by name."""

    def with_text(node: Node) -> Node:
        more = texts.get(node.name) if node.is_variable else None
        return replace(node, text={**node.text, **more}) if more else node

    return rebuilt(outputs, with_text)


def rebuilt(outputs: Iterable[Output], changed: Callable[[Node], Node]) -> tuple[Output, ...]:
    """A copy of the graph with each node changed; nodes before the first change are shared."""
    outputs = tuple(outputs)
    made: dict[Node, Node] = {}
    for node in topological(outputs):
        inputs = tuple(Output(made[edge.node], edge.index) for edge in node.inputs)
        new = changed(node)
        made[node] = new if inputs == node.inputs else replace(new, inputs=inputs)
    return tuple(Output(made[head.node], head.index) for head in outputs)
