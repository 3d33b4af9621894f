"""Instances: the private memory of a call, and its table of kernels and their arguments.

Input: an executable, parameters, a number of threads. Output: functions that store the addresses of
a call's arrays in the table, and run it. :mod:`.executable` makes and runs instances.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._core.frozen import dataclass
from .._core.live_set import LiveSet
from ..ir.plan import Plan, Step, View
from ..ir.plan_image import Base, Image, Pack, Tables
from .arena import address_of
from .binding import Bases, Binding
from .results import Results
from .threads import main_thread
from .workspace import Room, Workspace

if TYPE_CHECKING:
    from ..ir.template import SizedImage

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
    write_arguments  for templates: writes tables, see ``ir/argument_rows.py``
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

    @property
    def write_arguments(self) -> Callable[[int], None] | None: ...


class Prepared(Protocol):
    """Interface of an executable for its instances, checks and timed runs."""

    code: Code
    tables: Tables
    room: Room
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
        executable: Prepared,
        binding: Binding,
        threads: int,
        workspace: Workspace | None = None,
    ) -> None:
        code, tables = executable.code, executable.tables
        workspace = workspace or Workspace(executable.room, threads)
        self._take(workspace)
        self._addresses = self._addressed(binding, tables.bases, code)
        slots = tables.slots(self._addresses)
        base, places = address_of(slots), tables.places
        steps = tables.steps(code.addresses, base)
        self._bind(code, steps, len(steps), slots, places, len(places))
        INSTANCES.add(self)  # last: other threads read the instances in the set

    def _take(self, workspace: Workspace) -> None:
        """Use the memory of a workspace; store the addresses of its parts."""
        self.threads, self.room = workspace.threads, workspace.room
        self.arena, self.scratch = workspace.arena, workspace.scratch
        self.flag = ctypes.c_int64(0)
        self._own = {
            Base.ARENA: self.arena.address,
            Base.SCRATCH: self.scratch.address,
            Base.SHARED: workspace.shared_at,
            Base.FLAG: ctypes.addressof(self.flag),
        }

    def _addressed(self, binding: Binding, bases: Bases, code: Code) -> np.ndarray:
        """Addresses of the bases, counted from 1; keeps the parameters of ``binding`` alive."""
        packed = binding.addresses(bases, code.image.packed)
        self.binding = binding
        addresses: np.ndarray = packed.numbers.copy()
        for place, base in packed.others:
            addresses[place] = self._own[base]
        return addresses

    def _bind(
        self, code: Code, steps: np.ndarray, count: int,
        slots: np.ndarray, places: np.ndarray, filled: int,
    ) -> Any:  # fmt: skip
        """Keep the tables of ``count`` steps and ``filled`` places, and make two functions.

        ``connect(*inputs, *outputs)`` stores the addresses of one call's arrays in the table;
        ``run_all(*inputs, *outputs)`` then runs all steps on the calling thread. Omitted arrays
        keep their previous addresses.
        """
        self._steps, self.slots, self._places = steps, slots, places
        self.steps_address = address_of(steps)
        bound = code.driver.entries.bound(
            self.steps_address, count, main_thread(), address_of(slots), address_of(places), filled
        )
        self.connect: Entry = bound.connect
        self.run_all: Entry = bound.run_all
        return bound
