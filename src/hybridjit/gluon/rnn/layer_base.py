"""The base of recurrent layers over complete sequences: parameters, states and the operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ... import nd, sym
from ..._core.frames import public
from ..._core.shapes import is_np_shape
from ...nd import NDArray
from ...sym import Symbol
from ..hybrid_block import HybridBlock
from ..naming import BlockArgs
from ..parameter import Parameter
from ..structure import Nested
from ..types import DType, Init, Tensor, Unpack
from .composed_cells import BidirectionalCell, DropoutCell, HybridSequentialRNNCell
from .gates import StateInfo, States, initial_state

_NAME = re.compile(r"(l|r)(\d+)_(i2h|h2h|h2r)_(weight|bias)\Z")


class _RNNLayer(HybridBlock):
    """``num_layers`` layers in one or both directions, with parameters per layer and direction."""

    gates = 1
    hint = ""
    _mode = ""
    _projection_size: int | None = None
    _h2r_init: Init = None
    _clip: Mapping[str, float | None] = {
        "lstm_state_clip_min": None,
        "lstm_state_clip_max": None,
        "lstm_state_clip_nan": False,
    }

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Init = None,
        h2h_weight_initializer: Init = None,
        i2h_bias_initializer: Init = "zeros",
        h2h_bias_initializer: Init = "zeros",
        dtype: DType = "float32",
        use_sequence_length: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        """Make the layers.

        Parameters
        ----------
        hidden_size : int
            Size of the hidden state.
        num_layers : int
            Number of layers; each receives the outputs of the layer below.
        layout : str
            Axes of input and output: TNC (steps, batch, features) or NTC.
        dropout : float
            Probability of 0 in training between layers; none after the last layer.
        bidirectional : bool
            Whether each layer runs in both directions; outputs of both are concatenated.
        input_size : int
            Number of input features. 0: taken from the first input.
        i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
            Initializers of the weights of inputs and of states.
        i2h_bias_initializer, h2h_bias_initializer : Initializer or str
            Initializers of the biases.
        dtype : str or numpy.dtype
            Element type of the parameters.
        use_sequence_length : bool
            Whether a call takes ``sequence_length=``, the valid steps of each sample.
        **kwargs
            ``prefix`` and ``params``, as in :class:`Block`.

        Raises
        ------
        AssertionError
            For a layout other than TNC and NTC.
        ShapeError
            In a call, for inputs or states of other sizes.
        """
        check_layout(layout)
        super().__init__(**kwargs)
        self._hidden_size = hidden_size
        self._num_layers = num_layers
        self._layout = layout
        self._dropout = dropout
        self._dir = 2 if bidirectional else 1
        self._input_size = input_size
        self._dtype = dtype
        self._use_sequence_length = use_sequence_length
        self._skip_states: bool | None = None
        weights = (i2h_weight_initializer, h2h_weight_initializer)
        self._add_params(*weights, i2h_bias_initializer, h2h_bias_initializer)

    def _add_params(self, i2h_w: Init, h2h_w: Init, i2h_b: Init, h2h_b: Init) -> None:
        rows, hidden = self.gates * self._hidden_size, self._hidden_size
        recurrent = self._projection_size or hidden
        inputs = self._input_size
        for layer in range(self._num_layers):
            for side in ("l", "r")[: self._dir]:
                place = f"{side}{layer}_"
                self._add_param(f"{place}i2h_weight", (rows, inputs), i2h_w)
                self._add_param(f"{place}h2h_weight", (rows, recurrent), h2h_w)
                self._add_param(f"{place}i2h_bias", (rows,), i2h_b)
                self._add_param(f"{place}h2h_bias", (rows,), h2h_b)
                if self._projection_size:
                    self._add_param(f"{place}h2r_weight", (recurrent, hidden), self._h2r_init)
            inputs = recurrent * self._dir

    def _add_param(self, name: str, shape: tuple[int, ...], init: Init) -> None:
        param = self.params.get(
            name, shape=shape, init=init, allow_deferred_init=True, dtype=self._dtype
        )
        setattr(self, name, param)

    def _alias(self) -> str:
        return self.hint

    def __repr__(self) -> str:
        rows, inputs = self._reg_params["l0_i2h_weight"].shape
        parts = [f"{inputs or None} -> {rows // self.gates}", self._layout]
        if self._num_layers != 1:
            parts.append(f"num_layers={self._num_layers}")
        if self._dropout != 0:
            parts.append(f"dropout={self._dropout}")
        if self._dir == 2:
            parts.append("bidirectional")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Paths as if the layer consisted of cells: ``_unfused.0.i2h_weight``."""
        start = prefix + "." if prefix else ""
        return {start + self._path(n): param for n, param in self._reg_params.items()}

    def _path(self, name: str) -> str:
        match = _NAME.match(name)
        assert match is not None, f"{name} is not a parameter of an RNN layer"
        side, layer, group, kind = match.groups()
        cell = f"{side}_cell." if self._dir == 2 else ""
        return f"_unfused.{layer}.{cell}{group}_{kind}"

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        shape = (self._num_layers * self._dir, batch_size, self._hidden_size)
        return [{"shape": shape, "__layout__": "LNC", "dtype": self._dtype}]

    def cast(self, dtype: DType) -> None:
        super().cast(dtype)
        self._dtype = dtype

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Tensor] = nd.zeros, **kwargs: object
    ) -> States:
        """The initial states, made by ``func(name=..., shape=..., **kwargs)``."""
        return [
            initial_state(func, f"{self.prefix}h0_{i}", {**info, **kwargs}, batch_size)
            for i, info in enumerate(self.state_info(batch_size))
        ]

    @public
    def __call__(  # type: ignore[override]
        self,
        inputs: Tensor,
        states: Tensor | States | None = None,
        sequence_length: Tensor | None = None,
        **kwargs: object,
    ) -> Nested:
        """The outputs; with ``states`` also the list of last states."""
        return super().__call__(*self._with_states(inputs, states, sequence_length), **kwargs)

    def _of_graph(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        return self._with_states(*super()._of_graph(args, named))

    def _with_states(
        self,
        inputs: Tensor,
        states: Tensor | States | None = None,
        sequence_length: Tensor | None = None,
    ) -> tuple[Any, ...]:
        """The arguments of the graph, with states: zeros if the caller passes none.

        Without states from the caller the last states are not results.
        """
        if (states is None) is not self._skip_states:
            self._skip_states = states is None
            self._clear_cached_op()  # the graph now has other results
        if states is None:
            if isinstance(inputs, NDArray):
                batch = inputs.shape[self._layout.find("N")]
                states = self.begin_state(batch, ctx=inputs.context, dtype=inputs.dtype)
            else:
                unknown = -1 if is_np_shape() else 0
                states = self.begin_state(unknown, func=sym.zeros)
        if isinstance(states, (NDArray, Symbol)):
            states = [states]
        return (inputs, states, sequence_length) if self._use_sequence_length else (inputs, states)

    def _infer_shapes(self, args: Sequence[Any], needed: Iterable[Parameter] = ()) -> None:
        self._traced(args)  # first, because exported files contain the shapes at tracing
        self._take_input_size(args[0])
        super()._infer_shapes(args, needed)

    def _take_input_size(self, inputs: Tensor) -> None:
        """Set the shapes of the first layer's weights from the inputs' last axis."""
        if isinstance(inputs, NDArray) and inputs.ndim == 3:
            for side in ("l", "r")[: self._dir]:
                param = self._reg_params[f"{side}0_i2h_weight"]
                if param.shape[1] < 1:
                    param.shape = (param.shape[0], inputs.shape[2])

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        inputs: Tensor,
        states: Tensor | States,
        sequence_length: Tensor | None = None,
        **params: Tensor,
    ) -> Nested:
        if F is nd:
            self._check_states(inputs.shape[self._layout.find("N")], states)
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, dim1=0, dim2=1)
        lengths = (sequence_length,) if self._use_sequence_length else ()
        found = F.RNN(
            inputs,
            self._packed(F, params),
            *states,
            *lengths,
            use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=self._dir == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            **self._clip,
        )
        outputs, after = found[0], [found[i] for i in range(1, len(found))]
        if self._layout == "NTC":
            outputs = F.swapaxes(outputs, dim1=0, dim2=1)
        return outputs if self._skip_states else (outputs, after)

    def _check_states(self, batch: int, states: Tensor | States) -> None:
        for state, info in zip(states, self.state_info(batch)):
            if state.shape != info["shape"]:
                raise ValueError(
                    f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}."
                )

    def _packed(self, F: ModuleType, params: dict[str, Tensor]) -> Tensor:
        """All parameters in one vector: first all weights, then all biases."""
        weights = ("i2h", "h2h", "h2r") if self._projection_size else ("i2h", "h2h")
        flat = [
            params[f"{side}{layer}_{group}_{kind}"].reshape(-1)
            for kind, groups in (("weight", weights), ("bias", ("i2h", "h2h")))
            for layer in range(self._num_layers)
            for side in ("l", "r")[: self._dir]
            for group in groups
        ]
        return F._internal._rnn_param_concat(*flat, dim=0)

    def _unfuse(self) -> HybridSequentialRNNCell:
        """The same layers as cells that share the parameters."""
        assert not self._projection_size, "_unfuse does not support projection layer yet!"
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        inputs = self._input_size
        with stack.name_scope():
            for layer in range(self._num_layers):
                cells = [
                    self._cell(prefix=f"{side}{layer}_", input_size=inputs)
                    for side in ("l", "r")[: self._dir]
                ]
                stack.add(BidirectionalCell(*cells) if self._dir == 2 else cells[0])
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
                inputs = self._hidden_size * self._dir
        return stack

    def _cell(self, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _cell")


def check_layout(layout: str) -> None:
    """Raise AssertionError for a layout other than TNC and NTC."""
    assert layout in ("TNC", "NTC"), f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']"
