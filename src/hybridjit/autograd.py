"""Gradients of eager calls and hybridized networks: ``mx.autograd``.

``with record():`` records calls on the tape; ``backward`` computes gradients with respect to the
variables made by ``attach_grad``. ``Function`` is a computation with a user-defined gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._core.async_safety import restoring
from ._core.frames import public
from ._core.lazy import Late
from ._core.recording import (
    FLAGS,
    RecordingStateScope,
    is_recording,
    is_training,
    pause,
    predict_mode,
    record,
    set_recording,
    set_training,
    train_mode,
)
from ._core.types import DType
from .context import Context
from .errors import MXNetError
from .ir.node import Node, Output, apply, topological, variable
from .nd import NDArray, zeros
from .nd.tape import (
    Entry,
    Leaf,
    Network,
    Some,
    Step,
    behind,
    place_of,
    require_request,
    variable_number,
)
from .nd.tape import record as put_on_tape
from .nd.taped import run_backward, run_gradients
from .ops.attrs import attr_text
from .sym import Symbol
from .sym.outputs import substituted

if TYPE_CHECKING:
    from .control import network
else:  # imported with the first symbol of a hybridized network
    network = Late(".control.network", __package__)

__all__ = [
    "Function",
    "NDArray",
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]

_RecordingStateScope = RecordingStateScope  # MXNet's name, which programs import

Arrays = NDArray | Sequence[NDArray]


@public
def backward(
    heads: Arrays,
    head_grads: Any = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Compute the gradients of every variable that ``heads`` depend on, summed over the heads.

    ``head_grads`` has one array of the head's shape and type, or None for ones, per head.
    Raises MXNetError for a head that was not recorded, AssertionError for lists of unequal length.
    """
    heads, given = _paired(heads, head_grads)
    run_backward(heads, given, retain_graph, train_mode)


@public
def grad(
    heads: Arrays,
    variables: Arrays,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """Compute gradients with respect to ``variables`` as new arrays, without changing their
    ``grad``.

    With ``create_graph`` the backward pass is recorded and can be differentiated. Raises MXNetError
    for a variable without ``attach_grad``, or one that no head depends on.
    """
    heads, given = _paired(heads, head_grads)
    wanted = [variables] if isinstance(variables, NDArray) else list(variables)
    assert wanted, "variables cannot be an empty list."
    retain = create_graph if retain_graph is None else retain_graph
    return run_gradients(heads, wanted, given, retain, create_graph, train_mode)


@public
def mark_variables(
    variables: Arrays, gradients: Arrays, grad_reqs: str | Sequence[str] = "write"
) -> None:
    """Make arrays variables whose gradients are written to the given arrays.

    ``grad_reqs`` is "write", "add" or "null", for all or one for each. Raises KeyError for others.
    """
    arrays = [variables] if isinstance(variables, NDArray) else list(variables)
    grads = [gradients] if isinstance(gradients, NDArray) else list(gradients)
    requests = [grad_reqs] * len(arrays) if isinstance(grad_reqs, str) else list(grad_reqs)
    assert len(arrays) == len(grads) == len(requests), "one gradient and request for each variable"
    for x, gradient, request in zip(arrays, grads, requests):
        require_request(request)
        x._mark(gradient, request)


def _paired(heads: Arrays, head_grads: Any) -> tuple[list[NDArray], list[NDArray | None]]:
    heads = [heads] if isinstance(heads, NDArray) else list(heads)
    if isinstance(head_grads, NDArray):
        head_grads = [head_grads]
    given = [None] * len(heads) if head_grads is None else list(head_grads)
    for head in heads:
        if not isinstance(head, NDArray):
            raise TypeError(f"heads are NDArrays, results of recorded calls, got {type(head)}")
    assert len(given) == len(heads), "heads and head_grads must be lists of the same length"
    return heads, given


class Function:
    """A computation with a user-defined gradient; an instance serves one call.

    A subclass overrides ``forward(*inputs)`` and ``backward(*output_grads)`` with functions of
    ``nd``; ``backward`` returns one gradient for each input.
    """

    _is_used = False
    _saved: tuple[Any, ...] = ()

    def forward(self, *inputs: NDArray) -> Any:
        """To override: the outputs for these arrays."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def backward(self, *output_grads: NDArray) -> Any:
        """To override: the gradients of the inputs, computed from those of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} does not define backward")

    def save_for_backward(self, *args: object) -> None:
        """Store arrays for ``backward``, which accesses them as ``saved_tensors``."""
        self._saved = args

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The arrays of ``save_for_backward``."""
        return self._saved

    @public
    @restoring(FLAGS)
    def __call__(self, *inputs: NDArray) -> Any:
        assert not self._is_used, (
            "Each Function instance can only be called once. Please create another instance."
        )
        self._is_used = True
        is_training = FLAGS.training
        with pause(is_training):
            made = self.forward(*inputs)
        outputs = [made] if isinstance(made, NDArray) else list(made)
        if FLAGS.recording:
            if any(y is x for y in outputs for x in inputs):
                who = f"{type(self).__name__}.forward"
                raise MXNetError(f"{who} returns its input, and must return a new array")
            self._record(inputs, outputs)
        return made

    def _record(self, inputs: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
        blanks = [(y.shape, y.dtype, y.context) for y in outputs]

        def pull(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
            full = [*douts, *[None] * (len(blanks) - len(douts))]
            heads = [_zeros(*blank) if d is None else d for d, blank in zip(full, blanks)]
            return self._gradients(heads, inputs)

        put_on_tape([], inputs, outputs, pull, alone=True)

    def _gradients(self, heads: Sequence[NDArray], inputs: Sequence[NDArray]) -> list[NDArray]:
        with pause(FLAGS.training):
            made = self.backward(*heads)
        found = [made] if isinstance(made, NDArray) else list(made)
        who = f"{type(self).__name__}.backward"
        if len(found) != len(inputs):
            raise MXNetError(
                f"{who} must return a gradient for each of {len(inputs)} inputs, got {len(found)}"
            )
        for d in found:
            if not isinstance(d, NDArray):
                raise MXNetError(f"{who} must return NDArrays, got {type(d)}")
        return [d.astype(x.dtype, copy=False) for d, x in zip(found, inputs)]


def _zeros(shape: tuple[int, ...], dtype: DType, ctx: Context | None) -> NDArray:
    return zeros(shape, ctx, dtype)


def get_symbol(x: NDArray) -> Symbol:
    """The recorded history of an array as a Symbol.

    Variables are named ``var<n>``; operators are ``node_<n>`` with the attributes that differ from
    their defaults; each use of a constant is a separate ``null<n>``. A call of a hybridized network
    is one operator ``_CachedOp``, or its operators where they are at most ``inline_limit`` (an
    option of ``hybridize``, 2 by default). Raises MXNetError for an array that was not recorded,
    and if a step does not consist of operators: a Function, or an index given by arrays.
    """
    head = place_of(x)
    if head is None:
        raise MXNetError(
            "NDArray is not part of a computation graph. Did you forget to turn on recording?"
        )
    found: dict[Step | Leaf, Sequence[Output]] = {}
    steps, leaves = behind([head])
    for leaf in leaves:
        found[leaf] = [Output(variable(f"var{leaf.number}"))]
    for step, _ in steps:
        inputs = [_as_input(entry, found) for entry in step.inputs]
        if step.network is None:
            found[step] = _outputs_of(_as_node(step, inputs))
        else:
            found[step] = _as_network(step.number, step.network, inputs)
    return Symbol((found[head.owner][head.index],))


def _as_input(entry: Entry | None, found: Mapping[Step | Leaf, Sequence[Output]]) -> Output:
    if entry is None:
        return Output(variable(f"null{variable_number()}"))
    return found[entry.owner][entry.index]


def _outputs_of(node: Node) -> list[Output]:
    return [Output(node, index) for index in range(len(node.output_names))]


def _as_network(number: int, graph: Network, inputs: Sequence[Output]) -> list[Output]:
    """Results of a hybridized network: of its operators, or of one that stands for all."""
    given = dict(zip(graph.variables, inputs))
    count = sum(node.op is not None for node in topological(graph.outputs))
    if count <= graph.inline_limit:
        return substituted(graph.outputs, given)
    body = network.Body(graph.outputs)
    operands = [given[node.name] for node in body.variables]
    return _outputs_of(apply(network.network(body), f"node_{number}", operands, {}))


def _as_node(step: Step, inputs: Sequence[Output]) -> Node:
    if not step.what:
        raise MXNetError(
            f"recorded step {step.number} does not consist of operators: it has no symbol"
        )
    reads = tuple(inputs)
    for place, (op, attrs) in enumerate(step.what):
        defaults = op.with_defaults({})
        given = {k: v for k, v in attrs.items() if k not in defaults or v != defaults[k]}
        text = {k: attr_text(v) for k, v in given.items() if v is not None}
        own = f"node_{step.number}" + "_part" * (len(step.what) - 1 - place)
        node = Node(op, own, text, reads, op.parse(text))
        reads = (Output(node, 0),)
    return node
