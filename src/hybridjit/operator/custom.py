"""Operators written in Python, for arrays, symbols and hybridized networks.

Input: a :class:`CustomOpProp` class, registered under a name. Output: ``nd.Custom`` and
``sym.Custom`` with that ``op_type``; in a compiled graph the operator is a step that runs in
Python.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from .._core.recording import recording_as
from .._core.shapes import is_np_array, partial_shape
from .._core.timeline import TIMELINE
from .._core.types import DType, PartialShape, TensorType, is_known_shape
from ..context import cpu
from ..errors import MXNetError, ShapeError
from ..nd import NDArray
from ..ops.attrs import Attrs
from ..ops.building import Builder, Many, X
from ..ops.custom import NAME, provide
from ..ops.gradient import given as given_or_zeros
from ..ops.record import OpDef, Traits
from ..ops.rules import Types, merged

__all__ = ["CustomOp", "CustomOpProp", "register"]

_Class = TypeVar("_Class", bound=type)
T = TypeVar("T")
Live: TypeAlias = Mapping[int, Callable[[], Any] | None]
Three: TypeAlias = tuple[list[T], list[T], list[T]]  # of arguments, outputs, auxiliary states


class CustomOp:
    """Computation of an operator. A subclass overrides ``forward``, and ``backward`` for training.

    Both write their results to existing arrays with :meth:`assign`.
    """

    def forward(
        self,
        is_train: bool,
        req: Sequence[str],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        """Write the outputs. To override."""

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[NDArray],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        in_grad: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        """Write the gradients of the inputs. To override; by default zeros."""

    def assign(self, dst: NDArray, req: str, src: NDArray | float) -> None:
        """Write ``src`` to ``dst``, add it, or do nothing, as ``req`` requires."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src


class CustomOpProp:
    """Properties of an operator. A subclass overrides ``create_operator`` and others as needed.

    Keywords of ``nd.Custom`` and ``sym.Custom`` are passed to the constructor as strings. With
    ``need_top_grad`` False the operator is a loss, whose gradient does not depend on the output
    gradients.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[list[int]]) -> Three[list[int]]:
        """Shapes of arguments, outputs and auxiliary states, from the arguments' known shapes."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type: list[type]) -> Three[type]:
        """Element types of arguments, outputs and auxiliary states."""
        first = in_type[0]
        return in_type, [first] * len(self.list_outputs()), [first] * len(self._states())

    def list_arguments(self) -> list[str]:
        """Names of the operands."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the results."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the arrays that ``forward`` may change."""
        return []

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Inputs of ``backward``. Ignored: ``backward`` receives all of them."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(
        self, ctx: str, in_shapes: list[list[int]], in_dtypes: list[type]
    ) -> CustomOp:
        """:class:`CustomOp` for operands of these shapes and dtypes."""
        return CustomOp()

    def _states(self) -> list[str]:
        return self.list_auxiliary_states()


def register(reg_name: str) -> Callable[[_Class], _Class]:
    """Decorator: register a class as the operator of ``op_type``, replacing an earlier one."""

    def registered(prop_class: _Class) -> _Class:
        provide(reg_name, partial(_record, reg_name, prop_class))
        return prop_class

    return registered


def _record(op_type: str, prop_class: type, text: Mapping[str, str]) -> OpDef:
    """Record of one use of an operator. Raises MXNetError for exceptions of the class."""
    return _Use(op_type, prop_class, text).record()


@contextmanager
def _inside(who: str) -> Iterator[None]:
    """Convert exceptions of the user's code to MXNetError with their type."""
    try:
        yield
    except Exception as error:
        raise MXNetError(f"Error in {who}: {type(error).__name__}: {error}") from error


class _Use:
    """Operator of one node: its property, and one computing instance for each signature.

    The forward pass and its backward pass use the same instance, which may store state.

    live  operands that are passed without a copy, so that writes to them take effect: see
          :class:`.Traits`. Others are copies; new states are further results in training
    """

    def __init__(self, op_type: str, prop_class: type, text: Mapping[str, str]) -> None:
        self.op_type = op_type
        self.who = f"{prop_class.__name__} (op_type {op_type!r})"
        self.live: Live = {}
        with _inside(f"{self.who}.__init__"):
            self.prop = prop_class(**text)
        with _inside(self.who):
            self.arguments = tuple(self.prop.list_arguments())
            self.outputs = tuple(self.prop.list_outputs())
            self.states = tuple(self.prop.list_auxiliary_states())
        self.instances: dict[tuple[object, ...], CustomOp] = {}

    # ---- records --------------------------------------------------------------------------------

    def record(self) -> OpDef:
        """Operator for inference; its traits refer to the one for training."""
        trained = self._record_of(True, None)
        return self._record_of(False, lambda attrs: trained)

    def _on_live(self, live: Live) -> OpDef:
        """Record of the same use on live operands."""
        other = copy.copy(self)
        other.live = live
        return other.record()

    def _record_of(self, is_train: bool, training: Callable[[Attrs], OpDef | None] | None) -> OpDef:
        first, count = len(self.arguments), len(self.states)
        are_live = all(self.live.get(first + i) for i in range(count))
        gives_states = is_train and not are_live
        names = (*self.outputs, *(f"new_{name}" for name in self.states if gives_states))
        return OpDef(
            name=NAME,
            inputs=(*self.arguments, *(f"*{name}" for name in self.states)),
            attrs=(),
            infer=partial(self._infer, gives_states),
            ref=partial(self._forward, is_train, gives_states),
            grad=self._grad,
            outputs=names,
            traits=Traits(
                random=True,  # uses are not shared and do not run at bind time
                ignores_head=lambda attrs: not getattr(self.prop, "need_top_grad_", True),
                training=training,
                adds_gradient=True,
                updates=self._updates if gives_states else None,
                updates_ahead=True,
                on_live=self._on_live,
            ),
            doc="An operator written in Python.",
        )

    def _grad(
        self, g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: object
    ) -> tuple[X | None, ...]:
        shown = range(len(self.outputs))
        heads = [given_or_zeros(g, douts[i], outs[i]) for i in shown]
        back = OpDef(
            name="_backward_Custom",
            inputs=tuple(f"arg{i}" for i in range(2 * len(shown) + len(ins))),
            attrs=(),
            infer=self._infer_backward,
            ref=self._backward,
            outputs=tuple(f"d_{name}" for name in self.arguments),
            internal=True,
            traits=Traits(random=True),
            doc="The gradient of an operator written in Python.",
        )
        # States after the forward pass: its results, or the caller's own arrays, which it changed.
        left = outs[len(shown) :] or ins[len(self.arguments) :]
        data = ins[: len(self.arguments)]
        found = g.outputs(back, *heads, *data, *left, *[outs[i] for i in shown], at="backward")
        return (*found, *[None] * len(self.states))

    def _updates(self, g: Builder[X], ins: Many[X], outs: Many[X], **attrs: object) -> dict[int, X]:
        first = len(self.arguments)
        return {first + i: outs[len(self.outputs) + i] for i in range(len(self.states))}

    # ---- types ----------------------------------------------------------------------------------

    def _infer(
        self, gives_states: bool, ins: Types, outs: Types, **attrs: object
    ) -> tuple[Types, Types]:
        count = len(self.arguments)
        found_ins, found_outs = list(ins), list(outs)
        if not ins or ins[0].shape is not None:
            shapes = self._shapes([t.shape for t in ins[:count]])
            found_ins = [t.with_shape(s) for t, s in zip(ins, shapes[0] + shapes[2])]
            found_outs = _with_shapes(outs, shapes[1] + (shapes[2] if gives_states else []))
        if not ins or ins[0].dtype is not None:
            dtypes = self._dtypes([t.dtype for t in ins[:count]])
            found_ins = [t.with_dtype(d) for t, d in zip(found_ins, dtypes[0] + dtypes[2])]
            more = dtypes[2] if gives_states else []
            found_outs = [t.with_dtype(d) for t, d in zip(found_outs, dtypes[1] + more)]
        return merged(ins, tuple(found_ins)), merged(outs, tuple(found_outs))

    def _shapes(self, known: Sequence[PartialShape | None]) -> Three[Any]:
        """Shapes of arguments, outputs and states; the property sees [] and 0 for unknown ones."""
        asked = [[size or 0 for size in shape or ()] for shape in known]
        with _inside(f"{self.who}.infer_shape"):
            found = [list(part) for part in self.prop.infer_shape(asked)]
        parts = self._three(found, "infer_shape")
        is_exact = all(is_known_shape(shape) for shape in known)
        read = [[_sizes(s, is_exact, self.who) for s in part] for part in parts]
        return read[0], read[1], read[2]

    def _dtypes(self, known: Sequence[DType | None]) -> Three[np.dtype]:
        asked = [np.dtype(known[0] if d is None else d).type for d in known]
        with _inside(f"{self.who}.infer_type"):
            found = [[np.dtype(d) for d in part] for part in self.prop.infer_type(asked)]
        parts = self._three(found, "infer_type")
        return parts[0], parts[1], parts[2]

    def _three(self, found: list[list[T]], rule: str) -> list[list[T]]:
        parts = [*found, []] if len(found) == 2 else found
        counts = [len(self.arguments), len(self.outputs), len(self.states)]
        if len(parts) != 3 or [len(part) for part in parts] != counts:
            raise ShapeError(
                f"{self.who}.{rule} returns {', '.join(str(len(p)) for p in parts)} arguments, "
                f"outputs and auxiliary states; the operator has {', '.join(map(str, counts))}"
            )
        return parts

    def _infer_backward(self, ins: Types, outs: Types, **attrs: object) -> tuple[Types, Types]:
        first = len(self.outputs)
        return ins, merged(outs, ins[first : first + len(self.arguments)])

    # ---- execution
    # --------------------------------------------------------------------------------

    def _forward(
        self, is_train: bool, gives_states: bool, *arrays: np.ndarray, **attrs: object
    ) -> tuple[np.ndarray, ...]:
        data, states = self._given(arrays)
        shapes = self._shapes([x.shape for x in data])[1]
        dtypes = self._dtypes([x.dtype for x in data])[1]
        outs = [_array(np.zeros(s, d)) for s, d in zip(shapes, dtypes)]
        instance = self._instance(data)
        if stypes := self.stypes():
            data, outs, states = (_stored(x, t) for x, t in zip((data, outs, states), stypes))
        with _inside("CustomOp.forward"), recording_as(False, is_train):
            self._run(
                self.op_type,
                instance.forward,
                is_train=is_train,
                req=["write"] * len(outs),
                in_data=data,
                out_data=outs,
                aux=states,
            )
        return tuple(_values(x) for x in (*outs, *(states if gives_states else ())))

    def _backward(self, *arrays: np.ndarray, **attrs: object) -> tuple[np.ndarray, ...]:
        count = len(self.outputs)
        heads, outs = ([_array(a) for a in part] for part in (arrays[:count], arrays[-count:]))
        data, states = self._given(arrays[count:-count])
        grads = [_array(np.zeros_like(x._data)) for x in data]
        instance = self._instance(data)
        if stypes := self.stypes():
            given, kept, auxiliary = stypes
            with _inside(f"{self.who}.infer_storage_type_backward"):
                all_stypes = self.prop.infer_storage_type_backward(  # type: ignore[attr-defined]
                    ["default"] * count, given, kept, list(given), auxiliary
                )
            parts = (heads, data, outs, grads, states)
            heads, data, outs, grads, states = (_stored(x, t) for x, t in zip(parts, all_stypes))
        with _inside("CustomOp.backward"), recording_as(False, True):
            self._run(
                f"_backward_{self.op_type}",
                instance.backward,
                req=["write"] * len(grads),
                out_grad=heads,
                in_data=data,
                out_data=outs,
                in_grad=grads,
                aux=states,
            )
        return tuple(_values(d) for d in grads)

    def stypes(self) -> Three[str] | None:
        """Storage types of arguments, outputs and states, where the class has a rule for them.

        None if all arguments are dense: without the rule ``forward`` receives dense values.
        """
        live = [(self.live.get(i) or _copied)() for i in range(len(self.arguments))]
        known = ["default" if found is None else found.stype for found in live]
        rule = getattr(self.prop, "infer_storage_type", None)
        if rule is None or set(known) <= {"default"}:
            return None
        with _inside(f"{self.who}.infer_storage_type"):
            parts = self._three([list(part) for part in rule(known)], "infer_storage_type")
        return parts[0], parts[1], parts[2]

    def _run(self, name: str, method: Callable[..., None], **kwargs: object) -> None:
        if TIMELINE.eager or TIMELINE.graphs:
            TIMELINE.custom(name, method, **kwargs)
        else:
            method(**kwargs)

    def _given(self, arrays: Sequence[np.ndarray]) -> tuple[list[NDArray], list[NDArray]]:
        """Arguments and auxiliary states as arrays."""
        own = [self._operand(i, a) for i, a in enumerate(arrays)]
        return own[: len(self.arguments)], own[len(self.arguments) :]

    def _operand(self, position: int, array: np.ndarray) -> NDArray:
        """Array that ``forward`` and ``backward`` receive for an operand."""
        find = self.live.get(position, _copied)
        if find is None:
            return _array(array)
        found = find()
        is_same = found is not None and found.stype == "default" and found.dtype == array.dtype
        if is_same and found.shape == array.shape:
            return _array(found._data, found._storage)
        return _array(np.array(array, order="C"))

    def _instance(self, data: Sequence[NDArray]) -> CustomOp:
        key = tuple((x.shape, np.dtype(x.dtype)) for x in data)
        if key not in self.instances:
            shapes, dtypes = [list(x.shape) for x in data], [x.dtype for x in data]
            self.instances[key] = self.prop.create_operator(str(cpu()), shapes, dtypes)
        return self.instances[key]


def _array(data: np.ndarray, storage: Any = None) -> NDArray:
    """An array on this memory, of NumPy mode where the thread has switched that on, as in MXNet."""
    made = NDArray(data, cpu(), storage)
    return made.as_np_ndarray() if is_np_array() else made


def _stored(arrays: Sequence[NDArray], stypes: Sequence[str]) -> list[NDArray]:
    """Arrays in the storage types that a class's rule states."""
    return [x if t == "default" else x.tostype(t) for x, t in zip(arrays, stypes)]


def _values(array: NDArray) -> np.ndarray:
    """Dense values of an array that a class wrote."""
    return array._data if array.stype == "default" else array.asnumpy()


def _copied() -> Any:
    """Return None: only the values of the operand are known."""
    return None


def _sizes(shape: Sequence[int], is_exact: bool, who: str) -> tuple[int | None, ...] | None:
    """Shape returned by a property; [] and 0 mean unknown unless all inputs were known."""
    with _inside(f"{who}.infer_shape"):
        sizes = tuple(int(size) for size in shape)
    return sizes if is_exact else partial_shape(sizes)


def _with_shapes(types: Types, shapes: Sequence[PartialShape | None]) -> list[TensorType]:
    return [t.with_shape(s) for t, s in zip(types, shapes)]
