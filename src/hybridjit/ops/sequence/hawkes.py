"""Log likelihood of marked self-exciting Hawkes processes with exponential kernels.

Input: for N sequences of at most T events with K marks the base rates ``lda`` (N, K), the branching
ratios ``alpha`` and decays ``beta`` (K,), the ``state`` (N, K) from earlier events, the times
between events ``lags`` and their ``marks`` (N, T), the number of valid events, and the end of
observation. Output: the log likelihoods (N,), and the state at the end. P. Laub et al. 2015,
"Hawkes processes".
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from ..._core.types import TensorType, merge_dtypes, shape_text
from ...errors import MXNetError, ShapeError
from .. import native
from ..building import Builder, Many, Reached, X
from ..casting import convert
from ..registry import register
from ..rules import Types, fill, forward, merged, require_float

_INPUTS = "lda alpha beta state lags marks valid_length max_time"
_MARK = np.dtype(np.int32)
# Cost in NumPy of an event of each sequence, relative to one element of other operators.
_WORTH = 1 << 9
# A multiple of the float64 lanes of every target.
_LANES = 8


def _hawkes_types(ins: Types, outs: Types) -> tuple[Types, Types]:
    dtype = None
    for t in (*ins[:5], *ins[6:], *outs):
        dtype = merge_dtypes(dtype, t.dtype)
    lda, lags = ins[0].with_dtype(dtype), ins[4].with_dtype(dtype)
    require_float("hawkesll", lda)
    for name, t in (("lda", lda), ("lags", lags)):
        if t.shape is not None and len(t.shape) != 2:
            raise ShapeError(f"hawkesll needs {name} of 2 axes, got {shape_text(t.shape)}")
    n, k = lda.shape or (None, None)
    rows, steps = lags.shape or (None, None)
    n = rows if n is None else n
    lda, state = (fill(x, (n, k), dtype) for x in (lda, ins[3]))
    alpha, beta = (fill(x, (k,), dtype) for x in ins[1:3])
    lags, marks = fill(lags, (n, steps), dtype), fill(ins[5], (n, steps), _MARK)
    ends = [fill(x, (n,), dtype) for x in ins[6:]]
    found = TensorType((n,), dtype), state
    return (lda, alpha, beta, state, lags, marks, *ends), merged(outs, found)


class _Process(NamedTuple):
    """Log likelihoods of all sequences, and their derivatives."""

    likelihood: np.ndarray
    state: np.ndarray
    by_lda: np.ndarray
    by_alpha: np.ndarray
    by_beta: np.ndarray


def _run(has_gradient: bool, *arrays: np.ndarray) -> _Process:
    """Likelihoods, states and, if asked for, slopes; by machine code for long sequences.

    Raises MXNetError for an event beyond the last one and for an invalid mark.
    """
    lda, _, _, _, lags, marks, valid_length, _ = arrays
    _check(marks, valid_length, lda.shape[1])
    run = native.routine("hawkes", has_gradient, size=_WORTH * lags.shape[1])
    return _by_numpy(*arrays) if run is None else _by_routine(run, *arrays)


def _by_routine(run: native.Routine, *arrays: np.ndarray) -> _Process:
    """As :func:`_by_numpy`, by machine code."""
    lda, alpha, beta, state, lags, marks, valid_length, max_time = arrays
    (n, k), steps = lda.shape, lags.shape[1]
    width = -(-steps // _LANES) * _LANES
    *numbers, states, times, until = (
        x.astype(np.float64, order="C") for x in (lda, alpha, beta, state, lags, max_time)
    )
    ends = np.ceil(np.fmax(valid_length, 0)).astype(np.int64)
    found, sums, scratch = np.empty(n), np.zeros((5, n, k)), np.zeros(4 * width)
    events = times, marks.astype(np.int64, order="C"), ends, until
    run([*numbers, states, *events, found, *sums, scratch], [n, steps, k, width])
    return _Process(found, states, *sums[2:])


def _by_numpy(
    lda: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    state: np.ndarray,
    lags: np.ndarray,
    marks: np.ndarray,
    valid_length: np.ndarray,
    max_time: np.ndarray,
) -> _Process:
    """Process events in order, all sequences at once, in double precision.

    ``moved`` is the derivative of the state with respect to its mark's decay.
    """
    lda, alpha, beta, max_time = (x.astype(np.float64) for x in (lda, alpha, beta, max_time))
    state, moved, last = state.astype(np.float64), np.zeros(lda.shape), np.zeros(lda.shape)
    times = np.cumsum(lags.astype(np.float64), axis=1)
    found, by_lda, by_alpha, by_beta = np.zeros(len(lda)), *np.zeros((3, *lda.shape))
    for step in range(lags.shape[1]):
        (rows,) = np.nonzero(step < valid_length)
        at = rows, marks[rows, step]
        a, b, s, ds = alpha[at[1]], beta[at[1]], state[at], moved[at]
        gap = times[rows, step] - last[at]
        decay = np.exp(-b * gap)
        rate = lda[at] + a * b * s * decay
        found[rows] += np.log(rate) - lda[at] * gap - a * s * (1 - decay)
        by_lda[at] += 1 / rate - gap
        by_alpha[at] += b * s * decay / rate - s * (1 - decay)
        by_beta[at] += a * decay * (s * (1 - b * gap) + b * ds) / rate
        by_beta[at] -= a * (ds * (1 - decay) + s * gap * decay)
        moved[at], state[at] = decay * (ds - gap * s), 1 + s * decay
        last[at] = times[rows, step]
    gap = max_time[:, None] - last
    decay = np.exp(-beta * gap)
    found -= (lda * gap + alpha * state * (1 - decay)).sum(axis=1)
    by_alpha -= state * (1 - decay)
    by_beta -= alpha * (moved * (1 - decay) + state * gap * decay)
    return _Process(found, state * decay, by_lda - gap, by_alpha, by_beta)


def _check(marks: np.ndarray, valid_length: np.ndarray, count: int) -> None:
    steps = marks.shape[1]
    if (valid_length > steps).any():
        raise MXNetError(
            f"hawkesll: a valid_length is {valid_length.max():g}, but there are {steps} events"
        )
    if marks.size and marks.min() >= 0 and marks.max() < count:
        return
    counted = marks[np.arange(steps) < valid_length[:, None]]
    if counted.size and not 0 <= counted.min() <= counted.max() < count:
        wrong = counted[(counted < 0) | (counted >= count)][0]
        raise MXNetError(f"hawkesll: mark {wrong} is not in the range 0 to {count - 1}")


def hawkesll(*arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihoods, and states at the end."""
    made, dtype = _run(False, *arrays), arrays[0].dtype
    return convert(made.likelihood, dtype), convert(made.state, dtype)


def _slopes(head: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    made, dtype, d = _run(True, *arrays), arrays[0].dtype, head.astype(np.float64)[:, None]
    by_alpha, by_beta = ((d * slope).sum(axis=0) for slope in (made.by_alpha, made.by_beta))
    return tuple(convert(x, dtype) for x in (d * made.by_lda, by_alpha, by_beta))


SLOPES = register(
    "_hawkesll_slopes",
    f"head {_INPUTS}",
    internal=True,
    infer=forward(lambda head, lda, alpha, beta, *rest: (lda, alpha, beta)),
    ref=_slopes,
    outputs=("dlda", "dalpha", "dbeta"),
    doc="Gradients of hawkesll with respect to rates, ratios and decays.",
)


def _no_gradient() -> NoReturn:
    raise MXNetError(
        "hawkesll has no gradient with respect to lags, marks, valid_length and max_time"
    )


def _grad_hawkesll(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X | None]
) -> tuple[Reached[X], ...]:
    """Gradients of the likelihoods only, with respect to rates, ratios and decays, as in MXNet."""
    if douts[0] is None:
        return (None,) * len(ins)
    found = g.outputs(SLOPES, douts[0], *ins, at="slopes")
    return (*found, None, *[_no_gradient] * 4)


register(
    "_contrib_hawkesll",
    _INPUTS,
    infer=_hawkes_types,
    ref=hawkesll,
    grad=_grad_hawkesll,
    outputs=("output0", "output1"),
    doc="Log likelihood of marked Hawkes processes, and their state at the end.",
)
