"""Analysis of a node's fused graph: the operator of the layer, and the operators after it.

Input: the output of the graph. Output: a :class:`Pattern`, whose operands have the order of the
node's inputs: data, weight, bias, the four of batch norm, the residual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._core.frozen import dataclass
from ..control.body import Body
from ..errors import MXNetError
from ..ir.node import Node, Output
from ..ops.attrs import Attrs, Declared, attr_text, declare, parse_attrs
from ..ops.building import Builder, X, computed
from ..ops.record import OpDef

_NORM = ("gamma", "beta", "*mean", "*var")


@dataclass(frozen=True, eq=False)
class Pattern:
    """Layer with batch norm, residual sum and activations, as far as they exist.

    names    names of the operands, auxiliary states with an asterisk
    before   activations before the residual sum; all activations if there is none
    after    activations after the residual sum
    """

    body: Body
    layer: Node
    norm: Node | None
    has_sum: bool
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    names: tuple[str, ...]


def pattern_of(name: str, outputs: Sequence[Output], layer_op: str) -> Pattern:
    """The pattern of a fused operator. Raises MXNetError for a graph of another form."""
    body = Body(outputs)
    chain = _chain(name, outputs[0].node, layer_op)
    layer, rest = chain[0], list(chain[1:])
    norm = rest.pop(0) if rest and _is(rest[0], "BatchNorm") else None
    adds = [i for i, node in enumerate(rest) if _is(node, "elemwise_add")]
    if len(adds) > 1:
        raise MXNetError(f"{name}: the subgraph has {len(adds)} sums, at most 1 is possible")
    place = adds[0] if adds else len(rest)
    names = ["data", "weight"] + ["bias"] * (not layer.attrs["no_bias"])
    wanted = [source.node for source in layer.inputs]
    if norm is not None:
        names += _NORM
        wanted += [source.node for source in norm.inputs[1:]]
    if adds:
        names.append("sum")
        wanted.append(rest[place].inputs[1].node)
    if body.variables != wanted:
        raise MXNetError(
            f"{name}: the subgraph must read its operands in the order {', '.join(names)}, each "
            "once"
        )
    return Pattern(
        body,
        layer,
        norm,
        bool(adds),
        tuple(rest[:place]),
        tuple(rest[place + 1 :]),
        tuple(names),
    )


def _chain(name: str, last: Node, layer_op: str) -> tuple[Node, ...]:
    """Nodes from the layer to ``last``, each the first operand of the next."""
    found = [last]
    while not _is(found[-1], layer_op):
        if found[-1].is_variable or not found[-1].inputs:
            raise MXNetError(f"{name}: the subgraph has no {layer_op} on its main path")
        found.append(found[-1].inputs[0].node)
    return tuple(reversed(found))


def _is(node: Node, name: str) -> bool:
    return node.op is not None and node.op.name == name


def activation_name(node: Node) -> str:
    """``relu``, ``leaky``, ``clip``, ``abs``, ...: the function that a node applies."""
    assert node.op is not None
    return str(node.attrs.get("act_type", node.op.name))


def activated(x: np.ndarray, nodes: Sequence[Node]) -> np.ndarray:
    """float32 values after the activations, computed in float32."""
    for node in nodes:
        assert node.op is not None
        x = np.asarray(node.op.ref(x, **node.attrs))
    return x


def attributes(text: Mapping[str, str], declared: str, renamed: Mapping[str, str]) -> Attrs:
    """Parsed attributes under their present names."""
    new = {renamed.get(key, key): value for key, value in text.items()}
    return parse_attrs(declare(declared), new)


def float_record(name: str, declared: str, pattern: Pattern) -> OpDef:
    """Record of a node that is not quantized: the operators of its subgraph."""

    def expand(g: Builder[X], *inputs: X, **attrs: Declared) -> X:
        return pattern.body.run(g, inputs, False)[0]

    return OpDef(
        name=name,
        inputs=pattern.names,
        attrs=declare(declared),
        infer=lambda ins, outs, **attrs: pattern.body.types(ins, outs),
        ref=computed(name, expand),
        expand=expand,
        subgraphs=(pattern.body.outputs,),
        doc="A layer fused with the operators after it.",
    )


def require_flags(name: str, attrs: Attrs, found: Mapping[str, bool]) -> None:
    """Raise MXNetError if attributes contradict the subgraph."""
    for key, is_there in found.items():
        if bool(attrs[key]) != is_there:
            what = "has" if is_there else "does not have"
            raise MXNetError(
                f"{name}: attribute {key} is {attr_text(attrs[key])}, but the subgraph {what} it"
            )
