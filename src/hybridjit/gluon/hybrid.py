"""CachedGraph: a traced graph bound to its parameters, ready to be called with arrays.

In: a graph, the names of its inputs, its parameters, the flags of ``hybridize``. Out: for each call,
the graph's outputs. Knows nothing of blocks, formats or hooks. Parameters are read at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import nd
from ..context import Context
from ..errors import MXNetError
from ..ir.node import Node, Output, topological
from ..nd import NDArray
from ..passes.infer import NodeTypes, infer_node_types
from ..types import TensorType, type_of
from .inference import finish_deferred
from .parameter import Parameter


class CachedGraph:
    """A graph that can be called.

    params    the parameters in the graph, by variable name
    flags     what ``hybridize`` was given
    compiled  False runs every operator by its NumPy meaning instead
    monitor   ``(callback, operands too)``, called for every operator that runs
    """

    def __init__(
        self,
        outputs: tuple[Output, ...],
        input_names: list[str],
        params: Mapping[str, Parameter],
        flags: Mapping[str, Any],
    ) -> None:
        if flags.get("static_shape") and not flags.get("static_alloc"):
            raise MXNetError("static_alloc must be True when static_shape is True")
        self.outputs = outputs
        self.input_names = input_names
        self.params = dict(params)
        self.flags = dict(flags)
        self.compiled = True
        self.monitor: tuple[Callable[..., Any], bool] | None = None
        self._order = topological(outputs)
        self._types: dict[tuple[Any, ...], NodeTypes] = {}

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """The outputs for these inputs, on the context of the first.

        Raises RuntimeError for a parameter that was not initialised, ValueError when a deferred
        one's shape does not follow from the inputs, MXNetError naming the operator for inputs that
        do not fit.
        """
        named = dict(zip(self.input_names, arrays))
        ctx = arrays[0].context
        for name, array in self._parameter_arrays(named, ctx).items():
            named.setdefault(name, array)
        return self._interpret(named, self._checked_types(named), ctx)

    def _parameter_arrays(self, inputs: Mapping[str, NDArray], ctx: Context) -> dict[str, NDArray]:
        """The live array of every parameter, after finishing deferred initialisations."""
        if any(param.is_deferred for param in self.params.values()):
            for param in self.params.values():
                if not param.is_deferred:
                    param.data(ctx)
            finish_deferred(self.outputs, _types(inputs), self.params)
        return {name: param.data(ctx) for name, param in self.params.items()}

    def _checked_types(self, named: Mapping[str, NDArray]) -> NodeTypes:
        """The type of every node for arrays of these types; MXNetError when they do not fit."""
        types = _types(named)
        signature = tuple(types.values())
        if signature not in self._types:
            self._types[signature] = infer_node_types(self.outputs, types)
        return self._types[signature]

    def _interpret(
        self, named: Mapping[str, NDArray], types: NodeTypes, ctx: Context
    ) -> list[NDArray]:
        """Run node by node. An output that is a variable is the caller's own array."""
        results: dict[Node, list[NDArray]] = {}
        for node in self._order:
            if node.op is None:
                results[node] = [named[node.name]]
                continue
            inputs = [results[edge.node][edge.index] for edge in node.inputs]
            found = nd.invoke(node.op, inputs, _settled_attrs(node, types), ctx=ctx)
            results[node] = found if isinstance(found, list) else [found]
            if self.monitor is not None:
                _report(self.monitor, node, inputs, results[node])
        return [results[output.node][output.index] for output in self.outputs]


def _types(arrays: Mapping[str, NDArray]) -> dict[str, TensorType]:
    return {name: type_of(array._data) for name, array in arrays.items()}


def _settled_attrs(node: Node, types: NodeTypes) -> Mapping[str, Any]:
    """A node's attributes; a source's unknown sizes (0) are those that its users decided."""
    shape = node.attrs.get("shape")
    if not node.inputs and isinstance(shape, tuple) and 0 in shape:
        return {**node.text, "shape": types[node][0].dims}
    return node.text


class _Text(str):
    """A name for hooks written for MXNet, which gave bytes to decode."""

    def decode(self, *args: Any) -> str:
        return str(self)


def _report(
    monitor: tuple[Callable[..., Any], bool],
    node: Node,
    inputs: Sequence[NDArray],
    outputs: Sequence[NDArray],
) -> None:
    """Tell an operator hook what a node read and gave."""
    callback, operands_too = monitor
    assert node.op is not None
    named = zip(node.input_names, inputs) if operands_too else ()
    for name, array in (*named, *zip(node.output_names, outputs)):
        callback(_Text(f"{node.name}_{name}"), _Text(node.op.name), array)
