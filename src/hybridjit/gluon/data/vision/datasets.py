"""Datasets of pictures that lie on this machine; nothing is downloaded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .... import image
from ....io.atomic import system_errors
from ....nd import NDArray
from ..dataset import Dataset

_EXTENSIONS = (".jpg", ".jpeg", ".png")


class ImageFolderDataset(Dataset):
    """``(picture, label)`` of every picture in the folders of ``root``; a folder is a class.

    ``synsets`` are the folders' names in order, and the label is the folder's place among them.
    ``flag`` 1 reads in colour, 0 in grey; ``transform`` is called with picture and label.
    """

    def __init__(
        self, root: str, flag: int = 1, transform: Callable[[NDArray, int], Any] | None = None
    ) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        with system_errors(self._root):
            self._list_images()

    def _list_images(self) -> None:
        for folder in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=4)
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            self.items.extend((picture, label) for picture in _pictures(path))

    def __getitem__(self, idx: int) -> Any:
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
            warnings.warn(
                f"Ignoring {path} of type {os.path.splitext(name)[1]}. Only support "
                f"{', '.join(_EXTENSIONS)}",
                stacklevel=6,
            )
