"""Lower bfloat16: op(x) -> op(round(x)): at this precision, operands of products are bfloat16.

Dense layers, convolutions and products of activations multiply 16-bit operands and accumulate in
float32. The producer of such an operand rounds it, once for all readers; the operands of other
convolutions and of pooling are rounded in the same way. Graph inputs and outputs remain float32;
products read a rounded copy. Weights are rounded at bind time. Steps of recurrent layers round the
state that they multiply and return it in float32. All other operators compute in float32, and widen
16-bit operands as they load them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..._core.types import FLOAT32
from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value, uses_of
from ...ir.kinds import is_in, kind_of
from ...ir.rewrite import Match, Replacement, replace_values, uniquely_named
from ...ops.bfloat16 import FROM_BFLOAT16, ROUNDED, TO_BFLOAT16, multiplies_rounded
from ...ops.nn.convolution import CONVOLUTION, CONVOLUTION_BY_WEIGHT
from ...ops.nn.deconvolution import DECONVOLUTION
from ...ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ...ops.nn.pooling import POOLING
from ...ops.record import OpDef
from ...ops.sequence.rnn_steps import RNN_ROUNDED_STEPS, RNN_STEPS
from ...ops.tensor.joining import CONCAT
from ...ops.tensor.primitives import BROADCAST_TO, RESHAPE_TO, SLICE, TRANSPOSE, transpose

_PRODUCTS = (FULLY_CONNECTED, CONVOLUTION, BATCH_DOT)
_TRAINED_PRODUCTS = (*_PRODUCTS, DECONVOLUTION, CONVOLUTION_BY_WEIGHT)
_MOVES = (RESHAPE_TO, TRANSPOSE, SLICE, BROADCAST_TO)


def lower_bfloat16(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph with bfloat16 operands of products, if its precision is bfloat16."""
    if graph.purpose.precision != "bfloat16":
        return graph
    products = {value for value in graph.values if _is_product(value, graph, _PRODUCTS)}
    windowed = (value for value in graph.values if _reads_windows(value, graph))
    read = [value.inputs[0] for value in windowed] if products else []
    return replace_values(graph, _Narrowing(graph, products, read).change, fired)


def lower_bfloat16_trained(graph: Graph, fired: list[str] | None = None) -> Graph:
    """As :func:`lower_bfloat16`, for a joint graph: products of gradients are rounded as well.

    The input and the result of max pooling are not rounded: the gradient goes to the first element
    that equals the maximum.
    """
    if graph.purpose.precision != "bfloat16":
        return graph
    products = {value for value in graph.values if _is_product(value, graph, _TRAINED_PRODUCTS)}
    pooled = [value for value in graph.values if value.op is POOLING]
    kept = {*pooled, *(_before_moves(value.inputs[0]).value for value in pooled)}
    after = replace_values(graph, _Narrowing(graph, products, (), kept).change, fired)
    return after if after is graph else uniquely_named(after)  # a value may be rounded in two ways


class _Narrowing:
    """The values to round.

    stored  values whose results are rounded for all readers
    joined  concatenations of such values
    kept    values that are rounded for products only
    """

    def __init__(
        self,
        graph: Graph,
        products: Collection[Value],
        others: Iterable[Use],
        kept: Collection[Value] = (),
    ) -> None:
        """Collect the operands of ``products`` and the ``others``, which are stored in the same
        way."""
        self._products = products
        self._kept = {*kept, *(_before_moves(use).value for use in graph.outputs)}
        self._stored: set[Value] = set()
        self._joined: set[Value] = set()
        self._rounded: dict[Use, Use] = {}
        self._collect(use for value in products for use in value.inputs[:2])
        self._collect(others)

    def _collect(self, uses: Iterable[Use]) -> None:
        """Record the values that computed the operands, upstream of views and concatenations."""
        waiting = list(uses)
        while waiting:
            value = _before_moves(waiting.pop()).value
            if value.op is None or len(value.types) > 1 or value.type.dtype != FLOAT32:
                continue
            if value in self._stored or value in self._joined or value in self._kept:
                continue
            if value.op is CONCAT:
                self._joined.add(value)
                waiting += value.inputs
            else:
                self._stored.add(value)

    def change(self, value: Value, match: Match) -> tuple[str, Replacement]:
        """The replacement of a value whose operands have already been replaced."""
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
        """A product with rounded operands."""
        first, second, *rest = value.inputs
        old = match.old.inputs
        both = [self._operand(u, match.is_fixed(o)) for u, o in zip((first, second), old)]
        assert value.op is not None
        if value.op in (FULLY_CONNECTED, BATCH_DOT):
            both[0] = _in_a_row(both[0], both[0].type.ndim - 1)
        if value.op is DECONVOLUTION:
            both[1] = _in_a_row(both[1], 0)
        return building(value).op(value.op, *both, *rest, **value.attrs).value

    def _steps(self, value: Value) -> Value:
        """The steps of a recurrent layer with rounded weights."""
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
        """The value in bfloat16."""
        if use.value.op is FROM_BFLOAT16:
            return use.value.inputs[0]
        return ValueBuilder(use.value.name, use.value.source).op(TO_BFLOAT16, use, at="short")


def _in_a_row(use: Use, axis: int) -> Use:
    """An operand whose elements along ``axis``, the axis of the sum, are adjacent in memory.

    The kernels multiply pairs of adjacent elements. An operand in another layout is transposed in
    16 bits.
    """
    axes = tuple(i for i in range(use.type.ndim) if i != axis) + (axis,)
    before = use.value
    if before.op is TRANSPOSE:
        is_last = before.attrs["axes"][axis] == use.type.ndim - 1
    else:
        is_last = axis == use.type.ndim - 1
    if is_last or before.op is FROM_BFLOAT16 and before.inputs[0].value.op is None:
        return use
    g = building(before)
    moved = g.op(TO_BFLOAT16, transpose(g, use, axes, at="turned"), at="row")
    back = tuple(axes.index(i) for i in range(use.type.ndim))
    return transpose(g, _long(g, moved), back, at="back")


def _long(g: ValueBuilder, short: Use) -> Use:
    return g.op(FROM_BFLOAT16, short, at="long")


def _before_moves(use: Use) -> Use:
    """The use upstream of transposes, reshapes, slices and broadcasts."""
    while use.value.op in _MOVES:
        use = use.value.inputs[0]
    return use


def _reads_windows(value: Value, graph: Graph) -> bool:
    """Whether the kernel reads each of many elements several times, with little arithmetic."""
    is_one = value.op in (CONVOLUTION, POOLING) and is_in(FLOAT32, value)
    return is_one and kind_of(value, graph).reads_narrow


def _is_recurrent(value: Value, match: Match) -> bool:
    """Whether a kernel multiplies float32 states of a recurrent layer by parameters."""
    is_fixed = value.op is RNN_STEPS and match.is_fixed(match.old.inputs[1])
    return is_fixed and is_in(FLOAT32, value)


def _is_product(value: Value, graph: Graph, products: Collection[OpDef]) -> bool:
    """Whether a kernel multiplies the value's first two operands, which are float32."""
    if value.op not in products:
        return False
    if not kind_of(value, graph).has_kernel or not is_in(FLOAT32, value):
        return False
    weight, groups = value.inputs[1].type.dims, value.attrs.get("num_group", 1)
    if value.op is DECONVOLUTION:
        return multiplies_rounded(weight[0] // groups, weight[-1], groups)
    if value.op is not CONVOLUTION:
        return True
    return multiplies_rounded(weight[-1], weight[0] // groups, groups)
