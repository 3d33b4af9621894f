"""Tuple of node outputs: indexing, names and listings.

Input: outputs. Output: names, attributes, and other tuples of outputs. This module uses no
operators; :mod:`.symbol` adds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NoReturn, TypeVar

from .._core.config import config
from .._core.frames import is_called_by_program, shortened, warn
from .._core.lazy import other_names
from ..errors import MXNetError
from ..ir.node import HIDDEN_KEYS, Node, Output, annotate, topological

Self = TypeVar("Self", bound="Outputs")

# Values of the attribute __storage_type__.
STORAGE_CODES = {"default": "0", "row_sparse": "1", "csr": "2"}
_VALUES_ONLY = frozenset({"shape", "dtype", "size", "ndim", "context", "ctx", "T", "stype", "grad"})

_AT_RUN_TIME = (
    "operators can use them at run time (shape_array, reshape with 0 and -1, slice_like, "
    "reshape_like)"
)
_INSTEAD = {
    **dict.fromkeys(("context", "ctx"), "make arrays beside it by F.zeros_like(x), F.ones_like(x)"),
    "dtype": "x.astype('float32') makes a known one",
    "grad": "gradients belong to arrays and parameters",
}


class Outputs:
    """Methods of symbols that need no operator."""

    __slots__ = ("outputs", "__weakref__")
    __array_priority__ = 1000.0  # NumPy scalars on the left defer to this class

    def __init__(self, outputs: Iterable[Output] | None) -> None:
        """``outputs`` is None while a pickle written by MXNet is read."""
        self.outputs = () if outputs is None else tuple(outputs)

    @property
    def name(self) -> str | None:
        """Name of the node; None for a group of several nodes."""
        names = {id(output.node): output.node.name for output in self.outputs}
        return names.popitem()[1] if len(names) == 1 else None

    def __repr__(self) -> str:
        if self.name is not None:
            return f"<Symbol {self.name}>"
        return f"<Symbol group [{', '.join(output.node.name for output in self.outputs)}]>"

    def __len__(self) -> int:
        self._warn_of_rows()
        return len(self.outputs)

    def __iter__(self: Self) -> Iterator[Self]:
        self._warn_of_rows()
        return (type(self)((output,)) for output in self.outputs)

    def _warn_of_rows(self) -> None:
        """Warn a program that may mean an array's rows, if the switch CHECK is on."""
        if config.check and len(self.outputs) == 1 and is_called_by_program(2):
            warn(
                f"len() and iteration of Symbol '{self.name}' count its outputs: 1. Those of an "
                "array count its rows: use F.split(x, num_outputs=N, axis=0, squeeze_axis=True) or "
                "F.contrib.foreach for rows, F.shape_array(x) for sizes, or call the block without "
                "hybridize()"
            )

    def __getitem__(self: Self, index: int | str | slice) -> Self:
        """Output selected by index or name, or a group selected by a slice.

        Raises IndexError for an index out of range, ValueError for an unknown name, MXNetError for
        a negative index and TypeError for other keys.
        """
        if isinstance(index, str):
            return self._output_named(index)
        if isinstance(index, slice):
            return type(self)(self.outputs[index])
        if not isinstance(index, int):
            raise TypeError(
                f"Symbol only support integer index to fetch i-th output, got {index!r}: to slice "
                "the array of a Symbol, use F.slice_axis(x, axis=..., begin=..., end=...) or F.take"
            )
        if index < 0:
            raise MXNetError(f"Symbol only accept nonnegative index, got {index}")
        if index >= len(self.outputs):
            raise IndexError(
                f"output {index} of {self!r} does not exist, it has {len(self.outputs)}: "
                "indexing a Symbol selects an output, not a row"
            )
        return type(self)((self.outputs[index],))

    def _output_named(self: Self, name: str) -> Self:
        found = [output for output in self.outputs if output.name == name]
        if not found:
            names = ", ".join(output.name for output in self.outputs)
            raise ValueError(f'Cannot find output that matches name "{name}": there are {names}')
        if len(found) > 1:
            raise ValueError(f'There are multiple outputs with name "{name}"')
        return type(self)(found)

    def __getattr__(self, name: str) -> NoReturn:
        message = f"'Symbol' object has no attribute '{name}'"
        has_values = name in _VALUES_ONLY or name in other_names.NO_VALUES
        if not has_values:
            message += other_names.way(name, "ARRAYS")
        if has_values:
            way = _INSTEAD.get(name, _AT_RUN_TIME)
            message += f": a traced block has not computed values; {way}"
        raise shortened(AttributeError(message))

    def __copy__(self: Self) -> Self:
        return type(self)(self.outputs)

    def __deepcopy__(self: Self, memo: object) -> Self:
        return type(self)(self.outputs)

    # Listings

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return [output.name for output in self.outputs]

    def list_inputs(self) -> list[str]:
        """Names of all variables in topological order."""
        return [node.name for node in self._variables()]

    def list_arguments(self) -> list[str]:
        """Names of the variables that are not auxiliary states."""
        aux = auxiliary_nodes(self.outputs)
        return [node.name for node in self._variables() if node not in aux]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the variables that are auxiliary states of an operator."""
        aux = auxiliary_nodes(self.outputs)
        return [node.name for node in self._variables() if node in aux]

    def _variables(self) -> list[Node]:
        return [node for node in topological(self.outputs) if node.is_variable]

    def get_internals(self: Self) -> Self:
        """Group of all outputs of all nodes."""
        nodes = topological(self.outputs)
        return type(self)(Output(n, i) for n in nodes for i in range(len(n.output_names)))

    def get_children(self: Self) -> Self | None:
        """Group of the inputs of the nodes; None if there are none."""
        nodes = dict.fromkeys(output.node for output in self.outputs)
        inputs = [edge for node in nodes for edge in node.inputs]
        return type(self)(inputs) if inputs else None

    def attr(self, key: str) -> str | None:
        """Value of an attribute; None if it is not set or this is a group."""
        return self.list_attr().get(key)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """All attributes of this node, hidden keys also without their underscores.

        Raises DeprecationWarning for ``recursive=True``, as MXNet does.
        """
        if recursive:
            raise DeprecationWarning("list_attr with recursive=True: use attr_dict")
        return {} if self.name is None else _shown_attrs(self.outputs[0].node)

    def _set_attr(self, **kwargs: str) -> None:
        """Set attributes of the node, which other symbols may share.

        Raises ValueError for a value that is not a string, MXNetError for a group and for an
        attribute of the operator itself.
        """
        if any(not isinstance(value, str) for value in kwargs.values()):
            raise ValueError("Set Attr only accepts string values")
        if self.name is None:
            raise MXNetError("Symbol.SetAttrs only works for non-grouped symbol")
        hidden = {f"__{k}__" if k in HIDDEN_KEYS else k: v for k, v in kwargs.items()}
        annotate(self.outputs[0].node, hidden)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Attributes by node name, for nodes that have any."""
        nodes = topological(self.outputs)
        return {node.name: _shown_attrs(node) for node in nodes if node.text}

    def debug_str(self) -> str:
        """Listing of all nodes."""
        lines = ["Symbol Outputs:"]
        lines += [f"\toutput[{i}]={o.node.name}({o.index})" for i, o in enumerate(self.outputs)]
        for node in topological(self.outputs):
            lines += _debug_lines(node)
        return "\n".join(lines) + "\n"


def auxiliary_nodes(outputs: Iterable[Output]) -> set[Node]:
    """Variables that are auxiliary states of an operator."""
    found: set[Node] = set()
    for node in topological(outputs):
        if node.op is not None:
            found.update(node.inputs[i].node for i in node.op.aux_positions(node.attrs))
    return found


def substituted(
    outputs: Iterable[Output], values: Mapping[str, Output], name: str | None = None
) -> list[Output]:
    """Outputs of a copy of the graph in which variables are replaced, by name.

    ``name`` is the new name of the first output's node.
    """
    outputs = tuple(outputs)
    renamed = {outputs[0].node: name} if name else {}
    new: dict[Node, Output | Node] = {}

    def moved(edge: Output) -> Output:
        found = new[edge.node]
        return found if isinstance(found, Output) else Output(found, edge.index)

    for node in topological(outputs):
        if node.is_variable:
            new[node] = values.get(node.name, node)
        else:
            inputs = tuple(moved(edge) for edge in node.inputs)
            called = renamed.get(node, node.name)
            new[node] = replace(node, name=called, inputs=inputs)
    return [moved(output) for output in outputs]


def _shown_attrs(node: Node) -> dict[str, str]:
    bare = {key: node.text[f"__{key}__"] for key in HIDDEN_KEYS if f"__{key}__" in node.text}
    return {**node.text, **bare}


def _debug_lines(node: Node) -> list[str]:
    if node.is_variable:
        return [f"Variable:{node.name}"]
    assert node.op is not None
    lines = ["--------------------", f"Op:{node.op.name}, Name={node.name}", "Inputs:"]
    edges = enumerate(node.inputs)
    lines += [f"\targ[{i}]={e.node.name}({e.index}) version=0" for i, e in edges]
    if node.text:
        lines += ["Attrs:", *(f"\t{key}={value}" for key, value in sorted(node.text.items()))]
    return lines


def declared_stypes(symbol: Outputs, given: Mapping[str, object] | None = None) -> dict[str, str]:
    """Storage types of the variables that are not dense: from ``given``, or their attributes."""
    stypes = {code: stype for stype, code in STORAGE_CODES.items()}
    found = {
        name: stypes.get(attrs.get("__storage_type__", ""), "default")
        for name, attrs in symbol.attr_dict().items()
    }
    found |= {name: str(stype or "default") for name, stype in (given or {}).items()}
    return {name: stype for name, stype in found.items() if stype != "default"}
