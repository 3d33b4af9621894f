"""Arrays with a tape entry: variables, their gradients, and recorded views.

Input: a :class:`.memory.DenseArray`. Output: the same with ``attach_grad``, ``grad`` and
``backward``. Gradients are added with the arrays' ``+``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from .._core.async_safety import restoring
from .._core.frames import FAILURES, public, shortened
from .._core.recording import FLAGS, recording_as
from .._core.types import shape_text
from ..context import Context
from ..errors import DTypeError, MXNetError, ShapeError
from ..ops.registry import lookup
from ..runtime.arena import address_of
from .memory import DenseArray
from .sparse_dispatch import is_dense, sparse_arrays
from .tape import (
    Entry,
    Gradient,
    Gradients,
    Leaf,
    Some,
    What,
    record,
    require_request,
    run_back,
)

Self = TypeVar("Self", bound="TapedArray")


class TapedArray(DenseArray):
    """Array that can have an entry on the tape."""

    __slots__ = ()

    # Variables

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make this array a variable with a gradient of zeros, detached from its history.

        ``stype`` is the storage type of the gradient, by default the array's. Raises KeyError
        unless ``grad_req`` is "write", "add" or "null", and ValueError for an unknown storage type.
        """
        require_request(grad_req)
        self._mark(self._untouched_zeros(stype), grad_req)

    def _untouched_zeros(self, stype: str | None) -> Gradient:
        """Zeros of this shape and dtype with storage type ``stype``.

        Until they are written, dense zeros take no memory and no time: the system allocates and
        clears page by page. ``np.zeros_like`` writes every zero.
        """
        if is_dense(stype):
            return self._dense(np.zeros(self._data.shape, self._data.dtype))  # type: ignore[return-value]
        return sparse_arrays().zeros(stype, self.shape, self._ctx, self.dtype)

    def _mark(self, grad: Gradient, request: str) -> None:
        self._entry = None if request == "null" else Entry(Leaf(grad, request))

    @property
    def _leaf(self) -> Leaf | None:
        owner = self._entry.owner if self._entry is not None else None
        return owner if isinstance(owner, Leaf) else None

    @property
    def grad(self: Self) -> Self | None:
        """Gradient as an array on the variable's gradient memory; None if not a variable."""
        return None if self._leaf is None else alias(self._leaf.grad)  # type: ignore[return-value]

    @property
    def _fresh_grad(self) -> bool:
        """Whether a gradient was stored since the flag was cleared."""
        return self._leaf is not None and self._leaf.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, is_fresh: bool) -> None:
        if self._leaf is not None:
            self._leaf.fresh = bool(is_fresh)

    def backward(
        self,
        out_grad: TapedArray | None = None,
        retain_graph: bool = False,
        train_mode: bool = True,
    ) -> None:
        """Compute the gradients with respect to every variable that this array depends on.

        ``out_grad`` has this array's shape and dtype; by default ones. The recorded graph is freed
        unless ``retain_graph``. Raises MXNetError for an array that was not recorded.
        """
        try:
            run_backward([self], [out_grad], retain_graph, train_mode)
        except FAILURES as error:
            raise shortened(error)

    # Recorded views and copies

    def __getitem__(self: Self, key: object) -> Self:
        """View for integers and contiguous slices, else a copy; a single element has shape (1,).

        With ``np_shape`` it has the shape ().
        """
        try:
            result = super().__getitem__(key)
            if FLAGS.recording and self._entry is not None:
                _record_part(self, self._key(key), result)
            return result
        except FAILURES as error:
            raise shortened(error)

    def copy(self: Self) -> Self:
        """Copy of the array."""
        return record_same(self, super().copy())

    @public
    def as_in_context(self: Self, context: Context) -> Self:
        """Copy in ``context``; the array itself if it is already there. MXNetError for a GPU."""
        found = super().as_in_context(context)
        return found if found is self else record_same(self, found)

    @public
    def copyto(self: Self, other: Self | Context) -> Self | bool:
        """Write the values to ``other``, or copy them to another context."""
        found = super().copyto(other)
        return record_same(self, found) if isinstance(found, DenseArray) else found

    def __setitem__(self, key: object, value: Any) -> None:
        """Assign ``value``, broadcast. Raises ValueError if the shapes do not match.

        Under ``record``, a computed array can only be assigned to a whole array that is not
        recorded.
        """
        is_taped = FLAGS.recording and isinstance(value, TapedArray) and value._entry is not None
        if is_taped and not (_is_whole(key) and value.shape == self.shape):
            raise MXNetError(
                "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with "
                "autograd."
            )
        try:
            super().__setitem__(key, value)
        except FAILURES as error:
            raise shortened(error)
        if is_taped:
            record_same(value, self)


def _is_whole(key: object) -> bool:
    """Test whether an index selects the whole array; arrays are not compared."""
    return key is Ellipsis or key is None or (isinstance(key, slice) and key == slice(None))


def untouched_zeros(x: TapedArray, stype: str = "default") -> Gradient:
    """Zeros of the shape and dtype of ``x``; dense ones take no memory until they are written."""
    return x._untouched_zeros(stype)


def alias(x: Self, entry: Entry | None = None) -> Self:
    """Array object that shares the memory of ``x``, with this tape entry."""
    return x._same_memory(entry)


def record_same(x: Self, copied: Self) -> Self:
    """``copied``, recorded as having the elements of ``x`` in the same order."""
    if FLAGS.recording and x._entry is not None:
        shape, dtype = x.shape, x.dtype
        what = _same_as_operator(shape, copied.shape)
        record(what, [x], [copied], lambda step, douts, wanted: [_as(_only(douts), shape, dtype)])
    return copied


def _same_as_operator(shape: tuple[int, ...], other: tuple[int, ...]) -> What:
    if shape == other:
        return [(lookup("_copy"), {})]
    return [(lookup("Reshape"), {"shape": other})]


def _only(douts: Some) -> Gradient:
    """Output gradient of a step with one result, which is always present here."""
    (d,) = douts
    assert d is not None
    return d


def _as(d: Gradient, shape: tuple[int, ...], dtype: type) -> Gradient:
    return d.astype(dtype, copy=False).reshape(shape)


def _record_part(x: TapedArray, key: tuple[object, ...], part: TapedArray) -> None:
    shape, what = x.shape, _part_as_operators(key, part.shape)
    record(what, [x], [part], lambda step, douts, wanted: [_put(_only(douts), key, shape)])


def _part_as_operators(key: tuple[object, ...], shape: tuple[int, ...]) -> What:
    """Operators equivalent to an index: slice and Reshape; none for index arrays."""
    bounds: list[tuple[int | None, ...]] = []
    for one in key:
        if isinstance(one, slice):
            marks = (one.start, one.stop, one.step)
            bounds.append(tuple(None if mark is None else int(mark) for mark in marks))
        elif isinstance(one, (int, np.integer)):
            bounds.append((int(one), int(one) + 1 or None, None))
        else:
            return []
    attrs = dict(zip(("begin", "end", "step"), zip(*bounds)))
    return [(lookup("slice"), attrs), (lookup("Reshape"), {"shape": shape})]


def _put(d: Gradient, key: tuple[Any, ...], shape: tuple[int, ...]) -> Gradient:
    """Gradient of indexing: zeros of ``shape`` with ``d`` added at ``key``."""
    whole = np.zeros(shape, d.dtype)
    np.add.at(whole, key, d._data.reshape(whole[key].shape))
    result = d._dense(whole)
    if FLAGS.recording:
        own = d.shape
        record([], [d], [result], lambda step, douts, wanted: [_part(_only(douts), key, own)])
    return result


def _part(d: Gradient, key: tuple[object, ...], shape: tuple[int, ...]) -> Gradient:
    return d[key].reshape(shape)


# Backward pass


@restoring(FLAGS)
def run_backward(
    heads: Sequence[TapedArray],
    head_grads: Sequence[TapedArray | None],
    retain_graph: bool,
    train_mode: bool,
) -> None:
    """Write or add the gradient with respect to each variable to its gradient array.

    Raises MXNetError for heads that are not on the tape, ShapeError and DTypeError for a head
    gradient that does not match its head.
    """
    given = [_head_gradient(*pair) for pair in zip(heads, head_grads)]
    with recording_as(False, train_mode):
        reached, leaves = run_back(heads, given, _added, retain_graph, in_place=True)
        for leaf in leaves:
            _store(leaf, reached.get(Entry(leaf)))


@restoring(FLAGS)
def run_gradients(
    heads: Sequence[TapedArray],
    variables: Sequence[TapedArray],
    head_grads: Sequence[TapedArray | None],
    retain_graph: bool,
    create_graph: bool,
    train_mode: bool,
) -> list[Gradient]:
    """Gradients with respect to the variables, as new arrays; recorded if ``create_graph``.

    Raises MXNetError for a variable that has no gradient or that no head depends on.
    """
    for number, x in enumerate(variables, 1):
        if x._leaf is None:
            raise MXNetError(
                f"Cannot differentiate with respect to the {number}-th variable because it does "
                "not require gradient. Call x.attach_grad() before autograd.record()."
            )
    given = [_head_gradient(*pair) for pair in zip(heads, head_grads)]
    with recording_as(create_graph, train_mode):
        wanted = [x._leaf for x in variables if x._leaf is not None]
        reached, leaves = run_back(heads, given, _added, retain_graph, wanted=wanted)
        found = [_arrived(number, x, reached, leaves) for number, x in enumerate(variables, 1)]
        return [d._of_kind(x._plain) for d, x in zip(_apart(found, given), variables)]


def _added(x: Any, y: Any) -> Any:
    """Sum of two gradients, of the first one's class."""
    return x + y._of_kind(x._plain)


def _apart(found: list[Gradient], others: Sequence[Gradient]) -> list[Gradient]:
    """These arrays, copied where they share memory with each other or with ``others``."""
    taken = {address_of(x._data) for x in others}
    apart: list[Gradient] = []
    for x in found:
        apart.append(x.copy() if address_of(x._data) in taken else x)
        taken.add(address_of(x._data))
    return apart


def _arrived(number: int, x: TapedArray, reached: Gradients, leaves: list[Leaf]) -> Gradient:
    if x._leaf is None or x._leaf not in leaves:
        raise MXNetError(
            f"Cannot differentiate with respect to the {number}-th variable because it is "
            "unreachable from the outputs."
        )
    found = reached.get(Entry(x._leaf))
    return x._dense(np.zeros_like(x._data)) if found is None else found


def _head_gradient(head: TapedArray, given: TapedArray | None) -> Any:
    """Head gradient: ones, or the given array, whose shape and dtype must match."""
    if given is None:
        return head._dense(np.ones_like(head._data))
    if not isinstance(given, DenseArray):
        raise AttributeError(f"a head gradient is an NDArray, got {type(given)}: pass nd.array(x)")
    if given.shape != head.shape:
        mine, theirs = shape_text(head.shape), shape_text(given.shape)
        raise ShapeError(f"the head has shape {mine}, but its gradient has shape {theirs}")
    if given.dtype != head.dtype:
        raise DTypeError(
            f"the head is {np.dtype(head.dtype).name}, but its gradient is "
            f"{np.dtype(given.dtype).name}"
        )
    return given


def _store(leaf: Leaf, d: Gradient | None) -> None:
    leaf.fresh = True
    if leaf.request == "add":
        if d is not None:
            leaf.grad._receive(_added(leaf.grad, d))
    elif d is None:
        leaf.grad._write(0)
    elif d.stype != "default" or d._data is not leaf.grad._data:  # else pull wrote it in place
        leaf.grad._receive(d)
