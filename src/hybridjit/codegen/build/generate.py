"""From Plan to loaded machine code: choose, emit, load. The only door into ``codegen``."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compile_log import CompileLog
from ...config import config
from ...forks import Rank, held_at_fork
from ...ir.image import Image, Packed
from ...ir.plan import Plan
from ...late import Late
from ...records import dataclass
from ...target import Target
from ...unwinding import holding
from ..call import Call, Decide, Setting
from ..kinds import choose
from ..llvm.jit import Library, assembly, find_target, optimised_text
from ..packing import Packing, pack
from ..spec import KernelSpec
from .driver import emit_driver, load_driver
from .fetch import Wanted, fetch_objects
from .link import link
from .module import emit_kernel, kernel_name
from .native_packing import NativePacking
from .packers import PACKERS, emit_packers

if TYPE_CHECKING:
    from .. import tuned
else:
    tuned = Late("..tuned", __package__)  # for those who name a file


class Kernel:
    """One kernel's machine code in memory, given back when nothing uses it any more."""

    def __init__(self, spec: KernelSpec, library: Library) -> None:
        self.spec = spec
        self.library = library
        self.address = library.address(kernel_name(spec))


@dataclass(frozen=True)
class Code:
    """What a plan needs to run: per step its calls, the kernels, and the driver's functions.

    ``image`` is what the kernels are called with, and ``addresses`` where they are, by name.
    ``pack(packing, weights, out)`` packs its weights.
    """

    target: Target
    calls: tuple[tuple[Call, ...], ...]
    kernels: dict[KernelSpec, Kernel]
    driver: Any
    pack: Callable[[Packing, np.ndarray, np.ndarray], None]
    image: Image

    @property
    def addresses(self) -> dict[str, int]:
        return {kernel_name(spec): kernel.address for spec, kernel in self.kernels.items()}


# Bytes of parameters that machine code packs: NumPy takes as long for less as it takes to load.
_MANY_BYTES = 4 << 20
_LOCK = held_at_fork(Rank.KERNELS)
_KERNELS: weakref.WeakValueDictionary[tuple[Target, KernelSpec], Kernel] = (
    weakref.WeakValueDictionary()
)
_DRIVERS: dict[Target, Any] = {}
_PACKERS: dict[Target, NativePacking] = {}


def generate_code(
    plan: Plan,
    winograd: bool | str,
    log: CompileLog,
    processes: int = 1,
    decide: Decide | None = None,
) -> Code:
    """Choose a spec for every step, and load one kernel for every distinct spec.

    ``processes`` may compile where there is enough to do; ``decide`` as in :func:`choose_calls`.
    """
    target = find_target(config.target)
    calls = choose_calls(plan, target, winograd, log, decide)
    log.dump("spec", lambda: spec_text(plan, calls, target))
    specs = tuple(dict.fromkeys(call.spec for row in calls for call in row))
    _dump_code(specs, target, log)
    has_many = sum(value.types[0].nbytes for value in plan.graph.params) >= _MANY_BYTES
    kernels = log.timed(
        "kernels",
        f"machine code for {len(specs)} kernels",
        lambda: _loaded(specs, has_many, target, processes, log),
    )
    packs = _PACKERS[target].pack if has_many else pack
    return Code(target, calls, kernels, _DRIVERS[target], packs, link(plan, calls))


def load_kernel(spec: KernelSpec, log: CompileLog) -> tuple[Kernel, Any]:
    """The kernel of one spec that belongs to no plan, and the driver that calls it."""
    target = find_target(config.target)
    kernel = log.timed(
        "kernels", f"machine code for {spec}", lambda: _loaded((spec,), False, target, 1, log)[spec]
    )
    return kernel, _DRIVERS[target]


def choose_calls(
    plan: Plan,
    target: Target,
    winograd: bool | str,
    log: CompileLog,
    decide: Decide | None = None,
) -> tuple[tuple[Call, ...], ...]:
    """The kernel calls of every step on this CPU; the reasons of choices are noted.

    winograd  as in ``compiler.Options``
    decide    who chooses between candidates; the file of HYBRIDJIT_TUNED if nobody is named, or
              the cost model without one. Raises MXNetError for a file that cannot be used
    """
    params = {value: i for i, value in enumerate(plan.graph.params)}
    allowed = winograd if "winograd" not in config.skip else False
    if decide is None and config.tuned:
        decide = tuned.tuned_for(config.tuned, target)
    setting = Setting(params, target, allowed, plan.graph.purpose.training, decide)
    calls = tuple(choose(step, setting) for step in plan.steps)
    log.notes += [
        f"chosen for {step.name}: {call.reason}"
        for step, row in zip(plan.steps, calls)
        for call in row
        if call.reason
    ]
    return calls


@holding(_LOCK)
def _loaded(
    specs: tuple[KernelSpec, ...],
    packs: bool,
    target: Target,
    processes: int,
    log: CompileLog,
) -> dict[KernelSpec, Kernel]:
    """A kernel for each spec. What is new shares one library: it is loaded once.

    With the first, the driver is loaded for good, and with the first that ``packs``, the packers.
    """
    kernels = {s: kernel for s in specs if (kernel := _KERNELS.get((target, s))) is not None}
    new = [s for s in specs if s not in kernels]
    wanted = [Wanted(str(s), partial(emit_kernel, s, target), s.needs_passes) for s in new]
    if target not in _DRIVERS:
        # 5 ms of LLVM instead of 70, and calls take as long: it has a few dozen loads for each step
        wanted.append(Wanted("driver", partial(emit_driver, target), with_passes=False, level=0))
    if packs and target not in _PACKERS:
        wanted.append(Wanted(PACKERS, partial(emit_packers, target), with_passes=False))
    objects = fetch_objects(wanted, target, processes, log)
    if packs and target not in _PACKERS:
        _PACKERS[target] = NativePacking(objects.pop(), target)
    if target not in _DRIVERS:
        _DRIVERS[target] = load_driver(objects.pop(), target)
    if new:
        library = Library(objects, target, list(map(kernel_name, new)))
        for spec in new:
            _KERNELS[target, spec] = kernels[spec] = Kernel(spec, library)
    return kernels


def spec_text(plan: Plan, calls: tuple[tuple[Call, ...], ...], target: Target) -> str:
    """A line for each kernel call: step, kernel, spec, what it is given, how weights are packed."""
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
            given = call.args[len(call.args) - call.spec.given :]
            numbers = f"  given {','.join(map(str, given))}" if given else ""
            lines.append(f"  step {step.number:<3} {kernel_name(call.spec)}  {call.spec}{numbers}")
            if packs:
                lines.append(f"           weights {packs}")
    return "\n".join(lines)


def _dump_code(specs: tuple[KernelSpec, ...], target: Target, log: CompileLog) -> None:
    def listing(show: Callable[[str, Target, bool], str]) -> str:
        return "\n".join(
            f"; kernel {kernel_name(s)}  {s}\n"
            + show(str(emit_kernel(s, target)), target, s.needs_passes)
            for s in specs
        )

    log.dump("llvm", lambda: listing(optimised_text))
    log.dump("asm", lambda: listing(assembly))
