"""Fusion of layers with the operators after them, as MXNet's backend ``MKLDNN_QUANTIZE`` does.

Input: a float32 graph. Output: the graph in which ``_sg_mkldnn_conv`` stands for a convolution with
batch norm, residual sum and activation, and ``_sg_mkldnn_fully_connected`` for a fully connected
layer with its activation. Operators that do nothing in inference are removed. Names, attributes and
subgraphs are MXNet's. A value that several operators read ends a group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..._core.frozen import dataclass
from ...ir.node import Node, Output, apply, topological, variable
from ...ops.subgraphs import operator_of
from .rewriting import Outputs, Replaced, consumers, copied, is_op, keep, mapped, only_consumer

Chain = list[Node]
Readers = Mapping[Node, Sequence[Node | None]]


@dataclass(frozen=True)
class Group:
    """Nodes that become one, from the layer to the last operator."""

    chain: tuple[Node, ...]
    name: str
    op: str
    text: Mapping[str, str]

    @property
    def last(self) -> Node:
        """The node whose output is the group's."""
        return self.chain[-1]


def fused(outputs: Outputs) -> Outputs:
    """The graph with fused layers."""
    plain = without_identities(outputs)
    convolved = _fuse(plain, _convolution_chain, _convolution_group)
    return _fuse(convolved, _dense_chain, _dense_group)


def without_identities(outputs: Outputs) -> Outputs:
    """The graph without copies and without dropout that acts in training only."""
    new: Replaced = {}
    for node in topological(outputs):
        is_identity = is_op(node, "_copy") or (
            is_op(node, "Dropout") and node.attrs["mode"] == "training"
        )
        if is_identity and not node.inputs[0].node.is_variable:
            source = node.inputs[0]
            new[Output(node, 0)] = new.get(source, source)
        else:
            keep(node, copied(node, new), new)
    return mapped(outputs, new)


def _fuse(
    outputs: Outputs,
    chain_of: Callable[[Node, Readers], Chain | None],
    group_of: Callable[[Chain, int], Group],
) -> Outputs:
    readers, order = consumers(outputs), topological(outputs)
    groups: list[Group] = []
    taken: set[Node] = set()
    for node in order:
        chain = None if node in taken else chain_of(node, readers)
        if chain:
            free = _until(chain, taken)
            taken.update(free)
            groups.append(group_of(free, len(groups)))
    return _replaced(outputs, order, groups)


def _until(chain: Chain, taken: set[Node]) -> Chain:
    """The chain before the first node that belongs to an earlier group."""
    cut = next((i for i, node in enumerate(chain) if node in taken), len(chain))
    return chain[:cut]


def _replaced(outputs: Outputs, order: Sequence[Node], groups: Sequence[Group]) -> Outputs:
    """The graph with a node for each group."""
    number = {group.last: i for i, group in enumerate(groups)}
    inner = {node for group in groups for node in group.chain[:-1]}
    new: Replaced = {}
    for node in order:
        if node in inner:
            continue
        if node in number:
            names = {groups[i].last: groups[i].name for i in range(number[node])}
            new[Output(node, 0)] = Output(_fused_node(groups[number[node]], names, new))
        else:
            keep(node, copied(node, new), new)
    return mapped(outputs, new)


def _fused_node(group: Group, names: Mapping[Node, str], new: Replaced) -> Node:
    """The node of a group; ``names`` are those of groups that MXNet creates before it."""
    operands = list(_operands(group))
    counts: Counter[str] = Counter()
    variables: dict[tuple[Node, int], Output] = {}
    for user, position in operands:
        source = user.inputs[position]
        name = f"{names[source.node]}_output" if source.node in names else source.name
        inner = replace(variable(f"{name}{counts[name]}"), attrs={"version": 0})
        variables[user, position] = Output(inner)
        counts[name] += 1
    last = _inner_graph(group, variables)
    op = operator_of(group.op, group.text, [(last,)])
    ordered = _residual_last(group, operands)
    inputs = [user.inputs[position] for user, position in ordered]
    return apply(op, group.name, [new.get(i, i) for i in inputs], group.text)


def _operands(group: Group) -> Iterator[tuple[Node, int]]:
    """Operands from outside, each as a node and a position, in the order of a depth-first visit."""
    members = set(group.chain)

    def visit(node: Node) -> Iterator[tuple[Node, int]]:
        for position, source in enumerate(node.inputs):
            if source.node in members:
                yield from visit(source.node)
            else:
                yield node, position

    return visit(group.last)


def _residual_last(group: Group, operands: list[tuple[Node, int]]) -> list[tuple[Node, int]]:
    """Operands with that of the sum at the end."""
    return sorted(operands, key=lambda use: is_op(use[0], "elemwise_add"))


def _inner_graph(group: Group, variables: Mapping[tuple[Node, int], Output]) -> Output:
    """The group as a separate graph; the sum reads the layer first."""
    previous: Node | None = None
    before: Node | None = None
    for node in group.chain:
        inputs = [
            Output(previous, source.index)
            if previous is not None and source.node is before
            else variables[node, position]
            for position, source in enumerate(node.inputs)
        ]
        if is_op(node, "elemwise_add") and inputs[1].node is previous:
            inputs.reverse()
        before, previous = node, replace(node, inputs=tuple(inputs))
    assert previous is not None
    return Output(previous)


# Convolution


def _convolution_chain(node: Node, readers: Readers) -> Chain | None:
    """A convolution of 2 or 3 spatial axes, then batch norm, a sum, an activation, if present."""
    if not is_op(node, "Convolution") or len(node.attrs["kernel"]) not in (2, 3):
        return None
    chain, has_sum = [node], False
    if (following := _next(chain, readers)) and is_op(following, "BatchNorm"):
        chain.append(following)
    if (following := _next(chain, readers)) and is_op(following, "elemwise_add"):
        chain.append(following)
        has_sum = True
    if (following := _next(chain, readers)) and _fuses_with_convolution(following, has_sum):
        chain.append(following)
    return chain


def _next(chain: Chain, readers: Readers) -> Node | None:
    """The only reader of the chain's end, which reads it once and as its main operand."""
    last = chain[-1]
    found = only_consumer(last, readers)
    if found is None or [source.node for source in found.inputs].count(last) != 1:
        return None
    is_main = found.inputs[0].node is last
    return found if is_main or is_op(found, "elemwise_add") else None


def _fuses_with_convolution(node: Node, has_sum: bool) -> bool:
    if is_op(node, "clip"):
        return not has_sum and node.attrs["a_min"] == 0
    return _is_relu(node) or (is_op(node, "LeakyReLU") and node.attrs["act_type"] == "leaky")


def _is_relu(node: Node) -> bool:
    return is_op(node, "Activation") and node.attrs["act_type"] == "relu"


def _convolution_group(chain: Chain, number: int) -> Group:
    words, text, has_sum = ["conv"], dict[str, str](), False
    for node in chain[1:]:
        if is_op(node, "BatchNorm"):
            word, key = "bn", "with_bn"
        elif is_op(node, "elemwise_add"):
            word, key, has_sum = "add", "with_sum", True
        else:
            word, key = "act", "with_postsum_act" if has_sum else "with_act"
        words.append(word)
        text[key] = "true"
    name = f"sg_mkldnn_{'_'.join(words)}_{number}"
    return Group(tuple(chain), name, "_sg_mkldnn_conv", text)


# Fully connected layers


def _dense_chain(node: Node, readers: Readers) -> Chain | None:
    if not is_op(node, "FullyConnected"):
        return None
    following = _next([node], readers)
    return [node, following] if following and _fuses_with_dense(following) else [node]


def _fuses_with_dense(node: Node) -> bool:
    if is_op(node, "clip"):
        return bool(node.attrs["a_min"] == 0)
    is_leaky = is_op(node, "LeakyReLU") and node.attrs["act_type"] in ("leaky", "elu", "gelu")
    return _is_relu(node) or is_leaky or is_op(node, "abs")


def _dense_group(chain: Chain, number: int) -> Group:
    words = "fully_connected" + "_eltwise" * (len(chain) - 1)
    text = {"with_eltwise": "True"} if len(chain) > 1 else {}
    return Group(tuple(chain), f"sg_mkldnn_{words}_{number}", "_sg_mkldnn_fully_connected", text)
