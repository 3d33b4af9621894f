"""RNN, LSTM and GRU layers over complete sequences, each as one operator."""

from __future__ import annotations

from typing import Any

from ..naming import BlockArgs
from ..types import DType, Init, Unpack
from .cells import GRUCell, LSTMCell, RNNCell
from .gates import StateInfo
from .layer_base import _RNNLayer


class RNN(_RNNLayer):
    """Plain recurrent layers over whole sequences: ``h = activation(W x + b + V h + c)``.

    Parameters
    ----------
    hidden_size : int
        Size of the hidden state.
    num_layers : int
        Number of layers; each receives the outputs of the layer below.
    activation : str
        relu or tanh; KeyError for another name.
    layout : str
        Axes of input and output: TNC (steps, batch, features) or NTC.
    dropout : float
        Probability of 0 in training between layers; none after the last layer.
    bidirectional : bool
        Whether each layer runs in both directions; outputs of both are concatenated.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of the weights of inputs and of states.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str
        Initializers of the biases.
    input_size : int
        Number of input features. 0: taken from the first input.
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

    Notes
    -----
    ``layer(inputs)`` starts from zeros and returns the outputs. ``layer(inputs, states)`` returns
    the outputs and the list of last states. The state has shape (num_layers * directions, N,
    hidden_size). ``begin_state(batch_size=N)`` makes zeros of these shapes.

    Examples
    --------
    >>> layer = gluon.rnn.RNN(8, input_size=4)
    >>> layer.initialize()
    >>> layer(nd.ones((5, 2, 4))).shape
    (5, 2, 8)
    """

    hint = "rnn"

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Init = None,
        h2h_weight_initializer: Init = None,
        i2h_bias_initializer: Init = "zeros",
        h2h_bias_initializer: Init = "zeros",
        input_size: int = 0,
        dtype: DType = "float32",
        use_sequence_length: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        if activation not in ("relu", "tanh"):
            raise KeyError(f"rnn_{activation}: activation must be relu or tanh")
        self._activation = activation
        self._mode = f"rnn_{activation}"
        super().__init__(
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            dtype,
            use_sequence_length,
            **kwargs,
        )

    def _cell(self, **kwargs: Any) -> RNNCell:
        return RNNCell(self._hidden_size, self._activation, **kwargs)


class LSTM(_RNNLayer):
    """Long short-term memory layers over whole sequences.

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
    projection_size : int, optional
        Size to which the hidden state is projected (arXiv 1402.1128).
    h2r_weight_initializer : Initializer or str, optional
        Initializer of the projection.
    state_clip_min, state_clip_max : float, optional
        Bounds of the cell state.
    state_clip_nan : bool
        Whether bounds apply to NaN as well.
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

    Notes
    -----
    ``layer(inputs)`` starts from zeros and returns the outputs. ``layer(inputs, states)`` returns
    the outputs and the list of last states. States are the hidden state and the cell state, each
    of shape (num_layers * directions, N, hidden_size). ``begin_state(batch_size=N)`` makes zeros
    of these shapes.

    Examples
    --------
    >>> layer = gluon.rnn.LSTM(8, num_layers=2, layout="NTC", input_size=4)
    >>> layer.initialize()
    >>> out, states = layer(nd.ones((2, 5, 4)), layer.begin_state(batch_size=2))
    >>> out.shape, [state.shape for state in states]
    ((2, 5, 8), [(2, 2, 8), (2, 2, 8)])
    """

    gates = 4
    hint = "lstm"
    _mode = "lstm"

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
        projection_size: int | None = None,
        h2r_weight_initializer: Init = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: DType = "float32",
        use_sequence_length: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        self._projection_size = projection_size
        self._h2r_init = h2r_weight_initializer
        self._clip = {
            "lstm_state_clip_min": state_clip_min,
            "lstm_state_clip_max": state_clip_max,
            "lstm_state_clip_nan": state_clip_nan,
        }
        super().__init__(
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            dtype,
            use_sequence_length,
            **kwargs,
        )

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        """Shape and layout of the two states, for this batch size."""
        (cell,) = super().state_info(batch_size)
        layers, batch, hidden = cell["shape"]
        return [{**cell, "shape": (layers, batch, self._projection_size or hidden)}, cell]

    def _cell(self, **kwargs: Any) -> LSTMCell:
        return LSTMCell(self._hidden_size, **kwargs)


class GRU(_RNNLayer):
    """Gated recurrent units over whole sequences.

    Notes
    -----
    ``layer(inputs)`` starts from zeros and returns the outputs. ``layer(inputs, states)`` returns
    the outputs and the list of last states. The state has shape (num_layers * directions, N,
    hidden_size). ``begin_state(batch_size=N)`` makes zeros of these shapes.

    Examples
    --------
    >>> layer = gluon.rnn.GRU(8, bidirectional=True, input_size=4)
    >>> layer.initialize()
    >>> layer(nd.ones((5, 2, 4))).shape
    (5, 2, 16)
    """

    gates = 3
    hint = "gru"
    _mode = "gru"

    def _cell(self, **kwargs: Any) -> GRUCell:
        return GRUCell(self._hidden_size, **kwargs)
