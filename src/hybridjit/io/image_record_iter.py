"""``ImageRecordIter``: batches of pictures from a record file, decoded, cut and normalized.

In: a ``.rec`` file of pictures with labels. Out: float32 batches (N, C, H, W), red first, each
pixel (x - mean) / std * scale. Pictures are decoded by OpenCV or Pillow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import MXNetError
from ..nd import array
from ..nd import image as nd_image
from ..picture import decoded
from ..recordio import MXRecordIO, record_places, unpack
from .batches import DataBatch, DataDesc, DataIter

# Of MXNet's augmentations, those that are left at what changes nothing.
_UNCHANGED: dict[str, Any] = {
    "random_resized_crop": False,
    "max_rotate_angle": 0,
    "max_aspect_ratio": 0.0,
    "max_shear_ratio": 0.0,
    "max_crop_size": -1,
    "min_crop_size": -1,
    "max_random_scale": 1.0,
    "min_random_scale": 1.0,
    "max_random_area": 1.0,
    "min_random_area": 1.0,
    "brightness": 0.0,
    "contrast": 0.0,
    "saturation": 0.0,
    "pca_noise": 0.0,
    "random_h": 0,
    "random_s": 0,
    "random_l": 0,
    "rotate": -1,
    "pad": 0,
    "mean_img": "",
    "dtype": "float32",
    "inter_method": 1,
    "max_img_size": 1e10,
    "min_aspect_ratio": None,
    "min_img_size": 0.0,
    "path_imglist": "",
}
# What concerns threads, messages and memory of MXNet's, and a border that is not there.
_IGNORED = frozenset(
    [
        *("preprocess_threads", "prefetch_buffer", "verbose", "path_imgidx", "seed_aug", "ctx"),
        *("shuffle_chunk_size", "shuffle_chunk_seed", "device_id", "fill_value"),
    ]
)


class ImageRecordIter(DataIter):
    """Batches of the pictures of a record file, in its order or shuffled at every reset.

    resize     the shorter side before cutting; -1 leaves the picture as it is
    rand_crop  cut ``data_shape`` at a random place instead of the middle; smaller pictures are
               enlarged first
    mirror, rand_mirror  mirror all pictures, or as many as not
    round_batch  fill the last batch up from the beginning, and count that by ``pad``; else it is
                 left out

    Raises MXNetError for an augmentation that is not there, for a file that is missing or damaged,
    and without OpenCV and Pillow.
    """

    def __init__(
        self,
        path_imgrec: str,
        data_shape: tuple[int, int, int],
        batch_size: int,
        label_width: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        round_batch: bool = True,
        resize: int = -1,
        rand_crop: bool = False,
        mirror: bool = False,
        rand_mirror: bool = False,
        mean_r: float = 0.0,
        mean_g: float = 0.0,
        mean_b: float = 0.0,
        std_r: float = 1.0,
        std_g: float = 1.0,
        std_b: float = 1.0,
        scale: float = 1.0,
        num_parts: int = 1,
        part_index: int = 0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: object,
    ) -> None:
        super().__init__(batch_size)
        _require_known(kwargs)
        channels, self._height, self._width = data_shape
        if channels not in (1, 3) or batch_size < 1:
            raise MXNetError(f"channels are 1 or 3, got {channels}; batch_size {batch_size}")
        if not 0 <= part_index < num_parts:
            raise MXNetError(f"part_index is 0 to num_parts - 1, got {part_index} of {num_parts}")
        self._colour = channels == 3
        self._label_width = label_width
        self._shuffle, self._round_batch = shuffle, round_batch
        self._resize, self._rand_crop = resize, rand_crop
        self._mirror, self._rand_mirror = mirror, rand_mirror
        self._mean = np.array([mean_r, mean_g, mean_b][:channels], np.float32)[:, None, None]
        std = np.array([std_r, std_g, std_b][:channels], np.float32)[:, None, None]
        self._factor = np.float32(scale) / std
        self._random = np.random.default_rng(seed)
        self._file = MXRecordIO(path_imgrec, "r")
        places = record_places(self._file)
        count = len(places)
        self._places = places[
            count * part_index // num_parts : count * (part_index + 1) // num_parts
        ]
        if not self._places:
            raise MXNetError(f"{path_imgrec}: this part of the file has no record")
        shape = (batch_size,) if label_width == 1 else (batch_size, label_width)
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape))]
        self.provide_label = [DataDesc(label_name, shape)]
        self.reset()

    def reset(self) -> None:
        self._order = np.arange(len(self._places))
        if self._shuffle:
            self._random.shuffle(self._order)
        self._at = -self.batch_size

    def iter_next(self) -> bool:
        self._at += self.batch_size
        left = len(self._order) - self._at
        return left > 0 if self._round_batch else left >= self.batch_size

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        chosen = np.arange(self._at, self._at + self.batch_size) % len(self._order)
        samples = [self._sample(int(i)) for i in self._order[chosen]]
        data = np.stack([pixels for pixels, _ in samples])
        label = np.stack([label for _, label in samples])
        if self._label_width == 1:
            label = label[:, 0]
        pad = max(0, self._at + self.batch_size - len(self._order))
        return DataBatch([array(data)], [array(label)], pad, self._order[chosen])

    def _sample(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        self._file._check_pid(allow_reset=True)
        self._file.handle.seek(self._places[number])
        record = self._file.read()
        assert record is not None
        header, data = unpack(record)
        label = np.atleast_1d(np.asarray(header.label, np.float32))
        if label.size < self._label_width:
            raise MXNetError(
                f"{self._file.uri}: record {number} has {label.size} labels, "
                f"label_width is {self._label_width}"
            )
        pixels = self._cut(decoded(data, self._colour)).transpose(2, 0, 1)
        if self._mirror or (self._rand_mirror and self._random.random() < 0.5):
            pixels = pixels[:, :, ::-1]
        return (pixels.astype(np.float32) - self._mean) * self._factor, label[: self._label_width]

    def _cut(self, pixels: np.ndarray) -> np.ndarray:
        """The part of ``data_shape``."""
        h, w = pixels.shape[:2]
        if self._resize > 0:
            short = self._resize
            h, w = (short * h // w, short) if h > w else (short, short * w // h)
        ratio = max(self._height / h, self._width / w, 1.0)
        h, w = max(self._height, round(h * ratio)), max(self._width, round(w * ratio))
        if (h, w) != pixels.shape[:2]:
            pixels = _resized(pixels, h, w)
        y, x = h - self._height, w - self._width
        y, x = (
            (self._random.integers((y, x), endpoint=True)) if self._rand_crop else (y // 2, x // 2)
        )
        return pixels[y : y + self._height, x : x + self._width]


def _resized(pixels: np.ndarray, h: int, w: int) -> np.ndarray:
    source = array(np.ascontiguousarray(pixels), dtype="uint8")
    found: np.ndarray = nd_image.resize(source, size=(w, h), interp=1).asnumpy()
    return found


def _require_known(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if name in _IGNORED:
            continue
        if name not in _UNCHANGED:
            raise MXNetError(f"ImageRecordIter has no argument {name}")
        if value != _UNCHANGED[name]:
            raise MXNetError(
                f"ImageRecordIter: {name}={value} is not there, only {_UNCHANGED[name]!r}: augment "
                "with gluon.data.vision.transforms"
            )
