"""KernelSpecs of dense layers and of products of activations. Strides count elements."""

from __future__ import annotations

from ...._core.frozen import dataclass
from ...._core.target import PAIRS, SINGLE, ElementTypes
from ...spec import Ints, KernelSpec, Program, Size, Sizes


@dataclass(frozen=True)
class DenseSpec(KernelSpec):
    """A dense layer on several rows of data; arguments: x, w, bias, operands, results, rows.

    Strides are per (row, channel). Weights are packed as for a 1x1 convolution.

    mr x nv  the register tile: at most ``mr`` rows x vectors of output channels
    least    the fewest rows of a tile for which the kernel is called
    chunk    maximal tiles that are computed for a block of channels before the next block
    by_row   whether a tile's sums pass through memory to a loop over its rows, which contains the
             program once
    half_last  whether the last vector of channels is half a vector
    """

    ic: int
    oc: int
    xs: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    mr: int
    nv: int
    unroll: int
    chunk: int
    least: int = 1
    by_row: bool = False
    half_last: bool = False
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    kind = "dense"
    needs_passes = False


@dataclass(frozen=True)
class MatmulSpec(KernelSpec):
    """Products of two activations; arguments: a, b, [bias,] operands, results, scratch, batch.

    Strides of ``a`` are per (batch, row, k), of ``b`` per (batch, k, column), of operands and
    results per (batch, row, column). A block of b's columns is packed into the thread's scratch and
    used for all rows.

    parts  number of units of work into which the rows are divided
    bias   stride per column of the initial sums; () for zeros
    bias_type  its stored type, if it differs from the type of sums
    half_last  whether the last vector of columns is half a vector
    in_place   whether the columns of b, contiguous in memory, are multiplied without packing
    """

    m: int
    n: int
    k: int
    a: Ints
    b: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    mr: int
    nv: int
    unroll: int
    parts: int = 1
    bias: Ints = ()
    bias_type: str = ""
    half_last: bool = False
    in_place: bool = False
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    kind = "matmul"
    needs_passes = False

    def scratch_floats(self, lanes: int) -> int:
        """Elements of a thread's packed block of columns; none if columns are read in place."""
        if self.in_place:
            return 0
        steps = -(-self.k // 2) if self.element == PAIRS else self.k
        return steps * self.nv * lanes


@dataclass(frozen=True)
class SizedMatmulSpec(KernelSpec):
    """:class:`MatmulSpec` with sizes and strides given by the call, as the last arguments.

    mr, least  the most and the fewest rows of a tile for which the kernel is called
    is_long    whether sums are so long that they are sums of partial sums
    """

    m: Size
    n: Size
    k: Size
    a: Sizes
    b: Sizes
    reads: tuple[Sizes, ...]
    writes: tuple[Sizes, ...]
    mr: int
    nv: int
    least: int
    unroll: int
    parts: int = 1
    is_long: bool = False
    has_bias: bool = False
    bias_type: str = ""
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    kind = "sized_matmul"
    needs_passes = False
