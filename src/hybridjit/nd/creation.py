"""Arrays from values, files of numbers and rules: ``nd.array``, ``nd.zeros`` and their kin.

In: Python or NumPy values and a context. Out: NDArrays. The element type is float32 unless the
caller says otherwise or the source is an NDArray.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._core.errstate import quiet
from .._core.lazy import Late
from .._core.shapes import partial_shape
from .._core.timeline import PLACE, TIMELINE
from .._core.types import FLOAT32, DType, Sizes, require_dims
from ..context import Context, current_context
from ..errors import MXNetError
from ..ops.casting import convert
from ..ops.registry import lookup
from .calls import require_sizes
from .memory import converted, dtype_of
from .ndarray import NDArray, invoke
from .sparse_dispatch import is_dense, sparse_arrays

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .._core import image_codecs
else:
    image_codecs = Late(".._core.image_codecs", __package__)


def array(
    source_array: ArrayLike, ctx: Context | None = None, dtype: DType | None = None
) -> NDArray:
    """A copy of ``source_array`` (anything that NumPy reads as numbers, also from texts).

    Of a sparse array, or SciPy's csr matrix, a sparse one.
    Raises TypeError for what is not an array of numbers.
    """
    if _is_sparse(source_array):
        return sparse_arrays().array(source_array, ctx, dtype)
    default = source_array._data.dtype if isinstance(source_array, NDArray) else FLOAT32
    wanted = default if dtype is None else dtype_of(dtype)
    if isinstance(source_array, NDArray):
        source = source_array._data
    else:
        source = _numbers(source_array, wanted)
    return NDArray(converted(source, wanted), _place(ctx, "array"))


def empty(
    shape: Sizes, ctx: Context | None = None, dtype: DType | None = None, stype: str | None = None
) -> NDArray:
    """An array of no particular contents (zeros, so that runs repeat).

    Sizes of 0 are sizes here, whatever they mean elsewhere, and () is the shape of a number.
    """
    if not is_dense(stype):
        return sparse_arrays().empty(stype, shape, ctx, dtype)
    return _filled(_sizes(shape), 0, ctx, dtype)


def zeros(
    shape: Sizes,
    ctx: Context | None = None,
    dtype: DType | None = None,
    stype: str | None = None,
    out: NDArray | None = None,
    **kwargs: object,
) -> NDArray:
    """Zeros. Raises ShapeError for a shape with 0 in it, or (), outside of ``np_shape``."""
    if not is_dense(stype):
        return sparse_arrays().zeros(stype, shape, ctx, dtype)
    return _constant(shape, 0, ctx, dtype, out)


def ones(
    shape: Sizes,
    ctx: Context | None = None,
    dtype: DType | None = None,
    out: NDArray | None = None,
    **kwargs: object,
) -> NDArray:
    """Ones. Raises ShapeError for a shape with 0 in it, or (), outside of ``np_shape``."""
    return _constant(shape, 1, ctx, dtype, out)


def full(
    shape: Sizes,
    val: float,
    ctx: Context | None = None,
    dtype: DType | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """``val`` everywhere, written to ``out`` if there is one; integers take its low bits.

    Raises ShapeError for the shape () outside of ``np_shape``.
    """
    if out is not None and not isinstance(out, NDArray):
        raise TypeError(f"out is an NDArray, got {type(out).__name__}")
    if out is not None:
        out[:] = val
        return out
    sizes = _sizes(shape)
    if not sizes:
        require_sizes([partial_shape(sizes)])
    return _filled(sizes, val, ctx, dtype)


def _constant(
    shape: Sizes, value: float, ctx: Context | None, dtype: DType | None, out: NDArray | None
) -> NDArray:
    if out is None:
        require_sizes([partial_shape(_sizes(shape))])
    return full(shape, value, ctx, dtype, out)


@quiet(over="ignore", invalid="ignore")
def _filled(
    sizes: tuple[int, ...], val: float, ctx: Context | None, dtype: DType | None
) -> NDArray:
    if TIMELINE.eager and not PLACE.is_inside:
        name = {"0": "_zeros", "1": "_ones"}.get(str(val), "_full")
        return TIMELINE.operator(name, _filled, sizes, val, ctx, dtype)
    result = np.empty(sizes, _dtype(dtype))
    if result.dtype.kind in "iu" and isinstance(val, (int, float)):
        result[...] = convert(np.array(val, np.float64), result.dtype)
    else:
        result[...] = val
    return NDArray(result, _place(ctx, "_full"))


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: Context | None = None,
    dtype: DType | None = None,
) -> NDArray:
    """``start``, ``start + step``, ... below ``stop``, each ``repeat`` times."""
    given = {"start": start, "stop": stop, "step": step, "repeat": repeat, "dtype": _dtype(dtype)}
    return invoke(lookup("_arange"), (), given, None, _place(ctx, "_arange"))


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    ctx: Context | None = None,
    dtype: DType | None = None,
) -> NDArray:
    """``num`` evenly spaced numbers from ``start`` to ``stop``."""
    given = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
    given["dtype"] = _dtype(dtype)  # type: ignore[assignment]
    return invoke(lookup("_linspace"), (), given, None, _place(ctx, "_linspace"))


def eye(
    N: int,
    M: int = 0,
    k: int = 0,
    ctx: Context | None = None,
    dtype: DType | None = None,
    **kwargs: object,
) -> NDArray:
    """Ones on the ``k``-th diagonal of ``N`` rows and ``M`` columns (0: as many)."""
    given = {"N": N, "M": M, "k": k, "dtype": _dtype(dtype)}
    return invoke(lookup("_eye"), (), given, None, _place(ctx, "_eye"))


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True) -> NDArray:
    """An NDArray on ``ndarray``'s own memory, which is read-only for NumPy from then on.

    Without ``zero_copy``, or when the memory is another's and read-only, or not native already, a
    copy. Raises ValueError when memory that is not C-contiguous is to be shared.
    """
    dtype = dtype_of(ndarray.dtype)
    if zero_copy and not ndarray.flags.c_contiguous:
        raise ValueError("Only c-contiguous arrays are supported for zero-copy")
    is_ours = ndarray.flags.writeable or ndarray.flags.owndata
    if not zero_copy or not is_ours or ndarray.dtype != dtype:
        return NDArray(converted(ndarray, dtype))
    ndarray.flags.writeable = True  # where it has been shared before it is read-only
    shared = ndarray.view()
    ndarray.flags.writeable = False
    return NDArray(shared)


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """The arrays joined along ``axis``; a lone one is itself if ``always_copy`` is False."""
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return invoke(lookup("Concat"), arrays, {"dim": axis, "num_args": len(arrays)})


def moveaxis(tensor: NDArray, source: Sizes, destination: Sizes) -> NDArray:
    """The array with these axes moved to new places, as a copy.

    Raises ValueError for axes that are out of range, repeated, or not as many as places.
    """
    moved, places = (
        _axes(source, tensor.ndim, "source"),
        _axes(destination, tensor.ndim, "destination"),
    )
    if len(moved) != len(places):
        raise ValueError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    axes = [axis for axis in range(tensor.ndim) if axis not in moved]
    for place, axis in sorted(zip(places, moved)):
        axes.insert(place, axis)
    return invoke(lookup("transpose"), (tensor,), {"axes": tuple(axes)})


def imdecode(
    str_img: bytes,
    clip_rect: Sequence[int] = (0, 0, 0, 0),
    out: NDArray | None = None,
    index: int = 0,
    channels: int = 3,
    mean: NDArray | None = None,
) -> NDArray:
    """The picture in encoded bytes: (channels, height, width), blue first, grey for 1 channel.

    ``clip_rect`` cuts out x0, y0, x1, y1; ``mean`` is subtracted. It is written to ``out``, of four
    axes to the image ``index``. Without ``mean`` and ``out`` the type is uint8. The newer function
    is ``mx.image.imdecode``. Raises MXNetError for what is no picture, or no part of it.
    """
    if channels not in (1, 3):
        raise MXNetError(f"imdecode: channels is 1 or 3, got {channels}")
    pixels = image_codecs.decoded(bytes(str_img), channels == 3)[:, :, ::-1]
    x0, y0, x1, y1 = clip_rect
    if any(clip_rect):
        if not (0 <= x0 < x1 <= pixels.shape[1] and 0 <= y0 < y1 <= pixels.shape[0]):
            sizes = f"{pixels.shape[1]} x {pixels.shape[0]}"
            raise MXNetError(f"imdecode: clip_rect {tuple(clip_rect)} of a picture of {sizes}")
        pixels = pixels[y0:y1, x0:x1]
    values = np.moveaxis(pixels, -1, 0)
    if mean is not None:
        values = values.astype(mean.dtype) - mean._data
    found = array(np.ascontiguousarray(values), dtype=values.dtype)
    if out is None:
        return found
    target = out if out.ndim == 3 else out[index]
    found.astype(target.dtype).copyto(target)
    return out


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Rows of 0 with a 1 at the index, written to ``out``."""
    given = {"depth": out.shape[1], "dtype": out._data.dtype}
    return invoke(lookup("one_hot"), (indices,), given, out)


def histogram(
    a: NDArray, bins: NDArray | int = 10, range: tuple[float, float] | None = None
) -> list[NDArray]:
    """Counts per bin and the bins' edges. ``bins`` is their number, or an NDArray of edges."""
    if isinstance(bins, NDArray):
        return invoke(lookup("_histogram"), (a, bins), {})
    ends = (float(a._data.min()), float(a._data.max())) if range is None else range
    return invoke(lookup("_histogram"), (a,), {"bin_cnt": bins, "range": ends})


def waitall() -> None:
    """Nothing to wait for: every call has finished when it returns."""


def _sizes(shape: Sizes) -> tuple[int, ...]:
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    sizes: tuple[int, ...] = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)  # type: ignore[assignment]
    require_dims(len(sizes))
    return sizes


def _is_sparse(source: object) -> bool:
    """Whether this is a sparse array, ours or SciPy's."""
    if isinstance(source, NDArray):
        return source.stype != "default"
    return type(source).__module__.startswith("scipy.sparse")


def _axes(given: Sizes, ndim: int, name: str) -> list[int]:
    """Axes counted from the front. Raises ValueError for one out of range, or twice there."""
    if not np.isfinite(np.asarray(given, np.float64)).all():
        raise ValueError(f"{name} names axes {given}, the array has {ndim}")
    axes = [int(axis) for axis in np.atleast_1d(given)]
    if any(not -ndim <= axis < ndim for axis in axes):
        raise ValueError(f"{name} names axes {axes}, the array has {ndim}")
    axes = [axis % ndim for axis in axes]
    if len(set(axes)) != len(axes):
        raise ValueError(f"repeated axis in {name} {axes}")
    return axes


def _numbers(values: ArrayLike, wanted: np.dtype) -> np.ndarray:
    """An array of numbers; texts and other objects are read as the type that is ``wanted``."""
    try:
        found = np.asarray(values)
        if found.dtype.kind in "OSU":
            found = found.astype(wanted)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("source_array must be array like object") from None
    if found.dtype.kind not in "iufb":
        raise TypeError("source_array must be array like object")
    return found


def _dtype(dtype: DType | None) -> np.dtype:
    return FLOAT32 if dtype is None else dtype_of(dtype)


def _place(ctx: Context | str | None, what: str) -> Context:
    """The context to make an array on. Raises MXNetError for a GPU."""
    if ctx is None:
        return current_context()
    place = Context(ctx)
    place.require_host(what)
    return place
