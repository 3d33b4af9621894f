"""ONNX's products of matrices."""

from __future__ import annotations

import math

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .pointwise import broadcast_shape, to_shape
from .table import translates


@translates("MatMul")
def matmul(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """The product of the last two axes, of the others as they are broadcast."""
    left, right = g.rank(a), g.rank(b)
    if right == 2 and left >= 2 and b.is_constant:
        weight = g.op("transpose", b, axes=(1, 0), at="weight")
        filters = g.shape(weight)[0]
        return g.op("FullyConnected", a, weight, num_hidden=filters, no_bias=True, flatten=False)
    if left <= 2 and right <= 2:
        return _of_matrices(g, a, b)
    return _batched(g, a, b)


def _of_matrices(g: Importer, a: Value, b: Value) -> Value:
    made = g.op("dot", a, b)
    return g.scalar(made) if g.rank(a) == g.rank(b) == 1 else made


def _batched(g: Importer, a: Value, b: Value) -> Value:
    """Both as three axes; batches of one matrix are broadcast."""
    is_row, is_column = g.rank(a) == 1, g.rank(b) == 1
    a = g.op("expand_dims", a, axis=0, at="row") if is_row else a
    b = g.op("expand_dims", b, axis=1, at="column") if is_column else b
    first, second = g.shape(a), g.shape(b)
    outer = broadcast_shape(first[:-2], second[:-2])
    count = math.prod(outer)
    flat = [
        g.op(
            "Reshape", to_shape(g, x, (*outer, *shape[-2:])), shape=(count, *shape[-2:]), at="flat"
        )
        for x, shape in ((a, first), (b, second))
    ]
    made = g.op("batch_dot", *flat, at="product")
    ends = (() if is_row else first[-2:-1]) + (() if is_column else second[-1:])
    return g.op("Reshape", made, shape=(*outer, *ends))


@translates("Det")
def determinant(g: Importer, use: Use, x: Value) -> Value:
    """Of each matrix."""
    made = g.op("_linalg_det", x)
    return made if g.rank(x) > 2 else g.scalar(made)


@translates("Gemm")
def gemm(g: Importer, use: Use, a: Value, b: Value, c: Value | None = None) -> Value:
    """alpha * a b + beta * c, of either or both transposed: a dense layer."""
    alpha, beta = use.real("alpha", 1.0), use.real("beta", 1.0)
    if use.number("transA"):
        a = g.op("transpose", a, axes=(1, 0), at="a")
    if not use.number("transB"):
        b = g.op("transpose", b, axes=(1, 0), at="b")
    if alpha != 1:
        b = g.op("_mul_scalar", b, scalar=alpha, at="alpha")
    if c is not None and beta != 1:
        c = g.op("_mul_scalar", c, scalar=beta, at="beta")
    filters = g.shape(b)[0]
    if c is not None and g.shape(c) in ((filters,), (1, filters)):
        bias = g.op("Reshape", c, shape=(-1,), at="bias") if g.rank(c) == 2 else c
        return g.op("FullyConnected", a, b, bias, num_hidden=filters, flatten=False)
    at = "" if c is None else "product"
    made = g.op("FullyConnected", a, b, num_hidden=filters, no_bias=True, flatten=False, at=at)
    return made if c is None else g.op("broadcast_add", made, c)


@translates("Einsum")
def einsum(g: Importer, use: Use, *xs: Value) -> Value:
    """Sums of products of up to two operands, as a transposition, a sum or a batched product."""
    text = use.text("equation").replace(" ", "")
    if "." in text or len(xs) > 2:
        raise MXNetError(f"the equation '{text}': of one or two operands without dots are there")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if not arrow:
        letters = sorted(set("".join(terms)))
        result = "".join(letter for letter in letters if left.count(letter) == 1)
    if any(len(set(term)) != len(term) for term in terms):
        raise MXNetError(f"the equation '{text}' names an axis twice in one operand")
    if len(xs) == 1:
        return _arranged(g, _summed(g, xs[0], terms[0], result), result)
    return _product(g, xs, terms, result)


Lettered = tuple[Value, str]


def _summed(g: Importer, x: Value, term: str, kept: str) -> Lettered:
    """``x`` summed over the axes whose letters are not kept, and the letters that are left."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in kept)
    left = "".join(letter for letter in term if letter in kept)
    if not axes:
        return x, term
    made = g.op("sum", x, axis=axes, at="sum")
    return (made if left else g.scalar(made)), left


def _arranged(g: Importer, lettered: Lettered, result: str) -> Value:
    x, term = lettered
    if term == result:
        return g.op("identity", x)
    return g.op("transpose", x, axes=tuple(term.index(letter) for letter in result))


def _product(g: Importer, xs: tuple[Value, ...], terms: list[str], result: str) -> Value:
    """A batched product: letters of both and the result, of one operand, and those summed over."""
    pairs = [
        _summed(g, x, term, other + result) for x, term, other in zip(xs, terms, reversed(terms))
    ]
    (a, first), (b, second) = pairs
    both = "".join(c for c in first if c in second and c in result)
    inner = "".join(c for c in first if c in second and c not in result)
    rows = "".join(c for c in first if c not in second)
    columns = "".join(c for c in second if c not in first)
    sizes = dict(zip(first, g.shape(a))) | dict(zip(second, g.shape(b)))
    count = {name: math.prod(sizes[c] for c in name) for name in {both, inner, rows, columns}}
    left = g.op(
        "Reshape",
        _arranged(g, (a, first), both + rows + inner),
        shape=(count[both], count[rows], count[inner]),
    )
    right = g.op(
        "Reshape",
        _arranged(g, (b, second), both + inner + columns),
        shape=(count[both], count[inner], count[columns]),
    )
    made = g.op("batch_dot", left, right, at="product")
    whole = both + rows + columns
    made = g.op("Reshape", made, shape=tuple(sizes[c] for c in whole) or (1,), at="axes")
    return _arranged(g, (made, whole), result) if whole else g.scalar(made)
