"""Update rules that scale each element's step by statistics of its gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.types import TensorType
from ...errors import ShapeError
from ..attrs import AttrValue, Declared
from ..record import OnStored
from ..rules import Types, merged
from .update_step import (
    SCALES,
    SINGLE,
    Step,
    agreed,
    alike_types,
    clipped,
    in_single,
    power,
    register_update,
    sign,
)

Moments = Callable[..., tuple[np.ndarray, np.ndarray]]


def adam(
    weight: np.ndarray,
    grad: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    lazy_update: bool = True,
) -> tuple[np.ndarray, ...]:
    """w -= lr m / (sqrt(v) + eps); the caller corrects the bias in ``lr``."""
    g = clipped(grad * rescale_grad + wd * weight, clip_gradient)
    mean, var = moments(g, mean, var, beta1, beta2)
    return weight - lr * mean / (np.sqrt(var) + epsilon), mean, var


def moments(
    g: np.ndarray, mean: np.ndarray, var: np.ndarray, beta1: float, beta2: float
) -> tuple[np.ndarray, np.ndarray]:
    """Moving averages of a gradient and of its square."""
    return beta1 * mean + (1 - beta1) * g, beta2 * var + (1 - beta2) * g * g


def moments_in_many(
    g: np.ndarray, mean: np.ndarray, var: np.ndarray, beta1: float, beta2: float
) -> tuple[np.ndarray, np.ndarray]:
    """:func:`moments` with the rounding of AdamW for several weights; NaN for infinite
    gradients."""
    square = g * g
    return beta1 * (mean - g) + g, beta2 * (var - square) + square


def adamw(moments: Moments) -> Step:
    """Step of AdamW with these moving averages.

    w -= eta (lr m / (sqrt(v) + eps) + wd w); no change if the scale is 0 or not finite.
    """

    def step(
        weight: np.ndarray,
        grad: np.ndarray,
        mean: np.ndarray,
        var: np.ndarray,
        rescale_grad: np.ndarray,
        *,
        lr: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        wd: float,
        eta: float,
        clip_gradient: float,
    ) -> tuple[np.ndarray, ...]:
        if _is_skipped(rescale_grad):
            return weight.copy(), mean, var
        g = clipped(grad * rescale_grad.reshape(-1)[0], clip_gradient)
        mean, var = moments(g, mean, var, beta1, beta2)
        return weight - eta * (lr * mean / (np.sqrt(var) + epsilon) + wd * weight), mean, var

    return step


def mixed_adamw(moments: Moments) -> Step:
    """Step of AdamW on a float32 copy of the weight, which is the last state."""
    on_copy = adamw(moments)

    def step(
        weight: np.ndarray, grad: np.ndarray, *rest: np.ndarray, **attrs: Declared
    ) -> tuple[np.ndarray, ...]:
        mean, var, weight32, scale = rest
        new, mean, var = on_copy(weight32, grad.astype(SINGLE), mean, var, scale, **attrs)
        return (weight if _is_skipped(scale) else new), mean, var, new

    return step


def _is_skipped(rescale_grad: np.ndarray) -> bool:
    """Whether the scale indicates an overflow that a loss scaler found."""
    scale = rescale_grad.reshape(-1)[0]
    return not np.isfinite(scale) or scale == 0


def ftml(
    weight: np.ndarray,
    grad: np.ndarray,
    d: np.ndarray,
    v: np.ndarray,
    z: np.ndarray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    t: int,
    wd: float,
    rescale_grad: float,
    clip_grad: float,
) -> tuple[np.ndarray, ...]:
    """Follow the moving leader: Zheng and Kwok, ICML 2017."""
    g = clipped(grad * rescale_grad + wd * weight, clip_grad)
    v = beta2 * v + (1 - beta2) * np.square(g)
    first, second = (1 - power(beta, t, weight.dtype) for beta in (beta1, beta2))
    new = first / lr * (np.sqrt(v / second) + epsilon)
    z = beta1 * z + (1 - beta1) * g - (new - beta1 * d) * weight
    return -z / new, new, v, z


def ftrl(
    weight: np.ndarray,
    grad: np.ndarray,
    z: np.ndarray,
    n: np.ndarray,
    *,
    lr: float,
    lamda1: float,
    beta: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> tuple[np.ndarray, ...]:
    """Follow the regularized leader: McMahan et al., KDD 2013.

    The comparison is a factor, as in MXNet: NaN remains NaN.
    """
    g = clipped(grad * rescale_grad, clip_gradient)
    square = np.square(g)
    z = z + (g - (np.sqrt(n + square) - np.sqrt(n)) * weight / lr)
    n = n + square
    new = (sign(z) * lamda1 - z) / ((beta + np.sqrt(n)) / lr + wd)
    return new * (np.abs(z) > lamda1), z, n


def rmsprop(
    weight: np.ndarray,
    grad: np.ndarray,
    n: np.ndarray,
    *,
    lr: float,
    gamma1: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    clip_weights: float,
) -> tuple[np.ndarray, ...]:
    """w -= lr g / sqrt(n + eps), n the moving average of g squared."""
    g = clipped(grad * rescale_grad + wd * weight, clip_gradient)
    n = (1 - gamma1) * np.square(g) + gamma1 * n
    return clipped(weight - lr * (g / np.sqrt(n + epsilon)), clip_weights), n


def rmsprop_centered(
    weight: np.ndarray,
    grad: np.ndarray,
    n: np.ndarray,
    g: np.ndarray,
    delta: np.ndarray,
    *,
    lr: float,
    gamma1: float,
    gamma2: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    clip_weights: float,
) -> tuple[np.ndarray, ...]:
    """RMSProp with the variance instead of the mean square, with momentum: Graves 2013."""
    new = clipped(grad * rescale_grad + wd * weight, clip_gradient)
    n = (1 - gamma1) * new * new + gamma1 * n
    g = (1 - gamma1) * new + gamma1 * g
    delta = gamma2 * delta - lr * new / np.sqrt(n - g * g + epsilon)
    return clipped(weight + delta, clip_weights), n, g, delta


def adagrad(
    weight: np.ndarray,
    grad: np.ndarray,
    history: np.ndarray,
    *,
    lr: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> tuple[np.ndarray, ...]:
    """w -= lr (g / sqrt(h + eps) + wd w), h the sum of g squared."""
    g = clipped(grad * rescale_grad, clip_gradient)
    history = history + np.square(g)
    return weight - lr * (g / np.sqrt(history + epsilon) + wd * weight), history


def adadelta(
    weight: np.ndarray,
    grad: np.ndarray,
    gradients: np.ndarray,
    changes: np.ndarray,
    *,
    lr: float,
    rho: float,
    rest: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> tuple[np.ndarray, ...]:
    """Zeiler 2012: ``rest`` is 1 - rho before rounding; without a learning rate."""
    g = clipped(grad * rescale_grad, clip_gradient)
    gradients = rho * gradients + rest * g * g
    change = np.sqrt(changes + epsilon) / np.sqrt(gradients + epsilon) * g
    changes = rho * changes + rest * change * change
    return weight - (change + wd * weight), gradients, changes


def group_adagrad(
    weight: np.ndarray,
    grad: np.ndarray,
    history: np.ndarray,
    *,
    lr: float,
    rescale_grad: float,
    clip_gradient: float,
    epsilon: float,
) -> tuple[np.ndarray, ...]:
    """AdaGrad with one history per row: the sum of its mean squares."""
    g = clipped(grad * rescale_grad, clip_gradient)
    history = history + np.square(g).mean(1, keepdims=True)
    return weight - lr * g / np.sqrt(history + epsilon), history


def _infer_adamw(with_copy: bool) -> Callable[..., tuple[Types, Types]]:
    """Type rule of other updates; the last operand is the scale, one float32 element."""

    def infer(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
        *own, scale = ins
        found = alike_types(tuple(own), outs, with_copy)
        return (*found, agreed(scale, None, SINGLE)), merged(outs, found[:1])

    return infer


def _infer_group_adagrad(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    own = alike_types(ins[:2], outs, mixed=False)
    shape = own[0].shape
    if shape is not None and len(shape) != 2:
        raise ShapeError(f"groups are the rows of a matrix, got axes: {len(shape)}")
    rows = TensorType(None if shape is None else (shape[0], 1), own[0].dtype)
    history = agreed(ins[2], rows.shape, rows.dtype)
    return (*own, history), merged(outs, own[:1])


BETAS = "beta1:float=0.9 beta2:float=0.999 epsilon:float=1e-08"
# MXNet computes AdaGrad and AdaDelta from operators on arrays, whose scalars may be denormal.
_RATE, _DECAY = "lr:single!", "wd:single=0"
ADAMW = f"lr:float! {BETAS} wd:float=0 eta:float! clip_gradient:float=-1"

register_update(
    "adam_update",
    "weight grad *mean *var",
    f"lr:float! {BETAS} wd:float=0 {SCALES} lazy_update:bool=true",
    in_single(adam),
    "Step of Adam without bias correction.",
    aliases="_sparse_adam_update",
    on_stored=OnStored.UPDATE,
    rule=adam,
)
register_update(
    "_adamw_update",
    "weight grad *mean *var rescale_grad",
    ADAMW,
    in_single(adamw(moments)),
    "Step of Adam with decoupled weight decay.",
    infer=_infer_adamw(False),
)
register_update(
    "_mp_adamw_update",
    "weight grad *mean *var *weight32 rescale_grad",
    ADAMW,
    in_single(mixed_adamw(moments)),
    "_adamw_update on a float32 copy of the weight.",
    infer=_infer_adamw(True),
)
register_update(
    "ftml_update",
    "weight grad *d *v *z",
    "lr:float! beta1:float[0,1]=0.6 beta2:float[0,1]=0.999 epsilon:double=1e-08 t:int! wd:float=0 "
    "rescale_grad:float=1 clip_grad:float=-1",
    in_single(ftml),
    "Step of FTML, follow the moving leader.",
)
register_update(
    "ftrl_update",
    "weight grad *z *n",
    f"lr:float! lamda1:float=0.01 beta:float=1 wd:float=0 {SCALES}",
    in_single(ftrl),
    "Step of FTRL, follow the regularized leader.",
    aliases="_sparse_ftrl_update",
    on_stored=OnStored.SPARSE_UPDATE,
    rule=ftrl,
)
register_update(
    "rmsprop_update",
    "weight grad *n",
    f"lr:float! gamma1:float=0.95 epsilon:float=1e-08 wd:float=0 {SCALES} clip_weights:float=-1",
    in_single(rmsprop),
    "Step of RMSProp.",
    rule=rmsprop,
)
register_update(
    "rmspropalex_update",
    "weight grad *n *g *delta",
    f"lr:float! gamma1:float=0.95 gamma2:float=0.9 epsilon:float=1e-08 wd:float=0 {SCALES} "
    "clip_weights:float=-1",
    in_single(rmsprop_centered),
    "Step of RMSProp with the variance of the gradient.",
    rule=rmsprop_centered,
)
register_update(
    "_sparse_adagrad_update",
    "weight grad *history",
    f"{_RATE} epsilon:float=1e-07 {_DECAY} {SCALES}",
    in_single(adagrad),
    "Step of AdaGrad.",
    on_stored=OnStored.UPDATE,
    rule=adagrad,
)
register_update(
    "_adadelta_update",
    "weight grad *gradients *changes",
    f"{_RATE} rho:float! rest:float! epsilon:float! {_DECAY} {SCALES}",
    in_single(adadelta),
    "Step of AdaDelta.",
    internal=True,
    rule=adadelta,
)
register_update(
    "_contrib_group_adagrad_update",
    "weight grad *history",
    f"lr:float! {SCALES} epsilon:float=1e-05",
    in_single(group_adagrad),
    "Step of AdaGrad with one history per row.",
    infer=_infer_group_adagrad,
    on_stored=OnStored.UPDATE,
)
