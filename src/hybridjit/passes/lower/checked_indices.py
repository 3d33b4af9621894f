"""Checked indices: one out of range raises where MXNet clips or ignores it, for HYBRIDJIT_CHECK.

    take(a, i)  =>  take(a, in_range(i))

The operator ``_in_range`` is a host step. Where HYBRIDJIT_CHECK compares all steps, the references
of the operators refuse such indices themselves, and the kernels stay those that are checked; labels
of SoftmaxOutput alone are read by other operators there, once it is differentiated.
"""

from __future__ import annotations

from ..._core.config import config
from ...ir.building import building
from ...ir.graph import Graph, Value, uses_of
from ...ir.rewrite import Match, Replacement, rebuild, replace_values
from ...ops.internal import IN_RANGE
from ...ops.nn.softmax_loss import classes_of
from ...ops.registry import lookup
from ...ops.tensor.by_index import BATCH_TAKE, PICK, TAKE

_SOFTMAX_OUTPUT = lookup("SoftmaxOutput")
_AXIS_OF = {TAKE: None, PICK: None, BATCH_TAKE: 1, lookup("softmax_cross_entropy"): 1}
_EMBEDDING = lookup("Embedding")
_TITLE = "take(a, i)  =>  take(a, in_range(i))"


def check_indices(graph: Graph) -> Graph:
    """The graph, with the checks that HYBRIDJIT_CHECK adds."""
    readers = () if config.checks_steps else (_EMBEDDING, *_AXIS_OF)
    return replace_values(graph, _checked, of=(_SOFTMAX_OUTPUT, *readers))


def _checked(value: Value, match: Match) -> tuple[str, Replacement]:
    """The title, and the reader of indices that reads checked ones; None if it reads them as is."""
    op, of = value.op, value.attrs
    assert op is not None
    data = value.inputs[0].type.dims
    given: dict[str, object] = {}
    if op is _EMBEDDING:
        place, classes = 0, of["input_dim"]
    elif op is _SOFTMAX_OUTPUT:
        if data == value.inputs[1].type.dims:
            return "", None  # distributions
        place, classes = 1, classes_of(data, of["multi_output"], of["preserve_shape"])
        given = {name: of[name] for name in ("use_ignore", "ignore_label")}
    elif of.get("mode", "clip") == "clip":
        axis = _AXIS_OF[op]
        place, classes = 1, data[of["axis"] if axis is None else axis]
    else:
        return "", None
    index = building(value).op(
        IN_RANGE, value.inputs[place], at="checked", reader=op.name, classes=classes, **given
    )
    inputs = (*value.inputs[:place], index, *value.inputs[place + 1 :])
    return _TITLE, uses_of(rebuild(value, inputs))
