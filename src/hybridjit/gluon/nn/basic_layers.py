"""Dense, Dropout, Embedding, Flatten and functions as layers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from ... import nd, sym
from ..block import Block
from ..hybrid_block import HybridBlock
from ..structure import Nested
from ..types import BlockArgs, DType, Init, Tensor, Unpack
from .activations import Activation

Function = Callable[..., Nested]  # a layer of arrays, or of F and tensors


class Dense(HybridBlock):
    """activation(x . weight^T + bias); weight is (units, in_units).

    ``flatten`` collapses all axes after the first, else only the last one is contracted.
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: DType = "float32",
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        in_units: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        self._flatten = flatten
        self._units = units
        self._in_units = in_units
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(units, in_units),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
            )
            self.bias = (
                self.params.get(
                    "bias",
                    shape=(units,),
                    init=bias_initializer,
                    dtype=dtype,
                    allow_deferred_init=True,
                )
                if use_bias
                else None
            )
            self.act = (
                None if activation is None else Activation(activation, prefix=f"{activation}_")
            )

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, x: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        tensors = (x, weight) if bias is None else (x, weight, bias)
        out = F.FullyConnected(
            *tensors,
            no_bias=bias is None,
            num_hidden=self._units,
            flatten=self._flatten,
            name="fwd",
        )
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        units, inputs = self.weight.shape
        act = "linear" if self.act is None else self.act
        return f"{type(self).__name__}({inputs or None} -> {units}, {act})"


class Dropout(HybridBlock):
    """Sets values to 0 with probability ``rate`` while training; else passes them on.

    Along ``axes`` one draw serves all.
    """

    def __init__(
        self, rate: float, axes: tuple[int, ...] = (), **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Rows of a (input_dim, output_dim) table, by index."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: DType = "float32",
        weight_initializer: Init = None,
        sparse_grad: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        self._input_dim = input_dim
        self._output_dim = output_dim
        self._kwargs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": sparse_grad,
        }
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(input_dim, output_dim),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
                grad_stype="row_sparse" if sparse_grad else "default",
            )

    def hybrid_forward(self, F: ModuleType, x: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        options = self._kwargs
        return (
            f"{type(self).__name__}({options['input_dim']} -> {options['output_dim']}, "
            f"{options['dtype']})"
        )


class Flatten(HybridBlock):
    """All axes after the first become one."""

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.Flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """A function as a layer: a name in ``nd``, or a callable on the inputs."""

    def __init__(self, function: str | Function, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        self._func_impl = _function(function, "ndarray", nd)

    def forward(self, *args: Nested) -> Nested:
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


class HybridLambda(HybridBlock):
    """A function as a layer: a name in ``nd`` and ``sym``, or a callable on F and the inputs."""

    def __init__(self, function: str | Function, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        self._func = function
        self._func_name = _function(function, "symbol/ndarray", nd, sym).__name__
        if isinstance(function, str):
            self._func_name = function

    def hybrid_forward(self, F: ModuleType, x: Tensor, *args: object) -> Tensor:  # type: ignore[override]
        if isinstance(self._func, str):
            return getattr(F, self._func)(x, *args)
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


def _function(function: str | Function, where: str, *modules: ModuleType) -> Function:
    """The callable, or the function of that name in the first module.

    Raises AssertionError when a module has none of that name, ValueError for anything else.
    """
    if isinstance(function, str):
        assert all(hasattr(module, function) for module in modules), (
            f"Function name {function} is not found in {where}."
        )
        return getattr(modules[0], function)
    if callable(function):
        return function
    raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")
