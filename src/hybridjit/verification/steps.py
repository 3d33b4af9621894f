"""Values of a graph computed by NumPy, and comparison of compiled steps with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InternalError
from ..ir.graph import Graph, Use, Value, uses_of
from ..ir.interpret import run_value
from ..runtime.checking import Checker, Ran, describe, is_random, lost_by
from ..runtime.executable import Executable
from ..runtime.instance import Instance
from .verdict import Checked, Gap, Special, gap_between, special_in

Arrays = Mapping[str, np.ndarray]
Key = tuple[str, int]  # name of a value, and index of its result
Results = Mapping[Key, np.ndarray]

# Factor on the rounding errors of float32 by precision of products: bfloat16 has 16 bits fewer;
# int8 rounds to 1/255 of a range at each layer.
_LOSES = {"float32": 1.0, "bfloat16": 2.0**16, "int8": 2.0**17}


class Reference:
    """All values of a graph, computed by NumPy operator by operator.

    given       results to use without computing: random draws or saved values of a compiled call
    ``values`` omits results that depend on random draws, unless the draws are given.
    """

    def __init__(self, graph: Graph, arrays: Arrays, given: Results | None = None) -> None:
        self.graph = graph
        self._arrays, self._given = arrays, given or {}
        self._results = _run(graph, arrays, self._given)
        self.values = {(use.value.name, use.index): a for use, a in self._results.items()}

    def output_of(self, use: Use) -> np.ndarray | None:
        """A result; None if it depends on random draws."""
        return self._results.get(use)

    def first_special(self, backward: frozenset[Value] | None = None) -> Special | None:
        """The first value with a NaN or infinity; ``backward`` are the values of backward."""
        odd: set[Value] = set()
        for value in self.graph.values:
            part = "" if backward is None else "backward" if value in backward else "forward"
            made = [self._results[use] for use in uses_of(value) if use in self._results]
            special = special_in(part, value.describe(), made, value.source)
            if special is not None:
                if not any(use.value in odd for use in value.inputs):
                    return special
                odd.add(value)
        return None

    def gap(self, key: Key, found: np.ndarray) -> Gap | None:
        """Difference of ``found`` from a value; None if the value is unknown or of another
        shape."""
        right = self.values.get(key)
        return None if right is None else _gap_in_some_layout(found, right)

    def with_rounding(self, gap: Gap, use: Use, precision: str = "float32") -> Gap:
        """The gap of an output with the rounding errors of float32, or of bfloat16, there."""
        lost = _LOSES[precision] * lost_by(self._results[use], self._wide[use])
        return replace(gap, coarse=max(gap.coarse, lost))

    @cached_property
    def _wide(self) -> dict[Use, np.ndarray]:
        """The same values in double precision."""
        return _run(self.graph, _widened(self._arrays), _widened(self._given))


def _run(graph: Graph, arrays: Arrays, given: Results) -> dict[Use, np.ndarray]:
    """The results of each value that does not depend on random draws."""
    results = {Use(v): arrays[v.name] for v in (*graph.inputs, *graph.params)}
    for value in graph.values:
        if value.op is None:
            continue
        known = {u: given[u.value.name, u.index] for u in uses_of(value) if _is_given(u, given)}
        if not value.op.is_random and all(use in results for use in value.inputs):
            made = run_value(value, [results[use] for use in value.inputs])
            results.update(zip(uses_of(value), made))
        results.update(known)
    return results


def _is_given(use: Use, given: Results) -> bool:
    array = given.get((use.value.name, use.index))
    return array is not None and array.shape == use.type.dims


def _widened(arrays: Mapping[Any, np.ndarray]) -> dict[Any, np.ndarray]:
    return {k: a.astype(np.float64) if a.dtype == np.float32 else a for k, a in arrays.items()}


def _gap_in_some_layout(found: np.ndarray, right: np.ndarray) -> Gap | None:
    """Gap in either layout: passes keep a value's name when they put channels last. None if
    reshaped."""
    forms = [found, np.moveaxis(found, -1, 1)] if found.ndim > 2 else [found]
    gaps = [gap_between(form, right) for form in forms if form.shape == right.shape]
    return min(gaps, key=lambda gap: gap.relative, default=None)


class Stepped:
    """One checked run of an executable, step by step on one thread.

    outputs     results of the run; the last ``saved`` of them are inputs of backward
    problem     a violation of the memory rules by a step, or an empty string
    """

    def __init__(self, executable: Executable, inputs: Sequence[np.ndarray], part: str) -> None:
        assert executable.binding is not None
        self.part = part
        self.problem = ""
        self._checker = Checker(executable, Instance(executable, executable.binding, 1), inputs)
        self._runs = list(self._run())
        self.outputs = [output.copy() for output in self._checker.outputs]
        self.saved = executable.plan.graph.purpose.saved

    def _run(self) -> Iterator[Ran]:
        try:
            yield from self._checker.steps()
        except InternalError as error:
            self.problem = str(error)

    @property
    def drawn(self) -> dict[Key, np.ndarray]:
        """Random draws, and the other results of the steps that draw."""
        return {
            (use.value.name, use.index): found
            for ran in self._runs
            if is_random(ran.step)
            for use, found in zip(ran.step.group.results, ran.found)
        }

    def first_special(self) -> Special | None:
        """The first step that makes a NaN or an infinity from finite operands."""
        for ran in self._runs:
            if all(np.isfinite(x).all() for x in ran.reads if x.dtype.kind == "f"):
                special = special_in(self.part, describe(ran.step), ran.found, _source(ran))
                if special is not None:
                    return special
        return None

    def checked(self, reference: Reference, tolerance: float) -> Iterator[Checked]:
        """Each step compared with its own references, and with the original graph."""
        for ran in self._runs:
            step = ran.step
            known = [
                reference.gap((use.value.name, use.index), found)
                for use, found in zip(step.group.results, ran.found)
                if step.group.kind != "copy"
            ]
            what = ", ".join(value.describe() for value in step.group.members)
            eager = _worst(gap for gap in known if gap is not None)
            own = self._own(ran, tolerance)
            yield Checked(self.part, step.number, step.kind, what, _source(ran), own, eager)

    def _own(self, ran: Ran, tolerance: float) -> Gap | None:
        if is_random(ran.step):
            return None
        gaps = [gap_between(f, w) for f, w in zip(ran.found, ran.wanted)]
        if self.part and any(gap.exceeds(tolerance) for gap in gaps):
            lost = self._checker.rounding(ran)
            gaps = [replace(gap, coarse=max(gap.coarse, most)) for gap, most in zip(gaps, lost)]
        return _worst(gaps)


def _source(ran: Ran) -> str:
    return next((v.source for v in ran.step.group.members if v.source), "")


def _worst(gaps: Iterable[Gap]) -> Gap | None:
    return max(gaps, key=lambda gap: gap.relative - gap.coarse, default=None)
