"""ONNX's recurrent layers unrolled step by step, for features that MXNet's RNN does not have.

These are reset gates before the product, peepholes, other activations, clipping, sequences of
different lengths, and computed weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .narrow import bounded
from .pointwise import to_shape

_NODES = 24  # upper bound of nodes per step
Function = Callable[[Value], Value]


class Activation(NamedTuple):
    """Function of gates with parameters alpha and beta, and their defaults.

    takes  how many of the two parameters it has
    """

    takes: int
    alpha: float
    beta: float
    made: Callable[[Importer, Value, float, float], Value]


def _named(op: str, **attrs: str) -> Activation:
    return Activation(0, 0.0, 0.0, lambda g, x, a, b: g.op(op, x, at="gate", **attrs))


def _leaky(kind: str, alpha: float) -> Activation:
    def made(g: Importer, x: Value, a: float, b: float) -> Value:
        return g.op("LeakyReLU", x, act_type=kind, slope=a, at="gate")

    return Activation(1, alpha, 0.0, made)


def _affine(g: Importer, x: Value, a: float, b: float) -> Value:
    scaled = g.op("_mul_scalar", x, scalar=a, at="scaled")
    return g.op("_plus_scalar", scaled, scalar=b, at="gate")


def _above(g: Importer, x: Value, a: float, b: float) -> Value:
    inside = g.op("_greater_equal_scalar", x, scalar=a, at="above")
    return g.op("elemwise_mul", x, inside, at="gate")


def _scaled_tanh(g: Importer, x: Value, a: float, b: float) -> Value:
    inner = g.op("tanh", g.op("_mul_scalar", x, scalar=b, at="scaled"), at="tanh")
    return g.op("_mul_scalar", inner, scalar=a, at="gate")


def _hard_sigmoid(g: Importer, x: Value, a: float, b: float) -> Value:
    return g.op("hard_sigmoid", x, alpha=a, beta=b, at="gate")


_ACTIVATIONS = {
    "relu": _named("relu"),
    "sigmoid": _named("sigmoid"),
    "softsign": _named("softsign"),
    "tanh": _named("tanh"),
    "softplus": _named("Activation", act_type="softrelu"),
    "elu": _leaky("elu", 1.0),
    "leakyrelu": _leaky("leaky", 0.01),
    "thresholdedrelu": Activation(1, 1.0, 0.0, _above),
    "affine": Activation(2, 1.0, 0.0, _affine),
    "scaledtanh": Activation(2, 1.0, 1.0, _scaled_tanh),
    "hardsigmoid": Activation(2, 0.2, 0.5, _hard_sigmoid),
}
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}

States = tuple[Value, ...]
Step = Callable[[Value, States], States]


# Products of inputs and of states with the weights of a direction.
Products = Sequence[Function]


class Weights(NamedTuple):
    """Weights of one direction: of inputs and states, a bias for each, and peepholes of LSTM.

    products  functions that multiply data and states by the weights, if others than in float
    """

    inputs: Value
    states: Value
    input_bias: Value
    state_bias: Value
    peepholes: Value | None
    products: Products | None = None


def run_steps(
    g: Importer,
    use: Use,
    x: Value,
    weights: Sequence[Value | None],
    lengths: Value | None,
    first: Sequence[Value | None],
    products: Sequence[Products] | None = None,
) -> tuple[Value, list[Value]]:
    """All states (time, direction, batch, state), and the last ones (direction, batch, state).

    x         (time, batch, input)
    weights   ONNX's W, R, B and P
    first     initial states, each (direction, batch, state)
    products  products with W and R for each direction, if others than in float
    """
    w, r, b, p = weights
    assert w is not None and r is not None
    directions, _, size = g.shape(r)
    steps, batch = g.shape(x)[:2]
    g.spend_steps(_NODES * steps * directions)
    direction = use.text("direction", "forward")
    made = []
    for i in range(directions):
        of_one = _weights(g, (w, r, b, p), i)
        of_one = of_one._replace(products=products[i]) if products else of_one
        states = tuple(_first(g, s, i, batch, size, g.dtype(x)) for s in first)
        back = direction == "reverse" or i == 1
        made.append(_one_direction(g, use, x, of_one, lengths, states, i, back))
    whole = [_joined(g, [rows for rows, _ in made], 1)]
    lasts = zip(*(last for _, last in made), strict=True)
    return whole[0], [_joined(g, each, 0) for each in lasts]


def _joined(g: Importer, xs: Sequence[Value], axis: int) -> Value:
    whole = [g.op("expand_dims", x, axis=axis, at="direction") for x in xs]
    return whole[0] if len(xs) == 1 else g.op("Concat", *whole, num_args=len(xs), dim=axis)


def _row(g: Importer, x: Value, i: int) -> Value:
    """Slice at an index of the first axis."""
    part = g.op("slice_axis", x, axis=0, begin=i, end=i + 1, at="part")
    return g.op("Reshape", part, shape=g.shape(x)[1:], at="row")


def _weights(g: Importer, given: Sequence[Value | None], i: int) -> Weights:
    w, r, b, p = (None if v is None else _row(g, v, i) for v in given)
    assert w is not None and r is not None
    count = g.shape(w)[0]
    if b is None:
        b = g.filled((2 * count,), np.zeros(1, g.dtype(w)))
    bias = g.op("slice_axis", b, axis=0, begin=0, end=count, at="bias")
    other = g.op("slice_axis", b, axis=0, begin=count, end=2 * count, at="bias")
    return Weights(w, r, bias, other, p)


def _first(
    g: Importer, state: Value | None, i: int, batch: int, size: int, dtype: np.dtype
) -> Value:
    return g.filled((batch, size), np.zeros(1, dtype)) if state is None else _row(g, state, i)


def _one_direction(
    g: Importer,
    use: Use,
    x: Value,
    weights: Weights,
    lengths: Value | None,
    states: States,
    direction: int,
    back: bool,
) -> tuple[Value, States]:
    """States of all steps (time, batch, state), and the last ones."""
    x = _reversed(g, x, lengths) if back else x
    size, steps = g.shape(states[0])[1], g.shape(x)[0]
    given = _product(g, x, weights, 0)
    inputs = g.outputs("SliceChannel", given, num_outputs=steps, axis=0, squeeze_axis=True)
    functions = _functions(g, use, direction)
    step = _STEPS[use.op_type](g, use, weights, size, functions)
    rows = []
    for i, part in enumerate(inputs):
        after = step(part, states)
        row = after[0]
        if lengths is not None:
            alive = _alive(g, lengths, i, g.shape(row))
            after = tuple(
                g.op("where", alive, new, old, at="kept")
                for new, old in zip(after, states, strict=True)
            )
            row = g.op("where", alive, row, g.op("zeros_like", row, at="none"), at="row")
        states = after
        rows.append(row)
    whole = [g.op("expand_dims", row, axis=0, at="time") for row in rows]
    made = whole[0] if steps == 1 else g.op("Concat", *whole, num_args=steps, dim=0, at="rows")
    return (_reversed(g, made, lengths) if back else made), states


def _reversed(g: Importer, x: Value, lengths: Value | None) -> Value:
    """Steps in reverse order, separately for each sequence."""
    if lengths is None:
        return g.op("reverse", x, axis=(0,), at="reverse")
    counts = g.op("Cast", lengths, dtype=g.dtype(x), at="lengths")
    return g.op("SequenceReverse", x, counts, use_sequence_length=True, at="reverse")


def _alive(g: Importer, lengths: Value, step: int, shape: tuple[int, ...]) -> Value:
    longer = g.op("_greater_scalar", lengths, scalar=float(step), at="longer")
    return to_shape(g, g.op("Reshape", longer, shape=(-1, 1), at="alive"), shape)


def _dense(g: Importer, x: Value, weight: Value, bias: Value) -> Value:
    count = g.shape(weight)[0]
    return g.op("FullyConnected", x, weight, bias, num_hidden=count, flatten=False, at="dense")


def _product(g: Importer, x: Value, weights: Weights, side: int) -> Value:
    """Gates by inputs (side 0) or states (1)."""
    weight = weights.states if side else weights.inputs
    bias = weights.state_bias if side else weights.input_bias
    if weights.products is None:
        return _dense(g, x, weight, bias)
    made = weights.products[side](x)
    row = g.op("Reshape", bias, shape=(1,) * (g.rank(made) - 1) + g.shape(bias), at="bias")
    return _sum(g, made, row)


def _functions(g: Importer, use: Use, direction: int) -> list[Function]:
    """Activations of a direction; those of gates after the clipping that the node requests.

    The state of an LSTM is not clipped before its activation, as in ONNX Runtime.
    """
    defaults = _DEFAULTS[use.op_type]
    names = use.texts("activations") or defaults * 2
    clip = use.real("clip")
    alphas, betas = iter(use.reals("activation_alpha")), iter(use.reals("activation_beta"))

    def function(name: str, place: int) -> Function:
        if name.lower() not in _ACTIVATIONS:
            raise MXNetError(f"activation '{name}' is not supported; {', '.join(_ACTIVATIONS)} are")
        kind = _ACTIVATIONS[name.lower()]
        alpha = next(alphas, kind.alpha) if kind.takes > 0 else kind.alpha
        beta = next(betas, kind.beta) if kind.takes > 1 else kind.beta

        def call(x: Value) -> Value:
            x = bounded(g, x, -clip, clip) if clip and place % len(defaults) < 2 else x
            return kind.made(g, x, alpha, beta)

        return call

    places = range(len(names))
    functions = [*map(function, names, places)]  # in order: each consumes its parameters
    return functions[direction * len(defaults) : (direction + 1) * len(defaults)]


def _part(g: Importer, x: Value, number: int, size: int, count: int = 1) -> Value:
    """Some gates of the last axis."""
    begin = number * size
    return g.op("slice_axis", x, axis=-1, begin=begin, end=begin + count * size, at="gates")


def _rows(g: Importer, x: Value, number: int, size: int, count: int = 1) -> Value:
    """Weights of some gates."""
    begin = number * size
    return g.op("slice_axis", x, axis=0, begin=begin, end=begin + count * size, at="weights")


def _plain(g: Importer, use: Use, weights: Weights, size: int, functions: list[Function]) -> Step:
    def step(x: Value, states: States) -> States:
        (h,) = states
        return (functions[0](_sum(g, x, _dense(g, h, weights.states, weights.state_bias))),)

    return step


def _sum(g: Importer, a: Value, b: Value) -> Value:
    return g.op("broadcast_add", a, b, at="sum")


def _times(g: Importer, a: Value, b: Value) -> Value:
    return g.op("broadcast_mul", a, b, at="times")


def _gru(g: Importer, use: Use, weights: Weights, size: int, functions: list[Function]) -> Step:
    """Gates z, r and h; the reset gate applies before or after the product."""
    behind = bool(use.number("linear_before_reset"))
    both = [_rows(g, x, 0, size, 2) for x in weights[1:4:2]]
    last = [_rows(g, x, 2, size) for x in weights[1:4:2]]

    def step(x: Value, states: States) -> States:
        (h,) = states
        gates = functions[0](_sum(g, _part(g, x, 0, size, 2), _dense(g, h, *both)))
        update, reset = (_part(g, gates, i, size) for i in range(2))
        if behind:
            inner = _times(g, reset, _dense(g, h, *last))
        else:
            inner = _dense(g, _times(g, reset, h), *last)
        new = functions[1](_sum(g, _part(g, x, 2, size), inner))
        gap = g.op("broadcast_sub", h, new, at="gap")
        return (_sum(g, new, _times(g, update, gap)),)

    return step


def _lstm(g: Importer, use: Use, weights: Weights, size: int, functions: list[Function]) -> Step:
    """Gates i, o, f and c; with peepholes the first three read the cell."""
    coupled = bool(use.number("input_forget"))
    p = weights.peepholes
    holes = None if p is None else [_rows(g, p, i, size) for i in range(3)]

    def seen(gate: Value, number: int, cell: Value) -> Value:
        if holes is None:
            return gate
        hole = g.op("Reshape", holes[number], shape=(1, size), at="hole")
        return _sum(g, gate, _times(g, hole, cell))

    def step(x: Value, states: States) -> States:
        h, c = states
        gates = _sum(g, x, _product(g, h, weights, 1))
        parts = [_part(g, gates, i, size) for i in range(4)]
        enter = functions[0](seen(parts[0], 0, c))
        if coupled:
            forget = g.op("_rminus_scalar", enter, scalar=1.0, at="forget")
        else:
            forget = functions[0](seen(parts[2], 2, c))
        cell = _sum(g, _times(g, forget, c), _times(g, enter, functions[1](parts[3])))
        leave = functions[0](seen(parts[1], 1, cell))
        return _times(g, leave, functions[2](cell)), cell

    return step


_STEPS = {"RNN": _plain, "GRU": _gru, "LSTM": _lstm}
