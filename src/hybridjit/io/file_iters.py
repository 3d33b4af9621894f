"""Iterators over files: tables of numbers, and MNIST's files.

Input: existing files. Output: batches of ``batch_size`` samples, in file order unless shuffled. The
constructor reads the file once.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._core.frames import public_methods
from .._core.safe_open import open_file
from .._core.types import DType, product
from ..errors import ModelFormatError, MXNetError
from ..formats.atomic import system_errors
from ..nd import NDArray, array, sparse, take
from .batches import DataBatch, DataDesc, MXDataIter

if TYPE_CHECKING:
    from ..nd.sparse import CSRNDArray

Table: TypeAlias = "np.ndarray | CSRNDArray"  # a row for each sample

_DEFLATED = 1032  # maximal bytes per compressed byte


@public_methods
class _Table(MXDataIter):
    """Batches of rows in memory. The last one is padded from the start, or dropped."""

    def __init__(
        self,
        data: Table,
        label: Table,
        batch_size: int,
        keeps_last: bool = True,
        names: tuple[str, str] = ("data", "softmax_label"),
    ) -> None:
        if batch_size < 1:
            raise MXNetError(f"batch_size must be a positive integer, got {batch_size}")
        super().__init__(batch_size)
        self._data, self._label = data, label
        self._keeps_last = keeps_last
        self._at = -batch_size
        self.provide_data = [
            DataDesc(names[0], (batch_size, *data.shape[1:]), np.dtype(data.dtype))
        ]
        self.provide_label = [
            DataDesc(names[1], (batch_size, *label.shape[1:]), np.dtype(label.dtype))
        ]

    def reset(self) -> None:
        self._at = -self.batch_size

    def iter_next(self) -> bool:
        self._at += self.batch_size
        left = len(self._data) - self._at
        return left > 0 if self._keeps_last else left >= self.batch_size

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return DataBatch([self.getdata()], [self.getlabel()], self.getpad(), self.getindex())

    def getdata(self) -> NDArray:  # type: ignore[override]
        """Array of the current batch, not in a list, as in MXNet's file iterators."""
        return self._rows(self._data)

    def getlabel(self) -> NDArray:  # type: ignore[override]
        """Labels of the current batch, not in a list."""
        return self._rows(self._label)

    def _rows(self, table: Table) -> NDArray:
        """Rows of this batch."""
        if isinstance(table, np.ndarray):
            return array(table[self.getindex()], dtype=table.dtype)
        return take(table, array(self.getindex(), dtype=np.int64))

    def getindex(self) -> np.ndarray:
        """Indices of the samples of this batch."""
        return np.arange(self._at, self._at + self.batch_size) % len(self._data)

    def getpad(self) -> int:
        """Number of samples that pad the batch."""
        return max(0, self._at + self.batch_size - len(self._data))


@public_methods
class CSVIter(_Table):
    """Batches of rows of comma-separated numbers.

    The last batch is padded from the start, and ``pad`` counts the padding.

    Parameters
    ----------
    data_csv : str
        File with a sample in each line.
    data_shape : int or tuple of int
        Shape of a sample: a line has as many numbers.
    label_csv : str
        File with the labels of a sample in each line; "NULL": the labels are zeros.
    label_shape : int or tuple of int
        Shape of the labels of a sample; those of shape (1,) have the shape (batch_size,).
    batch_size : int
        Samples of a batch.
    round_batch : bool
        No effect: the last batch is padded.
    dtype : str or dtype
        Element type of the data.
    data_name, label_name : str
        Names of the arrays.
    **kwargs
        MXNet's arguments of threads and memory, without effect.

    Raises
    ------
    MXNetError
        For a missing file, a line with another count of numbers, and files of unequal lengths.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("rows.csv").write_text("1,2,3\\n4,5,6\\n")
    >>> batch = next(mx.io.CSVIter(data_csv="rows.csv", data_shape=(3,), batch_size=2))
    >>> batch.data[0].asnumpy()
    array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    """

    def __init__(
        self,
        data_csv: str,
        data_shape: int | str | Sequence[int],
        label_csv: str = "NULL",
        label_shape: int | str | Sequence[int] = (1,),
        batch_size: int = 1,
        round_batch: bool = True,
        dtype: DType = "float32",
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: object,
    ) -> None:
        data = _csv(data_csv, _shape(data_shape), np.dtype(dtype or "float32"))
        shape = _shape(label_shape)
        if label_csv == "NULL":
            label = np.zeros((len(data), *shape), np.float32)
        else:
            label = _csv(label_csv, shape, np.dtype(np.float32))
        _require_equal(data_csv, len(data), label_csv, len(label))
        rows = label[:, 0] if shape == (1,) else label
        super().__init__(data, rows, batch_size, names=(data_name, label_name))


@public_methods
class LibSVMIter(_Table):
    """Batches of rows of sparse numbers as csr arrays, from lines ``label index:value ...``.

    Parameters
    ----------
    data_libsvm : str
        File with a sample in each line; indices count from 0.
    data_shape : int or tuple of int
        Number of columns.
    label_libsvm : str
        File of the same format, whose rows are the labels; "NULL": the first number of a line of
        ``data_libsvm`` is the label.
    label_shape : int or tuple of int
        Number of columns of ``label_libsvm``.
    batch_size : int
        Samples of a batch.
    round_batch : bool
        No effect: the last batch is padded.
    num_parts, part_index : int
        Number of parts of the file, and the part that is read.
    dtype : str or dtype
        No effect: values are float32.
    data_name, label_name : str
        Names of the arrays.
    **kwargs
        MXNet's arguments of threads and memory, without effect.

    Raises
    ------
    MXNetError
        For a missing file, an invalid line, and files of unequal lengths.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("rows.txt").write_text("1 0:0.5 2:1.5\\n0 1:2\\n")
    >>> batch = next(mx.io.LibSVMIter(data_libsvm="rows.txt", data_shape=(3,), batch_size=2))
    >>> batch.data[0].stype, batch.label[0].asnumpy()
    ('csr', array([1., 0.], dtype=float32))
    """

    def __init__(
        self,
        data_libsvm: str,
        data_shape: object,
        label_libsvm: str = "NULL",
        label_shape: object = (1,),
        batch_size: int = 1,
        round_batch: bool = True,
        num_parts: int = 1,
        part_index: int = 0,
        dtype: object = "float32",
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: object,
    ) -> None:
        label: Table
        data, label = _libsvm(data_libsvm, _shape(data_shape))
        if label_libsvm != "NULL":
            label, _ = _libsvm(label_libsvm, _shape(label_shape))
            _require_equal(data_libsvm, len(data), label_libsvm, len(label))
        part = _part(len(data), num_parts, part_index)
        names = data_name, label_name
        super().__init__(data[part], label[part], batch_size, names=names)


@public_methods
class MNISTIter(_Table):
    """Batches of two files in MNIST's format, compressed or not; pixels from 0 to 1.

    An incomplete last batch is dropped.

    Parameters
    ----------
    image, label : str
        Files of images and of labels.
    batch_size : int
        Images of a batch.
    shuffle : bool
        Whether the samples are permuted, once.
    flat : bool
        Whether images are vectors; otherwise (1, rows, columns).
    seed : int
        Of the permutation.
    silent : bool
        No effect.
    num_parts, part_index : int
        Number of parts of the files, and the part that is read.
    data_name, label_name : str
        Names of the arrays.
    **kwargs
        MXNet's arguments of threads and memory, without effect.

    Raises
    ------
    MXNetError
        For files that are missing, of another format, or of unequal lengths.

    Examples
    --------
    >>> import struct
    >>> from pathlib import Path
    >>> _ = Path("images").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 2, 4, 4) + bytes(32))
    >>> _ = Path("labels").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes(2))
    >>> next(mx.io.MNISTIter("images", "labels", batch_size=2)).data[0].shape
    (2, 1, 4, 4)
    """

    def __init__(
        self,
        image: str = "./train-images-idx3-ubyte",
        label: str = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int = 1,
        part_index: int = 0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: object,
    ) -> None:
        pictures, labels = read_idx(image, 3), read_idx(label, 1)
        _require_equal(image, len(pictures), label, len(labels))
        part = _part(len(labels), num_parts, part_index)
        order = np.arange(len(labels))[part]
        if shuffle:
            np.random.default_rng(seed).shuffle(order)
        shape = (-1,) if flat else (1, *pictures.shape[1:])
        pixels = pictures[order].reshape(len(order), *shape).astype(np.float32) / 256
        numbers = labels[order].astype(np.float32)
        super().__init__(pixels, numbers, batch_size, False, (data_name, label_name))


# ---- reading ------------------------------------------------------------------------------------


def read_idx(path: str, ndim: int) -> np.ndarray:
    """Bytes of an IDX file with ``ndim`` axes, compressed by gzip or not.

    The file is a magic number, the sizes in big-endian order, the data. Raises ModelFormatError for
    another format, MXNetError for a file that cannot be read.
    """
    try:
        with system_errors(path), open_file(path) as file:
            most = _DEFLATED * os.fstat(file.fileno()).st_size
            unpacked = gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
            magic, *sizes = struct.unpack(f">{1 + ndim}I", unpacked.read(4 * (1 + ndim)))
            count = math.prod(sizes)
            data = unpacked.read(min(count, most) + 1)
    except (EOFError, struct.error, zlib.error):
        magic, count, data = 0, 0, b""
    if magic != 0x800 + ndim or len(data) != count:
        raise ModelFormatError(f"{path} is not an IDX file of bytes with {ndim} axes")
    return np.frombuffer(data, np.uint8).reshape(sizes)


def _shape(given: Any) -> tuple[int, ...]:
    return (int(given),) if isinstance(given, int) else tuple(int(size) for size in given)


def _part(count: int, num_parts: int, part_index: int) -> slice:
    """Slice ``part_index`` of ``num_parts`` consecutive ones."""
    if not 0 <= part_index < num_parts:
        raise MXNetError(f"part_index must be 0 to num_parts - 1, got {part_index} of {num_parts}")
    return slice(count * part_index // num_parts, count * (part_index + 1) // num_parts)


def _require_equal(first: str, count: int, second: str, other: int) -> None:
    if count != other:
        raise MXNetError(f"{first} has {count} samples, but {second} has {other}")
    if not count:
        raise MXNetError(f"{first} does not have samples")


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    with system_errors(path), open_file(path) as file:
        for number, line in enumerate(io.TextIOWrapper(file, "utf-8", errors="replace"), 1):
            if line.strip():
                yield number, line


def _csv(path: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    rows = []
    for number, line in _lines(path):
        try:
            row = np.array(line.split(","), dtype=dtype)
        except (ValueError, OverflowError):
            raise MXNetError(
                f"{path}: line {number} does not consist of {dtype.name} numbers between commas: "
                f"{line[:60]!r}"
            ) from None
        if row.size != product(shape):
            raise MXNetError(
                f"{path}: line {number} has {row.size} numbers, but the shape {shape} has "
                f"{product(shape)}"
            )
        rows.append(row)
    return np.array(rows, dtype).reshape(len(rows), *shape)


def _libsvm(path: str, shape: tuple[int, ...]) -> tuple[CSRNDArray, np.ndarray]:
    """Rows as a csr array, and labels; of a column that occurs twice the last value wins.

    Raises MXNetError for rows of several axes.
    """
    if len(shape) != 1:
        raise MXNetError(f"{path}: rows of a csr array have one axis, but the shape is {shape}")
    values: list[float] = []
    columns: list[int] = []
    starts, labels = [0], []
    for number, line in _lines(path):
        label, row = _sparse_row(path, number, line, shape[0])
        labels.append(label)
        columns += sorted(row)
        values += [row[column] for column in sorted(row)]
        starts.append(len(columns))
    stored = np.array(values, np.float32), np.array(columns, np.int64), np.array(starts)
    table = sparse.csr_matrix(stored, shape=(len(labels), shape[0]), dtype=np.float32)
    return table, np.array(labels, np.float32)


def _sparse_row(path: str, number: int, line: str, width: int) -> tuple[float, dict[int, float]]:
    """First number of a line, and its values by column. Raises MXNetError."""
    row = {}
    try:
        first, *pairs = line.split()
        label = float(first)
        for pair in pairs:
            index, value = pair.split(":")
            if not 0 <= int(index) < width:
                raise MXNetError(
                    f"{path}: line {number} has the index {index}, the range is 0 to {width - 1}"
                )
            row[int(index)] = float(value)
    except ValueError:
        raise MXNetError(
            f"{path}: line {number} must be a label and pairs index:value, got {line[:60]!r}"
        ) from None
    return label, row
