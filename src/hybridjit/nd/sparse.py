"""``nd.sparse``: sparse arrays, and operators under MXNet's names in this module.

The operators are filled in from the registry; functions that create sparse arrays are imported on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sparse_dispatch import sparse_arrays as _sparse_arrays

if TYPE_CHECKING:
    from .sparse_arrays import BaseSparseNDArray as BaseSparseNDArray
    from .sparse_arrays import CSRNDArray as CSRNDArray
    from .sparse_arrays import RowSparseNDArray as RowSparseNDArray
    from .sparse_arrays import add as add
    from .sparse_arrays import array as array
    from .sparse_arrays import csr_matrix as csr_matrix
    from .sparse_arrays import divide as divide
    from .sparse_arrays import empty as empty
    from .sparse_arrays import multiply as multiply
    from .sparse_arrays import row_sparse_array as row_sparse_array
    from .sparse_arrays import subtract as subtract
    from .sparse_arrays import zeros as zeros

_LATE = frozenset(
    {
        *("BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "add", "array", "csr_matrix"),
        *("divide", "empty", "multiply", "row_sparse_array", "subtract", "zeros"),
    }
)


def __getattr__(name: str) -> object:
    if name in _LATE:
        return getattr(_sparse_arrays(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
