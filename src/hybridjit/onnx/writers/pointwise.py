"""Writers of pointwise operators: ONNX's equivalent if it exists, else a formula."""

from __future__ import annotations

import math

import numpy as np

from ...errors import MXNetError
from ..equivalents import BINARY, COMPARISONS, LOGICAL, UNARY
from ..exporter import Exporter, Use, Value
from .formulas import by_formula
from .table import writes

_UNARY = {name: op_type for op_type, name in UNARY.items()}


@writes(*_UNARY)
def unary(g: Exporter, use: Use, x: Value) -> Value:
    """ONNX's equivalent; for integers the formula."""
    if g.dtype(x).kind != "f" and use.op.name not in ("abs", "negative", "sign"):
        return by_formula(g, use, x)
    return g.emit(_UNARY[use.op.name], x)


@writes(
    *("_copy", "BlockGrad", "MakeLoss", "make_loss", "LinearRegressionOutput"),
    *("MAERegressionOutput", "SVMOutput", "_identity_with_attr_like_rhs", "Dropout"),
    *("IdentityAttachKLSparseReg", "_contrib_gradientmultiplier"),
)
def identity(g: Exporter, use: Use, x: Value, *others: Value) -> Value:
    """Identity: the operator's other effects concern training."""
    return g.emit("Identity", x, type=x.type)


@writes("LogisticRegressionOutput")
def logistic(g: Exporter, use: Use, x: Value, *label: Value) -> Value:
    """Sigmoid of the data."""
    return g.emit("Sigmoid", x)


_BINARY = {name: op_type for op_type, names in BINARY.items() for name in names}


@writes(*_BINARY)
def binary(g: Exporter, use: Use, a: Value, b: Value) -> Value:
    """ONNX's equivalent, which broadcasts."""
    return g.emit(_BINARY[use.op.name], a, b)


@writes("elemwise_div", "broadcast_div", "_power", "broadcast_power")
def floating_binary(g: Exporter, use: Use, a: Value, b: Value) -> Value:
    """Quotient or power; for integers the formula."""
    if g.dtype(a).kind != "f":
        return by_formula(g, use, a, b)
    return g.emit("Div" if use.op.name.endswith("div") else "Pow", a, b)


_SCALAR = {
    "_plus_scalar": "Add",
    "_minus_scalar": "Sub",
    "_mul_scalar": "Mul",
    "_div_scalar": "Div",
    "_maximum_scalar": "Max",
    "_minimum_scalar": "Min",
    "_power_scalar": "Pow",
}
_REVERSED = {"_rminus_scalar": "Sub", "_rdiv_scalar": "Div", "_rpower_scalar": "Pow"}


@writes(*_SCALAR, *_REVERSED)
def with_number(g: Exporter, use: Use, x: Value) -> Value:
    """Operation with a scalar; for integers the formula."""
    if g.dtype(x).kind != "f":
        return by_formula(g, use, x)
    number = g.like(x, use.attrs["scalar"])
    if use.op.name in _REVERSED:
        return g.emit(_REVERSED[use.op.name], number, x)
    return g.emit(_SCALAR[use.op.name], x, number)


@writes("square")
def square(g: Exporter, use: Use, x: Value) -> Value:
    """x times x."""
    return g.emit("Mul", x, x)


@writes("add_n")
def add_n(g: Exporter, use: Use, *xs: Value) -> Value:
    """Sum of all operands: Sum for floats, otherwise a chain of additions."""
    if g.dtype(xs[0]).kind == "f":
        return g.emit("Sum", *xs)
    total = xs[0]
    for x in xs[1:]:
        total = g.emit("Add", total, x, at="sum", type=x.type)
    return g.emit("Identity", total)


_COMPARISONS = {name: op_type for op_type, name in COMPARISONS.items()} | {"not_equal": "Equal"}
_LOGICAL = {name: op_type for op_type, name in LOGICAL.items()}


def _forms(name: str) -> list[str]:
    return [f"_{name}", f"broadcast_{name}", f"_{name}_scalar"]


def _stem(name: str) -> str:
    return name.removeprefix("broadcast_").lstrip("_").removesuffix("_scalar")


def _second(g: Exporter, use: Use, x: Value, others: tuple[Value, ...]) -> Value:
    return others[0] if others else g.like(x, use.attrs["scalar"])


@writes(*(form for name in _COMPARISONS for form in _forms(name)))
def compare(g: Exporter, use: Use, x: Value, *others: Value) -> Value:
    """Comparison: 1 where true, else 0, in the operands' dtype."""
    if not others and g.dtype(x).kind != "f":
        return by_formula(g, use, x)
    name = _stem(use.op.name)
    found = g.emit(_COMPARISONS[name], x, _second(g, use, x, others), at="holds")
    if name == "not_equal":
        found = g.emit("Not", found, at="not")
    return g.cast(found, g.dtype(x), "")


def as_bool(g: Exporter, x: Value) -> Value:
    """Mask of the nonzero elements."""
    return g.cast(x, "bool", "bool")


@writes(*(form for name in _LOGICAL for form in _forms(name)))
def logical(g: Exporter, use: Use, x: Value, *others: Value) -> Value:
    """Logical operator on ``x != 0``."""
    sides = (as_bool(g, x), as_bool(g, _second(g, use, x, others)))
    return g.cast(g.emit(_LOGICAL[_stem(use.op.name)], *sides, at="holds"), g.dtype(x), "")


@writes("logical_not")
def logical_not(g: Exporter, use: Use, x: Value) -> Value:
    """1 where an element is 0."""
    return g.cast(g.emit("Not", as_bool(g, x), at="not"), g.dtype(x), "")


@writes("where")
def where(g: Exporter, use: Use, condition: Value, x: Value, y: Value) -> Value:
    """Selection between x and y; a condition of one axis selects rows."""
    chosen = as_bool(g, condition)
    missing = g.rank(x) - g.rank(condition)
    if missing and g.rank(condition) == 1:
        axes = g.ints(*range(1, missing + 1))
        chosen = g.emit("Unsqueeze", chosen, axes, at="rows")
    return g.emit("Where", chosen, x, y)


@writes("Cast", "amp_cast")
def cast(g: Exporter, use: Use, x: Value) -> Value:
    """Conversion of the dtype."""
    dtype = use.attrs["dtype"]
    if g.dtype(x) == dtype:
        return g.emit("Identity", x)
    return g.cast(x, dtype, "")


@writes("clip")
def clip(g: Exporter, use: Use, x: Value) -> Value:
    """Values limited to an interval."""
    dtype = g.dtype(x)
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    low, high = (
        g.like(x, min(max(use.attrs[name], float(limits.min)), float(limits.max)))
        for name in ("a_min", "a_max")
    )
    return g.emit("Clip", x, low, high)


# Activations


@writes("Activation")
def activation(g: Exporter, use: Use, x: Value) -> Value:
    """The function selected by ``act_type``."""
    names = {
        "relu": "Relu",
        "sigmoid": "Sigmoid",
        "softrelu": "Softplus",
        "softsign": "Softsign",
        "tanh": "Tanh",
    }
    kind = use.attrs["act_type"]
    return g.emit(names[kind], x) if kind in names else by_formula(g, use, x)


@writes("hard_sigmoid")
def hard_sigmoid(g: Exporter, use: Use, x: Value) -> Value:
    """alpha * x + beta, limited to [0, 1]."""
    return g.emit("HardSigmoid", x, alpha=use.attrs["alpha"], beta=use.attrs["beta"])


@writes("LeakyReLU")
def leaky_relu(g: Exporter, use: Use, x: Value, *gamma: Value) -> Value:
    """Functions with a slope below 0; the random one has the mean of its bounds."""
    kind, slope = use.attrs["act_type"], use.attrs["slope"]
    if kind == "prelu":
        return g.emit("PRelu", x, _along_channels(g, gamma[0], g.rank(x)))
    if kind == "rrelu":
        slope = (use.attrs["lower_bound"] + use.attrs["upper_bound"]) / 2
    if kind == "elu":
        return g.emit("Elu", x, alpha=slope)
    if kind == "selu":
        return g.emit("Selu", x)
    if kind == "gelu":
        return _gelu(g, x)
    if kind not in ("leaky", "rrelu"):
        raise MXNetError(f"has act_type {kind}, which has no equivalent")
    return g.emit("LeakyRelu", x, alpha=slope)


def _along_channels(g: Exporter, slope: Value, rank: int) -> Value:
    """Slope for each channel, followed by axes of size 1."""
    behind = max(rank - 2, 0)
    if g.rank(slope) != 1 or not behind:
        return slope
    return g.op("Reshape", slope, shape=(*g.shape(slope), *(1,) * behind), at="slope")


def _gelu(g: Exporter, x: Value) -> Value:
    """x (1 + erf(x / sqrt(2))) / 2."""
    inner = g.emit("Mul", x, g.like(x, math.sqrt(0.5)), at="scaled", type=x.type)
    gate = g.emit("Add", g.emit("Erf", inner, at="erf"), g.like(x, 1.0), at="gate")
    half = g.emit("Mul", x, g.like(x, 0.5), at="half")
    return g.emit("Mul", half, gate)
