"""Partition: a joint graph -> a forward graph and a backward graph.

The forward graph returns its outputs and then the saved values, which the backward graph reads.
Saved are expensive values, random draws, and values that the forward graph writes to memory for
other kernels; other cheap values are recomputed from available ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..._core.frozen import dataclass
from ...ir.graph import Graph, Use, Value, uses_of, walk
from ...ir.rewrite import rebuild
from ...ops.bfloat16 import FROM_BFLOAT16, TO_BFLOAT16
from .checkpoint import Checkpoints, checkpoint
from .differentiate import Joint

# Up to this number, pointwise operations are recomputed rather than saved: each costs less than
# reading its stored result.
_MAX_AGAIN = 16


@dataclass(frozen=True)
class Parts:
    """A forward and a backward graph.

    saved    values of the forward graph that the backward graph reads, in the order of both
    reads    the inputs of the forward graph that the backward graph reads too, in its order
    sources  the inputs of the forward graph on which the gradients would depend without saved
             values
    heads    the numbers of the outputs whose gradients it reads, in its order
    reasons  one line for each saved value, with its readers
    """

    forward: Graph
    backward: Graph
    saved: tuple[Use, ...]
    reads: tuple[str, ...]
    sources: tuple[str, ...]
    heads: tuple[int, ...]
    reasons: tuple[str, ...]

    @property
    def saved_bytes(self) -> int:
        """Bytes kept from forward to backward."""
        return _bytes(self.saved)


def partition(joint: Joint, is_small: bool = False) -> Parts:
    """The two graphs; the backward graph reads inputs, then saved values, then head gradients.

    With ``is_small``, checkpoints are saved and the backward graph recomputes the other values.
    """
    forward = set(walk(joint.forward.outputs))
    wanted = joint.backward_outputs
    frontier = _frontier(wanted, forward)
    written = frozenset[Use]() if is_small else _written(joint.forward)
    usual = _with_chance(_choose(frontier, written), wanted, forward)
    chosen = checkpoint(walk(joint.forward.outputs), usual) if is_small else Checkpoints(usual, ())
    saved = tuple(dict.fromkeys(map(_as_stored, chosen.saved)))
    stand_ins = {
        use: Use(Value(None, f"saved{i}", {}, (), (use.type,))) for i, use in enumerate(saved)
    }
    # Separate copies: a cheap value is recomputed where gradients read it.
    repeated: set[str] = set()
    again = dict(zip(chosen.again, _cut(chosen.again, stand_ins, repeated)))
    outputs = _cut(wanted, {use: v for use, v in stand_ins.items() if use in usual} | again)
    used, behind = set(walk(outputs)), set(walk(wanted))
    given = [value for value in joint.forward.inputs if value in used]
    heads = [v for v in joint.graph.inputs[len(joint.forward.inputs) :] if v in used]
    numbers = [n for n, v in zip(joint.heads, _heads(joint)) if v in used]
    backward = Graph(
        (*given, *(use.value for use in stand_ins.values()), *heads),
        (),
        outputs,
        name=f"{joint.forward.name}.backward",
        purpose=replace(joint.forward.purpose, goes_back=True, repeats=frozenset(repeated)),
    )
    purpose = replace(joint.forward.purpose, saved=len(saved))
    return Parts(
        replace(joint.forward, outputs=(*joint.forward.outputs, *saved), purpose=purpose),
        backward,
        saved,
        tuple(value.name for value in given),
        tuple(value.name for value in joint.forward.inputs if value in behind),
        tuple(numbers),
        (*_reasons(saved, joint), *chosen.reasons()),
    )


def _heads(joint: Joint) -> Sequence[Value]:
    return joint.graph.inputs[len(joint.forward.inputs) :]


def _frontier(wanted: Iterable[Use], forward: set[Value]) -> list[Use]:
    """The uses of the forward graph that the backward pass reads, in order of first use."""
    found = {use: None for use in wanted if use.value in forward}
    for value in walk(wanted):
        if value not in forward:
            found.update((use, None) for use in value.inputs if use.value in forward)
    return list(dict.fromkeys(_as_stored(use) for use in found if use.value.op is not None))


def _as_stored(use: Use) -> Use:
    """The use to save for a use: for a widened bfloat16 value, its 16-bit operand."""
    return use.value.inputs[0] if use.value.op is FROM_BFLOAT16 else use


def _written(forward: Graph) -> frozenset[Use]:
    """Uses that the forward graph writes to memory because kernels, not epilogues, read them."""
    readers = (value for value in forward.values if not is_cheap(value))
    return frozenset(_as_stored(use) for value in readers for use in value.inputs)


def _choose(frontier: list[Use], written: frozenset[Use]) -> tuple[Use, ...]:
    """The uses to save: those of the frontier, or the ones they can be recomputed from.

    A ``written`` use is not recomputed from sources of as many bytes: saving it avoids that work.
    """
    order = {value: i for i, value in enumerate(walk(frontier))}
    saved = dict.fromkeys(sorted(frontier, key=lambda use: (order[use.value], use.index)))
    kept = {
        use for use in saved if use in written and _bytes(_sources(use) or ()) >= use.type.nbytes
    }
    for use in reversed(list(saved)):
        sources = None if use in kept else _sources(use, kept)
        if sources is None:
            continue
        extra = [source for source in sources if source not in saved]
        if _bytes(extra) < use.type.nbytes:
            del saved[use]
            saved.update(dict.fromkeys(extra))
    return tuple(sorted(saved, key=lambda use: (order.get(use.value, -1), use.index)))


def _bytes(uses: Iterable[Use]) -> int:
    return sum(use.type.nbytes for use in uses)


def _with_chance(
    saved: tuple[Use, ...], wanted: Sequence[Use], forward: set[Value]
) -> tuple[Use, ...]:
    """The saved uses, and all random draws on which gradients depend."""
    drawn = [v for v in walk(wanted) if v in forward and v.op is not None and v.op.is_random]
    return tuple(dict.fromkeys([*saved, *(use for value in drawn for use in uses_of(value))]))


def _sources(use: Use, kept: Collection[Use] = ()) -> list[Use] | None:
    """The uses from which a cheap value is computed: expensive or ``kept`` ones, without inputs and
    constants.

    None if the value is not cheap.
    """
    sources: dict[Use, None] = {}
    pending, seen = [use], set()
    while pending:
        value = pending.pop().value
        if value in seen:
            continue
        seen.add(value)
        if len(seen) > _MAX_AGAIN:
            return None
        for source in value.inputs:
            if is_cheap(source.value) and source not in kept:
                pending.append(source)
            elif source.value.op is not None and not _is_constant(source.value):
                sources[source] = None
    return list(sources) if is_cheap(use.value) else None


def is_cheap(value: Value) -> bool:
    """Whether recomputing a value costs less than saving it: views and pointwise values."""
    op = value.op
    if op is TO_BFLOAT16:
        return is_cheap(value.inputs[0].value)  # otherwise its 16 bits are saved: half the bytes
    return op is not None and not op.is_random and (op.is_pointwise or op.kernel == "view")


def _is_constant(value: Value) -> bool:
    """Whether a value has no operands and is not random: each graph computes it at bind time."""
    return value.op is not None and not value.inputs and not value.op.is_random


def _cut(
    wanted: Sequence[Use], stand_ins: Mapping[Use, Use], repeated: set[str] | None = None
) -> tuple[Use, ...]:
    """The wanted uses, computed from stand-ins where these exist.

    With ``repeated``, by copies of the values with new names, which are added to the set.
    """
    mapped = dict(stand_ins)
    for value in walk(wanted):
        if value.op is None or Use(value) in mapped:
            continue
        new = rebuild(value, tuple(mapped.get(use, use) for use in value.inputs))
        if repeated is not None:
            new = replace(new, name=f"{value.name}:again")
            repeated.add(new.name)
        if new is not value:
            for index in range(len(value.types)):
                mapped.setdefault(Use(value, index), Use(new, index))
    return tuple(mapped.get(use, use) for use in wanted)


def _reasons(saved: Sequence[Use], joint: Joint) -> Iterable[str]:
    readers: dict[Use, list[Value]] = {use: [] for use in saved}
    for value in joint.graph.values:
        for use in dict.fromkeys(value.inputs):
            if use in readers:
                readers[use].append(value)
    for use in saved:
        names = ", ".join(dict.fromkeys(v.name for v in readers[use][:3]))
        yield f"saved {use.value.describe()}, {use.type.nbytes} B: read by {names}"
