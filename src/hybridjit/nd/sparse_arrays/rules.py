"""Calls that compute on what is stored, and the storage type that comes out.

In: a call of which an operand is sparse. Out: its results, recorded as other calls are; or
NotImplemented, and the operator computes on dense values. Storage types are those of MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...context import Context
from ...errors import MXNetError
from ...formats.stored import CSR, ROW_SPARSE, Stored, nothing, stored
from ...ops.attrs import Attrs
from ...ops.namespace import attr_texts
from ...ops.record import OnStored, OpDef
from ...ops.registry import run_ref
from ...recording import FLAGS
from ..calls import checked_attrs
from ..ndarray import NDArray, record_made
from ..tape import Pull, Some, Step, record
from . import elements, lazy_updates, products
from .array import BaseSparseNDArray, join_rows, wrapped


class Call(NamedTuple):
    """One call with its attributes' values."""

    op: OpDef
    inputs: Sequence[NDArray]
    attrs: Attrs

    @property
    def stypes(self) -> tuple[str, ...]:
        """The operands' storage types."""
        return tuple(x.stype for x in self.inputs)

    def stored(self, number: int) -> Stored:
        """What a sparse operand stores."""
        x = self.inputs[number]
        assert isinstance(x, BaseSparseNDArray)
        return x._stored

    def ref(self, *arrays: np.ndarray) -> np.ndarray:
        """The operator's meaning on these arrays."""
        return run_ref(self.op, list(arrays), self.attrs)[0]

    def made(self, result: Stored | np.ndarray) -> NDArray:
        """A result where the operands are."""
        ctx = self.inputs[0].context
        return wrapped(result, ctx) if isinstance(result, Stored) else NDArray(result, ctx)


class Found(NamedTuple):
    """A result, and the way back where it is not the operator's own."""

    result: NDArray
    pull: Pull | None = None


Rule = Callable[[Call], Found | None]


def run(
    op: OpDef,
    inputs: Sequence[NDArray],
    given: Mapping[str, object],
    out: object = None,
    ctx: Context | None = None,
) -> Any:
    """What the call gives, NotImplemented where dense values are to be computed on."""
    how = op.traits.on_stored
    rule = _RULES.get(how)
    if rule is None:
        return NotImplemented
    if how not in _OF_DENSE and not any(isinstance(x, BaseSparseNDArray) for x in inputs):
        return NotImplemented
    attrs = checked_attrs(op, attr_texts(op, given), [_outline(x) for x in inputs])
    call = Call(op, inputs, attrs)
    found = rule(call)
    if found is None:
        return NotImplemented
    if FLAGS.recording and any(x._entry is not None for x in inputs):
        if found.pull is None:
            record_made(op, inputs, [found.result], attrs)
        else:
            record([(op, attrs)], inputs, [found.result], found.pull)
    return found.result if out is None else _given(found.result, out)


def _outline(x: NDArray) -> np.ndarray:
    """An array of this shape and type that takes no memory."""
    if isinstance(x, BaseSparseNDArray):
        return np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return x._data


def _given(result: NDArray, out: object) -> object:
    target = out[0] if isinstance(out, (list, tuple)) else out
    if not isinstance(target, NDArray):
        raise TypeError(f"out is an NDArray or a list of them, got {type(target)}")
    if target is not result:
        target._receive(result)
    if FLAGS.recording and result._entry is not None:
        target._entry = result._entry
    return out


def _each(call: Call) -> Found | None:
    return Found(call.made(elements.on_values(call.stored(0), call.ref)))


def _each_of_zero(call: Call) -> Found | None:
    at_zero = call.ref(np.zeros(1, np.float32))
    return None if at_zero[0] != 0 else _each(call)


def _zeros(call: Call) -> Found | None:
    x = call.stored(0)
    return Found(call.made(nothing(x.stype, x.shape, x.values.dtype)))


def _union(call: Call) -> Found | None:
    if call.stypes[0] != call.stypes[1]:
        return None
    return Found(call.made(elements.on_union([call.stored(0), call.stored(1)], call.ref)))


def _product(call: Call) -> Found | None:
    left, right = call.stypes
    if left == right:
        both = [call.stored(0), call.stored(1)]
        return Found(call.made(elements.on_union(both, call.ref, True)))
    if "default" not in (left, right):
        return None
    at = 0 if right == "default" else 1
    dense = call.inputs[1 - at]._data
    return Found(call.made(elements.with_dense(call.stored(at), dense, call.ref)))


def _scaled(call: Call) -> Found | None:
    if call.stypes != (CSR, "default") or call.inputs[1].ndim > 2:
        return None
    x, dense = call.stored(0), call.inputs[1]._data
    if np.broadcast_shapes(x.shape, dense.shape) != x.shape:
        return None
    return Found(call.made(elements.with_dense(x, dense, call.ref)))


def _sum(call: Call) -> Found | None:
    if set(call.stypes) != {ROW_SPARSE}:
        return None
    held = [call.stored(i) for i in range(len(call.inputs))]
    return Found(call.made(elements.on_union(held, call.ref)))


def _joined(call: Call) -> Found | None:
    if set(call.stypes) != {CSR} or call.attrs["dim"] != 0:
        return None
    return Found(call.made(join_rows(CSR, [call.stored(i) for i in range(len(call.inputs))])))


def _cut(call: Call) -> Found | None:
    steps = call.attrs["step"] or ()
    if call.stypes != (CSR,) or any(step not in (None, 1) for step in steps):
        return None
    x = call.stored(0)
    cuts = [
        slice(begin, end).indices(size)
        for begin, end, size in zip(call.attrs["begin"], call.attrs["end"], x.shape)
    ]
    begins, ends = [c[0] for c in cuts], [max(c[0], c[1]) for c in cuts]
    return Found(call.made(elements.part(x, begins, ends)))


def _taken(call: Call) -> Found | None:
    data, indices = call.inputs
    mode, axis = call.attrs["mode"], call.attrs["axis"]
    is_here = call.stypes == (CSR, "default") and axis in (0, -2) and indices.ndim == 1
    if not is_here or mode not in ("clip", "wrap"):
        return None
    rows, count = indices._data.astype(np.int64), data.shape[0]
    rows = rows % count if mode == "wrap" else np.clip(rows, 0, count - 1)
    return Found(call.made(elements.taken(call.stored(0), rows)))


def _retained(call: Call) -> Found | None:
    if call.stypes[0] != ROW_SPARSE:
        return None
    x, wanted = call.stored(0), call.inputs[1]._data.astype(np.int64)
    if len(wanted) and (wanted.min() < 0 or wanted.max() >= x.shape[0]):
        raise MXNetError(f"retain: rows {wanted.min()} to {wanted.max()} of {x.shape[0]}")
    held = Stored(ROW_SPARSE, x.shape, elements.rows_at(x, wanted), (wanted.copy(),))
    return Found(call.made(held))


def _squares(call: Call) -> Found | None:
    """Along rows of row_sparse arrays; kept as rows where the axis is kept."""
    axes = call.attrs["axis"]
    if call.stypes != (ROW_SPARSE,) or axes not in ((1,), (-1,)) or call.inputs[0].ndim != 2:
        return None
    x = call.stored(0)
    sums = np.square(x.values).sum(axis=1, keepdims=True)
    shape = (x.shape[0], 1)
    held = Stored(ROW_SPARSE, shape, sums, (x.rows.copy(),))
    result = held if call.attrs["keepdims"] else held.dense().reshape(-1)

    def pull(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        d = douts[0]
        assert d is not None
        by_row = d._data.reshape(shape)[x.rows]
        return [call.made(x._replace(values=2 * x.values * by_row))]

    return Found(call.made(result), pull)


def _cast(call: Call) -> Found | None:
    x, wanted = call.inputs[0], call.attrs["stype"]
    if x.stype == wanted:
        return Found(x.copy() if wanted != "default" else NDArray(x._data.copy(), x.context))
    if "default" not in (x.stype, wanted):
        raise ValueError(f"cast_storage from {x.stype} to {wanted} is not supported")
    if wanted == "default":
        return Found(NDArray(x.asnumpy(), x.context))
    if wanted == CSR and x.ndim != 2:
        raise ValueError(
            f"To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is {x.shape}"
        )
    return Found(call.made(stored(wanted, x._data)))


def _dot(call: Call) -> Found | None:
    wanted = call.attrs["forward_stype"]
    result = _natural_dot(call)
    if result is None:
        if wanted in (None, "None", "default"):
            return None
        result = call.ref(*(x._data for x in call.inputs))
    kind = result.stype if isinstance(result, Stored) else "default"
    if wanted not in (None, "None", kind):
        whole = result.dense() if isinstance(result, Stored) else result
        result = whole if wanted == "default" else stored(wanted, whole)
    return Found(call.made(result), _back_from_dot(call))


def _natural_dot(call: Call) -> Stored | np.ndarray | None:
    """csr by dense or row_sparse, its transpose by these, dense by csr; None for all others."""
    kinds, (lhs, rhs) = call.stypes, call.inputs
    across, down = call.attrs["transpose_a"], call.attrs["transpose_b"]
    if lhs.ndim != 2 or rhs.ndim != 2:
        return None
    if kinds[0] == CSR and kinds[1] != CSR and not down:
        by = rhs._stored if isinstance(rhs, BaseSparseNDArray) else rhs._data
        x = call.stored(0)
        return products.transposed_times(x, by) if across else products.times(x, by)
    if kinds == ("default", CSR) and not across:
        return products.dense_times(lhs._data, call.stored(1), down)
    return None


def _back_from_dot(call: Call) -> Pull | None:
    """To the dense operand of a csr one; None is the operator's own way."""
    is_plain = not (call.attrs["transpose_a"] or call.attrs["transpose_b"])
    if call.stypes[0] != CSR or not is_plain or call.inputs[0]._entry is not None:
        return None
    x = call.stored(0)

    def pull(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        d = douts[0]
        assert d is not None
        return [None, call.made(products.transposed_times(x, d._data))]

    return pull


def _lookup(call: Call) -> Found | None:
    """Rows of the weight; the way back gives the rows that occur, each once."""
    is_sparse = call.attrs.get("sparse_grad", True)
    data, weight = call.inputs
    if weight.stype == CSR or not (is_sparse or weight.stype == ROW_SPARSE):
        return None
    shape = weight.shape
    index = np.clip(data._data.astype(np.int64), 0, shape[0] - 1)
    if isinstance(weight, BaseSparseNDArray):
        rows = elements.rows_at(weight._stored, index.reshape(-1))
        result = rows.reshape(*index.shape, shape[1])
    else:
        result = call.ref(data._data, weight._data)

    def pull(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        d = douts[0]
        if wanted[0]:
            raise MXNetError("Embedding layer doesn't support calculate data gradient")
        assert d is not None
        flat = d._data.reshape(-1, shape[1])
        return [None, call.made(elements.sum_rows(shape, index.reshape(-1), flat))]

    return Found(call.made(result), pull if is_sparse else None)


def _update(call: Call) -> Found | None:
    updated = lazy_updates.update(call.op, call.inputs, call.attrs)
    return Found(call.inputs[0]) if updated else None


def _sparse_update(call: Call) -> Found | None:
    return None if call.stypes[0] == "default" else _update(call)


_RULES: dict[OnStored, Rule] = {
    OnStored.EACH: _each,
    OnStored.EACH_OF_ZERO: _each_of_zero,
    OnStored.UNION: _union,
    OnStored.PRODUCT: _product,
    OnStored.SCALED: _scaled,
    OnStored.SUM: _sum,
    OnStored.SQUARES: _squares,
    OnStored.ZEROS: _zeros,
    OnStored.JOINED: _joined,
    OnStored.CUT: _cut,
    OnStored.TAKEN: _taken,
    OnStored.RETAINED: _retained,
    OnStored.CAST: _cast,
    OnStored.DOT: _dot,
    OnStored.LOOKUP: _lookup,
    OnStored.UPDATE: _update,
    OnStored.SPARSE_UPDATE: _sparse_update,
}
# Also where every operand is dense.
_OF_DENSE = frozenset({OnStored.CAST, OnStored.DOT, OnStored.LOOKUP})
