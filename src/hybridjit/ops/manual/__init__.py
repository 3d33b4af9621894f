"""Descriptions of operators' arguments and examples of their use, for documentation.

:mod:`.arguments` describes an argument by its name, or by ``operator.name`` where one operator uses
the name differently. The registry states types, defaults and the summary; nothing here repeats
them.
"""

from __future__ import annotations

from ..attrs import Attr
from ..record import OpDef
from .arguments import ATTRIBUTES, INPUTS
from .examples import EXAMPLES

_RAISES = "For shapes, element types and attribute values that the operator does not accept."
_OPTIONS = {
    "out": ("NDArray, optional", "Array that receives the result."),
    "name": ("str, optional", "Name of the node; arrays have none."),
    "attr": ("dict, optional", "Attributes of the node, strings by name."),
}
_TYPES = {
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "single": "float",
    "bool": "bool",
    "shape": "tuple of int",
    "ints": "tuple of int or None",
    "floats": "tuple of float",
    "dtype": "str or numpy.dtype",
    "layout": "str",
    "string": "str",
}


def attribute_text(op: OpDef, attr: Attr) -> str:
    """The description of an attribute; "" if there is none."""
    return ATTRIBUTES.get(f"{op.name}.{attr.name}", ATTRIBUTES.get(attr.name, ""))


def attribute_type(attr: Attr) -> str:
    """The type of an attribute in words, with its default."""
    known = _TYPES.get(attr.base, "")
    kind = known or "{" + ", ".join(map(repr, attr.choices)) + "}"
    if attr.required:
        return kind
    return f"{kind}, default {attr.default if attr.base == 'dtype' else repr(attr.default)}"


def input_text(op: OpDef, name: str) -> str:
    """The description of an input; "" if there is none."""
    return INPUTS.get(f"{op.name}.{name}", INPUTS.get(name, ""))


def documentation(op: OpDef, inputs: tuple[str, ...], options: tuple[str, ...]) -> str:
    """The docstring of the operator's functions: every argument, and an example."""
    rows = [(name, "NDArray or Symbol", input_text(op, name)) for name in inputs]
    rows += [(attr.name, attribute_type(attr), attribute_text(op, attr)) for attr in op.attrs]
    rows += [(name, *_OPTIONS[name]) for name in options]
    lines = [op.doc, "", "Parameters", "----------"]
    for name, kind, text in rows:
        lines += [f"{name} : {kind}", f"    {text}"]
    lines += ["", "Raises", "------", "MXNetError", f"    {_RAISES}"]
    if op.name in EXAMPLES:
        lines += ["", "Examples", "--------", EXAMPLES[op.name].strip()]
    return "\n".join(lines)
