"""Profile of a block: trace, compile for its arrays, measure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np

from .._core.frames import public
from .._core.options import Options
from .._core.types import type_of
from ..compilation import compile_graph
from ..gluon import HybridBlock
from ..gluon.hybrid_block import options_of
from ..gluon.structure import flatten
from ..graph_exec.training import floating, leading_variables
from ..ir.node import Output
from ..ir.roles import variables
from ..nd import NDArray
from ..optimizer import Optimizer
from .report import Report, measure
from .training import TrainingReport, profile_training


@overload
def profile(
    net: HybridBlock, *arrays: NDArray, seconds: float = 3.0, train: Literal[False] = False
) -> Report: ...


@overload
def profile(
    net: HybridBlock,
    *arrays: NDArray,
    seconds: float = 3.0,
    train: Literal[True],
    optimizer: str | Optimizer = "sgd",
) -> TrainingReport: ...


@public
def profile(
    net: HybridBlock,
    *arrays: NDArray,
    seconds: float = 3.0,
    train: bool = False,
    optimizer: str | Optimizer = "sgd",
) -> Report | TrainingReport:
    """Compile ``net`` for these arrays, and measure its steps for about ``seconds``.

    With ``train`` measure a training step: forward, backward, and the update of each parameter by
    ``optimizer``, on copies. The report names the lines of ``hybrid_forward`` that the steps come
    from. The net does not change. Raises the exceptions of a call of the net.
    """
    graph = traced(net, *arrays)
    if train:
        both, names = {**graph.inputs, **graph.params}, tuple(graph.inputs)
        return profile_training(
            graph.outputs,
            both,
            graph.wanted,
            seconds,
            optimizer,
            graph.name,
            names,
            graph.options,
        )
    executable = compile_graph(
        graph.outputs,
        {name: type_of(value) for name, value in graph.inputs.items()},
        {name: type_of(param) for name, param in graph.params.items()},
        graph.options,
        name=graph.name,
    )
    executable.bind(graph.params)
    return measure(executable, list(graph.inputs.values()), seconds)


@dataclass(frozen=True)
class Traced:
    """A block as a graph, with copies of all arrays that it reads.

    wanted      the variables with gradients in a training step
    options     compiler options of the hybridized block
    """

    name: str
    outputs: tuple[Output, ...]
    inputs: Mapping[str, np.ndarray]
    params: Mapping[str, np.ndarray]
    wanted: Collection[str]
    options: Options


def traced(net: HybridBlock, *arrays: NDArray) -> Traced:
    """Call ``net`` with these arrays, and trace it. Raises the exceptions of the call, and
    TypeError for a network that is not a HybridBlock."""
    if not isinstance(net, HybridBlock):
        raise TypeError(
            f"a compiled network is a HybridBlock, got {type(net).__name__}. A Block runs operator "
            "by operator: pass one of its hybrid children, or use mx.profiler"
        )
    net(*arrays)  # initialises deferred parameters, and checks the arrays
    net = net.for_arrays(*arrays)
    args = net._of_graph(arrays, {})
    trace = net._traced(args)
    known = net.collect_params()  # the graph need not read all of them
    used = {n: known[n] for n in variables(trace.outputs) if n in known}
    params = {n: param.data() for n, param in used.items()}
    flat, _ = flatten(args, "input")
    given = dict(zip(trace.input_names, (array for array in flat if array is not None)))
    values, fixed = ({n: a.asnumpy() for n, a in kind.items()} for kind in (given, params))
    wanted = leading_variables({**given, **params}) or floating(given)
    outputs = net._ranged(trace.outputs, used)
    return Traced(net.name, outputs, values, fixed, wanted, options_of(net))
