"""Compounds: operators that say in one name what several others say together.

Attention over interleaved projections, ``linalg_gemm``, grids for sampling and the like have no
kernel of their own; what they are made of has. In float16 they stay whole: their references round
once, the pieces would round at every step.
"""

from __future__ import annotations

import math
from typing import Any

from ..ir.graph import Use, Value, make
from ..ir.rewrite import Match, Replacement, rule
from ..ops.resize import bilinear_attrs
from ..types import FLOAT32, FLOAT64
from .moves import cast, cut, reshaped, transposed


def is_plain_float(value: Value) -> bool:
    """Whether all operands and results are of one type that a product may round to."""
    types = (*value.types, *(use.type for use in value.inputs))
    names = {t.dtype.name for t in types if t.dtype is not None}
    return len(names) == 1 and names <= {"float32", "float64"} and all(t.size for t in types)


# --- attention ---

_ATTENTION = "_contrib_interleaved_matmul_"


def _part(value: Value, position: int, parts: int, index: int) -> Use:
    """One part of an input laid out [head][part][D], as (batch * heads, length, D)."""
    use = value.inputs[position]
    length, batch, width = use.type.dims
    rows = batch * value.attrs["heads"]
    size = width * batch // (rows * parts)
    name = f"{value.name}:part{position}_{index}"
    split = reshaped(use, (length, rows, parts, size), f"{name}_split")
    chosen = reshaped(cut(split, 2, index, 1, f"{name}_cut"), (length, rows, size), name)
    return transposed(chosen, (1, 0, 2), f"{name}_rows")


@rule("attention scores  =>  batch_dot(queries, keys^T) / sqrt(D)")
def attention_scores(value: Value, match: Match) -> Replacement:
    if not value.is_op(f"{_ATTENTION}selfatt_qk", f"{_ATTENTION}encdec_qk"):
        return None
    if not is_plain_float(value):
        return None
    if len(value.inputs) == 1:
        query, key = (_part(value, 0, 3, i) for i in (0, 1))
    else:
        query, key = _part(value, 0, 1, 0), _part(value, 1, 2, 0)
    scale = math.sqrt(query.type.dims[2])
    raw = make("batch_dot", f"{value.name}:raw", [query, key], value.source, transpose_b=True)
    return Use(make("_div_scalar", value.name, [Use(raw)], value.source, scalar=scale))


@rule("attention values  =>  batch_dot(attention, values), heads side by side")
def attention_values(value: Value, match: Match) -> Replacement:
    if not value.is_op(f"{_ATTENTION}selfatt_valatt", f"{_ATTENTION}encdec_valatt"):
        return None
    if not is_plain_float(value):
        return None
    parts = 3 if value.is_op(f"{_ATTENTION}selfatt_valatt") else 2
    values = _part(value, 0, parts, parts - 1)
    heads = make("batch_dot", f"{value.name}:heads", [value.inputs[1], values], value.source)
    turned = transposed(Use(heads), (1, 0, 2), f"{value.name}:turned")
    return reshaped(turned, value.shape, value.name)


@rule("div_sqrt_dim(x)  =>  x / sqrt(length of the last axis)")
def scaled_by_length(value: Value, match: Match) -> Replacement:
    if not value.is_op("_contrib_div_sqrt_dim") or not is_plain_float(value):
        return None
    scale = math.sqrt(value.shape[-1])
    return Use(make("_div_scalar", value.name, value.inputs, value.source, scalar=scale))


@rule("softmax(x, temperature, dtype)  =>  Cast(softmax(x / temperature), dtype)")
def softmax_of_scaled(value: Value, match: Match) -> Replacement:
    """In the wider of the two types, in single precision at least, and rounded once."""
    if not value.is_op("softmax", "log_softmax", "softmin") or not value.type.size:
        return None
    (data, *length), attrs, name = value.inputs, dict(value.attrs), value.name
    temperature, dtype = attrs["temperature"], data.type.dtype
    if temperature in (None, 1.0) and dtype == value.type.dtype:
        return None
    wide = FLOAT64 if FLOAT64 in (dtype, value.type.dtype) else FLOAT32
    x = cast(data, wide, f"{name}:wide")
    if temperature not in (None, 1.0):
        x = Use(make("_div_scalar", f"{name}:scaled", [x], scalar=temperature))
    attrs |= {"temperature": None, "dtype": None}
    plain = make(value.op.name, f"{name}:plain", [x, *length], value.source, **attrs)  # type: ignore[union-attr]
    return cast(Use(plain), value.type.dtype, name)


# --- products ---


@rule("linalg_gemm2(A, B), linalg_gemm(A, B, C)  =>  alpha * batch_dot(A, B) + beta * C")
def gemm_to_batch_dot(value: Value, match: Match) -> Replacement:
    if not value.is_op("_linalg_gemm2", "_linalg_gemm") or not is_plain_float(value):
        return None
    rank, name, attrs = len(value.shape), value.name, value.attrs
    axis = attrs["axis"] % rank
    rows_last = (*(i for i in range(rank) if i not in (axis, rank - 1)), axis, rank - 1)
    sides = [transposed(u, rows_last, f"{name}:{s}") for u, s in zip(value.inputs[:2], "ab")]
    flags = {key: attrs[key] for key in ("transpose_a", "transpose_b")}
    result = Use(make("dot" if rank == 2 else "batch_dot", f"{name}:product", sides, **flags))
    back = tuple(sorted(range(rank), key=rows_last.__getitem__))
    result = transposed(result, back, f"{name}:rows_back")
    result = _scaled(result, attrs["alpha"], f"{name}:alpha")
    if len(value.inputs) == 3:
        added = _scaled(value.inputs[2], attrs["beta"], f"{name}:beta")
        result = Use(make("elemwise_add", name, [result, added], value.source))
    return result


def _scaled(use: Use, factor: float, name: str) -> Use:
    return use if factor == 1 else Use(make("_mul_scalar", name, [use], scalar=factor))


# --- sequences without lengths ---


@rule("Sequence... without lengths  =>  x, its last step, reverse(x)")
def whole_sequences(value: Value, match: Match) -> Replacement:
    if not value.is_op("SequenceMask", "SequenceLast", "SequenceReverse") or not value.type.size:
        return None
    data, axis = value.inputs[0], value.attrs["axis"]
    if len(value.inputs) > 1:
        return None
    if value.is_op("SequenceMask"):
        return data
    if value.is_op("SequenceReverse"):
        return Use(make("reverse", value.name, [data], value.source, axis=(0,)))
    last = cut(data, axis, data.type.dims[axis] - 1, 1, f"{value.name}:last", value.source)
    return reshaped(last, value.shape, value.name)


# --- images ---


@rule("Convolution_v1(x, w)  =>  Convolution(x, w)")
def newer_convolution(value: Value, match: Match) -> Replacement:
    if not value.is_op("Convolution_v1"):
        return None
    return Use(make("Convolution", value.name, value.inputs, value.source, **value.attrs))


@rule("Pooling_v1(x) without padding  =>  Pooling(x)")
def newer_pooling(value: Value, match: Match) -> Replacement:
    attrs = value.attrs
    if not value.is_op("Pooling_v1"):
        return None
    if not attrs["global_pool"] and (any(attrs["pad"]) or attrs["pooling_convention"] == "full"):
        return None
    return Use(make("Pooling", value.name, value.inputs, value.source, **attrs))


@rule("AdaptiveAvgPooling2D(x) of equal bins  =>  Pooling(x)")
def equal_bins(value: Value, match: Match) -> Replacement:
    if not value.is_op("_contrib_AdaptiveAvgPooling2D") or not value.type.size:
        return None
    sizes, counts = value.inputs[0].type.dims[2:], value.shape[2:]
    if any(size % count for size, count in zip(sizes, counts)):
        return None
    kernel = tuple(size // count for size, count in zip(sizes, counts))
    attrs: dict[str, Any] = {"kernel": kernel, "stride": kernel, "pool_type": "avg"}
    return Use(make("Pooling", value.name, value.inputs, value.source, **attrs))


@rule("UpSampling(x, weight, bilinear)  =>  Deconvolution(x, weight)")
def bilinear_upsampling(value: Value, match: Match) -> Replacement:
    if not value.is_op("UpSampling") or value.attrs["sample_type"] != "bilinear":
        return None
    attrs = bilinear_attrs(value.attrs["scale"], value.inputs[0].type.dims[1])
    return Use(make("Deconvolution", value.name, value.inputs, value.source, **attrs))


@rule("SpatialTransformer(x, loc)  =>  BilinearSampler(x, GridGenerator(loc))")
def transformer_to_sampler(value: Value, match: Match) -> Replacement:
    if not value.is_op("SpatialTransformer") or not is_plain_float(value):
        return None
    attrs = {"transform_type": "affine", "target_shape": value.attrs["target_shape"]}
    grid = make("GridGenerator", f"{value.name}:grid", value.inputs[1:], value.source, **attrs)
    inputs = [value.inputs[0], _affine_grid(grid)]
    return Use(make("BilinearSampler", value.name, inputs, value.source))


@rule("GridGenerator(affine)  =>  the points of the grid times the matrices")
def affine_grid(value: Value, match: Match) -> Replacement:
    is_affine = value.is_op("GridGenerator") and value.attrs["transform_type"] == "affine"
    return _affine_grid(value) if is_affine and is_plain_float(value) else None


def _affine_grid(value: Value) -> Use:
    """theta [n, 2, 3] times the points (x, y, 1) of the target."""
    batch, _, height, width = value.shape
    theta = reshaped(value.inputs[0], (batch * 2, 3), f"{value.name}:theta")
    points = _grid_constant(value, "points")
    attrs: dict[str, Any] = {"num_hidden": height * width, "no_bias": True}
    rows = make("FullyConnected", f"{value.name}:rows", [theta, points], value.source, **attrs)
    return reshaped(Use(rows), value.shape, value.name)


@rule("GridGenerator(warp)  =>  (flow + pixels) / half the size - 1")
def warped_grid(value: Value, match: Match) -> Replacement:
    is_warp = value.is_op("GridGenerator") and value.attrs["transform_type"] == "warp"
    if not is_warp or not is_plain_float(value):
        return None
    pixels, halves = (_grid_constant(value, what) for what in ("pixels", "halves"))
    moved = make("broadcast_add", f"{value.name}:moved", [value.inputs[0], pixels], value.source)
    part = make("broadcast_div", f"{value.name}:part", [Use(moved), halves], value.source)
    return Use(make("_minus_scalar", value.name, [Use(part)], value.source, scalar=1.0))


def _grid_constant(value: Value, what: str) -> Use:
    height, width = value.shape[2:]
    attrs: dict[str, Any] = {"height": height, "width": width, "dtype": value.type.dtype}
    attrs["what"] = what
    return Use(make("_grid_constant", f"{value.name}:{what}", [], **attrs))


COMPOUNDS = (
    attention_scores,
    attention_values,
    scaled_by_length,
    softmax_of_scaled,
    gemm_to_batch_dot,
    whole_sequences,
    newer_convolution,
    newer_pooling,
    equal_bins,
    bilinear_upsampling,
    transformer_to_sampler,
    affine_grid,
    warped_grid,
)
