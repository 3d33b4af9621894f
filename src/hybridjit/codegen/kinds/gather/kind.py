"""Selection by index: reads from indexed positions, writes to them, and one_hot."""

from __future__ import annotations

from ..record import register
from .choose import choose_gather, choose_one_hot, choose_scatter
from .emit import emit_gather, emit_one_hot, emit_scatter
from .spec import GatherSpec, OneHotSpec, ScatterSpec
from .table import ByteTableSpec, emit_table

register("gather", choose_gather, {GatherSpec: emit_gather, ByteTableSpec: emit_table})
register("scatter", choose_scatter, {ScatterSpec: emit_scatter})
register("one_hot", choose_one_hot, {OneHotSpec: emit_one_hot})
