"""Unary and binary pointwise functions of NumPy mode.

They expand into the classic operators and differ in types: operands of ``+ - * % **`` are promoted,
a quotient of integers is float32, comparisons return bool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, TensorType
from ...errors import DTypeError
from ..algebra import mul, scaled, shifted
from ..building import Builder, Many, Reached, X
from ..casting import convert, in_floating, scalar_of
from ..elementwise.binary import number_type
from ..elementwise.element_type import cast
from ..elementwise.unary import same_number
from ..gradient import none_at_all
from ..record import PLAIN
from ..registry import lookup, register
from ..rules import Types
from ..signatures import ScalarBuilder, V
from ..tensor.new_arrays import FULL
from ..tensor.primitives import broadcast, reshape
from .forms import (
    BOOL,
    ON_HOST,
    UINT8,
    PairRule,
    as_number,
    each_type,
    equal_float,
    equal_integer,
    equal_number,
    equal_type,
    pair_types,
    promoted,
    promoted_number,
    quotient_type,
    truth,
    twin,
)

# Unary functions

_UNARY = """exp expm1 log log2 log10 log1p sqrt cbrt square reciprocal sin cos tan arcsin arccos
arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil rint trunc fix degrees
radians negative sign"""
for _name in _UNARY.split():
    twin(f"_npi_{_name}", _name, "x")
twin("_npi_absolute", "abs", "x", aliases=("_npi_abs",))
twin("_npx_relu", "relu")
twin("_npx_sigmoid", "sigmoid")


def _predicate(
    name: str, ref: Callable[..., Any], of_float: Callable[..., Any], doc: str, default: bool
) -> None:
    """Register a predicate; its value for every integer is ``default``."""

    def expand(g: Builder[X], x: X) -> X:
        """isnan(x), isinf(x), ...  =>  Cast of comparisons of x to bool"""
        t = g.type(x)
        if t.dtype is not None and t.dtype.kind == "f":
            return truth(g, of_float(g, x))
        small = scaled(g, cast(g, x, UINT8, at="bytes"), 0.0)
        return truth(g, shifted(g, small, 1.0) if default else small)

    register(
        f"_npi_{name}",
        "x",
        infer=each_type(lambda dtype: BOOL),
        ref=lambda x: np.asarray(ref(x) if x.dtype.kind == "f" else np.full(x.shape, default)),
        expand=expand,
        grad=none_at_all,
        doc=doc,
    )


def _against(name: str, bound: float, of_size: bool = False) -> Callable[..., Any]:
    def compare(g: Builder[X], x: X) -> X:
        size = g.op(lookup("abs"), x, at="size") if of_size else x
        return g.op(lookup(name), size, at="compared", scalar=bound)

    return compare


_INF = float("inf")
_predicate(
    "isnan",
    np.isnan,
    lambda g, x: g.op(lookup("broadcast_not_equal"), x, x, at="compared"),
    "Whether an element is NaN.",
    False,
)
_predicate(
    "isinf",
    np.isinf,
    _against("_equal_scalar", _INF, True),
    "Whether an element is infinite.",
    False,
)
_predicate(
    "isposinf", np.isposinf, _against("_equal_scalar", _INF), "Whether an element is inf.", False
)
_predicate("isneginf", np.isneginf, _against("_equal_scalar", -_INF), "Whether it is -inf.", False)
_predicate(
    "isfinite",
    np.isfinite,
    _against("_lesser_scalar", _INF, True),
    "Whether an element is finite.",
    True,
)


def _negated_truth(g: Builder[X], x: X) -> X:
    """logical_not(x)  =>  Cast of x == 0 to bool"""
    return truth(g, g.op(lookup("_equal_scalar"), as_number(g, x, "number"), at="zero", scalar=0.0))


register(
    "_npi_logical_not",
    "x",
    infer=each_type(lambda dtype: BOOL),
    ref=lambda x: np.asarray(x == 0),
    expand=_negated_truth,
    grad=none_at_all,
    doc="Whether an element is 0.",
)


def _integer(dtype: np.dtype) -> np.dtype:
    if dtype.kind == "f":
        raise DTypeError(f"this operator takes integers, got {dtype.name}")
    return dtype


register(
    "_npi_bitwise_not",
    "x",
    infer=each_type(_integer),
    ref=lambda x: np.asarray(np.invert(x)),
    grad=none_at_all,
    doc="Bitwise complement; logical negation of bools.",
)


def _around(x: np.ndarray, *, decimals: int) -> np.ndarray:
    if x.dtype.kind in "iu" and decimals >= 0:
        return x.copy()
    return convert(np.asarray(np.around(x.astype(FLOAT64), decimals)), x.dtype)


def _around_types(ins: Types, outs: Types, *, decimals: int) -> tuple[Types, Types]:
    if any(t.dtype == np.float16 for t in (*ins, *outs)):
        raise DTypeError("around takes float32, float64 and integers, got float16")
    return same_number(ins, outs)


register(
    "_npi_around",
    "x",
    "decimals:int=0",
    infer=_around_types,
    ref=_around,
    grad=none_at_all,
    doc="Elements rounded to decimals, ties to even.",
)


def _nan_to_num(
    data: np.ndarray,
    *,
    copy: bool,
    nan: float,
    posinf: float | None,
    neginf: float | None,
) -> np.ndarray:
    if data.dtype.kind != "f":
        return data.copy()
    return np.nan_to_num(data, True, nan, posinf, neginf)


def _limits(dtype: np.dtype, posinf: float | None, neginf: float | None) -> tuple[float, float]:
    info = np.finfo(dtype)
    high = float(info.max) if posinf is None else posinf
    return high, float(info.min) if neginf is None else neginf


def _replaced(g: Builder[X], data: X, *, copy: bool, nan: float, posinf: Any, neginf: Any) -> X:
    """nan_to_num(x)  =>  where for NaN, for inf and for -inf"""
    t = g.type(data)
    if t.dtype is None or t.dtype.kind != "f":
        return g.op(lookup("_copy"), data)
    high, low = _limits(t.dtype, posinf, neginf)
    made = data
    for name, compared, number in (
        ("nan", g.op(lookup("broadcast_equal"), data, data, at="is_number"), nan),
        ("posinf", g.op(lookup("_not_equal_scalar"), data, at="is_below", scalar=_INF), high),
        ("neginf", g.op(lookup("_not_equal_scalar"), data, at="is_above", scalar=-_INF), low),
    ):
        constant = broadcast(g, _number(g, number, t, name), t.dims, at=f"{name}_wide")
        made = g.op(lookup("where"), compared, made, constant, at=f"without_{name}")
    return made


def _number(g: Builder[X], value: float, t: TensorType, at: str) -> X:
    """Array of one number, with axes of size 1."""
    number = g.op(FULL, at=at, shape=(1,), dtype=t.dtype, value=value)
    return reshape(g, number, (1,) * t.ndim, at=f"{at}_axes")


register(
    "_npi_nan_to_num",
    "data",
    "copy:bool=True nan:double=0 posinf:double?=None neginf:double?=None",
    infer=each_type(lambda dtype: dtype),
    ref=_nan_to_num,
    expand=_replaced,
    doc="NaN, inf and -inf replaced by numbers.",
)

# Binary functions


def _pair(
    word: str,
    classic: str,
    result: PairRule,
    *,
    ref: Callable[..., Any] | None = None,
    boolean: bool = False,
    doc: str = "",
) -> None:
    """Register ``_npi_<word>``: a broadcasting classic operator on promoted operands."""
    op = lookup(classic)

    def expand(g: Builder[X], lhs: X, rhs: X) -> X:
        a, b = g.type(lhs).dtype, g.type(rhs).dtype
        assert a is not None and b is not None
        common = result(a, b)
        taken = UINT8 if common == BOOL else common
        sides = cast(g, lhs, taken, at="lhs"), cast(g, rhs, taken, at="rhs")
        made_as = BOOL if boolean else common
        if made_as == taken:
            return g.op(op, *sides)
        return cast(g, g.op(op, *sides, at="number"), made_as)

    expand.__doc__ = f"_npi_{word}(x, y)  =>  {classic} of both cast to the common type"

    of_same = op.ref

    def computed(lhs: np.ndarray, rhs: np.ndarray) -> Any:
        if lhs.dtype is rhs.dtype and lhs.dtype.kind == "f":  # usual: no conversion
            return of_same(lhs, rhs)
        common = result(lhs.dtype, rhs.dtype)
        taken = UINT8 if common == BOOL else common
        made = of_same(convert(lhs, taken), convert(rhs, taken))
        return np.asarray(made, BOOL if boolean or common == BOOL else common)

    register(
        f"_npi_{word}",
        "lhs rhs",
        infer=pair_types(result, boolean),
        ref=ref or computed,
        expand=expand,
        grad=none_at_all if boolean else None,
        domain=op.domain,
        doc=doc or op.doc,
    )


def _compared(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda lhs, rhs: np.asarray(function(lhs, rhs))


_pair("add", "broadcast_add", promoted)
_pair("subtract", "broadcast_sub", promoted_number)
_pair("multiply", "broadcast_mul", promoted)
_pair("mod", "broadcast_mod", promoted_number)
_pair("power", "broadcast_power", promoted)
_pair("true_divide", "broadcast_div", quotient_type, doc="Quotient; float32 for integers.")
for _word, _classic, _function in (
    ("equal", "equal", np.equal),
    ("not_equal", "not_equal", np.not_equal),
    ("less", "lesser", np.less),
    ("less_equal", "lesser_equal", np.less_equal),
    ("greater", "greater", np.greater),
    ("greater_equal", "greater_equal", np.greater_equal),
):
    _pair(
        _word,
        f"broadcast_{_classic}",
        equal_type,
        ref=_compared(_function),
        boolean=True,
        doc=f"Whether the first is {_word.replace('_', ' ')} to the second."
        if "equal" in _word
        else f"Whether the first is {_word} than the second.",
    )
twin("_npi_hypot", "broadcast_hypot", "x1 x2", infer=pair_types(equal_float))


def _is_infinite(b: ScalarBuilder[V], x: V) -> V:
    return b.eq(b.abs(x), b.const(_INF))


def _is_below(b: ScalarBuilder[V], x: V) -> V:
    """Test the sign bit of x, which -0 has too."""
    zero = b.const(0.0)
    return b.mask_or(b.lt(x, zero), b.lt(b.div(b.const(1.0), x), zero))


def _arctan2(b: ScalarBuilder[V], y: V, x: V) -> V:
    """Angle of the point (x, y), from -pi to pi."""
    zero, half = b.const(0.0), b.const(np.pi / 2)
    both = b.mask_and(_is_infinite(b, x), _is_infinite(b, y))
    diagonal = b.select(b.eq(x, y), b.const(1.0), b.const(-1.0))
    base = b.arctan(b.select(both, diagonal, b.div(y, x)))
    turn = b.select(_is_below(b, y), b.const(-np.pi), b.const(np.pi))
    wide = b.select(b.lt(x, zero), b.add(base, turn), base)
    origin = b.select(_is_below(b, x), b.add(y, turn), y)
    upright = b.select(b.gt(y, zero), half, b.select(b.lt(y, zero), b.neg(half), origin))
    return b.select(b.eq(x, zero), upright, wide)


def _slope_of_arctan2(b: ScalarBuilder[V], head: V, y: V, x: V) -> tuple[V, ...]:
    """head x / (x^2 + y^2) and -head y / (x^2 + y^2)"""
    share = b.div(head, b.add(b.mul(x, x), b.mul(y, y)))
    return b.mul(share, x), b.neg(b.mul(share, y))


register(
    "_npi_arctan2",
    "x1 x2",
    infer=pair_types(equal_float),
    ref=in_floating(np.arctan2),
    scalar=_arctan2,
    slope=_slope_of_arctan2,
    domain=(0.5, 4.0),
    doc="Angle of the point (x2, x1).",
)


def _on_pairs(
    name: str,
    function: Callable[..., Any],
    result: PairRule,
    doc: str,
    grad: Callable[..., Any] = none_at_all,
    domain: tuple[float, float] = (-4.0, 4.0),
) -> None:
    register(
        f"_npi_{name}",
        "lhs rhs",
        infer=pair_types(result),
        ref=lambda lhs, rhs: convert(np.asarray(function(lhs, rhs)), result(lhs.dtype, rhs.dtype)),
        grad=grad,
        domain=domain,
        doc=doc,
    )


def _signs(g: Builder[X], x: X, at: str) -> X:
    """-1 where x is negative, else 1."""
    below = g.op(lookup("_lesser_scalar"), x, at=f"{at}_below", scalar=0.0)
    return shifted(g, scaled(g, below, -2.0), 1.0)


def _grad_copysign(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]
) -> tuple[Reached[X], ...]:
    signs = mul(g, _signs(g, ins[0], "lhs"), _signs(g, ins[1], "rhs"))
    return lambda: mul(g, douts[0], signs), None


def _lcm(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return np.logical_and(lhs, rhs) if lhs.dtype == BOOL else np.lcm(lhs, rhs)


_on_pairs(
    "copysign",
    np.copysign,
    equal_number,
    "Magnitude of the first with the sign of the second.",
    _grad_copysign,
)
_on_pairs("bitwise_and", np.bitwise_and, equal_integer, "Bitwise and.")
_on_pairs("bitwise_or", np.bitwise_or, equal_integer, "Bitwise or.")
_on_pairs("bitwise_xor", np.bitwise_xor, equal_integer, "Bitwise exclusive or.")
_on_pairs("lcm", _lcm, equal_integer, "Least common multiple.")


def _ldexp(g: Builder[X], lhs: X, rhs: X) -> X:
    """ldexp(x, y)  =>  x * 2^y, of integers in float64 and truncated"""
    own = g.type(lhs).dtype
    assert own is not None
    wide = own if own.kind == "f" else FLOAT64
    x, y = (cast(g, v, wide, at=at) for v, at in ((lhs, "lhs"), (rhs, "rhs")))
    power = g.op(lookup("_rpower_scalar"), y, at="power", scalar=2.0)
    return cast(g, mul(g, x, power), own)


register(
    "_npi_ldexp",
    "lhs rhs",
    infer=pair_types(equal_number),
    expand=_ldexp,
    doc="First operand times 2 to the power of the second.",
)

# A scalar as the second operand, or as the first

_SCALAR = "scalar:double=1 is_int:bool=True"


for _name, _classic in {
    "add": "plus", "subtract": "minus", "rsubtract": "rminus", "multiply": "mul",
    "mod": "mod", "rmod": "rmod", "power": "power", "rpower": "rpower",
}.items():  # fmt: skip
    twin(f"_npi_{_name}_scalar", f"_{_classic}_scalar")


def _in_float(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind == "f" else FLOAT32


def _quotient(name: str, classic: str, doc: str) -> None:
    op = lookup(classic)

    def expand(g: Builder[X], data: X, **attrs: Any) -> X:
        """x / scalar, scalar / x  =>  the same of x cast to float"""
        dtype = g.type(data).dtype
        assert dtype is not None
        return g.op(op, cast(g, data, _in_float(dtype), at="float"), **attrs)

    of_float = op.ref

    def ref(data: np.ndarray, *, scalar: float, is_int: bool) -> Any:
        number = data if data.dtype.kind == "f" else convert(data, FLOAT32)
        return of_float(number, scalar=scalar, is_int=is_int)

    register(
        name,
        "data",
        _SCALAR,
        infer=each_type(_in_float),
        ref=ref,
        expand=expand,
        domain=op.domain,
        doc=doc,
    )


_quotient("_npi_true_divide_scalar", "_div_scalar", "Operand divided by a scalar.")
_quotient("_npi_rtrue_divide_scalar", "_rdiv_scalar", "Scalar divided by the operand.")


def _like(scalar: float, dtype: np.dtype | None) -> float:
    """Scalar that is compared with an array: beside bools its truth, so that 0.5 equals True."""
    return float(bool(scalar)) if dtype == BOOL else scalar


def _comparison(word: str, classic: str) -> None:
    op, compare = lookup(f"_{classic}_scalar"), getattr(np, word)

    def expand(g: Builder[X], data: X, *, scalar: float, is_int: bool) -> X:
        """comparison of x with a scalar  =>  Cast of the indicator to bool"""
        given = {"scalar": _like(scalar, g.type(data).dtype), "is_int": is_int}
        return truth(g, g.op(op, as_number(g, data, "bytes"), at="indicator", **given))

    def ref(data: np.ndarray, *, scalar: float, is_int: bool) -> np.ndarray:
        number = data.astype(UINT8) if data.dtype == BOOL else data
        number = number.astype(number_type(number.dtype, is_int), copy=False)
        other = scalar_of(_like(scalar, data.dtype), number.dtype)
        return np.asarray(compare(number, other))

    register(
        f"_npi_{word}_scalar",
        "data",
        _SCALAR,
        infer=each_type(lambda dtype: BOOL),
        ref=ref,
        expand=expand,
        grad=none_at_all,
        doc=f"Comparison {word} with a scalar.",
    )


for _word, _classic in {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "lesser",
    "less_equal": "lesser_equal",
    "greater": "greater",
    "greater_equal": "greater_equal",
}.items():
    _comparison(_word, _classic)


def _with_number(
    name: str, pair: str, swapped: bool, result: Callable[[np.dtype], np.dtype], doc: str
) -> None:
    """Register a form whose other operand is a scalar, converted to the operand's dtype."""
    op = lookup(pair)
    is_floating = pair == "_npi_arctan2"
    traits = ON_HOST if op.kernel == "host" and op.expand is None else PLAIN

    def ref(data: np.ndarray, *, scalar: float, is_int: bool) -> np.ndarray:
        number = scalar_of(scalar, data.dtype) if data.dtype != BOOL else np.array(bool(scalar))
        return np.asarray(op.ref(number, data) if swapped else op.ref(data, number))

    def expand(g: Builder[X], data: X, *, scalar: float, is_int: bool) -> X:
        """f(x, scalar)  =>  f(x, array of one element)"""
        t = g.type(data)
        number = _number(g, scalar, t, "number")
        if is_floating and t.dtype is not None and t.dtype.kind != "f":
            number, data = (cast(g, x, FLOAT64, at="float") for x in (number, data))
        sides = (number, data) if swapped else (data, number)
        return cast(g, g.op(op, *sides), t.dtype)

    register(
        name,
        "data",
        _SCALAR,
        infer=each_type(result),
        ref=ref,
        expand=expand,
        domain=op.domain,
        traits=traits,
        doc=doc,
    )


def _numeric(dtype: np.dtype) -> np.dtype:
    return equal_number(dtype, dtype)


for _name in ("arctan2", "copysign", "ldexp"):
    _pair_name = f"_npi_{_name}"
    _with_number(f"_npi_{_name}_scalar", _pair_name, False, _numeric, f"{_name} with a scalar.")
    _with_number(f"_npi_r{_name}_scalar", _pair_name, True, _numeric, f"{_name} of a scalar.")
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm"):
    _with_number(
        f"_npi_{_name}_scalar", f"_npi_{_name}", False, _integer, f"{_name} with a scalar."
    )

# Selection


def selected(g: Builder[X], condition: X, x: X, y: X, at: str = "") -> X:
    """where(c, x, y)  =>  where of all three, broadcast to one shape"""
    types = [g.type(v) for v in (condition, x, y)]
    shape = np.broadcast_shapes(*(t.dims for t in types))
    sides = []
    for v, t, name in zip((condition, x, y), types, ("condition", "x", "y")):
        full = reshape(g, v, (1,) * (len(shape) - t.ndim) + t.dims, at=f"{name}_axes")
        sides.append(broadcast(g, full, shape, at=f"{name}_wide"))
    return g.op(lookup("where"), *sides, at=at)


def _where_types(ins: Types, outs: Types) -> tuple[Types, Types]:
    condition, x, y = ins
    _, (found,) = pair_types(equal_type)((x, y), ())
    shape = None
    if found.shape is not None and condition.shape is not None:
        _, (whole,) = pair_types(equal_type)((condition.with_dtype(None), found), ())
        shape = whole.shape
    return ins, (TensorType(shape, found.dtype),)


register(
    "_npi_where",
    "condition x y",
    infer=_where_types,
    ref=lambda condition, x, y: np.asarray(np.where(condition, x, y)),
    expand=selected,
    doc="x where the condition is nonzero, else y; all three broadcast.",
)


def _where_scalar(name: str, other: str, number_first: bool) -> None:
    def ref(condition: np.ndarray, value: np.ndarray, *, scalar: float) -> np.ndarray:
        number = scalar_of(scalar, value.dtype)
        sides = (number, value) if number_first else (value, number)
        return np.asarray(np.where(condition != 0, *sides))

    def expand(g: Builder[X], condition: X, value: X, *, scalar: float) -> X:
        """where(c, x, scalar)  =>  where(c, x, array of one element)"""
        t = g.type(value)
        number = _number(g, scalar, t, "number")
        sides = (number, value) if number_first else (value, number)
        return selected(g, condition, *sides)

    def infer(ins: Types, outs: Types, *, scalar: float) -> tuple[Types, Types]:
        condition, value = ins
        _, (found,) = pair_types(equal_type)((condition.with_dtype(None), value), ())
        return ins, (TensorType(found.shape, value.dtype),)

    register(
        name,
        f"condition {other}",
        "scalar:double=0",
        infer=infer,
        ref=ref,
        expand=expand,
        doc="Selection by a condition between an array and a scalar.",
    )


_where_scalar("_npi_where_lscalar", "x", True)
_where_scalar("_npi_where_rscalar", "y", False)


def _where_numbers(g: Builder[X], condition: X, *, x: float, y: float) -> X:
    """where(c, scalar, scalar)  =>  where(c, array of one element, another)"""
    t = g.type(condition).with_dtype(FLOAT32)
    return selected(g, condition, _number(g, x, t, "x"), _number(g, y, t, "y"))


register(
    "_npi_where_scalar2",
    "condition",
    "x:double=0 y:double=0",
    infer=each_type(lambda dtype: FLOAT32),
    ref=lambda condition, x, y: np.asarray(np.where(condition != 0, x, y), FLOAT32),
    expand=_where_numbers,
    grad=none_at_all,
    doc="Selection by a condition between two scalars.",
)


def _checked(input: np.ndarray, *, msg: str) -> np.ndarray:
    if not input.all():
        raise ValueError(msg)
    return np.array(True)


def _truth_type(ins: Types, outs: Types, *, msg: str) -> tuple[Types, Types]:
    if ins[0].dtype not in (None, BOOL):
        raise DTypeError(f"constraint_check takes bool, got {ins[0].dtype}")
    return ins, (TensorType((), BOOL),)


register(
    "_npx_constraint_check",
    "input",
    "msg:string=",
    infer=_truth_type,
    ref=_checked,
    grad=none_at_all,
    doc="True if all elements are true; otherwise raises ValueError with the message.",
)
