"""LoopBuilder: loops as ``with`` blocks, vectors, masks and fused multiply-add over LLVM IR.

Generator code is indented like the code it generates. Sizes known at compile time may be given as
Python ints wherever an index is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, overload

from ...records import dataclass
from ...target import Target
from . import ir
from .types import Type, Value

I1 = ir.IntType(1)
I8 = ir.IntType(8)
I16 = ir.IntType(16)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
F32 = ir.FloatType()
F64 = ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()

Index: TypeAlias = Value | int  # an i64 value, or a Python int

# Instructions between two polls of a kernel: 0.3 ms as a rule. A poll takes 30 ns.
QUIET = 1 << 20
# Instructions of one unit of work from which on it polls inside: 20 ms as a rule, and 0.5 s where
# it waits for memory all the time. Calls inside would cost tighter loops registers.
LONG = 1 << 26
# What loading one element by itself counts, which may lie on a page of its own.
_FAR = 30

_NAMES = {F32: "f32", F64: "f64", I1: "i1", I8: "i8", I16: "i16", I32: "i32", I64: "i64"}
_BYTES = {F32: 4, F64: 8, I8: 1, I16: 2, I32: 4, I64: 8}


def element_of(value: Value) -> Type:
    """The type of a scalar, or of a vector's elements."""
    return value.type.element if isinstance(value.type, ir.VectorType) else value.type


def byte_count(element: Type) -> int:
    """Bytes of one element in memory."""
    return _BYTES[element]


def _suffix(kind: Type) -> str:
    """What an intrinsic's name says of the type that it works on."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_NAMES[kind.element]}"
    return _NAMES[kind]


def constant_of(kind: Type, value: float) -> Value:
    """One number in the type ``kind``, in all lanes of a vector."""
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)
    return ir.Constant(kind, value)


def _pieces(count: int) -> list[tuple[int, int]]:
    """``count`` as powers of two, the largest first: where each begins, and its size."""
    pieces, first = [], 0
    while first < count:
        size = 1 << ((count - first).bit_length() - 1)
        pieces.append((first, size))
        first += size
    return pieces


class Loop:
    """A running loop: its index, the values carried into this round, and ``yields`` for the next.

    After the ``with`` block, ``results`` are the carried values as the loop left them.
    """

    def __init__(self, index: Value, carried: list[Value]) -> None:
        self.index = index
        self.carried = carried
        self.results = carried
        self.next_values: list[Value] = list(carried)

    def yields(self, values: Sequence[Value]) -> None:
        self.next_values = list(values)


def _rounds(start: Index, stop: Index, step: Index) -> int | None:
    """How often a loop goes round; None if the code does not say."""
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, -(-(stop - start) // step))
    return None


@dataclass(frozen=True)
class Part:
    """What a function that does a part of a kernel's work is given besides.

    poll   points to the address of a function ``i64 f(ptr poll)``; if it returns anything but 0 the
           work is left at once, half done
    start  the first unit of work to do; units before it are done
    count  how many
    """

    poll: Value
    start: Value
    count: Value


class LoopBuilder:
    """Writes one function. ``lanes`` is the vector width that ``load`` and ``splat`` use.

    A vector has as many lanes whatever its elements are, so that values of several types meet
    lane by lane; LLVM makes two registers of what does not fit into one. Memory holds ``element``,
    f32 or the f64 that the target's lanes are for, where no other is named.

    A kernel is done in parts, see :class:`Part`, between which it polls; loops that take long
    poll by themselves.
    """

    def __init__(self, function: ir.Function, target: Target, part: Part | None = None) -> None:
        self.function = function
        self.module = function.module
        self.target = target
        self.lanes = target.lanes
        self.dtype = target.element
        self.element = F64 if self.dtype == "float64" else F32
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.part = part
        self._leave: ir.Block | None = None
        self._taken: Value | None = None
        self._rest: Value | None = None
        self._each = 1
        # Instructions beyond those that are written: as a rule, and at most.
        self._repeated = 0
        self._most_repeated = 0

    @property
    def cost(self) -> int:
        """Instructions that have run when what was written so far has, about, on one core.

        Those of a loop count as often as it goes round; if it may take long, only those between
        two polls.
        """
        return self.b.count + self._repeated

    @property
    def most_cost(self) -> int:
        """The same when the data ask for as much as they can."""
        return self.b.count + self._most_repeated

    def _repeat(self, usual: int, most: int) -> None:
        self._repeated += usual
        self._most_repeated += most

    # --- indices ---

    def i64(self, value: Index) -> Value:
        return ir.Constant(I64, value) if isinstance(value, int) else value

    @overload
    def add(self, a: int, b: int) -> int: ...
    @overload
    def add(self, a: Value, b: Index) -> Value: ...
    @overload
    def add(self, a: Index, b: Value) -> Value: ...
    def add(self, a: Index, b: Index) -> Index:
        """a + b on indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(b, int) and b == 0:
            return a
        if isinstance(a, int) and a == 0:
            return b
        return self.b.add(self.i64(a), self.i64(b), flags=["nsw"])

    @overload
    def sub(self, a: int, b: int) -> int: ...
    @overload
    def sub(self, a: Value, b: Index) -> Value: ...
    @overload
    def sub(self, a: Index, b: Value) -> Value: ...
    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return self.b.sub(self.i64(a), self.i64(b), flags=["nsw"])

    @overload
    def mul(self, a: int, b: int) -> int: ...
    @overload
    def mul(self, a: Value, b: Value) -> Value: ...
    @overload
    def mul(self, a: Index, b: Index) -> Index: ...
    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int) and x in (0, 1):
                return 0 if x == 0 else y
        return self.b.mul(self.i64(a), self.i64(b), flags=["nsw"])

    def divmod(self, a: Index, divisor: Index) -> tuple[Index, Index]:
        """Quotient and remainder of a non-negative index by a positive one."""
        if isinstance(a, int) and isinstance(divisor, int):
            return divmod(a, divisor)
        if isinstance(divisor, int) and divisor == 1:
            return a, 0
        quotient = self.b.udiv(self.i64(a), self.i64(divisor))
        return quotient, self.sub(a, self.mul(quotient, divisor))

    def split(self, a: Index, sizes: Sequence[int]) -> list[Index]:
        """``a`` as digits in mixed base ``sizes``, the last the fastest; the first is unbounded."""
        digits: list[Index] = []
        for size in reversed(sizes[1:]):
            a, digit = self.divmod(a, size)
            digits.append(digit)
        return [a, *reversed(digits)]

    @overload
    def min(self, a: int, b: int) -> int: ...
    @overload
    def min(self, a: Value, b: Index) -> Value: ...
    @overload
    def min(self, a: Index, b: Value) -> Value: ...
    def min(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        a, b = self.i64(a), self.i64(b)
        return self.b.select(self.b.icmp_signed("<", a, b), a, b)

    @overload
    def max(self, a: int, b: int) -> int: ...
    @overload
    def max(self, a: Value, b: Index) -> Value: ...
    @overload
    def max(self, a: Index, b: Value) -> Value: ...
    def max(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        a, b = self.i64(a), self.i64(b)
        return self.b.select(self.b.icmp_signed(">", a, b), a, b)

    def dot(self, indices: Sequence[Index], strides: Sequence[int]) -> Index:
        """The offset sum of index times stride."""
        total: Index = 0
        for index, stride in zip(indices, strides):
            total = self.add(total, self.mul(index, stride))
        return total

    # --- control ---

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

        ``most`` is how many rounds there can be where the bounds are no constants, 1 where they
        are those of a part of the work; ``by_data`` says that they are few as a rule, and that
        :meth:`account` is told of more. A loop that may take long polls now and then.
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

        Returns where a part ends, the values that it starts with, and the block that follows it;
        ends in the block from which a part is entered.
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
        """Poll if what data ask for has taken long since it last did, these rounds included."""
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
        """Go on there, or leave the function."""
        assert self.part is not None
        b, poll = self.b, self.part.poll
        if self._leave is None:
            (self._leave,) = b.blocks("leave")
            here = b.block
            b.position_at_end(self._leave)
            b.ret(self.i64(0))
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

    def less(self, a: Index, b: Index) -> Value:
        return self.b.icmp_signed("<", self.i64(a), self.i64(b))

    # --- memory ---

    def at(self, pointer: Value, index: Index, element: Type | None = None) -> Value:
        """The address of element ``index``."""
        if isinstance(index, int) and index == 0:
            return pointer
        kind = element or self.element
        return self.b.gep(pointer, [self.i64(index)], inbounds=True, source_etype=kind)

    def vector_type(self, lanes: int | None = None, element: Type | None = None) -> Type:
        return ir.VectorType(element or self.element, lanes or self.lanes)

    def load_scalar(self, pointer: Value, index: Index = 0, element: Type | None = None) -> Value:
        element = element or self.element
        address = self.at(pointer, index, element)
        return self.b.load(address, typ=element, align=byte_count(element))

    def load(self, pointer: Value, index: Index = 0, element: Type | None = None) -> Value:
        """A whole vector from any address that is a multiple of the element's size."""
        element = element or self.element
        kind = self.vector_type(element=element)
        return self.b.load(self.at(pointer, index, element), typ=kind, align=byte_count(element))

    def load_masked(self, pointer: Value, index: Index, mask: Value, other: float = 0.0) -> Value:
        """The lanes that ``mask`` names; the others are ``other`` and are not touched."""
        vt = self.vector_type()
        name = f"llvm.masked.load.{_suffix(vt)}.p0"
        function = self.declare(name, vt, [PTR, mask.type, vt])
        call = self.b.call(function, [self.at(pointer, index), mask, self.splat(other)])
        return call

    def load_first(
        self, pointer: Value, index: Index, count: int, element: Type | None = None
    ) -> Value:
        """``count`` elements in the low lanes; the rest are zero, and not touched in memory.

        Masked where they fill a vector, else in pieces of a power of two: below AVX-512 LLVM would
        make single elements of a mask, and LLVM 22 writes four bytes where one lane of a vector of
        truncated elements is to be stored.
        """
        element = element or self.element
        if count == self.lanes:
            return self.load(pointer, index, element)
        if element == self.element:
            return self.load_masked(pointer, index, self.mask_first(count))
        result = constant_of(self.vector_type(element=element), 0)
        for first, size in _pieces(count):
            address = self.at(pointer, self.add(index, first), element)
            if size == 1:
                value = self.b.load(address, typ=element, align=byte_count(element))
                result = self.b.insert_element(result, value, ir.Constant(I32, first))
                continue
            kind = ir.VectorType(element, size)
            piece = self.b.load(address, typ=kind, align=byte_count(element))
            result = self._with_piece(result, piece, first)
        return result

    def _with_piece(self, vector: Value, piece: Value, first: int) -> Value:
        """The vector with the piece in its lanes from ``first`` on."""
        size, lanes = piece.type.count, range(self.lanes)
        wide = self.shuffle(piece, [min(lane, size - 1) for lane in lanes])
        chosen = [
            self.lanes + lane - first if first <= lane < first + size else lane for lane in lanes
        ]
        pattern = ir.Constant(ir.VectorType(I32, self.lanes), chosen)
        return self.b.shuffle_vector(vector, wide, pattern)

    def load_strided(
        self, pointer: Value, index: Index, stride: int, count: int, element: Type | None = None
    ) -> Value:
        """``count`` elements ``stride`` apart in the low lanes, one load each; the rest zero."""
        element = element or self.element
        result = constant_of(self.vector_type(element=element), 0)
        self._repeat(_FAR * count, _FAR * count)
        for lane in range(count):
            value = self.load_scalar(pointer, self.add(index, lane * stride), element)
            result = self.b.insert_element(result, value, ir.Constant(I32, lane))
        return result

    def prefetch(self, pointer: Value, index: Index) -> None:
        """Ask for the cache line of element ``index``; never faults, whatever the address."""
        function = self.declare("llvm.prefetch.p0", VOID, [PTR, I32, I32, I32])
        read, into_l2, data = (ir.Constant(I32, n) for n in (0, 2, 1))
        address = self.b.gep(pointer, [self.i64(index)], source_etype=self.element)
        self.b.call(function, [address, read, into_l2, data])

    def store(self, value: Value, pointer: Value, index: Index = 0) -> None:
        """A scalar or a whole vector; ``index`` counts elements of its type."""
        element = element_of(value)
        self.b.store(value, self.at(pointer, index, element), align=byte_count(element))

    def store_masked(self, value: Value, pointer: Value, index: Index, mask: Value) -> None:
        """The lanes that ``mask`` names."""
        name = f"llvm.masked.store.{_suffix(value.type)}.p0"
        function = self.declare(name, VOID, [value.type, PTR, mask.type])
        self.b.call(function, [value, self.at(pointer, index), mask])

    def store_first(self, value: Value, pointer: Value, index: Index, count: int) -> None:
        """The first ``count`` lanes, as :meth:`load_first` reads them."""
        if count == self.lanes:
            self.store(value, pointer, index)
        elif value.type.element == self.element:
            self.store_masked(value, pointer, index, self.mask_first(count))
        else:
            for first, size in _pieces(count):
                if size == 1:
                    piece = self.b.extract_element(value, ir.Constant(I32, first))
                else:
                    piece = self.shuffle(value, range(first, first + size))
                self.store(piece, pointer, self.add(index, first))

    def store_strided(
        self, value: Value, pointer: Value, index: Index, stride: int, n: int
    ) -> None:
        for lane in range(n):
            element = self.b.extract_element(value, ir.Constant(I32, lane))
            self.store(element, pointer, self.add(index, lane * stride))

    def scratch(self, kind: Type, count: int = 1) -> Value:
        """Room for values on the stack, made once however often this place is reached."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind, count)

    def mask_first(self, count: Index) -> Value:
        """The mask of the first ``count`` lanes."""
        if isinstance(count, int):
            bits = [1 if lane < count else 0 for lane in range(self.lanes)]
            return ir.Constant(ir.VectorType(I1, self.lanes), bits)
        lanes = ir.Constant(ir.VectorType(I32, self.lanes), list(range(self.lanes)))
        limit = self.b.trunc(count, I32)
        return self.b.icmp_signed("<", lanes, self._broadcast(limit, I32))

    # --- vectors ---

    def number(self, value: float) -> Value:
        """A constant scalar."""
        return constant_of(self.element, value)

    def constant(self, value: float, like: Value | None = None) -> Value:
        """A constant of the type of ``like`` (a value), or a whole vector."""
        return constant_of(self.vector_type() if like is None else like.type, value)

    def splat(self, value: Value | float) -> Value:
        """A vector with one value in all lanes, from a float or a scalar value."""
        if isinstance(value, (int, float)):
            return self.constant(float(value))
        return self._broadcast(value, value.type)

    def _broadcast(self, value: Value, element: Type) -> Value:
        kind = ir.VectorType(element, self.lanes)
        zeros = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        first = self.b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
        return self.b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c: rounded once where the target has the instruction, twice where it has not."""
        if not self.target.has_fma:
            return self.b.fadd(self.b.fmul(a, b), c)
        return self.intrinsic("fma", a, b, c)

    def intrinsic(self, name: str, *args: Value) -> Value:
        """``llvm.<name>`` on scalars or vectors of one type."""
        kind = args[0].type
        function = self.declare(f"llvm.{name}.{_suffix(kind)}", kind, [a.type for a in args])
        return self.b.call(function, args)

    def declare(self, name: str, result: Type, arguments: Sequence[Type]) -> Value:
        known = self.module.globals.get(name)
        return known or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def shuffle(self, value: Value, lanes: Sequence[int]) -> Value:
        pattern = ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))
        return self.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), pattern)

    def reduce_lanes(self, value: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """All lanes combined by halves, always in the same order; a scalar.

        The last two as scalars: LLVM 22's vector-combine pass ends the process on vectors of one
        element.
        """
        width = self.lanes
        while width > 2:
            width //= 2
            low = self.shuffle(value, range(width))
            high = self.shuffle(value, range(width, 2 * width))
            value = combine(low, high)
        first, second = (self.b.extract_element(value, ir.Constant(I32, i)) for i in range(2))
        return combine(first, second)

    # --- work ---

    @contextmanager
    def each_unit(self, units: Index, tid: Value, threads: Value) -> Iterator[Loop]:
        """A loop over the units of work that are this thread's, or a part of them."""
        begin, end = self.share_of(units, tid, threads)
        with self.loop("unit", begin, end, most=1) as unit:
            yield unit

    def share_of(
        self, units: Index, tid: Value, threads: Value, block: int = 1, each: int = 1
    ) -> tuple[Value, Value]:
        """This thread's share, or a part of it that ends where a ``block`` of units does.

        ``each`` is how often what is written next is done for a block.
        """
        begin, end = self.share(units, tid, threads)
        if self.part is None:
            return begin, end
        assert self._rest is None, "a kernel has one kind of units"
        begin = self.max(begin, self.part.start)
        last = self.add(begin, self.mul(self.part.count, block))
        if block > 1:
            last = self.sub(last, self.divmod(last, block)[1])
        part_end = self.min(end, last)
        self._rest = self.b.select(self.less(part_end, end), part_end, self.i64(0))
        self._each = each
        return begin, part_end

    def end_part(self) -> int:
        """Return where the next part begins, 0 if this was the last. Says how many blocks a part
        should have.
        """
        self.b.ret(self.i64(0) if self._rest is None else self._rest)
        return max(1, QUIET // (self.cost * self._each))

    def share(self, units: Index, tid: Value, threads: Value) -> tuple[Value, Value]:
        """This thread's contiguous share of ``units``: the same for the same three numbers."""
        units = self.i64(units)
        begin = self.b.udiv(self.mul(units, tid), threads)
        end = self.b.udiv(self.mul(units, self.add(tid, 1)), threads)
        return begin, end
