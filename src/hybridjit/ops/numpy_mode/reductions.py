"""Reductions of NumPy mode: axis=None gives the shape (), axis=() reduces nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, INT64, Shape, TensorType, product
from ...errors import DTypeError, MXNetError, ShapeError
from ..algebra import as_shape, div, mul, scaled, sub, total
from ..building import Builder, Many, X
from ..casting import convert, working_dtype
from ..elementwise.element_type import cast
from ..gradient import none_at_all
from ..record import Samples, Traits
from ..registry import lookup, register
from ..rules import forward, normalized_axis, reduced_axes, same_dtype
from ..tensor.primitives import broadcast, transpose
from ..tensor.reductions import MEAN_SQUARE_ABOUT, accumulator
from .forms import BOOL, ON_HOST, UINT8, as_number, equal_type, near, total_type, truth

_AXES = "axis:shape?=None keepdims:bool=False"


def axes_of(ndim: int, axis: Shape | None) -> Shape:
    """Axes that are reduced; none for ()."""
    if not ndim and axis and set(axis) <= {0, -1}:  # official NumPy accepts these
        return ()
    return () if axis == () else reduced_axes(ndim, axis)


def kept_shape(dims: Shape, axes: Shape, keepdims: bool) -> Shape:
    """Shape of a reduction's result."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(dims))
    return tuple(d for i, d in enumerate(dims) if i not in axes)


def reduced(g: Builder[X], op: str, x: X, axis: Shape | None, keepdims: bool, at: str = "") -> X:
    """Classic reduction of ``x``, reshaped to NumPy's result shape."""
    dims = g.type(x).dims
    axes = axes_of(len(dims), axis)
    if not axes:
        return x
    found = g.op(lookup(op), x, at=at, axis=axes, keepdims=keepdims)
    return as_shape(g, found, kept_shape(dims, axes, keepdims))


def _refuse_initial(initial: float | None) -> None:
    if initial is not None:
        raise DTypeError(f"initial is not supported, got {initial:g}: add it to the result")


Compute = Callable[[np.ndarray, Shape], Any]
TypeOf = Callable[[np.dtype, "np.dtype | None"], np.dtype]


def _result_type(own: np.dtype, dtype: np.dtype | None) -> np.dtype:
    return dtype or total_type(own)


def _mean_type(own: np.dtype, dtype: np.dtype | None) -> np.dtype:
    return dtype or (own if own.kind == "f" else FLOAT32)


def _taken(own: np.dtype, wanted: np.dtype) -> np.dtype:
    """Element type of the computation: the wider of two floating types, or the floating one."""
    if own.kind == wanted.kind == "f":
        return max(own, wanted, key=lambda t: t.itemsize)
    return own if own.kind == "f" else wanted


def _with_dtype(
    name: str, classic: str, compute: Compute, type_of: TypeOf, doc: str, aliases: str = ""
) -> None:
    """Register a reduction with the attributes axis, dtype, keepdims and initial."""

    def rule(
        a: TensorType,
        *,
        axis: Shape | None,
        dtype: np.dtype | None,
        keepdims: bool,
        initial: float | None,
    ) -> TensorType:
        _refuse_initial(initial)
        assert a.dtype is not None
        return TensorType(
            kept_shape(a.dims, axes_of(a.ndim, axis), keepdims), type_of(a.dtype, dtype)
        )

    def ref(
        a: np.ndarray,
        *,
        axis: Shape | None,
        dtype: np.dtype | None,
        keepdims: bool,
        initial: float | None,
    ) -> np.ndarray:
        wanted = type_of(a.dtype, dtype)
        axes = axes_of(a.ndim, axis)
        data = convert(a, _taken(a.dtype, wanted))
        found = np.asarray(compute(data, axes)) if axes else data.copy()
        return convert(found, wanted).reshape(kept_shape(a.shape, axes, keepdims))

    def expand(
        g: Builder[X],
        a: X,
        *,
        axis: Shape | None,
        dtype: np.dtype | None,
        keepdims: bool,
        initial: float | None,
    ) -> X:
        """reduction of NumPy mode  =>  classic reduction of the cast operand"""
        own = g.type(a).dtype
        assert own is not None
        wanted = type_of(own, dtype)
        if classic == "mean" and wanted.kind in "iu" and own.kind != "f":
            return _whole_mean(g, a, axis, keepdims, wanted)
        x = cast(g, a, _taken(own, wanted), at="cast")
        return cast(g, reduced(g, classic, x, axis, keepdims, at="wide"), wanted)

    register(
        name,
        "a",
        "axis:shape?=None dtype:dtype?=None keepdims:bool=False initial:double?=None",
        infer=forward(rule),
        ref=ref,
        expand=expand,
        traits=Traits(samples=Samples.REDUCED),
        aliases=aliases,
        doc=doc,
    )


def _mean(data: np.ndarray, axes: Shape) -> Any:
    """Mean; 0 for no elements, as in MXNet; for integers the sum in their own type, divided."""
    count = product(tuple(data.shape[i] for i in axes))
    is_whole = data.dtype.kind in "iu"
    sums = np.sum(data, axis=axes, dtype=data.dtype if is_whole else FLOAT64)
    return np.zeros(sums.shape, FLOAT64) if not count else sums / np.float64(count)


def _whole_mean(g: Builder[X], a: X, axis: Shape | None, keepdims: bool, wanted: np.dtype) -> X:
    """mean(x, dtype=integer)  =>  cast(sum(x in that type) / count); as in MXNet the sum wraps"""
    sums = reduced(g, "sum", cast(g, a, wanted, at="cast"), axis, keepdims, at="total")
    count = g.type(a).size // max(g.type(sums).size, 1)
    if not axes_of(g.type(a).ndim, axis):
        return sums
    return cast(g, scaled(g, cast(g, sums, FLOAT64), 1.0 / max(count, 1)), wanted)


_with_dtype(
    "_np_sum",
    "sum",
    lambda data, axes: np.sum(data, axis=axes, dtype=accumulator(data.dtype)),
    _result_type,
    "Sum over axes; int64 for bools.",
)
_with_dtype(
    "_np_prod",
    "prod",
    lambda data, axes: np.prod(data, axis=axes, dtype=accumulator(data.dtype)),
    _result_type,
    "Product over axes; int64 for bools.",
    aliases="_np_product",
)
_with_dtype("_npi_mean", "mean", _mean, _mean_type, "Mean over axes; float32 for integers.")


def _extreme(name: str, classic: str, compute: Callable[..., Any], doc: str, alias: str) -> None:
    def rule(
        a: TensorType, *, axis: Shape | None, keepdims: bool, initial: float | None
    ) -> TensorType:
        _refuse_initial(initial)
        axes = axes_of(a.ndim, axis)
        shape = kept_shape(a.dims, axes, keepdims)
        if a.size == 0 and product(shape) > 0:
            raise ShapeError(f"{classic} of no elements: the operand is {a}")
        return a.with_shape(shape)

    def ref(
        a: np.ndarray, *, axis: Shape | None, keepdims: bool, initial: float | None
    ) -> np.ndarray:
        axes = axes_of(a.ndim, axis)
        shape = kept_shape(a.shape, axes, keepdims)
        if not axes or not a.size:
            return a.reshape(shape).copy()
        return np.asarray(compute(a, axis=axes)).reshape(shape)

    def expand(
        g: Builder[X], a: X, *, axis: Shape | None, keepdims: bool, initial: float | None
    ) -> X:
        """max(x), min(x) of NumPy mode  =>  the classic one; bools are computed as uint8"""
        found = reduced(g, classic, as_number(g, a, "bytes"), axis, keepdims)
        return cast(g, found, g.type(a).dtype)

    register(
        name,
        "a",
        f"{_AXES} initial:double?=None",
        infer=forward(rule),
        ref=ref,
        expand=expand,
        aliases=alias,
        traits=Traits(samples=Samples.REDUCED),
        doc=doc,
    )


_extreme("_np_max", "max", np.max, "Maximum over axes; NaN if an element is NaN.", "_np_amax")
_extreme("_np_min", "min", np.min, "Minimum over axes; NaN if an element is NaN.", "_np_amin")


def _question(name: str, classic: str, compute: Callable[..., Any], doc: str, alias: str) -> None:
    def rule(data: TensorType, *, axis: Shape | None, keepdims: bool) -> TensorType:
        return TensorType(kept_shape(data.dims, axes_of(data.ndim, axis), keepdims), BOOL)

    def ref(data: np.ndarray, *, axis: Shape | None, keepdims: bool) -> np.ndarray:
        axes = axes_of(data.ndim, axis)
        found = compute(data != 0, axis=axes) if axes else data != 0
        return np.asarray(found).reshape(kept_shape(data.shape, axes, keepdims))

    def expand(g: Builder[X], data: X, *, axis: Shape | None, keepdims: bool) -> X:
        """all(x), any(x)  =>  min, max of x != 0"""
        bytes_ = cast(g, truth(g, data, at="truth"), UINT8, at="bytes")
        return truth(g, reduced(g, classic, bytes_, axis, keepdims, at="found"))

    register(
        name,
        "data",
        _AXES,
        infer=forward(rule),
        ref=ref,
        expand=expand,
        grad=none_at_all,
        aliases=alias,
        doc=doc,
    )


_question("_np_all", "min", np.all, "Whether all elements along axes are nonzero.", "")
_question("_np_any", "max", np.any, "Whether any element along axes is nonzero.", "_np_sometrue")


def _spread_rule(
    a: TensorType, *, axis: Shape | None, dtype: np.dtype | None, ddof: int, keepdims: bool
) -> TensorType:
    if a.dtype == BOOL:
        raise DTypeError("std and var take numbers, got bool")
    return TensorType(kept_shape(a.dims, axes_of(a.ndim, axis), keepdims), dtype or a.dtype)


def _variance(
    a: np.ndarray, axis: Shape | None, dtype: np.dtype | None, ddof: int, keepdims: bool
) -> np.ndarray:
    """Variance in double precision; NaN for no elements."""
    axes = axes_of(a.ndim, axis)
    shape = kept_shape(a.shape, axes, keepdims)
    count = product(tuple(a.shape[i] for i in axes))
    if not count:
        return np.full(shape, np.nan)
    distance = a.astype(FLOAT64)
    distance -= np.add.reduce(distance, axis=axes, keepdims=True) / np.float64(count)
    squares = np.add.reduce(np.square(distance, out=distance), axis=axes)
    return np.asarray(squares / np.float64(count - ddof)).reshape(shape)


def _factor(sizes: Shape, ddof: int) -> float:
    """Factor n / (n - ddof) that corrects a mean over axes of these sizes."""
    count = product(sizes)
    return count / (count - ddof) if count != ddof else float("inf")


def _spread_parts(
    g: Builder[X],
    a: X,
    root: bool,
    *,
    axis: Shape | None,
    dtype: np.dtype | None,
    ddof: int,
    keepdims: bool,
) -> X:
    """Corrected mean square deviation from the mean; integers are computed in float64."""
    t = g.type(a)
    axes = axes_of(t.ndim, axis)
    wanted = dtype or t.dtype
    assert wanted is not None
    x = cast(g, a, wanted if wanted.kind == "f" else FLOAT64, at="cast")
    factor = _factor(tuple(t.dims[i] for i in axes), ddof)
    if not axes:
        return cast(g, scaled(g, sub(g, x, x), factor), wanted)
    about = g.op(lookup("mean"), x, at="mean", axis=axes, keepdims=True)
    squares = g.op(MEAN_SQUARE_ABOUT, x, about, at="squares", axis=axes, keepdims=keepdims)
    made = scaled(g, squares, factor)
    made = g.op(lookup("sqrt"), made, at="root") if root else made
    return as_shape(g, cast(g, made, wanted), kept_shape(t.dims, axes, keepdims))


def _var_parts(g: Builder[X], a: X, **attrs: Any) -> X:
    """var(x)  =>  mean square deviation from the mean, scaled for ddof"""
    return _spread_parts(g, a, False, **attrs)


def _std_parts(g: Builder[X], a: X, **attrs: Any) -> X:
    """std(x)  =>  sqrt(var(x))"""
    return _spread_parts(g, a, True, **attrs)


def _spread_ref(finish: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def ref(a: np.ndarray, *, dtype: np.dtype | None, **attrs: Any) -> np.ndarray:
        found = finish(_variance(a, dtype=dtype, **attrs))
        return convert(np.asarray(found), dtype or a.dtype)

    return ref


_SPREAD = "axis:shape?=None dtype:dtype?=None ddof:int=0 keepdims:bool=False"
register(
    "_npi_var",
    "a",
    _SPREAD,
    infer=forward(_spread_rule),
    ref=_spread_ref(np.asarray),
    expand=_var_parts,
    doc="Variance over axes.",
)
register(
    "_npi_std",
    "a",
    _SPREAD,
    infer=forward(_spread_rule),
    ref=_spread_ref(np.sqrt),
    expand=_std_parts,
    doc="Standard deviation over axes.",
)


def _place(name: str, classic: str, find: Callable[..., Any], doc: str) -> None:
    def rule(data: TensorType, *, axis: int | None, keepdims: bool) -> TensorType:
        if data.dtype == BOOL:
            raise DTypeError(f"{classic} takes numbers, got bool")
        axes = axes_of(data.ndim, None if axis is None else (axis,))
        shape = kept_shape(data.dims, axes, keepdims)
        if data.size == 0 and product(shape) > 0:
            raise ShapeError(f"{classic} of no elements: the operand is {data}")
        return TensorType(shape, INT64)

    def ref(data: np.ndarray, *, axis: int | None, keepdims: bool) -> np.ndarray:
        axes = axes_of(data.ndim, None if axis is None else (axis,))
        shape = kept_shape(data.shape, axes, keepdims)
        if not data.size:
            return np.zeros(shape, INT64)
        return np.asarray(find(data, axis=axis if axes else None), INT64).reshape(shape)

    def expand(g: Builder[X], data: X, *, axis: int | None, keepdims: bool) -> X | None:
        """argmax(x), argmin(x)  =>  the classic one cast to int64, if its type can hold the
        index"""
        t = g.type(data)
        if not t.ndim or t.dtype not in (FLOAT32, FLOAT64):
            return None
        length = t.size if axis is None else t.dims[axis]
        if t.dtype == FLOAT32 and length > 1 << 24:
            return None
        found = g.op(lookup(classic), data, at="place", axis=axis, keepdims=keepdims)
        axes = axes_of(t.ndim, None if axis is None else (axis,))
        return as_shape(g, cast(g, found, INT64), kept_shape(t.dims, axes, keepdims))

    register(
        name,
        "data",
        "axis:int?=None keepdims:bool=False",
        infer=forward(rule),
        ref=ref,
        expand=expand,
        grad=none_at_all,
        traits=ON_HOST,
        doc=doc,
    )


_place("_npi_argmax", "argmax", np.argmax, "Index of the first maximum, as int64.")
_place("_npi_argmin", "argmin", np.argmin, "Index of the first minimum, as int64.")


def _average_rule(
    a: TensorType,
    *weights: TensorType,
    axis: Shape | None,
    returned: bool,
    weighted: bool,
) -> TensorType | tuple[TensorType, ...]:
    if a.dtype == BOOL:
        raise DTypeError("average takes numbers, got bool")
    axes = axes_of(a.ndim, axis)
    if weights:
        equal_type(a.dtype or FLOAT32, weights[0].dtype or FLOAT32)
        _aligned(a.dims, weights[0].dims, axes)
    result = a.with_shape(kept_shape(a.dims, axes, False))
    return (result, result) if returned else result


def _aligned(dims: Shape, weights: Shape, axes: Shape) -> Shape:
    """Shape of the weights, aligned with the operand. Raises ShapeError."""
    if weights == dims:
        return weights
    if len(weights) == 1 and len(axes) == 1 and weights[0] == dims[axes[0]]:
        return tuple(weights[0] if i == axes[0] else 1 for i in range(len(dims)))
    raise ShapeError(
        f"weights must have the operand's shape {dims} or, as a vector, the size of the averaged "
        f"axis, got {weights}"
    )


def _average(
    g: Builder[X], a: X, *weights: X, axis: Shape | None, returned: bool, weighted: bool
) -> X | tuple[X, X]:
    """average(x, w)  =>  sum(x w) / sum(w), or mean(x)"""
    t = g.type(a)
    axes = axes_of(t.ndim, axis)
    if weights:
        column = as_shape(g, weights[0], _aligned(t.dims, g.type(weights[0]).dims, axes))
        weight = broadcast(g, column, t.dims, at="weights")
        scale = reduced(g, "sum", weight, axis, False, at="scale")
        made = div(g, reduced(g, "sum", mul(g, a, weight), axis, False, at="sum"), scale)
        return (made, scale) if returned else made
    made = reduced(g, "mean", a, axis, False)
    if not returned:
        return g.op(lookup("_copy"), made) if not axes else made
    count = product(tuple(t.dims[i] for i in axes))
    ones = g.op(lookup("ones_like"), made, at="ones")
    return made, scaled(g, ones, float(count))


register(
    "_npi_average",
    lambda weighted, **attrs: ("a", "weights") if weighted else ("a",),
    "axis:shape?=None returned:bool=False weighted:bool=True",
    infer=forward(_average_rule),
    expand=_average,
    outputs=lambda returned, **attrs: ("output0", "output1") if returned else ("output",),
    doc="Weighted mean over axes, and the sum of the weights.",
)


def _ordered_axes(ndim: int, axis: Shape | None) -> Shape:
    """Reduced axes in the given order; for a matrix those of rows and columns."""
    axes_of(ndim, axis)
    return tuple(range(ndim)) if axis is None else tuple(a % ndim for a in axis if ndim)


def _norm_rule(
    data: TensorType,
    *,
    axis: Shape | None,
    keepdims: bool,
    ord: float,
    flag: int,
) -> TensorType:
    axes = _ordered_axes(data.ndim, axis)
    if flag == -1 and len(axes) == 2 and abs(ord) not in (1, 2, np.inf):
        raise MXNetError(f"ord of a matrix norm must be 1, 2 or inf, or one with -, got {ord}")
    return data.with_shape(kept_shape(data.dims, axes, keepdims))


def _norm_ref(
    data: np.ndarray, *, axis: Shape | None, keepdims: bool, ord: float, flag: int
) -> np.ndarray:
    """Norm; flag -2: root of the sum of squares, -1: order ``ord``, 1: 'fro', 2: 'nuc'."""
    wide = data.astype(FLOAT64)
    axes = _ordered_axes(data.ndim, axis)
    shape = kept_shape(data.shape, axes, keepdims)
    if flag == -2:
        found = np.sqrt(np.sum(wide * wide, axis=axes))
    else:
        order: Any = {1: "fro", 2: "nuc"}.get(flag, ord)
        found = np.linalg.norm(wide, order, axes if len(axes) == 2 else axes[0])
    return convert(np.asarray(found), data.dtype).reshape(shape)


def _norm_parts(
    g: Builder[X], data: X, *, axis: Shape | None, keepdims: bool, ord: float, flag: int
) -> X | None:
    """norm(x)  =>  classic norm, power sum, or max or min of |x|"""
    t = g.type(data)
    axes = _ordered_axes(t.ndim, axis)
    if t.dtype is None or t.dtype.kind != "f" or not axes:
        return None
    if flag in (-2, 1) or (flag == -1 and ord == 2 and len(axes) == 1):
        return _classic_norm(g, data, 2, axes, keepdims)
    if len(axes) == 1:
        sizes = g.op(lookup("abs"), data, at="sizes")
        return _vector_norm(g, data, sizes, ord, axes, keepdims)
    if flag == 2 or abs(ord) == 2:
        reduce = "sum" if flag == 2 else "max" if ord > 0 else "min"
        return _spectral_norm(g, data, reduce, axes, keepdims)
    sizes = g.op(lookup("abs"), data, at="sizes")
    first, second = axes if abs(ord) == 1 else axes[::-1]
    sums = reduced(g, "sum", sizes, (first,), True, at="sums")
    both = reduced(g, "max" if ord > 0 else "min", sums, (second,), True, at="extreme")
    return as_shape(g, both, kept_shape(t.dims, axes, keepdims))


def _spectral_norm(g: Builder[X], data: X, reduce: str, axes: Shape, keepdims: bool) -> X | None:
    """Sum, maximum or minimum of the singular values."""
    t = g.type(data)
    if t.dtype not in (FLOAT32, FLOAT64):
        return None
    last = axes if t.dims[axes[0]] <= t.dims[axes[1]] else axes[::-1]
    order = (*(i for i in range(t.ndim) if i not in axes), *last)
    matrices = transpose(g, data, order, at="matrices")
    _, values, _ = g.outputs(lookup("_npi_svd"), matrices, at="svd")
    found = reduced(g, reduce, values, (t.ndim - 2,), False, at="found")
    return as_shape(g, found, kept_shape(t.dims, axes, keepdims))


def _classic_norm(g: Builder[X], x: X, ord: int, axes: Shape, keepdims: bool) -> X:
    dims = g.type(x).dims
    found = g.op(lookup("norm"), x, at="norm", ord=ord, axis=axes, keepdims=keepdims)
    return as_shape(g, found, kept_shape(dims, axes, keepdims))


def _vector_norm(g: Builder[X], data: X, sizes: X, ord: float, axes: Shape, keepdims: bool) -> X:
    if np.isinf(ord):
        return reduced(g, "max" if ord > 0 else "min", sizes, axes, keepdims)
    if ord == 0:
        counted = g.op(lookup("_not_equal_scalar"), sizes, at="counted", scalar=0.0)
        return reduced(g, "sum", counted, axes, keepdims)
    if ord == 1:
        return reduced(g, "sum", sizes, axes, keepdims)
    powers = g.op(lookup("_power_scalar"), sizes, at="powers", scalar=ord)
    sums = reduced(g, "sum", powers, axes, keepdims, at="sums")
    return g.op(lookup("_power_scalar"), sums, scalar=1.0 / ord)


register(
    "_npi_norm",
    "data",
    "axis:shape?=None keepdims:bool=False ord:double=2 flag:int=-2",
    infer=forward(_norm_rule),
    ref=_norm_ref,
    expand=_norm_parts,
    traits=ON_HOST,
    doc="A norm of vectors or matrices.",
)


def _zeros(g: Builder[X], shape: Shape, dtype: np.dtype | None) -> X:
    one = g.op(lookup("_zeros"), at="zero", shape=(1,), dtype=dtype)
    return broadcast(g, as_shape(g, one, (1,) * len(shape)), shape)


def _trace_rule(data: TensorType, *, offset: int, axis1: int, axis2: int) -> TensorType:
    a, b = (normalized_axis(axis, data.ndim, f"axis{n}") for n, axis in ((1, axis1), (2, axis2)))
    if a == b:
        raise ShapeError(f"axis1 and axis2 both name axis {a}")
    assert data.dtype is not None
    return TensorType(tuple(d for i, d in enumerate(data.dims) if i not in (a, b)), data.dtype)


def _trace(data: np.ndarray, *, offset: int, axis1: int, axis2: int) -> np.ndarray:
    wide = working_dtype(data.dtype) if data.dtype.kind == "f" else data.dtype
    found = np.trace(data, near(offset, data), axis1, axis2, dtype=wide)
    return convert(np.asarray(found), data.dtype)


def _trace_parts(g: Builder[X], data: X, *, offset: int, axis1: int, axis2: int) -> X:
    """trace(x)  =>  sum of diag(x)"""
    dims = g.type(data).dims
    low, high = sorted((axis1 % len(dims), axis2 % len(dims)))
    rows, columns = dims[axis1 % len(dims)], dims[axis2 % len(dims)]
    if min(rows + min(offset, 0), columns - max(offset, 0)) <= 0:
        rest = tuple(d for i, d in enumerate(dims) if i not in (low, high))
        return _zeros(g, rest, g.type(data).dtype)
    diagonal = g.op(lookup("diag"), data, at="diagonal", k=offset, axis1=axis1, axis2=axis2)
    return reduced(g, "sum", diagonal, (g.type(diagonal).ndim - 1,), False)


register(
    "_np_trace",
    "data",
    "offset:int=0 axis1:int=0 axis2:int=1",
    infer=forward(_trace_rule),
    ref=_trace,
    expand=_trace_parts,
    doc="Sum of a diagonal.",
)


def _polyval_rule(p: TensorType, x: TensorType) -> TensorType:
    dtype = same_dtype(p, x)
    if p.ndim != 1:
        raise ShapeError(f"the coefficients must have one axis, got {p}")
    return TensorType(x.dims, dtype)


def _polyval(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    wide = p.astype(FLOAT64) if p.dtype.kind == "f" else p
    return convert(np.asarray(np.polyval(wide, x.astype(wide.dtype))), x.dtype)


def _grad_polyval(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> tuple[Any, Any]:
    """d x^(n-1-i) for each coefficient; d p'(x) for x."""
    p, x = ins
    count = g.type(p).size

    def by_p() -> X:
        found = []
        for i in range(count):
            power = g.op(lookup("_power_scalar"), x, at=f"power{i}", scalar=float(count - 1 - i))
            every = tuple(range(g.type(x).ndim))
            summed = total(g, mul(g, douts[0], power), every, keepdims=False)
            found.append(as_shape(g, summed, (1,)))
        return g.op(lookup("Concat"), *found, num_args=count, dim=0) if count > 1 else found[0]

    def by_x() -> X | None:
        if count < 2:
            return None
        part = g.op(lookup("slice"), p, at="head", begin=(0,), end=(count - 1,), step=(1,))
        steps = g.op(
            lookup("_arange"), at="steps", start=float(count - 1), stop=0.0, step=-1.0,
            dtype=g.type(p).dtype,
        )  # fmt: skip
        slope = g.op(lookup("_npi_polyval"), mul(g, part, steps), x, at="slope")
        return mul(g, douts[0], slope)

    return by_p, by_x


register(
    "_npi_polyval",
    "p x",
    infer=forward(_polyval_rule),
    ref=_polyval,
    grad=_grad_polyval,
    doc="Value of a polynomial at x; coefficients from the highest power down.",
)
