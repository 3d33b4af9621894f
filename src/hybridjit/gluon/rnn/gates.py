"""One step of the three kinds of recurrent cell, shared by all cell classes.

Input: the products of input and hidden state with their weights, dense or convolved, and the
previous states. Output: the output and the new states. A :class:`Step` selects the operators and
the names of its nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from ...errors import ShapeError
from ...nd import NDArray
from ...sym import Symbol
from ..nn import LeakyReLU
from ..types import Tensor

T = TypeVar("T", NDArray, Symbol)
States = list[Tensor]
Steps = Tensor | list[Tensor]  # one tensor, or a list of steps
StateInfo = dict[str, Any]  # description of a state: "shape" and "__layout__"
Activation = Callable[..., Any]  # function of a tensor, and optionally of the node's name


class Step:
    """The operators of one step; sums and products have automatic names.

    F           ``nd`` or ``sym``
    prefix      prefix of the names of other nodes
    content     activation of new content
    gate        activation of gates; default: sigmoid
    shown       activation of an LSTM's cell state; default: ``content``
    channels    axis of the gates, unless it is 1
    """

    def __init__(
        self,
        F: ModuleType,
        prefix: str,
        content: Activation,
        gate: Activation | None = None,
        shown: Activation | None = None,
        **channels: int,
    ) -> None:
        self.F = F
        self.prefix = prefix
        self.content = content
        self.gate = gate or partial(F.Activation, act_type="sigmoid")
        self._shown = shown or content
        self.channels = channels

    def called(self, name: str) -> str:
        """The name of a node of this step."""
        return self.prefix + name

    def add(self, x: T, y: T, name: str) -> T:
        """The sum of two tensors."""
        return x + y

    def mul(self, x: T, y: T, name: str) -> T:
        """The product of two tensors, element by element."""
        return x * y

    def rest(self, share: T) -> T:
        """1 - share."""
        return 1.0 - share

    def shown(self, cell: T) -> T:
        """The activation of an LSTM's cell state."""
        return self._shown(cell)

    def split(self, x: Tensor, count: int, name: str) -> Any:
        """The blocks of ``count`` gates."""
        return self.F.SliceChannel(x, num_outputs=count, name=self.called(name), **self.channels)


class NamedStep(Step):
    """The same with explicit names for sums and products, as in Gluon's dense cells."""

    def add(self, x: T, y: T, name: str) -> T:
        """The sum of two tensors, under a name."""
        return self.F.elemwise_add(x, y, name=self.called(name))

    def mul(self, x: T, y: T, name: str) -> T:
        """The product of two tensors, element by element, under a name."""
        return self.F.elemwise_mul(x, y, name=self.called(name))

    def rest(self, share: T) -> T:
        ones = self.F.ones_like(share, name=self.called("ones_like0"))
        return self.F.elemwise_sub(ones, share, name=self.called("minus0"))

    def shown(self, cell: T) -> T:
        return self._shown(cell, name=self.called("activation0"))


def plain(step: Step, i2h: T, h2h: T, states: list[T]) -> tuple[T, list[T]]:
    """h = a(i2h + h2h)."""
    output = step.content(step.add(i2h, h2h, "plus0"), name=step.called("out"))
    return output, [output]


def lstm(
    step: Step, i2h: T, h2h: T, states: list[T], output_name: str = "out"
) -> tuple[T, list[T]]:
    """i, f, g, o = i2h + h2h;  c = s(f) c0 + s(i) a(g);  h = s(o) a(c)   (states h, c)."""
    gates = step.split(step.add(i2h, h2h, "plus0"), 4, "slice")
    take = step.gate(gates[0], name=step.called("i"))
    keep = step.gate(gates[1], name=step.called("f"))
    new = step.content(gates[2], name=step.called("c"))
    show = step.gate(gates[3], name=step.called("o"))
    kept = step.mul(keep, states[1], "mul0")
    taken = step.mul(take, new, "mul1")
    cell = step.F.elemwise_add(kept, taken, name=step.called("state"))
    output = step.F.elemwise_mul(show, step.shown(cell), name=step.called(output_name))
    return output, [output, cell]


def gru(step: Step, i2h: T, h2h: T, states: list[T]) -> tuple[T, list[T]]:
    """r = s(i0 + h0);  z = s(i1 + h1);  n = a(i2 + r h2);  h = (1 - z) n + z h0."""
    i2h = step.split(i2h, 3, "i2h_slice")
    h2h = step.split(h2h, 3, "h2h_slice")
    reset = step.gate(step.add(i2h[0], h2h[0], "plus0"), name=step.called("r_act"))
    keep = step.gate(step.add(i2h[1], h2h[1], "plus1"), name=step.called("z_act"))
    recurrent = step.mul(reset, h2h[2], "mul0")
    new = step.content(step.add(i2h[2], recurrent, "plus2"), name=step.called("h_act"))
    taken = step.mul(step.rest(keep), new, "mul1")
    kept = step.mul(keep, states[0], "mul20")
    output = step.F.elemwise_add(taken, kept, name=step.called("out"))
    return output, [output]


def activated(F: ModuleType, x: Tensor, activation: Any, **kwargs: object) -> Any:
    """``activation`` of x: a name, a LeakyReLU, or a function."""
    functions = {"tanh": F.tanh, "relu": F.relu, "sigmoid": F.sigmoid, "softsign": F.softsign}
    if isinstance(activation, str):
        if activation in functions:
            return functions[activation](x, **kwargs)
        return F.Activation(x, act_type=activation, **kwargs)
    if isinstance(activation, LeakyReLU):
        return F.LeakyReLU(x, act_type="leaky", slope=activation._alpha, **kwargs)
    return activation(x, **kwargs)


def activation_of(F: ModuleType, activation: object) -> Activation:
    """``activated`` as a function of x."""
    return lambda x, **kwargs: activated(F, x, activation, **kwargs)


def initial_state(
    func: Callable[..., Tensor], name: str, info: StateInfo, batch_size: int
) -> Tensor:
    """The state that ``func`` makes of this description. Raises ShapeError without a batch size."""
    try:
        return func(name=name, **info)
    except ShapeError as error:
        way = "" if batch_size else "; write begin_state(batch_size=N)"
        raise ShapeError(f"{error}{way}") from None
