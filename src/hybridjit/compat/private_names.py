"""MXNet's private names that programs import: codes of its file formats, and small functions.

``elsewhere.py`` lists their modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module

from .. import sym
from .._core.types import DTYPE_CODES
from ..util import is_np_array

py_slice = slice  # MXNet's modules shadow it by an operator

_STORAGE_TYPE_UNDEFINED = -1
_STORAGE_TYPE_DEFAULT = 0
_STORAGE_TYPE_ROW_SPARSE = 1
_STORAGE_TYPE_CSR = 2
_STORAGE_TYPE_ID_TO_STR = {
    _STORAGE_TYPE_UNDEFINED: "undefined",
    _STORAGE_TYPE_DEFAULT: "default",
    _STORAGE_TYPE_ROW_SPARSE: "row_sparse",
    _STORAGE_TYPE_CSR: "csr",
}
_STORAGE_TYPE_STR_TO_ID = {text: code for code, text in _STORAGE_TYPE_ID_TO_STR.items()}

_DTYPE_MX_TO_NP = {-1: None, **{code: dtype.type for code, dtype in DTYPE_CODES.items()}}
_DTYPE_NP_TO_MX = {dtype: code for code, dtype in _DTYPE_MX_TO_NP.items()}

_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}

_NDARRAY_UNSUPPORTED_INDEXING = -1
_NDARRAY_BASIC_INDEXING = 0
_NDARRAY_ADVANCED_INDEXING = 1
_NDARRAY_EMPTY_TUPLE_INDEXING = 2


def indented(text: str, spaces: int) -> str:
    """``text`` with all lines after the first indented."""
    return text.replace("\n", "\n" + " " * spaces)


def brief_list(items: Iterable[object], limit: int = 7) -> str:
    """The items in quotes; of more than ``limit``, the first and the last ones."""
    texts = [f"'{item}'" for item in items]
    if len(texts) > limit:
        texts = [*texts[: limit // 2], "...", *texts[-limit // 2 :]]
    return ", ".join(texts)


def weight_shapes(
    op_name: str, data_shape: tuple[int, ...], kwargs: Mapping[str, object]
) -> list[tuple[int, ...]]:
    """Shapes of the inputs of a layer's operator; unknown sizes of the data are 0."""
    data, functions = sym.var("data", shape=data_shape), sym
    if is_np_array():
        data, functions = data.as_np_ndarray(), import_module("..sym.npx", __package__)
    found: list[tuple[int, ...]]
    found, _, _ = getattr(functions, op_name)(data, **kwargs).infer_shape_partial()
    return found
