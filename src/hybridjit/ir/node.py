"""Nodes and outputs: the untyped graph as the user wrote it.

A Symbol (``sym/symbol.py``) is a tuple of :class:`Output`. Nodes are frozen and shared; a node's
identity is the object, not the name: MXNet's files repeat names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from .._core.frozen import dataclass
from ..errors import MXNetError, located
from ..ops.attrs import Attrs, AttrValue
from ..ops.record import OpDef

# Attributes that MXNet stores with underscores around the key, in whichever way they were given.
HIDDEN_KEYS = frozenset({"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"})
# The attribute that requests another element type than float32 for products.
PRECISION_KEY = "__precision__"


class Output(NamedTuple):
    """Output ``index`` of ``node``."""

    node: Node
    index: int = 0  # type: ignore[assignment]

    @property
    def name(self) -> str:
        """The output's name as MXNet lists it: ``<node>_output``; for a variable, its name."""
        if self.node.op is None:
            return self.node.name
        return f"{self.node.name}_{self.node.output_names[self.index]}"


@dataclass(frozen=True, eq=False)
class Node:
    """One use of an operator, or a variable (``op`` None).

    text    attributes as symbol JSON spells them, hidden ``__x__`` keys included
    attrs   the operator's attributes parsed, defaults filled in
    source  the user's line, ``file:line in function``; empty if it came from a file
    block   names of the Gluon blocks around it, outermost first; empty outside of blocks
    """

    op: OpDef | None
    name: str
    text: Mapping[str, str]
    inputs: tuple[Output, ...]
    attrs: Attrs = field(repr=False)
    source: str = ""
    block: tuple[str, ...] = ()

    @property
    def is_variable(self) -> bool:
        return self.op is None

    @property
    def output_names(self) -> Sequence[str]:
        return ("",) if self.op is None else self.op.output_names(self.attrs)

    @property
    def input_names(self) -> Sequence[str]:
        return () if self.op is None else self.op.input_names(self.attrs)

    def describe(self) -> str:
        """Operator and name, as messages have it: ``Convolution 'stage1_conv0'``."""
        return f"variable '{self.name}'" if self.op is None else f"{self.op.name} '{self.name}'"


def variable(name: str, text: Mapping[str, str] | None = None, source: str = "") -> Node:
    """A variable node: an input, a parameter, an auxiliary state or a constant."""
    return Node(None, name, dict(text or {}), (), {}, source)


def annotate(node: Node, text: Mapping[str, str]) -> None:
    """Give ``node`` further attributes that its operator does not read, for all its holders.

    The only mutation of a node. Raises MXNetError for an attribute of the operator.
    """
    own = {attr.name for attr in node.op.attrs} if node.op else set()
    if taken := sorted(own & text.keys()):
        raise MXNetError(
            f"{node.describe()}: {', '.join(taken)} defines the operator's result and cannot "
            "change once the node is made; make another node"
        )
    object.__setattr__(node, "text", {**node.text, **text})


def apply(
    op: OpDef, name: str, inputs: Iterable[Output], text: Mapping[str, str], source: str = ""
) -> Node:
    """A node that applies ``op``; parses the attribute strings and checks the number of inputs.

    Raises MXNetError (AttributeValueError and the like) naming the operator and the node.
    """
    inputs = tuple(inputs)
    attrs = checked_attributes(op, name, text, len(inputs), source)
    return Node(op, name, dict(text), inputs, attrs, source)


def checked_attributes(
    op: OpDef, name: str, text: Mapping[str, str], inputs: int, source: str = ""
) -> dict[str, AttrValue]:
    """Parsed attributes of a node with ``inputs`` operands. Raises as :func:`apply`."""
    try:
        attrs = op.parse(text)
        op.require_inputs(op.input_names(attrs), inputs)
        return attrs
    except MXNetError as error:
        raise located(error, f"{op.name} '{name}'", (), source) from None


def with_precision(outputs: Iterable[Output], precision: str) -> tuple[Output, ...]:
    """Copies of all operator nodes that request products in this element type; "" removes requests.

    The variables are the same nodes. :func:`precision_of` reads the request.
    """
    outputs, made = tuple(outputs), dict[Node, Node]()
    for node in topological(outputs):
        if node.is_variable:
            made[node] = node
            continue
        text = {key: value for key, value in node.text.items() if key != PRECISION_KEY}
        if precision:
            text[PRECISION_KEY] = precision
        inputs = tuple(Output(made[use.node], use.index) for use in node.inputs)
        made[node] = replace(node, inputs=inputs, text=text)
    return tuple(Output(made[use.node], use.index) for use in outputs)


def with_live_operands(
    outputs: tuple[Output, ...], live: Mapping[str, Callable[[], object] | None]
) -> tuple[Output, ...]:
    """The graph whose operators write these variables in place, if they write operands.

    ``live`` maps a variable's name to the entry for ``on_live`` that :class:`.Traits` describes.
    """
    nodes, made = topological(outputs), dict[Node, Node]()
    if not any(node.op is not None and node.op.traits.on_live for node in nodes):
        return outputs
    for node in nodes:
        op, inputs = node.op, tuple(Output(made[use.node], use.index) for use in node.inputs)
        if op is not None and op.traits.on_live:
            uses = [use.node for use in inputs]
            known = {i: live[n.name] for i, n in enumerate(uses) if n.op is None and n.name in live}
            op = op.traits.on_live(known)
        made[node] = node if op is None else replace(node, op=op, inputs=inputs)
    return tuple(Output(made[use.node], use.index) for use in outputs)


def precision_of(outputs: Iterable[Output]) -> str:
    """The element type of products that a node of the graph requests; "" if none does."""
    asking = (node.text.get(PRECISION_KEY, "") for node in topological(outputs))
    return next(filter(None, asking), "")


def topological(outputs: Iterable[Output]) -> list[Node]:
    """All nodes that the outputs need, inputs before users, first input first (MXNet's order)."""
    order: list[Node] = []
    done: set[Node] = set()
    for output in outputs:
        if output.node in done:
            continue
        stack = [(output.node, iter(output.node.inputs))]
        while stack:
            node, rest = stack[-1]
            for source, _ in rest:
                if source not in done:
                    stack.append((source, iter(source.inputs)))
                    break
            else:
                stack.pop()
                done.add(node)
                order.append(node)
    return order
