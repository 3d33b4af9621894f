"""Convolution and transposed convolution as layers, over one to three spatial axes."""

from __future__ import annotations

from operator import index
from types import ModuleType
from typing import Any

from ...errors import ShapeError
from ..hybrid_block import HybridBlock
from ..naming import BlockArgs
from ..types import Init, Tensor, Unpack
from .activations import Activation

Size = int | tuple[int, ...] | list[int]


_ARGUMENTS = {  # of the layer, by attributes of the operator
    "kernel": "kernel_size",
    "stride": "strides",
    "pad": "padding",
    "dilate": "dilation",
}


def per_axis(value: Size, count: int, name: str) -> tuple[int, ...]:
    """A single number repeated for every spatial axis. Raises TypeError unless it is an integer."""
    try:
        return (value,) * count if isinstance(value, int) else tuple(map(index, value))
    except TypeError:
        way = ": kernel_size // 2 keeps sizes with strides=1" if isinstance(value, str) else ""
        raise TypeError(f"{name} is an integer or {count} integers, got {value!r}{way}") from None


class _AnyConv(HybridBlock):
    """Base of convolutions and transposed ones: attributes, weight, bias and activation."""

    layouts: tuple[str, ...] = ()  # supported layouts, the default first
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
        """Set the operator's attributes. Raises AssertionError or ShapeError for invalid sizes."""
        layout = layout or self.layouts[0]
        allowed = " and ".join(repr(known) for known in self.layouts)
        assert layout in self.layouts, f"Only supports {allowed} layout for now"
        self._channels = channels
        self._in_channels = in_channels
        self._op_name = op_name or type(self).op_name
        groups, adj = sizes.pop("num_group"), sizes.pop("adj", None)
        if groups < 1:
            raise ValueError(f"groups must be at least 1, got {groups}")
        count = len(layout) - 2
        full = {name: per_axis(value, count, _ARGUMENTS[name]) for name, value in sizes.items()}
        assert len(full["kernel"]) == count, (
            f"kernel_size must be a number or a list of {count} ints"
        )
        for name, value in full.items():
            if len(value) != count:
                raise ShapeError(f"{name} {value} must have {count} elements, as the kernel has")
        self._kwargs: dict[str, Any] = {
            **full,
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if adj is not None:
            self._kwargs["adj"] = per_axis(adj, count, "output_padding")
            assert len(self._kwargs["adj"]) == count, (
                f"output_padding must be a number or a list of {count} ints"
            )

    def _add_params(
        self, first: int, second: int, activation: str | None, weight_init: Init, bias_init: Init
    ) -> None:
        """Add the weight, of shape (first, second, kernel...), or channels last as in the
        layout."""
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
    """Convolution; with ``in_channels`` 0 the first input determines the number of channels."""

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
        """Make the layer.

        Parameters
        ----------
        channels : int
            Number of output channels.
        kernel_size : int or tuple of int
            Size of the window; an int stands for all axes.
        strides : int or tuple of int
            Step of the window.
        padding : int or tuple of int
            Zeros added at both ends of each axis.
        dilation : int or tuple of int
            Distance of the window's taps.
        groups : int
            Number of groups of channels that do not influence each other. With as many groups as
            input channels this is a depthwise convolution.
        layout : str, optional
            Axes of the input and the output: one of the class's ``layouts``; the first by default.
        activation : str, optional
            Function applied to the result: relu, sigmoid, tanh, softrelu or softsign.
        use_bias : bool
            Whether a bias of shape (channels,) is added.
        weight_initializer : Initializer or str, optional
            Initializer of the weight; by default the one that ``initialize`` receives.
        bias_initializer : Initializer or str
            Initializer of the bias.
        in_channels : int
            Number of input channels. 0: taken from the first input.
        op_name : str, optional
            Name of the operator that computes the layer.
        **kwargs
            ``prefix`` and ``params``, as in :class:`Block`.

        Raises
        ------
        AssertionError
            For another layout, or a kernel size with another number of axes.
        ValueError
            For ``groups`` below 1.
        ShapeError
            In a call, for another number of axes or channels, or an input smaller than the kernel.
        """
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

    Its ``repr`` has the two numbers of channels in swapped order, as MXNet's.
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
        """Make the layer.

        Parameters
        ----------
        channels : int
            Number of output channels.
        kernel_size : int or tuple of int
            Size of the window; an int stands for all axes.
        strides : int or tuple of int
            Step of the window.
        padding : int or tuple of int
            Zeros added at both ends of each axis.
        output_padding : int or tuple of int
            Elements added to one end of each axis of the output.
        dilation : int or tuple of int
            Distance of the window's taps.
        groups : int
            Number of groups of channels that do not influence each other. With as many groups as
            input channels this is a depthwise convolution.
        layout : str, optional
            Axes of the input and the output: one of the class's ``layouts``; the first by default.
        activation : str, optional
            Function applied to the result: relu, sigmoid, tanh, softrelu or softsign.
        use_bias : bool
            Whether a bias of shape (channels,) is added.
        weight_initializer : Initializer or str, optional
            Initializer of the weight; by default the one that ``initialize`` receives.
        bias_initializer : Initializer or str
            Initializer of the bias.
        in_channels : int
            Number of input channels. 0: taken from the first input.
        op_name : str, optional
            Name of the operator that computes the layer.
        **kwargs
            ``prefix`` and ``params``, as in :class:`Block`.

        Raises
        ------
        AssertionError
            For another layout, or a kernel size with another number of axes.
        ValueError
            For ``groups`` below 1.
        ShapeError
            In a call, for another number of axes or channels, or an input smaller than the kernel.
        """
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
    """Convolution over one axis: (N, C, W).

    An axis of size n has (n + 2 * padding - dilation * (kernel - 1) - 1) // strides + 1 elements
    in the output.

    Notes
    -----
    The weight has shape (channels, in_channels / groups, *kernel).

    Examples
    --------
    >>> layer = nn.Conv1D(8, kernel_size=3, padding=1, in_channels=4)
    >>> layer.initialize()
    >>> layer(nd.ones((2, 4, 10))).shape
    (2, 8, 10)
    """

    layouts = ("NCW",)


class Conv2D(_Conv):
    """Convolution over two axes: (N, C, H, W) or (N, H, W, C).

    An axis of size n has (n + 2 * padding - dilation * (kernel - 1) - 1) // strides + 1 elements
    in the output.

    Notes
    -----
    The weight has shape (channels, in_channels / groups, *kernel) for NCHW and
    (channels, *kernel, in_channels / groups) for NHWC.

    Examples
    --------
    >>> layer = nn.Conv2D(16, kernel_size=3, strides=2, padding=1, activation="relu")
    >>> layer.initialize()
    >>> layer(nd.ones((1, 3, 32, 32))).shape
    (1, 16, 16, 16)
    """

    layouts = ("NCHW", "NHWC")


class Conv3D(_Conv):
    """Convolution over three axes: (N, C, D, H, W) or (N, D, H, W, C).

    An axis of size n has (n + 2 * padding - dilation * (kernel - 1) - 1) // strides + 1 elements
    in the output.

    Notes
    -----
    The weight has shape (channels, in_channels / groups, *kernel) for NCDHW and
    (channels, *kernel, in_channels / groups) for NDHWC.

    Examples
    --------
    >>> layer = nn.Conv3D(4, kernel_size=(1, 3, 3), in_channels=2)
    >>> layer.initialize()
    >>> layer(nd.ones((1, 2, 4, 6, 6))).shape
    (1, 4, 4, 4, 4)
    """

    layouts = ("NCDHW", "NDHWC")


class Conv1DTranspose(_ConvTranspose):
    """Transposed convolution over one axis: (N, C, W).

    It is the gradient of a convolution with respect to its input.

    An axis of size n has (n - 1) * strides - 2 * padding + dilation * (kernel - 1) + 1 +
    output_padding elements in the output.

    Notes
    -----
    The weight has shape (in_channels, channels / groups, *kernel).
    ``repr`` shows the two numbers of channels in this order, as MXNet does.

    Examples
    --------
    >>> layer = nn.Conv1DTranspose(8, kernel_size=4, strides=2, padding=1, in_channels=4)
    >>> layer.initialize()
    >>> layer(nd.ones((2, 4, 10))).shape
    (2, 8, 20)
    """

    layouts = ("NCW",)


class Conv2DTranspose(_ConvTranspose):
    """Transposed convolution over two axes: (N, C, H, W) or (N, H, W, C).

    It is the gradient of a convolution with respect to its input.

    An axis of size n has (n - 1) * strides - 2 * padding + dilation * (kernel - 1) + 1 +
    output_padding elements in the output.

    Notes
    -----
    The weight has shape (in_channels, channels / groups, *kernel) for NCHW.
    ``repr`` shows the two numbers of channels in this order, as MXNet does.

    Examples
    --------
    >>> layer = nn.Conv2DTranspose(8, kernel_size=4, strides=2, padding=1, in_channels=4)
    >>> layer.initialize()
    >>> layer(nd.ones((2, 4, 10, 10))).shape
    (2, 8, 20, 20)
    """

    layouts = ("NCHW", "NHWC")


class Conv3DTranspose(_ConvTranspose):
    """Transposed convolution over three axes: (N, C, D, H, W) or (N, D, H, W, C).

    It is the gradient of a convolution with respect to its input.

    An axis of size n has (n - 1) * strides - 2 * padding + dilation * (kernel - 1) + 1 +
    output_padding elements in the output.

    Notes
    -----
    The weight has shape (in_channels, channels / groups, *kernel) for NCDHW.
    ``repr`` shows the two numbers of channels in this order, as MXNet does.

    Examples
    --------
    >>> layer = nn.Conv3DTranspose(2, kernel_size=2, strides=2, in_channels=3)
    >>> layer.initialize()
    >>> layer(nd.ones((1, 3, 4, 4, 4))).shape
    (1, 2, 8, 8, 8)
    """

    layouts = ("NCDHW", "NDHWC")
