"""Compounds of layers and statistics: old names, moments, norms that tell their statistics, losses.

As in ``compounds``: in float16 they stay whole where the pieces would round at every step.
"""

from __future__ import annotations

import math
from typing import Any

from ..ir.graph import Use, Value, make
from ..ir.rewrite import Match, Replacement, rule
from ..ops.rules import reduced_axes
from ..ops.softmax import LEAST_PROBABILITY
from ..types import product
from .compounds import is_plain_float
from .moves import reshaped


@rule("SparseEmbedding(i, w)  =>  Embedding(i, w)")
def plain_embedding(value: Value, match: Match) -> Replacement:
    if not value.is_op("_contrib_SparseEmbedding"):
        return None
    attrs = {key: value.attrs[key] for key in ("input_dim", "output_dim", "dtype")}
    return Use(make("Embedding", value.name, value.inputs, value.source, **attrs))


@rule("_rnn_param_concat(x, ...)  =>  Concat(x, ...)")
def plain_concat(value: Value, match: Match) -> Replacement:
    if not value.is_op("_rnn_param_concat"):
        return None
    attrs = {"dim": value.attrs["dim"], "num_args": len(value.inputs)}
    return Use(make("Concat", value.name, value.inputs, value.source, **attrs))


@rule("LogisticRegressionOutput(x)  =>  sigmoid(x)")
def logistic_output(value: Value, match: Match) -> Replacement:
    if not value.is_op("LogisticRegressionOutput"):
        return None
    return Use(make("sigmoid", value.name, value.inputs[:1], value.source))


@rule("BatchNormWithReLU(x)  =>  relu(BatchNorm(x))")
def split_batchnorm_relu(value: Value, match: Match) -> Replacement:
    if not value.is_op("_contrib_BatchNormWithReLU"):
        return None
    attrs = {k: value.attrs[k] for k in ("eps", "fix_gamma", "axis", "output_mean_var")}
    plain = make("BatchNorm", f"{value.name}:norm", value.inputs, value.source, **attrs)
    result = Use(make("relu", value.name, [Use(plain)], value.source))
    return (result, *(Use(plain, i) for i in range(1, len(plain.types))))


def _mean_and_variance(x: Use, axes: tuple[int, ...], name: str) -> tuple[Use, Use]:
    """Both over ``axes``, which stay as 1."""
    along: dict[str, Any] = {"axis": axes, "keepdims": True}
    mean = Use(make("mean", f"{name}:mean", [x], **along))
    centred = Use(make("broadcast_sub", f"{name}:centred", [x, mean]))
    squares = Use(make("square", f"{name}:squares", [centred]))
    return mean, Use(make("mean", f"{name}:variance", [squares], **along))


def _deviation(variance: Use, eps: float, name: str) -> Use:
    kept = Use(make("_plus_scalar", f"{name}:kept", [variance], scalar=eps))
    return Use(make("sqrt", f"{name}:std", [kept]))


@rule("moments(x)  =>  mean(x), mean((x - mean)^2)")
def moments_apart(value: Value, match: Match) -> Replacement:
    if not value.is_op("moments") or not is_plain_float(value):
        return None
    axes = reduced_axes(value.inputs[0].type.ndim, value.attrs["axes"])
    found = _mean_and_variance(value.inputs[0], axes, value.name)
    return tuple(
        reshaped(use, t.dims, f"{value.name}:{i}")
        for i, (use, t) in enumerate(zip(found, value.types))
    )


@rule("LayerNorm with statistics  =>  LayerNorm(x), mean(x), sqrt(variance + eps)")
def layer_norm_statistics(value: Value, match: Match) -> Replacement:
    if not value.is_op("LayerNorm") or len(value.types) == 1 or not is_plain_float(value):
        return None
    x, attrs = value.inputs[0], dict(value.attrs) | {"output_mean_var": False}
    plain = Use(make("LayerNorm", value.name, value.inputs, value.source, **attrs))
    mean, variance = _mean_and_variance(x, (attrs["axis"] % x.type.ndim,), value.name)
    return plain, mean, _deviation(variance, attrs["eps"], value.name)


@rule("GroupNorm with statistics  =>  GroupNorm(x), mean and sqrt(variance + eps) of its rows")
def group_norm_statistics(value: Value, match: Match) -> Replacement:
    if not value.is_op("GroupNorm") or len(value.types) == 1 or not is_plain_float(value):
        return None
    x, attrs = value.inputs[0], dict(value.attrs) | {"output_mean_var": False}
    plain = Use(make("GroupNorm", value.name, value.inputs, value.source, **attrs))
    batch, groups = x.type.dims[0], attrs["num_groups"]
    shape = (batch, groups, product(x.type.dims) // (batch * groups))
    rows = reshaped(x, shape, f"{value.name}:rows")
    mean, variance = _mean_and_variance(rows, (2,), value.name)
    std = _deviation(variance, attrs["eps"], value.name)
    flat = (
        reshaped(use, (batch, groups), f"{value.name}:{i}") for i, use in enumerate((mean, std))
    )
    return (plain, *flat)


@rule("softmax_cross_entropy(x, label)  =>  -sum(max(pick(log_softmax(x), label), log(1e-8)))")
def cross_entropy_apart(value: Value, match: Match) -> Replacement:
    if not value.is_op("softmax_cross_entropy") or not is_plain_float(value):
        return None
    name = value.name
    logs = Use(make("log_softmax", f"{name}:logs", value.inputs[:1], axis=1))
    picked = Use(make("pick", f"{name}:picked", [logs, value.inputs[1]], axis=1))
    least = math.log(LEAST_PROBABILITY)
    held = Use(make("_maximum_scalar", f"{name}:held", [picked], scalar=least))
    total = Use(make("sum", f"{name}:total", [held]))
    return Use(make("negative", name, [total], value.source))


LAYERS = (
    plain_embedding,
    plain_concat,
    logistic_output,
    split_batchnorm_relu,
    moments_apart,
    layer_norm_statistics,
    group_norm_statistics,
    cross_entropy_apart,
)
