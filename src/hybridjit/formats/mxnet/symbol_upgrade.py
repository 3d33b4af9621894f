"""Upgrade of graphs of older MXNet versions.

Input: nodes of a file, with their operators, and the version that wrote them. Output: nodes as
written by MXNet 1.9.1. Versions are ``major*10000 + minor*100 + patch``; the changes follow MXNet's
history.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...errors import AttributeValueError, ModelFormatError, MXNetError, located
from ...ir.node import HIDDEN_KEYS
from ...ops.attrs import Attr
from ...ops.record import OpDef
from ...ops.tensor.ordering import ARGMAX, ARGMIN
from ..json_stream import Budget

CURRENT = 10901  # version that is read and written
UNSTATED = 800  # version of a file without the version key

_STORED_AUX = 900  # first version that stores all inputs and auxiliary states
_STORED_INIT = 904
_SIGNED_ARGMAX_AXIS = 905  # earlier, axis -1 of argmax and argmin meant all axes

MAX_NODES = 1 << 15  # limit of a file's nodes, including added ones
_SHOWN = 200  # limit of a name's characters in a message
_VARIABLE_BYTES = 1000  # memory of a variable without its strings
_SHAPE = Attr("__shape__", "shape")


@dataclass(eq=False, slots=True)
class RawNode:
    """Node of a file, checked for form but not semantics. Inputs refer to earlier nodes.

    ``number`` is its index in the file; a variable added for an input has the number of its user.
    """

    number: int
    op: OpDef | None
    name: str
    text: dict[str, str]
    inputs: list[RawEntry] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Name of the node in messages."""
        name = self.name if len(self.name) <= _SHOWN else f"{self.name[:_SHOWN]}..."
        return f"node {self.number} '{name}'"


RawEntry = tuple[RawNode, int, int]  # node, output, version


class Changes(dict[str, list[str]]):
    """Changes made to a file's graph, each with the names of the nodes."""

    def note(self, what: str, name: str) -> None:
        self.setdefault(what, []).append(name)


def upgrade(nodes: list[RawNode], version: int, changes: Changes, budget: Budget) -> list[RawNode]:
    """Apply renames and additions of later versions; returns a new list, edits records.

    Changes are noted in ``changes``. Raises AttributeValueError if an operator's attributes do not
    determine its inputs, MXNetError if it has other inputs, and ModelFormatError if missing inputs
    exceed ``budget``.
    """
    if version >= CURRENT:
        return nodes
    result: list[RawNode] = []
    room = _Room(len(nodes), budget)
    for node in nodes:
        before = dict(node.text)
        moved = _rename_hidden(node)
        if before != node.text:
            changes.note("attributes such as lr_mult became hidden", node.name)
        if node.op is not None:
            for made in _with_inputs(node, node.op, moved, version, room):
                changes.note("missing inputs became variables", made.name)
                result.append(made)
        if version < _STORED_INIT:
            _set_default_init(node)
        if version < _SIGNED_ARGMAX_AXIS and _drop_argmax_axis(node):
            changes.note("axis -1 means all axes", node.name)
        result.append(node)
    return result


def mark_unknown_sizes(nodes: list[RawNode]) -> None:
    """Replace sizes of 0 (unknown) in variables by -1, which NumPy's semantics use."""
    for node in nodes:
        if node.op is None and "__shape__" in node.text:
            try:
                sizes = _SHAPE.parse(node.text["__shape__"])
            except AttributeValueError:
                continue  # invalid: keep
            node.text["__shape__"] = f"[{','.join(str(size or -1) for size in sizes)}]"


def _rename_hidden(node: RawNode) -> dict[str, str]:
    """Rename bare hidden keys to ``__key__``; remove ``<input>_<key>`` and return them."""
    moved = {}
    for key in list(node.text):
        hidden = next((h for h in HIDDEN_KEYS if key == h or key.endswith("_" + h)), None)
        if hidden is None:
            continue
        if key == hidden:
            node.text[f"__{key}__"] = node.text.pop(key)
        elif node.op is not None:
            moved[key] = node.text.pop(key)
    return moved


def _with_inputs(
    node: RawNode, op: OpDef, moved: dict[str, str], version: int, room: _Room
) -> list[RawNode]:
    """Add missing inputs, and move attributes to their inputs; returns the new variables.

    Raises MXNetError if the operator has other inputs.
    """
    names = _input_names(node, op)
    made = room.missing_inputs(node, op, names) if version < _STORED_AUX else []
    try:
        op.require_inputs(names, len(node.inputs))  # limits the loop over names
    except MXNetError as error:
        raise located(error, f"{op.name} '{node.name}'") from None
    _move_to_inputs(node, names, moved)
    return made


class _Room:
    """Remaining limit of nodes, including variables added for inputs."""

    def __init__(self, nodes: int, budget: Budget) -> None:
        self._nodes = nodes
        self._budget = budget

    def missing_inputs(self, node: RawNode, op: OpDef, names: Sequence[str]) -> list[RawNode]:
        """New variables for missing inputs, with the operator's attributes.

        Raises ModelFormatError, before any is created, if they exceed the limits.
        """
        self._take(node, len(names) - len(node.inputs))
        missing = names[len(node.inputs) :]
        new = [RawNode(node.number, None, f"{node.name}_{n}", dict(node.text)) for n in missing]
        for name, made in zip(missing, new):
            if initializer := op.traits.initializer(name):
                made.text["__init__"] = initializer
        node.inputs += [(made, 0, 0) for made in new]
        return new

    def _take(self, node: RawNode, count: int) -> None:
        if count <= 0:
            return
        self._nodes += count
        if self._nodes > MAX_NODES:
            raise ModelFormatError(
                f"up to {node.place} the graph has {self._nodes} nodes, including variables for  "
                f"missing inputs; at most {MAX_NODES} are allowed"
            )
        texts = sum(len(key) + len(value) for key, value in node.text.items())
        each = _VARIABLE_BYTES + sys.getsizeof(node.name) + sys.getsizeof(node.text) + texts
        self._budget.take(count * each, f"variables for the inputs of {node.place}")


def _move_to_inputs(node: RawNode, names: Sequence[str], moved: dict[str, str]) -> None:
    """Move attributes such as ``weight_lr_mult`` to the variable of the input ``weight``."""
    if not moved:
        return
    inputs = dict(zip(names, node.inputs))
    for key, value in moved.items():
        hidden = next(h for h in HIDDEN_KEYS if key.endswith("_" + h))
        entry = inputs.get(key[: -len(hidden) - 1])
        if entry is None:
            node.text[key] = value  # unknown input: the operator raises an error
        elif entry[0].op is None:
            entry[0].text[f"__{hidden}__"] = value


def _set_default_init(node: RawNode) -> None:
    if node.op is None or not node.op.traits.initial:
        return
    states = node.op.aux_positions(_parsed(node, node.op))
    names = _input_names(node, node.op)
    for position, (source, _, _) in enumerate(node.inputs[: len(names)]):
        default = node.op.traits.initializer(names[position])
        if position in states and source.op is None and default:
            source.text.setdefault("__init__", default)


def _drop_argmax_axis(node: RawNode) -> bool:
    """Remove axis -1 of argmax or argmin; returns whether it was present."""
    if node.op not in (ARGMAX, ARGMIN) or node.text.get("axis") != "-1":
        return False
    del node.text["axis"]
    return True


def _input_names(node: RawNode, op: OpDef) -> Sequence[str]:
    return op.input_names(_parsed(node, op))


def _parsed(node: RawNode, op: OpDef) -> dict[str, object]:
    try:
        return op.parse(node.text)
    except MXNetError as error:
        raise located(error, f"{op.name} '{node.name}'") from None
