"""MXNet's older ways to write operators in Python: classes whose instances make symbols.

In: an instance of a subclass of :class:`NumpyOp` or :class:`NDArrayOp`. Out: symbols of ``Custom``
with an operator of the instance's own, which computes by its methods.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..nd import NDArray, array
from ..sym import Symbol
from ..sym.custom import custom_call
from .custom import CustomOp, CustomOpProp, register

Shapes = list[list[int]]
Array: TypeAlias = Any  # of NumPy for a NumpyOp, an NDArray for an NDArrayOp

_numbers = itertools.count()


class PythonOp:
    """What the two have in common. A subclass overrides ``forward``, and what differs.

    With ``need_top_grad`` False the operator is a loss, whose gradient does not look at what comes
    back.
    """

    _arrays: type[CustomOp]  # computes on arrays of the kind that the methods take
    _hint = "_Python"  # what automatic names begin with

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad
        warnings.warn(f"{type(self).__name__} has been deprecated. Please use CustomOp")

    def __call__(self, *args: Symbol, **kwargs: object) -> Symbol:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Symbol, **kwargs: object) -> Symbol:
        """The operator on these symbols, by place or by name; operands left out are variables."""
        op_type = f"{self._hint}_{next(_numbers)}"
        register(op_type)(_property_of(self))
        return custom_call(self._hint, args, {"op_type": op_type, **kwargs})

    def forward(self, in_data: list[Array], out_data: list[Array]) -> None:
        """To override: write the results into ``out_data``. The first operand, here."""
        out_data[0][:] = in_data[0]

    def backward(
        self,
        out_grad: list[Array],
        in_data: list[Array],
        out_data: list[Array],
        in_grad: list[Array],
    ) -> None:
        """To override: write the gradients of the operands into ``in_grad``. Ones, here."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: Shapes) -> tuple[Shapes, Shapes]:
        """Shapes of operands and results, from what is known of operands."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the results."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the operands."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether ``backward`` looks at the gradients of the results."""
        return self.need_top_grad_


class _ByNumPy(CustomOp):
    """Calls an operator's methods with NumPy arrays, and writes back what they wrote."""

    def __init__(self, op: PythonOp) -> None:
        self._op = op

    def forward(
        self,
        is_train: bool,
        req: Sequence[str],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        found = _copies(out_data)
        self._op.forward(in_data=_copies(in_data), out_data=found)
        self._write(req, out_data, found)

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[NDArray],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        in_grad: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        found = _copies(in_grad)
        self._op.backward(
            out_grad=_copies(out_grad),
            in_data=_copies(in_data),
            out_data=_copies(out_data),
            in_grad=found,
        )
        self._write(req, in_grad, found)

    def _write(
        self, req: Sequence[str], arrays: Sequence[NDArray], found: Sequence[np.ndarray]
    ) -> None:
        for request, target, values in zip(req, arrays, found):
            self.assign(target, request, array(values, dtype=target.dtype))


class _ByArrays(_ByNumPy):
    """The same with NDArrays."""

    def forward(
        self,
        is_train: bool,
        req: Sequence[str],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        self._op.forward(in_data=list(in_data), out_data=list(out_data))

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[NDArray],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        in_grad: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        given = (list(arrays) for arrays in (out_grad, in_data, out_data, in_grad))
        self._op.backward(**dict(zip(("out_grad", "in_data", "out_data", "in_grad"), given)))


class NumpyOp(PythonOp):
    """An operator whose methods take NumPy arrays."""

    _arrays = _ByNumPy
    _hint = "_Native"


class NDArrayOp(PythonOp):
    """An operator whose methods take NDArrays."""

    _arrays = _ByArrays
    _hint = "_NDArray"

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """What ``backward`` reads. It gets everything, whatever this says."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]


def _copies(arrays: Sequence[NDArray]) -> list[np.ndarray]:
    return [x.asnumpy() for x in arrays]


def _property_of(op: PythonOp) -> type[CustomOpProp]:
    """The class that describes an instance's operator."""

    class _Property(CustomOpProp):
        def __init__(self) -> None:
            super().__init__(need_top_grad=op.need_top_grad())

        def list_arguments(self) -> list[str]:
            return op.list_arguments()

        def list_outputs(self) -> list[str]:
            return op.list_outputs()

        def infer_shape(self, in_shape: Shapes) -> tuple[Shapes, Shapes, Shapes]:
            read, made = op.infer_shape(in_shape)
            return read, made, []

        def create_operator(self, ctx: str, in_shapes: Shapes, in_dtypes: list[type]) -> CustomOp:
            return op._arrays(op)  # type: ignore[call-arg]

    return _Property
