"""``ImageRecordIter``: batches of images from a record file, decoded, cropped and normalized.

Input: a ``.rec`` file of images with labels. Output: batches (N, C, H, W) in RGB order, each pixel
(x - mean) / std * scale in float32, x in uint8, or x - mean in int8. OpenCV or Pillow decodes
images.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from .._core.frames import public_methods
from .._core.image_codecs import decoded
from ..errors import MXNetError
from ..nd import array
from .augmenting import Augmentation, cut
from .batches import DataBatch, DataDesc
from .picture_records import PictureRecords, resized

_AUGMENTATIONS = frozenset(field.name for field in fields(Augmentation))
# Arguments of which only this value, without effect, is supported.
_UNCHANGED: dict[str, object] = {
    "max_rotate_angle": 0,
    "max_shear_ratio": 0.0,
    "rotate": -1,
    "mean_img": "",
    "inter_method": 1,
    "path_imglist": "",
}
# MXNet's arguments of threads, messages and memory, which have no effect.
_IGNORED = frozenset(
    [
        *("preprocess_threads", "prefetch_buffer", "verbose", "path_imgidx", "seed_aug", "ctx"),
        *("shuffle_chunk_size", "shuffle_chunk_seed", "device_id"),
    ]
)


@public_methods
class ImageRecordIter(PictureRecords):
    """Batches (N, channels, height, width) of the images of a record file.

    A pixel is (x - mean) / std * scale. Random values depend on ``seed``; they are not MXNet's.

    Parameters
    ----------
    path_imgrec : str
        The ``.rec`` file.
    data_shape : tuple of int
        Channels (1 or 3), height and width of an image.
    batch_size : int
        Images of a batch.
    label_width : int
        Number of labels of an image.
    shuffle : bool
        Whether the order is drawn anew at each ``reset``.
    seed : int
        Of all random values.
    round_batch : bool
        Whether the last batch is padded from the start, which ``pad`` counts; otherwise it is
        dropped.
    resize : int
        Length of the shorter side before the crop; -1: unchanged.
    rand_crop : bool
        Whether the crop has a random position; otherwise the centre. Smaller images are enlarged
        first.
    mirror, rand_mirror : bool
        Whether all images are mirrored, or half of them at random.
    mean_r, mean_g, mean_b, std_r, std_g, std_b : float
        Mean and deviation of each colour.
    scale : float
        Factor at the end.
    num_parts, part_index : int
        Number of parts of the file, and the part that is read.
    data_name, label_name : str
        Names of the arrays.
    dtype : str
        Type of the pixels: "float32"; "uint8", unchanged; or "int8", the nearest x - mean, with the
        mean rounded.
    **kwargs
        Augmentations: ``random_resized_crop`` with ``min_random_area``, ``max_random_area``,
        ``min_aspect_ratio`` and ``max_aspect_ratio``; ``min_random_scale``, ``max_random_scale``;
        ``min_img_size``, ``max_img_size``; ``min_crop_size``, ``max_crop_size``; ``pad`` and
        ``fill_value``; ``brightness``, ``contrast``, ``saturation``; ``random_h``, ``random_s``,
        ``random_l``; ``pca_noise``. MXNet's arguments of threads and memory have no effect.

    Raises
    ------
    MXNetError
        For an unknown or unsupported argument, for a file that is missing or damaged, and without
        OpenCV and Pillow.

    Examples
    --------
    >>> file = mx.recordio.MXRecordIO("few.rec", "w")
    >>> for i in range(3):
    ...     picture = np.full((6, 8, 3), i, np.uint8)
    ...     file.write(mx.recordio.pack_img((0, i, i, 0), picture, 3, ".png"))
    >>> file.close()
    >>> batches = mx.io.ImageRecordIter("few.rec", (3, 4, 4), batch_size=2, rand_crop=True)
    >>> [(batch.data[0].shape, batch.pad) for batch in batches]
    [((2, 3, 4, 4), 0), ((2, 3, 4, 4), 1)]
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
        dtype: str = "float32",
        **kwargs: object,
    ) -> None:
        _require_known(kwargs)
        self._dtype = np.dtype(_pixel_type(dtype))
        chosen: dict[str, Any] = {n: v for n, v in kwargs.items() if n in _AUGMENTATIONS}
        self._augmentation = Augmentation(**chosen)
        self._augmentation.require_possible()
        super().__init__(path_imgrec, data_shape, batch_size, num_parts, part_index, shuffle, seed)
        self._normalize_by((mean_r, mean_g, mean_b), (std_r, std_g, std_b), scale)
        self._label_width, self._round_batch = label_width, round_batch
        self._resize, self._rand_crop = resize, rand_crop
        self._mirror, self._rand_mirror = mirror, rand_mirror
        shape = (batch_size,) if label_width == 1 else (batch_size, label_width)
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape), self._dtype.type)]
        self.provide_label = [DataDesc(label_name, shape)]
        self.reset()

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
        return DataBatch([array(data, dtype=self._dtype)], [array(label)], pad, self._order[chosen])

    def _sample(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        label, data = self._unpacked(number)
        if label.size < self._label_width:
            raise MXNetError(
                f"{self._file.uri}: record {number} has {label.size} labels, "
                f"but label_width is {self._label_width}"
            )
        pixels = self._cut(decoded(data, self._channels == 3))
        pixels = self._augmentation.coloured(pixels, self._random).transpose(2, 0, 1)
        if self._mirror or (self._rand_mirror and self._random.random() < 0.5):
            pixels = pixels[:, :, ::-1]
        return self._typed(pixels), label[: self._label_width]

    def _typed(self, pixels: np.ndarray) -> np.ndarray:
        """Normalized pixels; integers are neither divided nor scaled."""
        if self._dtype.kind == "f":
            return self._normalized(pixels)
        if self._dtype.kind == "i":
            pixels = pixels - np.floor(self._mean + np.float32(0.5))
        limits = np.iinfo(self._dtype)
        found: np.ndarray = np.rint(pixels).clip(limits.min, limits.max).astype(self._dtype)
        return found

    def _cut(self, pixels: np.ndarray) -> np.ndarray:
        """Crop of ``data_shape``."""
        h, w = pixels.shape[:2]
        if self._resize > 0:
            short = self._resize
            h, w = (short * h // w, short) if h > w else (short, short * w // h)
        pixels = self._augmentation.enlarged(resized(pixels, h, w), self._random)
        part = self._augmentation.part(pixels, self._random, self._rand_crop)
        if part is not None:
            return resized(part, self._height, self._width)
        h, w = pixels.shape[:2]
        ratio = max(self._height / h, self._width / w, 1.0)
        h, w = max(self._height, round(h * ratio)), max(self._width, round(w * ratio))
        random = self._random if self._rand_crop else None
        return cut(resized(pixels, h, w), self._height, self._width, random)


class ImageRecordUInt8Iter(ImageRecordIter):
    """:class:`ImageRecordIter` with pixels of uint8, unchanged."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "dtype": "uint8"})


class ImageRecordInt8Iter(ImageRecordIter):
    """:class:`ImageRecordIter` with pixels of int8, the nearest x - mean."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "dtype": "int8"})


def _pixel_type(dtype: str) -> str:
    if dtype not in ("float32", "int8", "uint8"):
        raise MXNetError(f"ImageRecordIter: dtype is float32, int8 or uint8, got {dtype}")
    return dtype


def _require_known(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if name in _IGNORED or name in _AUGMENTATIONS:
            continue
        if name not in _UNCHANGED:
            raise MXNetError(f"ImageRecordIter does not have the argument {name}")
        if value != _UNCHANGED[name]:
            raise MXNetError(
                f"ImageRecordIter: {name}={value} is not supported, only {_UNCHANGED[name]!r}: "
                f"augment "
                "with gluon.data.vision.transforms"
            )
