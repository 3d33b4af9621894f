"""Pooling and reflection padding as layers."""

from __future__ import annotations

from types import ModuleType

from ..hybrid_block import HybridBlock
from ..naming import BlockArgs
from ..types import Tensor, Unpack
from .conv_layers import Size, per_axis


class _AnyPool(HybridBlock):
    """Base of all pooling layers; the operator's attributes are in ``_kwargs``."""

    layouts: tuple[str, ...] = ()  # supported layouts, the default first
    pool_type = ""

    def _alias(self) -> str:
        return "pool"

    def _set_up(
        self,
        pool_size: Size,
        strides: Size | None,
        padding: Size,
        layout: str | None,
        ceil_mode: bool,
        is_global: bool = False,
        count_include_pad: bool | None = None,
    ) -> None:
        layout = layout or self.layouts[0]
        count = len(self.layouts[0]) - 2
        assert layout in self.layouts, (
            f"Only {' and '.join(self.layouts)} layouts are valid for {count}D Pooling"
        )
        kernel = per_axis(pool_size, count, "pool_size")
        assert len(kernel) == count, f"pool_size must be a number or a list of {count} ints"
        self._kwargs: dict[str, object] = {
            "kernel": kernel,
            "stride": kernel if strides is None else per_axis(strides, count, "strides"),
            "pad": per_axis(padding, count, "padding"),
            "global_pool": is_global,
            "pool_type": self.pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        options = self._kwargs
        return (
            f"{type(self).__name__}(size={options['kernel']}, stride={options['stride']}, "
            f"padding={options['pad']}, ceil_mode={options['pooling_convention'] == 'full'}, "
            f"global_pool={options['global_pool']}, pool_type={options['pool_type']}, "
            f"layout={options['layout']})"
        )


class _Pooling(_AnyPool):
    """Pooling of any kind: MXNet's base of all pooling layers, which programs derive from."""

    def __init__(
        self,
        pool_size: Size,
        strides: Size | None,
        padding: Size,
        ceil_mode: bool,
        global_pool: bool,
        pool_type: str,
        layout: str,
        count_include_pad: bool | None = None,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        self.layouts, self.pool_type = (layout,), pool_type
        self._set_up(
            *(pool_size, strides, padding, layout, ceil_mode, global_pool, count_include_pad)
        )


class _MaxPool(_AnyPool):
    """The largest value in each window; padding is ignored."""

    pool_type = "max"

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        """Make the layer.

        Parameters
        ----------
        pool_size : int or tuple of int
            Size of the window; an int stands for all axes.
        strides : int or tuple of int, optional
            Step of the window; by default its size.
        padding : int or tuple of int
            Elements added at both ends of each axis.
        layout : str, optional
            Axes of the input: one of the class's ``layouts``; the first by default.
        ceil_mode : bool
            Whether a window that reaches beyond the end counts: sizes are rounded up in place of
            down.
        **kwargs
            ``prefix`` and ``params``, as in :class:`Block`.

        Raises
        ------
        AssertionError
            For another layout, or a window with another number of axes.
        MXNetError
            In a call, for an input with another number of axes, or smaller than the window.
        """
        self._set_up(pool_size, strides, padding, layout, ceil_mode)
        super().__init__(**kwargs)


class MaxPool1D(_MaxPool):
    """Maximum pooling over (N, C, W) or (N, W, C).

    Examples
    --------
    >>> nn.MaxPool1D()(nd.ones((1, 2, 8))).shape
    (1, 2, 4)
    """

    layouts = ("NCW", "NWC")


class MaxPool2D(_MaxPool):
    """Maximum pooling over (N, C, H, W) or (N, H, W, C).

    Examples
    --------
    >>> nn.MaxPool2D()(nd.ones((1, 2, 8, 8))).shape
    (1, 2, 4, 4)
    """

    layouts = ("NCHW", "NHWC")


class MaxPool3D(_AnyPool):
    """Maximum pooling over (N, C, D, H, W) or (N, D, H, W, C).

    Examples
    --------
    >>> nn.MaxPool3D()(nd.ones((1, 2, 8, 8, 8))).shape
    (1, 2, 4, 4, 4)
    """

    layouts = ("NCDHW", "NDHWC")
    pool_type = "max"

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        """Make the layer; parameters as in :class:`MaxPool2D`, ``ceil_mode`` before ``layout``."""
        self._set_up(pool_size, strides, padding, layout, ceil_mode)
        super().__init__(**kwargs)


class AvgPool1D(_AnyPool):
    """Average pooling over (N, C, W) or (N, W, C).

    Examples
    --------
    >>> nn.AvgPool1D()(nd.ones((1, 2, 8))).shape
    (1, 2, 4)
    """

    layouts = ("NCW", "NWC")
    pool_type = "avg"

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        """Make the layer; parameters as in :class:`AvgPool2D`, ``layout`` before ``ceil_mode``."""
        self._set_up(
            pool_size, strides, padding, layout, ceil_mode, count_include_pad=count_include_pad
        )
        super().__init__(**kwargs)


class _AvgPool(_AnyPool):
    """The mean of each window; padding counts as zeros unless ``count_include_pad`` is False."""

    pool_type = "avg"

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        """Make the layer.

        Parameters
        ----------
        pool_size : int or tuple of int
            Size of the window; an int stands for all axes.
        strides : int or tuple of int, optional
            Step of the window; by default its size.
        padding : int or tuple of int
            Elements added at both ends of each axis.
        ceil_mode : bool
            Whether a window that reaches beyond the end counts: sizes are rounded up in place of
            down.
        layout : str, optional
            Axes of the input: one of the class's ``layouts``; the first by default.
        count_include_pad : bool
            Whether padding counts as zeros in the mean; False divides by the elements inside.
        **kwargs
            ``prefix`` and ``params``, as in :class:`Block`.

        Raises
        ------
        AssertionError
            For another layout, or a window with another number of axes.
        MXNetError
            In a call, for an input with another number of axes, or smaller than the window.
        """
        self._set_up(
            pool_size, strides, padding, layout, ceil_mode, count_include_pad=count_include_pad
        )
        super().__init__(**kwargs)


class AvgPool2D(_AvgPool):
    """Average pooling over (N, C, H, W) or (N, H, W, C).

    Examples
    --------
    >>> nn.AvgPool2D()(nd.ones((1, 2, 8, 8))).shape
    (1, 2, 4, 4)
    """

    layouts = ("NCHW", "NHWC")


class AvgPool3D(_AvgPool):
    """Average pooling over (N, C, D, H, W) or (N, D, H, W, C).

    Examples
    --------
    >>> nn.AvgPool3D()(nd.ones((1, 2, 8, 8, 8))).shape
    (1, 2, 4, 4, 4)
    """

    layouts = ("NCDHW", "NDHWC")


class _GlobalPool(_AnyPool):
    """One window over all spatial axes, which get size 1."""

    def __init__(self, layout: str | None = None, **kwargs: Unpack[BlockArgs]) -> None:
        """Make the layer.

        Parameters
        ----------
        layout : str, optional
            Axes of the input: one of the class's ``layouts``; the first by default.
        **kwargs
            ``prefix`` and ``params``, as in :class:`Block`.
        """
        self._set_up(1, None, 0, layout, True, is_global=True)
        super().__init__(**kwargs)


class GlobalMaxPool1D(_GlobalPool):
    """Maximum over all spatial axes of (N, C, W) or (N, W, C); these axes get size 1.

    Examples
    --------
    >>> nn.GlobalMaxPool1D()(nd.ones((1, 2, 8))).shape
    (1, 2, 1)
    """

    layouts = ("NCW", "NWC")
    pool_type = "max"


class GlobalMaxPool2D(_GlobalPool):
    """Maximum over all spatial axes of (N, C, H, W) or (N, H, W, C); these axes get size 1.

    Examples
    --------
    >>> nn.GlobalMaxPool2D()(nd.ones((1, 2, 8, 8))).shape
    (1, 2, 1, 1)
    """

    layouts = ("NCHW", "NHWC")
    pool_type = "max"


class GlobalMaxPool3D(_GlobalPool):
    """Maximum over all spatial axes of (N, C, D, H, W) or (N, D, H, W, C); these axes get size 1.

    Examples
    --------
    >>> nn.GlobalMaxPool3D()(nd.ones((1, 2, 8, 8, 8))).shape
    (1, 2, 1, 1, 1)
    """

    layouts = ("NCDHW", "NDHWC")
    pool_type = "max"


class GlobalAvgPool1D(_GlobalPool):
    """Mean over all spatial axes of (N, C, W) or (N, W, C); these axes get size 1.

    Examples
    --------
    >>> nn.GlobalAvgPool1D()(nd.ones((1, 2, 8))).shape
    (1, 2, 1)
    """

    layouts = ("NCW", "NWC")
    pool_type = "avg"


class GlobalAvgPool2D(_GlobalPool):
    """Mean over all spatial axes of (N, C, H, W) or (N, H, W, C); these axes get size 1.

    Examples
    --------
    >>> nn.GlobalAvgPool2D()(nd.ones((1, 2, 8, 8))).shape
    (1, 2, 1, 1)
    """

    layouts = ("NCHW", "NHWC")
    pool_type = "avg"


class GlobalAvgPool3D(_GlobalPool):
    """Mean over all spatial axes of (N, C, D, H, W) or (N, D, H, W, C); these axes get size 1.

    Examples
    --------
    >>> nn.GlobalAvgPool3D()(nd.ones((1, 2, 8, 8, 8))).shape
    (1, 2, 1, 1, 1)
    """

    layouts = ("NCDHW", "NDHWC")
    pool_type = "avg"


class ReflectionPad2D(HybridBlock):
    """Padding of (N, C, H, W) by mirrored elements; the border itself is not repeated.

    Parameters
    ----------
    padding : int or tuple of int
        Number of elements at each end of H and W, or 8 ints: before and after for each axis.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    AssertionError
        For a tuple of another length.

    Examples
    --------
    >>> nn.ReflectionPad2D(1)(nd.ones((1, 2, 4, 4))).shape
    (1, 2, 6, 6)
    """

    def __init__(self, padding: int | tuple[int, ...] = 0, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, int):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        assert len(padding) == 8, f"padding must be a number or 8 numbers, got {len(padding)}"
        self._padding = padding

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.pad(x, mode="reflect", pad_width=self._padding)
