"""Layout: NCHW regions of convolutions -> channels-last regions, transposes only at their borders.

Users see MXNet's NCHW. A convolution or pooling is rewritten to its channels-last form, and
operators that do not depend on the order of axes follow their inputs, so that a transpose stays
only where a region begins or ends. A dense layer downstream of a flattened region gets the columns
of its weight reordered, so that the activation need not be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core.types import product
from ...ir import kinds
from ...ir.building import building
from ...ir.graph import Graph, Use, Value, uses_of
from ...ir.rewrite import Match, Replacement, rebuild, rewrite, rule, uniquely_named
from ...ops.elementwise.binary import ADD_N
from ...ops.internal import PAD_AXES
from ...ops.nn.convolution import CONVOLUTION, CONVOLUTION_BY_WEIGHT
from ...ops.nn.deconvolution import DECONVOLUTION
from ...ops.nn.length_norm import L2_NORMALIZATION, LRN, LRN_LAST
from ...ops.nn.matrix_products import FULLY_CONNECTED
from ...ops.nn.normalization import GROUP_NORM, INSTANCE_NORM, INSTANCE_NORM_LAST
from ...ops.nn.pooling import POOLING
from ...ops.nn.pooling_back import BACK_FROM_AVERAGE, BACK_FROM_MAX
from ...ops.nn.softmax import LOG_SOFTMAX, SOFTMAX, SOFTMIN
from ...ops.nn.window_geometry import is_channel_last
from ...ops.quantized import BYTE_POOLING, BYTES, INTEGER_CONVOLUTION
from ...ops.record import OpDef
from ...ops.rules import reduced_axes
from ...ops.tensor.joining import CONCAT
from ...ops.tensor.moments import MOMENTS, SUMS_ABOUT
from ...ops.tensor.primitives import (
    RESHAPE_TO,
    SLICE,
    TRANSPOSE,
    permutation,
    reshape,
    slices,
    transpose,
)
from ...ops.tensor.reductions import MEAN, MEAN_SQUARE_ABOUT, SUM
from ...ops.vision.resolution import ADAPTIVE_POOLING, BILINEAR_RESIZE, RESIZE_LAST
from ...ops.vision.roi_align import ROI_ALIGN, ROI_ALIGN_LAST
from ...ops.vision.roi_pooling import ROI_POOLING, ROI_POOLING_LAST
from ...ops.vision.upsampling import UPSAMPLING
from ...ops.vision.warp import BILINEAR_SAMPLER, SAMPLE_LAST
from ..rewrite.hoist_pointwise import pointwise_on_rows
from .group_norm import group_norm_last, name_group_norms

_LAYOUTS = {3: "NWC", 4: "NHWC", 5: "NDHWC"}
_RESIZED = {UPSAMPLING: "nearest", BILINEAR_RESIZE: "bilinear", ADAPTIVE_POOLING: "average"}
# Operators and their channels-last equivalents.
_TWINS = {
    BILINEAR_SAMPLER: SAMPLE_LAST,
    ROI_ALIGN: ROI_ALIGN_LAST,
    ROI_POOLING: ROI_POOLING_LAST,
    INSTANCE_NORM: INSTANCE_NORM_LAST,
    LRN: LRN_LAST,
}


def choose_layouts(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Rewrite convolution regions to channels last."""
    if not any(value.op in _BEGINNINGS and not _is_last(value) for value in graph.values):
        return graph
    graph = _Relayout(name_group_norms(graph, fired)).run()
    return rewrite(graph, (pointwise_on_rows,), fired)


def layout_dense(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Reorder the weight's columns of dense layers that read flattened regions."""
    return rewrite(graph, (dense_after_flatten,), fired)


def kernel_of(op: OpDef) -> str:
    """The kernel kind of an operator, in its channels-last form if it has one."""
    return RESIZE_LAST.kernel if op in _RESIZED else _TWINS.get(op, op).kernel


def _is_last(value: Value) -> bool:
    """Whether the value has channels last already, so that it does not begin a region."""
    layout = value.attrs.get("layout")
    return layout is not None and layout[1] != "C"


def to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


class _Relayout:
    """One pass over the graph that records, for each value, the forms in which it exists so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.first: dict[Use, Use] = {}
        self.last: dict[Use, Use] = {}

    def run(self) -> Graph:
        for value in self.graph.values:
            moved = self._channels_last(value)
            if moved is not None:
                self.last.update(zip(uses_of(value), (moved, *uses_of(moved.value)[1:])))
            else:
                new = self._reduced(value) or self._rows(value) or self._in_first_order(value)
                self.first.update(zip(uses_of(value), uses_of(new)))
        outputs = tuple(self.as_first(u) for u in self.graph.outputs)
        if outputs == self.graph.outputs:
            return self.graph
        # Values of an expansion may have the names of these forms: a deformable convolution's do.
        return uniquely_named(self.graph.with_outputs(outputs))

    def _in_first_order(self, value: Value) -> Value:
        return rebuild(value, tuple(self.as_first(u) for u in value.inputs))

    def _reduced(self, value: Value) -> Value | None:
        """A reduction of a channels-last operand whose kept axes have the same order in both
        layouts."""
        if value.op not in _REDUCTIONS or not self._is_in_region(value):
            return None
        ndim = value.inputs[0].type.ndim
        kept = [a for a in to_last(ndim) if a not in _axes_of(value)]
        if value.attrs["keepdims"] or ndim not in _LAYOUTS or kept != sorted(kept):
            return None
        return _reduction(self, value).value

    def _rows(self, value: Value) -> Value | None:
        """The pixels of an image as rows of channels, if the value is a transpose to them."""
        image = self._image_of(value)
        if image is None:
            return None
        return reshape(building(value), self.last[image], value.shape).value

    def _image_of(self, value: Value) -> Use | None:
        """The image whose pixels were joined to one axis that was then exchanged with the channels.

        Such a transpose of three axes equals one from channels last to MXNet's order.
        """
        if value.op is not TRANSPOSE or tuple(value.attrs["axes"]) != (0, 2, 1):
            return None
        joined = value.inputs[0].value
        if joined.op is not RESHAPE_TO or joined.inputs[0] not in self.last:
            return None
        image = joined.inputs[0]
        shape, ndim = image.type.dims, image.type.ndim
        return image if ndim > 3 and shape[:2] == joined.shape[:2] else None

    def _is_in_region(self, value: Value) -> bool:
        """Whether an operand exists with channels last and not in MXNet's order."""
        return any(u in self.last and u not in self.first for u in value.inputs)

    def as_first(self, use: Use) -> Use:
        """The value in MXNet's order of axes."""
        if use not in self.first:
            last = self.last[use]
            axes = to_first(last.type.ndim)
            self.first[use] = transpose(building(use.value), last, axes, at="nchw")
        return self.first[use]

    def as_last(self, use: Use) -> Use:
        """The value with channels last."""
        if use not in self.last:
            first = self.first[use]
            axes = to_last(first.type.ndim)
            self.last[use] = transpose(building(use.value), first, axes, at="nhwc")
        return self.last[use]

    def _channels_last(self, value: Value) -> Use | None:
        """The value in its channels-last form, if it should have one."""
        op = value.op
        if op is None or len(value.shape) not in _LAYOUTS:
            return None
        if len(value.types) > 1 and op not in _PAIRS:
            return None
        if value.type.dtype not in (*kinds.STORED, *BYTES) and op is not INTEGER_CONVOLUTION:
            return None
        if op in _BEGINNINGS:
            return _BEGINNINGS[op](self, value)
        if op is TRANSPOSE:
            return self._before_transpose(value)
        if not self._is_in_region(value):
            return None
        rule = _pointwise if op.is_pointwise else _FOLLOWERS.get(op)
        return rule(self, value) if rule else None

    def _before_transpose(self, value: Value) -> Use | None:
        """The operand, with channels last, of a transpose to MXNet's order that the user wrote."""
        ndim = len(value.shape)
        if permutation(ndim, value.attrs["axes"]) != to_first(ndim) or self._image_of(value):
            return None
        return self.as_first(value.inputs[0])


Rule = Callable[[_Relayout, Value], "Use | None"]


def _again(value: Value, inputs: list[Use], **changed: object) -> Use:
    """The same operator on operands with another order of axes, with some attributes changed."""
    assert value.op is not None
    return building(value).op(value.op, *inputs, **{**value.attrs, **changed})


def _windowed(forms: _Relayout, value: Value) -> Use | None:
    if _is_last(value):
        return None
    ndim = len(value.shape)
    data, *weights = value.inputs
    inputs = [forms.as_last(data)]
    if weights:
        weight = forms.as_first(weights[0])
        inputs.append(transpose(building(value), weight, to_last(ndim), at="weight_last"))
        inputs += [forms.as_first(u) for u in weights[1:]]
    return _again(value, inputs, layout=_LAYOUTS[ndim])


def _by_weight(forms: _Relayout, value: Value) -> Use | None:
    """Data and output gradient with channels last; the weight's gradient has them last as well."""
    if is_channel_last(value.attrs["layout"], len(value.attrs["kernel"])):
        return None
    inputs = [forms.as_last(use) for use in value.inputs]
    return _again(value, inputs, layout=_LAYOUTS[len(value.shape)])


def _unpooled(forms: _Relayout, value: Value) -> Use | None:
    """The gradient of pooling with respect to its input; one of the operators names its shape."""
    ndim = len(value.shape)
    if is_channel_last(value.attrs["layout"], ndim - 2):
        return None
    changed: dict[str, Any] = {"layout": _LAYOUTS[ndim]}
    if "shape" in value.attrs:
        changed["shape"] = tuple(value.shape[axis] for axis in to_last(ndim))
    return _again(value, [forms.as_last(use) for use in value.inputs], **changed)


def _resized(forms: _Relayout, value: Value) -> Use | None:
    """Each input resized to the result; several inputs are joined or added."""
    assert value.op is not None
    how, attrs, g = _RESIZED[value.op], value.attrs, building(value)
    if attrs.get("sample_type") == "bilinear" or value.type.size == 0:
        return None
    inputs = value.inputs if how == "nearest" else value.inputs[:1]
    size: dict[str, object] = dict(zip(("height", "width"), value.shape[2:]))
    size |= {"how": how, "align": bool(attrs.get("align_corners"))}
    parts = []
    for number, use in enumerate(inputs):
        part = forms.as_last(use)
        if part.type.dims[1:3] != value.shape[2:]:
            part = g.op(RESIZE_LAST, part, at="" if len(inputs) == 1 else str(number), **size)
        parts.append(part)
    if len(parts) == 1:
        return parts[0]
    if attrs["multi_input_mode"] == "concat":
        return g.op(CONCAT, *parts, dim=3, num_args=len(parts))
    return g.op(ADD_N, *parts, num_args=len(parts))


def _at_places(forms: _Relayout, value: Value) -> Use | None:
    """Sampling at the positions that the second input gives."""
    attrs = dict(value.attrs)
    if attrs.pop("position_sensitive", False):
        return None
    return _by_twin(forms, value, **attrs)


def _by_twin(forms: _Relayout, value: Value, **attrs: Any) -> Use:
    """The equivalent operator that takes its first operand with channels last."""
    assert value.op is not None
    inputs = [forms.as_last(value.inputs[0]), *map(forms.as_first, value.inputs[1:])]
    return building(value).op(_TWINS[value.op], *inputs, **attrs)


def _normed(forms: _Relayout, value: Value) -> Use:
    return _by_twin(forms, value, **value.attrs)


def _group_normed(forms: _Relayout, value: Value) -> Use | None:
    data, *scales = value.inputs
    return group_norm_last(value, forms.as_last(data), *map(forms.as_first, scales))


def _pointwise(forms: _Relayout, value: Value) -> Use:
    ndim = len(value.shape)
    inputs = []
    for use in value.inputs:
        if use.type.ndim == ndim:
            inputs.append(forms.as_last(use))
        elif use.type.ndim < 2 and use.type.size == 1:
            inputs.append(forms.as_first(use))
        else:
            inputs.append(_aligned(forms, use, value))
    return _again(value, inputs)


def _aligned(forms: _Relayout, use: Use, value: Value) -> Use:
    """An operand with fewer axes than the result, which are the result's last, in channels-last
    order."""
    g, ndim = building(value), len(value.shape)
    ones = (1,) * (ndim - use.type.ndim)
    full = reshape(g, forms.as_first(use), (*ones, *use.type.dims), at="all_axes")
    return transpose(g, full, to_last(ndim), at="last")


def _along(key: str) -> Rule:
    """A rule for the same operator along the same axis, at its new position."""

    def rule(forms: _Relayout, value: Value) -> Use | None:
        ndim = len(value.shape)
        axis = to_last(ndim).index(value.attrs[key] % ndim)
        return _again(value, [forms.as_last(u) for u in value.inputs], **{key: axis})

    return rule


def _softmax(forms: _Relayout, value: Value) -> Use | None:
    return _along("axis")(forms, value) if len(value.inputs) == 1 else None


def _padded(forms: _Relayout, value: Value) -> Use:
    axes = to_last(len(value.shape))
    widths = {key: tuple(value.attrs[key][a] for a in axes) for key in ("before", "after")}
    return _again(value, [forms.as_last(value.inputs[0])], **widths)


def _cut(forms: _Relayout, value: Value) -> Use:
    """The same slice of each axis, at its new position."""
    attrs, axes = value.attrs, to_last(len(value.shape))
    sizes = value.inputs[0].type.dims
    parts = slices(sizes, *(attrs[key] for key in ("begin", "end", "step")))
    every = (*parts, *(slice(0, size) for size in sizes[len(parts) :]))
    moved = [every[axis] for axis in axes]
    begin, end = tuple(part.start for part in moved), tuple(part.stop for part in moved)
    step = tuple(1 if part.step is None else part.step for part in moved)
    return _again(value, [forms.as_last(value.inputs[0])], begin=begin, end=end, step=step)


def _axes_of(value: Value) -> tuple[int, ...]:
    attrs = value.attrs
    return reduced_axes(value.inputs[0].type.ndim, attrs["axis"], attrs.get("exclude", False))


def _reduction(forms: _Relayout, value: Value) -> Use:
    """The same reduction of channels-last operands."""
    axes = to_last(value.inputs[0].type.ndim)
    over = tuple(sorted(axes.index(axis) for axis in _axes_of(value)))
    changed = {"axis": over} | ({"exclude": False} if "exclude" in value.attrs else {})
    return _again(value, [forms.as_last(u) for u in value.inputs], **changed)


def _reduced_in_place(forms: _Relayout, value: Value) -> Use | None:
    return _reduction(forms, value) if value.attrs["keepdims"] else None


def _l2_norm(forms: _Relayout, value: Value) -> Use | None:
    """Normalize each position, or each sample, as one row; the order within a row is irrelevant."""
    if value.attrs["mode"] == "spatial":
        return None
    g, last = building(value), forms.as_last(value.inputs[0])
    shape = last.type.dims
    rows = shape[0] if value.attrs["mode"] == "instance" else product(shape[:-1])
    flat = reshape(g, last, (rows, last.type.size // rows), at="rows")
    attrs = {**value.attrs, "mode": "instance"}
    return reshape(g, g.op(L2_NORMALIZATION, flat, at="norm", **attrs), shape)


_PAIRS = (MOMENTS, SUMS_ABOUT)
_REDUCTIONS = (SUM, MEAN, MEAN_SQUARE_ABOUT, *_PAIRS)
# Operators that begin a region, and operators that join the region of their operands.
_BEGINNINGS: dict[OpDef | None, Rule] = {
    **dict.fromkeys(
        (BYTE_POOLING, CONVOLUTION, DECONVOLUTION, INTEGER_CONVOLUTION, POOLING), _windowed
    ),
    CONVOLUTION_BY_WEIGHT: _by_weight,
    **dict.fromkeys((BACK_FROM_AVERAGE, BACK_FROM_MAX), _unpooled),
    **dict.fromkeys(_RESIZED, _resized),
    **dict.fromkeys((BILINEAR_SAMPLER, ROI_ALIGN, ROI_POOLING), _at_places),
}
_FOLLOWERS: dict[OpDef, Rule] = {
    CONCAT: _along("dim"),
    PAD_AXES: _padded,
    SLICE: _cut,
    **dict.fromkeys(_REDUCTIONS, _reduced_in_place),
    **dict.fromkeys((INSTANCE_NORM, LRN), _normed),
    GROUP_NORM: _group_normed,
    L2_NORMALIZATION: _l2_norm,
    **dict.fromkeys((SOFTMAX, LOG_SOFTMAX, SOFTMIN), _softmax),
}


@rule(
    "dense(flatten(to_nchw(x)), w)  =>  dense(flatten(x), w with its columns reordered)",
    FULLY_CONNECTED,
)
def dense_after_flatten(value: Value, match: Match) -> Replacement:
    data, weight, *bias = value.inputs
    flat = data.value
    if flat.op is not RESHAPE_TO:
        return None
    turned = flat.inputs[0].value
    if turned.op is not TRANSPOSE or turned.attrs["axes"] != to_first(len(turned.shape)):
        return None
    batch, *sizes = turned.shape
    columns = product(tuple(sizes))
    if flat.shape != (batch, columns):
        return None
    if not match.is_fixed(weight):  # moved at every call
        return None
    g, units = building(value), weight.type.dims[0]
    split = reshape(g, weight, (units, *sizes), at="weight_split")
    moved = transpose(g, split, to_last(len(turned.shape)), at="weight_moved")
    weight = reshape(g, moved, (units, columns), at="weight_last")
    rows = reshape(g, turned.inputs[0], flat.shape, at="rows_last")
    return g.op(FULLY_CONNECTED, rows, weight, *bias, **value.attrs)
