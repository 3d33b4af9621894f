"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import numpy as np

from ... import nd
from ..._core.types import DType
from ...nd.fixed_gamma import put_ones
from ..hybrid_block import HybridBlock
from ..naming import BlockArgs
from ..parameter import Parameter, ParameterDict
from ..types import Init, Tensor, Unpack


class BatchNorm(HybridBlock):
    """Batch normalisation: ``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` per channel.

    In training, mean and variance are those of the batch, and the moving statistics are updated:
    ``running = momentum * running + (1 - momentum) * batch``. Otherwise the moving statistics
    are used. (Ioffe and Szegedy, arXiv 1502.03167)

    Parameters
    ----------
    axis : int
        Axis of the channels: 1 for NCHW, -1 or 3 for NHWC.
    momentum : float
        Weight of the old moving statistics.
    epsilon : float
        Added to the variance.
    center : bool
        False keeps beta from training.
    scale : bool
        False computes with ones in place of gamma. Use this before a layer with its own scale.
    use_global_stats : bool
        True uses the moving statistics in training too.
    beta_initializer, gamma_initializer : Initializer or str
        Initializers of the trained parameters.
    running_mean_initializer, running_variance_initializer : Initializer or str
        Initializers of the moving statistics.
    in_channels : int
        Number of channels. 0: taken from the first input.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    ShapeError
        In a call, if the input has no such axis or another number of channels.

    Notes
    -----
    After ``cast("float16")`` the parameters stay float32; input and output are float16. Inference
    folds the layer into the convolution or dense layer before it.

    Examples
    --------
    >>> layer = nn.BatchNorm(in_channels=3)
    >>> layer.initialize()
    >>> layer(nd.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    fuse_relu = False

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        running_mean_initializer: Init = "zeros",
        running_variance_initializer: Init = "ones",
        in_channels: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs: dict[str, object] = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        if in_channels != 0:
            self.in_channels = in_channels
        size = (in_channels,)
        self.gamma = _vector(self, "gamma", size, gamma_initializer, scale)
        self.beta = _vector(self, "beta", size, beta_initializer, center)
        self.running_mean = _vector(self, "running_mean", size, running_mean_initializer, False)
        self.running_var = _vector(self, "running_var", size, running_variance_initializer, False)

    def cast(self, dtype: DType) -> None:
        """Change the element type; with float16 data these parameters remain float32."""
        super().cast("float32" if np.dtype(dtype) == np.float16 else dtype)

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
    ) -> Tensor:
        if F is nd:
            self._overwrite_fixed_gamma(gamma)
        op = F.contrib.BatchNormWithReLU if self.fuse_relu else F.BatchNorm
        return op(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def _overwrite_fixed_gamma(self, gamma: Tensor) -> None:
        """Write ones into a gamma with ``fix_gamma``, as every eager call does."""
        if self._kwargs["fix_gamma"] and isinstance(gamma, nd.NDArray):
            put_ones([gamma])

    def __repr__(self) -> str:
        return _options_text(self, self._kwargs, self.gamma.shape[0] or None)


class BatchNormReLU(BatchNorm):
    """Batch normalisation followed by relu; parameters as in :class:`BatchNorm`.

    Examples
    --------
    >>> layer = nn.BatchNormReLU(in_channels=3)
    >>> layer.initialize()
    >>> float(layer(nd.array([[-1, 0, 1]])).min().asscalar())
    0.0
    """

    fuse_relu = True


class InstanceNorm(HybridBlock):
    """Instance normalisation: each channel of each sample, over the other axes.

    Parameters
    ----------
    axis : int
        Axis of the channels.
    epsilon : float
        Added to the variance.
    center : bool
        Whether beta is trained and added. False keeps beta from training.
    scale : bool
        Whether gamma is trained. False keeps gamma from training.
    beta_initializer, gamma_initializer : Initializer or str
        Initializers of the parameters.
    in_channels : int
        Number of channels. 0: taken from the first input.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> layer = nn.InstanceNorm(in_channels=3)
    >>> layer.initialize()
    >>> layer(nd.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        in_channels: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        self.gamma = _vector(self, "gamma", (in_channels,), gamma_initializer, scale)
        self.beta = _vector(self, "beta", (in_channels,), beta_initializer, center)

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, x: Tensor, gamma: Tensor, beta: Tensor
    ) -> Tensor:
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        x = x.swapaxes(1, self._axis)
        out = F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        return out.swapaxes(1, self._axis)

    def __repr__(self) -> str:
        return _options_text(self, self._kwargs, self.gamma.shape[0])


class LayerNorm(HybridBlock):
    """Layer normalisation: along one axis of each sample (Ba et al., arXiv 1607.06450).

    Parameters
    ----------
    axis : int
        Axis that is normalised.
    epsilon : float
        Added to the variance.
    center : bool
        Whether beta is trained and added. False keeps beta from training.
    scale : bool
        Whether gamma is trained. False keeps gamma from training.
    beta_initializer, gamma_initializer : Initializer or str
        Initializers of the parameters.
    in_channels : int
        Size of the axis. 0: taken from the first input.
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> layer = nn.LayerNorm(in_channels=2)
    >>> layer.initialize()
    >>> layer(nd.array([[1, 3]])).asnumpy().round(3)
    array([[-1.,  1.]], dtype=float32)
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        self._center = center
        self._scale = scale
        self.gamma = _vector(self, "gamma", (in_channels,), gamma_initializer, scale)
        self.beta = _vector(self, "beta", (in_channels,), beta_initializer, center)

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, data: Tensor, gamma: Tensor, beta: Tensor
    ) -> Tensor:
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)

    def __repr__(self) -> str:
        return _options_text(self, self._kwargs, self.gamma.shape[0])


class GroupNorm(HybridBlock):
    """Group normalisation: groups of adjacent channels of each sample, over all other axes.

    Parameters
    ----------
    num_groups : int
        Number of groups; gamma and beta have one element per group, as in MXNet.
    epsilon : float
        Added to the variance.
    center : bool
        Whether beta is trained and added. False keeps beta from training.
    scale : bool
        Whether gamma is trained. False keeps gamma from training.
    beta_initializer, gamma_initializer : Initializer or str
        Initializers of the parameters.
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Raises
    ------
    MXNetError
        In a call, if the channels (axis 1) cannot be divided into ``num_groups`` groups.

    Examples
    --------
    >>> layer = nn.GroupNorm(num_groups=2)
    >>> layer.initialize()
    >>> layer(nd.ones((2, 4, 5))).shape
    (2, 4, 5)
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {
            "eps": epsilon,
            "num_groups": num_groups,
            "center": center,
            "scale": scale,
        }
        self._num_groups = num_groups
        self._epsilon = epsilon
        self._center = center
        self._scale = scale
        self.gamma = _vector(self, "gamma", (num_groups,), gamma_initializer, scale)
        self.beta = _vector(self, "beta", (num_groups,), beta_initializer, center)

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, data: Tensor, gamma: Tensor, beta: Tensor
    ) -> Tensor:
        return F.GroupNorm(
            data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_pairs(self._kwargs)})"


def _vector(
    block: HybridBlock, name: str, shape: tuple[int, ...], init: Init, is_trained: bool
) -> Parameter:
    """A parameter with one element per channel."""
    return block.params.get(
        name,
        grad_req="write" if is_trained else "null",
        shape=shape,
        init=init,
        allow_deferred_init=True,
        differentiable=is_trained,
    )


def _options_text(
    block: HybridBlock, options: Mapping[str, object], in_channels: int | None
) -> str:
    return f"{type(block).__name__}({_pairs(options)}, in_channels={in_channels})"


def _pairs(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items())
