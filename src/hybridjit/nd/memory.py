"""Array on a device: its memory, its views, and the single function that writes it.

Input: a NumPy array that is C-contiguous and in native byte order. Output: views and copies of it
under MXNet's indexing rules. Arrays that share memory share a :class:`Storage`. This module uses no
operators; :mod:`.ndarray` adds them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._core.errstate import quiet
from .._core.frames import shortened
from .._core.lazy import Late, other_names
from .._core.recording import FLAGS
from .._core.shapes import is_np_shape
from .._core.types import CODE_OF_DTYPE, DTYPE_NAMES, MAX_DIMS, DType, require_dims, shape_text
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

    from .._core import html_text
else:
    html_text = Late(".._core.html_text", __package__)  # in notebooks

Self = TypeVar("Self", bound="DenseArray")

# Classes of dense arrays that blocks accept: NDArray, and NumPy mode's once it is loaded.
DENSE_KINDS: set[type] = set()

ON_TAPE = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined "
    "behavior when evaluating gradients. Please call backward first to clear the graph or do this "
    "out side of a record section. Also note that you cannot use inplace operations like +=, *=, "
    "relu(x, out=x), y[idx]=x, etc inside a record section."
)


def dtype_of(dtype: DType) -> np.dtype:
    """Element type of a dtype argument.

    Raises TypeError if it is invalid, DTypeError if MXNet does not have this type.
    """
    if type(dtype) is str and dtype in DTYPE_NAMES:
        return DTYPE_NAMES[dtype]
    if isinstance(dtype, np.dtype) and dtype in CODE_OF_DTYPE:
        return dtype
    found = np.dtype(dtype).newbyteorder("=")
    if found not in CODE_OF_DTYPE:
        names = ", ".join(known.name for known in CODE_OF_DTYPE)
        raise DTypeError(f"dtype must be one of {names}, got {dtype}")
    return found


@quiet
def converted(values: ArrayLike, dtype: np.dtype) -> np.ndarray:
    """New contiguous array of ``dtype``; values out of range become inf or wrap around."""
    return np.array(values, dtype, order="C")


class DenseArray:
    """Methods of NDArrays that need no operator."""

    __slots__ = ("_data", "_storage", "_ctx", "_evicted", "_entry", "__weakref__")
    _plain: Any  # class of results computed from arrays of this class
    __array_priority__ = 1000.0  # NumPy scalars on the left defer to this class

    def __init__(
        self, data: np.ndarray, ctx: Context | None = None, storage: Storage | None = None
    ) -> None:
        if data is not None and data.ndim > MAX_DIMS:  # None: MXNet's pickle of an empty handle
            require_dims(data.ndim)
        self._data = data
        self._ctx = current_context() if ctx is None else ctx
        self._storage = Storage() if storage is None else storage
        self._evicted: Evicted | None = None
        self._entry: Entry | None = None

    def __getattr__(self, name: str) -> Any:
        """Restore the memory of an evicted array when ``_data`` is read."""
        if name == "_data" and self._evicted is not None:
            return restore_memory(self)
        usual = f"{type(self).__name__!r} object has no attribute {name!r}"
        usual += other_names.way(name, "ARRAYS")
        raise shortened(AttributeError(usual, name=name, obj=self))

    # Programs call this before they write to a slice, to learn whether it is a view.
    _basic_indexing_slice_is_contiguous = staticmethod(slice_is_contiguous)

    # Properties

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._data.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def dtype(self) -> type[np.generic]:
        """Element type, as NumPy's class."""
        return self._data.dtype.type

    @property
    def context(self) -> Context:
        """Device of the array."""
        return self._ctx

    @property
    def ctx(self) -> Context:
        """Device of the array."""
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
        """Copy with reversed axes."""
        return type(self)(np.array(self._data.T, order="C"), self._ctx)

    def _repr_html_(self) -> str:
        """The array for notebooks: shape, element type and context, then the values."""
        sizes = "x".join(map(str, self.shape)) or "scalar"
        title = f"{type(self).__name__} {sizes} {self._data.dtype.name} @{self._ctx}"
        return html_text.html_code(title) + html_text.html_lines(str(self._data))

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"\n{self._data}\n<{type(self).__name__} {sizes} @{self._ctx}>"

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self: Self) -> Iterator[Self]:
        return (self[i] for i in range(len(self) if self.ndim else 0))

    def __bool__(self) -> bool:
        if self.size > 1:
            raise shortened(
                ValueError(
                    "The truth value of an NDArray with multiple elements is ambiguous. Write "
                    "x.asnumpy().any() or x.asnumpy().all(); this one has shape "
                    f"{shape_text(self.shape)}"
                )
            )
        return self.size == 1 and bool(self.asscalar())

    def __float__(self) -> float:
        return float(self._only_element())

    def __int__(self) -> int:
        return int(self._only_element())

    def _only_element(self) -> Any:
        if self.size != 1:
            raise shortened(
                TypeError(
                    "only size-1 arrays can be converted to Python scalars, not one of shape "
                    f"{shape_text(self.shape)}: use asnumpy() or an index"
                )
            )
        return self._data.item()

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> np.ndarray:
        """Values for NumPy; without a copy, a read-only view."""
        view = self._data.view()
        view.flags.writeable = False
        changes = dtype is not None and np.dtype(dtype) != view.dtype
        if copy is False and changes:
            raise ValueError(f"{view.dtype} cannot become {np.dtype(dtype)} without a copy")
        return np.array(view, dtype) if copy or changes else view

    @property
    def __array_interface__(self) -> dict[str, object]:
        """NumPy's description of this memory, which is read-only through it."""
        interface = dict(self._data.__array_interface__)
        return {**interface, "data": (interface["data"][0], True)}

    def __dlpack__(self, **options: Any) -> object:
        """DLPack capsule of this memory, for other libraries to read and write."""
        self._storage.expose()
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def to_dlpack_for_read(self) -> object:
        """DLPack capsule of this memory, for a library that only reads it."""
        return self._data.__dlpack__()

    def to_dlpack_for_write(self) -> object:
        """DLPack capsule of this memory, for a library that may write it."""
        return self.__dlpack__()

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self._data, self._ctx.device_type, self._ctx.device_id)

    def __setstate__(self, state: dict[str, bytearray]) -> None:
        """Set the array from MXNet's pickled state, a record of its array files.

        Raises ModelFormatError for an invalid record.
        """
        self.__init__(params.read_record(state["handle"]))  # type: ignore[misc]

    def _of_kind(self, kind: Any) -> Any:
        """Array of class ``kind`` that shares the memory and the tape entry."""
        if self._plain is kind:
            return self
        found = kind(self._data, self._ctx, self._storage)
        found._entry = self._entry
        return found

    def _dense(self: Self, data: np.ndarray) -> Self:
        """Dense array of these values in this array's context."""
        return type(self)(data, self._ctx)

    def _same_memory(self: Self, entry: Entry | None = None) -> Self:
        """Array object that shares the memory, with this tape entry."""
        found = type(self)(self._data, self._ctx, self._storage)
        found._entry = entry
        return found

    def _on_file(self) -> params.AnyArray:
        """Contents of this array for files."""
        return self._data

    def _receive(self, d: DenseArray) -> None:
        """Write the values of ``d``."""
        self._write(d._data)

    def __deepcopy__(self: Self, memo: object) -> Self:
        return self.copy()

    # Reading

    def asnumpy(self) -> np.ndarray:
        """Copy as a NumPy array."""
        return self._data.copy()

    def asscalar(self) -> Any:
        """The single element. Raises ValueError if there are more."""
        if self.size != 1:
            raise shortened(
                ValueError(
                    f"The current array is not a scalar: it has shape {shape_text(self.shape)}; "
                    "write x.mean().asscalar() for the mean, such as of a batch's losses, or "
                    "x.asnumpy()"
                )
            )
        return self._data.reshape(-1)[0]

    def __getitem__(self: Self, key: object) -> Self:
        """View for integers and contiguous slices, else a copy; a single element has shape (1,).

        With ``np_shape`` it has the shape ().
        """
        normal = self._key(key)
        found = self._data[normal]
        if not isinstance(found, np.ndarray):  # a NumPy scalar: select it as an array
            found = self._data[normal + (...,)]
        if found.ndim == 0 and self._data.ndim > 0 and not is_np_shape():
            found = found.reshape(1)
        if is_basic(normal) and found.flags.c_contiguous:
            return type(self)(found, self._ctx, self._storage)
        return type(self)(np.array(found, order="C"), self._ctx)

    def copy(self: Self) -> Self:
        """Copy of the array."""
        return type(self)(self._data.copy(), self._ctx)

    def detach(self: Self) -> Self:
        """Array that shares the memory, without tape entry."""
        return self._same_memory()

    def as_in_context(self: Self, context: Context) -> Self:
        """Copy in ``context``; the array itself if it is already there. MXNetError for a GPU."""
        if context == self._ctx:
            return self
        if not isinstance(context, Context):
            raise TypeError(
                f"copyto does not support type {type(context)}: pass a context such as mx.cpu()"
            )
        context.require_host("_copyto")
        return type(self)(self._data.copy(), context)

    def wait_to_read(self) -> None:
        """Do nothing: every call has finished when it returns."""

    # Writing

    def __setitem__(self, key: object, value: object) -> None:
        """Assign ``value``, broadcast. Raises ValueError if the shapes do not match."""
        if self._data.dtype.kind in "iu" and isinstance(value, (int, float)):
            value = convert(np.array(value, np.float64), self._data.dtype)  # keeps the low bits
        self._write(_assignable(value), self._key(key))

    def copyto(self: Self, other: Self | Context) -> Self | bool:
        """Write the values to ``other``, converted to its dtype, or copy them to a context.

        Raises TypeError for other objects, ShapeError if the shapes differ.
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
            raise ShapeError(f"copyto: this array has shape {mine}, the other has {theirs}")
        other._receive(self)
        return other

    @quiet
    def _write(self, values: ArrayLike, key: Any = ...) -> None:
        """Write ``values`` to this memory; no other function changes it.

        Raises MXNetError if the array is on the tape and the thread records.
        """
        if self._entry is not None and FLAGS.recording:
            raise MXNetError(ON_TAPE)
        held = self._data  # prevents eviction until the write is counted
        if OPEN.undo is not None:
            OPEN.undo.keep(held, self._storage, key)
        try:
            self._data[key] = values
            self._storage.bump()
        except ValueError:
            place = shape_text(self._data[key].shape)
            raise ValueError(
                "operands could not be broadcast together: "
                f"values of shape {shape_text(np.shape(values))}, target of shape {place}"
            ) from None
        except BaseException:  # the write may be incomplete: count it
            self._storage.bump()
            raise
        del held

    def _key(self, key: object) -> tuple[Any, ...]:
        if isinstance(key, tuple):
            parts = tuple(p._data if isinstance(p, DenseArray) else p for p in key)
            return normal_key(parts, self.shape)
        return normal_key(key._data if isinstance(key, DenseArray) else key, self.shape)


def _assignable(value: object) -> float | np.generic | np.ndarray:
    """``value`` as NumPy can assign it. Raises TypeError unless it is numeric."""
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
