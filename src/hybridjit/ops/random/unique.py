"""Distinct classes by a log-uniform distribution: candidates of a sampled softmax.

Input: the number of classes, rows and candidates. Output: the candidates, and the number of draws
for each row. Class k is drawn with a probability near 1 / ((k + 1) ln(classes)).
"""

from __future__ import annotations

import math

import numpy as np

from ..._core.types import INT64, Shape, TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..record import Traits
from ..registry import register
from ..rules import Types, merged
from .draws import generator

_BLOCK = 1024  # minimal number of draws at once


def _types(ins: Types, outs: Types, *, range_max: int, shape: Shape) -> tuple[Types, Types]:
    if len(shape) != 2 or shape[0] < 1:
        raise ShapeError(f"shape must be (rows, candidates), got {shape_text(shape)}")
    if shape[1] > range_max:
        raise AttributeValueError(
            f"a row can have at most {range_max} candidates, the number of classes, got {shape[1]}"
        )
    return ins, merged(outs, (TensorType(shape, INT64), TensorType(shape[:1], INT64)))


def _row(classes: int, count: int) -> tuple[np.ndarray, int]:
    """``count`` distinct classes in the order of drawing, and the number of draws."""
    found, tries = np.empty(0, np.int64), 0
    while found.size < count:
        size = max(count, _BLOCK)
        drawn = np.floor(np.exp(generator().random(size) * math.log(classes)) + 0.5)
        block = drawn.astype(np.int64) - 1
        values, places = np.unique(block, return_index=True)
        fresh = np.sort(places[~np.isin(values, found)])[: count - found.size]
        found = np.concatenate([found, block[fresh]])
        tries += size if found.size < count else int(fresh[-1]) + 1
    return found, tries


def unique_zipfian(*, range_max: int, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    rows = [_row(range_max, shape[1]) for _ in range(shape[0])]
    return np.stack([row for row, _ in rows]), np.array([tries for _, tries in rows], np.int64)


register(
    "_sample_unique_zipfian",
    "",
    "range_max:int! shape:shape=()",
    traits=Traits(random=True),
    infer=_types,
    ref=unique_zipfian,
    outputs=("output0", "output1"),
    doc="Random numbers: rows of distinct classes, and the number of draws of each row.",
)
