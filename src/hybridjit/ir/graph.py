"""The typed graph that passes transform: values, groups, graphs. All are immutable.

A :class:`Value` is a node with a type for each output. A :class:`Graph` lists its inputs, its
parameters and its outputs; after ``fuse`` it also lists its :class:`Group` s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import NamedTuple

from .._core.frozen import dataclass
from .._core.types import TensorType
from ..ops.attrs import Attrs
from ..ops.building import infer_types
from ..ops.record import OpDef
from ..ops.tensor.new_arrays import resolved
from .mode import INFERENCE, Purpose
from .node import Node, Output, topological


class Use(NamedTuple):
    """Output ``index`` of ``value``."""

    value: Value
    index: int = 0  # type: ignore[assignment]

    @property
    def type(self) -> TensorType:
        return self.value.types[self.index]


@dataclass(frozen=True, eq=False)
class Value:
    """One typed node; ``op`` is None for an input or a parameter.

    layer    the name of the layer that computes it, if its own is that of a later operator, which
             was folded into the layer
    is_ruled  its types are known to be those of the operator's rule
    """

    op: OpDef | None
    name: str
    attrs: Attrs
    inputs: tuple[Use, ...]
    types: tuple[TensorType, ...]
    source: str = ""
    layer: str = ""
    is_ruled = False  # not a field: a copy with other contents is not known to be right

    @property
    def type(self) -> TensorType:
        return self.types[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.types[0].dims

    def describe(self) -> str:
        return f"variable '{self.name}'" if self.op is None else f"{self.op.name} '{self.name}'"


@dataclass(frozen=True, eq=False)
class Group:
    """The values that become one kernel: the anchor and the pointwise values on its result.

    kind     the kernel kind: ``conv``, ``gemm``, ``pool``, ``pointwise``, ``view``, ``host``, ...
    members  in topological order; the anchor is the first
    outputs  the members that values outside the group read
    """

    kind: str
    members: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def anchor(self) -> Value:
        return self.members[0]

    @property
    def name(self) -> str:
        return self.anchor.name

    @property
    def layer(self) -> str:
        """The name that users know: that of the layer, which batch norms were folded into."""
        return self.anchor.layer or self.anchor.name

    @property
    def epilogue(self) -> tuple[Value, ...]:
        return self.members[1:]

    @property
    def results(self) -> tuple[Use, ...]:
        """Uses that the kernel writes: all outputs of a single member, else the group's."""
        if len(self.members) == 1:
            return tuple(Use(self.anchor, i) for i in range(len(self.anchor.types)))
        return tuple(Use(value) for value in self.outputs)

    @cached_property
    def inputs(self) -> tuple[Use, ...]:
        """The uses that the group reads from outside, each once, in order of first use."""
        own = set(self.members)
        uses = (use for member in self.members for use in member.inputs)
        return tuple(dict.fromkeys(use for use in uses if use.value not in own))


@dataclass(frozen=True)
class SampleRows:
    """Rows of a dense layer that belong to one sample: ``count`` rows, ``apart`` rows from each
    other.

    Adjacent rows (1 apart) begin at multiples of ``count``; otherwise the rows of ``apart`` samples
    are interleaved.
    """

    count: int = 1
    apart: int = 1

    def __str__(self) -> str:
        apart = f", {self.apart} apart" if self.apart > 1 else ""
        return f"{self.count} rows a sample{apart}"


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs in call order, parameters, outputs; ``groups`` in an order that can be executed.

    From ``hoist`` on, ``bind`` is the graph whose outputs are this graph's parameters, in order.
    ``purpose`` is the mode that it is compiled for. ``sample_rows`` has names of dense layers with
    the rows that certainly belong to one sample, if known.
    """

    inputs: tuple[Value, ...]
    params: tuple[Value, ...]
    outputs: tuple[Use, ...]
    groups: tuple[Group, ...] = field(default=())
    name: str = "graph"
    bind: Graph | None = None
    purpose: Purpose = INFERENCE
    sample_rows: tuple[tuple[str, SampleRows], ...] = ()

    @cached_property
    def updated(self) -> Mapping[int, int]:
        """For each output that updates an input, by number, the number of that input."""
        numbers = {value.name: number for number, value in enumerate(self.inputs)}
        return {output: numbers[name] for output, name in self.purpose.updates}

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """Every value that the outputs need, inputs before users; unused inputs come first."""
        return tuple(walk([*(Use(v) for v in self.inputs), *self.outputs]))

    @cached_property
    def uses(self) -> dict[Value, tuple[Value, ...]]:
        """The values that read each value, in order; a value that is an output is not listed."""
        table: dict[Value, list[Value]] = {v: [] for v in self.values}
        for value in self.values:
            for source in dict.fromkeys(use.value for use in value.inputs):
                table[source].append(value)
        return {v: tuple(users) for v, users in table.items()}

    @cached_property
    def output_values(self) -> frozenset[Value]:
        return frozenset(use.value for use in self.outputs)

    def rows_of_sample(self, dense: Value) -> SampleRows:
        """The rows of a dense layer that belong to one sample; a single row if unknown."""
        return dict(self.sample_rows).get(dense.name, SampleRows())

    def with_outputs(self, outputs: Iterable[Use]) -> Graph:
        """The same inputs and parameters with other outputs; unused parameters are dropped."""
        outputs = tuple(outputs)
        given = set(self.inputs)
        values = tuple(walk([*(Use(v) for v in self.inputs), *outputs]))
        params = tuple(v for v in values if v.op is None and v not in given)
        graph = replace(self, params=params, outputs=outputs, groups=())
        graph.__dict__["values"] = values  # saves the walk of the property, which finds the same
        return graph


def walk(uses: Iterable[Use]) -> list[Value]:
    """All values that ``uses`` need, inputs before users, first input first."""
    order: list[Value] = []
    done: set[Value] = set()
    for use in uses:
        if use.value in done:
            continue
        stack = [(use.value, iter(use.value.inputs))]
        while stack:
            value, rest = stack[-1]
            for source, _ in rest:
                if source not in done:
                    stack.append((source, iter(source.inputs)))
                    break
            else:
                stack.pop()
                done.add(value)
                order.append(value)
    return order


def from_symbol(
    outputs: Iterable[Output],
    inputs: Mapping[str, TensorType],
    types: Mapping[Node, tuple[TensorType, ...]],
    name: str = "graph",
    purpose: Purpose = INFERENCE,
) -> Graph:
    """The graph of a Symbol's outputs, from a type for every node output.

    Variables named in ``inputs`` become the inputs, in that order, used or not; all others become
    parameters. Two variables with the same name are one value; names of operators, which files may
    repeat, are made unique.
    """
    outputs = tuple(outputs)
    variables = {n: Value(None, n, {}, (), (t,)) for n, t in inputs.items()}
    values: dict[Node, Value] = {}
    taken = dict.fromkeys(variables, 0)
    for node in topological(outputs):
        if node.op is None and node.name in variables:
            values[node] = variables[node.name]
            continue
        values[node] = Value(
            node.op,
            unique_name(node.name, taken),
            _settled_attrs(node, types[node]),
            tuple(Use(values[i.node], i.index) for i in node.inputs),
            types[node],
            node.source,
        )
        if node.op is None:
            variables[node.name] = values[node]
    params = tuple(v for n, v in variables.items() if n not in inputs)
    heads = tuple(Use(values[o.node], o.index) for o in outputs)
    given = tuple(variables[n] for n in inputs)
    return Graph(given, params, heads, (), name, purpose=purpose)


def _settled_attrs(node: Node, types: tuple[TensorType, ...]) -> Attrs:
    """A node's attributes; unknown sizes of a source are those that its readers decided."""
    if node.op is None or node.inputs or not types[0].is_known:
        return node.attrs
    return resolved(node.op, node.attrs, types[0])


def unique_name(name: str, taken: dict[str, int]) -> str:
    """``name``, with a number appended if it is taken already."""
    count = taken.get(name)
    taken[name] = 0 if count is None else count + 1
    return name if count is None else f"{name}.{count + 1}"


def uses_of(value: Value) -> tuple[Use, ...]:
    """Every output of a value."""
    if len(value.types) == 1:
        return (Use(value),)
    return tuple(Use(value, index) for index in range(len(value.types)))


def typed_by_rule(value: Value) -> Value:
    """The same value, marked as one whose types its operator's rule has just given."""
    object.__setattr__(value, "is_ruled", True)
    return value


def make(
    op: OpDef, name: str, inputs: Iterable[Use], source: str = "", /, **attrs: object
) -> Value:
    """A new value that applies ``op``; omitted attributes take their defaults.

    The operator's rule gives its types, so a pass cannot assign a wrong type.
    """
    full, inputs = op.with_defaults(attrs), tuple(inputs)
    types = infer_types(op, [use.type for use in inputs], full)
    return typed_by_rule(Value(op, name, full, inputs, types, source))
