"""Products of NumPy mode: dot, matmul, tensordot and einsum, expanded to classic products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.types import FLOAT64, FLOATS, Shape, TensorType, product, shape_text
from ...errors import AttributeValueError, DTypeError, ShapeError
from ..algebra import as_shape, mul, total
from ..building import Builder, X
from ..casting import convert
from ..elementwise.element_type import cast
from ..nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ..registry import lookup, register
from ..rules import ForwardRule, Types, forward, normalized_axis, same_dtype
from ..tensor.primitives import broadcast, reshape, transpose
from .forms import equal_type


def _two_floats(what: str, a: TensorType, b: TensorType) -> np.dtype:
    assert a.dtype is not None and b.dtype is not None
    dtype = equal_type(a.dtype, b.dtype)
    if dtype not in FLOATS:
        raise DTypeError(f"{what} takes float32 and float64, got {dtype.name}")
    return dtype


def _meet(what: str, a: Shape, b: Shape, inner_a: Sequence[int], inner_b: Sequence[int]) -> None:
    found = [a[i] for i in inner_a], [b[i] for i in inner_b]
    if found[0] != found[1]:
        raise ShapeError(
            f"{what} of {shape_text(a)} and {shape_text(b)} would sum over axes of sizes "
            f"{shape_text(tuple(found[0]))} and {shape_text(tuple(found[1]))}: they must be equal"
        )


Pairs = tuple[tuple[int, ...], tuple[int, ...]]


def contracted(g: Builder[X], a: X, b: X, inner: Pairs) -> X:
    """Contraction over pairs of axes, as a matrix product of reshaped operands."""
    dims_a, dims_b = g.type(a).dims, g.type(b).dims
    outer_a = tuple(i for i in range(len(dims_a)) if i not in inner[0])
    outer_b = tuple(i for i in range(len(dims_b)) if i not in inner[1])
    k = product(tuple(dims_a[i] for i in inner[0]))
    shape_a, shape_b = (tuple(d[i] for i in o) for d, o in ((dims_a, outer_a), (dims_b, outer_b)))
    rows = transpose(g, a, (*outer_a, *inner[0]), at="a")
    rows = reshape(g, rows, (product(shape_a), k), at="rows")
    columns = transpose(g, b, (*outer_b, *inner[1]), at="b")
    columns = reshape(g, columns, (product(shape_b), k), at="columns")
    count = product(shape_b)
    made = g.op(FULLY_CONNECTED, rows, columns, at="product", num_hidden=count, no_bias=True)
    return reshape(g, made, (*shape_a, *shape_b))


Axes = Callable[..., Pairs]


def _completing(axes_of: Axes, rule: ForwardRule) -> Callable[..., tuple[Types, Types]]:
    """Wrap ``rule`` so that unknown sizes are inferred: both axes of a pair have the same size."""
    known = forward(rule)

    def infer(ins: Types, outs: Types, **values: Any) -> tuple[Types, Types]:
        a, b = ins
        dtype = same_dtype(a, b) if None in (a.dtype, b.dtype) else None
        a, b = (t.with_dtype(t.dtype or dtype) for t in ins)
        if a.shape and b.shape and None in (*a.shape, *b.shape):
            a, b = _completed(a, b, axes_of(a.shape, b.shape, **values))
        return known((a, b), outs, **values)

    return infer


def _completed(a: TensorType, b: TensorType, inner: Pairs) -> tuple[TensorType, TensorType]:
    assert a.shape is not None and b.shape is not None
    left, right = list(a.shape), list(b.shape)
    for i, j in zip(*inner):
        left[i] = right[j] = left[i] if right[j] is None else right[j]
    return a.with_shape(tuple(left)), b.with_shape(tuple(right))


def _contracting(name: str, attrs: str, axes_of: Axes, doc: str, scales: bool = False) -> None:
    """Register a product that sums over the pairs of axes that ``axes_of`` returns."""

    def rule(a: TensorType, b: TensorType, **values: Any) -> TensorType:
        dtype = _two_floats(name, a, b)
        if scales and not (a.ndim and b.ndim):
            return TensorType(a.dims or b.dims, dtype)
        inner = axes_of(a.dims, b.dims, **values)
        _meet(name, a.dims, b.dims, *inner)
        rest = [d for i, d in enumerate(a.dims) if i not in inner[0]]
        rest += [d for i, d in enumerate(b.dims) if i not in inner[1]]
        return TensorType(tuple(rest), dtype)

    def ref(a: np.ndarray, b: np.ndarray, **values: Any) -> np.ndarray:
        if scales and not (a.ndim and b.ndim):
            return np.asarray(a * b)
        inner = axes_of(a.shape, b.shape, **values)
        if a.ndim <= 2 >= b.ndim and inner == _dot_axes(a.shape, b.shape):
            return np.asarray(np.dot(a, b))  # half of the time of tensordot for small operands
        return np.asarray(np.tensordot(a, b, inner))

    def expand(g: Builder[X], a: X, b: X, **values: Any) -> X:
        """dot(a, b), tensordot(a, b)  =>  FullyConnected(rows of a, columns of b)"""
        dims = g.type(a).dims, g.type(b).dims
        if scales and not all(dims):
            return mul(g, a, b)
        return contracted(g, a, b, axes_of(*dims, **values))

    infer = _completing(axes_of, rule)
    register(name, "a b", attrs, infer=infer, ref=ref, expand=expand, doc=doc)


def _dot_axes(a: Shape, b: Shape) -> Pairs:
    return (len(a) - 1,), (max(len(b) - 2, 0),)


def _named_axes(a: Shape, b: Shape, a_axes_summed: Shape, b_axes_summed: Shape) -> Pairs:
    if len(a_axes_summed) != len(b_axes_summed):
        raise ShapeError(
            f"tensordot sums over pairs of axes, got {a_axes_summed} and {b_axes_summed}"
        )
    pairs = (
        tuple(normalized_axis(i, len(a)) for i in a_axes_summed),
        tuple(normalized_axis(i, len(b)) for i in b_axes_summed),
    )
    if any(len(set(side)) != len(side) for side in pairs):
        raise ShapeError(f"tensordot names an axis twice: {a_axes_summed} and {b_axes_summed}")
    return pairs


def _last_axes(a: Shape, b: Shape, axes: int) -> Pairs:
    if not 0 <= axes <= min(len(a), len(b)):
        raise ShapeError(f"tensordot over {axes} axes of {shape_text(a)} and {shape_text(b)}")
    return tuple(range(len(a) - axes, len(a))), tuple(range(axes))


_contracting(
    "_np_dot",
    "",
    _dot_axes,
    "Sum of products over the last axis of a and the last but one of b.",
    True,
)
_contracting(
    "_npi_tensordot",
    "a_axes_summed:shape! b_axes_summed:shape!",
    _named_axes,
    "Sum of products over pairs of axes.",
)
_contracting(
    "_npi_tensordot_int_axes",
    "axes:int!",
    _last_axes,
    "Sum of products over the last axes of a and the first axes of b.",
)


def _matmul_rule(a: TensorType, b: TensorType) -> TensorType:
    dtype = _two_floats("matmul", a, b)
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul takes operands with axes, got a scalar")
    _meet("matmul", a.dims, b.dims, (a.ndim - 1,), (max(b.ndim - 2, 0),))
    lead = _leading(a.dims, b.dims)
    rows = a.dims[-2:-1] if a.ndim > 1 else ()
    columns = b.dims[-1:] if b.ndim > 1 else ()
    return TensorType((*lead, *rows, *columns), dtype)


def _leading(a: Shape, b: Shape) -> Shape:
    try:
        return np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ShapeError(f"the leading axes of {a} and {b} do not broadcast") from None


def _matrix_product(g: Builder[X], a: X, b: X) -> X:
    """matmul(a, b)  =>  FullyConnected, or batch_dot over broadcast leading axes"""
    dims_a, dims_b = g.type(a).dims, g.type(b).dims
    if len(dims_b) <= 2:
        return contracted(g, a, b, _dot_axes(dims_a, dims_b))
    lead = _leading(dims_a, dims_b)
    full_a = dims_a if len(dims_a) > 1 else (1, *dims_a)
    sides = []
    for x, matrix, at in ((a, full_a, "a"), (b, dims_b, "b")):
        axes = (1,) * (len(lead) - len(matrix) + 2) + matrix
        wide = broadcast(g, reshape(g, x, axes, at=f"{at}_axes"), (*lead, *matrix[-2:]), at=at)
        sides.append(reshape(g, wide, (product(lead), *matrix[-2:]), at=f"{at}_batch"))
    made = g.op(BATCH_DOT, *sides, at="product")
    rows = dims_a[-2:-1] if len(dims_a) > 1 else ()
    return reshape(g, made, (*lead, *rows, dims_b[-1]))


register(
    "_npi_matmul",
    "a b",
    infer=_completing(_dot_axes, _matmul_rule),
    ref=lambda a, b: np.asarray(np.matmul(a, b)),
    expand=_matrix_product,
    doc="Matrix product over the last two axes, broadcast over the others.",
)


# einsum


def parsed(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Letters of each operand and of the result; Greek letters represent the axes of ``...``.

    Raises AttributeValueError for subscripts that do not match the operands.
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise AttributeValueError(
            f"einsum {subscripts!r} names {len(terms)} operands, but {len(ranks)} are given"
        )
    named = [len(term.replace("...", "")) for term in terms]
    extra = max((r - n for t, r, n in zip(terms, ranks, named) if "..." in t), default=0)
    wide = [_written_out(t, r - n) for t, r, n in zip(terms, ranks, named)]
    if any(len(t) != r for t, r in zip(wide, ranks)):
        raise AttributeValueError(f"einsum {subscripts!r} does not match operands of ranks {ranks}")
    dots = _DOTS[len(_DOTS) - extra :] if extra else ""
    if not arrow:
        letters = sorted({c for t in wide for c in t if c not in _DOTS})
        counted = [c for c in letters if sum(t.count(c) for t in wide) == 1]
        return wide, dots + "".join(counted)
    result = right.replace("...", dots)
    if len(set(result)) != len(result) or any(c not in "".join(wide) for c in result):
        raise AttributeValueError(
            f"einsum {subscripts!r} has letters in the result that no operand has"
        )
    return wide, result


_DOTS = "".join(map(chr, range(0x3B1, 0x3B1 + 16)))  # Greek: users' subscripts are Latin letters


def _written_out(term: str, count: int) -> str:
    if "..." not in term:
        return term
    if count < 0:
        return term + "?" * 40
    return term.replace("...", _DOTS[len(_DOTS) - count :] if count else "")


def _letter_sizes(terms: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes):
        for letter, size in zip(term, shape):
            known = sizes.setdefault(letter, size)
            if size != known and 1 not in (size, known):
                raise ShapeError(f"einsum's axis {letter} has the sizes {known} and {size}")
            sizes[letter] = size if known == 1 else known
    return sizes


def _einsum_rule(
    *operands: TensorType, num_args: int, subscripts: str, optimize: int
) -> TensorType:
    if not operands:
        raise ShapeError("einsum needs at least one operand")
    dtype = operands[0].dtype
    for t in operands:
        assert dtype is not None and t.dtype is not None
        equal_type(dtype, t.dtype)
    terms, result = parsed(subscripts, [t.ndim for t in operands])
    sizes = _letter_sizes(terms, [t.dims for t in operands])
    return TensorType(tuple(sizes[c] for c in result), dtype)


def _einsum(*operands: np.ndarray, num_args: int, subscripts: str, optimize: int) -> np.ndarray:
    terms, result = parsed(subscripts, [x.ndim for x in operands])
    sizes = _letter_sizes(terms, [x.shape for x in operands])
    numbers = {c: i for i, c in enumerate(sizes)}
    given: list[Any] = []
    for x, term in zip(operands, terms):
        full = np.broadcast_to(x, tuple(sizes[c] for c in term))
        given += [full, [numbers[c] for c in term]]
    found = np.einsum(*given, [numbers[c] for c in result], optimize=len(operands) > 2)
    return convert(np.asarray(found), operands[0].dtype)


def _einsum_parts(g: Builder[X], *operands: X, num_args: int, subscripts: str, optimize: int) -> X:
    """einsum(a, b, ...)  =>  pairwise products, then a sum and a transpose"""
    dtype = g.type(operands[0]).dtype
    if dtype not in FLOATS:
        wide = [cast(g, x, FLOAT64, at=f"float{i}") for i, x in enumerate(operands)]
        given = {"num_args": num_args, "subscripts": subscripts, "optimize": optimize}
        return cast(g, _einsum_parts(g, *wide, **given), dtype)  # type: ignore[arg-type]
    terms, result = parsed(subscripts, [g.type(x).ndim for x in operands])
    sizes = _letter_sizes(terms, [g.type(x).dims for x in operands])
    made, letters = _single(g, operands[0], terms[0], sizes, "0")
    for i, (x, term) in enumerate(zip(operands[1:], terms[1:]), 1):
        x, term = _single(g, x, term, sizes, str(i))
        later = set(result).union(*terms[i + 1 :])
        made, letters = _pair_product(g, made, letters, x, term, later, sizes)
    gone = tuple(i for i, c in enumerate(letters) if c not in result)
    made = total(g, made, gone, keepdims=False) if gone else made
    kept = "".join(c for c in letters if c in result)
    made = as_shape(g, made, tuple(sizes[c] for c in kept))
    return transpose(g, made, tuple(kept.index(c) for c in result))


def _single(g: Builder[X], x: X, term: str, sizes: dict[str, int], at: str) -> tuple[X, str]:
    """Operand in which each letter occurs once: repeated letters take diagonals."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            a = term.index(letter)
            b = term.index(letter, a + 1)
            x = g.op(lookup("diag"), x, at=f"diagonal{at}", axis1=a, axis2=b)
            term = term[:a] + term[a + 1 : b] + term[b + 1 :] + letter
    shape = tuple(sizes[c] for c in term)
    return broadcast(g, x, shape, at=f"wide{at}"), term


def _pair_product(
    g: Builder[X], a: X, left: str, b: X, right: str, later: set[str], sizes: dict[str, int]
) -> tuple[X, str]:
    """Product of two operands, summed over letters that neither the result nor ``later`` has."""
    batch = [c for c in left if c in right and c in later]
    inner = [c for c in left if c in right and c not in later]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    if not inner:
        return _outer(g, a, left, b, right, sizes)

    def matrices(x: X, term: str, outer: list[str], last: list[str], at: str) -> X:
        order = [*batch, *outer, *last]
        permuted = transpose(g, x, tuple(term.index(c) for c in order), at=at)
        shape = tuple(product(tuple(sizes[c] for c in part)) for part in (batch, outer, last))
        return reshape(g, permuted, shape if batch else shape[1:], at=f"{at}_matrices")

    lhs = matrices(a, left, rows, inner, "lhs")
    if batch:
        made = g.op(BATCH_DOT, lhs, matrices(b, right, inner, columns, "rhs"), at="product")
    else:
        count = product(tuple(sizes[c] for c in columns))
        rhs = matrices(b, right, columns, inner, "rhs")
        made = g.op(FULLY_CONNECTED, lhs, rhs, at="product", num_hidden=count, no_bias=True)
    letters = "".join([*batch, *rows, *columns])
    return reshape(g, made, tuple(sizes[c] for c in letters), at="found"), letters


def _outer(
    g: Builder[X], a: X, left: str, b: X, right: str, sizes: dict[str, int]
) -> tuple[X, str]:
    """Elementwise product of operands broadcast to all letters of both."""
    letters = left + "".join(c for c in right if c not in left)
    order = [c for c in letters if c in right]
    turned = transpose(g, b, tuple(right.index(c) for c in order), at="turned")
    shape_a = tuple(sizes[c] if c in left else 1 for c in letters)
    shape_b = tuple(sizes[c] if c in right else 1 for c in letters)
    pair = reshape(g, a, shape_a, at="lhs_axes"), reshape(g, turned, shape_b, at="rhs_axes")
    return mul(g, *pair), letters


register(
    "_npi_einsum",
    "data...",
    "num_args:int[1,16384]! subscripts:string= optimize:int=0",
    infer=forward(_einsum_rule),
    ref=_einsum,
    expand=_einsum_parts,
    doc="Sum of products that subscripts describe.",
)
