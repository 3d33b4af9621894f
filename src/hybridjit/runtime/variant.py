"""A variant: code for all sizes that satisfy the guards of one compilation.

Input: the templates of one compilation. Output: executables for given sizes, which share code,
packed parameters and scratch memory.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from .._core.config import config
from .._core.lazy import Late
from .._core.symbolic import (
    Decision,
    Guard,
    Scope,
    Size,
    guard_function,
    hint_of,
    matching_function,
)
from .._core.types import TensorType
from ..errors import InternalError, MXNetError
from ..ir.plan import Plan
from ..ir.sized import SizedPlan, bind_symbols
from .binding import Binding, PackedStore
from .compile_stats import add_seconds
from .compile_stats import count as count_one
from .executable import Executable
from .instance import Code
from .sized_call import SHARED_FROM, Pattern, SizedCall
from .split_batch import SplitBatch
from .workspace import Turns

if TYPE_CHECKING:
    import logging

    from ..ir.template import Sized, SizedImage, Template
else:
    logging = Late("logging")  # for a rare warning

# Most variants per graph. If they have served fewer than twice as many signatures, the code depends
# too much on the sizes, and each signature is compiled separately.
MAX_VARIANTS = 16
# A size remains constant after this number of variants pinned it; and the smallest size that is
# counted: a small size may be pinned by chance, because it equals another number.
_MOST_PINS, _COUNTED_FROM = 2, 16
# Channels of a picture, and the least height and width if they are the last axis.
_COLOURS, _LEAST_SIDE = 3, 16
# Classes of sizes in one variant beyond which a warning names the latest comparisons.
_MANY_CLASSES = 16
# Latest signatures that are compared to find the sizes that vary.
_HISTORY = 16
_DTYPE, _SHAPE = attrgetter("dtype"), attrgetter("shape")
BUGS = (InternalError, TypeError, ValueError, AttributeError, ArithmeticError, LookupError)


class NotServedError(Exception):
    """A graph that declares symbolic sizes does not admit these sizes."""


def share_memory(executable: Executable, turns: Turns) -> None:
    """Share the scratch memory of an executable that needs much. Only before its first call."""
    if executable.room.nbytes >= SHARED_FROM:
        executable.take_turns(turns)


def warn_of_bug(name: str, error: BaseException) -> None:
    """Warn that a graph is compiled without symbolic sizes because of this error."""
    logging.getLogger("hybridjit").warning(
        "%s is compiled for each signature alone, because of a bug in hybridjit: %r",
        name, error, exc_info=True,
    )  # fmt: skip


class Signature:
    """Types of inputs in which some sizes are symbols; ``names`` are those of all symbols."""

    def __init__(self, types: tuple[TensorType, ...], names: Iterable[str]) -> None:
        self.types = types
        self._dtypes = [t.dtype for t in types]
        self._sizes_in = matching_function([t.dims for t in types], [*names])

    def sizes_of(self, types: Sequence[TensorType]) -> tuple[int, ...] | None:
        """The values of the symbols for these types; None if the types do not fit."""
        if [*map(_DTYPE, types)] != self._dtypes:
            return None
        return self._sizes_in([*map(_SHAPE, types)])


class Templates(Protocol):
    """A plan with symbolic sizes, and its instances for sizes that satisfy the guards."""

    @property
    def plan(self) -> Plan: ...
    @property
    def made(self) -> int: ...
    def conditions(self) -> list[str]: ...
    def prepare(self, sizes: tuple[int, ...]) -> None: ...
    def known(self, sizes: tuple[int, ...]) -> tuple[Template, Sized] | None: ...
    def entry(self, sizes: tuple[int, ...]) -> tuple[Template, Callable[[SizedImage], Code]]: ...


class Variant:
    """Executables for the sizes that satisfy the guards.

    samples  number of samples that run one after the other, or its symbol; None if a call runs
             the whole batch
    """

    def __init__(
        self,
        signature: Signature,
        scope: Scope,
        templates: Templates,
        samples: Size | int | None = None,
    ) -> None:
        self.signature = signature
        self.scope = scope
        self.guards: tuple[Guard | Decision, ...] = (
            *scope.guards.values(),
            *scope.decisions.values(),
        )
        self.holds = guard_function(scope)
        self._templates = templates
        self._samples = samples
        self._known: WeakValueDictionary[tuple[int, ...], Executable] = WeakValueDictionary()
        self.served = self.used = 0  # count of signatures; number of the latest use
        self._has_warned = False
        self._turns = Turns([])
        self._bindings: WeakValueDictionary[tuple[int, ...], Binding] = WeakValueDictionary()
        symbols = list(scope.symbols)
        self._bound_by = [*map(symbols.index, bind_symbols(templates.plan.graph))]
        scope.close()

    def sizes_for(self, types: Sequence[TensorType]) -> tuple[int, ...] | None:
        """The symbols' values for these types, in order; None if a guard does not hold."""
        sizes = self.signature.sizes_of(types)
        if sizes is None:
            return None
        is_served = self.knows(sizes) or self.holds(*sizes) and self.serves(sizes)
        return sizes if is_served else None

    def knows(self, sizes: tuple[int, ...]) -> bool:
        """Whether machine code determines that the guards hold and that kernels exist."""
        return self._templates.known(sizes) is not None

    def serves(self, sizes: tuple[int, ...]) -> bool:
        """Whether kernels exist for sizes that satisfy the guards.

        The first sizes of a class compile them. After an error, the result is False, and the sizes
        need a separate compilation.
        """
        start, made = time.perf_counter(), self._templates.made
        try:
            self._templates.prepare(sizes)
        except MXNetError:
            return False
        except BUGS as error:
            warn_of_bug(self._templates.plan.graph.name, error)
            return False
        if self._templates.made > made:
            add_seconds(time.perf_counter() - start)
            count_one("classes")
            self._explain(sizes)
        return True

    def _explain(self, sizes: tuple[int, ...]) -> None:
        """Print the comparisons on which new kernels depend; warn once of many classes."""
        name, conditions = self._templates.plan.graph.name, self._templates.conditions()
        values = ", ".join(f"{symbol} = {size}" for symbol, size in zip(self.scope.symbols, sizes))
        if config.explain:
            print(f"{name}: kernels for {values}: {conditions[0]}", file=sys.stderr)
        if len(conditions) > _MANY_CLASSES and not self._has_warned:
            self._has_warned = True
            logging.getLogger("hybridjit").warning(
                "%s has kernels for %d classes of sizes: %s need %s. See docs/howto/"
                "varying-sizes.md.", name, len(conditions), values, conditions[0],
            )  # fmt: skip

    def at(self, sizes: tuple[int, ...]) -> Executable | SplitBatch:
        """The executable for sizes from :meth:`sizes_for`; the caller binds it.

        Raises ShapeError for sizes beyond any memory.
        """
        executable = self._known.get(sizes)
        if executable is None:
            self.served += 1
            executable = self._known[sizes] = self.whole_at(sizes)
        if self._samples is None:
            return executable
        names = list(self.scope.symbols)
        samples = self._samples
        count = sizes[names.index(str(samples))] if isinstance(samples, Size) else samples
        return SplitBatch(executable, count)

    def whole_at(self, sizes: tuple[int, ...]) -> Executable:
        """A new executable for these sizes."""
        template, code = self._templates.entry(sizes)
        plan, image = template.at(sizes)
        executable = Executable(plan, code(image))
        share_memory(executable, self._turns)
        if template.pattern is None:
            template.pattern = Pattern(template, executable)
        return executable

    def call_for(self, types: Sequence[TensorType]) -> Executable | SplitBatch | SizedCall | None:
        """A callable for these types, which the caller binds; None if a guard does not hold.

        It is an executable for the first sizes of a template, and for templates whose calls run
        more than kernels. Raises ShapeError for sizes beyond any memory.
        """
        sizes = self.signature.sizes_of(types)
        if sizes is None:
            return None
        known = self._templates.known(sizes)
        if known is not None:
            template, made = known
        elif self.holds(*sizes) and self.serves(sizes):
            template, _ = self._templates.entry(sizes)
            made = template.evaluated(sizes)
        else:
            return None
        pattern = template.pattern
        if not isinstance(pattern, Pattern) or not pattern.is_native or self._samples is not None:
            return self.at(sizes)
        self.served += 1
        return SizedCall(template, pattern, sizes, made, self._turns, self.whole_at)

    def share_turns(self, other: Variant) -> None:
        """Share scratch memory with another variant. Only before the first executable is made."""
        self._turns = other._turns

    def reason(self, types: Sequence[TensorType], names: Sequence[str]) -> str:
        """The first guard that these types do not satisfy, with the axis of each symbol."""
        sizes = self.signature.sizes_of(types)
        if sizes is None:
            return "an axis or an element type differs that was the same before"
        found = dict(zip(self.scope.symbols, sizes))
        failed = next((g for g in self.guards if not g.is_satisfied(found)), "a choice of kernels")
        axes = [
            f"{size} is axis {axis} of '{name}', {found[str(size)]} now"
            for name, mine in zip(names, self.signature.types)
            for axis, size in enumerate(mine.dims)
            if isinstance(size, Size)
        ]
        return f"{failed} does not hold ({', '.join(axes)})"

    @property
    def pinned(self) -> frozenset[str]:
        """The symbols that guards restrict to one value: making them symbolic gains nothing."""
        atoms = self.scope.atoms
        return frozenset(a.name for a in atoms if a.kind == "symbol" and a.low == a.high)

    def bind(
        self,
        executable: Executable | SplitBatch | SizedCall,
        params: Mapping[str, np.ndarray],
        store: PackedStore,
    ) -> None:
        """Bind an executable of this variant, with the binding of an earlier one if possible."""
        if not self.bind_as_before(executable, store):
            run, key = self._to_bind(executable)
            run.bind(params, store)
            assert run.binding is not None
            self._bindings[key] = run.binding

    def bind_as_before(
        self, executable: Executable | SplitBatch | SizedCall, store: PackedStore
    ) -> bool:
        """Bind an executable with the binding of an earlier one; return whether there was one.

        Sizes that do not affect any value computed from parameters share one binding.
        """
        run, key = self._to_bind(executable)
        known = self._bindings.get(key)
        if known is None or known.store is not store:
            return False
        run.bind_as(known)
        return True

    def _to_bind(
        self, executable: Executable | SplitBatch | SizedCall
    ) -> tuple[Executable | SizedCall, tuple[int, ...]]:
        """The executable to bind, and the sizes on which its bound values depend."""
        run = executable.one if isinstance(executable, SplitBatch) else executable
        if isinstance(run, SizedCall):
            sizes = run.sizes
        else:
            assert isinstance(run.plan, SizedPlan)
            sizes = tuple(run.plan.values.values())
        return run, tuple(sizes[place] for place in self._bound_by)


V = TypeVar("V", bound=Variant)
T = TypeVar("T")
# Which sizes are symbolic: those that vary (None), none, all, or the axes of inputs by name.
Dynamic: TypeAlias = "bool | Mapping[str, Sequence[int]] | None"
Shapes = tuple[tuple[int, ...], ...]
_USED = attrgetter("used")


class Variants(Generic[V]):
    """The variants of one graph, and the input sizes that vary.

    A size is symbolic once two signatures differ in it, or from the first signature on if it is
    declared by ``dynamic``, an option of ``hybridize``. Sizes that were equal in all previous
    signatures share a symbol.
    """

    most_unnoticed = 3

    def __init__(self, names: Sequence[str], dynamic: Dynamic = None) -> None:
        self._names = list(names)
        self._dynamic = dynamic
        self._seen: list[Shapes] = []
        self._dtypes: list[np.dtype | None] = []
        self._uses = count()
        self._has_said = False
        self._pins: Counter[tuple[int, int]] = Counter()
        self.variants: list[V] = []

    def find(self, types: Sequence[TensorType]) -> tuple[V, tuple[int, ...]] | None:
        """A variant that serves these types, and its sizes for them."""
        return self._first(lambda variant: variant.sizes_for(types))

    def call_for(self, types: Sequence[TensorType]) -> tuple[V, Any] | None:
        """A variant that serves these types, and its callable for them."""
        return self._first(lambda variant: variant.call_for(types))

    def _first(self, find: Callable[[V], T | None]) -> tuple[V, T] | None:
        """The most recently used variant for which ``find`` has a result, with the result."""
        variants = self.variants
        if len(variants) > 1:
            variants = sorted(variants, key=_USED, reverse=True)
        for variant in variants:
            found = find(variant)
            if found is not None:
                variant.used = next(self._uses)
                return variant, found
        return None

    def reason(self, types: Sequence[TensorType]) -> str:
        """The reason why the newest variant does not serve these types.

        The reason is returned once, when ``most_unnoticed`` variants exist; "" before and after.
        """
        if len(self.variants) < self.most_unnoticed or self._has_said:
            return ""
        self._has_said = True
        return self.variants[-1].reason(types, self._names)

    def compiled(
        self,
        types: Sequence[TensorType],
        compile_variant: Callable[[Scope, list[TensorType]], V],
        name: str,
    ) -> V | None:
        """A new variant for the sizes that vary; None if none does, or if it cannot be compiled.

        In the latter case compiling the sizes of this call raises the error for these sizes.
        """
        reason = self.reason(types)
        symbolic = self.symbolic(types)
        if symbolic is None:
            return None
        if reason:
            logging.getLogger("hybridjit").warning(
                "%s is compiled for more than %d classes of sizes: %s. See docs/howto/"
                "varying-sizes.md.", name, self.most_unnoticed, reason,
            )  # fmt: skip
        try:
            variant = compile_variant(*symbolic)
        except BUGS as error:
            warn_of_bug(name, error)
            self.give_up()
            return None
        except MXNetError:
            return None
        if config.explain:
            given = ", ".join(f"{n} {t}" for n, t in zip(self._names, variant.signature.types))
            guards = "; ".join(map(str, variant.guards)) or "all sizes"
            print(f"{name}: a variant for {given}: {guards}", file=sys.stderr)
        self.note(types)
        self.add(variant)
        return variant

    def symbolic(self, types: Sequence[TensorType]) -> tuple[Scope, list[TensorType]] | None:
        """The types with symbols for sizes that vary; None if none does."""
        if self._dynamic is False:
            return None
        history = self._with(types)
        axes = self._varying(history)
        if not axes or self._are_narrow():
            return None
        scope = Scope()
        symbols: dict[tuple[int, ...], Size] = {}
        shapes = [list(t.dims) for t in types]
        for i, axis in axes:
            size = types[i].dims[axis]
            if size > 0:
                past = tuple(seen[i][axis] for seen in history)
                if past not in symbols:
                    symbols[past] = scope.symbol(f"s{len(symbols)}", size)
                shapes[i][axis] = symbols[past]  # type: ignore[call-overload]
        if not symbols:
            return None
        return scope, [t.with_shape(tuple(shape)) for t, shape in zip(types, shapes)]

    def add(self, variant: V) -> None:
        """Keep a variant.

        A size that two variants pinned is not made symbolic again. One may pin it by chance,
        because the size equals another size.
        """
        for i, mine in enumerate(variant.signature.types):
            for axis, size in enumerate(mine.dims):
                is_pinned = isinstance(size, Size) and str(size) in variant.pinned
                if is_pinned and hint_of(size) >= _COUNTED_FROM:
                    self._pins[i, axis] += 1
        while len(self.variants) >= MAX_VARIANTS:
            self.variants.remove(min(self.variants, key=_USED))
        variant.used = next(self._uses)
        self.variants.append(variant)

    def give_up(self) -> None:
        """Make no further size symbolic."""
        self._dynamic = False

    def _are_narrow(self) -> bool:
        """Whether the variants serve too few signatures to be worth compiling."""
        served = sum(variant.served for variant in self.variants)
        return len(self.variants) >= MAX_VARIANTS and served < 2 * MAX_VARIANTS

    def note(self, types: Sequence[TensorType]) -> None:
        """Record a compiled signature. Types of a rejected call are not recorded."""
        self._seen = self._with(types)
        self._dtypes = [t.dtype for t in types]

    def _with(self, types: Sequence[TensorType]) -> list[Shapes]:
        """The compiled signatures of the same ranks and types, and this one."""
        shapes: Shapes = tuple(t.dims for t in types)
        are_alike = not self._seen or _ranks(shapes) == _ranks(self._seen[0])
        seen = self._seen if are_alike and [t.dtype for t in types] == self._dtypes else []
        return seen if shapes in seen else [*seen, shapes][-_HISTORY:]

    def _varying(self, history: Sequence[Shapes]) -> list[tuple[int, int]]:
        """Input and axis of each size that is declared dynamic, that differed, or soon will."""
        places = [(i, axis) for i, shape in enumerate(history[0]) for axis in range(len(shape))]
        differing = {
            (i, axis) for i, axis in places if len({seen[i][axis] for seen in history}) > 1
        }
        for i, shape in enumerate(history[-1]):
            sides = _sides(shape, {axis for j, axis in differing if j == i})
            if any((i, axis) in differing for axis in sides):
                differing.update((i, axis) for axis in sides)
        return [
            (i, axis)
            for i, axis in places
            if self._pins[i, axis] < _MOST_PINS
            and ((i, axis) in differing or self._is_named(i, axis))
        ]

    def _is_named(self, i: int, axis: int) -> bool:
        if isinstance(self._dynamic, Mapping):
            return axis in self._dynamic.get(self._names[i], ())
        return self._dynamic is True


def _sides(shape: tuple[int, ...], differing: Collection[int]) -> tuple[int, ...]:
    """The axes of height and width of a batch of images with three channels; () for other shapes.

    Images that differ in one of the two sizes usually also differ in the other. A last axis of
    three is the width of a small map, unless both sides are larger than such maps have.
    """
    if len(shape) != 4:
        return ()
    if shape[1] == _COLOURS and 1 not in differing:
        return 2, 3
    are_colours = shape[3] == _COLOURS and 3 not in differing
    return (1, 2) if are_colours and min(shape[1:3]) >= _LEAST_SIDE else ()


def _ranks(shapes: Shapes) -> tuple[int, ...]:
    return tuple(map(len, shapes))
