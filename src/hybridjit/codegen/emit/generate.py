"""Generation of machine code from a Plan: choose, emit, load. The entry point of ``codegen``."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..._core.async_safety import holding, uncollected
from ..._core.compile_log import CompileLog
from ..._core.config import config
from ..._core.fork_locks import Rank, held_at_fork
from ..._core.frozen import dataclass
from ..._core.lazy import Late
from ..._core.symbolic import hint_of
from ..._core.target import Target
from ...ir.plan import Plan
from ...ir.plan_image import Image, Packed
from ...ir.prologue import RunPrologue
from ...ir.template import SizedImage
from ..call import Call, Decide, Setting
from ..choices import Choices
from ..kinds import choose, share_kernels
from ..llvm.library import Library
from ..spec import KernelSpec
from ..targets import find_target
from .driver import emit_driver, load_driver
from .fetch import Part, Wanted, fetch_objects
from .keys import object_key
from .link import link
from .module import emit_kernel, kernel_name
from .objects import load_object
from .sized_functions import SIZED, SizedFunctions, emit_sized_functions, load_sized_functions

if TYPE_CHECKING:
    from .. import packing, tuned
    from ..llvm import jit
    from ..packing import Packing
    from . import native_packing, packers
else:
    native_packing = Late(".native_packing", __package__)  # for packing by machine code
    packers = Late(".packers", __package__)
    packing = Late("..packing", __package__)  # for networks with weights
    jit = Late("..llvm.jit", __package__)  # loads LLVM: for code that is shown
    tuned = Late("..tuned", __package__)  # only for programs that name a file


class Kernel:
    """One kernel's machine code in memory, freed when unused."""

    def __init__(self, spec: AnySpec, library: Library) -> None:
        self.spec = spec
        self.library = library
        self.address = library.address(kernel_name(spec))


@dataclass(frozen=True)
class Code:
    """The code of a plan: the calls of each step, the kernels, and the driver's functions.

    ``image`` has the arguments of the kernels, and ``addresses`` their addresses, by name.
    ``pack(packing, weights, out)`` packs the plan's weights. ``write_arguments`` writes the
    tables of a template, see ``sized_functions.py``.
    """

    target: Target
    calls: Sequence[tuple[Call, ...]]
    kernels: dict[AnySpec, Kernel]
    driver: Any
    pack: Callable[[Packing, np.ndarray, np.ndarray], None]
    addresses: Mapping[str, int]
    write_arguments: Callable[[int], None] | None
    image: Image | SizedImage


# Least bytes of parameters that machine code packs: NumPy packs fewer faster than code is loaded.
_MANY_BYTES = 4 << 20
_LOCK = held_at_fork(Rank.KERNELS)
DRIVER = "driver"
# Kernels by the text of their spec.
_KERNELS: weakref.WeakValueDictionary[tuple[Target, str], Kernel] = weakref.WeakValueDictionary()
_DRIVERS: dict[Target, Any] = {}
_PACKERS: dict[Target, native_packing.NativePacking] = {}
_WRITERS: dict[Target, SizedFunctions] = {}


class NotStoredError(Exception):
    """The object of a kernel whose spec is not known is not in the cache."""


@dataclass(frozen=True)
class StoredSpec:
    """The text of a spec, for a kernel whose object is stored."""

    kind: str
    text: str
    needs_passes = True

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Request:
    """Kernels of a compilation, by their specs, and its log.

    packs             the names of the packers that are needed as well
    writes_arguments  whether the code of ``sized_functions.py`` is needed
    """

    specs: tuple[AnySpec, ...]
    log: CompileLog
    packs: tuple[str, ...] = ()
    writes_arguments: bool = False


@dataclass(frozen=True)
class _Chosen:
    """A plan, the kernel calls of each of its steps, and the kernels of these calls."""

    plan: Plan
    calls: tuple[tuple[Call, ...], ...]
    request: Request


AnySpec: TypeAlias = "KernelSpec | StoredSpec"


def generate_codes(
    plans: Iterable[tuple[Plan, CompileLog]],
    winograd: bool | str,
    processes: int = 1,
    decide: Decide | None = None,
    is_large: bool = False,
) -> list[tuple[Plan, Code]]:
    """Choose a spec for every step, and load one kernel for every distinct spec of all plans.

    Up to ``processes`` processes compile if there is enough work, and begin while the next plan is
    being made; for large plans on a CPU without compiled objects, they start with the first plan.
    ``decide`` as in :func:`choose_calls`.
    """
    target = find_target(config.target)
    chosen: list[_Chosen] = []

    def requests() -> Iterator[Request]:
        for plan, log in plans:
            chosen.append(choose_for(plan, log, target, winograd, decide))
            yield chosen[-1].request

    kernels = loaded(requests(), target, processes, is_large)
    return [(one.plan, _code(one, kernels, target)) for one in chosen]


def choose_for(
    plan: Plan, log: CompileLog, target: Target, winograd: bool | str, decide: Decide | None,
    choices: Choices | None = None,
) -> _Chosen:  # fmt: skip
    """The kernel calls of a plan, and the request for their kernels; arguments as for
    :func:`choose_calls`.
    """
    calls = choose_calls(plan, target, winograd, log, decide, choices)
    log.dump("spec", lambda: spec_text(plan, calls, target))
    specs = tuple(dict.fromkeys(call.spec for row in calls for call in row))
    _dump_code(specs, target, log)
    packs = packs_of(plan, calls)
    return _Chosen(plan, calls, Request(specs, log, packs, choices is not None))


def loaded_code(
    chosen: _Chosen, target: Target, processes: int
) -> tuple[Callable[[SizedImage], Code], RunPrologue]:
    """The function that makes the code of a template for an image, and the one that runs
    prologues. Kernels are compiled unless they exist.
    """
    kernels = loaded([chosen.request], target, processes)
    own = {spec: kernels[spec] for spec in chosen.request.specs}
    packs = _PACKERS[target].pack if chosen.request.packs else _pack
    writer, run = _WRITERS[target]
    addresses = _addresses(own)
    code = partial(Code, target, chosen.calls, own, _DRIVERS[target], packs, addresses, writer)
    return code, run


def packs_of(plan: Plan, calls: Sequence[tuple[Call, ...]]) -> tuple[str, ...]:
    """The names of the packers of a plan with these calls."""
    nbytes = sum(hint_of(value.types[0].nbytes) for value in plan.graph.params)
    if nbytes < _MANY_BYTES:
        return ()
    arguments = (a for row in calls for call in row for a in call.args)
    return packers.packers_for(a.packing for a in arguments if isinstance(a, Packed))


def _code(chosen: _Chosen, kernels: Mapping[AnySpec, Kernel], target: Target) -> Code:
    own = {spec: kernels[spec] for spec in chosen.request.specs}
    image = link(chosen.plan, chosen.calls)
    return code_of(target, chosen.calls, own, image, bool(chosen.request.packs))


def code_of(
    target: Target,
    calls: Sequence[tuple[Call, ...]],
    kernels: dict[AnySpec, Kernel],
    image: Image | SizedImage,
    has_packers: bool,
) -> Code:
    """The code of a plan with these kernels, which are loaded."""
    packs = _PACKERS[target].pack if has_packers else _pack
    driver, addresses = _DRIVERS[target], _addresses(kernels)
    return Code(target, calls, kernels, driver, packs, addresses, None, image)


def _pack(how: Packing, weight: np.ndarray, out: np.ndarray) -> None:
    packing.pack(how, weight, out)


def _addresses(kernels: Mapping[AnySpec, Kernel]) -> dict[str, int]:
    return {kernel_name(spec): kernel.address for spec, kernel in kernels.items()}


def load_kernel(spec: KernelSpec, log: CompileLog) -> tuple[Kernel, Any]:
    """The kernel of one spec that belongs to no plan, and the driver that calls it."""
    target = find_target(config.target)
    return loaded([Request((spec,), log)], target, 1)[spec], _DRIVERS[target]


@uncollected  # kinds are imported here on first use
def choose_calls(
    plan: Plan,
    target: Target,
    winograd: bool | str,
    log: CompileLog,
    decide: Decide | None = None,
    choices: Choices | None = None,
) -> tuple[tuple[Call, ...], ...]:
    """The kernel calls of every step on this CPU; the reasons of choices are logged.

    winograd  as in ``compiler.Options``
    decide    selects among candidates; by default the file of HYBRIDJIT_TUNED, or the cost model if
              none is named. Raises MXNetError for a file that cannot be used
    choices   the sizes for which kernels are chosen, if sizes of the plan are symbolic
    """
    params = {value: i for i, value in enumerate(plan.graph.params)}
    allowed = winograd if "winograd" not in config.skip else False
    if decide is None and config.tuned:
        decide = tuned.tuned_for(config.tuned, target)
    training = plan.graph.purpose.training
    rows = plan.graph.rows_of_sample
    setting = Setting(params, target, allowed, training, decide, rows, choices)
    each = ((step.number, partial(choose, step, setting)) for step in plan.steps)
    of_step = choices.of_step if choices else lambda number, made: made()
    calls = tuple(of_step(number, made) for number, made in each)
    if choices is None and decide is None:
        calls = share_kernels(calls, target)
    log.notes += [
        f"chosen for {step.name}: {call.reason}"
        for step, row in zip(plan.steps, calls)
        for call in row
        if call.reason
    ]
    return calls


@holding(_LOCK)
def loaded(
    requests: Iterable[Request], target: Target, processes: int, is_large: bool = False
) -> dict[AnySpec, Kernel]:
    """A kernel for each spec. New ones share one library, which is loaded once.

    Raises NotStoredError for a :class:`StoredSpec` without an object, before anything is compiled.
    The first call loads the driver permanently, and the first call that packs loads the packers.
    The logged time of a request ends when the next request is made; the last time includes loading.
    """
    loading = _Loading(target)
    began, went_on = [], []

    def parts() -> Iterator[Part]:
        for request in requests:
            began.append((request, time.perf_counter()))
            yield loading.part(request)
            went_on.append(time.perf_counter())

    loading.load(fetch_objects(parts(), target, processes, is_large and _is_first(target)))
    ended = [*went_on[:-1], time.perf_counter()]
    for (request, start), end in zip(began, ended):
        text = f"machine code for {len(request.specs)} kernels"
        request.log.times.append(("kernels", text, end - start))
    return loading.kernels


def _is_first(target: Target) -> bool:
    """Whether no object for this CPU exists, in this process or in the cache."""
    return target not in _DRIVERS and load_object(object_key(DRIVER, target)) is None


class _Loading:
    """The kernels of some requests: loaded ones, and new ones."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._new: dict[AnySpec, None] = {}
        self._packers: set[str] = set()
        self._loads_driver = self._loads_writer = False
        self.kernels: dict[AnySpec, Kernel] = {}

    def part(self, request: Request) -> Part:
        """The modules to fetch for a request, except those of earlier requests."""
        new = []
        for spec in request.specs:
            kernel = _KERNELS.get((self._target, str(spec)))
            if kernel is not None:
                self.kernels[spec] = kernel
            elif spec not in self._new:
                new.append(spec)
        self._new.update(dict.fromkeys(new))
        wanted = [Wanted(str(s), partial(_emitted, s, self._target), s.needs_passes) for s in new]
        return Part([*wanted, *self._once(request)], request.log)

    def _once(self, request: Request) -> Iterator[Wanted]:
        """The driver, the packers and the argument writer, those that are not yet loaded."""
        if self._target not in _DRIVERS and not self._loads_driver:
            self._loads_driver = True
            # LLVM takes 5 ms instead of 70 ms, and calls take the same time: the driver executes a
            # few dozen loads per step.
            yield Wanted(DRIVER, partial(emit_driver, self._target), with_passes=False, level=0)
        known = _PACKERS.get(self._target)
        if request.writes_arguments and self._target not in _WRITERS:
            self._loads_writer = True
            # LLVM takes 11 ms instead of 53 ms, a choice 7 us instead of 3 us (Xeon with AMX).
            emit = partial(emit_sized_functions, self._target)
            yield Wanted(SIZED, emit, with_passes=False, level=0)
        for name in request.packs:
            if name not in self._packers and (known is None or name not in known.names):
                self._packers.add(name)
                emit = partial(packers.emit_packer, self._target, name)
                yield Wanted(f"packer {name}", emit, with_passes=False)

    def load(self, objects: Mapping[str, bytes]) -> None:
        """Load fetched objects."""
        for name in self._packers:
            if self._target not in _PACKERS:
                _PACKERS[self._target] = native_packing.NativePacking(self._target)
            _PACKERS[self._target].load(name, objects[f"packer {name}"])
        if self._loads_driver:
            _DRIVERS[self._target] = load_driver(objects[DRIVER], self._target)
        if self._loads_writer:
            _WRITERS[self._target] = load_sized_functions(objects[SIZED], self._target)
        if self._new:
            codes = [objects[str(spec)] for spec in self._new]
            library = Library(codes, self._target, list(map(kernel_name, self._new)))
            for spec in self._new:
                self.kernels[spec] = Kernel(spec, library)
                _KERNELS[self._target, str(spec)] = self.kernels[spec]


def _emitted(spec: AnySpec, target: Target) -> object:
    if isinstance(spec, StoredSpec):
        raise NotStoredError(spec.text)
    return emit_kernel(spec, target)


def spec_text(plan: Plan, calls: tuple[tuple[Call, ...], ...], target: Target) -> str:
    """A line for each kernel call: step, kernel, spec, given integers, packings of weights."""
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
    def listing(show: Callable[[str, Target, int], str]) -> str:
        return "\n".join(
            f"; kernel {kernel_name(s)}  {s}\n"
            + show(str(emit_kernel(s, target)), target, s.needs_passes)
            for s in specs
        )

    log.dump("llvm", lambda: listing(jit.optimised_text))
    log.dump("asm", lambda: listing(jit.assembly))
