"""Base of iterators over the images of a record file: selection, order, pixels.

Input: a ``.rec`` file and the normalization of pixels. Output: records by index, labels as vectors,
normalized pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import MXNetError
from ..nd import array
from ..nd import image as nd_image
from ..recordio import MXRecordIO, record_places, unpack
from .batches import MXDataIter


class PictureRecords(MXDataIter):
    """Records of a part of a file, in file order or shuffled at every reset.

    ``data_shape`` is (channels, rows, columns). Raises MXNetError for other channels than 1 and 3,
    an invalid or empty part, and a missing or damaged file.
    """

    def __init__(
        self,
        path: str,
        data_shape: tuple[int, int, int],
        batch_size: int,
        num_parts: int,
        part_index: int,
        shuffle: bool,
        seed: int,
    ) -> None:
        super().__init__(batch_size)
        if len(data_shape) != 3:
            raise MXNetError(f"data_shape is (channels, height, width), got {data_shape}")
        self._channels, self._height, self._width = data_shape
        if self._channels not in (1, 3) or batch_size < 1:
            raise MXNetError(
                f"channels must be 1 or 3, got {self._channels}; batch_size {batch_size}"
            )
        if not 0 <= part_index < num_parts:
            raise MXNetError(
                f"part_index must be 0 to num_parts - 1, got {part_index} of {num_parts}"
            )
        self._shuffle = shuffle
        self._random = np.random.default_rng(seed)
        self._file = MXRecordIO(path, "r")
        places = record_places(self._file)
        first, last = (len(places) * end // num_parts for end in (part_index, part_index + 1))
        self._places = places[first:last]
        if not self._places:
            raise MXNetError(f"{path}: this part of the file does not contain records")

    def _normalize_by(self, mean: Sequence[float], std: Sequence[float], scale: float) -> None:
        """Set the normalization of channels in RGB order."""
        used = slice(self._channels)
        self._mean = np.array(mean[used], np.float32)[:, None, None]
        self._factor = np.float32(scale) / np.array(std[used], np.float32)[:, None, None]

    def _normalized(self, pixels: np.ndarray) -> np.ndarray:
        """(C, H, W) in float32: (x - mean) / std * scale."""
        found: np.ndarray = (pixels.astype(np.float32) - self._mean) * self._factor
        return found

    def reset(self) -> None:
        self._order = np.arange(len(self._places))
        if self._shuffle:
            self._random.shuffle(self._order)
        self._at = -self.batch_size

    def _unpacked(self, number: int) -> tuple[np.ndarray, bytes]:
        """Label of a record as a float32 vector, and the bytes of the image file."""
        self._file._check_pid(allow_reset=True)
        self._file.handle.seek(self._places[number])
        record = self._file.read()
        assert record is not None
        header, data = unpack(record)
        return np.atleast_1d(np.asarray(header.label, np.float32)), data


def resized(pixels: np.ndarray, rows: int, columns: int, method: int = 1) -> np.ndarray:
    """Image (rows, columns, C) resized by MXNet's interpolation code."""
    if (rows, columns) == pixels.shape[:2]:
        return pixels
    source = array(np.ascontiguousarray(pixels), dtype="uint8")
    found: np.ndarray = nd_image.resize(source, size=(columns, rows), interp=method).asnumpy()
    return found
