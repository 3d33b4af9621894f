"""``ImageDetIter``: batches of images with labelled boxes, augmented together.

Input: that of ImageIter, where a label is ``[header width, row width, ..., rows]`` and a row is
``[class, xmin, ymin, xmax, ymax, ...]`` in fractions of the image's size. Output: batches (N, C, H,
W) with labels (N, objects, row width), padded with rows of -1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.frames import public_methods
from ..errors import MXNetError
from ..io import DataBatch, DataDesc
from ..nd import NDArray
from .augmenters import DEVIATION, MEAN
from .detection import CreateDetAugmenter, _is_box
from .iterator import ImageIter, Labels, Listed, Step
from .making import array

__all__ = ["ImageDetIter"]

_ROW = 5  # minimal row width: class and corners


class _Sample(NamedTuple):
    picture: np.ndarray
    label: np.ndarray


@public_methods
class ImageDetIter(ImageIter):
    """:class:`ImageIter` for images with boxes.

    aug_list     detection augmenters; default: ``CreateDetAugmenter(data_shape, **kwargs)``
    label_shape  maximal number of objects of an image, and the width of a row

    Images whose label is invalid after augmentation are skipped. Raises RuntimeError for an invalid
    label in the file, and the errors of ImageIter.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, int, int],
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
        label_name: str = "label",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        self._kept: list[_Sample] = []  # samples carried over to the next epoch
        super().__init__(
            batch_size,
            data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list,
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
        )
        self._take_label_shape(label_name, self._estimate_label_shape())

    def _take_label_shape(self, name: str, shape: tuple[int, int]) -> None:
        self.label_shape = shape
        self.provide_label = [DataDesc(name, (self.batch_size, *shape))]

    def hard_reset(self) -> None:
        self._kept = []
        super().hard_reset()

    # ---- labels -------------------------------------------------------------------------------

    def _estimate_label_shape(self) -> tuple[int, int]:
        """Maximal number of objects and row width; reads all labels."""
        self.reset()
        shapes = [self._parse_label(label).shape for label, _ in self._samples()]
        self.reset()
        widths = {width for _, width in shapes}
        if len(widths) != 1:
            raise MXNetError(
                f"ImageDetIter: rows of labels must have the same width, found {sorted(widths)}"
            )
        return max(count for count, _ in shapes), widths.pop()

    def _samples(self) -> Iterator[tuple[Labels, bytes]]:
        """Remaining samples of the epoch."""
        while True:
            try:
                sample = self.next_sample()
            except StopIteration:
                return
            yield sample

    def _parse_label(self, label: object) -> np.ndarray:
        """Rows that are boxes. Raises MXNetError, a RuntimeError, if there are none."""
        raw = np.asarray(label.asnumpy() if isinstance(label, NDArray) else label).ravel()
        if raw.size < 2 + _ROW or not np.isfinite(raw[:2]).all():
            raise MXNetError(f"Label shape is invalid: {raw.shape}")
        header, width = int(raw[0]), int(raw[1])
        if header < 2 or width < _ROW or (raw.size - header) % width:
            raise MXNetError(
                f"Label shape {raw.shape} inconsistent with a header of {header} numbers (at least "
                f"2) and annotation width {width} (at least {_ROW})."
            )
        rows = raw[header:].reshape(-1, width)
        rows = rows[_is_box(rows)]
        if not rows.size:
            raise MXNetError("Encounter sample with no valid label.")
        return rows

    def _check_valid_label(self, label: np.ndarray) -> None:
        """Raise MXNetError for a label without a box of a class."""
        if label.ndim != 2 or label.shape[1] < _ROW:
            raise MXNetError(f"Label with shape (1+, 5+) required, {label.shape} received.")
        if not ((label[:, 0] >= 0) & _is_box(label)).any():
            raise MXNetError("Invalid label occurs.")

    def check_label_shape(self, label_shape: tuple[int, int]) -> None:
        """Raise ValueError if the shape has too few objects or another row width."""
        if len(label_shape) != 2:
            raise ValueError("label_shape should have length 2")
        count, width = self.label_shape
        if label_shape[0] < count:
            raise ValueError(
                f"Attempts to reduce label count from {count} to {label_shape[0]}, not allowed."
            )
        if label_shape[1] != width:
            raise ValueError(f"label_shape object width inconsistent: {width} vs {label_shape[1]}.")

    def reshape(
        self,
        data_shape: tuple[int, int, int] | None = None,
        label_shape: tuple[int, int] | None = None,
    ) -> None:
        """Set the shapes of images or labels; augmenters do not change.

        Raises ValueError as :meth:`check_label_shape`, and for an invalid image shape.
        """
        if data_shape is not None:
            self.check_data_shape(data_shape)
            old = self.provide_data[0]
            self.data_shape = tuple(data_shape)
            self.provide_data = [DataDesc(old.name, (self.batch_size, *data_shape), old.dtype)]
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self._take_label_shape(self.provide_label[0].name, (label_shape[0], label_shape[1]))

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Set both label shapes to the larger number of objects; returns ``it``.

        Raises AssertionError for another kind of iterator or another row width.
        """
        assert isinstance(it, ImageDetIter), "Synchronize with invalid iterator."
        assert self.label_shape[1] == it.label_shape[1], "object width mismatch."
        counts = self.label_shape[0], it.label_shape[0]
        shape = (max(counts), self.label_shape[1])
        for each in (self, it):
            if each.label_shape != shape:
                each.reshape(None, shape)
        if verbose and counts[0] != counts[1]:
            logging.info("Resized label_shape to (%d, %d).", *shape)
        return it

    # ---- batches ------------------------------------------------------------------------------

    def augmentation_transform(  # type: ignore[override]
        self, data: NDArray, label: np.ndarray
    ) -> tuple[NDArray, np.ndarray]:
        """Image and label after all augmenters."""
        for augmenter in self.auglist:
            data, label = augmenter(data, label)
        return data, label

    def next(self) -> DataBatch:
        """Next batch. Raises StopIteration at the end of the epoch."""
        samples, self._kept = self._kept, []
        rolled = len(samples)
        self._fill(samples)
        pad = self.batch_size - len(samples)
        if pad == self.batch_size or (pad and self.last_batch_handle == "discard"):
            raise StopIteration
        if pad and self.last_batch_handle == "roll_over":
            self._kept = samples
            raise StopIteration
        while len(samples) < self.batch_size:
            self._fill_from_the_start(samples)
        data = array(np.stack([sample.picture for sample in samples]), dtype=self.dtype)
        label = array(np.stack([sample.label for sample in samples]))
        return DataBatch([data], [label], self.batch_size - rolled if rolled else pad)

    def _fill(self, samples: list[_Sample]) -> None:
        """Read samples until the batch is full or the epoch ends."""
        while len(samples) < self.batch_size:
            try:
                label, encoded = self.next_sample()
            except StopIteration:
                return
            made = self._made(label, self.imdecode(encoded))
            if made is not None:
                samples.append(made)

    def _fill_from_the_start(self, samples: list[_Sample]) -> None:
        """Fill the batch from the start of the epoch. Raises MXNetError if no sample is valid."""
        before = len(samples)
        self.cur = 0
        self._fill(samples)
        self.cur = len(self._order)
        if len(samples) == before:
            raise MXNetError("ImageDetIter: no label is valid after augmentation")

    def _made(self, label: object, picture: NDArray) -> _Sample | None:
        """Sample for a batch; None, with a message in the log, if the label is invalid."""
        try:
            self.check_valid_image([picture])
            rows = self._parse_label(label)
            picture, rows = self.augmentation_transform(picture, rows)
            self._check_valid_label(rows)
        except RuntimeError as error:
            logging.debug("Invalid image, skipping:  %s", error)
            return None
        changed = self.postprocess_data(picture).asnumpy()
        if changed.shape != self.data_shape:
            raise MXNetError(
                f"ImageDetIter: an image has shape {changed.shape} after augmentation, but "
                f"data_shape is "
                f"{self.data_shape}"
            )
        return _Sample(changed, self._filled(rows))

    def _filled(self, rows: np.ndarray) -> np.ndarray:
        filled = np.full(self.label_shape, -1, np.float32)
        if rows.shape[0] > filled.shape[0]:
            raise MXNetError(
                f"ImageDetIter: an image has {rows.shape[0]} objects, but label_shape allows "
                f"{filled.shape[0]}"
            )
        filled[: rows.shape[0]] = rows
        return filled

    # ---- display
    # ----------------------------------------------------------------------------------

    def draw_next(
        self,
        color: tuple[float, float, float] | None = None,
        thickness: int = 2,
        mean: object = None,
        std: object = None,
        clip: bool = True,
        waitKey: int | None = None,
        window_name: str = "draw_next",
        id2labels: Mapping[int, str] | None = None,
    ) -> Iterator[np.ndarray]:
        """Remaining images with their boxes drawn: (H, W, 3), uint8, in OpenCV's order BGR.

        ``mean`` and ``std`` undo a normalization; True selects ImageNet's values. ``color`` is
        (red, green, blue), by default random for each box. Raises MXNetError for ``waitKey`` and
        ``id2labels``: hybridjit shows no windows and draws no text.
        """
        if waitKey is not None or id2labels is not None:
            raise MXNetError(
                "draw_next: hybridjit does not show windows (waitKey) or draw text (id2labels):"
                " display the arrays that it yields"
            )
        return self._drawn(color, thickness, mean, std, clip)

    def _drawn(
        self, color: object, thickness: int, mean: object, std: object, clip: bool
    ) -> Iterator[np.ndarray]:
        for label, encoded in self._samples():
            picture = self.imdecode(encoded)
            try:
                self.check_valid_image([picture])
                rows = self._parse_label(label)
            except RuntimeError as error:
                logging.debug("Invalid image, skipping:  %s", error)
                continue
            picture, rows = self.augmentation_transform(picture, rows)
            image = _undone(picture.asnumpy(), mean, std)[:, :, ::-1]
            image = (np.clip(image, 0, 255) if clip else image).astype(np.uint8)
            for row in rows:
                _draw_box(image, row, color, thickness)
            yield image


def _undone(image: np.ndarray, mean: object, std: object) -> np.ndarray:
    """``image * std + mean``; None omits a step. Raises AssertionError for other types."""
    scale, start = DEVIATION if std is True else std, MEAN if mean is True else mean
    for name, given in (("std", std), ("mean", mean)):
        is_array = isinstance(given, np.ndarray) and given.shape[0] in (1, 3)
        assert given is None or given is True or is_array, (
            f"{name} must be True or an array of 1 or 3 elements"
        )
    image = image if scale is None else image * np.asarray(scale)
    return image if start is None else image + np.asarray(start)


def _draw_box(image: np.ndarray, row: np.ndarray, color: object, thickness: int) -> None:
    """Draw the edges of a box, ``thickness`` pixels wide."""
    height, width = image.shape[:2]
    if int(row[1] * width) < 0:
        return
    drawn = np.random.rand(3) * 255 if color is None else np.asarray(color)[::-1]  # noqa: NPY002
    before = thickness // 2
    x1, y1, x2, y2 = (
        max(0, int(part * size) - before)
        for part, size in zip(row[1:5], (width, height, width, height))
    )
    for y in (y1, y2):
        image[y : y + thickness, x1 : x2 + thickness] = drawn
    for x in (x1, x2):
        image[y1 : y2 + thickness, x : x + thickness] = drawn
