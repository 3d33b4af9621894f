"""``hybridjit.load``: a block from the two files of a model, and what a caller has to give it.

In: a prefix, or a graph and the names of its parameters. Out: a block ready to be called, or the
graph's other variables sorted into inputs, labels and missing parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from . import sym
from .context import Context
from .errors import ModelFormatError, MXNetError
from .gluon.symbol_block import SymbolBlock
from .io import params as params_file
from .io import symbol_json
from .ir.node import Node, Output, topological
from .sym import Symbol

# Ends of training graphs: at inference they compute from their data alone.
_HEADS = frozenset(
    {
        "LinearRegressionOutput",
        "LogisticRegressionOutput",
        "MAERegressionOutput",
        "SVMOutput",
        "SoftmaxOutput",
    }
)
# Names of operator inputs that are learned: a variable there is a parameter, not an input.
_LEARNED = frozenset(
    {
        "bias",
        "beta",
        "gamma",
        "moving_avg",
        "moving_mean",
        "moving_var",
        "parameters",
        "weight",
    }
)


class Reading(NamedTuple):
    """A variable that an operator reads, and what the operator calls that input."""

    variable: str
    op: str
    slot: str


@dataclass(frozen=True)
class Roles:
    """The variables of a graph that have no parameter, each list in the graph's order.

    inputs   what a caller gives
    labels   read by the ends of training graphs only; inference does not need them
    missing  what operators read as weights and the like
    """

    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    missing: tuple[str, ...]


def load(prefix: str, epoch: int = 0, ctx: Context | None = None) -> SymbolBlock:
    """The network of ``prefix-symbol.json`` and ``prefix-0000.params``, ready to be called.

    It takes the graph's inputs in the graph's order: the variables without a parameter. Labels of
    training graphs are not asked for, and arrays that the graph does not read are passed over.
    Raises MXNetError for files that are missing, malformed, or do not belong together.
    """
    outputs = symbol_json.load(f"{prefix}-symbol.json")
    path = f"{prefix}-{epoch:04d}.params"
    params = load_params(path)
    roles = sort_variables(outputs, params)
    require_parameters(roles, path, params)
    return make_block(outputs, roles, params, ctx)


def load_params(path: str) -> dict[str, np.ndarray]:
    """The arrays of a parameter file by their names without ``arg:`` and ``aux:``.

    Raises MXNetError when it cannot be read, ModelFormatError when its arrays have no names.
    """
    arrays = params_file.load(path)
    if isinstance(arrays, list):
        if arrays:
            raise ModelFormatError(f"{path}: holds {len(arrays)} arrays without names")
        return {}
    return {bare_name(name): array for name, array in arrays.items()}


def bare_name(name: str) -> str:
    """A parameter's name without ``arg:`` or ``aux:``."""
    kind, colon, rest = name.partition(":")
    return rest if colon and kind in ("arg", "aux") else name


def make_block(
    outputs: Iterable[Output],
    roles: Roles,
    params: Mapping[str, Any],
    ctx: Context | None = None,
) -> SymbolBlock:
    """A hybridized block of a graph with these parameters; its labels are cut off.

    Raises MXNetError when the graph takes no input, and when a parameter does not fit.
    """
    if not roles.inputs:
        raise MXNetError("the graph has no input: every variable in it is a parameter")
    heads = without_labels(outputs, roles.labels)
    block = SymbolBlock(Symbol(heads), [sym.var(name) for name in roles.inputs])
    try:
        block.collect_params().load_dict(
            params, ctx, ignore_extra=True, cast_dtype=True, dtype_source="saved"
        )
    except AssertionError as error:
        raise MXNetError(str(error)) from None
    block.hybridize()
    return block


def variables(outputs: Iterable[Output]) -> list[str]:
    """The names of the graph's variables, each once, in the graph's order."""
    return list(dict.fromkeys(n.name for n in topological(outputs) if n.is_variable))


def readings(outputs: Iterable[Output]) -> list[Reading]:
    """Every reading of a variable in the graph."""
    return [
        Reading(edge.node.name, node.op.name, slot)
        for node in topological(outputs)
        if node.op is not None
        for edge, slot in zip(node.inputs, node.input_names)
        if edge.node.is_variable
    ]


def sort_variables(outputs: Iterable[Output], params: Collection[str]) -> Roles:
    """What the graph's variables are that are not in ``params``."""
    outputs = tuple(outputs)
    nodes = [node for node in topological(outputs) if node.is_variable]
    learned = {node.name for node in nodes if is_learned(node.text)}
    names = [name for name in variables(outputs) if name not in params]
    return roles_of(names, learned, readings(outputs))


def is_learned(text: Mapping[str, str]) -> bool:
    """Whether a variable's attributes are those of a Gluon parameter: only these have a rate."""
    return "__lr_mult__" in text


def roles_of(names: Iterable[str], learned: Collection[str], read: Iterable[Reading]) -> Roles:
    """What these variables without arrays are, from how operators read them."""
    slots: dict[str, list[Reading]] = {name: [] for name in names}
    for reading in read:
        if reading.variable in slots:
            slots[reading.variable].append(reading)
    found: dict[str, list[str]] = {"input": [], "label": [], "missing": []}
    for name, uses in slots.items():
        found["missing" if name in learned else _role(uses)].append(name)
    return Roles(tuple(found["input"]), tuple(found["label"]), tuple(found["missing"]))


def _role(uses: list[Reading]) -> str:
    if uses and all(use.op in _HEADS and use.slot == "label" for use in uses):
        return "label"
    return "missing" if any(use.slot in _LEARNED for use in uses) else "input"


def require_parameters(roles: Roles, path: str, held: Collection[str]) -> None:
    """Raises MXNetError listing every parameter that the file, which has ``held``, lacks."""
    if not roles.missing:
        return
    names = ", ".join(f"'{name}'" for name in roles.missing)
    message = f"the graph reads parameters that are missing in {path}: {names}"
    if any("." in name for name in held):
        message += (
            ". Its names are those of save_parameters, which fit the block that wrote them; "
            "a graph needs the file that export writes"
        )
    raise MXNetError(message)


def without_labels(outputs: Iterable[Output], labels: Collection[str]) -> tuple[Output, ...]:
    """The graph with its ends reading their data in place of these labels.

    An end computes from its data alone, and the data's shape is one that its label may have.
    """
    heads = tuple(outputs)
    if not labels:
        return heads
    new: dict[Node, Node] = {}

    def moved(edge: Output) -> Output:
        return Output(new.get(edge.node, edge.node), edge.index)

    for node in topological(heads):
        inputs = tuple(moved(edge) for edge in node.inputs)
        if node.op is not None and node.op.name in _HEADS and inputs[1].node.name in labels:
            inputs = (inputs[0], inputs[0])
        if inputs != node.inputs:
            new[node] = replace(node, inputs=inputs)
    return tuple(moved(head) for head in heads)
