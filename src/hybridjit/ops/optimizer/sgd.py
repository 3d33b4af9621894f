"""Gradient descent: plain, with momentum, Nesterov's, and by the gradient's sign."""

from __future__ import annotations

import numpy as np

from ..record import OnStored
from .update_step import RATES, SCALES, clipped, in_single, mixed, register_update, sign


def sgd(
    weight: np.ndarray,
    grad: np.ndarray,
    *,
    lr: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    lazy_update: bool = True,
) -> tuple[np.ndarray, ...]:
    """w = (1 - lr wd) w - lr g; the gradient is dense, so lazy_update has no effect."""
    g = clipped(grad * rescale_grad, clip_gradient)
    return ((1 - lr * wd) * weight - lr * g,)


def sgd_mom(
    weight: np.ndarray,
    grad: np.ndarray,
    mom: np.ndarray,
    *,
    lr: float,
    momentum: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    lazy_update: bool = True,
) -> tuple[np.ndarray, ...]:
    """m = momentum m - lr wd w - lr g; w = w + m."""
    g = clipped(grad * rescale_grad, clip_gradient)
    mom = momentum * mom - (lr * wd) * weight - lr * g
    return weight + mom, mom


def sgd_in_many(
    weight: np.ndarray,
    grad: np.ndarray,
    *,
    lr: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> tuple[np.ndarray, ...]:
    """:func:`sgd` with the rounding of the operators for several weights."""
    g = clipped(grad * rescale_grad, clip_gradient)
    return (weight + (-(lr * wd) * weight - lr * g),)


def nag_mom(
    weight: np.ndarray,
    grad: np.ndarray,
    mom: np.ndarray,
    *,
    lr: float,
    momentum: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> tuple[np.ndarray, ...]:
    """w = w + momentum^2 m - (momentum + 1) lr (g + wd w); m = momentum m - lr (g + wd w).

    The second formula reads the new weight, as MXNet's kernel does, which writes it first.
    """
    g = clipped(grad * rescale_grad, clip_gradient)
    ahead = momentum * mom - lr * (g + wd * weight)
    new = weight - momentum * mom + (momentum + 1) * ahead
    return new, momentum * mom - lr * (g + wd * new)


def signsgd(
    weight: np.ndarray,
    grad: np.ndarray,
    *,
    lr: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> tuple[np.ndarray, ...]:
    """w = (1 - lr wd) w - lr sign(g)."""
    return ((1 - lr * wd) * weight - lr * sign(grad),)


def signum(
    weight: np.ndarray,
    grad: np.ndarray,
    mom: np.ndarray,
    *,
    lr: float,
    momentum: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    wd_lh: float,
) -> tuple[np.ndarray, ...]:
    """m = momentum m - (1 - momentum) (wd w + g); w = (1 - lr wd_lh) w + lr sign(m)."""
    g = clipped(grad * rescale_grad, clip_gradient)
    mom = momentum * mom - ((1 - momentum) * wd) * weight - (1 - momentum) * g
    return (1 - lr * wd_lh) * weight + lr * sign(mom), mom


_MOMENTUM = f"lr:float! momentum:float=0 wd:float=0 {SCALES}"
_LAZY = " lazy_update:bool=true"

register_update(
    "sgd_update",
    "weight grad",
    f"{RATES} {SCALES}{_LAZY}",
    in_single(sgd),
    "Step of gradient descent.",
    aliases="_sparse_sgd_update",
    on_stored=OnStored.UPDATE,
    rule=sgd,
)
register_update(
    "sgd_mom_update",
    "weight grad *mom",
    _MOMENTUM + _LAZY,
    in_single(sgd_mom),
    "Step of gradient descent with momentum.",
    aliases="_sparse_sgd_mom_update",
    on_stored=OnStored.UPDATE,
    rule=sgd_mom,
)
register_update(
    "nag_mom_update",
    "weight grad *mom",
    _MOMENTUM,
    in_single(nag_mom),
    "Step of Nesterov's accelerated gradient.",
    rule=nag_mom,
)
register_update(
    "mp_sgd_update",
    "weight grad *weight32",
    f"{RATES} {SCALES}{_LAZY}",
    in_single(mixed(sgd)),
    "sgd_update on a float32 copy of the weight.",
    mixed=True,
    rule=sgd,
)
register_update(
    "mp_sgd_mom_update",
    "weight grad *mom *weight32",
    _MOMENTUM + _LAZY,
    in_single(mixed(sgd_mom)),
    "sgd_mom_update on a float32 copy of the weight.",
    mixed=True,
    rule=sgd_mom,
)
register_update(
    "mp_nag_mom_update",
    "weight grad *mom *weight32",
    _MOMENTUM,
    in_single(mixed(nag_mom)),
    "nag_mom_update on a float32 copy of the weight.",
    mixed=True,
    rule=nag_mom,
)
register_update(
    "signsgd_update",
    "weight grad",
    f"{RATES} {SCALES}",
    in_single(signsgd),
    "Step of fixed size against the gradient's sign.",
    rule=signsgd,
)
register_update(
    "signum_update",
    "weight grad *mom",
    f"{_MOMENTUM} wd_lh:float=0",
    in_single(signum),
    "Step of fixed size along the momentum's sign.",
    rule=signum,
)
