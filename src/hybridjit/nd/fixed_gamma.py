"""Gammas of BatchNorms with ``fix_gamma``: find them, and write ones into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._core.recording import FLAGS, recording_as
from ..ir.node import Output, topological
from .ndarray import NDArray


def fixed_gammas(outputs: Sequence[Output]) -> list[str]:
    """Names of the variables of a graph that are a gamma with ``fix_gamma``."""
    found: dict[str, None] = {}
    for node in topological(outputs):
        if node.op is not None and node.attrs.get("fix_gamma") and node.inputs[1].node.is_variable:
            found[node.inputs[1].node.name] = None
    return [*found]


def put_ones(gammas: Iterable[NDArray]) -> None:
    """Write ones into these gammas.

    MXNet does so at every eager call, and when a compiled graph records; it also does so for
    variables, which a program may not write to while recording.
    """
    for gamma in gammas:
        if not (gamma._data == 1).all():
            with recording_as(False, FLAGS.training):
                gamma._write(1)
