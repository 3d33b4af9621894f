"""A variant: code for all sizes that satisfy the guards of one compilation.

In: a template, and code without an image. Out: executables for given sizes, which share code,
packed parameters and working memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..ir.sized import Template, has_symbolic_bind
from ..records import dataclass
from ..symbolic import Scope, Size, guard_function
from ..types import TensorType
from .binding import Binding, PackedStore
from .executable import Code, Executable
from .split_batch import SplitBatch

# Executables of one variant that are kept, each for its sizes: a few kilobytes of tables, and the
# memory of its instances.
MAX_SIZES = 64


@dataclass(frozen=True)
class Signature:
    """Types of inputs in which some sizes are symbols; one symbol may stand in several places."""

    types: tuple[TensorType, ...]

    def sizes_of(self, types: Sequence[TensorType]) -> dict[str, int] | None:
        """The values of the symbols for these types; None where the types do not fit."""
        found: dict[str, int] = {}
        for mine, given in zip(self.types, types, strict=True):
            if mine.dtype != given.dtype or mine.ndim != given.ndim:
                return None
            for wanted, size in zip(mine.dims, given.dims):
                if isinstance(wanted, Size):
                    if found.setdefault(str(wanted), size) != size:
                        return None
                elif wanted != size:
                    return None
        return found


class Variant:
    """Executables for the sizes that satisfy the guards.

    samples  the symbol or number of samples that run one after the other; None where a call runs
             the whole batch
    """

    def __init__(
        self,
        signature: Signature,
        scope: Scope,
        template: Template,
        code: Callable[[object], Code],
        samples: Size | int | None = None,
    ) -> None:
        self.signature = signature
        self.scope = scope
        self.guards = tuple(scope.guards.values())
        self.holds = guard_function(scope)
        self._template = template
        self._code = code
        self._samples = samples
        self._known: OrderedDict[tuple[int, ...], Executable] = OrderedDict()
        self._shared: Binding | None = None
        self._is_bound_by_size = has_symbolic_bind(template.plan.graph)
        scope.close()

    def sizes_for(self, types: Sequence[TensorType]) -> tuple[int, ...] | None:
        """The symbols' values for these types, in order; None where a guard does not hold."""
        found = self.signature.sizes_of(types)
        if found is None:
            return None
        sizes = tuple(found[name] for name in self.scope.symbols)
        return sizes if self.holds(*sizes) else None

    def at(self, sizes: tuple[int, ...]) -> Executable | SplitBatch:
        """The executable for sizes that :meth:`sizes_for` gave, to be bound.

        Raises ShapeError for what no memory holds.
        """
        executable = self._known.get(sizes)
        if executable is None:
            plan, image = self._template.at(sizes)
            executable = Executable(plan, self._code(image))
            self._known[sizes] = executable
            while len(self._known) > MAX_SIZES:
                self._known.popitem(last=False)
        if self._samples is None:
            return executable
        names = list(self.scope.symbols)
        samples = self._samples
        count = sizes[names.index(str(samples))] if isinstance(samples, Size) else samples
        return SplitBatch(executable, count)

    def bind(
        self,
        executable: Executable | SplitBatch,
        params: Mapping[str, np.ndarray],
        store: PackedStore,
    ) -> None:
        """Bind an executable of this variant; parameters are looked at once for all sizes."""
        run = executable.one if isinstance(executable, SplitBatch) else executable
        if self._is_bound_by_size:
            run.bind(params, store)
            return
        if self._shared is None or self._shared.store is not store:
            run.bind(params, store)
            self._shared = run.binding
        else:
            run.bind_as(self._shared)
