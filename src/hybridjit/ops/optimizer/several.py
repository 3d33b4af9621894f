"""Operators on several arrays in one call: update rules, grouped by weight; sums of squares."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..._core.types import TensorType
from ...errors import AttributeValueError
from ..attrs import Attrs, AttrValue, Declared
from ..registry import register
from ..rules import Types, merged, require_float
from .adaptive_steps import adamw, mixed_adamw, moments_in_many
from .lamb import direction, stepped
from .sgd import sgd_in_many, sgd_mom
from .update_step import (
    SCALES,
    SINGLE,
    Step,
    agreed,
    alike_types,
    in_single,
    mixed,
    register_update,
)

Names = tuple[str, ...]
# Attributes with one value for each weight -> attribute of the rule for one weight.
Listed = dict[str, str]


def _names(own: Names, extra: Names, count: str) -> Callable[..., Names]:
    """Input names for a number of weights: numbered operands of each, then shared ones."""

    def named(number: int) -> Names:
        return (*(f"{name}_{i}" for i in range(number) for name in own), *extra)

    if count == "num_tensors":
        return lambda num_tensors, **_: named(num_tensors)
    return lambda num_weights, **_: named(num_weights)


def _outputs(count: str) -> Callable[..., Names]:
    return lambda **attrs: tuple(f"output{i}" for i in range(attrs[count]))


def _rule(own: Names, extra: int, count: str, listed: Listed) -> Callable[..., tuple[Types, Types]]:
    """Type rule: operands of a weight have equal types; the shared ones are float32."""
    is_mixed = own[-1] == "*weight32"

    def infer(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
        number = attrs[count]
        for name in listed:
            if len(attrs[name]) != number:
                raise AttributeValueError(
                    f"attribute {name} has {len(attrs[name])} values for {number} weights"
                )
        found: list[TensorType] = []
        for i in range(number):
            group = ins[i * len(own) : (i + 1) * len(own)]
            found += alike_types(group, outs[i : i + 1], is_mixed)
        shared = tuple(agreed(t, None, SINGLE) for t in ins[len(ins) - extra :]) if extra else ()
        return (*found, *shared), merged(outs, tuple(found[:: len(own)]))

    return infer


def _preloaded_rule(own: Names) -> Callable[..., tuple[Types, Types]]:
    """Type rule for shared operands that are a learning rate and a decay for each weight."""
    plain = _rule(own, 2, "num_weights", {})

    def infer(
        ins: Types, outs: Types, *, num_weights: int, **attrs: AttrValue
    ) -> tuple[Types, Types]:
        *rest, lrs, wds = ins
        filled = (agreed(lrs, (num_weights,), None), agreed(wds, (num_weights,), None))
        return plain((*rest, *filled), outs, num_weights=num_weights, **attrs)

    return infer


def _groups(
    arrays: tuple[np.ndarray, ...], size: int, number: int
) -> Iterator[tuple[np.ndarray, ...]]:
    return (arrays[i * size : (i + 1) * size] for i in range(number))


def _each(step: Step, own: Names, count: str, listed: Listed) -> Step:
    """Apply the step to each weight: all new weights, then all new states in order."""

    def steps(*arrays: np.ndarray, **attrs: Declared) -> tuple[np.ndarray, ...]:
        number = attrs.pop(count)
        lists = {name: attrs.pop(key) for key, name in listed.items()}
        shared = arrays[number * len(own) :]
        weights: list[np.ndarray] = []
        states: list[np.ndarray] = []
        for i, group in enumerate(_groups(arrays, len(own), number)):
            given = {name: values[i] for name, values in lists.items()}
            new, *rest = step(*group, *shared, **given, **attrs)
            weights.append(new)
            states += rest
        return (*weights, *states)

    return steps


def _preloaded(step: Step, own: Names) -> Step:
    """Step with learning rates and decays in two arrays instead of attributes."""
    each = _each(step, own, "num_weights", {"lrs": "lr", "wds": "wd"})

    def steps(*arrays: np.ndarray, **attrs: AttrValue) -> tuple[np.ndarray, ...]:
        *rest, lrs, wds = arrays
        return each(*rest, lrs=lrs.tolist(), wds=wds.tolist(), **attrs)

    return steps


def lamb(
    weight: np.ndarray,
    grad: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    *,
    lr: float,
    lower_bound: float,
    upper_bound: float,
    **attrs: Declared,
) -> tuple[np.ndarray, ...]:
    """Both phases of LAMB."""
    u, mean, var = direction(weight, grad, mean, var, **attrs)
    norms = (np.sqrt(np.square(x).sum(keepdims=True)).reshape(1) for x in (weight, u))
    bounds: Attrs = {"lower_bound": lower_bound, "upper_bound": upper_bound}
    return stepped(weight, u, *norms, lr=lr, **bounds), mean, var


_RATES: Listed = {"lrs": "lr", "wds": "wd"}
_SGD = "lrs:floats! wds:floats!"
_SGD_RULES: tuple[tuple[str, Names, str, Step], ...] = (
    ("sgd_update", ("weight", "grad"), "", sgd_in_many),
    ("sgd_mom_update", ("weight", "grad", "*mom"), " momentum:float=0", sgd_mom),
    ("mp_sgd_update", ("weight", "grad", "*weight32"), "", mixed(sgd_in_many)),
    (
        "mp_sgd_mom_update",
        ("weight", "grad", "*mom", "*weight32"),
        " momentum:float=0",
        mixed(sgd_mom),
    ),
)


for _name, _own, _more, _step in _SGD_RULES:
    register_update(
        f"multi_{_name}",
        _names(_own, (), "num_weights"),
        f"{_SGD}{_more} {SCALES} num_weights:int[1,4096]=1",
        _each(in_single(_step), _own, "num_weights", _RATES),
        f"{_name} for several weights.",
        infer=_rule(_own, 0, "num_weights", _RATES),
        outputs=_outputs("num_weights"),
        rule=sgd_mom if _more else sgd_in_many,
    )
    register_update(
        f"preloaded_multi_{_name}",
        _names(_own, ("lrs", "wds"), "num_weights"),
        f"{_more.strip()} {SCALES} num_weights:int[1,4096]=1".strip(),
        _preloaded(in_single(_step), _own),
        f"{_name} for several weights, with learning rates and decays in arrays.",
        infer=_preloaded_rule(_own),
        outputs=_outputs("num_weights"),
    )

_ADAM_STATES = ("weight", "grad", "*mean", "*var")
_MIXED_STATES = (*_ADAM_STATES, "*weight32")
_ADAMW: Listed = {"lrs": "lr", "wds": "wd", "etas": "eta"}
_LAMB: Listed = {"learning_rates": "lr", "wds": "wd", "step_count": "t"}

for _name, _own, _step in (
    ("_multi_adamw_update", _ADAM_STATES, adamw(moments_in_many)),
    ("_multi_mp_adamw_update", _MIXED_STATES, mixed_adamw(moments_in_many)),
):
    register_update(
        _name,
        _names(_own, ("rescale_grad",), "num_weights"),
        "lrs:floats! beta1:float=0.9 beta2:float=0.999 epsilon:float=1e-08 wds:floats! "
        "etas:floats! clip_gradient:float=-1 num_weights:int[1,4096]=1",
        _each(in_single(_step), _own, "num_weights", _ADAMW),
        "Steps of Adam with decoupled weight decay, for several weights.",
        infer=_rule(_own, 1, "num_weights", _ADAMW),
        outputs=_outputs("num_weights"),
    )

for _name, _own, _step in (
    ("_multi_lamb_update", _ADAM_STATES, lamb),
    ("_multi_mp_lamb_update", _MIXED_STATES, mixed(lamb)),
):
    register_update(
        _name,
        _names(_own, (), "num_tensors"),
        "learning_rates:floats! beta1:float=0.9 beta2:float=0.999 epsilon:float=1e-06 wds:floats! "
        "rescale_grad:float=1 lower_bound:float=-1 upper_bound:float=-1 clip_gradient:float=-1 "
        "bias_correction:bool=true step_count:shape! num_tensors:int[1,4096]=1",
        _each(in_single(_step), _own, "num_tensors", _LAMB),
        "Steps of LAMB, for several weights.",
        infer=_rule(_own, 0, "num_tensors", _LAMB),
        outputs=_outputs("num_tensors"),
    )


# Sums of squares, and zeros


def _arrays(num_arrays: int, **attrs: AttrValue) -> tuple[str, ...]:
    return tuple(f"data_{i}" for i in range(num_arrays))


def _states(num_arrays: int) -> tuple[str, ...]:
    return tuple(f"*data_{i}" for i in range(num_arrays))


def _sum_sq(*arrays: np.ndarray, num_arrays: int) -> np.ndarray:
    return np.array([np.square(x, dtype=SINGLE).sum() for x in arrays], SINGLE)


def _one_each(ins: Types, outs: Types, *, num_arrays: int) -> tuple[Types, Types]:
    for t in ins:
        require_float("multi_sum_sq", t)
    return ins, merged(outs, (TensorType((num_arrays,), SINGLE),))


def _zeroed(*arrays: np.ndarray, num_arrays: int) -> tuple[np.ndarray, ...]:
    return tuple(map(np.zeros_like, arrays))


register(
    "multi_sum_sq",
    _arrays,
    "num_arrays:int[1,16384]!",
    infer=_one_each,
    ref=_sum_sq,
    doc="Sum of squares of each array, in one float32 array.",
)
register_update(
    "reset_arrays",
    _states,
    "num_arrays:int[1,16384]!",
    _zeroed,
    "Zeros for all arrays.",
    infer=lambda ins, outs, num_arrays: (ins, ()),
    outputs=(),
)
