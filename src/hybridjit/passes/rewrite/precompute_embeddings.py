"""Tables: dense(take(table, i)) -> take(dense(table), i).

The first layer of a recurrent network reads rows of an embedding, and both have only parameters as
operands: all possible rows are multiplied once, at bind time. A bidirectional LSTM of 256 units
with 16 samples of 64 words spends half of its time on these products.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ...ir.building import building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.nn.embedding_table import EMBEDDING
from ...ops.nn.matrix_products import FULLY_CONNECTED
from ...ops.tensor.by_index import TAKE
from ...ops.tensor.primitives import RESHAPE_TO, TRANSPOSE, permutation, reshape, transpose

# The maximal bytes of a layer's table, and multiply-adds for computing it at bind time: 32 MB, and
# a tenth of a second on one core. A vocabulary of 10,000 words with 800 gates fits.
_MOST_BYTES = 1 << 25
_MOST_PRODUCTS = 1 << 32
# A sum of this many products takes as long as reading one element of a table from memory.
_LEAST_COLUMNS = 32


def precompute_embeddings(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Replace dense layers on looked-up rows by look-ups in tables, if the tables are small."""
    return rewrite(graph, (dense_on_table, pointwise_on_table), fired)


@rule("dense(take(w, i), v)  =>  take(dense(w, v), i) where w and v are parameters")
def dense_on_table(value: Value, match: Match) -> Replacement:
    if value.op is not FULLY_CONNECTED:
        return None
    rows, *weights = value.inputs
    found = _find_look_up(rows)
    if found is None or not all(map(match.is_fixed, (found.table, *weights))):
        return None
    (count, columns), units = found.table.type.dims, value.shape[1]
    if rows.type.dims[1] != columns or columns < _LEAST_COLUMNS:
        return None
    nbytes = count * units * value.type.dtype.itemsize  # type: ignore[union-attr]
    if nbytes > _MOST_BYTES or count * units * columns > _MOST_PRODUCTS:
        return None
    dense = building(value).op(FULLY_CONNECTED, found.table, *weights, at="table", **value.attrs)
    return found.in_table(value, dense)


@rule("f(take(w, i))  =>  take(f(w), i) where w is computed from parameters")
def pointwise_on_table(value: Value, match: Match) -> Replacement:
    """For tables that are computed anyway."""
    if value.op is None or not value.op.is_pointwise or len(value.inputs) > 1:
        return None
    found = _find_look_up(value.inputs[0])
    if found is None or found.table.value.op is None or not match.is_fixed(found.table):
        return None
    changed = building(value).op(value.op, found.table, at="table", **value.attrs)
    return found.in_table(value, changed)


@dataclass(frozen=True)
class _LookUp:
    """Rows of a matrix by index, and the views that move whole rows."""

    value: Value
    steps: tuple[Value, ...]

    @property
    def place(self) -> int:
        """The position of the table among the operands; the other operand is the index."""
        return 1 if self.value.op is EMBEDDING else 0

    @property
    def table(self) -> Use:
        return self.value.inputs[self.place]

    def in_table(self, value: Value, table: Use) -> Use:
        """``value`` as the same rows of another table, moved in the same way.

        A transpose of looked-up rows becomes a transpose of the index, which is smaller.
        """
        g, attrs, operands = building(value), dict(self.value.attrs), list(self.value.inputs)
        index, steps, units = operands[1 - self.place], self.steps, table.type.dims[1]
        if steps and steps[0].op is TRANSPOSE:
            axes = permutation(len(steps[0].shape), steps[0].attrs["axes"])
            index, steps = transpose(g, index, axes[:-1], at="index"), steps[1:]
        operands[self.place], operands[1 - self.place] = table, index
        if self.value.op is EMBEDDING:
            attrs["output_dim"] = units
        assert self.value.op is not None
        rows = g.op(self.value.op, *operands, at="look_up" if steps else "", **attrs)
        for left, step in zip(reversed(range(len(steps))), steps):
            at = f"moved{left}" if left else ""
            if step.op is TRANSPOSE:
                rows = transpose(g, rows, step.attrs["axes"], at=at)
            else:
                rows = reshape(g, rows, (*step.shape[:-1], units), at=at)
        return rows


def _find_look_up(rows: Use) -> _LookUp | None:
    """The look-up that ``rows`` come from, through views of whole rows.

    The result does not depend on axes of size 1: a sample has the same bits alone and among others.
    """
    value, steps = rows.value, []
    while _keeps_rows(value):
        steps.append(value)
        value = value.inputs[0].value
    if value.op not in (EMBEDDING, TAKE) or value.attrs.get("axis", 0) != 0:
        return None
    found = _LookUp(value, tuple(reversed(steps)))
    return found if found.table.type.ndim == 2 else None


def _keeps_rows(value: Value) -> bool:
    """Whether the value has the rows of its input, each unchanged."""
    if value.op is RESHAPE_TO:
        return value.shape[-1:] == value.inputs[0].type.dims[-1:]
    last = len(value.shape) - 1
    return value.op is TRANSPOSE and permutation(last + 1, value.attrs["axes"])[-1] == last
