"""Vectors of one function: full and partial loads and stores, masks, shuffles, constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from ..._core.target import PAIRS, Target
from . import ir
from .indices import Index, IndexBuilder
from .types import (
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Pointer,
    Type,
    Value,
    byte_count,
    constant_of,
    element_of,
    intrinsic_suffix,
    vector_of,
)

# Sums of two products of int16 in each lane, by the number of lanes.
_HALVES = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}
# Lanes of other types than f32; vectors of bytes and of pairs are loaded as their own types.
_LANES: dict[str, Type] = {"float64": F64, "int32": I32, "int64": I64}
# Cost of loading one element separately, which may be on another page.
_FAR = 30


def _pieces(count: int) -> list[tuple[int, int]]:
    """Divide ``count`` into powers of two, the largest first: the start and the size of each."""
    pieces, first = [], 0
    while first < count:
        size = 1 << ((count - first).bit_length() - 1)
        pieces.append((first, size))
        first += size
    return pieces


@lru_cache(maxsize=64)
def _for_splats(element: Type, lanes: int) -> tuple[Value, Value, Value]:
    """An undefined vector, the index of the first lane, and that index for all lanes."""
    undefined = ir.Constant(vector_of(element, lanes), ir.Undefined)
    return undefined, constant_of(I32, 0), constant_of(vector_of(I32, lanes), 0)


class VectorBuilder(IndexBuilder):
    """Writes vectors of ``lanes`` elements, the width that ``load`` and ``splat`` use.

    A vector has the same number of lanes for any element type, so that values of several types
    combine lane by lane; LLVM splits a vector that exceeds one register. Memory holds ``element``,
    that of the target's lanes, unless another type is given.
    """

    def __init__(self, function: ir.Function, target: Target) -> None:
        super().__init__(function)
        self.target = target
        self.lanes = target.lanes
        self.dtype = target.element.computed
        self.element = _LANES.get(self.dtype, F32)
        # Instructions in addition to the written ones, due to loops: usual and largest number.
        self._repeated = 0
        self._most_repeated = 0
        self._intrinsics: dict[tuple[str, str], Value] = {}

    @property
    def cost(self) -> int:
        """Approximate number of instructions that one core runs for the code written so far.

        Instructions of a loop count once per round; for a loop that may take long, only those
        between two polls.
        """
        return self.b.count + self._repeated

    @property
    def most_cost(self) -> int:
        """As :attr:`cost`, for data that cause the maximal work."""
        return self.b.count + self._most_repeated

    def _repeat(self, usual: int, most: int) -> None:
        self._repeated += usual
        self._most_repeated += most

    def whole_vectors(self, channels: Index) -> Index:
        """Channels rounded up to full vectors; a number that is an argument fills them."""
        return -(-channels // self.lanes) * self.lanes if isinstance(channels, int) else channels

    # --- memory ---

    def at(self, pointer: Value, index: Index, element: Type | None = None) -> Value:
        """The address of element ``index``."""
        if isinstance(index, int) and index == 0:
            return pointer
        kind = element or self.element_at(pointer)
        place = self.b.gep(pointer, [self.i64(index)], inbounds=True, source_etype=kind)
        if isinstance(pointer, Pointer):
            return Pointer(place.ref, pointer.dtype, pointer.stored)
        return place

    def element_at(self, pointer: Value) -> Type:
        """The stored type at a pointer: that of the lanes, if the pointer has no type."""
        return pointer.stored if isinstance(pointer, Pointer) else self.element

    def vector_type(self, lanes: int | None = None, element: Type | None = None) -> Type:
        return vector_of(element or self.element, lanes or self.lanes)

    def load_scalar(self, pointer: Value, index: Index = 0, element: Type | None = None) -> Value:
        element = element or self.element_at(pointer)
        address = self.at(pointer, index, element)
        return self.b.load(address, typ=element, align=byte_count(element))

    def load(self, pointer: Value, index: Index = 0, element: Type | None = None) -> Value:
        """A full vector from any address that is a multiple of the element's size."""
        element = element or self.element_at(pointer)
        kind = self.vector_type(element=element)
        is_pair = isinstance(pointer, Pointer) and pointer.dtype == PAIRS.computed
        align = 2 if is_pair else byte_count(element)
        return self.b.load(self.at(pointer, index, element), typ=kind, align=align)

    def load_masked(self, pointer: Value, index: Index, mask: Value, other: float = 0.0) -> Value:
        """The lanes that ``mask`` selects; the others are ``other``, and memory is not accessed."""
        vt = self.vector_type(mask.type.count)
        name = f"llvm.masked.load.{intrinsic_suffix(vt)}.p0"
        function = self.declare(name, vt, [PTR, mask.type, vt])
        others = constant_of(vt, other)
        return self.b.call(function, [self.at(pointer, index), mask, others])

    def load_first(
        self, pointer: Value, index: Index, count: Index, element: Type | None = None
    ) -> Value:
        """``count`` elements in the low lanes; the others are zero, and memory is not accessed.

        A count that is known only at run time may be 0, and requires the element type of the lanes.
        Masked if the elements fill a vector, else in chunks of powers of two: below AVX-512 LLVM
        would expand a mask into single elements, and LLVM 22 writes four bytes when one lane of a
        vector of truncated elements is stored.
        """
        element = element or self.element_at(pointer)
        if not isinstance(count, int):
            assert element == self.element, "a count of the call takes what lanes hold"
            return self.load_masked(pointer, index, self.mask_first(count))
        if count == self.lanes:
            return self.load(pointer, index, element)
        if element == self.element:
            span = self._span(count)
            if span == count:
                kind = self.vector_type(span)
                part = self.b.load(self.at(pointer, index), typ=kind, align=byte_count(element))
            else:
                part = self.load_masked(pointer, index, self.mask_first(count, span))
            return self.widened(part)
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

    def _span(self, count: int) -> int:
        """Number of lanes of the vector that loads or stores ``count`` elements.

        A full half vector needs no mask. A 5x5 convolution with 6 filters, stored at each position,
        takes 2.4 us with 8 of 16 lanes and 2.7 us with all of them.
        """
        half = self.lanes // 2
        return half if 4 <= half >= count else self.lanes

    def widened(self, value: Value) -> Value:
        """A full vector, with zeros in the lanes that ``value`` lacks."""
        if value.type.count == self.lanes:
            return value
        pattern = ir.Constant(ir.VectorType(I32, self.lanes), list(range(self.lanes)))
        return self.b.shuffle_vector(value, constant_of(value.type, 0), pattern)

    def narrowed(self, value: Value, lanes: int) -> Value:
        """The first lanes of a vector."""
        return value if value.type.count == lanes else self.shuffle(value, range(lanes))

    def _with_piece(self, vector: Value, piece: Value, first: int) -> Value:
        """The vector with the chunk in its lanes from ``first`` on.

        The chunk is padded with zeros: with a repeated lane instead, LLVM 22 loses the second of
        two float64 elements if a ``select`` follows.
        """
        size, lanes = piece.type.count, range(self.lanes)
        behind = constant_of(piece.type, 0)
        filled = ir.Constant(ir.VectorType(I32, self.lanes), [min(lane, size) for lane in lanes])
        wide = self.b.shuffle_vector(piece, behind, filled)
        chosen = [
            self.lanes + lane - first if first <= lane < first + size else lane for lane in lanes
        ]
        pattern = ir.Constant(ir.VectorType(I32, self.lanes), chosen)
        return self.b.shuffle_vector(vector, wide, pattern)

    def load_strided(
        self, pointer: Value, index: Index, stride: Index, count: int, element: Type | None = None
    ) -> Value:
        """``count`` elements ``stride`` apart in the low lanes, one load each; the rest is zero."""
        element = element or self.element_at(pointer)
        result = constant_of(self.vector_type(element=element), 0)
        self._repeat(_FAR * count, _FAR * count)
        for lane in range(count):
            value = self.load_scalar(pointer, self.add(index, self.mul(stride, lane)), element)
            result = self.b.insert_element(result, value, ir.Constant(I32, lane))
        return result

    def prefetch(self, pointer: Value, index: Index, level: int = 2) -> None:
        """Prefetch the cache line of element ``index`` into the cache of this level; never faults,
        for any address.
        """
        function = self.declare("llvm.prefetch.p0", VOID, [PTR, I32, I32, I32])
        read, locality, data = (ir.Constant(I32, n) for n in (0, 4 - level, 1))
        address = self.b.gep(pointer, [self.i64(index)], source_etype=self.element_at(pointer))
        self.b.call(function, [address, read, locality, data])

    def store(self, value: Value, pointer: Value, index: Index = 0) -> None:
        """Store a scalar or a full vector; ``index`` counts elements of its type."""
        element = element_of(value)
        self.b.store(value, self.at(pointer, index, element), align=byte_count(element))

    def store_masked(self, value: Value, pointer: Value, index: Index, mask: Value) -> None:
        """Store the lanes that ``mask`` selects."""
        name = f"llvm.masked.store.{intrinsic_suffix(value.type)}.p0"
        function = self.declare(name, VOID, [value.type, PTR, mask.type])
        self.b.call(function, [value, self.at(pointer, index), mask])

    def store_first(self, value: Value, pointer: Value, index: Index, count: Index) -> None:
        """Store the first ``count`` lanes, as :meth:`load_first` reads them."""
        if not isinstance(count, int):
            assert value.type.element == self.element, "a count of the call takes what lanes hold"
            self.store_masked(value, pointer, index, self.mask_first(count))
        elif count == self.lanes:
            self.store(value, pointer, index)
        elif value.type.element == self.element:
            span = self._span(count)
            part = self.narrowed(value, span)
            if span == count:
                self.store(part, pointer, index)
            else:
                self.store_masked(part, pointer, index, self.mask_first(count, span))
        else:
            for first, size in _pieces(count):
                if size == 1:
                    piece = self.b.extract_element(value, ir.Constant(I32, first))
                else:
                    piece = self.shuffle(value, range(first, first + size))
                self.store(piece, pointer, self.add(index, first))

    def store_strided(
        self, value: Value, pointer: Value, index: Index, stride: Index, n: int
    ) -> None:
        for lane in range(n):
            element = self.b.extract_element(value, ir.Constant(I32, lane))
            self.store(element, pointer, self.add(index, self.mul(stride, lane)))

    def scratch(self, kind: Type, count: int = 1) -> Value:
        """Stack memory for values, allocated once per function, not per execution of this code."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind, count)

    def mask_first(self, count: Index, of: int | None = None) -> Value:
        """The mask of the first ``count`` lanes, of ``of`` lanes or of a vector's."""
        size = of or self.lanes
        if isinstance(count, int):
            bits = [1 if lane < count else 0 for lane in range(size)]
            return ir.Constant(ir.VectorType(I1, size), bits)
        lanes = ir.Constant(ir.VectorType(I32, size), list(range(size)))
        limit = self.b.trunc(count, I32)
        return self.b.icmp_signed("<", lanes, self._broadcast(limit, I32, size))

    def lane_mask(self, lane: int) -> Value:
        """The mask of one lane."""
        bits = [int(each == lane) for each in range(self.lanes)]
        return ir.Constant(ir.VectorType(I1, self.lanes), bits)

    # --- vectors ---

    def number(self, value: float) -> Value:
        """A constant scalar."""
        return constant_of(self.element, value)

    def float_of(self, index: Index) -> Value:
        """An index as a scalar of the element type; a constant if it is one."""
        return self.number(index) if isinstance(index, int) else self.b.sitofp(index, self.element)

    def bit(self, value: bool) -> Value:
        """A constant truth value."""
        return ir.Constant(I1, int(value))

    def constant(self, value: float, like: Value | None = None) -> Value:
        """A constant of the type of ``like`` (a value), or a full vector."""
        return constant_of(self.vector_type() if like is None else like.type, value)

    def splat(self, value: Value | float) -> Value:
        """A vector with one value in all lanes, from a float or a scalar value."""
        if isinstance(value, (int, float)):
            return self.constant(float(value))
        return self._broadcast(value, value.type)

    def splat_word(self, value: Value, lanes: int) -> Value:
        """``lanes`` lanes of f32 with the bits of an i32."""
        return self.b.bitcast(self._broadcast(value, I32, lanes), self.vector_type(lanes, F32))

    def spread(self, value: Value, lanes: int) -> Value:
        """A scalar of any type in ``lanes`` lanes; the scalar itself for one lane."""
        return value if lanes == 1 else self._broadcast(value, value.type, lanes)

    def _broadcast(self, value: Value, element: Type, lanes: int | None = None) -> Value:
        undefined, first, zeros = _for_splats(element, lanes or self.lanes)
        vector = self.b.insert_element(undefined, value, first)
        return self.b.shuffle_vector(vector, undefined, zeros)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c: rounded once if the target has the instruction, otherwise twice."""
        if not self.target.has_fma:
            return self.b.fadd(self.b.fmul(a, b), c)
        return self.intrinsic("fma", a, b, c)

    def add_pairs(self, a: Value, b: Value, c: Value) -> Value:
        """c + the sum of the products of two pairs of bfloat16 in each lane."""
        kind = ir.VectorType(ir.BFloatType(), 2 * self.lanes)
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        function = self.declare(name, c.type, [c.type, kind, kind])
        return self.b.call(function, [c, self.b.bitcast(a, kind), self.b.bitcast(b, kind)])

    def add_quads(self, a: Value, b: Value, c: Value) -> Value:
        """c + the products of four uint8 of ``a`` with four int8 of ``b`` in each lane.

        The sum is exact everywhere: without the instruction, bytes are widened to 16 bits first.
        """
        if self.target.has_quads:
            name = f"llvm.x86.avx512.vpdpbusd.{8 * self.target.vector_bytes}"
            kind = ir.VectorType(I8, 4 * self.lanes)
            function = self.declare(name, c.type, [c.type, kind, kind])
            return self.b.call(function, [c, self.b.bitcast(a, kind), self.b.bitcast(b, kind)])
        if self.target.has_dots and c.type.count == self.lanes:
            return self._add_dots(c, a, b)
        kind = ir.VectorType(I16, 2 * c.type.count)
        eight = constant_of(kind, 8)
        x, w = self.b.bitcast(a, kind), self.b.bitcast(b, kind)
        even = self.b.and_(x, constant_of(kind, 255)), self.b.ashr(self.b.shl(w, eight), eight)
        odd = self.b.lshr(x, eight), self.b.ashr(w, eight)
        return self.b.add(c, self.b.add(self._add_halves(*even), self._add_halves(*odd)))

    def add_shorts(self, a: Value, b: Value, c: Value) -> Value:
        """c + the products of two int16 of ``a`` with two int16 of ``b`` in each lane."""
        kind = ir.VectorType(I16, 2 * self.lanes)
        x, w = self.b.bitcast(a, kind), self.b.bitcast(b, kind)
        if not self.target.has_quads:
            return self.b.add(c, self._add_halves(x, w))
        name = f"llvm.x86.avx512.vpdpwssd.{8 * self.target.vector_bytes}"
        return self.b.call(self.declare(name, c.type, [c.type, kind, kind]), [c, x, w])

    def _add_dots(self, c: Value, a: Value, b: Value) -> Value:
        """As :meth:`add_quads`, for NEON.

        An instruction that takes signed bytes only receives ``a`` - 128; then 128 times the sum of
        ``b`` is added, as two products with 64, because int8 cannot hold 128.
        """
        kind = ir.VectorType(I8, 4 * self.lanes)
        x, w = self.b.bitcast(a, kind), self.b.bitcast(b, kind)

        def dot(name: str, acc: Value, x: Value) -> Value:
            full = f"llvm.aarch64.neon.{name}.v4i32.v16i8"
            return self.b.call(self.declare(full, c.type, [c.type, kind, kind]), [acc, x, w])

        if self.target.has_mixed_dots:
            return dot("usdot", c, x)
        half, none = constant_of(kind, 64), constant_of(c.type, 0)
        more = dot("sdot", dot("sdot", none, half), half)
        return self.b.add(dot("sdot", c, self.b.xor(x, constant_of(kind, -128))), more)

    def _add_halves(self, a: Value, b: Value) -> Value:
        """The sum of the products of two int16 in each lane."""
        count = a.type.count // 2
        wide = ir.VectorType(I32, count)
        name = _HALVES.get(count) if self.target.triple.startswith("x86_64") else None
        if name is not None and count * 4 == self.target.vector_bytes:
            return self.b.call(self.declare(name, wide, [a.type, a.type]), [a, b])
        products = []
        for half in (0, 1):
            lanes = range(half, 2 * count, 2)
            x, w = (self.b.sext(self.shuffle(v, lanes), wide) for v in (a, b))
            products.append(self.b.mul(x, w))
        first, second = products
        return self.b.add(first, second)

    def intrinsic(self, name: str, *args: Value) -> Value:
        """``llvm.<name>`` on scalars or vectors of one type."""
        kind = args[0].type
        known = self._intrinsics.get((name, kind.text))
        if known is None:
            full = f"llvm.{name}.{intrinsic_suffix(kind)}"
            known = self.declare(full, kind, [a.type for a in args])
            self._intrinsics[name, kind.text] = known
        return self.b.call(known, args)

    def declare(self, name: str, result: Type, arguments: Sequence[Type]) -> Value:
        known = self.module.globals.get(name)
        return known or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def shuffle(self, value: Value, lanes: Sequence[int]) -> Value:
        pattern = ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))
        return self.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), pattern)

    def joined(self, low: Value, high: Value) -> Value:
        """The lanes of two vectors of the same type."""
        count = 2 * low.type.count
        lanes = ir.Constant(ir.VectorType(I32, count), [*range(count)])
        return self.b.shuffle_vector(low, high, lanes)

    def reduce_lanes(self, value: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """Combine all lanes by halves, always in the same order, to a scalar.

        The last two lanes are combined as scalars: LLVM 22's vector-combine pass crashes on vectors
        of one element.
        """
        width = self.lanes
        while width > 2:
            width //= 2
            low = self.shuffle(value, range(width))
            high = self.shuffle(value, range(width, 2 * width))
            value = combine(low, high)
        first, second = (self.b.extract_element(value, ir.Constant(I32, i)) for i in range(2))
        return combine(first, second)
