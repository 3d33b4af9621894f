"""``mx.np.ndarray``: an array with official NumPy's methods, index rules and dtypes.

It shares the memory, the context and the tape entry with a classic array; operators on it are those
of NumPy mode. :meth:`ndarray.as_nd_ndarray` and ``as_np_ndarray`` convert between the two classes
without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as onp

from .._core.frames import shortened
from .._core.recording import FLAGS
from .._core.timeline import TIMELINE
from .._core.types import CODE_OF_DTYPE, DTYPE_NAMES, MAX_DIMS, DType, Sizes, product, shape_text
from ..context import Context
from ..errors import MXNetError, ShapeError
from ..nd.memory import DENSE_KINDS, _restored, dtype_of
from ..nd.ndarray import NDArray, invoke
from ..nd.taped import record_same
from ..ops.casting import convert
from ..ops.namespace import FLUENT
from ..ops.registry import lookup
from .indexing import is_masked, normal_key
from .printing import text_of

Self = TypeVar("Self", bound="ndarray")
_NUMBERS = (bool, int, float, onp.generic)


class ndarray(NDArray):  # noqa: N801 (MXNet's name)
    """Array of NumPy mode, created by ``np.array`` and the other creation functions."""

    __slots__ = ("__dict__",)

    # Properties

    @property
    def dtype(self) -> onp.dtype:  # type: ignore[override]
        """Element type, as official NumPy's object, which equals its name."""
        return self._data.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    def __repr__(self) -> str:
        return text_of(self._data)

    def __str__(self) -> str:
        return str(self._data)

    def __format__(self, spec: str) -> str:
        return (
            format(self.item(), spec) if spec and not self.ndim else object.__format__(self, spec)
        )

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self._data.shape[0]

    def __hash__(self) -> NoReturn:  # type: ignore[override]
        raise NotImplementedError("arrays of NumPy mode have no hash: they can be written")

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ValueError(
                "The truth value of an ndarray with multiple elements is ambiguous. "
                "Use a.any() or a.all()"
            )
        return self.size == 1 and bool(self.item())

    def __round__(self, ndigits: int = 0) -> ndarray:
        return self.round(ndigits)

    def item(self, *args: Any) -> Any:
        """Element as a Python number: the only one, or the one at the given indices."""
        if not args and self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self._data.item(*args)

    def tolist(self) -> Any:
        """Elements as nested lists; a number for an array of shape ()."""
        return self._data.tolist()

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self._data, self._ctx.device_type, self._ctx.device_id)

    # Indexing

    def _key(self, key: object) -> tuple[Any, ...]:
        if self._data.ndim and (usual := _usual_key(key)) is not None:
            return (usual,)
        if type(key) is tuple and len(key) <= self._data.ndim:
            usual = tuple(map(_usual_key, key))
            if all(part is not None for part in usual):
                return usual
        parts = key if isinstance(key, tuple) else (key,)
        return normal_key(tuple(map(_unwrapped, parts)), self._data.shape)

    def __setitem__(self, key: object, value: Any) -> None:
        """Assign ``value``, broadcast and converted to this array's dtype.

        Raises MXNetError if the shapes do not match or the array is recorded, IndexError for an
        index out of range, TypeError for values that are not numeric.
        """
        if isinstance(value, NDArray) and not isinstance(value, ndarray):
            raise TypeError("Cannot assign mx.nd.NDArray to mxnet.numpy.ndarray")
        if key is Ellipsis or not self.ndim and _is_whole(key):
            key = () if not self.ndim else key
        if isinstance(value, ndarray) and FLAGS.recording and value._entry is not None:
            super().__setitem__(Ellipsis if _is_whole(key) else key, value)
            return
        if type(value) is ndarray and _is_whole(key) and _is_like(value._data, self._data):
            self._write(value._data)
            return
        normal = self._key(key)
        self._write(_assigned(value, self._data, normal), normal if normal else ...)

    # Views and conversions

    def as_np_ndarray(self) -> ndarray:
        """Return the array itself."""
        return self

    def as_nd_ndarray(self) -> NDArray:
        """Classic array that shares the memory and the tape entry."""
        return self._of_kind(NDArray)

    def detach(self: Self) -> Self:
        """Array that shares the memory, without tape entry."""
        return type(self)(self._data, self._ctx, self._storage)

    as_in_ctx = NDArray.as_in_context

    def as_in_context(self, context: Context) -> ndarray:
        """Copy to ``context``; a new array that shares the memory if it is already there."""
        found = super().as_in_context(context)
        return self._same_memory(self._entry) if found is self else found

    def copy(self: Self, order: str = "C") -> Self:
        """Copy of the array. Raises NotImplementedError for orders other than "C"."""
        if order != "C":
            raise NotImplementedError(f"order is 'C', got {order!r}")
        copied = type(self)(self._data.copy(), self._ctx)
        is_noted = self._entry is not None and FLAGS.recording
        return record_same(self, copied) if is_noted else copied

    def astype(  # type: ignore[override]
        self,
        dtype: DType | None,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> ndarray:
        """Array converted to ``dtype``; the array itself if the dtype is equal and copy is False.

        None means float32. Raises ValueError for other values of ``casting`` and ``order``.
        """
        if order not in ("K", "C") or casting != "unsafe" or not subok:
            raise ValueError("astype takes order 'K' or 'C', casting 'unsafe' and subok True")
        if not copy and type(dtype) is str and DTYPE_NAMES.get(dtype) == self._data.dtype:
            return self
        return super().astype(dtype, copy)  # type: ignore[return-value, arg-type]

    def reshape(self, *args: Any, order: str = "C") -> ndarray:  # type: ignore[override]
        """Copy with another shape; one size may be -1."""
        if order != "C":
            raise NotImplementedError(f"reshape only supports order 'C', got {order!r}")
        if not args:
            raise TypeError("reshape() takes exactly 1 argument (0 given)")
        shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        if isinstance(shape, list):
            raise MXNetError("reshape takes a tuple of sizes, got a list")
        sizes = tuple(map(int, shape))
        copied = self._copied_as(sizes)
        if copied is not None:
            return copied
        return invoke(lookup("_np_reshape"), (self,), {"newshape": sizes})

    reshape_view = NDArray.reshape

    def _copied_as(self, sizes: tuple[int, ...]) -> ndarray | None:
        """Copy with this shape; None where the call is recorded or the shape needs a check.

        The operator takes four times as long for a small array.
        """
        is_noted = TIMELINE.eager or FLAGS.recording and self._entry is not None
        is_usual = 0 < len(sizes) <= MAX_DIMS and min(sizes) >= -1
        if is_noted or not is_usual or 0 in (self._data.size, *sizes):
            return None
        try:
            return self._plain(self._data.reshape(sizes).copy(), self._ctx)
        except ValueError:  # the operator says why
            return None

    def transpose(self, *axes: Any) -> ndarray:
        """Copy with permuted axes, by default reversed."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        if order is not None and len(set(order)) != len(order):
            raise ValueError(f"repeated axis in transpose: {tuple(order)}")
        given = {} if order is None else {"axes": order}
        return invoke(lookup("_np_transpose"), (self,), given)

    @property
    def T(self) -> ndarray:  # type: ignore[override]
        """Copy with reversed axes."""
        return self.transpose()

    def flatten(self, order: str = "C", inplace: bool = False) -> ndarray:  # type: ignore[override]
        """Copy of the elements as a vector."""
        return self.reshape(-1) if self.size else self.reshape(0)

    def squeeze(self, axis: Any = None, inplace: bool = False) -> ndarray:
        """Copy without the given axes of size 1, by default all of them."""
        return invoke(lookup("_np_squeeze"), (self,), {"axis": axis})

    def expand_dims(self, axis: Any, inplace: bool = False) -> ndarray:
        """Copy with a new axis of size 1."""
        return invoke(lookup("expand_dims"), (self,), {"axis": axis})

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> ndarray:
        """Elements limited to [min, max]; one of the bounds may be None."""
        if min is None and max is None:
            raise ValueError("array_clip: must set either max or min")
        low = -onp.inf if min is None else float(min)
        high = onp.inf if max is None else float(max)
        return invoke(lookup("clip"), (self,), {"a_min": low, "a_max": high}, out)

    def broadcast_to(self, shape: Sizes) -> ndarray:
        """Array repeated along axes of size 1 and along new leading axes."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        return invoke(lookup("_npi_broadcast_to"), (self,), {"shape": sizes})

    def __abs__(self) -> ndarray:
        return invoke(lookup("_npi_absolute"), (self,), {})

    # Python's operators

    def __neg__(self) -> ndarray:
        return invoke(lookup("_npi_multiply_scalar"), (self,), {"scalar": -1.0})

    def __invert__(self) -> ndarray:
        return invoke(lookup("_npi_bitwise_not"), (self,), {})

    def __add__(self, other: Any) -> Any:
        return _pair("_npi_add", self, other)

    __radd__ = __add__

    def __iadd__(self, other: Any) -> Any:
        return _pair("_npi_add", self, other, self)

    def __sub__(self, other: Any) -> Any:
        return _pair("_npi_subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _pair("_npi_rsubtract", self, _number(other))

    def __isub__(self, other: Any) -> Any:
        return _pair("_npi_subtract", self, other, self)

    def __mul__(self, other: Any) -> Any:
        return _pair("_npi_multiply", self, other)

    __rmul__ = __mul__

    def __imul__(self, other: Any) -> Any:
        return _pair("_npi_multiply", self, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _pair("_npi_true_divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _pair("_npi_rtrue_divide", self, _number(other))

    def __itruediv__(self, other: Any) -> Any:
        return _pair("_npi_true_divide", self, other, self)

    def __mod__(self, other: Any) -> Any:
        return _pair("_npi_mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _pair("_npi_rmod", self, _number(other))

    def __imod__(self, other: Any) -> Any:
        return _pair("_npi_mod", self, other, self)

    def __pow__(self, other: Any) -> Any:
        return _pair("_npi_power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _pair("_npi_rpower", self, _number(other))

    def __matmul__(self, other: Any) -> Any:
        return invoke(lookup("_npi_matmul"), (self, _operand(other)), {})

    def __rmatmul__(self, other: Any) -> Any:
        return invoke(lookup("_npi_matmul"), (_operand(other), self), {})

    def __imatmul__(self, other: Any) -> Any:
        return invoke(lookup("_npi_matmul"), (self, _operand(other)), {}, self)

    def __and__(self, other: Any) -> Any:
        return _pair("_npi_bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return _pair("_npi_bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return _pair("_npi_bitwise_xor", self, other)

    def __iand__(self, other: Any) -> Any:
        return _pair("_npi_bitwise_and", self, other, self)

    def __ior__(self, other: Any) -> Any:
        return _pair("_npi_bitwise_or", self, other, self)

    def __ixor__(self, other: Any) -> Any:
        return _pair("_npi_bitwise_xor", self, other, self)

    def __eq__(self, other: Any) -> Any:
        return _pair("_npi_equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return _pair("_npi_not_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return _pair("_npi_greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return _pair("_npi_greater_equal", self, other)

    def __lt__(self, other: Any) -> Any:
        return _pair("_npi_less", self, other)

    def __le__(self, other: Any) -> Any:
        return _pair("_npi_less_equal", self, other)


ndarray._plain = ndarray
DENSE_KINDS.add(ndarray)


def _pair(name: str, lhs: ndarray, rhs: Any, out: ndarray | None = None) -> Any:
    """Result of a binary operator; a number ``rhs`` becomes an attribute."""
    try:
        if isinstance(rhs, ndarray):
            return invoke(lookup(name), (lhs, rhs), {}, out)
        if isinstance(rhs, _NUMBERS):
            return invoke(lookup(name + "_scalar"), (lhs,), {"scalar": float(rhs)}, out)
    except Exception as error:
        raise shortened(error)
    hint = ": pass x.as_np_ndarray()" if isinstance(rhs, NDArray) else ""
    raise TypeError(f"type {type(rhs)} not supported{hint}")


def _number(x: Any) -> Any:
    """Check the first operand of an operator whose second one is an array: it must be a number."""
    if isinstance(x, NDArray):
        raise TypeError(f"type {type(x)} not supported: pass x.as_np_ndarray()")
    return x


def _operand(x: Any) -> ndarray:
    """Check an operand of a matrix product. Raises TypeError or AssertionError."""
    if isinstance(x, ndarray):
        return x
    if x is None:
        raise MXNetError("a matrix product takes two arrays, got None")
    if isinstance(x, NDArray):
        raise TypeError(
            "this is a numpy operator which can only accept MXNet numpy ndarrays, while received "
            "a legacy ndarray: call as_np_ndarray() first"
        )
    raise AssertionError(f"Positional arguments must have NDArray type, but got {x}")


def _unwrapped(part: Any) -> Any:
    return part._data if isinstance(part, NDArray) else part


_ENDS = {int, type(None)}


def _usual_key(key: object) -> Any:
    """An integer, a slice between integers, or an array of integers, unwrapped; else None."""
    if type(key) is int:
        return key
    if type(key) is slice:
        return key if {type(key.start), type(key.stop), type(key.step)} <= _ENDS else None
    if type(key) is ndarray and key._data.dtype.kind in "iu" and key._data.ndim:
        return key._data
    return None


def _is_like(values: onp.ndarray, target: onp.ndarray) -> bool:
    """Test whether values have the shape and the element type of a target."""
    return values.shape == target.shape and values.dtype == target.dtype


def _is_whole(key: object) -> bool:
    return key is Ellipsis or (isinstance(key, slice) and key == slice(None))


def _assigned(value: Any, target: onp.ndarray, key: tuple[Any, ...]) -> Any:
    """Convert ``value`` for an assignment to ``target[key]``, with the target's dtype.

    Raises ShapeError (ValueError for a scalar), TypeError or NotImplementedError where MXNet does
    not assign.
    """
    if value is None:
        value = float("nan")
    if isinstance(value, _NUMBERS):
        return convert(onp.asarray(value, onp.float64), target.dtype)
    is_some_mask = is_masked(key)
    if isinstance(value, list) and is_some_mask:
        raise NotImplementedError("a boolean index takes a number or an array, got a list")
    array = value._data if isinstance(value, ndarray) else onp.asarray(value)
    if array.dtype.kind not in "iufb":
        raise TypeError(f"assignment takes numbers, got {value!r} of type {type(value)}")
    place = target[key].shape
    if array.shape == place and not is_some_mask:
        return convert(array, target.dtype)
    if is_some_mask and not product(place):
        return target.dtype.type(0)  # the mask selects no element
    is_mask = is_some_mask and len(key) == 1
    if (is_mask and array.ndim > 1) or not _fits(array.shape, place):
        kind = ShapeError if target.ndim else ValueError
        raise kind(
            f"values of shape {shape_text(array.shape)} are not broadcastable to the destination "
            f"of shape {shape_text(place)}"
        )
    return convert(array.reshape(()) if array.size == 1 else array, target.dtype)


def _fits(shape: Sequence[int], place: Sequence[int]) -> bool:
    """Test whether values of ``shape`` can be broadcast to the shape ``place``."""
    lead = len(shape) - len(place)
    pairs = zip(shape[max(lead, 0) :][::-1], place[::-1])
    return all(size == 1 for size in shape[: max(lead, 0)]) and all(a in (1, b) for a, b in pairs)


class _Absent:
    """Descriptor of a classic method that arrays of NumPy mode do not have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"mxnet.numpy.ndarray object has no attribute {self._name}: use a function of np or npx"
        )


# Methods that are functions of mx.np with the array as the first argument.
METHODS = """all any argmax argmin argsort cumsum dot max mean min nonzero prod repeat round
std sum swapaxes take var"""


# Methods of classic arrays that MXNet's arrays of NumPy mode do not have.
_CLASSIC = [*FLUENT, "asscalar", "diag", "split_v2", "tostype"]


def add_methods(functions: Callable[[str], Any]) -> None:
    """Add the methods to the class; the module of the functions calls this once."""
    for name in _CLASSIC:
        if name not in vars(ndarray):
            setattr(ndarray, name, _Absent(name))
    for name in METHODS.split():
        setattr(ndarray, name, _method(name, functions(name)))


def _method(name: str, function: Any) -> Any:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, function.__doc__
    return method


def as_dtype(dtype: DType | None, default: Any = onp.float32) -> onp.dtype:
    """Element type for ``dtype``; ``default`` for None.

    Raises KeyError for a type that arrays do not have.
    """
    found = onp.dtype(default if dtype is None else dtype)
    if found in CODE_OF_DTYPE:
        return found
    try:
        return dtype_of(found)
    except MXNetError:
        raise KeyError(found.type) from None
