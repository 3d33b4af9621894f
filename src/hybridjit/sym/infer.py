"""Inference for ``Symbol.infer_shape`` and ``Symbol.infer_type``.

Input: a Symbol's outputs, and shapes or dtypes by argument name. Output: MXNet's three lists
(arguments, outputs, auxiliary states). Unknown sizes and shapes are 0 and (), or -1 and None, as
the thread's shape semantics require.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

import numpy as np

from .._core.frames import warn
from .._core.shapes import partial_shape, shown_shape
from .._core.types import (
    DTYPE_NAMES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UNKNOWN,
    DType,
    PartialShape,
    Shape,
    TensorType,
    is_known_shape,
)
from ..errors import MXNetError
from ..ir.node import Node, Output, topological
from ..passes.infer import NodeTypes, apply_rule, infer_node_types, settle, variable_type
from .outputs import Outputs, auxiliary_nodes

_RANKS = (4, 3, 2, 1)  # ranks assumed for unknown shapes
_TRIED = (1, 2, 64, 192)  # sizes assumed for unknown ones: small ones reveal clipping
_OTHERS: tuple[np.dtype, ...] = (
    FLOAT32,
    FLOAT64,
    np.dtype("float16"),
    INT32,
    INT64,
)  # dtypes assumed for an unknown one
_MANY = 16  # limit of inputs with separate types; every operator has fewer

Fact = TypeVar("Fact")
Lists = tuple[list[Fact | None], list[Fact | None], list[Fact | None]]


def infer_shapes(symbol: Outputs, shapes: Mapping[str, Shape | None]) -> Lists[PartialShape]:
    """Shapes, from some arguments' shapes, with None for unknown sizes; 0 is a known size.

    Raises MXNetError for inconsistent shapes.
    """
    for name, shape in shapes.items():
        if not isinstance(shape, (tuple, list)):
            raise TypeError(f"Arguments need to be shapes (tuple), but '{name}' is {type(shape)}.")
    known = {name: TensorType(partial_shape(sizes), None) for name, sizes in shapes.items()}
    for name in _lengths(symbol):  # the only inputs that are not assumed to be float32
        known[name] = known.get(name, UNKNOWN).with_dtype(INT64)
    return _listed(symbol, partial_types(symbol.outputs, known), _shape)


def partial_types(outputs: Sequence[Output], known: Mapping[str, TensorType]) -> NodeTypes:
    """Types of all nodes from those of some variables, with None for unknown sizes.

    Raises MXNetError for inconsistent types.
    """
    types = infer_node_types(outputs, known)
    for node in topological(outputs):
        if node.op is None or all(t.is_known for t in types[node]):
            continue
        apply_rule(node, types)  # an input's sizes may be known only since its node was tried
        if not all(t.is_known for t in types[node]):
            types[node] = _tried(node, types)
    return types


def shown_shapes(lists: Lists[PartialShape]) -> Lists[Shape]:
    """The three lists in the form that users see."""
    arguments, outputs, states = ([shown_shape(shape) for shape in part] for part in lists)
    return arguments, outputs, states


def _lengths(symbol: Outputs) -> list[str]:
    """Names of the variables that are lengths of a softmax, which are integers."""
    return [
        edge.node.name
        for node in topological(symbol.outputs)
        for name, edge in zip(node.input_names, node.inputs)
        if name == "length" and edge.node.op is None
    ]


def infer_types(symbol: Outputs, dtypes: Mapping[str, DType | None]) -> Lists[type[np.generic]]:
    """Dtypes, from some arguments' dtypes, without shapes. Raises DTypeError.

    A dtype that is not determined remains unknown.
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
    """Test whether the three lists contain no unknown item."""
    return all(is_known_fact(item) for item in sum(lists, []))


def is_known_fact(item: object) -> bool:
    """Test whether a shape or dtype of the lists is known."""
    return is_known_shape(item) if isinstance(item, tuple) else item is not None


def decided_shapes(symbol: Outputs, shapes: Mapping[str, Shape | None]) -> Any:
    """All shapes as MXNet shows them; ``(None, None, None)`` with a warning if some are unknown."""
    found = infer_shapes(symbol, shapes)
    shown = shown_shapes(found)
    if is_complete(found):
        return shown
    rows = zip(symbol.list_arguments(), shown[0], found[0])
    warn(
        "Cannot decide shape for the following arguments (0s in shape means unknown "
        "dimensions). Consider providing them as input:\n\t"
        + "\n\t".join(f"{name}: {text}" for name, text, fact in rows if not is_known_fact(fact))
    )
    return None, None, None


def by_argument_name(
    symbol: Outputs, args: Sequence[Fact | None], kwargs: Mapping[str, Fact | None]
) -> dict[str, Fact | None]:
    """Shapes or dtypes by name, given by position (None for unknown) or by name.

    Raises ValueError if both are given, MXNetError for a name that is not a variable.
    """
    if args and kwargs:
        raise ValueError(
            "Can only specify known argument shapes either by positional or kwargs way."
        )
    if args:
        names = symbol.list_arguments()
        if len(args) > len(names):
            raise MXNetError(f"{len(args)} arguments are given, but the symbol has {len(names)}")
        return {name: fact for name, fact in zip(names, args) if fact is not None}
    names = symbol.list_inputs()
    possible = frozenset(names)
    for name in kwargs:
        if name not in possible:
            raise MXNetError(f"keyword argument name {name} not found. Candidates: {names}")
    return dict(kwargs)


def _tried(node: Node, types: NodeTypes) -> tuple[TensorType, ...]:
    """Output types of a node, with the sizes that do not depend on unknown input sizes.

    Rules that need complete shapes are evaluated with several assumed values of unknown sizes.
    """
    ins = [types[edge.node][edge.index] for edge in node.inputs]
    if any(t.shape is None for t in ins):
        return types[node]
    answers = [found for size in _TRIED if (found := _asked(node, ins, size)) is not None]
    if len(answers) < 2:
        return types[node]
    # If a rule rejects some sizes it may clip others: then accept only sizes of the inputs.
    believed = None if len(answers) == len(_TRIED) else {d for t in ins for d in t.shape or ()}
    return tuple(
        known.with_shape(_agreed([found[i].shape for found in answers], known.shape, believed))
        for i, known in enumerate(types[node])
    )


def _asked(node: Node, ins: list[TensorType], size: int) -> tuple[TensorType, ...] | None:
    """Output types if every unknown size were ``size``; None if the rule rejects that."""
    return _outputs_of(node, [TensorType(_shape_of(t, 0, size), t.dtype or FLOAT32) for t in ins])


def _outputs_of(node: Node, ins: list[TensorType]) -> tuple[TensorType, ...] | None:
    """Output types by the operator's rule for these inputs; None if it rejects them."""
    assert node.op is not None
    try:
        return node.op.infer(tuple(ins), (UNKNOWN,) * len(node.output_names), **node.attrs)[1]
    except MXNetError:
        return None


def _agreed(
    shapes: list[PartialShape | None],
    known: PartialShape | None,
    believed: set[int | None] | None,
) -> PartialShape | None:
    """Known sizes, and sizes that are equal in all shapes and are in ``believed``."""
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


def _shape(t: TensorType) -> PartialShape | None:
    return t.shape


def _dtype(t: TensorType) -> type[np.generic] | None:
    return None if t.dtype is None else t.dtype.type


def _element_type(name: str, dtype: DType) -> np.dtype:
    found = DTYPE_NAMES.get(np.dtype(dtype).name)
    if found is None:
        raise TypeError(f"Argument need to be one of {', '.join(DTYPE_NAMES)}, '{name}' is {dtype}")
    return found


def _complete(node: Node, types: NodeTypes) -> None:
    """Infer dtypes that the known dtypes determine.

    If the operator accepts none of the assumed shapes, all operands are assumed to have one dtype,
    and results the dtype of the attribute ``dtype``.
    """
    ins = [types[edge.node][edge.index] for edge in node.inputs]
    unknown = [k for k, t in enumerate(ins) if t.dtype is None]
    first = next((t.dtype for t in ins if t.dtype is not None), None)
    is_done = not unknown and all(t.dtype is not None for t in types[node])
    if is_done or first is None or len(unknown) > _MANY:
        return
    if whole := _taken(node, ins, first):
        inputs, results = _decided(node, whole, unknown)
    else:
        declared = node.attrs.get("dtype")
        inputs = dict.fromkeys(unknown, first)
        results = [declared if isinstance(declared, np.dtype) else first] * len(node.output_names)
    _learn([node.inputs[k] for k in inputs], list(inputs.values()), types)
    _learn([Output(node, i) for i in range(len(results))], results, types)


def _taken(node: Node, ins: list[TensorType], first: np.dtype) -> list[TensorType] | None:
    """Input types with assumed shapes and dtypes that the node's rule accepts.

    Most rules need shapes. None if no assumed shape is accepted.
    """
    for dtype, ranks, size in product((first, *_OTHERS), _ranks(len(ins)), _TRIED):
        shapes = (_shape_of(t, rank, size) for t, rank in zip(ins, ranks))
        whole = [TensorType(shape, t.dtype or dtype) for t, shape in zip(ins, shapes)]
        outs = _outputs_of(node, whole)
        if outs is not None and all(t.dtype is not None for t in outs):
            return whole
    return None


def _decided(
    node: Node, whole: list[TensorType], unknown: list[int]
) -> tuple[dict[int, np.dtype | None], list[np.dtype | None]]:
    """Dtypes of ``unknown`` inputs and of outputs that do not change with assumed dtypes."""
    inputs = {k: whole[k].dtype for k in unknown}
    results = [t.dtype for t in _outputs_of(node, whole) or ()]
    separate = [[k] for k in unknown]
    for dtype, places in product(_OTHERS, [unknown, *separate]):
        other = [t.with_dtype(dtype) if k in places else t for k, t in enumerate(whole)]
        found = _outputs_of(node, other) if other != whole else None
        if found is not None:
            inputs = {k: t for k, t in inputs.items() if k not in places or t == dtype}
            results = [r if r == t.dtype else None for r, t in zip(results, found)]
    return inputs, results


def _ranks(count: int) -> Iterator[list[int | None]]:
    """Assumed ranks of inputs: of the first, and unknown, equal or falling ones of the others."""
    for first in _RANKS:
        for rest in (None, *_RANKS):
            yield [first, *[rest] * (count - 1)]
        yield [max(first - k, 1) for k in range(count)]


def _shape_of(t: TensorType, rank: int | None, size: int) -> PartialShape | None:
    """Shape of a type, with ``size`` for unknown sizes."""
    if t.shape is None:
        return None if rank is None else (size,) * rank
    return tuple(size if d is None else d for d in t.shape)


def _learn(edges: Sequence[Output], dtypes: Sequence[np.dtype | None], types: NodeTypes) -> None:
    """Set the dtypes of edges whose dtype is unknown."""
    rows = {node: list(types[node]) for node in {edge.node for edge in edges}}
    for edge, dtype in zip(edges, dtypes):
        row = rows[edge.node]
        if row[edge.index].dtype is None:
            row[edge.index] = row[edge.index].with_dtype(dtype)
    types.update((node, tuple(row)) for node, row in rows.items())
