"""Plans and images with symbolic sizes, and what they are for the sizes of a call.

In: a plan and an image in which numbers may be :class:`..symbolic.Size`. Out: the same with plain
numbers. The numbers of the image are computed by one function that is generated from their
expressions; the plan is rewritten where something looks at it, such as a step of the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from ..records import dataclass, fields_of, replace
from ..symbolic import Scope, Size, hint_of, value_of, values_function
from ..types import TensorType, require_possible
from .graph import Graph, Group, Use, Value, walk
from .image import Image, KernelCall, Relocation
from .plan import Buffer, Plan, Step, View

Values = Mapping[str, int]


def sized(item: Any, values: Values) -> Any:
    """``item``, a number, a tuple, a type or a record of the plan, for these sizes."""
    if isinstance(item, Size):
        return value_of(item, values)
    if isinstance(item, tuple):
        return tuple(sized(each, values) for each in item)
    if isinstance(item, (View, Buffer, TensorType)):
        return replace(item, **{n: sized(getattr(item, n), values) for n in fields_of(item)})
    return item


def _sized_value(value: Value, values: Values, known: Mapping[Value, Value]) -> Value:
    return replace(
        value,
        attrs={name: sized(attr, values) for name, attr in value.attrs.items()},
        inputs=tuple(Use(known.get(use.value, use.value), use.index) for use in value.inputs),
        types=sized(value.types, values),
    )


def sized_uses(uses: Iterable[Use], values: Values) -> tuple[Use, ...]:
    """Uses whose values, with all that they need, have plain types and attributes."""
    uses = tuple(uses)
    known: dict[Value, Value] = {}
    for value in walk(uses):
        known[value] = _sized_value(value, values, known)
    return tuple(Use(known[use.value], use.index) for use in uses)


def sized_group(group: Group, values: Values) -> Group:
    """The group for these sizes; the values that it reads from outside stay as they are."""
    known: dict[Value, Value] = {}
    for member in group.members:
        known[member] = _sized_value(member, values, known)
    return Group(
        group.kind,
        tuple(known[member] for member in group.members),
        tuple(known[value] for value in group.outputs),
    )


def is_symbolic(item: Any) -> bool:
    """Whether a number, a tuple, a type or attributes have a symbolic size."""
    if isinstance(item, Size):
        return True
    if isinstance(item, tuple):
        return any(map(is_symbolic, item))
    return isinstance(item, TensorType) and item.shape is not None and is_symbolic(item.shape)


def has_symbolic_bind(graph: Graph) -> bool:
    """Whether a value that depends on parameters alone depends on sizes too."""
    uses = () if graph.bind is None else graph.bind.outputs
    return any(
        is_symbolic(value.types) or any(map(is_symbolic, value.attrs.values()))
        for value in walk(uses)
    )


class SizedPlan:
    """A symbolic plan for the sizes of a call, computed part by part on first use.

    It has the fields of :class:`Plan`; ``graph`` is the symbolic one with sized ``bind``.
    """

    def __init__(self, plan: Plan, values: Values, arena_bytes: int, outputs: Sequence[View]):
        self._plan, self._values = plan, values
        self.arena_bytes = arena_bytes
        self.outputs = tuple(outputs)
        self.live_bytes = plan.live_bytes

    @cached_property
    def graph(self) -> Graph:
        bind = self._plan.graph.bind
        if bind is None or not has_symbolic_bind(self._plan.graph):
            return self._plan.graph
        return replace(
            self._plan.graph, bind=replace(bind, outputs=sized_uses(bind.outputs, self._values))
        )

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        found: tuple[Buffer, ...] = sized(self._plan.buffers, self._values)
        return found

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return tuple(
            replace(
                step,
                group=sized_group(step.group, self._values),
                reads=sized(step.reads, self._values),
                writes=sized(step.writes, self._values),
            )
            for step in self._plan.steps
        )


def is_symbolic_plan(plan: Plan) -> bool:
    """Whether an input of a plan has a symbolic size."""
    return any(is_symbolic(value.types) for value in plan.graph.inputs)


def at_hints(plan: Plan) -> Plan:
    """A symbolic plan's memory for the sizes of the call for which it is compiled.

    The groups of its steps stay as they are.
    """
    sizes = [d for value in plan.graph.inputs for d in value.shape if is_symbolic(d)]
    values = {str(size): int(hint_of(size)) for size in sizes}
    steps = tuple(
        replace(step, reads=sized(step.reads, values), writes=sized(step.writes, values))
        for step in plan.steps
    )
    memory = (plan.buffers, plan.outputs, plan.arena_bytes)
    buffers, outputs, arena = sized(memory, values)
    return replace(plan, steps=steps, buffers=buffers, outputs=outputs, arena_bytes=arena)


@dataclass(frozen=True)
class Repeat:
    """That a call is made for each number from ``low`` to below ``high``, which ``step`` stands
    for in its arguments.
    """

    step: Size
    low: int
    high: Size


class Template:
    """A plan and its image with symbolic numbers, which become plain ones for given sizes.

    parameters  the names of the symbols, in the order of :meth:`at`'s arguments
    repeats     of kernel calls, by their number in the image, those that are made several times
    last        for each repeated call, of how many threads each goes on after its last round
    """

    def __init__(
        self, scope: Scope, plan: Plan, image: Image,
        repeats: Mapping[int, Repeat], last: Mapping[int, int],
    ) -> None:  # fmt: skip
        self.plan, self.image = plan, image
        self.parameters = tuple(scope.symbols)
        self._repeats, self._last = repeats, last
        outputs = [n for view in plan.outputs for n in (*view.shape, *view.strides, view.offset)]
        sizes = [plan.arena_bytes, image.scratch_bytes, image.shared_bytes, image.work]
        counts = [n for r in repeats.values() for n in (r.low, r.high)]
        self._evaluate = values_function(
            scope, self.parameters, [[*sizes, *outputs, *counts], *self._columns()]
        )
        self._ends = [*(call.slot for call in image.calls[1:]), len(image.slots)]

    def _columns(self) -> list[list[Any]]:
        """For each slot the number or offset in it, and what each round of a repeat adds."""
        numbers: list[Any] = [*self.image.slots]
        for relocation in self.image.relocations:
            numbers[relocation.slot] = relocation.offset
        for slot, _, offset in (*self.image.inputs, *self.image.outputs):
            numbers[slot] = offset
        steps = {
            slot: repeat
            for number, repeat in self._repeats.items()
            for slot in range(self.image.calls[number].slot, self._end_of(number))
        }
        first: list[Any] = list(numbers)
        added: list[Any] = [0] * len(numbers)
        for slot, repeat in steps.items():
            if isinstance(numbers[slot], Size):
                first[slot], added[slot] = numbers[slot].along(repeat.step, repeat.low)
        return [first, added]

    def _end_of(self, number: int) -> int:
        calls = self.image.calls
        return calls[number + 1].slot if number + 1 < len(calls) else len(self.image.slots)

    def at(self, sizes: Sequence[int]) -> tuple[Plan, Image]:
        """The plan and the image for these sizes. Raises ShapeError for what no memory holds."""
        values = dict(zip(self.parameters, sizes))
        numbers, first, added = self._evaluate(*sizes)
        arena, scratch, shared, work = numbers[:4]
        position, outputs = 4, []
        for view in self.plan.outputs:
            rank = len(view.shape)
            shape = tuple(numbers[position : position + rank])
            strides = tuple(numbers[position + rank : position + 2 * rank])
            outputs.append(replace(
                view, offset=numbers[position + 2 * rank], shape=shape, strides=strides
            ))  # fmt: skip
            position += 2 * rank + 1
        require_possible(TensorType(view.shape, view.dtype) for view in outputs)
        require_possible([TensorType((arena,), np.dtype(np.uint8))])
        counts = numbers[position:]
        rounds = {n: max(0, counts[2 * i + 1] - counts[2 * i]) for i, n in enumerate(self._repeats)}
        image = _Unrolled(self.image, first, added, rounds, self._last, self._ends).image()
        image = replace(image, scratch_bytes=scratch, shared_bytes=shared, work=work)
        plan = SizedPlan(self.plan, values, arena, outputs)
        return cast(Plan, plan), image  # it has all of the fields


class _Unrolled:
    """The image of a template, with its repeated calls one after the other."""

    def __init__(
        self, image: Image, first: Sequence[int], added: Sequence[int],
        rounds: Mapping[int, int], last: Mapping[int, int], ends: Sequence[int],
    ) -> None:  # fmt: skip
        self._image, self._first, self._added = image, first, added
        self._rounds, self._last, self._ends = rounds, last, ends

    def image(self) -> Image:
        image = self._image
        slots: list[int] = []
        calls: list[KernelCall] = []
        moved: list[tuple[int, int, int]] = []  # template slot, slot, round
        counts: list[int] = []
        number = 0
        for count in image.counts:
            before = len(calls)
            for _ in range(count):
                call, end = image.calls[number], self._ends[number]
                rounds = self._rounds.get(number, 1)
                for turn in range(rounds):
                    is_last = number in self._last and turn == rounds - 1
                    unfenced = self._last[number] if is_last else call.unfenced
                    calls.append(KernelCall(call.kernel, len(slots), unfenced))
                    for slot in range(call.slot, end):
                        moved.append((slot, len(slots), turn))
                        slots.append(self._first[slot] + turn * self._added[slot])
                number += 1
            counts.append(len(calls) - before)
        where: dict[int, list[int]] = {}
        for slot, new, _ in moved:
            where.setdefault(slot, []).append(new)
        return replace(
            image,
            slots=tuple(slots),
            relocations=tuple(
                Relocation(new, r.base, r.number, slots[new])
                for r in image.relocations for new in where.get(r.slot, ())
            ),
            inputs=self._patches(image.inputs, where, slots),
            outputs=self._patches(image.outputs, where, slots),
            calls=tuple(calls),
            counts=tuple(counts),
        )  # fmt: skip

    @staticmethod
    def _patches(
        patches: Iterable[tuple[int, int, int]], where: Mapping[int, list[int]],
        slots: Sequence[int],
    ) -> tuple[tuple[int, int, int], ...]:  # fmt: skip
        return tuple(
            (new, number, slots[new]) for slot, number, _ in patches for new in where.get(slot, ())
        )
