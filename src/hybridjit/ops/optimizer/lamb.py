"""Update rules that scale an array's step by the norms of its weight and of the step."""

from __future__ import annotations

import numpy as np

from ..._core.types import TensorType
from ..attrs import AttrValue, Declared
from ..rules import Types, merged
from .adaptive_steps import moments
from .update_step import (
    SCALES,
    SINGLE,
    agreed,
    alike_types,
    clipped,
    in_single,
    power,
    register_update,
)


def direction(
    weight: np.ndarray,
    grad: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    t: int,
    bias_correction: bool,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> tuple[np.ndarray, ...]:
    """u = m / (sqrt(v) + eps) + wd w, of corrected moments: You et al., ICLR 2020."""
    g = clipped(grad * rescale_grad, clip_gradient)
    mean, var = moments(g, mean, var, beta1, beta2)
    m, v = mean, var
    if bias_correction:
        m, v = mean / (1 - power(beta1, t)), var / (1 - power(beta2, t))
    return m / (np.sqrt(v) + epsilon) + wd * weight, mean, var


def stepped(
    weight: np.ndarray,
    g: np.ndarray,
    r1: np.ndarray,
    r2: np.ndarray,
    *,
    lr: float,
    lower_bound: float,
    upper_bound: float,
) -> np.ndarray:
    """w - lr r1/r2 g, with the norm r1 of the weight between the bounds; 1 for a norm of 0."""
    norm, other = r1.reshape(-1)[0], r2.reshape(-1)[0]
    if lower_bound >= 0:
        norm = max(norm, norm.dtype.type(lower_bound))
    if upper_bound >= 0:
        norm = min(norm, norm.dtype.type(upper_bound))
    rate = lr * norm / other if norm != 0 and other != 0 else lr
    return weight - rate * g


def _mixed_direction(
    weight: np.ndarray, grad: np.ndarray, *rest: np.ndarray, rescale_grad: float, **attrs: Declared
) -> tuple[np.ndarray, ...]:
    """Direction for mixed precision; the rescaled gradient has the gradient's dtype, as in
    MXNet."""
    mean, var, weight32 = rest
    scaled = (grad.astype(SINGLE) * rescale_grad).astype(grad.dtype).astype(SINGLE)
    u, mean, var = direction(weight32, scaled, mean, var, rescale_grad=1, **attrs)
    return u, mean, var, weight32


def _stepped(*arrays: np.ndarray, **attrs: Declared) -> tuple[np.ndarray, ...]:
    weight = arrays[0]
    wide = (x.astype(SINGLE) if x.dtype.itemsize < 4 else x for x in arrays)
    return (stepped(*wide, **attrs).astype(weight.dtype, copy=False),)


def _mixed_stepped(
    weight: np.ndarray, *rest: np.ndarray, **attrs: Declared
) -> tuple[np.ndarray, ...]:
    *given, weight32 = rest
    new = stepped(weight32, *given, **attrs)
    return new.astype(weight.dtype), new


def _infer_mixed_direction(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    """Type rule: the direction is float32, like the states."""
    shapes = tuple(TensorType(t.shape, None) for t in outs)
    ins = alike_types(ins, shapes, mixed=True)
    return ins, merged(outs, (TensorType(ins[0].shape, SINGLE),))


def _infer_stepped(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    weight, g, *norms = ins
    own = alike_types((weight, g), outs, mixed=False)
    found = tuple(agreed(t, (1,), own[0].dtype) for t in norms)
    return (*own, *found), merged(outs, own[:1])


def _infer_mixed_stepped(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    weight, g, r1, r2, weight32 = ins
    own = alike_types((weight, weight, g, weight32), outs, mixed=True)
    norms = tuple(agreed(t, (1,), SINGLE) for t in (r1, r2))
    return (own[0], own[2], *norms, own[3]), merged(outs, own[:1])


def lars(
    lrs: np.ndarray,
    weights_sum_sq: np.ndarray,
    grads_sum_sq: np.ndarray,
    wds: np.ndarray,
    *,
    eta: float,
    eps: float,
    rescale_grad: float,
) -> tuple[np.ndarray, ...]:
    """lr eta |w| / (|g| + wd |w| + eps), lr where a norm is 0: You et al. 2017."""
    weight, grad = np.sqrt(weights_sum_sq), np.sqrt(grads_sum_sq)
    scaled = lrs * eta * weight / (grad * rescale_grad + wds * weight + eps)
    return (np.where((weight > 0) & (grad > 0), scaled, lrs),)


_DIRECTION = (
    "beta1:float=0.9 beta2:float=0.999 epsilon:float=1e-06 t:int! bias_correction:bool=true "
    f"wd:float! {SCALES}"
)
_STEP = "lr:float! lower_bound:float=-1 upper_bound:float=-1"

register_update(
    "lamb_update_phase1",
    "weight grad *mean *var",
    _DIRECTION,
    in_single(direction),
    "Direction of a step of LAMB.",
)
register_update(
    "lamb_update_phase2",
    "weight g r1 r2",
    _STEP,
    _stepped,
    "Step of LAMB in a direction, by the norms of weight and direction.",
    infer=_infer_stepped,
)
register_update(
    "mp_lamb_update_phase1",
    "weight grad *mean *var *weight32",
    _DIRECTION,
    _mixed_direction,
    "lamb_update_phase1 by a float32 copy of the weight.",
    infer=_infer_mixed_direction,
)
register_update(
    "mp_lamb_update_phase2",
    "weight g r1 r2 *weight32",
    _STEP,
    _mixed_stepped,
    "lamb_update_phase2 on a float32 copy of the weight.",
    infer=_infer_mixed_stepped,
)
register_update(
    "multi_lars",
    "lrs weights_sum_sq grads_sum_sq wds",
    "eta:float! eps:float! rescale_grad:float=1",
    lars,
    "Learning rates of LARS from sums of squares.",
)
