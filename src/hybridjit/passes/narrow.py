"""Narrow: what products read is stored in bfloat16, where the graph's precision says so.

Dense layers, convolutions and products of activations multiply numbers of 16 bits and add in
float32. A value that one of them reads is rounded where it is computed, once for all of its
readers, and so is what other convolutions and pooling read; graph inputs and values that the graph
returns stay as they are, and are rounded for the products alone. Weights are rounded when they are
bound. Steps of recurrent layers round the state that they multiply, and give it in float32. All
else computes in float32: what it reads in 16 bits is widened as it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.building import ValueBuilder, building
from ..ir.graph import Graph, Use, Value, uses_of
from ..ir.kinds import is_in, kind_of
from ..ir.rewrite import Match, Replacement, replace_values
from ..ops.bfloat16 import FROM_BFLOAT16, ROUNDED, TO_BFLOAT16, multiplies_rounded
from ..ops.nn.convolution import CONVOLUTION
from ..ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ..ops.nn.pooling import POOLING
from ..ops.sequence.rnn_steps import RNN_ROUNDED_STEPS, RNN_STEPS
from ..ops.tensor.joining import CONCAT
from ..ops.tensor.primitives import BROADCAST_TO, RESHAPE_TO, SLICE, TRANSPOSE
from ..types import FLOAT32

_MOVES = (RESHAPE_TO, TRANSPOSE, SLICE, BROADCAST_TO)


def narrow(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph with the operands of products in bfloat16, if that is its precision."""
    if graph.purpose.precision != "bfloat16":
        return graph
    return replace_values(graph, _Narrowing(graph).change, fired)


class _Narrowing:
    """stored  the values whose results are rounded for all readers
    joined  the concatenations of such values
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._products = {value for value in graph.values if _is_product(value, graph)}
        self._returned = {_before_moves(use).value for use in graph.outputs}
        self._stored: set[Value] = set()
        self._joined: set[Value] = set()
        self._rounded: dict[Use, Use] = {}
        self._collect(use for value in self._products for use in value.inputs[:2])
        if self._products:
            windowed = (value for value in graph.values if _reads_windows(value, graph))
            self._collect(value.inputs[0] for value in windowed)

    def _collect(self, uses: Iterable[Use]) -> None:
        """Note where what is read was computed, before it was moved and joined."""
        waiting = list(uses)
        while waiting:
            value = _before_moves(waiting.pop()).value
            if value.op is None or len(value.types) > 1 or value.type.dtype != FLOAT32:
                continue
            if value in self._stored or value in self._joined or value in self._returned:
                continue
            if value.op is CONCAT:
                self._joined.add(value)
                waiting += value.inputs
            else:
                self._stored.add(value)

    def change(self, value: Value, match: Match) -> tuple[str, Replacement]:
        """What stands for a value, of which the operands are changed already."""
        title, new = "", value
        if _is_recurrent(value, match):
            title, new = "h w, step by step  =>  rounded(h) rounded(w)", self._steps(value)
        if match.old in self._products:
            title, new = "x w  =>  rounded(x) rounded(w)", self._with_rounded(value, match)
        if match.old in self._joined and not match.is_fixed(Use(match.old)):
            return "concat(x, y)  =>  concat of 16 bits", self._joined_short(new)
        if match.old in self._stored and not match.is_fixed(Use(match.old)):
            title = title or "x  =>  x rounded, in 16 bits"
            return title, _long(building(new), self._short(Use(new)))
        return title, uses_of(new) if title else None

    def _with_rounded(self, value: Value, match: Match) -> Value:
        """A product of rounded operands."""
        first, second, *rest = value.inputs
        old = match.old.inputs
        both = [self._operand(u, match.is_fixed(o)) for u, o in zip((first, second), old)]
        assert value.op is not None
        return building(value).op(value.op, *both, *rest, **value.attrs).value

    def _steps(self, value: Value) -> Value:
        """A recurrent layer's steps with rounded weights."""
        projected, weight, *rest = value.inputs
        fixed = self._operand(weight, is_fixed=True)
        made = building(value).outputs(RNN_ROUNDED_STEPS, projected, fixed, *rest, **value.attrs)
        return made[0].value

    def _operand(self, use: Use, is_fixed: bool) -> Use:
        if _before_moves(use).value.op is FROM_BFLOAT16:
            return use
        if use not in self._rounded:
            g = ValueBuilder(use.value.name, use.value.source)
            rounded = g.op(ROUNDED, use, at="rounded") if is_fixed else _long(g, self._short(use))
            self._rounded[use] = rounded
        return self._rounded[use]

    def _joined_short(self, value: Value) -> Use:
        assert value.op is not None
        g = building(value)
        parts = map(self._short, value.inputs)
        return _long(g, g.op(value.op, *parts, at="short", **value.attrs))

    def _short(self, use: Use) -> Use:
        """A value's bits in bfloat16."""
        if use.value.op is FROM_BFLOAT16:
            return use.value.inputs[0]
        return ValueBuilder(use.value.name, use.value.source).op(TO_BFLOAT16, use, at="short")


def _long(g: ValueBuilder, short: Use) -> Use:
    return g.op(FROM_BFLOAT16, short, at="long")


def _before_moves(use: Use) -> Use:
    """What is moved about, and cut, to give this value."""
    while use.value.op in _MOVES:
        use = use.value.inputs[0]
    return use


def _reads_windows(value: Value, graph: Graph) -> bool:
    """Whether a kernel reads each of many numbers several times, for little arithmetic."""
    is_one = value.op in (CONVOLUTION, POOLING) and is_in(FLOAT32, value)
    return is_one and kind_of(value, graph).reads_narrow


def _is_recurrent(value: Value, match: Match) -> bool:
    """Whether a kernel multiplies the states of a recurrent layer, float32, by parameters."""
    is_fixed = value.op is RNN_STEPS and match.is_fixed(match.old.inputs[1])
    return is_fixed and is_in(FLOAT32, value)


def _is_product(value: Value, graph: Graph) -> bool:
    """Whether a kernel multiplies the value's first two operands, which are float32."""
    if value.op not in (FULLY_CONNECTED, CONVOLUTION, BATCH_DOT):
        return False
    if not kind_of(value, graph).has_kernel or not is_in(FLOAT32, value):
        return False
    if value.op is not CONVOLUTION:
        return True
    weight, groups = value.inputs[1].type.dims, value.attrs["num_group"]
    return multiplies_rounded(weight[-1], weight[0] // groups, groups)
