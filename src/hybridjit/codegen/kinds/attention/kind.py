"""Register the attention kind: its choice, and the emitter of its spec."""

from __future__ import annotations

from ..record import register
from .choose import choose_attention
from .emit import emit_attention
from .spec import AttentionSpec

register("attention", choose_attention, {AttentionSpec: emit_attention}, in_one_type=True)
