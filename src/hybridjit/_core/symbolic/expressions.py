"""Expressions of sizes: atoms, polynomials over them, and their arithmetic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

INFINITE = math.inf
Number: TypeAlias = "int | float"
Monomial = tuple[int, ...]  # numbers of atoms in ascending order; () is the constant term

TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPERATIONS: dict[str, Callable[..., Number]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "ceildiv": lambda a, b: -(-a // b),
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
}


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
        self.is_whole = kind != "/" and (kind != "max" or all(map(is_whole, args)))

    def __str__(self) -> str:
        if self.kind in ("symbol", "step"):
            return self.name
        if self.kind in ("//", "%", "/"):
            return f"({self.args[0]}){self.kind}{_bracketed(self.args[1])}"
        return f"{self.kind}({', '.join(map(str, self.args))})"


def _bracketed(value: Size | Number) -> str:
    return f"({value})" if isinstance(value, Size) else str(value)


class Recorder(Protocol):
    """A scope, as the arithmetic of sizes uses it: it has the atoms and records comparisons."""

    atoms: list[Atom]
    is_closed: bool
    epoch: int

    def step(self, name: str, low: int, high: Number) -> Size: ...

    def operation(
        self, kind: str, args: tuple[Size | Number, ...], hint: Number, low: Number, high: Number
    ) -> Size: ...

    def decide(self, difference: Size | Number, test: str) -> bool: ...

    def pin(self, size: Size) -> None: ...

    def hint_before(self, size: Size) -> Number: ...


class Size:
    """A polynomial over atoms with integer coefficients; in cost models with floating ones.

    Arithmetic and comparisons work as for ``int``. It is not an ``int``: code that needs one calls
    ``__index__``, which records a guard.
    """

    __slots__ = ("scope", "terms", "_hint", "_epoch", "_key")
    __array_ufunc__ = None  # NumPy's scalars leave operations to this class

    def __init__(self, scope: Recorder, terms: Mapping[Monomial, Number], hint: Number) -> None:
        self.scope, self.terms = scope, terms
        self._hint, self._epoch = hint, scope.epoch
        self._key: tuple[object, ...] | None = None

    @property
    def hint(self) -> Number:
        """The value for the sizes that are being compiled for."""
        if self._epoch != self.scope.epoch:
            terms = self.terms.items()
            self._hint = sum(value_at_hints(self.scope, m) * factor for m, factor in terms)
            self._epoch = self.scope.epoch
        return self._hint

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for equal polynomials."""
        if self._key is None:
            self._key = tuple(sorted(self.terms.items()))
        return self._key

    @property
    def is_symbol(self) -> bool:
        """Whether the expression is a symbol and nothing else."""
        if len(self.terms) != 1:
            return False
        ((monomial, factor),) = self.terms.items()
        return factor == 1 and len(monomial) == 1 and bool(self.scope.atoms[monomial[0]].name)

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
            return sized(self.scope, terms, self.hint + other.hint)
        number = _number(other)
        if number is None:
            return NotImplemented
        terms = dict(self.terms)
        terms[()] = terms.get((), 0) + number
        return sized(self.scope, terms, self.hint + number)

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
            return sized(self.scope, terms, self.hint * other.hint)
        number = _number(other)
        if number is None:
            return NotImplemented
        scaled = {m: f * number for m, f in self.terms.items()}
        return sized(self.scope, scaled, self.hint * number)

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
            return sized(self.scope, scaled, self.hint / number)
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
        if is_whole(self):
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
            sized(
                self.scope, terms, sum(value_at_hints(self.scope, m) * f for m, f in terms.items())
            )
            for terms in (fixed, added)
        ]
        return made[0] + start * made[1], made[1]

    # ---- comparisons: guards ------------------------------------------------------------------

    def _compared(self, other: Any, test: str) -> Any:
        if self is other:
            return TESTS[test](0, 0)
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
        if is_whole(self):
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


def sized(scope: Recorder, terms: dict[Monomial, Number], hint: Number) -> Size | Number:
    """The polynomial of these terms; a plain number where it is constant."""
    left = {monomial: factor for monomial, factor in terms.items() if factor != 0}
    if not left:
        return type(hint)(0)
    if len(left) == 1 and () in left:
        return left[()]
    return Size(scope, left, hint)


def key_of(value: Size | Number) -> object:
    return value.key if isinstance(value, Size) else value


def _times(a: Number, b: Number) -> Number:
    return 0 if a == 0 or b == 0 else a * b


def _product_bounds(scope: Recorder, monomial: Monomial) -> tuple[Number, Number]:
    low: Number = 1
    high: Number = 1
    for number in monomial:
        atom = scope.atoms[number]
        ends = [_times(a, b) for a in (low, high) for b in (atom.low, atom.high)]
        low, high = min(ends), max(ends)
    return low, high


def bounds_of(value: Size | Number) -> tuple[Number, Number]:
    return value.bounds() if isinstance(value, Size) else (value, value)


def _floor_ends(low: Number, high: Number, divisor: int) -> tuple[Number, Number]:
    ends = [n if math.isinf(n) else n // divisor for n in (low, high)]
    return ends[0], ends[1]


def _quotient(a: Any, b: Any) -> Any:
    """``a // b`` where at least one operand is a Size."""
    divisor = _divisor(a, b)
    if not isinstance(divisor, Size):
        return NotImplemented if divisor is None else _divided_by_number(a, divisor)
    found = exact(a, divisor)
    if found is not None:
        return found
    if a >= 0 and a < divisor:
        return 0
    low, high = bounds_of(a)
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
    are_whole = all(map(is_whole, (a, b)))
    return b if are_whole and b > 0 else b.as_number()


def is_whole(value: Any) -> bool:
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
    if not is_whole(a):
        return a.as_number() // divisor
    nested = _of_quotient(a)
    if nested is not None:
        return _quotient_by(nested[0], nested[1] * divisor)
    whole = {m: f // divisor for m, f in a.terms.items() if f % divisor == 0}
    rest = {m: f for m, f in a.terms.items() if f % divisor}
    if not rest:
        return sized(a.scope, whole, a.hint // divisor)
    left = sized(a.scope, rest, sum(value_at_hints(a.scope, m) * f for m, f in rest.items()))
    divided = _rest_by(a.scope, left, divisor)
    hint = sum(value_at_hints(a.scope, m) * f for m, f in whole.items())
    return sized(a.scope, whole, hint) + divided if whole else divided


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


def value_at_hints(scope: Recorder, monomial: Monomial) -> Number:
    """The hint of a monomial."""
    return math.prod(scope.atoms[number].hint for number in monomial)


def _rest_by(scope: Recorder, left: Size | Number, divisor: int) -> Any:
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
    if exact(a, divisor) is not None:
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
    if not is_whole(a):
        return a.as_number() % divisor
    rest = {m: f % divisor for m, f in a.terms.items() if f % divisor}
    hint = sum(value_at_hints(a.scope, m) * f for m, f in rest.items())
    left = sized(a.scope, rest, hint) if rest else 0
    if not isinstance(left, Size):
        return left % divisor
    low, high = left.bounds()
    if low >= 0 and high < divisor:
        return left
    return a.scope.operation("%", (left, divisor), left.hint % divisor, 0, divisor - 1)


def exact(a: Any, b: Any) -> Any:
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
    return sized(a.scope, terms, a.hint // b.hint)


def _rank(term: tuple[Monomial, Number]) -> tuple[int, Monomial]:
    """The order in which terms are divided: the highest degree first."""
    return len(term[0]), term[0]


def _divided(a: Any, b: Size) -> Any:
    """``a / b``, a number that may be fractional."""
    low, high = bounds_of(a)
    least, most = b.bounds()
    ends = (-INFINITE, INFINITE)
    if low >= 0 and least > 0:
        ends = (
            0.0 if math.isinf(most) else low / most,
            INFINITE if math.isinf(high) else high / least,
        )
    return b.scope.operation("/", (a, b), _hint(a) / b.hint, *ends)
