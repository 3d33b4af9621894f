"""KernelSpec of layers of bytes in tile registers."""

from __future__ import annotations

from ...._core.frozen import dataclass
from ...._core.target import QUADS, ElementTypes
from ...spec import Ints, KernelSpec, Program
from ..parts.convolution import Convolution

WORD = 4
# Bytes after a copied strip that the load of a partly empty word may read.
SLACK = 64


@dataclass(frozen=True)
class ByteTilesSpec(Convolution, KernelSpec):
    """Convolution or dense layer of bytes.

    Arguments: x, w, bias with ``has_bias``, operands and results of the program, scratch memory if
    strips are copied, and batch. Weights are packed by ``QuadPacking``. A dense layer is a
    convolution of one line, whose columns are the rows of x.

    height  rows of a data tile: adjacent columns of a line of the result
    words   words of four bytes per row of a data tile; a divisor of the words of a run
    is_run  whether the taps of a kernel line read one run of adjacent bytes; else each tap is a run
    lines   result lines per strip, whose input is copied into scratch memory and padded with
            zeros; 0 if all windows are inside x, and tiles are loaded from x
    rows    pairs of tiles that are computed for all filters before the next pairs
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
        """Runs per line of taps."""
        return 1 if self.is_run else self.kernel[2]

    @property
    def words_of_run(self) -> int:
        """Words per run; the last word may be partly empty."""
        of_run: int = self.kernel[2] // self.runs * self.ic
        return -(-of_run // WORD)

    @property
    def steps_of_run(self) -> int:
        """Data tiles per run."""
        return self.words_of_run // self.words

    @property
    def steps(self) -> int:
        """Tile products per tile of sums."""
        return self.kernel[0] * self.kernel[1] * self.runs * self.steps_of_run

    @property
    def tiles_of_line(self) -> int:
        columns: int = self.out[2]
        return -(-columns // self.height)

    @property
    def lines_at_once(self) -> int:
        """Result lines per strip, or per image if strips are not copied."""
        lines: int = self.lines or self.out[0] * self.out[1]
        return lines

    @property
    def tiles(self) -> int:
        """Data tiles per strip, or per image if strips are not copied."""
        return self.lines_at_once * self.tiles_of_line

    @property
    def strips(self) -> int:
        strips: int = self.out[1] // self.lines if self.lines else 1
        return strips

    @property
    def copied(self) -> tuple[int, int]:
        """Lines of a copied strip, and pixels per line."""
        down, across = (
            (count - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilate[axis] + 1
            for count, axis in ((self.lines, 1), (self.out[2], 2))
        )
        return down, across

    @property
    def strides(self) -> Ints:
        """Strides (image, depth, height, width) of the data from which tiles are loaded."""
        if not self.lines:
            return self.xs[:4]
        return 0, 0, self.copied[1] * self.ic, self.ic

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the strip of one thread; a multiple of a cache line."""
        if not self.lines:
            return 0
        down, across = self.copied
        return -(-down * across * self.ic // SLACK) * SLACK + SLACK
