"""Inlining of functions: operators that a model defines by its own nodes.

Input: a model with functions, as written by PyTorch's newer exporter. Output: the same model
without functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..errors import MXNetError
from ..formats.onnx.messages import Attribute, Function, Graph, Model, Node

_MOST = 1 << 16  # limit of inlined nodes
_DEEPEST = 32  # limit of nesting; recursion is infinite
Rename = Callable[[str], str]


def inlined(model: Model) -> Model:
    """Model without functions.

    Raises MXNetError for a function of another operator set than the model's, for a recursive one,
    and if inlining results in more than 65,536 nodes.
    """
    assert model.graph is not None
    if not model.functions:
        return model
    functions = {(f.domain, f.name): f for f in model.functions}
    versions = {_own(s.domain): s.version for s in model.opset_import}
    for function in model.functions:
        _require_version(function, versions)
    return replace(model, graph=_Inliner(functions).graph(model.graph, 0), functions=())


def _own(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _require_version(function: Function, versions: Mapping[str, int]) -> None:
    for asked in function.opset_import:
        found = versions.get(_own(asked.domain), asked.version)
        if not _own(asked.domain) and found != asked.version:
            raise MXNetError(
                f"the function '{function.name}' needs operator set {asked.version}, but the "
                f"model has "
                f"{found}: both must be equal"
            )


class _Inliner:
    """Counts the nodes that it creates, and the uses, whose numbers make value names unique."""

    def __init__(self, functions: Mapping[tuple[str, str], Function]) -> None:
        self._functions = functions
        self._left = _MOST
        self._uses = 0

    def graph(self, graph: Graph, depth: int) -> Graph:
        """Graph with nodes in place of functions."""
        return replace(graph, node=list(self._nodes(graph.node, depth)))

    def _nodes(self, nodes: Sequence[Node], depth: int) -> Iterator[Node]:
        for node in nodes:
            function = self._functions.get((node.domain, node.op_type))
            if function is None:
                yield replace(node, attribute=[self._inside(a, depth) for a in node.attribute])
            else:
                yield from self._body(node, function, depth)

    def _inside(self, attribute: Attribute, depth: int) -> Attribute:
        if attribute.g is None:
            return attribute
        return replace(attribute, g=self.graph(attribute.g, depth))

    def _body(self, use: Node, function: Function, depth: int) -> Iterator[Node]:
        """Nodes of the function, with the value names of the use."""
        what = f"the function '{function.name}'"
        if depth > _DEEPEST:
            raise MXNetError(f"{what}: functions are nested more than {_DEEPEST} deep")
        if len(use.input) > len(function.input) or len(use.output) > len(function.output):
            raise MXNetError(f"{what} is used with more operands or results than it has")
        self._left -= len(function.node)
        if self._left < 0:
            raise MXNetError(f"{what}: inlining results in more than {_MOST} nodes")
        self._uses += 1
        start = f"{use.name or use.op_type}:{self._uses}:"
        if both := {*function.input} & {*function.output}:
            raise MXNetError(f"{what} returns its operand '{both.pop()}' unchanged")
        names = dict.fromkeys(function.input, "") | dict(zip(function.input, use.input))
        names |= {inner: name for inner, name in zip(function.output, use.output) if name}
        rename = _renaming(names, start)
        given = {a.name: a for a in (*function.attribute_proto, *use.attribute)}
        nodes = [_renamed(node, rename, start, given) for node in function.node]
        yield from self._nodes(nodes, depth + 1)


def _renaming(names: Mapping[str, str], start: str) -> Rename:
    return lambda name: names.get(name, start + name) if name else ""


def _renamed(node: Node, rename: Rename, start: str, given: Mapping[str, Attribute]) -> Node:
    return replace(
        node,
        input=[rename(name) for name in node.input],
        output=[rename(name) for name in node.output],
        name=start + node.name if node.name else "",
        attribute=[
            _with_names(a, rename, start, given)
            for a in (_resolved(attribute, given) for attribute in node.attribute)
            if a is not None
        ],
    )


def _resolved(attribute: Attribute, given: Mapping[str, Attribute]) -> Attribute | None:
    """Attribute of the use for one that refers to it; None if the use does not have it."""
    if not attribute.ref_attr_name:
        return attribute
    found = given.get(attribute.ref_attr_name)
    return None if found is None else replace(found, name=attribute.name)


def _with_names(
    attribute: Attribute, rename: Rename, start: str, given: Mapping[str, Attribute]
) -> Attribute:
    """Attribute whose graph reads the function's renamed values."""
    graph = attribute.g
    if graph is None:
        return attribute
    return replace(
        attribute,
        g=replace(
            graph,
            node=[_renamed(node, rename, start, given) for node in graph.node],
            initializer=[replace(t, name=rename(t.name)) for t in graph.initializer],
            input=[replace(info, name=rename(info.name)) for info in graph.input],
            output=[replace(info, name=rename(info.name)) for info in graph.output],
        ),
    )
