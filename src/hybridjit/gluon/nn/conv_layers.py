"""Convolution and transposed convolution as layers, over one to three spatial axes."""

from __future__ import annotations

from operator import index
from types import ModuleType
from typing import Any

from ...errors import ShapeError
from ..hybrid_block import HybridBlock
from ..types import BlockArgs, Init, Tensor, Unpack
from .activations import Activation

Size = int | tuple[int, ...] | list[int]


def per_axis(value: Size, count: int) -> tuple[int, ...]:
    """A single number repeated for every spatial axis; TypeError unless whole."""
    return (value,) * count if isinstance(value, int) else tuple(map(index, value))


class _AnyConv(HybridBlock):
    """What convolutions and transposed ones share: attributes, weight, bias and activation."""

    layouts: tuple[str, ...] = ()  # those that the class takes, its default first
    op_name = ""

    def _alias(self) -> str:
        return "conv"

    def _set_up(
        self,
        channels: int,
        in_channels: int,
        layout: str | None,
        use_bias: bool,
        op_name: str | None,
        **sizes: Any,
    ) -> None:
        """Keep the operator's attributes. AssertionError or ShapeError for sizes that cannot be."""
        layout = layout or self.layouts[0]
        allowed = " and ".join(repr(known) for known in self.layouts)
        assert layout in self.layouts, f"Only supports {allowed} layout for now"
        self._channels = channels
        self._in_channels = in_channels
        self._op_name = op_name or type(self).op_name
        groups, adj = sizes.pop("num_group"), sizes.pop("adj", None)
        if groups < 1:
            raise ValueError(f"groups is at least 1, got {groups}")
        count = len(layout) - 2
        full = {name: per_axis(value, count) for name, value in sizes.items()}
        assert len(full["kernel"]) == count, (
            f"kernel_size must be a number or a list of {count} ints"
        )
        for name, value in full.items():
            if len(value) != count:
                raise ShapeError(f"{name} {value} must have {count} numbers, as the kernel has")
        self._kwargs: dict[str, Any] = {
            **full,
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if adj is not None:
            self._kwargs["adj"] = per_axis(adj, count)
            assert len(self._kwargs["adj"]) == count, (
                f"output_padding must be a number or a list of {count} ints"
            )

    def _add_params(
        self, first: int, second: int, activation: str | None, weight_init: Init, bias_init: Init
    ) -> None:
        """Weight (first, second, kernel...), or with the channels last as the layout has them."""
        kernel = self._kwargs["kernel"]
        is_last = self._kwargs["layout"].endswith("C")
        shape = (first, *kernel, second) if is_last else (first, second, *kernel)
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=shape, init=weight_init, allow_deferred_init=True
            )
            self.bias = None
            if not self._kwargs["no_bias"]:
                self.bias = self.params.get(
                    "bias", shape=(self._channels,), init=bias_init, allow_deferred_init=True
                )
            self.act = None
            if activation is not None:
                self.act = Activation(activation, prefix=f"{activation}_")

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, x: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        tensors = (x, weight) if bias is None else (x, weight, bias)
        out = getattr(F, self._op_name)(*tensors, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        options, shape = self._kwargs, self.weight.shape
        inputs = shape[-1] if options["layout"].endswith("C") else shape[1]
        parts = [f"kernel_size={options['kernel']}", f"stride={options['stride']}"]
        if any(options["pad"]):
            parts.append(f"padding={options['pad']}")
        if any(size != 1 for size in options["dilate"]):
            parts.append(f"dilation={options['dilate']}")
        if options["num_group"] != 1:
            parts.append(f"groups={options['num_group']}")
        if self.bias is None:
            parts.append("bias=False")
        if self.act is not None:
            parts.append(repr(self.act))
        return f"{type(self).__name__}({inputs or None} -> {shape[0]}, {', '.join(parts)})"


class _Conv(_AnyConv):
    """Convolution; ``in_channels`` 0 is found from the first input."""

    op_name = "Convolution"

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        in_channels: int = 0,
        op_name: str | None = None,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        self._set_up(
            channels,
            in_channels,
            layout,
            use_bias,
            op_name,
            kernel=kernel_size,
            stride=strides,
            dilate=dilation,
            pad=padding,
            num_group=groups,
        )
        super().__init__(**kwargs)
        self._add_params(
            channels, in_channels // groups, activation, weight_initializer, bias_initializer
        )


class _ConvTranspose(_AnyConv):
    """Transposed convolution; ``output_padding`` adds to one side of the result.

    Its text has the two numbers of channels the other way round, as MXNet's has.
    """

    op_name = "Deconvolution"

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        in_channels: int = 0,
        op_name: str | None = None,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        self._set_up(
            channels,
            in_channels,
            layout,
            use_bias,
            op_name,
            kernel=kernel_size,
            stride=strides,
            dilate=dilation,
            pad=padding,
            num_group=groups,
            adj=output_padding,
        )
        super().__init__(**kwargs)
        self.outpad = self._kwargs["adj"]
        self._add_params(
            in_channels, channels // groups, activation, weight_initializer, bias_initializer
        )


class Conv1D(_Conv):
    """Convolution over (N, C, W)."""

    layouts = ("NCW",)


class Conv2D(_Conv):
    """Convolution over (N, C, H, W) or (N, H, W, C)."""

    layouts = ("NCHW", "NHWC")


class Conv3D(_Conv):
    """Convolution over (N, C, D, H, W) or (N, D, H, W, C)."""

    layouts = ("NCDHW", "NDHWC")


class Conv1DTranspose(_ConvTranspose):
    """Transposed convolution over (N, C, W)."""

    layouts = ("NCW",)


class Conv2DTranspose(_ConvTranspose):
    """Transposed convolution over (N, C, H, W) or (N, H, W, C)."""

    layouts = ("NCHW", "NHWC")


class Conv3DTranspose(_ConvTranspose):
    """Transposed convolution over (N, C, D, H, W) or (N, D, H, W, C)."""

    layouts = ("NCDHW", "NDHWC")
