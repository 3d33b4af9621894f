"""Fuse: group the values that become one kernel.

An anchor (convolution, dense layer, pooling, softmax, ...) takes with it the pointwise values that
follow on its result's shape; pointwise values without an anchor form groups among themselves.
Views (reshape, transpose, slice, broadcast) move no element and get no kernel here; the memory
plan turns them into addresses, or into copies where an address will not do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..config import config
from ..ir.graph import Graph, Group, Value
from ..ops.registry import Kind
from ..ops.rules import reduced_axes
from ..types import FLOAT32, FLOAT64

_BOOL = np.dtype("bool")
VIEWS = frozenset({"_reshape_to", "transpose", "slice", "broadcast_to"})
_SUMS = frozenset({"sum", "mean", "prod", "nansum", "nanprod", "norm", "max", "min"})
_REDUCTIONS = _SUMS | {"argmax", "argmin", "argmax_channel"}
_ANCHORS = {
    "Convolution": "conv",
    "Deconvolution": "deconv",
    "FullyConnected": "gemm",
    "batch_dot": "gemm",
    "Pooling": "pool",
    "softmax": "softmax",
    "log_softmax": "softmax",
    "softmin": "softmax",
    "LayerNorm": "norm",
    "InstanceNorm": "norm",
    "_instance_norm_last": "norm",
    "GroupNorm": "norm",
    "L2Normalization": "norm",
    "LRN": "lrn",
    "_lrn_last": "lrn",
    "_rnn_steps": "recurrent",
    "_resize_last": "resize",
    "_sample_last": "sample",
    "_sample_cells_last": "sample",
    "_roi_align_last": "region",
    "_roi_pooling_last": "region",
}
# Kinds that move elements of any type by indices of any type.
_BY_INDEX = {
    "take": "gather",
    "Embedding": "gather",
    "pick": "gather",
    "batch_take": "gather",
    "gather_nd": "gather",
    "SequenceLast": "gather",
    "SequenceMask": "gather",
    "SequenceReverse": "gather",
    "scatter_nd": "scatter",
    "_contrib_index_copy": "scatter",
    "one_hot": "one_hot",
}
# Kinds whose kernels end in a store that can compute more first.
_WITH_EPILOGUE = frozenset({"conv", "deconv", "gemm", "pool", "pointwise", "resize"})


@dataclass
class _Building:
    """A group while it grows; ``needs`` is the set, as bits, of groups that must run before."""

    number: int
    kind: str
    members: list[Value] = field(default_factory=list)
    needs: int = 0


def fuse(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The same graph with its groups, in an order that can be executed."""
    return replace(graph, groups=_Fusion(graph, fired if fired is not None else []).run())


def group_kind(value: Value, graph: Graph) -> str:
    """Which kernel can compute this value on its own; ``host`` when none can."""
    assert value.op is not None
    if any(t.size == 0 for t in value.types) or any(u.type.size == 0 for u in value.inputs):
        return "host"
    if value.op.name in VIEWS and (not value.is_op("transpose") or value.attrs["axes"]):
        return "view"
    if value.is_op("Concat"):
        return "concat"
    if value.op.kind is Kind.POINTWISE and value.op.scalar is not None and value.inputs:
        return "pointwise" if _broadcasts(value) else "host"
    if value.op.name in _BY_INDEX:
        return _BY_INDEX[value.op.name] if _has_index(value) else "host"
    if value.is_op("_pad_axes"):
        return "pad" if value.attrs["before"][0] == value.attrs["after"][0] == 0 else "host"
    if value.op.name in _REDUCTIONS:
        return "reduce" if _reduces(value) else "host"
    if not _is_in(FLOAT32, value) and not _is_in(FLOAT64, value):
        return "host"
    kind = _ANCHORS.get(value.op.name, "host")
    return kind if _is_supported(value, kind, graph) else "host"


def _has_index(value: Value) -> bool:
    """Whether there is an index, as sequences need not have, and values that can be written."""
    if value.is_op("one_hot"):
        return value.type.dtype != np.dtype("float16")
    return len(value.inputs) > 1


def _is_in(dtype: np.dtype | None, value: Value) -> bool:
    """Whether all operands and results are of this type; the lengths of a softmax are integers."""
    inputs = value.inputs[:1] if value.is_op("softmax") else value.inputs
    return all(t.dtype == dtype for t in (*value.types, *(u.type for u in inputs)))


def _broadcasts(value: Value) -> bool:
    """Whether the operands line up from the last axis, and count as the result's element type.

    Before ``simplify``, the condition of a ``where`` may be one for rows, and of any type.
    """
    if value.is_op("where"):
        condition = value.inputs[0].type
        return condition.shape == value.shape and condition.dtype in (value.type.dtype, _BOOL)
    return not value.is_op("LeakyReLU") or len(value.inputs) == 1


def _is_supported(value: Value, kind: str, graph: Graph) -> bool:
    """Whether the kernel of this kind applies to the value as it is written.

    It does to what ``simplify`` and ``layout`` make; they may have been left out.
    """
    attrs = value.attrs
    if value.is_op("Convolution", "Deconvolution"):
        fixed = all(u.value in graph.params for u in value.inputs[1:])
        return _is_channels_last(value) and (fixed or value.is_op("Convolution"))
    if value.is_op("FullyConnected"):
        return _is_on_rows(value)
    if kind == "gemm":
        return len(value.shape) == 3 and not (attrs["transpose_a"] or attrs["transpose_b"])
    if kind == "pool":
        return _is_channels_last(value)
    if kind == "softmax":
        return attrs["temperature"] in (None, 1.0)
    if kind == "recurrent":
        return all(u.value in graph.params for u in value.inputs[1:3])
    if kind == "norm":
        return len(value.types) == 1
    return kind != "host"


def _is_channels_last(value: Value) -> bool:
    return (value.attrs.get("layout") or "NCHW")[-1] == "C"


def _is_on_rows(value: Value) -> bool:
    """A dense layer on two axes, whose result has two."""
    return value.inputs[0].type.ndim == len(value.shape) == 2


def _reduces(value: Value) -> bool:
    """Whether there is an axis to reduce, and for a place an axis to count it on."""
    if value.is_op("argmax", "argmin"):
        return value.attrs["axis"] is not None
    if value.is_op("argmax_channel"):
        return True
    attrs, rank = value.attrs, value.inputs[0].type.ndim
    return bool(reduced_axes(rank, attrs["axis"], attrs.get("exclude", False)))


class _Fusion:
    def __init__(self, graph: Graph, log: list[str]) -> None:
        self.graph = graph
        self.log = log
        self.groups: list[_Building] = []
        self.owner: dict[Value, _Building] = {}

    def run(self) -> tuple[Group, ...]:
        for value in self.graph.values:
            if value.op is None:
                continue
            kind = group_kind(value, self.graph)
            may_join = kind == "pointwise" and "fuse" not in config.skip
            host = self._joinable(value) if may_join else None
            self._join(value, host or self._new(kind))
        return tuple(self._finished(g) for g in self._ordered())

    def _new(self, kind: str) -> _Building:
        group = _Building(len(self.groups), kind)
        self.groups.append(group)
        return group

    def _join(self, value: Value, group: _Building) -> None:
        group.members.append(value)
        self.owner[value] = group
        for other in self._sources(value, group):
            group.needs |= other.needs | 1 << other.number
        for later in self.groups:
            if later.needs >> group.number & 1:
                later.needs |= group.needs

    def _sources(self, value: Value, group: _Building) -> Iterator[_Building]:
        for use in value.inputs:
            other = self.owner.get(use.value)
            if other is not None and other is not group:
                yield other

    def _joinable(self, value: Value) -> _Building | None:
        """The latest group on whose result this pointwise value can be computed, if any."""
        candidates = {g.number: g for u in value.inputs if (g := self.owner.get(u.value))}
        for number in sorted(candidates, reverse=True):
            group = candidates[number]
            reason = self._obstacle(value, group)
            if not reason:
                return group
            if group.kind in _WITH_EPILOGUE:
                name = group.members[0].name
                self.log.append(f"not fused: {value.name} into {name}, because {reason}")
        return None

    def _obstacle(self, value: Value, group: _Building) -> str:
        if group.kind not in _WITH_EPILOGUE:
            return f"a {group.kind} has no epilogue"
        dtype = group.members[0].type.dtype
        if group.kind != "pointwise" and not _is_in(dtype, value):
            return f"a {group.kind} kernel ends in {dtype}"
        if group.members[0].shape != value.shape:
            return f"{group.members[0].type} is not its shape {value.type}"
        for other in self._sources(value, group):
            if other.needs >> group.number & 1:
                return f"{other.members[0].name}, which it also reads, needs that one first"
        return ""

    def _ordered(self) -> list[_Building]:
        """Groups so that each comes after all that it needs; ties by number."""
        done, order, pending = 0, [], list(self.groups)
        while pending:
            ready = next(g for g in pending if not g.needs & ~done)
            done |= 1 << ready.number
            order.append(ready)
            pending.remove(ready)
        return order

    def _finished(self, group: _Building) -> Group:
        def is_read_outside(value: Value) -> bool:
            users = self.graph.uses[value]
            return value in self.graph.output_values or any(
                self.owner[u] is not group for u in users
            )

        outputs = tuple(v for v in group.members if is_read_outside(v))
        return Group(group.kind, tuple(group.members), outputs or (group.members[-1],))
