"""Parallel branches, pixel shuffles, and BatchNorm and Embedding for several devices."""

from __future__ import annotations

from operator import index
from types import ModuleType

from .... import nd
from ...._core.types import Sizes
from ....nd import NDArray
from ....ops.attrs import Attrs
from ...block import Block
from ...hybrid_block import HybridBlock
from ...naming import BlockArgs
from ...nn import BatchNorm, HybridSequential, Sequential
from ...parameter import ParameterDict
from ...types import DType, Init, Tensor, Unpack


class Concurrent(Sequential):
    """Apply every child to the same input, and concatenate the results.

    For children that are not all hybrid; otherwise use :class:`HybridConcurrent`.

    Parameters
    ----------
    axis : int
        Axis of the concatenation; the results have equal sizes along the others.
    prefix, params : optional
        As in :class:`Block`.

    Examples
    --------
    >>> net = gluon.contrib.nn.Concurrent(axis=1)
    >>> net.add(nn.Dense(3), nn.Dense(4))
    >>> net.initialize()
    >>> net(nd.ones((2, 5))).shape
    (2, 7)
    """

    def __init__(
        self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        self.axis = axis

    def forward(self, x: Tensor) -> NDArray:
        return nd.concat(*[child(x) for child in self._children.values()], dim=self.axis)


class HybridConcurrent(HybridSequential):
    """Apply every child, a HybridBlock, to the same input, and concatenate the results.

    Parameters
    ----------
    axis : int
        Axis of the concatenation; the results have equal sizes along the others.
    prefix, params : optional
        As in :class:`Block`.

    Examples
    --------
    >>> net = gluon.contrib.nn.HybridConcurrent(axis=1)
    >>> net.add(nn.Conv2D(8, 1), nn.Conv2D(4, 3, padding=1))
    >>> net.initialize()
    >>> net(nd.ones((1, 3, 5, 5))).shape
    (1, 12, 5, 5)
    """

    def __init__(
        self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        self.axis = axis

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        return F.concat(*[child(x) for child in self._children.values()], dim=self.axis)


class Identity(HybridBlock):
    """Return the input: a branch of :class:`HybridConcurrent` without layers.

    Parameters
    ----------
    prefix, params : optional
        As in :class:`Block`.

    Examples
    --------
    >>> gluon.contrib.nn.Identity()(nd.ones((2, 3))).shape
    (2, 3)
    """

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return x


class SparseEmbedding(Block):
    """Rows of a table by index, with a gradient that has only the rows that were read.

    For networks that are not hybridized; its trainer updates these rows alone.

    Parameters
    ----------
    input_dim : int
        Number of rows.
    output_dim : int
        Length of a row.
    dtype : str or dtype
        Element type of the table and of the result.
    weight_initializer : str or Initializer, optional
        Of the table; by default that of ``initialize``.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> layer = gluon.contrib.nn.SparseEmbedding(10, 4)
    >>> layer.initialize()
    >>> layer(nd.array([1, 7])).shape
    (2, 4)
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: DType = "float32",
        weight_initializer: Init = None,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs: Attrs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": True,
        }
        self.weight = self.params.get(
            "weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype
        )

    def forward(self, x: NDArray) -> NDArray:  # type: ignore[override]
        return nd.Embedding(x, self.weight.data(x.context), name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        options = self._kwargs
        return (
            f"{type(self).__name__}({options['input_dim']} -> {options['output_dim']}, "
            f"{options['dtype']})"
        )


class SyncBatchNorm(BatchNorm):
    """BatchNorm over axis 1; in training its statistics are those of all devices together.

    A process has one device: the CPU. With ``num_devices`` 1 it computes the results of
    :class:`BatchNorm`.

    Parameters
    ----------
    in_channels : int
        Number of channels; 0: of the first data.
    num_devices : int, optional
        Number of devices whose batches are normalized together; by default 1.
    momentum : float
        Share of the old moving statistics in the new ones.
    epsilon : float
        Added to the variance.
    center, scale : bool
        Whether an offset is added, and a factor multiplied, both trained.
    use_global_stats : bool
        Whether the moving statistics are used in training too.
    beta_initializer, gamma_initializer : str or Initializer
        Of the offset and the factor.
    running_mean_initializer, running_variance_initializer : str or Initializer
        Of the moving statistics.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> layer = gluon.contrib.nn.SyncBatchNorm(num_devices=1)
    >>> layer.initialize()
    >>> layer(nd.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        running_mean_initializer: Init = "zeros",
        running_variance_initializer: Init = "ones",
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(
            1,
            momentum,
            epsilon,
            center,
            scale,
            use_global_stats,
            beta_initializer,
            gamma_initializer,
            running_mean_initializer,
            running_variance_initializer,
            in_channels,
            **kwargs,
        )
        del self._kwargs["axis"]
        self._kwargs |= {"ndev": num_devices or 1, "key": self.prefix}

    def hybrid_forward(
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
        return F.contrib.SyncBatchNorm(
            x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs
        )


class PixelShuffle1D(HybridBlock):
    """Move channels to positions: (N, C * f, W) to (N, C, W * f).

    Parameters
    ----------
    factor : int
        Factor of the width, f; it divides the number of channels.

    Examples
    --------
    >>> gluon.contrib.nn.PixelShuffle1D(2)(nd.ones((1, 8, 3))).shape
    (1, 4, 6)
    """

    def __init__(self, factor: int) -> None:
        super().__init__()
        self._factor = index(factor)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        x = F.reshape(x, (0, -4, -1, self._factor, 0))
        x = F.transpose(x, (0, 1, 3, 2))
        return F.reshape(x, (0, 0, -3))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factor})"


class PixelShuffle2D(HybridBlock):
    """Move channels to pixels: (N, C * f1 * f2, H, W) to (N, C, H * f1, W * f2).

    Parameters
    ----------
    factor : int or tuple of int
        Factors of height and width, f1 and f2; one number for both. Their product divides the
        number of channels.

    Examples
    --------
    >>> gluon.contrib.nn.PixelShuffle2D((2, 3))(nd.ones((1, 12, 3, 5))).shape
    (1, 2, 6, 15)
    """

    def __init__(self, factor: int | tuple[int, int]) -> None:
        super().__init__()
        self._factors = _factors(factor, 2)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        f1, f2 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2, 0, 0))
        x = F.reshape(x, (0, 0, -4, f1, f2, 0, 0))
        x = F.transpose(x, (0, 1, 4, 2, 5, 3))
        return F.reshape(x, (0, 0, -3, -3))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors})"


class PixelShuffle3D(HybridBlock):
    """(N, C * f1 * f2 * f3, D, H, W) to (N, C, D * f1, H * f2, W * f3).

    Parameters
    ----------
    factor : int or tuple of int
        Factors of depth, height and width; one number for all. Their product divides the number
        of channels.

    Examples
    --------
    >>> gluon.contrib.nn.PixelShuffle3D((2, 3, 4))(nd.ones((1, 48, 3, 5, 7))).shape
    (1, 2, 6, 15, 28)
    """

    def __init__(self, factor: int | tuple[int, int, int]) -> None:
        super().__init__()
        self._factors = _factors(factor, 3)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        f1, f2, f3 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2 * f3, 0, 0, 0))
        x = F.swapaxes(x, 2, 3)  # (N, C, D, f, H, W)
        x = F.reshape(x, (0, 0, 0, -4, f1, f2 * f3, 0, 0))
        x = F.reshape(x, (0, 0, -3, 0, 0, 0))  # (N, C, D * f1, f2 * f3, H, W)
        x = F.swapaxes(x, 3, 4)
        x = F.reshape(x, (0, 0, 0, 0, -4, f2, f3, 0))
        x = F.reshape(x, (0, 0, 0, -3, 0, 0))  # (N, C, D * f1, H * f2, f3, W)
        x = F.swapaxes(x, 4, 5)
        return F.reshape(x, (0, 0, 0, 0, -3))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors})"


def _factors(factor: Sizes, count: int) -> tuple[int, ...]:
    factors = (int(factor),) * count if isinstance(factor, int) else tuple(map(index, factor))
    assert len(factors) == count, f"factor must be a number or {count} of them, got {factor}"
    return factors
