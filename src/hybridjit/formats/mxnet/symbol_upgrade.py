"""Bringing graphs of older MXNet versions up to date.

In: nodes as a file had them, with their operators looked up, and the version that wrote them.
Out: nodes as MXNet 1.9.1 would have written them. What changed when is MXNet's history; the
numbers are ``major*10000 + minor*100 + patch``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...errors import AttributeValueError, MXNetError, located
from ...ir.node import HIDDEN_KEYS
from ...ops.attrs import Attr
from ...ops.ordering import ARGMAX, ARGMIN
from ...ops.record import OpDef

CURRENT = 10901  # what this project reads and writes
UNSTATED = 800  # a file without a version is older than the key

_STORED_AUX = 900  # since then auxiliary states and all other inputs stand in the file
_STORED_INIT = 904
_SIGNED_ARGMAX_AXIS = 905  # before, axis -1 of argmax and argmin meant "over everything"

_SHAPE = Attr("__shape__", "shape")


@dataclass(eq=False)
class RawNode:
    """A node of a file: checked for form, not yet for meaning. Inputs name earlier nodes."""

    place: str
    op: OpDef | None
    name: str
    text: dict[str, str]
    inputs: list[RawEntry] = field(default_factory=list)


RawEntry = tuple[RawNode, int, int]  # node, output, version


class Changes(dict[str, list[str]]):
    """What was changed in a file's graph, each with the names of the nodes."""

    def note(self, what: str, name: str) -> None:
        self.setdefault(what, []).append(name)


def upgrade(nodes: list[RawNode], version: int, changes: Changes) -> list[RawNode]:
    """The nodes with everything later versions renamed or added; a new list, records edited.

    What was done is noted in ``changes``. Raises AttributeValueError when an operator's attributes
    do not say which inputs it has.
    """
    if version >= CURRENT:
        return nodes
    result: list[RawNode] = []
    for node in nodes:
        before = dict(node.text)
        moved = _rename_hidden(node)
        if before != node.text:
            changes.note("attributes such as lr_mult are hidden ones", node.name)
        if version < _STORED_AUX:
            for made in _add_missing_inputs(node):
                changes.note("inputs that the file leaves out are variables", made.name)
                result.append(made)
        _move_to_inputs(node, moved)
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


def _add_missing_inputs(node: RawNode) -> list[RawNode]:
    """New variables for the inputs that the file left out; they carry the operator's attributes."""
    if node.op is None:
        return []
    names = _input_names(node, node.op)[len(node.inputs) :]
    new = [RawNode(node.place, None, f"{node.name}_{name}", dict(node.text)) for name in names]
    for name, made in zip(names, new):
        if initializer := node.op.traits.initializer(name):
            made.text["__init__"] = initializer
    node.inputs += [(made, 0, 0) for made in new]
    return new


def _move_to_inputs(node: RawNode, moved: dict[str, str]) -> None:
    """``weight_lr_mult`` of an operator belongs to the variable that feeds its ``weight``."""
    if node.op is None or not moved:
        return
    inputs = dict(zip(_input_names(node, node.op), node.inputs))
    for key, value in moved.items():
        hidden = next(h for h in HIDDEN_KEYS if key.endswith("_" + h))
        entry = inputs.get(key[: -len(hidden) - 1])
        if entry is None:
            node.text[key] = value  # nothing of that name: the operator will refuse it
        elif entry[0].op is None:
            entry[0].text[f"__{hidden}__"] = value


def _set_default_init(node: RawNode) -> None:
    if node.op is None:
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


def _input_names(node: RawNode, op: OpDef) -> tuple[str, ...]:
    return op.input_names(_parsed(node, op))


def _parsed(node: RawNode, op: OpDef) -> dict[str, Any]:
    try:
        return op.parse(node.text)
    except MXNetError as error:
        raise located(error, f"{op.name} '{node.name}'") from None
