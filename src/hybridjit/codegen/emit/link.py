"""Link: the kernel calls of a plan -> an image, with addresses relative to bases.

Input: a plan and its calls. Output: :class:`..ir.plan_image.Image`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..._core.symbolic import Scope, Size, largest
from ...ir.plan import Plan, View
from ...ir.plan_image import Base, Image, KernelCall, Packed, Patch, Relocation
from ...ir.sized import SizedBind
from ...ir.template import Repeat, Template
from ..call import Address, Argument, Call, Flag, Scratch, Shared
from ..spec import KernelSpec
from .barriers import unfenced
from .module import kernel_name

Calls = Sequence[Sequence[Call]]


def link(plan: Plan, calls: Calls) -> Image:
    """The image of a plan whose steps make these calls; a host step makes none."""
    return _Linker(plan, calls).image()


def link_symbolic(plan: Plan, calls: Calls) -> tuple[Image, dict[int, Repeat]]:
    """The image of a plan with symbolic sizes, and the repetition of repeated calls by number."""
    return _Linker(plan, calls).image(), repeats_of(calls)


def repeats_of(calls: Calls) -> dict[int, Repeat]:
    """For kernel calls that are repeated, by their number, the repetition."""
    each = [call for row in calls for call in row]
    return {number: call.repeat for number, call in enumerate(each) if call.repeat is not None}


def link_template(plan: Plan, calls: Calls, scope: Scope, bind: SizedBind) -> Template:
    """The template of a plan with the symbolic sizes of a scope; ``bind`` is that of its graph."""
    return _Linker(plan, calls).template(scope, bind)


class _Linker:
    def __init__(self, plan: Plan, calls: Calls) -> None:
        self.plan, self.rows = plan, calls
        self.slots: list[Any] = []  # symbolic if sizes are
        self.relocations: list[Relocation] = []
        self.inputs: list[Patch] = []
        self.outputs: list[Patch] = []
        self.packed: dict[Packed, int] = {}
        self.names: dict[KernelSpec, str] = {}  # cached, because each is a hash
        self.last: dict[int, int] = {}

    def image(self) -> Image:
        each = [call for row in self.rows for call in row]
        calls = [self._linked(*two) for two in zip(each, self._unfenced(each))]
        arguments = [a for row in self.rows for call in row for a in call.args]
        return Image(
            slots=tuple(self.slots),
            relocations=tuple(self.relocations),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            packed=tuple(self.packed),
            calls=tuple(calls),
            counts=tuple(map(len, self.rows)),
            flagged=frozenset(self._flagged()),
            # Steps run one after the other and share it.
            scratch_bytes=largest(a.nbytes for a in arguments if isinstance(a, Scratch)),
            shared_bytes=largest(a.nbytes for a in arguments if isinstance(a, Shared)),
            work=sum(call.work for row in self.rows for call in row),
        )

    def template(self, scope: Scope, bind: SizedBind) -> Template:
        """The image with symbolic sizes, and the rounds of its repeated calls."""
        image = self.image()
        return Template(scope, self.plan, image, repeats_of(self.rows), self.last, bind)

    def _unfenced(self, each: Sequence[Call]) -> list[int]:
        """As :func:`unfenced`; a repeated call is passed as two rounds, and has the number of the
        first.

        ``last`` has the number of the second, which applies to the last round.
        """
        twice = [[c for call in row for c in (call,) * (1 + bool(call.repeat))]
                 for row in self.rows]  # fmt: skip
        found, numbers = [], iter(unfenced(self.plan, twice))
        for number, call in enumerate(each):
            found.append(next(numbers))
            if call.repeat is not None:
                self.last[number] = next(numbers)
        return found

    def _linked(self, call: Call, threads: int) -> KernelCall:
        name = self.names.get(call.spec)
        if name is None:
            name = self.names[call.spec] = kernel_name(call.spec)
        made = KernelCall(name, len(self.slots), threads)
        for argument in call.args:
            self._add(argument)
        return made

    def _flagged(self) -> Iterator[int]:
        for step, row in zip(self.plan.steps, self.rows):
            if any(isinstance(argument, Flag) for call in row for argument in call.args):
                yield step.number

    def _add(self, argument: Argument) -> None:
        """Add a slot: an integer, or a relocation for an address."""
        match argument:
            case int() | Size():
                self.slots.append(argument)
            case Address():
                self._add_view(argument.view)
            case Packed():
                self._relocate(Base.PACKED, self.packed.setdefault(argument, len(self.packed)))
            case Scratch():
                self._relocate(Base.SCRATCH)
            case Shared():
                self._relocate(Base.SHARED, 0, argument.offset)
            case Flag():
                self._relocate(Base.FLAG)

    def _add_view(self, view: View) -> None:
        buffer = self.plan.buffers[view.buffer]
        offset = view.offset * view.dtype.itemsize
        if buffer.kind == "arena":
            self._relocate(Base.ARENA, 0, buffer.offset + offset)
        elif buffer.kind == "weight":
            self._relocate(Base.WEIGHT, buffer.index, offset)
        else:
            patches = self.inputs if buffer.kind == "input" else self.outputs
            patches.append((len(self.slots), buffer.index, offset))
            self.slots.append(0)

    def _relocate(self, base: Base, number: int = 0, offset: int = 0) -> None:
        self.relocations.append(Relocation(len(self.slots), base, number, offset))
        self.slots.append(0)
