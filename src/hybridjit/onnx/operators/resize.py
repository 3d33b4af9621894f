"""ONNX's Resize: along each axis the result is a matrix times the operand.

Input: sizes and the attributes of the coordinate rule. Output: the matrix. Repetition, and the rule
of MXNet's linear operators, use these, which have kernels. Source of the rules:
https://onnx.ai/onnx/operators/onnx__Resize.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .table import translates

_SINGLE = np.dtype("float32")


class Axis(NamedTuple):
    """One axis: sizes of operand and result, requested scale, region of interest."""

    old: int
    new: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


@translates("Resize", "Upsample")
def resize(g: Importer, use: Use, x: Value, *others: Value | None) -> Value:
    """Nearest, linear or cubic resizing; integers are truncated towards zero."""
    dtype = g.dtype(x)
    if dtype.kind == "f":
        return _resized(g, use, x, others)
    if use.text("mode") == "linear" and g.rank(x) in (2, 4) and not use.number("antialias"):
        axes = _axes(g, use, x, others)
        if all(axis.scale == 1 for axis in axes[:-2]) and _rule(use) != "tf_crop_and_resize":
            return g.op("Cast", _blended(g, use, x, *axes[-2:]), dtype=dtype)
    double = g.op("Cast", x, dtype=np.dtype("float64"), at="double")
    made = _resized(g, use, double, others)
    # Weights of two elements may sum to slightly less than 1.
    nudged = g.op("broadcast_add", made, g.op("_mul_scalar", g.op("sign", made), scalar=1e-6))
    return g.op("Cast", nudged, dtype=dtype)


def _resized(g: Importer, use: Use, x: Value, others: Sequence[Value | None]) -> Value:
    axes = _axes(g, use, x, others)
    changed = [i for i, axis in enumerate(axes) if (axis.new, axis.scale) != (axis.old, 1.0)]
    if not changed:
        return g.op("identity", x)
    if not all(axis.new for axis in axes):
        return g.filled(tuple(axis.new for axis in axes), np.zeros(1, g.dtype(x)))
    if changed == [2, 3] and len(axes) == 4:
        made = _by_operator(g, use, x, axes[2], axes[3])
        if made is not None:
            return made
    for i in changed:
        g.require_small(axes[i].old * axes[i].new)
        x = _along(g, x, i, _matrix(use, axes[i]))
    return _extrapolated(g, use, x, axes) if _rule(use) == "tf_crop_and_resize" else x


def _blended(g: Importer, use: Use, x: Value, rows: Axis, columns: Axis) -> Value:
    """The four neighbours of each element by their weights, in float32 in ONNX Runtime's order: the
    result is truncated, so that a sum of 2.9999998 and one of 3 differ by 1.
    """
    x, rank, made = g.op("Cast", x, dtype=_SINGLE, at="single"), g.rank(x), None
    y_places, y_weights = _neighbours(use, rows)
    x_places, x_weights = _neighbours(use, columns)
    for y_place, y_weight in zip(y_places, y_weights):
        line = g.op("take", x, g.constant(y_place), axis=rank - 2, at="row")
        for x_place, x_weight in zip(x_places, x_weights):
            part = g.op("take", line, g.constant(x_place), axis=rank - 1, at="column")
            weight = x_weight * y_weight[:, None]
            weight = g.constant(weight.reshape((1,) * (rank - 2) + weight.shape))
            part = g.op("broadcast_mul", part, weight, at="part")
            made = part if made is None else g.op("broadcast_add", made, part, at="sum")
    assert made is not None
    return made


def _neighbours(
    use: Use, axis: Axis
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The two elements next to each position inside of the operand, and their weights."""
    places = np.clip(np.array(_places(_rule(use), axis), _SINGLE), 0, _SINGLE.type(axis.old - 1))
    first = places.astype(np.int64)
    second = np.minimum(first + 1, axis.old - 1)
    near, far = np.abs(places - first.astype(_SINGLE)), np.abs(places - second.astype(_SINGLE))
    near[first == second] = far[first == second] = 0.5
    return (first, second), (far, near)


def _axes(g: Importer, use: Use, x: Value, others: Sequence[Value | None]) -> list[Axis]:
    shape = g.shape(x)
    chosen = [a % len(shape) for a in use.ints("axes", range(len(shape)))]
    scales, sizes, region = _asked(g, use, others)
    axes = [Axis(n, n, 1.0) for n in shape]
    for i, axis in enumerate(chosen):
        old = shape[axis]
        new = sizes[i] if sizes else math.floor(_SINGLE.type(old) * _SINGLE.type(scales[i]))
        scale = new / old if sizes else scales[i]
        span = (
            (region[i], region[i + len(chosen)]) if len(region) == 2 * len(chosen) else (0.0, 1.0)
        )
        axes[axis] = Axis(old, new, scale, span)
    return _kept(use, axes, chosen) if sizes else axes


def _asked(
    g: Importer, use: Use, others: Sequence[Value | None]
) -> tuple[list[float], list[int], list[float]]:
    """Scales, or sizes, and the region."""
    if use.op_type == "Upsample" and use.opset < 9:
        return list(use.reals("scales")), [], []
    if use.op_type == "Upsample" or use.opset < 11:
        return g.known(others[0], "scales").tolist(), [], []
    region, scale, size = (*others, None, None, None)[:3]
    spans = [] if region is None else g.known(region, "roi").tolist()
    if size is not None and g.known(size, "sizes").size:
        return [], list(g.ints(size, "sizes")), spans
    return g.known(scale, "scales").tolist(), [], spans


def _kept(use: Use, axes: list[Axis], chosen: Sequence[int]) -> list[Axis]:
    """Axes with a common scale, if the policy requests it."""
    policy = use.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return axes
    pick = min if policy == "not_larger" else max
    scale = pick(axes[i].scale for i in chosen)
    return [
        axis._replace(scale=scale, new=math.floor(axis.old * scale + 0.5)) if i in chosen else axis
        for i, axis in enumerate(axes)
    ]


def _rule(use: Use) -> str:
    return use.text(
        "coordinate_transformation_mode", "half_pixel" if use.opset > 10 else "asymmetric"
    )


def _by_operator(g: Importer, use: Use, x: Value, rows: Axis, columns: Axis) -> Value | None:
    """MXNet's operator for images, if it has the same rule."""
    mode, rule = use.text("mode", "nearest"), _rule(use)
    factors = {axis.scale for axis in (rows, columns)}
    if mode == "nearest":
        rounding = use.text("nearest_mode", "round_prefer_floor" if use.opset > 10 else "floor")
        is_centred = rule == "half_pixel" and rounding.startswith("round")
        repeats = is_centred or (rule, rounding) == ("asymmetric", "floor")
        if len(factors) == 1 and factors.pop() == rows.new // rows.old and repeats:
            return g.op(
                "UpSampling", x, scale=rows.new // rows.old, sample_type="nearest", num_args=1
            )
    if mode == "linear" and min(rows.new, columns.new) > 1 and not use.number("antialias"):
        sizes: dict[str, Any] = {"height": rows.new, "width": columns.new}
        if rule == "align_corners":
            return g.op("_contrib_BilinearResize2D", x, align_corners=True, **sizes)
        is_plain = all(axis.scale == axis.new / axis.old for axis in (rows, columns))
        if is_plain and rule in ("half_pixel", "pytorch_half_pixel"):
            return g.op("_contrib_BilinearResize2D", x, align_corners=False, **sizes)
    return None


def _along(g: Importer, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """Product of the matrix with every line of ``x`` along an axis."""
    rank = g.rank(x)
    order = tuple(i for i in range(rank) if i != axis) + (axis,)
    moved = g.op("transpose", x, axes=order, at="order") if axis != rank - 1 else x
    weight = g.constant(matrix.astype(g.dtype(x)))
    made = g.op(
        "FullyConnected",
        moved,
        weight,
        at="matrix",
        num_hidden=len(matrix),
        no_bias=True,
        flatten=False,
    )
    back = tuple(order.index(i) for i in range(rank))
    return g.op("transpose", made, axes=back, at="back") if axis != rank - 1 else made


def _matrix(use: Use, axis: Axis) -> np.ndarray:
    """Weights of the operand's elements (columns) in each element of the result (rows)."""
    mode = use.text("mode", "nearest")
    places = _places(_rule(use), axis)
    kinds: dict[str, Callable[[Use, Axis, float], dict[int, float]]] = {
        "nearest": _nearest,
        "linear": _linear,
        "cubic": _cubic,
    }
    if mode not in kinds:
        raise MXNetError(f"mode '{mode}' is not supported")
    matrix = np.zeros((axis.new, axis.old))
    for row, place in zip(matrix, places):
        weights = kinds[mode](use, axis, place)
        inside = {i: w for i, w in weights.items() if 0 <= i < axis.old}
        if mode == "cubic" and use.number("exclude_outside"):
            weights = {i: w / sum(inside.values()) for i, w in inside.items()}
        for i, w in weights.items():
            row[min(max(i, 0), axis.old - 1)] += w
    return matrix


def _extrapolated(g: Importer, use: Use, x: Value, axes: Sequence[Axis]) -> Value:
    """A constant for elements outside of the operand."""
    outside = [
        np.array([not 0 <= place <= axis.old - 1 for place in _places(_rule(use), axis)], bool)
        for axis in axes
    ]
    if not any(part.any() for part in outside):
        return x
    g.require_small(2 * math.prod(g.shape(x)))
    beyond = reduce(np.logical_or.outer, outside)
    number = g.filled(g.shape(x), np.full(1, use.real("extrapolation_value"), g.dtype(x)))
    return g.op("where", g.constant(beyond.astype(np.uint8)), number, x, at="extrapolated")


def _places(rule: str, axis: Axis) -> list[float]:
    """Position in the operand of each element of the result, in float32 as in ONNX Runtime.

    Sizes are those of the arrays, as there and in PyTorch, where old * scale is not whole.
    """
    old, new, scale, start, end = map(_SINGLE.type, (*axis[:3], *axis.region))
    half, one = _SINGLE.type(0.5), _SINGLE.type(1)
    rules: dict[str, Callable[[np.float32], np.float32]] = {
        "half_pixel": lambda i: (i + half) / scale - half,
        "half_pixel_symmetric": lambda i: (
            old * half * (one - new / (scale * old)) + ((i + half) / scale - half)
        ),
        "pytorch_half_pixel": lambda i: (i + half) / scale - half if new > 1 else 0 * i,
        "align_corners": lambda i: i * (old - one) / (new - one) if new > 1 else 0 * i,
        "asymmetric": lambda i: i / scale,
        "tf_half_pixel_for_nn": lambda i: (i + half) / scale,
        "tf_crop_and_resize": lambda i: (
            start * (old - one) + i * (end - start) * (old - one) / (new - one)
            if new > 1
            else half * (start + end) * (old - one)
        ),
    }
    if rule not in rules:
        raise MXNetError(f"coordinates '{rule}' are not supported")
    is_same = scale == 1 and rule != "tf_crop_and_resize"
    return [float(i if is_same else rules[rule](i)) for i in map(_SINGLE.type, range(axis.new))]


def _nearest(use: Use, axis: Axis, place: float) -> dict[int, float]:
    roundings: dict[str, Callable[[float], float]] = {
        "round_prefer_floor": lambda x: math.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: math.floor(x + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
    }
    rounding = use.text("nearest_mode", "round_prefer_floor" if use.opset > 10 else "floor")
    return {int(roundings[rounding](place)): 1.0}


def _linear(use: Use, axis: Axis, place: float) -> dict[int, float]:
    """Triangle around the position, widened by antialiasing if the result is smaller."""
    return _spread(use, axis, place, 1, lambda x: max(0.0, 1 - abs(x)))


def _cubic(use: Use, axis: Axis, place: float) -> dict[int, float]:
    """Keys' polynomials with the coefficient a."""
    a = use.real("cubic_coeff_a", -0.75)

    def weight(x: float) -> float:
        x = abs(x)
        if x <= 1:
            return ((a + 2) * x - (a + 3)) * x * x + 1
        return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0

    return _spread(use, axis, place, 2, weight)


def _spread(
    use: Use, axis: Axis, place: float, reach: int, weight: Callable[[float], float]
) -> dict[int, float]:
    """Weights of the elements around a position; with antialiasing normalized to sum 1."""
    shrink = min(axis.scale, 1.0) if use.number("antialias") else 1.0
    near = math.ceil(reach / shrink)
    first = math.floor(place) - near
    weights = {i: weight((i - place) * shrink) for i in range(first, first + 2 * near + 2)}
    total = sum(weights.values()) if shrink < 1 else 1.0
    return {i: w / total for i, w in weights.items() if w}
