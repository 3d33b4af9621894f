"""The roles of a graph's variables: inputs, labels of training graphs, parameters.

Input: a graph and the names that have arrays. Output: the other variables, sorted by how operators
read them; and the graph without its labels, which inference does not need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from .._core.frozen import dataclass
from .node import Node, Output, topological
from .signature import in_call_order

# Operator inputs that are learned: a variable read as one of them is a parameter, not an input.
LEARNED = frozenset(
    {
        "bias",
        "beta",
        "gamma",
        "moving_avg",
        "moving_mean",
        "moving_var",
        "parameters",
        "weight",
    }
)


class Reading(NamedTuple):
    """A variable that an operator reads, and the operator's name of that input.

    ``by_head``: the operator is a loss head, the end of a training graph.
    """

    variable: str
    slot: str
    by_head: bool


@dataclass(frozen=True)
class Roles:
    """The variables of a graph without arrays, each list in the graph's order.

    inputs   given by the caller, in the order of a call
    labels   read by loss heads only; inference does not need them
    missing  read by operators as weights and other learned inputs
    """

    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    missing: tuple[str, ...]


def variables(outputs: Iterable[Output]) -> list[str]:
    """The names of the graph's variables, each once, in the graph's order."""
    return list(dict.fromkeys(n.name for n in topological(outputs) if n.is_variable))


def readings(outputs: Iterable[Output]) -> list[Reading]:
    """All reads of variables in the graph."""
    return [
        Reading(edge.node.name, slot, node.op.traits.loss_head)
        for node in topological(outputs)
        if node.op is not None
        for edge, slot in zip(node.inputs, node.input_names)
        if edge.node.is_variable
    ]


def sort_variables(outputs: Iterable[Output], params: Collection[str]) -> Roles:
    """The roles of the graph's variables that are not in ``params``."""
    outputs = tuple(outputs)
    nodes = [node for node in topological(outputs) if node.is_variable]
    learned = {node.name for node in nodes if is_learned(node.text)}
    names = [name for name in variables(outputs) if name not in params]
    roles = roles_of(names, learned, readings(outputs))
    return replace(roles, inputs=tuple(in_call_order(outputs, roles.inputs)))


def is_learned(text: Mapping[str, str]) -> bool:
    """Whether a variable's attributes are those of a Gluon parameter: only these have a rate."""
    return "__lr_mult__" in text


def roles_of(names: Iterable[str], learned: Collection[str], read: Iterable[Reading]) -> Roles:
    """The roles of these variables without arrays, from how operators read them."""
    slots: dict[str, list[Reading]] = {name: [] for name in names}
    for reading in read:
        if reading.variable in slots:
            slots[reading.variable].append(reading)
    found: dict[str, list[str]] = {"input": [], "label": [], "missing": []}
    for name, uses in slots.items():
        found["missing" if name in learned else _role(uses)].append(name)
    return Roles(tuple(found["input"]), tuple(found["label"]), tuple(found["missing"]))


def _role(uses: list[Reading]) -> str:
    if uses and all(use.by_head and use.slot == "label" for use in uses):
        return "label"
    return "missing" if any(use.slot in LEARNED for use in uses) else "input"


def without_labels(outputs: Iterable[Output], labels: Collection[str]) -> tuple[Output, ...]:
    """The graph whose loss heads read their data in place of these labels.

    A head computes its output from its data only, and the data's shape is a valid label shape.
    """
    heads = tuple(outputs)
    if not labels:
        return heads
    new: dict[Node, Node] = {}

    def moved(edge: Output) -> Output:
        return Output(new.get(edge.node, edge.node), edge.index)

    for node in topological(heads):
        inputs = tuple(moved(edge) for edge in node.inputs)
        if node.op is not None and node.op.traits.loss_head and inputs[1].node.name in labels:
            inputs = (inputs[0], inputs[0])
        if inputs != node.inputs:
            new[node] = replace(node, inputs=inputs)
    return tuple(moved(head) for head in heads)
