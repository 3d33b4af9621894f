"""KernelSpec: one frozen, hashable, one-line description per kernel.

The spec alone is enough to emit. It names no weight, no address, no thread count and no batch
size: kernels take those as arguments, so nets of one shape share code, and a new batch size
compiles only what the batch is a dimension of. Strides count elements, each operand's its own.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..records import dataclass
from ..types import product

Ints = tuple[int, ...]

# Independent sums along an axis: an addition takes four cycles.
CHAINS = 4


@dataclass(frozen=True)
class Instr:
    """One pointwise operation on numbered values: inputs first, then earlier instructions.

    Operands count as the result's element type, ``dtype``.
    """

    op: str
    args: Ints
    attrs: tuple[tuple[str, Any], ...] = ()
    dtype: str = "float32"

    def __str__(self) -> str:
        attrs = "".join(f" {k}={v}" for k, v in self.attrs)
        type_ = "" if self.dtype == "float32" else f":{self.dtype}"
        return f"{self.op}({','.join(map(str, self.args))}{attrs}){type_}"


@dataclass(frozen=True)
class Program:
    """What is computed on each element before it is stored.

    Values 0 .. inputs-1 come from outside (value 0 is the anchor's result, where there is an
    anchor); ``outputs`` are the values that are stored. ``types`` are the element types of the
    inputs, none where all are float32.
    """

    inputs: int
    instrs: tuple[Instr, ...] = ()
    outputs: Ints = (0,)
    types: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.instrs and self.outputs == (0,):
            return f"store {self.types[0]}" if self.types else "store"
        types = f"{','.join(self.types)}: " if self.types else ""
        body = ";".join(map(str, self.instrs)) or "-"
        return f"[{types}{body}->{','.join(map(str, self.outputs))}]"

    @property
    def value_types(self) -> tuple[str, ...]:
        """The element type of every value, in the order of their numbers."""
        inputs = self.types or ("float32",) * self.inputs
        return (*inputs, *(instr.dtype for instr in self.instrs))

    @property
    def output_types(self) -> tuple[str, ...]:
        return tuple(self.value_types[i] for i in self.outputs)


@dataclass(frozen=True)
class KernelSpec:
    """Base of all specs. ``kind`` is the row in ``KERNELS`` that emits it.

    ``needs_passes`` tells whether LLVM's optimiser has anything to do on what is emitted;
    ``element`` is what a lane of its vectors holds, and its memory where nothing else is said.
    """

    kind = ""
    element = "float32"
    needs_passes = True

    def __str__(self) -> str:
        parts = [self.kind]
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                parts.append(f"{f.name}={_text(value)}")
        return " ".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(_text(v) for v in value) + ")"
    return str(value)


@dataclass(frozen=True)
class PointwiseSpec(KernelSpec):
    """A program over the elements of an index space; arguments: operands, results, count.

    The space is ``(count, *dims)``: the outermost size is an argument. Strides are one per axis.
    ``block`` cuts a one-axis space into units of work.
    """

    dims: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    program: Program
    block: int = 0
    kind = "pointwise"


@dataclass(frozen=True)
class ConvSpec(KernelSpec):
    """Convolution as implicit im2col + GEMM; arguments: x, w, bias, operands, results, batch.

    Spatial tuples are (depth, height, width). ``xs``: strides of x per (image, d, h, w, channel);
    ``reads``/``writes``: strides per (image, d, h, w) and channel 1, operands with a fifth number
    for their channel stride. Weights are packed, see ``packing.ConvPacking``. A dense layer is
    the case of one image, one row and as many columns as there are rows of data.
    mr x nv   the register tile: output columns x vectors of output channels
    taps      whether the width taps are unrolled (few channels) or the channels are the inner loop
    rows      output rows that are done for all channels before the next ones are begun
    """

    inp: Ints
    out: Ints
    kernel: Ints
    stride: Ints
    dilate: Ints
    pad: Ints
    groups: int
    ic: int
    oc: int
    xs: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    mr: int
    nv: int
    unroll: int
    taps: bool
    rows: int
    element: str = "float32"
    program: Program = Program(1)
    kind = "conv"
    needs_passes = False


@dataclass(frozen=True)
class PackSpec(KernelSpec):
    """Weights that are no parameters, packed as ``ConvPacking`` packs them; arguments: w, result.

    filters  of each of the ``groups``, in blocks of ``nv`` vectors
    sizes    what the products run over, the last the fastest
    strides  of w per (group, filter, *sizes)
    """

    groups: int
    filters: int
    nv: int
    sizes: Ints
    strides: Ints
    lanes: int
    element: str = "float32"
    kind = "pack"

    @property
    def vectors(self) -> int:
        """Vectors of filters of a group."""
        return -(-self.filters // self.lanes)

    @property
    def floats(self) -> int:
        """Floats of the result."""
        return self.groups * self.vectors * self.lanes * product(self.sizes)


@dataclass(frozen=True)
class WinogradSpec(KernelSpec):
    """3x3 convolution at stride 1 by Winograd's F(m x m, 3x3); ConvSpec's arguments, and scratch.

    tiles   output tiles that are transformed together, as the rows of the products
    blocks  blocks of ``nv`` vectors of output channels that are done per unit of work
    mr x nv the register tile of the products
    """

    m: int
    inp: Ints
    out: Ints
    pad: Ints
    ic: int
    oc: int
    xs: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    tiles: int
    blocks: int
    mr: int
    nv: int
    unroll: int
    program: Program = Program(1)
    kind = "winograd"
    needs_passes = False

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across one image."""
        return -(-self.out[1] // self.m), -(-self.out[2] // self.m)

    @property
    def points(self) -> int:
        """Values of one transformed tile."""
        return (self.m + 2) ** 2

    @property
    def rows(self) -> int:
        """Rows of the products: tiles rounded up to whole register tiles."""
        return -(-self.tiles // self.mr) * self.mr

    def scratch_floats(self, lanes: int) -> tuple[int, int, int]:
        """Floats of one thread's transformed input, products, and zeros with room to discard.

        The point stride is a multiple of a cache line that is no multiple of a page, so that the
        points of one tile do not fall into one set of the cache.
        """
        width = self.nv * lanes * self.blocks
        padded = -(-self.ic // lanes) * lanes
        v = self.points * (self.rows * padded + 16)
        m = self.points * (self.rows * width + 16)
        return v, m, padded + width + lanes


@dataclass(frozen=True)
class DepthwiseSpec(KernelSpec):
    """Small groups, vectors along channels; arguments as for ConvSpec.

    cols x nv  output columns x channel vectors that are kept in registers
    group      channels of a group, in and out: 1 is one filter per channel
    """

    inp: Ints
    out: Ints
    kernel: Ints
    stride: Ints
    dilate: Ints
    pad: Ints
    channels: int
    xs: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    cols: int
    nv: int
    group: int = 1
    element: str = "float32"
    program: Program = Program(1)
    kind = "depthwise"
    needs_passes = False


@dataclass(frozen=True)
class PoolSpec(KernelSpec):
    """Pooling over windows, vectors along channels; arguments: x, operands, results, batch.

    power  for ``lp``: the root of the sum of these powers
    """

    how: str
    inp: Ints
    out: Ints
    kernel: Ints
    stride: Ints
    pad: Ints
    channels: int
    xs: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    count_pad: bool = True
    power: int = 1
    element: str = "float32"
    program: Program = Program(1)
    kind = "pool"

    @property
    def dilate(self) -> Ints:
        return (1, 1, 1)


@dataclass(frozen=True)
class DenseSpec(KernelSpec):
    """A dense layer on several rows of data; arguments: x, w, bias, operands, results, rows.

    Strides are per (row, channel). Weights are packed as for a 1x1 convolution.
    mr x nv  the register tile: rows x vectors of output channels
    chunk    tiles that are done for a block of channels before the next block
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
    element: str = "float32"
    program: Program = Program(1)
    kind = "dense"
    needs_passes = False


@dataclass(frozen=True)
class MatmulSpec(KernelSpec):
    """Products of two activations; arguments: a, b, operands, results, scratch, batch.

    Strides of ``a`` are per (batch, row, k), of ``b`` per (batch, k, column), of operands and
    results per (batch, row, column). A block of b's columns is packed into the thread's scratch
    and used for all rows. parts: the rows are cut into that many units of work.
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
    element: str = "float32"
    program: Program = Program(1)
    kind = "matmul"
    needs_passes = False

    def scratch_floats(self, lanes: int) -> int:
        return self.k * self.nv * lanes


@dataclass(frozen=True)
class PadSpec(KernelSpec):
    """A border around every axis but the first; arguments: x, y, count of the first axis.

    inp, out, before  sizes of x and y, and the border before x, of the axes after the first
    x, y   strides of all axes; ``value`` are the bits of the border's value, as ``dtype``
    """

    mode: str
    inp: Ints
    out: Ints
    before: Ints
    x: Ints
    y: Ints
    dtype: str
    value: int = 0
    kind = "pad"


@dataclass(frozen=True)
class ReduceSpec(KernelSpec):
    """A reduction of [row, *kept, *reduced] to [row, *kept]; arguments: x, y, rows.

    how     sum, mean, prod, max, min, nansum, nanprod, norm1, norm2, argmax or argmin
    along   whether vectors lie along the last reduced axis, or across, on the last kept one
    x, y    strides of x per (row, *kept, *reduced), of y per (row, *kept)
    dtype   the element type of x; ``result`` that of y and ``sums`` that of what is carried,
            where they are not the same
    """

    how: str
    along: bool
    kept: Ints
    reduced: Ints
    x: Ints
    y: Ints
    dtype: str = "float32"
    result: str = ""
    sums: str = ""
    kind = "reduce"

    @property
    def count(self) -> int:
        """Elements that make one result."""
        return product(self.reduced)


@dataclass(frozen=True)
class SoftmaxSpec(KernelSpec):
    """Softmax over ``size`` elements, ``inner`` apart; arguments: x, [length,] y, rows.

    A row is ``size`` x ``inner`` elements: inner 1 has the vectors along the axis, else across it.
    length  the element type of the lengths, one for each column, if there are any
    """

    how: str
    size: int
    inner: int
    length: str = ""
    dtype: str = "float32"
    kind = "softmax"
