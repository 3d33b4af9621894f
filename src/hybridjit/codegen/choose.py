"""Choose: a planned step and a target become kernel calls.

In: a Step with its views. Out: its calls, each a KernelSpec with its arguments. All heuristics are
here and in the other ``choose_*.py``; numbers are derived from the target, with the derivation or
the measurement beside them. Nothing that changes the order of a sum depends on the batch, the
thread count or an address.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir.plan import Step, View
from ..types import product
from .call import (
    Address,
    Argument,
    Call,
    Setting,
    broadcast_strides,
    build_program,
    dtype_name,
    off_default,
    views_of,
)
from .choose_conv import choose_conv, five, three
from .choose_deconv import choose_deconv
from .choose_dense import choose_dense
from .choose_gather import choose_gather, choose_one_hot, choose_scatter
from .choose_image import choose_region, choose_resize, choose_sample
from .choose_norm import choose_lrn, choose_norm
from .choose_reduce import choose_reduce
from .choose_rnn import choose_recurrent
from .elements import MOVED_AS
from .spec import (
    Ints,
    PadSpec,
    PointwiseSpec,
    PoolSpec,
    Program,
    SoftmaxSpec,
)


def choose(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The kernel calls of a step; none for a host step."""
    chooser = _CHOOSERS.get(step.kind)
    if step.kind in _IN_ONE_TYPE:
        dtype = dtype_name(step.group.anchor.type)
        setting = replace(setting, target=setting.target.of(dtype))
    return chooser(step, setting) if chooser else ()


# --- pointwise ---

# Elements of a one-axis space that are one unit of work: large enough that taking it costs
# nothing, small enough to share out.
_BLOCK = 2048


def _choose_pointwise(step: Step, setting: Setting) -> tuple[Call, ...]:
    program, operands = build_program(step.group, anchored=False)
    return (_pointwise_call(program, views_of(step, operands), list(step.writes)),)


def _choose_copy(step: Step, setting: Setting) -> tuple[Call, ...]:
    moved_as = MOVED_AS[step.reads[0].dtype.itemsize]
    program = Program(1, types=off_default((moved_as,)))
    return (_pointwise_call(program, list(step.reads), list(step.writes)),)


def _choose_pad(step: Step, setting: Setting) -> tuple[Call, ...]:
    """Elements are moved as whole numbers of their size."""
    attrs, (x,), (y,) = step.group.anchor.attrs, step.reads, step.writes
    bits = f"int{8 * x.dtype.itemsize}"
    value = int(np.asarray(attrs["value"]).astype(x.dtype).view(bits))
    spec = PadSpec(
        mode=attrs["mode"],
        inp=x.shape[1:],
        out=y.shape[1:],
        before=attrs["before"][1:],
        x=x.strides,
        y=y.strides,
        dtype=bits,
        value=value if attrs["mode"] == "constant" else 0,
    )
    return (Call(spec, (Address(x), Address(y), x.shape[0]), product(y.shape)),)


def _pointwise_call(program: Program, reads: list[View], writes: list[View]) -> Call:
    shape = writes[0].shape
    strides = [broadcast_strides(v, shape) for v in (*reads, *writes)]
    sizes, columns = collapse(shape, strides)
    if len(sizes) > 1 and sizes[-1] > 2 * _BLOCK:
        sizes, columns = _split_inner(sizes, columns)
    split = len(reads)
    spec = PointwiseSpec(
        dims=sizes[1:],
        reads=tuple(columns[:split]),
        writes=tuple(columns[split:]),
        program=program,
        block=_BLOCK if len(sizes) == 1 else 0,
    )
    args: tuple[Argument, ...] = (*map(Address, reads), *map(Address, writes), sizes[0])
    return Call(spec, args, product(shape))


def collapse(shape: Ints, strides: list[Ints]) -> tuple[Ints, list[Ints]]:
    """The index space with size-1 axes dropped and axes merged that lie one after the other."""
    axes = [i for i, size in enumerate(shape) if size != 1] or [len(shape) - 1]
    sizes = [shape[i] if shape else 1 for i in axes] if shape else [1]
    columns = [[s[i] for i in axes] if shape else [1] for s in strides]
    at = len(sizes) - 2
    while at >= 0:
        if all(c[at] == c[at + 1] * sizes[at + 1] for c in columns):
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
            for c in columns:
                del c[at]
        at -= 1
    return tuple(sizes), [tuple(c) for c in columns]


def _split_inner(sizes: Ints, columns: list[Ints]) -> tuple[Ints, list[Ints]]:
    """Cut a long innermost axis in two, so that there is work to share."""
    inner = sizes[-1]
    piece = next((p for p in range(_BLOCK, 255, -1) if inner % p == 0), None)
    if piece is None:
        return sizes, columns
    return (*sizes[:-1], inner // piece, piece), [(*c[:-1], c[-1] * piece, c[-1]) for c in columns]


# --- pooling and softmax ---


def _choose_pool(step: Step, setting: Setting) -> tuple[Call, ...]:
    anchor = step.group.anchor
    program, operands = build_program(step.group, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    attrs, rank = anchor.attrs, len(anchor.shape) - 2
    whole = attrs["global_pool"]
    kernel = x.shape[1:-1] if whole else attrs["kernel"]
    stride = (1,) * rank if whole else attrs["stride"] or (1,) * rank
    unpadded = whole or attrs["pooling_convention"] == "same"
    pad = (0,) * rank if unpadded else attrs["pad"] or (0,) * rank
    spec = PoolSpec(
        how=attrs["pool_type"],
        inp=three(x.shape[1:-1], 1),
        out=three(anchor.shape[1:-1], 1),
        kernel=three(kernel, 1),
        stride=three(stride, 1),
        pad=three(pad, 0),
        channels=x.shape[-1],
        xs=five(x.strides, rank),
        reads=tuple(
            five(broadcast_strides(v, anchor.shape), rank) for v in views_of(step, operands)
        ),
        writes=tuple(five(v.strides, rank) for v in step.writes),
        count_pad=attrs["count_include_pad"] is not False,
        power=attrs["p_value"] if attrs["pool_type"] == "lp" else 1,
        program=program,
        element=setting.target.element,
    )
    extra = [Address(v) for v in (*views_of(step, operands), *step.writes)]
    work = product(anchor.shape) * product(spec.kernel)
    return (Call(spec, (Address(x), *extra, x.shape[0]), work),)


def _choose_softmax(step: Step, setting: Setting) -> tuple[Call, ...]:
    anchor = step.group.anchor
    axis = anchor.attrs["axis"] % len(anchor.shape)
    inner = product(anchor.shape[axis + 1 :])
    assert anchor.op is not None
    views = views_of(step, anchor.inputs)
    length = views[1].dtype.name if len(views) > 1 else ""
    dtype = views[0].dtype.name
    spec = SoftmaxSpec(anchor.op.name, anchor.shape[axis], inner, length, dtype)
    rows = product(anchor.shape[:axis])
    args: tuple[Argument, ...] = (*map(Address, (*views, step.writes[0])), rows)
    return (Call(spec, args, 10 * product(anchor.shape)),)


# Kinds whose operands, sums and results are all of one type, which fills the vectors.
_IN_ONE_TYPE = frozenset(
    ("conv", "deconv", "gemm", "pool", "lrn", "norm", "recurrent", "region", "resize", "sample")
)
_CHOOSERS = {
    "pointwise": _choose_pointwise,
    "copy": _choose_copy,
    "pad": _choose_pad,
    "conv": choose_conv,
    "deconv": choose_deconv,
    "gemm": choose_dense,
    "pool": _choose_pool,
    "softmax": _choose_softmax,
    "reduce": choose_reduce,
    "lrn": choose_lrn,
    "gather": choose_gather,
    "region": choose_region,
    "resize": choose_resize,
    "sample": choose_sample,
    "scatter": choose_scatter,
    "one_hot": choose_one_hot,
    "norm": choose_norm,
    "recurrent": choose_recurrent,
}
