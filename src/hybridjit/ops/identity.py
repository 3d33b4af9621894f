"""Operators that return their data unchanged at inference, under the names that training needs.

The first input is the result; a second one (a label, a moving average) is not looked at. Dropout
is one of them unless its ``mode`` is ``always``: then it drops even here, and the compiler must
not treat it as an identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..types import PartialShape, merge_dtypes, merge_shapes
from .casting import fresh, in_floating
from .pointwise import same_float, sigmoid
from .random import dropout_mask
from .registry import Kind, register
from .rules import Types, merged, same_type


def copy_first(data: np.ndarray, *others: np.ndarray, **attrs: Any) -> np.ndarray:
    return fresh(data, data.dtype)


def _identity(
    name: str, doc: str, attrs: str = "", aliases: str = "", output: str = "output"
) -> None:
    register(
        name,
        "data",
        attrs,
        kind=Kind.IDENTITY,
        infer=same_type,
        ref=copy_first,
        outputs=(output,),
        aliases=aliases,
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
    kind=Kind.IDENTITY,
    infer=same_type,
    ref=copy_first,
    doc="The first input, whose type is the second one's.",
)


def dropout(data: np.ndarray, *, p: float, mode: str, axes: tuple[int, ...]) -> np.ndarray:
    """The data; with mode ``always`` some of it zero and the rest scaled by 1 / (1 - p)."""
    if mode != "always":
        return fresh(data, data.dtype)
    return np.asarray(data * dropout_mask(data.shape, p, axes, data.dtype), order="C")


register(
    "Dropout",
    "data",
    "p:float=0.5 mode:always|training=training axes:shape=()",
    kind=Kind.IDENTITY,
    infer=same_float,
    ref=dropout,
    doc="The data at inference; with mode 'always' drops a fraction p even then.",
)


def _column_label(shape: PartialShape) -> PartialShape:
    """A regression label: the data's shape, or one number for each row of an (N, 1) column."""
    return shape[:1] if len(shape) == 2 and shape[1] == 1 else shape


def _with_second(second: Callable[[PartialShape], PartialShape]) -> Callable[..., Any]:
    """A rule for (data, other): the result is like data, ``other`` takes its type from it."""

    def infer(ins: Types, outs: Types, **attrs: Any) -> tuple[Types, Types]:
        data, other = ins
        (data,), outs = same_type((data,), outs)
        if other.shape is None and data.shape is not None:
            other = other.with_shape(second(data.shape))
        if other.dtype is None:
            other = other.with_dtype(data.dtype)
        return (data, other), merged(outs, (data,))

    return infer


def _loss_output(name: str, attrs: str, label: Callable[[PartialShape], PartialShape]) -> None:
    register(
        name,
        "data label",
        attrs,
        kind=Kind.IDENTITY,
        infer=_with_second(label),
        ref=copy_first,
        aliases="" if name == "SVMOutput" else f"_sparse_{name}",
        doc="The data; the label serves training only.",
    )


_loss_output("LinearRegressionOutput", "grad_scale:float=1", _column_label)
_loss_output("MAERegressionOutput", "grad_scale:float=1", _column_label)
_loss_output(
    "SVMOutput",
    "margin:float=1 regularization_coefficient:float=1 use_linear:bool=False",
    lambda shape: shape[:-1] or shape,
)


@in_floating
def logistic_output(data: np.ndarray, label: np.ndarray, *, grad_scale: float) -> np.ndarray:
    return sigmoid(data)


register(
    "LogisticRegressionOutput",
    "data label",
    "grad_scale:float=1",
    kind=Kind.HOST,
    infer=_with_second(_column_label),
    ref=logistic_output,
    aliases="_sparse_LogisticRegressionOutput",
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
    "sparseness_target:float=0.1 penalty:float=0.001 momentum:float=0.9",
    kind=Kind.IDENTITY,
    infer=_like_data,
    ref=copy_first,
    doc="The data; penalizes dense activations in training.",
)
