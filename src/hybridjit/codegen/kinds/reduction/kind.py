"""Reductions over any axes: sums, products, extremes, norms, and places of extremes."""

from __future__ import annotations

from ..record import register
from .choose import choose_reduce
from .emit import emit_reduce
from .spec import ReduceSpec

register("reduce", choose_reduce, {ReduceSpec: emit_reduce})
