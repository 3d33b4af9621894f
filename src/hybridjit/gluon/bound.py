"""A hybridized network on fixed arrays: ``call = net.bind(x, out=y); call()``.

Input: the arrays that every call reads and writes. Output: a callable without lookups: the kernels'
arguments already contain the addresses. Changed weights are detected as in any call.
"""

from __future__ import annotations

from .._core.types import type_of
from ..graph_exec.cached_graph import CachedGraph
from ..nd import NDArray
from ..nd.storage import WRITES
from .structure import Format, Nested, regroup


class BoundCall:
    """Calls one graph on the same arrays; not for concurrent use by several threads.

    Each call writes and returns the same outputs. The inputs may be written between calls.
    """

    def __init__(
        self, graph: CachedGraph, inputs: list[NDArray], outputs: list[NDArray], form: Format
    ) -> None:
        self._graph = graph
        self._inputs = inputs
        self._outputs = outputs
        self._result = regroup(outputs, form)
        self._arrays = [array._data for array in inputs]
        self._results = [array._data for array in outputs]
        self._storages = [array._storage for array in outputs]
        self._connect()

    def __repr__(self) -> str:
        given, made = (
            ", ".join(str(type_of(x)) for x in xs) for xs in (self._arrays, self._results)
        )
        return f"BoundCall({given} -> {made})"

    def _connect(self) -> None:
        """Get the compiled graph for the current parameters, and insert the addresses."""
        executable = self._graph.compiled_for(self._inputs)
        writes = self._graph.seen_writes
        self._run = executable.connected(self._arrays, self._results)
        self._writes = writes

    def __call__(self) -> Nested:
        """Compute, and return the outputs of :meth:`HybridBlock.bind`."""
        if self._writes != WRITES.count:
            self._connect()
        try:
            self._run()
            for storage in self._storages:
                storage.version += 1
                if storage.watched:
                    WRITES.count += 1
        except BaseException:  # the outputs may be written: mark them as changed
            for storage in self._storages:
                storage.bump()
            raise
        return self._result
