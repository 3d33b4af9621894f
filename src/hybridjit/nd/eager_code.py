"""Compiled code of single eager calls: an operator, or the gradients of one, as a graph.

Input: an operator, its attributes and arrays. Output: the results, computed by the kernels of
compiled networks. All calls of an operator with equal attributes, ranks, element types and shapes
of parameters are a :class:`_Family`: the first signature is compiled for its sizes, the following
ones with symbols for the sizes that vary.

Whether a call runs compiled code depends on its operator, attributes and types only. Code for given
sizes and code for symbolic ones have the same bits, so results do not depend on earlier calls.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.async_safety import holding
from .._core.config import config
from .._core.fork_locks import Rank, held_at_fork
from .._core.symbolic import Scope
from .._core.types import TensorType, type_of
from ..compilation import compile_call, compile_call_templates
from ..errors import MXNetError
from ..ir.building import ValueBuilder
from ..ir.graph import Graph, Use, Value, make, uses_of, walk
from ..ir.mode import INFERENCE, Purpose
from ..ir.rewrite import uniquely_named
from ..ir.roles import LEARNED
from ..ops.attrs import Attrs
from ..ops.gradient import gradients
from ..ops.record import OpDef
from ..runtime.binding import PackedStore
from ..runtime.variant import BUGS, Signature, Variant, Variants, share_memory
from ..runtime.workspace import Turns

# Signatures of a process that are kept; one more releases all of them.
KEPT = 1024
_LOCK = held_at_fork(Rank.BINDING)
_BACKWARD = Purpose(goes_back=True)

Arrays = Sequence[np.ndarray]
Types = Sequence[TensorType]
# Results by position: None, the number of a given array, or a new array.
Results = list[Any]


class Made:
    """A graph on given values, of which it reads some.

    reads        numbers of the given values that are its inputs
    results      for each result: None, the number of a given value, or -1 minus an output's number
    is_computed  whether compiled code computes it as the references do
    """

    def __init__(
        self, name: str, given: Sequence[Value], wanted: Sequence[Use | None], purpose: Purpose
    ) -> None:
        numbers = {value: number for number, value in enumerate(given)}
        outputs = dict.fromkeys(use for use in wanted if use and use.value not in numbers)
        places = {use: -1 - number for number, use in enumerate(outputs)}
        self.results = [
            None if use is None else places.get(use, numbers.get(use.value)) for use in wanted
        ]
        values = walk(outputs)
        used = set(values)
        self.reads = [number for value, number in numbers.items() if value in used]
        inputs = tuple(given[number] for number in self.reads)
        self.graph = uniquely_named(Graph(inputs, (), tuple(outputs), name=name, purpose=purpose))
        self.is_computed = bool(outputs) and all(map(_is_computed, values))


def _is_computed(value: Value) -> bool:
    op = value.op
    if op is None:
        return True
    traits = op.traits
    is_exact = not (op.is_random or traits.step or traits.sized_by_values or op.subgraphs)
    return is_exact and all(t.is_known for t in value.types)


class Run:
    """Compiled code of one signature."""

    __slots__ = ("_executable", "_reads", "_results")

    def __init__(self, executable: Any, made: Made) -> None:
        self._executable = executable
        self._reads, self._results = made.reads, made.results

    def __call__(self, arrays: Arrays, places: Mapping[int, np.ndarray] | None = None) -> Results:
        """The results; those at the positions in ``places`` are written there if they fit."""
        reads = [arrays[i] for i in self._reads]
        made = self._written(reads, places) if places else self._executable(reads)
        return [i if i is None or i >= 0 else made[-1 - i] for i in self._results]

    def _written(self, reads: Arrays, places: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        numbers = {i: -1 - n for i, n in enumerate(self._results) if n is not None and n < 0}
        outs: list[np.ndarray | None] = [None] * (1 + max(numbers.values(), default=-1))
        for i, place in places.items():
            if i in numbers:
                outs[numbers[i]] = place
        try:
            outputs = self._executable.results.arrays(reads, outs)
        except MXNetError:  # of another type, or read by this call
            return self._executable(reads)  # type: ignore[no-any-return]
        self._executable.run_into(reads, outputs)
        return outputs  # type: ignore[no-any-return]


class _CallVariant(Variant):
    """Code for all sizes that satisfy the guards; variants of all families share scratch memory."""

    def __init__(self, types: Types, scope: Scope, made: Made, name: str) -> None:
        templates = compile_call_templates(made.graph, scope, name)
        super().__init__(Signature(tuple(types), scope.symbols), scope, templates)
        self._turns = _TURNS
        self._has_warned = True
        self.made = made


_TURNS = Turns([])


class _CallVariants(Variants[_CallVariant]):
    """The variants of a family, without the message about many: eager calls have many sizes."""

    most_unnoticed = sys.maxsize


class _Family:
    """The code of calls that differ in sizes only."""

    def __init__(self, code: CallCode, use: _Use, inputs: int) -> None:
        self._attrs, self._use = code.attrs, use
        self._name = f"eager {use.op.name}"
        self._variants = _CallVariants([f"x{i}" for i in range(inputs)])
        self._store = PackedStore()
        self._has_warned = False

    def _make(self, types: Types) -> Made:
        return _graph_of(self._attrs, self._use, types)

    def run_for(self, types: list[TensorType]) -> Run | None:
        """Code for these types; None where the references compute them.

        They do so too where compiling fails, which the first time is a warning with the reason.
        """
        try:
            return self._found(types)
        except BUGS as error:
            self._warn(types, f"because of a bug in hybridjit: {error!r}", is_bug=True)
        except MXNetError as error:
            self._warn(types, f"because compiling it failed: {error}")
        return None

    def _warn(self, types: list[TensorType], reason: str, is_bug: bool = False) -> None:
        if not self._has_warned:
            self._has_warned = True
            logging.getLogger("hybridjit").warning(
                "%s of %s runs in NumPy, %s",
                self._name, ", ".join(map(str, types)), reason, exc_info=is_bug,
            )  # fmt: skip

    def _found(self, types: list[TensorType]) -> Run | None:
        variants = self._variants
        found = variants.find(types)
        if found is None and variants.compiled(types, self._variant, self._name) is not None:
            found = variants.find(types)
        if found is not None:
            variant, sizes = found
            executable = variant.at(sizes)
            variant.bind(executable, {}, self._store)
            return Run(executable, variant.made)
        made = self._make(types)
        whole = compile_call(made.graph, self._name) if made.is_computed else None
        if whole is None:
            return None
        share_memory(whole, _TURNS)
        whole.bind({}, self._store)
        variants.note(types)
        return Run(whole, made)

    def _variant(self, scope: Scope, sized: list[TensorType]) -> _CallVariant:
        made = self._make(sized)
        if not made.is_computed:
            raise MXNetError(f"{self._name}: the references compute it")
        return _CallVariant(sized, scope, made, self._name)


_families: dict[object, _Family] = {}
# For each signature the dictionary, of a remembered call, that has its code.
_kept: list[dict[_Use, Run | None]] = []


@holding(_LOCK)
def forget() -> None:
    """Release the code of all calls, which other modules may remember."""
    _families.clear()
    while _kept:
        _kept.pop().clear()


@holding(_LOCK)
def _run_for(code: CallCode, use: _Use, types: list[TensorType]) -> Run | None:
    """The code of a family for these types, kept by the call until :func:`forget`."""
    if len(_kept) >= KEPT:
        forget()
    _kept.append(code.runs)
    code.runs[use] = run = _family_of(code, use, types).run_for(types)
    return run


def _family_of(code: CallCode, use: _Use, types: list[TensorType]) -> _Family:
    ranks = tuple([(t.dtype, t.ndim) for t in types])
    family = _families.get(key := (use, repr(code.attrs), ranks, code.learned))  # -0.0 is not 0.0
    if family is None:
        family = _families[key] = _Family(code, use, len(types))
    return family


class _Use(NamedTuple):
    """The purpose of compiled code: results of ``op`` if ``wanted`` is None, else its gradients.

    came      for each output, whether its gradient is given
    wanted    for each operand, whether it needs a gradient
    switches  values of the switches that change code
    """

    op: OpDef
    came: tuple[bool, ...]
    wanted: tuple[bool, ...] | None
    switches: object


class CallCode:
    """The code of one checked call of an operator: forward, and backward for wanted gradients.

    learned     shapes of the operands that are parameters of layers
    is_forward  whether compiled code computes the results too, not gradients alone
    runs        the code that was compiled; None where the references compute the call
    """

    __slots__ = ("attrs", "is_forward", "learned", "runs")

    def __init__(self, op: OpDef, attrs: Attrs, arrays: Arrays, is_forward: bool = True) -> None:
        self.attrs, self.is_forward = attrs, is_forward
        names = op.input_names(attrs)
        self.learned = tuple([a.shape for name, a in zip(names, arrays) if name in LEARNED])
        self.runs: dict[_Use, Run | None] = {}

    def forward(self, used: OpDef, arrays: Arrays) -> list[np.ndarray] | None:
        """Results of ``used``, the operator of the present mode; None where NumPy computes them.

        A result may be one of the arrays.
        """
        if used.is_ufunc or not self.is_forward:
            return None
        run = self._run(_Use(used, (), None, config.fingerprint()), arrays)
        return (
            None if run is None else [arrays[r] if isinstance(r, int) else r for r in run(arrays)]
        )

    def backward(
        self,
        used: OpDef,
        arrays: Arrays,
        came: tuple[bool, ...],
        wanted: tuple[bool, ...],
        places: Mapping[int, np.ndarray],
    ) -> Results | None:
        """Gradients of ``used``; None where its rule computes them in NumPy.

        ``arrays`` are its operands, its results, then the output gradients that ``came``. Gradients
        may be written to ``places``, by operand, and are then these arrays.
        """
        run = self._run(_Use(used, came, wanted, config.fingerprint()), arrays)
        return None if run is None else run(arrays, places)

    def _run(self, use: _Use, arrays: Arrays) -> Run | None:
        try:
            return self.runs[use]
        except KeyError:
            return _run_for(self, use, [type_of(a) for a in arrays])


def _graph_of(attrs: Attrs, use: _Use, types: Types) -> Made:
    """The graph that computes ``use`` from arrays of these types."""
    name = use.op.name.lstrip("_")
    given = [Value(None, f"x{i}", {}, (), (t,)) for i, t in enumerate(types)]
    if use.wanted is None:
        outputs = uses_of(make(use.op, name, map(Use, given), **attrs))
        return Made(name, given, outputs, INFERENCE)
    count = len(use.wanted)
    ins, rest = [*map(Use, given[:count])], [*map(Use, given[count:])]
    heads = iter(rest[len(rest) - sum(use.came) :])
    outs = rest[: len(rest) - sum(use.came)]
    douts = [next(heads) if is_given else None for is_given in use.came]
    g = ValueBuilder(name)
    found = gradients(use.op, g, ins, outs, douts, attrs, use.wanted)
    return Made(f"_backward_{name}", given, found, _BACKWARD)
