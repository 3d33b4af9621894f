"""Operators that return their data unchanged at inference, under the names that training needs.

The first input is the result; a second one (a label, a moving average) is not looked at. Dropout
is one of them unless its ``mode`` is ``always``: then it drops even here, and the compiler must
not treat it as an identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..types import PartialShape, is_known_shape, merge_dtypes, merge_shapes, product, shape_text
from .building import Builder, X
from .casting import fresh
from .pointwise import SIGMOID, same_float
from .random import dropout_mask
from .record import Operands, Traits
from .registry import register
from .rules import Types, merged, same_type


def itself(g: Builder[X], data: X, *others: X, **attrs: Any) -> X:
    """identity(x)  =>  x"""
    return data


def _identity(
    name: str, doc: str, attrs: str = "", aliases: str = "", output: str = "output"
) -> None:
    register(
        name,
        "data",
        attrs,
        infer=same_type,
        expand=itself,
        outputs=(output,),
        aliases=aliases,
        traits=Traits(names_data=name == "MakeLoss"),
        doc=doc,
    )


_identity("_copy", "The data.", aliases="identity")
_identity("BlockGrad", "The data; stops gradients.", aliases="stop_gradient _sparse_stop_gradient")
_identity("make_loss", "The data; a loss in training.", aliases="_sparse_make_loss", output="loss")
_identity(
    "MakeLoss",
    "The data; a loss in training.",
    "grad_scale:float=1 valid_thresh:float=0 normalization:batch|null|valid=null",
)
_identity(
    "_contrib_gradientmultiplier",
    "The data; scales gradients.",
    "scalar:double=1 is_int:bool=True",
)


register(
    "_identity_with_attr_like_rhs",
    "lhs rhs",
    infer=same_type,
    expand=itself,
    doc="The first input, whose type is the second one's.",
)


def dropout(data: np.ndarray, *, p: float, mode: str, axes: tuple[int, ...]) -> np.ndarray:
    """The data; with mode ``always`` some of it zero and the rest scaled by 1 / (1 - p)."""
    if mode != "always":
        return fresh(data, data.dtype)
    return np.asarray(data * dropout_mask(data.shape, p, axes, data.dtype), order="C")


def _infer_dropout(
    ins: Types, outs: Types, *, axes: tuple[int, ...], **attrs: Any
) -> tuple[Types, Types]:
    """Like the data, whose axes ``axes`` names, counted from the front."""
    ins, outs = same_float(ins, outs, **attrs)
    shape = ins[0].shape
    if shape is not None and not all(0 <= axis < len(shape) for axis in axes):
        raise ShapeError(
            f"axes {shape_text(axes)} of Dropout lie between 0 and {len(shape) - 1} for data "
            f"{shape_text(shape)}"
        )
    return ins, outs


def _unless_always(g: Builder[X], data: X, *, mode: str, **attrs: Any) -> X | None:
    """Dropout(x)  =>  x"""
    return None if mode == "always" else data


def _dropping(arrays: list[np.ndarray], attrs: Mapping[str, Any]) -> Operands:
    return arrays, {**attrs, "mode": "always"}


register(
    "Dropout",
    "data",
    "p:float[0,1]=0.5 mode:always|training=training axes:shape~=()",
    infer=_infer_dropout,
    ref=dropout,
    expand=_unless_always,
    traits=Traits(names_data=True, total_outputs=2, training=_dropping),
    doc="The data at inference; with mode 'always' drops a fraction p even then.",
)


Label = Callable[[PartialShape, PartialShape | None], PartialShape]


def _regression_label(data: PartialShape, given: PartialShape | None) -> PartialShape:
    """The data's shape, or as many numbers for each row; for an (N, 1) column (N,)."""
    if given is None:
        return data[:1] if len(data) == 2 and data[1] == 1 else data
    if not (is_known_shape(data) and is_known_shape(given)):
        return given if len(data) != len(given) else merge_shapes(data, given) or given
    if data[:1] != given[:1] or product(data) != product(given):  # type: ignore[arg-type]
        raise ShapeError(
            f"the label's shape is {shape_text(data)}, or has as many numbers for each row, got "
            f"{shape_text(given)}"
        )
    return given


def _svm_label(data: PartialShape, given: PartialShape | None) -> PartialShape:
    """One number for each line of the last axis."""
    if len(data) < 2:
        raise ShapeError(f"SVMOutput takes data of at least 2 dimensions, got {shape_text(data)}")
    return merge_shapes(data[:-1], given) or data[:-1]


def _with_label(label: Label) -> Callable[..., Any]:
    """A rule for (data, label): both have one dtype, the result is like data."""

    def infer(ins: Types, outs: Types, **attrs: Any) -> tuple[Types, Types]:
        data, other = ins
        (data,), outs = same_type((data,), outs)
        if data.shape is not None:
            other = other.with_shape(label(data.shape, other.shape))
        other = other.with_dtype(merge_dtypes(other.dtype, data.dtype))
        return (data, other), merged(outs, (data,))

    return infer


def _loss_output(name: str, attrs: str, label: Label) -> None:
    register(
        name,
        "data label",
        attrs,
        infer=_with_label(label),
        expand=itself,
        aliases="" if name == "SVMOutput" else f"_sparse_{name}",
        traits=Traits(loss_head=True),
        doc="The data; the label serves training only.",
    )


_loss_output("LinearRegressionOutput", "grad_scale:float=1", _regression_label)
_loss_output("MAERegressionOutput", "grad_scale:float=1", _regression_label)
_loss_output(
    "SVMOutput",
    "margin:float=1 regularization_coefficient:float=1 use_linear:bool=False",
    _svm_label,
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
    aliases="_sparse_LogisticRegressionOutput",
    traits=Traits(loss_head=True),
    doc="sigmoid of the data; the label serves training only.",
)


def _like_data(ins: Types, outs: Types, **attrs: Any) -> tuple[Types, Types]:
    data, average = ins
    (data,), outs = same_type((data,), outs)
    average = average.with_dtype(merge_dtypes(average.dtype, data.dtype))
    if data.shape is not None and len(data.shape) > 1:
        average = average.with_shape(merge_shapes(average.shape, data.shape[1:2]))
    return (data, average), outs


register(
    "IdentityAttachKLSparseReg",
    "data *moving_avg",
    "sparseness_target:float[0,1]=0.1 penalty:float=0.001 momentum:float[0,1]=0.9",
    infer=_like_data,
    expand=itself,
    doc="The data; penalizes dense activations in training.",
)
