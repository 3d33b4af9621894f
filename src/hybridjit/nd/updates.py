"""Update rules of ``nd.contrib`` with lists of arrays, or with a scale that may be a number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ops.registry import lookup
from .creation import full
from .ndarray import NDArray, invoke

Arrays = Sequence[NDArray]
Scale = NDArray | float


def adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    rescale_grad: Scale,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: NDArray | None = None,
    name: str | None = None,
) -> NDArray:
    """Step of Adam with decoupled weight decay; skipped if the scale is 0 or not finite."""
    given = {"lr": lr, "eta": eta, "wd": wd, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    arrays = (weight, grad, mean, var, _scale(rescale_grad, weight))
    return invoke(lookup("_adamw_update"), arrays, {**given, "clip_gradient": clip_gradient}, out)


def mp_adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    weight32: NDArray,
    rescale_grad: Scale,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: NDArray | None = None,
    name: str | None = None,
) -> NDArray:
    """:func:`adamw_update` on a float32 copy of the weight."""
    given = {"lr": lr, "eta": eta, "wd": wd, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    arrays = (weight, grad, mean, var, weight32, _scale(rescale_grad, weight))
    attrs = {**given, "clip_gradient": clip_gradient}
    return invoke(lookup("_mp_adamw_update"), arrays, attrs, out)


def multi_adamw_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    rescale_grad: Scale,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: NDArray | Arrays | None = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: object,
) -> NDArray | list[NDArray]:
    """:func:`adamw_update` for several weights."""
    arrays = [*_interleaved(weights, grads, mean, var), _scale(rescale_grad, weights[0])]
    given = {"lrs": lrs, "wds": wds, "etas": etas, "num_weights": size or len(weights), **kwargs}
    return invoke(lookup("_multi_adamw_update"), arrays, given, out)


def multi_mp_adamw_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    weights32: Arrays,
    rescale_grad: Scale,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: NDArray | Arrays | None = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: object,
) -> NDArray | list[NDArray]:
    """:func:`mp_adamw_update` for several weights."""
    own = _interleaved(weights, grads, mean, var, weights32)
    given = {"lrs": lrs, "wds": wds, "etas": etas, "num_weights": size or len(weights), **kwargs}
    scale = _scale(rescale_grad, weights[0])
    return invoke(lookup("_multi_mp_adamw_update"), [*own, scale], given, out)


def multi_lamb_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: NDArray | Arrays | None = None,
    num_tensors: int = 0,
    **kwargs: object,
) -> NDArray | list[NDArray]:
    """Steps of LAMB for several weights."""
    given = {"learning_rates": lrs, "wds": wds, "step_count": step_count, **kwargs}
    given["num_tensors"] = num_tensors or len(weights)
    arrays = _interleaved(weights, grads, mean, var)
    return invoke(lookup("_multi_lamb_update"), arrays, given, out)


def multi_mp_lamb_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    weights32: Arrays,
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: NDArray | Arrays | None = None,
    num_tensors: int = 0,
    **kwargs: object,
) -> NDArray | list[NDArray]:
    """Steps of LAMB on float32 copies of several weights."""
    given = {"learning_rates": lrs, "wds": wds, "step_count": step_count, **kwargs}
    given["num_tensors"] = num_tensors or len(weights)
    arrays = _interleaved(weights, grads, mean, var, weights32)
    return invoke(lookup("_multi_mp_lamb_update"), arrays, given, out)


def _scale(given: Scale, weight: NDArray) -> NDArray:
    """Scale as an array."""
    return given if isinstance(given, NDArray) else full((1,), given, weight.context, np.float32)


def _interleaved(*lists: Arrays) -> list[NDArray]:
    """Operands of the first weight, then those of the second, and so on."""
    return [array for operands in zip(*lists) for array in operands]
