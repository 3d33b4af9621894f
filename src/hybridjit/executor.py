"""Executor: a Symbol bound to arrays, evaluated operator by operator.

In: a Symbol and NDArrays for its arguments and auxiliary states. Out: NDArrays. The compiled way to
run a graph is ``gluon.SymbolBlock`` with ``hybridize()``; this is what ``bind`` and ``eval`` give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import autograd
from .context import Context, current_context
from .ir.node import topological
from .nd import NDArray, zeros
from .nd.ndarray import invoke
from .passes.infer import infer_node_types
from .sym import Symbol
from .types import TensorType, type_of

Arrays = Mapping[str, NDArray] | Sequence[NDArray]


class Executor:
    """A Symbol and the arrays that it reads. ``forward`` reads what they hold at that moment."""

    def __init__(
        self, symbol: Symbol, ctx: Context, args: dict[str, NDArray], aux: dict[str, NDArray]
    ) -> None:
        self._symbol = symbol
        self._ctx = ctx
        self.arg_dict = args
        self.aux_dict = aux
        self.outputs: list[NDArray] = []
        known = {name: type_of(array._data) for name, array in {**args, **aux}.items()}
        infer_node_types(symbol.outputs, known)

    @property
    def arg_arrays(self) -> list[NDArray]:
        return list(self.arg_dict.values())

    @property
    def aux_arrays(self) -> list[NDArray]:
        return list(self.aux_dict.values())

    @property
    def output_dict(self) -> dict[str, NDArray]:
        return dict(zip(self._symbol.list_outputs(), self.outputs))

    def forward(self, is_train: bool = False, **kwargs: NDArray) -> list[NDArray]:
        """The outputs, after ``kwargs`` were copied into the arguments of those names.

        Raises TypeError for a name that is no argument, ValueError for another shape.
        """
        for name, array in kwargs.items():
            if name not in self.arg_dict:
                raise TypeError(f"Unknown argument {name}")
            if array.shape != self.arg_dict[name].shape:
                expected = self.arg_dict[name].shape
                raise ValueError(
                    f'Shape not match! Argument "{name}", need: {expected}, received: {array.shape}'
                )
            array.copyto(self.arg_dict[name])
        with autograd.train_mode() if is_train else autograd.predict_mode():
            self.outputs = self._evaluate()
        return self.outputs

    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arrays in by name. Raises ValueError for a name that is not there."""
        _copy_in(arg_params, self.arg_dict, "arguments", allow_extra_params)
        _copy_in(aux_params or {}, self.aux_dict, "auxiliary states", allow_extra_params)

    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any
    ) -> Executor:
        """An Executor for other input shapes that shares the arrays whose shapes stay."""
        shapes, _, _ = self._symbol.infer_shape(**kwargs)
        names = self._symbol.list_arguments()
        args = {
            name: old if old.shape == shape else zeros(shape, self._ctx, old.dtype)
            for name, shape, old in zip(names, shapes, self.arg_arrays)
        }
        return Executor(self._symbol, self._ctx, args, self.aux_dict)

    def _evaluate(self) -> list[NDArray]:
        values: dict[Any, list[NDArray]] = {}
        for node in topological(self._symbol.outputs):
            if node.op is None:
                arrays = self.arg_dict if node.name in self.arg_dict else self.aux_dict
                values[node] = [arrays[node.name]]
                continue
            inputs = [values[edge.node][edge.index] for edge in node.inputs]
            result = invoke(node.op, inputs, node.text, None, self._ctx)
            values[node] = result if isinstance(result, list) else [result]
        return [values[output.node][output.index] for output in self._symbol.outputs]


def bind(symbol: Symbol, ctx: Context | None, args: Arrays, aux_states: Arrays | None) -> Executor:
    """An Executor over these arrays. Raises ValueError when one is missing."""
    return Executor(
        symbol,
        ctx or current_context(),
        _by_name("args", symbol.list_arguments(), args),
        _by_name("aux_states", symbol.list_auxiliary_states(), aux_states or {}),
    )


def simple_bind(
    symbol: Symbol,
    ctx: Context | None,
    type_dict: Mapping[str, Any] | None,
    shapes: Mapping[str, Any],
) -> Executor:
    """An Executor over new arrays of zeros. Raises RuntimeError when a shape stays unknown."""
    dtypes = {name: np.dtype(dtype) for name, dtype in (type_dict or {}).items()}
    sizes = {name: tuple(size or None for size in shape) for name, shape in shapes.items()}
    known = {n: TensorType(sizes.get(n), dtypes.get(n)) for n in {**sizes, **dtypes}}
    types = infer_node_types(symbol.outputs, known)
    place = ctx or current_context()
    arrays = {}
    for node in topological(symbol.outputs):
        if node.op is None:
            (t,) = types[node]
            if not t.is_known:
                raise RuntimeError(
                    f"simple_bind error. Arguments: {dict(shapes)} do not decide the shape of "
                    f"{node.name}"
                )
            arrays[node.name] = zeros(t.dims, place, t.dtype)
    args = {name: arrays[name] for name in symbol.list_arguments()}
    aux = {name: arrays[name] for name in symbol.list_auxiliary_states()}
    return Executor(symbol, place, args, aux)


def _by_name(what: str, names: list[str], arrays: Arrays) -> dict[str, NDArray]:
    if isinstance(arrays, Mapping):
        for name in names:
            if name not in arrays:
                raise ValueError(f"key `{name}` is missing in `{what}`")
        return {name: arrays[name] for name in names}
    if len(arrays) != len(names):
        raise ValueError(f"Length of {what} does not match the number of arguments")
    return dict(zip(names, arrays))


def _copy_in(
    source: Mapping[str, NDArray], target: Mapping[str, NDArray], what: str, allow_extra: bool
) -> None:
    for name, array in source.items():
        if name in target:
            array.astype(target[name].dtype).copyto(target[name])
        elif not allow_extra:
            raise ValueError(f'Find name "{name}" that is not in the {what}')
