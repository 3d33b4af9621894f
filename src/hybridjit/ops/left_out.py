"""Families of MXNet's operators that are deliberately not supported, with reasons.

Input: an unknown operator name. Output: the reason for a message.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_RECURRENT = "quantized recurrent layers are not supported: exclude them and quantize again"
_ATTENTION = "fused attention is not supported: export the network without backend optimization"
_INTGEMM = "products of intgemm are not supported: export the float32 network"

LEFT_OUT = [
    ("_contrib_quantize_asym", _RECURRENT),
    ("_contrib_quantized_rnn", _RECURRENT),
    ("_sg_mkldnn_selfatt_*", _ATTENTION),
    ("_contrib_intgemm_*", _INTGEMM),
]


def why_left_out(name: str) -> str | None:
    """Reason, or None for a name of no such family."""
    for pattern, reason in LEFT_OUT:
        if fnmatchcase(name, pattern):
            return reason
    return None
