"""Templates of a plan with symbolic sizes, by classes of sizes for which kernels are chosen alike.

Input: a plan, the scope of its sizes, and the sizes of a call. Output: the template that serves
them, and the function that makes its code. Machine code looks up the class of further sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeAlias

from ..._core.compile_log import CompileLog
from ..._core.config import config
from ..._core.symbolic import Branch, Scope, hint_of, values_function
from ...errors import MXNetError
from ...ir.plan import Plan
from ...ir.prologue import Condition, Prologue, RunPrologue
from ...ir.sized import SizedBind
from ...ir.template import Sized, SizedImage, Template
from ..choices import Choices, Made, Note
from ..targets import find_target
from .generate import Code, choose_for, loaded_code
from .link import link_template

# Most templates per variant: each takes 0.1 to 1 MB; making it again takes 15 ms.
_MOST_TEMPLATES = 64
# A template, and the function that makes its code for an image.
_Entry: TypeAlias = "tuple[Template, Callable[[SizedImage], Code]]"


class _Class:
    """Sizes for which kernels are chosen by the same comparisons, and their templates.

    There is a template for each combination of choices that change bits. ``steps`` as in
    :class:`Choices`.
    """

    def __init__(self, scope: Scope, branch: Branch, notes: Sequence[Note]) -> None:
        self._scope, self.branch = scope, branch
        self.steps: Mapping[int, Sequence[Made]] = {}
        self.text = _text_of(branch, notes)
        self.templates: dict[tuple[Hashable, ...], _Entry] = {}
        self._holds = branch.recorded()
        self.notes = [*{note.same: note for note in notes}.values()]
        symbols = tuple(scope.symbols)
        self._numbers = [values_function(scope, symbols, [note.numbers]) for note in self.notes]
        self.is_native = False
        self.only: Template | None = None  # whose prologue tests the conditions of the class
        self._prologue: Prologue | None = None

    def key(self, sizes: tuple[int, ...]) -> tuple[Hashable, ...]:
        """A key that is equal for sizes with the same template."""
        return tuple(self._key_of(note, sizes) for note in range(len(self.notes)))

    def _key_of(self, number: int, sizes: tuple[int, ...]) -> Hashable:
        """The key of one note."""
        return self.notes[number].key(tuple(self._numbers[number](*sizes)[0]))

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
        if not self.notes and not self._decisions:
            template.use_native(run, conditions)
            self.only = template
            return
        operands = [size for decision in self._decisions for size in decision.sizes]
        chosen = [note.by_code.number for note in self.notes if note.by_code is not None]
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
        for number, note in enumerate(self.notes):
            known = None if note.by_code is None else note.by_code.key_of(next(values))
            key.append(self._key_of(number, sizes) if known is None else known)
        return tuple(key)


def _text_of(branch: Branch, notes: Sequence[Note]) -> str:
    """The branch and its notes as text; equal for all sizes of one class."""
    return f"{branch}; {[str(note.numbers) for note in notes]}"


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
        self._bind = SizedBind(plan.graph)
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
        a class that these sizes belong to: for ResNet-18 this takes 5 ms instead of 21 ms.
        """
        steps = within.steps if within else {}
        with self._scope.branch(sizes, within.branch if within else None) as branch:
            values = dict(zip(self._scope.symbols, sizes))
            choices = Choices(self._scope, values, self._memory, steps)
            chosen = choose_for(self.plan, log, self._target, self._winograd, None, choices)
            template = link_template(self.plan, chosen.calls, self._scope, self._bind)
        code_of, self._run = loaded_code(chosen, self._target, self._processes)
        entry = template, code_of
        text = _text_of(branch, choices.notes)
        found = next((each for each in self._classes if each.text == text), None)
        found = found or _Class(self._scope, branch, choices.notes)
        found.templates[tuple(map(choices.key_of, found.notes))] = entry
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
