"""NDArray with its operators, and ``invoke``, which performs all eager calls.

Input: an operator, NDArrays and attribute values. Output: NDArrays with separate memory. Invalid
calls raise the exceptions of a compiled network. Under ``autograd.record`` calls are recorded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.config import config
from .._core.frames import public, shortened
from .._core.lazy import Above
from .._core.recording import FLAGS
from .._core.timeline import PLACE, TIMELINE
from .._core.types import UNKNOWN, DType, Number, Sizes, TensorType, product, type_of
from ..context import Context, current_context
from ..errors import MXNetError, ShapeError
from ..ops.attrs import Attrs, Declared
from ..ops.gradient import gradients
from ..ops.namespace import FLUENT, Method, attr_texts, is_variadic, namespace
from ..ops.record import OpDef
from ..ops.registry import lookup, run_ref, run_step
from .calls import check_out, prepared
from .memory import DENSE_KINDS, dtype_of
from .sparse_dispatch import HOOK, sparse_arrays
from .tape import Entry, Some, Step, record
from .taped import TapedArray, alias, record_same
from .traced_rule import RuleUse, kind_of, trace_for

if TYPE_CHECKING:
    from .eager_code import CallCode

numpy_mode = Above("np.arrays")

_NUMBERS = (float, int, np.generic)


class NDArray(TapedArray):
    """Array on a device, with MXNet's methods. Created by ``nd.array`` and similar functions."""

    __slots__ = ()

    __hash__ = object.__hash__  # identity: == is elementwise

    @public
    def astype(self, dtype: DType, copy: bool = True) -> NDArray:
        """Array converted to ``dtype``; the array itself if the dtype is equal and copy is False.

        None means float32.
        """
        wanted = dtype_of(np.float32 if dtype is None else dtype)
        if not copy and wanted == self._data.dtype:
            return self
        return invoke(lookup("Cast"), [self], {"dtype": wanted})

    @public
    def tostype(self, stype: str) -> NDArray:
        """Copy with storage type "default", "row_sparse" or, for matrices, "csr".

        Raises ValueError for csr unless the array has two axes, MXNetError for an unknown type.
        """
        if stype == "default":
            return self.copy()
        sparse_arrays()
        return invoke(lookup("cast_storage"), [self], {"stype": stype})

    # Shapes

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """View with another shape; 0, -1, -2, -3 and -4 have the meanings of ``nd.reshape``.

        Raises ValueError if elements would remain or a -1 cannot be inferred, ShapeError if there
        are too few elements or another code does not match the shape.
        """
        wanted = shape or kwargs.pop("shape", ())
        reverse = kwargs.pop("reverse", False)
        if kwargs:
            raise TypeError(f"reshape takes shape and reverse, got {', '.join(kwargs)}")
        if not wanted:
            raise AssertionError("Shape must be provided.")
        if len(wanted) == 1 and isinstance(wanted[0], (tuple, list)):
            wanted = wanted[0]
        return self._reshaped(tuple(operator.index(size) for size in wanted), reverse)

    def _reshaped(self, wanted: tuple[int, ...], reverse: bool) -> NDArray:
        try:
            codes = [size for size in wanted if size <= 0]  # NumPy accepts only a single -1
            sizes = wanted if codes in ([], [-1]) else self._decoded(wanted, reverse)
            view = self._plain(self._data.reshape(sizes), self._ctx, self._storage)
            return record_same(self, view)
        except (ValueError, ShapeError):
            is_smaller = min(wanted, default=1) > 0 and product(wanted) < self.size
            kind = ValueError if wanted.count(-1) == 1 or is_smaller else ShapeError
            hint = ": one size may be -1" if wanted.count(-1) > 1 else ""
            text = f"Cannot reshape array of size {self.size} into shape {wanted}{hint}"
            raise kind(text) from None

    def _decoded(self, wanted: tuple[int, ...], reverse: bool) -> tuple[int, ...]:
        """Sizes of a shape that contains codes."""
        op = lookup("Reshape")
        attrs = op.parse({"shape": str(wanted), "reverse": str(bool(reverse))})
        known = TensorType(self.shape, self._data.dtype)
        return op.infer((known,), (UNKNOWN,), **attrs)[1][0].dims

    def broadcast_to(self, shape: Sizes) -> NDArray:
        """Array repeated along axes of size 1 and new leading axes. Raises ValueError."""
        if not np.isfinite(np.asarray(shape, np.float64)).all():
            raise ValueError(f"a shape consists of integers, got {shape}")
        sizes = tuple(int(size) for size in np.atleast_1d(shape))
        ones = (1,) * (len(sizes) - self.ndim)
        source = self._reshaped(ones + self.shape, False) if ones else self
        try:
            return invoke(lookup("broadcast_to"), [source], {"shape": sizes})
        except ShapeError as error:
            raise ValueError(str(error)) from None

    def broadcast_like(self, other: NDArray, **axes: object) -> NDArray:
        """Array broadcast to another array's shape, or along given axes to its axes."""
        if not axes:
            return self.broadcast_to(other.shape)
        return invoke(lookup("broadcast_like"), [self, other], axes)

    @public
    def flatten(self, inplace: bool = False) -> NDArray:
        """Array with two axes, the first unchanged; a view if ``inplace``."""
        return self._same_elements("Flatten", {}, inplace)

    @public
    def expand_dims(self, axis: int, inplace: bool = False) -> NDArray:
        """Array with a new axis of size 1; a view if ``inplace``."""
        return self._same_elements("expand_dims", {"axis": axis}, inplace)

    @public
    def squeeze(self, axis: Sizes | None = None, inplace: bool = False) -> NDArray:
        """Array without the given axes of size 1, by default all; a view if ``inplace``."""
        return self._same_elements("squeeze", {"axis": axis}, inplace)

    def _same_elements(self, name: str, given: Mapping[str, object], inplace: bool) -> NDArray:
        """Result of an operator that changes only the shape, as a copy or as a view.

        For a view, raises AssertionError where the copy raises ShapeError.
        """
        try:
            result = invoke(lookup(name), [self], given)
        except ShapeError as error:
            if inplace:
                raise AssertionError(str(error)) from None
            raise
        return self._reshaped(result.shape, False) if inplace else result

    @property
    def T(self) -> NDArray:
        """Copy with reversed axes."""
        return invoke(lookup("transpose"), [self], {}) if self.ndim else self.copy()

    def diag(self, k: int = 0, **kwargs: object) -> NDArray:
        """``k``-th diagonal, or a matrix with this diagonal."""
        return invoke(lookup("diag"), [self], {"k": k, **kwargs})

    def split_v2(self, *args: Declared, **kwargs: Declared) -> NDArray | list[NDArray]:
        """Arrays from a split along an axis, as ``nd.split_v2``."""
        return split_v2(self, *args, **kwargs)

    def slice_assign(
        self,
        rhs: NDArray,
        begin: Sequence[int | None],
        end: Sequence[int | None],
        step: Sequence[int | None],
    ) -> NDArray:
        """Write ``rhs`` to the slice from ``begin`` to ``end`` with ``step``; returns this
        array."""
        self[tuple(map(slice, begin, end, step or [None] * len(begin)))] = rhs
        return self

    def slice_assign_scalar(
        self,
        value: float,
        begin: Sequence[int | None],
        end: Sequence[int | None],
        step: Sequence[int | None],
    ) -> NDArray:
        """Write one number to the slice from ``begin`` to ``end``; returns this array."""
        self[tuple(map(slice, begin, end, step or [None] * len(begin)))] = value
        return self

    def as_nd_ndarray(self) -> NDArray:
        """Return the array itself."""
        return self

    def as_np_ndarray(self) -> Any:
        """Array of NumPy mode that shares the memory and the tape entry."""
        return self._of_kind(numpy_mode.ndarray)

    # Python's operators

    def __neg__(self) -> NDArray:
        return multiply(self, -1.0)

    def __abs__(self) -> NDArray:
        return invoke(lookup("abs"), [self], {})

    def __add__(self, other: object) -> NDArray:
        return add(self, other)

    def __radd__(self, other: object) -> NDArray:
        return add(other, self)

    def __iadd__(self, other: object) -> NDArray:
        return add(self, other, self)

    def __sub__(self, other: object) -> NDArray:
        return subtract(self, other)

    def __rsub__(self, other: object) -> NDArray:
        return subtract(other, self)

    def __isub__(self, other: object) -> NDArray:
        return subtract(self, other, self)

    def __mul__(self, other: object) -> NDArray:
        return multiply(self, other)

    def __rmul__(self, other: object) -> NDArray:
        return multiply(other, self)

    def __imul__(self, other: object) -> NDArray:
        return multiply(self, other, self)

    def __truediv__(self, other: object) -> NDArray:
        return divide(self, other)

    def __rtruediv__(self, other: object) -> NDArray:
        return divide(other, self)

    def __itruediv__(self, other: object) -> NDArray:
        return divide(self, other, self)

    def __mod__(self, other: object) -> NDArray:
        return modulo(self, other)

    def __rmod__(self, other: object) -> NDArray:
        return modulo(other, self)

    def __imod__(self, other: object) -> NDArray:
        return modulo(self, other, self)

    def __matmul__(self, other: object) -> NDArray:
        if not isinstance(other, NDArray):
            return NotImplemented
        raise shortened(
            TypeError("unsupported operand type(s) for @ of NDArrays: write nd.dot(x, y)")
        )

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        raise shortened(
            TypeError(
                "unsupported format string passed to NDArray.__format__: write x.asscalar() for an "
                f"array of one element; this one has shape {self.shape}"
            )
        )

    def __pow__(self, other: object) -> NDArray:
        return _power(self, other)

    def __rpow__(self, other: object) -> NDArray:
        return _power(other, self)

    def __eq__(self, other: object) -> NDArray:  # type: ignore[override]
        return equal(self, other)

    def __ne__(self, other: object) -> NDArray:  # type: ignore[override]
        return not_equal(self, other)

    def __gt__(self, other: object) -> NDArray:
        return greater(self, other)

    def __ge__(self, other: object) -> NDArray:
        return greater_equal(self, other)

    def __lt__(self, other: object) -> NDArray:
        return lesser(self, other)

    def __le__(self, other: object) -> NDArray:
        return lesser_equal(self, other)


NDArray._plain = NDArray
DENSE_KINDS.add(NDArray)


def invoke(
    op: OpDef,
    inputs: Sequence[NDArray],
    given: Mapping[str, object],
    out: NDArray | Sequence[NDArray] | None = None,
    ctx: Context | None = None,
) -> Any:
    """Run ``op`` on ``inputs``: an NDArray, or a list of them for several outputs.

    ``given`` has attribute values or strings. With ``out`` the results are written there. Raises
    MXNetError with the operator, its operands and the user's line.
    """
    if HOOK.run is None and ("stype" in given or "forward_stype" in given):
        sparse_arrays()
    if (
        HOOK.run is not None
        and (found := HOOK.run(op, inputs, given, out, ctx)) is not NotImplemented
    ):
        return found
    texts = attr_texts(op, given)
    arrays = [array._data for array in inputs]
    try:
        call = prepared(op, texts, arrays)
    except MXNetError as error:
        raise shortened(error)
    code = call.code(op, arrays) if call.is_costly else None
    results = apply(op, inputs, arrays, call.attrs, ctx, code)
    if out is not None:
        return _written(op, results, out, call.attrs)
    return results[0] if len(results) == 1 else results


def apply(
    op: OpDef,
    inputs: Sequence[NDArray],
    arrays: list[np.ndarray],
    attrs: Attrs,
    ctx: Context | None = None,
    code: CallCode | None = None,
) -> list[NDArray]:
    """Visible results of ``op``, recorded if the thread records.

    ``code`` computes them and their gradients where it can, and the references elsewhere.
    """
    if TIMELINE.eager and not PLACE.is_inside:
        return TIMELINE.operator(op.name, apply, op, inputs, arrays, attrs, ctx, code)
    used = op.in_mode(attrs, FLAGS.training)
    place = ctx or (inputs[0]._ctx if inputs else current_context())
    made = None if code is None else code.forward(used, arrays)
    if made is None:
        made = _computed(op, used, inputs, arrays, attrs)
    kind = inputs[0]._plain if inputs else NDArray
    results = [kind(_owned(y, arrays), place) for y in made]
    if FLAGS.recording and any(x._entry is not None for x in inputs):
        pull = _pull_of(op, used, inputs, results, attrs, code)
        record([(op, attrs)], inputs, results, pull, used.may_act_alone, used.traits.unread)
    return results if used is op else results[: len(op.output_names(attrs))]


def record_made(
    op: OpDef, inputs: Sequence[NDArray], results: Sequence[NDArray], attrs: Attrs
) -> None:
    """Record a use of ``op`` whose results are already computed."""
    pull = _pull_of(op, op, inputs, results, attrs)
    record([(op, attrs)], inputs, results, pull, op.may_act_alone, op.traits.unread)


def _computed(
    op: OpDef,
    used: OpDef,
    inputs: Sequence[NDArray],
    arrays: list[np.ndarray],
    attrs: Attrs,
) -> list[np.ndarray]:
    """Results by the references."""
    return run_ref(used, arrays, attrs) if used.traits.step is None else _stepped(op, inputs, attrs)


def _stepped(op: OpDef, inputs: Sequence[NDArray], attrs: Attrs) -> list[np.ndarray]:
    """Results of an operator that updates auxiliary states, after the update."""
    made = run_step(op, [x._data for x in inputs], attrs)
    count = len(op.output_names(attrs))
    for position, new in zip(sorted(op.aux_positions(attrs)), made[count:]):
        inputs[position]._write(new)
    return made[:count]


def _pull_of(
    op: OpDef,
    used: OpDef,
    inputs: Sequence[NDArray],
    results: Sequence[NDArray],
    attrs: Attrs,
    code: CallCode | None = None,
) -> Callable[[Step, Some, Sequence[bool]], Some]:
    """Backward function of one operator; ``used`` is its variant for training.

    It updates auxiliary states, except when it continues a backward pass that was recorded.
    """
    ins = [alias(x, x._entry) for x in inputs]
    outs = [alias(y) for y in results]
    is_continued = False

    def pull(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        if TIMELINE.eager and not PLACE.is_inside:
            return TIMELINE.operator(f"_backward_{op.name.lstrip('_')}", pull, step, douts, wanted)
        known = [alias(y, Entry(step, i)) for i, y in enumerate(outs)] if FLAGS.recording else outs
        full = [*douts, *[None] * (len(outs) - len(douts))]
        if used.traits.updates is None:
            return _gradients(used, ins, known, full, attrs, wanted, code, step.places)
        if not FLAGS.training:
            return _gradients(op, ins, known, full, attrs, wanted, code, step.places)
        nonlocal is_continued
        found = _gradients(used, ins, known, full, attrs, wanted, code, step.places)
        if not is_continued:
            for position, new in used.traits.updates(ON_NDARRAYS, ins, outs, **attrs).items():
                ins[position]._write(new._data)
        is_continued = is_continued or FLAGS.recording
        return found

    return pull


def _gradients(
    op: OpDef,
    ins: Sequence[NDArray],
    outs: Sequence[NDArray],
    douts: Some,
    attrs: Attrs,
    wanted: Sequence[bool],
    code: CallCode | None,
    places: Mapping[int, NDArray],
) -> Some:
    """Gradients with respect to the operands, by compiled code or by the rule's trace.

    While recording, by the rule. Compiled code may write them to ``places``, by operand.
    """
    if FLAGS.recording:
        return gradients(op, ON_NDARRAYS, ins, outs, douts, attrs, wanted)
    if code is not None and config.eager != "numpy":
        found = _compiled_gradients(code, op, ins, outs, douts, wanted, places)
        if found is not None:
            return found
    read, gave = (tuple([kind_of(x._data) for x in some]) for some in (ins, outs))
    came = tuple([None if d is None else kind_of(d._data) for d in douts])
    key = tuple(attrs.items())
    trace = trace_for(RuleUse(op, key, read, gave, came, tuple(wanted), FLAGS.training))
    if trace is None:
        return gradients(op, ON_NDARRAYS, ins, outs, douts, attrs, wanted)
    given = [*ins, *outs, *(d for d in douts if d is not None)]
    values = trace.run([x._data for x in given], _owned)
    place, kind = given[-1]._ctx, given[-1]._plain
    made = {n: kind(values[n], place) for n in trace.made}
    return [None if n is None else made[n] if n in made else given[n] for n in trace.results]


def _compiled_gradients(
    code: CallCode,
    op: OpDef,
    ins: Sequence[NDArray],
    outs: Sequence[NDArray],
    douts: Some,
    wanted: Sequence[bool],
    places: Mapping[int, NDArray],
) -> Some | None:
    """Gradients by compiled code; None where there is none."""
    came = tuple([d is not None for d in douts])
    given = [*ins, *outs, *(d for d in douts if d is not None)]
    targets = {i: x._data for i, x in places.items()}
    try:
        found = code.backward(op, [x._data for x in given], came, tuple(wanted), targets)
    finally:
        for target in places.values():
            target._storage.bump()
    if found is None:
        return None
    place, kind = given[-1]._ctx, given[-1]._plain
    made = {id(d): kind(d, place) for d in found if isinstance(d, np.ndarray)}
    return [d if d is None else given[d] if isinstance(d, int) else made[id(d)] for d in found]


class _Builder:
    """Builder on NDArrays: the operators that a gradient rule applies may be recorded."""

    def op(self, op: OpDef, /, *inputs: NDArray, at: str = "", **attrs: object) -> NDArray:
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(
        self, op: OpDef, /, *inputs: NDArray, at: str = "", **attrs: object
    ) -> tuple[NDArray, ...]:
        arrays = [x._data for x in inputs]
        return tuple(apply(op, inputs, arrays, op.with_defaults(attrs)))

    def type(self, x: NDArray) -> TensorType:
        return type_of(x._data)


ON_NDARRAYS = _Builder()


def _no_array(found: object) -> str:
    """The text for an operand of another class, with the way out."""
    if isinstance(found, np.ndarray):
        return f"a NumPy array of shape {found.shape}: pass nd.array(x)"
    if isinstance(found, (list, tuple)) and any(isinstance(one, NDArray) for one in found):
        return f"a {type(found).__name__} of arrays: pass them one by one, as f(*arrays)"
    return f"{found}{_way_for_symbol(found)}"


def _way_for_symbol(found: object) -> str:
    """The way out for a symbol of a traced block, or a parameter; "" for something else."""
    if hasattr(found, "grad_req"):
        return ": hybrid_forward takes it as the argument of its name; elsewhere write w.data()"
    is_symbol = hasattr(found, "list_arguments")
    return ": hybrid_forward takes operators from F, as F.relu" if is_symbol else ""


def call(op: OpDef, called: str, tensors: dict[str, Any], given: dict[str, Any]) -> Any:
    """Call a function of the ``nd`` namespace with its arguments."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, NDArray):
            who = "Positional arguments" if is_variadic(op) else f"Argument {name}"
            raise AssertionError(f"{who} must have NDArray type, but got {_no_array(tensor)}")
    for name, value in given.items():
        if isinstance(value, NDArray) and name != "out":
            raise TypeError(f"{called}() takes a value for '{name}', got an NDArray")
    out, _, ctx = given.pop("out", None), given.pop("name", None), given.pop("ctx", None)
    if ctx is not None:
        ctx = Context(*ctx) if isinstance(ctx, tuple) and len(ctx) == 2 else Context(ctx)
        ctx.require_host(op.name)
    return invoke(op, list(tensors.values()), given, out, ctx)


def _owned(result: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Contiguous, writable array that shares no memory with the operands."""
    array = np.asarray(result)
    if not array.flags.c_contiguous or not array.flags.writeable:
        return np.array(array, order="C")
    is_view = array.base is not None
    for x in operands:
        if array is x or is_view and np.may_share_memory(array, x):
            return array.copy()
    return array


def _written(op: OpDef, results: list[NDArray], out: Any, attrs: Attrs) -> Any:
    """``out``, after the results were written to it."""
    outs = list(out) if isinstance(out, (list, tuple)) else [out]
    for array in outs:
        if not isinstance(array, NDArray):
            raise TypeError(f"out must be an NDArray or a list of them, got {type(array)}")
    check_out(op, [result._data for result in results], [array._data for array in outs])
    merge = op.traits.merge
    for array, result in zip(outs, results):
        new = result._data if merge is None else merge(array._data, result._data, **attrs)
        array._write(new)
        if FLAGS.recording and result._entry is not None:
            array._entry = result._entry
    return out


def _binary(
    name: str,
    array_op: str,
    scalar_op: str,
    reversed_op: str,
    plain: Callable[..., Number],
    doc: str,
) -> Callable[..., Any]:
    """Function of a Python operator: arrays broadcast, a number becomes an attribute."""

    def function(lhs: object, rhs: object, out: NDArray | None = None) -> Any:
        try:
            if isinstance(lhs, NDArray):
                if isinstance(rhs, NDArray):
                    return invoke(lookup(array_op), (lhs, rhs), {}, out)
                if isinstance(rhs, _NUMBERS):
                    return invoke(lookup(scalar_op), (lhs,), {"scalar": float(rhs)}, out)
                raise _unsupported(rhs)
            if not isinstance(lhs, _NUMBERS):
                raise _unsupported(lhs)
            if isinstance(rhs, NDArray):
                return invoke(lookup(reversed_op), (rhs,), {"scalar": float(lhs)}, out)
            if isinstance(rhs, _NUMBERS):
                return plain(lhs, rhs)
            raise _unsupported(rhs)
        except Exception as error:
            raise shortened(error)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}\n\n{_OPERANDS}"
    return function


_OPERANDS = """Shapes are broadcast.

Parameters
----------
lhs : NDArray or number
    First operand.
rhs : NDArray or number
    Second operand, of the same element type.
out : NDArray, optional
    Array that receives the result.

Raises
------
TypeError
    For other operands.
MXNetError
    For shapes that cannot be broadcast, and different element types."""


def _unsupported(operand: object) -> TypeError:
    if isinstance(operand, NDArray):  # of NumPy mode
        way = ": pass x.as_nd_ndarray(), or the other array as x.as_np_ndarray()"
        return TypeError(f"type {type(operand)} not supported{way}")
    is_data = isinstance(operand, (np.ndarray, list, tuple))
    way = ": pass nd.array(x)" if is_data else _way_for_symbol(operand)
    return TypeError(f"type {type(operand)} not supported{way}")


def _both(lhs: object, rhs: object) -> bool:
    return bool(lhs) and bool(rhs)


def _either(lhs: object, rhs: object) -> bool:
    return bool(lhs) or bool(rhs)


def _one_of(lhs: object, rhs: object) -> bool:
    return bool(lhs) != bool(rhs)


def _symmetric(word: str, plain: Callable[..., Number], doc: str) -> Callable[..., Any]:
    return _binary(word, f"broadcast_{word}", f"_{word}_scalar", f"_{word}_scalar", plain, doc)


def _comparing(
    word: str, mirrored: str, plain: Callable[..., bool], doc: str
) -> Callable[..., Any]:
    def as_number(lhs: object, rhs: object) -> int:
        return int(plain(lhs, rhs))

    return _binary(
        word, f"broadcast_{word}", f"_{word}_scalar", f"_{mirrored}_scalar", as_number, doc
    )


add = _binary("add", "broadcast_add", "_plus_scalar", "_plus_scalar", operator.add, "lhs + rhs")
subtract = _binary(
    "subtract", "broadcast_sub", "_minus_scalar", "_rminus_scalar", operator.sub, "lhs - rhs"
)
multiply = _binary(
    "multiply", "broadcast_mul", "_mul_scalar", "_mul_scalar", operator.mul, "lhs * rhs"
)
divide = _binary(
    "divide", "broadcast_div", "_div_scalar", "_rdiv_scalar", operator.truediv, "lhs / rhs"
)
modulo = _binary(
    "modulo", "broadcast_mod", "_mod_scalar", "_rmod_scalar", operator.mod, "lhs % rhs"
)
_power = _binary(
    "power", "broadcast_power", "_power_scalar", "_rpower_scalar", operator.pow, "lhs ** rhs"
)


def power(base: object, exp: object, out: NDArray | None = None) -> Any:
    return _power(base, exp, out)


power.__doc__ = f"""base ** exp

{_OPERANDS.replace("lhs", "base").replace("rhs", "exp")}

Examples
--------
>>> nd.power(nd.array([2, 3]), exp=2).asnumpy()
array([4., 9.], dtype=float32)
"""


maximum = _symmetric("maximum", max, "The larger of the two.")
minimum = _symmetric("minimum", min, "The smaller of the two.")
equal = _comparing("equal", "equal", operator.eq, "1 where lhs == rhs, else 0.")
not_equal = _comparing("not_equal", "not_equal", operator.ne, "1 where lhs != rhs, else 0.")
greater = _comparing("greater", "lesser", operator.gt, "1 where lhs > rhs, else 0.")
greater_equal = _comparing(
    "greater_equal", "lesser_equal", operator.ge, "1 where lhs >= rhs, else 0."
)
lesser = _comparing("lesser", "greater", operator.lt, "1 where lhs < rhs, else 0.")
lesser_equal = _comparing(
    "lesser_equal", "greater_equal", operator.le, "1 where lhs <= rhs, else 0."
)
logical_and = _comparing("logical_and", "logical_and", _both, "1 where both are nonzero, else 0.")
logical_or = _comparing(
    "logical_or", "logical_or", _either, "1 where at least one is nonzero, else 0."
)
logical_xor = _comparing(
    "logical_xor", "logical_xor", _one_of, "1 where exactly one is nonzero, else 0."
)
true_divide = divide


def split_v2(
    ary: NDArray, indices_or_sections: Sizes, axis: int = 0, squeeze_axis: bool = False
) -> Any:
    """Split along an axis into a number of equal slices, or at these indices.

    Parameters
    ----------
    ary : NDArray
        Array that is divided.
    indices_or_sections : int or tuple of int
        Number of slices, or the positions where all but the first one begin.
    axis : int
        Axis, negative ones count from the last.
    squeeze_axis : bool
        Whether an axis of size 1 is dropped.

    Examples
    --------
    >>> [part.shape for part in nd.split_v2(nd.ones((5, 2)), (2,))]
    [(2, 2), (3, 2)]
    """
    given: dict[str, object] = {"axis": axis, "squeeze_axis": squeeze_axis}
    if isinstance(indices_or_sections, int):
        given.update(indices=(), sections=indices_or_sections)
    else:
        given.update(indices=(0, *indices_or_sections), sections=0)
    return invoke(lookup("_split_v2"), (ary,), given)


FUNCTIONS = namespace(call, ("out", "name"))

for _name in FLUENT:
    if _name not in NDArray.__dict__:
        setattr(NDArray, _name, Method(FUNCTIONS[""], _name, NDArray))
