"""Channels last inside convolution regions; transposes only at their borders.

Users see MXNet's NCHW. A convolution or pooling is rewritten to its channels-last form, and
operators that do not care about the order of axes follow their inputs, so that a transpose stays
only where a region begins or ends. A dense layer behind a flattened region takes its weight's
columns in the new order instead of the activation in the old one.
"""

from __future__ import annotations

from typing import Any

from ..ir.graph import Graph, Use, Value, make
from ..ir.rewrite import Match, Replacement, rebuild, rewrite, rule
from ..ops.registry import Kind
from ..types import product
from .moves import reshaped, transposed
from .simplify import REDUNDANT

_LAYOUTS = {3: "NWC", 4: "NHWC", 5: "NDHWC"}
_WINDOWED = ("Convolution", "Deconvolution", "Pooling")
_RESIZED = {
    "UpSampling": "nearest",
    "_contrib_BilinearResize2D": "bilinear",
    "_contrib_AdaptiveAvgPooling2D": "average",
}
_BY_PLACE = {
    "BilinearSampler": "_sample_last",
    "_contrib_ROIAlign": "_roi_align_last",
    "ROIPooling": "_roi_pooling_last",
}


def choose_layouts(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Rewrite convolution regions to channels last."""
    if not any(v.is_op(*_WINDOWED, *_RESIZED, *_BY_PLACE) for v in graph.values):
        return graph
    moved = _Relayout(graph).run()
    return rewrite(rewrite(moved, (dense_after_flatten,), fired), REDUNDANT, fired)


def to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


class _Relayout:
    """One walk that keeps, for each value, the forms in which it exists so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.first: dict[Use, Use] = {}
        self.last: dict[Use, Use] = {}

    def run(self) -> Graph:
        for value in self.graph.values:
            moved = self._channels_last(value)
            if moved is not None:
                self.last[Use(value)] = moved
            else:
                new = rebuild(value, tuple(self.as_first(u) for u in value.inputs))
                for index in range(len(value.types)):
                    self.first[Use(value, index)] = Use(new, index)
        outputs = tuple(self.as_first(u) for u in self.graph.outputs)
        return self.graph if outputs == self.graph.outputs else self.graph.with_outputs(outputs)

    def as_first(self, use: Use) -> Use:
        """The value in MXNet's order of axes."""
        if use not in self.first:
            last = self.last[use]
            axes = to_first(last.type.ndim)
            self.first[use] = transposed(last, axes, f"{use.value.name}:nchw")
        return self.first[use]

    def as_last(self, use: Use) -> Use:
        """The value with channels last."""
        if use not in self.last:
            first = self.first[use]
            axes = to_last(first.type.ndim)
            self.last[use] = transposed(first, axes, f"{use.value.name}:nhwc")
        return self.last[use]

    def _channels_last(self, value: Value) -> Use | None:
        """The value in its channels-last form, if it should have one."""
        if value.op is None or len(value.types) > 1 or len(value.shape) not in _LAYOUTS:
            return None
        if value.type.dtype is None or value.type.dtype.name not in ("float32", "float64"):
            return None
        if value.is_op(*_WINDOWED):
            return self._windowed(value)
        if value.is_op(*_RESIZED):
            return self._resized(value)
        if value.is_op(*_BY_PLACE):
            return self._at_places(value)
        if not any(u in self.last and u not in self.first for u in value.inputs):
            return None
        if value.op.kind is Kind.POINTWISE:
            return self._pointwise(value)
        if value.is_op("Concat"):
            return self._with_axis(value, "dim")
        if value.is_op("_pad_axes"):
            return self._padded(value)
        if value.is_op("InstanceNorm") and len(value.types) == 1:
            return self._instance_norm(value)
        if value.is_op("LRN"):
            last = [self.as_last(value.inputs[0])]
            return Use(make("_lrn_last", value.name, last, value.source, **value.attrs))
        if value.is_op("L2Normalization") and value.attrs["mode"] != "spatial":
            return self._l2_norm(value)
        if value.is_op("softmax", "log_softmax", "softmin") and len(value.inputs) == 1:
            return self._with_axis(value, "axis")
        return None

    def _windowed(self, value: Value) -> Use | None:
        layout = value.attrs.get("layout")
        if layout is not None and layout[1] != "C":
            return None
        rank = len(value.shape)
        inputs = [self.as_last(value.inputs[0])]
        if value.is_op("Convolution", "Deconvolution"):
            weight = self.as_first(value.inputs[1])
            axes = to_last(rank)
            inputs.append(transposed(weight, axes, f"{value.name}:weight_last"))
            inputs += [self.as_first(u) for u in value.inputs[2:]]
        attrs = dict(value.attrs) | {"layout": _LAYOUTS[rank]}
        return Use(make(value.op.name, value.name, inputs, value.source, **attrs))  # type: ignore[union-attr]

    def _resized(self, value: Value) -> Use | None:
        """Each input at the size of the result; several are joined or added."""
        how, attrs = _RESIZED[value.op.name], value.attrs  # type: ignore[union-attr]
        if attrs.get("sample_type") == "bilinear" or value.type.size == 0:
            return None
        inputs = value.inputs if how == "nearest" else value.inputs[:1]
        size: dict[str, Any] = dict(zip(("height", "width"), value.shape[2:]))
        size |= {"how": how, "align": bool(attrs.get("align_corners"))}
        parts = []
        for number, use in enumerate(inputs):
            part = self.as_last(use)
            if part.type.dims[1:3] != value.shape[2:]:
                name = value.name if len(inputs) == 1 else f"{value.name}:{number}"
                part = Use(make("_resize_last", name, [part], value.source, **size))
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        if attrs["multi_input_mode"] == "concat":
            joining: dict[str, Any] = {"dim": 3, "num_args": len(parts)}
            return Use(make("Concat", value.name, parts, value.source, **joining))
        return Use(make("add_n", value.name, parts, value.source, num_args=len(parts)))

    def _at_places(self, value: Value) -> Use | None:
        """Sampling at places that the second input names."""
        attrs = dict(value.attrs)
        if attrs.pop("position_sensitive", False):
            return None
        inputs = [self.as_last(value.inputs[0]), self.as_first(value.inputs[1])]
        name = _BY_PLACE[value.op.name]  # type: ignore[union-attr]
        return Use(make(name, value.name, inputs, value.source, **attrs))

    def _pointwise(self, value: Value) -> Use | None:
        rank = len(value.shape)
        if any(u.type.ndim not in (0, 1, rank) for u in value.inputs):
            return None
        inputs = []
        for use in value.inputs:
            if use.type.ndim == rank:
                inputs.append(self.as_last(use))
            elif use.type.size == 1:
                inputs.append(self.as_first(use))
            else:
                return None
        return Use(make(value.op.name, value.name, inputs, value.source, **value.attrs))  # type: ignore[union-attr]

    def _with_axis(self, value: Value, key: str) -> Use:
        """The same op along the same axis, which now stands elsewhere."""
        rank = len(value.shape)
        axis = to_last(rank).index(value.attrs[key] % rank)
        inputs = [self.as_last(u) for u in value.inputs]
        attrs = dict(value.attrs) | {key: axis}
        return Use(make(value.op.name, value.name, inputs, value.source, **attrs))  # type: ignore[union-attr]

    def _padded(self, value: Value) -> Use:
        axes, attrs = to_last(len(value.shape)), dict(value.attrs)
        for key in ("before", "after"):
            attrs[key] = tuple(attrs[key][a] for a in axes)
        inputs = [self.as_last(value.inputs[0])]
        return Use(make("_pad_axes", value.name, inputs, value.source, **attrs))

    def _instance_norm(self, value: Value) -> Use:
        inputs = [self.as_last(value.inputs[0]), *map(self.as_first, value.inputs[1:])]
        eps = value.attrs["eps"]
        return Use(make("_instance_norm_last", value.name, inputs, value.source, eps=eps))

    def _l2_norm(self, value: Value) -> Use:
        """Each place, or each sample, is a row of its own, in whatever order its elements are."""
        last = self.as_last(value.inputs[0])
        shape = last.type.dims
        rows = shape[0] if value.attrs["mode"] == "instance" else product(shape[:-1])
        flat = reshaped(last, (rows, last.type.size // rows), f"{value.name}:rows")
        attrs = dict(value.attrs) | {"mode": "instance"}
        norm = make("L2Normalization", f"{value.name}:norm", [flat], value.source, **attrs)
        return reshaped(Use(norm), shape, value.name)


@rule("dense(flatten(to_nchw(x)), w)  =>  dense(flatten(x), w with its columns reordered)")
def dense_after_flatten(value: Value, match: Match) -> Replacement:
    if not value.is_op("FullyConnected"):
        return None
    flat = value.inputs[0].value
    if not flat.is_op("_reshape_to"):
        return None
    turned = flat.inputs[0].value
    if not turned.is_op("transpose") or turned.attrs["axes"] != to_first(len(turned.shape)):
        return None
    batch, *sizes = turned.shape
    if flat.shape != (batch, product(tuple(sizes))):
        return None
    weight = value.inputs[1]
    units = weight.type.dims[0]
    split = reshaped(weight, (units, *sizes), f"{value.name}:weight_split")
    moved = transposed(split, to_last(len(turned.shape)), f"{value.name}:weight_moved")
    weight = reshaped(moved, (units, product(tuple(sizes))), f"{value.name}:weight_last")
    rows = reshaped(turned.inputs[0], flat.shape, f"{value.name}:rows_last")
    inputs = [rows, weight, *value.inputs[2:]]
    return Use(make("FullyConnected", value.name, inputs, value.source, **value.attrs))
