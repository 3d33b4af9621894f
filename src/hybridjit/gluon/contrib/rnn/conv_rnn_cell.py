"""Recurrent cells whose two products are convolutions, over one to three spatial axes.

In: a step (N, C, spatial...) or channels last, and states of the same rank. Out: the new output
and states. The sizes of the states follow from ``input_shape``, given without the batch axis.
"""

from __future__ import annotations

from typing import Any

from ...nn.conv_layers import Size, per_axis
from ...parameter import ParameterDict
from ...rnn.base import HybridRecurrentCell, States, activated

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


class _ConvCell(HybridRecurrentCell):
    """Two convolutions into ``gates`` blocks of ``hidden_channels`` channels each."""

    gates = 1
    state_count = 1
    hint = ""
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
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None,
        activation: Any = "tanh",
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

    def _window(self, kernel: Size, dilate: Size, pad: Size | None) -> dict[str, Any]:
        """The attributes of one convolution; without ``pad`` it keeps the size."""
        count = len(self.default_layout) - 2
        sizes = [per_axis(size, count) for size in (kernel, dilate)]
        if pad is None:
            assert all(k % 2 for k in sizes[0]), f"h2h_kernel takes odd numbers, got {kernel}"
            sizes.append(tuple(d * (k - 1) // 2 for k, d in zip(*sizes)))
        else:
            sizes.append(per_axis(pad, count))
        assert all(len(size) == count for size in sizes), (
            f"kernel, padding and dilation are a number or {count} numbers for a "
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

    def _add_params(self, inits: dict[str, Any]) -> None:
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
        """Spatial sizes with the channels in front or behind, as the layout has them."""
        return (channels, *spatial) if self._channel_axis == 1 else (*spatial, channels)

    def _state_shape(self) -> tuple[int, ...]:
        """The shape of a state without the batch axis; 0 where the input's size is unknown."""
        sizes = self._input_shape
        spatial = sizes[1:] if self._channel_axis == 1 else sizes[:-1]
        windows = zip(spatial, *(self._i2h[name] for name in ("kernel", "pad", "dilate")))
        after = tuple(x + 2 * p - d * (k - 1) if x else 0 for x, k, p, d in windows)
        return self._with_channels(self._hidden_channels, after)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        shape = (batch_size, *self._state_shape())
        return [{"shape": shape, "__layout__": self._conv_layout}] * self.state_count

    def _alias(self) -> str:
        return self.hint

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape  # type: ignore[attr-defined]
        inputs = shape[1 if self._channel_axis == 1 else -1]
        mapping = f"{inputs or None} -> {shape[0]}"
        return f"{type(self).__name__}({mapping}, {self._activation}, {self._conv_layout})"

    def _convolved(self, F: Any, t: str, inputs: Any, state: Any, *params: Any) -> tuple[Any, Any]:
        """Both products; ``params`` are the two weights, then the two biases."""
        i2h_weight, h2h_weight, i2h_bias, h2h_bias = params
        return (
            F.Convolution(inputs, i2h_weight, i2h_bias, name=t + "i2h", **self._i2h),
            F.Convolution(state, h2h_weight, h2h_bias, name=t + "h2h", **self._h2h),
        )


class _ConvRNNCell(_ConvCell):
    """activation(W * x + b + V * h + c)."""

    hint = "conv_rnn"

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        inputs: Any,
        states: States,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[Any, States]:
        t = f"t{self._counter}_"
        i2h, h2h = self._convolved(
            F, t, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias
        )
        output = activated(F, i2h + h2h, self._activation, name=t + "out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    """Long short-term memory with convolutions (1506.04214)."""

    gates = 4
    state_count = 2
    hint = "conv_lstm"

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        inputs: Any,
        states: States,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[Any, States]:
        t = f"t{self._counter}_"
        i2h, h2h = self._convolved(
            F, t, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias
        )
        gate = F.SliceChannel(i2h + h2h, num_outputs=4, axis=self._channel_axis, name=t + "slice")
        take = F.Activation(gate[0], act_type="sigmoid", name=t + "i")
        keep = F.Activation(gate[1], act_type="sigmoid", name=t + "f")
        new = activated(F, gate[2], self._activation, name=t + "c")
        show = F.Activation(gate[3], act_type="sigmoid", name=t + "o")
        cell = F.elemwise_add(keep * states[1], take * new, name=t + "state")
        output = F.elemwise_mul(show, activated(F, cell, self._activation), name=t + "out")
        return output, [output, cell]


class _ConvGRUCell(_ConvCell):
    """Gated recurrent unit with convolutions; the reset gate comes after the product."""

    gates = 3
    hint = "conv_gru"

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        inputs: Any,
        states: States,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[Any, States]:
        t = f"t{self._counter}_"
        i2h, h2h = self._convolved(
            F, t, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias
        )
        channels = {"num_outputs": 3, "axis": self._channel_axis}
        i2h = F.SliceChannel(i2h, name=t + "i2h_slice", **channels)
        h2h = F.SliceChannel(h2h, name=t + "h2h_slice", **channels)
        reset = F.Activation(i2h[0] + h2h[0], act_type="sigmoid", name=t + "r_act")
        update = F.Activation(i2h[1] + h2h[1], act_type="sigmoid", name=t + "z_act")
        new = activated(F, i2h[2] + reset * h2h[2], self._activation, name=t + "h_act")
        output = F.elemwise_add((1.0 - update) * new, update * states[0], name=t + "out")
        return output, [output]


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
