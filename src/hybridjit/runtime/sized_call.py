"""Calls of a template at further sizes: without a plan and an instance for each.

Input: a template, evaluated for the sizes of a call, and parameters. Output: a callable like an
executable. The calls of a template share instances: for other sizes, the arguments of the kernels
are written again. Where the number of kernel calls depends on sizes, instances belong to the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy import empty

from .._core.config import config
from .._core.live_set import LiveSet
from .._core.timeline import TIMELINE
from .._core.types import product
from ..ir.sized import Template
from .binding import Binding, PackedStore
from .executable import WORTH_SHARING, Executable
from .instance import Code, Instance
from .leftovers import keep_freed
from .threads import THREADS
from .workspace import MAX_IDLE, Room, Turns, Workspace

# Bytes of a call's Python objects, beside its arguments.
_OBJECT_BYTES = 2 << 10
# Bytes of scratch memory from which on executables of one variant share it. Smaller ones have
# separate memory, which makes a call 1.5 us shorter.
SHARED_FROM = 1 << 18

# All live calls, for memory accounting.
SIZED_CALLS: LiveSet[SizedCall] = LiveSet()


class Pattern:
    """The code of a template, and idle instances for calls that need little memory.

    It does not refer to the template, so that it is freed with it. ``is_native``: whether a call is
    kernels alone, and its outputs are new arrays.
    """

    def __init__(self, executable: Executable) -> None:
        self.code: Code = executable.code
        self.idle: list[Instance] = []
        segments, results = executable.segments, executable.results
        is_one = len(segments) == 1 and segments[0].host is None and segments[0].flagged is None
        self.is_native = is_one and segments[0].last > 0 and results.is_plain


class SizedCall:
    """A call at given sizes, bound to parameters; several threads may use it at once.

    ``make_whole`` makes an executable for the sizes, for all that is not a call.
    """

    def __init__(
        self, template: Template, pattern: Pattern, sizes: tuple[int, ...], turns: Turns,
        make_whole: Callable[[], Executable],
    ) -> None:  # fmt: skip
        """Raises ShapeError for sizes beyond any memory."""
        made = template.evaluated(sizes)
        self._template, self.sizes, self._make_whole = template, sizes, make_whole
        self.code, self.tables, self.output_types = pattern.code, made.tables, made.types
        scratch, shared, work = made.working
        self._is_small = work < WORTH_SHARING
        room, has_own = Room(made.arena, scratch, shared), template.has_rounds
        self.room = room if has_own else room.rounded
        self._owner: Pattern | SizedCall = self if has_own else pattern
        self.idle: list[Instance] = []
        self._turns = turns if room.nbytes >= SHARED_FROM else None
        if self._turns:
            self._turns.grow(room.rounded)
        self.nbytes = _OBJECT_BYTES + made.tables.nbytes
        if has_own:
            self.nbytes += made.tables.nbytes + (0 if self._turns else room.nbytes)
        self.binding: Binding | None = None
        keep_freed(sum(product(shape) * dtype.itemsize for shape, dtype in self.output_types))
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
        self.binding.addresses(self.tables.bases, self.code.image.packed)

    def whole(self) -> Executable:
        """An executable for the same sizes and parameters."""
        made, binding = self._make_whole(), self.binding
        assert binding is not None
        made.bind_as(binding)
        return made

    def output_for(self, data: np.ndarray) -> np.ndarray:
        """The first output for the only input."""
        return self((data,))[0]

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, freshly allocated. ``inputs`` are contiguous, of the types of the sizes."""
        binding = self.binding
        assert binding is not None
        if config.check or TIMELINE.graphs:
            return self.whole()(inputs)
        outputs = [empty(shape, dtype) for shape, dtype in self.output_types]
        threads = 1 if self._is_small else THREADS.count
        turns, idle = self._turns, self._owner.idle
        workspace = turns.take(threads) if turns else None
        instance = self._turned(workspace, binding) if workspace else self._idle(threads, binding)
        if self._is_small:
            instance.run_all(*inputs, *outputs)
        else:
            instance.connect(*inputs, *outputs)
            pool, count = THREADS.pool(self.code.driver), len(self.tables.rows)
            pool.run(instance.steps_address, 0, count, min(threads, instance.threads))
        if turns and workspace:
            turns.give(workspace)
        elif len(idle) < MAX_IDLE:
            idle.append(instance)
        return outputs

    def _idle(self, threads: int, binding: Binding) -> Instance:
        """An instance that no other call uses, with the arguments for these sizes."""
        idle = self._owner.idle
        try:
            instance = idle.pop()
        except IndexError:
            return Instance(self, binding, threads)
        if instance.binding is not binding:
            idle.clear()  # they keep the memory of parameters that were replaced
        is_enough = instance.threads >= threads and instance.room.holds(self.room)
        if not is_enough or not self._fits(instance, binding):
            return Instance(self, binding, threads)
        return instance

    def _turned(self, workspace: Workspace, binding: Binding) -> Instance:
        """The template's instance in a workspace, with the arguments for these sizes."""
        instance: Instance | None = workspace.instances.get(self._owner)
        if instance is None or not self._fits(instance, binding):
            if instance and self._turns:
                self._turns.forget(self._owner)
            instance = Instance(self, binding, workspace.threads, workspace)
            workspace.instances[self._owner] = instance
        return instance

    def _fits(self, instance: Instance, binding: Binding) -> bool:
        """Write the arguments for these sizes, unless an instance has them; False if it has other
        parameters.
        """
        if instance.binding is not binding:
            return False
        if instance.tables is not self.tables:
            instance.turn_to(self)
        return True
