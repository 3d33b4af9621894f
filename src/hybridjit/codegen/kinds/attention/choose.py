"""Choose for attention: one kernel for all sizes of a width of heads."""

from __future__ import annotations

from ...._core.symbolic import Size
from ...._core.target import Target
from ...._core.types import product
from ....ir.plan import Step
from ...call import (
    Address,
    Argument,
    Call,
    GivenNumbers,
    Scratch,
    Setting,
    broadcast_strides,
    dtype_name,
    views_of,
)
from ...spec import Ints, Sizes
from ..conv.tile import most_rows
from .spec import AttentionSpec

# Keys of a block, for all targets and sizes, because sums depend on it. The scores of a tile of 12
# rows then take 13 KB. Blocks of 64, 128 and 512 keys take 1.05, 1.03 and 0.99 of the time (1024
# steps, AMD EPYC).
_BLOCK = 256
# Tiles of rows that use a block of packed keys and values (128 KB at width 64) while it is in the
# second-level cache.
_TILES = 8


def choose_attention(step: Step, setting: Setting) -> tuple[Call, ...]:
    anchor, target = step.group.anchor, setting.target
    q, k, v, *more = views_of(step, anchor.inputs)
    attrs = anchor.attrs
    biases = more[attrs["has_factor"] :][: attrs["biases"]]
    lengths = more[-1:] if attrs["use_length"] else []
    masks = more[len(more) - len(lengths) - 1 :][:1] if attrs["fill"] is not None else []
    samples, heads, rows, width = q.shape
    keys, values = v.shape[2:]
    numbers = GivenNumbers()

    def given(strides: Ints) -> Sizes:
        return tuple(map(numbers.any, strides[:3]))

    scores = (samples, heads, rows, keys)
    steps = [broadcast_strides(b, scores) for b in biases]
    out = step.writes[0].strides
    spec = AttentionSpec(
        width=width,
        values=values,
        heads=numbers.any(heads),
        rows=numbers.any(rows),
        keys=numbers.any(keys),
        q=given(q.strides),
        k=given(k.strides),
        v=given(v.strides),
        y=given((out[0], out[2], out[1])),
        biases=tuple(map(given, steps)),
        mr=_rows_of_tile(rows, target),
        nv=2,
        block=_BLOCK,
        tiles=_TILES,
        unroll=4,
        far_biases=tuple(n for n, step in enumerate(steps) if step[2] != 0),
        scale=attrs["scale"],
        has_factor=attrs["has_factor"],
        mask=tuple(n for m in masks for n in given(broadcast_strides(m, scores))),
        fill=attrs["fill"] or 0.0,
        after=attrs["after"] if masks else "none",
        length=dtype_name(lengths[0].dtype) if lengths else "",
        lengths=tuple(n for each in lengths for n in given(each.strides)),
        element=target.element,
    )
    scratch = Scratch(target.element_bytes * spec.scratch_floats(keys, target.lanes))
    views = map(Address, (q, k, v, *more, step.writes[0]))
    args: tuple[Argument, ...] = (*views, scratch, samples * heads, *numbers.values)
    return (Call(spec, args, product(scores) * (width + values)),)


def _rows_of_tile(rows: int, target: Target) -> int:
    """Rows of a tile: as many as registers hold, or fewer if that leaves fewer rows unused.

    The last tile computes its missing rows as well. No sum depends on this number.
    """
    most = most_rows(target)[2]
    return most if isinstance(rows, Size) else -(-rows // -(-rows // most))
