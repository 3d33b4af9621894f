"""Quantized operators in place of float32 ones, with conversions between the two.

Input: a float32 graph, fused or not, and the choice of operators. Output: a graph in which each
chosen operator has its form on bytes, ``_contrib_quantize_v2`` and ``_contrib_dequantize`` convert
between bytes and float32, and ``_contrib_requantize`` converts int32 sums. Names are MXNet's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from ..._core.frozen import dataclass
from ...ir.node import Node, Output, apply, topological, variable
from ...ops.attrs import Attrs
from ...ops.subgraphs import operator_of
from .rewriting import Outputs, Replaced, copied, created, is_op, keep, mapped

CONVOLUTION, DENSE = "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected"
REQUANTIZED = (
    *(CONVOLUTION, DENSE, "_contrib_quantized_conv", "_contrib_quantized_fully_connected"),
    *("_contrib_quantized_elemwise_add", "_contrib_quantized_elemwise_mul"),
)
_MUST = ("Convolution", "FullyConnected", CONVOLUTION, DENSE)
# The form on bytes, and whether attributes allow it.
_FORMS: Mapping[str, tuple[str, Callable[[Attrs], bool]]] = {
    "Convolution": ("_contrib_quantized_conv", lambda a: True),
    "FullyConnected": ("_contrib_quantized_fully_connected", lambda a: True),
    "Activation": ("_contrib_quantized_act", lambda a: a["act_type"] == "relu"),
    "BatchNorm": ("_contrib_quantized_batch_norm", lambda a: True),
    "Concat": ("_contrib_quantized_concat", lambda a: a["dim"] > 0),
    "Embedding": ("_contrib_quantized_embedding", lambda a: a["dtype"] == "float32"),
    "Flatten": ("_contrib_quantized_flatten", lambda a: True),
    "Pooling": ("_contrib_quantized_pooling", lambda a: a["pool_type"] in ("max", "avg")),
    "elemwise_add": ("_contrib_quantized_elemwise_add", lambda a: True),
    "elemwise_mul": ("_contrib_quantized_elemwise_mul", lambda a: True),
}
# Operators whose outputs have names in MXNet: a conversion of their result is NAME_output_quantize,
# of another result NAME_0_quantize.
_NAMES_OUTPUTS = frozenset(
    [
        *("Activation", "BatchNorm", "CTCLoss", "Concat", "Convolution", "Custom"),
        *("Deconvolution", "Dropout", "FullyConnected", "GroupNorm", "LRN", "LayerNorm"),
        *("LeakyReLU", "Pooling", "RNN", "SoftmaxActivation", "SoftmaxOutput", "UpSampling"),
        *("_contrib_BatchNormWithReLU", "_contrib_ROIAlign", "_contrib_index_array"),
        *("_contrib_interleaved_matmul_encdec_qk", "_contrib_interleaved_matmul_encdec_valatt"),
        *("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt"),
        *(CONVOLUTION, DENSE, "col2im", "elemwise_add", "im2col", "reshape_like", "softmax"),
        "softmin",
    ]
)


@dataclass(frozen=True)
class Choice:
    """Which operators are quantized, and how.

    excluded_names      nodes, also nodes within fused ones
    excluded_operators  operators
    offline             names of parameters that are quantized now, not in each call
    mode                ``full``, or ``smart``: only layers and operators between layers
    dtype               type of bytes: ``int8``, ``uint8`` or ``auto``
    by_channel          whether fully connected layers have a scale for each row
    """

    excluded_names: Collection[str] = ()
    excluded_operators: Collection[str] = ()
    offline: Collection[str] = ()
    mode: str = "smart"
    dtype: str = "int8"
    by_channel: bool = False


def quantized(outputs: Outputs, choice: Choice) -> Outputs:
    """The quantized graph."""
    return _Rewriter(choice, _chosen(outputs, choice)).run(outputs)


def _has_form(node: Node, choice: Choice) -> bool:
    if node.op is None or node.op.name in choice.excluded_operators:
        return False
    if node.name in choice.excluded_names:
        return False
    if node.op.name in (CONVOLUTION, DENSE):
        inner = topological(node.op.subgraphs[0])
        return not any(n.op is not None and n.name in choice.excluded_names for n in inner)
    form = _FORMS.get(node.op.name)
    return form is not None and form[1](node.attrs)


def _chosen(outputs: Outputs, choice: Choice) -> set[Node]:
    """Nodes to quantize."""
    order = topological(outputs)
    able = {node for node in order if _has_form(node, choice)}
    if choice.mode == "full":
        return able
    must = [node for node in order if node in able and is_op(node, *_MUST)]
    support = able.difference(must)
    sources = {node: [source.node for source in node.inputs] for node in order}
    readers: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for source in node.inputs:
            readers[source.node].append(node)
    between = _reached(must, sources, support) & _reached(must, readers, support)
    return between.union(must)


def _reached(
    starts: Sequence[Node], edges: Mapping[Node, Sequence[Node]], within: Collection[Node]
) -> set[Node]:
    """Nodes of ``within`` on paths from ``starts`` that consist of such nodes."""
    found: set[Node] = set()
    queue = deque(starts)
    while queue:
        for node in edges[queue.popleft()]:
            if node in within and node not in found:
                found.add(node)
                queue.append(node)
    return found


def _float_operands(node: Node, by_channel: bool) -> Collection[int]:
    """Positions of operands that the quantized operator reads in float32."""
    if is_op(node, CONVOLUTION):
        last = len(node.inputs) - ("sum" in node.input_names)
        return range(1, last)
    if is_op(node, DENSE):
        return range(1, len(node.inputs)) if by_channel else ()
    if is_op(node, "BatchNorm"):
        return range(1, len(node.inputs))
    return (0,) if is_op(node, "Embedding") else ()


class _Rewriter:
    """New nodes for old ones.

    new          float32 outputs of nodes that are not quantized
    bytes_of     for a quantized node: its bytes, followed by the ends of their range
    conversions  for a float32 output: its bytes and the ends of their range
    """

    def __init__(self, choice: Choice, chosen: Collection[Node]) -> None:
        self.choice, self.chosen = choice, chosen
        self.new: Replaced = {}
        self.bytes_of: dict[Node, Node] = {}
        self.conversions: dict[Output, list[Output]] = {}

    def run(self, outputs: Outputs) -> Outputs:
        """The quantized graph."""
        for node in topological(outputs):
            if node in self.chosen:
                self.bytes_of[node] = self._quantized(node)
            else:
                for source in node.inputs:
                    self._float_of(source)
                made = copied(node, self.new)
                keep(node, made, self.new)
        for output in outputs:
            self._float_of(output)
        return mapped(outputs, self.new)

    def _float_of(self, source: Output) -> None:
        """Make the float32 values of a quantized node available in ``new``."""
        made = self.bytes_of.get(source.node)
        if made is not None and source not in self.new:
            name = f"{source.node.name}_dequantize"
            node = created("_contrib_dequantize", name, _three(made), {})
            self.new[source] = Output(node)

    def _quantized(self, node: Node) -> Node:
        """The quantized form of a node, followed by conversion of its sums."""
        keeps = _float_operands(node, self.choice.by_channel)
        data, limits = list[Output](), list[Output]()
        for position, source in enumerate(node.inputs):
            if position in keeps:
                self._float_of(source)
                data.append(self.new.get(source, source))
                continue
            entry = self._bytes(source)
            data.append(entry[0])
            limits += entry[1:]
        made = self._form(node, [*data, *limits])
        if is_op(made, *REQUANTIZED):
            text = {"out_type": self.choice.dtype}
            made = created("_contrib_requantize", f"requantize_{node.name}", _three(made), text)
        return made

    def _bytes(self, source: Output) -> list[Output]:
        """Bytes of a value and their range."""
        if source.node in self.bytes_of:
            return _three(self.bytes_of[source.node])
        if source not in self.conversions:
            self.conversions[source] = self._converted(source)
        return self.conversions[source]

    def _converted(self, source: Output) -> list[Output]:
        """Bytes of a float32 value: variables for a parameter, else a conversion."""
        name = f"{source.node.name}{_suffix(source)}_quantize"
        if source.node.is_variable and source.node.name in self.choice.offline:
            return [Output(variable(f"{name}{end}")) for end in ("", "_min", "_max")]
        text = {"out_type": self.choice.dtype}
        value = self.new.get(source, source)
        return _three(created("_contrib_quantize_v2", name, [value], text))

    def _form(self, node: Node, inputs: Sequence[Output]) -> Node:
        """The operator on bytes."""
        assert node.op is not None
        name, text = f"quantized_{node.name}", dict(node.text)
        if node.op.name not in (CONVOLUTION, DENSE):
            return created(_FORMS[node.op.name][0], name, inputs, text)
        is_dense = is_op(node, DENSE)
        text["quantized"] = "True" if is_dense else "true"
        if is_dense and self.choice.by_channel:
            text["channel_wise_quantize"] = "True"
        op = operator_of(node.op.name, text, node.op.subgraphs)
        return apply(op, name, inputs, text)


def _three(node: Node) -> list[Output]:
    """Bytes (or sums) and the ends of their range."""
    return [Output(node, i) for i in range(3)]


def _suffix(source: Output) -> str:
    """Part of a conversion's name that states the output it reads."""
    if source.node.op is None:
        return ""
    if source.node.op.name in _NAMES_OUTPUTS:
        return f"_{source.node.output_names[source.index]}"
    return f"_{source.index}"
