"""Activation functions as layers."""

from __future__ import annotations

from types import ModuleType

from ... import initializer
from ..hybrid_block import HybridBlock
from ..naming import BlockArgs
from ..types import Init, Tensor, Unpack


class Activation(HybridBlock):
    """Pointwise activation function.

    Parameters
    ----------
    activation : str
        relu, sigmoid, tanh, softrelu or softsign.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    MXNetError
        In a call, for another name.

    Examples
    --------
    >>> nn.Activation("relu")(nd.array([-1, 2])).asnumpy()
    array([0., 2.], dtype=float32)
    """

    def __init__(self, activation: str, **kwargs: Unpack[BlockArgs]) -> None:
        if not isinstance(activation, str):
            way = "add other layers to the network after this one"
            if isinstance(activation, int):  # Dense(64, 10) in the order of other libraries
                way = "the number of inputs follows from the data, or is in_units"
            raise TypeError(f"activation must be a name such as 'relu', got {activation!r}: {way}")
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """Leaky ReLU: x where x > 0, else alpha * x.

    Parameters
    ----------
    alpha : float
        Slope for negative elements, at least 0.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    AssertionError
        If ``alpha`` is negative.

    Examples
    --------
    >>> nn.LeakyReLU(0.5)(nd.array([-2, 2])).asnumpy()
    array([-1.,  2.], dtype=float32)
    """

    def __init__(self, alpha: float, **kwargs: Unpack[BlockArgs]) -> None:
        assert alpha >= 0, "Slope coefficient for LeakyReLU must be no less than 0."
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """Leaky ReLU whose slope is a trained parameter.

    Parameters
    ----------
    alpha_initializer : Initializer or str, optional
        Initializer of the slope; by default the constant 0.25.
    in_channels : int
        1: one slope for all elements; otherwise the number of channels, with one slope each.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> layer = nn.PReLU()
    >>> layer.initialize()
    >>> layer(nd.array([[-2, 2]])).asnumpy()
    array([[-0.5,  2. ]], dtype=float32)
    """

    def __init__(
        self, alpha_initializer: Init = None, in_channels: int = 1, **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(**kwargs)
        init = initializer.Constant(0.25) if alpha_initializer is None else alpha_initializer
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=init)

    def hybrid_forward(self, F: ModuleType, x: Tensor, alpha: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """Exponential linear unit: x where x > 0, else alpha * (exp(x) - 1).

    Parameters
    ----------
    alpha : float
        Scale of the negative part.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> nn.ELU()(nd.array([0, 2])).asnumpy()
    array([0., 2.], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """Scaled exponential linear unit, with the constants of self-normalising networks.

    Parameters
    ----------
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> nn.SELU()(nd.array([1])).asnumpy().round(4)
    array([1.0507], dtype=float32)
    """

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """Gaussian error linear unit: x times the normal distribution function of x, in its exact form.

    Parameters
    ----------
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> nn.GELU()(nd.array([1])).asnumpy().round(4)
    array([0.8413], dtype=float32)
    """

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """Swish: x * sigmoid(beta * x).

    Parameters
    ----------
    beta : float
        Steepness.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> nn.Swish()(nd.array([0])).asnumpy()
    array([0.], dtype=float32)
    """

    def __init__(self, beta: float = 1.0, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return x * F.sigmoid(self._beta * x, name="fwd")
