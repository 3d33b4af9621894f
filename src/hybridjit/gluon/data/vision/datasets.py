"""Datasets of images on this machine; nothing is downloaded.

Input: a folder, by default in ``$MXNET_HOME/datasets`` or ``~/.mxnet/datasets``. Output:
``(image, label)`` pairs, images as (height, width, channels) in uint8.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator

import numpy as np

from .... import image, nd
from ...._core.frames import public, warn
from ...._core.safe_open import open_file
from ....base import data_dir
from ....errors import ModelFormatError, MXNetError
from ....formats.atomic import system_errors
from ....io.file_iters import read_idx
from ....nd import NDArray
from ....recordio import unpack
from ..dataset import Dataset, RecordFileDataset
from ..sampler import Sample

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageListDataset",
    "ImageRecordDataset",
    "MNIST",
]

_EXTENSIONS = (".jpg", ".jpeg", ".png")

Transform = Callable[[NDArray, Sample], Sample]  # of an image and its label


class _Pictures(Dataset):
    """All images of ``root`` in one array, ``(count, height, width, channels)``."""

    source = ""  # origin of the files
    folder = ""  # default folder in ``$MXNET_HOME/datasets``

    @public
    def __init__(
        self,
        root: str | None = None,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        default = os.path.join(data_dir(), "datasets", self.folder)
        self._root = os.path.expanduser(default if root is None else root)
        self._train = train
        self._transform = transform
        pictures, labels = self._read()
        self._data = nd.array(pictures, dtype="uint8")
        self._label = labels.astype("int32")

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError(f"{type(self).__name__} does not define _read")

    def _file(self, *names: str) -> str:
        """The first existing file. Raises MXNetError with the origin of the file if there is
        none."""
        for name in names:
            path = os.path.join(self._root, name)
            if os.path.exists(path):
                return path
        raise MXNetError(
            f"{type(self).__name__}: {names[0]} is missing in {self._root}, and hybridjit does not "
            f"download files: get it from {self.source} and save it there"
        )

    def __getitem__(self, idx: int) -> Sample:
        picture, label = self._data[idx], self._label[idx]
        return (picture, label) if self._transform is None else self._transform(picture, label)

    def __len__(self) -> int:
        return len(self._label)


class MNIST(_Pictures):
    """Handwritten digits, 28 x 28 x 1 of uint8, from the four original files, compressed or not.

    Nothing is downloaded.

    Parameters
    ----------
    root : str, optional
        Folder of the files; by default ``datasets/mnist`` in the folder of MXNet's data.
    train : bool
        Whether the files of training are read; otherwise those of the test.
    transform : callable, optional
        Called with image and label.

    Raises
    ------
    MXNetError
        For files that are missing, with their origin, and for files of another format.

    Examples
    --------
    >>> gluon.data.vision.MNIST(root="none")
    Traceback (most recent call last):
    hybridjit.errors.MXNetError: ...
    """

    source = "https://yann.lecun.com/exdb/mnist or a mirror"
    folder = "mnist"

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        part = "train" if self._train else "t10k"
        pictures = self._numbers(f"{part}-images-idx3-ubyte", 3)
        labels = self._numbers(f"{part}-labels-idx1-ubyte", 1)
        if len(pictures) != len(labels):
            raise ModelFormatError(
                f"{self._root}: {len(pictures)} images, but {len(labels)} labels"
            )
        return pictures[..., None], labels

    def _numbers(self, name: str, ndim: int) -> np.ndarray:
        """The bytes of an IDX file of the folder."""
        return read_idx(self._file(f"{name}.gz", name), ndim)


class FashionMNIST(MNIST):
    """Images of clothing, 28 x 28 x 1 of uint8, in files of MNIST's format.

    Parameters
    ----------
    root : str, optional
        Folder of the files; by default ``datasets/fashion-mnist`` in the folder of MXNet's data.
    train : bool
        Whether the files of training are read; otherwise those of the test.
    transform : callable, optional
        Called with image and label.

    Raises
    ------
    MXNetError
        As :class:`MNIST`.

    Examples
    --------
    >>> issubclass(gluon.data.vision.FashionMNIST, gluon.data.vision.MNIST)
    True
    """

    source = "https://github.com/zalandoresearch/fashion-mnist"
    folder = "fashion-mnist"


class CIFAR10(_Pictures):
    """Images of ten classes, 32 x 32 x 3 of uint8, from the files of the binary version.

    Parameters
    ----------
    root : str, optional
        Folder of the files; by default ``datasets/cifar10`` in the folder of MXNet's data.
    train : bool
        Whether the five files of training are read; otherwise that of the test.
    transform : callable, optional
        Called with image and label.

    Raises
    ------
    MXNetError
        As :class:`MNIST`.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("test_batch.bin").write_bytes(bytes(2 * 3073))
    >>> image, label = gluon.data.vision.CIFAR10(root=".", train=False)[1]
    >>> image.shape, int(label)
    ((32, 32, 3), 0)
    """

    source = "https://www.cs.toronto.edu/~kriz/cifar.html (binary version, unpacked)"
    folder = "cifar10"
    _label_bytes, _label_at = 1, 0

    def _names(self) -> list[str]:
        return [f"data_batch_{i}.bin" for i in range(1, 6)] if self._train else ["test_batch.bin"]

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        rows = np.concatenate([self._rows(self._file(name)) for name in self._names()])
        pictures = rows[:, self._label_bytes :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return pictures, rows[:, self._label_at]

    def _rows(self, path: str) -> np.ndarray:
        with system_errors(path), open_file(path) as file:
            data = np.fromfile(file, np.uint8)
        width = self._label_bytes + 3 * 32 * 32
        if data.size % width:
            raise ModelFormatError(f"{path} must have a multiple of {width} bytes, got {data.size}")
        return data.reshape(-1, width)


class CIFAR100(CIFAR10):
    """Images of a hundred classes, 32 x 32 x 3 of uint8, from the files of the binary version.

    Parameters
    ----------
    root : str, optional
        Folder of the files; by default ``datasets/cifar100`` in the folder of MXNet's data.
    fine_label : bool
        Whether labels are the hundred classes; otherwise their twenty superclasses.
    train : bool
        Whether the file of training is read; otherwise that of the test.
    transform : callable, optional
        Called with image and label.

    Raises
    ------
    MXNetError
        As :class:`MNIST`.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("test.bin").write_bytes(bytes(2 * 3074))
    >>> len(gluon.data.vision.CIFAR100(root=".", train=False))
    2
    """

    folder = "cifar100"
    _label_bytes = 2

    @public
    def __init__(
        self,
        root: str | None = None,
        fine_label: bool = False,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._label_at = int(fine_label)
        super().__init__(root, train, transform)

    def _names(self) -> list[str]:
        return ["train.bin"] if self._train else ["test.bin"]


class ImageFolderDataset(Dataset):
    """``(image, label)`` for every image in the folders of ``root``; a folder is a class.

    ``synsets`` are the folders' names in order; the label is the index of the folder's name.

    Parameters
    ----------
    root : str
        The folder of folders.
    flag : int
        1 for colours, 0 for grey.
    transform : callable, optional
        Called with image and label.

    Raises
    ------
    FileNotFoundError
        For a folder that is missing; OSError for one that cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> record = mx.recordio.pack_img((0, 0, 0, 0), np.zeros((4, 6, 3), np.uint8), 3, ".png")
    >>> Path("pets/cat").mkdir(parents=True)
    >>> _ = Path("pets/cat/1.png").write_bytes(mx.recordio.unpack(record)[1])
    >>> data = gluon.data.vision.ImageFolderDataset("pets")
    >>> data.synsets, data[0][0].shape, data[0][1]
    (['cat'], (4, 6, 3), 0)
    """

    @public
    def __init__(self, root: str, flag: int = 1, transform: Transform | None = None) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        self._list_images()

    def _list_images(self) -> None:
        for folder in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, folder)
            if not os.path.isdir(path):
                warn(f"Ignoring {path}, which is not a directory.")
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            self.items.extend((picture, label) for picture in _pictures(path))

    @public
    def __getitem__(self, idx: int) -> Sample:
        filename, label = self.items[idx]
        picture = image.imread(filename, self._flag)
        return (picture, label) if self._transform is None else self._transform(picture, label)

    def __len__(self) -> int:
        return len(self.items)


def _pictures(folder: str) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.lower().endswith(_EXTENSIONS):
            yield path
        else:
            warn(
                f"Ignoring {path} of type {os.path.splitext(name)[1]}. Only support "
                f"{', '.join(_EXTENSIONS)}"
            )


class ImageRecordDataset(RecordFileDataset):
    """``(image, label)`` for every record of a ``.rec`` file, which needs its ``.idx`` file.

    A label is a number, or a float32 array of several.

    Parameters
    ----------
    filename : str
        Path of the ``.rec`` file.
    flag : int
        1 for colours, 0 for grey.
    transform : callable, optional
        Called with image and label.

    Raises
    ------
    MXNetError
        For files that are missing or damaged, and records without an image.

    Examples
    --------
    >>> file = mx.recordio.MXIndexedRecordIO("few.idx", "few.rec", "w")
    >>> picture = np.zeros((6, 8, 3), np.uint8)
    >>> file.write_idx(0, mx.recordio.pack_img((0, 5.0, 0, 0), picture, 3, ".png"))
    >>> file.close()
    >>> image, label = gluon.data.vision.ImageRecordDataset("few.rec")[0]
    >>> image.shape, label
    ((6, 8, 3), 5.0)
    """

    @public
    def __init__(self, filename: str, flag: int = 1, transform: Transform | None = None) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx: int) -> Sample:
        header, data = unpack(super().__getitem__(idx))
        picture, label = image.imdecode(data, self._flag), header.label
        return (picture, label) if self._transform is None else self._transform(picture, label)


class ImageListDataset(Dataset):
    """``(image, label)`` for the images in a list.

    Parameters
    ----------
    root : str
        Folder of the images, and of the list.
    imglist : str or list
        A ``.lst`` file, whose lines are an index, labels and a path separated by tabs, or a list
        whose items are labels and a path.
    flag : int
        1 for colours, 0 for grey.

    Raises
    ------
    MXNetError
        For a malformed line.

    Examples
    --------
    >>> from pathlib import Path
    >>> record = mx.recordio.pack_img((0, 0, 0, 0), np.zeros((4, 6, 3), np.uint8), 3, ".png")
    >>> _ = Path("black.png").write_bytes(mx.recordio.unpack(record)[1])
    >>> data = gluon.data.vision.ImageListDataset(".", [[3, "black.png"]])
    >>> len(data), data[0][0].shape
    (1, (4, 6, 3))
    """

    @public
    def __init__(self, root: str = ".", imglist: object = None, flag: int = 1) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._imglist: dict[int, tuple[np.ndarray, str]] = {}
        if isinstance(imglist, str):
            self._read_list(os.path.join(self._root, imglist))
        elif isinstance(imglist, list):
            for i, (*labels, path) in enumerate(imglist):
                self._imglist[i] = np.array(labels, np.float32).reshape(-1), path
        else:
            raise ValueError(f"imglist must be a file name or a list, got {type(imglist)}")

    def _read_list(self, path: str) -> None:
        with system_errors(path), open_file(path) as file:
            for number, line in enumerate(io.TextIOWrapper(file, "utf-8", "replace"), 1):
                try:
                    _, *labels, name = line.strip().split("\t")
                    values = np.array([float(label) for label in labels], np.float32)
                except ValueError:
                    raise MXNetError(
                        f"{path}: line {number} must be an index, labels and a path, got "
                        f"{line[:80]!r}"
                    ) from None
                self._imglist[len(self._imglist)] = values, name

    def __getitem__(self, idx: int) -> Sample:
        labels, name = self._imglist[idx]
        return image.imread(os.path.join(self._root, name), self._flag), labels

    def __len__(self) -> int:
        return len(self._imglist)
