"""``_foreach``, ``_while_loop`` and ``_cond``: records of operators with subgraphs.

Input: the graphs, and the operand of each of their variables. Output: an :class:`OpDef` for one
node. The operators run on NumPy, step by step; backward recomputes the steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._core.types import UNKNOWN, TensorType, type_of
from ..errors import AttributeValueError, MXNetError, ShapeError
from ..ir.node import Output
from ..ops.building import ON_ARRAYS, Many, X
from ..ops.gradient import NoGradientError, given
from ..ops.record import OpDef, Traits
from ..ops.rules import Types, merged
from ..ops.signatures import Gradient
from .body import Body, require_nesting, steps_left

Arrays = Sequence[np.ndarray]
Made = tuple[np.ndarray, ...]
Step = tuple[list[np.ndarray], list[np.ndarray]]  # operands, results
_LOCATIONS = re.compile(r"\s*[\[(]\s*((?:\d+\s*(?:,\s*\d+\s*)*,?)?)\s*[\])]\s*")
_MOST_DIGITS = 9
_MOST_OPERANDS = 1 << 14  # as for any operator


class Operator:
    """Common parts of the three operators. Subclasses define types, forward and backward.

    operands    number of operands
    results     number of results
    """

    name = ""

    def __init__(self, bodies: Sequence[Body], operands: int, results: int) -> None:
        require_nesting(bodies)
        self.bodies, self.operands, self.results = bodies, operands, results

    def infer(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        """The type rule."""
        raise NotImplementedError

    def forward(self, training: bool, arrays: Arrays) -> Made:
        """The results."""
        raise NotImplementedError

    def backward(self, training: bool, arrays: Arrays, heads: Arrays) -> list[np.ndarray]:
        """The gradient of each operand."""
        raise NotImplementedError

    def record(self) -> OpDef:
        """The operator in prediction mode; its traits refer to that in training mode."""
        trained = self._record_of(True, None)
        return self._record_of(False, lambda attrs: trained)

    def _record_of(self, training: bool, other: Callable[..., OpDef | None] | None) -> OpDef:
        is_random = any(body.is_random(training) for body in self.bodies)

        def ref(*arrays: np.ndarray, **attrs: object) -> Made | np.ndarray:
            made = self.forward(training, arrays)
            return made if len(made) > 1 else made[0]

        return OpDef(
            name=self.name,
            inputs=tuple(f"arg{i}" for i in range(self.operands)),
            attrs=(),
            infer=lambda ins, outs, **attrs: self.infer(ins, outs),
            ref=ref,
            grad=self._gradient_of(training, is_random),
            outputs=_output_names(self.results),
            traits=Traits(random=is_random, training=other),
            subgraphs=tuple(body.outputs for body in self.bodies),
            doc="An operator around graphs.",
        )

    def _gradient_of(self, training: bool, is_random: bool) -> Gradient:
        def back(*arrays: np.ndarray, **attrs: object) -> Made | np.ndarray:
            count = self.operands
            made = tuple(self.backward(training, arrays[:count], arrays[count:]))
            return made if len(made) > 1 else made[0]

        operator = OpDef(
            name=f"_backward{self.name}",
            inputs=tuple(f"arg{i}" for i in range(self.operands + self.results)),
            attrs=(),
            infer=lambda ins, outs, **attrs: (ins, merged(outs, ins[: self.operands])),
            ref=back,
            outputs=_output_names(self.operands),
            internal=True,
            doc="The gradient of an operator around graphs.",
        )

        def rule(
            g: Any, ins: Many[X], outs: Many[X], douts: Many[X | None], **attrs: object
        ) -> tuple[X | None, ...]:
            if is_random:
                raise NoGradientError(
                    f"Operator {self.name} has no gradient if its graph draws random numbers and "
                    "its "
                    "loop is not unrolled: backward would have to recompute the steps"
                )
            heads = [given(g, dout, y) for dout, y in zip(douts, outs)]
            found = g.outputs(operator, *ins, *heads, at="backward")
            return tuple(d if g.type(x).dtype.kind == "f" else None for d, x in zip(found, ins))

        return rule


def _output_names(count: int) -> tuple[str, ...]:
    return ("output",) if count == 1 else tuple(f"output{i}" for i in range(count))


class _Each(Operator):
    """A graph run for each row: its results become rows, its states pass from step to step.

    Operands are data, states, and values that every step reads; ``places`` are the indices of the
    graph's variables for each of the three.
    """

    name = "_foreach"

    def __init__(self, body: Body, places: Sequence[Sequence[int]], rows: int) -> None:
        data, states, rest = places
        self.body, self.data, self.rows = body, len(data), rows
        self.count = len(states)
        self.places = (*data, *states, *rest)
        _require_all(self.name, self.places, body)
        if len(body.outputs) != rows + len(states):
            raise MXNetError(
                f"{self.name}: the graph gives {len(body.outputs)} results; it needs {rows} "
                "outputs "
                f"and {len(states)} states"
            )
        if not data:
            raise MXNetError(f"{self.name}: without data the number of steps is unknown")
        super().__init__([body], len(self.places), len(body.outputs))

    def _arranged(self, operands: Sequence[X]) -> list[X]:
        """Operands in the order of the graph's variables."""
        found = list(operands)
        for operand, place in zip(operands, self.places):
            found[place] = operand
        return found

    def infer(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        data = self.data
        whole = [*ins[:data], *outs[: self.rows]]
        firsts = [t.shape[0] for t in whole if t.shape]
        if any(t.shape == () for t in whole):
            raise ShapeError(f"{self.name} needs operands with rows, and one is a scalar")
        steps = next((n for n in firsts if n is not None), None)
        if any(n not in (None, steps) for n in firsts):
            raise ShapeError(
                f"{self.name} needs the same number of rows in each operand, got {firsts}"
            )
        inner = [*map(_row, ins[:data]), *ins[data:]]
        carried = merged(outs[self.rows :], ins[data : data + self.count])
        made_ins, made_outs = self.body.types(
            tuple(self._arranged(inner)), (*map(_row, outs[: self.rows]), *carried)
        )
        after = [made_ins[place] for place in self.places]
        states = merged(tuple(after[data : data + self.count]), made_outs[self.rows :])
        rows = [_rows(t, steps) for t in after[:data]]
        new_ins = merged(ins, (*rows, *states, *after[data + self.count :]))
        new_outs = (*(_rows(t, steps) for t in made_outs[: self.rows]), *states)
        return new_ins, merged(outs, new_outs)

    def forward(self, training: bool, arrays: Arrays) -> Made:
        taken = [made for _, made in self._steps(training, arrays)]
        states = taken[-1][self.rows :] if taken else self._states_of(arrays)
        if taken:
            rows = [np.stack(each) for each in zip(*(made[: self.rows] for made in taken))]
        else:
            ins = tuple(map(type_of, arrays))
            kinds = self.infer(ins, (UNKNOWN,) * self.results)[1][: self.rows]
            rows = [np.zeros(t.dims, t.dtype) for t in kinds]
        return (*rows, *states)

    def _states_of(self, arrays: Arrays) -> Arrays:
        return arrays[self.data : self.data + self.count]

    def _steps(self, training: bool, arrays: Arrays) -> list[Step]:
        """Operands and results of each step."""
        states, rest = self._states_of(arrays), arrays[self.data + self.count :]
        found = []
        with steps_left() as step:
            for number in range(len(arrays[0])):
                step()
                rows = [array[number] for array in arrays[: self.data]]
                operands = self._arranged([*rows, *states, *rest])
                made = self.body.run(ON_ARRAYS, operands, training)
                states = made[self.rows :]
                found.append((operands, made))
        return found

    def backward(self, training: bool, arrays: Arrays, heads: Arrays) -> list[np.ndarray]:
        found = [np.zeros_like(x) for x in arrays]
        states = list(heads[self.rows :])
        last = self.data + self.count
        for number, (operands, _) in reversed([*enumerate(self._steps(training, arrays))]):
            outs = [head[number] for head in heads[: self.rows]]
            pulled = self.body.pull(operands, [*outs, *states], training)
            reached = [pulled[place] for place in self.places]
            for i, d in enumerate(reached[: self.data]):
                if d is not None:
                    found[i][number] = d
            given = zip(reached[self.data : last], self._states_of(arrays))
            states = [np.zeros_like(x) if d is None else d for d, x in given]
            _collect(found, enumerate(reached[last:], last))
        for i, d in enumerate(states, self.data):
            found[i][...] = d
        return found


class _Repeat(Operator):
    """A loop while a condition graph is true: outputs become rows, variables keep their last
    values.

    reads       for the condition and the body: the operand of each variable
    variables   the body's variables that change, in the order of its results
    """

    name = "_while_loop"

    def __init__(
        self,
        bodies: Sequence[Body],
        reads: Sequence[Sequence[int]],
        variables: Sequence[int],
        rows: int,
        most: int,
        operands: int,
    ) -> None:
        self.condition, self.body = bodies
        self.reads, self.variables = reads, variables
        self.rows, self.most = rows, most
        _require_reads(self.name, bodies, reads, operands)
        for place in variables:
            if place >= len(self.body.variables):
                raise MXNetError(f"{self.name}: the graph has no variable {place}")
        self.places = [reads[1][place] for place in variables]
        if len(self.body.outputs) != rows + len(variables) or len(self.condition.outputs) != 1:
            raise MXNetError(
                f"{self.name}: the graphs give {len(self.condition.outputs)} and "
                f"{len(self.body.outputs)} results; they need 1 condition, {rows} outputs and "
                f"{len(variables)} variables"
            )
        super().__init__(bodies, operands, len(self.body.outputs))

    def infer(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        found = list(ins)
        carried = tuple(outs[self.rows :])
        carried = merged(carried, tuple(found[place] for place in self.places))
        for place, t in zip(self.places, carried):
            found[place] = merged((found[place],), (t,))[0]
        inner = tuple(found[i] for i in self.reads[1])
        rows = tuple(map(_row, outs[: self.rows]))
        made_ins, made_outs = self.body.types(inner, (*rows, *carried))
        _learn(found, self.reads[1], made_ins)
        _learn(found, self.places, made_outs[self.rows :])
        asked = tuple(found[i] for i in self.reads[0])
        _learn(found, self.reads[0], self.condition.types(asked, (UNKNOWN,))[0])
        states = (found[place] for place in self.places)
        made = (*(_rows(t, self.most) for t in made_outs[: self.rows]), *states)
        return merged(ins, tuple(found)), merged(outs, made)

    def forward(self, training: bool, arrays: Arrays) -> Made:
        taken, states = self._steps(training, arrays)
        kinds = self.infer(tuple(map(type_of, arrays)), (UNKNOWN,) * self.results)[1][: self.rows]
        rows = [np.zeros(t.dims, t.dtype) for t in kinds]
        for number, (_, made) in enumerate(taken):
            for whole, row in zip(rows, made):
                whole[number] = row
        return (*rows, *states)

    def _steps(self, training: bool, arrays: Arrays) -> tuple[list[Step], list[np.ndarray]]:
        """Operands and results of each step, and the final values of the variables."""
        values = list(arrays)
        found: list[Step] = []
        operands = [values[i] for i in self.reads[1]]
        with steps_left() as step:
            while len(found) < self.most and self._goes_on(values, training):
                step()
                made = self.body.run(ON_ARRAYS, operands, training)
                found.append((operands, made))
                operands = list(operands)
                for variable, place, new in zip(self.variables, self.places, made[self.rows :]):
                    operands[variable] = values[place] = new
        return found, [values[place] for place in self.places]

    def _goes_on(self, values: Arrays, training: bool) -> bool:
        (asked,) = self.condition.run(ON_ARRAYS, [values[i] for i in self.reads[0]], training)
        return _truth(self.name, asked)

    def backward(self, training: bool, arrays: Arrays, heads: Arrays) -> list[np.ndarray]:
        found = [np.zeros_like(x) for x in arrays]
        states = list(heads[self.rows :])
        taken, _ = self._steps(training, arrays)
        for number, (operands, _) in reversed([*enumerate(taken)]):
            outs = [head[number] for head in heads[: self.rows]]
            pulled = self.body.pull(operands, [*outs, *states], training)
            changing = zip(self.variables, states)
            states = [
                np.zeros_like(d) if (new := pulled[place]) is None else new for place, d in changing
            ]
            others = (
                (i, d)
                for k, (i, d) in enumerate(zip(self.reads[1], pulled))
                if k not in self.variables
            )
            _collect(found, others)
        _collect(found, zip(self.places, states))
        return found


class _Branch(Operator):
    """One of two graphs, selected by a third. ``reads``: the operands of each graph's variables."""

    name = "_cond"

    def __init__(
        self, bodies: Sequence[Body], reads: Sequence[Sequence[int]], operands: int
    ) -> None:
        counts = [len(body.outputs) for body in bodies]
        if counts[0] != 1 or counts[1] != counts[2]:
            raise MXNetError(f"{self.name}: the graphs give {counts} results; they need 1, n and n")
        _require_reads(self.name, bodies, reads, operands)
        self.reads = reads
        super().__init__(bodies, operands, counts[1])

    def infer(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        found, made = list(ins), outs
        for number, (body, reads) in enumerate(zip(self.bodies, self.reads)):
            known = made if number else (UNKNOWN,)
            new, results = body.types(tuple(found[i] for i in reads), known)
            _learn(found, reads, new)
            made = merged(made, results) if number else made
        return merged(ins, tuple(found)), made

    def _chosen(self, training: bool, arrays: Arrays) -> tuple[Body, Sequence[int]]:
        (asked,) = self.bodies[0].run(ON_ARRAYS, [arrays[i] for i in self.reads[0]], training)
        number = 1 if _truth(self.name, asked) else 2
        return self.bodies[number], self.reads[number]

    def forward(self, training: bool, arrays: Arrays) -> Made:
        with steps_left() as step:
            step()
            body, reads = self._chosen(training, arrays)
            return tuple(body.run(ON_ARRAYS, [arrays[i] for i in reads], training))

    def backward(self, training: bool, arrays: Arrays, heads: Arrays) -> list[np.ndarray]:
        found = [np.zeros_like(x) for x in arrays]
        body, reads = self._chosen(training, arrays)
        _collect(found, zip(reads, body.pull([arrays[i] for i in reads], heads, training)))
        return found


def each(body: Body, places: Sequence[Sequence[int]], rows: int) -> OpDef:
    """``_foreach``; ``places`` are the body's variables for data, states and other operands."""
    return _Each(body, places, rows).record()


def repeat(
    bodies: Sequence[Body],
    reads: Sequence[Sequence[int]],
    variables: Sequence[int],
    rows: int,
    most: int,
    operands: int,
) -> OpDef:
    """``_while_loop``, with a condition, a body and at most ``most`` steps."""
    return _Repeat(bodies, reads, variables, rows, most, operands).record()


def branch(bodies: Sequence[Body], reads: Sequence[Sequence[int]], operands: int) -> OpDef:
    """``_cond``, with a condition and two bodies."""
    return _Branch(bodies, reads, operands).record()


# ---- from attribute strings ---------------------------------------------------------------------


def made_from_text(name: str, text: Mapping[str, str], graphs: Sequence[Sequence[Output]]) -> OpDef:
    """The operator of a node in a file. Raises MXNetError for attributes that do not fit."""
    bodies = [Body(graph) for graph in graphs]
    wanted = {"_foreach": 1, "_while_loop": 2, "_cond": 3}[name]
    if len(bodies) != wanted:
        raise MXNetError(f"{name} has {wanted} subgraphs, got {len(bodies)}")
    operands = _number(name, text, "num_args") - wanted
    if operands > _MOST_OPERANDS:
        raise AttributeValueError(
            f"{name}: {operands} operands, at most {_MOST_OPERANDS} are possible"
        )
    if name == "_foreach":
        keys = ("in_data_locs", "in_state_locs", "remain_locs")
        places = [_locations(name, text, key) for key in keys]
        made = each(bodies[0], places, _number(name, text, "num_out_data"))
    elif name == "_while_loop":
        keys = ("cond_input_locs", "func_input_locs", "func_var_locs")
        *reads, variables = [_locations(name, text, key) for key in keys]
        rows, most = (_number(name, text, key) for key in ("num_out_data", "max_iterations"))
        made = repeat(bodies, reads, variables, rows, most, operands)
    else:
        keys = ("cond_input_locs", "then_input_locs", "else_input_locs")
        made = branch(bodies, [_locations(name, text, key) for key in keys], operands)
    _require_counts(name, text, operands, made)
    return made


def _require_counts(name: str, text: Mapping[str, str], operands: int, made: OpDef) -> None:
    counts = (operands, _number(name, text, "num_outputs"))
    found = (len(made.input_names({})), len(made.output_names({})))
    if counts != found:
        raise MXNetError(
            f"{name}: num_args and num_outputs say {counts[0]} operands and {counts[1]} results; "
            f"the graphs have {found[0]} and {found[1]}"
        )


def _number(name: str, text: Mapping[str, str], key: str) -> int:
    found = text.get(key, "").strip()
    if not found.isdecimal() or not found.isascii() or len(found) > _MOST_DIGITS:
        raise AttributeValueError(
            f"{name}: {key} must be an integer of up to {_MOST_DIGITS} digits, got {found[:40]!r}"
        )
    return int(found)


def _locations(name: str, text: Mapping[str, str], key: str) -> list[int]:
    found = _LOCATIONS.fullmatch(text.get(key, ""))
    numbers = [] if found is None else [n for n in found[1].replace(" ", "").split(",") if n]
    if found is None or any(len(n) > _MOST_DIGITS for n in numbers):
        raise AttributeValueError(
            f"{name}: {key} must be a list of indices, got {text.get(key, '')[:40]!r}"
        )
    return [int(n) for n in numbers]


# ---- helpers ------------------------------------------------------------------------------------


def _require_all(name: str, places: Sequence[int], body: Body) -> None:
    """Raise MXNetError unless each variable is named exactly once."""
    if sorted(places) != [*range(len(body.variables))]:
        raise MXNetError(
            f"{name}: the indices must name each of the graph's {len(body.variables)} variables "
            f"once, got {len(places)} indices"
        )


def _require_reads(
    name: str, bodies: Sequence[Body], reads: Sequence[Sequence[int]], operands: int
) -> None:
    """Raise MXNetError unless each variable reads an existing operand."""
    for body, places in zip(bodies, reads):
        if len(places) != len(body.variables):
            raise MXNetError(
                f"{name}: {len(places)} indices for the graph's {len(body.variables)} variables"
            )
        if any(place >= operands for place in places):
            raise MXNetError(f"{name}: index {max(places)} is out of range for {operands} operands")


def _row(t: TensorType) -> TensorType:
    """The type of one row."""
    return TensorType(t.shape[1:] if t.shape else None, t.dtype)


def _rows(t: TensorType, count: int | None) -> TensorType:
    """The type of ``count`` rows."""
    return TensorType(None if t.shape is None else (count, *t.shape), t.dtype)


def _learn(found: list[TensorType], places: Sequence[int], new: Sequence[TensorType]) -> None:
    for place, t in zip(places, new):
        found[place] = merged((found[place],), (t,))[0]


def _collect(found: Arrays, reached: Iterable[tuple[int, np.ndarray | None]]) -> None:
    """Add the gradient of each operand."""
    for i, d in reached:
        if d is not None:
            np.add(found[i], d, out=found[i], casting="unsafe")


def _truth(name: str, asked: np.ndarray) -> bool:
    if asked.size != 1:
        raise ShapeError(f"{name}: a condition must have one element, got {asked.shape}")
    return bool(asked.reshape(())[()])
