"""Module-style checkpoints, ``mx.model``: ``<prefix>-symbol.json`` and ``<prefix>-0000.params``.

Input: a prefix and an epoch. Output: the graph, its arguments and its auxiliary states.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from .. import sym
from .._core.frames import public
from ..errors import ModelFormatError
from ..formats.atomic import together
from ..nd import files as nd_files
from ..nd.ndarray import NDArray
from ..sym.symbol import Symbol

Arrays = dict[str, NDArray]


@public
def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, Arrays, Arrays]:
    """``(symbol, arg_params, aux_params)``, arrays by name without ``arg:``.

    Raises MXNetError for a missing or malformed file.
    """
    symbol = sym.load(f"{prefix}-symbol.json")
    return (symbol, *load_params(prefix, epoch))


@public
def load_params(prefix: str, epoch: int) -> tuple[Arrays, Arrays]:
    """``(arg_params, aux_params)``; names with another prefix are skipped, as in MXNet.

    Raises ModelFormatError for a name without a prefix, or a file without names.
    """
    path = _params_path(prefix, epoch)
    loaded = nd_files.load(path)
    if not loaded:
        logging.warning("Params file '%s' is empty", path)
        return {}, {}
    if not isinstance(loaded, dict):
        raise ModelFormatError(f"{path} contains a list of arrays; a checkpoint has names")
    found: dict[str, Arrays] = {"arg": {}, "aux": {}}
    for name, array in loaded.items():
        kind, colon, rest = name.partition(":")
        if not colon:
            raise ModelFormatError(f"{path}: name {name!r} starts with neither arg: nor aux:")
        if kind in found:
            found[kind][rest] = array
    return found["arg"], found["aux"]


@public
def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    remove_amp_cast: bool = True,
) -> None:
    """Write both files or, if one fails, neither; only the arrays if ``symbol`` is None.

    Raises MXNetError.
    """
    named = {f"arg:{name}": array for name, array in arg_params.items()}
    named.update((f"aux:{name}", array) for name, array in aux_params.items())
    writers = [lambda: nd_files.save(_params_path(prefix, epoch), named)]
    if symbol is not None:
        graph_file = f"{prefix}-symbol.json"
        writers.insert(0, lambda: symbol.save(graph_file, remove_amp_cast))
    together(*writers)
    logging.info('Saved checkpoint to "%s"', _params_path(prefix, epoch))


def _params_path(prefix: str, epoch: int) -> str:
    return f"{prefix}-{epoch:04d}.params"
