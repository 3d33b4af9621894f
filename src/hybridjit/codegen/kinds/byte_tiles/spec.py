"""KernelSpec of products of bytes in tile registers."""

from __future__ import annotations

from ...._core.frozen import dataclass
from ...._core.target import QUADS, ElementTypes
from ...spec import Ints, KernelSpec, Program
from ..parts.convolution import Convolution

WORD = 4
# Bytes behind a copied strip that a tile may read: those of its last, partly empty word.
SLACK = 64


@dataclass(frozen=True)
class ByteTilesSpec(Convolution, KernelSpec):
    """Convolution or dense layer of bytes; arguments: x, w, bias if it has one, operands, results,
    scratch memory if it copies strips, and batch.

    Weights are packed by ``QuadPacking``; a dense layer is a line with a column for each row.

    height  rows of a tile of data: adjacent columns of a line of the result
    words   words of four bytes that a tile has of a row of data; a divisor of those of a run
    is_run  whether the taps of a line are one run of adjacent bytes; else each tap is a run
    lines   lines of the result of a strip, whose input is copied into scratch memory, with zeros
            around it; 0 if all windows are inside, and tiles are loaded from x
    rows    pairs of tiles that are computed for all filters before the next ones
    """

    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    height: int
    words: int
    nv: int
    rows: int
    is_run: bool = False
    lines: int = 0
    has_bias: bool = False
    element: ElementTypes = QUADS
    program: Program = Program(1)
    kind = "byte_tiles"
    needs_passes = False

    @property
    def runs(self) -> int:
        """Runs of a line of taps."""
        return 1 if self.is_run else self.kernel[2]

    @property
    def words_of_run(self) -> int:
        """Words of a run, the last of which may be partly empty."""
        of_run: int = self.kernel[2] // self.runs * self.ic
        return -(-of_run // WORD)

    @property
    def steps_of_run(self) -> int:
        """Tiles along a run."""
        return self.words_of_run // self.words

    @property
    def steps(self) -> int:
        """Tiles along a sum."""
        return self.kernel[0] * self.kernel[1] * self.runs * self.steps_of_run

    @property
    def tiles_of_line(self) -> int:
        columns: int = self.out[2]
        return -(-columns // self.height)

    @property
    def lines_at_once(self) -> int:
        """Lines of the result of a strip, or of an image if strips are not copied."""
        lines: int = self.lines or self.out[0] * self.out[1]
        return lines

    @property
    def tiles(self) -> int:
        """Tiles of data of a strip or an image."""
        return self.lines_at_once * self.tiles_of_line

    @property
    def strips(self) -> int:
        strips: int = self.out[1] // self.lines if self.lines else 1
        return strips

    @property
    def copied(self) -> tuple[int, int]:
        """Lines and pixels of a copied strip."""
        down, across = (
            (count - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilate[axis] + 1
            for count, axis in ((self.lines, 1), (self.out[2], 2))
        )
        return down, across

    @property
    def strides(self) -> Ints:
        """Strides of the data that tiles are loaded from per (image, d, h, w)."""
        if not self.lines:
            return self.xs[:4]
        return 0, 0, self.copied[1] * self.ic, self.ic

    @property
    def scratch_bytes(self) -> int:
        """Bytes of a thread's strip; a multiple of a cache line."""
        if not self.lines:
            return 0
        down, across = self.copied
        return -(-down * across * self.ic // SLACK) * SLACK + SLACK
