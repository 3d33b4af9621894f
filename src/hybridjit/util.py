"""``mx.util``: what programs ask about MXNet's NumPy mode, which does not exist here."""

from __future__ import annotations


def is_np_array() -> bool:
    """Whether arrays have NumPy's semantics: never."""
    return False


def is_np_shape() -> bool:
    """Whether a size of 0 in a shape is a size rather than unknown: never."""
    return False
