"""Choose tile registers for layers of bytes, on CPUs that have them, where they are faster."""

from __future__ import annotations

from ...._core.frozen import replace
from ...._core.target import Target
from ...._core.types import product
from ....ir.plan import Step
from ....ir.sized import is_symbolic
from ...call import Address, Argument, Call, Scratch, Setting
from ...llvm.tiles import ROW_BYTES, ROWS
from ...packing import ChannelPacking, ConvPacking, Packing, QuadPacking
from ..conv.choose_direct import along_depth, flattened
from ..conv.layer import Layer
from ..weights.choose import is_fixed, pack_weights
from .spec import WORD, ByteTilesSpec

# Least rows of a tile times words of a row for which tiles are faster than vectors. The time of a
# tile product hardly depends on the words of a row, nor on the rows below 8 of them. Products per
# ns of 2x2 tiles with data in the first-level cache: 2740, 1680 and 830 for 16 rows of 16, 8 and 4
# words; 2050, 1040 and 260 for 8, 4 and 1 rows of 16 words; at most 420 in vectors.
_FEWEST = 48
_FEWEST_ROWS = 4
# Vectors of filters per unit of work: with 2x2 tiles of sums, each loaded tile is used twice.
_VECTORS = 2
# Most bytes of a copied strip: a fraction of the second-level cache.
_STRIP_BYTES = 1 << 16


def tiled_calls(
    step: Step,
    layer: Layer,
    x: Address,
    extra: tuple[Argument, ...],
    batch: int,
    setting: Setting,
) -> tuple[Call, ...]:
    """Calls that compute a layer of bytes in tile registers; () if vectors are faster."""
    anchor = step.group.anchor
    spec = tiles_spec(layer, setting.target, len(anchor.inputs) > 2)
    if spec is None or not is_fixed(anchor.inputs[1], setting):
        return ()
    lanes = setting.target.lanes
    in_lines = spec.is_run and spec.kernel[2] > 1 and spec.ic % WORD != 0
    packings: tuple[Packing, ...] = (
        QuadPacking(ConvPacking(1, lanes, spec.nv, False), in_lines),
        ChannelPacking(1, lanes),
    )
    before, packed = pack_weights(step, [*zip(anchor.inputs[1:], packings)], setting)
    scratch = (Scratch(spec.scratch_bytes),) if spec.lines else ()
    work = layer.operations // 2 * batch
    return (*before, Call(spec, (x, *packed, *extra, *scratch, batch), work))


def tiles_spec(layer: Layer, target: Target, has_bias: bool) -> ByteTilesSpec | None:
    """Spec of a layer in tile registers; None if it needs vectors or they are faster."""
    sizes = (layer.inp, layer.out, layer.xs, layer.reads, layer.writes)
    if not target.has_tiles or is_symbolic(sizes) or layer.groups > 1 or layer.xs[4] != 1:
        return None
    layer = flattened(along_depth(layer))
    is_line = layer.dilate[2] == 1 or layer.kernel[2] == 1
    is_inside = not any(layer.pad)
    in_place = is_inside and layer.ic % WORD == 0
    if not in_place and not _can_be_copied(layer):
        return None
    is_run = is_line and (not in_place or layer.kernel[2] == 1 or layer.xs[3] == layer.ic)
    height, nv = _height(layer), min(_VECTORS, -(-layer.oc // target.lanes))
    spec = ByteTilesSpec(
        **layer.geometry, groups=1, ic=layer.ic, oc=layer.oc, height=height, words=1, nv=nv, rows=1,
        is_run=is_run, lines=0 if in_place else 1, has_bias=has_bias, **layer.tensors,
    )  # fmt: skip
    words = _words(spec.words_of_run)
    if height < _FEWEST_ROWS or height * words < _FEWEST:
        return None
    spec = replace(spec, words=words, lines=spec.lines and _lines_of_strip(spec))
    if spec.scratch_bytes > target.l2_bytes // 2:
        return None
    return replace(spec, rows=_pairs_in_cache(spec, target))


def _can_be_copied(layer: Layer) -> bool:
    """Whether a strip of result lines reads adjacent lines of a 2-D image."""
    return layer.kernel[0] == layer.out[0] == layer.inp[0] == 1 and min(layer.pad) >= 0


def _height(layer: Layer) -> int:
    """Rows per tile that divide a line into equal tiles.

    A single line gets an even number of tiles, because a unit of work is a pair of tiles.
    """
    columns = layer.out[2]
    tiles = -(-columns // ROWS)
    if tiles % 2 and tiles > 1 and layer.out[0] * layer.out[1] == 1:
        tiles += 1
    return int(-(-columns // tiles))


def _words(of_run: int) -> int:
    """The largest divisor of the words ``of_run`` that fits into a row of a tile."""
    most = ROW_BYTES // WORD
    return max(words for words in range(1, most + 1) if of_run % words == 0)


def _lines_of_strip(spec: ByteTilesSpec) -> int:
    """The largest divisor of the height whose strips have at most ``_STRIP_BYTES``; at least 1."""
    height = spec.out[1]
    fitting = (
        lines
        for lines in range(1, height + 1)
        if height % lines == 0 and replace(spec, lines=lines).scratch_bytes <= _STRIP_BYTES
    )
    return max(fitting, default=1)


def _pairs_in_cache(spec: ByteTilesSpec, target: Target) -> int:
    """Number of pairs of tiles that are computed for all filters before the next pairs.

    If the filters fit into an eighth of the second-level cache: the pairs whose data and results
    fit into half of the first level, where the cache lines of results remain until the next block
    completes them. Otherwise: all pairs if the data of an image or a strip fit into half of the
    second level, else the pairs whose data take a quarter of it.
    """
    pairs = -(-spec.tiles // 2)
    filters = spec.steps * spec.words * WORD * spec.oc
    tensors = 1 + len(spec.writes) + sum(s[3] > 0 for s in spec.reads)
    of_pair = 2 * spec.height * (spec.ic * spec.stride[2] + spec.oc * (tensors - 1))
    if filters <= target.l2_bytes // 8:
        return max(1, min(pairs, target.l1_bytes // 2 // of_pair))
    nbytes = spec.scratch_bytes or product(spec.inp) * spec.ic
    if nbytes <= target.l2_bytes // 2:
        return pairs
    return max(1, pairs * (target.l2_bytes // 4) // nbytes)
