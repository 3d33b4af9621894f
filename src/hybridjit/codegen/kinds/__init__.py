"""Kernel kinds, one file or folder each: specs, choice of a spec, emission of its code.

All heuristics are in the functions called ``choose_...``; numbers are derived from the target, with
the derivation or the measurement beside them. The order of a sum never depends on the batch, the
thread count or an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..._core.frozen import fields_of, is_record, replace
from ..._core.lazy import Late
from ..._core.symbolic import Size, range_of
from ..._core.target import TYPES_OF, Target
from ...ir.plan import Step
from ...ir.plan_image import Packed
from ..call import Call, GivenNumbers, Setting, dtype_name, stored_type
from .record import CODES, KERNELS, ROUTINES, Emitter, KernelCode

if TYPE_CHECKING:
    from .conv import given_channels
else:
    given_channels = Late(".conv.given_channels", __package__)  # for convolutions and dense layers

Calls = tuple[tuple[Call, ...], ...]
# The kinds of specs whose kernels layers share.
_SHARED = {"conv", "strassen"}
# The module of each kind. A plan loads only its kinds: a convolutional network a third of them.
PLACES = {
    "attention": "attention.kind",
    "byte_matmul": "byte_matmul",
    "byte_norm": "norm",
    "byte_pool": "pool",
    "byte_product": "byte_product",
    "byte_softmax": "softmax",
    "conv": "conv.kind",
    "conv_weight": "conv_weight.kind",
    "copy": "pointwise",
    "deconv": "conv.kind",
    "detect": "detect",
    "gather": "gather.kind",
    "gemm": "dense.kind",
    "lrn": "lrn",
    "nibble_dense": "nibble_dense",
    "norm": "norm",
    "one_hot": "gather.kind",
    "order": "order",
    "pad": "pad",
    "pointwise": "pointwise",
    "pool": "pool",
    "propose": "propose",
    "recurrent": "recurrent",
    "recurrent_back": "recurrent_back",
    "reduce": "reduction.kind",
    "region": "image.region",
    "resize": "image.resize",
    "sample": "image.sample",
    "scatter": "gather.kind",
    "softmax": "softmax",
    "suppress": "suppress",
    "unpool": "unpool",
}


def code_of(kind: str) -> KernelCode | None:
    """The code generation of a kind; None for a kind without machine code."""
    if kind not in CODES and kind in PLACES:
        import_module(f".{PLACES[kind]}", __name__)
    return CODES.get(kind)


def all_codes() -> Mapping[str, KernelCode]:
    """Every kind that has machine code, by name."""
    for kind in PLACES:
        code_of(kind)
    return CODES


def emitter_of(spec_kind: str) -> Emitter:
    """The emitter of a kind of spec, usually of a kernel kind that is loaded already."""
    found = KERNELS.get(spec_kind) or ROUTINES.get(spec_kind)
    return found or all_emitters()[spec_kind]


def all_emitters() -> Mapping[str, Emitter]:
    """The emitter of every kind of spec, by its ``kind``."""
    all_codes()
    return KERNELS


def choose(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The kernel calls of a step; none for a host step."""
    code = code_of(step.kind)
    if code is None:
        return ()
    if code.in_one_type:
        dtype = dtype_name(stored_type(step))
        setting = replace(setting, target=setting.target.of(TYPES_OF[dtype]))
    calls = code.choose(step, setting)
    return calls if setting.choices is None else tuple(map(_settled, calls))


def share_kernels(calls: Calls, target: Target) -> Calls:
    """The calls of a plan of fixed sizes, with kernels that layers share: see
    ``conv/given_channels.py``.
    """
    kinds = {call.spec.kind for row in calls for call in row}
    return given_channels.share_kernels(calls, target) if kinds & _SHARED else calls


def _settled(call: Call) -> Call:
    """The call without symbolic sizes in its spec and packings.

    Those in the ``extents`` of its spec become arguments of the call; guards pin all others.
    """
    numbers, spec = GivenNumbers(), call.spec
    open_ = {name: _given(getattr(spec, name), numbers) for name in spec.extents}
    spec = _plain(replace(spec, **open_) if numbers.values else spec)
    args = tuple(_plain(a) if isinstance(a, Packed) else a for a in call.args)
    return replace(call, spec=spec, args=(*args, *numbers.values))


def _given(item: Any, numbers: GivenNumbers) -> Any:
    """Sizes, in nested tuples, with symbolic ones replaced by integers that the call gives."""
    if isinstance(item, tuple):
        return tuple(_given(each, numbers) for each in item)
    if not isinstance(item, Size):
        return item
    low, high = range_of(item)
    return low if low == high else numbers.any(item)  # type: ignore[arg-type]


def _plain(item: Any) -> Any:
    """A spec, or a part of one, with numbers in place of symbolic sizes, pinned by guards."""
    if isinstance(item, Size):
        return item.as_number()
    if isinstance(item, tuple):
        return tuple(map(_plain, item))
    if not is_record(item):
        return item
    changed = {
        name: plain
        for name in fields_of(item)
        if (plain := _plain(was := getattr(item, name))) is not was
    }
    return replace(item, **changed) if changed else item
