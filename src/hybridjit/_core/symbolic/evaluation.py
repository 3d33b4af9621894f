"""Values of expressions for given sizes: one at a time, or by a generated Python function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .expressions import OPERATIONS, Atom, Number, Recorder, Size


class Program:
    """Expressions as the source of one Python function of the symbols."""

    def __init__(self, scope: Recorder, parameters: Sequence[str]) -> None:
        self._scope = scope
        self._parameters = list(parameters)
        self._needed: dict[int, None] = {}
        self._names: dict[int, str] = {}

    def text(self, value: Any) -> str:
        """The source of an expression or a tuple of them; assigns its atoms first."""
        if isinstance(value, tuple):
            return f"({''.join(f'{self.text(each)}, ' for each in value)})"
        if not isinstance(value, Size):
            return repr(value)
        parts = []
        for monomial, factor in value.terms.items():
            product = "*".join(self._name(number) for number in monomial)
            parts.append(f"{factor!r}*({product})" if product else repr(factor))
        return "+".join(parts)

    def _name(self, number: int) -> str:
        if number not in self._names:
            atom = self._scope.atoms[number]
            is_plain = atom.kind in ("symbol", "step")
            self._names[number] = atom.name if is_plain else f"a{number}"
            if not is_plain:
                for arg in atom.args:
                    self.text(arg)
                self._needed[number] = None
        return self._names[number]

    def assignments(self) -> list[str]:
        """A line for every atom that is not a symbol, operands first."""
        return [
            f"    a{number} = {self._operation(self._scope.atoms[number])}"
            for number in sorted(self._needed)
        ]

    def _operation(self, atom: Atom) -> str:
        texts = [f"({self.text(arg)})" for arg in atom.args]
        if atom.kind == "ceildiv":
            return f"-(-{texts[0]}//{texts[1]})"
        if atom.kind in ("//", "%", "/"):
            return f"{texts[0]}{atom.kind}{texts[1]}"
        return f"{atom.kind}({', '.join(texts)})"

    def compile(self, body: Sequence[str]) -> Callable[..., Any]:
        """The function of the parameters with this body, after the assignments."""
        lines = [f"def evaluate({', '.join(self._parameters)}):", *self.assignments(), *body]
        known: dict[str, Any] = {"ceil": math.ceil, "floor": math.floor, "max": max}
        exec("\n".join(lines), known)
        function: Callable[..., Any] = known["evaluate"]
        return function


def values_function(
    scope: Recorder, parameters: Sequence[str], columns: Sequence[Sequence[Any]]
) -> Callable[..., tuple[list[Any], ...]]:
    """A function of sizes that returns the values of several lists of expressions."""
    program = Program(scope, parameters)
    lists = [f"[{', '.join(map(program.text, column))}]" for column in columns]
    return program.compile([f"    return ({''.join(f'{each}, ' for each in lists)})"])


def value_of(size: Size, values: Mapping[str, int]) -> Any:
    """The value of an expression for the values of its symbols, by name."""
    total: Number = 0
    for monomial, factor in size.terms.items():
        total += factor * math.prod(_atom_value(size.scope.atoms[n], values) for n in monomial)
    return total


def _atom_value(atom: Atom, values: Mapping[str, int]) -> Number:
    if atom.name:
        return values[atom.name]
    args = [value_of(arg, values) if isinstance(arg, Size) else arg for arg in atom.args]
    return OPERATIONS[atom.kind](*args)


def operated(atom: Atom) -> Number:
    """The value of an operation for the hints of its operands."""
    args = [arg.hint if isinstance(arg, Size) else arg for arg in atom.args]
    return OPERATIONS[atom.kind](*args) if args else atom.hint
