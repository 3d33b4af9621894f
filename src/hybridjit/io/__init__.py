"""``mx.io``: data batches and iterators; submodules for checkpoints."""

from .._core.lazy import arrived as _arrived
from .batches import DataBatch, DataDesc, DataIter, MXDataIter, PrefetchingIter, ResizeIter
from .file_iters import CSVIter, LibSVMIter, MNISTIter
from .image_det_record_iter import ImageDetRecordIter
from .image_record_iter import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter
from .ndarray_iter import NDArrayIter

ImageRecordIter_v1 = ImageRecordIter
ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageDetRecordIter",
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordIter_v1",
    "ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1",
    "LibSVMIter",
    "MNISTIter",
    "MXDataIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]

_arrived(__name__)
