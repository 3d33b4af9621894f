"""Choose for recurrent layers: one call of one kernel for each step."""

from __future__ import annotations

from dataclasses import replace

from ..ir.plan import Step, View
from .call import Address, Argument, Call, Packed, Setting, views_of
from .packing import RecurrentPacking
from .spec_nn import RecurrentSpec


def choose_recurrent(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The steps in the order of the layer's direction; each reads what the one before wrote."""
    anchor, target = step.group.anchor, setting.target
    projected, state, *cell = views_of(step, (anchor.inputs[0], *anchor.inputs[3:]))
    outputs, cells = step.writes[0], list(step.writes[1:])
    weight, bias = (setting.params[use.value] for use in anchor.inputs[1:3])
    length, batch, hidden = outputs.shape
    spec = RecurrentSpec(anchor.attrs["mode"], hidden, (), (), (), element=target.element)
    packing = RecurrentPacking(spec.gates, target.lanes)
    most = {4: 6, 3: 8, 1: 12} if target.vector_registers >= 32 else {4: 2, 3: 3, 1: 8}
    order = range(length)[:: -1 if anchor.attrs["backward"] else 1]
    calls = []
    for t in order:
        x, y = _at(projected, t), _at(outputs, t)
        args: list[Argument] = [Address(x), Packed(weight, packing), Packed(bias, packing)]
        args += [Address(v) for v in (state, *cell, y, *cells)]
        c, c_out = (v[0].strides if v else () for v in (cell, cells))
        step_spec = replace(
            spec, x=x.strides, h=state.strides, y=y.strides, c=c, c_out=c_out, mr=most[spec.gates]
        )
        work = batch * hidden * hidden * spec.gates
        calls.append(Call(step_spec, (*args, batch), work))
        state, cell = y, cells
    return tuple(calls)


def _at(view: View, t: int) -> View:
    """Step ``t`` of a view (T, N, elements)."""
    offset = view.offset + t * view.strides[0]
    return replace(view, offset=offset, shape=view.shape[1:], strides=view.strides[1:])
