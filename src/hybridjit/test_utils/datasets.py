"""Data sets of ``test_utils``, from local files.

Input: MNIST's four files in ``data`` or in ``$MXNET_HOME/datasets/mnist``, compressed or not;
archives and their contents in the program's folders. Output: arrays, iterators, unpacked files.
Nothing is downloaded.
"""

from __future__ import annotations

import bz2
import os
import shutil
import zipfile
from collections.abc import Mapping

import numpy as np

from ..base import data_dir
from ..errors import ModelFormatError, MXNetError
from ..formats.atomic import system_errors
from ..gluon import utils
from ..io import MNISTIter
from ..io.file_iters import read_idx

__all__ = [
    "download",
    "download_model",
    "get_bz2_data",
    "get_cifar10",
    "get_mnist",
    "get_mnist_iterator",
    "get_mnist_pkl",
    "get_mnist_ubyte",
    "get_zip_data",
]

_CIFAR = "http://data.mxnet.io/mxnet/data/cifar10.zip"
_MNIST_PICKLE = "http://deeplearning.net/data/mnist/mnist.pkl.gz"

# Names of models with their location on MXNet's server: folder, and name without suffix
_FOLDERS = {
    "imagenet1k-inception-bn": ("imagenet/inception-bn/Inception-BN", 126),
    **{
        f"imagenet1k-resnet-{n}": (f"imagenet/resnet/{n}-layers/resnet-{n}", 0)
        for n in (18, 34, 50, 101, 152)
    },
    **{
        f"imagenet1k-resnext-{n}": (f"imagenet/resnext/{n}-layers/resnext-{n}", 0)
        for n in (50, 101)
    },
    "imagenet1k-resnext-101-64x4d": ("imagenet/resnext/101-layers/resnext-101-64x4d", 0),
    "imagenet11k-resnet-152": ("imagenet-11k/resnet-152/resnet-152", 0),
    **{
        f"imagenet11k-place365ch-resnet-{n}": (f"imagenet-11k-place365-ch/resnet-{n}", 0)
        for n in (50, 152)
    },
}
_MODELS = {
    name: {
        "symbol": f"http://data.mxnet.io/models/{path}-symbol.json",
        "params": f"http://data.mxnet.io/models/{path}-{epoch:04d}.params",
    }
    for name, (path, epoch) in _FOLDERS.items()
}

_NAMES = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)


def download(
    url: str,
    fname: str | None = None,
    dirname: str | None = None,
    overwrite: bool = False,
    retries: int = 5,
) -> str:
    """The path for ``url``: ``fname`` in ``dirname``, if the file exists.

    Raises MXNetError with URL and path if it does not exist: nothing is downloaded.
    """
    return utils.download(url, os.path.join(dirname or "", fname or url.split("/")[-1]))


def get_mnist() -> dict[str, np.ndarray]:
    """Images (count, 1, 28, 28) from 0 to 1 in float32, and labels as int8, by name.

    The names are train_data, train_label, test_data and test_label. Raises MXNetError for a
    missing file.
    """
    found = {}
    for part, (images, labels) in (("train", _NAMES[:2]), ("test", _NAMES[2:])):
        pictures = read_idx(_path(images), 3)[:, None]
        found[f"{part}_data"] = pictures.astype(np.float32) / 255
        found[f"{part}_label"] = read_idx(_path(labels), 1).astype(np.int8)
    return found


def get_mnist_ubyte() -> None:
    """Raise MXNetError with instructions unless all four files exist."""
    for name in _NAMES:
        _path(name)


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[MNISTIter, MNISTIter]:
    """Iterators over both parts; images are flattened unless ``input_shape`` has three axes."""
    paths = [_path(name) for name in _NAMES]
    flat = len(input_shape) != 3
    train, test = (
        MNISTIter(
            images, labels, batch_size, True, flat, num_parts=num_parts, part_index=part_index
        )
        for images, labels in (paths[:2], paths[2:])
    )
    return train, test


def get_mnist_pkl() -> None:
    """Raise MXNetError with instructions unless data/mnist.pkl.gz exists."""
    download(_MNIST_PICKLE, "data/mnist.pkl.gz")


def get_cifar10() -> None:
    """Unpack data/cifar10.zip unless data/cifar/train.rec, test.rec and their lists exist.

    Raises MXNetError if neither exists.
    """
    wanted = [f"data/cifar/{part}.{kind}" for part in ("train", "test") for kind in ("rec", "lst")]
    if not all(os.path.exists(path) for path in wanted):
        _unzip(download(_CIFAR, "data/cifar10.zip"), "data")


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Unpack the archive ``data_origin_name`` in ``data_dir``.

    Raises MXNetError with ``url`` as the origin if it does not exist.
    """
    _unzip(download(url, os.path.join(data_dir, data_origin_name)), data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Unpack the file ``data_origin_name`` of ``data_dir`` to ``data_name``, and remove it.

    No effect if ``data_name`` exists. Raises MXNetError with ``url`` as the origin if neither
    exists.
    """
    target = os.path.join(data_dir, data_name)
    if os.path.exists(target):
        return
    packed = download(url, os.path.join(data_dir, data_origin_name))
    with system_errors(target), bz2.open(packed) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    os.remove(packed)


def _unzip(archive: str, folder: str) -> None:
    try:
        with system_errors(archive), zipfile.ZipFile(archive) as file:
            file.extractall(folder)
    except zipfile.BadZipFile as error:
        raise ModelFormatError(f"{archive}: {error}") from error


def _path(name: str) -> str:
    """The path of a file."""
    folders = ("data", os.path.join(data_dir(), "datasets", "mnist"))
    for folder in folders:
        for file in (name, f"{name}.gz"):
            if os.path.isfile(os.path.join(folder, file)):
                return os.path.join(folder, file)
    raise MXNetError(
        f"{name} (or .gz) is missing in {' or '.join(folders)}, and hybridjit does not download "
        "files: save MNIST's four files there"
    )


def download_model(
    model_name: str,
    dst_dir: str = "./",
    meta_info: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[str | None, int]:
    """The prefix and epoch of a model's files in ``dst_dir``; (None, 0) for an unknown name.

    ``meta_info`` maps names of other models to the URLs of their files, "symbol" and "params".
    Raises MXNetError with URL and path for a missing file.
    """
    known = _MODELS if meta_info is None else meta_info
    if model_name not in known:
        return None, 0
    prefix = os.path.join(dst_dir, model_name)
    for kind, ending in (("symbol", "-symbol.json"), ("params", "-0000.params")):
        assert kind in known[model_name], f"missing {kind} url"
        download(known[model_name][kind], prefix + ending)
    return prefix, 0
