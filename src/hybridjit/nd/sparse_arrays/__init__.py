"""Sparse arrays: ``CSRNDArray``, ``RowSparseNDArray``, and operators on them.

Input: NumPy arrays of values and indices. Output: NDArrays that every operator accepts, because
reading their dense values constructs these; :mod:`.rules` has the operators that compute on the
stored values. Imported when a program first uses a sparse array.
"""

from ..sparse_dispatch import HOOK
from .array import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, wrapped
from .making import array, csr_matrix, empty, row_sparse_array, zeros
from .operators import add, divide, multiply, subtract
from .rules import run
from .storage_types import StorageTypes

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "StorageTypes",
    "add",
    "array",
    "csr_matrix",
    "divide",
    "empty",
    "multiply",
    "row_sparse_array",
    "subtract",
    "wrapped",
    "zeros",
]

HOOK.run = run
