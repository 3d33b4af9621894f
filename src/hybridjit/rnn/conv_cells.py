"""Symbolic cells whose two products are convolutions.

Input: a step in the layout of ``input_shape``, batch axis included. Output: the output and the
states; their sizes follow from the input's.
"""

from __future__ import annotations

from functools import partial

from .. import sym
from ..gluon.rnn.gates import StateInfo, Step, gru, lstm
from ..gluon.types import Init
from ..ops.attrs import Attrs
from ..sym import Symbol
from .base import RNNParams
from .cells import GatedCell, GRUCell, GRUStep, LSTMCell, activation_of

Size = tuple[int, int]
_LEAKY = partial(sym.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(GatedCell):
    """Base of the three kinds. Sizes of ``h2h_kernel`` must be odd to preserve the state's shape.

    Names begin with ``prefix``, by default that of the kind.
    """

    default_prefix = ""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_hidden: int,
        h2h_kernel: Size = (3, 3),
        h2h_dilate: Size = (1, 1),
        i2h_kernel: Size = (3, 3),
        i2h_stride: Size = (1, 1),
        i2h_pad: Size = (1, 1),
        i2h_dilate: Size = (1, 1),
        i2h_weight_initializer: Init = None,
        h2h_weight_initializer: Init = None,
        i2h_bias_initializer: Init = "zeros",
        h2h_bias_initializer: Init = "zeros",
        activation: object = _LEAKY,
        prefix: str | None = None,
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(self.default_prefix if prefix is None else prefix, params)
        assert all(size % 2 == 1 for size in h2h_kernel), (
            f"Only support odd number, get h2h_kernel= {h2h_kernel}"
        )
        self._conv_layout = conv_layout
        self._activation = activation
        common = {"num_filter": len(self.gates) * num_hidden, "layout": conv_layout}
        self._windows: dict[str, Attrs] = {
            "i2h": {
                **{"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad},
                **{"dilate": i2h_dilate, **common},
            },
            "h2h": {
                **{"kernel": h2h_kernel, "stride": (1, 1), "dilate": h2h_dilate, **common},
                "pad": tuple(d * (k - 1) // 2 for k, d in zip(h2h_kernel, h2h_dilate)),
            },
        }
        self._take_params(
            {
                "i2h_weight": i2h_weight_initializer,
                "h2h_weight": h2h_weight_initializer,
                "i2h_bias": i2h_bias_initializer,
                "h2h_bias": h2h_bias_initializer,
            }
        )
        window = {**self._windows["i2h"], "num_filter": num_hidden}
        found = sym.Convolution(sym.var("data"), **window).infer_shape(data=input_shape)
        self._state_shape = (0, *found[1][0][1:])

    @property
    def state_info(self) -> list[StateInfo]:
        return [{"shape": self._state_shape, "__layout__": self._conv_layout}]

    def _product(self, step: Step, name: str, x: Symbol, weight: Symbol, bias: Symbol) -> Symbol:
        return sym.Convolution(x, weight, bias, name=step.prefix + name, **self._windows[name])

    def _step(self, prefix: str) -> Step:
        axis = self._conv_layout.find("C")
        return Step(sym, prefix, activation_of(self._activation), axis=axis)


class ConvRNNCell(BaseConvRNNCell):
    """activation(W * x + b + V * h + c)."""

    default_prefix = "ConvRNN_"


class ConvLSTMCell(BaseConvRNNCell):
    """Long short-term memory with convolutions (1506.04214)."""

    gates = LSTMCell.gates
    kind = staticmethod(lstm)
    default_prefix = "ConvLSTM_"

    @property
    def state_info(self) -> list[StateInfo]:
        return super().state_info * 2


class ConvGRUCell(BaseConvRNNCell):
    """Gated recurrent unit with convolutions; the reset gate is applied after the product."""

    gates = GRUCell.gates
    kind = staticmethod(gru)
    default_prefix = "ConvGRU_"

    def _step(self, prefix: str) -> Step:
        axis = self._conv_layout.find("C")
        content = activation_of(self._activation)
        if axis == 1:  # MXNet omits the default axis here
            return GRUStep(sym, prefix, content)
        return GRUStep(sym, prefix, content, axis=axis)
