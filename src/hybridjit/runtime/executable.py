"""Executable: a plan with machine code, bound to parameters, ready to be called.

An *instance* is the private memory of one call: an arena and a table of kernel arguments.
Concurrent calls use different instances. A call that ends in an exception does not return its
instance, so that the next call never begins with an inconsistent one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy import empty

from .._core.config import config
from .._core.frozen import dataclass
from .._core.lazy import Late
from .._core.live_set import LiveSet
from .._core.timeline import TIMELINE
from .._core.types import BFLOAT16, product
from ..ir.graph import Value
from ..ir.interpret import run_in_order, run_value
from ..ir.plan import Plan, Step, View, strided
from ..ir.sized import SizedPlan, graph_of
from ..ops.bfloat16 import from_bfloat16
from .binding import Binding, PackedStore
from .instance import Code, Instance, Segment
from .leftovers import keep_freed
from .results import Outs, Results
from .threads import THREADS
from .workspace import MAX_IDLE, Room, Turns, Workspace

if TYPE_CHECKING:
    from . import checking, timed
else:  # for HYBRIDJIT_CHECK and for the timeline
    checking = Late(".checking", __package__)
    timed = Late(".timed", __package__)

# A function, and the number of steps of the plan after which it is called.
Stage = tuple[int, Callable[[], None]]

# Plans with fewer multiplications run on the calling thread only: waking a worker costs 5 us, about
# as much as half of this work.
WORTH_SHARING = 1_000_000

# Memory of a step of a plan: Python objects, measured in networks of 3 to 29 steps.
_STEP_BYTES = 32 << 10
# Memory of a step for a further size of a variant, without its table of arguments, which an
# instance copies: that of a recurrent layer has rows for each time step. Measured: 2.1 KB per step
# for a decoder of 72 steps.
_SIZED_STEP_BYTES = 3 << 10

# All live executables, for memory accounting.
EXECUTABLES: LiveSet[Executable] = LiveSet()


@dataclass(frozen=True)
class Bound:
    """A binding and its idle instances, which are replaced together."""

    binding: Binding
    idle: list[Instance]


class Executable:
    """A compiled plan. ``bind`` it, then call it with the input arrays."""

    def __init__(self, plan: Plan, code: Code) -> None:
        self.plan = plan
        self.code = code
        self._bound: Bound | None = None
        self._turns: Turns | None = None
        graph = graph_of(plan)
        self.tables = code.image.tables(len(graph.inputs))
        self.room = Room(plan.arena_bytes, code.image.scratch_bytes, code.image.shared_bytes)
        self.segments = _all_segments(code.image.counts, code.image.flagged)
        self.results = Results(plan)
        self.output_types = self.results.types
        self._is_plain = self.results.is_plain
        is_alone = self._is_plain and len(self.output_types) == 1
        self._only = self.output_types[0] if is_alone else None
        self._finals: list[int] | None = None
        self._cut: tuple[tuple[int, ...], list[list[Segment]]] | None = None
        purpose = graph.purpose
        self.takes_parameters = purpose.training or purpose.goes_back or purpose.saved > 0
        if not self.takes_parameters:
            keep_freed(sum(product(shape) * dtype.itemsize for shape, dtype in self.output_types))
        self.is_small = code.image.work < WORTH_SHARING
        only = self.segments[0] if len(self.segments) == 1 else Segment(0, 0)
        is_native = only.last > 0 and only.flagged is None
        self._is_quick = self.is_small and is_native
        EXECUTABLES.add(self)  # last, as for instances

    @property
    def nbytes(self) -> int:
        """Approximate bytes: code, the plan, and scratch memory that is not shared.

        The executables of one variant share code and plan.
        """
        kernels = self.code.kernels.values()
        libraries: dict[int, int] = {id(k.library): k.library.nbytes for k in kernels}
        room = 0 if self._turns else self.room.nbytes
        if isinstance(self.plan, SizedPlan):
            own = _SIZED_STEP_BYTES * len(self.code.image.counts) + 2 * self.tables.nbytes
            return own + room
        return sum(libraries.values()) + _STEP_BYTES * len(self.code.image.counts) + room

    @property
    def bound(self) -> Bound | None:
        """The binding and its idle instances."""
        return self._bound

    @property
    def binding(self) -> Binding | None:
        """The parameters of the next call; None before :meth:`bind`."""
        return None if self._bound is None else self._bound.binding

    def bind(self, params: Mapping[str, np.ndarray], store: PackedStore | None = None) -> None:
        """Use these parameters from the next call on; running calls finish with the old ones.

        ``store`` is shared by the executables of one net; it belongs to these parameters.
        """
        store = PackedStore() if store is None else store
        self._bound = Bound(Binding(self.plan, self.code.pack, params, store), [])

    def take_turns(self, turns: Turns) -> None:
        """Use shared memory. Only before the first call."""
        turns.grow(self.room)
        self._turns = turns

    def bind_as(self, binding: Binding) -> None:
        """Use the parameters of another executable of the same graph."""
        self._bound = Bound(binding, [])

    def pack(self) -> None:
        """Pack all parameters now, so that calls use their current values."""
        assert self.binding is not None
        self.binding.addresses(self.tables.bases, self.code.image.packed)
        hosts = [n for s in self.segments for n in (s.host, s.flagged) if n is not None]
        used = [self.plan.buffers[v.buffer] for n in hosts for v in self.plan.steps[n].reads]
        for number in {buffer.index for buffer in used if buffer.kind == "weight"}:
            self.binding.value(number)

    def __call__(self, inputs: Sequence[np.ndarray], outs: Outs | None = None) -> list[np.ndarray]:
        """The outputs. ``inputs`` are contiguous, of the compiled types, and are not written.

        Outputs are freshly allocated, except those with an array in ``outs``, those that update an
        input (the output is the input's array) and saved ones. Raises MXNetError, ShapeError or
        DTypeError, before any write, for an unsuitable array in ``outs``: it must have the output's
        type, be C-contiguous and writable, and share no memory with another array of the call.
        After an exception during the call, some of the written arrays have new contents and some
        have old ones.
        """
        if outs is None and self._is_plain:
            outputs = [empty(shape, dtype) for shape, dtype in self.output_types]
        else:
            outputs = self.results.arrays(inputs, outs)
        bound = self._bound
        is_watched = config.check or TIMELINE.graphs
        if not self._is_quick or is_watched or bound is None or not bound.idle:
            self.run_into(inputs, outputs)
            return outputs
        # Small and all native: takes 1.5 us less than run_into.
        try:
            instance = bound.idle.pop()
        except IndexError:
            self.run_into(inputs, outputs)
            return outputs
        instance.run_all(*inputs, *outputs)
        bound.idle.append(instance)
        return outputs

    def output_for(self, data: np.ndarray) -> np.ndarray:
        """The first output for the only input: the shortest path for small networks."""
        bound, only = self._bound, self._only
        if not self._is_quick or not only or config.check or TIMELINE.graphs or bound is None:
            return self((data,))[0]
        try:
            instance = bound.idle.pop()
        except IndexError:
            return self((data,))[0]
        output = empty(*only)
        instance.run_all(data, output)
        bound.idle.append(instance)
        return output

    def run_into(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        stages: Sequence[Stage] = (),
        bound: Bound | None = None,
    ) -> None:
        """Compute into ``outputs``: contiguous, of the compiled types, not overlapping the inputs.

        An output that updates an input is that input's array. ``stages`` are called in order, each
        after its number of steps, or at the end. ``bound`` are the parameters, by default the
        current ones.
        """
        bound = bound or self._bound
        assert bound is not None, "bind() comes before the first call"
        workspace = self._turns.take(self.thread_count) if self._turns else None
        instance = self._at(workspace, bound) if workspace else self._taken(bound)
        if config.checks_steps:
            for mine, checked in zip(outputs, checking.Checker(self, instance, inputs).run()):
                np.copyto(mine, checked)
            for _, call in stages:
                call()
        else:
            instance.connect(*inputs, *outputs)
            self.run_segments(instance, inputs, outputs, stages)
        if self._turns and workspace:
            self._turns.give(workspace)
        elif len(bound.idle) < MAX_IDLE:
            bound.idle.append(instance)

    def connected(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[], None]:
        """A function that runs on these arrays, with a private instance.

        It keeps the parameters that are bound now. Raises as a call does if arrays have to be
        checked: if outputs update inputs or are saved.
        """
        assert self.binding is not None
        if not self._is_plain:
            outputs = self.results.arrays(inputs, outputs)
        instance = Instance(self, self.binding, self.thread_count)
        instance.connect(*inputs, *outputs)
        if self._is_quick and not config.check:
            again = instance.run_all

            def run(kept: tuple[object, ...] = (instance, inputs, outputs, self)) -> None:
                if TIMELINE.graphs:
                    self.run_segments(instance, inputs, outputs)
                else:
                    again()

            return run
        return lambda: self.run_segments(instance, inputs, outputs)

    def run_segments(
        self,
        instance: Instance,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        stages: Sequence[Stage] = (),
    ) -> None:
        """Run the whole plan on a connected instance, and ``stages`` as in :meth:`run_into`."""
        if TIMELINE.graphs:
            timed.run_timed(self, instance, inputs, outputs)
            for _, call in stages:
                call()
            return
        instance.flag.value = 0  # an exception may have followed after a kernel raised it
        if not stages:
            self._run(self.segments, instance, inputs, outputs)
            return
        pieces = self._pieces(tuple(after for after, _ in stages))
        for segments, (_, call) in zip(pieces, stages):
            self._run(segments, instance, inputs, outputs)
            call()
        self._run(pieces[-1], instance, inputs, outputs)

    def _pieces(self, cuts: tuple[int, ...]) -> list[list[Segment]]:
        """The plan's segments, cut after these numbers of steps."""
        if self._cut is None or self._cut[0] != cuts:
            bounds = [0, *cuts, len(self.plan.steps)]
            image = self.code.image
            pieces = [_segments(image.counts, image.flagged, *two) for two in pairwise(bounds)]
            self._cut = (cuts, pieces)
        return self._cut[1]

    @property
    def finals(self) -> list[int]:
        """For each output, the number of steps of the plan after which it is complete."""
        if self._finals is None:
            buffers, count = self.plan.buffers, len(self.plan.steps)
            last = {
                buffers[view.buffer].index: number
                for number, step in enumerate(self.plan.steps, 1)
                for view in step.writes
                if buffers[view.buffer].kind == "output"
            }
            self._finals = [last.get(number, count) for number in range(len(self.plan.outputs))]
        return self._finals

    def _run(
        self,
        segments: Sequence[Segment],
        instance: Instance,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        for segment in segments:
            if segment.host is not None:
                self.run_host(self.plan.steps[segment.host], instance, inputs, outputs)
            else:
                self.run_steps(instance, segment.first, segment.last)
            if segment.flagged is not None and instance.flag.value:
                instance.flag.value = 0
                self.run_host(self.plan.steps[segment.flagged], instance, inputs, outputs)

    @property
    def thread_count(self) -> int:
        """Number of threads that the next call uses."""
        return 1 if self.is_small else THREADS.count

    def run_steps(self, instance: Instance, first: int, last: int, stamps: int = 0) -> None:
        """Run native steps [first, last) of kernel calls; times go to address ``stamps``."""
        count = min(self.thread_count, instance.threads)
        THREADS.pool(self.code.driver).run(instance.steps_address, first, last, count, stamps)

    def run_host(
        self,
        step: Step,
        instance: Instance,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        """Run a step without a kernel: its NumPy reference, on views of the same memory."""

        def array(view: View) -> np.ndarray:
            return self.array(view, instance, inputs, outputs)

        results = self.reference(step, [array(v) for v in step.reads])
        for view, result in zip(step.writes, results):
            np.copyto(array(view), result.reshape(view.shape))

    def reference(self, step: Step, reads: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The expected results of a step, from the NumPy references of its group's values."""
        group = step.group
        if group.kind == "copy":
            (target,) = step.writes
            return [_widened(reads[0], target.dtype)]
        given: dict[tuple[Value, int], np.ndarray] = {
            use: _widened(a, use.type.dtype) for use, a in zip(group.inputs, reads)
        }
        results = run_in_order(group.members, given, run_value)
        return [results[use] for use in group.results]

    def array(
        self,
        view: View,
        instance: Instance,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> np.ndarray:
        """A NumPy array for a plan's view during a call."""
        buffer = self.plan.buffers[view.buffer]
        if buffer.kind == "arena":
            end = buffer.offset + buffer.nbytes
            return strided(instance.arena.bytes[buffer.offset : end], view)
        if buffer.kind == "weight":
            return strided(instance.binding.value(buffer.index), view)
        return strided((inputs if buffer.kind == "input" else outputs)[buffer.index], view)

    def _at(self, workspace: Workspace, bound: Bound) -> Instance:
        """This executable's instance in a shared workspace."""
        instance: Instance | None = workspace.instances.get(self)
        if instance is None or instance.binding is not bound.binding:
            if instance and self._turns:
                self._turns.forget(self)
            instance = Instance(self, bound.binding, workspace.threads, workspace)
            workspace.instances[self] = instance
        return instance

    def _taken(self, bound: Bound) -> Instance:
        """An unused instance for as many threads as the call uses."""
        threads = self.thread_count
        try:
            instance = bound.idle.pop()
        except IndexError:
            return Instance(self, bound.binding, threads)
        return instance if instance.threads >= threads else Instance(self, bound.binding, threads)


def take_turns(executables: Sequence[Executable]) -> None:
    """Let executables share memory: a call leaves no data there for another one.

    Only before their first calls.
    """
    turns = Turns([])
    for executable in executables:
        executable.take_turns(turns)


@lru_cache(maxsize=64)
def _all_segments(counts: tuple[int, ...], flagged: frozenset[int]) -> list[Segment]:
    """The segments of a plan; the executables of a variant share them."""
    return _segments(counts, flagged, 0, len(counts))


def _segments(
    counts: Sequence[int], flagged: frozenset[int], begin: int, end: int
) -> list[Segment]:
    """The plan's steps [begin, end) as runs of kernel calls, with host steps between them.

    counts   the number of kernel calls of each step, 0 for a host step
    flagged  the steps that may raise the flag
    """
    segments: list[Segment] = []
    position = sum(counts[:begin])
    for number in range(begin, end):
        count = counts[number]
        if not count:
            segments.append(Segment(position, position, number))
        else:
            first = position
            if segments and segments[-1].host is None and segments[-1].flagged is None:
                first = segments.pop().first
            raising = number if number in flagged else None
            segments.append(Segment(first, position + count, None, raising))
        position += count
    return segments


def _widened(array: np.ndarray, dtype: np.dtype | None) -> np.ndarray:
    """The operand of a step, bfloat16 widened to float32 where the step reads float32."""
    return from_bfloat16(array) if array.dtype == BFLOAT16 != dtype else array
