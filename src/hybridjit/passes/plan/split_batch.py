"""Batch splitting: decide whether to run a batch one sample after the other.

Input: the plan of a whole batch. Output: yes or no. It is possible if the first axis is the batch
everywhere: no operator mixes samples. It is faster if a step moves more bytes of activations than
of weights: the activations of one sample stay in the caches, while the weights are loaded again for
each sample.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._core.symbolic import are_same
from ..._core.types import product
from ...ir.graph import Graph, Value
from ...ir.plan import Plan, Step
from ...ops.record import Samples
from ...ops.rules import reduced_axes

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
    if not shapes or not shapes[0] or plan.arena_bytes <= _CACHE_BYTES:
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
    batched = set(graph.inputs)
    for value in graph.values:
        if value.op is None or value in batched:
            continue
        if not _keeps_samples_apart(value, batch, batched):
            return 0
        batched.add(value)
    return batch if all(use.value in batched for use in graph.outputs) else 0


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


def _keeps_samples_apart(value: Value, batch: int, batched: set[Value]) -> bool:
    """Whether sample i of every result depends only on sample i of the batched operands."""
    assert value.op is not None
    samples = Samples.ALIGNED if value.op.is_pointwise else value.op.traits.samples
    has_batch = all(t.dims and are_same(t.dims[0], batch) for t in value.types)
    if samples is Samples.MIXED or not has_batch:
        return False
    return _RULES[samples](value, batched)


def _first_only(value: Value, batched: set[Value]) -> bool:
    first, *others = (use.value in batched for use in value.inputs)
    return first and not any(others)


def _all_aligned(value: Value, batched: set[Value]) -> bool:
    """Batched operands have the result's rank; the others lack the batch axis or have size 1
    there."""
    rank = len(value.shape)
    return all(
        len(use.type.dims) == rank and use.type.dims[0] == value.shape[0]
        if use.value in batched
        else len(use.type.dims) < rank or use.type.dims[0] == 1
        for use in value.inputs
    ) and any(use.value in batched for use in value.inputs)


def _is_first_axis(value: Value, axis: int) -> bool:
    return axis % len(value.inputs[0].type.dims) == 0


def _along_another(value: Value, batched: set[Value]) -> bool:
    if value.attrs["axis"] is None:  # all elements as one axis
        return False
    return not _is_first_axis(value, value.attrs["axis"]) and _first_only(value, batched)


def _joins_another(value: Value, batched: set[Value]) -> bool:
    apart = not _is_first_axis(value, value.attrs["dim"])
    return apart and all(use.value in batched for use in value.inputs)


def _reduces_others(value: Value, batched: set[Value]) -> bool:
    rank = len(value.inputs[0].type.dims)
    axes = reduced_axes(rank, value.attrs["axis"], value.attrs["exclude"])
    return 0 not in axes and _first_only(value, batched)


def _turns_others(value: Value, batched: set[Value]) -> bool:
    axes = value.attrs["axes"]
    return bool(axes) and axes[0] == 0 and _first_only(value, batched)


def _picks_along_another(value: Value, batched: set[Value]) -> bool:
    axis = value.attrs["axis"]
    apart = axis is not None and not _is_first_axis(value, axis)
    return apart and all(use.value in batched for use in value.inputs)


def _cuts_others(value: Value, batched: set[Value]) -> bool:
    """Whether the result has all samples: it begins with the first and skips none."""
    begin, step = value.attrs["begin"], value.attrs["step"]
    starts = not begin or begin[0] in (None, 0)
    return starts and (not step or step[0] in (None, 1)) and _first_only(value, batched)


def _within_rows(value: Value, batched: set[Value]) -> bool:
    return len(value.shape) > 2 and _first_only(value, batched)


def _extends_others(value: Value, batched: set[Value]) -> bool:
    is_kept = value.attrs["before"][0] == 0 and value.attrs["after"][0] == 0
    return is_kept and _first_only(value, batched)


_RULES: dict[Samples, Callable[[Value, set[Value]], bool]] = {
    Samples.FIRST: _first_only,
    Samples.ALIGNED: _all_aligned,
    Samples.AXIS: _along_another,
    Samples.JOINED: _joins_another,
    Samples.REDUCED: _reduces_others,
    Samples.REORDERED: _turns_others,
    Samples.PICKED: _picks_along_another,
    Samples.CUT: _cuts_others,
    Samples.ROWS: _within_rows,
    Samples.PADDED: _extends_others,
}


def _activation_bytes(step: Step) -> int:
    """Bytes that a step reads and writes, without its weights."""
    read = [use.type.nbytes for use in step.group.inputs if use.value.op is not None]
    written = [product(view.shape) * view.dtype.itemsize for view in step.writes]
    return sum(read) + sum(written)
