"""Order of the nodes of an ONNX graph, and nodes of subgraphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..formats.onnx import messages


def in_order(
    nodes: Sequence[messages.Node], known: Mapping[str, object]
) -> list[tuple[int, messages.Node]]:
    """Nodes with their indices, dependencies first, otherwise in file order.

    Nodes in a cycle keep their positions.
    """
    listed = [*enumerate(nodes)]
    made = {name: number for number, node in listed for name in node.output if name}
    read = [[made[n] for n in _read(node) if n in made and n not in known] for node in nodes]
    if all(before < number for number, found in enumerate(read) for before in found):
        return listed
    order: dict[int, None] = {}
    for number in range(len(nodes)):
        _append(number, read, order)
    return [listed[number] for number in order]


def _append(number: int, read: Sequence[Sequence[int]], order: dict[int, None]) -> None:
    """Append a node after its dependencies."""
    stack, entered = [(number, iter(read[number]))], {number}
    while stack:
        top, others = stack[-1]
        following = next((n for n in others if n not in order and n not in entered), None)
        if following is None:
            order[top] = None
            stack.pop()
        else:
            entered.add(following)
            stack.append((following, iter(read[following])))


def _read(node: messages.Node) -> Iterator[str]:
    """Names of values that a node and its subgraphs read."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.g is not None:
            for _, inner in nodes_of(attribute.g):
                yield from inner.input
            yield from (info.name for info in attribute.g.output)


def nodes_of(graph: messages.Graph) -> Iterator[tuple[int, messages.Node]]:
    """All nodes with their indices, including those of subgraphs."""
    for number, node in enumerate(graph.node):
        yield number, node
        for attribute in node.attribute:
            if attribute.g is not None:
                yield from nodes_of(attribute.g)
