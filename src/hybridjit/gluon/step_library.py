"""A ``train_step`` as plain data, the input of :mod:`..library.training`.

Input: a step, and arrays of the types of its calls. Output: its graph, the trained values, and the
update rule of each. This module does not train.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from .._core.async_safety import restoring
from .._core.recording import FLAGS, recording_as
from .._core.types import type_of
from ..errors import MXNetError
from ..graph_exec.training import leading_variables
from ..library.interface import MAX_COUNT
from ..library.training import Training, Update
from ..nd import NDArray
from ..ops.registry import lookup
from ..optimizer import Optimizer
from ..optimizer.by_operator import ByOperator
from ..optimizer.one_call import Told, Use, find_uses, rule_of
from .hybrid_block import HybridBlock
from .parameter import Parameter
from .trainer import Trainer


class Step(Protocol):
    """The parts of a ``TrainStep`` that a library needs."""

    _trainer: Trainer
    _bound: float | None

    @property
    def _block(self) -> HybridBlock: ...

    def _check_arguments(self, args: Sequence[object]) -> None:
        """Raise TypeError for arguments that a call does not take."""


@restoring(FLAGS)
def training_of(
    step: Step, args: Sequence[NDArray], input_names: Sequence[str] | None = None
) -> Training:
    """The step for arrays of these types, starting from the current values of the parameters.

    ``input_names`` are the names for callers, by default those of the graph.
    Raises MXNetError for features without library support: global gradient norms, gradients with
    ``grad_req`` "add", optimizers without a kernel.
    """
    step._check_arguments(args)
    if step._bound is not None:
        raise MXNetError("a library has no global gradient norm: omit clip_global_norm")
    cached = step._block._build(args)
    graph = cached.graph
    named = graph._named(args)
    with recording_as(True, True):
        wanted = leading_variables(named)
    if not wanted:
        raise MXNetError(
            "a library that trains needs a parameter with a gradient, and the network has none"
        )
    variables = {name: named[name] for name in named if name not in graph.input_names}
    updates = _Updates(step, graph.params, wanted, args[0].shape[0])
    outputs = len(cached.trace.outputs)
    return Training(
        outputs=cached.trace.outputs,
        output_names=("loss",) if outputs == 1 else tuple(f"loss{i}" for i in range(outputs)),
        inputs={name: type_of(named[name]._data) for name in graph.input_names},
        input_names=tuple(input_names or graph.input_names),
        kept=_together(_data_of(variables), updates.states),
        variables={name: type_of(array._data) for name, array in variables.items()},
        wanted=wanted,
        updates=tuple(updates.rows),
        numbers=tuple(updates.told.numbers.values()),
        unbiased=updates.optimizer.unbiased,
        count=updates.count,
        options=graph.options,
    )


class _Updates:
    """The updates of all weights by the trainer.

    states: arrays of the optimizer by name: a weight's name and the operator's name for the state
    """

    def __init__(
        self, step: Step, params: Mapping[str, object], wanted: frozenset[str], size: int
    ) -> None:
        trainer = step._trainer
        trainer._prepare()
        if trainer._kvstore is not None:
            raise MXNetError("a library is one process: its trainer must not have a kvstore")
        self._names = {id(param): name for name, param in params.items()}
        self._indices = [i for i, p in enumerate(trainer._params) if p.grad_req != "null"]
        self._params = [trainer._params[i] for i in self._indices]
        self._check_params(wanted)
        self._optimizer, self._known = trainer._optimizer, trainer._updaters[0].states
        with _scaled(self._optimizer, trainer._scale / size):
            uses, self.told = self._uses()
        assert isinstance(self._optimizer, ByOperator)
        self.optimizer = self._optimizer
        self.states: dict[str, np.ndarray] = {}
        self.rows = [self._update(*one) for one in zip(self._indices, self._params, uses)]
        self.count = self._count()

    def _check_params(self, wanted: frozenset[str]) -> None:
        for param in self._params:
            if self._names.get(id(param)) not in wanted:
                raise MXNetError(
                    f"the trainer updates '{param.name}', which the network does not read: remove "
                    "it "
                    "from the trainer"
                )
            if param.grad_req != "write":
                raise MXNetError(
                    f"a library overwrites gradients: '{param.name}' has grad_req "
                    f"'{param.grad_req}', "
                    "and needs 'write'"
                )

    def _uses(self) -> tuple[list[Use], Told]:
        weights = [param.list_data()[0] for param in self._params]
        states = [self._state(*one) for one in zip(self._indices, weights)]
        grads = [param.list_grad()[0] for param in self._params]
        found = find_uses(self._optimizer, weights, grads, states)
        if found is None:
            name = type(self._optimizer).__name__
            types = ", ".join(sorted({np.dtype(weight.dtype).name for weight in weights}))
            raise MXNetError(
                f"{name} has no kernel that updates weights of {types}: SGD, NAG, Signum, Adam, "
                "AdaGrad, AdaDelta, RMSProp and Ftrl have, on float32"
            )
        return found

    def _state(self, index: int, weight: NDArray) -> object:
        if index in self._known:
            return self._known[index]
        return self._optimizer.create_state_multi_precision(index, weight)

    def _update(self, index: int, param: Parameter, use: Use) -> Update:
        variable = self._names[id(param)]
        main = variable if use.main is use.weight else f"{variable}:weight32"
        if use.main is not use.weight:
            self.states[main] = use.main._data
        kept = [main]
        slots = lookup(use.op).input_names({"num_weights": 1})[2:]
        for slot, state in zip(slots, use.states):
            kept.append(f"{variable}:{slot.removesuffix('_0')}")  # of the only weight
            self.states[kept[-1]] = state._data
        return Update(
            rule=rule_of(use, self.told),
            variable=variable,
            kept=tuple(kept),
            stored="" if main == variable else variable,
            lr_mult=float(param.lr_mult),
            wd=float(self._optimizer._get_wd(index)),
        )

    def _count(self) -> int:
        counts = self._optimizer._index_update_count
        found = {counts.get(i, self._optimizer.begin_num_update) for i in self._indices}
        if len(found) > 1:
            raise MXNetError(
                f"all weights of a library must have the same number of updates, got {found}"
            )
        if not 0 <= (count := found.pop()) <= MAX_COUNT:
            raise MXNetError(f"num_update must be 0 to {MAX_COUNT} (2**53), got {count}")
        return count


@contextmanager
def _scaled(optimizer: Optimizer, scale: float) -> Iterator[None]:
    """Set this scale of gradients for the duration of the context."""
    before = optimizer.rescale_grad
    optimizer.rescale_grad = scale
    try:
        yield
    finally:
        optimizer.rescale_grad = before


def _together(
    variables: dict[str, np.ndarray], states: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    both = [name for name in states if name in variables]
    if both:
        raise MXNetError(f"parameters have names of optimizer states: {', '.join(both)}")
    return {**variables, **states}


def _data_of(named: Mapping[str, NDArray]) -> dict[str, np.ndarray]:
    return {name: array._data for name, array in named.items()}
