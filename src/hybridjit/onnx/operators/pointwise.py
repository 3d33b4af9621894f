"""Readers of ONNX's pointwise operators: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..._core.types import shape_text
from ...errors import MXNetError, ShapeError
from ...formats.onnx.narrow import NARROW
from ...formats.onnx.tensors import dtype_of
from ...ops.rules import broadcast_shapes
from ..equivalents import BINARY, COMPARISONS, LOGICAL, UNARY
from ..importer import Importer, Value, supported
from ..size_values import has_sizes
from ..use import Use
from .narrow import narrowed, nearest_even
from .table import MICROSOFT, translates


@translates("Identity", *UNARY)
def unary(g: Importer, use: Use, x: Value) -> Value:
    """MXNet's equivalent."""
    return g.op(UNARY.get(use.op_type, "identity"), x)


@translates("Round")
def round_to_even(g: Importer, use: Use, x: Value) -> Value:
    """Nearest integer, ties to even."""
    return nearest_even(g, x)


def _placed(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """Second operand; operator set 6 broadcasts it from an axis on."""
    if use.opset >= 7 or "axis" not in use or g.rank(b) == g.rank(a):
        return b
    behind = g.rank(a) - use.number("axis") % g.rank(a) - g.rank(b)
    return g.op("Reshape", b, shape=(*g.shape(b), *(1,) * behind), at="axis")


@translates("Sum", *BINARY)
def fold(g: Importer, use: Use, first: Value, *others: Value) -> Value:
    """Chain of a binary operator."""
    others = tuple(_placed(g, use, first, x) for x in others)
    if not others:
        return g.op("identity", first)
    if use.op_type == "Add":
        dense = _biased(g, use, first, others[0]) or _biased(g, use, others[0], first)
        if dense is not None:
            return dense
    name, *_ = BINARY["Add" if use.op_type == "Sum" else use.op_type]
    return reduce(lambda a, b: g.op(name, a, b), others, first)


def _biased(g: Importer, use: Use, product: Value, bias: Value) -> Value | None:
    """Product with constant weights plus a bias, as one dense layer.

    None for other operands, or if the product has other readers.
    """
    node = None if product.output is None else product.output.node
    if node is None or node.op is None or node.op.name != "FullyConnected" or not bias.is_constant:
        return None
    filters = node.attrs["num_hidden"]
    is_row = g.rank(bias) == 1 and g.shape(bias) == (filters,)
    if not is_row or not node.attrs["no_bias"] or not g.is_read_once(product):
        return None
    return g.again(product, bias, no_bias=False)


@translates("Mean")
def mean_of_operands(g: Importer, use: Use, *xs: Value) -> Value:
    """Sum divided by the number of operands."""
    total = reduce(lambda a, b: g.op("broadcast_add", a, b, at="sum"), xs)
    return g.op("_div_scalar", total, scalar=float(len(xs)))


@translates("Div")
def divide(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """Quotient; for integers truncated towards zero."""
    b = _placed(g, use, a, b)
    if g.dtype(a).kind == "f":
        return g.op("broadcast_div", a, b)
    arrays = [x.array for x in (a, b) if x.array is not None]
    if len(arrays) == 2 and any(map(has_sizes, arrays)):
        over, under = (np.asarray(array, object) for array in arrays)
        if not np.any(over < 0) and not np.any(under <= 0):
            return g.sizes(over // under)
    if a.array is not None and b.array is not None:
        quotient = np.abs(a.array) // np.maximum(np.abs(b.array), 1)
        return g.constant((quotient * np.sign(a.array) * np.sign(b.array)).astype(a.array.dtype))
    wide = [g.op("Cast", x, dtype=np.dtype("float64"), at="wide") for x in (a, b)]
    quotient_ = g.op("trunc", g.op("broadcast_div", *wide, at="quotient"), at="cut")
    return g.op("Cast", quotient_, dtype=g.dtype(a))


@translates("Pow")
def power(g: Importer, use: Use, x: Value, y: Value) -> Value:
    """x to the power y, in the dtype of x."""
    y = _placed(g, use, x, y)
    y = y if g.dtype(y) == g.dtype(x) else g.op("Cast", y, dtype=g.dtype(x), at="exponent")
    if y.array is not None and y.array.size == 1 and not x.is_constant:
        number = float(y.array.reshape(()))
        alone = {2.0: "square", 0.5: "sqrt", 1.0: "identity"}.get(number)
        if len(y.array.shape) <= g.rank(x):
            return g.op(alone, x) if alone else g.op("_power_scalar", x, scalar=number)
    return g.op("broadcast_power", x, y)


@translates("Mod")
def modulo(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """Remainder with the divisor's sign, or as in C with ``fmod``."""
    if not use.number("fmod"):
        return g.op("broadcast_mod", a, b)
    if g.dtype(a).kind == "f":
        sizes = (g.op("abs", x, at="size") for x in (a, b))
        rest = g.op("broadcast_mod", *sizes, at="rest")
        return g.op("broadcast_mul", rest, g.op("sign", a, at="sign"))
    quotient = g.op("trunc", g.op("broadcast_div", a, b, at="quotient"), at="cut")
    return g.op("broadcast_sub", a, g.op("broadcast_mul", quotient, b, at="whole"))


def as_bool(g: Importer, x: Value) -> Value:
    """Convert 0 and 1 to bool."""
    return g.op("Cast", x, dtype=np.dtype("bool"))


def as_number(g: Importer, x: Value) -> Value:
    """Bool operand as uint8, for arithmetic; other operands unchanged."""
    return g.op("Cast", x, dtype=np.dtype("uint8"), at="number") if g.dtype(x).kind == "b" else x


@translates(*COMPARISONS, *LOGICAL)
def compare(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """Comparison or logical operator with a bool result."""
    b = _placed(g, use, a, b)
    name = f"broadcast_{(COMPARISONS | LOGICAL)[use.op_type]}"
    made = g.op(name, as_number(g, a), as_number(g, b), at="number")
    return as_bool(g, made)


@translates("Not")
def logical_not(g: Importer, use: Use, x: Value) -> Value:
    """Logical negation."""
    return as_bool(g, g.op("logical_not", as_number(g, x), at="number"))


@translates("IsNaN")
def is_nan(g: Importer, use: Use, x: Value) -> Value:
    """Mask of NaNs."""
    return as_bool(g, g.op("_not_equal", x, x, at="number"))


@translates("IsInf")
def is_infinite(g: Importer, use: Use, x: Value) -> Value:
    """Mask of infinite elements, of both signs or of one."""
    signs = [
        (use.number("detect_positive", 1), np.inf),
        (use.number("detect_negative", 1), -np.inf),
    ]
    found = [
        g.op("_equal_scalar", x, scalar=value, at="number") for wanted, value in signs if wanted
    ]
    if not found:
        return as_bool(g, g.op("zeros_like", x, at="number"))
    return as_bool(g, reduce(lambda a, b: g.op("broadcast_maximum", a, b, at="either"), found))


@translates("Where")
def where(g: Importer, use: Use, condition: Value, x: Value, y: Value) -> Value:
    """Selection between x and y; all three are broadcast first."""
    chosen = as_number(g, condition)
    shape = broadcast_shape(g.shape(condition), g.shape(x), g.shape(y))
    return g.op("where", *(to_shape(g, v, shape) for v in (chosen, x, y)))


def to_shape(g: Importer, x: Value, shape: tuple[int, ...]) -> Value:
    """``x`` broadcast to a shape of at least its rank."""
    if g.shape(x) == shape:
        return x
    if len(g.shape(x)) < len(shape):
        x = g.op("Reshape", x, shape=padded(g.shape(x), len(shape)), at="rank")
    return g.op("broadcast_to", x, shape=shape, at="broadcast")


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Common broadcast shape. Raises ShapeError if there is none."""
    try:
        whole: tuple[int, ...] = ()
        for shape in shapes:
            whole = broadcast_shapes(whole, shape)  # type: ignore[assignment]
        return whole
    except ShapeError:
        texts = ", ".join(map(shape_text, shapes))
        raise ShapeError(f"the shapes {texts} do not broadcast to a common shape") from None


def padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Shape with leading sizes of 1."""
    return (1,) * (rank - len(shape)) + shape


@translates("Cast")
def cast(g: Importer, use: Use, x: Value) -> Value:
    """Conversion of the dtype."""
    return cast_to(g, x, use.number("to"), *_how(use))


@translates("CastLike")
def cast_like(g: Importer, use: Use, x: Value, like: Value) -> Value:
    """Conversion to the dtype of the second operand."""
    if like.stored:
        return cast_to(g, x, like.stored, *_how(use))
    dtype = g.dtype(like)
    return g.op("identity", x) if g.dtype(x) == dtype else g.op("Cast", x, dtype=dtype)


def _how(use: Use) -> tuple[bool, str]:
    """Whether large values saturate, and the rounding direction of powers of 2."""
    return bool(use.number("saturate", 1)), use.text("round_mode", "up")


def cast_to(
    g: Importer, x: Value, code: int, saturate: bool = True, direction: str = "up"
) -> Value:
    """``x`` in the element type with this code, or in a wider type that holds its values."""
    dtype = supported(dtype_of(code, "it"))
    if code in NARROW and x.stored != code:
        x = narrowed(g, x, NARROW[code], saturate, direction)
    made = g.op("identity", x) if g.dtype(x) == dtype else g.op("Cast", x, dtype=dtype)
    return g.stored(made, code)


@translates("Clip")
def clip(
    g: Importer, use: Use, x: Value, low: Value | None = None, high: Value | None = None
) -> Value:
    """Values limited to an interval: attributes before operator set 11, then operands."""
    if use.opset < 11:
        bounds = [use.real("min", -np.inf), use.real("max", np.inf)]
    elif any(v is not None and v.array is None for v in (low, high)):
        x = x if low is None else g.op("broadcast_maximum", x, low, at="above")
        return g.op("identity", x) if high is None else g.op("broadcast_minimum", x, high)
    else:
        bounds = [
            default if v is None else float(g.known(v, what).reshape(()))
            for v, what, default in ((low, "min", -np.inf), (high, "max", np.inf))
        ]
    info = np.finfo if g.dtype(x).kind == "f" else np.iinfo
    limits = info(g.dtype(x))
    low_, high_ = (min(max(b, float(limits.min)), float(limits.max)) for b in bounds)
    if low_ > high_:
        low_ = high_
    return g.op("clip", x, a_min=low_, a_max=high_)


# Activations


@translates("LeakyRelu")
def leaky_relu(g: Importer, use: Use, x: Value) -> Value:
    """x, or alpha times x for negative x."""
    return g.op("LeakyReLU", x, act_type="leaky", slope=use.real("alpha", 0.01))


@translates("Elu")
def elu(g: Importer, use: Use, x: Value) -> Value:
    """x, or alpha times (exp(x) - 1) for negative x."""
    return g.op("LeakyReLU", x, act_type="elu", slope=use.real("alpha", 1.0))


@translates("Celu")
def celu(g: Importer, use: Use, x: Value) -> Value:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    alpha = use.real("alpha", 1.0)
    inner = g.op("expm1", g.op("_div_scalar", x, scalar=alpha, at="scaled"), at="expm1")
    below = g.op(
        "_minimum_scalar", g.op("_mul_scalar", inner, scalar=alpha, at="times"), scalar=0.0
    )
    return g.op("broadcast_add", g.op("relu", x, at="above"), below)


@translates("Selu")
def selu(g: Importer, use: Use, x: Value) -> Value:
    """gamma times elu."""
    alpha = use.real("alpha", 1.6732631921768188)
    inner = g.op("LeakyReLU", x, act_type="elu", slope=alpha, at="elu")
    return g.op("_mul_scalar", inner, scalar=use.real("gamma", 1.0507010221481323))


@translates("ThresholdedRelu")
def thresholded_relu(g: Importer, use: Use, x: Value) -> Value:
    """x if above alpha, else 0."""
    above = g.op("_greater_scalar", x, scalar=use.real("alpha", 1.0), at="above")
    return g.op("broadcast_mul", x, above)


@translates("Shrink")
def shrink(g: Importer, use: Use, x: Value) -> Value:
    """x moved by ``bias`` towards 0 if beyond +-``lambd``, else 0."""
    bias, limit = use.real("bias"), use.real("lambd", 0.5)
    above = g.op("_greater_scalar", x, scalar=limit, at="above")
    below = g.op("_lesser_scalar", x, scalar=-limit, at="below")
    upper = g.op("broadcast_mul", above, g.op("_minus_scalar", x, scalar=bias, at="less"))
    lower = g.op("broadcast_mul", below, g.op("_plus_scalar", x, scalar=bias, at="more"))
    return g.op("broadcast_add", upper, lower)


@translates("PRelu")
def prelu(g: Importer, use: Use, x: Value, slope: Value) -> Value:
    """x, or slope times x for negative x; the slope broadcasts, in operator set 6 along
    channels."""
    if use.opset < 7 and g.rank(slope) == 1 and g.shape(slope) != (1,):
        behind = (1,) * (g.rank(x) - 2)
        slope = g.op("Reshape", slope, shape=(*g.shape(slope), *behind), at="slope")
    below = g.op("broadcast_mul", g.op("_minimum_scalar", x, scalar=0.0, at="below"), slope)
    return g.op("broadcast_add", g.op("relu", x, at="above"), below)


@translates("HardSigmoid")
def hard_sigmoid(g: Importer, use: Use, x: Value) -> Value:
    """alpha * x + beta, limited to [0, 1]."""
    alpha, beta = use.real("alpha", 0.2), use.real("beta", 0.5)
    return g.op("hard_sigmoid", x, alpha=alpha, beta=beta)


@translates("HardSwish")
def hard_swish(g: Importer, use: Use, x: Value) -> Value:
    """x times a hard sigmoid of slope 1/6."""
    return g.op("broadcast_mul", x, g.op("hard_sigmoid", x, alpha=1 / 6, beta=0.5, at="gate"))


@translates("Softplus")
def softplus(g: Importer, use: Use, x: Value) -> Value:
    """log(1 + exp(x))."""
    return g.op("Activation", x, act_type="softrelu")


@translates("Mish")
def mish(g: Importer, use: Use, x: Value) -> Value:
    """x times tanh(softplus(x))."""
    inner = g.op("Activation", x, act_type="softrelu", at="softplus")
    return g.op("broadcast_mul", x, g.op("tanh", inner, at="tanh"))


@translates("Swish")
def swish(g: Importer, use: Use, x: Value) -> Value:
    """x times sigmoid(alpha * x)."""
    scaled = g.op("_mul_scalar", x, scalar=use.real("alpha", 1.0), at="scaled")
    return g.op("broadcast_mul", x, g.op("sigmoid", scaled, at="gate"))


@translates("SwiGLU")
def swiglu(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """swish(a) times b."""
    scaled = g.op("_mul_scalar", a, scalar=use.real("alpha", 1.0), at="scaled")
    gate = g.op("broadcast_mul", a, g.op("sigmoid", scaled, at="gate"), at="swish")
    return g.op("broadcast_mul", gate, b)


@translates("Gelu", MICROSOFT + "Gelu")
def gelu(g: Importer, use: Use, x: Value) -> Value:
    """x times the cumulative normal distribution, or its approximation by tanh."""
    if use.text("approximate", "none") == "none":
        return g.op("LeakyReLU", x, act_type="gelu")
    return tanh_gelu(g, x)


def tanh_gelu(g: Importer, x: Value) -> Value:
    """Approximation of gelu by tanh."""
    cube = g.op("_mul_scalar", g.op("_power_scalar", x, scalar=3.0, at="cube"), scalar=0.044715)
    inner = g.op("_mul_scalar", g.op("broadcast_add", x, cube), scalar=float(np.sqrt(2 / np.pi)))
    gate = g.op("_plus_scalar", g.op("tanh", inner, at="tanh"), scalar=1.0, at="gate")
    return g.op("broadcast_mul", g.op("_mul_scalar", x, scalar=0.5, at="half"), gate)


@translates("Dropout")
def dropout(g: Importer, use: Use, x: Value, *others: Value | None) -> tuple[Value, Value]:
    """Operand, and a mask of ones."""
    ratio, training = (*others, None, None)[:2]
    if training is not None and bool(g.known(training, "training_mode").any()):
        raise MXNetError("training mode is not supported in loaded models")
    kept = g.op("_equal", x, x, at="mask")
    return g.op("identity", x), as_bool(g, kept)
