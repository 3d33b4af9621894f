"""``ImageDetRecordIter``: batches of images with boxes from a record file.

Input: a ``.rec`` file of images whose labels have the width of a header, the width of an object,
the rest of the header, then the objects: a class, a box in fractions of the image's size, and
further values. Output: float32 batches (N, C, H, W) in RGB order, each pixel (x - mean) / std *
scale, and labels (N, 4 + L): channels, rows and columns of the image, length of the label, the
label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core.frames import public_methods
from .._core.image_codecs import decoded
from ..errors import MXNetError
from ..nd import array
from .batches import DataBatch, DataDesc
from .box_augment import CropRule, Kept, cropped, mirrored, padded, recoloured
from .picture_records import PictureRecords, resized

_HEADER = 4  # values before the label
_LISTS = {
    "crop_scales": (0.0, 1.0),
    "crop_aspect_ratios": (1.0, 1.0),
    "crop_overlaps": (0.0, 1.0),
    "crop_sample_coverages": (0.0, 1.0),
    "crop_object_coverages": (0.0, 1.0),
}
_COLOURS = ("hue", "illumination", "saturation")
_ARGUMENTS: dict[str, object] = {
    "resize": -1,
    "rand_crop_prob": 0.0,
    "num_crop_sampler": 1,
    "crop_emit_mode": "center",
    "emit_overlap_thresh": 0.3,
    "max_crop_trials": (25,),
    "rand_pad_prob": 0.0,
    "max_pad_scale": 1.0,
    "random_contrast_prob": 0.0,
    "max_random_contrast": 0.0,
    "rand_mirror_prob": 0.0,
    "fill_value": 127,
    "inter_method": 1,
    "resize_mode": "force",
    **{f"max_random_{kind}": 0 for kind in _COLOURS},
    **{f"random_{kind}_prob": 0.0 for kind in _COLOURS},
    **{f"min_{name}": (low,) for name, (low, _) in _LISTS.items()},
    **{f"max_{name}": (high,) for name, (_, high) in _LISTS.items()},
}
# MXNet's arguments of threads, messages and memory, and arguments with one supported value.
_IGNORED = frozenset(
    [
        *("preprocess_threads", "prefetch_buffer", "verbose", "ctx", "device_id"),
        *("shuffle_chunk_size", "shuffle_chunk_seed", "mean_a", "std_a"),
    ]
)
_UNCHANGED: dict[str, object] = {
    "aug_seq": "det_aug_default",
    "path_imglist": "",
    "mean_img": "",
    "dtype": "float32",
}
_RESIZING = ("force", "shrink", "fit")


@public_methods
class ImageDetRecordIter(PictureRecords):
    """Batches of the images of a record file, in file order or shuffled at every reset.

    label_pad_width, label_pad_value  length of labels, at least that of the longest one, and
        the value that pads shorter ones
    resize       size of the shorter side before anything else; -1 does not resize
    resize_mode  "force": to ``data_shape``; "shrink" and "fit": keep the ratio, pad with black;
        "shrink" does not enlarge
    rand_crop_prob, num_crop_sampler, min_crop_scales, ...  probability of a crop, and its rules:
        each list has one value, or one for each rule; rules are tried in random order
    crop_emit_mode  a crop keeps objects whose centre is inside ("center"), or of which more than
        emit_overlap_thresh is ("overlap")
    rand_pad_prob, max_pad_scale, fill_value  probability of padding to a larger image
    random_hue_prob, max_random_hue, ...  probability of colour changes, and their maximum
    round_batch  pad the last batch from the start of the epoch; otherwise with its last image.
        ``pad`` counts both

    Other names are those of ImageRecordIter. Raises MXNetError for an unknown argument, for a
    missing or damaged file or label, and without OpenCV and Pillow.
    """

    def __init__(
        self,
        path_imgrec: str,
        data_shape: tuple[int, int, int],
        batch_size: int,
        label_width: int = -1,
        label_pad_width: int = 0,
        label_pad_value: float = -1.0,
        shuffle: bool = False,
        seed: int = 0,
        round_batch: bool = True,
        mean_r: float = 0.0,
        mean_g: float = 0.0,
        mean_b: float = 0.0,
        std_r: float = 0.0,
        std_g: float = 0.0,
        std_b: float = 0.0,
        scale: float = 1.0,
        num_parts: int = 1,
        part_index: int = 0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: object,
    ) -> None:
        self._options = _options(kwargs)
        self._rules, self._kept = _crop_rules(self._options), _kept(self._options)
        super().__init__(path_imgrec, data_shape, batch_size, num_parts, part_index, shuffle, seed)
        std = std_r or 1.0, std_g or 1.0, std_b or 1.0
        self._normalize_by((mean_r, mean_g, mean_b), std, scale)
        self._round_batch = round_batch
        self._label_size = self._longest(label_width, label_pad_width)
        self._filling = label_pad_value
        shape = (batch_size, _HEADER + self._label_size)
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape))]
        self.provide_label = [DataDesc(label_name, shape)]
        self.reset()

    def _longest(self, wanted: int, padded_to: int) -> int:
        """Length of labels. Raises MXNetError if one is invalid, or longer than requested."""
        sizes = [self._record(number)[0].size for number in range(len(self._places))]
        if wanted > 0 and set(sizes) != {wanted}:
            raise MXNetError(
                f"label_width is {wanted}, but labels have {min(sizes)} to {max(sizes)} values"
            )
        if 0 < padded_to < max(sizes):
            raise MXNetError(f"label_pad_width is {padded_to}, but a label has {max(sizes)} values")
        return max(*sizes, padded_to)

    def iter_next(self) -> bool:
        self._at += self.batch_size
        return self._at < len(self._order)

    def next(self) -> DataBatch:
        """Next batch. Raises StopIteration at the end of the epoch."""
        if not self.iter_next():
            raise StopIteration
        chosen = np.arange(self._at, self._at + self.batch_size)
        pad = max(0, self._at + self.batch_size - len(self._order))
        chosen = (
            chosen % len(self._order)
            if self._round_batch
            else np.minimum(chosen, len(self._order) - 1)
        )
        samples = [self._sample(int(i)) for i in self._order[chosen]]
        data, label = (np.stack(parts) for parts in zip(*samples))
        return DataBatch([array(data)], [array(label)], pad, self._order[chosen])

    def _record(self, number: int) -> tuple[np.ndarray, bytes]:
        """Label and image file of a record. Raises MXNetError for an invalid label."""
        label, data = self._unpacked(number)
        if label.size < 2 or not (2 <= label[0] <= label.size and 5 <= label[1] < np.inf):
            raise MXNetError(
                f"{self._file.uri}: the label of record {number} starts with "
                f"{label[:2].tolist()}, not "
                "with the widths of its header (2 or more) and of an object (5 or more)"
            )
        if (label.size - int(label[0])) % int(label[1]):
            raise MXNetError(
                f"{self._file.uri}: the label of record {number} has {label.size} values, not a "
                f"header "
                f"of {int(label[0])} and a multiple of {int(label[1])} per object"
            )
        return label, data

    def _sample(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        label, data = self._record(number)
        head, width = label[: int(label[0])], int(label[1])
        objects = label[len(head) :].reshape(-1, width)
        pixels, objects = self._changed(decoded(data, self._channels == 3), objects)
        rows, columns = self._fitted_size(*pixels.shape[:2])
        pixels = resized(pixels, rows, columns, self._interpolation())
        found = np.zeros((self._channels, self._height, self._width), np.float32)
        found[:, :rows, :columns] = pixels.transpose(2, 0, 1)
        whole = np.concatenate([head, objects.ravel()])
        shape = [self._channels, rows, columns, whole.size]
        filled = np.full(_HEADER + self._label_size, self._filling, np.float32)
        filled[: _HEADER + whole.size] = np.concatenate([shape, whole])
        return (found - self._mean) * self._factor, filled

    # ---- augmentation
    # -----------------------------------------------------------------------------

    def _changed(self, pixels: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Resize, change colours, flip, pad and crop, in this order, each as configured."""
        options = self._options
        if options["resize"] > 0:
            height, width = pixels.shape[:2]
            short = options["resize"]
            size = (
                (short, short * width // height)
                if height < width
                else (short * height // width, short)
            )
            pixels = resized(pixels, *size, self._interpolation())
        pixels = self._coloured(pixels)
        if self._chance("rand_mirror_prob"):
            pixels, objects = pixels[:, ::-1], mirrored(objects)
        if self._chance("rand_pad_prob"):
            scale = self._random.uniform(1, max(options["max_pad_scale"], 1))
            pixels, objects = padded(pixels, objects, scale, options["fill_value"], self._random)
        if self._chance("rand_crop_prob"):
            pixels, objects = self._part(pixels, objects)
        return pixels, objects

    def _chance(self, name: str) -> bool:
        return bool(self._random.random() < self._options[name])

    def _coloured(self, pixels: np.ndarray) -> np.ndarray:
        steps = []
        for kind in _COLOURS:
            most = int(self._options[f"max_random_{kind}"])
            step = int(self._random.integers(-most, most, endpoint=True))
            steps.append(step if self._chance(f"random_{kind}_prob") else 0)
        if any(steps) and self._channels == 3:
            hue, lightness, saturation = steps
            pixels = recoloured(pixels, hue, lightness, saturation)
        most = self._options["max_random_contrast"]
        if self._chance("random_contrast_prob") and most:
            factor = 1 + self._random.uniform(-most, most)
            pixels = np.clip(np.rint(pixels * factor), 0, 255).astype(np.uint8)
        return pixels

    def _part(self, pixels: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Crop by the first rule that keeps an object; the whole image if there is none."""
        aspect = pixels.shape[1] / pixels.shape[0]
        for i in self._random.permutation(len(self._rules)):
            box = self._rules[i].drawn(objects, aspect, self._random)
            if box is not None and len(left := self._kept.of(objects, box)):
                return cropped(pixels, box), left
        return pixels, objects

    def _interpolation(self) -> int:
        """MXNet's code of an interpolation; 9 and 10 select among several."""
        method = int(self._options["inter_method"])
        if method == 10:
            return int(self._random.integers(0, 5))
        return 2 if method == 9 else method

    def _fitted_size(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of an image in the batch."""
        if self._options["resize_mode"] == "force":
            return self._height, self._width
        ratio = min(self._height / height, self._width / width)
        if self._options["resize_mode"] == "shrink":
            ratio = min(ratio, 1.0)
        rows, columns = int(height * ratio), int(width * ratio)
        return min(max(rows, 1), self._height), min(max(columns, 1), self._width)


def _options(given: Mapping[str, object]) -> dict[str, Any]:
    """All arguments. Raises MXNetError for an unknown argument or an unsupported value."""
    for name, value in given.items():
        if name in _ARGUMENTS or name in _IGNORED:
            continue
        if name not in _UNCHANGED:
            raise MXNetError(f"ImageDetRecordIter does not have the argument {name}")
        if value != _UNCHANGED[name]:
            raise MXNetError(
                f"ImageDetRecordIter: {name}={value} is not supported, only {_UNCHANGED[name]!r}"
            )
    found = {**_ARGUMENTS, **{name: given[name] for name in given if name in _ARGUMENTS}}
    for name, values in (
        ("resize_mode", _RESIZING),
        ("crop_emit_mode", ("center", "overlap")),
    ):
        if found[name] not in values:
            raise MXNetError(f"{name} must be one of {', '.join(values)}, got {found[name]!r}")
    return found


def _kept(options: Mapping[str, Any]) -> Kept:
    return Kept(options["crop_emit_mode"] == "center", float(options["emit_overlap_thresh"]))


def _crop_rules(options: Mapping[str, Any]) -> list[CropRule]:
    """One rule per sampler. Raises MXNetError for lists with neither one value nor one per
    sampler."""
    count = int(options["num_crop_sampler"])
    trials = _spread("max_crop_trials", options, count)
    ranges = [
        list(zip(_spread(f"min_{name}", options, count), _spread(f"max_{name}", options, count)))
        for name in _LISTS
    ]
    scales, ratios, overlaps, samples, objects = ranges
    return [
        CropRule(int(trials[i]), scales[i], ratios[i], overlaps[i], samples[i], objects[i])
        for i in range(count)
    ]


def _spread(name: str, options: Mapping[str, Any], count: int) -> list[float]:
    given = options[name]
    values = list(given) if isinstance(given, Sequence) else [given]
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise MXNetError(f"{name} has {len(values)} values for {count} samplers")
    return values
