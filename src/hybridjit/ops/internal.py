"""Operators that only compiler passes create; files and users cannot use them.

They define the semantics of passes in NumPy, so that rewritten graphs can be interpreted.
"""

from __future__ import annotations

import json

import numpy as np

from .._core.types import UNKNOWN, Shape, TensorType
from .algebra import add, total
from .attrs import AttrValue, attr_text
from .building import Builder, Many, X
from .casting import scalar_of
from .gradient import none_at_all
from .nn.softmax_loss import require_labels
from .record import OpDef, Samples, Traits
from .registry import lookup, register, run_ref
from .rules import broadcast, forward
from .signatures import Expansion
from .tensor.by_index import require_in_range, whole
from .tensor.primitives import PLACE, narrow


def bn_scale(gamma: np.ndarray, var: np.ndarray, *, eps: float, fix_gamma: bool) -> np.ndarray:
    """gamma / sqrt(var + eps), in double precision before a single rounding."""
    scale = 1.0 / np.sqrt(var.astype(np.float64) + eps)
    return (scale if fix_gamma else gamma * scale).astype(var.dtype)


def bn_shift(
    beta: np.ndarray,
    mean: np.ndarray,
    gamma: np.ndarray,
    var: np.ndarray,
    *bias: np.ndarray,
    eps: float,
    fix_gamma: bool,
    num_args: int,
) -> np.ndarray:
    """beta + (bias - mean) * gamma / sqrt(var + eps), in double precision."""
    scale = 1.0 / np.sqrt(var.astype(np.float64) + eps)
    if not fix_gamma:
        scale = gamma * scale
    offset = (bias[0] if bias else 0.0) - mean.astype(np.float64)
    return (beta + offset * scale).astype(var.dtype)


def _like_first(first: TensorType, *rest: TensorType, **attrs: AttrValue) -> TensorType:
    return first


def _of_shape_type(*, op: str, sizes: Shape, dtype: np.dtype, given: str) -> TensorType:
    source = lookup(op)
    _, found = source.infer((TensorType(sizes, dtype),), (UNKNOWN,), **_given(source, given))
    return found[0]


def _of_shape(*, op: str, sizes: Shape, dtype: np.dtype, given: str) -> np.ndarray:
    """Apply the operator to an array without memory: it does not read the elements."""
    source = lookup(op)
    blank = np.broadcast_to(np.zeros((), dtype), sizes)
    return run_ref(source, [blank], _given(source, given))[0]


def _given(op: OpDef, text: str) -> dict[str, object]:
    return op.parse(json.loads(text))


OF_SHAPE = register(
    "_of_shape",
    "",
    "op:string! sizes:shape! dtype:dtype! given:string!",
    internal=True,
    infer=forward(_of_shape_type),
    ref=_of_shape,
    grad=none_at_all,
    doc="Result of an operator that reads only a shape; created by the compiler only.",
)


def constant_of_shape(op: str) -> Expansion:
    """Expansion of an operator that reads only the shape and type of its operand."""

    def expand(g: Builder[X], data: X, **attrs: AttrValue) -> X:
        """op(x)  =>  a constant that depends on the shape only"""
        given = {key: attr_text(value) for key, value in attrs.items() if value is not None}
        t = g.type(data)
        return g.op(OF_SHAPE, op=op, sizes=t.dims, dtype=t.dtype, given=json.dumps(given))

    return expand


BN_SCALE = register(
    "_bn_scale",
    "gamma moving_var",
    "eps:double! fix_gamma:bool!",
    internal=True,
    infer=forward(_like_first),
    ref=bn_scale,
    doc="Scale of BatchNorm at inference.",
)
BN_SHIFT = register(
    "_bn_shift",
    "args...",
    "num_args:int[1,16384]! eps:double! fix_gamma:bool!",
    internal=True,
    infer=forward(_like_first),
    ref=bn_shift,
    doc="Shift of BatchNorm at inference, including the bias of the preceding layer.",
)


def _in_range(
    indices: np.ndarray, *, reader: str, classes: int, use_ignore: bool, ignore_label: float
) -> np.ndarray:
    """The indices. Raises MXNetError for one that the operator ``reader`` may not read."""
    if reader == "SoftmaxOutput":
        require_labels(indices, classes=classes, use_ignore=use_ignore, ignore_label=ignore_label)
    else:
        require_in_range(reader, whole(indices), classes, "clips")
    return np.array(indices, order="C")


IN_RANGE = register(
    "_in_range",
    "indices",
    "reader:string! classes:int! use_ignore:bool=False ignore_label:float=-1",
    internal=True,
    infer=forward(_like_first),
    ref=_in_range,
    grad=none_at_all,
    doc="Indices, none of which is out of range; created by the compiler for HYBRIDJIT_CHECK only.",
)


def prelu(data: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    return np.where(data > 0, data, data * gamma)


def pad_axes(
    data: np.ndarray, *, mode: str, before: Shape, after: Shape, value: float
) -> np.ndarray:
    """Padding of any width along any axis."""
    pairs = list(zip(before, after))
    if mode == "constant":
        return np.pad(data, pairs, constant_values=scalar_of(value, data.dtype))
    return np.pad(data, pairs, mode=mode)  # type: ignore[call-overload]


def _pad_type(
    data: TensorType, *, mode: str, before: Shape, after: Shape, value: float
) -> TensorType:
    return data.with_shape(tuple(b + d + a for b, d, a in zip(before, data.dims, after)))


def _grad_pad(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    mode: str,
    before: Shape,
    after: Shape,
    value: float,
) -> X:
    """Inner slice, plus the gradient of the padding at the cells that it repeats."""
    sizes, d = g.type(ins[0]).dims, douts[0]
    for axis, (size, first, last) in enumerate(zip(sizes, before, after)):
        inner = narrow(g, d, axis, first, size, at=f"inner{axis}")
        if mode != "constant":
            for start, count in ((0, first), (first + size, last)):
                if count:
                    border = narrow(g, d, axis, start, count, at=f"border{axis}")
                    inner = add(g, inner, _taken_back(g, border, axis, size, start == 0, mode))
        d = inner
    return d


def _taken_back(g: Builder[X], border: X, axis: int, size: int, is_front: bool, mode: str) -> X:
    """Gradient of a border with respect to the cells it repeats: the edge, or reflected cells."""
    sizes = g.type(border).dims
    if mode == "edge":
        count, offset = 1, 0
        cells = total(g, border, (axis,))
    else:
        count, offset = sizes[axis], 1
        cells = g.op(lookup("reverse"), border, at="mirrored", axis=(axis,))
    start = offset if is_front else size - offset - count
    shape = (*sizes[:axis], size, *sizes[axis + 1 :])
    begin = tuple(start if i == axis else 0 for i in range(len(shape)))
    end = tuple(start + count if i == axis else n for i, n in enumerate(shape))
    return g.op(PLACE, cells, at="back", shape=shape, begin=begin, end=end)


PAD_AXES = register(
    "_pad_axes",
    "data",
    "mode:constant|edge|reflect! before:shape! after:shape! value:double=0",
    internal=True,
    kernel="pad",
    infer=forward(_pad_type),
    ref=pad_axes,
    grad=_grad_pad,
    traits=Traits(samples=Samples.PADDED),
    doc="Padding of arrays of any rank along any axis.",
)
PRELU = register(
    "_prelu",
    "data gamma",
    internal=True,
    infer=broadcast,
    ref=prelu,
    scalar=lambda b, x, g: b.select(b.gt(x, b.const(0.0)), x, b.mul(x, g)),
    doc="x where positive, gamma * x elsewhere; gamma broadcasts.",
)
