"""Readers of ONNX's losses."""

from __future__ import annotations

import numpy as np

from ..importer import Importer, Value
from ..use import Use
from .table import translates


@translates("NegativeLogLikelihoodLoss")
def nll_loss(g: Importer, use: Use, x: Value, target: Value, weight: Value | None = None) -> Value:
    """Negative values at the targets, weighted by class; 0 for the ignored class."""
    return _loss(g, use, x, target, weight)


@translates("SoftmaxCrossEntropyLoss")
def cross_entropy_loss(
    g: Importer, use: Use, x: Value, target: Value, weight: Value | None = None
) -> tuple[Value, Value]:
    """Negative log-likelihood of log_softmax over the classes, and that log_softmax."""
    logs = g.op("log_softmax", x, axis=1, at="logs")
    return _loss(g, use, logs, target, weight), logs


def _loss(g: Importer, use: Use, x: Value, target: Value, weight: Value | None) -> Value:
    dtype = g.dtype(x)
    place = g.op("Cast", target, dtype=np.dtype("int64"), at="target")
    factors = None
    if "ignore_index" in use:
        ignored = float(use.number("ignore_index"))
        kept = g.op("_not_equal_scalar", place, scalar=ignored, at="kept")
        place = g.op("broadcast_mul", place, kept, at="place")
        factors = g.op("Cast", kept, dtype=dtype, at="counted")
    if weight is not None:
        chosen = g.op("take", weight, place, axis=0, at="weights")
        factors = chosen if factors is None else g.op("broadcast_mul", chosen, factors, at="factor")
    losses = g.op("negative", g.op("pick", x, place, axis=1, at="picked"), at="losses")
    if factors is not None:
        losses = g.op("broadcast_mul", losses, factors, at="weighted")
    how = use.text("reduction", "mean")
    if how == "none":
        return g.op("identity", losses)
    if how == "mean" and factors is None:
        return g.scalar(g.op("mean", losses, at="mean"))
    total = g.op("sum", losses, at="sum")
    if how == "sum" or factors is None:
        return g.scalar(total)
    return g.scalar(g.op("broadcast_div", total, g.op("sum", factors, at="count"), at="mean"))
