"""MXNet's older interfaces of operators in Python: classes whose instances create symbols.

Input: an instance of a subclass of :class:`NumpyOp` or :class:`NDArrayOp`. Output: symbols of
``Custom`` with a separate operator for the instance, computed by its methods.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..nd import NDArray, array
from ..sym import Symbol
from ..sym.custom import custom_call
from .custom import CustomOp, CustomOpProp, register

Shapes = list[list[int]]
Array: TypeAlias = Any  # a NumPy array for a NumpyOp, an NDArray for an NDArrayOp

_numbers = itertools.count()


class PythonOp:
    """Base of the two classes. A subclass overrides ``forward`` and other methods as needed.

    With ``need_top_grad`` False the operator is a loss, whose gradient does not depend on the
    output gradients.
    """

    _hint = "_Python"  # prefix of automatic names

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad
        warnings.warn(f"{type(self).__name__} has been deprecated. Please use CustomOp")

    def __call__(self, *args: Symbol, **kwargs: object) -> Symbol:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Symbol, **kwargs: object) -> Symbol:
        """Operator on symbols by position or by name; missing operands become variables."""
        op_type = f"{self._hint}_{next(_numbers)}"
        register(op_type)(_property_of(self))
        return custom_call(self._hint, args, {"op_type": op_type, **kwargs})

    def forward(self, in_data: list[Array], out_data: list[Array]) -> None:
        """Write the results to ``out_data``. To override; by default the first operand."""
        out_data[0][:] = in_data[0]

    def backward(
        self,
        out_grad: list[Array],
        in_data: list[Array],
        out_data: list[Array],
        in_grad: list[Array],
    ) -> None:
        """Write the gradients of the operands to ``in_grad``. To override; by default ones."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: Shapes) -> tuple[Shapes, Shapes]:
        """Shapes of operands and results, from the operands' known shapes."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the results."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the operands."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether ``backward`` reads the output gradients."""
        return self.need_top_grad_

    def _take(self, arrays: Sequence[NDArray]) -> list[Array]:
        """Convert arrays to the type that the methods accept."""
        raise NotImplementedError


class _Computation(CustomOp):
    """Calls an instance's methods; results in NumPy arrays are copied back."""

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
        self._call(self._op.forward, req, out_data, "out_data", in_data=in_data)

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[NDArray],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        in_grad: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        read = {"out_grad": out_grad, "in_data": in_data, "out_data": out_data}
        self._call(self._op.backward, req, in_grad, "in_grad", **read)

    def _call(
        self,
        method: Callable[..., None],
        req: Sequence[str],
        written: Sequence[NDArray],
        name: str,
        **read: Sequence[NDArray],
    ) -> None:
        take = self._op._take
        found = take(written)
        method(**{key: take(arrays) for key, arrays in read.items()}, **{name: found})
        for request, target, values in zip(req, written, found):
            if values is not target:
                self.assign(target, request, array(values, dtype=target.dtype))


class NumpyOp(PythonOp):
    """Operator whose methods receive NumPy arrays."""

    _hint = "_Native"

    def _take(self, arrays: Sequence[NDArray]) -> list[Array]:
        return [x.asnumpy() for x in arrays]


class NDArrayOp(PythonOp):
    """Operator whose methods receive NDArrays."""

    _hint = "_NDArray"

    def _take(self, arrays: Sequence[NDArray]) -> list[Array]:
        return list(arrays)

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Inputs of ``backward``. Ignored: ``backward`` receives all of them."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]


def _property_of(op: PythonOp) -> type[CustomOpProp]:
    """Class that describes an instance's operator."""

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
            return _Computation(op)

    return _Property
