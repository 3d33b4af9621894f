"""``ImageIter``: batches of augmented images from files or a record file.

Input: a record file, a ``.lst`` file or a list of labels and paths. Output: batches (N, C, H, W).
"""

from __future__ import annotations

import os
import random
from typing import Any, TypeAlias

import numpy as np

from .. import nd
from .._core.frames import public_methods
from .._core.safe_open import open_file
from ..errors import MXNetError
from ..formats.atomic import system_errors
from ..io import DataBatch, DataDesc, DataIter
from ..nd import NDArray
from ..recordio import MXIndexedRecordIO, MXRecordIO, record_places, unpack
from .augmenters import CreateAugmenter
from .decoding import imdecode
from .making import array

__all__ = ["ImageIter"]

Step: TypeAlias = Any  # an augmenter: called with an image, or with an image and its boxes
Listed: TypeAlias = Any  # labels as elements or one array, then the path of an image
Labels: TypeAlias = "float | np.ndarray"
Key: TypeAlias = Any  # of an image in its list or index: mostly an integer

_LISTED = 1 << 30  # limit in bytes of a list from a pipe


@public_methods
class ImageIter(DataIter):
    """Batches (N, channels, height, width) of augmented images, from records, a list or files.

    Parameters
    ----------
    batch_size : int
        Images of a batch.
    data_shape : tuple of int
        Channels (3), height and width after augmentation.
    label_width : int
        Number of labels of an image.
    path_imgrec : str, optional
        A ``.rec`` file.
    path_imglist : str, optional
        A ``.lst`` file: lines of an index, labels and a path, separated by tabs.
    path_root : str, optional
        Folder of the paths.
    path_imgidx : str, optional
        Index of the ``.rec`` file; by default that of the same name, if it exists.
    shuffle : bool
        Whether the order is drawn anew at each ``reset``.
    part_index, num_parts : int
        The part of the images that is read, and the number of parts.
    aug_list : list of Augmenter, optional
        Augmenters; by default those of ``CreateAugmenter(data_shape, **kwargs)``.
    imglist : list, optional
        Items of labels and a path, instead of a file.
    data_name, label_name : str
        Names of the arrays.
    dtype : str
        Element type of both: "float32", "float64", "int32" or "int64".
    last_batch_handle : str
        "pad" fills the last batch from the start of the epoch, "discard" drops it, "roll_over"
        begins the next epoch with its samples.
    **kwargs
        Arguments of :func:`CreateAugmenter`.

    Raises
    ------
    AssertionError
        Without a source of images, and for another ``dtype`` or ``last_batch_handle``.
    MXNetError
        For files that are missing or damaged.

    Examples
    --------
    >>> file = mx.recordio.MXIndexedRecordIO("few.idx", "few.rec", "w")
    >>> for i in range(3):
    ...     picture = np.full((6, 8, 3), i, np.uint8)
    ...     file.write_idx(i, mx.recordio.pack_img((0, i, i, 0), picture, 3, ".png"))
    >>> file.close()
    >>> batches = mx.image.ImageIter(2, (3, 4, 4), path_imgrec="few.rec", rand_mirror=True)
    >>> [(batch.data[0].shape, batch.pad) for batch in batches]
    [((2, 3, 4, 4), 0), ((2, 3, 4, 4), 1)]
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, int, int],
        label_width: int = 1,
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: list[Step] | None = None,
        imglist: list[Listed] | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        assert path_imgrec or path_imglist or isinstance(imglist, list), (
            "ImageIter needs path_imgrec, path_imglist or imglist"
        )
        assert dtype in ("int32", "float32", "int64", "float64"), f"{dtype} label not supported"
        assert last_batch_handle in ("pad", "discard", "roll_over"), (
            f"last_batch_handle must be pad, discard or roll_over, got {last_batch_handle}"
        )
        self.check_data_shape(data_shape)
        self.data_shape = tuple(data_shape)
        self.label_width = label_width
        self.dtype = dtype
        self.path_root = path_root
        self.seq: list[Key] = []
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.imgrec: MXIndexedRecordIO | MXRecordIO | None = None
        self.imglist: dict[Key, tuple[np.ndarray, str]] = {}
        self._open(path_imgrec, path_imgidx, path_imglist, imglist)
        count = len(self.seq)
        assert 0 <= part_index < num_parts, f"part_index {part_index} of {num_parts}"
        self.seq = self.seq[count * part_index // num_parts : count * (part_index + 1) // num_parts]
        given: list[Step] = CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.auglist = given
        shape = (batch_size,) if label_width == 1 else (batch_size, label_width)
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape), dtype)]
        self.provide_label = [DataDesc(label_name, shape, dtype)]
        self._left: list[Key] = []
        self.cur = 0
        self.reset()

    def _open(
        self,
        path_imgrec: str | None,
        path_imgidx: str | None,
        path_imglist: str | None,
        imglist: list[Listed] | None,
    ) -> None:
        if path_imglist:
            self._read_list(path_imglist)
        for number, item in enumerate(imglist or ()):
            labels = np.array(item[:-1] if len(item) > 2 else item[0], self.dtype)
            self.imglist[number] = labels.reshape(-1), item[-1]
        self.seq = list(self.imglist)
        if path_imgrec is None:
            return
        index = path_imgidx or os.path.splitext(path_imgrec)[0] + ".idx"
        if path_imgidx or os.path.exists(index):
            records = MXIndexedRecordIO(index, path_imgrec, "r")
            self.imgrec, places = records, records.idx
        else:
            self.imgrec = MXRecordIO(path_imgrec, "r")
            places = dict(enumerate(record_places(self.imgrec)))
        self._places: dict[Key, int] = places
        self.seq = self.seq or list(places)

    def _read_list(self, path: str) -> None:
        with system_errors(path), open_file(path, _LISTED) as file:
            lines = file.read().decode("utf-8", "replace").splitlines()
        for number, line in enumerate(lines, 1):
            try:
                key, *labels, name = line.strip().split("\t")
                self.imglist[int(key)] = np.array(labels, self.dtype), name
            except (ValueError, OverflowError):
                raise MXNetError(
                    f"{path}: line {number} must be an index, labels and a path, got {line[:80]!r}"
                ) from None

    def reset(self) -> None:
        """Start the next epoch; shuffles if requested."""
        if self.shuffle:
            random.shuffle(self.seq)
        self._order = [*self._left, *self.seq]
        self._rolled = len(self._left)  # samples of the previous epoch in the next batch
        self._left, self.cur = [], 0

    def hard_reset(self) -> None:
        """Start the next epoch without samples carried over from the previous one."""
        self._left = []
        self.reset()

    def next_sample(self) -> tuple[Labels, bytes]:
        """Labels and encoded bytes of the next image. Raises StopIteration at the end."""
        if self.cur >= len(self._order):
            raise StopIteration
        self.cur += 1
        return self._sample(self._order[self.cur - 1])

    def _sample(self, key: Key) -> tuple[Labels, bytes]:
        if self.imgrec is None:
            labels, name = self.imglist[key]
            return labels, self.read_image(name)
        if key not in self._places:
            raise MXNetError(f"the index of {self.imgrec.uri} has no record {key}")
        self.imgrec.go_to(self._places[key])
        record = self.imgrec.read()
        if record is None:
            raise MXNetError(f"{self.imgrec.uri} ends before record {key}")
        header, data = unpack(record)
        return self.imglist[key][0] if key in self.imglist else header.label, data

    def read_image(self, fname: str) -> bytes:
        """Bytes of an image file below ``path_root``."""
        path = os.path.join(self.path_root or "", fname)
        with system_errors(path), open_file(path) as file:
            return file.read()

    def imdecode(self, s: bytes) -> NDArray:
        """Image decoded from bytes."""
        return imdecode(s, int(self.data_shape[0] == 3))

    def augmentation_transform(self, data: NDArray) -> NDArray:
        """Image after all augmenters."""
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """Image transposed to channels first."""
        return nd.transpose(datum, axes=(2, 0, 1))  # type: ignore[attr-defined]

    def check_data_shape(self, data_shape: tuple[int, ...]) -> None:
        """Raise ValueError unless the shape is that of an image."""
        if len(data_shape) != 3 or data_shape[0] not in (1, 3):
            raise ValueError(f"data_shape must be (3, height, width), got {data_shape}")

    def check_valid_image(self, data: list[NDArray]) -> None:
        """Raise RuntimeError for an image that could not be decoded."""
        if not data[0].shape:
            raise RuntimeError("Data shape is wrong")

    def next(self) -> DataBatch:
        """Next batch. Raises StopIteration at the end of the epoch."""
        pictures: list[np.ndarray] = []
        labels: list[np.ndarray] = []
        keys = self._taken()
        pad = self.batch_size - len(keys)
        for key in [*keys, *(self._order[i % len(self._order)] for i in range(pad))]:
            label, encoded = self._sample(key)
            picture = self.imdecode(encoded)
            self.check_valid_image([picture])
            changed = self.postprocess_data(self.augmentation_transform(picture)).asnumpy()
            if changed.shape != self.data_shape:
                raise MXNetError(
                    f"ImageIter: an image has shape {changed.shape} after augmentation, but "
                    f"data_shape is "
                    f"{self.data_shape}"
                )
            pictures.append(changed)
            labels.append(self._label(label, key))
        if self._rolled:
            pad, self._rolled = self.batch_size - self._rolled, 0
        label_array = np.stack(labels)
        if self.label_width == 1:
            label_array = label_array[:, 0]
        data = array(np.stack(pictures), dtype=self.dtype)
        return DataBatch([data], [array(label_array, dtype=self.dtype)], pad)

    def _taken(self) -> list[Key]:
        """Keys of the next batch. Raises StopIteration if there are none, or too few."""
        keys = self._order[self.cur : self.cur + self.batch_size]
        self.cur += len(keys)
        if not keys or (len(keys) < self.batch_size and self.last_batch_handle != "pad"):
            self._left = keys if self.last_batch_handle == "roll_over" else []
            raise StopIteration
        return keys

    def _label(self, given: object, key: object) -> np.ndarray:
        label = np.atleast_1d(np.asarray(given))
        if label.size < self.label_width:
            raise MXNetError(
                f"ImageIter: image {key} has {label.size} labels, but label_width is "
                f"{self.label_width}"
            )
        return label[: self.label_width]
