"""The gammas that count as ones: BatchNorm with ``fix_gamma`` overwrites them, as in MXNet.

In: a graph, or one gamma. Out: the same numbers as before, and ones in the buffer, so that a file
saved afterwards holds what the net computed with.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.node import Output, topological
from ..nd import NDArray


def fixed_gammas(outputs: Iterable[Output]) -> tuple[str, ...]:
    """Names of the variables that are gamma of a BatchNorm with ``fix_gamma``, each once."""
    names = []
    for node in topological(outputs):
        if node.attrs.get("fix_gamma") and "gamma" in node.input_names:
            gamma = node.inputs[node.input_names.index("gamma")].node
            if gamma.is_variable:
                names.append(gamma.name)
    return tuple(dict.fromkeys(names))


def overwrite_with_ones(gamma: NDArray) -> None:
    """Write ones, unless they are there already: a write makes compiled nets bind again."""
    if not (gamma._data == 1).all():
        gamma[:] = 1
