"""Array creation: ``nd.array``, ``nd.zeros`` and related functions.

Input: Python or NumPy values and a context. Output: NDArrays. The dtype is float32 unless given, or
unless the source is an NDArray.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._core.errstate import quiet
from .._core.frames import public
from .._core.lazy import Late
from .._core.recording import is_recording
from .._core.shapes import partial_shape
from .._core.timeline import PLACE, TIMELINE
from .._core.types import FLOAT32, DType, Sizes, require_dims
from ..context import Context, current_context
from ..errors import AttributeValueError, MXNetError
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

# Largest numbers of the narrowest types, float16 and int8.
_LARGEST = 65504.0
_LARGEST_INTEGER = 127


@public
def array(
    source_array: ArrayLike, ctx: Context | None = None, dtype: DType | None = None
) -> NDArray:
    """Copy of ``source_array``: anything that NumPy converts to numbers, strings included.

    Parameters
    ----------
    source_array : array_like
        Numbers, also nested lists. The copy of a sparse array or of a SciPy csr matrix is sparse.
    ctx : Context, optional
        Context of the copy; by default the current one.
    dtype : str or dtype, optional
        Element type; by default that of an NDArray, else float32.

    Raises
    ------
    TypeError
        For data that are not numeric.

    Examples
    --------
    >>> nd.array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if _is_sparse(source_array):
        return sparse_arrays().array(source_array, ctx, dtype)
    default = source_array._data.dtype if isinstance(source_array, NDArray) else FLOAT32
    wanted = default if dtype is None else dtype_of(dtype)
    place = _place(ctx, "array")
    if not isinstance(source_array, NDArray):
        return NDArray(converted(_numbers(source_array, wanted), wanted), place)
    if is_recording():
        return source_array.astype(wanted).as_in_context(place)
    return NDArray(converted(source_array._data, wanted), place)


@public
def empty(
    shape: Sizes, ctx: Context | None = None, dtype: DType | None = None, stype: str | None = None
) -> NDArray:
    """Array of unspecified contents (zeros, so that runs are repeatable).

    Parameters
    ----------
    shape : int or tuple of int
        Sizes of the axes; 0 and the shape () are valid regardless of ``np_shape``.
    ctx : Context, optional
        Context; by default the current one.
    dtype : str or dtype, optional
        Element type, float32 by default.
    stype : str, optional
        Storage type: "default", "row_sparse" or "csr".

    Raises
    ------
    OverflowError
        For a negative size.

    Examples
    --------
    >>> nd.empty((2, 3)).shape
    (2, 3)
    """
    if not is_dense(stype):
        return sparse_arrays().empty(stype, shape, ctx, dtype)
    sizes = _sizes(shape)
    if any(size < 0 for size in sizes):
        raise OverflowError(f"a shape cannot have negative sizes, got {sizes}")
    return filled(sizes, 0, ctx, dtype)


@public
def zeros(
    shape: Sizes,
    ctx: Context | None = None,
    dtype: DType | None = None,
    stype: str | None = None,
    out: NDArray | None = None,
    **kwargs: object,
) -> NDArray:
    """Array of zeros.

    Parameters
    ----------
    shape : int or tuple of int
        Sizes of the axes.
    ctx : Context, optional
        Context; by default the current one.
    dtype : str or dtype, optional
        Element type, float32 by default.
    stype : str, optional
        Storage type: "default", "row_sparse" or "csr".
    out : NDArray, optional
        Array that receives the values.

    Raises
    ------
    ShapeError
        For 0 in the shape, or (), outside of ``np_shape``.

    Examples
    --------
    >>> nd.zeros((2, 3)).shape
    (2, 3)
    """
    if not is_dense(stype):
        return sparse_arrays().zeros(stype, shape, ctx, dtype)
    return _constant(shape, 0, ctx, dtype, out)


@public
def ones(
    shape: Sizes,
    ctx: Context | None = None,
    dtype: DType | None = None,
    out: NDArray | None = None,
    **kwargs: object,
) -> NDArray:
    """Array of ones.

    Parameters
    ----------
    shape : int or tuple of int
        Sizes of the axes.
    ctx : Context, optional
        Context; by default the current one.
    dtype : str or dtype, optional
        Element type, float32 by default.
    stype : str, optional
        Storage type: "default", "row_sparse" or "csr".
    out : NDArray, optional
        Array that receives the values.

    Raises
    ------
    ShapeError
        For 0 in the shape, or (), outside of ``np_shape``.

    Examples
    --------
    >>> nd.ones((2, 3)).shape
    (2, 3)
    """
    return _constant(shape, 1, ctx, dtype, out)


@public
def full(
    shape: Sizes,
    val: float,
    ctx: Context | None = None,
    dtype: DType | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Array filled with a value.

    Parameters
    ----------
    shape : int or tuple of int
        Sizes of the axes.
    val : float
        The value; integers take its low bits.
    ctx : Context, optional
        Context; by default the current one.
    dtype : str or dtype, optional
        Element type, float32 by default.
    out : NDArray, optional
        Array that receives the value.

    Raises
    ------
    ShapeError
        For the shape () outside of ``np_shape``.

    Examples
    --------
    >>> nd.full((2,), 7).asnumpy()
    array([7., 7.], dtype=float32)
    """
    if out is not None and not isinstance(out, NDArray):
        raise TypeError(f"out must be an NDArray, got {type(out).__name__}")
    if out is not None:
        out[:] = val
        return out
    sizes = _sizes(shape)
    if not sizes:
        require_sizes([partial_shape(sizes)])
    return filled(sizes, val, ctx, dtype)


def _constant(
    shape: Sizes, value: float, ctx: Context | None, dtype: DType | None, out: NDArray | None
) -> NDArray:
    if out is None:
        sizes = _sizes(shape)
        if any(not isinstance(size, (int, np.integer)) or size < -1 for size in sizes):
            raise AttributeValueError(f"a shape consists of integers of at least 0, got {shape!r}")
        require_sizes([partial_shape(sizes)])
    return full(shape, value, ctx, dtype, out)


def filled(
    sizes: tuple[int, ...],
    val: float,
    ctx: Context | None,
    dtype: DType | None,
    kind: type[NDArray] = NDArray,
) -> NDArray:
    """Array of this class and shape, which the caller checks, filled with ``val``."""
    if TIMELINE.eager and not PLACE.is_inside:
        name = {"0": "_zeros", "1": "_ones"}.get(str(val), "_full")
        return TIMELINE.operator(name, filled, sizes, val, ctx, dtype, kind)
    result = np.empty(sizes, _dtype(dtype))
    if type(val) in (float, int) and _is_held(val, result.dtype.kind):
        result.fill(val)
    else:
        _fill(result, val)
    return kind(result, _place(ctx, "_full"))


def _is_held(val: float, kind: str) -> bool:
    """Test whether all element types of a kind hold this number, rounded if they are floats."""
    if kind == "f":
        return -_LARGEST <= val <= _LARGEST
    return 0 <= val <= _LARGEST_INTEGER and val % 1 == 0


@quiet
def _fill(result: np.ndarray, val: float) -> None:
    """Write ``val`` to all elements; beyond the element type it becomes inf, or its low bits."""
    if result.dtype.kind in "iu" and isinstance(val, (int, float)):
        result[...] = convert(np.array(val, np.float64), result.dtype)
    else:
        result[...] = val


@public
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: Context | None = None,
    dtype: DType | None = None,
) -> NDArray:
    """``start``, ``start + step``, ... below ``stop``, each ``repeat`` times.

    Parameters
    ----------
    start : float
        First value; without ``stop`` the bound, and 0 is the first value.
    stop : float, optional
        Bound after the last value.
    step : float
        Distance of neighbours.
    repeat : int
        Number of times that each value occurs.
    infer_range : bool, optional
        Accepted; an array has a known length.
    ctx : Context, optional
        Context; by default the current one.
    dtype : str or dtype, optional
        Element type, float32 by default.

    Examples
    --------
    >>> nd.arange(1, 3, repeat=2).asnumpy()
    array([1., 1., 2., 2.], dtype=float32)
    """
    given = {"start": start, "stop": stop, "step": step, "repeat": repeat, "dtype": _dtype(dtype)}
    return invoke(lookup("_arange"), (), given, None, _place(ctx, "_arange"))


@public
def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    ctx: Context | None = None,
    dtype: DType | None = None,
) -> NDArray:
    """``num`` evenly spaced values from ``start`` to ``stop``.

    Parameters
    ----------
    start, stop : float
        First value and bound.
    num : int
        Number of values.
    endpoint : bool
        Whether ``stop`` is the last value.
    ctx : Context, optional
        Context; by default the current one.
    dtype : str or dtype, optional
        Element type, float32 by default.

    Examples
    --------
    >>> nd.linspace(0, 1, 3).asnumpy()
    array([0. , 0.5, 1. ], dtype=float32)
    """
    given = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
    given["dtype"] = _dtype(dtype)  # type: ignore[assignment]
    return invoke(lookup("_linspace"), (), given, None, _place(ctx, "_linspace"))


@public
def eye(
    N: int,
    M: int = 0,
    k: int = 0,
    ctx: Context | None = None,
    dtype: DType | None = None,
    **kwargs: object,
) -> NDArray:
    """Matrix of ``N`` rows and ``M`` columns with ones on a diagonal.

    Parameters
    ----------
    N : int
        Number of rows.
    M : int
        Number of columns; 0: ``N``.
    k : int
        Number of the diagonal; positive: above the main one.
    ctx : Context, optional
        Context; by default the current one.
    dtype : str or dtype, optional
        Element type, float32 by default.

    Examples
    --------
    >>> nd.eye(2).asnumpy()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    given = {"N": N, "M": M, "k": k, "dtype": _dtype(dtype)}
    return invoke(lookup("_eye"), (), given, None, _place(ctx, "_eye"))


@public
def from_numpy(ndarray: np.ndarray, zero_copy: bool = True) -> NDArray:
    """NDArray that shares the memory of ``ndarray``, which becomes read-only for NumPy.

    A copy if ``zero_copy`` is false, or if the array is read-only memory of another object or not
    in native byte order. Raises ValueError if memory to be shared is not C-contiguous.
    """
    dtype = dtype_of(ndarray.dtype)
    if zero_copy and not ndarray.flags.c_contiguous:
        raise ValueError("Only c-contiguous arrays are supported for zero-copy")
    is_ours = ndarray.flags.writeable or ndarray.flags.owndata
    if not zero_copy or not is_ours or ndarray.dtype != dtype:
        return NDArray(converted(ndarray, dtype))
    if not ndarray.flags.writeable:  # it was shared before
        ndarray.flags.writeable = True
    shared = ndarray.view()
    ndarray.flags.writeable = False
    return NDArray(shared)


@public
def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Arrays joined along an axis.

    Parameters
    ----------
    arrays : list of NDArray
        Arrays of one element type, with equal sizes along the other axes.
    axis : int
        Axis along which they follow each other.
    always_copy : bool
        False returns a single array itself.

    Raises
    ------
    MXNetError
        For sizes that differ.

    Examples
    --------
    >>> nd.concatenate([nd.ones((1, 2)), nd.zeros((2, 2))]).shape
    (3, 2)
    """
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return invoke(lookup("Concat"), arrays, {"dim": axis, "num_args": len(arrays)})


@public
def moveaxis(tensor: NDArray, source: Sizes, destination: Sizes) -> NDArray:
    """Copy of the array with axes moved from ``source`` to ``destination``.

    Raises ValueError for axes that are out of range or repeated, or different counts of axes.
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


@public
def imdecode(
    str_img: bytes,
    clip_rect: Sequence[int] = (0, 0, 0, 0),
    out: NDArray | None = None,
    index: int = 0,
    channels: int = 3,
    mean: NDArray | None = None,
) -> NDArray:
    """Image decoded from bytes: (channels, height, width), order BGR; grey for 1 channel.

    ``mx.image.imdecode`` is the newer function.

    Parameters
    ----------
    str_img : bytes
        Contents of an image file.
    clip_rect : tuple of int
        Rectangle that is kept, as x0, y0, x1, y1; zeros: the whole image.
    out : NDArray, optional
        Array that receives the image; one of four axes receives it as image ``index``.
    index : int
        Position in ``out``.
    channels : int
        3, or 1 for grey.
    mean : NDArray, optional
        Image that is subtracted. Without it and ``out`` the element type is uint8.

    Raises
    ------
    MXNetError
        If the bytes are not an image, or ``clip_rect`` is not inside of it.
    """
    if channels not in (1, 3):
        raise MXNetError(f"imdecode: channels must be 1 or 3, got {channels}")
    pixels = image_codecs.decoded(bytes(str_img), channels == 3)[:, :, ::-1]
    x0, y0, x1, y1 = clip_rect
    if any(clip_rect):
        if not (0 <= x0 < x1 <= pixels.shape[1] and 0 <= y0 < y1 <= pixels.shape[0]):
            sizes = f"{pixels.shape[1]} x {pixels.shape[0]}"
            raise MXNetError(
                f"imdecode: clip_rect {tuple(clip_rect)} is not inside the image of {sizes}"
            )
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
    """Write one-hot rows for the indices to ``out``.

    Parameters
    ----------
    indices : NDArray
        Positions of the ones, of shape (rows,).
    out : NDArray
        Array of shape (rows, classes) that receives them.

    Examples
    --------
    >>> nd.onehot_encode(nd.array([1, 0]), nd.zeros((2, 2))).asnumpy()
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    given = {"depth": out.shape[1], "dtype": out._data.dtype}
    return invoke(lookup("one_hot"), (indices,), given, out)


@public
def histogram(
    a: NDArray, bins: NDArray | int = 10, range: tuple[float, float] | None = None
) -> list[NDArray]:
    """Counts per bin and bin edges. ``bins`` is a count, or an NDArray of edges."""
    if isinstance(bins, NDArray):
        return invoke(lookup("_histogram"), (a, bins), {})
    ends = (float(a._data.min()), float(a._data.max())) if range is None else range
    return invoke(lookup("_histogram"), (a,), {"bin_cnt": bins, "range": ends})


def waitall() -> None:
    """Do nothing: every call has finished when it returns."""


def _sizes(shape: Sizes) -> tuple[int, ...]:
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    sizes: tuple[int, ...] = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)  # type: ignore[assignment]
    require_dims(len(sizes))
    return sizes


def _is_sparse(source: object) -> bool:
    """Test whether this is a sparse array of ours or of SciPy."""
    if isinstance(source, NDArray):
        return source.stype != "default"
    return type(source).__module__.startswith("scipy.sparse")


def _axes(given: Sizes, ndim: int, name: str) -> list[int]:
    """Axes as non-negative integers. Raises ValueError if out of range or repeated."""
    if not np.isfinite(np.asarray(given, np.float64)).all():
        raise ValueError(f"{name} has axes {given}, but the array has {ndim} axes")
    axes = [int(axis) for axis in np.atleast_1d(given)]
    if any(not -ndim <= axis < ndim for axis in axes):
        raise ValueError(f"{name} has axes {axes}, but the array has {ndim} axes")
    axes = [axis % ndim for axis in axes]
    if len(set(axes)) != len(axes):
        raise ValueError(f"repeated axis in {name} {axes}")
    return axes


def _numbers(values: ArrayLike, wanted: np.dtype) -> np.ndarray:
    """Numeric array; strings and other objects are converted to ``wanted``."""
    try:
        found = np.asarray(values)
        if found.dtype.kind in "OSU":
            found = found.astype(wanted)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"source_array must be array like object: {error}") from None
    if found.dtype.kind not in "iufb":
        raise TypeError(
            f"source_array must be array like object of real numbers, got {found.dtype}"
        )
    return found


def _dtype(dtype: DType | None) -> np.dtype:
    return FLOAT32 if dtype is None else dtype_of(dtype)


def _place(ctx: Context | str | None, what: str) -> Context:
    """Context of a new array. Raises MXNetError for a GPU."""
    if ctx is None:
        return current_context()
    place = ctx if type(ctx) is Context else Context(ctx)
    place.require_host(what)
    return place
