"""Bringing graphs of older MXNet versions up to date.

In: nodes as a file had them, with their operators looked up, and the version that wrote them.
Out: nodes as MXNet 1.9.1 would have written them. What changed when is MXNet's history; the
numbers are ``major*10000 + minor*100 + patch``.
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

CURRENT = 10901  # what this project reads and writes
UNSTATED = 800  # a file without a version is older than the key

_STORED_AUX = 900  # since then auxiliary states and all other inputs stand in the file
_STORED_INIT = 904
_SIGNED_ARGMAX_AXIS = 905  # before, axis -1 of argmax and argmin meant "over everything"

MAX_NODES = 1 << 15  # of a file, with those that are made for it
_SHOWN = 200  # characters of a name in a message
_VARIABLE_BYTES = 1000  # that a variable takes beside its texts
_SHAPE = Attr("__shape__", "shape")


@dataclass(eq=False, slots=True)
class RawNode:
    """A node of a file: checked for form, not yet for meaning. Inputs name earlier nodes.

    ``number`` is its place in the file; a variable made for an input has its user's.
    """

    number: int
    op: OpDef | None
    name: str
    text: dict[str, str]
    inputs: list[RawEntry] = field(default_factory=list)

    @property
    def place(self) -> str:
        """What messages call it."""
        name = self.name if len(self.name) <= _SHOWN else f"{self.name[:_SHOWN]}..."
        return f"node {self.number} '{name}'"


RawEntry = tuple[RawNode, int, int]  # node, output, version


class Changes(dict[str, list[str]]):
    """What was changed in a file's graph, each with the names of the nodes."""

    def note(self, what: str, name: str) -> None:
        self.setdefault(what, []).append(name)


def upgrade(nodes: list[RawNode], version: int, changes: Changes, budget: Budget) -> list[RawNode]:
    """The nodes with everything later versions renamed or added; a new list, records edited.

    What was done is noted in ``changes``. Raises AttributeValueError when an operator's attributes
    do not say which inputs it has, MXNetError when it has others, and ModelFormatError when the
    inputs that were left out are more than ``budget`` allows.
    """
    if version >= CURRENT:
        return nodes
    result: list[RawNode] = []
    room = _Room(len(nodes), budget)
    for node in nodes:
        before = dict(node.text)
        moved = _rename_hidden(node)
        if before != node.text:
            changes.note("attributes such as lr_mult are hidden ones", node.name)
        if node.op is not None:
            for made in _with_inputs(node, node.op, moved, version, room):
                changes.note("inputs that the file leaves out are variables", made.name)
                result.append(made)
        if version < _STORED_INIT:
            _set_default_init(node)
        if version < _SIGNED_ARGMAX_AXIS and _drop_argmax_axis(node):
            changes.note("axis -1 means over everything", node.name)
        result.append(node)
    return result


def mark_unknown_sizes(nodes: list[RawNode]) -> None:
    """Sizes of variables that are 0 for unknown become -1, which NumPy's semantics have for it."""
    for node in nodes:
        if node.op is None and "__shape__" in node.text:
            try:
                sizes = _SHAPE.parse(node.text["__shape__"])
            except AttributeValueError:
                continue  # says nothing
            node.text["__shape__"] = f"[{','.join(str(size or -1) for size in sizes)}]"


def _rename_hidden(node: RawNode) -> dict[str, str]:
    """Bare hidden keys become ``__key__``; ``<input>_<key>`` is taken out and returned."""
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
    """Complete a node's inputs, and give them the attributes that are theirs; the new variables.

    Raises MXNetError when the operator takes others.
    """
    names = _input_names(node, op)
    made = room.missing_inputs(node, op, names) if version < _STORED_AUX else []
    try:
        op.require_inputs(names, len(node.inputs))  # before every name is looked at
    except MXNetError as error:
        raise located(error, f"{op.name} '{node.name}'") from None
    _move_to_inputs(node, names, moved)
    return made


class _Room:
    """How much a file's nodes and the variables that are made for them may still take."""

    def __init__(self, nodes: int, budget: Budget) -> None:
        self._nodes = nodes
        self._budget = budget

    def missing_inputs(self, node: RawNode, op: OpDef, names: Sequence[str]) -> list[RawNode]:
        """New variables for the inputs that the file left out, with the operator's attributes.

        Raises ModelFormatError, before any is made, when they are too many or take too much.
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
                f"up to {node.place} there are {self._nodes} nodes, with the variables for inputs "
                f"that are left out; possible are {MAX_NODES}"
            )
        texts = sum(len(key) + len(value) for key, value in node.text.items())
        each = _VARIABLE_BYTES + sys.getsizeof(node.name) + sys.getsizeof(node.text) + texts
        self._budget.take(count * each, f"variables for the inputs of {node.place}")


def _move_to_inputs(node: RawNode, names: Sequence[str], moved: dict[str, str]) -> None:
    """``weight_lr_mult`` of an operator belongs to the variable that feeds its ``weight``."""
    if not moved:
        return
    inputs = dict(zip(names, node.inputs))
    for key, value in moved.items():
        hidden = next(h for h in HIDDEN_KEYS if key.endswith("_" + h))
        entry = inputs.get(key[: -len(hidden) - 1])
        if entry is None:
            node.text[key] = value  # nothing of that name: the operator will refuse it
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
    """Whether it was one of these."""
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
