"""Operators that compute on stored values, and the storage types of their results.

Input: a call with a sparse operand. Output: its results, recorded as other calls; or
NotImplemented, and the operator computes on dense values. Storage types are those of MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.recording import FLAGS
from ...context import Context
from ...errors import MXNetError
from ...formats.stored import CSR, ROW_SPARSE, Stored, nothing, stored
from ...ops.attrs import Attrs
from ...ops.gradient import NoGradientError
from ...ops.namespace import attr_texts
from ...ops.record import OnStored, OpDef
from ...ops.registry import run_ref
from ..calls import prepared
from ..ndarray import NDArray, record_made
from ..tape import Pull, Some, Step, record
from . import elements, lazy_updates, products
from .array import BaseSparseNDArray, join_rows, wrapped


class Call(NamedTuple):
    """Call with its parsed attributes."""

    op: OpDef
    inputs: Sequence[NDArray]
    attrs: Attrs

    @property
    def stypes(self) -> tuple[str, ...]:
        """Storage types of the operands."""
        return tuple(x.stype for x in self.inputs)

    def stored(self, number: int) -> Stored:
        """Stored data of a sparse operand."""
        x = self.inputs[number]
        assert isinstance(x, BaseSparseNDArray)
        return x._stored

    def ref(self, *arrays: np.ndarray) -> np.ndarray:
        """Apply the operator's NumPy function to these arrays."""
        return run_ref(self.op, list(arrays), self.attrs)[0]

    def made(self, result: Stored | np.ndarray | NDArray) -> NDArray:
        """Wrap a result in the operands' context."""
        if isinstance(result, NDArray):
            return result
        ctx = self.inputs[0].context
        return wrapped(result, ctx) if isinstance(result, Stored) else NDArray(result, ctx)


class Found(NamedTuple):
    """Result that is not yet computed.

    stype  its storage type
    make   computes it
    pull   backward function, unless it is the operator's own
    rows   operand whose gradient is row_sparse
    """

    stype: str
    make: Callable[[], Stored | np.ndarray | NDArray]
    pull: Pull | None = None
    rows: int | None = None


Rule = Callable[[Call], Found | None]


def run(
    op: OpDef,
    inputs: Sequence[NDArray],
    given: Mapping[str, object],
    out: object = None,
    ctx: Context | None = None,
) -> Any:
    """Result of the call, or NotImplemented if it computes on dense values."""
    if not is_ruled(op, inputs):
        return NotImplemented
    attrs = prepared(op, attr_texts(op, given), [_outline(x) for x in inputs]).attrs
    call = Call(op, inputs, attrs)
    found = find(call)
    if found is None:
        return NotImplemented
    result = call.made(found.make())
    if FLAGS.recording and any(x._entry is not None for x in inputs):
        if found.pull is None:
            record_made(op, inputs, [result], attrs)
        else:
            record([(op, attrs)], inputs, [result], found.pull)
    return result if out is None else _given(result, out)


def is_ruled(op: OpDef, inputs: Sequence[NDArray]) -> bool:
    """Test whether a rule applies to operands of these storage types."""
    how = op.traits.on_stored
    return how in _RULES and (
        how in _OF_DENSE or any(isinstance(x, BaseSparseNDArray) for x in inputs)
    )


def find(call: Call) -> Found | None:
    """Result of the rule; None if the call computes on dense values."""
    return _RULES[call.op.traits.on_stored](call)


def _outline(x: NDArray) -> np.ndarray:
    """Array of this shape and dtype that takes no memory."""
    if isinstance(x, BaseSparseNDArray):
        return np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return x._data


def _given(result: NDArray, out: object) -> object:
    target = out[0] if isinstance(out, (list, tuple)) else out
    if not isinstance(target, NDArray):
        raise TypeError(f"out must be an NDArray or a list of them, got {type(target)}")
    if target is not result:
        target._receive(result)
    if FLAGS.recording and result._entry is not None:
        target._entry = result._entry
    return out


def _each(call: Call) -> Found | None:
    x = call.inputs[0]
    return Found(x.stype, lambda: elements.on_values(call.stored(0), call.ref))


def _each_of_zero(call: Call) -> Found | None:
    at_zero = call.ref(np.zeros(1, np.float32))
    return None if at_zero[0] != 0 else _each(call)


def _quadratic(call: Call) -> Found | None:
    return _each_of_zero(call) if call.stypes == (CSR,) else None


def _zeros(call: Call) -> Found | None:
    x = call.inputs[0]
    return Found(x.stype, lambda: nothing(x.stype, x.shape, np.dtype(x.dtype)))


def _union(call: Call) -> Found | None:
    kind = call.stypes[0]
    if kind != call.stypes[1]:
        return None
    return Found(kind, lambda: elements.on_union([call.stored(0), call.stored(1)], call.ref))


def _product(call: Call) -> Found | None:
    left, right = call.stypes
    if left == right:
        return Found(
            left, lambda: elements.on_union([call.stored(0), call.stored(1)], call.ref, True)
        )
    if "default" not in (left, right):
        return None
    at = 0 if right == "default" else 1
    return Found(
        call.stypes[at],
        lambda: elements.with_dense(call.stored(at), call.inputs[1 - at]._data, call.ref),
    )


def _scaled(call: Call) -> Found | None:
    if call.stypes != (CSR, "default") or call.inputs[1].ndim > 2:
        return None
    x, dense = call.inputs
    if np.broadcast_shapes(x.shape, dense.shape) != x.shape:
        return None
    return Found(CSR, lambda: elements.with_dense(call.stored(0), dense._data, call.ref))


def _scattered_rows(call: Call) -> Found | None:
    """Operator applied to the rows of the first operand, for any storage type of the second."""
    if call.stypes[0] != ROW_SPARSE:
        return None
    return Found(
        ROW_SPARSE,
        lambda: elements.with_dense(call.stored(0), call.inputs[1]._data, call.ref),
    )


def _sum(call: Call) -> Found | None:
    if set(call.stypes) != {ROW_SPARSE}:
        return None
    count = len(call.inputs)
    return Found(
        ROW_SPARSE,
        lambda: elements.on_union([call.stored(i) for i in range(count)], call.ref),
    )


def _joined(call: Call) -> Found | None:
    if set(call.stypes) != {CSR} or call.attrs["dim"] != 0:
        return None
    count = len(call.inputs)
    return Found(CSR, lambda: join_rows(CSR, [call.stored(i) for i in range(count)]))


def _cut(call: Call) -> Found | None:
    steps = call.attrs["step"] or ()
    if call.stypes != (CSR,) or any(step not in (None, 1) for step in steps):
        return None
    cuts = [
        slice(begin, end).indices(size)
        for begin, end, size in zip(call.attrs["begin"], call.attrs["end"], call.inputs[0].shape)
    ]
    begins, ends = [c[0] for c in cuts], [max(c[0], c[1]) for c in cuts]
    return Found(CSR, lambda: elements.part(call.stored(0), begins, ends))


def _taken(call: Call) -> Found | None:
    data, indices = call.inputs
    mode, axis = call.attrs["mode"], call.attrs["axis"]
    is_here = call.stypes == (CSR, "default") and axis in (0, -2) and indices.ndim == 1
    if not is_here or mode not in ("clip", "wrap"):
        return None

    def make() -> Stored:
        rows, count = indices._data.astype(np.int64), data.shape[0]
        rows = rows % count if mode == "wrap" else np.clip(rows, 0, count - 1)
        return elements.taken(call.stored(0), rows)

    return Found(CSR, make)


def _retained(call: Call) -> Found | None:
    if call.stypes[0] != ROW_SPARSE:
        return None

    def make() -> Stored:
        x, wanted = call.stored(0), call.inputs[1]._data.astype(np.int64)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= x.shape[0]):
            raise MXNetError(
                f"retain: rows {wanted.min()} to {wanted.max()} are not all in an array of "
                f"{x.shape[0]} rows"
            )
        return Stored(ROW_SPARSE, x.shape, elements.rows_at(x, wanted), (wanted.copy(),))

    return Found(ROW_SPARSE, make, rows=0)


def _squares(call: Call) -> Found | None:
    """Sum of squares of row_sparse arrays along the row axis; row_sparse if the axis is kept."""
    axes = call.attrs["axis"]
    if call.stypes != (ROW_SPARSE,) or axes not in ((1,), (-1,)) or call.inputs[0].ndim != 2:
        return None
    shape = (call.inputs[0].shape[0], 1)
    keepdims, x = call.attrs["keepdims"], call.stored(0)

    def make() -> Stored | np.ndarray:
        sums = np.square(x.values).sum(axis=1, keepdims=True)
        held = Stored(ROW_SPARSE, shape, sums, (x.rows.copy(),))
        return held if keepdims else held.dense().reshape(-1)

    def pull(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        d = douts[0]
        assert d is not None
        if isinstance(d, BaseSparseNDArray) and d.stype == ROW_SPARSE:  # only its rows contribute
            rows = d._stored.rows
            values = 2 * elements.rows_at(x, rows) * d._stored.values
        else:
            rows = x.rows
            values = 2 * x.values * d._data.reshape(shape)[rows]
        return [call.made(Stored(ROW_SPARSE, x.shape, values, (rows.copy(),)))]

    return Found(ROW_SPARSE if keepdims else "default", make, pull, rows=0)


def _cast(call: Call) -> Found | None:
    x, wanted = call.inputs[0], call.attrs["stype"]
    if x.stype == wanted:
        return Found(wanted, lambda: x.copy() if wanted != "default" else x._data.copy())
    if "default" not in (x.stype, wanted):
        raise ValueError(f"cast_storage from {x.stype} to {wanted} is not supported")
    if wanted == "default":
        return Found(wanted, x.asnumpy)
    if wanted == CSR and x.ndim != 2:
        raise ValueError(
            f"To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is {x.shape}"
        )
    return Found(wanted, lambda: stored(wanted, x._data))


def _dot(call: Call) -> Found | None:
    wanted = call.attrs["forward_stype"]
    natural = _natural_dot(call)
    if natural is None:
        if wanted in (None, "None", "default"):
            return None
        natural = "default", lambda: call.ref(*(x._data for x in call.inputs))
    kind, make = natural
    pull = _pull_of_dot(call)
    rows = 1 if pull is not None and not call.attrs["transpose_a"] else None
    if wanted in (None, "None", kind):
        return Found(kind, make, pull, rows)

    def converted() -> Stored | np.ndarray:
        result = make()
        whole = result.dense() if isinstance(result, Stored) else result
        return whole if wanted == "default" else stored(wanted, whole)

    return Found(wanted, converted, pull, rows)


def _natural_dot(call: Call) -> tuple[str, Callable[[], Stored | np.ndarray]] | None:
    """Products of csr by dense or row_sparse, its transpose by these, dense by csr; else None."""
    kinds, (lhs, rhs) = call.stypes, call.inputs
    across, down = call.attrs["transpose_a"], call.attrs["transpose_b"]
    if lhs.ndim != 2 or rhs.ndim != 2:
        return None
    if kinds[0] == CSR and kinds[1] != CSR and not down:
        if across:
            return ROW_SPARSE, lambda: products.transposed_times(call.stored(0), _values(rhs))
        return "default", lambda: products.times(call.stored(0), _values(rhs))
    if kinds == ("default", CSR) and not across:
        return CSR, lambda: products.dense_times(lhs._data, call.stored(1), down)
    return None


def _values(x: NDArray) -> Stored | np.ndarray:
    return x._stored if isinstance(x, BaseSparseNDArray) else x._data


def _pull_of_dot(call: Call) -> Pull | None:
    """Backward function for a csr first operand; None selects the operator's own."""
    rhs = call.inputs[1]
    if call.stypes[0] != CSR or call.attrs["transpose_b"] or rhs.ndim != 2:
        return None
    across, x, by = call.attrs["transpose_a"], call.stored(0), _values(rhs)

    def pull(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        d = douts[0]
        assert d is not None
        by_rhs = (products.times if across else products.transposed_times)(x, d._data)
        if not wanted[0]:
            return [None, call.made(by_rhs)]
        whole = by.dense() if isinstance(by, Stored) else by
        by_lhs = whole @ d._data.T if across else d._data @ whole.T
        return [call.made(by_lhs), call.made(by_rhs)]

    return pull


def _lookup(call: Call) -> Found | None:
    """Rows of the weight; the gradient stores each row that occurs once."""
    is_sparse = call.attrs.get("sparse_grad", True)
    data, weight = call.inputs
    if weight.stype == CSR or not (is_sparse or weight.stype == ROW_SPARSE):
        return None
    shape = weight.shape

    def index() -> np.ndarray:
        return np.clip(data._data.astype(np.int64), 0, shape[0] - 1)

    def make() -> np.ndarray:
        if not isinstance(weight, BaseSparseNDArray):
            return call.ref(data._data, weight._data)
        rows = elements.rows_at(weight._stored, index().reshape(-1))
        return rows.reshape(*data.shape, shape[1])

    at = index() if FLAGS.recording else None

    def pull(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        d = douts[0]
        if wanted[0]:
            raise NoGradientError("Embedding layer doesn't support calculate data gradient")
        assert d is not None and at is not None
        flat = d._data.reshape(-1, shape[1])
        return [None, call.made(elements.sum_rows(shape, at.reshape(-1), flat))]

    return Found("default", make, pull if is_sparse else None, 1 if is_sparse else None)


def _counted(call: Call) -> Found | None:
    if call.stypes != (CSR,):
        return None

    def make() -> np.ndarray:
        starts = call.stored(0).places[0]
        return starts[-1:].copy() if call.attrs["axis"] is None else np.diff(starts)

    return Found("default", make)


def _looked_up(call: Call) -> Found | None:
    if call.stypes[0] != CSR:
        return None

    def make() -> np.ndarray:
        u, v = (x._data.astype(np.int64) for x in call.inputs[1:])
        return elements.values_at(call.stored(0), u, v)

    return Found("default", make)


def _learned_gamma(call: Call) -> Found | None:
    if call.attrs["fix_gamma"]:
        raise MXNetError(
            "fix_gamma=True is not supported for sparse ndarrays: pass fix_gamma=False or dense "
            f"arrays; the operands are {', '.join(call.stypes)}"
        )
    return None


def _update(call: Call) -> Found | None:
    if not lazy_updates.is_lazy(call.inputs, call.attrs):
        return None

    def make() -> NDArray:
        lazy_updates.update(call.op, call.inputs, call.attrs)
        return call.inputs[0]

    return Found(call.stypes[0], make)


def _sparse_update(call: Call) -> Found | None:
    return None if call.stypes[0] == "default" else _update(call)


_RULES: dict[OnStored, Rule] = {
    OnStored.EACH: _each,
    OnStored.EACH_OF_ZERO: _each_of_zero,
    OnStored.SCATTERED: _each,
    OnStored.SCATTERED_ROWS: _scattered_rows,
    OnStored.QUADRATIC: _quadratic,
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
    OnStored.COUNTED: _counted,
    OnStored.LOOKED_UP: _looked_up,
    OnStored.LEARNED_GAMMA: _learned_gamma,
    OnStored.UPDATE: _update,
    OnStored.SPARSE_UPDATE: _sparse_update,
}
# Operators with a rule also for operands that are all dense.
_OF_DENSE = frozenset({OnStored.CAST, OnStored.DOT, OnStored.LOOKUP})
