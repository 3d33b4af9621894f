"""Aligned storage for one run of a plan, and the check mode's poison and canaries."""

from __future__ import annotations

import ctypes

import numpy as np

from ..errors import InternalError

ALIGNMENT = 64
CANARY_BYTES = 64
_CANARY = 0xA5

_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


class Arena:
    """``nbytes`` of memory, 64-byte aligned, with canaries on both sides.

    A fresh arena holds NaN in every float, so that reading what was never written shows.
    """

    def __init__(self, nbytes: int) -> None:
        self._raw = np.empty(nbytes + 2 * CANARY_BYTES + ALIGNMENT, np.uint8)
        base: int = self._raw.__array_interface__["data"][0]
        start = -(base + CANARY_BYTES) % ALIGNMENT + CANARY_BYTES
        self.nbytes = nbytes
        self.address = base + start
        self.bytes = self._raw[start : start + nbytes]
        self._low = self._raw[start - CANARY_BYTES : start]
        self._high = self._raw[start + nbytes : start + nbytes + CANARY_BYTES]
        self._low[:] = self._high[:] = _CANARY

    def poison(self, start: int = 0, stop: int | None = None) -> None:
        """Fill bytes with NaN (all bits set is a NaN in every float type)."""
        self.bytes[start:stop] = 0xFF

    def check_canaries(self, after: str) -> None:
        """Raises InternalError if something was written outside the arena."""
        if (self._low != _CANARY).any() or (self._high != _CANARY).any():
            raise InternalError(f"bug in hybridjit: {after} wrote outside the arena")


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element.

    Through the buffer protocol: 0.3 us, against 0.9 us through ``__array_interface__``, which is
    left for arrays that cannot be written or are empty.
    """
    try:
        return _addressof(_from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return int(array.__array_interface__["data"][0])


def aligned_empty(size: int, dtype: np.dtype) -> np.ndarray:
    """Room for ``size`` elements on a 64-byte boundary, so that no vector crosses a cache line."""
    nbytes = size * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address_of(raw) % ALIGNMENT
    return raw[start : start + nbytes].view(dtype)
