"""Instances: the private memory of a call, and its table of kernels and their arguments.

Input: an executable, parameters, a number of threads. Output: functions that store the addresses of
a call's arrays in the table, and run it. :mod:`.executable` makes and runs instances.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .._core.frozen import dataclass
from .._core.live_set import LiveSet
from ..ir.plan import Plan, Step, View
from ..ir.plan_image import Base, Image, Pack, Tables
from ..ir.sized import SizedImage
from .arena import address_of
from .binding import Binding
from .results import Results
from .threads import main_thread
from .workspace import Room, Workspace

# Receives the arrays of a call, inputs and then outputs.
Entry = Callable[..., None]

# All live instances, for memory accounting.
INSTANCES: LiveSet[Instance] = LiveSet()


@dataclass(frozen=True)
class Segment:
    """Kernel calls [first, last) that run natively, or one step ``host`` of the plan.

    The flag is checked after the step ``flagged``, the last of the native ones.
    """

    first: int
    last: int
    host: int | None = None
    flagged: int | None = None


class Code(Protocol):
    """Machine code as ``codegen`` loads it.

    calls      for each step its kernel calls, for inspection
    addresses  addresses of the kernels that the image names
    """

    @property
    def image(self) -> Image | SizedImage: ...

    @property
    def calls(self) -> Sequence[Sequence[Any]]: ...

    @property
    def kernels(self) -> Mapping[Any, Any]: ...

    @property
    def addresses(self) -> Mapping[str, int]: ...

    @property
    def target(self) -> Any: ...

    @property
    def driver(self) -> Any: ...

    @property
    def pack(self) -> Pack: ...


class Arguments(Protocol):
    """The arguments of a plan's kernels, and the memory that they need."""

    code: Code
    tables: Tables
    room: Room


class Prepared(Arguments, Protocol):
    """An executable, as its instances, its checks and its timed runs use it."""

    plan: Plan
    segments: list[Segment]
    results: Results

    def run_steps(self, instance: Instance, first: int, last: int, stamps: int = 0) -> None: ...

    def run_host(
        self,
        step: Step,
        instance: Instance,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None: ...

    def reference(self, step: Step, reads: Sequence[np.ndarray]) -> list[np.ndarray]: ...

    def array(
        self,
        view: View,
        instance: Instance,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> np.ndarray: ...


class Instance:
    """One call's arena, scratch memory and argument table, for up to ``threads`` threads."""

    def __init__(
        self,
        executable: Arguments,
        binding: Binding,
        threads: int,
        workspace: Workspace | None = None,
    ) -> None:
        packed = binding.addresses(executable.tables.bases, executable.code.image.packed)
        workspace = workspace or Workspace(executable.room, threads)
        self.binding = binding
        self.threads, self.room = workspace.threads, workspace.room
        self.arena, self.scratch = workspace.arena, workspace.scratch
        self.flag = ctypes.c_int64(0)
        own = {
            Base.ARENA: self.arena.address,
            Base.SCRATCH: self.scratch.address,
            Base.SHARED: workspace.shared_at,
            Base.FLAG: ctypes.addressof(self.flag),
        }
        self._addresses = packed.numbers.copy()
        for place, base in packed.others:
            self._addresses[place] = own[base]
        self.tables = executable.tables
        self.slots = self.tables.slots(self._addresses)
        self.steps_address, self.connect, self.run_all = self._entries(executable.code)
        INSTANCES.add(self)  # last: other threads read the instances in the set

    def turn_to(self, other: Arguments) -> None:
        """Take the arguments for other sizes of the same template, for which there is room."""
        before, tables = self.tables, other.tables
        slots = tables.slots(self._addresses)
        self.tables = tables
        if tables.rows is before.rows:
            self.slots[:], self._places[:] = slots, tables.places
            return
        self.slots = slots
        self.steps_address, self.connect, self.run_all = self._entries(other.code)

    def _entries(self, code: Code) -> tuple[int, Entry, Entry]:
        """The address of the table of kernels and their arguments, and two functions.

        ``connect(*inputs, *outputs)`` stores the addresses of one call's arrays in the table;
        ``run_all(*inputs, *outputs)`` then runs all steps on the calling thread. Omitted arrays
        keep their previous addresses.
        """
        tables, base = self.tables, address_of(self.slots)
        self._steps, self._places = tables.steps(code.addresses, base), tables.places.copy()
        steps, count = address_of(self._steps), len(self._steps)
        places = address_of(self._places), len(self._places)
        bound = code.driver.entries.bound(steps, count, main_thread(), base, *places)
        return steps, *bound
