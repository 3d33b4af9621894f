"""Autograd tape and backward pass.

A call under ``autograd.record`` creates a :class:`Step`: its operands, and a function from the
gradients of its results to those of its operands. Arrays on the tape have an :class:`Entry`: the
step that computed them, or the :class:`Leaf` that holds their gradient.

Input: arrays with entries. Output: gradients, computed by any builder of arrays.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..errors import MXNetError
from ..ops.gradient import needs_heads
from ..runtime.holders import GRADIENTS

if TYPE_CHECKING:
    from ..ir.node import Output
    from ..ops.attrs import Attrs
    from ..ops.record import OpDef

REQUESTS = ("null", "write", "add")


def require_request(word: object) -> None:
    """Raise KeyError unless ``word`` is one of :data:`REQUESTS`."""
    if word not in REQUESTS:
        raise KeyError(f"grad_req is one of {', '.join(map(repr, REQUESTS))}, got {word!r}")


Gradient: TypeAlias = Any  # an NDArray; this module is below its class
Some = Sequence[Gradient | None]


# Counters for the names of variables and steps in the symbol of a history.
_variables, _steps = itertools.count(), itertools.count()


def variable_number() -> int:
    """Number that no other variable has."""
    return next(_variables)


class Taped(Protocol):
    """Array that may be on the tape."""

    _entry: Entry | None


class Leaf:
    """Variable: the memory of its gradient, and how gradients are stored there.

    fresh   whether a gradient was stored since the flag was cleared
    number  position in the order of creation
    watch   object that uses the gradient before the backward pass is complete
    """

    __slots__ = ("grad", "request", "fresh", "number", "watch", "__weakref__")
    leads, unread = True, ()  # attributes of Step

    def __init__(self, grad: Gradient, request: str) -> None:
        self.grad = grad
        self.request = request
        self.fresh = False
        self.number = variable_number()
        self.watch: Watch | None = None
        GRADIENTS.add(self)

    def _held(self) -> tuple[np.ndarray]:
        """Memory of the gradient."""
        return (self.grad._data,)


class Network(NamedTuple):
    """Graph of a hybridized network, and the variable that each operand of a call stands for.

    inline_limit  the number of operators up to which a history's symbol contains them
    """

    outputs: Sequence[Output]
    variables: Sequence[str]
    inline_limit: int


class Stage(NamedTuple):
    """Call ``begin()`` after ``after`` steps of a backward plan: gradients of ``leaves`` are
    ready."""

    after: int
    leaves: Sequence[Leaf]
    begin: Callable[[], None]


class Watch(Protocol):
    """Consumer of gradients during a backward pass."""

    def stages(self, finals: Mapping[Leaf, int]) -> list[Stage]:
        """Stages of a backward pass that writes these gradients in place, in order.

        ``finals`` maps each gradient to the number of steps after which it is complete.
        """


class Step:
    """Recorded call; ``pull`` is None once a backward pass has freed it.

    what    operators with their attributes: one, or a chain in which each reads the result
            before it; empty if the call does not consist of operators
    network  the graph that the call ran, of a hybridized network
    number  position in the order of recording
    inputs  entries of the operands, None for constants
    pull    ``pull(step, output gradients, which operands need one)`` returns a gradient or None
            for each operand. It must not refer to the results' entries, which refer to the step.
    places  gradients by operand that ``pull`` may write in place and return: those of variables
            without another gradient, when no step is pulled later
    alone   whether ``pull`` is called even without output gradients: it may have gradients that
            do not depend on them, or states to update
    unread  results whose gradients ``pull`` does not read
    leads   whether the gradient of a variable depends on the output gradients
    """

    __slots__ = (
        *("what", "network", "number", "inputs", "pull", "places", "alone", "unread", "leads"),
    )

    def __init__(
        self,
        what: What,
        inputs: tuple[Entry | None, ...],
        pull: Pull,
        alone: bool,
        unread: Collection[int],
        network: Network | None,
    ) -> None:
        self.what, self.network = what, network
        self.alone, self.unread = alone, unread
        leading = map(leads_back, inputs)
        self.leads = _needs_heads(what, [*leading]) if what else any(leading)
        self.number = next(_steps)
        self.inputs = inputs
        self.pull: Pull | None = pull
        self.places: dict[int, Gradient] = {}

    def free(self) -> None:
        """Release the data of the backward pass."""
        self.inputs, self.pull = (), None


class Entry(NamedTuple):
    """Result ``index`` of a step, or a leaf."""

    owner: Step | Leaf
    index: int = 0  # type: ignore[assignment]


def leads_back(entry: Entry | None) -> bool:
    """Test whether a variable's gradient depends on the gradient of this entry."""
    return entry is not None and entry[0].leads and entry[1] not in entry[0].unread


What = Sequence[tuple["OpDef", "Attrs"]]
Pull = Callable[[Step, Some, Sequence[bool]], Some]
Gradients = dict[Entry, Gradient]
Adding = Callable[[Gradient, Gradient], Gradient]


def record(
    what: What,
    inputs: Sequence[Taped],
    outputs: Sequence[Taped],
    pull: Pull,
    alone: bool = False,
    unread: Collection[int] = (),
    network: Network | None = None,
) -> None:
    """Record a call if any of its operands is on the tape."""
    entries = tuple(x._entry for x in inputs)
    if any(entry is not None for entry in entries):
        step = Step(what, entries, pull, alone, unread, network)
        for index, output in enumerate(outputs):
            output._entry = Entry(step, index)


def _needs_heads(what: What, wanted: Sequence[bool]) -> bool:
    """Test whether a wanted operand's gradient depends on the output gradients."""
    if not what:
        return any(wanted)
    op, attrs = what[0]  # the following ones pass every gradient
    return needs_heads(op, attrs, wanted)


_NO_VARIABLES = (
    "Check failed: xs.size() > 0 (0 vs. 0) : There are no inputs in computation graph "
    "that require gradients."
)
_NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set "
    "is_recording to true or use autograd.record() to save computational graphs for backward. If "
    "you want to differentiate the same graph twice, you need to pass retain_graph=True to "
    "backward. Arrays need x.attach_grad(), parameters a grad_req other than 'null'."
)


def run_back(
    heads: Sequence[Taped],
    head_gradients: Sequence[Gradient],
    add: Adding,
    retain: bool,
    in_place: bool = False,
    wanted: Collection[Leaf] | None = None,
) -> tuple[Gradients, list[Leaf]]:
    """Gradients of all entries, and the leaves found; some leaves may have no gradient.

    With ``in_place`` some gradients may be views of their leaf's gradient array, already written.
    If leaves are ``wanted``, only steps that their gradients depend on are pulled. Raises
    MXNetError for a head that is not on the tape, or if no leaf is found.
    """
    entries = [_require_entry(head) for head in heads]
    steps, leaves = behind(entries)
    if not leaves:
        raise MXNetError(_NO_VARIABLES)
    reached: Gradients = dict(
        zip(entries, head_gradients)
    )  # the last of equal heads determines the gradient
    last = steps[0][0] if steps and in_place else None
    needs = leads_back if wanted is None else _leading_to(wanted, steps).__contains__
    for step, count in reversed(steps):
        if step is last:
            step.places = _places(last, reached)
        _pull(step, count, needs, reached, add)
        step.places = {}
        if not retain:
            step.free()
    return reached, leaves


def _leading_to(leaves: Iterable[Leaf], steps: Iterable[tuple[Step, int]]) -> set[Entry]:
    """Entries whose gradients are needed for the gradients of the leaves."""
    needed = {Entry(leaf) for leaf in leaves}
    for step, count in steps:
        if _needs_heads(step.what, [entry in needed for entry in step.inputs]):
            needed.update(Entry(step, i) for i in range(count) if i not in step.unread)
    return needed


def _places(step: Step, reached: Gradients) -> dict[int, Gradient]:
    """Gradient arrays that only this step writes, by operand."""
    owners = [entry.owner if entry is not None else None for entry in step.inputs]
    leaves = [(i, owner) for i, owner in enumerate(owners) if isinstance(owner, Leaf)]
    counts = Counter(leaf for _, leaf in leaves)
    taken = {entry.owner for entry in reached}
    return {
        i: leaf.grad
        for i, leaf in leaves
        if leaf.request == "write"
        and counts[leaf] == 1
        and leaf not in taken
        and leaf.grad.stype == "default"
    }


def _require_entry(head: Taped) -> Entry:
    entry = place_of(head)
    if entry is None:
        raise MXNetError(_NOT_RECORDED)
    return entry


def place_of(x: Taped) -> Entry | None:
    """Entry of an array; None also if a backward pass has freed its history."""
    entry = x._entry
    is_freed = entry is not None and isinstance(entry.owner, Step) and entry.owner.pull is None
    return None if is_freed else entry


def behind(heads: Iterable[Entry]) -> tuple[list[tuple[Step, int]], list[Leaf]]:
    """Steps that the heads depend on, operands first, and their leaves.

    Each step has the number of its results that the heads depend on. Independent steps are in
    MXNet's order: the history of a first operand, or head, before that of a second one. The
    backward pass runs in reverse order, which determines which of two recorded calls updates a
    layer's moving statistics last.
    """
    counts: dict[Step, int] = {}
    leaves: dict[Leaf, None] = {}
    order: list[Step] = []
    pending: list[tuple[Step | None, Iterator[Entry | None]]] = [(None, iter(heads))]
    while pending:
        step, operands = pending[-1]
        for owner, index in filter(None, operands):
            if isinstance(owner, Leaf):
                leaves[owner] = None
                continue
            is_new = owner not in counts
            counts[owner] = max(counts.get(owner, 0), index + 1)
            if is_new:
                pending.append((owner, iter(owner.inputs)))
                break
        else:
            pending.pop()
            if step is not None:
                order.append(step)
    return [(step, counts[step]) for step in order], list(leaves)


def _pull(
    step: Step,
    count: int,
    needs: Callable[[Entry | None], bool],
    reached: Gradients,
    add: Adding,
) -> None:
    douts = [reached.pop(Entry(step, index), None) for index in range(count)]
    if step.pull is None or not step.alone and all(dout is None for dout in douts):
        return
    wanted = [needs(entry) for entry in step.inputs]
    if not any(wanted):
        return
    for entry, is_wanted, d in zip(step.inputs, wanted, step.pull(step, douts, wanted)):
        if is_wanted and d is not None:
            assert entry is not None
            reached[entry] = add(reached[entry], d) if entry in reached else d
