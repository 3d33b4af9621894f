"""Expand: operator -> its expansion into operators with kernels.

Compound operators are divided, and equivalent operators become one. After this pass the only
shape-changing operators are ``_reshape_to`` (literal sizes), ``transpose``, ``slice`` (explicit
bounds) and ``broadcast_to``; the only softmax is ``softmax`` or ``log_softmax``; the only matrix
products are ``FullyConnected`` on two dimensions and ``batch_dot`` on three without transposition;
BatchNorm has one output and no activation. Expansions are expanded recursively. Values with zero
elements stay unchanged.
"""

from __future__ import annotations

from ...errors import InternalError
from ...ir.building import ValueBuilder
from ...ir.graph import Graph, Use, Value, make, uses_of
from ...ir.rewrite import Match, Replacement, replace_values, uniquely_named
from ...ops.building import as_results, parts_of
from ...ops.record import OpDef


def expand(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The same graph in canonical operators.

    Values of an expansion take names from their operator's, which a node of the graph may have as
    well; such names are made unique.
    """
    return uniquely_named(replace_values(graph, _expanded, fired))


def title(op: OpDef) -> str:
    """The title of the expansion of ``op``: the first line of its docstring."""
    return (op.expand.__doc__ or f"{op.name}  =>  its parts").splitlines()[0]


def _expanded(value: Value, match: Match) -> tuple[str, Replacement]:
    if value.op is None or value.op.expand is None or any(t.size == 0 for t in value.types):
        return "", None
    made = parts_of(value.op, _Expander(value.name, value.source), value.inputs, value.attrs)
    if made is None:
        return "", None
    parts = as_results(made)
    found = tuple(use.type for use in parts)
    if found != value.types:
        raise InternalError(
            f"bug in hybridjit: {value.describe()} is {' '.join(map(str, value.types))}, its "
            f"expansion {' '.join(map(str, found))}"
        )
    return title(value.op), parts


class _Expander(ValueBuilder):
    """A builder that expands each operator it makes."""

    def outputs(self, op: OpDef, /, *inputs: Use, at: str = "", **attrs: object) -> tuple[Use, ...]:
        name, full = self.named(at), op.with_defaults(attrs)
        made = parts_of(op, _Expander(name, self.source), inputs, full)
        if made is not None:
            return as_results(made)
        return uses_of(make(op, name, inputs, self.source, **full))
