"""Frontend that applies operators to symbols of NumPy mode for the functions of ``mx.sym.np``."""

from __future__ import annotations

from typing import Any

from ...ir.node import Output
from ...ops.namespace import Functions as OperatorFunctions
from ...ops.namespace import attr_texts
from ...ops.numpy_api.frontend import Frontend
from ...ops.record import OpDef
from ...ops.registry import lookup
from ..compose import compose
from ..symbol import Symbol, single_output
from .symbols import _Symbol

_PREFIXES = ("_npi_", "_npx_", "_np_")


class SymbolFrontend(Frontend):
    """Frontend of symbols: operators create nodes, named after the function."""

    tensor = _Symbol
    other = Symbol
    is_symbolic = True

    def op(self, name: str, *inputs: Any, out: Any = None, ctx: Any = None, **attrs: Any) -> Any:
        """Results of an operator on symbols of NumPy mode, as one symbol."""
        for x in inputs:
            self.check(name, x)
        op = lookup(name)
        return made(op, hint_of(name), inputs, attrs)

    def several(self, name: str, *inputs: Any, **attrs: Any) -> list[Any]:
        """One symbol for each result."""
        return [_Symbol((output,)) for output in self.op(name, *inputs, **attrs).outputs]


def hint_of(name: str) -> str:
    """Base of the names of an operator's nodes."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :].lower()
    return name.lower().lstrip("_")


def made(
    op: OpDef, hint: str, inputs: Any, attrs: dict[str, Any], name: str | None = None
) -> _Symbol:
    """Symbol of a new node."""
    given = {key: value for key, value in attrs.items() if key != "ctx"}
    names = op.input_names(op.parse(attr_texts(op, given)))
    by_name = {n: single_output(n, x) for n, x in zip(names, inputs)}
    node = compose(op, hint, by_name, given, name)
    return _Symbol(Output(node, i) for i in range(len(node.output_names)))


FRONT = SymbolFrontend()


def call(op: OpDef, called: str, tensors: dict[str, Any], given: dict[str, Any]) -> Any:
    """Call a function of ``sym.npx``, an operator of the registry."""
    for x in tensors.values():
        FRONT.check(called, x)
    name, attr = given.pop("name", None), given.pop("attr", None)
    given.pop("out", None)
    inputs = {key: single_output(key, x) for key, x in tensors.items()}
    node = compose(op, called.lower(), inputs, given, name, attr)
    return _Symbol(Output(node, i) for i in range(len(node.output_names)))


EXTENSIONS = OperatorFunctions("npx", call, ("name", "attr", "out"))
INTERNAL = OperatorFunctions("npi", call, ("name", "attr", "out"))
