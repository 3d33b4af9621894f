"""Reshaping, movement, joining and splitting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as onp

from ..._core.frames import FAILURES, shortened
from ...errors import MXNetError
from .frontend import NUMBERS, Frontend, Group, axes_of, refuse_order, sizes_of


def _copy(front: Frontend) -> Callable[..., Any]:
    """``copy`` as a closure: a call of ``public`` around a method costs 0.1 us of 1 more."""

    def copy(a: Any, out: Any = None) -> Any:
        """Copy of the array."""
        try:
            if out is None and isinstance(a, front.tensor) and not front.is_symbolic:
                return a.copy()
            return front.op("_np_copy", a, out=out)
        except FAILURES as error:
            raise shortened(error)

    copy.__qualname__ = "copy"
    return copy


class Shapes(Group):
    """Functions that move elements."""

    def __init__(self, front: Frontend) -> None:
        super().__init__(front)
        self.copy = _copy(front)

    def reshape(self, a: Any, newshape: Any, order: str = "C", out: Any = None) -> Any:
        """Array reshaped; one size may be -1."""
        refuse_order(order, ("C", "F"))
        return self._op("_np_reshape", a, newshape=sizes_of(newshape), order="C", out=out)

    def ravel(self, x: Any, order: str = "C") -> Any:
        """Elements as a vector."""
        refuse_order(order)
        if isinstance(x, NUMBERS):
            return onp.reshape(x, -1)
        return (
            self._op("_np_reshape", x, newshape=(-1,), order="C")
            if self._has_elements(x)
            else self._op("_np_reshape", x, newshape=(0,), order="C")
        )

    def _has_elements(self, x: Any) -> bool:
        return self._front.is_symbolic or getattr(x, "size", 1) > 0

    def transpose(self, a: Any, axes: Any = None) -> Any:
        """Array with permuted axes, by default reversed."""
        return self._op("_np_transpose", a, axes=axes_of(axes))

    def swapaxes(self, a: Any, axis1: int, axis2: int) -> Any:
        """Array with two axes exchanged."""
        return self._op("SwapAxis", a, dim1=axis1, dim2=axis2)

    def moveaxis(self, a: Any, source: Any, destination: Any) -> Any:
        """Array with axes moved to other positions."""
        return self._op("_np_moveaxis", a, source=_tuple(source), destination=_tuple(destination))

    def expand_dims(self, a: Any, axis: int) -> Any:
        """Array with a new axis of size 1."""
        return self._op("expand_dims", a, axis=axis)

    def squeeze(self, a: Any, axis: Any = None, out: Any = None) -> Any:
        """Array without axes of size 1."""
        return self._op("_np_squeeze", a, axis=axes_of(axis), out=out)

    def broadcast_to(self, array: Any, shape: Any) -> Any:
        """Array repeated along axes of size 1 and along new leading axes."""
        if isinstance(array, NUMBERS):
            return self.full(shape, array)  # type: ignore[attr-defined]
        return self._op("_npi_broadcast_to", array, shape=sizes_of(shape))

    def broadcast_arrays(self, *args: Any) -> Any:
        """All arrays broadcast to a common shape."""
        for x in args:
            self._front.check("_npi_broadcast_to", x)
        shape = onp.broadcast_shapes(*(self._front.shape(x) for x in args))
        return [self.broadcast_to(x, shape) for x in args]

    def flip(self, m: Any, axis: Any = None, out: Any = None) -> Any:
        """Array with reversed axes, by default all."""
        if isinstance(m, NUMBERS):
            return onp.flip(m, axis)
        return self._op("_npi_flip", m, axis=None if axis is None else _tuple(axis), out=out)

    def flipud(self, m: Any) -> Any:
        """Array with the first axis reversed."""
        return self.flip(m, 0)

    def fliplr(self, m: Any) -> Any:
        """Array with the second axis reversed."""
        return self.flip(m, 1)

    def roll(self, a: Any, shift: Any, axis: Any = None) -> Any:
        """Elements shifted along axes."""
        return self._op(
            "_np_roll", a, shift=_tuple(shift), axis=None if axis is None else _tuple(axis)
        )

    def rot90(self, m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
        """Array rotated in a plane by 90 degrees, k times."""
        return self._op("_npi_rot90", m, k=k, axes=tuple(axes))

    def tile(self, A: Any, reps: Any) -> Any:  # noqa: N803 (NumPy's name)
        """Whole array repeated along axes."""
        if isinstance(A, NUMBERS):
            return onp.tile(A, reps)
        return self._op("tile", A, reps=_tuple(reps))

    def repeat(self, a: Any, repeats: Any, axis: Any = None) -> Any:
        """Each element repeated."""
        if isinstance(a, NUMBERS):
            return onp.repeat(a, repeats, axis)
        if not isinstance(repeats, (int, onp.integer)):
            raise MXNetError(f"repeats must be one integer, got {repeats!r}")
        return self._op("repeat", a, repeats=int(repeats), axis=axis)

    def resize(self, a: Any, new_shape: Any) -> Any:
        """Elements, repeated or cut, in another shape."""
        return self._op("_npi_resize_fallback", a, new_shape=sizes_of(new_shape))

    def pad(self, x: Any, pad_width: Any = None, mode: str = "constant", **kwargs: Any) -> Any:
        """Array with padding."""
        if not isinstance(pad_width, tuple):
            raise TypeError("`pad_width` must be tuple.")
        if not isinstance(mode, str) or mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
        constant = kwargs.pop("constant_values", 0)
        kind = kwargs.pop("reflect_type", "even")
        if kwargs:
            raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {sorted(kwargs)}")
        if kind != "even":
            raise ValueError(f"reflect_type must be 'even', got {kind!r}")
        if not isinstance(constant, NUMBERS):
            raise TypeError(f"constant_values must be one number, got {constant!r}")
        if pad_width and all(isinstance(width, int) for width in pad_width):
            pad_width = (pad_width,) * len(self._front.shape(x))
        pairs = tuple(tuple(pair) for pair in pad_width)
        return self._op(
            "_npi_pad", x, pad_width=pairs, mode=mode, constant_value=float(constant),
            reflect_type="even",
        )  # fmt: skip

    # Diagonals

    def diag(self, array: Any, k: int = 0) -> Any:
        """Diagonal of a matrix, or a matrix with a given diagonal."""
        return self._op("_np_diag", array, k=k)

    def diagflat(self, array: Any, k: int = 0) -> Any:
        """Matrix with the elements on a diagonal."""
        return self._op("_np_diagflat", array, k=k)

    def diagonal(self, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """Diagonal of two axes, as the last axis."""
        return self._op("_np_diagonal", a, offset=offset, axis1=axis1, axis2=axis2)

    def tril(self, m: Any, k: int = 0) -> Any:
        """Lower triangle, zeros above it."""
        return self._op("_npi_tril", m, k=k)

    def diag_indices_from(self, arr: Any) -> Any:
        """Indices of the main diagonal, one array for each axis."""
        made = self._op("_npi_diag_indices_from", arr)
        return made if self._front.is_symbolic else tuple(made)

    def unravel_index(self, indices: Any, shape: Any, order: str = "C") -> Any:
        """Coordinates of flat indices, one array for each axis."""
        refuse_order(order)
        made = self._op("_unravel_index", indices, shape=sizes_of(shape))
        return made if self._front.is_symbolic else tuple(made)

    def take(
        self, a: Any, indices: Any, axis: Any = None, mode: str = "raise", out: Any = None
    ) -> Any:
        """Elements along an axis by index."""
        if mode not in ("wrap", "clip", "raise"):
            raise NotImplementedError(f"function take does not support mode '{mode}'")
        if axis is None:
            return self._op("take", self._front.flat(a), indices, axis=0, mode=mode, out=out)
        return self._op("take", a, indices, axis=axis, mode=mode, out=out)

    # Joining

    def _joined(self, op: str, seq: Any, out: Any = None, **attrs: Any) -> Any:
        parts = tuple(seq) if isinstance(seq, (list, tuple)) else (seq,)
        return self._op(op, *parts, num_args=len(parts), out=out, **attrs)

    def concatenate(self, seq: Any, axis: Any = 0, out: Any = None) -> Any:
        """Arrays joined along an axis; flattened arrays if axis is None."""
        return self._joined("_npi_concatenate", seq, out, axis=axis)

    def append(self, arr: Any, values: Any, axis: Any = None) -> Any:
        """Values appended to an array."""
        return self.concatenate((arr, values), axis)

    def stack(self, arrays: Any, axis: int = 0, out: Any = None) -> Any:
        """Arrays joined along a new axis."""
        return self._joined("_npi_stack", arrays, out, axis=axis)

    def vstack(self, arrays: Any, out: Any = None) -> Any:
        """Arrays stacked as rows."""
        return self._joined("_npi_vstack", arrays, out)

    row_stack = vstack

    def hstack(self, arrays: Any) -> Any:
        """Arrays joined along axis 1; vectors along axis 0."""
        return self._joined("_npi_hstack", arrays)

    def dstack(self, arrays: Any) -> Any:
        """Arrays joined along the third axis."""
        return self._joined("_npi_dstack", arrays)

    def column_stack(self, tup: Any) -> Any:
        """Vectors joined as columns."""
        return self._joined("_npi_column_stack", tup)

    def _atleast(self, count: int, arys: tuple[Any, ...]) -> Any:
        made = self._op(f"_np_atleast_{count}d", *arys, num_args=len(arys))
        return made

    def atleast_1d(self, *arys: Any) -> Any:
        """Each array with at least one axis."""
        return self._atleast(1, arys)

    def atleast_2d(self, *arys: Any) -> Any:
        """Each array with at least two axes."""
        return self._atleast(2, arys)

    def atleast_3d(self, *arys: Any) -> Any:
        """Each array with at least three axes."""
        return self._atleast(3, arys)

    # Splitting

    def split(self, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
        """Equal slices along an axis, or slices that start at indices."""
        if isinstance(indices_or_sections, int) and not self._front.is_symbolic:
            self._front.check("_split_v2", ary)
            size = self._front.shape(ary)[axis]
            if indices_or_sections < 1 or size % indices_or_sections:
                raise ValueError("array split does not result in an equal division")
            given = {"num_outputs": int(indices_or_sections), "axis": axis}
            return self._front.several("SliceChannel", ary, **given)
        return self._parts("_split_v2", ary, indices_or_sections, axis=axis)

    def array_split(self, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
        """Slices along an axis, the first of which may be longer by one."""
        return self._parts("_split_v2", ary, indices_or_sections, axis=axis)

    def _parts(self, op: str, ary: Any, where: Any, **attrs: Any) -> Any:
        if isinstance(where, (int, onp.integer)):
            if where < 1:
                raise ValueError("number of sections must be larger than 0")
            given = {"indices": (), "sections": int(where)}
        elif isinstance(where, (list, tuple, set)):
            given = {"indices": (0, *where), "sections": 0}
        else:
            raise ValueError(
                "indices_or_sections must be either int, or tuple / list / set of ints"
            )
        return self._front.several(op, ary, squeeze_axis=False, **given, **attrs)

    def hsplit(self, ary: Any, indices_or_sections: Any) -> Any:
        """Slices along axis 1; for vectors along axis 0. The first may be longer by one."""
        self._require_axes("hsplit", ary, 1)
        return self._parts("_npi_hsplit", ary, indices_or_sections)

    def vsplit(self, ary: Any, indices_or_sections: Any) -> Any:
        """Slices along axis 0."""
        self._require_axes("vsplit", ary, 2)
        return self.split(ary, indices_or_sections, 0)

    def dsplit(self, ary: Any, indices_or_sections: Any) -> Any:
        """Slices along axis 2."""
        self._require_axes("dsplit", ary, 3)
        self._require_equal(ary, indices_or_sections)
        return self._parts("_npi_dsplit", ary, indices_or_sections)

    def _require_axes(self, name: str, ary: Any, count: int) -> None:
        if not self._front.is_symbolic and len(self._front.shape(ary)) < count:
            raise ValueError(f"{name} only works on arrays of {count} or more dimensions")

    def _require_equal(self, ary: Any, sections: Any) -> None:
        if self._front.is_symbolic or not isinstance(sections, int) or sections < 1:
            return
        if self._front.shape(ary)[2] % sections:
            raise ValueError("array split does not result in an equal division")

    # Differences, insertion and deletion

    def diff(
        self, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
    ) -> Any:
        """Differences of adjacent elements along an axis."""
        if prepend is not None or append is not None:
            raise NotImplementedError("prepend and append options are not supported yet")
        return self._op("_npi_diff", a, n=n, axis=axis)

    def ediff1d(self, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
        """Differences of adjacent elements of the flattened array, with optional edges."""
        operands: list[Any] = [ary]
        given: dict[str, Any] = {}
        for side, value in (("begin", to_begin), ("end", to_end)):
            is_tensor = isinstance(value, self._front.tensor)
            given[f"to_{side}_arr_given"] = is_tensor
            given[f"to_{side}_scalar"] = None if is_tensor or value is None else float(value)
            operands += [value] if is_tensor else []
        return self._op("_npi_ediff1d", *operands, **given)

    def insert(self, arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
        """Values inserted before indices of an axis."""
        given: dict[str, Any] = {"axis": axis}
        operands = [arr]
        if isinstance(values, NUMBERS):
            given["val"] = float(values)
        elif isinstance(values, self._front.tensor):
            operands.append(values)
        else:
            raise TypeError(f"values must be a number or an array, got {type(values)}")
        return self._op(*self._with_positions("insert", obj, operands, given), **given)

    def delete(self, arr: Any, obj: Any, axis: Any = None) -> Any:
        """Array without the elements at indices of an axis."""
        if not isinstance(arr, self._front.tensor):
            raise TypeError(f"'arr' can not support type {type(arr)}")
        given: dict[str, Any] = {"axis": axis}
        return self._op(*self._with_positions("delete", obj, [arr], given), **given)

    def _with_positions(
        self, name: str, obj: Any, operands: list[Any], given: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Operator and operands; indices that are not tensors are added to ``given``."""
        forms = ("scalar", "slice", "tensor")
        if isinstance(obj, (int, onp.integer)) and not isinstance(obj, bool):
            given["int_ind"], form = int(obj), 0
        elif isinstance(obj, slice):
            step = 1 if obj.step is None else obj.step
            given.update(start=obj.start, stop=obj.stop, step=step)
            form = 1
        elif isinstance(obj, self._front.tensor):
            operands.append(obj)
            form = 2
        else:
            raise TypeError(f"'obj' can not support type {type(obj)}")
        op = "_npi_delete" if name == "delete" else f"_npi_insert_{forms[form]}"
        return (op, *operands)


_MODES = ("constant", "edge", "reflect", "symmetric", "maximum", "minimum")


def _tuple(axis: Any) -> tuple[int, ...]:
    return (int(axis),) if isinstance(axis, (int, onp.integer)) else tuple(axis)
