"""Values of MXNet's private names that programs import: codes of its file formats.

``elsewhere.py`` lists their modules.
"""

from __future__ import annotations

from .._core.types import DTYPE_CODES

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
