"""Common parts of update rules: rescaled and clipped gradients, types, registration.

A rule is a *step*: ``step(weight, grad, *states, **attrs)`` returns the new weight and the new
states, for float32 or float64 arrays, without writing operands. A step that uses only arithmetic
and the NumPy functions of ``codegen/updates.py`` is the rule of a kernel, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..._core.types import PartialShape, TensorType, merge
from ..attrs import AttrValue
from ..record import InferRule, OnStored, OpDef, Traits
from ..registry import register
from ..rules import Types, merged, refuse_bool, require_float, same_dtype
from ..signatures import Arrays, Reference

Step = Callable[..., tuple[np.ndarray, ...]]

SINGLE = np.dtype(np.float32)
RATES = "lr:float! wd:float=0"
SCALES = "rescale_grad:float=1 clip_gradient:float=-1"


def clipped(x: np.ndarray, bound: float) -> np.ndarray:
    """``x`` limited to [-bound, bound]; unchanged for a negative bound."""
    return np.clip(x, -bound, bound) if bound >= 0 else x


def sign(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; 0 for NaN, as in MXNet's kernels."""
    one = x.dtype.type(1)
    return (x > 0) * one - (x < 0) * one


def agreed(t: TensorType, shape: PartialShape | None, dtype: np.dtype | None) -> TensorType:
    """``t`` merged with a shape and dtype. Raises ShapeError or DTypeError if they differ."""
    return merge(t, TensorType(shape, dtype))


def power(base: float, exponent: int, dtype: np.dtype = SINGLE) -> np.floating:
    """``base ** exponent`` computed in double precision, rounded to ``dtype``.

    Infinite if out of the range of ``dtype``, as in C.
    """
    with np.errstate(over="ignore", divide="ignore"):
        return dtype.type(np.float64(base) ** exponent)


def in_single(step: Step) -> Step:
    """Step on float16 operands, computed in float32; each result has its operand's dtype."""

    @wraps(step)
    def rounded(
        weight: np.ndarray, grad: np.ndarray, *states: np.ndarray, **attrs: AttrValue
    ) -> tuple[np.ndarray, ...]:
        wide = (x.astype(SINGLE) if x.dtype.itemsize < 4 else x for x in (weight, grad, *states))
        with np.errstate(all="ignore"):
            found = step(*wide, **attrs)
        types = (weight.dtype, *(state.dtype for state in states))
        return tuple(np.asarray(y, dtype) for y, dtype in zip(found, types))

    return rounded


def mixed(step: Step) -> Step:
    """Step on a float32 copy of the weight, the last operand; the weight is rounded from it."""

    def on_copy(
        weight: np.ndarray, grad: np.ndarray, *rest: np.ndarray, **attrs: AttrValue
    ) -> tuple[np.ndarray, ...]:
        new, *states = step(rest[-1], grad.astype(rest[-1].dtype), *rest[:-1], **attrs)
        return new, *states, new

    return on_copy


def alike(mixed: bool) -> Callable[..., tuple[Types, Types]]:
    """Type rule of one weight with its gradient and states: equal shapes and floating dtypes.

    ``mixed``: the states are float32 for any dtype of the weight.
    """

    def infer(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
        ins = alike_types(ins, outs, mixed)
        return ins, merged(outs, ins[:1])

    return infer


def alike_types(ins: Types, outs: Types, mixed: bool) -> Types:
    """Operand types of one weight, completed from each other and from its result."""
    own = ins[:2] if mixed else ins
    refuse_bool(*ins)
    dtype = same_dtype(*own, *outs)
    require_float("an update", TensorType(None, dtype))
    whole = TensorType(None, None)
    for t in (*ins, *outs):
        whole = agreed(whole, t.shape, None)
    types = [dtype] * len(own) + [SINGLE] * (len(ins) - len(own))
    return tuple(agreed(t, whole.shape, kind) for t, kind in zip(ins, types))


def register_update(
    name: str,
    inputs: str | Callable[..., tuple[str, ...]],
    attrs: str,
    step: Step,
    doc: str,
    *,
    mixed: bool = False,
    infer: InferRule | None = None,
    outputs: tuple[str, ...] | Callable[..., tuple[str, ...]] = ("output",),
    aliases: str = "",
    rule: Step | None = None,
    on_stored: OnStored = OnStored.NOT,
    internal: bool = False,
) -> OpDef:
    """Register an update rule; ``*name`` among ``inputs`` are the states.

    ``rule`` is the step of one weight, if kernels can be derived from it.
    """
    step = _with_single_attributes(step)
    return register(
        name,
        inputs,
        attrs,
        infer=infer or alike(mixed),
        ref=_visible(step, outputs),
        outputs=outputs,
        aliases=aliases,
        internal=internal,
        traits=Traits(step=step, rule=rule, on_stored=on_stored),
        doc=doc,
    )


def _with_single_attributes(step: Step) -> Step:
    """Round attributes to float32 as MXNet's kernels: ``1 - beta2`` of 0.999 is 4.7e-5 larger."""

    def rounded(*arrays: np.ndarray, **attrs: AttrValue) -> tuple[np.ndarray, ...]:
        return step(*arrays, **{name: _single(value) for name, value in attrs.items()})

    return rounded


def _single(value: object) -> Any:
    if isinstance(value, float):
        return SINGLE.type(value)
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return tuple(map(SINGLE.type, value))
    return value


def _visible(step: Step, outputs: tuple[str, ...] | Callable[..., tuple[str, ...]]) -> Reference:
    """Reference: results of a step without the states."""

    def ref(*arrays: np.ndarray, **attrs: AttrValue) -> Arrays:
        count = len(outputs(**attrs) if callable(outputs) else outputs)
        return tuple(step(*arrays, **attrs)[:count])

    return ref
