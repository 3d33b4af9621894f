"""The CPU that code is made for, as plain data. ``codegen/llvm/jit.py`` finds the host's."""

from __future__ import annotations

from dataclasses import replace

from .frozen import dataclass


@dataclass(frozen=True)
class ElementTypes:
    """The element types of a kernel, by NumPy's names.

    stored       what its operands and results are in memory
    computed     what a lane of its vectors holds; weights that are packed and scratch memory, too
    accumulated  what its sums are carried in
    """

    stored: str = "float32"
    computed: str = "float32"
    accumulated: str = "float32"

    def __str__(self) -> str:
        names = (self.stored, self.computed, self.accumulated)
        return ":".join(names) if len(set(names)) > 1 else self.computed


SINGLE = ElementTypes()
# What kernels compute in, for what memory holds: the one place that says so.
TYPES_OF = {
    "float32": SINGLE,
    "float64": ElementTypes("float64", "float64", "float64"),
    "float16": ElementTypes("float16", "float32", "float32"),
    "bfloat16": ElementTypes("bfloat16", "float32", "float32"),
}
# A lane holds two numbers that follow each other in a sum: one instruction multiplies both.
PAIRS = ElementTypes("bfloat16", "bfloat16_pair", "float32")
_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "bfloat16_pair": 4}


@dataclass(frozen=True)
class Target:
    """What the choosers and the emitters may know about a CPU.

    vector_bytes      width of one vector register
    vector_registers  how many of them code can use
    has_fma           whether a fused multiply-add is one instruction
    l1_bytes, l2_bytes  data caches of one core
    element           the element types of the kernel that is chosen or written
    model             the CPU whose costs decide between kernels, by LLVM's name; ``cpu`` if empty
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
    element: ElementTypes = SINGLE
    model: str = ""

    def of(self, element: ElementTypes) -> Target:
        """The same CPU, for kernels on elements of these types."""
        return self if element == self.element else replace(self, element=element)

    @property
    def element_bytes(self) -> int:
        """Bytes of what a lane holds, of packed weights and of scratch memory."""
        return _BYTES[self.element.computed]

    @property
    def stored_bytes(self) -> int:
        """Bytes of an element of an operand or a result."""
        return _BYTES[self.element.stored]

    @property
    def lanes(self) -> int:
        """Elements in one vector."""
        return self.vector_bytes // self.element_bytes

    @property
    def has_half(self) -> bool:
        """Whether float16 is converted by an instruction, as where there is multiply-add."""
        return self.has_fma

    @property
    def has_bfloat16(self) -> bool:
        """Whether float32 is rounded to bfloat16, and pairs of it multiplied, by an instruction."""
        return self.vector_bytes == 64 and "+avx512bf16" in self.features.split(",")

    @property
    def has_rounding(self) -> bool:
        """Whether floats become whole numbers by an instruction, which plain x86-64 lacks."""
        return self.has_fma

    @property
    def has_scaling(self) -> bool:
        """Whether x * 2**n is one instruction, on vectors of 64 bytes."""
        return self.vector_bytes == 64 and self.triple.startswith("x86_64")

    @property
    def has_tables(self) -> bool:
        """Whether each of 16 lanes takes one of 16 numbers by one instruction."""
        return self.has_scaling

    def __str__(self) -> str:
        return f"{self.name} ({self.cpu}, {self.vector_registers} x {self.vector_bytes} B)"
