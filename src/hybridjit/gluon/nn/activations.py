"""Activation functions as layers."""

from __future__ import annotations

from types import ModuleType

from ... import initializer
from ..hybrid_block import HybridBlock
from ..types import BlockArgs, Init, Tensor, Unpack


class Activation(HybridBlock):
    """``activation`` is relu, sigmoid, tanh, softrelu or softsign."""

    def __init__(self, activation: str, **kwargs: Unpack[BlockArgs]) -> None:
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where it is positive, else alpha * x. AssertionError for a negative alpha."""

    def __init__(self, alpha: float, **kwargs: Unpack[BlockArgs]) -> None:
        assert alpha >= 0, "Slope coefficient for LeakyReLU must be no less than 0."
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """Leaky ReLU whose slope is a parameter: one number, or one per channel."""

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
    """x where it is positive, else alpha * (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """ELU with the fixed constants of self-normalising nets."""

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x times the normal distribution function of x, in its exact form."""

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x * sigmoid(beta * x)."""

    def __init__(self, beta: float = 1.0, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return x * F.sigmoid(self._beta * x, name="fwd")
