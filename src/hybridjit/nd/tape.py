"""What eager calls leave behind for their gradients, and the way back over it.

A call under ``autograd.record`` makes a :class:`Step`: what it read, and a function that takes
the gradients of its results to those of its operands. Arrays that stand on the tape hold an
:class:`Entry`: the step that made them, or the :class:`Leaf` that keeps their gradient.

In: arrays with entries. Out: gradients, made on any builder of arrays.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ..errors import MXNetError
from ..ops.gradient import needs_heads
from ..runtime.holders import GRADIENTS

if TYPE_CHECKING:
    from ..ops.attrs import Attrs
    from ..ops.record import OpDef
    from .memory import DenseArray
    from .ndarray import NDArray

REQUESTS = ("null", "write", "add")

Some = Sequence["NDArray | None"]


# What variables and steps are called in a symbol of their history, in the order they were made
_variables, _steps = itertools.count(), itertools.count()


def variable_number() -> int:
    """A number that no other variable has."""
    return next(_variables)


class Leaf:
    """A variable: where its gradient is kept, and how what arrives is stored there.

    fresh   whether a gradient arrived since somebody last cleared the flag
    number  in the order in which variables were made
    watch   who wants to know of the gradient before backward is over
    """

    __slots__ = ("grad", "request", "fresh", "number", "watch", "__weakref__")
    leads, unread = True, ()  # as those of a step

    def __init__(self, grad: NDArray, request: str) -> None:
        self.grad = grad
        self.request = request
        self.fresh = False
        self.number = variable_number()
        self.watch: Watch | None = None
        GRADIENTS.add(self)

    def _held(self) -> tuple[np.ndarray]:
        """The gradient's memory."""
        return (self.grad._data,)


class Stage(NamedTuple):
    """After ``after`` steps of a backward's plan ``leaves`` have their gradients: ``begin()``."""

    after: int
    leaves: Sequence[Leaf]
    begin: Callable[[], None]


class Watch(Protocol):
    """What makes use of gradients while backward goes on."""

    def stages(self, finals: Mapping[Leaf, int]) -> list[Stage]:
        """The stages of a backward that writes these gradients in place, in their order.

        ``finals`` says after how many steps of its plan each gradient is complete.
        """


class Step:
    """One recorded call; ``pull`` is None once a backward pass has freed it.

    what    operators with their attributes: one, or several of which each reads the one
            before; none where the call is not made of operators
    number  in the order in which calls were recorded
    inputs  the entries of its operands, None for constants
    pull    ``pull(step, gradients of the results, which operands want one)`` gives one gradient,
            or None, for each operand. It does not hold the results' entries: they hold the step.
    places  by operand, gradients that ``pull`` may write in their own memory and give: of variables
            that nothing else reaches, and nothing is pulled behind it
    alone   whether ``pull`` is called where no gradient of a result arrived, too: it may have
            gradients that do not depend on those, or states to move
    unread  the results whose gradients ``pull`` does not read
    leads   whether the gradient of a variable depends on those of the results
    """

    __slots__ = ("what", "number", "inputs", "pull", "places", "alone", "unread", "leads")

    def __init__(
        self,
        what: What,
        inputs: tuple[Entry | None, ...],
        pull: Pull,
        alone: bool,
        unread: Collection[int],
    ) -> None:
        self.what = what
        self.alone, self.unread = alone, unread
        leading = map(leads_back, inputs)
        self.leads = _needs_heads(what, [*leading]) if what else any(leading)
        self.number = next(_steps)
        self.inputs = inputs
        self.pull: Pull | None = pull
        self.places: dict[int, NDArray] = {}

    def free(self) -> None:
        """Let go of what the way back would need."""
        self.inputs, self.pull = (), None


class Entry(NamedTuple):
    """Result ``index`` of a step, or a leaf."""

    owner: Step | Leaf
    index: int = 0  # type: ignore[assignment]


def leads_back(entry: Entry | None) -> bool:
    """Whether a variable's gradient depends on the one that arrives here."""
    return entry is not None and entry[0].leads and entry[1] not in entry[0].unread


What = Sequence[tuple["OpDef", "Attrs"]]
Pull = Callable[[Step, Some, Sequence[bool]], Some]
Gradients = dict[Entry, "NDArray"]
Adding = Callable[["NDArray", "NDArray"], "NDArray"]


def record(
    what: What,
    inputs: Sequence[DenseArray],
    outputs: Sequence[DenseArray],
    pull: Pull,
    alone: bool = False,
    unread: Collection[int] = (),
) -> None:
    """Put a call on the tape, if any of its operands stands there."""
    entries = tuple(x._entry for x in inputs)
    if any(entry is not None for entry in entries):
        step = Step(what, entries, pull, alone, unread)
        for index, output in enumerate(outputs):
            output._entry = Entry(step, index)


def _needs_heads(what: What, wanted: Sequence[bool]) -> bool:
    """Whether a wanted operand's gradient depends on those of the results."""
    if not what:
        return any(wanted)
    op, attrs = what[0]  # any others follow it and stop nothing
    return needs_heads(op, attrs, wanted)


_NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set "
    "is_recording to true or use autograd.record() to save computational graphs for backward. If "
    "you want to differentiate the same graph twice, you need to pass retain_graph=True to "
    "backward."
)


def run_back(
    heads: Sequence[DenseArray],
    head_gradients: Sequence[NDArray],
    add: Adding,
    retain: bool,
    in_place: bool = False,
    wanted: Collection[Leaf] | None = None,
) -> tuple[Gradients, list[Leaf]]:
    """What arrives at every entry, and the leaves on the way, of which some got nothing.

    With ``in_place`` some of it may lie where its leaf keeps its gradient, which is written then.
    Where leaves are ``wanted`` only what their gradients depend on is pulled.
    Raises MXNetError for a head that is not on the tape, or when no leaf is reached.
    """
    entries = [_require_entry(head) for head in heads]
    steps, leaves = behind(entries)
    if not leaves:
        raise MXNetError(
            "Check failed: xs.size() > 0 (0 vs. 0) : There are no inputs in computation graph "
            "that require gradients."
        )
    reached: Gradients = dict(zip(entries, head_gradients))  # of equal heads the last one counts
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
    """The entries whose gradients are needed for those of the leaves."""
    needed = {Entry(leaf) for leaf in leaves}
    for step, count in steps:
        if _needs_heads(step.what, [entry in needed for entry in step.inputs]):
            needed.update(Entry(step, i) for i in range(count) if i not in step.unread)
    return needed


def _places(step: Step, reached: Gradients) -> dict[int, NDArray]:
    """The gradients that wait for what this step alone gives."""
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


def _require_entry(head: DenseArray) -> Entry:
    entry = place_of(head)
    if entry is None:
        raise MXNetError(_NOT_RECORDED)
    return entry


def place_of(x: DenseArray) -> Entry | None:
    """Where an array stands; None also where a backward pass has freed what was behind it."""
    entry = x._entry
    is_freed = entry is not None and isinstance(entry.owner, Step) and entry.owner.pull is None
    return None if is_freed else entry


def behind(heads: Iterable[Entry]) -> tuple[list[tuple[Step, int]], list[Leaf]]:
    """The steps that the heads follow from, operands first, and their leaves.

    With each step the number of its results that something behind the heads reads. Steps that
    do not depend on each other come as in MXNet: what stands behind a first operand, or head,
    before what stands behind a second one. The way back goes over them in reverse, which says
    which of two recorded calls moves a layer's statistics last.
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
