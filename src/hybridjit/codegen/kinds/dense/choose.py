"""Choose for dense layers with several rows of data: one kernel for any number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...._core.symbolic import Size, decided, hint_of
from ...._core.target import PAIRS, SINGLE, Target
from ...._core.types import product
from ....ir.graph import SampleRows
from ....ir.plan import Step, View
from ....ir.plan_image import Packed
from ....ir.sized import is_symbolic
from ....ops.nn.matrix_products import BATCH_DOT
from ...call import (
    Address,
    Argument,
    Call,
    GivenNumbers,
    Scratch,
    Setting,
    broadcast_strides,
    build_program,
    dtype_name,
    views_of,
)
from ...families import family_of
from ...packing import ChannelPacking
from ...spec import Ints, KernelSpec
from ..conv.choose import calls_of
from ..conv.choose_by_size import Positions
from ..conv.choose_strassen import has_halves
from ..conv.layer import Layer
from ..conv.tile import ends_in_half, most_rows, register_tile, rows_share_sets
from ..parts.cost import is_long
from ..parts.gemm import MOST_GIVEN
from ..weights.choose import in_pairs, is_fixed, multiplies_pairs, pack_weights, packing_for
from .spec import DenseSpec, MatmulSpec, SizedMatmulSpec


def choose_dense(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The calls of a dense layer.

    A single row is a separate case: it is limited by memory bandwidth, so that more vectors of
    channels at a time are worth more than rows.
    """
    anchor = step.group.anchor
    x = views_of(step, anchor.inputs[:1])[0]
    if anchor.op is BATCH_DOT or _prefers_matmul(step, setting):
        return _choose_matmul(step, setting.target)
    if x.shape[0] == 1:
        return _choose_as_convolution(step, setting, SampleRows())
    rows = _rows_by_strassen(step, setting)
    if rows.count > 1:
        return _choose_as_convolution(step, setting, rows)
    setting = in_pairs(setting, x.strides[1], step)
    target, (inputs, outputs) = setting.target, (x.shape[1], anchor.shape[1])
    program, operands = build_program(step, anchored=True)
    others = views_of(step, operands)
    steps = (x.strides[0], *(v.strides[0] for v in step.writes))
    share_sets = any(rows_share_sets(each, target) for each in steps)
    mr, least, nv = _dense_tile(x.shape[0], -(-outputs // target.lanes), share_sets, target)
    usual = DenseSpec(
        ic=inputs,
        oc=outputs,
        xs=_two(x.strides),
        reads=tuple(_two(broadcast_strides(v, anchor.shape)) for v in others),
        writes=tuple(_two(v.strides) for v in step.writes),
        mr=mr,
        nv=nv,
        unroll=4 if nv > 1 else _FEW_STEPS,
        chunk=max(1, _rows_together(inputs, nv, target) // mr),
        least=least_rows(x.shape[0], mr, least, setting.is_training),
        by_row=is_long(program) or _ends_in_part(inputs, outputs, target),
        half_last=ends_in_half(outputs, target),
        program=program,
        element=target.element,
    )
    spec = setting.decided([usual], lambda: _other_tiles(usual, x.shape[0], target))
    weight, *biases = anchor.inputs[1:]
    packing, of_bias = packing_for(target, 1, spec.nv), ChannelPacking(1, target.lanes)
    before, weights = pack_weights(
        step, [(weight, packing), *((bias, of_bias) for bias in biases)], setting
    )
    if not biases:
        weights = (*weights, Packed(None, of_bias, outputs, target.element.accumulated))
    extra: tuple[Argument, ...] = tuple(Address(v) for v in (*others, *step.writes))
    work = product(anchor.shape) * inputs
    reason = f"HYBRIDJIT_TUNED has {spec}, instead of {usual}" if spec != usual else ""
    return (*before, Call(spec, (Address(x), *weights, *extra, x.shape[0]), work, reason))


# Elements of a sum from which on results may pass through memory.
_MANY_INPUTS = 128
# Steps of a round, for tiles of one vector and products of any size: kernels have code for each
# number of rows, and LLVM takes 35 ms with four steps for 256 inputs and 5 outputs, 21 with two.
# The layer takes as long: 59 rows 4.4 us (Zen 4).
_FEW_STEPS = 2


def _ends_in_part(inputs: int, outputs: int, target: Target) -> bool:
    """Whether the last vector is partial, and sums take so long that their way through memory does
    not matter.

    The instructions that store a part are then emitted once, not for each row of each tile: for
    256 to 5 channels LLVM takes 8 ms instead of 38.
    """
    return outputs % target.lanes not in (0, target.lanes // 2) and inputs >= _MANY_INPUTS


# Maximum rows of a tile if lines share sets of the first-level cache: two lines of each set are
# left for weights and results. 128 rows, 3072 to 768: 2.58 ms, 2.63 with 12 rows; 1024 rows, 256 to
# 1024: 2.32 and 2.38; 128 rows, 768 to 3072: 2.65 and 2.69. Few rows use as few tiles as possible.
_MOST_SHARING = 10


# Minimum of a symbolic number of rows for tiles of many rows. A tile has 7 to 14 rows, so that one
# threshold serves all layers of a network.
_MANY_ROWS = 8


# Rows below which a tile has more than two vectors of columns: see ``register_tile``.
_FEW_ROWS = 6


def _dense_tile(rows: int, vectors: int, share_sets: bool, target: Target) -> tuple[int, int, int]:
    """The most and the fewest rows of a tile, and its vectors of channels.

    A block of weights is read from the second-level cache for every tile: more rows mean fewer
    reads. Few rows are one tile of more vectors, whose sums hide the latency of a multiply-add.
    """
    mr, nv = register_tile(max(most_rows(target).values()), vectors, target)
    mr = min(mr, _MOST_SHARING) if share_sets and hint_of(rows) > 2 * mr else mr
    least = (mr + 1) // 2
    if rows >= (_MANY_ROWS if isinstance(rows, Size) else least):
        return mr, least, nv
    return least - 1, 2 if least > 3 else 1, min(4, vectors)


def least_rows(rows: int, mr: int, least: int, is_training: bool) -> int:
    """The fewest rows of a tile for ``rows`` rows or more; at least ``least``.

    There is code for each height from this on. More than mr (mr - 1) rows have tiles of at least mr
    - 1. Training steps have the same number of rows each time, so a single tile has exactly its
    height.
    """
    if isinstance(rows, Size):
        return least
    if rows > mr * (mr - 1):
        return max(least, mr - 1)
    return rows if is_training and least <= rows <= mr else least


def _other_tiles(spec: DenseSpec, rows: int, target: Target) -> list[DenseSpec]:
    """Specs for each number of vectors, with near and far rows as in :func:`_rows_together`.

    They are used only if measurements prefer them.
    """
    most, found = most_rows(target), []
    for nv in range(1, min(4, -(-spec.oc // target.lanes)) + 1):
        mr, nbytes = most[nv], target.stored_bytes * spec.ic
        for part in (1, 8):
            chunk = max(1, part * target.l2_bytes // (2 * nbytes) // mr)
            if rows >= (mr + 1) // 2:
                found.append(replace(spec, mr=mr, least=(mr + 1) // 2, nv=nv, chunk=chunk))
    return found


def _rows_together(inputs: int, nv: int, target: Target) -> int:
    """Rows that are computed for a block of channels before the next block.

    As many as stay in the second-level cache, or four times as many: then weights are loaded from
    memory less often, but the rows from the third level for every block.
    """
    nbytes = target.stored_bytes * inputs
    near, far = (max(1, part * target.l2_bytes // (2 * nbytes)) for part in (1, 8))
    # Per product of an element of x and a weight; far rows pay both prices.
    family = family_of(target)
    of_near = family.memory_price / near
    of_far = family.memory_price / far + family.third_level_price / (nv * target.lanes)
    return near if of_near <= of_far else far


# Operations per weight beside the product, on ``lanes`` lanes. Measured on 16, 512 to 512: a matrix
# product of 64 rows takes 17 % longer than a dense layer's, of 256 rows 8 %; it copies adjacent
# columns in 31 operations each, and strided ones element by element in 80 or more.
_MATMUL_FOR_A_ROW, _DENSE_FOR_A_ROW = 2.3, 2.0
_TO_COPY, _TO_COLLECT, _TO_PACK = 2, 6, 3
# Operations in the time of a further kernel call with its barrier.
_FOR_A_CALL = 100_000


def _prefers_matmul(step: Step, setting: Setting) -> bool:
    """Whether each thread should pack weights that are not parameters separately.

    All ways add in the same order: the choice may depend on the number of rows, and on the hint of
    a symbolic one.
    """
    x, weight = views_of(step, step.group.anchor.inputs[:2])
    if is_fixed(step.group.anchor.inputs[1], setting):
        return False
    if multiplies_pairs(setting.target):
        return True  # dense kernels multiply pairs only for parameters
    if is_symbolic(weight.shape):
        return True  # only matrix products take the lengths of sums from the call
    (outputs, size), lanes = weight.shape, setting.target.lanes
    if _is_in_place(x.shape[0], size, (weight.strides[1], weight.strides[0]), setting.target):
        return True
    rows = hint_of(x.shape[0])
    _, _, parts = _blocking(rows, outputs, 1, setting.target)
    copy = _TO_COPY if weight.strides[0] == 1 or outputs == 1 else _TO_COLLECT
    matmul = rows * _MATMUL_FOR_A_ROW + parts * lanes * copy
    dense = rows * _DENSE_FOR_A_ROW + lanes * _TO_PACK
    return bool(matmul * outputs * size <= dense * outputs * size + _FOR_A_CALL)


# Vectors of columns that are multiplied together in place: their sums hide latency.
_IN_PLACE_VECTORS = 2


def _is_in_place(rows: int, size: int, steps: Ints, target: Target) -> bool:
    """Whether a single row is multiplied by columns that fill vectors, without packing them.

    ``steps`` are strides of the matrix per (k, column).
    """
    is_single = not isinstance(rows, Size) and not is_symbolic((size, *steps)) and rows == 1
    fills = steps[0] == 1 != steps[1] and size >= target.lanes
    return is_single and fills and target.element == SINGLE


def _blocking(rows: int, columns: int, batch: int, target: Target) -> tuple[int, int, int]:
    """A matrix product's register tile, and the number of parts of its rows."""
    mr, nv = register_tile(rows, -(-columns // target.lanes), target)
    units = batch * -(-columns // (nv * target.lanes))
    return mr, nv, min(-(-rows // mr), -(-8 // units)) if units < 4 else 1


# Number of threads among which a product of activations can be divided with few of them idle.
_THREADS = 16


def _even_parts(tiles: int, units: int) -> int:
    """Number of parts into which the tiles of each of ``units`` units are divided: the fewest that
    leave at most a tenth of the threads idle, else the number that leaves the fewest idle.
    """

    def used(parts: int) -> float:
        rounds = -(-units * parts // _THREADS) * -(-tiles // parts)
        return units * tiles / (_THREADS * rounds)

    choices = range(1, min(tiles, 4 * _THREADS) + 1)
    enough = min(0.9, max(map(used, choices)))
    return next(parts for parts in choices if used(parts) >= enough)


def _two(strides: Ints) -> Ints:
    """Strides per row and per channel."""
    return (strides[0], strides[1])


# Maximum parameters of a network whose dense layers may keep them in several forms.
_MOST_PARAMETERS = 1 << 28


def _rows_by_strassen(step: Step, setting: Setting) -> SampleRows:
    """The rows of one sample that Strassen's algorithm computes; a single row if it is not used.

    It adds a row of the first half in another order than one of the second: rows of different
    samples are not combined, so that a sample's bits do not depend on its position.
    """
    anchor = step.group.anchor
    if setting.is_training or not setting.winograd:
        return SampleRows()
    x = views_of(step, anchor.inputs[:1])[0]
    target, winograd = in_pairs(setting, x.strides[1], step).target, setting.winograd
    if not is_fixed(anchor.inputs[1], setting):
        return SampleRows()
    if sum(value.type.size for value in setting.params) > _MOST_PARAMETERS:
        return SampleRows()
    rows = setting.sample_rows(anchor)
    if not isinstance(rows.count, Size) and rows.count == 1:
        return SampleRows()  # a single row has no pairs
    channels = (x.shape[1], anchor.shape[1])
    if not is_symbolic(channels) and not has_halves(*channels, target):
        return SampleRows()
    known: dict[tuple[int, ...], Positions] = {}

    def pays(numbers: Sequence[int]) -> bool:
        whole, count, stride, ic, oc = numbers
        if (stride, ic, oc) not in known:
            known[stride, ic, oc] = Positions(ic, oc, stride == 1, target, winograd)
        return known[stride, ic, oc].pays(whole, count)

    sizes = (x.shape[0], rows.count, x.strides[1], *channels)
    chosen = None
    if not is_symbolic(sizes[2:]):
        positions = Positions(*channels, x.strides[1] == 1, target, winograd)
        chosen = positions.pays_by_machine_code(x.shape[0], rows.count)
    return rows if decided("strassen", pays, sizes, chosen) else SampleRows()


def _choose_as_convolution(step: Step, setting: Setting, rows: SampleRows) -> tuple[Call, ...]:
    """The calls of a dense layer that is computed as a convolution, see :func:`layer_of_rows`."""
    anchor = step.group.anchor
    _, operands = build_program(step, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    extra = tuple(Address(v) for v in (*views_of(step, operands), *step.writes))
    images = x.shape[0] // rows.count
    layer = _as_convolution(step, rows)
    return calls_of(step, layer, Address(x), extra, images, setting, is_plain=rows.count > 1)


def _as_convolution(step: Step, rows: SampleRows) -> Layer:
    of_image = rows.count if rows.apart == 1 else 1
    return layer_of_rows(step, rows, of_image if rows.count > 1 else 0)


def layer_of_rows(step: Step, rows: SampleRows, of_image: int = 0) -> Layer:
    """The 1x1 convolution that is a dense layer: an image for each sample, a column for each of its
    rows of data. ``of_image`` is the number of rows from an image to the next one.
    """
    anchor = step.group.anchor
    program, operands = build_program(step, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    one = (1, 1, 1)

    def columns(strides: Ints) -> Ints:
        return (of_image * strides[0], 0, 0, rows.apart * strides[0], strides[1])

    return Layer(
        inp=(1, 1, rows.count),
        out=(1, 1, rows.count),
        kernel=one,
        stride=one,
        dilate=one,
        pad=(0, 0, 0),
        groups=1,
        ic=x.shape[1],
        oc=anchor.shape[1],
        xs=columns(x.strides),
        reads=tuple(columns(broadcast_strides(v, anchor.shape)) for v in views_of(step, operands)),
        writes=tuple(columns(v.strides) for v in step.writes),
        program=program,
    )


def _choose_matmul(step: Step, target: Target) -> tuple[Call, ...]:
    """A product of two activations; a dense layer with live weights has a batch of 1."""
    anchor = step.group.anchor
    program, operands = build_program(step, anchored=True)
    left, right, *bias = views_of(step, anchor.inputs)
    others = views_of(step, operands)
    if multiplies_pairs(target) and left.strides[-1] == 1:
        target = target.of(PAIRS)
    batched = anchor.op is BATCH_DOT
    (m, n), k = anchor.shape[-2:], left.shape[-1]
    batch = anchor.shape[0] if batched else 1
    mr, nv, least, parts = matmul_tiles((m, n), batch, batched, target)

    def by_batch(strides: Ints) -> Ints:
        return strides if batched else (0, *strides)

    b = by_batch(right.strides)
    b = b if batched else (b[0], b[2], b[1])
    in_place = _is_in_place(m, k, b[1:], target) and not is_symbolic((n, batch))
    if in_place:
        nv, parts = min(_IN_PLACE_VECTORS, -(-n // target.lanes)), 1
    plain = MatmulSpec(
        m=m,
        n=n,
        k=k,
        a=by_batch(left.strides),
        b=b,
        reads=tuple(by_batch(broadcast_strides(v, anchor.shape)) for v in others),
        writes=tuple(by_batch(v.strides) for v in step.writes),
        mr=mr,
        nv=nv,
        unroll=4,
        parts=parts,
        bias=bias[0].strides if bias else (),
        bias_type=_other_type(bias, target),
        in_place=in_place,
        program=program,
        element=target.element,
    )
    spec: KernelSpec
    if _takes_sizes(plain, step, target):
        spec, numbers = _sized(plain, least)
    else:
        half_last = ends_in_half(n, target) and not in_place
        spec, numbers = replace(plain, half_last=half_last), []
    scratch = Scratch(target.element_bytes * plain.scratch_floats(target.lanes))
    views = (left, right, *bias, *others, *step.writes)
    args: tuple[Argument, ...] = (*map(Address, views), scratch, batch, *numbers)
    return (Call(spec, args, batch * m * n * k),)


def _sized(spec: MatmulSpec, least: int) -> tuple[SizedMatmulSpec, list[int]]:
    """The spec of a product whose symbolic sizes are given, and the integers of its call."""
    numbers = GivenNumbers()
    m, n, k = numbers.symbolic((spec.m, spec.n, spec.k))
    a, b = numbers.symbolic(spec.a), numbers.symbolic(spec.b)
    reads, writes = (tuple(map(numbers.symbolic, side)) for side in (spec.reads, spec.writes))
    sized = SizedMatmulSpec(
        m=m, n=n, k=k, a=a, b=b, reads=reads, writes=writes, mr=spec.mr, nv=spec.nv, least=least,
        unroll=_FEW_STEPS, parts=spec.parts, is_long=spec.k > MOST_GIVEN,
        has_bias=bool(spec.bias), bias_type=spec.bias_type, element=spec.element,
        program=spec.program,
    )  # fmt: skip
    return sized, numbers.values


def matmul_tiles(
    shape: tuple[int, int], batch: int, batched: bool, target: Target
) -> tuple[int, int, int, int]:
    """The most rows of a tile, its vectors of columns, the fewest rows, and the parts of the rows.

    They do not affect sums: for symbolic sizes the hint decides. Then there are two classes of
    rows: at least half a tile, or fewer.
    """
    rows, columns = shape
    m, n, count = map(hint_of, (rows, columns, batch))
    mr, nv, parts = _blocking(m, n, count, target)
    least, most = 0, most_rows(target)
    if isinstance(rows, Size):
        vectors = 2 if isinstance(columns, Size) else -(-n // target.lanes)
        if rows >= _MANY_ROWS:
            nv = min(2, vectors)
            mr, least = most[nv], (most[nv] + 1) // 2
        else:
            mr, least = _MANY_ROWS - 1, 1
            nv = min(vectors, max(v for v in (1, 2) if most[v] >= mr))
    elif isinstance(columns, Size):
        if m >= _FEW_ROWS:
            mr, nv = most[2], 2
        tiles = -(-m // mr)
        mr, least = -(-m // tiles), m // tiles
    else:
        least = m // -(-m // mr)
    if batched:
        parts = _even_parts(-(-m // mr), count * -(-n // (nv * target.lanes)))
    return mr, nv, least or mr, parts


def _takes_sizes(spec: MatmulSpec, step: Step, target: Target) -> bool:
    """Whether sizes or strides are symbolic, and the kernel can take them from the call.

    Columns of a partial block are accessed with masks, so those of operands, results and bias have
    to be contiguous, in the lanes' type.
    """
    outer = (*spec.reads, *spec.writes, *([spec.bias] if spec.bias else []))
    if not any(map(is_symbolic, ((spec.m, spec.n, spec.k), spec.a, spec.b, *outer))):
        return False
    if target.element == PAIRS:
        return False
    stored = {dtype_name(view.dtype) for view in (*step.reads, *step.writes)}
    follow = all(strides[-1] in (0, 1) for strides in outer)
    return follow and stored == {target.element.stored}


def _other_type(bias: Sequence[View], target: Target) -> str:
    """The stored type of a bias; "" for the type of sums, and without a bias."""
    names = [dtype_name(view.dtype) for view in bias]
    return "" if names in ([], [target.element.accumulated]) else names[0]
