"""ONNX's element types of at most eight bits that NumPy does not have.

Input: bytes; elements of four and two bits are packed from the lowest bits on. Output: arrays of a
wider type that holds the same values: float32 for floats, int8 or uint8 for integers.
"""

from __future__ import annotations

import numpy as np

from ..._core.frozen import dataclass


@dataclass(frozen=True)
class NarrowFloat:
    """Float with a sign bit if ``is_signed``, ``exponent`` bits and ``mantissa`` bits.

    bias      subtracted from the exponent
    largest   largest finite value
    infinite  whether the type has infinities
    nans      codes of NaNs
    """

    name: str
    exponent: int
    mantissa: int
    bias: int
    largest: float
    infinite: bool = False
    nans: tuple[int, ...] = ()
    is_signed: bool = True

    dtype = np.dtype("float32")

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return self.is_signed + self.exponent + self.mantissa

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the lowest bit-complete (normal) values."""
        return (1 if self.mantissa else 0) - self.bias

    def table(self) -> np.ndarray:
        """Value of each code."""
        codes = np.arange(1 << self.bits)
        mantissa = (codes & ((1 << self.mantissa) - 1)) / (1 << self.mantissa)
        exponent = codes >> self.mantissa & ((1 << self.exponent) - 1)
        is_small = (exponent == 0) & (self.mantissa > 0)
        whole = np.where(is_small, mantissa, 1 + mantissa)
        values = whole * 2.0 ** np.where(is_small, self.lowest_exponent, exponent - self.bias)
        if self.infinite:
            values[(exponent == (1 << self.exponent) - 1) & (mantissa == 0)] = np.inf
        if self.is_signed:
            values = np.where(codes >> (self.bits - 1), -values, values)
        values[list(self.nans)] = np.nan
        return values.astype(np.float32)


@dataclass(frozen=True)
class NarrowWhole:
    """Integer type."""

    name: str
    bits: int
    is_signed: bool

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the values."""
        return np.dtype("int8" if self.is_signed else "uint8")

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value."""
        half = 1 << (self.bits - 1)
        return (-half, half - 1) if self.is_signed else (0, 2 * half - 1)

    def table(self) -> np.ndarray:
        """Value of each code."""
        codes = np.arange(1 << self.bits)
        low = self.bounds[0]
        return ((codes - low) % (1 << self.bits) + low).astype(self.dtype)


Narrow = NarrowFloat | NarrowWhole
NARROW: dict[int, Narrow] = {
    17: NarrowFloat("float8e4m3fn", 4, 3, 7, 448.0, nans=(0x7F, 0xFF)),
    18: NarrowFloat("float8e4m3fnuz", 4, 3, 8, 240.0, nans=(0x80,)),
    19: NarrowFloat(
        "float8e5m2", 5, 2, 15, 57344.0, infinite=True, nans=(0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF)
    ),
    20: NarrowFloat("float8e5m2fnuz", 5, 2, 16, 57344.0, nans=(0x80,)),
    21: NarrowWhole("uint4", 4, False),
    22: NarrowWhole("int4", 4, True),
    23: NarrowFloat("float4e2m1", 2, 1, 1, 6.0),
    24: NarrowFloat("float8e8m0", 8, 0, 127, 2.0**127, nans=(0xFF,), is_signed=False),
    25: NarrowWhole("uint2", 2, False),
    26: NarrowWhole("int2", 2, True),
}
"""By TensorProto.DataType."""


def decoded(packed: np.ndarray, kind: Narrow) -> np.ndarray:
    """All elements of these bytes, including padding in the last byte."""
    each = 8 // kind.bits
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(kind.bits)
    codes = packed[:, None] >> shifts & np.uint8((1 << kind.bits) - 1)
    return kind.table()[codes.reshape(-1)]
