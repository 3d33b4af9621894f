"""Code of a network for one CPU, with the arguments of its kernels.

Input: a plan and a target. Output: the kernels' IR, and a record next to the code that the
library's functions read; :mod:`.layout` describes it. :mod:`.step_variant` makes training variants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._core.compile_log import CompileLog
from .._core.frozen import dataclass
from .._core.target import Target
from ..codegen.call import Call
from ..codegen.emit.driver import KERNEL
from ..codegen.emit.generate import choose_calls
from ..codegen.emit.link import link
from ..codegen.emit.module import emit_kernel, kernel_name
from ..codegen.llvm import ir
from ..codegen.llvm.jit import Unit
from ..codegen.llvm.types import I64, Value
from ..codegen.spec import KernelSpec
from ..errors import MXNetError
from ..ir.plan import Plan
from ..ir.plan_image import Base, Image, Patch, Relocation
from ..runtime.binding import Binding
from ..runtime.executable import WORTH_SHARING
from .cpu import needed
from .functions import Emitter
from .interface import Interface
from .layout import AT_FLAG, IN_ARENA, IN_SCRATCH, IN_SHARED, IN_WEIGHTS
from .random_generator import DRAW
from .weights_file import Weights

Row = tuple[int, ...]


@dataclass(frozen=True)
class Tables:
    """Arguments of a variant's kernels, except addresses.

    slots           arguments of all calls; 0 in place of an address
    relocations     rows of slot, base, offset
    patches         rows of slot, array, offset, bytes of a round
    calls           kernel names, with the first slot of each call
    learned         number of calls before the first update
    """

    slots: tuple[int, ...]
    relocations: tuple[Row, ...]
    patches: tuple[Row, ...]
    calls: tuple[tuple[str, int], ...]
    learned: int
    scratch_bytes: int
    shared_bytes: int
    arena_bytes: int
    work: int


@dataclass(frozen=True)
class Variant:
    """Kernels for one CPU, without duplicates, and their arguments."""

    target: Target
    specs: tuple[KernelSpec, ...]
    tables: Tables

    def kernel(self, name: str) -> str:
        """Symbol of a kernel: different for each CPU."""
        return f"{self.target.name}_{name}"

    def units(self) -> Iterator[Unit]:
        """The kernels' IR."""
        for spec in self.specs:
            name = self.kernel(kernel_name(spec))
            module = emit_kernel(spec, self.target, name)
            yield Unit(str(module), self.target, [name], spec.needs_passes)


def make_variant(
    plan: Plan,
    target: Target,
    winograd: bool | str,
    log: CompileLog,
    interface: Interface,
    binding: Binding,
    weights: Weights,
) -> Variant:
    """The kernels of a plan. Raises MXNetError that lists all steps without a kernel."""
    calls = choose_calls(plan, target, winograd, log)
    require_kernels(plan, calls, target)
    image = link(plan, calls)
    binding.prepare(image.packed)
    tables = Tables(
        slots=image.slots,
        relocations=tuple(relocated(each, image, binding, weights) for each in image.relocations),
        patches=tuple(_patches(image, interface)),
        calls=tuple((call.kernel, call.slot) for call in image.calls),
        learned=0,
        scratch_bytes=image.scratch_bytes,
        shared_bytes=image.shared_bytes,
        arena_bytes=plan.arena_bytes,
        work=image.work,
    )
    return Variant(target, specs_of(calls), tables)


def specs_of(calls: Sequence[Sequence[Call]]) -> tuple[KernelSpec, ...]:
    """The specs of all kernels, without duplicates."""
    return tuple(dict.fromkeys(call.spec for row in calls for call in row))


def require_kernels(plan: Plan, calls: Sequence[Sequence[Call]], target: Target) -> None:
    """Raise MXNetError that lists all steps without a kernel."""
    without = [step for step, row in zip(plan.steps, calls) if not row]
    if without:
        lines = [
            f"  {s.group.anchor.op.name if s.group.anchor.op else 'copy'} '{s.name}'"
            for s in without
        ]
        raise MXNetError(
            f"a library cannot run steps on NumPy: {len(without)} of {len(plan.steps)} steps have "
            "no "
            f"kernel for {target.name}\n" + "\n".join(lines)
        )


def emit_variant(emitter: Emitter, variant: Variant) -> Value:
    """Emit the record of a variant."""
    tables, name = variant.tables, variant.target.name

    def table(what: str, rows: Sequence[Sequence[int]]) -> tuple[Value, Value]:
        numbers = [n for row in rows for n in row]
        return _number(len(rows)), emitter.numbers(f"{name}_{what}", numbers)

    return emitter.record(
        f"{name}_variant",
        [
            *map(_number, needed(variant.target)),
            emitter.text(f"{name}_name", name),
            *table("slots", [(slot,) for slot in tables.slots]),
            *table("relocations", tables.relocations),
            *table("patches", tables.patches),
            _number(len(tables.calls)),
            emitter.record(f"{name}_calls", list(_calls(emitter, variant))),
            *map(_number, (tables.scratch_bytes, tables.shared_bytes, tables.arena_bytes)),
            _number(tables.work < WORTH_SHARING),
            _number(tables.learned),
        ],
    )


def _number(value: int) -> Value:
    return ir.Constant(I64, value)


def relocated(
    relocation: Relocation, image: Image, binding: Binding, weights: Weights
) -> tuple[int, int, int]:
    """A relocation as a row of a variant's table."""
    slot, base, number, offset = relocation
    match base:
        case Base.WEIGHT:
            return slot, IN_WEIGHTS, weights.place(binding.value(number)) + offset
        case Base.PACKED:
            packed = binding.packed_array(image.packed[number])
            return slot, IN_WEIGHTS, weights.place(packed) + offset
        case Base.ARENA:
            return slot, IN_ARENA, offset
        case Base.SCRATCH:
            return slot, IN_SCRATCH, offset
        case Base.SHARED:
            return slot, IN_SHARED, offset
        case Base.FLAG:
            return slot, AT_FLAG, offset


def _patches(image: Image, interface: Interface) -> Iterator[tuple[int, int, int, int]]:
    """Rows that insert the addresses of a call's arrays, with their increments per round."""

    def row(patch: Patch, first: int) -> tuple[int, int, int, int]:
        slot, index, offset = patch
        array = interface.arrays[first + index]
        return slot, first + index, offset, array.nbytes // interface.rounds

    yield from (row(patch, 0) for patch in image.inputs)
    yield from (row(patch, len(interface.inputs)) for patch in image.outputs)


def _calls(emitter: Emitter, variant: Variant) -> Iterator[Value]:
    for kernel, slot in variant.tables.calls:
        name = kernel if kernel == DRAW else variant.kernel(kernel)
        known = emitter.module.globals.get(name)
        yield known or ir.Function(emitter.module, KERNEL, name)
        yield _number(slot)
