"""MNIST for programs that ask ``test_utils`` for it: from files that are there.

In: the four files of the original in ``data`` or in ``$MXNET_HOME/datasets/mnist``, packed or not.
Out: arrays or iterators. Nothing is downloaded.
"""

from __future__ import annotations

import os

import numpy as np

from ..base import data_dir
from ..errors import MXNetError
from ..io import MNISTIter
from ..io.file_iters import read_idx

__all__ = ["get_mnist", "get_mnist_iterator", "get_mnist_ubyte"]

_NAMES = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)


def get_mnist() -> dict[str, np.ndarray]:
    """Pictures (count, 1, 28, 28) from 0 to 1 in float32, and labels as int8, by name.

    The names are train_data, train_label, test_data and test_label. Raises MXNetError for a file
    that is not there.
    """
    found = {}
    for part, (images, labels) in (("train", _NAMES[:2]), ("test", _NAMES[2:])):
        pictures = read_idx(_path(images), 3)[:, None]
        found[f"{part}_data"] = pictures.astype(np.float32) / 255
        found[f"{part}_label"] = read_idx(_path(labels), 1).astype(np.int8)
    return found


def get_mnist_ubyte() -> None:
    """Raises MXNetError, saying what to put where, unless all four files are there."""
    for name in _NAMES:
        _path(name)


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[MNISTIter, MNISTIter]:
    """Iterators over both parts; flat pictures unless ``input_shape`` has three axes."""
    paths = [_path(name) for name in _NAMES]
    flat = len(input_shape) != 3
    train, test = (
        MNISTIter(
            images, labels, batch_size, True, flat, num_parts=num_parts, part_index=part_index
        )
        for images, labels in (paths[:2], paths[2:])
    )
    return train, test


def _path(name: str) -> str:
    """Where a file is."""
    folders = ("data", os.path.join(data_dir(), "datasets", "mnist"))
    for folder in folders:
        for file in (name, f"{name}.gz"):
            if os.path.isfile(os.path.join(folder, file)):
                return os.path.join(folder, file)
    raise MXNetError(
        f"there is no {name} (or .gz) in {' or '.join(folders)}, and hybridjit downloads nothing: "
        "put MNIST's four files there"
    )
