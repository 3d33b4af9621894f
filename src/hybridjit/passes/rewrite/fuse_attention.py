"""Fuse attention: softmax(batch_dot(q, k^T) factor + biases) times v becomes one operator.

Scores may be replaced where a mask is 0; the mask may apply to the weights as well (gluon-nlp
multiplies by it, ``masked_softmax`` selects), and rows may have lengths. The kernel computes scores
a tile at a time and never stores the matrix of them. Weights of attention that something else
reads, as the backward pass does, are computed by three kernels; so are graphs in bfloat16, whose
products multiply pairs of elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..._core.frozen import dataclass
from ..._core.symbolic import Size
from ..._core.types import FLOAT32, FLOAT64, Shape
from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.elementwise.element_type import cast
from ...ops.nn.matrix_products import BATCH_DOT
from ...ops.nn.softmax import SOFTMAX
from ...ops.registry import lookup
from ...ops.sequence.attention import ATTENTION
from ...ops.tensor.new_arrays import FULL, ONES, ZEROS
from ...ops.tensor.primitives import BROADCAST_TO, RESHAPE_TO, TRANSPOSE, reshape, transpose
from ...ops.tensor.selection import WHERE

# Minimum rows of queries. Keys and values are packed once for all of them: 8 heads of width 64 and
# 512 keys take 0.220 ms with 16 rows, the three kernels 0.225 (AMD EPYC, AVX-512).
_ROWS = 16
# Minimum keys: scores of fewer stay in the second-level cache between the kernels. 12 heads of
# width 64, one kernel and three, in ms: 197 steps 1.37 and 1.27, 256 steps 2.12 and 2.09, 384
# steps 5.0 and 6.1, 1024 steps 32.8 and 41.8 (AMD EPYC, AVX-512).
_KEYS = 320
_BOOL = np.dtype("bool")
_ADDS = (lookup("broadcast_add"), lookup("elemwise_add"))
_PRODUCTS = (lookup("broadcast_mul"), lookup("elemwise_mul"))
_RATIOS = (lookup("broadcast_div"), lookup("elemwise_div"))
_TIMES, _OVER, _UNDER = (lookup(name) for name in ("_mul_scalar", "_div_scalar", "_rdiv_scalar"))


def fuse_attention(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Replace attention by one operator, in the precision of its operands."""
    if graph.purpose.precision == "bfloat16":
        return graph
    return rewrite(graph, (attention_in_one,), fired)


class _Place(NamedTuple):
    """A value of the rewritten graph, and the value of the old graph that it stands for."""

    new: Value
    old: Value

    def inputs(self, match: Match) -> Iterator[tuple[_Place, Use]]:
        """The operands that only this value reads, each with its use."""
        for use, was in zip(self.new.inputs, self.old.inputs):
            alone = match.graph.uses[was.value] == (self.old,)
            if alone and was.value not in match.graph.output_values:
                yield _Place(use.value, was.value), use


@dataclass(frozen=True)
class _Scores:
    """Products of queries and transposed keys, times a factor, plus biases; ``fill`` where a mask
    is 0.

    Each bias, and the mask, has the shape of the scores to which it is applied.
    """

    query: Use
    keys: Use
    scale: float = 1.0
    factor: Use | None = None
    biases: tuple[tuple[Use, Shape], ...] = ()
    mask: tuple[Use, Shape] | None = None
    fill: float | None = None

    @property
    def operands(self) -> tuple[Use, ...]:
        """All operands that may have an axis of samples and heads."""
        masks = () if self.mask is None else (self.mask[0],)
        return (self.query, self.keys, *(use for use, _ in self.biases), *masks)


class _Weights(NamedTuple):
    """The softmax, and the operation that applies a mask to its result, if any."""

    softmax: _Place
    after: str = "none"
    mask: Use | None = None


@rule("batch_dot(softmax(factor batch_dot(q, k) + biases), v)  =>  _attention(q, k, v)", BATCH_DOT)
def attention_in_one(value: Value, match: Match) -> Replacement:
    first = next((p for p, use in _Place(value, match.old).inputs(match)), None)
    if first is None or first.old is not match.old.inputs[0].value:
        return None
    weights = _weights(first, match)
    if weights is None or not _is_softmax_of_rows(weights.softmax.new):
        return None
    found = next(iter(weights.softmax.inputs(match)), None)
    scores = found and _scores(found[0], match, building(value))
    if scores is None or not _is_worth_it(value, scores) or not _masks_agree(weights, scores):
        return None
    lead = _lead(weights.softmax.new.shape, [*value.inputs[1:], *scores.operands])
    return None if lead is None else _fused(value, scores, weights, lead)


def _weights(place: _Place, match: Match) -> _Weights | None:
    """The weights that a value is, behind reshapes that keep rows and at most one mask."""
    value = place.new
    if value.op is SOFTMAX:
        return _Weights(place)
    for source, use in place.inputs(match):
        if value.op is RESHAPE_TO and value.shape[-2:] == use.type.dims[-2:]:
            return _weights(source, match)
        mask = _mask_of_weights(value, use)
        if mask is not None and use.type.dims == value.shape:
            inner = _weights(source, match)
            if inner is not None and inner.mask is None:
                after = "where" if value.op is WHERE else "times"
                return inner._replace(after=after, mask=mask)
    return None


def _mask_of_weights(value: Value, use: Use) -> Use | None:
    """The mask that ``value`` applies to the weights ``use``: it multiplies, or selects 0."""
    if value.op in _PRODUCTS:
        return next((other for other in value.inputs if other is not use), None)
    if value.op is WHERE and value.inputs[1] is use and _constant(value.inputs[2]) == 0.0:
        return value.inputs[0]
    return None


def _masks_agree(weights: _Weights, scores: _Scores) -> bool:
    """Whether weights and scores have the same mask, if the weights have one."""
    if weights.mask is None:
        return True
    if scores.mask is None or _before_reshapes(weights.mask) != _before_reshapes(scores.mask[0]):
        return False
    return weights.after != "times" or weights.mask.type.dtype == scores.query.type.dtype


def _before_reshapes(use: Use) -> Use:
    while use.value.op is RESHAPE_TO:
        use = use.value.inputs[0]
    return use


def _constant(use: Use) -> float | None:
    """The number that all elements are, if it is known."""
    value = use.value
    if value.op in (RESHAPE_TO, BROADCAST_TO):
        return _constant(value.inputs[0])
    if value.op is _TIMES:
        inner = _constant(value.inputs[0])
        return None if inner is None else inner * value.attrs["scalar"]
    if value.op in (ZEROS, ONES):
        return 0.0 if value.op is ZEROS else 1.0
    return value.attrs["value"] if value.op is FULL else None


def _is_softmax_of_rows(value: Value) -> bool:
    return value.op is SOFTMAX and value.attrs["axis"] in (-1, len(value.shape) - 1)


def _scores(place: _Place, match: Match, g: ValueBuilder) -> _Scores | None:
    """The scores that a value is, if it is made of a product of queries and keys."""
    value, shape = place.new, place.new.shape
    if value.op is BATCH_DOT:
        query, keys = value.inputs
        return _Scores(query, keys)
    for source, use in place.inputs(match):
        if use.type.dims[-2:] != shape[-2:]:
            continue
        if value.op is RESHAPE_TO:
            return _scores(source, match, g)
        if use.type.dims != shape or value.op is None:
            continue
        inner = _scores(source, match, g)
        if inner is not None:
            return _extended(value, use, inner, g)
    return None


def _extended(value: Value, use: Use, inner: _Scores, g: ValueBuilder) -> _Scores | None:
    """The scores after one more operation on ``inner``, which is the operand ``use``."""
    others = [other for other in value.inputs if other is not use]
    if value.op in (_TIMES, _OVER):
        return _times(inner, value.attrs["scalar"], value.op is _OVER)
    if inner.mask is not None:
        return None
    if value.op is WHERE and value.inputs[1] is use:
        return _masked(value, inner)
    if value.op in _ADDS and len(others) == 1:
        return replace(inner, biases=(*inner.biases, (others[0], value.shape)))
    if inner.biases or len(others) != 1 or others[0].type.size != 1 or inner.factor is not None:
        return None
    factor = reshape(g, others[0], (1,), at="factor")
    if value.op in _PRODUCTS:
        return replace(inner, factor=factor)
    if value.op in _RATIOS and value.inputs[0] is use:
        return replace(inner, factor=g.op(_UNDER, factor, at="inverse", scalar=1.0))
    return None


def _times(inner: _Scores, number: float, is_divisor: bool) -> _Scores | None:
    """The scores times or over a scalar, before biases."""
    if inner.biases or number == 0:
        return None
    factor = 1 / number if is_divisor else number
    fill = None if inner.fill is None else inner.fill * factor
    return replace(inner, scale=inner.scale * factor, fill=fill)


def _masked(value: Value, inner: _Scores) -> _Scores | None:
    """The scores with a number where a mask is 0."""
    mask, _, other = value.inputs
    fill = _constant(other)
    if fill is None or mask.type.dtype not in (value.type.dtype, _BOOL):
        return None
    return replace(inner, mask=(mask, value.shape), fill=fill)


def _is_worth_it(value: Value, scores: _Scores) -> bool:
    """Whether the kernel exists and is faster: not for a few rows, as in decoding step by step."""
    types = (scores.query.type, scores.keys.type, value.inputs[1].type)
    if types[0].dtype not in (FLOAT32, FLOAT64):
        return False
    if any(isinstance(width, Size) for width in (types[0].dims[2], types[2].dims[2])):
        return False  # widths of heads are constants of the kernel
    return bool(types[1].dims[2] >= _KEYS and types[0].dims[1] >= _ROWS)


def _lead(shape: Shape, operands: Sequence[Use]) -> tuple[int, int] | None:
    """Samples and heads of the weights of attention; one sample if they are not known apart."""
    if len(shape) == 4:
        return shape[0], shape[1]
    if len(shape) != 3:
        return None
    for use in operands:
        apart = _before_reshape(use)
        if apart is not None and use.type.dims[0] == shape[0]:
            return apart.type.dims[0], apart.type.dims[1]
    return 1, shape[0]


def _before_reshape(use: Use) -> Use | None:
    """The array of four axes of which the first two were joined."""
    if use.value.op is TRANSPOSE and use.value.attrs["axes"] == (0, 2, 1):
        use = use.value.inputs[0]
    if use.value.op is not RESHAPE_TO:
        return None
    source = use.value.inputs[0]
    is_joined = source.type.ndim == 4 and source.type.dims[2:] == use.type.dims[1:]
    return source if is_joined else None


def _fused(value: Value, scores: _Scores, weights: _Weights, lead: tuple[int, int]) -> Replacement:
    g, dtype = building(value), value.type.dtype
    query = _in_four(g, scores.query, lead, "query")
    keys = transpose(g, _in_four(g, scores.keys, lead, "keys"), (0, 1, 3, 2), at="rows")
    values = _in_four(g, value.inputs[1], lead, "values")
    masks = [] if scores.mask is None else [scores.mask]
    terms = [
        _bias_in_four(g, use, shape, lead, f"bias{i}")
        for i, (use, shape) in enumerate([*scores.biases, *masks])
    ]
    found = [cast(g, term, dtype, at="mask") for term in terms if term is not None]
    if len(found) < len(terms) or any(t.type.dims[3] != keys.type.dims[2] for t in found):
        return None
    factor = () if scores.factor is None else (scores.factor,)
    lengths = weights.softmax.new.inputs[1:]
    made = g.op(
        ATTENTION, query, keys, values, *factor, *found,
        *(reshape(g, use, query.type.dims[:3], at="lengths") for use in lengths),
        at="attention", scale=scores.scale, has_factor=bool(factor), biases=len(scores.biases),
        fill=scores.fill, after=weights.after, use_length=bool(lengths),
    )  # fmt: skip
    if lead[0] == 1:
        rows = reshape(g, made, made.type.dims[1:], at="heads")
        return transpose(g, rows, (1, 0, 2))
    return reshape(g, transpose(g, made, (0, 2, 1, 3), at="heads"), value.shape)


def _in_four(g: ValueBuilder, use: Use, lead: tuple[int, int], at: str) -> Use:
    """(samples heads, a, b) as (samples, heads, a, b): the array before it was joined, if any."""
    shape = (*lead, *use.type.dims[1:])
    if use.value.op is TRANSPOSE and use.value.attrs["axes"] == (0, 2, 1):
        return transpose(g, _in_four(g, use.value.inputs[0], lead, at), (0, 1, 3, 2), at=f"{at}_t")
    before = _before_reshape(use)
    if before is not None and before.type.dims == shape:
        return before
    return reshape(g, use, shape, at=at)


def _bias_in_four(
    g: ValueBuilder, bias: Use, shape: Shape, lead: tuple[int, int], at: str
) -> Use | None:
    """A bias of scores of this shape, to be added to (samples, heads, rows, keys)."""
    dims = (1,) * (len(shape) - bias.type.ndim) + bias.type.dims
    if len(shape) == 4:
        return reshape(g, bias, dims, at=at) if shape[:2] == lead else None
    if len(shape) != 3:
        return None
    if dims[0] == 1:
        return reshape(g, bias, (1, *dims), at=at)
    return _in_four(g, reshape(g, bias, dims, at=f"{at}_three"), lead, at)
