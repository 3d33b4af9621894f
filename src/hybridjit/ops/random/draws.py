"""Random operators; all use one generator, which :func:`seed` resets.

Input: distribution parameters as attributes (``_random_normal``) or as arrays (``_sample_normal``,
with a number of draws for each element). Output: samples. The values are NumPy's, not those of
MXNet for the same seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, INT64, TensorType, merge, shape_text
from ...errors import AttributeValueError, DTypeError, ShapeError
from .. import native
from ..algebra import as_shape, mul, negated
from ..attrs import AttrValue
from ..building import Builder, Many, X
from ..casting import convert
from ..gradient import none_at_all
from ..record import Traits
from ..registry import lookup, register
from ..rules import Types, forward, merged, require_float, same_type
from ..signatures import Arrays
from ..tensor.by_index import sum_along
from ..tensor.new_arrays import given_shape, wanted_shape

Shape = tuple[int, ...]
Draw = Callable[..., "np.ndarray"]
Param = float | np.ndarray  # a number, or an array
INT32 = np.dtype("int32")
_DRAWN = Traits(random=True)

_current: np.random.Generator | None = None  # created on first use: numpy.random is slow to import


def seed(value: int | None = None) -> None:
    """Reset the generator; None uses fresh entropy from the system."""
    global _current
    _current = np.random.default_rng(value)


def generator() -> np.random.Generator:
    """The generator of all random operators."""
    if _current is None:
        seed()
    assert _current is not None
    return _current


# Distributions: draws of ``size``; parameters are numbers or arrays. Arrays may have any values, as
# learned parameters do: values out of range have MXNet's meaning, and NaN results in NaN.


def _uniform(low: Param, high: Param, size: Shape) -> np.ndarray:
    return low + (high - low) * generator().random(size)


def _normal(mean: Param, deviation: Param, size: Shape) -> np.ndarray:
    return mean + deviation * generator().standard_normal(size)


def _exponential(rate: Param, size: Shape) -> np.ndarray:
    return generator().standard_exponential(size) / rate


def _gamma(alpha: Param, beta: Param, size: Shape) -> np.ndarray:
    """Shape ``alpha`` and scale ``beta``: the mean is alpha * beta."""
    return generator().gamma(alpha, beta, size)


def _poisson(rate: Param, size: Shape) -> np.ndarray:
    """Counts; 0 for a negative rate."""
    rate = np.broadcast_to(np.asarray(rate, np.float64), size)
    counts = generator().poisson(np.where(rate > 0, rate, 0.0))
    return np.where(np.isnan(rate), rate, counts)


def _negative_binomial(k: Param, p: Param, size: Shape) -> np.ndarray:
    """Failures before ``k`` successes of probability ``p``: a Poisson with a gamma rate."""
    odds = np.maximum((1.0 - np.asarray(p)) / np.asarray(p), 0.0)
    return _poisson(generator().gamma(k, odds, size), size)


def _mean_negative_binomial(mu: Param, alpha: Param, size: Shape) -> np.ndarray:
    """Mean ``mu``, variance mu + alpha * mu^2; alpha 0 is the Poisson distribution."""
    mu, alpha = np.broadcast_arrays(np.maximum(mu, 0.0), np.asarray(alpha, float))
    spread = np.where(alpha > 0, alpha, 1.0)
    rate = np.where(alpha > 0, generator().gamma(1.0 / spread, mu * spread, size), mu)
    rate = np.where(np.isnan(alpha), alpha, rate)
    return _poisson(rate, size)


def _at_least(limit: float, name: str, value: float, above: bool = False) -> None:
    if not (value > limit if above else value >= limit):
        bound = "above" if above else "at least"
        raise AttributeValueError(f"{name} must be {bound} {limit:g}, got {value:g}")


def _check_uniform(low: float, high: float) -> None:
    if not low <= high:
        raise AttributeValueError(f"low must be at most high, got {low:g} and {high:g}")


def _check_probability(p: float) -> None:
    if not 0.0 < p <= 1.0:
        raise AttributeValueError(f"p must be above 0 and at most 1, got {p:g}")


def _check_gamma(alpha: float, beta: float) -> None:
    _at_least(0, "alpha", alpha, above=True)
    _at_least(0, "beta", beta, above=True)


def _check_negative_binomial(k: float, p: float) -> None:
    _at_least(0, "k", k, above=True)
    _check_probability(p)


def _check_mean_negative_binomial(mu: float, alpha: float) -> None:
    _at_least(0, "mu", mu)
    _at_least(0, "alpha", alpha)


def _draw_types(check: Callable[..., None]) -> Callable[..., tuple[Types, Types]]:
    """Type rule: parameters in range, a floating dtype, and the shape as for ``_zeros``."""

    def infer(
        ins: Types, outs: Types, *, shape: Shape | None, dtype: np.dtype | None, **params: float
    ) -> tuple[Types, Types]:
        check(**params)
        out = TensorType(wanted_shape(shape), dtype or FLOAT32)
        require_float("a random draw", out)
        return ins, merged(outs, (out,))

    return infer


def _draw_like_types(check: Callable[..., None]) -> Callable[..., tuple[Types, Types]]:
    def infer(ins: Types, outs: Types, **params: float) -> tuple[Types, Types]:
        check(**params)
        require_float("a random draw", ins[0])
        return same_type(ins, outs)

    return infer


def _from_attributes(draw: Draw, names: tuple[str, ...]) -> Draw:
    def ref(*, shape: Shape | None, dtype: np.dtype | None, **params: float) -> np.ndarray:
        values = draw(*(params[name] for name in names), given_shape(shape))
        return convert(np.asarray(values), dtype or FLOAT32)

    return ref


def _from_data(draw: Draw, names: tuple[str, ...]) -> Draw:
    def ref(data: np.ndarray, **params: float) -> np.ndarray:
        values = draw(*(params[name] for name in names), data.shape)
        return convert(np.asarray(values), data.dtype)

    return ref


def _sample_type(
    first: TensorType, *rest: TensorType, shape: Shape, dtype: np.dtype | None
) -> TensorType:
    """The parameters' shape, followed by ``shape`` draws for each."""
    params = first
    for t in rest:
        params = merge(params, t)
    if any(size < 1 for size in shape):
        raise ShapeError(f"the number of draws must be positive, got {shape_text(shape)}")
    result = TensorType(params.dims + shape, dtype or FLOAT32)
    require_float("a random draw", result)
    return result


def _of_one_type(rule: Callable[..., tuple[Types, Types]]) -> Callable[..., tuple[Types, Types]]:
    """``rule`` for operands of equal types, which are inferred from each other."""

    def infer(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
        return rule(same_type(ins, ())[0], outs, **attrs)

    return infer


def _from_arrays(draw: Draw) -> Draw:
    def ref(*params: np.ndarray, shape: Shape, dtype: np.dtype | None) -> np.ndarray:
        size = params[0].shape + shape
        wide = [p.astype(np.float64).reshape(p.shape + (1,) * len(shape)) for p in params]
        types = [TensorType(p.shape, p.dtype) for p in params]
        result = _sample_type(*types, shape=shape, dtype=dtype)
        assert result.dtype is not None
        return convert(np.asarray(draw(*wide, size)), result.dtype)

    return ref


def distribution(
    name: str,
    params: str,
    draw: Draw,
    check: Callable[..., None],
    doc: str,
    *,
    inputs: str = "",
    aliases: str = "",
) -> None:
    """Register ``_random_name``, ``_random_name_like`` and ``_sample_name``.

    ``params`` declares the parameters as attributes, ``inputs`` are their names as arrays.
    """
    names = tuple(item.partition(":")[0] for item in params.split())
    register(
        f"_random_{name}",
        "",
        f"{params} shape:shape?=None dtype:dtype?=None",
        traits=_DRAWN,
        infer=_draw_types(check),
        ref=_from_attributes(draw, names),
        aliases=f"random_{name} {aliases}",
        doc=f"Random numbers: {doc}",
    )
    register(
        f"_random_{name}_like",
        "data",
        params,
        traits=_DRAWN,
        infer=_draw_like_types(check),
        ref=_from_data(draw, names),
        grad=none_at_all,
        doc=f"Random numbers in the shape of the data: {doc}",
    )
    register(
        f"_sample_{name}",
        inputs or " ".join(names),
        "shape:shape=() dtype:dtype?=None",
        traits=_DRAWN,
        infer=_of_one_type(forward(_sample_type)),
        ref=_from_arrays(draw),
        grad=none_at_all,
        aliases=f"sample_{name}",
        doc=f"Random numbers for each element of the parameters: {doc}",
    )


distribution(
    "uniform",
    "low:float=0 high:float=1",
    _uniform,
    _check_uniform,
    "uniform over [low, high).",
    aliases="uniform",
)
distribution(
    "normal",
    "loc:float=0 scale:float=1",
    _normal,
    lambda loc, scale: _at_least(0, "scale", scale, above=True),
    "mean loc, standard deviation scale.",
    inputs="mu sigma",
    aliases="normal",
)
distribution(
    "exponential",
    "lam:float=1",
    _exponential,
    lambda lam: _at_least(0, "lam", lam, above=True),
    "density lam * exp(-lam * x).",
)
distribution(
    "gamma",
    "alpha:float=1 beta:float=1",
    _gamma,
    _check_gamma,
    "shape alpha, scale beta.",
)
distribution(
    "poisson",
    "lam:float=1",
    _poisson,
    lambda lam: _at_least(0, "lam", lam),
    "counts with mean lam.",
)
distribution(
    "negative_binomial",
    "k:int=1 p:float=1",
    _negative_binomial,
    _check_negative_binomial,
    "failures before k successes of probability p.",
)
distribution(
    "generalized_negative_binomial",
    "mu:float=1 alpha:float=1",
    _mean_negative_binomial,
    _check_mean_negative_binomial,
    "counts with mean mu and variance mu + alpha * mu^2.",
)


def _randint_types(
    ins: Types, outs: Types, *, low: int, high: int, shape: Shape | None, dtype: np.dtype | None
) -> tuple[Types, Types]:
    if not low < high:
        raise AttributeValueError(f"randint's low must be below high, got {low} and {high}")
    result = dtype or INT32
    if result.kind != "i":
        raise DTypeError(f"randint's dtype must be int32 or int64, got {result.name}")
    return ins, merged(outs, (TensorType(wanted_shape(shape), result),))


def randint(*, low: int, high: int, shape: Shape | None, dtype: np.dtype | None) -> np.ndarray:
    return convert(generator().integers(low, high, given_shape(shape)), dtype or INT32)


register(
    "_random_randint",
    "",
    "low:long! high:long! shape:shape?=None dtype:dtype?=None",
    traits=_DRAWN,
    infer=_randint_types,
    ref=randint,
    aliases="random_randint",
    doc="Random integers, uniform over [low, high).",
)


def _multinomial_types(
    data: TensorType, *, shape: Shape, get_prob: bool, dtype: np.dtype
) -> TensorType | Types:
    require_float("sample_multinomial", data)
    if data.ndim < 1 or data.dims[-1] == 0:
        raise ShapeError(f"sample_multinomial needs a nonempty last axis, data is {data}")
    drawn = TensorType((data.dims[:-1] + shape) or (1,), dtype)
    return (drawn, drawn.with_dtype(data.dtype)) if get_prob else drawn


def multinomial(data: np.ndarray, *, shape: Shape, get_prob: bool, dtype: np.dtype) -> Arrays:
    """Indices drawn by the probabilities along the last axis, and their log probabilities."""
    rows = data.reshape(-1, data.shape[-1])
    places = drawn_places(rows, generator().random((len(rows), int(np.prod(shape)))))
    size = data.shape[:-1] + shape or (1,)
    drawn = convert(places.reshape(size), dtype)
    if not get_prob:
        return drawn
    odds = np.log(np.take_along_axis(rows, places, axis=1).astype(np.float64))
    return drawn, convert(odds.reshape(size), data.dtype)


# Number of elements per step of the first search.
_STEP = 16
# Factor of the elements of rows in the size from which machine code is used.
_WORTH = 16
# Most numbers that draws compare at once.
_MOST_COMPARED = 1 << 22


def drawn_places(rows: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The index in a row of ``rows`` at which the prefix sum exceeds a fraction of the row's sum.

    Each fraction is an element of the same row of ``parts``.
    """
    count, size = rows.shape
    rows = rows if rows.dtype in (FLOAT32, FLOAT64) else rows.astype(FLOAT32)
    run = native.routine("draw", rows.dtype.name, _STEP, size=_WORTH * rows.size)
    if run is None or not parts.size:
        return searched(rows, parts)
    steps = -(-size // _STEP)
    places, ends = np.empty(parts.shape, INT64), np.empty((count, steps))
    arrays = [np.ascontiguousarray(rows), parts, places, ends]
    run(arrays, [count, size, parts.shape[1], steps, (steps - 1).bit_length()])
    return places


def searched(rows: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The result of :func:`drawn_places`, computed in NumPy.

    The index is searched among sums of ``_STEP`` elements, then among these elements, so that most
    elements are added once, in vectors. For many draws from many elements, the search runs row by
    row, with the same result.
    """
    count, size = rows.shape
    steps = -(-size // _STEP)
    padded = np.zeros((count, steps * _STEP))
    padded[:, :size] = rows
    blocks = padded.reshape(count, steps, _STEP)
    sums = blocks[:, :, 0].copy()
    for k in range(1, _STEP):  # in the order of cumsum
        sums += blocks[:, :, k]
    ends = np.cumsum(sums, axis=1)
    level = parts * ends[:, -1:]
    is_large = parts.size * max(steps, _STEP) > max(_MOST_COMPARED, padded.size)
    places = (_places_by_row if is_large else _places_at_once)(blocks, ends, level)
    return np.minimum(places, size - 1)


def _places_at_once(blocks: np.ndarray, ends: np.ndarray, level: np.ndarray) -> np.ndarray:
    step = _first_above(ends[:, None, :], level)
    which = np.arange(len(blocks))[:, None]
    start = np.where(step, ends[which, step - 1], 0.0)
    inner = np.cumsum(blocks[which, step], axis=2) + start[..., None]
    return step * _STEP + _first_above(inner, level)


def _places_by_row(blocks: np.ndarray, ends: np.ndarray, level: np.ndarray) -> np.ndarray:
    """The same indices, with memory for the elements and for one number per draw.

    Sums are limited to the ends of their step, so that one search in a row finds step and element.
    """
    sums = np.cumsum(blocks, axis=2)
    sums[:, 1:] += ends[:, :-1, None]
    np.minimum(sums[:, :-1], ends[:, :-1, None], out=sums[:, :-1])
    sums[:, :-1, -1] = ends[:, :-1]
    flat = sums.reshape(len(blocks), -1)
    return np.stack([row.searchsorted(at, "right") for row, at in zip(flat, level)])


def _first_above(ends: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Index of the first of the ascending ``ends`` (last axis) above the level; the last one if
    there is none."""
    is_above = ends > level[..., None]
    is_above[..., -1] = True
    return is_above.argmax(axis=-1)


def _grad_multinomial(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    shape: Shape,
    get_prob: bool,
    dtype: np.dtype,
) -> X | None:
    """Gradient of the log probabilities, divided by the probabilities that were drawn."""
    if not get_prob or douts[1] is None or not g.type(outs[0]).size:
        return None
    t = g.type(ins[0])
    size = t.dims[-1]
    rows = t.size // size
    lines = (rows, g.type(outs[0]).size // rows)
    inverse = g.op(lookup("exp"), negated(g, outs[1]), at="inverse")
    places = as_shape(g, g.op(lookup("Cast"), outs[0], at="places", dtype=INT64), lines)
    shares = as_shape(g, mul(g, douts[1], inverse), lines)
    return as_shape(g, sum_along(g, shares, places, size), t.dims)


register(
    "_sample_multinomial",
    "data",
    "shape:shape=() get_prob:bool=False dtype:dtype=int32",
    traits=Traits(random=True, unread=(0,), stops=lambda attrs: () if attrs["get_prob"] else (0,)),
    infer=forward(_multinomial_types),
    ref=multinomial,
    grad=_grad_multinomial,
    outputs=lambda get_prob, **attrs: ("output0", "output1") if get_prob else ("output",),
    aliases="sample_multinomial",
    doc="Indices drawn with the probabilities along the last axis.",
)


def shuffle(data: np.ndarray) -> np.ndarray:
    if data.ndim == 0:
        return data.copy()
    order = generator().permutation(data.shape[0])
    return np.array(data[order], order="C")


register(
    "_shuffle",
    "data",
    traits=_DRAWN,
    infer=same_type,
    ref=shuffle,
    aliases="shuffle",
    doc="Shuffle the rows of axis 0.",
)
