"""Properties of the CPU for which code is generated. ``codegen/llvm/jit.py`` detects the host's."""

from __future__ import annotations

from dataclasses import replace

from .frozen import dataclass


@dataclass(frozen=True)
class ElementTypes:
    """The element types of a kernel, by NumPy's names.

    stored       the type of operands and results in memory
    computed     the type of the lanes of its vectors, of packed weights and of scratch memory
    accumulated  the type of its sums
    """

    stored: str = "float32"
    computed: str = "float32"
    accumulated: str = "float32"

    @property
    def together(self) -> int:
        """Number of adjacent elements of a sum per lane."""
        return _TOGETHER.get(self.computed, 1)

    def __str__(self) -> str:
        names = (self.stored, self.computed, self.accumulated)
        return ":".join(names) if len(set(names)) > 1 else self.computed


SINGLE = ElementTypes()
# Element types of kernels, by the type of the elements in memory.
TYPES_OF = {
    "float32": SINGLE,
    "float64": ElementTypes("float64", "float64", "float64"),
    "float16": ElementTypes("float16", "float32", "float32"),
    "bfloat16": ElementTypes("bfloat16", "float32", "float32"),
    "int32": ElementTypes("int32", "int32", "int32"),
    "int64": ElementTypes("int64", "int64", "int64"),
}
# A lane holds two numbers that are adjacent in a sum: one instruction multiplies both.
PAIRS = ElementTypes("bfloat16", "bfloat16_pair", "float32")
# A lane holds four bytes that are adjacent in a sum, uint8 of data or int8 of weights.
QUADS = ElementTypes("uint8", "uint8_quad", "int32")
# A lane holds two int16 that are adjacent in a sum: bytes of data and of weights that were
# transformed.
SHORTS = ElementTypes("uint8", "int16_pair", "int32")
# Extremes of bytes; a vector has as many lanes as bytes.
OF_BYTES = ElementTypes("uint8", "uint8", "uint8")
_BYTES = {
    "float64": 8,
    "float32": 4,
    "int64": 8,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "bfloat16_pair": 4,
    "uint8": 1,
    "uint8_quad": 4,
    "int16_pair": 4,
}
# Number of elements of a sum per lane, by the type of lanes; 1 for all others.
_TOGETHER = {"bfloat16_pair": 2, "uint8_quad": 4, "int16_pair": 2}


@dataclass(frozen=True)
class Target:
    """Facts about a CPU for the choosers and the emitters.

    vector_bytes      width of one vector register
    vector_registers  number of registers that code can use
    has_fma           whether a fused multiply-add is one instruction
    l1_bytes, l2_bytes  data caches of one core
    element           the element types of the kernel that is chosen or written
    model             LLVM's name of the CPU whose costs decide between kernels; empty: ``cpu``
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

    def with_vectors(self, vector_bytes: int) -> Target:
        """The same CPU, for kernels on vectors of this width; 0 stands for that of registers."""
        return replace(self, vector_bytes=vector_bytes) if vector_bytes else self

    @property
    def element_bytes(self) -> int:
        """Bytes of a lane's content, and of an element of packed weights and of scratch memory."""
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
        """Whether an instruction converts float16; CPUs with multiply-add have it."""
        return self.has_fma

    @property
    def has_bfloat16(self) -> bool:
        """Whether instructions round float32 to bfloat16 and multiply pairs of bfloat16."""
        return self.vector_bytes == 64 and "+avx512bf16" in self._features

    @property
    def has_quads(self) -> bool:
        """Whether an instruction adds the products of four pairs of bytes to each lane."""
        shorter = self.vector_bytes < 64 and "+avxvnni" in self._features
        return shorter or "+avx512vnni" in self._features

    @property
    def has_tiles(self) -> bool:
        """Whether instructions multiply tiles of 16 rows of bytes, and the system allows them."""
        has_amx = {"+amx-tile", "+amx-int8"}.issubset(self._features)
        return has_amx and self.vector_bytes == 64

    @property
    def has_dots(self) -> bool:
        """Whether an instruction of NEON adds the products of four pairs of int8 to each lane."""
        return self.triple.startswith(("aarch64", "arm64")) and "+dotprod" in self._features

    @property
    def has_mixed_dots(self) -> bool:
        """Whether an instruction of NEON adds the products of four pairs of uint8 and int8."""
        return self.has_dots and "+i8mm" in self._features

    @property
    def _features(self) -> list[str]:
        return self.features.split(",")

    @property
    def has_rounding(self) -> bool:
        """Whether an instruction rounds floats to integral values, which plain x86-64 lacks."""
        return self.has_fma

    @property
    def has_scaling(self) -> bool:
        """Whether x * 2**n is one instruction, on vectors of 64 bytes."""
        return self.vector_bytes == 64 and self.triple.startswith("x86_64")

    @property
    def has_tables(self) -> bool:
        """Whether one instruction looks up 16 lanes in a table of 16 numbers."""
        return self.has_scaling

    @property
    def has_byte_tables(self) -> bool:
        """Whether one instruction looks up 64 bytes in a table of 128 bytes."""
        return self.vector_bytes == 64 and "+avx512vbmi" in self._features

    def __str__(self) -> str:
        return f"{self.name} ({self.cpu}, {self.vector_registers} x {self.vector_bytes} B)"
