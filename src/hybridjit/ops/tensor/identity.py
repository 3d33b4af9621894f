"""Operators that are identities at inference and differ in training.

The first input is the result; further inputs (a label, a moving average) are not read. Dropout is
one of them unless its ``mode`` is ``always``: then it drops at inference too and is not treated as
an identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.types import (
    PartialShape,
    is_known_shape,
    merge_dtypes,
    merge_shapes,
    product,
    shape_text,
)
from ...errors import ShapeError
from ..algebra import (
    add,
    as_shape,
    average,
    div,
    in_dtype,
    mul,
    negated,
    ones_like,
    scaled,
    shifted,
    sub,
    total,
)
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, Reached, X
from ..casting import fresh
from ..elementwise.unary import SIGMOID, same_float
from ..gradient import given, head, none_at_all
from ..random.dropping import dropout_factors, dropout_mask
from ..record import PLAIN, GradientStored, OnStored, Traits
from ..registry import lookup, register
from ..rules import Types, merged, same_type
from ..signatures import Gradient


def itself(g: Builder[X], data: X, *others: X, **attrs: AttrValue) -> X:
    """identity(x)  =>  x"""
    return data


def _identity(
    name: str,
    doc: str,
    attrs: str = "",
    aliases: str = "",
    output: str = "output",
    grad: Callable[..., object] | None = None,
    traits: Traits = PLAIN,
) -> None:
    register(
        name,
        "data",
        attrs,
        infer=same_type,
        expand=itself,
        grad=grad,
        outputs=(output,),
        aliases=aliases,
        traits=traits,
        doc=doc,
    )


_identity(
    "_copy",
    "Identity.",
    aliases="identity _CrossDeviceCopy _copyto",
    traits=Traits(on_stored=OnStored.EACH, gradient_stored=GradientStored.HEAD),
)
_identity(
    "BlockGrad",
    "Identity; its gradient is 0.",
    aliases="stop_gradient _sparse_stop_gradient",
    grad=none_at_all,
    traits=Traits(on_stored=OnStored.EACH, gradient_stored=GradientStored.OPERAND),
)


def _grad_make_loss(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> X:
    """Ones, regardless of the output gradient."""
    return ones_like(g, ins[0])


_identity(
    "make_loss",
    "Identity; marks a loss in training.",
    aliases="_sparse_make_loss",
    output="loss",
    grad=_grad_make_loss,
    traits=Traits(ignores_head=lambda attrs: True, on_stored=OnStored.EACH),
)


def _grad_scaled_loss(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    grad_scale: float,
    valid_thresh: float,
    normalization: str,
) -> X:
    """grad_scale, regardless of the output gradient, divided by rows or by valid elements.

    MXNet's batch size is the number of rows of the last axis, so a vector has batch size 1.
    """
    (data,) = ins
    t = g.type(data)
    ones = scaled(g, ones_like(g, data), grad_scale)
    if normalization == "batch":
        return scaled(g, ones, 1.0 / product(t.dims[:-1]))
    if normalization == "null":
        return ones
    above = g.op(lookup("_greater_scalar"), data, at="above", scalar=valid_thresh)
    count = total(g, above, tuple(range(t.ndim)))
    return div(g, ones, g.op(lookup("_maximum_scalar"), count, at="count", scalar=1.0))


_identity(
    "MakeLoss",
    "Identity; marks a loss in training.",
    "grad_scale:float=1 valid_thresh:float=0 normalization:batch|null|valid=null",
    grad=_grad_scaled_loss,
    traits=Traits(names_data=True, ignores_head=lambda attrs: True),
)
_identity(
    "_contrib_gradientmultiplier",
    "Identity; multiplies the gradient by a factor.",
    "scalar:double=1 is_int:bool=True",
    grad=lambda g, ins, outs, douts, *, scalar, is_int: scaled(g, douts[0], scalar),
)


register(
    "_identity_with_attr_like_rhs",
    "lhs rhs",
    infer=same_type,
    expand=itself,
    traits=Traits(stops=lambda attrs: (1,)),
    doc="First input, with the type of the second one.",
)


def dropout(data: np.ndarray, *, p: float, mode: str, axes: tuple[int, ...]) -> np.ndarray:
    """The data; with mode ``always`` some elements are 0, the others scaled by 1 / (1 - p)."""
    if mode != "always":
        return fresh(data, data.dtype)
    return np.asarray(data * dropout_mask(data.shape, p, axes, data.dtype), order="C")


def _infer_dropout(
    ins: Types, outs: Types, *, axes: tuple[int, ...], **attrs: AttrValue
) -> tuple[Types, Types]:
    """Type of the data; ``axes`` must be valid and non-negative."""
    ins, outs = same_float(ins, outs, **attrs)
    shape = ins[0].shape
    if shape is not None and not all(0 <= axis < len(shape) for axis in axes):
        raise ShapeError(
            f"axes {shape_text(axes)} of Dropout must be between 0 and {len(shape) - 1} for data "
            f"{shape_text(shape)}"
        )
    return ins, outs


def _unless_always(g: Builder[X], data: X, *, mode: str, **attrs: AttrValue) -> X | None:
    """Dropout(x)  =>  x"""
    return None if mode == "always" else data


def _dropped(
    data: np.ndarray, *, p: float, axes: tuple[int, ...], **attrs: AttrValue
) -> tuple[np.ndarray, np.ndarray]:
    mask = dropout_mask(data.shape, p, axes, data.dtype)
    return np.asarray(data * mask, order="C"), np.asarray(mask, data.dtype)


def _infer_dropped(
    ins: Types, outs: Types, *, axes: tuple[int, ...], **attrs: AttrValue
) -> tuple[Types, Types]:
    ins, found = _infer_dropout(ins, outs[:1], axes=axes)
    shape = ins[0].shape
    if shape is None:
        return ins, outs
    mask = tuple(1 if i in axes else size for i, size in enumerate(shape))
    return ins, merged(outs, (found[0], ins[0].with_shape(mask)))


def _grad_dropped(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X | None], **attrs: AttrValue
) -> X | None:
    """Output gradient times the mask of the forward pass."""
    return None if douts[0] is None else mul(g, douts[0], outs[1])


def _dropped_parts(
    g: Builder[X], data: X, *, p: float, axes: tuple[int, ...], **attrs: AttrValue
) -> tuple[X, X]:
    """Dropout in training(x)  =>  x * mask, and the mask"""
    mask = dropout_factors(g, g.type(data), p, axes)
    return g.op(lookup("broadcast_mul"), data, mask), mask


_DROPOUT = "p:float[0,1]=0.5 mode:always|training=training axes:shape~=()"
DROPPED = register(
    "_Dropout_training",
    "data",
    _DROPOUT,
    internal=True,
    infer=_infer_dropped,
    ref=_dropped,
    expand=_dropped_parts,
    grad=_grad_dropped,
    outputs=("output", "mask"),
    traits=Traits(random=True),
    doc="Data with a fraction p dropped and the rest scaled up, and the factors.",
)


register(
    "Dropout",
    "data",
    _DROPOUT,
    infer=_infer_dropout,
    ref=dropout,
    expand=_unless_always,
    grad=head,
    traits=Traits(
        names_data=True,
        total_outputs=2,
        training=lambda attrs: DROPPED,
        keeps_training=lambda attrs: attrs["mode"] == "always",
    ),
    doc="Set elements to 0 with probability p, in training or with mode 'always'; else identity.",
)


Label = Callable[[PartialShape, PartialShape | None], PartialShape]


def _regression_label(data: PartialShape, given: PartialShape | None) -> PartialShape:
    """Shape of the label: the data's, or with as many elements per row; (N,) for data (N, 1)."""
    if given is None:
        return data[:1] if len(data) == 2 and data[1] == 1 else data
    if not (is_known_shape(data) and is_known_shape(given)):
        return given if len(data) != len(given) else merge_shapes(data, given) or given
    if data[:1] != given[:1] or product(data) != product(given):  # type: ignore[arg-type]
        raise ShapeError(
            f"the label must have the shape {shape_text(data)}, or as many elements per row, got "
            f"{shape_text(given)}"
        )
    return given


def _svm_label(data: PartialShape, given: PartialShape | None) -> PartialShape:
    """Shape of the label: one value for each line of the last axis."""
    if len(data) < 2:
        raise ShapeError(f"SVMOutput needs data of at least 2 dimensions, got {shape_text(data)}")
    return merge_shapes(data[:-1], given) or data[:-1]


def _with_label(label: Label) -> Callable[..., tuple[Types, Types]]:
    """Type rule for (data, label): equal dtypes, the result has the data's type."""

    def infer(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
        data, other = ins
        (data,), outs = same_type((data,), outs)
        if data.shape is not None:
            other = other.with_shape(label(data.shape, other.shape))
        other = other.with_dtype(merge_dtypes(other.dtype, data.dtype))
        return (data, other), merged(outs, (data,))

    return infer


def _grad_regression(slope: Callable[..., Any]) -> Gradient:
    """slope(prediction - label) grad_scale / (labels per sample), ignoring the output gradient."""

    def grad(
        g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, grad_scale: float
    ) -> tuple[Reached[X], ...]:
        t = g.type(ins[1])
        label = as_shape(g, ins[1], g.type(ins[0]).dims)
        factor = grad_scale * t.dims[0] / t.size
        return scaled(g, slope(g, sub(g, outs[0], label)), factor), None

    return grad


def _side(g: Builder[X], error: X) -> X:
    """1 for positive values, else -1, also for 0."""
    above = g.op(lookup("_greater_scalar"), error, at="above", scalar=0.0)
    return shifted(g, scaled(g, above, 2.0), -1.0)


def _grad_svm(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    margin: float,
    regularization_coefficient: float,
    use_linear: bool,
) -> tuple[Reached[X], ...]:
    """One-versus-all hinge loss: gradient of the true class below the margin, of others above
    -margin."""
    data, label = ins
    classes = g.type(data).dims[-1]
    hot = in_dtype(g, g.op(lookup("one_hot"), label, at="hot", depth=classes), g.type(data))
    sign = shifted(g, scaled(g, hot, -2.0), 1.0)  # -1 for the true class, else 1
    slack = shifted(g, mul(g, data, sign), margin)
    inside = g.op(lookup("_greater_scalar"), slack, at="inside", scalar=0.0)
    size = inside if use_linear else scaled(g, mul(g, inside, slack), 2.0)
    return scaled(g, mul(g, sign, size), regularization_coefficient), None


def _loss_output(name: str, attrs: str, label: Label, grad: Callable[..., object]) -> None:
    register(
        name,
        "data label",
        attrs,
        infer=_with_label(label),
        expand=itself,
        grad=grad,
        aliases="" if name == "SVMOutput" else f"_sparse_{name}",
        traits=Traits(loss_head=True, ignores_head=lambda attrs: True),
        doc="Identity; the label is read in training only.",
    )


_loss_output(
    "LinearRegressionOutput",
    "grad_scale:float=1",
    _regression_label,
    _grad_regression(lambda g, error: error),
)
_loss_output(
    "MAERegressionOutput", "grad_scale:float=1", _regression_label, _grad_regression(_side)
)
_loss_output(
    "SVMOutput",
    "margin:float=1 regularization_coefficient:float=1 use_linear:bool=False",
    _svm_label,
    _grad_svm,
)


def _logistic(g: Builder[X], data: X, label: X, *, grad_scale: float) -> X:
    """LogisticRegressionOutput(x)  =>  sigmoid(x)"""
    return g.op(SIGMOID, data)


register(
    "LogisticRegressionOutput",
    "data label",
    "grad_scale:float=1",
    infer=_with_label(_regression_label),
    expand=_logistic,
    grad=_grad_regression(lambda g, error: error),
    aliases="_sparse_LogisticRegressionOutput",
    traits=Traits(loss_head=True, ignores_head=lambda attrs: True),
    doc="Sigmoid of the data; the label is read in training only.",
)


def _like_data(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    data, average = ins
    (data,), outs = same_type((data,), outs)
    average = average.with_dtype(merge_dtypes(average.dtype, data.dtype))
    if data.shape is not None:
        if len(data.shape) < 2:
            raise ShapeError(
                f"data needs at least 2 axes, samples and channels, got {shape_text(data.shape)}"
            )
        average = average.with_shape(merge_shapes(average.shape, data.shape[1:2]))
    return (data, average), outs


def _moved_average(
    g: Builder[X], ins: Many[X], outs: object, *, momentum: float, **attrs: AttrValue
) -> dict[int, X]:
    """moving = momentum moving + (1 - momentum) average of the batch, per channel"""
    data, moving = ins
    shape = g.type(data).dims
    batch = average(g, data, tuple(i for i in range(len(shape)) if i != 1), keepdims=False)
    new = add(g, scaled(g, moving, momentum), scaled(g, batch, 1 - momentum))
    return {1: new}


def _grad_sparse(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X | None], *, sparseness_target: float,
    penalty: float, **attrs: Declared,
) -> tuple[X, None]:  # fmt: skip
    """d + penalty ((1 - t) / (1 - average) - t / average), with the average after this batch."""
    t, moving = sparseness_target, _moved_average(g, ins, outs, **attrs)[1]
    absent = shifted(g, negated(g, moving), 1)
    present_slope = g.op(lookup("_rdiv_scalar"), moving, at="present", scalar=penalty * t)
    absent_slope = g.op(lookup("_rdiv_scalar"), absent, at="absent", scalar=penalty * (1 - t))
    size = g.type(moving).dims
    slope = as_shape(g, sub(g, absent_slope, present_slope),
                     (1, *size, *[1] * (len(g.type(ins[0]).dims) - 2)))  # fmt: skip
    return add(g, given(g, douts[0], outs[0]), slope), None


_SPARSENESS = "sparseness_target:float[0,1]=0.1 penalty:float=0.001 momentum:float[0,1]=0.9"

_SPARSE_IN_TRAINING = register(
    "_IdentityAttachKLSparseReg_training",
    "data *moving_avg",
    _SPARSENESS,
    internal=True,
    infer=_like_data,
    expand=itself,
    grad=_grad_sparse,
    traits=Traits(adds_gradient=True, updates=_moved_average),
    doc="Data; its gradient moves the average of each channel towards the target.",
)

register(
    "IdentityAttachKLSparseReg",
    "data *moving_avg",
    _SPARSENESS,
    infer=_like_data,
    expand=itself,
    traits=Traits(training=lambda attrs: _SPARSE_IN_TRAINING),
    doc="Identity; penalizes dense activations in training.",
)
