"""Shape and type inference: give every node's outputs a shape and dtype, in both directions.

Input: nodes and the known types of variables. Output: a type per output. Weights take their types
from the data, and begin states from their consumers, so rules are applied forwards and backwards
until nothing changes. Inference never guesses: an unknown type is reported as unknown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from .._core.shapes import partial_shape
from .._core.symbolic import hint_of
from .._core.types import (
    DTYPE_CODES,
    FLOAT32,
    INT32,
    UNKNOWN,
    PartialShape,
    TensorType,
    merge,
    require_possible,
    shape_text,
)
from ..errors import MXNetError, ShapeError, located
from ..ir.node import Node, Output, topological
from ..ir.signature import fixed_shape, shape_of

_DTYPE_HINTS = {str(code): dtype for code, dtype in DTYPE_CODES.items()}

NodeTypes = dict[Node, tuple[TensorType, ...]]


def infer_node_types(outputs: Iterable[Output], known: Mapping[str, TensorType]) -> NodeTypes:
    """Types of all nodes, from the known types of some variables by name.

    Variables without a given type use their ``__shape__`` and ``__dtype__`` (0 and -1 there:
    unknown). Raises ShapeError or DTypeError naming the node, its operands and the user's line.
    """
    order = topological(outputs)
    types: NodeTypes = {
        n: (variable_type(n, known),) if n.op is None else (UNKNOWN,) * len(n.output_names)
        for n in order
    }
    nodes = [node for node in order if node.op is not None]
    settle(nodes, types)
    if _default_dtypes(order, types):
        settle(nodes, types)
    return types


def require_known(types: NodeTypes) -> None:
    """Raise ShapeError, located, for the first node whose type does not follow from the inputs."""
    for node, found in types.items():
        if all(t.is_known for t in found):
            continue
        reason = f"its type {' '.join(map(str, found))} does not follow from the inputs"
        if node.inputs:
            reason = f"its result {' '.join(map(str, found))} has a shape that depends on values"
        names = [f"{n} {i.name}" for n, i in zip(node.input_names, node.inputs)]
        operands = zip(names, (types[i.node][i.index] for i in node.inputs))
        error = ShapeError(f"{reason}; a compiled graph needs every shape before it runs")
        raise located(error, node.describe(), operands, node.source)


def settle(nodes: Sequence[Node], types: NodeTypes) -> None:
    """Apply the rules of ``nodes``, inputs before users, until nothing changes.

    A node is visited again only when the type of one of its inputs or outputs was learned. Each
    type is learned once, so that the work is proportional to the number of edges.
    """
    readers: dict[Output, list[Node]] = {}
    for node in nodes:
        for edge in node.inputs:
            readers.setdefault(edge, []).append(node)
    pending = OrderedDict.fromkeys(nodes)
    while pending:
        node, _ = pending.popitem(last=False)
        learned = apply_rule(node, types)
        beside = dict.fromkeys(n for e in learned for n in (e.node, *readers.get(e, ())) if n.op)
        if node in beside and _is_settled(node, types):
            del beside[node]
        pending.update(beside)  # nodes that are pending already keep their positions


def _is_settled(node: Node, types: NodeTypes) -> bool:
    return all(t.is_known for t in types[node]) and all(
        types[i.node][i.index].is_known for i in node.inputs
    )


def apply_rule(node: Node, types: NodeTypes) -> list[Output]:
    """Run one node's rule and store its results; return the outputs whose types it learned."""
    assert node.op is not None
    ins = tuple(types[i.node][i.index] for i in node.inputs)
    outs = types[node]
    learned: list[Output] = []
    rows: dict[Node, list[TensorType]] = {}
    try:
        new_ins, new_outs = node.op.infer(ins, outs, **node.attrs)
        require_possible(new_outs)
        if new_outs != outs:
            learned = [Output(node, i) for i, t in enumerate(new_outs) if t != outs[i]]
        types[node] = new_outs
        for edge, before, after in zip(node.inputs, ins, new_ins):
            if after != before:
                row = rows.get(edge.node) or rows.setdefault(edge.node, list(types[edge.node]))
                row[edge.index] = merge(row[edge.index], after)
                learned.append(edge)
    except MXNetError as error:
        names = [f"{n} {i.name}" for n, i in zip(node.input_names, node.inputs)]
        raise located(error, node.describe(), zip(names, ins), node.source) from None
    types.update((n, tuple(row)) for n, row in rows.items())
    return learned


def variable_type(node: Node, known: Mapping[str, TensorType]) -> TensorType:
    """The given type of a variable, completed from its ``__shape__`` and ``__dtype__``.

    Raises ShapeError if the given shape contradicts the sizes that the graph is fixed to.
    """
    given = known.get(node.name, UNKNOWN)
    fixed = fixed_shape(node)
    if fixed is not None and given.shape is not None:
        _require_sizes(node, given.shape, fixed)
    shape = (fixed or _hinted_shape(node)) if given.shape is None else given.shape
    return TensorType(shape, hinted_dtype(node) if given.dtype is None else given.dtype)


def hinted_dtype(node: Node) -> np.dtype | None:
    """The element type that ``__dtype__`` encodes; None for any other string."""
    return _DTYPE_HINTS.get(node.text.get("__dtype__", ""))


def _hinted_shape(node: Node) -> PartialShape | None:
    """The shape that ``__shape__`` encodes, negative sizes as unknown; None if it is malformed."""
    sizes = shape_of(node, "__shape__")
    return None if sizes is None else partial_shape([max(size, -1) for size in sizes])


def _require_sizes(node: Node, given: PartialShape, fixed: PartialShape) -> None:
    fits = len(given) == len(fixed) and all(
        a is None or b is None or a == b for a, b in zip(given, fixed)
    )
    if not fits:
        found = shape_text(tuple(None if size is None else hint_of(size) for size in given))
        raise ShapeError(
            f"input '{node.name}' takes shape {shape_text(fixed)}, got {found}: the graph was made "
            "for these sizes"
        )


def _default_dtypes(order: list[Node], types: NodeTypes) -> bool:
    """Give float32, as in MXNet, to variables whose dtype nothing decides. True if any was found.

    Lengths of a softmax get int32, the only type they may have.
    """
    open_variables = [n for n in order if n.op is None and types[n][0].dtype is None]
    lengths = {
        edge.node
        for node in order
        for name, edge in zip(node.input_names if node.inputs else (), node.inputs)
        if name == "length"
    }
    for node in open_variables:
        dtype = INT32 if node in lengths else FLOAT32
        types[node] = (types[node][0].with_dtype(dtype),)
    return bool(open_variables)
