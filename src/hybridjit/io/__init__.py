"""``mx.io``: batches and what they come from; and beside it the file formats of nets.

The formats are in modules of their own: ``params``, ``symbol_json``, ``checkpoint``.
"""

from .batches import DataBatch, DataDesc, DataIter, PrefetchingIter, ResizeIter
from .ndarray_iter import NDArrayIter

__all__ = [
    "DataBatch",
    "DataDesc",
    "DataIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]
