"""Last layers: the dense layers at the end of a network whose samples run one by one.

Input: the graph of one sample and that of the batch. Output: two graphs, the second of which has
the last layers for the whole batch and reads the result of the first for each sample; None without
such layers. A dense layer on one row loads each weight for one multiplication; on the rows of all
samples it loads it once, with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import rebuild
from ...ops.nn.matrix_products import FULLY_CONNECTED
from .split_batch import batch_of, is_sample_of

# Least bytes of weights for which a second executable is worth its call, 5 to 10 us.
_LEAST_BYTES = 1 << 20
_BETWEEN = frozenset({"view", "pointwise", "softmax"})


def with_last_layers_apart(one: Graph, whole: Graph) -> tuple[Graph, Graph] | None:
    """The graph of one sample without its last layers, and that of these layers for the batch."""
    if not batch_of(whole) or not is_sample_of(one, whole):
        return None
    last = _last_values(whole)
    weights = {value.inputs[1] for value in last if value.op is FULLY_CONNECTED}
    read = dict.fromkeys(
        use for value in last for use in value.inputs if _is_computed(use, whole, last)
    )
    if len(read) != 1 or sum(use.type.nbytes for use in weights) < _LEAST_BYTES:
        return None
    (cut,) = read
    if cut.index or not all(use.value in last for use in whole.outputs):
        return None
    same = dict(zip(whole.values, one.values))
    return _with_bind(one, one.with_outputs([Use(same[cut.value])])), _after(whole, cut, last)


def _last_values(graph: Graph) -> dict[Value, None]:
    """Dense layers from which only such layers and values between them lead to the outputs."""
    ends: set[Value] = set()
    for value in reversed(graph.values):
        is_read = value in graph.output_values or bool(graph.uses[value])
        if is_read and _may_be_last(value) and ends.issuperset(graph.uses[value]):
            ends.add(value)
    found: dict[Value, None] = {}
    for value in graph.values:
        follows = any(use.value in found for use in value.inputs)
        if value in ends and (value.op is FULLY_CONNECTED or follows):
            found[value] = None
    return found


def _may_be_last(value: Value) -> bool:
    return value.op is not None and (value.op is FULLY_CONNECTED or value.op.kernel in _BETWEEN)


def _is_computed(use: Use, graph: Graph, last: dict[Value, None]) -> bool:
    """Whether an operand of the last layers comes from values before them."""
    return use.value not in last and use.value not in graph.params


def _after(graph: Graph, cut: Use, last: Iterable[Value]) -> Graph:
    """The graph of the last layers, whose input is the value at the cut."""
    given = Value(None, cut.value.name, {}, (), (cut.type,))
    new = {cut: Use(given)}
    for value in last:
        made = rebuild(value, tuple(new.get(use, use) for use in value.inputs))
        new.update((Use(value, i), Use(made, i)) for i in range(len(value.types)))
    whole = replace(graph, inputs=(given,), groups=())
    return _with_bind(graph, whole.with_outputs([new[use] for use in graph.outputs]))


def _with_bind(graph: Graph, part: Graph) -> Graph:
    """A part of the graph, with a bind graph for its parameters."""
    assert graph.bind is not None
    wanted = dict(zip(graph.params, graph.bind.outputs))
    return replace(part, bind=graph.bind.with_outputs([wanted[value] for value in part.params]))
