"""The CPU that code is made for, as plain data. ``codegen/llvm/jit.py`` finds the host's."""

from __future__ import annotations

from dataclasses import replace

from .records import dataclass


@dataclass(frozen=True)
class Target:
    """What the choosers and the emitters may know about a CPU.

    vector_bytes      width of one vector register
    vector_registers  how many of them code can use
    has_fma           whether a fused multiply-add is one instruction
    l1_bytes, l2_bytes  data caches of one core
    element           what a lane of a vector holds: float32, or float64 in kernels of that type
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    has_fma: bool
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    element: str = "float32"

    def of(self, element: str) -> Target:
        """The same CPU, for kernels on elements of this type."""
        return self if element == self.element else replace(self, element=element)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element: 8 for float64, else 4."""
        return 8 if self.element == "float64" else 4

    @property
    def lanes(self) -> int:
        """Elements in one vector."""
        return self.vector_bytes // self.element_bytes

    @property
    def has_half(self) -> bool:
        """Whether float16 is converted by an instruction, as where there is multiply-add."""
        return self.has_fma

    @property
    def has_rounding(self) -> bool:
        """Whether floats become whole numbers by an instruction, which plain x86-64 lacks."""
        return self.has_fma

    @property
    def has_scaling(self) -> bool:
        """Whether x * 2**n is one instruction, on vectors of 64 bytes."""
        return self.vector_bytes == 64 and self.triple.startswith("x86_64")

    def __str__(self) -> str:
        return f"{self.name} ({self.cpu}, {self.vector_registers} x {self.vector_bytes} B)"
