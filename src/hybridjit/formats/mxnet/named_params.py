"""Parameter files of networks: arrays by name, and those that a graph misses there."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...errors import ModelFormatError, MXNetError
from ...ir.roles import Roles
from . import params as params_file


def load_params(path: str) -> dict[str, np.ndarray]:
    """The arrays of a parameter file by name, without the prefixes ``arg:`` and ``aux:``.

    Raises MXNetError if it cannot be read, ModelFormatError if its arrays have no names.
    """
    arrays = params_file.load(path)
    if isinstance(arrays, list):
        if arrays:
            raise ModelFormatError(f"{path}: contains {len(arrays)} arrays without names")
        return {}
    return {bare_name(name): array for name, array in arrays.items()}


def bare_name(name: str) -> str:
    """A parameter's name without the prefix ``arg:`` or ``aux:``."""
    kind, colon, rest = name.partition(":")
    return rest if colon and kind in ("arg", "aux") else name


def require_parameters(roles: Roles, path: str, held: Collection[str]) -> None:
    """Raise MXNetError with a list of all parameters that the file with the names ``held``
    lacks."""
    if not roles.missing:
        return
    names = ", ".join(f"'{name}'" for name in roles.missing)
    message = f"the graph reads parameters that are missing in {path}: {names}"
    if any("." in name for name in held):
        message += (
            ". Its names are those of save_parameters, which only load_parameters of the same "
            "block "
            "reads; a graph needs the file that export writes"
        )
    raise MXNetError(message)
