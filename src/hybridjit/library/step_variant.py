"""Kernels of a training step for one CPU, as one variant: forward, backward, updates.

Input: a :class:`.training.Training`. Output: the plans of both graphs, and tables whose calls run
them on one workspace. Variables are in the context's memory; gradients and values saved for
backward are in the workspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .._core.compile_log import CompileLog
from .._core.frozen import dataclass
from .._core.target import Target
from ..codegen.call import Call
from ..codegen.emit.generate import choose_calls
from ..codegen.emit.link import link
from ..codegen.emit.module import kernel_name
from ..codegen.packing import pack
from ..codegen.spec import KernelSpec
from ..codegen.updates import copy_spec, update_spec
from ..compiler import new_log, plan_typed, training_parts
from ..ir.plan import Plan, View
from ..ir.plan_image import Image
from ..passes.training.differentiate import Joint
from ..passes.training.partition import Parts
from ..runtime.binding import Binding, PackedStore
from .interface import ALIGNMENT, CHANCE
from .layout import IN_ARENA, IN_STATE, IN_WEIGHTS
from .random_generator import DRAW, DrawSpec, draw_of, draws
from .training import Memory, Training
from .variants import Row, Tables, Variant, relocated, require_kernels, specs_of
from .weights_file import Weights

_DRAWN = kernel_name(DrawSpec())
_OF_CALL = -1  # instead of a base: the offset is the number of an array of the call


class Place(NamedTuple):
    """Location of an array: an offset from a base, or the number of an array of the call."""

    base: int
    offset: int


@dataclass(frozen=True)
class StepPlan:
    """Plans of both graphs, and the locations of their arrays.

    inputs, outputs     locations for each plan, in order
    gradients           locations by variable name
    states              pairs of the location of a new auxiliary state and the state's name
    """

    plans: tuple[Plan, Plan]
    inputs: tuple[tuple[Place, ...], tuple[Place, ...]]
    outputs: tuple[tuple[Place, ...], tuple[Place, ...]]
    gradients: dict[str, Place]
    states: tuple[tuple[Place, str], ...]
    arena_bytes: int


def plan_step(
    training: Training, weights: Weights, log: CompileLog, name: str
) -> tuple[StepPlan, Memory]:
    """The plans, and a location for every array. Raises as the compiler does."""
    joint, parts = training_parts(
        training.outputs, training.types, training.wanted, True, training.options, log, name
    )
    plans = plan_typed(parts.forward, new_log()), plan_typed(parts.backward, new_log())
    memory = Memory(training, any(map(draws, plans)))
    return _Laid(training, memory, weights, joint, parts).plan(*plans), memory


class _Laid:
    """Allocator of locations for the arrays of one step."""

    def __init__(
        self, training: Training, memory: Memory, weights: Weights, joint: Joint, parts: Parts
    ) -> None:
        self._memory, self._weights = memory, weights
        self._numbers = {name: number for number, name in enumerate(training.inputs)}
        self._joint, self._parts = joint, parts
        self._end = 0

    def plan(self, forward: Plan, backward: Plan) -> StepPlan:
        """Assign locations: both plans share the arena in turn; other arrays follow it."""
        self._take(max(forward.arena_bytes, backward.arena_bytes))
        visible = len(self._joint.forward.outputs)
        losses = [Place(_OF_CALL, len(self._numbers) + i) for i in range(visible)]
        saved = [self._room(view) for view in forward.outputs[visible:]]
        made = [self._room(view) for view in backward.outputs]
        names = [value.name for value in forward.graph.inputs]
        heads = [self._ones(forward.outputs[number]) for number in self._parts.heads]
        count = len(self._joint.gradients)
        return StepPlan(
            plans=(forward, backward),
            inputs=(
                tuple(map(self._variable, names)),
                (*map(self._variable, self._parts.reads), *saved, *heads),
            ),
            outputs=((*losses, *saved), tuple(made)),
            gradients=dict(zip(self._joint.gradients, made)),
            states=tuple(zip(made[count:], self._joint.updates)),
            arena_bytes=self._end,
        )

    def _variable(self, name: str) -> Place:
        if name in self._numbers:
            return Place(_OF_CALL, self._numbers[name])
        return Place(IN_STATE, self._memory.place(name))

    def _room(self, view: View) -> Place:
        return Place(IN_ARENA, self._take(view.dtype.itemsize * int(np.prod(view.shape))))

    def _take(self, nbytes: int) -> int:
        start = self._end
        self._end += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return start

    def _ones(self, view: View) -> Place:
        return Place(IN_WEIGHTS, self._weights.place(np.ones(view.shape, view.dtype)))


def make_step_variant(
    plan: StepPlan,
    training: Training,
    memory: Memory,
    weights: Weights,
    target: Target,
    log: CompileLog,
) -> Variant:
    """The kernels of a step. Raises MXNetError that lists all nodes without a kernel."""
    chosen = [
        [row or draw_of(step) for step, row in zip(part.steps, calls)]
        for part in plan.plans
        for calls in [choose_calls(part, target, training.options.winograd, log)]
    ]
    for part, calls in zip(plan.plans, chosen):
        require_kernels(part, calls, target)
    images = [link(part, calls) for part, calls in zip(plan.plans, chosen)]
    rows = _Rows(memory)
    for part, image, inputs, outputs in zip(plan.plans, images, plan.inputs, plan.outputs):
        rows.add_image(part, image, weights, (inputs, outputs))
    learned = len(rows.calls)
    updates = list(_updates(plan, training, memory, weights))
    for spec, arguments in updates:
        rows.add_call(spec, arguments)
    tables = Tables(
        slots=tuple(rows.slots),
        relocations=tuple(rows.relocations),
        patches=tuple(rows.patches),
        calls=tuple(rows.calls),
        learned=learned,
        scratch_bytes=max(image.scratch_bytes for image in images),
        shared_bytes=max(image.shared_bytes for image in images),
        arena_bytes=plan.arena_bytes,
        work=sum(image.work for image in images),
    )
    of_updates: list[tuple[Call, ...]] = [(Call(spec, ()),) for spec, _ in updates]
    return Variant(target, specs_of([*_of_kinds(chosen), *of_updates]), tables)


def _of_kinds(chosen: Sequence[Sequence[tuple[Call, ...]]]) -> Iterator[tuple[Call, ...]]:
    """The calls of both plans, except those whose kernel is emitted separately."""
    for rows in chosen:
        for row in rows:
            yield tuple(call for call in row if not isinstance(call.spec, DrawSpec))


class _Rows:
    """Tables under construction."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.slots: list[int] = []
        self.relocations: list[Row] = []
        self.patches: list[Row] = []
        self.calls: list[tuple[str, int]] = []

    def add_image(
        self, plan: Plan, image: Image, weights: Weights, places: Sequence[Sequence[Place]]
    ) -> None:
        """Add all calls of a plan; ``places`` are the locations of its inputs and outputs."""
        first = len(self.slots)
        binding = Binding(plan, pack, {}, PackedStore())
        binding.prepare(image.packed)
        self.slots += image.slots
        for relocation in image.relocations:
            slot, base, offset = relocated(relocation, image, binding, weights)
            self.relocations.append((first + slot, base, offset))
        for patches, side in zip((image.inputs, image.outputs), places):
            for slot, index, offset in patches:
                self._put(first + slot, side[index], offset)
        for name, slot, _ in image.calls:
            is_drawn = name == _DRAWN
            self.calls.append((DRAW if is_drawn else name, first + slot))
            if is_drawn:
                self._put(first + slot, Place(IN_STATE, self._memory.place(CHANCE)), 0)

    def add_call(self, spec: KernelSpec, arguments: Sequence[Place | int]) -> None:
        """Add one call; integer arguments are stored directly."""
        self.calls.append((kernel_name(spec), len(self.slots)))
        for argument in arguments:
            self.slots.append(0 if isinstance(argument, Place) else argument)
            if isinstance(argument, Place):
                self._put(len(self.slots) - 1, argument, 0)

    def _put(self, slot: int, place: Place, offset: int) -> None:
        if place.base == _OF_CALL:
            self.patches.append((slot, place.offset, offset, 0))
        else:
            self.relocations.append((slot, place.base, place.offset + offset))


def _updates(
    plan: StepPlan, training: Training, memory: Memory, weights: Weights
) -> Iterator[tuple[KernelSpec, list[Place | int]]]:
    """The calls that update auxiliary states and weights, in the order of Python."""
    for source, name in plan.states:
        array = memory.arrays[name]
        target = Place(IN_STATE, memory.place(name))
        yield copy_spec(array.itemsize), [source, target, array.size]
    for row, update in enumerate(training.updates):
        kept = [Place(IN_STATE, memory.place(name)) for name in update.kept]
        count = len(update.rule.numbers)
        numbers = [Place(IN_STATE, memory.number(row, column)) for column in range(count)]
        array = memory.arrays[update.variable]
        gradient = plan.gradients.get(update.variable)
        if gradient is None:  # the loss does not depend on it
            gradient = Place(IN_WEIGHTS, weights.place(np.zeros_like(array)))
        stored = [Place(IN_STATE, memory.place(update.stored))] if update.stored else []
        arguments: list[Place | int] = [
            kept[0],
            gradient,
            *kept[1:],
            *numbers,
            *kept,
            *stored,
            array.size,
        ]
        yield update_spec(update.rule), arguments
