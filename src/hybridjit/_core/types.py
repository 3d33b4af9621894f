"""Element types and tensor types: facts about a value before it exists.

A :class:`TensorType` may be partial: ``shape`` None (rank unknown), a dimension None (size
unknown) or ``dtype`` None. MXNet's files write 0 for an unknown dimension; that 0 becomes None
where it is read, so that a real zero-size batch stays possible.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..errors import DTypeError, ShapeError
from .frozen import dataclass
from .symbolic import Size

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:
    Unpack = getattr(typing, "Unpack", None)  # Python 3.10 has none; annotations are not evaluated

Shape = tuple[int, ...]
PartialShape = tuple["int | None", ...]

# Types of users' arguments: a shape or several axes, the name of an element type, a number.
Sizes: TypeAlias = int | Sequence[int]
DType: TypeAlias = str | type | np.dtype
Number: TypeAlias = float | np.generic

# MXNet's numeric codes (files, `__dtype__`) and the names of its dtype attributes.
DTYPE_CODES: dict[int, np.dtype] = {
    0: np.dtype("float32"),
    1: np.dtype("float64"),
    2: np.dtype("float16"),
    3: np.dtype("uint8"),
    4: np.dtype("int32"),
    5: np.dtype("int8"),
    6: np.dtype("int64"),
    7: np.dtype("bool"),
}
CODE_OF_DTYPE: dict[np.dtype, int] = {dtype: code for code, dtype in DTYPE_CODES.items()}
DTYPE_NAMES: dict[str, np.dtype] = {dtype.name: dtype for dtype in DTYPE_CODES.values()}

_SHORT = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "uint8": "u8",
    "int8": "i8",
    "int32": "i32",
    "int64": "i64",
    "bool": "bool",
    "uint16": "bf16",
}
FLOAT32 = np.dtype("float32")
FLOAT64 = np.dtype("float64")
FLOATS = (FLOAT32, FLOAT64)  # element types of computations: other floats are widened
INT32 = np.dtype("int32")
INT64 = np.dtype("int64")
# NumPy has no bfloat16: arrays hold its bits. Other values in a graph do not have this type,
# because
# MXNet has no uint16.
BFLOAT16 = np.dtype("uint16")

_LARGEST = 1 << 47  # bytes of the address space of a program
MAX_DIMS = 32  # of an array: the limit of the oldest supported NumPy


@dataclass(frozen=True, eq=False)
class TensorType:
    """Shape and dtype of a tensor, either of which may be partly or wholly unknown."""

    shape: PartialShape | None
    dtype: np.dtype | None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TensorType):
            return NotImplemented
        # NumPy reads None as float64: np.dtype("float64") == None is True.
        same_dtype = (self.dtype is None) == (other.dtype is None) and self.dtype == other.dtype
        return self.shape == other.shape and same_dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    @property
    def form(self) -> tuple[object, ...]:
        """A key for dicts, equal for types with the same expressions as sizes.

        As a key itself, a type with symbolic sizes is compared with others of the same hints, which
        records guards.
        """
        dims: tuple[object, ...] = () if self.shape is None else self.shape
        sizes = tuple((n.scope, n.key) if isinstance(n, Size) else n for n in dims)
        return self.shape is None, sizes, self.dtype is None, self.dtype

    @property
    def is_known(self) -> bool:
        """Whether shape and element type are known."""
        return self.dtype is not None and is_known_shape(self.shape)

    @property
    def dims(self) -> Shape:
        """The shape of a known type."""
        assert is_known_shape(self.shape), self
        return self.shape  # type: ignore[return-value]

    @property
    def ndim(self) -> int:
        """The number of axes of a known type."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """The number of elements of a known type."""
        return product(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of a known type."""
        assert self.dtype is not None
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: PartialShape | None) -> TensorType:
        """The same element type in another shape."""
        return TensorType(shape, self.dtype)

    def with_dtype(self, dtype: np.dtype | None) -> TensorType:
        """The same shape with another element type."""
        return TensorType(self.shape, dtype)

    def __str__(self) -> str:
        name = "?" if self.dtype is None else _SHORT.get(self.dtype.name, self.dtype.name)
        if self.shape is None:
            return f"{name}[...]"
        return f"{name}[{','.join('?' if d is None else str(d) for d in self.shape)}]"


UNKNOWN = TensorType(None, None)


class NullType:
    """Class of :data:`NULL`."""

    def __repr__(self) -> str:
        return "_Null"


NULL = NullType()  # MXNet's value of an argument that is not given


def type_of(array: np.ndarray) -> TensorType:
    """Shape and element type of an array."""
    return TensorType(array.shape, array.dtype)


def product(sizes: tuple[int, ...]) -> int:
    """The product of the sizes; 1 for an empty tuple."""
    result = 1
    for size in sizes:
        result *= size
    return result


def require_dims(count: int) -> None:
    """Raises ShapeError for more dimensions than an array may have."""
    if count > MAX_DIMS:
        raise ShapeError(f"an array has at most {MAX_DIMS} dimensions, not {count}")


def require_possible(types: Iterable[TensorType]) -> None:
    """Raises ShapeError for a type that no memory or array holds, or with a negative size.

    Computed in Python's integers, which do not wrap. Sizes beside a zero count too: NumPy
    multiplies
    the other sizes as well. Symbolic sizes are checked once their values are known.
    """
    for t in types:
        if t.shape is None or len(t.shape) == 0:
            continue
        require_dims(len(t.shape))
        itemsize = 1 if t.dtype is None else t.dtype.itemsize
        if any(isinstance(d, Size) for d in t.shape):
            continue
        sizes = tuple(d for d in t.shape if d)
        if min(sizes, default=0) < 0:
            raise ShapeError(f"a result has sizes of 0 and more, {t} has {min(sizes)}")
        if product(sizes) * itemsize >= _LARGEST:
            raise ShapeError(f"{t} is larger than any memory")


def is_known_shape(shape: PartialShape | None) -> bool:
    """Whether rank and all sizes are known."""
    return shape is not None and None not in shape


def merge_shapes(a: PartialShape | None, b: PartialShape | None) -> PartialShape | None:
    """The shape that satisfies both partial shapes.

    Raises ShapeError when they contradict each other.
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise ShapeError(f"expected shape {shape_text(a)}, got {shape_text(b)}")
    if any(x is not None and y is not None and x != y for x, y in zip(a, b)):
        raise ShapeError(f"expected shape {shape_text(a)}, got {shape_text(b)}")
    return tuple(y if x is None else x for x, y in zip(a, b))


def merge_dtypes(a: np.dtype | None, b: np.dtype | None) -> np.dtype | None:
    """The known one of two dtypes. Raises DTypeError when both are known and differ."""
    if a is not None and b is not None and a != b:
        # The data come before the parameters, which decide; float64 is often an oversight.
        to = b if b in (FLOAT32, np.float16) else a
        raise DTypeError(f"expected {a.name}, got {b.name}; x.astype({to.name!r}) casts an array")
    return b if a is None else a


def merge(a: TensorType, b: TensorType) -> TensorType:
    """The type that satisfies both. Raises ShapeError or DTypeError when they contradict."""
    if a is UNKNOWN:
        return b
    if a is b or a == b:
        return a
    return TensorType(merge_shapes(a.shape, b.shape), merge_dtypes(a.dtype, b.dtype))


def shape_text(shape: PartialShape | None) -> str:
    """A shape in the form of messages: ``(2,?,3)``."""
    if shape is None:
        return "(...)"
    return "(" + ",".join("?" if d is None else str(d) for d in shape) + ")"
