"""``mx.io``: data batches and iterators; submodules for checkpoints."""

from .._core.lazy import arrived as _arrived
from .batches import DataBatch, DataDesc, DataIter, PrefetchingIter, ResizeIter
from .file_iters import CSVIter, LibSVMIter, MNISTIter
from .image_det_record_iter import ImageDetRecordIter
from .image_record_iter import ImageRecordIter
from .ndarray_iter import NDArrayIter

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageDetRecordIter",
    "ImageRecordIter",
    "LibSVMIter",
    "MNISTIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]

_arrived(__name__)
