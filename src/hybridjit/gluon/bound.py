"""A hybridized net on fixed arrays: ``call = net.bind(x, out=y); call()``.

In: the arrays that every call reads and writes. Out: a callable that has nothing left to look up:
the addresses stand in the kernels' arguments already. Changed weights are noticed as in any call.
"""

from __future__ import annotations

from ..nd import NDArray
from ..nd.storage import WRITES
from .hybrid import CachedGraph
from .structure import Format, Nested, regroup


class BoundCall:
    """Calls one graph on the same arrays; not for several threads at once.

    Each call writes to the same outputs and returns them. The inputs may be written between calls.
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

    def _connect(self) -> None:
        """Take the compiled graph with the parameters of now, and put the addresses in place."""
        executable = self._graph.compiled_for(self._inputs)
        writes = self._graph.seen_writes
        self._run = executable.connected(self._arrays, self._results)
        self._writes = writes

    def __call__(self) -> Nested:
        """Run, and return the outputs that :meth:`HybridBlock.bind` was given or made."""
        if self._writes != WRITES.count:
            self._connect()
        try:
            self._run()
            for storage in self._storages:
                storage.version += 1
                if storage.watched:
                    WRITES.count += 1
        except BaseException:  # before or after they were written: whoever looks finds out
            for storage in self._storages:
                storage.bump()
            raise
        return self._result
