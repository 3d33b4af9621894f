"""Recurrent cells whose two products are convolutions, over one to three spatial axes.

Input: a step (N, C, spatial...) or channels last, and states of the same rank. Output: the new
output and states. ``input_shape``, without the batch axis, determines the sizes of the states.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ....ops.attrs import Attrs
from ...nn.conv_layers import Size, per_axis
from ...parameter import ParameterDict
from ...rnn.base import GatedCell
from ...rnn.gates import StateInfo, Step, activation_of, gru, lstm
from ...types import Init, Tensor

__all__ = [
    "Conv1DGRUCell",
    "Conv1DLSTMCell",
    "Conv1DRNNCell",
    "Conv2DGRUCell",
    "Conv2DLSTMCell",
    "Conv2DRNNCell",
    "Conv3DGRUCell",
    "Conv3DLSTMCell",
    "Conv3DRNNCell",
]


class _ConvCell(GatedCell):
    """Two convolutions into ``gates`` blocks of ``hidden_channels`` channels each."""

    state_count = 1
    default_layout = ""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        hidden_channels: int,
        i2h_kernel: Size,
        h2h_kernel: Size,
        i2h_pad: Size = 0,
        i2h_dilate: Size = 1,
        h2h_dilate: Size = 1,
        i2h_weight_initializer: Init = None,
        h2h_weight_initializer: Init = None,
        i2h_bias_initializer: Init = "zeros",
        h2h_bias_initializer: Init = "zeros",
        conv_layout: str | None = None,
        activation: object = "tanh",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_channels = hidden_channels
        self._input_shape = input_shape
        self._conv_layout = conv_layout or self.default_layout
        self._channel_axis = self._conv_layout.find("C")
        self._activation = activation
        self._i2h = self._window(i2h_kernel, i2h_dilate, i2h_pad)
        self._h2h = self._window(h2h_kernel, h2h_dilate, None)
        inits = {
            "i2h_weight": i2h_weight_initializer,
            "h2h_weight": h2h_weight_initializer,
            "i2h_bias": i2h_bias_initializer,
            "h2h_bias": h2h_bias_initializer,
        }
        self._add_params(inits)

    def _window(self, kernel: Size, dilate: Size, pad: Size | None) -> Attrs:
        """The attributes of one convolution; without ``pad`` it keeps the size."""
        count = len(self.default_layout) - 2
        sizes = [per_axis(size, count, "a kernel or its dilation") for size in (kernel, dilate)]
        if pad is None:
            assert all(k % 2 for k in sizes[0]), f"h2h_kernel must be odd, got {kernel}"
            sizes.append(tuple(d * (k - 1) // 2 for k, d in zip(*sizes)))
        else:
            sizes.append(per_axis(pad, count, "i2h_pad"))
        assert all(len(size) == count for size in sizes), (
            f"kernel, padding and dilation must be a number or {count} numbers for a "
            f"{count}D convolution, got {', '.join(map(str, sizes))}"
        )
        return {
            "kernel": sizes[0],
            "stride": (1,) * count,
            "dilate": sizes[1],
            "pad": sizes[2],
            "num_filter": self.gates * self._hidden_channels,
            "layout": self._conv_layout,
        }

    def _add_params(self, inits: Mapping[str, Init]) -> None:
        in_channels = self._input_shape[self._channel_axis - 1]
        rows = self.gates * self._hidden_channels
        shapes = {
            "i2h_weight": (rows, *self._with_channels(in_channels, self._i2h["kernel"])),
            "h2h_weight": (
                rows,
                *self._with_channels(self._hidden_channels, self._h2h["kernel"]),
            ),
            "i2h_bias": (rows,),
            "h2h_bias": (rows,),
        }
        for name, shape in shapes.items():
            param = self.params.get(name, shape=shape, init=inits[name], allow_deferred_init=True)
            setattr(self, name, param)

    def _with_channels(self, channels: int, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Spatial sizes with the channels before or after them, as in the layout."""
        return (channels, *spatial) if self._channel_axis == 1 else (*spatial, channels)

    def _state_shape(self) -> tuple[int, ...]:
        """The shape of a state without the batch axis; 0 for unknown sizes."""
        sizes = self._input_shape
        spatial = sizes[1:] if self._channel_axis == 1 else sizes[:-1]
        windows = zip(spatial, *(self._i2h[name] for name in ("kernel", "pad", "dilate")))
        after = tuple(x + 2 * p - d * (k - 1) if x else 0 for x, k, p, d in windows)
        return self._with_channels(self._hidden_channels, after)

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        shape = (batch_size, *self._state_shape())
        return [{"shape": shape, "__layout__": self._conv_layout}] * self.state_count

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape  # type: ignore[attr-defined]
        inputs = shape[1 if self._channel_axis == 1 else -1]
        mapping = f"{inputs or None} -> {shape[0]}"
        return f"{type(self).__name__}({mapping}, {self._activation}, {self._conv_layout})"

    def _step(self, F: ModuleType, prefix: str) -> Step:
        return Step(F, prefix, activation_of(F, self._activation), axis=self._channel_axis)

    def _product(self, step: Step, name: str, x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        window = self._i2h if name == "i2h" else self._h2h
        return step.F.Convolution(x, weight, bias, name=step.called(name), **window)


class _ConvRNNCell(_ConvCell):
    """activation(W * x + b + V * h + c)."""

    hint = "conv_rnn"


class _ConvLSTMCell(_ConvCell):
    """Long short-term memory with convolutions (1506.04214)."""

    gates = 4
    state_count = 2
    hint = "conv_lstm"
    kind = staticmethod(lstm)


class _ConvGRUCell(_ConvCell):
    """Gated recurrent unit with convolutions; the reset gate is applied after the product."""

    gates = 3
    hint = "conv_gru"
    kind = staticmethod(gru)


class Conv1DRNNCell(_ConvRNNCell):
    """A plain cell over (N, C, W)."""

    default_layout = "NCW"


class Conv2DRNNCell(_ConvRNNCell):
    """A plain cell over (N, C, H, W) or (N, H, W, C)."""

    default_layout = "NCHW"


class Conv3DRNNCell(_ConvRNNCell):
    """A plain cell over (N, C, D, H, W) or (N, D, H, W, C)."""

    default_layout = "NCDHW"


class Conv1DLSTMCell(_ConvLSTMCell):
    """An LSTM cell over (N, C, W)."""

    default_layout = "NCW"


class Conv2DLSTMCell(_ConvLSTMCell):
    """An LSTM cell over (N, C, H, W) or (N, H, W, C)."""

    default_layout = "NCHW"


class Conv3DLSTMCell(_ConvLSTMCell):
    """An LSTM cell over (N, C, D, H, W) or (N, D, H, W, C)."""

    default_layout = "NCDHW"


class Conv1DGRUCell(_ConvGRUCell):
    """A GRU cell over (N, C, W)."""

    default_layout = "NCW"


class Conv2DGRUCell(_ConvGRUCell):
    """A GRU cell over (N, C, H, W) or (N, H, W, C)."""

    default_layout = "NCHW"


class Conv3DGRUCell(_ConvGRUCell):
    """A GRU cell over (N, C, D, H, W) or (N, D, H, W, C)."""

    default_layout = "NCDHW"
