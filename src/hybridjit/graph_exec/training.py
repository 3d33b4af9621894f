"""Training of a traced graph under ``autograd.record``: one compiled step on the tape.

Input: a graph and an array for every variable. Output: the recorded outputs. Variables on the tape
get gradients. Every variable is an input of the compiled code, so that all of them may change from
call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from .._core.async_safety import holding
from .._core.config import config
from .._core.fork_locks import Rank, held_at_fork
from .._core.options import Options
from .._core.recording import FLAGS, recording_as
from .._core.symbolic import Scope
from .._core.types import TensorType, type_of
from ..compilation import compile_training, compile_training_variant
from ..context import Context
from ..errors import MXNetError
from ..ir.graph import Use
from ..ir.node import Node, Output, topological
from ..nd import NDArray
from ..nd.fixed_gamma import fixed_gammas, put_ones
from ..nd.replay import is_drawn, replay
from ..nd.storage import Storage
from ..nd.tape import Leaf, Network, Some, Stage, Step, Watch, leads_back, record
from ..ops.gradient import NoGradientError, needs_heads, read_results, require_gradient, stops
from ..runtime.cache import Limit
from ..runtime.compile_stats import count
from ..runtime.executable import Executable
from ..runtime.variant import Variants

if TYPE_CHECKING:
    from ..trained import Trained, TrainedVariant

Heads = NDArray | Sequence[NDArray] | Mapping[str, NDArray] | None

_compiling = held_at_fork(Rank.BINDING)
_SHAPE, _DTYPE = attrgetter("shape"), attrgetter("dtype")


_NO_LOSS = (
    "Because the last operator is not Loss function, head_gradient is required when calling "
    "backward. If you are attempting to minimize the output as an objective, please modify your "
    "network and pass it through the make_loss symbol."
)


def head_gradients(outputs: Sequence[Output], given: Heads) -> list[NDArray | None]:
    """Output gradients with which backward of a graph starts; None for outputs without one.

    ``given``: one array per output, as a single array, a list or a mapping by output name;
    surplus elements of a list are ignored. Raises MXNetError if elements are missing, or if
    ``given`` is None and an output that depends on a variable is not a loss.
    """
    used = _lead_back(outputs)
    if given is None:
        if any(used):
            raise MXNetError(_NO_LOSS)
        return [None] * len(outputs)
    if isinstance(given, Mapping):
        given = [given[output.name] for output in outputs]
    heads: list[NDArray | None] = [given] if isinstance(given, NDArray) else list(given)
    if len(heads) < len(outputs):
        raise MXNetError(
            f"backward takes a gradient for each of {len(outputs)} outputs, got {len(heads)}"
        )
    return [head if is_used else None for head, is_used in zip(heads, used)]


def require_gradients(outputs: Sequence[Output], wanted: Collection[str]) -> None:
    """Raise NoGradientError if an operator between these variables and outputs lacks a gradient."""
    above: set[Node] = set()
    for node in topological(outputs):
        if any(x.node in above for x in node.inputs) or node.op is None and node.name in wanted:
            above.add(node)
    pending, seen = [output.node for output in outputs], set[Node]()
    while pending:
        node = pending.pop()
        if node.op is None or node not in above or node in seen:
            continue
        seen.add(node)
        require_gradient(node.op)
        pending += [x.node for i, x in enumerate(node.inputs) if not stops(node.op, i, node.attrs)]


def _lead_back(outputs: Sequence[Output]) -> list[bool]:
    """For each output, whether the gradient of some variable depends on its gradient."""
    leading: set[Output] = set()
    for node in topological(outputs):
        above = [x in leading for x in node.inputs]
        if node.op is None:
            leading.add(Output(node))
        elif needs_heads(node.op, node.attrs, above):
            results = [Output(node, i) for i in range(len(node.output_names))]
            leading.update(read_results(node.op, results))
    return [output in leading for output in outputs]


class TrainingGraph:
    """Graph for training, compiled per mode and set of gradients: for the sizes of the first call,
    and from the second signature on for all sizes of the axes that vary.

    inputs: the variables whose sizes may vary; parameters have fixed shapes
    size: the number of signatures to keep; the oldest is dropped first. None: as many as fit in a
        small amount of memory
    """

    def __init__(
        self,
        outputs: tuple[Output, ...],
        inputs: Sequence[str],
        options: Options,
        name: str,
        size: int | None,
    ) -> None:
        self._outputs = outputs
        self._inputs = list(inputs)
        self._variants: dict[object, Variants[TrainedVariant]] = {}
        self._options = options
        self._name = name
        self._limit = Limit(name, size)
        self._compiled: dict[object, Trained] = {}
        self._fixed = fixed_gammas(outputs)

    def __call__(self, named: Mapping[str, NDArray], ctx: Context) -> list[NDArray]:
        """Compute the outputs for these variables; record them if a variable is on the tape.

        Raises MXNetError that names the operator for arrays that it rejects.
        """
        wanted = leading_variables(named) if FLAGS.recording else frozenset()
        if FLAGS.recording:
            put_ones(self.fixed(named))
        trained, failure = self._compiled_for(named, wanted)
        arrays = [array._data for array in named.values()]
        made = trained.forward(arrays)
        visible = len(trained.joint.forward.outputs)
        kind = [*named.values()][-1]._plain if named else NDArray  # that of an input
        outputs = [kind(output, ctx) for output in made[:visible]]
        if wanted or FLAGS.recording and any(x._entry is not None for x in named.values()):
            call = _Call(trained, named, made[visible:], outputs, failure)
            network = Network(self._outputs, [*named], self._options.inline_limit)
            record([], [*named.values()], outputs, call.pull, True, trained.unread, network)
        return outputs

    def fixed(self, named: Mapping[str, NDArray]) -> list[NDArray]:
        """Those of these variables that are a BatchNorm's gamma with fixed ones."""
        return [named[name] for name in self._fixed]

    def _compiled_for(
        self, named: Mapping[str, NDArray], wanted: frozenset[str]
    ) -> tuple[Trained, NoGradientError | None]:
        """Compiled graph; without backward, and with the error, if an operator lacks a gradient."""
        try:
            return self.compiled_for(named, wanted), None
        except NoGradientError as error:
            return self.compiled_for(named, frozenset()), error

    @holding(_compiling)
    def compiled_for(self, named: Mapping[str, NDArray], wanted: frozenset[str]) -> Trained:
        """Compiled graph for arrays of these types, in the mode of this thread.

        Raises NoGradientError if an operator between the outputs and a wanted variable lacks one.
        """
        memory = [array._data for array in named.values()]
        of_arrays = (*map(_SHAPE, memory), *map(_DTYPE, memory))
        key = (of_arrays, wanted, FLAGS.training, config.fingerprint())
        found = self._compiled.get(key)
        if found is None:
            types = {name: type_of(array._data) for name, array in named.items()}
            found = self._compiled[key] = self._new(types, wanted)
            while self._limit.is_exceeded(len(self._compiled), self._nbytes()):
                count("evictions")
                del self._compiled[next(iter(self._compiled))]
        return found

    def _nbytes(self) -> int:
        return sum(each.nbytes for each in self._compiled.values())

    def _new(self, types: Mapping[str, TensorType], wanted: frozenset[str]) -> Trained:
        """Of a variant that serves these sizes, or compiled: for all sizes where some vary."""
        variants = self._variants_for(types, wanted)
        inputs = [types[name] for name in self._inputs]
        found = variants.find(inputs)
        if found is not None:
            count("new_sizes")
            return found[0].trained(found[1])
        name, options = self._name, self._options

        def compiled(scope: Scope, sized: list[TensorType]) -> TrainedVariant:
            return compile_training_variant(
                self._outputs, {**types, **dict(zip(self._inputs, sized))}, self._inputs, wanted,
                FLAGS.training, scope, options, name=name,
            )  # fmt: skip

        variant = variants.compiled(inputs, compiled, name)
        if variant is not None:
            sizes = variant.sizes_for(inputs)
            assert sizes is not None, "guards hold for the sizes that they were recorded with"
            return variant.trained(sizes)
        made = compile_training(self._outputs, types, wanted, FLAGS.training, options, name=name)
        variants.note(inputs)
        made.forward.bind({})
        if made.backward is not None:
            made.backward.bind({})
        return made

    def _variants_for(
        self, types: Mapping[str, TensorType], wanted: frozenset[str]
    ) -> Variants[TrainedVariant]:
        """The variants for the parameters' types, the gradients, the mode and the switches."""
        given = set(self._inputs)
        params = tuple(each for name, each in types.items() if name not in given)
        key = (params, wanted, FLAGS.training, config.fingerprint())
        if key not in self._variants:
            self._variants[key] = Variants(self._inputs, self._options.dynamic)
        return self._variants[key]


def leading_variables(named: Mapping[str, NDArray]) -> frozenset[str]:
    """The variables on the tape that depend on an array with an attached gradient."""
    return frozenset([name for name, x in named.items() if leads_back(x._entry)])


def floating(named: Mapping[str, NDArray]) -> frozenset[str]:
    """The variables of a floating type: only they can have gradients."""
    return frozenset(name for name, array in named.items() if array._data.dtype.kind == "f")


def stages_of(
    run: Executable, outputs: Sequence[Leaf | None], written: dict[Storage, None]
) -> list[tuple[int, Callable[[], None]]]:
    """Callbacks of gradient watchers, each with the number of the backward step it follows.

    ``outputs``: the leaves whose gradients the executable writes in place. ``written``: storages
    to mark as written after backward; a callback removes those that it has marked itself.
    """
    found: dict[Watch, dict[Leaf, int]] = {}
    for number, leaf in enumerate(outputs):
        if leaf is not None and leaf.watch is not None:
            found.setdefault(leaf.watch, {})[leaf] = run.finals[number]
    stages = [stage for watch, known in found.items() for stage in watch.stages(known)]
    stages.sort(key=attrgetter("after"))
    return [(stage.after, partial(_begin, stage, written)) for stage in stages]


def _begin(stage: Stage, written: dict[Storage, None]) -> None:
    """Mark the gradients of a stage as written, and start the stage."""
    for leaf in stage.leaves:
        leaf.grad._storage.bump()
        written.pop(leaf.grad._storage, None)
    stage.begin()


class _Call:
    """One recorded call, with the values that its backward reads."""

    def __init__(
        self,
        trained: Trained,
        named: Mapping[str, NDArray],
        saved: Sequence[np.ndarray],
        outputs: Sequence[NDArray],
        failure: NoGradientError | None,
    ) -> None:
        self._trained = trained
        self._names = list(named)
        self._sources = {name: named[name]._data for name in trained.parts.sources}
        self._states = [named[name] for name in trained.joint.updates]
        self._saved = list(saved)
        self._types = [(output.shape, output.dtype) for output in outputs]
        self._ctx = outputs[0].context
        self._failure = failure
        self._is_continued = False

    def pull(self, step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        """Compute the gradients of all variables; None for those without a gradient.

        Writes the auxiliary states, unless this continues a recorded backward pass.
        """
        if self._failure is not None:
            raise self._failure
        if FLAGS.recording:
            return self._on_tape(step, douts, wanted)
        run = self._trained.backward
        if run is None:
            return [None] * len(self._names)
        parts = self._trained.parts
        reads = [self._sources[name] for name in parts.reads]
        heads = [d._data for d in self._heads(douts, parts.heads)]
        made = self._made(run, [*reads, *self._saved, *heads], step)
        places = {id(grad._data): grad for grad in step.places.values()}
        given = [places[id(d)] if id(d) in places else NDArray(d, self._ctx) for d in made]
        return self._sorted(given, wanted)

    def _made(
        self, run: Executable, given: Sequence[np.ndarray], step: Step
    ) -> Sequence[np.ndarray]:
        """Outputs of backward, written in place into the gradients if possible.

        It is not possible for a gradient of another type, or one that this call reads.
        """
        places = {self._names[i]: grad._data for i, grad in step.places.items()}
        if not places:
            return run(given)
        joint = self._trained.joint
        outs = [*map(places.get, joint.gradients), *[None] * len(joint.updates)]
        try:
            outputs = run.results.arrays(given, outs)
        except MXNetError:
            return run(given)
        written = dict.fromkeys(grad._storage for grad in step.places.values())
        try:
            run.run_into(given, outputs, self._stages(run, step, written))
        finally:
            for storage in written:
                storage.bump()
        return outputs

    def _stages(
        self, run: Executable, step: Step, written: dict[Storage, None]
    ) -> list[tuple[int, Callable[[], None]]]:
        """Callbacks of gradient watchers during backward."""
        leaves = {i: step.inputs[i].owner for i in step.places}  # type: ignore[union-attr]
        if all(leaf.watch is None for leaf in leaves.values()):  # type: ignore[union-attr]
            return []
        owners = {self._names[i]: leaf for i, leaf in leaves.items()}
        outputs = [owners.get(name) for name in self._trained.joint.gradients]
        return stages_of(run, [x if isinstance(x, Leaf) else None for x in outputs], written)

    def _sorted(self, made: Sequence[NDArray], wanted: Sequence[bool]) -> Some:
        """Gradients by variable. Writes the new auxiliary states, if they change."""
        joint = self._trained.joint
        names = joint.gradients
        found = dict(zip(names, made))
        if FLAGS.training and self._states and not self._is_continued:
            moving = joint.moving([n for n, is_wanted in zip(self._names, wanted) if is_wanted])
            for name, state, new in zip(joint.updates, self._states, made[len(names) :]):
                if name in moving:
                    state._write(new._data)
        self._is_continued = self._is_continued or FLAGS.recording
        return [found.get(name) for name in self._names]

    def _on_tape(self, step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        """The same gradients with every operator on the tape, for gradients of higher order.

        They are computed from the variables and output gradients, whose values are those of the
        call. Of the saved values only random draws are reused.
        """
        joint, uses = self._trained.joint, self._trained.replayed
        given: dict[Use, NDArray] = {}
        for use, entry in zip(uses.inputs, step.inputs):
            if use.value.name in self._sources:
                given[use] = x = NDArray(self._sources[use.value.name], self._ctx)
                x._entry = entry
        heads = uses.inputs[len(joint.forward.inputs) :]
        given |= dict(zip(heads, self._heads(douts, joint.heads)))
        saved = zip(uses.saved, self._saved)
        drawn = {use: NDArray(array, self._ctx) for use, array in saved if is_drawn(use)}
        with recording_as(True, joint.graph.purpose.training):
            made = replay(uses.wanted, given, drawn, self._ctx)
        return self._sorted(made, wanted)

    def _heads(self, douts: Some, numbers: Sequence[int]) -> list[NDArray]:
        """Gradients of these outputs, zeros for those without one."""
        given = dict(enumerate(douts))
        return [
            NDArray(np.zeros(*self._types[n]), self._ctx) if (d := given.get(n)) is None else d
            for n in numbers
        ]
