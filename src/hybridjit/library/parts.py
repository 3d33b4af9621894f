"""Tables of a library for sizes that are arguments: expressions, kernels, their arguments.

Input: the parts of :mod:`.cover`. Output: a record of 64-bit slots for each part, and one for each
CPU, which the functions of :mod:`.sized_entries` read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._core.compile_log import CompileLog
from .._core.frozen import dataclass
from .._core.symbolic.instructions import Instructions
from .._core.target import Target
from ..codegen.emit.driver import KERNEL
from ..codegen.emit.module import emit_kernel, kernel_name
from ..codegen.llvm import ir
from ..codegen.llvm.jit import Unit
from ..codegen.llvm.types import I64, Value
from ..codegen.packing import pack
from ..codegen.spec import KernelSpec
from ..errors import MXNetError
from ..ir.graph import Use
from ..ir.sized import bind_symbols
from ..ir.template import slot_columns
from ..runtime.binding import Binding, PackedStore
from .cover import Part, Parts, Plans, SymbolicPlan
from .cpu import needed
from .functions import Emitter
from .grid import Grid
from .layout import FIRST_ARRAY, NOTHING
from .variants import relocated, specs_of
from .weights_file import Weights


@dataclass(frozen=True)
class SizedTables:
    """A part as integers, in which expressions are represented by the numbers of their registers.

    numbers  registers of the bytes of the arena, of scratch per thread and of shared scratch, and
             of the number of multiplications of a call
    arrays   registers of the bytes of inputs and outputs, of one sample if the batch is an argument
    shapes   registers of the sizes of all outputs, one after the other
    calls    kernel, first row of its slots, number of its slots, and the registers of the range in
             which it is repeated
    slots    base, register, and the register of the increment for each round of a repeated call
    """

    instructions: Instructions
    numbers: tuple[int, ...]
    arrays: tuple[int, ...]
    shapes: tuple[int, ...]
    calls: tuple[tuple[str, int, int, int, int], ...]
    slots: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class SizedVariant:
    """Code for one CPU: kernels without duplicates, parts, and the part of each point."""

    target: Target
    specs: tuple[KernelSpec, ...]
    tables: tuple[SizedTables, ...]
    numbers: bytes

    def kernel(self, name: str) -> str:
        """Symbol of a kernel: different for each CPU."""
        return f"{self.target.name}_{name}"

    def units(self) -> Iterator[Unit]:
        """The kernels' IR."""
        for spec in self.specs:
            name = self.kernel(kernel_name(spec))
            yield Unit(str(emit_kernel(spec, self.target, name)), self.target, [name],
                       spec.needs_passes)  # fmt: skip


class Bindings:
    """The parameters of symbolic plans, as the kernels read them."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._store = PackedStore()
        self._known: dict[SymbolicPlan, Binding] = {}

    def of(self, plan: SymbolicPlan) -> Binding:
        """The binding of a plan. Raises MXNetError if it depends on sizes."""
        if plan not in self._known:
            if sizes := bind_symbols(plan.plan.graph):
                raise MXNetError(
                    "a library contains constants, and a value that is computed from parameters "
                    f"has the size {', '.join(sizes)}, which calls give"
                )
            self._known[plan] = Binding(plan.plan, pack, plan.params, self._store)
        return self._known[plan]


def make_sized_variant(
    plans: Plans, grid: Grid, target: Target, winograd: bool | str, log: CompileLog,
    bindings: Bindings,
) -> SizedVariant:  # fmt: skip
    """The code of a network for one CPU and all sizes of a grid."""
    made = Parts(plans, grid, target, winograd)
    numbers = made.table(log)
    specs = tuple(dict.fromkeys(spec for part in made.parts for spec in specs_of(part.calls)))
    tables = tuple(_tables(part, bindings) for part in made.parts)
    return SizedVariant(target, specs, tables, numbers)


def _tables(part: Part, bindings: Bindings) -> SizedTables:
    plan, image = part.plan.plan, part.image
    found = Instructions(part.plan.scope)
    sizes = plan.arena_bytes, image.scratch_bytes, image.shared_bytes, image.work
    types = [use.type for use in (*map(Use, plan.graph.inputs), *plan.graph.outputs)]
    shapes = [size for view in plan.outputs for size in view.shape]
    rows = list(_slot_rows(part, bindings, found))
    return SizedTables(
        found,
        tuple(map(found.of, sizes)),
        tuple(found.of(t.nbytes) for t in types),
        tuple(map(found.of, shapes)),
        tuple(_call_rows(part, found, len(rows))),
        tuple(rows),
    )


def _call_rows(
    part: Part, found: Instructions, slots: int
) -> Iterator[tuple[str, int, int, int, int]]:
    calls = part.image.calls
    ends = [*(call.slot for call in calls[1:]), slots]
    for number, (call, end) in enumerate(zip(calls, ends)):
        repeat = part.repeats.get(number)
        low, high = (repeat.low, repeat.high) if repeat else (0, 1)
        yield call.kernel, call.slot, end - call.slot, found.of(low), found.of(high)


def _slot_rows(
    part: Part, bindings: Bindings, found: Instructions
) -> Iterator[tuple[int, int, int]]:
    binding, image = bindings.of(part.plan), part.image
    binding.prepare(image.packed)
    first, added = slot_columns(image, part.repeats)
    bases = [NOTHING] * len(first)
    for each in image.relocations:
        slot, base, offset = relocated(each, image, binding, bindings.weights)
        bases[slot] = base
        first[slot] = first[slot] + (offset - each.offset)
    inputs = len(part.plan.plan.graph.inputs)
    for slot, number, _ in image.inputs:
        bases[slot] = FIRST_ARRAY + number
    for slot, number, _ in image.outputs:
        bases[slot] = FIRST_ARRAY + inputs + number
    for base, value, more in zip(bases, first, added):
        yield base, found.of(value), found.of(more)


def emit_sized_variant(emitter: Emitter, variant: SizedVariant) -> Value:
    """Emit the record of a CPU and those of its parts."""
    name = variant.target.name
    parts = [_emit_part(emitter, variant, number) for number in range(len(variant.tables))]
    return emitter.record(
        f"{name}_variant",
        [
            *map(_number, needed(variant.target)),
            emitter.text(f"{name}_name", name),
            ir.Bytes(emitter.module, variant.numbers, f"{name}_numbers"),
            emitter.record(f"{name}_parts", parts),
        ],
    )


def _emit_part(emitter: Emitter, variant: SizedVariant, number: int) -> Value:
    tables, name = variant.tables[number], f"{variant.target.name}_part{number}"
    instructions = tables.instructions

    def table(what: str, numbers: Sequence[int]) -> Value:
        return emitter.numbers(f"{name}_{what}", numbers)

    return emitter.record(
        name,
        [
            _number(len(instructions.rows)),
            table("instructions", [n for row in instructions.rows for n in row]),
            table("sizes", tables.numbers),
            table("arrays", tables.arrays),
            table("shapes", tables.shapes),
            _number(len(tables.calls)),
            emitter.record(f"{name}_calls", list(_calls(emitter, variant, tables))),
            table("slots", [n for row in tables.slots for n in row]),
        ],
    )


def _calls(emitter: Emitter, variant: SizedVariant, tables: SizedTables) -> Iterator[Value]:
    for kernel, *numbers in tables.calls:
        name = variant.kernel(kernel)
        yield emitter.module.globals.get(name) or ir.Function(emitter.module, KERNEL, name)
        yield from map(_number, numbers)


def _number(value: int) -> Value:
    return ir.Constant(I64, value)
