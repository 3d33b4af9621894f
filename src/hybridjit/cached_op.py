"""``nd.CachedOp``: a Symbol as a function of arrays, compiled like a hybridized block.

Input: a Symbol, and MXNet's flags. Output: a callable that takes arrays for all variables, in the
order of ``list_inputs()``. Operands that operators use as weights are packed once, and again after
they are written. Replacing such an array by another one compiles again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ._core.lazy import Late
from .errors import MXNetError
from .ir.roles import sort_variables
from .nd import NDArray
from .sym import Symbol

if TYPE_CHECKING:
    from .graph_exec import cached_graph
else:  # imported with the first CachedOp: it imports the compiler
    cached_graph = Late(".graph_exec.cached_graph", __package__)

_FLAGS = [
    *("static_alloc", "static_shape", "inline_limit", "forward_bulk_size", "backward_bulk_size"),
    *("data_indices", "param_indices", "is_dynamic"),
]

Out = TypeVar("Out", NDArray, Sequence[NDArray])


class CachedOp:
    """``op(*arrays)``: returns an NDArray, or a list of them if the Symbol has several outputs."""

    def __init__(
        self, sym: Symbol, flags: Iterable[tuple[str, object]] = (), **kwargs: object
    ) -> None:
        if not isinstance(sym, Symbol):
            raise AttributeError(f"CachedOp takes a Symbol, got {type(sym).__name__}")
        given = dict(flags)
        for name in given:
            if name not in _FLAGS:
                raise MXNetError(
                    f"Cannot find argument '{name}', Possible Arguments: {', '.join(_FLAGS)}"
                )
        if not sym.list_inputs():
            raise MXNetError(f"CachedOp: {sym!r} has no variables, so it takes no arrays")
        self._symbol = sym
        self._flags = {name: given.get(name) in (True, "True", "1", 1) for name in _FLAGS[:2]}
        self._names = sym.list_inputs()
        self._learned = frozenset(sort_variables(sym.outputs, ()).missing)
        # One pair, replaced by one assignment: other threads see either the old or the new pair.
        self._latest = self._graph_with({})

    def __call__(self, *args: NDArray, **kwargs: Any) -> NDArray | list[NDArray]:
        """Compute the outputs for these arrays; write them to ``out`` if it is given.

        Raises MXNetError for a wrong number of arrays, and for arrays that do not fit.
        """
        out = kwargs.pop("out", None)
        if kwargs:
            names = ", ".join(kwargs)
            raise TypeError(f"CachedOp.__call__ got unexpected keyword argument(s): {names}")
        if len(args) != len(self._names):
            raise MXNetError(f"CachedOp takes {len(self._names)} arrays, got {len(args)}")
        for name, array in zip(self._names, args):
            if not isinstance(array, NDArray):
                raise AttributeError(f"{name}: expected an NDArray, got {type(array).__name__}")
        results = self._run(dict(zip(self._names, args)))
        if out is not None:
            return _written(results, out)
        return results[0] if len(results) == 1 else results

    def _run(self, arrays: dict[str, NDArray]) -> list[NDArray]:
        weights, graph = self._latest
        if any(array is not arrays[name] for name, array in weights.items()) or not weights:
            weights = {name: arrays[name] for name in self._names if name in self._learned}
            if weights:
                self._latest = weights, graph = self._graph_with(weights)
        return graph([arrays[name] for name in graph.input_names])

    def _graph_with(
        self, weights: dict[str, NDArray]
    ) -> tuple[dict[str, NDArray], cached_graph.CachedGraph]:
        inputs = [name for name in self._names if name not in weights]
        params = {name: cached_graph.HeldArray(name, array) for name, array in weights.items()}
        graph = cached_graph.CachedGraph(
            self._symbol.outputs, inputs, params, self._flags, "cached_op"
        )
        return weights, graph


def _written(results: list[NDArray], out: Out) -> Out:
    places = [out] if isinstance(out, NDArray) else list(out)
    if len(places) != len(results):
        raise MXNetError(f"out: {len(results)} outputs, {len(places)} arrays to write them to")
    for result, place in zip(results, places):
        result.copyto(place)
    return out
