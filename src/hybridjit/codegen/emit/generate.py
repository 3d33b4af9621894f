"""Generation of machine code from a Plan: choose, emit, load. The entry point of ``codegen``."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..._core.async_safety import holding, uncollected
from ..._core.compile_log import CompileLog
from ..._core.config import config
from ..._core.fork_locks import Rank, held_at_fork
from ..._core.frozen import dataclass
from ..._core.lazy import Late
from ..._core.symbolic import Branch, Scope, hint_of, values_function
from ..._core.target import Target
from ...errors import MXNetError
from ...ir.plan import Plan
from ...ir.plan_image import Image, Packed
from ...ir.prologue import Condition, Prologue, RunPrologue
from ...ir.sized import Sized, SizedImage, Template
from ..call import Call, Decide, Setting
from ..choices import Choices, Made, Note
from ..kinds import choose
from ..llvm.library import Library
from ..spec import KernelSpec
from ..targets import find_target
from .driver import emit_driver, load_driver
from .fetch import Part, Wanted, fetch_objects
from .keys import object_key
from .link import link, link_template
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


# Most templates per variant: each takes 0.1 to 1 MB; making it again takes 15 ms.
_MOST_TEMPLATES = 64
AnySpec: TypeAlias = "KernelSpec | StoredSpec"
# A template, and the function that makes its code for an image.
_Entry: TypeAlias = "tuple[Template, Callable[[SizedImage], Code]]"


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
            chosen.append(_choose(plan, log, target, winograd, decide))
            yield chosen[-1].request

    kernels = loaded(requests(), target, processes, is_large)
    return [(one.plan, _code(one, kernels, target)) for one in chosen]


class _Class:
    """Sizes for which kernels are chosen by the same comparisons, and their templates.

    There is a template for each combination of choices that change bits. ``steps`` as in
    :class:`Choices`.
    """

    def __init__(self, scope: Scope, branch: Branch, notes: Sequence[Note]) -> None:
        self._scope, self.branch = scope, branch
        self.steps: Mapping[int, Sequence[Made]] = {}
        self.text = f"{branch}; {[str(note.numbers) for note in notes]}"
        self.templates: dict[tuple[Hashable, ...], _Entry] = {}
        self._holds = branch.recorded()
        self._notes = [*{note.same: note for note in notes}.values()]
        symbols = tuple(scope.symbols)
        self._numbers = [values_function(scope, symbols, [note.numbers]) for note in self._notes]
        self.is_native = False
        self.only: Template | None = None  # whose prologue tests the conditions of the class
        self._prologue: Prologue | None = None

    def key(self, sizes: tuple[int, ...]) -> tuple[Hashable, ...]:
        """A key that is equal for sizes with the same template."""
        return tuple(self._key_of(note, sizes) for note in range(len(self._notes)))

    def _key_of(self, number: int, sizes: tuple[int, ...]) -> Hashable:
        """The key of one note."""
        return self._notes[number].key(tuple(self._numbers[number](*sizes)[0]))

    def find(self, sizes: tuple[int, ...]) -> tuple[Hashable, ...] | None:
        """The key of sizes that satisfy the guards of the scope; None if they do not belong to the
        class.
        """
        return self.key(sizes) if self._holds(*sizes) else None

    def use_native(self, run: RunPrologue, template: Template) -> None:
        """Test the guards of the class and the scope by machine code, where possible.

        The same code computes the values of the template if it is the only one of the class and no
        choice needs Python.
        """
        self.is_native = True
        scope, branch = self._scope, self.branch
        guards = (*scope.guards.values(), *branch.guards)
        conditions = [Condition(guard.left, guard.test, guard.right) for guard in guards]
        decisions = (*scope.decisions.values(), *branch.decisions)
        by_code = [decision for decision in decisions if decision.chosen is not None]
        conditions += [Condition(d.chosen, "==", 1 if d.result else 0) for d in by_code]
        self._decisions = [decision for decision in decisions if decision.chosen is None]
        if not self._notes and not self._decisions:
            template.use_native(run, conditions)
            self.only = template
            return
        operands = [size for decision in self._decisions for size in decision.sizes]
        chosen = [note.by_code.number for note in self._notes if note.by_code is not None]
        with suppress(MXNetError):
            self._prologue = Prologue(scope, conditions, [*operands, *chosen], run)

    def find_natively(self, sizes: tuple[int, ...]) -> tuple[Hashable, ...] | None:
        """As :meth:`find`, for any sizes; also None if machine code cannot decide."""
        found = self._prologue(sizes) if self._prologue else None
        if found is None:
            return None
        values = iter(found.tolist())
        for decision in self._decisions:
            if not decision.holds([*islice(values, len(decision.sizes))]):
                return None
        key = []
        for number, note in enumerate(self._notes):
            known = None if note.by_code is None else note.by_code.key_of(next(values))
            key.append(self._key_of(number, sizes) if known is None else known)
        return tuple(key)


class Templates:
    """A plan with the symbolic sizes of a scope, and its templates for given sizes.

    Comparisons that choose kernels are not guards of the plan: they separate classes of sizes,
    whose templates share the plan. For the sizes of the compiling call a template is made at once,
    for others on demand. So kernels are compiled only for sizes that are called, and results have
    the bits that a separate compilation for their size would give.
    """

    def __init__(
        self, plan: Plan, log: CompileLog, scope: Scope, winograd: bool | str, processes: int = 1
    ) -> None:
        self.plan = plan
        self._scope, self._winograd, self._processes = scope, winograd, processes
        self._target = find_target(config.target)
        self._memory: dict[Hashable, Any] = {}
        self.made = 0
        self._latest: tuple[tuple[int, ...], _Entry] | None = None  # each call looks it up twice
        self._classes: list[_Class] = []  # most recently used first
        self.entry(tuple(int(hint_of(symbol)) for symbol in scope.symbols.values()), log)

    def conditions(self) -> list[str]:
        """The comparisons that each class of sizes satisfies, most recently used class first."""
        return [str(each.branch) for each in self._classes]

    def entry(self, sizes: tuple[int, ...], log: CompileLog | None = None) -> _Entry:
        """The template for these sizes, and the function that makes the code of an image.

        Kernels are compiled unless they exist.
        """
        latest = self._latest
        if latest is None or latest[0] != sizes:
            latest = self._latest = (sizes, self._found(sizes, log))
        return latest[1]

    prepare = entry

    def known(self, sizes: tuple[int, ...]) -> tuple[Template, Sized] | None:
        """The template and its integers for any sizes, if machine code computes them; the guards of
        the scope hold then.
        """
        for each in self._classes:
            made = each.only.by_machine_code(sizes) if each.only is not None else None
            key = each.find_natively(sizes) if each.only is None else () if made else None
            if key in each.templates:
                entry = self._used(each, key)
                self._latest = (sizes, entry)
                return entry[0], made or entry[0].evaluated(sizes)
        return None

    def _found(self, sizes: tuple[int, ...], log: CompileLog | None) -> _Entry:
        within: _Class | None = None
        for each in self._classes:
            key = each.find(sizes)
            if key in each.templates:
                return self._used(each, key)
            if key is not None:
                within = within or each
        return self._made(sizes, log or CompileLog((), name=self.plan.graph.name), within)

    def _used(self, used: _Class, key: tuple[Hashable, ...]) -> _Entry:
        """The template of a key; it becomes the most recently used one.

        Machine code computes its integers from the second size on: many templates have one size.
        """
        if len(used.templates) > 1 or self._classes[0] is not used:
            self._use(used, key)
        entry = used.templates[key]
        if not used.is_native:
            used.use_native(self._run, entry[0])
        if not entry[0].is_native:
            entry[0].use_native(self._run)
        return entry

    def _use(self, used: _Class, key: tuple[Hashable, ...]) -> None:
        """Move a template to the end of the templates of its class, and the class to the front."""
        used.templates[key] = used.templates.pop(key)
        if self._classes[0] is not used:
            self._classes = [used, *(each for each in self._classes if each is not used)]

    def _made(self, sizes: tuple[int, ...], log: CompileLog, within: _Class | None) -> _Entry:
        """A new template. Steps are chosen again only where it differs from those of ``within``,
        a class that these sizes belong to: for ResNet-18 this takes 8 ms instead of 21 ms.
        """
        steps = within.steps if within else {}
        with self._scope.branch(sizes, within.branch if within else None) as branch:
            values = dict(zip(self._scope.symbols, sizes))
            choices = Choices(self._scope, values, self._memory, steps)
            chosen = _choose(self.plan, log, self._target, self._winograd, None, choices)
            template = link_template(self.plan, chosen.calls, self._scope)
        entry = template, self._loader(chosen)
        found = _Class(self._scope, branch, choices.notes)
        found = next((each for each in self._classes if each.text == found.text), found)
        found.templates[found.key(sizes)] = entry
        if found.only is not None:  # released
            found.only, found.is_native = None, False
        found.steps = choices.steps
        self.made += 1
        self._classes = [found, *(each for each in self._classes if each is not found)]
        self._release()
        return entry

    def _release(self) -> None:
        """Release the least recently used template if there are too many."""
        if sum(len(each.templates) for each in self._classes) > _MOST_TEMPLATES:
            last = self._classes[-1]
            del last.templates[next(iter(last.templates))]
            if not last.templates:
                self._classes = self._classes[:-1]

    def _loader(self, chosen: _Chosen) -> Callable[[SizedImage], Code]:
        kernels = loaded([chosen.request], self._target, self._processes)
        own = {spec: kernels[spec] for spec in chosen.request.specs}
        packs = _PACKERS[self._target].pack if chosen.request.packs else _pack
        driver, addresses = _DRIVERS[self._target], _addresses(own)
        writer, self._run = _WRITERS[self._target]
        return partial(Code, self._target, chosen.calls, own, driver, packs, addresses, writer)


def _choose(
    plan: Plan, log: CompileLog, target: Target, winograd: bool | str, decide: Decide | None,
    choices: Choices | None = None,
) -> _Chosen:  # fmt: skip
    calls = choose_calls(plan, target, winograd, log, decide, choices)
    log.dump("spec", lambda: spec_text(plan, calls, target))
    specs = tuple(dict.fromkeys(call.spec for row in calls for call in row))
    _dump_code(specs, target, log)
    packs = packs_of(plan, calls)
    return _Chosen(plan, calls, Request(specs, log, packs, choices is not None))


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
