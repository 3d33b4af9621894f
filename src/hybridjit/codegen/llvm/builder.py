"""LoopBuilder: loops as ``with`` blocks, polls, and shares of the work, over LLVM IR.

Generator code is indented like the code it generates. Python ints are accepted as indices, for
sizes known at compile time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..._core.frozen import dataclass
from ..._core.target import Target
from . import ir
from .indices import Index
from .types import I64, PTR, Value
from .vectors import VectorBuilder

# Instructions between two polls of a kernel: 0.3 ms as a rule. A poll takes 30 ns.
QUIET = 1 << 20
# Instructions of one unit of work above which it polls inside: 20 ms as a rule, and 0.5 s if it
# always waits for memory. Calls inside tighter loops would cost registers.
LONG = 1 << 26
# Minimum instructions of a chunk that a thread may take from another one: 3 us as a rule. Claiming
# a chunk costs 0.1 us.
PIECE = 1 << 16


class Loop:
    """A loop being built: its index, the values carried into a round, and ``yields`` for the next.

    After the ``with`` block, ``results`` are the carried values at the end of the loop.
    """

    def __init__(self, index: Value, carried: list[Value]) -> None:
        self.index = index
        self.carried = carried
        self.results = carried
        self.next_values: list[Value] = list(carried)

    def yields(self, values: Sequence[Value]) -> None:
        self.next_values = list(values)


def _rounds(start: Index, stop: Index, step: Index) -> int | None:
    """The number of rounds of a loop; None if it is not a compile-time constant."""
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, -(-(stop - start) // step))
    return None


@dataclass(frozen=True)
class Part:
    """The arguments of a function that does a part of a kernel's work.

    poll   points to the address of a function ``i64 f(ptr poll)``; if it returns anything but 0,
           the function returns at once, with its work unfinished
    start  the first unit of work to do; earlier units are done
    count  the number of units
    kept   points to an integer that is -1 when a thread's call of the kernel begins, and later
           holds the value that earlier parts stored
    """

    poll: Value
    start: Value
    count: Value
    kept: Value


class LoopBuilder(VectorBuilder):
    """Writes one function.

    A kernel runs in parts, see :class:`Part`, and polls between them; long loops poll by
    themselves.
    """

    def __init__(self, function: ir.Function, target: Target, part: Part | None = None) -> None:
        super().__init__(function, target)
        self.part = part
        self._leave: ir.Block | None = None
        self._taken: Value | None = None
        self._rest: Value | None = None
        self._each = 1
        self._divisible = 0

    @contextmanager
    def loop(
        self,
        name: str,
        start: Index,
        stop: Index,
        step: Index = 1,
        carry: Sequence[Value] = (),
        most: int | None = None,
        by_data: bool = False,
    ) -> Iterator[Loop]:
        """``for name in range(start, stop, step)``, carrying values from round to round.

        ``most`` is the maximal number of rounds if the bounds are not constants, 1 if they are
        those of a part of the work; ``by_data`` states that rounds are few as a rule, and that
        :meth:`account` counts more of them. A loop that may take long polls repeatedly.
        """
        b = self.b
        entry = b.block
        head, body, after = b.blocks(f"{name}.head", f"{name}.body", f"{name}.after")
        b.position_at_end(head)
        index = b.phi(I64, name)
        carried = [b.phi(value.type) for value in carry]
        b.position_at_end(body)
        before = (self.cost, self.most_cost)
        loop = Loop(index, list(carried))
        yield loop
        following = (b.add(index, self.i64(step), flags=["nsw"]), *loop.next_values)
        latch, phis = b.block, (index, *carried)
        b.branch(head)
        known = _rounds(start, stop, step)
        rounds = most if known is None else known
        usual, at_most = self.cost - before[0], self.most_cost - before[1]
        cost = at_most if by_data else usual
        b.position_at_end(entry)
        limit, first = self.i64(stop), [self.i64(start), *carry]
        end: ir.Block = after
        if self.part is not None and (rounds is None or rounds * cost > LONG):
            most_at_once = self.mul(max(1, QUIET // cost), step)
            limit, first, end = self._in_parts(name, stop, most_at_once, first, phis, after)
            rounds = QUIET // cost
        for phi, value, turned in zip(phis, first, following):
            phi.add_incoming(value, b.block)
            phi.add_incoming(turned, latch)
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(b.icmp_signed("<", index, limit), body, end)
        b.position_at_end(after)
        others = max(0, (rounds or 1) - 1)
        self._repeat(0 if by_data else others * usual, others * at_most)

    def begin_block(self, name: str) -> None:
        """End the block: LLVM orders the instructions of each block."""
        (following,) = self.b.blocks(name)
        self.b.branch(following)
        self.b.position_at_end(following)

    def rounds(self, name: str, count: int, is_unrolled: bool) -> Iterator[Index]:
        """The numbers below ``count``: each with separate code, or all with that of a loop."""
        if is_unrolled:
            yield from range(count)
            return
        with self.loop(name, 0, count) as loop:
            yield loop.index

    def _in_parts(
        self,
        name: str,
        stop: Index,
        most_at_once: Index,
        first: Sequence[Value],
        phis: Sequence[Value],
        after: ir.Block,
    ) -> tuple[Value, list[Value], ir.Block]:
        """A loop of parts around a loop, with a poll between them.

        Returns the end of a part, its initial values, and the block that follows it; leaves the
        builder in the block that enters a part.
        """
        b, entry = self.b, self.b.block
        part, ended, ask = b.blocks(f"{name}.part", f"{name}.ended", f"{name}.ask")
        b.branch(part)
        b.position_at_end(ended)
        b.cbranch(b.icmp_signed("<", phis[0], self.i64(stop)), ask, after)
        b.position_at_end(ask)
        self._poll(part)
        b.position_at_end(part)
        parts = [b.phi(value.type) for value in first]
        for value, initial, last in zip(parts, first, phis):
            value.add_incoming(initial, entry)
            value.add_incoming(last, ask)
        return self.min(self.add(parts[0], most_at_once), stop), list(parts), ended

    def account(self, rounds: Index, cost: int) -> None:
        """Poll if data-dependent work, these rounds included, has taken long since a poll."""
        b = self.b
        if self.part is None:
            return
        if self._taken is None:
            with b.goto_entry_block():
                self._taken = b.alloca(I64)
                b.store(self.i64(0), self._taken, align=8)
        more = self.mul(self.min(rounds, QUIET), cost)
        taken = self.add(b.load(self._taken, typ=I64, align=8), more)
        ask, on = b.blocks("ask", "on")
        b.store(taken, self._taken, align=8)
        b.cbranch(self.less(QUIET, taken), ask, on)
        b.position_at_end(ask)
        b.store(self.i64(0), self._taken, align=8)
        self._poll(on)
        b.position_at_end(on)

    def _poll(self, on: ir.Block) -> None:
        """Continue in block ``on``, or leave the function."""
        assert self.part is not None
        b, poll = self.b, self.part.poll
        if self._leave is None:
            (self._leave,) = b.blocks("leave")
            here = b.block
            b.position_at_end(self._leave)
            b.ret(self.i64(-1))
            b.position_at_end(here)
        answer = ir.FunctionType(I64, [PTR]).as_pointer()
        function = b.load(poll, typ=answer, align=8)
        goes_on = b.icmp_signed("==", b.call(function, [poll]), self.i64(0))
        b.cbranch(goes_on, on, self._leave)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """``if condition:``"""
        with self.b.if_then(condition):
            yield

    @contextmanager
    def when_new(self, number: Value) -> Iterator[None]:
        """``if`` this block last ran, in this thread and call, for another number."""
        assert self.part is not None
        kept, b = self.part.kept, self.b
        with self.when(b.icmp_signed("!=", b.load(kept, typ=I64, align=8), number)):
            yield
            b.store(number, kept, align=8)

    # --- work ---

    @contextmanager
    def each_unit(self, units: Index, tid: Value, threads: Value) -> Iterator[Loop]:
        """A loop over this thread's units of work, or a part of them."""
        with self.each_of(*self.share(units, tid, threads)) as unit:
            yield unit

    @contextmanager
    def each_of(self, begin: Value, end: Value) -> Iterator[Loop]:
        """A loop over the units of work [begin, end), or a part of them."""
        begin, end = self.part_of(begin, end)
        with self.loop("unit", begin, end, most=1) as unit:
            yield unit

    @contextmanager
    def each_run(
        self, blocks: Index, length: Index, tid: Value, threads: Value
    ) -> Iterator[tuple[Value, Value, Value]]:
        """A loop over blocks of ``length`` units each, whose units are shared: yields the block,
        and the first and the last (exclusive) of its units that this thread's part contains.
        """
        units = self.mul(blocks, length)
        begin, end = self.share_of(units, tid, threads, block=length)
        with self.when(self.less(begin, end)):
            from_block, _ = self.divmod(begin, length)
            last_block, _ = self.divmod(self.sub(end, 1), length)
            with self.loop("block", from_block, self.add(last_block, 1), most=1) as block:
                first = self.mul(block.index, length)
                start = self.max(self.sub(begin, first), 0)
                yield block.index, start, self.min(self.sub(end, first), length)

    def share_of(
        self, units: Index, tid: Value, threads: Value, block: Index = 1, each: int = 1
    ) -> tuple[Value, Value]:
        """This thread's share, or a part of it that ends at the end of a ``block`` of units.

        ``each`` is how often the following code runs for a block.
        """
        begin, end = self.share(units, tid, threads)
        return self.part_of(begin, end, block, each)

    def part_of(
        self, begin: Value, end: Value, block: Index = 1, each: int = 1
    ) -> tuple[Value, Value]:
        """A thread's units, or a part of them, as in :meth:`share_of`."""
        if self.part is None:
            return begin, end
        assert self._rest is None, "a kernel has one kind of units"
        begin = self.max(begin, self.part.start)
        last = self.add(begin, self.mul(self.part.count, block))
        if block != 1:
            last = self.sub(last, self.divmod(last, block)[1])
        part_end = self.min(end, last)
        self._rest = self.b.select(self.less(part_end, end), part_end, self.i64(0))
        self._each = each
        return begin, part_end

    def balance(self, units: int) -> None:
        """Let idle threads take over others' work (work stealing): at least ``units`` units are
        divisible without repeating work.
        """
        self._divisible = units

    def end_part(self) -> tuple[int, int]:
        """Return the begin of the next part, 0 if this was the last; -1 if a poll stopped it.

        Gives the number of blocks that a part should have, and the number of chunks worth a claim.
        """
        self.b.ret(self.i64(0) if self._rest is None else self._rest)
        unit = self.cost * self._each
        pieces = min(self._divisible, self._divisible * unit // PIECE)
        return max(1, QUIET // unit), pieces

    def share(self, units: Index, tid: Value, threads: Value) -> tuple[Value, Value]:
        """This thread's contiguous share of ``units``: a function of the three numbers only."""
        units = self.i64(units)
        begin = self.b.udiv(self.mul(units, tid), threads)
        end = self.b.udiv(self.mul(units, self.add(tid, 1)), threads)
        return begin, end
