"""Choose for dense layers with several rows of data: one kernel for every number of them."""

from __future__ import annotations

from ..ir.plan import Step
from ..types import product
from .call import Address, Argument, Call, Setting, broadcast_strides, build_program, views_of
from .choose_conv import choose_gemm, most_rows
from .choose_weights import has_fixed_weights, pack_weights
from .packing import ChannelPacking, ConvPacking
from .spec import DenseSpec, Ints

# Rows of a tile: there is code for every smaller number too.
_MOST_ROWS = 8
# Tiles that are done for one block of channels before the next: for few rows most of them are not
# there, which costs a look each.
_MOST_TILES = 16


def choose_dense(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A dense layer. One row is a case of its own: it waits for memory alone, so that more vectors
    of channels at once are worth more than rows."""
    anchor = step.group.anchor
    x = views_of(step, anchor.inputs[:1])[0]
    if anchor.is_op("batch_dot") or not has_fixed_weights(step, setting) or x.shape[0] == 1:
        return choose_gemm(step, setting)
    target, (inputs, outputs) = setting.target, (x.shape[1], anchor.shape[1])
    program, operands = build_program(step.group, anchored=True)
    others = views_of(step, operands)
    # Four vectors of weights and a number of data need registers beside the sums.
    nv = min(4 if target.vector_registers >= 32 else 2, -(-outputs // target.lanes))
    while nv > 2 and target.vector_bytes * inputs * nv > target.l2_bytes // 2:
        nv -= 1  # a block of weights that serves several tiles stays in the cache
    mr = min(_MOST_ROWS, most_rows(target)[nv])
    spec = DenseSpec(
        ic=inputs,
        oc=outputs,
        xs=_two(x.strides),
        reads=tuple(_two(broadcast_strides(v, anchor.shape)) for v in others),
        writes=tuple(_two(v.strides) for v in step.writes),
        mr=mr,
        nv=nv,
        unroll=4,
        chunk=max(
            1, min(_MOST_TILES, target.l2_bytes // 2 // (target.element_bytes * mr * inputs))
        ),
        program=program,
        element=target.element,
    )
    packing, bias = ConvPacking(1, target.lanes, nv, False), ChannelPacking(1, target.lanes)
    before, weights = pack_weights(step, packing, bias, setting)
    extra: tuple[Argument, ...] = tuple(Address(v) for v in (*others, *step.writes))
    work = product(anchor.shape) * inputs
    return (*before, Call(spec, (Address(x), *weights, *extra, x.shape[0]), work))


def _two(strides: Ints) -> Ints:
    """Strides per row and per channel."""
    return (strides[0], strides[1])
