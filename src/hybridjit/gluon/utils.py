"""``gluon.utils``: split a batch over contexts, clip gradients, check downloaded files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import nd
from .._core.frames import public, warn
from .._core.lazy import Late
from .._core.safe_open import open_file
from .._core.shapes import is_np_array, is_np_shape, partial_shape
from .._core.types import is_known_shape
from ..context import Context
from ..errors import MXNetError
from ..formats.atomic import require_name
from ..nd import NDArray
from .hooks import HookHandle

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")  # imports OpenSSL: 2 ms

__all__ = [
    "HookHandle",
    "check_sha1",
    "clip_global_norm",
    "download",
    "replace_file",
    "shape_is_known",
    "split_and_load",
    "split_data",
]

_CHUNK = 1 << 20
_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"


@public
def split_data(
    data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Split ``data`` into ``num_slice`` parts along ``batch_axis``; the first ones may be larger.

    Raises ValueError if ``even_split`` and the number of samples is not a multiple of
    ``num_slice``. Without ``even_split`` the last parts may be empty.
    """
    if num_slice < 1:
        raise ValueError(f"num_slice must be at least 1, got {num_slice}")
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along "
            f"axis {batch_axis}. Use a batch size that's multiple of {num_slice} or set "
            "even_split=False to allow uneven partitioning of data."
        )
    step, larger = divmod(size, num_slice)
    ends = [step * i + min(i, larger) for i in range(num_slice + 1)]
    return [_slice(data, batch_axis, *pair) for pair in zip(ends, ends[1:])]


def _slice(data: NDArray, axis: int, begin: int, end: int) -> NDArray:
    if data.stype == "csr" and axis % data.ndim == 0:
        return data[begin:end]
    if begin < end:
        return nd.slice_axis(data, axis=axis, begin=begin, end=end)
    return data[(slice(None),) * (axis % data.ndim) + (slice(begin, end),)]


@public
def split_and_load(
    data: object, ctx_list: list[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Split ``data`` (NDArray or NumPy) into one part per context.

    Raises TypeError for a context outside of a list, ValueError if the parts are not equal and have
    to be.
    """
    if isinstance(ctx_list, Context):
        raise TypeError(f"ctx_list is a list of contexts, got {ctx_list}: write [{ctx_list!r}]")
    if not isinstance(data, NDArray):
        source = np.asarray(data)
        dtype = source.dtype if is_np_array() else None  # NumPy mode keeps the element type
        array = nd.array(source, ctx=ctx_list[0], dtype=dtype)
        data = array.as_np_ndarray() if is_np_array() else array
    assert isinstance(data, NDArray)
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    parts = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(parts, ctx_list)]


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Whether the file's SHA-1 is ``sha1_hash``, given as hexadecimal digits.

    Raises OSError if the file cannot be read, FileNotFoundError if it does not exist.
    """
    require_name(filename)
    digest = hashlib.sha1()
    with open_file(filename) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == sha1_hash


@public
def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """The path of the file for ``url``, if it exists already. Nothing is downloaded.

    ``path`` is a file or a folder. Raises MXNetError if the file does not exist, or has another
    SHA-1 than ``sha1_hash``.
    """
    name = url.split("/")[-1]
    where = name if path is None else os.path.expanduser(path)
    assert name or path, "Can't construct file-name from this URL. Please set the `path` option"
    if os.path.isdir(where):
        where = os.path.join(where, name)
    if not os.path.exists(where):
        raise MXNetError(f"hybridjit does not download files: save {url} as {where}")
    if sha1_hash and not check_sha1(where, sha1_hash):
        raise MXNetError(f"{where} does not have the SHA-1 {sha1_hash}: save {url} there again")
    return where


def _get_repo_url() -> str:
    """URL of MXNet's models and data sets, or ``MXNET_GLUON_REPO``."""
    found = os.environ.get("MXNET_GLUON_REPO", _REPOSITORY)
    return found if found.endswith("/") else found + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """URL of a published file, for messages of :func:`download`."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def replace_file(src: str, dst: str) -> None:
    """Replace a file by another one atomically. Raises OSError."""
    os.replace(src, dst)


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Whether a shape is completely known: it is not None, and has no 0 (-1 with ``np_shape``).

    Raises AssertionError for sizes below these.
    """
    if shape is None:
        return False
    least = -1 if is_np_shape() else 0
    assert all(s >= least for s in shape), f"a size cannot be less than {least}, got {tuple(shape)}"
    return is_known_shape(partial_shape(shape))


@public
def clip_global_norm(
    arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True
) -> float | NDArray:
    """Scale arrays in place so that their joint 2-norm is at most ``max_norm``.

    Returns the previous norm, as an array unless ``check_isfinite``, which warns of nan and inf.
    """
    assert arrays, "clip_global_norm needs at least one array"
    assert not isinstance(max_norm, str), f"max_norm is a number, got {max_norm!r}"
    total = np.sqrt(sum(np.square(a.asnumpy(), dtype=np.float64).sum() for a in arrays))
    if check_isfinite and not np.isfinite(total):
        warn("nan or inf is detected. Clipping results will be undefined.")
    scale = np.minimum(1.0, max_norm / (total + 1e-8))  # NaN stays NaN
    for array in arrays:
        array *= scale
    return np.float32(total) if check_isfinite else nd.array([total])
