"""Element types of NumPy mode, and records that share the definition of a classic operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.types import FLOAT32, INT64, TensorType
from ...errors import DTypeError
from ..attrs import Declared
from ..building import Builder, X
from ..elementwise.element_type import cast
from ..record import PLAIN, OpDef, Traits
from ..registry import add, lookup
from ..rules import Types, broadcast_shapes, merged

BOOL = np.dtype("bool")
ON_HOST = Traits(parts_on_host=True)
UINT8 = np.dtype("uint8")
# From the widest to the narrowest: promotion selects the earlier one.
_INTEGERS = [np.dtype(name) for name in ("int64", "int32", "uint8", "int8", "bool")]
_SMALL = {np.dtype("uint8"), np.dtype("int8")}


def twin(name: str, classic: str, inputs: str = "", doc: str = "", **fields: Any) -> OpDef:
    """Register ``name`` with the definition of a classic operator, into which it expands.

    ``inputs`` are the names of its inputs, ``fields`` the fields of the record that differ.
    """
    op = lookup(classic)

    def as_classic(g: Builder[X], *operands: X, **attrs: Any) -> Any:
        made = g.outputs(op, *operands, **attrs)
        return made if len(made) > 1 else made[0]

    as_classic.__doc__ = f"{name}(x)  =>  {op.name}(x)"
    traits = replace(PLAIN, samples=op.traits.samples, random=op.traits.random)
    own = {"inputs": tuple(inputs.split()) or op.inputs, "doc": doc or op.doc, **fields}
    made = replace(
        op,
        name=name,
        aliases=(),
        scalar=None,
        slope=None,
        grad=None,
        expand=as_classic,
        kernel="host",
        traits=traits,
    )
    return add(replace(made, **own))


def promoted(a: np.dtype, b: np.dtype) -> np.dtype:
    """Element type of the sum of two arrays. Raises DTypeError for int8 and uint8."""
    if a == b:
        return a
    floats = [t for t in (a, b) if t.kind == "f"]
    if floats:
        return max(floats, key=lambda t: t.itemsize)
    if {a, b} == _SMALL:
        raise DTypeError("int8 and uint8 have no common element type: cast one of them")
    return min(a, b, key=_INTEGERS.index)


def promoted_number(a: np.dtype, b: np.dtype) -> np.dtype:
    """:func:`promoted`, for operators that do not accept two bools."""
    if a == b == BOOL:
        raise DTypeError(f"this operator takes numbers, got {a.name} and {b.name}")
    return promoted(a, b)


def equal_type(a: np.dtype, b: np.dtype) -> np.dtype:
    """Common element type of two operands, which must be equal. Raises DTypeError."""
    if a != b:
        raise DTypeError(
            f"operands must have one element type, got {a.name} and {b.name}: cast one of them"
        )
    return a


def equal_number(a: np.dtype, b: np.dtype) -> np.dtype:
    """:func:`equal_type`, without bool."""
    if equal_type(a, b) == BOOL:
        raise DTypeError("this operator takes numbers, got bool")
    return a


def equal_float(a: np.dtype, b: np.dtype) -> np.dtype:
    """:func:`equal_type`, for floating types only."""
    if equal_type(a, b).kind != "f":
        raise DTypeError(f"this operator takes floating types, got {a.name}")
    return a


def equal_integer(a: np.dtype, b: np.dtype) -> np.dtype:
    """:func:`equal_type`, for integers and bools only."""
    if equal_type(a, b).kind == "f":
        raise DTypeError(f"this operator takes integers, got {a.name}")
    return a


def quotient_type(a: np.dtype, b: np.dtype) -> np.dtype:
    """float32 for two integers of one type; the floating type if one operand is floating."""
    if a.kind == "f" or b.kind == "f":
        if a.kind == b.kind:
            return equal_type(a, b)
        return a if a.kind == "f" else b
    return equal_type(a, b) and FLOAT32


def total_type(dtype: np.dtype) -> np.dtype:
    """Element type of a sum: int64 for bools."""
    return INT64 if dtype == BOOL else dtype


PairRule = Callable[[np.dtype, np.dtype], np.dtype]


def pair_types(result: PairRule, boolean: bool = False) -> Callable[..., tuple[Types, Types]]:
    """Type rule of a broadcasting binary operator; ``boolean`` results are bool."""

    def infer(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
        a, b = ins
        dtype = shape = None
        if a.dtype is not None and b.dtype is not None:
            dtype = BOOL if result(a.dtype, b.dtype) and boolean else result(a.dtype, b.dtype)
        if a.shape is not None and b.shape is not None:
            shape = broadcast_shapes(a.shape, b.shape)
        return ins, merged(outs, (TensorType(shape, dtype),))

    return infer


def each_type(result: Callable[[np.dtype], np.dtype]) -> Callable[..., tuple[Types, Types]]:
    """Type rule of a unary operator whose result has the operand's shape."""

    def infer(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
        (data,) = ins
        dtype = None if data.dtype is None else result(data.dtype)
        return ins, merged(outs, (TensorType(data.shape, dtype),))

    return infer


def truth(g: Builder[X], x: X, at: str = "") -> X:
    """``x != 0`` as bool."""
    return cast(g, x, BOOL, at=at)


def as_number(g: Builder[X], x: X, at: str) -> X:
    """A bool operand as uint8; other operands unchanged."""
    return cast(g, x, UINT8, at=at) if g.type(x).dtype == BOOL else x


def near(offset: int, data: np.ndarray) -> int:
    """A diagonal's offset, limited to one beyond the array.

    NumPy 2.4 terminates the process for offsets of -2**31.
    """
    return max(-data.size - 1, min(offset, data.size + 1))
