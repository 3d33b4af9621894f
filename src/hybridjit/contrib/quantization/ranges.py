"""Calibrated ranges as attributes, and the absorption of conversions into the layers before them.

Input: a quantized graph and the range of each float32 value by name. Output: the graph with
``min_calib_range`` and ``max_calib_range``, in which layers compute bytes of the calibrated range,
or float32 values, themselves. The parts of a concatenation share one range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.node import Node, Output, apply, topological
from ...ops.subgraphs import NAMES, operator_of
from .quantize import CONVOLUTION, DENSE
from .rewriting import (
    Outputs,
    Replaced,
    consumers,
    copied,
    is_op,
    keep,
    mapped,
    only_consumer,
    six_digits,
)

Table = Mapping[str, tuple[float, float]]
LOW, HIGH = "min_calib_range", "max_calib_range"
_ADD, _MULTIPLY = "_contrib_quantized_elemwise_add", "_contrib_quantized_elemwise_mul"
_CONCAT, _POOLING = "_contrib_quantized_concat", "_contrib_quantized_pooling"


def calibrated_name(node: Node) -> str | None:
    """The name in the table of the value whose range a node needs; None if it needs none."""
    if is_op(node, "_contrib_quantized_batch_norm"):
        source = Output(node)
    elif is_op(node, "_contrib_quantize_v2", "_contrib_requantize"):
        source = node.inputs[0]
    else:
        return None
    return source.name.removeprefix("quantized_")


def with_ranges(outputs: Outputs, table: Table) -> Outputs:
    """The graph with the table's ranges as attributes."""
    new: Replaced = {}
    for node in topological(outputs):
        made, name = copied(node, new), calibrated_name(node)
        if name is not None and name in table:
            low, high = table[name]
            made = with_text(made, {LOW: six_digits(low), HIGH: six_digits(high)})
        keep(node, made, new)
    return mapped(outputs, new)


def with_text(node: Node, text: Mapping[str, str]) -> Node:
    """The node with further attributes."""
    assert node.op is not None
    whole, op = {**node.text, **text}, node.op
    if op.name in NAMES:
        op = operator_of(op.name, whole, op.subgraphs)
    return apply(op, node.name, node.inputs, whole)


def absorbed(outputs: Outputs) -> Outputs:
    """The graph in which layers compute bytes of the calibrated range, or float32 values."""
    readers = consumers(outputs)
    new: Replaced = {}
    skipped: set[Node] = set()
    for node in topological(outputs):
        if node in skipped:
            continue
        made = copied(node, new)
        follows = _absorbs(node, readers)
        if not follows:
            keep(node, made, new)
            continue
        skipped.update(follows)
        last = follows[-1]
        if is_op(last, "_contrib_dequantize"):
            made = with_text(made, {"enable_float_output": "True"})
        else:
            made = with_text(made, {key: last.text[key] for key in (LOW, HIGH)})
        keep(last, made, new)
    return mapped(outputs, new)


def _absorbs(node: Node, readers: Mapping[Node, Sequence[Node | None]]) -> list[Node]:
    """Conversions after a layer that it computes itself."""
    is_layer = is_op(node, CONVOLUTION) and node.attrs["quantized"]
    is_plain = is_op(node, DENSE) and node.attrs["quantized"]
    if not (is_layer or is_plain or is_op(node, _ADD, _MULTIPLY)):
        return []
    bytes_of = only_consumer(node, readers)
    if bytes_of is None or not is_op(bytes_of, "_contrib_requantize") or LOW not in bytes_of.text:
        return []
    if is_layer or is_op(node, _ADD):
        return [bytes_of]
    floats = only_consumer(bytes_of, readers)
    if floats is not None and is_op(floats, "_contrib_dequantize"):
        return [bytes_of, floats]
    return [bytes_of]


def aligned(outputs: Outputs) -> Outputs:
    """The graph whose concatenations have parts of one range, if nothing else reads the parts."""
    readers = consumers(outputs)
    ranges: dict[Node, tuple[float, float]] = {}
    for node in topological(outputs):
        if is_op(node, _CONCAT):
            parts = [part for part in _parts(node, readers) if part not in ranges]
            if len(parts) > 1:
                low = min(0.0, *(float(part.text[LOW]) for part in parts))
                high = max(0.0, *(float(part.text[HIGH]) for part in parts))
                ranges.update(dict.fromkeys(parts, (low, high)))
    new: Replaced = {}
    for node in topological(outputs):
        made = copied(node, new)
        if node in ranges:
            low, high = ranges[node]
            made = with_text(made, {LOW: six_digits(low), HIGH: six_digits(high)})
        keep(node, made, new)
    return mapped(outputs, new)


def _parts(head: Node, readers: Mapping[Node, Sequence[Node | None]]) -> list[Node]:
    """Calibrated nodes that reach ``head`` through concatenations and pooling alone."""
    goes_on = len(readers.get(head, ())) <= 1
    visited, found, queue = {head}, list[Node](), [head]
    while queue:
        node = queue.pop(0)
        for source in dict.fromkeys(source.node for source in node.inputs):
            if source in visited or source in found or source.is_variable:
                continue
            if any(reader not in visited for reader in readers[source]):
                continue
            if LOW in source.text:
                found.append(source)
            elif is_op(source, _CONCAT, _POOLING):
                visited.add(source)
                queue.append(source)
        if goes_on:
            for reader in readers.get(node, ()):
                if (
                    reader is not None
                    and is_op(reader, _CONCAT, _POOLING)
                    and reader not in visited
                ):
                    visited.add(reader)
                    queue.append(reader)
    return found
