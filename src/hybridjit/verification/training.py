"""Verification of training against NumPy: forward and backward, value by value.

Input: a graph, an array for every variable, and the variables with gradients. Output: a
:class:`.verdict.Verdict`. The compiled forward and backward are run step by step and compared with
the joint graph of the original graph, which NumPy runs on the random draws of the compiled forward.
Its backward starts from the products that the compiled forward saved, so that a value near 0 whose
sign decides a gradient has the same sign on both sides. The tape of eager mode checks the
differentiation itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import numpy as np

from .._core.async_safety import restoring
from .._core.config import config, override
from .._core.options import Options
from .._core.recording import recording_as
from .._core.types import type_of
from ..compilation import compile_training
from ..context import cpu
from ..ir.building import building
from ..ir.graph import Graph, Use, Value, from_symbol, walk
from ..ir.mode import Purpose
from ..ir.node import Output
from ..ir.rewrite import Match, Replacement, replace_values
from ..nd import NDArray
from ..nd.interpreter import interpret_nodes
from ..nd.tape import Entry, Leaf
from ..nd.taped import run_backward, untouched_zeros
from ..ops.building import as_results, parts_of
from ..passes.infer import infer_node_types
from ..passes.training.differentiate import Joint, differentiate
from ..passes.training.enter_training import enter_training
from ..runtime.checking import TOLERANCE
from ..runtime.threads import THREADS as RUNNING
from ..trained import Trained
from .inference import with_culprits
from .steps import Arrays, Reference, Stepped
from .verdict import Gap, Verdict, gap_between

_ANY_SEED = 7


@restoring(config, RUNNING)
def verify_training(
    outputs: Sequence[Output],
    arrays: Arrays,
    wanted: Collection[str],
    options: Options = Options(),  # noqa: B008 (frozen)
    tolerance: float = TOLERANCE,
    name: str = "graph",
) -> Verdict:
    """Compare a graph compiled for training with the same graph run by NumPy, forward and backward.

    arrays      of all variables, in call order; ``wanted`` are the variables whose gradients are
                compared
    Output gradients are between 0.5 and 1.5, because equal ones can hide wrong terms of a sum.
    ``tolerance`` is relative to the largest value of each array; rounding errors of cancelling
    terms are permitted in addition. Raises the exceptions of compiling the graph, and
    NoGradientError.
    """
    check = _Check(outputs, arrays, wanted, options, tolerance, name)
    return with_culprits(check.examine)


class _Check:
    """One graph with one set of arrays, compiled once per choice."""

    def __init__(
        self,
        outputs: Sequence[Output],
        arrays: Arrays,
        wanted: Collection[str],
        options: Options,
        tolerance: float,
        name: str,
    ) -> None:
        self._outputs, self._wanted, self._options = tuple(outputs), wanted, options
        self._tolerance = tolerance
        self._arrays = {n: np.ascontiguousarray(a) for n, a in arrays.items()}
        self._types = {n: type_of(a) for n, a in self._arrays.items()}
        types = infer_node_types(self._outputs, self._types)
        graph = from_symbol(self._outputs, self._types, types, name, Purpose(training=True))
        joint = differentiate(enter_training(graph), wanted)
        self._joint = joint.with_graph(_opened(joint.graph))
        self._heads = list(_heads(self._joint))

    def examine(self) -> Verdict:
        """Compare one compilation with the values of the original graph."""
        trained = self._compiled()
        forward, backward = self._stepped(trained)
        drawn = forward.drawn
        eager = Reference(self._graph, self._given, drawn) if self._has_chance else self._eager
        saved = zip(trained.parts.saved, forward.outputs[self._visible :])
        taken = {
            (use.value.name, use.index): self._as_written(use, a)
            for use, a in saved
            if _is_product(use)
        }
        again = Reference(self._graph, self._given, {**taken, **drawn})
        found = self._called(trained) if not self._has_chance else _outcome(forward, backward)
        steps = list(forward.checked(eager, self._tolerance))
        steps += backward.checked(again, self._tolerance) if backward else []
        return Verdict(
            self._joint.forward.name,
            self._tolerance,
            tuple(steps),
            tuple(self._gaps(found, eager, again)),
            forward.problem or (backward.problem if backward else "") or self._problem,
            eager.first_special(self._way_back)
            or forward.first_special()
            or (backward.first_special() if backward else None),
        )

    # ---- compiled -------------------------------------------------------------------------------

    def _compiled(self) -> Trained:
        name = self._joint.forward.name
        trained = compile_training(
            self._outputs, self._types, self._wanted, True, self._options, name
        )
        trained.forward.bind({})
        if trained.backward is not None:
            trained.backward.bind({})
        return trained

    def _stepped(self, trained: Trained) -> tuple[Stepped, Stepped | None]:
        """Run forward and backward step by step."""
        forward = Stepped(trained.forward, list(self._arrays.values()), "forward")
        if trained.backward is None:
            return forward, None
        reads = self._reads(trained, forward.outputs)
        return forward, Stepped(trained.backward, reads, "backward")

    def _called(self, trained: Trained) -> list[np.ndarray]:
        """Results of an ordinary call: outputs, gradients, new states."""
        with override(check=False):
            made = trained.forward(list(self._arrays.values()))
            if trained.backward is None:
                return made[: self._visible]
            return [*made[: self._visible], *trained.backward(self._reads(trained, made))]

    def _reads(self, trained: Trained, made: Sequence[np.ndarray]) -> list[np.ndarray]:
        given = [self._arrays[name] for name in trained.parts.reads]
        heads = dict(zip(self._joint.heads, self._heads))
        return [*given, *made[self._visible :], *(heads[n] for n in trained.parts.heads)]

    @property
    def _visible(self) -> int:
        return len(self._joint.forward.outputs)

    # ---- original graph -------------------------------------------------------------------------

    @property
    def _graph(self) -> Graph:
        return self._joint.graph

    def _as_written(self, use: Use, found: np.ndarray) -> np.ndarray:
        """The saved result of a product, with its axes in the order of the original graph."""
        layout = self._layouts.get(use.value.name)
        is_moved = layout != use.value.attrs.get("layout")
        return np.moveaxis(found, -1, 1) if is_moved else found

    @cached_property
    def _layouts(self) -> dict[str, object]:
        return {value.name: value.attrs.get("layout") for value in self._graph.values}

    @cached_property
    def _given(self) -> Arrays:
        """An array for each input of the joint graph."""
        heads = self._graph.inputs[len(self._arrays) :]
        return {**self._arrays, **{v.name: head for v, head in zip(heads, self._heads)}}

    @cached_property
    def _has_chance(self) -> bool:
        return any(value.op is not None and value.op.is_random for value in self._graph.values)

    @cached_property
    def _eager(self) -> Reference:
        return Reference(self._graph, self._given)

    @cached_property
    def _way_back(self) -> frozenset[Value]:
        ahead = set(walk(self._graph.outputs[: self._visible]))
        return frozenset(value for value in self._graph.values if value not in ahead)

    @cached_property
    def _problem(self) -> str:
        """Difference between gradients of the joint graph and of the tape, if nothing is random."""
        if self._has_chance:
            return ""
        gradients = self._graph.outputs[self._visible :]
        for name, use, right in zip(self._joint.gradients, gradients, self._on_tape()):
            found = self._eager.output_of(use)
            assert found is not None
            gap = gap_between(found, right)
            if gap.exceeds(self._tolerance):
                gap = self._eager.with_rounding(gap, use)
            if gap.exceeds(self._tolerance):
                return f"differentiation: the gradient of '{name}' differs from the tape's by {gap}"
        return ""

    def _on_tape(self) -> Iterator[np.ndarray]:
        """The gradients that eager mode computes."""
        named = {name: NDArray(array.copy(), cpu()) for name, array in self._arrays.items()}
        leaves = {name: Leaf(untouched_zeros(named[name]), "write") for name in self._wanted}
        for name, leaf in leaves.items():
            named[name]._entry = Entry(leaf)
        types = infer_node_types(self._outputs, self._types)
        with override(eager="numpy"):
            with recording_as(True, True):
                made = interpret_nodes(self._outputs, named, types, cpu())
                ends = [made[number].copy() for number in self._joint.heads]
            pairs = [(y, NDArray(d, cpu())) for y, d in zip(ends, self._heads) if y._entry]
            run_backward([y for y, _ in pairs], [d for _, d in pairs], False, True)
        for name in self._joint.gradients:
            yield leaves[name].grad._data

    def _gaps(
        self, found: Sequence[np.ndarray], eager: Reference, again: Reference
    ) -> Iterator[tuple[str, Gap]]:
        """Gaps of the outputs, and of the results of backward, from the eager ones."""
        names = [use.value.name for use in self._joint.forward.outputs]
        names += [f"gradient of {name}" for name in self._joint.gradients]
        names += [f"new {name}" for name in self._joint.updates]
        for number, (name, array) in enumerate(zip(names, found)):
            reference = eager if number < self._visible else again
            use = self._graph.outputs[number]
            right = reference.output_of(use)
            if right is not None:
                gap = gap_between(array, right)
                if gap.exceeds(self._tolerance):
                    gap = reference.with_rounding(gap, use, self._options.precision)
                yield name, gap


def _is_product(use: Use) -> bool:
    """Whether a value is a sum of products, whose last bits depend on the order of summation.

    Selections such as a maximum are recomputed from the products and compared by backward.
    """
    return use.value.op is not None and use.value.op.traits.multiply_adds is not None


def _outcome(forward: Stepped, backward: Stepped | None) -> list[np.ndarray]:
    visible = len(forward.outputs) - forward.saved
    return [*forward.outputs[:visible], *(backward.outputs if backward else [])]


def _heads(joint: Joint) -> Iterator[np.ndarray]:
    """Output gradients, the same at each call."""
    random = np.random.default_rng(_ANY_SEED)
    for value in joint.graph.inputs[len(joint.forward.inputs) :]:
        yield random.uniform(0.5, 1.5, value.shape).astype(value.type.dtype)


def _opened(graph: Graph) -> Graph:
    """The same graph with random operators expanded, so that the draw is a value of its graph."""

    def parts(value: Value, match: Match) -> tuple[str, Replacement]:
        if value.op is None or not value.op.is_random:
            return "", None
        made = parts_of(value.op, building(value), value.inputs, value.attrs)
        return "", None if made is None else as_results(made)

    opened = replace_values(graph, parts)
    return graph if opened is graph else _opened(opened)  # expansions may contain random operators
