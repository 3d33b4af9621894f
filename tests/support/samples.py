"""Inputs for every operator: for the tests of the registry.

Elementwise operators get theirs generated from ``domain`` (ranks 0 to 4, broadcasting pairs,
lengths around a vector's width). The rest list theirs in ``samples_*.py``.
"""

from __future__ import annotations

import zlib

import numpy as np

import samples_int8
import samples_linear
import samples_movement
import samples_nn
import samples_numpy
import samples_quantized
import samples_training
import samples_vision
from hybridjit._core.types import UNKNOWN, TensorType
from hybridjit.errors import MXNetError
from hybridjit.ops import OpDef, rules, scalars
from hybridjit.ops.elementwise import binary, unary
from sampling import LISTED, REFUSED, Bad, Sample

samples_int8.declare()
samples_movement.declare()
samples_nn.declare()
samples_training.declare()
samples_linear.declare()
samples_vision.declare()
samples_numpy.declare()
samples_quantized.declare()

BROADCASTING = (rules.broadcast, binary.broadcast_number, scalars.elementwise)
ELEMENTWISE_RULES = (*BROADCASTING, rules.same_type, unary.same_number, unary.same_float)

LANES = 16  # float32 elements of the widest vector
LENGTHS = (0, 1, LANES - 1, LANES, LANES + 1, 3 * LANES + 2)
RANKS = ((), (7,), (3, 5), (2, 3, 17), (2, 1, 3, 5))
PAIRS = (
    ((), (3,)),
    ((3,), (2, 3)),
    ((2, 1), (1, 17)),
    ((2, 3, 4), (1, 3, 1)),
    ((1, 1, 1), (5, 2, 3)),
    ((2, 1, 3, 1), (4, 1, 5)),
    ((0, 3), (1, 3)),
)


# Attribute strings of elementwise samples; others run with their defaults.
ELEMENTWISE_ATTRS: dict[str, list[dict[str, str]]] = {
    **samples_movement.ELEMENTWISE,
    **samples_numpy.ELEMENTWISE,
    **samples_quantized.ELEMENTWISE,
}


def samples(op: OpDef) -> list[Sample]:
    """All samples of ``op``: the listed ones, and generated ones if it works element by element."""
    listed = LISTED.get(op.name, [])
    return listed + _generated(op) if is_elementwise(op) else listed


def is_elementwise(op: OpDef) -> bool:
    return op.is_pointwise or op.infer in ELEMENTWISE_RULES


def error_samples(op: OpDef) -> list[Bad]:
    """Calls of ``op`` that must be refused."""
    return REFUSED.get(op.name, [])


def _generated(op: OpDef) -> list[Sample]:
    made = []
    for text in ELEMENTWISE_ATTRS.get(op.name, [{}]):
        attrs = op.parse(text)
        count = len(op.input_names(attrs))
        shapes = [(s,) * count for s in (*RANKS, *((n,) for n in LENGTHS))]
        if op.infer in BROADCASTING and count == 2:
            shapes += [*PAIRS, *(pair[::-1] for pair in PAIRS)]
        calls = [(shape, np.dtype(np.float32)) for shape in shapes]
        calls += [
            (((5, 7),) * count, np.dtype(t)) for t in ("float64", "float16", "int32", "uint8")
        ]
        for dims, dtype in calls:
            types = tuple(TensorType(d, dtype) for d in dims)
            if accepts(op, types, attrs):
                made.append(_draw(op, types, text))
    return made


def accepts(op: OpDef, types: tuple[TensorType, ...], attrs: dict[str, object]) -> bool:
    """Whether the operator's own rule takes these types."""
    try:
        op.infer(types, (UNKNOWN,) * len(op.output_names(attrs)), **attrs)
    except MXNetError:
        return False
    return True


def _draw(op: OpDef, types: tuple[TensorType, ...], text: dict[str, str]) -> Sample:
    shapes = ",".join("x".join(map(str, t.dims)) or "scalar" for t in types)
    label = "-".join([types[0].dtype.name, shapes, *(f"{k}={v}" for k, v in text.items())])  # type: ignore[union-attr]
    random = np.random.default_rng(zlib.crc32(f"{op.name} {label}".encode()))
    low, high = op.domain
    arrays = []
    for t in types:
        if t.dtype.kind == "u":  # type: ignore[union-attr]
            low = max(low, 0)
        arrays.append(np.asarray(random.uniform(low, high, t.dims)).astype(t.dtype))
    return Sample(label, tuple(arrays), text)
