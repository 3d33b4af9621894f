"""Deformable convolutions as layers: a convolution computes the offsets of another's taps."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...hybrid_block import HybridBlock
from ...nn import Activation
from ...nn.conv_layers import Size, per_axis
from ...parameter import Parameter, ParameterDict
from ...types import Init, Tensor

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


class _Deformable(HybridBlock):
    """Base of both layers: attributes and parameters of the two convolutions."""

    maps_per_tap = 2  # channels of the offset convolution per tap

    def __init__(
        self,
        channels: int,
        kernel_size: Size = (1, 1),
        strides: Size = (1, 1),
        padding: Size = (0, 0),
        dilation: Size = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        offset_weight_initializer: Init = "zeros",
        offset_bias_initializer: Init = "zeros",
        offset_use_bias: bool = True,
        op_name: str | None = None,
        adj: Size | None = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        assert layout in ("NCHW", "NHWC"), "Only supports 'NCHW' and 'NHWC' layout for now"
        assert not adj, f"adj is for transposed convolutions, got {adj}"
        self._channels = channels
        self._in_channels = in_channels
        shared: dict[str, Any] = {
            "kernel": per_axis(kernel_size, 2, "kernel_size"),
            "stride": per_axis(strides, 2, "strides"),
            "dilate": per_axis(dilation, 2, "dilation"),
            "pad": per_axis(padding, 2, "padding"),
            "num_group": groups,
            "layout": layout,
        }
        kh, kw = shared["kernel"]
        self._offsets = 2 * kh * kw * num_deformable_group
        found = self.maps_per_tap * kh * kw * num_deformable_group
        self._kwargs_offset = {**shared, "num_filter": found, "no_bias": not offset_use_bias}
        self._kwargs_deformable_conv = {
            **shared,
            "num_filter": channels,
            "num_deformable_group": num_deformable_group,
            "no_bias": not use_bias,
        }
        inits = (weight_initializer, bias_initializer)
        self._add_params(inits, (offset_weight_initializer, offset_bias_initializer), activation)

    def _add_params(
        self, inits: tuple[Init, Init], offset_inits: tuple[Init, Init], activation: str | None
    ) -> None:
        with self.name_scope():
            self._add_offset_params(offset_inits)
            self._add_own_params(inits)
            self.act = Activation(activation, prefix=f"{activation}_") if activation else None

    def _add_offset_params(self, inits: tuple[Init, Init]) -> None:
        options = self._kwargs_offset
        kernel, found = options["kernel"], options["num_filter"]
        inputs = self._in_channels // options["num_group"]
        is_last = options["layout"] == "NHWC"
        shape = (found, *kernel, inputs) if is_last else (found, inputs, *kernel)
        self.offset_weight = self._param("offset_weight", shape, inits[0])
        self.offset_bias = None
        if not options["no_bias"]:
            self.offset_bias = self._param("offset_bias", (found,), inits[1])

    def _add_own_params(self, inits: tuple[Init, Init]) -> None:
        options = self._kwargs_deformable_conv
        shape = (self._channels, 0, *options["kernel"])
        self.deformable_conv_weight = self._param("deformable_conv_weight", shape, inits[0])
        self.deformable_conv_bias = None
        if not options["no_bias"]:
            shape = (self._channels,)
            self.deformable_conv_bias = self._param("deformable_conv_bias", shape, inits[1])

    def _param(self, name: str, shape: tuple[int, ...], init: Init) -> Parameter:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        x: Tensor,
        offset_weight: Tensor,
        deformable_conv_weight: Tensor,
        offset_bias: Tensor | None = None,
        deformable_conv_bias: Tensor | None = None,
    ) -> Tensor:
        found = F.Convolution(
            *_present(x, offset_weight, offset_bias), cudnn_off=True, **self._kwargs_offset
        )
        params = _present(deformable_conv_weight, deformable_conv_bias)
        out = self._deformed(F, x, found, params)
        return out if self.act is None else self.act(out)

    def _deformed(self, F: ModuleType, x: Tensor, found: Tensor, params: list[Tensor]) -> Tensor:
        """The convolution itself, with the computed offsets."""
        return F.contrib.DeformableConvolution(
            x, found, *params, name="fwd", **self._kwargs_deformable_conv
        )


class DeformableConvolution(_Deformable):
    """Convolution whose taps are moved by learned offsets (1703.06211)."""

    def _alias(self) -> str:
        return "deformable_conv"

    def __repr__(self) -> str:
        options, shape = self._kwargs_deformable_conv, self.deformable_conv_weight.shape
        parts = [f"kernel_size={options['kernel']}", f"stride={options['stride']}"]
        if any(options["pad"]):
            parts.append(f"padding={options['pad']}")
        if any(size != 1 for size in options["dilate"]):
            parts.append(f"dilation={options['dilate']}")
        if options["num_group"] != 1:
            parts.append(f"groups={options['num_group']}")
        if self.deformable_conv_bias is None:
            parts.append("bias=False")
        if self.act is not None:
            parts.append(repr(self.act))
        return f"{type(self).__name__}({shape[1] or None} -> {shape[0]}, {', '.join(parts)})"


class ModulatedDeformableConvolution(_Deformable):
    """Deformable convolution that also scales every tap by a factor from 0 to 2 (1811.11168)."""

    maps_per_tap = 3

    def _alias(self) -> str:
        return "modulated_deformable_conv"

    def _deformed(self, F: ModuleType, x: Tensor, found: Tensor, params: list[Tensor]) -> Tensor:
        offset = F.slice_axis(found, axis=1, begin=0, end=self._offsets)
        mask = F.slice_axis(found, axis=1, begin=self._offsets, end=None)
        mask = F.sigmoid(mask) * 2
        return F.contrib.ModulatedDeformableConvolution(
            x, offset, mask, *params, name="fwd", **self._kwargs_deformable_conv
        )


def _present(*tensors: Tensor | None) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]
