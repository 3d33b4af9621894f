"""Batch splitting: decide whether to run a batch one sample after the other.

Input: the plan of a whole batch. Output: yes or no. It is possible if the first axis is the batch
everywhere: no operator mixes samples. It is faster if a step moves more bytes of activations than
of weights: the activations of one sample stay in the caches, while the weights are loaded again for
each sample.
"""

from __future__ import annotations

from ..._core.symbolic import are_same
from ..._core.types import product
from ...ir.graph import Graph, Value
from ...ir.plan import Plan, Step
from .sample_axes import MixedError, SampleAxes, require

# A batch whose activations fit into a common last-level cache gains nothing. Time saved at batch 8,
# on one thread and on two: MobileNetV2 8 and 11 %, SqueezeNet 5 and 4 %, MobileNet 3 and 1 %,
# DenseNet 8 and -1 %.
_CACHE_BYTES = 8 << 20


def should_split_batch(plan: Plan) -> bool:
    """Whether a batch larger than 1 is separable, large, and moves mostly activations."""
    return bool(batch_of(plan.graph)) and is_worth_splitting(plan)


def is_worth_splitting(plan: Plan) -> bool:
    """Whether a batch, the first axis of the first input, is large and moves mostly activations."""
    shapes = [value.shape for value in plan.graph.inputs]
    if not shapes or not shapes[0] or shapes[0][0] < 2 or plan.arena_bytes <= _CACHE_BYTES:
        return False
    weights = sum(value.type.nbytes for value in plan.graph.params)
    moved = sum(map(_activation_bytes, plan.steps)) // shapes[0][0]
    return moved > weights and all(step.kind != "host" for step in plan.steps)


def batch_of(graph: Graph) -> int:
    """The size of the batch, if it is every value's first axis and no operator mixes samples; or 0.

    0 for a batch of one as well, which cannot be divided.
    """
    shapes = [value.shape for value in graph.inputs]
    batch = shapes[0][0] if shapes and shapes[0] else 0
    if batch < 2 or not all(shape and are_same(shape[0], batch) for shape in shapes):
        return 0
    axes = SampleAxes(graph.inputs)
    try:
        for value in graph.values:
            if value.op is not None and not _begins_with(batch, value):
                return 0
            if value.op is not None:
                axes.axes[value] = require(axes.axis_of(value) == 0, 0)
    except MixedError:
        return 0
    return batch if all(use.value in axes.axes for use in graph.outputs) else 0


def _begins_with(batch: int, value: Value) -> bool:
    """Whether the first axis of all results is the batch."""
    return all(t.dims and are_same(t.dims[0], batch) for t in value.types)


def is_sample_of(one: Graph, whole: Graph) -> bool:
    """Whether ``one`` is the graph ``whole`` for a batch of 1: only the batch differs."""
    if len(one.values) != len(whole.values):
        return False
    return all(map(_is_same_value, one.values, whole.values))


def _is_same_value(one: Value, whole: Value) -> bool:
    if one.op is not whole.op or len(one.types) != len(whole.types):
        return False
    return all(
        a.dtype == b.dtype and (a.dims == b.dims or a.dims == (1, *b.dims[1:]))
        for a, b in zip(one.types, whole.types)
    )


def _activation_bytes(step: Step) -> int:
    """Bytes that a step reads and writes, without its weights."""
    read = [use.type.nbytes for use in step.group.inputs if use.value.op is not None]
    written = [product(view.shape) * view.dtype.itemsize for view in step.writes]
    return sum(read) + sum(written)
