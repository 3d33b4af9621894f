"""Rows of bytes: their quantization, their vectors as floats, and vectors of results as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._core.frozen import dataclass
from ...._core.lazy import Late
from ....ir.plan import Step
from ....ops.quantized import FROM_BYTES
from ...call import build_program
from ...llvm.builder import LoopBuilder
from ...llvm.elements import converted
from ...llvm.indices import Index
from ...llvm.types import Value
from ...spec import Program
from .partial import read_vector, write_vector

if TYPE_CHECKING:
    from ...math import single
    from . import program
else:  # for emission alone
    program = Late(".program", __package__)
    single = Late("...math.single", __package__)


@dataclass(frozen=True)
class RowsOfBytes:
    """The quantization of a kernel's rows.

    source       the type of bytes that are read, "" for floats
    scale, zero  those of the bytes that are read
    program      the instruction that makes bytes of a result, if any
    """

    source: str = ""
    scale: float = 1.0
    zero: int = 0
    program: Program = Program(1)

    @property
    def target(self) -> str:
        """The type of bytes that are written, "" for floats."""
        return self.program.output_types[0] if self.program.instrs else ""

    @property
    def has_any(self) -> bool:
        return bool(self.source or self.program.instrs)


def rows_of_bytes(step: Step) -> RowsOfBytes:
    """The quantization of the data and of the result of a step."""
    anchor = step.group.anchor
    after = build_program(step, anchored=True)[0] if step.group.epilogue else Program(1)
    if "scale" not in anchor.attrs:
        return RowsOfBytes(program=after)
    source, attrs = step.reads[0].dtype.name, anchor.attrs
    return RowsOfBytes(source, attrs["scale"], attrs["zero"], after)


def read_row(
    b: LoopBuilder, bytes_: RowsOfBytes, pointer: Value, index: Index, lanes: Index
) -> Value:
    """A vector of bytes, dequantized."""
    raw = read_vector(b, pointer, index, 1, lanes, bytes_.source)
    value = converted(b, raw, bytes_.source, "float32")
    assert FROM_BYTES.scalar is not None
    made: Value = FROM_BYTES.scalar(
        single.VectorMath(b, value), value, scale=bytes_.scale, zero=bytes_.zero
    )
    return made


def write_row(
    b: LoopBuilder,
    bytes_: RowsOfBytes,
    value: Value,
    pointer: Value,
    index: Index,
    lanes: Index,
    dtype: str = "",
) -> None:
    """Store a vector of results, as bytes if they are quantized."""
    if bytes_.program.instrs:
        (value,), dtype = program.evaluate(b, bytes_.program, [value]), bytes_.target
    write_vector(b, value, pointer, index, 1, lanes, dtype)
