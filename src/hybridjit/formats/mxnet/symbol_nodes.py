"""Conversion of a graph file's records to nodes: parsed attributes, selected outputs."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ...errors import AttributeValueError, MXNetError
from ...ir.node import Node, Output, checked_attributes
from ...ops.attrs import Attrs, AttrValue
from ..json_stream import Budget
from .checked_json import fail
from .symbol_upgrade import RawEntry, RawNode

MAX_INPUTS = 1 << 14  # of one node; also the limit of attributes that are counts
MAX_OUTPUTS = 1 << 18  # of all nodes together: each has a type and a name
_COUNTS = frozenset(["num_args", "num_outputs", "num_weights", "num_arrays", "sections"])
_NUMBER_BYTES = 40


def built_nodes(raw: list[RawNode], budget: Budget) -> dict[RawNode, Node]:
    meanings = _meanings(raw, budget)
    nodes: dict[RawNode, Node] = {}
    for record in raw:
        place = record.place
        inputs = tuple(
            output_of(entry, nodes, f"input {k} of {place}")
            for k, entry in enumerate(record.inputs)
        )
        nodes[record] = Node(record.op, record.name, record.text, inputs, meanings[record])
    return nodes


def _meanings(raw: list[RawNode], budget: Budget) -> dict[RawNode, dict[str, AttrValue]]:
    """Parsed attributes of each node; for a state the first version under which it is written.

    The version is stored only to be written again.
    """
    meanings: dict[RawNode, dict[str, AttrValue]] = {}
    outputs = 0
    for record in raw:
        attrs = meanings[record] = _meaning(record)
        if record.op is None:
            continue
        outputs += len(record.op.output_names(attrs))
        if outputs > MAX_OUTPUTS:
            fail(
                f"up to {record.place} the graph has {outputs} outputs, at most {MAX_OUTPUTS} are "
                f"allowed"
            )
        budget.take(_meaning_bytes(attrs), record.place)
        for source, _, version in (record.inputs[i] for i in record.op.aux_positions(attrs)):
            if source.op is None:
                meanings[source].setdefault("version", version)
    return meanings


def _meaning(record: RawNode) -> dict[str, AttrValue]:
    if record.op is None:
        return {}
    try:
        return checked_attributes(record.op, record.name, record.text, len(record.inputs))
    except MXNetError as error:
        raise type(error)(f"{record.place}: {error}") from None


def _meaning_bytes(attrs: Attrs) -> int:
    """Memory of parsed attributes: tuples and numbers; strings and small numbers are shared."""
    values = attrs.values()
    tuples = [value for value in values if type(value) is tuple]
    numbers = sum(map(_is_fresh, values)) + sum(_is_fresh(n) for v in tuples for n in v)
    return sys.getsizeof(attrs) + sum(map(sys.getsizeof, tuples)) + numbers * _NUMBER_BYTES


def _is_fresh(value: object) -> bool:
    """Test for a number that CPython does not share."""
    return type(value) is float or (type(value) is int and not -5 <= value <= 256)


def check_counts(record: RawNode) -> None:
    """Limit attributes that are counts of inputs or outputs, each of which has a name."""
    for attr in record.op.attrs if record.op else ():
        if attr.name not in _COUNTS or attr.name not in record.text:
            continue
        try:
            count = attr.parse(record.text[attr.name])
        except AttributeValueError as error:
            raise AttributeValueError(f"{record.place}: {error}") from None
        if isinstance(count, int) and count > MAX_INPUTS:
            raise AttributeValueError(
                f"{record.place}: {attr.name} is {count}, at most {MAX_INPUTS} is allowed"
            )


def output_of(entry: RawEntry, nodes: Mapping[RawNode, Node], what: str) -> Output:
    record, index, _ = entry
    node = nodes[record]
    count = len(node.output_names)
    if index >= count:
        fail(f"{what} names output {index} of {record.place}, which has {count}")
    return Output(node, index)
