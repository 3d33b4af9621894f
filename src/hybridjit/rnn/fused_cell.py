"""Several layers of cells as one RNN operator with one packed vector of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .. import nd, sym
from .._core.types import product
from ..gluon.rnn.gates import StateInfo
from ..initializer import FusedRNN
from ..nd import NDArray
from ..ops.attrs import Attrs
from ..sym import Symbol
from .base import KINDS, PRODUCTS, BaseRNNCell, RNNParams, States, Steps, Weights, formed
from .cells import GRUCell, LSTMCell, RNNCell
from .composed_cells import BidirectionalCell, DropoutCell, SequentialRNNCell

_GATES = {
    "rnn_relu": RNNCell.gates,
    "rnn_tanh": RNNCell.gates,
    "lstm": LSTMCell.gates,
    "gru": GRUCell.gates,
}


class FusedRNNCell(BaseRNNCell):
    """``num_layers`` layers of ``rnn_relu``, ``rnn_tanh``, ``lstm`` or ``gru``; can only be
    unrolled.

    With ``get_next_state`` unrolling also returns the states after the last step.
    """

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._directions = ["l", "r"] if bidirectional else ["l"]
        init = FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self.params.get("parameters", init=init)
        self._packed_name = f"{self.params._prefix}parameters"

    @property
    def state_info(self) -> list[StateInfo]:
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"}] * (2 if self._mode == "lstm" else 1)

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return _GATES[self._mode]

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """Raise NotImplementedError: the operator needs the complete sequence."""
        raise NotImplementedError("FusedRNNCell cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Steps, States]:
        """See :meth:`BaseRNNCell.unroll`; without ``get_next_state`` the list of states is
        empty."""
        self.reset()
        inputs = formed(length, inputs, layout, True)
        is_batch_first = layout.find("T") == 1
        if is_batch_first:
            inputs = sym.swapaxes(inputs, dim1=0, dim2=1)
        found = self._operator(inputs, self.begin_state() if begin_state is None else begin_state)
        outputs, states = found, []
        if self._get_next_state:
            found._set_attr(__layout__="LNC")
            outputs, *states = found
        if is_batch_first:
            outputs = sym.swapaxes(outputs, dim1=0, dim2=1)
        return formed(length, outputs, layout, merge_outputs), states

    def _operator(self, inputs: Symbol, begin_state: States) -> Symbol:
        cell: Attrs = {"state_cell": begin_state[1]} if self._mode == "lstm" else {}
        return sym.RNN(
            inputs,
            self._parameter,
            begin_state[0],
            **cell,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
        )

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        """A copy of ``args`` with an array per layer, direction, product and gate."""
        args = dict(args)
        vector = args.pop(self._packed_name)
        start = 0
        for name, shape in self._parts(self._inputs_of(vector.size)):
            stop = start + product(shape)
            args[name] = vector[start:stop].reshape(shape).copy()
            start = stop
        assert start == vector.size, f"{self._packed_name}: {vector.size} values, not {start}"
        return args

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        """The inverse of :meth:`unpack_weights`."""
        args = dict(args)
        first = f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"
        parts = [args.pop(name).reshape((-1,)) for name, _ in self._parts(args[first].shape[1])]
        args[self._packed_name] = nd.concatenate(parts)
        return args

    def _parts(self, inputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the unpacked arrays in order: all weights, then all biases."""
        hidden = self._num_hidden
        blocks = [(i, way) for i in range(self._num_layers) for way in self._directions]
        for kind in KINDS:
            for layer, way in blocks:
                below = len(self._directions) * hidden if layer else inputs
                for name, width in zip(PRODUCTS, (below, hidden)):
                    for gate in self._gate_names:
                        shape = (hidden, width) if kind == "weight" else (hidden,)
                        yield f"{self._prefix}{way}{layer}_{name}{gate}_{kind}", shape

    def _inputs_of(self, size: int) -> int:
        """The width of the first layer's input in a vector of ``size`` values."""
        ways, hidden = len(self._directions), self._num_hidden
        rows = ways * len(self._gate_names) * hidden
        later = (self._num_layers - 1) * rows * (ways * hidden + hidden + 2)
        return (size - later) // rows - hidden - 2

    def unfuse(self) -> SequentialRNNCell:
        """The same network as single cells, whose unpacked weights have the same names."""
        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            left, *right = (self._cell(f"{self._prefix}{way}{layer}_") for way in self._directions)
            joined = f"{self._prefix}bi_l{layer}_"
            both = BidirectionalCell(left, right[0], output_prefix=joined) if right else left
            stack.add(both)
            if self._dropout > 0 and layer < self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack

    def _cell(self, prefix: str) -> BaseRNNCell:
        if self._mode == "lstm":
            return LSTMCell(self._num_hidden, prefix=prefix)
        if self._mode == "gru":
            return GRUCell(self._num_hidden, prefix=prefix)
        activation = self._mode.removeprefix("rnn_")
        return RNNCell(self._num_hidden, activation, prefix=prefix)
