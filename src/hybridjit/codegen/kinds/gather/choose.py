"""Choose for selection by index: the runs of elements, and their sources for an index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...._core.types import product
from ....ir.graph import Use, Value
from ....ir.plan import Step, View
from ....ops.casting import convert
from ....ops.nn.embedding_table import EMBEDDING
from ....ops.record import OpDef
from ....ops.sequence.padded import SEQUENCE_LAST, SEQUENCE_MASK, SEQUENCE_REVERSE
from ....ops.tensor.by_index import ADD_AT, BATCH_TAKE, GATHER_ND, PICK, TAKE
from ....ops.tensor.selection import INDEX_COPY
from ...call import Address, Argument, Call, Flag, Setting
from ...llvm.elements import MOVED_AS
from .spec import GatherSpec, OneHotSpec, Outside, ScatterSpec, Selection
from .table import LEVELS, ByteTableSpec


def choose_gather(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call, for an operator that copies runs from indexed positions."""
    anchor = step.group.anchor
    table = dict(zip(step.group.inputs, step.reads))
    index, data = (table[use] for use in _operands(anchor))
    target = step.writes[0]
    if _is_table(anchor, index, data):
        count = product(anchor.shape)
        return (Call(ByteTableSpec(), (*map(Address, (data, index, target)), count), count),)
    moved = MOVED_AS[target.dtype.itemsize]
    spec = _SPECS.get(anchor.op, _of_steps)(anchor, index.dtype.name, moved)
    runs = product(anchor.shape) // spec.run
    samples = index.shape[0] if index.shape else 1
    flag = Flag() if spec.how is Selection.ND or spec.mode is Outside.RAISE else 0
    args: tuple[Argument, ...] = (Address(data), Address(index), Address(target), flag)
    return (Call(spec, (*args, runs, samples), product(anchor.shape)),)


def _is_table(value: Value, index: View, data: View) -> bool:
    """Whether uint8 indices select bytes from a table of 256 bytes."""
    is_complete = data.shape == (LEVELS,) and data.dtype.itemsize == 1
    return value.op is TAKE and is_complete and index.dtype.name == "uint8"


def _operands(value: Value) -> tuple[Use, Use]:
    """Index and data: Embedding has them in this order, the others in the opposite one."""
    first, second = value.inputs
    return (first, second) if value.op is EMBEDDING else (second, first)


def _taken(value: Value, index: str, moved: str) -> GatherSpec:
    a, indices = (use.type.dims for use in value.inputs)
    axis = value.attrs["axis"] % len(a)
    count = product(indices) if product(a[:axis]) > 1 else 0
    run, mode = product(a[axis + 1 :]), Outside(value.attrs["mode"])
    return GatherSpec(Selection.TAKE, run, index, moved, mode, a[axis], count)


def _embedded(value: Value, index: str, moved: str) -> GatherSpec:
    size, run = value.inputs[1].type.dims
    return GatherSpec(Selection.TAKE, run, index, moved, size=size)


def _picked(value: Value, index: str, moved: str) -> GatherSpec:
    shape = value.inputs[0].type.dims
    axis = value.attrs.get("axis", 1) % len(shape)
    mode = Outside(value.attrs["mode"]) if value.op is PICK else Outside.CLIP
    inner = product(shape[axis + 1 :])
    return GatherSpec(Selection.PICK, 1, index, moved, mode, shape[axis], inner=inner)


def _at_vectors(value: Value, index: str, moved: str) -> GatherSpec:
    shape, indices = (use.type.dims for use in value.inputs)
    axes = indices[0]
    return GatherSpec(Selection.ND, product(shape[axes:]), index, moved, sizes=shape[:axes])


_STEPS: dict[OpDef | None, Selection] = {
    SEQUENCE_LAST: Selection.LAST,
    SEQUENCE_REVERSE: Selection.REVERSE,
    SEQUENCE_MASK: Selection.MASK,
}


def _of_steps(value: Value, index: str, moved: str) -> GatherSpec:
    """SequenceLast, SequenceMask, SequenceReverse: a run is a step of a sample."""
    shape = value.inputs[0].type.dims
    axis = value.attrs["axis"]
    how = _STEPS[value.op]
    bits = 0
    if how is Selection.MASK:
        bits = fill_bits(value.attrs["value"], value.type.dtype)
        moved = f"int{8 * value.type.dtype.itemsize}"  # type: ignore[union-attr]
    return GatherSpec(
        how, product(shape[2:]), index, moved, size=shape[axis], batch_first=axis == 1, fill=bits
    )


def fill_bits(value: float, dtype: np.dtype | None) -> int:
    """A number as the bits of an element."""
    assert dtype is not None
    element = convert(np.float64(value), dtype)
    return int(element.reshape(1).view(f"int{8 * dtype.itemsize}")[0])


_SPECS: dict[OpDef | None, Callable[[Value, str, str], GatherSpec]] = {
    TAKE: _taken,
    EMBEDDING: _embedded,
    PICK: _picked,
    BATCH_TAKE: _picked,
    GATHER_ND: _at_vectors,
}


def choose_scatter(step: Step, setting: Setting) -> tuple[Call, ...]:
    """scatter_nd, _add_at, and index_copy, which has one axis of indices and a base."""
    anchor = step.group.anchor
    views = dict(zip(step.group.inputs, step.reads))
    operands = [views[use] for use in anchor.inputs]
    has_base = anchor.op is INDEX_COPY
    base, index, data = operands if has_base else (None, operands[1], operands[0])
    axes = 1 if has_base else index.shape[0]
    shape, target, adds = anchor.shape, step.writes[0], anchor.op is ADD_AT
    spec = ScatterSpec(
        run=product(shape[axes:]),
        index=index.dtype.name,
        moved=target.dtype.name if adds else MOVED_AS[target.dtype.itemsize],
        sizes=shape[:axes],
        has_base=has_base,
        adds=adds,
    )
    read = [Address(v) for v in (data, index, base) if v is not None]
    count = product(index.shape) // axes
    args: tuple[Argument, ...] = (*read, Address(target), Flag(), count)
    return (Call(spec, args, product(shape)),)


def choose_one_hot(step: Step, setting: Setting) -> tuple[Call, ...]:
    anchor = step.group.anchor
    index, target = step.reads[0], step.writes[0]
    attrs, dtype = anchor.attrs, target.dtype
    on, off = (convert(np.float64(attrs[k]), dtype).item() for k in ("on_value", "off_value"))
    spec = OneHotSpec(attrs["depth"], index.dtype.name, dtype.name, on, off)
    args = (Address(index), Address(target), product(index.shape))
    return (Call(spec, args, product(anchor.shape)),)
