"""Fourier transforms of rows of real values; complex values are pairs.

Input: real rows (..., n), or rows of n pairs (..., 2n), with 2 or 4 axes. Output: the other form.
As in MXNet, neither direction divides by n.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import TensorType, shape_text
from ...errors import ShapeError
from ..attrs import Declared
from ..building import Builder, Many, X
from ..casting import convert
from ..registry import lookup, register
from ..rules import forward, require_float
from ..signatures import Gradient


def _check(name: str, data: TensorType) -> None:
    require_float(name, data)
    if data.ndim not in (2, 4):
        raise ShapeError(f"{name} needs data of 2 or 4 axes, got {shape_text(data.shape)}")
    if data.dims[-1] == 0:
        raise ShapeError(f"{name} needs rows of at least one element, got {shape_text(data.shape)}")


@forward
def _infer_fft(data: TensorType, *, compute_size: int) -> TensorType:
    """(..., n) -> (..., 2n)."""
    _check("fft", data)
    return data.with_shape((*data.dims[:-1], 2 * data.dims[-1]))


def _fft(data: np.ndarray, *, compute_size: int) -> np.ndarray:
    """Transform of each row, with alternating real and imaginary parts."""
    found = np.fft.fft(data.astype(np.float64), axis=-1)
    pairs = np.stack([found.real, found.imag], axis=-1)
    return convert(pairs.reshape(*data.shape[:-1], 2 * data.shape[-1]), data.dtype)


@forward
def _infer_ifft(data: TensorType, *, compute_size: int) -> TensorType:
    """(..., 2n) -> (..., n)."""
    _check("ifft", data)
    if data.dims[-1] % 2:
        raise ShapeError(f"ifft needs pairs on the last axis, but its size is {data.dims[-1]}")
    return data.with_shape((*data.dims[:-1], data.dims[-1] // 2))


def _ifft(data: np.ndarray, *, compute_size: int) -> np.ndarray:
    """Real parts of the inverse transform of each row of pairs, not divided by n."""
    pairs = data.astype(np.float64).reshape(*data.shape[:-1], data.shape[-1] // 2, 2)
    count = pairs.shape[-2]
    found = np.fft.ifft(pairs[..., 0] + 1j * pairs[..., 1], axis=-1).real * count
    return convert(found, data.dtype)


def _grad_by(twin: str) -> Gradient:
    """Gradient rule of a transform whose transpose is ``twin``: neither divides by n."""

    def grad(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared) -> X:
        return g.op(lookup(twin), douts[0], **attrs)

    return grad


register(
    "_contrib_fft",
    "data",
    "compute_size:int=128",
    infer=_infer_fft,
    ref=_fft,
    grad=_grad_by("_contrib_ifft"),
    doc="Fourier transform of real rows, as pairs of real and imaginary parts.",
)
register(
    "_contrib_ifft",
    "data",
    "compute_size:int=128",
    infer=_infer_ifft,
    ref=_ifft,
    grad=_grad_by("_contrib_fft"),
    doc="Real part of the inverse Fourier transform of rows of pairs, not divided by n.",
)
