"""Dense, Dropout, Embedding, Flatten and functions as layers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from ... import nd, sym
from ...errors import did_you_mean, is_of_call
from ..block import Block
from ..hybrid_block import HybridBlock
from ..naming import BlockArgs
from ..structure import Nested
from ..types import DType, Init, Tensor, Unpack
from .activations import Activation

Function = Callable[..., Nested]  # function of arrays, or of F and tensors


class Dense(HybridBlock):
    """Fully connected layer: ``activation(x . weight^T + bias)``.

    Parameters
    ----------
    units : int
        Size of the last axis of the output.
    activation : str, optional
        Function applied to the result: relu, sigmoid, tanh, softrelu or softsign.
    use_bias : bool
        Whether a bias of shape (units,) is added.
    flatten : bool
        True joins all axes after the first: input (N, ...), output (N, units). False contracts
        the last axis only: input (..., in_units), output (..., units).
    dtype : str or numpy.dtype
        Element type of the parameters. The input must have the same one.
    weight_initializer : Initializer or str, optional
        Initializer of the weight; by default the one that ``initialize`` receives.
    bias_initializer : Initializer or str
        Initializer of the bias.
    in_units : int
        Size of the contracted axis. 0: taken from the first input, until which the weight has no
        values.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    ShapeError
        In a call, if the contracted axis does not have ``in_units`` elements.
    DTypeError
        In a call, if the element types of input and weight differ.

    Notes
    -----
    The weight has shape (units, in_units).

    Examples
    --------
    >>> layer = nn.Dense(3, activation="relu", in_units=4)
    >>> layer.initialize()
    >>> layer(nd.ones((2, 4))).shape
    (2, 3)
    >>> layer
    Dense(4 -> 3, Activation(relu))
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
    """Dropout: set elements to 0 with probability ``rate`` in training, scale the others.

    Outside of training (``autograd.record()``, ``train_mode()``) the output equals the input. In
    training the remaining elements are multiplied by 1 / (1 - rate).

    Parameters
    ----------
    rate : float
        Probability of 0, between 0 and 1.
    axes : tuple of int
        Axes along which all elements share one draw.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    MXNetError
        In a call, if ``rate`` is not between 0 and 1.

    Examples
    --------
    >>> nn.Dropout(0.5)(nd.ones(3)).asnumpy()
    array([1., 1., 1.], dtype=float32)
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
    """Embedding table: rows of a matrix of shape (input_dim, output_dim), selected by index.

    The input has integer values in any shape and element type; the output has the shape of the
    input followed by ``output_dim``. Indices below 0 select the first row, indices of
    ``input_dim`` and above the last one.

    Parameters
    ----------
    input_dim : int
        Number of rows: the size of the vocabulary.
    output_dim : int
        Length of a row.
    dtype : str or numpy.dtype
        Element type of the table and of the output.
    weight_initializer : Initializer or str, optional
        Initializer of the table; by default the one that ``initialize`` receives.
    sparse_grad : bool
        True: the gradient is a row_sparse array of the rows that occur, and optimizers with lazy
        updates (SGD, Adam) change these rows only. Such a network trains operator by operator.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> layer = nn.Embedding(input_dim=10, output_dim=4)
    >>> layer.initialize()
    >>> layer(nd.array([[1, 2, 3], [4, 5, 6]])).shape
    (2, 3, 4)
    """

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
    """Join all axes after the first: (N, a, b, ...) becomes (N, a * b * ...).

    Parameters
    ----------
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> nn.Flatten()(nd.ones((2, 3, 4))).shape
    (2, 12)
    """

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.Flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """A function as a layer that is not hybrid.

    Parameters
    ----------
    function : str or callable
        Name of a function in ``nd``, or a function of the layer's inputs.
    prefix : str, optional
        Prefix of the layer's name.

    Raises
    ------
    AssertionError
        If ``nd`` has no function of that name.
    ValueError
        If ``function`` is neither a string nor callable.

    Examples
    --------
    >>> nn.Lambda(lambda x: x + 1)(nd.zeros(2)).asnumpy()
    array([1., 1.], dtype=float32)
    """

    def __init__(self, function: str | Function, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        self._func_impl = _function(function, "ndarray", nd)

    def forward(self, *args: Nested) -> Nested:
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


class HybridLambda(HybridBlock):
    """A function as a hybrid layer.

    Parameters
    ----------
    function : str or callable
        Name of a function in ``nd`` and ``sym``, or a function of F (one of these modules) and
        the layer's inputs.
    prefix : str, optional
        Prefix of the layer's name.

    Raises
    ------
    AssertionError
        If one of the modules has no function of that name.
    ValueError
        If ``function`` is neither a string nor callable.

    Examples
    --------
    >>> nn.HybridLambda(lambda F, x: F.relu(x))(nd.array([-1, 2])).asnumpy()
    array([0., 2.], dtype=float32)
    """

    def __init__(self, function: str | Function, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        self._func = function
        self._func_name = _function(function, "symbol/ndarray", nd, sym).__name__
        if isinstance(function, str):
            self._func_name = function

    def hybrid_forward(self, F: ModuleType, x: Tensor, *args: object) -> Tensor:  # type: ignore[override]
        if isinstance(self._func, str):
            return getattr(F, self._func)(x, *args)
        try:
            return self._func(F, x, *args)
        except TypeError as error:
            if is_of_call(error):
                way = "the function of a HybridLambda takes F and data, as lambda F, x: F.exp(x)"
                error.args = (f"{error}: {way}",)
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


def _function(function: str | Function, where: str, *modules: ModuleType) -> Function:
    """The callable, or the function of this name in the first module.

    Raises AssertionError if a module has no such function, ValueError for other types.
    """
    if isinstance(function, str):
        assert all(hasattr(module, function) for module in modules), (
            f"Function name {function} is not found in {where}"
            f"{did_you_mean(function, dir(modules[0]))}"
        )
        return getattr(modules[0], function)
    if callable(function):
        return function
    raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")
