"""From Plan to loaded machine code: choose, emit, load. The only door into ``codegen``."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..config import config
from ..forks import Rank, held_at_fork
from ..ir.plan import Plan
from ..target import Target
from .call import Call, Packed, Setting
from .choose import choose
from .fetch import JournalLike, Wanted, fetch_objects
from .jit import LOCK, Library, assembly, find_target, load_driver, optimised_text
from .module import emit_driver, emit_kernel, kernel_name
from .spec import KernelSpec


class Kernel:
    """One kernel's machine code in memory, given back when nothing uses it any more."""

    def __init__(self, spec: KernelSpec, library: Library) -> None:
        self.spec = spec
        self.library = library
        self.address = library.address(kernel_name(spec))


@dataclass(frozen=True)
class Code:
    """What a plan needs to run: per step its calls, the kernels, and the driver's functions."""

    target: Target
    calls: tuple[tuple[Call, ...], ...]
    kernels: dict[KernelSpec, Kernel]
    driver: Any


_LOCK = held_at_fork(Rank.KERNELS)
held_at_fork(Rank.LLVM, LOCK)
_KERNELS: weakref.WeakValueDictionary[tuple[Target, KernelSpec], Kernel] = (
    weakref.WeakValueDictionary()
)
_DRIVERS: dict[Target, Any] = {}


def generate_code(
    plan: Plan, winograd: bool | str, journal: JournalLike, processes: int = 1
) -> Code:
    """Choose a spec for every step, and load one kernel for every distinct spec.

    ``processes`` may compile where there is enough to do.
    """
    target = find_target(config.target)
    params = {value: i for i, value in enumerate(plan.graph.params)}
    setting = Setting(params, target, winograd if "winograd" not in config.skip else False)
    calls = tuple(choose(step, setting) for step in plan.steps)
    journal.notes += [
        f"chosen for {step.name}: {call.reason}"
        for step, row in zip(plan.steps, calls)
        for call in row
        if call.reason
    ]
    journal.dump("spec", lambda: spec_text(plan, calls, target))
    specs = tuple(dict.fromkeys(call.spec for row in calls for call in row))
    _dump_code(specs, target, journal)
    with _LOCK:
        kernels, driver = journal.timed(
            "kernels",
            f"machine code for {len(specs)} kernels",
            lambda: _loaded(specs, target, processes, journal),
        )
    return Code(target, calls, kernels, driver)


def _loaded(
    specs: tuple[KernelSpec, ...], target: Target, processes: int, journal: JournalLike
) -> tuple[dict[KernelSpec, Kernel], Any]:
    """A kernel for each spec, and the driver. What is new shares one library: it is loaded once."""
    kernels = {s: kernel for s in specs if (kernel := _KERNELS.get((target, s))) is not None}
    new = [s for s in specs if s not in kernels]
    wanted = [Wanted(str(s), partial(emit_kernel, s, target), s.needs_passes) for s in new]
    if target not in _DRIVERS:
        wanted.append(Wanted("driver", partial(emit_driver, target)))
    objects = fetch_objects(wanted, target, processes, journal)
    if target not in _DRIVERS:
        _DRIVERS[target] = load_driver(objects.pop(), target)
    if new:
        library = Library(objects, target)
        for spec in new:
            _KERNELS[target, spec] = kernels[spec] = Kernel(spec, library)
    return kernels, _DRIVERS[target]


def spec_text(plan: Plan, calls: tuple[tuple[Call, ...], ...], target: Target) -> str:
    """One line for each kernel call: step, kernel, spec, and how its weights are packed."""
    lines = [f"specs of {plan.graph.name} for {target}"]
    for step, row in zip(plan.steps, calls):
        if not row:
            op = step.group.anchor.op
            lines.append(f"  step {step.number:<3} host  {op.name if op else 'copy'} '{step.name}'")
        for call in row:
            packs = ", ".join(
                f"{plan.graph.params[a.index].name} {a.packing}"
                for a in call.args
                if isinstance(a, Packed) and a.index is not None
            )
            lines.append(f"  step {step.number:<3} {kernel_name(call.spec)}  {call.spec}")
            if packs:
                lines.append(f"           weights {packs}")
    return "\n".join(lines)


def _dump_code(specs: tuple[KernelSpec, ...], target: Target, journal: JournalLike) -> None:
    wanted = [stage for stage in ("llvm", "asm") if journal.wants(stage)]
    if not wanted:
        return
    show = {"llvm": optimised_text, "asm": assembly}
    for stage in wanted:
        parts = [
            f"; kernel {kernel_name(s)}  {s}\n"
            + show[stage](str(emit_kernel(s, target)), target, s.needs_passes)
            for s in specs
        ]
        journal.dump(stage, lambda parts=parts: "\n".join(parts))
