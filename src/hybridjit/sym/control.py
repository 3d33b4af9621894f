"""``sym.contrib.foreach``, ``while_loop`` and ``cond``: nodes that contain graphs.

Input: Python functions of symbols. Each is called once, with variables for the values that change
from step to step; nodes that it creates have the attribute ``__subgraph_name__``, and outside
values that they read become operands of the control flow node. Output: symbols, nested and named as
in MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from .._core.frames import user_line
from ..attribute import AttrScope
from ..control import Body, branch, each, repeat
from ..errors import output_and_states
from ..ir.node import Node, Output, topological, variable
from ..name import TRACED, NameManager
from ..ops.attrs import Attrs
from ..ops.record import OpDef
from ..ops.registry import lookup
from .compose import compose, user_texts
from .symbol import Symbol

Nested: TypeAlias = Any  # a Symbol, or nested lists of them

_KEY = "__subgraph_name__"


class Cut(NamedTuple):
    """Graph in which outside values are replaced by variables; ``outside`` maps these back."""

    outputs: tuple[Output, ...]
    outside: dict[Node, Output]

    def operand(self, node: Node) -> Output:
        """Operand of a variable of the graph: the outside value, or the variable itself."""
        return self.outside.get(node, Output(node))


def foreach(
    body: Callable[[Nested, Nested], tuple[Nested, Nested]],
    data: Nested,
    init_states: Nested,
    name: str = "foreach",
) -> tuple[Nested, Nested]:
    """Loop ``output, states = body(row, states)`` over ``data``: stacked outputs, states.

    Rows are along axis 0; ``data``, outputs and states are symbols or nested lists of them. Raises
    AssertionError if ``body`` does not read all of them, or changes the nesting of states.
    """
    rows, states = _flat(data, "foreach input"), _flat(init_states, "foreach states")
    name = _unique(name)
    with AttrScope(**{_KEY: name}):
        own = [_variable(x) for x in (*rows, *states)]
        given = iter(own)
        made, after = output_and_states(body(_like(data, given), _like(init_states, given)))
        outs, changed = _flat(made, "foreach output"), _flat(after, "foreach loop_vars")
        assert _shape(after) == _shape(init_states), (
            "The input and output loop_vars have different format"
        )
        cut = _cut(_finished([*outs, *changed], name), name)
    graph = Body(cut.outputs)
    places = {node: i for i, node in enumerate(graph.variables)}
    for what, part in (("data", own[: len(rows)]), ("state", own[len(rows) :])):
        assert all(x.outputs[0].node in places for x in part), (
            f"the {what} arrays have to be used in the loop body"
        )
    first = [places.pop(x.outputs[0].node) for x in own]
    locations = [first[: len(rows)], first[len(rows) :], list(places.values())]
    operands = [x.outputs[0] for x in (*rows, *states)] + [cut.operand(n) for n in places]
    op = each(graph, locations, len(outs))
    keys = ("in_data_locs", "in_state_locs", "remain_locs")
    numbers = {**dict(zip(keys, locations)), "num_out_data": len(outs)}
    found = _node(op, operands, numbers, kind_of([*rows, *states]))
    return _like(made, found), _like(after, found)


def while_loop(
    cond: Callable[..., Symbol],
    func: Callable[..., tuple[Nested, Nested]],
    loop_vars: Nested,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> tuple[Nested, Nested]:
    """Loop ``output, vars = func(*vars)`` while ``cond(*vars)``: stacked outputs, variables.

    Outputs have ``max_iterations`` rows, padded with 0. Raises ValueError without
    ``max_iterations`` or variables, if ``cond`` does not return a symbol, and if ``func`` changes
    the count of variables or does not read all of them.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    most = _whole("max_iterations", max_iterations)
    flat = _flat(loop_vars, "while loop_vars")
    if not flat:
        raise ValueError("loop_vars should contain at least one element")
    asking = _traced(flat, lambda xs: ([cond(*_arguments(loop_vars, xs))], None), f"{name}_cond")
    if not isinstance(asking.results[0], Symbol):
        raise ValueError("Return of cond must be a Symbol")

    def step(xs: list[Symbol]) -> tuple[list[Symbol], Nested]:
        made, after = (
            [] if part is None else list(part) if isinstance(part, tuple) else part
            for part in func(*_arguments(loop_vars, xs))
        )
        outs, changed = _flat(made, "while output"), _flat(after, "while loop_vars")
        if len(changed) != len(flat):
            raise ValueError("The number of loop_vars should be consistent during the loop")
        return [*outs, *changed], (made, len(outs))

    working = _traced(flat, step, f"{name}_func")
    made, rows = working.more
    bodies = [asking.body, working.body]
    variables = working.places()
    for number, place in enumerate(variables, 1):
        if place is None:
            raise ValueError(f"The {number}-th loop_var doesn't involve into the computation")
    operands: list[Output] = []
    reads = [_joined(operands, part) for part in (asking, working)]
    changing = [place for place in variables if place is not None]
    op = repeat(bodies, reads, changing, rows, most, len(operands))
    text = {
        **dict(zip(("cond_input_locs", "func_input_locs"), reads)),
        "func_var_locs": changing,
        "max_iterations": most,
        "num_out_data": rows,
    }
    found = _node(op, operands, text, kind_of(flat))
    return _like(made, found), _like(loop_vars, found)


def cond(
    pred: Symbol,
    then_func: Callable[[], Nested],
    else_func: Callable[[], Nested],
    name: str = "cond",
) -> Nested:
    """``then_func()`` if ``pred`` (one element) is nonzero, else ``else_func()``.

    Raises AssertionError for objects that are not symbols, ValueError if the two functions return
    different counts of results.
    """
    _flat(pred, "cond outputs")
    asking = _traced([], lambda xs: ([pred], None), f"{name}_pred")
    parts = [asking]
    for function, what in ((then_func, "then"), (else_func, "else")):

        def made(
            xs: list[Symbol], function: Callable[[], Nested] = function
        ) -> tuple[list[Symbol], Nested]:
            found = function()
            return _flat(found, "cond outputs"), found

        parts.append(_traced([], made, f"{name}_{what}"))
    counts = [len(part.results) for part in parts]
    if counts[1] != counts[2]:
        raise ValueError("Number of outputs differs between then-branch and else-branch")
    operands: list[Output] = []
    reads = [_joined(operands, part) for part in parts]
    op = branch([part.body for part in parts], reads, len(operands))
    keys = ("cond_input_locs", "then_input_locs", "else_input_locs")
    kind = kind_of([*parts[1].results, pred])
    return _like(parts[1].more, _node(op, operands, dict(zip(keys, reads)), kind))


class Traced(NamedTuple):
    """Function that was called once with variables.

    own      variables of the call; ``given``: the operands that they represent
    results  flat list of the returned symbols; ``more``: another value that the function returned
    """

    cut: Cut
    body: Body
    own: list[Node]
    given: list[Output]
    results: list[Symbol]
    more: Nested

    def places(self) -> list[int | None]:
        """Index of each own variable among the graph's variables, None if it is not read."""
        found = {node: i for i, node in enumerate(self.body.variables)}
        return [found.get(node) for node in self.own]

    def operand(self, node: Node) -> Output:
        """Operand of a variable of the graph."""
        if node in self.own:
            return self.given[self.own.index(node)]
        return self.cut.operand(node)


def _traced(
    flat: Sequence[Symbol],
    function: Callable[[list[Symbol]], tuple[list[Symbol], Nested]],
    name: str,
) -> Traced:
    name = _unique(name)
    with AttrScope(**{_KEY: name}):
        own = [_variable(x) for x in flat]
        results, more = function(own)
        if not all(isinstance(x, Symbol) for x in results):
            return Traced(Cut((), {}), Body(()), [], [], results, more)
        cut = _cut(_finished(results, name), name)
    given = [x.outputs[0] for x in flat]
    return Traced(cut, Body(cut.outputs), [x.outputs[0].node for x in own], given, results, more)


def _joined(operands: list[Output], part: Traced) -> list[int]:
    """Index of the operand that each variable reads; appends new operands.

    Variables that change have separate operands, even if others read the same value.
    """
    found = []
    for node in part.body.variables:
        operand = part.operand(node)
        if operand not in operands:
            operands.append(operand)
        found.append(operands.index(operand))
    return found


def _unique(name: str) -> str:
    """Name with a suffix that no other graph of this name has."""
    number = AttrScope._subgraph_names[name]
    AttrScope._subgraph_names[name] += 1
    return f"{name}{number}"


def kind_of(symbols: Sequence[Symbol]) -> type[Symbol]:
    """Class of the first symbol: classic operands have classic results, likewise in NumPy mode."""
    return type(symbols[0]) if symbols else Symbol


def _variable(x: Symbol) -> Symbol:
    """Variable for a changing value, named after its initial value."""
    node, index = x.outputs[0]
    return type(x)((Output(variable(f"{node.name}-{index}", user_texts(None))),))


def _finished(results: Sequence[Symbol], name: str) -> list[Output]:
    """Outputs of a graph, each computed by an operator inside it."""
    identity, found = lookup("_copy"), []
    for x in results:
        output = x.outputs[0]
        if output.node.is_variable or output.node.text.get(_KEY) != name:
            output = Output(compose(identity, "identity", {"data": output}, {}))
        found.append(output)
    return found


def _cut(outputs: Sequence[Output], name: str) -> Cut:
    """Cut out the graph of the nodes with this name."""
    outside: dict[Node, Output] = {}
    instead: dict[Output, Output] = {}
    for node in _inside(outputs, name):
        inputs = []
        for x in node.inputs:
            if x not in instead and not x.node.is_variable and x.node.text.get(_KEY) != name:
                cut = variable(x.name)
                outside[cut], instead[x] = x, Output(cut)
            inputs.append(instead.get(x, x))
        if tuple(inputs) != node.inputs:
            new = replace(node, inputs=tuple(inputs))
            instead.update((Output(node, k), Output(new, k)) for k in range(len(node.output_names)))
    return Cut(tuple(instead.get(x, x) for x in outputs), outside)


def _inside(outputs: Sequence[Output], name: str) -> Iterator[Node]:
    """Nodes with this name, operands first."""
    for node in topological(outputs):
        if node.op is not None and node.text.get(_KEY) == name:
            yield node


def _node(
    op: OpDef, operands: Sequence[Output], numbers: Attrs, kind: type[Symbol]
) -> Iterator[Symbol]:
    """Results of a node, as symbols of class ``kind``."""
    counts = {
        "num_args": len(operands) + len(op.subgraphs),
        "num_outputs": len(op.output_names({})),
    }
    text = {**user_texts(None), **{k: str(v) for k, v in {**numbers, **counts}.items()}}
    name = NameManager.current.get(None, op.name)
    node = Node(op, name, text, tuple(operands), {}, user_line(), TRACED.path)
    return (kind((Output(node, k),)) for k in range(counts["num_outputs"]))


def _whole(name: str, value: Any) -> int:
    """Integer from a number or an array of one element. Raises ValueError."""
    try:
        return int(value.asscalar() if hasattr(value, "asscalar") else value)
    except (TypeError, ValueError):
        raise ValueError(f"Cannot convert {name} to python int") from None


# ---- nests --------------------------------------------------------------------------------------


def _flat(nested: Nested, what: str) -> list[Symbol]:
    """Flat list of all symbols. Raises AssertionError for other objects."""
    if isinstance(nested, Symbol):
        return [nested] if len(nested.outputs) == 1 else list(nested)
    assert isinstance(nested, (list, tuple)), (
        f"{what} must be (nested) list of Symbol, but got {nested} of type {type(nested)}"
    )
    return [x for item in nested for x in _flat(item, what)]


def _shape(nested: Nested) -> object:
    """Structure of the nesting."""
    return None if isinstance(nested, Symbol) else [_shape(item) for item in nested]


def _like(nested: Nested, found: Iterator[Symbol]) -> Nested:
    """Next symbols of ``found``, nested as ``nested``."""
    if isinstance(nested, Symbol):
        group = [next(found) for _ in nested.outputs]
        return group[0] if len(group) == 1 else type(nested)(tuple(x.outputs[0] for x in group))
    return [_like(item, found) for item in nested]


def _arguments(nested: Nested, own: Sequence[Symbol]) -> Sequence[Nested]:
    """Arguments of a function of the variables."""
    found = _like(nested, iter(own))
    return [found] if isinstance(nested, Symbol) else found
