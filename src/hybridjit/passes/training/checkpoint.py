"""Checkpoint: select the values to save when memory matters more than time.

Input: a forward graph in execution order, and the values that are saved for the backward pass by
default. Output: a smaller set of saved values, the checkpoints, from which the backward pass
recomputes the others, convolutions and products included, one segment at a time. Results keep their
bits: recomputation applies the same operators to the same operands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from ..._core.frozen import dataclass
from ...ir.graph import Use, Value, uses_of

# Values smaller than the total of saved bytes divided by this stay saved.
_SMALL = 1000
# Bounds on the bytes recomputed per segment that are tried; each is 1.5 times the next.
_BOUNDS = 24


@dataclass(frozen=True)
class Checkpoints:
    """The saved values, the values that are recomputed, and the saved ones that the default
    omits."""

    saved: tuple[Use, ...]
    again: tuple[Use, ...]
    added: frozenset[Use] = frozenset()

    def reasons(self) -> Iterator[str]:
        """One line for each recomputed value, and one with the totals."""
        for use in self.again:
            yield f"computed again {use.value.describe()}, {use.type.nbytes} B, from checkpoints"
        if self.again:
            before = sum(use.type.nbytes for use in self.saved if use not in self.added)
            before += sum(use.type.nbytes for use in self.again)
            now = sum(use.type.nbytes for use in self.saved)
            yield f"memory small: {now} B saved for {before} B"


def checkpoint(order: Sequence[Value], saved: Sequence[Use]) -> Checkpoints:
    """A smaller set of saved uses for a graph whose values are ``order``, operands first.

    Borders divide the order into segments. They are chosen so that the bytes alive across borders
    plus the bytes that the largest segment recomputes are minimal. Small values and random draws
    stay saved, and so does all of the last segment: the backward pass would recompute it at once,
    in the memory that it occupies already.
    """
    free = _free(saved)
    crossing = _Crossing(order, frozenset(saved))
    borders = _best_borders(crossing.bytes_at, _inside(order, free))
    last = set(order[borders[-1] + 1 :]) if borders else set()
    kept = {use: None for use in saved if use not in free or use.value in last}
    for border in borders:
        kept.update(dict.fromkeys(crossing.uses_at(border)))
    if sum(use.type.nbytes for use in kept) >= sum(use.type.nbytes for use in saved):
        return Checkpoints(tuple(saved), ())
    again = tuple(use for use in saved if use not in kept)
    return Checkpoints(tuple(kept), again, frozenset(kept).difference(saved))


def _free(saved: Sequence[Use]) -> frozenset[Use]:
    """The saved uses that may be recomputed."""
    least = sum(use.type.nbytes for use in saved) // _SMALL
    return frozenset(use for use in saved if use.type.nbytes > least and _is_repeatable(use.value))


def _is_repeatable(value: Value) -> bool:
    op = value.op
    return op is not None and not op.is_random and len(value.types) == 1 and op.kernel != "host"


class _Crossing:
    """The uses that are alive across each position of an order: made there or earlier, read
    later."""

    def __init__(self, order: Sequence[Value], saved: frozenset[Use]) -> None:
        given = _given(order)
        self._places = {value: place for place, value in enumerate(order)}
        self._ends: dict[Use, int] = {}
        for value in order:
            for use in value.inputs:
                if use.value not in given:
                    self._ends[use] = self._places[value]
        # Twice the bytes, plus 1 for a use that is not saved by default: ties go to saved uses.
        changes = [0] * (len(order) + 1)
        for use, end in self._ends.items():
            weight = 2 * use.type.nbytes + (use not in saved)
            changes[self._places[use.value]] += weight
            changes[end] -= weight
        self.bytes_at: list[int] = []
        for change in changes[:-1]:
            self.bytes_at.append((self.bytes_at[-1] if self.bytes_at else 0) + change)

    def uses_at(self, place: int) -> list[Use]:
        """The uses that are alive across one position."""
        return [u for u, end in self._ends.items() if self._places[u.value] <= place < end]


def _given(order: Iterable[Value]) -> set[Value]:
    """The inputs, and views and unary pointwise results of inputs: available or cheap to
    compute."""
    found: set[Value] = set()
    for value in order:
        cheap = value.op is not None and (value.op.kernel == "view" or value.op.is_pointwise)
        if value.op is None or cheap and all(use.value in found for use in value.inputs):
            found.add(value)
    return found


def _inside(order: Sequence[Value], free: frozenset[Use]) -> list[int]:
    """For each position, twice the bytes of the uses up to it that may be recomputed."""
    total, found = 0, []
    for value in order:
        total += sum(2 * use.type.nbytes for use in uses_of(value) if use in free)
        found.append(total)
    return found


def _best_borders(cut: Sequence[int], inside: Sequence[int]) -> list[int]:
    """The borders with the smallest sum of bytes alive across them and bytes in the largest
    segment."""
    whole = inside[-1] if inside else 0
    tried = (_borders(cut, inside, int(whole / 1.5**i)) for i in range(_BOUNDS))
    found = [(cost, borders) for cost, borders in tried if borders is not None]
    return min(found, key=lambda pair: pair[0], default=(0, []))[1] or []


def _borders(cut: Sequence[int], inside: Sequence[int], most: int) -> tuple[int, list[int] | None]:
    """The cheapest borders with at most ``most`` bytes inside each segment, and their cost.

    One pass: ``ready`` holds the candidates for the previous border, the cheapest first.
    """
    best: list[int] = []
    before: list[int] = []
    ready: deque[int] = deque([-1])

    def cost(place: int) -> int:
        return best[place] if place >= 0 else 0

    def start(place: int) -> int:
        return inside[place] if place >= 0 else 0

    for place in range(len(cut)):
        while ready and inside[place] - start(ready[0]) > most:
            ready.popleft()
        if not ready:
            return 0, None
        before.append(ready[0])
        best.append(cost(ready[0]) + cut[place])
        while ready and cost(ready[-1]) >= best[place]:
            ready.pop()
        ready.append(place)
    borders: list[int] = []
    place = before[-1] if before else -1  # after the last value no border is needed
    while place >= 0:
        borders.append(place)
        place = before[place]
    return cost(before[-1] if before else -1) + most, borders[::-1]
