"""UpSampling: repeated cells, or a transposed convolution with a bilinear kernel.

Input: (N, C, H, W), several of them for repeated cells. Output: one image with larger spatial
sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, FLOATS, Shape, TensorType, shape_text
from ...errors import AttributeValueError, MXNetError, ShapeError
from ..algebra import total
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..elementwise.element_type import cast
from ..gradient import gradients
from ..nn.deconvolution import DECONVOLUTION
from ..numbered import Numbered
from ..record import Eager, Samples, Traits
from ..registry import register
from ..rules import Types, merged, same_dtype
from ..signatures import Arrays
from ..tensor.primitives import broadcast, narrow, reshape


def check_image(what: str, t: TensorType) -> None:
    if t.shape is not None and len(t.shape) != 4:
        raise ShapeError(f"{what} needs 4D data (batch, channel, y, x), got {shape_text(t.shape)}")
    if t.shape is not None and 0 in t.shape[2:]:
        raise ShapeError(f"{what} needs images of at least one cell, got {shape_text(t.shape)}")


def _upsampling_inputs(*, sample_type: str, num_args: int, **attrs: AttrValue) -> Sequence[str]:
    if sample_type == "bilinear":
        return ("data", "weight")
    return Numbered("arg", num_args)


def bilinear_attrs(scale: int, num_filter: int) -> dict[str, Declared]:
    """Attributes of the Deconvolution that implements a bilinear UpSampling."""
    k, p = 2 * scale - scale % 2, scale // 2
    text = {
        "kernel": f"({k}, {k})",
        "stride": f"({scale}, {scale})",
        "pad": f"({p}, {p})",
        "num_filter": str(num_filter),
        "num_group": str(num_filter),
    }
    return DECONVOLUTION.parse(text)


def _infer_upsampling(
    ins: Types,
    outs: Types,
    *,
    scale: int,
    sample_type: str,
    multi_input_mode: str,
    num_filter: int,
    **attrs: AttrValue,
) -> tuple[Types, Types]:
    """The first input's spatial sizes times scale, for all inputs."""
    if scale < 1:
        raise AttributeValueError(f"scale must be at least 1, got {scale}")
    if not ins:
        raise MXNetError("UpSampling needs at least one image, got none")
    if sample_type == "bilinear":
        if ins[0].shape is None:
            return ins, outs
        channels = ins[0].shape[1] if len(ins[0].shape) == 4 else None
        attrs = bilinear_attrs(scale, channels or max(num_filter, 1))
        return DECONVOLUTION.infer(ins, outs, **attrs)
    dtype = same_dtype(*ins, *outs)
    for t in ins:
        check_image("UpSampling", t)
    if not all(t.is_known for t in ins):
        return tuple(t.with_dtype(dtype) for t in ins), outs
    n, c, h, w = ins[0].dims
    for t in ins[1:]:
        times = h * scale // t.dims[2]
        if (t.dims[0], t.dims[2] * times, t.dims[3] * times) != (n, h * scale, w * scale):
            raise ShapeError(
                f"{shape_text(t.shape)} cannot be repeated to {h * scale} x {w * scale}"
            )
    channels = sum(t.dims[1] for t in ins) if multi_input_mode == "concat" else c
    if multi_input_mode == "sum" and any(t.dims[1] != c for t in ins):
        raise ShapeError("multi_input_mode sum needs inputs with equal numbers of channels")
    return ins, merged(outs, (TensorType((n, channels, h * scale, w * scale), dtype),))


def repeated(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """out[y, x] = in[y // scale, x // scale]."""
    return x.repeat(height // x.shape[2], axis=2).repeat(width // x.shape[3], axis=3)


def _upsampling(
    *inputs: np.ndarray,
    scale: int,
    sample_type: str,
    multi_input_mode: str,
    **attrs: AttrValue,
) -> Arrays:
    """Repeat each cell, or spread it with a bilinear kernel given as the second input."""
    if sample_type == "bilinear":
        channels = inputs[0].shape[1]
        return DECONVOLUTION.ref(*inputs, **bilinear_attrs(scale, channels))
    height, width = (n * scale for n in inputs[0].shape[2:])
    parts = [repeated(x, height, width) for x in inputs]
    return np.concatenate(parts, axis=1) if multi_input_mode == "concat" else reduce(np.add, parts)


def _bilinear_parts(g: Builder[X], data: X, weight: X, scale: int) -> X:
    """Deconvolution at least in single precision, rounded once."""
    t = g.type(data)
    wide = FLOAT64 if t.dtype == FLOAT64 else FLOAT32
    operands = [cast(g, x, wide, at=at) for x, at in ((data, "wide"), (weight, "weight"))]
    attrs = bilinear_attrs(scale, t.dims[1])
    if t.dtype == wide:
        return g.op(DECONVOLUTION, *operands, **attrs)
    return cast(g, g.op(DECONVOLUTION, *operands, at="single", **attrs), t.dtype)


def _upsampling_parts(
    g: Builder[X], *inputs: X, scale: int, sample_type: str, **attrs: AttrValue
) -> X | None:
    """UpSampling(x)  =>  bilinear: Deconvolution(x, weight); nearest, no kernel: broadcast_to(x)"""
    if sample_type == "bilinear":
        return _bilinear_parts(g, inputs[0], inputs[1], scale)
    t = g.type(inputs[0])
    if len(inputs) > 1 or t.dtype in FLOATS:
        return None
    n, c, h, w = t.dims
    split = reshape(g, inputs[0], (n, c, h, 1, w, 1), at="split")
    wide = broadcast(g, split, (n, c, h, scale, w, scale), at="wide")
    return reshape(g, wide, (n, c, h * scale, w * scale))


def _grad_upsampling(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    scale: int,
    sample_type: str,
    multi_input_mode: str,
    **attrs: AttrValue,
) -> tuple[X | None, ...]:
    """Bilinear: gradient of the Deconvolution; nearest: sum over the copies of each cell."""
    d = douts[0]
    if sample_type == "bilinear":
        channels = g.type(ins[0]).dims[1]
        as_written = bilinear_attrs(scale, channels)
        found = gradients(DECONVOLUTION, g, ins, outs, douts, as_written)
        return tuple(found)
    first, parts = 0, []
    for x in ins:
        channels = g.type(x).dims[1]
        parts.append(narrow(g, d, 1, first, channels, at=f"from{first}"))
        first += channels if multi_input_mode == "concat" else 0
    return tuple(_sum_of_copies(g, part, g.type(x).dims) for part, x in zip(parts, ins))


def _sum_of_copies(g: Builder[X], d: X, dims: Shape) -> X:
    n, c, h, w = dims
    height, width = g.type(d).dims[2:]
    split = reshape(g, d, (n, c, h, height // h, w, width // w), at="split")
    return total(g, split, (3, 5), keepdims=False)


UPSAMPLING = register(
    "UpSampling",
    _upsampling_inputs,
    "scale:int! num_filter:int=0 sample_type:bilinear|nearest! "
    "multi_input_mode:concat|sum=concat num_args:int[1,16384]!",
    infer=_infer_upsampling,
    ref=_upsampling,
    expand=_upsampling_parts,
    grad=_grad_upsampling,
    traits=Traits(samples=Samples.FIRST, eager=Eager.TWIN, initial={"weight": '["bilinear", {}]'}),
    doc="Repeat cells or spread them bilinearly; several inputs are joined or summed.",
)
