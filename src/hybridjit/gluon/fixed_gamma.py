"""The gammas of BatchNorms that count as ones: which they are, and ones written into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._core.recording import FLAGS, recording_as
from ..ir.node import Output, topological
from ..nd import NDArray


def fixed_gammas(outputs: Sequence[Output]) -> list[str]:
    """The names of the variables of a graph that are such a gamma."""
    found: dict[str, None] = {}
    for node in topological(outputs):
        if node.op is not None and node.attrs.get("fix_gamma") and node.inputs[1].node.is_variable:
            found[node.inputs[1].node.name] = None
    return [*found]


def put_ones(gammas: Iterable[NDArray]) -> None:
    """Write ones where gamma counts as ones.

    MXNet does so at every eager call, and where a compiled graph records; it does for variables,
    too, which a program may not write to while it records.
    """
    for gamma in gammas:
        if not (gamma._data == 1).all():
            with recording_as(False, FLAGS.training):
                gamma._write(1)
