"""Random draws of NumPy mode: parameters are scalars or arrays that broadcast to ``size``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, INT64, Shape, TensorType, shape_text
from ...errors import AttributeValueError, DTypeError, MXNetError, ShapeError
from ..algebra import div, mul, negated, shifted, sub
from ..attrs import AttrValue
from ..building import Builder, Many, Reached, X
from ..casting import convert
from ..gradient import none_at_all
from ..random.draws import generator
from ..record import Traits
from ..registry import lookup, register
from ..rules import forward


class DrawError(MXNetError, ValueError):
    """A parameter of a distribution is out of its range."""


_DRAWN = Traits(random=True)
Draw = Callable[..., np.ndarray]
# slope(g, y, parameters, d): gradients with respect to the parameters of a draw y.
Slope = Callable[..., Sequence[Any]]


def drawn_shape(params: Sequence[Shape], size: Shape | None, batch: bool = False) -> Shape:
    """Shape of the draws. Raises ShapeError if the parameters do not broadcast to ``size``."""
    if not params:
        return size or ()
    try:
        own = np.broadcast_shapes(*params)
        if size is None:
            return own
        if batch:
            return (*size, *own)
        if np.broadcast_shapes(own, size) != size:
            raise ValueError
    except (ValueError, RuntimeError):  # the latter for more dimensions than NumPy has
        shown = " and ".join(map(shape_text, params))
        raise ShapeError(
            f"parameters {shown} do not broadcast to {shape_text(size or ())}"
        ) from None
    return size


def _require_float(dtype: np.dtype) -> np.dtype:
    if dtype.kind != "f":
        raise DTypeError(f"draws must be float16, float32 or float64, got {dtype.name}")
    return dtype


def _distribution(
    name: str,
    params: str,
    draw: Draw,
    slope: Slope | None,
    doc: str,
    *,
    check: Callable[..., None] = lambda **values: None,
    dtype: str = "",
    batch: bool = False,
) -> None:
    """Register a distribution. ``params`` declares the scalars; a parameter of None is an array."""
    names = tuple(item.partition(":")[0] for item in params.split())

    def inputs(**attrs: AttrValue) -> tuple[str, ...]:
        missing = [n for n in names if attrs[n] is None]
        return tuple(f"input{i + 1}" for i in range(len(missing)))

    def rule(*arrays: TensorType, size: Shape | None, **attrs: Any) -> TensorType:
        check(**{n: attrs[n] for n in names if attrs[n] is not None})
        shape = drawn_shape([t.dims for t in arrays], size, batch)
        return TensorType(shape, _require_float(attrs.get("dtype") or FLOAT32))

    def given(arrays: Sequence[Any], attrs: Any) -> list[Any]:
        rest = list(arrays)
        return [rest.pop(0) if attrs[n] is None else attrs[n] for n in names]

    def ref(*arrays: np.ndarray, size: Shape | None, **attrs: Any) -> np.ndarray:
        shape = drawn_shape([x.shape for x in arrays], size, batch)
        values = given([x.astype(FLOAT64) for x in arrays], attrs)
        check(**dict(zip(names, values)))
        return convert(np.asarray(draw(*values, shape)), attrs.get("dtype") or FLOAT32)

    def grad(
        g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Any
    ) -> tuple[Reached[X], ...]:
        assert slope is not None
        values = given(ins, attrs)
        found = slope(g, outs[0], values, douts[0])
        return tuple(f for f, n in zip(found, names) if attrs[n] is None)

    register(
        name,
        inputs,
        f"{params} size:shape?=None {dtype}",
        infer=forward(rule),
        ref=ref,
        grad=none_at_all if slope is None else grad,
        traits=_DRAWN,
        doc=doc,
    )


def _positive(**values: Any) -> None:
    """Raise DrawError for a negative parameter."""
    for value in values.values():
        if value < 0 if isinstance(value, float) else np.any(np.asarray(value) < 0):
            raise DrawError("the parameters of this distribution cannot be negative")


def _above(**values: Any) -> None:
    """Raise DrawError for a parameter that is not positive."""
    for value in values.values():
        if np.any(np.asarray(value) <= 0):
            raise DrawError("the parameters of this distribution must be above 0")


def _scale_positive(scale: Any = 0.0, **others: Any) -> None:
    _positive(scale=scale)


def _as_array(g: Builder[X], x: X | float, like: X) -> X:
    """Parameter as an array, for formulas that divide by it."""
    if not isinstance(x, (int, float)):
        return x
    t = g.type(like)
    return g.op(lookup("_npi_full_like"), like, at="number", fill_value=x, dtype=t.dtype)


def _by_location(g: Builder[X], y: X, values: Sequence[Any], d: X) -> Sequence[Any]:
    """Gradients of loc + scale * noise."""
    loc, scale = values

    def by_scale() -> X:
        rest = sub(g, y, loc) if not isinstance(loc, (int, float)) else shifted(g, y, -loc)
        return mul(g, d, div(g, rest, _as_array(g, scale, y)))

    return (lambda: d), by_scale


def _by_scale(g: Builder[X], y: X, values: Sequence[Any], d: X) -> Sequence[Any]:
    """Gradient of scale * noise."""
    return (lambda: mul(g, d, div(g, y, values[0])),)


def _log(g: Builder[X], x: X) -> X:
    return g.op(lookup("log"), x, at="log")


def _by_weibull(g: Builder[X], y: X, values: Sequence[Any], d: X) -> Sequence[Any]:
    """Gradient of noise^(1/a): -y log(y) / a"""
    return (lambda: mul(g, d, negated(g, div(g, mul(g, y, _log(g, y)), values[0]))),)


def _by_pareto(g: Builder[X], y: X, values: Sequence[Any], d: X) -> Sequence[Any]:
    """Gradient of exp(noise / a) - 1: -(y + 1) log(y + 1) / a"""

    def by_a() -> X:
        whole = shifted(g, y, 1.0)
        return mul(g, d, negated(g, div(g, mul(g, whole, _log(g, whole)), values[0])))

    return (by_a,)


def _uniform(low: Any, high: Any, size: Shape) -> np.ndarray:
    return low + (high - low) * generator().random(size)


def _normal(loc: Any, scale: Any, size: Shape) -> np.ndarray:
    return loc + scale * generator().standard_normal(size)


def _standard_exponential(size: Shape) -> Any:
    return generator().standard_exponential(size)


_FLOATS = "dtype:dtype=float32"
for _suffix, _batch in (("", False), ("_n", True)):
    _distribution(
        f"_npi_uniform{_suffix}",
        "low:float?=None high:float?=None",
        _uniform,
        None,
        "Draws uniform over [low, high).",
        dtype=_FLOATS,
        batch=_batch,
    )
    _distribution(
        f"_npi_normal{_suffix}",
        "loc:float?=None scale:float?=None",
        _normal,
        _by_location,
        "Normal draws with mean loc and standard deviation scale.",
        check=_scale_positive,
        dtype=_FLOATS,
        batch=_batch,
    )
_distribution(
    "_npi_gamma",
    "shape:float?=None scale:float?=None",
    lambda shape, scale, size: np.asarray(generator().gamma(shape, scale, size)),
    None,
    "Draws from the gamma distribution.",
    check=_above,
    dtype=_FLOATS,
)
_distribution(
    "_npi_gumbel",
    "loc:float?=None scale:float?=None",
    lambda loc, scale, size: loc - scale * np.log(_standard_exponential(size)),
    _by_location,
    "Draws from the Gumbel distribution.",
    check=_scale_positive,
)
_distribution(
    "_npi_logistic",
    "loc:float?=None scale:float?=None",
    lambda loc, scale, size: loc + scale * generator().logistic(size=size),
    _by_location,
    "Draws from the logistic distribution.",
    check=_scale_positive,
)
_distribution(
    "_npi_exponential",
    "scale:float?=1",
    lambda scale, size: scale * _standard_exponential(size),
    _by_scale,
    "Draws from the exponential distribution with mean scale.",
    check=_positive,
)
_distribution(
    "_npi_rayleigh",
    "scale:float?=1",
    lambda scale, size: scale * np.sqrt(2 * _standard_exponential(size)),
    _by_scale,
    "Draws from the Rayleigh distribution.",
    check=_positive,
)
_distribution(
    "_npi_weibull",
    "a:float?=None",
    lambda a, size: _standard_exponential(size) ** (1.0 / np.asarray(a)),
    _by_weibull,
    "Draws from the Weibull distribution.",
    check=_above,
)
_distribution(
    "_npi_pareto",
    "a:float?=None",
    lambda a, size: np.expm1(_standard_exponential(size) / np.asarray(a)),
    _by_pareto,
    "Draws from the Pareto distribution that starts at 0.",
    check=_above,
)
_distribution(
    "_npi_powerd",
    "a:float?=None",
    lambda a, size: (1 - generator().random(size)) ** (1.0 / np.asarray(a)),
    None,
    "Draws with density a x^(a - 1) on (0, 1].",
    check=_above,
)


def _bernoulli_rule(
    *input1: TensorType, size: Shape | None, dtype: np.dtype, **attrs: Any
) -> TensorType:
    return TensorType(drawn_shape([t.dims for t in input1], size), dtype)


def _bernoulli(
    *input1: np.ndarray,
    prob: float | None,
    logit: float | None,
    size: Shape | None,
    dtype: np.dtype,
    is_logit: bool,
) -> np.ndarray:
    shape = drawn_shape([x.shape for x in input1], size)
    value: Any = input1[0].astype(FLOAT64) if input1 else logit if is_logit else prob
    odds = 1 / (1 + np.exp(-value)) if is_logit else value
    if not is_logit and not ((np.asarray(odds) >= 0) & (np.asarray(odds) <= 1)).all():
        raise DrawError("a probability must be between 0 and 1")
    return convert((generator().random(shape) < odds), dtype)


register(
    "_npi_bernoulli",
    lambda prob, logit, **attrs: ("input1",) if prob is None and logit is None else (),
    "prob:float?=None logit:float?=None size:shape?=None dtype:dtype=float32 is_logit:bool=False",
    infer=forward(_bernoulli_rule),
    ref=_bernoulli,
    grad=none_at_all,
    traits=_DRAWN,
    doc="Bernoulli draws: 1 with a given probability, else 0.",
)


def _choice_inputs(a: int | None, weighted: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("input1", "input2")[: (a is None) + weighted]


def _choice_rule(
    *arrays: TensorType, a: int | None, size: Shape | None, replace: bool, weighted: bool
) -> TensorType:
    if a is None and arrays[0].ndim != 1:
        raise ShapeError(f"choice draws from a vector, got {arrays[0]}")
    return TensorType(size or (), INT64 if a is not None else arrays[0].dtype)


def _choice(
    *arrays: np.ndarray, a: int | None, size: Shape | None, replace: bool, weighted: bool
) -> np.ndarray:
    rest = list(arrays)
    source = None if a is not None else rest.pop(0)
    count = a if source is None else source.shape[0]
    assert count is not None
    odds = None
    if weighted:
        odds = rest[0].astype(FLOAT64)
        odds = odds / odds.sum()
    wanted = int(np.prod(size or (), dtype=int))
    if not replace and wanted > count:
        raise AttributeValueError(f"choice cannot draw {wanted} of {count} without replacement")
    places = np.asarray(generator().choice(count, size or (), replace, odds))
    return convert(places, INT64) if source is None else np.asarray(source[places])


register(
    "_npi_choice",
    _choice_inputs,
    "a:long?=None size:shape?=None replace:bool=True weighted:bool=False",
    infer=forward(_choice_rule),
    ref=_choice,
    grad=none_at_all,
    traits=_DRAWN,
    doc="Elements drawn from a vector, or integers below a.",
)


def _multinomial_rule(
    *a: TensorType, n: int, pvals: tuple[float, ...] | None, size: Shape | None
) -> TensorType:
    count = len(pvals) if pvals is not None else a[0].dims[-1] if a[0].ndim == 1 else -1
    if count < 0:
        raise ShapeError(f"pvals must be a vector, got {a[0]}")
    return TensorType((*(size or ()), count), INT64)


def _multinomial(
    *a: np.ndarray, n: int, pvals: tuple[float, ...] | None, size: Shape | None
) -> np.ndarray:
    odds = np.asarray(pvals if pvals is not None else a[0], FLOAT64)
    if not odds.size:
        return np.zeros((*(size or ()), 0), INT64)
    if (odds < 0).any() or odds[:-1].sum() > 1 + 1e-6:
        raise DrawError("pvals must be probabilities whose sum is 1")
    whole = np.append(odds[:-1], max(1 - odds[:-1].sum(), 0.0))
    return convert(generator().multinomial(n, whole / whole.sum(), size), INT64)


register(
    "_npi_multinomial",
    lambda pvals, **attrs: ("a",) if pvals is None else (),
    "n:int! pvals:floats?=None size:shape?=None",
    infer=forward(_multinomial_rule),
    ref=_multinomial,
    grad=none_at_all,
    traits=_DRAWN,
    doc="Count of each outcome in n trials.",
)
