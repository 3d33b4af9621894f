"""``mx.viz``: a Symbol as a table, or as a drawing by graphviz.

Input: a Symbol, and optional shapes of its inputs. Output: text on stdout, or a graphviz
``Digraph``. Nothing is computed.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._core.frames import public
from ._core.frozen import dataclass
from ._core.types import DType, TensorType
from .ir.node import Node, Output, topological
from .ir.roles import sort_variables
from .passes.infer import NodeTypes, infer_node_types
from .sym import Symbol

__all__ = ["plot_network", "print_summary"]

_TITLES = ("Layer (type)", "Output Shape", "Param #", "Previous Layer")
_COLOURS = {
    "null": "#cfe2f3",
    "Convolution": "#f9cb9c",
    "Deconvolution": "#f9cb9c",
    "FullyConnected": "#f9cb9c",
    "BatchNorm": "#d9d2e9",
    "Activation": "#fff2cc",
    "LeakyReLU": "#fff2cc",
    "Pooling": "#b6d7a8",
    "Concat": "#ead1dc",
    "Flatten": "#ead1dc",
    "Reshape": "#ead1dc",
    "SoftmaxOutput": "#d9ead3",
}
_OTHER_COLOUR = "#eeeeee"


@dataclass(frozen=True)
class _Graph:
    """The nodes, the variables that are inputs or labels, and the known types."""

    nodes: list[Node]
    inputs: frozenset[str]
    labels: frozenset[str]
    types: NodeTypes

    def is_shown(self, node: Node) -> bool:
        return node.op is not None or node.name in self.inputs

    def sizes(self, node: Node, index: int = 0) -> str:
        """The shape of an output without the batch, as in ``64x56x56``; empty if unknown."""
        shape = self.types[node][index].shape
        if shape is None or None in shape[1:]:
            return ""
        return "x".join(str(size) for size in shape[1:])

    def param_count(self, node: Node) -> int:
        """The number of elements in trainable parameters that the node reads."""
        aux = node.op.aux_positions(node.attrs) if node.op is not None else ()
        read = [e.node for i, e in enumerate(node.inputs) if e.node.is_variable and i not in aux]
        types = [self.types[n][0] for n in read if n.name not in self.inputs | self.labels]
        return sum(math.prod(t.dims) for t in types if t.is_known)


@public
def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Sequence[int]] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> None:
    """Print a row per layer: name and operator, output shape, parameters, previous layers.

    ``positions`` are the ends of the columns, as fractions of ``line_length`` or in characters.
    Raises TypeError unless ``symbol`` is a Symbol, ValueError if ``shape`` does not determine the
    output's shape.
    """
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be Symbol")
    graph = _graph_of(symbol, shape, None)
    ends = [int(line_length * p) if positions[-1] <= 1 else int(p) for p in positions]
    print("_" * line_length)
    print(_row(_TITLES, ends))
    print("=" * line_length)
    shown = [node for node in graph.nodes if graph.is_shown(node)]
    for node in shown:
        for line in _layer_rows(graph, node, shape is not None):
            print(_row(line, ends))
        print(("=" if node is shown[-1] else "_") * line_length)
    print(f"Total params: {sum(graph.param_count(node) for node in shown)}")
    print("_" * line_length)


def _layer_rows(graph: _Graph, node: Node, with_shapes: bool) -> list[Sequence[str]]:
    op = "null" if node.op is None else node.op.name
    before = [edge.node.name for edge in node.inputs if graph.is_shown(edge.node)]
    first = (
        f"{node.name}({op})",
        graph.sizes(node) if with_shapes else "",
        str(graph.param_count(node)),
        before[0] if before else "",
    )
    return [first, *(("", "", "", name) for name in before[1:])]


def _row(fields: Sequence[str], ends: Sequence[int]) -> str:
    line = ""
    for field, end in zip(fields, ends):
        line = (line + field)[:end].ljust(end)
    return line


@public
def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: Mapping[str, DType] | None = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> Any:
    """A graphviz ``Digraph`` of the graph, with shapes and types on its edges if given.

    Raises ImportError without the package graphviz, TypeError unless ``symbol`` is a Symbol,
    ValueError if ``shape`` does not determine the output's shape.
    """
    if not isinstance(symbol, Symbol):
        raise TypeError(
            f"symbol must be a Symbol, got {type(symbol).__name__}; net(sym.var('data')) makes one"
        )
    try:
        graphviz = importlib.import_module("graphviz")
    except ImportError:
        raise ImportError("plot_network needs graphviz: pip install graphviz") from None
    graph = _graph_of(symbol, shape, dtype)
    dot = graphviz.Digraph(name=title, format=save_format)
    base = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8", "style": "filled"}
    shown = [n for n in graph.nodes if graph.is_shown(n) or not hide_weights]
    for node in shown:
        own = {"shape": "oval"} if node.op is None else {}
        colour = _COLOURS.get(node.op.name if node.op else "null", _OTHER_COLOUR)
        look = {**base, **(node_attrs or {}), **own, "fillcolor": colour}
        dot.node(name=node.name, label=_label(node), **look)
    for node in shown:
        for edge in node.inputs:
            if edge.node in shown:
                label = _edge_label(graph, edge, shape is not None, dtype is not None)
                dot.edge(
                    tail_name=node.name,
                    head_name=edge.node.name,
                    dir="back",
                    arrowtail="open",
                    label=label,
                )
    return dot


def _edge_label(graph: _Graph, edge: Output, with_shape: bool, with_type: bool) -> str:
    label = graph.sizes(edge.node, edge.index) if with_shape else ""
    found = graph.types[edge.node][edge.index].dtype
    return f"{label}({found.name})" if with_type and found is not None else label


def _label(node: Node) -> str:
    """Text of a box: operator and main attributes, or the name."""
    if node.op is None:
        return node.name
    kind, attrs = node.op.name, node.attrs
    sizes = {name: "x".join(map(str, attrs.get(name) or ())) for name in ("kernel", "stride")}
    window = f"{sizes['kernel']}/{sizes['stride'] or 1}"
    details = {
        "Convolution": f"{window}, {attrs.get('num_filter')}",
        "Deconvolution": f"{window}, {attrs.get('num_filter')}",
        "FullyConnected": str(attrs.get("num_hidden")),
        "Activation": str(attrs.get("act_type")),
        "LeakyReLU": str(attrs.get("act_type")),
        "Pooling": f"{attrs.get('pool_type')}, {window}",
    }
    return f"{kind}\n{details[kind]}" if kind in details else node.name


def _graph_of(
    symbol: Symbol, shape: Mapping[str, Sequence[int]] | None, dtype: Mapping[str, DType] | None
) -> _Graph:
    roles = sort_variables(symbol.outputs, ())
    shapes = {name: tuple(sizes) for name, sizes in (shape or {}).items()}
    dtypes = {name: np.dtype(kind) for name, kind in (dtype or {}).items()}
    known = {n: TensorType(shapes.get(n), dtypes.get(n)) for n in {**shapes, **dtypes}}
    types = infer_node_types(symbol.outputs, known)
    if shape is not None and any(not types[o.node][o.index].is_known for o in symbol.outputs):
        raise ValueError("Input shape is incomplete")
    nodes = topological(symbol.outputs)
    return _Graph(nodes, frozenset(roles.inputs), frozenset(roles.labels), types)
