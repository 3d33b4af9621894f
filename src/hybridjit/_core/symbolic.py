"""Symbolic integers: sizes that may vary from call to call, and the guards of a compilation.

A :class:`Size` is a polynomial over atoms: symbols (the size of an input's axis) and quotients,
remainders and maxima of other sizes. Each has a *hint*: its value in the call that is being
compiled. Arithmetic makes expressions. A comparison is answered with the hints and recorded as a
*guard*, unless the bounds of the atoms decide it. Code that needs a Python integer (``range``, an
index of an array) gets the hint, and a guard that the size equals it.

The compiler is deterministic. Its result with symbols is therefore, for all sizes that satisfy the
guards, the result for these sizes alone: the same kernels, in the same order, with the values of
the expressions as numbers. PyTorch calls this backed symbolic shapes with guards.
"""

from __future__ import annotations

import math
import operator
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from .frozen import fields_of, is_record, replace

INFINITE = math.inf
Number: TypeAlias = "int | float"
Monomial = tuple[int, ...]  # numbers of atoms in ascending order; () is the constant term

_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Guard(NamedTuple):
    """A condition on sizes: ``left test right``; ``line`` is the source line that compared."""

    left: Size
    test: str
    right: int | float
    line: str

    def __str__(self) -> str:
        return f"{self.left} {self.test} {self.right}"

    def is_satisfied(self, values: Mapping[str, int]) -> bool:
        """Whether it holds for these values of the symbols, by name."""
        try:
            return _TESTS[self.test](value_of(self.left, values), self.right)
        except ZeroDivisionError:
            return False


class Decision(NamedTuple):
    """The condition that a function of sizes, called with integers, returns the same result.

    For choices that compare many numbers internally: a guard for each comparison would be too
    narrow.
    """

    name: str
    sizes: tuple[Size, ...]
    function: Callable[..., object]
    result: object

    def holds(self, values: Sequence[int]) -> bool:
        """Whether the function returns that result for these values of ``sizes``."""
        return bool(self.function(values) == self.result)

    def is_satisfied(self, values: Mapping[str, int]) -> bool:
        """Whether it holds for these values of the symbols, by name."""
        return self.holds([value_of(size, values) for size in self.sizes])

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.sizes))}) == {self.result}"


class Atom:
    """A symbol, or an operation that is not a polynomial: a factor of monomials.

    kind       ``symbol``, ``step`` (counter of a repeated call), ``//``, ``ceildiv``, ``%``, ``/``
               or ``max``
    low, high  bounds that hold wherever the guards do
    """

    __slots__ = ("number", "kind", "name", "args", "hint", "low", "high", "is_whole")

    def __init__(
        self, number: int, kind: str, name: str, args: tuple[Size | Number, ...],
        hint: Number, bounds: tuple[Number, Number],
    ) -> None:  # fmt: skip
        self.number, self.kind, self.name, self.args = number, kind, name, args
        self.hint = hint
        self.low, self.high = bounds
        self.is_whole = kind != "/" and (kind != "max" or all(map(_is_whole, args)))

    def __str__(self) -> str:
        if self.kind in ("symbol", "step"):
            return self.name
        if self.kind in ("//", "%", "/"):
            return f"({self.args[0]}){self.kind}{_bracketed(self.args[1])}"
        return f"{self.kind}({', '.join(map(str, self.args))})"


def _bracketed(value: Size | Number) -> str:
    return f"({value})" if isinstance(value, Size) else str(value)


class Scope:
    """The symbols, atoms and guards of one compilation."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.symbols: dict[str, Size] = {}
        self.guards: dict[tuple[object, ...], Guard] = {}
        self.decisions: dict[tuple[object, ...], Decision] = {}
        self.is_closed = False
        self.epoch = 0  # number of the branch whose hints the atoms have; 0 outside of branches
        self._known: dict[tuple[object, ...], Size] = {}
        self._trunk: _Trunk | None = None
        self._branches = 0

    def symbol(self, name: str, hint: int, low: int = 1) -> Size:
        """A size that may vary; it is at least ``low``."""
        made = self._atom("symbol", name, (), hint, (low, INFINITE))
        self.symbols[name] = made
        return made

    def step(self, name: str, low: int, high: Number) -> Size:
        """A counter within each call, from ``low`` to below ``high``."""
        return self._atom("step", name, (), low, (low, high))

    def operation(
        self, kind: str, args: tuple[Size | Number, ...], hint: Number, low: Number, high: Number
    ) -> Size:
        """The atom of an operation; equal operands give the same atom."""
        key = (kind, *(_key(arg) for arg in args))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._atom(kind, "", args, hint, (low, high))
        return found

    def _atom(
        self, kind: str, name: str, args: tuple[Size | Number, ...], hint: Number,
        bounds: tuple[Number, Number],
    ) -> Size:  # fmt: skip
        assert bounds[0] <= hint <= bounds[1], (kind, name, hint, bounds)
        atom = Atom(len(self.atoms), kind, name, args, hint, bounds)
        self.atoms.append(atom)
        return Size(self, {(atom.number,): 1}, hint)

    def close(self) -> None:
        """End the recording. Sizes of a closed scope are equal only to themselves."""
        self.is_closed = True

    @contextmanager
    def branch(self, sizes: Sequence[int]) -> Iterator[Branch]:
        """Within the block, hints are those of other ``sizes`` that satisfy the guards.

        Guards and decisions recorded in the block belong to the branch only.
        """
        if not self.is_closed or self._trunk is None:
            self._trunk = _Trunk.of(self)
        trunk, was_closed = self._trunk, self.is_closed
        trunk.restore(self)
        self.is_closed = False
        self._branches += 1
        self.epoch = self._branches
        self._set_hints(dict(zip(self.symbols, sizes)))
        branch = Branch(self)
        try:
            yield branch
        finally:
            branch.guards = tuple(g for key, g in self.guards.items() if key not in trunk.guards)
            branch.decisions = tuple(
                d for key, d in self.decisions.items() if key not in trunk.decisions
            )
            trunk.restore(self)
            self.is_closed = was_closed

    def _set_hints(self, values: Mapping[str, int]) -> None:
        """Set the hints of the atoms that all branches share to their values for these sizes."""
        assert self._trunk is not None
        for atom in self.atoms[: len(self._trunk.atoms)]:
            atom.hint = values[atom.name] if atom.kind == "symbol" else _operated(atom)

    def hint_before(self, size: Size) -> Number:
        """The hint of a size outside of branches."""
        if self.epoch == 0 or self._trunk is None:
            return size.hint
        try:
            return self._first_value(size)
        except ZeroDivisionError:
            return size.hint

    def _first_value(self, size: Size) -> Number:
        assert self._trunk is not None
        total: Number = 0
        for monomial, factor in size.terms.items():
            total += factor * math.prod(map(self._first_atom, monomial))
        return total

    def _first_atom(self, number: int) -> Number:
        assert self._trunk is not None
        if number < len(self._trunk.atoms):
            return self._trunk.atoms[number][2]
        atom = self.atoms[number]
        if atom.name:
            return atom.hint
        args = [self._first_value(a) if isinstance(a, Size) else a for a in atom.args]
        return _OPERATIONS[atom.kind](*args)

    def decide(self, difference: Size | Number, test: str) -> bool:
        """Whether ``difference test 0`` holds for the hints; adds a guard if bounds do not tell."""
        if not isinstance(difference, Size):
            return _TESTS[test](difference, 0)
        known = _decided(difference.bounds(), test)
        if known is None:
            known = _decided(_tight_bounds(difference), test)
        if known is not None:
            return known
        if not _is_whole(difference):
            return self._decide_rounded(difference, test)
        answer = _TESTS[test](difference.hint, 0)
        self._record(difference, test if answer else _OPPOSITE[test])
        return answer

    def _decide_rounded(self, difference: Size, test: str) -> bool:
        """The same for rounded sums: terms are added in the order of the guard's function."""
        atoms = {atom.name: int(atom.hint) for atom in self.atoms if atom.name}
        answer = _TESTS[test](value_of(difference, atoms), 0)
        test = test if answer else _OPPOSITE[test]
        self.guards.setdefault((difference.key, test), Guard(difference, test, 0, _line()))
        return answer

    def pin(self, size: Size) -> None:
        """Record guards that every symbol of an expression equals its hint."""
        for number in {number for monomial in size.terms for number in monomial}:
            atom = self.atoms[number]
            if atom.name:
                self.decide(Size(self, {(number,): 1}, atom.hint) - atom.hint, "==")
            for arg in atom.args:
                if isinstance(arg, Size):
                    self.pin(arg)

    def _record(self, difference: Size, test: str) -> None:
        if self.is_closed:
            raise RuntimeError(f"bug in hybridjit: {difference} {test} 0 after the compilation")
        constant = difference.terms.get((), 0)
        left = Size(
            self, {m: c for m, c in difference.terms.items() if m}, difference.hint - constant
        )
        key = (left.key, test, constant)
        if key not in self.guards:
            self.guards[key] = Guard(left, test, -constant, _line())
        self._narrow(left, test, -constant)

    def _narrow(self, left: Size, test: str, right: Number) -> None:
        """Tighten the bounds of the only atom of a guard ``left test right``."""
        if len(left.terms) != 1:
            return
        ((monomial, factor),) = left.terms.items()
        if len(monomial) != 1:
            return
        atom = self.atoms[monomial[0]]
        if any(isinstance(n, float) for n in (factor, right)):
            return
        if factor < 0:
            test = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(test, test)
        quotient, remainder = divmod(right, factor)
        if test == "==" and not remainder:
            atom.low = atom.high = quotient
        elif test in (">", ">="):
            least = quotient + 1 if test == ">" or remainder else quotient
            atom.low = max(atom.low, least)
        elif test in ("<", "<="):
            most = quotient - 1 if test == "<" and not remainder else quotient
            atom.high = min(atom.high, most)
        elif test == "!=" and not remainder:
            atom.low += atom.low == quotient
            atom.high -= atom.high == quotient


class Branch:
    """Guards and decisions that divide the sizes satisfying the guards of a scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.guards: tuple[Guard, ...] = ()
        self.decisions: tuple[Decision, ...] = ()

    def recorded(self) -> Callable[..., bool]:
        """Whether sizes, in the order of the scope's symbols, satisfy the branch's guards too."""
        return _condition(self._scope, self.guards, self.decisions)

    def __str__(self) -> str:
        return "; ".join(map(str, (*self.guards, *self.decisions)))


class _Trunk(NamedTuple):
    """The state of a scope where branches begin, with the bounds and the hint of each atom."""

    guards: dict[tuple[object, ...], Guard]
    decisions: dict[tuple[object, ...], Decision]
    known: dict[tuple[object, ...], Size]
    atoms: list[tuple[Number, Number, Number]]

    @staticmethod
    def of(scope: Scope) -> _Trunk:
        atoms = [(atom.low, atom.high, atom.hint) for atom in scope.atoms]
        return _Trunk(dict(scope.guards), dict(scope.decisions), dict(scope._known), atoms)

    def restore(self, scope: Scope) -> None:
        """Drop the records of a branch; atoms stay, because sizes refer to them."""
        scope.guards, scope.decisions = dict(self.guards), dict(self.decisions)
        scope._known = dict(self.known)
        for atom, state in zip(scope.atoms, self.atoms):
            atom.low, atom.high, atom.hint = state
        scope.epoch = 0


def _line() -> str:
    """The source line that compares: the innermost one outside of this module."""
    for frame in reversed(traceback.extract_stack(limit=12)):
        if not frame.filename.endswith(("symbolic.py", "types.py", "frozen.py")):
            return f"{frame.filename.rpartition('hybridjit/')[2]}:{frame.lineno}"
    return ""


def _decided(bounds: tuple[Number, Number], test: str) -> bool | None:
    """Whether ``x test 0`` follows from the bounds of x; None if they do not decide."""
    low, high = bounds
    if test in ("==", "!="):
        if low > 0 or high < 0:
            return test == "!="
        return test == "==" if low == high == 0 else None
    if test == "<":
        return True if high < 0 else False if low >= 0 else None
    if test == "<=":
        return True if high <= 0 else False if low > 0 else None
    if test == ">":
        return True if low > 0 else False if high <= 0 else None
    return True if low >= 0 else False if high < 0 else None


class Size:
    """A polynomial over atoms with integer coefficients; in cost models with floating ones.

    Arithmetic and comparisons work as for ``int``. It is not an ``int``: code that needs one calls
    ``__index__``, which records a guard.
    """

    __slots__ = ("scope", "terms", "_hint", "_epoch", "_key")
    __array_ufunc__ = None  # NumPy's scalars leave operations to this class

    def __init__(self, scope: Scope, terms: Mapping[Monomial, Number], hint: Number) -> None:
        self.scope, self.terms = scope, terms
        self._hint, self._epoch = hint, scope.epoch
        self._key: tuple[object, ...] | None = None

    @property
    def hint(self) -> Number:
        """The value for the sizes that are being compiled for."""
        if self._epoch != self.scope.epoch:
            terms = self.terms.items()
            self._hint = sum(_value(self.scope, m) * factor for m, factor in terms)
            self._epoch = self.scope.epoch
        return self._hint

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for equal polynomials."""
        if self._key is None:
            self._key = tuple(sorted(self.terms.items()))
        return self._key

    def bounds(self) -> tuple[Number, Number]:
        """A lower and an upper bound of the value."""
        low: Number = 0
        high: Number = 0
        for monomial, factor in self.terms.items():
            least, most = _product_bounds(self.scope, monomial)
            if factor < 0:
                least, most = most, least
            low += _times(factor, least)
            high += _times(factor, most)
        return low, high

    # ---- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Size):
            terms = dict(self.terms)
            for monomial, factor in other.terms.items():
                terms[monomial] = terms.get(monomial, 0) + factor
            return _sized(self.scope, terms, self.hint + other.hint)
        number = _number(other)
        if number is None:
            return NotImplemented
        terms = dict(self.terms)
        terms[()] = terms.get((), 0) + number
        return _sized(self.scope, terms, self.hint + number)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, Size) and _number(other) is None:
            return NotImplemented
        return self + other * -1

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Size):
            terms: dict[Monomial, Number] = {}
            for m1, f1 in self.terms.items():
                for m2, f2 in other.terms.items():
                    monomial = tuple(sorted(m1 + m2))
                    terms[monomial] = terms.get(monomial, 0) + f1 * f2
            return _sized(self.scope, terms, self.hint * other.hint)
        number = _number(other)
        if number is None:
            return NotImplemented
        scaled = {m: f * number for m, f in self.terms.items()}
        return _sized(self.scope, scaled, self.hint * number)

    __rmul__ = __mul__

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= 4:
            return math.prod([self] * other)
        return self.as_number() ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** self.as_number()

    def __truediv__(self, other: Any) -> Any:
        number = _number(other)
        if number is not None:
            scaled = {m: f / number for m, f in self.terms.items()}
            return _sized(self.scope, scaled, self.hint / number)
        if not isinstance(other, Size):
            return NotImplemented
        return _divided(self, other) if other != 0 else self.as_number() / other.as_number()

    def __rtruediv__(self, other: Any) -> Any:
        number = _number(other)
        if number is None:
            return NotImplemented
        return _divided(number, self) if self != 0 else number / self.as_number()

    def __floordiv__(self, other: Any) -> Any:
        return _quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _quotient(other, self)

    def __mod__(self, other: Any) -> Any:
        return _remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return _remainder(other, self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __ceil__(self) -> Any:
        return self._rounded("ceil", math.ceil)

    def __floor__(self) -> Any:
        return self._rounded("floor", math.floor)

    def __trunc__(self) -> Any:
        return self._rounded("floor", math.floor) if self >= 0 else -((-self).__trunc__())

    def _rounded(self, kind: str, function: Callable[[Number], int]) -> Any:
        if _is_whole(self):
            return self
        low, high = self.bounds()
        ends = (n if math.isinf(n) else function(n) for n in (low, high))
        return self.scope.operation(kind, (self,), function(self.hint), *ends)

    def along(self, step: Size, start: int) -> tuple[Any, Any]:
        """The value at ``step`` equal to ``start``, and the increment per further step.

        Raises RuntimeError for an expression that is not linear in the step.
        """
        (number,) = (monomial[0] for monomial in step.terms)
        fixed: dict[Monomial, Number] = {}
        added: dict[Monomial, Number] = {}
        for monomial, factor in self.terms.items():
            if number in monomial:
                left = tuple(n for n in monomial if n != number)
                if len(left) + 1 != len(monomial):
                    raise RuntimeError(f"bug in hybridjit: {self} is not linear in {step}")
                added[left] = factor
            else:
                fixed[monomial] = factor
        made = [
            _sized(self.scope, terms, sum(_value(self.scope, m) * f for m, f in terms.items()))
            for terms in (fixed, added)
        ]
        return made[0] + start * made[1], made[1]

    # ---- comparisons: guards ------------------------------------------------------------------

    def _compared(self, other: Any, test: str) -> Any:
        if self is other:
            return _TESTS[test](0, 0)
        if not isinstance(other, Size) and _number(other) is None:
            return NotImplemented
        if self.scope.is_closed or isinstance(other, Size) and other.scope is not self.scope:
            return test == "!="
        return self.scope.decide(self - other, test)

    def __eq__(self, other: Any) -> Any:
        return self._compared(other, "==")

    def __ne__(self, other: Any) -> Any:
        return self._compared(other, "!=")

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, "<")

    def __le__(self, other: Any) -> Any:
        return self._compared(other, "<=")

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, ">")

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, ">=")

    def __hash__(self) -> int:
        """The hash of the hint: dicts with sizes as keys find the entry of the hint."""
        return hash(self.hint)

    def __bool__(self) -> bool:
        return bool(self != 0)

    # ---- as a number: a guard that it equals its hint ------------------------------------------

    def as_number(self) -> Number:
        """The hint, with a guard that the value equals it."""
        if self.scope.is_closed:
            return self.hint
        if _is_whole(self):
            self.scope.decide(self - self.hint, "==")
        else:
            self.scope.pin(self)
        return self.hint

    def __index__(self) -> int:
        return int(self.as_number())

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.as_number())

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(self.as_number(), ndigits)

    def bit_length(self) -> int:
        """The bit length of the hint, with a guard."""
        return int(self).bit_length()

    def __str__(self) -> str:
        parts = []
        for monomial, factor in self.terms.items():
            factors = [str(self.scope.atoms[number]) for number in monomial]
            if factor != 1 or not factors:
                factors.insert(0, str(factor))
            parts.append("*".join(factors))
        return "+".join(parts).replace("+-", "-")

    def __repr__(self) -> str:
        return f"Size({self})"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec) if spec in ("", "s") else format(self.as_number(), spec)


def _number(value: object) -> Number | None:
    """A plain number, also for NumPy's scalars; None for other values."""
    if isinstance(value, (int, float)):
        return value
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else None


def _sized(scope: Scope, terms: dict[Monomial, Number], hint: Number) -> Size | Number:
    """The polynomial of these terms; a plain number where it is constant."""
    left = {monomial: factor for monomial, factor in terms.items() if factor != 0}
    if not left:
        return type(hint)(0)
    if len(left) == 1 and () in left:
        return left[()]
    return Size(scope, left, hint)


def _key(value: Size | Number) -> object:
    return value.key if isinstance(value, Size) else value


def _times(a: Number, b: Number) -> Number:
    return 0 if a == 0 or b == 0 else a * b


def _product_bounds(scope: Scope, monomial: Monomial) -> tuple[Number, Number]:
    low: Number = 1
    high: Number = 1
    for number in monomial:
        atom = scope.atoms[number]
        ends = [_times(a, b) for a in (low, high) for b in (atom.low, atom.high)]
        low, high = min(ends), max(ends)
    return low, high


def _bounds(value: Size | Number) -> tuple[Number, Number]:
    return value.bounds() if isinstance(value, Size) else (value, value)


def _floor_ends(low: Number, high: Number, divisor: int) -> tuple[Number, Number]:
    ends = [n if math.isinf(n) else n // divisor for n in (low, high)]
    return ends[0], ends[1]


def _quotient(a: Any, b: Any) -> Any:
    """``a // b`` where at least one operand is a Size."""
    divisor = _divisor(a, b)
    if not isinstance(divisor, Size):
        return NotImplemented if divisor is None else _divided_by_number(a, divisor)
    exact = _exact(a, divisor)
    if exact is not None:
        return exact
    if a >= 0 and a < divisor:
        return 0
    low, high = _bounds(a)
    least = max(1, divisor.bounds()[0])
    ends = (0, high if math.isinf(high) else high // least) if low >= 0 else (low, INFINITE)
    return divisor.scope.operation("//", (a, divisor), _hint(a) // divisor.hint, *ends)


def _divisor(a: Any, b: Any) -> Size | Number | None:
    """The divisor of ``a // b`` and ``a % b``: a positive Size, or a number; None for others.

    A size that may be 0 or negative, or is not an integer, becomes its hint.
    """
    if not isinstance(b, Size):
        return _number(b)
    if not isinstance(a, Size) and _number(a) is None:
        return None
    are_whole = all(map(_is_whole, (a, b)))
    return b if are_whole and b > 0 else b.as_number()


def _is_whole(value: Any) -> bool:
    """Whether the form of a number or a Size makes it an integer."""
    if not isinstance(value, Size):
        return isinstance(_number(value), int)
    atoms = value.scope.atoms
    return all(
        isinstance(factor, int) and all(atoms[number].is_whole for number in monomial)
        for monomial, factor in value.terms.items()
    )


def _divided_by_number(a: Any, divisor: Number) -> Any:
    if isinstance(a, Size) and isinstance(divisor, int) and divisor > 0:
        return _quotient_by(a, divisor)
    return (a.as_number() if isinstance(a, Size) else a) // divisor


def _hint(value: Size | Number) -> Number:
    return value.hint if isinstance(value, Size) else value


def _quotient_by(a: Size, divisor: int) -> Any:
    """``a // divisor``: terms that are multiples of the divisor are divided individually."""
    if not _is_whole(a):
        return a.as_number() // divisor
    nested = _of_quotient(a)
    if nested is not None:
        return _quotient_by(nested[0], nested[1] * divisor)
    whole = {m: f // divisor for m, f in a.terms.items() if f % divisor == 0}
    rest = {m: f for m, f in a.terms.items() if f % divisor}
    if not rest:
        return _sized(a.scope, whole, a.hint // divisor)
    left = _sized(a.scope, rest, sum(_value(a.scope, m) * f for m, f in rest.items()))
    divided = _rest_by(a.scope, left, divisor)
    hint = sum(_value(a.scope, m) * f for m, f in whole.items())
    return _sized(a.scope, whole, hint) + divided if whole else divided


def _of_quotient(a: Size) -> tuple[Size, int] | None:
    """The x and d of ``x // d + c``, with the constant c moved into x; None for other forms."""
    others = [monomial for monomial in a.terms if monomial]
    if len(others) != 1 or len(others[0]) != 1 or a.terms[others[0]] != 1:
        return None
    atom = a.scope.atoms[others[0][0]]
    if atom.kind != "//" or not isinstance(atom.args[1], int):
        return None
    dividend = atom.args[0] + a.terms.get((), 0) * atom.args[1]
    return (dividend, atom.args[1]) if isinstance(dividend, Size) else None


def _value(scope: Scope, monomial: Monomial) -> Number:
    """The hint of a monomial."""
    return math.prod(scope.atoms[number].hint for number in monomial)


def _rest_by(scope: Scope, left: Size | Number, divisor: int) -> Any:
    if not isinstance(left, Size):
        return left // divisor
    low, high = left.bounds()
    if low >= 0 and high < divisor:
        return 0
    if high <= 0 or all(f < 0 for m, f in left.terms.items() if m):
        low, high = (-high, -low)
        ends = (n if math.isinf(n) else -(-n // divisor) for n in (low, high))
        up = -left
        return -scope.operation("ceildiv", (up, divisor), -(-up.hint // divisor), *ends)
    low, high = _floor_ends(low, high, divisor)
    return scope.operation("//", (left, divisor), left.hint // divisor, low, high)


def _remainder(a: Any, b: Any) -> Any:
    """``a % b`` where at least one operand is a Size."""
    divisor = _divisor(a, b)
    if not isinstance(divisor, Size):
        return NotImplemented if divisor is None else _remainder_by_number(a, divisor)
    if _exact(a, divisor) is not None:
        return 0
    if a >= 0 and a < divisor:
        return a
    high = divisor.bounds()[1]
    return divisor.scope.operation("%", (a, divisor), _hint(a) % divisor.hint, 0, high)


def _remainder_by_number(a: Any, divisor: Number) -> Any:
    if isinstance(a, Size) and isinstance(divisor, int) and divisor > 0:
        return _remainder_by(a, divisor)
    return (a.as_number() if isinstance(a, Size) else a) % divisor


def _remainder_by(a: Size, divisor: int) -> Any:
    if not _is_whole(a):
        return a.as_number() % divisor
    rest = {m: f % divisor for m, f in a.terms.items() if f % divisor}
    hint = sum(_value(a.scope, m) * f for m, f in rest.items())
    left = _sized(a.scope, rest, hint) if rest else 0
    if not isinstance(left, Size):
        return left % divisor
    low, high = left.bounds()
    if low >= 0 and high < divisor:
        return left
    return a.scope.operation("%", (left, divisor), left.hint % divisor, 0, divisor - 1)


def _exact(a: Any, b: Any) -> Any:
    """The quotient of a division by a positive polynomial without a remainder; None for others."""
    if not isinstance(b, Size) or not isinstance(a, Size):
        return None
    under, divisor = max(b.terms.items(), key=_rank)
    left, terms = dict(a.terms), {}
    while left:
        monomial, factor = max(left.items(), key=_rank)
        rest = list(monomial)
        for number in under:
            if number not in rest:
                return None
            rest.remove(number)
        if factor % divisor:
            return None
        part, times = tuple(rest), factor // divisor
        terms[part] = times
        for other, count in b.terms.items():
            key = tuple(sorted(part + other))
            left[key] = left.get(key, 0) - times * count
            if not left[key]:
                del left[key]
    return _sized(a.scope, terms, a.hint // b.hint)


def _rank(term: tuple[Monomial, Number]) -> tuple[int, Monomial]:
    """The order in which terms are divided: the highest degree first."""
    return len(term[0]), term[0]


def _divided(a: Any, b: Size) -> Any:
    """``a / b``, a number that may be fractional."""
    low, high = _bounds(a)
    least, most = b.bounds()
    ends = (-INFINITE, INFINITE)
    if low >= 0 and least > 0:
        ends = (
            0.0 if math.isinf(most) else low / most,
            INFINITE if math.isinf(high) else high / least,
        )
    return b.scope.operation("/", (a, b), _hint(a) / b.hint, *ends)


def _tight_bounds(size: Size) -> tuple[Number, Number]:
    """Bounds of a polynomial, sharper where terms are multiples of rounded quotients.

    Such a term is the dividend less a remainder: ``2 * (x // 2) <= x``, and
    ``2 * (x // 4) <= x // 2``.
    """
    low: Number = 0
    high: Number = 0
    left: Any = 0
    is_same = True
    for monomial, factor in size.terms.items():
        made = _multiple(size.scope, monomial, factor)
        if made is None:
            value = _value(size.scope, monomial) * factor
            left = left + _sized(size.scope, {monomial: factor}, value)
            continue
        is_same = False
        left = left + made[0]
        low, high = low + made[1][0], high + made[1][1]
    if is_same:
        return size.bounds()
    ends = _tight_bounds(left) if isinstance(left, Size) else (left, left)
    return ends[0] + low, ends[1] + high


def _multiple(
    scope: Scope, monomial: Monomial, factor: Number
) -> tuple[Any, tuple[Number, Number]] | None:
    """The term without its last rounding, and the bounds of the difference.

    The term is a multiple of a rounded quotient; None for others.
    """
    atom = scope.atoms[monomial[0]] if len(monomial) == 1 else None
    if atom is None or atom.kind not in ("//", "ceildiv"):
        return None
    dividend, divisor = atom.args
    if not isinstance(factor, int) or not isinstance(divisor, int) or divisor < 2:
        return None
    inner: Any
    if factor % divisor == 0:
        times, parts, inner = factor // divisor, divisor, dividend
    elif abs(factor) > 1 and divisor % abs(factor) == 0:
        parts = abs(factor)
        times, by = factor // parts, divisor // parts
        inner = dividend // by if atom.kind == "//" else -(-dividend // by)
    else:
        return None
    most = times * (parts - 1) * (-1 if atom.kind == "//" else 1)
    return inner * times, (min(most, 0), max(most, 0))


def range_of(value: Any) -> tuple[Number, Number]:
    """A lower and an upper bound for all sizes; no guard is recorded."""
    return _tight_bounds(value) if isinstance(value, Size) else (value, value)


def is_surely_equal(one: Any, other: Any) -> bool:
    """Whether ``one == other`` for all sizes; no guard is recorded."""
    return range_of(one - other) == (0, 0)


def is_surely_less(one: Any, other: Any) -> bool:
    """Whether ``one < other`` for all sizes; no guard is recorded."""
    return range_of(one - other)[1] < 0


def are_same(one: Any, other: Any) -> bool:
    """Whether two sizes are equal as polynomials, for all values of the symbols; no guard."""
    if isinstance(one, Size) and isinstance(other, Size):
        return one.key == other.key
    return not isinstance(one, Size) and not isinstance(other, Size) and bool(one == other)


def largest(values: Iterable[Any]) -> Any:
    """The largest of numbers and sizes, 0 for none, without a comparison and so without a guard."""
    numbers: list[Number] = []
    sizes: dict[tuple[object, ...], Size] = {}
    for value in values:
        if isinstance(value, Size):
            sizes[value.key] = value
        else:
            numbers.append(value)
    least = max(numbers, default=0)
    left: list[Size] = []
    for size in sizes.values():
        if size.bounds()[1] > least and not any(_is_above(other, size) for other in left):
            left = [*(other for other in left if not _is_above(size, other)), size]
    if not left:
        return least
    if len(left) == 1 and left[0].bounds()[0] >= least:
        return left[0]
    ends = [size.bounds() for size in left]
    low, high = max(least, *(e[0] for e in ends)), max(e[1] for e in ends)
    hint = max(least, *(size.hint for size in left))
    return left[0].scope.operation("max", (least, *left), hint, low, high)


def _is_above(one: Size, other: Size) -> bool:
    """Whether ``one >= other`` for all sizes."""
    return _bounds(one - other)[0] >= 0


def indices(part: slice, size: Any) -> tuple[Any, Any, Any]:
    """``part.indices(size)``, also for symbolic sizes and bounds."""
    if not any(isinstance(n, Size) for n in (size, part.start, part.stop, part.step)):
        return part.indices(size)
    step = 1 if part.step is None else part.step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def settled(mark: Any, default: Any) -> Any:
        if mark is None:
            return default
        mark = mark + size if mark < 0 else mark
        return low if mark < low else high if mark > high else mark

    start, stop = (low, high) if step > 0 else (high, low)
    return settled(part.start, start), settled(part.stop, stop), step


def count_of(start: Any, stop: Any, step: Any) -> Any:
    """``len(range(start, stop, step))``, also for symbolic sizes."""
    if step < 0:
        start, stop, step = stop, start, -step
    return -((start - stop) // step) if stop > start else 0


def symbols_of(size: Size) -> frozenset[str]:
    """The names of the symbols that an expression depends on."""
    atoms = {size.scope.atoms[number] for monomial in size.terms for number in monomial}
    inner = (symbols_of(arg) for atom in atoms for arg in atom.args if isinstance(arg, Size))
    return frozenset(atom.name for atom in atoms if atom.name).union(*inner)


def sizes_in(item: Any) -> Iterator[Size]:
    """The symbolic sizes in a number, a tuple, a named tuple or a record."""
    if isinstance(item, Size):
        yield item
    elif isinstance(item, tuple):
        for each in item:
            yield from sizes_in(each)
    elif is_record(item):
        for name in fields_of(item):
            yield from sizes_in(getattr(item, name))


Rebuild = Callable[[Sequence[int]], Any]


def rebuilder(item: Any, places: Mapping[tuple[object, ...], int]) -> Rebuild | None:
    """A function that rebuilds the item from the values of its sizes, indexed by ``places``.

    None for an item without a symbolic size: it stays the same object.
    """
    if isinstance(item, Size):
        return operator.itemgetter(places[item.key])
    if isinstance(item, tuple):
        return _tuple_rebuilder(item, places)
    if not is_record(item):
        return None
    parts = {name: rebuilder(getattr(item, name), places) for name in fields_of(item)}
    changed = {name: part for name, part in parts.items() if part is not None}
    if not changed:
        return None
    return lambda values: replace(item, **{n: part(values) for n, part in changed.items()})


def _tuple_rebuilder(
    item: tuple[Any, ...], places: Mapping[tuple[object, ...], int]
) -> Rebuild | None:
    parts = [rebuilder(each, places) for each in item]
    changed = [(i, part) for i, part in enumerate(parts) if part is not None]
    if not changed:
        return None

    def rebuild(values: Sequence[int]) -> Any:
        made = list(item)
        for i, part in changed:
            made[i] = part(values)
        return type(item)(*made) if hasattr(item, "_fields") else tuple(made)

    return rebuild


def decided(name: str, function: Callable[[Any], Any], item: Any) -> Any:
    """``function(item)`` for the hints, with one guard that it stays equal: a :class:`Decision`.

    The function gets plain integers, and its result is compared by ``==``.
    """
    sizes = {size.key: size for size in sizes_in(item)}
    if not sizes:
        return function(item)
    scope = next(iter(sizes.values())).scope
    key = (name, str(item))
    if key not in scope.decisions:
        rebuild = rebuilder(item, {size: i for i, size in enumerate(sizes)})
        assert rebuild is not None

        def of(values: Sequence[int], rebuild: Rebuild = rebuild) -> Any:
            return function(rebuild(values))

        result = of([int(size.hint) for size in sizes.values()])
        scope.decisions[key] = Decision(name, tuple(sizes.values()), of, result)
    return scope.decisions[key].result


def hint_of(value: Any) -> Any:
    """The hint outside of branches, without a guard: for messages and result-neutral choices."""
    return value.scope.hint_before(value) if isinstance(value, Size) else value


# ---- evaluation -------------------------------------------------------------------------------


class Program:
    """Expressions as the source of one Python function of the symbols."""

    def __init__(self, scope: Scope, parameters: Sequence[str]) -> None:
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


def guard_function(scope: Scope) -> Callable[..., bool]:
    """A function that tests all guards for sizes in the order of the scope's symbols."""
    return _condition(scope, tuple(scope.guards.values()), tuple(scope.decisions.values()))


def _condition(
    scope: Scope, guards: Sequence[Guard], decisions: Sequence[Decision]
) -> Callable[..., bool]:
    program = Program(scope, tuple(scope.symbols))
    tests = [f"{name} >= 1" for name in scope.symbols]
    tests += [f"{program.text(g.left)} {g.test} {g.right!r}" for g in guards]
    holds = program.compile([f"    return {' and '.join(tests)}"])
    operands = values_function(scope, tuple(scope.symbols), [d.sizes for d in decisions])

    def hold(*sizes: int) -> bool:
        try:
            if not holds(*sizes):
                return False
            values = operands(*sizes) if decisions else ()
        except ZeroDivisionError:  # of an expression that guards exclude
            return False
        return all(map(Decision.holds, decisions, values))

    return hold


def values_function(
    scope: Scope, parameters: Sequence[str], columns: Sequence[Sequence[Any]]
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
    return _OPERATIONS[atom.kind](*args)


def _operated(atom: Atom) -> Number:
    """The value of an operation for the hints of its operands."""
    args = [arg.hint if isinstance(arg, Size) else arg for arg in atom.args]
    return _OPERATIONS[atom.kind](*args) if args else atom.hint


_OPERATIONS: dict[str, Callable[..., Number]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "ceildiv": lambda a, b: -(-a // b),
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
}
