"""Binary functions, in up to four forms each, and ``add_n``.

``elemwise_add`` needs equal shapes, ``broadcast_add`` broadcasts, ``_plus_scalar`` has an attribute
``scalar`` as right operand and ``_rminus_scalar`` as left operand. Operands have equal dtypes,
which the result has too; comparisons return 0 and 1 in it. A scalar is first converted to that
dtype (1.5 becomes 1 for integers); bool operands of scalar forms count as int64. With ``is_int``
False integers and bools count as float64, and the scalar keeps its fraction.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce, wraps
from typing import Any, NamedTuple

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, INT64, TensorType, merge_dtypes, merge_shapes
from ...errors import ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, X
from ..casting import exactly, in_floating, on_integers, scalar_of
from ..record import PLAIN, Eager, GradientStored, OnStored, OpDef, Traits
from ..registry import register
from ..rules import Types, broadcast, refuse_bool
from ..signatures import Expansion, Formula, ScalarBuilder, V
from .unary import SQUARE, indicator, same_number


def broadcast_number(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    """NumPy's broadcasting over equal numeric dtypes."""
    refuse_bool(*ins, *outs)
    return broadcast(ins, outs)


def with_scalar_type(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    """Result type of scalar forms: the operand's, changed by :func:`number_type`."""
    (data,), out = ins, outs[0] if outs else TensorType(None, None)
    shape = merge_shapes(data.shape, out.shape)
    dtype = None if data.dtype is None else number_type(data.dtype, attrs["is_int"])
    dtype = merge_dtypes(dtype, out.dtype)
    taken = dtype if data.dtype is None else data.dtype
    return (TensorType(shape, taken),), (TensorType(shape, dtype),)


def number_type(dtype: np.dtype, is_int: bool) -> np.dtype:
    """Dtype of the operand of a scalar form.

    bool counts as int64; bools and integers count as float64 if the scalar is not an integer
    (``is_int`` False)."""
    if dtype.kind == "f":
        return dtype
    if not is_int:
        return FLOAT64
    return INT64 if dtype.kind == "b" else dtype


def _scalar_form(ref: Formula, is_reversed: bool) -> Formula:
    @wraps(ref)
    def with_scalar(data: np.ndarray, *, scalar: float, is_int: bool) -> np.ndarray:
        number = data.astype(number_type(data.dtype, is_int), copy=False)
        other = scalar_of(scalar, number.dtype)
        return ref(other, number) if is_reversed else ref(number, other)

    return with_scalar


def _scalar_code(code: Formula, is_reversed: bool) -> Formula:
    def with_scalar(b: ScalarBuilder[V], x: V, *, scalar: float, is_int: bool) -> V:
        other = b.scalar(scalar)
        return code(b, other, x) if is_reversed else code(b, x, other)

    return with_scalar


class Forms(NamedTuple):
    """Operators of one function: see :func:`operation`."""

    strict: OpDef
    broadcasting: OpDef
    scalar: OpDef
    reversed_scalar: OpDef


class OfForms(NamedTuple):
    """Computation of the forms on stored data of sparse operands, and storage of gradients."""

    strict: OnStored = OnStored.NOT
    broadcasting: OnStored = OnStored.NOT
    scalar: OnStored = OnStored.NOT
    strict_gradient: GradientStored = GradientStored.DENSE
    scalar_gradient: GradientStored = GradientStored.DENSE

    def traits(self, traits: Traits) -> tuple[Traits, Traits, Traits]:
        """Traits of the three forms."""
        return (
            replace(traits, on_stored=self.strict, gradient_stored=self.strict_gradient),
            replace(traits, on_stored=self.broadcasting),
            replace(traits, on_stored=self.scalar, gradient_stored=self.scalar_gradient),
        )


_DENSE = OfForms()
_OF_UNION = OfForms(OnStored.UNION)
_OF_SUM = OfForms(
    OnStored.UNION,
    scalar=OnStored.EACH_OF_ZERO,
    strict_gradient=GradientStored.HEAD,
    scalar_gradient=GradientStored.HEAD,
)
_OF_COMPARISON = OfForms(scalar=OnStored.EACH_OF_ZERO, scalar_gradient=GradientStored.OPERAND)
_OF_PRODUCT = OfForms(
    OnStored.PRODUCT, OnStored.SCALED, OnStored.EACH, scalar_gradient=GradientStored.HEAD
)
_OF_QUOTIENT = OfForms(
    OnStored.NOT, OnStored.SCALED, OnStored.EACH, scalar_gradient=GradientStored.HEAD
)


def _register(names: str, inputs: str, attrs: str, **fields: Declared) -> OpDef:
    name, _, aliases = names.partition(" ")
    return register(name, inputs, attrs, aliases=aliases, **fields)


def operation(
    doc: str,
    ref: Formula,
    code: Formula,
    *,
    strict: str,
    twin: str,
    scalar: str,
    reversed_scalar: str = "",
    domain: tuple[float, float] = (-4.0, 4.0),
    traits: Traits = PLAIN,
    on_stored: OfForms = _DENSE,
    expand: Expansion | None = None,
) -> Forms:
    """Register the forms of one function: each string is a main name followed by its aliases.

    Without ``reversed_scalar`` the function is symmetric. ``expand`` is that of ``scalar``.
    """
    of_equals, of_any, of_one = on_stored.traits(traits)
    both: dict[str, Any] = {"ref": ref, "scalar": code, "domain": domain}
    both_equal = {"infer": same_number, "traits": of_equals, "doc": f"{doc} Equal shapes."}
    both_any = {"infer": broadcast_number, "traits": of_any, "doc": f"{doc} Broadcasts."}
    alike = _register(strict, "lhs rhs", "", **both, **both_equal)
    wide = _register(twin, "lhs rhs", "", **both, **both_any)
    second = for_scalars(
        scalar, doc, ref, code, domain, swapped=False, traits=of_one, expand=expand
    )
    first = second
    if reversed_scalar:
        first = for_scalars(reversed_scalar, doc, ref, code, domain, swapped=True, traits=traits)
    return Forms(alike, wide, second, first)


def for_scalars(
    names: str,
    doc: str,
    ref: Formula,
    code: Formula,
    domain: tuple[float, float],
    swapped: bool,
    traits: Traits = PLAIN,
    expand: Expansion | None = None,
) -> OpDef:
    """Register the form whose second operand, or if ``swapped`` the first, is an attribute."""
    return _register(
        names,
        "data",
        "scalar:double=1 is_int:bool=True",
        infer=with_scalar_type,
        ref=_scalar_form(ref, swapped),
        scalar=_scalar_code(code, swapped),
        expand=expand,
        domain=domain,
        traits=traits,
        doc=f"{doc} The {'first' if swapped else 'second'} operand is an attribute.",
    )


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integer quotient towards zero; NumPy rounds down. Division by zero gives infinity's
    integer."""
    down = np.floor_divide(a, b)
    whole, is_zero = down + ((down < 0) & (down * b != a)), b == 0
    return np.where(is_zero, scalar_of(np.inf, whole.dtype), whole) if is_zero.any() else whole


def _single_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotient of a scalar and integers: MXNet divides in single precision."""
    return np.divide(a.astype(FLOAT32), b.astype(FLOAT32))


def _single_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Power of integers, as in MXNet: in single precision, so at most 24 bits are exact."""
    base, exponent = (x.astype(FLOAT32).astype(FLOAT64) for x in (a, b))
    return np.power(base, exponent).astype(FLOAT32)


@on_integers(_single_power)
def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C's power. For an exponent of 0.5 NumPy uses sqrt, which differs at -0 and -inf."""
    y = np.power(a, b)
    if not np.any(b == 0.5):
        return y
    return np.where((b == 0.5) & ((a == 0) | (a == -np.inf)), np.abs(a), y)


def _small_power(g: Builder[X], data: X, *, scalar: float, is_int: bool) -> X | None:
    """x**2  =>  square(x), x**3  =>  square(x) * x

    GELU by tanh has such cubes in many files, and a general power takes 40 times as long.
    """
    if scalar not in (2.0, 3.0) or g.type(data).dtype not in (FLOAT32, FLOAT64):
        return None
    square = g.op(SQUARE, data, at="square")
    return square if scalar == 2.0 else g.op(MULTIPLY.strict, square, data, at="cube")


@on_integers(np.remainder)
def _modulo(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Remainder with the divisor's sign; 0 for a zero divisor."""
    rest = np.fmod(a, b)
    rest = np.where((rest != 0) & ((a < 0) != (b < 0)), rest + b, rest)
    return np.where(b == 0, 0, rest)


ADD = operation(
    "Sum.",
    exactly(np.add),
    lambda b, x, y: b.add(x, y),
    strict="elemwise_add _Plus _plus _add _sparse_elemwise_add _grad_add",
    twin="broadcast_add broadcast_plus _sparse_broadcast_add _sparse_broadcast_plus",
    scalar="_plus_scalar _PlusScalar",
    on_stored=_OF_SUM,
)
SUBTRACT = operation(
    "Difference.",
    exactly(np.subtract),
    lambda b, x, y: b.sub(x, y),
    strict="elemwise_sub _Minus _minus _sub _sparse_elemwise_sub",
    twin="broadcast_sub broadcast_minus _sparse_broadcast_sub _sparse_broadcast_minus",
    scalar="_minus_scalar _MinusScalar",
    reversed_scalar="_rminus_scalar _RMinusScalar",
    on_stored=_OF_SUM,
)
MULTIPLY = operation(
    "Product.",
    exactly(np.multiply),
    lambda b, x, y: b.mul(x, y),
    strict="elemwise_mul _Mul _mul _sparse_elemwise_mul",
    twin="broadcast_mul _sparse_broadcast_mul",
    scalar="_mul_scalar _MulScalar",
    on_stored=_OF_PRODUCT,
)
DIVIDE = operation(
    "Quotient; integers are truncated towards zero.",
    on_integers(_quotient)(np.divide),
    lambda b, x, y: b.div(x, y),
    domain=(0.5, 4.0),
    strict="elemwise_div _Div _div _sparse_elemwise_div",
    twin="broadcast_div _sparse_broadcast_div",
    scalar="_div_scalar _DivScalar",
    on_stored=_OF_QUOTIENT,
)
_register(
    "_scatter_elemwise_div",
    "lhs rhs",
    "",
    infer=same_number,
    ref=on_integers(_quotient)(np.divide),
    scalar=lambda b, x, y: b.div(x, y),
    domain=(0.5, 4.0),
    traits=Traits(on_stored=OnStored.SCATTERED_ROWS),
    doc="Quotient; for a row_sparse first operand in its stored rows.",
)
for _name, _ref, _method in (("plus", np.add, "add"), ("minus", np.subtract, "sub")):
    for_scalars(
        f"_scatter_{_name}_scalar",
        "Sum." if _name == "plus" else "Difference.",
        exactly(_ref),
        lambda b, x, y, method=_method: getattr(b, method)(x, y),
        (-4.0, 4.0),
        swapped=False,
        traits=Traits(on_stored=OnStored.SCATTERED, gradient_stored=GradientStored.HEAD),
    )
DIVIDED_BY = for_scalars(
    "_rdiv_scalar _RDivScalar",
    "Quotient; of integers in single precision, truncated towards zero.",
    on_integers(_single_quotient)(np.divide),
    lambda b, x, y: b.ratio(x, y),
    (0.5, 4.0),
    swapped=True,
)
operation(
    "Remainder with the divisor's sign, 0 for divisor 0.",
    _modulo,
    lambda b, x, y: b.mod(x, y),
    domain=(0.5, 4.0),
    strict="_mod _Mod",
    twin="broadcast_mod",
    scalar="_mod_scalar _ModScalar",
    reversed_scalar="_rmod_scalar _RModScalar",
    traits=Traits(flat_in_integers=True),
)
operation(
    "Power.",
    _power,
    lambda b, x, y: b.power(x, y),
    domain=(0.2, 3.0),
    strict="_power _Power",
    twin="broadcast_power",
    scalar="_power_scalar _PowerScalar",
    reversed_scalar="_rpower_scalar _RPowerScalar",
    traits=Traits(eager=Eager.NUMPY),
    expand=_small_power,
)
MAXIMUM = operation(
    "The larger element; NaN if either is NaN.",
    exactly(np.maximum),
    lambda b, x, y: b.max(x, y),
    strict="_maximum _Maximum",
    twin="broadcast_maximum",
    scalar="_maximum_scalar _MaximumScalar",
    on_stored=_OF_UNION,
)
MINIMUM = operation(
    "The smaller element; NaN if either is NaN.",
    exactly(np.minimum),
    lambda b, x, y: b.min(x, y),
    strict="_minimum _Minimum",
    twin="broadcast_minimum",
    scalar="_minimum_scalar _MinimumScalar",
    on_stored=_OF_UNION,
)
operation(
    "sqrt(a^2 + b^2).",
    in_floating(np.hypot),
    lambda b, x, y: b.hypot(x, y),
    strict="_hypot _Hypot",
    twin="broadcast_hypot",
    scalar="_hypot_scalar _HypotScalar",
    on_stored=_OF_UNION,
)


def _comparison(name: str, old: str, ref: Formula, method: str, doc: str) -> Forms:
    return operation(
        doc,
        exactly(ref),
        lambda b, x, y: indicator(b, getattr(b, method)(x, y)),
        strict=f"_{name} _{old}",
        twin=f"broadcast_{name}",
        scalar=f"_{name}_scalar _{old.replace('_', '')}Scalar",
        on_stored=_OF_COMPARISON,
    )


EQUAL = _comparison("equal", "Equal", np.equal, "eq", "1 where equal, else 0.")
NOT_EQUAL = _comparison("not_equal", "Not_Equal", np.not_equal, "ne", "1 where not equal, else 0.")
GREATER = _comparison("greater", "Greater", np.greater, "gt", "1 where greater, else 0.")
_comparison(
    "greater_equal", "Greater_Equal", np.greater_equal, "ge", "1 where greater or equal, else 0."
)
LESSER = _comparison("lesser", "Lesser", np.less, "lt", "1 where less, else 0.")
_comparison("lesser_equal", "Lesser_Equal", np.less_equal, "le", "1 where less or equal, else 0.")


def _mask_xor(b: ScalarBuilder[V], x: V, y: V) -> V:
    return b.mask_and(b.mask_or(x, y), b.mask_not(b.mask_and(x, y)))


def _logical(name: str, old: str, ref: Formula, join: Formula, doc: str) -> None:
    def code(b: ScalarBuilder[V], x: V, y: V) -> V:
        zero = b.const(0.0)
        return indicator(b, join(b, b.ne(x, zero), b.ne(y, zero)))

    operation(
        doc,
        exactly(ref),
        code,
        strict=f"_logical_{name} _Logical_{old}",
        twin=f"broadcast_logical_{name}",
        scalar=f"_logical_{name}_scalar _Logical{old}Scalar",
    )


_logical(
    "and",
    "And",
    np.logical_and,
    lambda b, x, y: b.mask_and(x, y),
    "1 where both are nonzero, else 0.",
)
_logical(
    "or", "Or", np.logical_or, lambda b, x, y: b.mask_or(x, y), "1 where either is nonzero, else 0."
)
_logical("xor", "Xor", np.logical_xor, _mask_xor, "1 where exactly one is nonzero, else 0.")


def _some_equal_types(ins: Types, outs: Types, *, num_args: int) -> tuple[Types, Types]:
    if not ins:
        raise ShapeError(f"add_n needs at least one operand, got {num_args}")
    return same_number(ins, outs)


def _sum_of_all(first: np.ndarray, *rest: np.ndarray, num_args: int) -> np.ndarray:
    return np.array(reduce(np.add, rest, first), first.dtype, order="C")


def _only(g: Builder[X], *inputs: X, num_args: int) -> X | None:
    """add_n(x)  =>  x"""
    return inputs[0] if len(inputs) == 1 else None


ADD_N = register(
    "add_n",
    "args...",
    "num_args:int[1,16384]!",
    infer=_some_equal_types,
    ref=_sum_of_all,
    scalar=lambda b, *values, num_args: reduce(b.add, values),
    expand=_only,
    aliases="ElementWiseSum _sparse_add_n _sparse_ElementWiseSum",
    traits=Traits(on_stored=OnStored.SUM, gradient_stored=GradientStored.HEAD),
    doc="Sum of any number of equal shapes.",
)
