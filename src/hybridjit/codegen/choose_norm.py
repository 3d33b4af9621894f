"""Choose for normalisations: which runs of the data, and what scales them."""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Value
from ..ir.plan import Step
from ..types import product
from .call import Address, Argument, Call, Scratch, Setting, views_of
from .spec_nn import LrnSpec, NormSpec


def choose_norm(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The one call of a normalisation; all of its operands are contiguous."""
    anchor = step.group.anchor
    views = views_of(step, anchor.inputs)
    rows, spec = _runs(anchor)
    args: tuple[Argument, ...] = (*map(Address, views), Address(step.writes[0]), rows)
    spec = replace(spec, element=setting.target.element)
    return (Call(spec, args, 8 * product(anchor.shape)),)


def _runs(value: Value) -> tuple[int, NormSpec]:
    """How many rows of runs there are, and the kernel for them."""
    shape, eps = value.shape, value.attrs["eps"]
    if value.is_op("LayerNorm"):
        axis = value.attrs["axis"] % len(shape)
        inner = product(shape[axis + 1 :])
        return product(shape[:axis]), NormSpec("moments", shape[axis], inner, eps, "along")
    if value.is_op("L2Normalization"):
        return _lengths(shape, value.attrs["mode"], eps)
    if value.is_op("_instance_norm_last"):
        places = product(shape[1:-1])
        return shape[0], NormSpec("moments", places, shape[-1], eps, "inner")
    groups = value.attrs["num_groups"] if value.is_op("GroupNorm") else shape[1]
    size = product(shape[1:]) // groups
    return shape[0] * groups, NormSpec("moments", size, 1, eps, "row", groups)


def _lengths(shape: tuple[int, ...], mode: str, eps: float) -> tuple[int, NormSpec]:
    places = product(shape[2:])
    if mode == "channel":
        return shape[0], NormSpec("length", shape[1], places, eps)
    if mode == "spatial":
        return shape[0] * shape[1], NormSpec("length", places, 1, eps)
    return shape[0], NormSpec("length", product(shape[1:]), 1, eps)


def choose_lrn(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The one call of an LRN, on channels first or, made by ``layout``, last."""
    anchor = step.group.anchor
    shape, attrs = anchor.shape, anchor.attrs
    is_last = anchor.is_op("_lrn_last")
    spec = LrnSpec(
        channels=shape[-1] if is_last else shape[1],
        inner=1 if is_last else product(shape[2:]),
        half=(attrs["nsize"] - 1) // 2,
        alpha=attrs["alpha"] / attrs["nsize"],
        beta=attrs["beta"],
        knorm=attrs["knorm"],
        element=setting.target.element,
    )
    rows = product(shape[:-1]) if is_last else shape[0]
    target = setting.target
    scratch = Scratch(target.element_bytes * spec.scratch_floats(target.lanes))
    args = (Address(step.reads[0]), Address(step.writes[0]), scratch, rows)
    return (Call(spec, args, (10 + 2 * spec.half) * product(shape)),)
