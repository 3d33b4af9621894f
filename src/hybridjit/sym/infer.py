"""What ``infer_shape`` and ``infer_type`` of a Symbol answer.

In: a Symbol's outputs, and shapes or element types by argument name. Out: MXNet's three lists
(arguments, outputs, auxiliary states), in which what is unknown is what the thread's shape
semantics have for it: 0 and (), or -1 and None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ..errors import MXNetError
from ..ir.node import Node, Output, topological
from ..passes.infer import NodeTypes, apply_rule, infer_node_types, settle, variable_type
from ..shapes import partial_shape, shown_shape
from ..types import (
    DTYPE_NAMES,
    FLOAT32,
    INT64,
    UNKNOWN,
    DType,
    PartialShape,
    Shape,
    TensorType,
    is_known_shape,
)
from .outputs import Outputs, auxiliary_nodes

_RANKS = (4, 3, 2, 1)  # stand in for unknown shapes
_TRIED = (1, 64, 192)  # stand in for unknown sizes: small, so that clipping is seen, and large

Fact = TypeVar("Fact")
Lists = tuple[list[Fact | None], list[Fact | None], list[Fact | None]]


def infer_shapes(symbol: Outputs, shapes: Mapping[str, Shape | None]) -> Lists[Shape]:
    """Shapes, from some arguments' shapes. Raises MXNetError when they contradict each other."""
    for name, shape in shapes.items():
        if not isinstance(shape, (tuple, list)):
            raise TypeError(f"Arguments need to be shapes (tuple), but '{name}' is {type(shape)}.")
    known = {name: TensorType(partial_shape(sizes), None) for name, sizes in shapes.items()}
    for name in _lengths(symbol):  # the only inputs that may not be presumed to be float32
        known[name] = known.get(name, UNKNOWN).with_dtype(INT64)
    types = infer_node_types(symbol.outputs, known)
    for node in topological(symbol.outputs):
        if node.op is not None and not all(t.is_known for t in types[node]):
            types[node] = _tried(node, types)
    return _listed(symbol, types, _shape)


def _lengths(symbol: Outputs) -> list[str]:
    """Names of the variables that are lengths of a softmax: whole numbers."""
    return [
        edge.node.name
        for node in topological(symbol.outputs)
        for name, edge in zip(node.input_names, node.inputs)
        if name == "length" and edge.node.op is None
    ]


def infer_types(symbol: Outputs, dtypes: Mapping[str, DType | None]) -> Lists[type[np.generic]]:
    """Element types, from some arguments' types and no shapes. Raises DTypeError.

    An operator whose rule says nothing without shapes is taken to give and take its first input's
    type, or the one that its ``dtype`` attribute names.
    """
    known = {n: TensorType(None, _element_type(n, d)) for n, d in dtypes.items() if d is not None}
    order = topological(symbol.outputs)
    types: NodeTypes = {
        n: (variable_type(n, known),) if n.op is None else (UNKNOWN,) * len(n.output_names)
        for n in order
    }
    nodes = [node for node in order if node.op is not None]
    settle(nodes, types)
    for node in nodes:
        apply_rule(node, types)
        _complete(node, types)
    settle(nodes, types)
    return _listed(symbol, types, _dtype)


def is_complete(lists: Lists[Fact]) -> bool:
    """Whether nothing in the three lists is unknown."""
    return all(is_known_fact(item) for item in sum(lists, []))


def is_known_fact(item: object) -> bool:
    """Whether a shape or an element type of the lists is known."""
    if not isinstance(item, tuple):
        return item is not None
    return is_known_shape(partial_shape(item))


def by_argument_name(
    symbol: Outputs, args: Sequence[Fact | None], kwargs: Mapping[str, Fact | None]
) -> dict[str, Fact | None]:
    """Facts given by position (in argument order, None for unknown) or by name, by name.

    Raises ValueError when both are given, MXNetError for a name that is no variable's.
    """
    if args and kwargs:
        raise ValueError(
            "Can only specify known argument shapes either by positional or kwargs way."
        )
    if args:
        names = symbol.list_arguments()
        if len(args) > len(names):
            raise MXNetError(f"{len(args)} arguments are given, the symbol has {len(names)}")
        return {name: fact for name, fact in zip(names, args) if fact is not None}
    names = symbol.list_inputs()
    possible = frozenset(names)
    for name in kwargs:
        if name not in possible:
            raise MXNetError(f"keyword argument name {name} not found. Candidates: {names}")
    return dict(kwargs)


def _tried(node: Node, types: NodeTypes) -> tuple[TensorType, ...]:
    """A node's output types, with the sizes that are the same whatever the unknown ones are.

    Rules that wait for whole shapes are asked with several sizes in the place of the unknown ones.
    """
    ins = [types[edge.node][edge.index] for edge in node.inputs]
    if any(t.shape is None for t in ins):
        return types[node]
    answers = [found for size in _TRIED if (found := _asked(node, ins, size)) is not None]
    if len(answers) < 2:
        return types[node]
    # A rule that refuses some sizes may clip others: then only sizes of the inputs are believed
    believed = None if len(answers) == len(_TRIED) else {d for t in ins for d in t.shape or ()}
    return tuple(
        known.with_shape(_agreed([found[i].shape for found in answers], known.shape, believed))
        for i, known in enumerate(types[node])
    )


def _asked(node: Node, ins: list[TensorType], size: int) -> tuple[TensorType, ...] | None:
    """Output types if every unknown size were ``size``; None if the rule does not allow that."""
    assert node.op is not None
    whole = tuple(
        TensorType(tuple(size if d is None else d for d in t.shape or ()), t.dtype or FLOAT32)
        for t in ins
    )
    try:
        return node.op.infer(whole, (UNKNOWN,) * len(node.output_names), **node.attrs)[1]
    except MXNetError:
        return None


def _agreed(
    shapes: list[PartialShape | None],
    known: PartialShape | None,
    believed: set[int | None] | None,
) -> PartialShape | None:
    """The sizes that all shapes share and that are ``believed``, beside those that are known."""
    if any(shape is None or len(shape) != len(shapes[0] or ()) for shape in shapes):
        return known
    columns = zip(*(shape for shape in shapes if shape is not None))
    same = tuple(
        column[0] if len(set(column)) == 1 and (believed is None or column[0] in believed) else None
        for column in columns
    )
    if known is None:
        return same
    return tuple(s if k is None else k for k, s in zip(known, same))


def _listed(
    symbol: Outputs, types: NodeTypes, pick: Callable[[TensorType], Fact | None]
) -> Lists[Fact]:
    aux = auxiliary_nodes(symbol.outputs)
    variables = [node for node in topological(symbol.outputs) if node.is_variable]
    arguments = [pick(types[node][0]) for node in variables if node not in aux]
    states = [pick(types[node][0]) for node in variables if node in aux]
    return arguments, [pick(types[o.node][o.index]) for o in symbol.outputs], states


def _shape(t: TensorType) -> tuple[int, ...] | None:
    return shown_shape(t.shape)


def _dtype(t: TensorType) -> type[np.generic] | None:
    return None if t.dtype is None else t.dtype.type


def _element_type(name: str, dtype: DType) -> np.dtype:
    found = DTYPE_NAMES.get(np.dtype(dtype).name)
    if found is None:
        raise TypeError(f"Argument need to be one of {', '.join(DTYPE_NAMES)}, '{name}' is {dtype}")
    return found


def _complete(node: Node, types: NodeTypes) -> None:
    """Give inputs and outputs whose element type is unknown the likely one."""
    outputs = [Output(node, i) for i in range(len(node.output_names))]
    before = {edge.node: types[edge.node] for edge in node.inputs}
    _assume(node.inputs, [_first_known((*node.inputs, *outputs), types)] * len(node.inputs), types)
    if not _is_taken(node, types):
        types.update(before)
    _assume(outputs, _outputs_asked(node, types), types)
    declared = node.attrs.get("dtype")
    likely = declared if isinstance(declared, np.dtype) else _first_known(node.inputs, types)
    _assume(outputs, [likely] * len(outputs), types)


def _is_taken(node: Node, types: NodeTypes) -> bool:
    """Whether the operator's rule takes its inputs' types."""
    try:
        apply_rule(node, {n: types[n] for n in (node, *(edge.node for edge in node.inputs))})
    except MXNetError:
        return False
    return True


def _first_known(edges: Sequence[Output], types: NodeTypes) -> np.dtype | None:
    found = (types[edge.node][edge.index].dtype for edge in edges)
    return next((dtype for dtype in found if dtype is not None), None)


def _assume(edges: Sequence[Output], dtypes: Sequence[np.dtype | None], types: NodeTypes) -> None:
    rows = {node: list(types[node]) for node in {edge.node for edge in edges}}
    for edge, dtype in zip(edges, dtypes):
        row = rows[edge.node]
        if row[edge.index].dtype is None:
            row[edge.index] = row[edge.index].with_dtype(dtype)
    types.update((node, tuple(row)) for node, row in rows.items())


def _outputs_asked(node: Node, types: NodeTypes) -> list[np.dtype | None]:
    """Output types that the rule gives for some shape: those of inputs are known, shapes not."""
    ins = [types[edge.node][edge.index] for edge in node.inputs]
    if node.inputs and all(t.dtype is not None for t in ins):
        for rank in _RANKS:
            shaped = [t if t.shape is not None else t.with_shape((None,) * rank) for t in ins]
            for size in _TRIED:
                answer = _asked(node, shaped, size)
                if answer is not None:
                    return [t.dtype for t in answer]
    return [None] * len(node.output_names)
