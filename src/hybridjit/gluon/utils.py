"""``gluon.utils``: spreading a batch over contexts, and checking files that were fetched."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from .. import nd
from ..context import Context
from ..io.atomic import system_errors
from ..nd import NDArray
from .hooks import HookHandle

__all__ = ["HookHandle", "check_sha1", "split_and_load", "split_data"]

_CHUNK = 1 << 20


def split_data(
    data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """``num_slice`` parts of ``data`` along ``batch_axis``; the first ones may be larger.

    Raises ValueError when there are fewer samples than parts, and when ``even_split`` is wanted
    but the number of samples is no multiple of the number of parts.
    """
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along "
            f"axis {batch_axis}. Use a batch size that's multiple of {num_slice} or set "
            "even_split=False to allow uneven partitioning of data."
        )
    if size < num_slice:
        raise ValueError(
            f"Too many slices for data with shape {data.shape}. Arguments are "
            f"num_slice={num_slice} and batch_axis={batch_axis}."
        )
    step, larger = divmod(size, num_slice)
    ends = [step * i + min(i, larger) for i in range(num_slice + 1)]
    return [
        nd.slice_axis(data, axis=batch_axis, begin=begin, end=end)
        for begin, end in zip(ends, ends[1:])
    ]


def split_and_load(
    data: Any, ctx_list: list[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """One part of ``data`` (NDArray or NumPy) on each context."""
    if not isinstance(data, NDArray):
        data = nd.array(np.asarray(data), ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    parts = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(parts, ctx_list)]


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """True when the file's SHA-1 is ``sha1_hash``, given as hexadecimal digits."""
    digest = hashlib.sha1()
    with system_errors(filename), open(filename, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == sha1_hash
