"""Calls of a template at further sizes, without a plan and an instance for each size.

Input: a template, evaluated for the sizes of a call, and parameters. Output: a callable with the
interface of an executable. The calls of a template share instances: when the sizes change, machine
code rewrites the arguments of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import lt
from typing import TYPE_CHECKING

import numpy as np
from numpy import empty

from .._core.config import config
from .._core.live_set import LiveSet
from .._core.timeline import TIMELINE
from ..ir.argument_rows import JOB
from .arena import address_of
from .binding import Binding, PackedStore
from .executable import WORTH_SHARING, Executable
from .instance import INSTANCES, Code, Instance
from .leftovers import keep_freed
from .threads import THREADS
from .workspace import MAX_IDLE, Room, Turns, Workspace, rounded

if TYPE_CHECKING:
    from ..ir.template import Sized, Template

# Bytes of a call's Python objects.
_OBJECT_BYTES = 2 << 10
# Executables of one variant share scratch memory of at least this size in bytes. Smaller memory is
# separate, which saves 1.5 us per call.
SHARED_FROM = 1 << 18

# All live calls, for memory accounting.
SIZED_CALLS: LiveSet[SizedCall] = LiveSet()


class Pattern:
    """The code of a template, and idle instances for calls that need little memory.

    It does not refer to the template, so that both are freed together. ``is_native``: whether a
    call runs kernels only and returns new arrays.
    """

    def __init__(self, template: Template, executable: Executable) -> None:
        self.code: Code = executable.code
        self.bases, rows = template.bases, template.rows
        self.idle: list[SizedInstance] = []
        segments, results = executable.segments, executable.results
        is_one = len(segments) == 1 and segments[0].host is None and segments[0].flagged is None
        self.is_native = is_one and segments[0].last > 0 and results.is_plain
        addresses = np.array([*map(self.code.addresses.__getitem__, rows.kernels)], np.int64)
        self._calls, self._arguments = rows.calls.copy(), rows.arguments
        self._calls[:, 0] = addresses[rows.calls[:, 0]]
        self.job = {
            "calls": address_of(self._calls),
            "call_count": len(self._calls),
            "arguments": address_of(self._arguments),
        }
        assert self.code.write_arguments is not None
        self.write_arguments: Callable[[int], None] = self.code.write_arguments


class SizedInstance(Instance):
    """An instance for calls of a template at many sizes, with tables for the largest so far."""

    def __init__(self, call: SizedCall, binding: Binding, workspace: Workspace) -> None:
        self._pattern = call.pattern
        self._take(workspace)
        self._addresses = self._addressed(binding, call.pattern.bases, call.code)
        self._mark: object = None  # mark of the call whose arguments the tables contain
        self._lengths = (0, 0, 0)
        INSTANCES.add(self)  # last, as for instances

    def write_for(self, call: SizedCall, binding: Binding) -> None:
        """Write the arguments of a call with these parameters; the memory must be large enough."""
        if self._mark is call.mark and self.binding is binding:
            return
        self._mark = None
        if self.binding is not binding:
            self._addresses[:] = self._addressed(binding, call.pattern.bases, call.code)
        if any(map(lt, self._lengths, call.lengths)):
            self._make_tables(call)
        self._job[0] = call.numbers_at
        self._write(self._job_at)
        self._mark = call.mark

    def _make_tables(self, call: SizedCall) -> None:
        """Allocate tables that are large enough for a call, and the job that writes them."""
        steps, slots, places = map(rounded, call.lengths)
        self._lengths = (steps, slots, places)
        tables = empty((steps, 3), np.int64), empty(slots, np.int64), empty((places, 3), np.int64)
        bound = self._bind(call.code, tables[0], 0, tables[1], tables[2], 0)
        at = dict(zip(("steps", "slots", "places"), map(address_of, tables)))
        at |= {"numbers": 0, "bases": address_of(self._addresses)}
        at |= {"last": bound.last_at, "count": bound.count_at, **self._pattern.job}
        self._job = np.array([at[name] for name in JOB], np.int64)
        self._job_at, self._write = address_of(self._job), self._pattern.write_arguments


class SizedCall:
    """A call at given sizes, bound to parameters; several threads may use it at once.

    ``make_whole`` makes an executable for the sizes, for uses other than calls.
    """

    def __init__(
        self, template: Template, pattern: Pattern, sizes: tuple[int, ...], made: Sized,
        turns: Turns, make_whole: Callable[[tuple[int, ...]], Executable],
    ) -> None:  # fmt: skip
        """Make the call; ``made`` holds the integers of the template for the sizes."""
        self._template, self.sizes, self._make_whole = template, sizes, make_whole
        self.pattern, self.code, self.output_types = pattern, pattern.code, made.types
        self.mark = object()  # instances refer to it, not to the call, which is freed before them
        self._numbers = made.numbers
        self.numbers_at, self.lengths = address_of(made.numbers), template.rows.room(made.rounds)
        scratch, shared, work = made.working
        self._is_small = work < WORTH_SHARING
        self.room = room = Room(made.arena, scratch, shared)
        self._turns = turns if room.nbytes >= SHARED_FROM else None
        if self._turns:
            self._turns.grow(room, rounds=True)
        self.nbytes = _OBJECT_BYTES + made.numbers.nbytes
        self.binding: Binding | None = None
        keep_freed(made.output_bytes)
        SIZED_CALLS.add(self)  # last, as for instances

    def bind(self, params: Mapping[str, np.ndarray], store: PackedStore) -> None:
        """As :meth:`Executable.bind`."""
        plan, _ = self._template.at(self.sizes)
        self.binding = Binding(plan, self.code.pack, params, store)

    def bind_as(self, binding: Binding) -> None:
        """As :meth:`Executable.bind_as`."""
        self.binding = binding

    def pack(self) -> None:
        """As :meth:`Executable.pack`."""
        assert self.binding is not None
        self.binding.addresses(self.pattern.bases, self.code.image.packed)

    def whole(self) -> Executable:
        """An executable for the same sizes and parameters."""
        made, binding = self._make_whole(self.sizes), self.binding
        assert binding is not None
        made.bind_as(binding)
        return made

    def output_for(self, data: np.ndarray) -> np.ndarray:
        """The first output for the only input."""
        return self((data,))[0]

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Newly allocated outputs. ``inputs`` are contiguous and have the types of the sizes."""
        binding = self.binding
        assert binding is not None
        if config.check or TIMELINE.graphs:
            return self.whole()(inputs)
        outputs = [empty(shape, dtype) for shape, dtype in self.output_types]
        threads = 1 if self._is_small else THREADS.count
        turns, idle = self._turns, self.pattern.idle
        workspace = turns.take(threads) if turns else None
        instance = self._instance(threads, binding, workspace)
        if self._is_small:
            instance.run_all(*inputs, *outputs)
        else:
            instance.connect(*inputs, *outputs)
            pool, threads = THREADS.pool(self.code.driver), min(threads, instance.threads)
            pool.run(instance.steps_address, 0, self.lengths[0], threads)
        if turns and workspace:
            turns.give(workspace)
        elif len(idle) < MAX_IDLE:
            idle.append(instance)
        return outputs

    def _instance(
        self, threads: int, binding: Binding, workspace: Workspace | None
    ) -> SizedInstance:
        """An instance that no other call uses, with the arguments of this call written."""
        idle = self.pattern.idle
        instance: SizedInstance | None
        if workspace is not None:
            instance = workspace.instances.get(self.pattern)
        else:
            try:
                instance = idle.pop()
            except IndexError:
                instance = None
        if instance and instance.binding.store is not binding.store:
            # Other instances would keep the memory of replaced parameters.
            idle.clear()
            if self._turns:
                self._turns.forget(self.pattern)
        if not instance or instance.threads < threads or not instance.room.holds(self.room):
            workspace = workspace or Workspace(self.room.rounded, threads)
            instance = SizedInstance(self, binding, workspace)
            if self._turns:
                workspace.instances[self.pattern] = instance
        instance.write_for(self, binding)
        return instance
