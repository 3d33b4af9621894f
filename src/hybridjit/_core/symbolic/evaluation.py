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

    def compile(self, result: str, undefined: str = "") -> Callable[..., Any]:
        """The function of the parameters that returns an expression.

        It returns ``undefined`` for a division by zero, which raises without it.
        """
        lines = [*self.assignments(), f"    return {result}"]
        if undefined:
            inner = [f"    {line}" for line in lines]
            lines = [
                "    try:",
                *inner,
                f"    except ZeroDivisionError:\n        return {undefined}",
            ]
        return _function(self._parameters, lines)


def _function(parameters: Sequence[str], lines: Sequence[str]) -> Callable[..., Any]:
    known: dict[str, Any] = {"ceil": math.ceil, "floor": math.floor, "max": max}
    exec("\n".join([f"def evaluate({', '.join(parameters)}):", *lines]), known)
    function: Callable[..., Any] = known["evaluate"]
    return function


def values_function(
    scope: Recorder, parameters: Sequence[str], columns: Sequence[Sequence[Any]]
) -> Callable[..., tuple[list[Any], ...]]:
    """A function of sizes that returns the values of several lists of expressions."""
    program = Program(scope, parameters)
    lists = [f"[{', '.join(map(program.text, column))}]" for column in columns]
    return program.compile(f"({''.join(f'{each}, ' for each in lists)})")


def matching_function(
    shapes: Sequence[Sequence[Any]], names: Sequence[str]
) -> Callable[[Sequence[Sequence[int]]], tuple[int, ...] | None]:
    """A function of shapes that returns the values of these symbols, which are sizes in ``shapes``.

    It returns None for shapes with other ranks or constants, or with different sizes for a symbol.
    """
    tests = [f"len(a{i}) == {len(shape)}" for i, shape in enumerate(shapes)]
    lines, places, equal = [], dict[str, str](), ["True"]
    for i, shape in enumerate(shapes):
        if shape:
            lines.append(f"    {''.join(f'a{i}_{axis}, ' for axis in range(len(shape)))} = a{i}")
        for axis, size in enumerate(shape):
            name = f"a{i}_{axis}"
            wanted = places.setdefault(str(size), name) if isinstance(size, Size) else repr(size)
            equal += [] if wanted == name else [f"{name} == {wanted}"]
    found = "".join(f"{places[name]}, " for name in names)
    unpacked = "".join(f"a{i}, " for i in range(len(shapes)))
    return _function(["shapes"], [
        f"    {unpacked} = shapes", f"    if not ({' and '.join(tests)}): return None", *lines,
        f"    return ({found}) if {' and '.join(equal)} else None",
    ])  # fmt: skip


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
