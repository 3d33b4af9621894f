"""Pooling and reflection padding as layers."""

from __future__ import annotations

from types import ModuleType

from ..hybrid_block import HybridBlock
from ..types import BlockArgs, Tensor, Unpack
from .conv_layers import Size, per_axis


class _AnyPool(HybridBlock):
    """What all pooling layers share; the operator's attributes are in ``_kwargs``."""

    layouts: tuple[str, ...] = ()  # those that the class takes, its default first
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
        kernel = per_axis(pool_size, count)
        assert len(kernel) == count, f"pool_size must be a number or a list of {count} ints"
        self._kwargs: dict[str, object] = {
            "kernel": kernel,
            "stride": kernel if strides is None else per_axis(strides, count),
            "pad": per_axis(padding, count),
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


class _MaxPool(_AnyPool):
    """The largest value in each window; padding is never the largest."""

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
        self._set_up(pool_size, strides, padding, layout, ceil_mode)
        super().__init__(**kwargs)


class MaxPool1D(_MaxPool):
    """Over (N, C, W) or (N, W, C)."""

    layouts = ("NCW", "NWC")


class MaxPool2D(_MaxPool):
    """Over (N, C, H, W) or (N, H, W, C)."""

    layouts = ("NCHW", "NHWC")


class MaxPool3D(_AnyPool):
    """Over (N, C, D, H, W) or (N, D, H, W, C)."""

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
        self._set_up(pool_size, strides, padding, layout, ceil_mode)
        super().__init__(**kwargs)


class AvgPool1D(_AnyPool):
    """The mean of each window, over (N, C, W) or (N, W, C)."""

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
        self._set_up(
            pool_size, strides, padding, layout, ceil_mode, count_include_pad=count_include_pad
        )
        super().__init__(**kwargs)


class AvgPool2D(_AvgPool):
    """Over (N, C, H, W) or (N, H, W, C)."""

    layouts = ("NCHW", "NHWC")


class AvgPool3D(_AvgPool):
    """Over (N, C, D, H, W) or (N, D, H, W, C)."""

    layouts = ("NCDHW", "NDHWC")


class _GlobalPool(_AnyPool):
    """One window over all spatial axes, which become 1."""

    def __init__(self, layout: str | None = None, **kwargs: Unpack[BlockArgs]) -> None:
        self._set_up(1, None, 0, layout, True, is_global=True)
        super().__init__(**kwargs)


class GlobalMaxPool1D(_GlobalPool):
    """The largest value over (N, C, W)."""

    layouts = ("NCW", "NWC")
    pool_type = "max"


class GlobalMaxPool2D(_GlobalPool):
    """The largest value over (N, C, H, W)."""

    layouts = ("NCHW", "NHWC")
    pool_type = "max"


class GlobalMaxPool3D(_GlobalPool):
    """The largest value over (N, C, D, H, W)."""

    layouts = ("NCDHW", "NDHWC")
    pool_type = "max"


class GlobalAvgPool1D(_GlobalPool):
    """The mean over (N, C, W)."""

    layouts = ("NCW", "NWC")
    pool_type = "avg"


class GlobalAvgPool2D(_GlobalPool):
    """The mean over (N, C, H, W)."""

    layouts = ("NCHW", "NHWC")
    pool_type = "avg"


class GlobalAvgPool3D(_GlobalPool):
    """The mean over (N, C, D, H, W)."""

    layouts = ("NCDHW", "NDHWC")
    pool_type = "avg"


class ReflectionPad2D(HybridBlock):
    """Mirrors the borders of (N, C, H, W); ``padding`` is a number, or all eight of ``pad``."""

    def __init__(self, padding: int | tuple[int, ...] = 0, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, int):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        assert len(padding) == 8, f"padding must be a number or 8 of them, got {len(padding)}"
        self._padding = padding

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.pad(x, mode="reflect", pad_width=self._padding)
