"""Reductions over any axes: sums, products, extremes, norms, and indices of extremes."""

from __future__ import annotations

from ..record import register
from .choose import choose_reduce
from .emit import emit_reduce
from .pairs import emit_pair
from .spec import PairSpec, ReduceSpec

register("reduce", choose_reduce, {ReduceSpec: emit_reduce, PairSpec: emit_pair})
