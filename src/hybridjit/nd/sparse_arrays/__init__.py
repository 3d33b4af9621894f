"""Sparse arrays: ``CSRNDArray``, ``RowSparseNDArray``, and what operators do with them.

In: NumPy arrays of values and places. Out: NDArrays that give their dense values to whatever reads
those, so that each operator works on them; :mod:`.rules` knows which operators do better. Loaded
when a program first asks for a sparse array.
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
