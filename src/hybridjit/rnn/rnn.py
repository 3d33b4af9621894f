"""Checkpoints of symbolic recurrent networks with an array per gate, and unrolling.

Input: cells, a prefix and an epoch. Output: files with unpacked weights; or symbol and packed
weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._core.frames import warn
from ..io.checkpoint import load_checkpoint, save_checkpoint
from ..nd import NDArray
from ..sym import Symbol
from .base import BaseRNNCell, States, Steps, Weights

Cells = BaseRNNCell | Iterable[BaseRNNCell]


def rnn_unroll(
    cell: BaseRNNCell,
    length: int,
    inputs: Any = None,
    begin_state: States | None = None,
    input_prefix: str = "",
    layout: str = "NTC",
) -> tuple[Steps, States]:
    """Deprecated alias of ``cell.unroll``; ``input_prefix`` is ignored."""
    warn("rnn_unroll is deprecated. Please call cell.unroll directly.")
    return cell.unroll(length, inputs, begin_state, layout)


def save_rnn_checkpoint(
    cells: Cells,
    prefix: str,
    epoch: int,
    symbol: Symbol,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
) -> None:
    """``mx.model.save_checkpoint`` with the weights of ``cells`` unpacked. Raises MXNetError."""
    for cell in _listed(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(
    cells: Cells, prefix: str, epoch: int
) -> tuple[Symbol, Weights, dict[str, NDArray]]:
    """``mx.model.load_checkpoint`` with the weights of ``cells`` packed. Raises MXNetError."""
    symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
    for cell in _listed(cells):
        arg_params = cell.pack_weights(arg_params)
    return symbol, arg_params, aux_params


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """A callback ``(epoch, symbol, arg_params, aux_params)`` that saves every ``period`` epochs."""
    period = max(1, int(period))

    def save(epoch: int, sym: Symbol, arg: Weights, aux: dict[str, NDArray]) -> None:
        if (epoch + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, epoch + 1, sym, arg, aux)

    return save


def _listed(cells: Cells) -> list[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else list(cells)
