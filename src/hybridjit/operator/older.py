"""MXNet's older ways to write operators in Python: classes whose instances make symbols.

In: an instance of a subclass of :class:`NumpyOp` or :class:`NDArrayOp`. Out: symbols of ``Custom``
with an operator of the instance's own, which computes by its methods.
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
Array: TypeAlias = Any  # of NumPy for a NumpyOp, an NDArray for an NDArrayOp

_numbers = itertools.count()


class PythonOp:
    """What the two have in common. A subclass overrides ``forward``, and what differs.

    With ``need_top_grad`` False the operator is a loss, whose gradient does not look at what comes
    back.
    """

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

    def _take(self, arrays: Sequence[NDArray]) -> list[Array]:
        """The arrays as the methods take them."""
        raise NotImplementedError


class _Computation(CustomOp):
    """Calls an instance's methods; of NumPy arrays what they wrote is written back."""

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
    """An operator whose methods take NumPy arrays."""

    _hint = "_Native"

    def _take(self, arrays: Sequence[NDArray]) -> list[Array]:
        return [x.asnumpy() for x in arrays]


class NDArrayOp(PythonOp):
    """An operator whose methods take NDArrays."""

    _hint = "_NDArray"

    def _take(self, arrays: Sequence[NDArray]) -> list[Array]:
        return list(arrays)

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """What ``backward`` reads. It gets everything, whatever this says."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]


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
            return _Computation(op)

    return _Property
