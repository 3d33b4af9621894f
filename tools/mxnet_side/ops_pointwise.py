"""Recipes of operators on single elements, of reductions, and of ordering."""

from __future__ import annotations

import numpy as np

from hybridjit.ops import all_ops
from mxnet_side.draw import Draw
from mxnet_side.sides import Meaning
from mxnet_side.singles import (
    FLOATS,
    NUMBERS,
    TYPES,
    Fixed,
    Single,
    axes_of,
    axis_of,
    fixed,
    recipe,
    special,
    values,
)

OPS = {op.name: op for op in all_ops()}
LOOSE = {"tan": 1e-4, "gammaln": 1e-4, "erfinv": 1e-4, "gamma": 1e-4}  # MXNet's approximations
SCALARS = (2, 0.5, -1, 3, -0.75, 1, 0, 1.5, -2.5, 7, 300, -0.0, 1e10, -300)


UNARY = (
    "relu sigmoid tanh exp log sqrt square abs negative round rint fix trunc floor ceil sign "
    "softsign log2 log10 log1p expm1 rsqrt cbrt rcbrt reciprocal sin cos arcsin arccos arctan "
    "sinh cosh arcsinh arccosh arctanh degrees radians erf logical_not "
    "_contrib_sign_ste _contrib_round_ste"
)
SAME = (
    "_copy BlockGrad make_loss zeros_like ones_like shape_array size_array _contrib_div_sqrt_dim "
    "all_finite"
)
STRICT = (
    "elemwise_add elemwise_sub elemwise_mul elemwise_div _mod _maximum _minimum _hypot "
    "_equal _not_equal _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or "
    "_logical_xor"
)
POWERS = ("_power", "broadcast_power", "_power_scalar", "_rpower_scalar")
PLAIN = [name for name in OPS if name not in POWERS]
BROADCAST = " ".join(n for n in PLAIN if n.startswith("broadcast_") and not OPS[n].attrs)
SCALAR = " ".join(name for name in PLAIN if name.endswith("_scalar") and "slice" not in name)


@recipe(" ".join(LOOSE))
@recipe(UNARY, TYPES)
def unary(draw: Draw, name: str) -> Single:
    low, high = OPS[name].domain
    array = values(draw, draw.shape(1, 5), low, high)
    if draw.chance(0.3) and name not in LOOSE:
        array = values(draw, array.shape, -9, 9)
    return Single(name, [special(draw, array)], tolerance=LOOSE.get(name, 2e-5))


@recipe(SAME, TYPES)
def same(draw: Draw, name: str) -> Single:
    return Single(name, [special(draw, values(draw, draw.shape(1, 5)))])


@recipe(STRICT, TYPES)
def strict(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    return Single(name, [special(draw, values(draw, shape)) for _ in "ab"])


@recipe(BROADCAST, TYPES)
def broadcasting(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    pair = [tuple(1 if draw.chance(0.3) else size for size in shape) for _ in "ab"]
    short = draw.int(0, 1)
    pair[short] = pair[short][draw.int(0, len(shape) - 1) :]
    return Single(name, [special(draw, values(draw, shape)) for shape in pair])


@recipe(SCALAR, TYPES)
def scalar(draw: Draw, name: str) -> Single:
    array = special(draw, values(draw, draw.shape()))
    given = {"scalar": draw.pick(*SCALARS), **draw.some(is_int=draw.chance(0.5))}
    return Single(name, [array], given)


@recipe(" ".join(POWERS))
def powers(draw: Draw, name: str) -> Single:
    """Integers to powers of 24 bits at most: larger ones depend on the C library's rounding."""
    case = (broadcasting if name == "broadcast_power" else strict)(draw, name)
    is_whole = draw.chance(0.4)
    if is_whole:
        dtype = draw.pick(*NUMBERS[3:])
        low = 0 if dtype == "uint8" else -8
        bounds = ((low, 9), (min(low + 6, 0), 8))
        case.arrays = [
            fixed(draw.integers(array.shape, *each, dtype))
            for array, each in zip(case.arrays, bounds)
        ]
    if name.endswith("_scalar"):
        base, exponent = (
            draw.pick(2, 3, -2, 5),
            draw.pick(2, 0, 3, 1, *([] if is_whole else SCALARS[:9])),
        )
        case.arrays = case.arrays[1:] if name == "_rpower_scalar" else case.arrays[:1]
        case.attrs.update(draw.some(is_int=draw.chance(0.5)))
        case.attrs["scalar"] = base if name == "_rpower_scalar" else exponent
    return case


@recipe("clip", NUMBERS)
def clip(draw: Draw, name: str) -> Single:
    array = special(draw, values(draw, draw.shape()))
    return Single(name, [array], {"a_min": draw.pick(-1, 0, 0.5, 2), "a_max": draw.pick(0, 1.5, 6)})


@recipe("smooth_l1", NUMBERS)
def smooth_l1(draw: Draw, name: str) -> Single:
    array = special(draw, values(draw, draw.shape()))
    return Single(name, [array], draw.some(scalar=draw.pick(0.5, 1, 2, 0, 3)))


@recipe("hard_sigmoid", FLOATS)
def hard_sigmoid(draw: Draw, name: str) -> Single:
    given = draw.some(alpha=draw.pick(0.1, 0.5, -1), beta=draw.pick(0, 0.3))
    return Single(name, [special(draw, values(draw, draw.shape()))], given)


@recipe("Activation", FLOATS)
def activation(draw: Draw, name: str) -> Single:
    kind = draw.pick("relu", "sigmoid", "tanh", "softrelu", "softsign")
    array = values(draw, draw.shape(1, 5), *draw.pick((-4, 4), (-40, 40), (-100, 100)))
    return Single(name, [special(draw, array)], {"act_type": kind})


@recipe("LeakyReLU", FLOATS)
def leaky(draw: Draw, name: str) -> Single:
    kind = draw.pick("leaky", "elu", "selu", "gelu", "prelu", "rrelu")
    array = special(draw, values(draw, draw.shape(1, 5)))
    given = draw.some(act_type=kind, slope=draw.pick(0.1, 0.7, 1, -0.5, 0))
    given.update(draw.some(lower_bound=draw.pick(0.1, 0, -1)))
    given.update(draw.some(upper_bound=draw.pick(0.3, 0.5)))
    arrays = [array]
    if given.get("act_type") == "prelu":
        channels = array.shape[1] if array.ndim > 1 else array.shape[0]
        arrays.append(values(draw, draw.pick((channels,), (channels,), (1,))))
    return Single(name, arrays, given)


@recipe("Cast amp_cast", TYPES)
def cast(draw: Draw, name: str) -> Single:
    array = special(draw, values(draw, draw.shape(), *draw.pick((-4, 4), (-400, 400))))
    return Single(name, [array], {"dtype": draw.pick(*(FLOATS if "amp" in name else TYPES))})


@recipe("amp_multicast", FLOATS)
def multicast(draw: Draw, name: str) -> Single:
    dtypes = draw.pick(
        ("float16", "float32"), ("float32",) * 3, ("float16",) * 2, ("float16", "float64"),
        ("int32", "float32", "float16"),
    )  # fmt: skip
    shape = draw.shape()
    arrays = [fixed(values(draw, shape), dtype) for dtype in dtypes]
    return Single(
        name, arrays, {"num_outputs": len(arrays), **draw.some(cast_narrow=draw.chance(0.6))}
    )


@recipe("_contrib_gradientmultiplier")
def multiplied(draw: Draw, name: str) -> Single:
    return Single(
        name,
        [values(draw, draw.shape())],
        draw.some(scalar=draw.pick(0.5, -1), is_int=draw.chance(0.5)),
    )


@recipe("_contrib_quadratic", NUMBERS)
def quadratic(draw: Draw, name: str) -> Single:
    given = draw.some(a=draw.pick(0.5, -2), b=draw.pick(-1, 0.25), c=draw.pick(2, -0.5))
    return Single(name, [special(draw, values(draw, draw.shape()))], given)


@recipe("_contrib_allclose", FLOATS)
def allclose(draw: Draw, name: str) -> Single:
    a = special(draw, values(draw, draw.shape()))
    b = a + np.float32(draw.pick(0, 1e-6, 1e-3))
    given = draw.some(rtol=draw.pick(1e-3, 0), atol=draw.pick(1e-2, 0), equal_nan=draw.chance(0.5))
    return Single(name, [a, b], given)


@recipe("MakeLoss")
def make_loss(draw: Draw, name: str) -> Single:
    given = draw.some(grad_scale=2, valid_thresh=0.5, normalization=draw.pick("batch", "valid"))
    return Single(name, [values(draw, draw.shape())], given)


@recipe("LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput SVMOutput")
def regression(draw: Draw, name: str) -> Single:
    array = values(draw, draw.shape(2, 4))
    given = (
        draw.some(grad_scale=2)
        if name != "SVMOutput"
        else draw.some(margin=2, use_linear=draw.chance(0.5), regularization_coefficient=0.5)
    )
    label = values(draw, array.shape[:1] if name == "SVMOutput" else array.shape)
    return Single(name, [array, label], given)


@recipe("IdentityAttachKLSparseReg")
def sparse_reg(draw: Draw, name: str) -> Single:
    array = values(draw, draw.shape(2, 4))
    given = draw.some(sparseness_target=0.2, penalty=0.01, momentum=0.5)
    return Single(name, [array, values(draw, array.shape[1:2])], given)


@recipe("add_n", NUMBERS)
def add_n(draw: Draw, name: str) -> Single:
    shape = draw.shape()
    arrays = [special(draw, values(draw, shape)) for _ in range(draw.int(1, 6))]
    return Single(name, arrays, {"num_args": len(arrays)})


@recipe("where", NUMBERS)
def where(draw: Draw, name: str) -> Single:
    shape = draw.shape()
    condition = np.round(values(draw, draw.pick(shape, shape, shape[:1]), -1, 1))
    condition = fixed(condition, draw.pick("float32", "int32", "int8", "float64", "bool"))
    return Single(name, [condition, *(special(draw, values(draw, shape)) for _ in "xy")])


@recipe("sum mean prod max min nansum nanprod", TYPES)
def reduction(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    given = draw.some(axis=axes_of(draw, len(shape)), keepdims=draw.chance(0.6))
    given.update(draw.some(exclude=draw.chance(0.6)))
    array = values(draw, shape, *((0.8, 1.25) if "prod" in name else (-4, 4)))
    if name.startswith("nan") or draw.chance(0.1):
        array.flat[draw.int(0, array.size - 1)] = np.nan
    elif "prod" not in name:
        array = special(draw, array, 0.15)
    return Single(name, [array], given, half_tolerance=3e-2 if "prod" in name else 4e-3)


@recipe("norm")
def norm(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    given = draw.some(ord=draw.pick(1, 2), axis=axes_of(draw, len(shape)))
    given.update(draw.some(keepdims=draw.chance(0.7)))
    given.update(draw.some(out_dtype=draw.pick(*FLOATS, "int32", None)))
    # MXNet adds up in half precision
    return Single(name, [values(draw, shape)], given, tolerance=1e-3, half_tolerance=3e-2)


@recipe("argmax argmin", NUMBERS)
def extreme(draw: Draw, name: str) -> Single:
    array = special(draw, values(draw, draw.shape(1, 4)))
    axis = draw.pick(None, axis_of(draw, array.ndim), axis_of(draw, array.ndim))
    return Single(name, [array], draw.some(axis=axis, keepdims=draw.chance(0.6)))


@recipe("argmax_channel", NUMBERS)
def argmax_channel(draw: Draw, name: str) -> Single:
    return Single(name, [values(draw, draw.shape(2, 4))])


@recipe("moments", FLOATS)
def moments(draw: Draw, name: str) -> Single:
    array = values(draw, draw.shape(1, 4))
    given = draw.some(axes=axes_of(draw, array.ndim), keepdims=draw.chance(0.5))
    return Single(name, [array], given, tolerance=1e-4)


@recipe("_np_cumsum", NUMBERS)
def cumsum(draw: Draw, name: str) -> Single:
    array = values(draw, draw.shape(1, 4))
    axis = draw.pick(None, draw.int(0, array.ndim - 1))  # MXNet counts from the front only
    given = draw.some(axis=axis, dtype=draw.pick(*FLOATS, "int32", "int64"))
    half = given.get("dtype") == "float16"  # MXNet adds up in half precision
    return Single(name, [array], given, tolerance=3e-2 if half else 2e-5, half_tolerance=3e-2)


def keys(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Operands for sorting: integers, often with ties."""
    count = int(np.prod(shape))
    dtype = draw.pick("float32", "float32", "float64", "int32", "int64", "float16", "int8", "uint8")
    if draw.chance(0.4):
        return fixed(draw.rng.integers(0, max(count // 3, 2), shape) % 100, dtype)
    order = draw.rng.permutation(count).reshape(shape)
    if dtype in ("int8", "uint8", "float16"):
        return fixed(order % 101, dtype)
    return fixed(order - count // 2, dtype)


def ordering_of(data: np.ndarray, axis: int | None, kind: str) -> Meaning:
    """The keys at the places that were found: MXNet leaves equal keys in any order."""
    line = np.asarray(data).reshape(-1) if axis is None else np.asarray(data)
    along = 0 if axis is None else axis

    def keys_at(places: np.ndarray) -> list[np.ndarray]:
        where = places.astype(np.int64)
        if where.min() < 0 or where.max() >= line.shape[along]:
            return [places]
        once = np.diff(np.sort(where, axis=along), axis=along) > 0
        return [np.take_along_axis(line, where, along), once]

    def meaning(outputs: list[np.ndarray]) -> list[np.ndarray]:
        if kind == "mask":
            chosen = outputs[0].reshape(line.shape)
            return [np.sort(np.where(chosen != 0, line, 127), along), np.sort(chosen, along)]
        return [*outputs[:-1], *keys_at(outputs[-1])]

    return meaning


@recipe("topk argsort sort")
def ordering(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axis = draw.pick(None, *[axis_of(draw, len(shape))] * 3)
    given = draw.some(axis=axis, is_ascend=draw.chance(0.5))
    axis = given.get("axis", -1)
    size = shape[axis] if axis is not None else int(np.prod(shape))
    if name != "sort":
        dtypes = ("int32", "int64", "float64", "float32", *(["uint8"] if size < 256 else []))
        given.update(draw.some(dtype=draw.pick(*dtypes)))
    if name == "topk":
        given.update(draw.some(k=draw.pick(1, draw.int(1, size), size, 0, -1)))
        given.update(draw.some(ret_typ=draw.pick("both", "indices", "mask", "value")))
    kind = given.get("ret_typ", "indices") if name != "sort" else "value"
    case = Single(name, [keys(draw, shape)], given)
    case.meaning = None if kind == "value" else ordering_of(case.arrays[0], axis, kind)
    return case


@recipe("softmax log_softmax softmin", FLOATS)
def softmax(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    array = special(draw, values(draw, shape)) if draw.chance(0.2) else values(draw, shape)
    array = np.where(np.isposinf(array) | np.isnan(array), 1, array).astype(np.float32)
    axis = axis_of(draw, len(shape))
    given = draw.some(axis=axis, temperature=draw.pick(None, 0.5, 2.0), use_length=False)
    if draw.chance(0.2):
        given["dtype"] = draw.pick("float64", "float32", "float16", None)
    arrays = [array]
    if name == "softmax" and draw.chance(0.25) and len(shape) > 1:
        given.update(use_length=True)
        taken = given.get("axis", -1)
        rest = tuple(size for a, size in enumerate(shape) if a != taken % len(shape))
        high = shape[taken]
        arrays.append(fixed(draw.integers(rest, 0, high + 1, draw.pick("int32", "int64"))))
    tolerance = 3e-4 if name == "log_softmax" else 2e-5  # oneDNN's logarithm is good to 2e-6
    half = given.get("dtype") == "float16"
    return Single(name, arrays, given, tolerance=4e-3 if half else tolerance)


@recipe("SoftmaxActivation", FLOATS)
def softmax_activation(draw: Draw, name: str) -> Single:
    array = values(draw, draw.shape(2, 5))
    return Single(name, [array], draw.some(mode=draw.pick("instance", "channel")))


@recipe("SoftmaxOutput", FLOATS)
def softmax_output(draw: Draw, name: str) -> Single:
    shape = draw.shape(2, 4)
    flags = draw.pick({}, {"multi_output": True}, {"preserve_shape": True})
    if len(shape) == 4 and not flags:  # MXNet disagrees with itself: oneDNN takes the last axis
        flags = {"multi_output": True}
    given = {**flags, **draw.some(grad_scale=2, ignore_label=1, out_grad=True)}
    given.update(draw.some(use_ignore=draw.chance(0.5)))
    given.update(draw.some(normalization=draw.pick("batch", "valid"), smooth_alpha=0.1))
    label_shape = shape[:1]
    if "multi_output" in flags:
        label_shape = (shape[0], *shape[2:])
    elif "preserve_shape" in flags:
        label_shape = shape[:-1]
    return Single(name, [values(draw, shape), values(draw, label_shape)], given)


@recipe("softmax_cross_entropy", FLOATS)
def cross_entropy(draw: Draw, name: str) -> Single:
    rows, classes = draw.int(1, 9), draw.int(1, 9)
    label = draw.integers((rows,), 0, classes, "float32")
    return Single(name, [values(draw, (rows, classes)), label.view(Fixed)])


@recipe("_histogram", ("float32", "float64", "int32", "int64"))
def histogram(draw: Draw, name: str) -> Single:
    array = values(draw, draw.shape(1, 3), -5, 5)
    if draw.chance(0.5):
        return Single(name, [array], {"bin_cnt": draw.int(1, 9), "range": (-3.0, 2.5)})
    edges = np.sort(draw.rng.choice(np.arange(-9, 9) * 0.5, draw.int(2, 6), replace=False))
    return Single(name, [array, edges.astype(np.float32)])
