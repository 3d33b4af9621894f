"""An array on a device: its memory, its views, and the one way in which it is written.

In: a NumPy array that is C-contiguous and in native byte order. Out: views and copies of it under
MXNet's indexing rules. Arrays that share memory share a :class:`Storage`. No operator is known
here; :mod:`.ndarray` adds them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._core.errstate import quiet
from .._core.recording import FLAGS
from .._core.shapes import is_np_shape
from .._core.types import CODE_OF_DTYPE, MAX_DIMS, DType, require_dims, shape_text
from ..context import Context, current_context
from ..errors import DTypeError, MXNetError, ShapeError
from ..formats.mxnet import params
from ..ops.casting import convert
from .eviction import Evicted, restore_memory
from .indexing import is_basic, normal_key, slice_is_contiguous
from .storage import Storage
from .tape import Entry
from .undo import OPEN

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Self = TypeVar("Self", bound="DenseArray")

# The classes of dense arrays that blocks take: NDArray, and that of NumPy mode once it is loaded.
DENSE_KINDS: set[type] = set()

ON_TAPE = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined "
    "behavior when evaluating gradients. Please call backward first to clear the graph or do this "
    "out side of a record section. Also note that you cannot use inplace operations like +=, *=, "
    "relu(x, out=x), y[idx]=x, etc inside a record section."
)


def dtype_of(dtype: DType) -> np.dtype:
    """The element type that ``dtype`` names.

    Raises TypeError when it names none, DTypeError when MXNet has no such type.
    """
    found = np.dtype(dtype).newbyteorder("=")
    if found not in CODE_OF_DTYPE:
        names = ", ".join(known.name for known in CODE_OF_DTYPE)
        raise DTypeError(f"dtype is one of {names}, got {dtype}")
    return found


@quiet(over="ignore", invalid="ignore")
def converted(values: ArrayLike, dtype: np.dtype) -> np.ndarray:
    """``values`` as a new contiguous array of ``dtype``; what does not fit becomes inf or wraps."""
    return np.array(values, dtype, order="C")


class DenseArray:
    """What every NDArray can do without an operator."""

    __slots__ = ("_data", "_storage", "_ctx", "_evicted", "_entry", "__weakref__")
    _plain: Any  # the class of results that are computed from arrays of this one
    __array_priority__ = 1000.0  # NumPy scalars on the left leave the operation to us

    def __init__(
        self, data: np.ndarray, ctx: Context | None = None, storage: Storage | None = None
    ) -> None:
        if data is not None and data.ndim > MAX_DIMS:  # None is what MXNet pickles of no array
            require_dims(data.ndim)
        self._data = data
        self._ctx = current_context() if ctx is None else ctx
        self._storage = Storage() if storage is None else storage
        self._evicted: Evicted | None = None
        self._entry: Entry | None = None

    def __getattr__(self, name: str) -> Any:
        """Only asked for what is not there: the memory of an array that is evicted."""
        if name == "_data" and self._evicted is not None:
            return restore_memory(self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # Programs ask before they write to a part of an array, whether that is the array's memory.
    _basic_indexing_slice_is_contiguous = staticmethod(slice_is_contiguous)

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._data.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._data.size

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._data.ndim

    @property
    def dtype(self) -> type[np.generic]:
        """The element type, as NumPy's class."""
        return self._data.dtype.type

    @property
    def context(self) -> Context:
        """The device that it is on."""
        return self._ctx

    @property
    def ctx(self) -> Context:
        """The device that it is on."""
        return self._ctx

    @property
    def stype(self) -> str:
        """ "default": arrays are dense."""
        return "default"

    @property
    def writable(self) -> bool:
        """True: every array can be written."""
        return True

    @property
    def T(self: Self) -> Self:
        """The array with its axes reversed, as a copy."""
        return type(self)(np.array(self._data.T, order="C"), self._ctx)

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"\n{self._data}\n<{type(self).__name__} {sizes} @{self._ctx}>"

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self: Self) -> Iterator[Self]:
        return (self[i] for i in range(len(self) if self.ndim else 0))

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")
        return self.size == 1 and bool(self.asscalar())

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> np.ndarray:
        """The values for NumPy; without a copy they are a view that cannot be written."""
        view = self._data.view()
        view.flags.writeable = False
        changes = dtype is not None and np.dtype(dtype) != view.dtype
        if copy is False and changes:
            raise ValueError(f"{view.dtype} becomes {np.dtype(dtype)} by copying only")
        return np.array(view, dtype) if copy or changes else view

    @property
    def __array_interface__(self) -> dict[str, object]:
        """NumPy's description of this memory, which it may read but not write."""
        interface = dict(self._data.__array_interface__)
        return {**interface, "data": (interface["data"][0], True)}

    def __dlpack__(self, **options: Any) -> object:
        """A DLPack capsule of this memory, for other libraries to read and write."""
        self._storage.expose()
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def to_dlpack_for_read(self) -> object:
        """A DLPack capsule of this memory, for a library that will not write there."""
        return self._data.__dlpack__()

    def to_dlpack_for_write(self) -> object:
        """A DLPack capsule of this memory, for a library that may write there."""
        return self.__dlpack__()

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self._data, self._ctx.device_type, self._ctx.device_id)

    def __setstate__(self, state: dict[str, bytearray]) -> None:
        """What an MXNet that pickled this array says of it: a record of its array files.

        Raises ModelFormatError when it is not one.
        """
        self.__init__(params.read_record(state["handle"]))  # type: ignore[misc]

    def _of_kind(self, kind: Any) -> Any:
        """This array as one whose results are of class ``kind``: the same memory and tape entry."""
        if self._plain is kind:
            return self
        found = kind(self._data, self._ctx, self._storage)
        found._entry = self._entry
        return found

    def _dense(self: Self, data: np.ndarray) -> Self:
        """A dense array of these values where this one is."""
        return type(self)(data, self._ctx)

    def _same_memory(self: Self, entry: Entry | None = None) -> Self:
        """Another array object of the same memory, at this place on the tape."""
        found = type(self)(self._data, self._ctx, self._storage)
        found._entry = entry
        return found

    def _on_file(self) -> params.AnyArray:
        """What files keep of this array."""
        return self._data

    def _receive(self, d: DenseArray) -> None:
        """Write what ``d`` holds."""
        self._write(d._data)

    def __deepcopy__(self: Self, memo: object) -> Self:
        return self.copy()

    # Reading

    def asnumpy(self) -> np.ndarray:
        """A NumPy copy."""
        return self._data.copy()

    def asscalar(self) -> Any:
        """The one element. Raises ValueError when there are more."""
        if self.size != 1:
            raise ValueError("The current array is not a scalar")
        return self._data.reshape(-1)[0]

    def __getitem__(self: Self, key: object) -> Self:
        """A view for ints and contiguous slices, else a copy; a lone element has shape (1,).

        With ``np_shape`` it has the shape ().
        """
        normal = self._key(key)
        found = self._data[normal]
        if not isinstance(found, np.ndarray):  # a NumPy number: the same element as an array
            found = self._data[normal + (...,)]
        if found.ndim == 0 and self._data.ndim > 0 and not is_np_shape():
            found = found.reshape(1)
        if is_basic(normal) and found.flags.c_contiguous:
            return type(self)(found, self._ctx, self._storage)
        return type(self)(np.array(found, order="C"), self._ctx)

    def copy(self: Self) -> Self:
        """The same values in memory of their own."""
        return type(self)(self._data.copy(), self._ctx)

    def detach(self: Self) -> Self:
        """The same memory."""
        return self._same_memory()

    def as_in_context(self: Self, context: Context) -> Self:
        """Itself if it is there already, else a copy. Raises MXNetError for a GPU."""
        if context == self._ctx:
            return self
        context.require_host("_copyto")
        return type(self)(self._data.copy(), context)

    def wait_to_read(self) -> None:
        """Nothing to wait for: every call has finished when it returns."""

    # Writing

    def __setitem__(self, key: object, value: object) -> None:
        """Broadcasts ``value`` into the place. Raises ValueError when the shapes forbid it."""
        if self._data.dtype.kind in "iu" and isinstance(value, (int, float)):
            value = convert(np.array(value, np.float64), self._data.dtype)  # its low bits
        self._write(_assignable(value), self._key(key))

    def copyto(self: Self, other: Self | Context) -> Self | bool:
        """Write these values into ``other``, in its element type, or copy them to another context.

        Raises TypeError for what is neither, ShapeError when the shapes differ.
        """
        if isinstance(other, Context):
            other.require_host("_copyto")
            return type(self)(self._data.copy(), other)
        if not isinstance(other, DenseArray):
            raise TypeError(f"copyto does not support type {type(other)}")
        if other is self:
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning)
            return False
        if other.shape != self.shape:
            mine, theirs = shape_text(self.shape), shape_text(other.shape)
            raise ShapeError(f"copyto: this array has shape {mine}, the other {theirs}")
        other._receive(self)
        return other

    @quiet(over="ignore", invalid="ignore")
    def _write(self, values: ArrayLike, key: Any = ...) -> None:
        """Put ``values`` into this memory: the only way in which it changes.

        Raises MXNetError while an array that stands on the tape is recorded.
        """
        if self._entry is not None and FLAGS.recording:
            raise MXNetError(ON_TAPE)
        held = self._data  # until the write is noted: what somebody holds is not evicted
        if OPEN.undo is not None:
            OPEN.undo.keep(self, key)
        try:
            self._data[key] = values
            self._storage.bump()
        except ValueError:
            place = shape_text(self._data[key].shape)
            raise ValueError(
                "operands could not be broadcast together: "
                f"values of shape {shape_text(np.shape(values))}, place of shape {place}"
            ) from None
        except BaseException:  # before or after it was written: whoever looks finds out
            self._storage.bump()
            raise
        del held

    def _key(self, key: object) -> tuple[Any, ...]:
        if isinstance(key, tuple):
            parts = tuple(p._data if isinstance(p, DenseArray) else p for p in key)
            return normal_key(parts, self.shape)
        return normal_key(key._data if isinstance(key, DenseArray) else key, self.shape)


def _assignable(value: object) -> float | np.generic | np.ndarray:
    """``value`` as NumPy can assign it. Raises TypeError for what is not numbers."""
    if isinstance(value, (int, float, np.generic)):
        return value
    array = value._data if isinstance(value, DenseArray) else np.asarray(value)
    if array.dtype.kind not in "iufb":
        raise TypeError(
            f"NDArray does not support assignment with non-array-like object {value} "
            f"of type {type(value)}"
        )
    return array.reshape(()) if array.size == 1 else array


def _restored(cls: type[Self], data: np.ndarray, device_type: str, device_id: int) -> Self:
    return cls(data, Context(device_type, device_id))
