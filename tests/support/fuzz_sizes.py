"""Random graphs with random symbolic sizes: their bits beside those of fixed sizes.

Inputs of one size vary together, for operators combine them. Sizes that the graph refuses are left
out. Each size is called twice, in an order and in the reverse one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import hybridjit
from hybridjit import autograd
from hybridjit._core.types import type_of
from hybridjit.context import cpu
from hybridjit.errors import MXNetError
from hybridjit.graph_exec.cached_graph import CachedGraph, HeldArray
from hybridjit.nd import NDArray
from hybridjit.passes.infer import infer_node_types
from hybridjit.runtime.executable import Executable

SIZES = 6
Axis = tuple[str, int]  # of an input
_LARGEST = 40
_TRIES = 4  # sizes of inputs that are tried as the one that varies


def size_difference(
    case: Any, gradients: bool, after_compiling: Callable[[Executable], None]
) -> str:
    """The difference between symbolic and fixed sizes; empty without one."""
    random = np.random.default_rng((max(case.seed, 0), case.variant, 7))
    inputs = [name for name in case.arrays if name not in case.params]
    sizes = sorted({n for name in inputs for n in case.arrays[name].shape if n > 0})
    for size in random.permutation(sizes)[:_TRIES].tolist():
        axes = axes_of_size(case, inputs, size)
        others = random.permutation(np.arange(1, _LARGEST))[: 2 * SIZES].tolist()
        calls = calls_at(case, inputs, axes, others)[:SIZES]
        if len(calls) > 1:
            return order_difference(case, inputs, calls, gradients, after_compiling, random)
    return ""


def axes_of_size(case: Any, inputs: Sequence[str], size: int) -> list[Axis]:
    """The axes of the inputs that have this size."""
    return [
        (name, i) for name in inputs for i, n in enumerate(case.arrays[name].shape) if n == size
    ]


def calls_at(
    case: Any, inputs: Sequence[str], axes: Sequence[Axis], sizes: Iterable[int]
) -> list[dict[str, np.ndarray]]:
    """Inputs whose axes have each of these sizes that the graph accepts."""
    found = []
    for size in sizes:
        arrays = {name: _resized(case.arrays[name], name, axes, size) for name in inputs}
        types = {name: type_of(array) for name, array in {**case.arrays, **arrays}.items()}
        try:
            infer_node_types(case.outputs, types)
        except MXNetError:
            continue
        found.append(arrays)
    return found


def _resized(array: np.ndarray, name: str, axes: Sequence[Axis], size: int) -> np.ndarray:
    shape = tuple(size if (name, i) in axes else n for i, n in enumerate(array.shape))
    return np.ascontiguousarray(np.resize(array, shape))


def order_difference(
    case: Any,
    inputs: Sequence[str],
    calls: Sequence[dict[str, np.ndarray]],
    gradients: bool,
    after_compiling: Callable[[Executable], None],
    random: np.random.Generator,
) -> str:
    """The first difference of a call in a random order, then in the reverse one."""
    fixed, sized = (_graph(case, inputs, dynamic) for dynamic in (False, None))
    expected = [_outcome(fixed, arrays, gradients, i) for i, arrays in enumerate(calls)]
    order = random.permutation(len(calls)).tolist()
    for number in (*order, *reversed(order)):
        found = _outcome(sized, calls[number], gradients, number)
        if found != expected[number]:
            shapes = {name: array.shape for name, array in calls[number].items()}
            return f"sizes {shapes} in the order {order}: {_summary(expected[number], found)}"
    kept = [*sized._variants.values(), *sized.training._variants.values()]
    if any(variants._dynamic is False for variants in kept):
        return "symbolic sizes were given up because of an exception that is no MXNetError"
    for graph in (fixed, sized):
        _keep(graph, after_compiling)
    return ""


def _graph(case: Any, inputs: Sequence[str], dynamic: bool | None) -> CachedGraph:
    params = {
        name: HeldArray(name, NDArray(np.ascontiguousarray(case.arrays[name]).copy(), cpu()))
        for name in case.arrays
        if name not in inputs
    }
    return CachedGraph(tuple(case.outputs), list(inputs), params, {"dynamic": dynamic}, case.name)


def _outcome(
    graph: CachedGraph, arrays: dict[str, np.ndarray], gradients: bool, seed: int
) -> tuple[object, ...]:
    """The bits of the outputs and gradients, or the error."""
    hybridjit.random.seed(seed)
    given = [NDArray(array.copy(), cpu()) for array in arrays.values()]
    try:
        if not gradients:
            return tuple(map(_bits, graph(given)))
        return tuple(map(_bits, _trained(graph, given)))
    except (MXNetError, IndexError, ValueError) as error:
        return (type(error).__name__,)


def _trained(graph: CachedGraph, given: list[NDArray]) -> list[NDArray]:
    variables = [*given, *(p.data(cpu()) for p in graph.params.values())]
    learned = [x for x in variables if x._data.dtype.kind == "f"]
    for x in learned:
        x.attach_grad()
    with autograd.record():
        made = graph(given)
    ends = [y for y in made if y._entry is not None and y._data.dtype.kind == "f"]
    if ends:
        autograd.backward(ends)
    return [*made, *(x.grad for x in learned)]


def _bits(array: NDArray) -> tuple[tuple[int, ...], bytes]:
    """Shape and bits; of NaN there is one."""
    data = array.asnumpy()
    if data.dtype.kind == "f":
        data = np.where(np.isnan(data), data.dtype.type(np.nan), data)
    return data.shape, data.tobytes()


def _summary(expected: Sequence[object], found: Sequence[object]) -> str:
    if len(expected) != len(found):
        return f"expected {expected[:1]!s:.80}, got {found[:1]!s:.80}"
    differing = [i for i, pair in enumerate(zip(expected, found)) if pair[0] != pair[1]]
    return f"results {differing} have other bits"


def _keep(graph: CachedGraph, after_compiling: Callable[[Executable], None]) -> None:
    for trained in graph.training._compiled.values():
        for executable in filter(None, (trained.forward, trained.backward)):
            after_compiling(executable)
    for entry in graph.cache._entries.values():
        after_compiling(getattr(entry.executable, "one", entry.executable))
