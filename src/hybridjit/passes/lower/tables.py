"""Tables: a costly function between bytes is a table of 256 bytes.

    quantize(f((x - z) s))  =>  take(quantize(f((i - z) s)), x),  i = 0, 1, ..., 255

The table depends on parameters alone, so that it is computed once, at binding. A byte of a table
takes 0.30 ns, a sigmoid between bytes 0.44 with vectors of 512 bits and 1.1 with 256, GELU 0.57 and
1.9; hard-swish 0.21 and 0.36, so that sums, products and limits alone stay computed.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule, uniquely_named
from ...ops.elementwise.element_type import CAST
from ...ops.quantized import BYTES, FROM_BYTES, INT8, TO_BYTES, UINT8
from ...ops.registry import lookup
from ...ops.tensor.by_index import TAKE
from ...ops.tensor.primitives import reshape

_COSTLY = frozenset(map(lookup, ("sigmoid", "tanh", "erf", "exp", "log", "expm1", "log1p")))
_ACTIVATIONS = (lookup("Activation"), lookup("LeakyReLU"))
_CHEAP = ("relu", "leaky")
_COUNT = 256
_ARANGE = lookup("_arange")
# Operators of the longest chain: GELU of a file has seven.
_MOST = 16


def with_tables(graph: Graph, fired: list[str] | None) -> Graph:
    """The graph in which costly functions between bytes are tables."""
    after = rewrite(graph, (tabled,), fired)
    return graph if after is graph else uniquely_named(after)


@rule("quantize(f((x - z) s))  =>  take(table, x)", TO_BYTES)
def tabled(value: Value, match: Match) -> Replacement:
    chain = _Chain(match)
    if not chain.reads(value.inputs[0], value) or chain.source is None or not chain.is_costly:
        return None
    g, x = building(value), chain.source
    levels = g.op(_ARANGE, at="levels", start=0.0, stop=float(_COUNT), dtype=UINT8)
    index = x
    if x.type.dtype == INT8:
        levels = g.op(CAST, levels, at="signed_levels", dtype=INT8)
        index = g.op(CAST, x, at="index", dtype=UINT8)
    table = chain.on(g, value, levels)
    return g.op(TAKE, table, index)


class _Chain:
    """Elementwise operators that lead from one array of bytes to a value.

    source     the bytes
    is_costly  whether one of the operators takes longer than a table
    """

    def __init__(self, match: Match) -> None:
        self.source: Use | None = None
        self.is_costly = False
        self._match = match
        self._inside: set[Value] = set()

    def reads(self, use: Use, end: Value) -> bool:
        """Whether a value has the form; the chain grows by it."""
        value, op = use.value, use.value.op
        if value in self._inside:
            return True
        if self._match.is_fixed(use):
            return use.type.size == 1
        if op is None or use.type.dims != end.type.dims or len(self._inside) == _MOST:
            return False
        self._inside.add(value)
        if op is FROM_BYTES:
            return self._begins_at(value.inputs[0])
        if op.scalar is None or op.is_random:
            return False
        is_activation = op in _ACTIVATIONS and value.attrs["act_type"] not in _CHEAP
        self.is_costly |= op in _COSTLY or is_activation
        return all(self.reads(each, end) for each in value.inputs)

    def _begins_at(self, use: Use) -> bool:
        before = self._before_table(use.value)
        if before is not None and before.type.dims == use.type.dims:
            self._inside.add(use.value)
            self.is_costly = True  # one table in place of a table and a kernel
            use = before
        if self._goes_through(use):
            return True
        self.source = self.source or use
        return self.source == use

    def _goes_through(self, use: Use) -> bool:
        """Whether bytes are a function of other bytes, to which the chain then grows."""
        if use.value.op is not TO_BYTES:
            return False
        before = self.source, self.is_costly, set(self._inside)
        self._inside.add(use.value)
        if self.reads(use.value.inputs[0], use.value):
            return True
        self.source, self.is_costly, self._inside = before
        return False

    def _before_table(self, value: Value) -> Use | None:
        """The bytes that a table takes."""
        if value.op is not TAKE or not self._match.is_fixed(value.inputs[0]):
            return None
        index = value.inputs[1]
        signed = index.value.inputs[0] if index.value.op is CAST else index
        return next((x for x in (signed, index) if x.type.dtype in BYTES), None)

    def on(self, g: ValueBuilder, value: Value, levels: Use) -> Use:
        """The value on other bytes."""
        made: dict[Use, Use] = {self.source: levels}  # type: ignore[dict-item]

        def copy(use: Use) -> Use:
            if use not in made:
                made[use] = self._copied(g, use, copy)
            return made[use]

        return self._copied(g, Use(value, 0), copy)

    def _copied(self, g: ValueBuilder, use: Use, copy: Callable[[Use], Use]) -> Use:
        if self._match.is_fixed(use) and use.value not in self._inside:
            return reshape(g, use, (1,), at="one")
        value = use.value
        assert value.op is not None
        own = ValueBuilder(value.name, value.source)
        if value.op is TAKE:
            return own.op(TAKE, value.inputs[0], copy(value.inputs[1]), at="table", **value.attrs)
        inputs = [copy(each) for each in value.inputs]
        return own.op(value.op, *inputs, at="table", **value.attrs)
