"""Samples of the update rules of optimizers. States are positive, as sums of squares are."""

from __future__ import annotations

import numpy as np

from hybridjit._core.types import TensorType
from hybridjit.errors import AttributeValueError, DTypeError, ShapeError
from hybridjit.ops import lookup
from sampling import add, bad

F16, F32, I32 = np.dtype("float16"), np.dtype("float32"), np.dtype("int32")
RULES: dict[str, dict[str, object]] = {
    "sgd_update": {"wd": 0.01, "clip_gradient": 0.5},
    "sgd_mom_update": {"wd": 0.01, "momentum": 0.9},
    "nag_mom_update": {"wd": 0.01, "momentum": 0.9},
    "signsgd_update": {"wd": 0.01},
    "signum_update": {"momentum": 0.9, "wd_lh": 0.01},
    "adam_update": {"wd": 0.01, "rescale_grad": 0.5},
    "ftml_update": {"t": 3, "clip_grad": 0.5},
    "ftrl_update": {"wd": 0.01},
    "rmsprop_update": {"wd": 0.01, "clip_weights": 1.0},
    "rmspropalex_update": {"wd": 0.01},
    "_sparse_adagrad_update": {"wd": 0.01},
    "_adadelta_update": {"rho": 0.9, "rest": 0.1, "epsilon": 1e-5, "wd": 0.01},
}


def positive(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape).astype(dtype)


def declare() -> None:
    one_weight()
    float32_copies()
    norms()
    several_weights()
    sums()
    short_floats()


def one_weight() -> None:
    for name, attrs in RULES.items():
        states = len(lookup(name).input_names({})) - 2
        for shape in ((3, 4), (7,)):
            add(name, shape, shape, *[positive(*shape)] * states, lr=0.1, **attrs)
        states64 = [positive(5, dtype="float64")] * states
        add(name, (5,), (5,), *states64, lr=0.1, dtype="float64", **attrs)
        states16 = [positive(5, dtype="float16")] * states
        add(name, (5,), (5,), *states16, lr=0.1, dtype="float16", **attrs)
    adamw = "_adamw_update"
    for scale in (0.5, 0.0, np.nan):
        given = (positive(3, 4), positive(3, 4), np.array([scale], "f4"))
        add(adamw, (3, 4), (3, 4), *given, lr=0.1, eta=0.5, wd=0.01)
    add("_contrib_group_adagrad_update", (3, 4), (3, 4), positive(3, 1), lr=0.1)
    w, v = TensorType((3,), F32), TensorType((4,), F32)
    bad("sgd_update", w, v, error=ShapeError, says="4", lr=0.1)
    bad("sgd_update", w, TensorType((3,), F16), error=DTypeError, says="float16", lr=0.1)
    bad("sgd_update", *[TensorType((3,), I32)] * 2, error=DTypeError, says="int32", lr=0.1)
    bad("sgd_update", w, w, error=AttributeValueError, says="lr")
    group = "_contrib_group_adagrad_update"
    bad(group, w, w, w, error=ShapeError, says="rows of a matrix, got axes: 1", lr=0.1)


def float32_copies() -> None:
    w = positive(3, 4, dtype="float16")
    state = positive(3, 4)
    add("mp_sgd_update", w, w, state, lr=0.1, wd=0.01)
    add("mp_sgd_mom_update", w, w, state, state, lr=0.1, momentum=0.9)
    add("mp_nag_mom_update", w, w, state, state, lr=0.1, momentum=0.9)
    scale = np.array([0.5], "f4")
    add("_mp_adamw_update", w, w, state, state, state, scale, lr=0.1, eta=0.5, wd=0.01)
    add("mp_lamb_update_phase1", w, w, state, state, state, t=2, wd=0.01)
    r = np.array([1.5], "f4")
    add("mp_lamb_update_phase2", w, state, r, 2 * r, state, lr=0.1)


def norms() -> None:
    x, r = (3, 4), np.array([1.5], "f4")
    for bias_correction in (True, False):
        given = {"t": 2, "wd": 0.01, "bias_correction": bias_correction}
        add("lamb_update_phase1", x, x, positive(*x), positive(*x), **given)
    for bounds in ({}, {"lower_bound": 2.0}, {"upper_bound": 1.0}):
        add("lamb_update_phase2", x, x, r, 2 * r, lr=0.1, **bounds)
    add("lamb_update_phase2", x, x, 0 * r, r, lr=0.1)
    add("multi_lars", *[positive(5)] * 4, eta=0.1, eps=0.01)
    add("multi_lars", positive(2), np.zeros(2, "f4"), positive(2), positive(2), eta=0.1, eps=0.01)


def several_weights() -> None:
    shapes = ((3, 4), (5,))
    rates = {"lrs": (0.1, 0.2), "wds": (0.01, 0.0)}
    loaded = (np.array([0.1, 0.2], "f4"), np.array([0.01, 0.0], "f4"))
    for name, kinds in (
        ("sgd_update", "ww"),
        ("sgd_mom_update", "wws"),
        ("mp_sgd_update", "hhs"),
        ("mp_sgd_mom_update", "hhss"),
    ):
        arrays = operands(shapes, kinds)
        more = {"momentum": 0.9} if "mom" in name else {}
        add(f"multi_{name}", *arrays, num_weights=2, **rates, **more)
        add(f"preloaded_multi_{name}", *arrays, *loaded, num_weights=2, **more)
    scale = np.array([0.5], "f4")
    for name, kinds in (("_multi_adamw_update", "wwss"), ("_multi_mp_adamw_update", "hhsss")):
        arrays = operands(shapes, kinds)
        add(name, *arrays, scale, num_weights=2, etas=(0.5, 1.0), **rates)
    lamb = {"learning_rates": (0.1, 0.2), "wds": (0.01, 0.0), "step_count": (1, 3)}
    for name, kinds in (("_multi_lamb_update", "wwss"), ("_multi_mp_lamb_update", "hhsss")):
        add(name, *operands(shapes, kinds), num_tensors=2, **lamb)
    w = TensorType((3,), F32)
    few = {"num_weights": 1, "lrs": (0.1, 0.2), "wds": (0.0,)}
    bad("multi_sgd_update", w, w, error=AttributeValueError, says="2 values for 1 weights", **few)
    bad("preloaded_multi_sgd_update", w, w, w, w, error=ShapeError, says="3")


def operands(shapes: tuple[tuple[int, ...], ...], kinds: str) -> list[np.ndarray]:
    """For each shape: ``w`` a float32 array, ``h`` a float16 one, ``s`` a state in float32."""
    return [
        positive(*shape, dtype="float16" if kind == "h" else "float32")
        for shape in shapes
        for kind in kinds
    ]


def sums() -> None:
    add("multi_sum_sq", (3, 4), (5,), num_arrays=2)
    add("multi_sum_sq", positive(5, dtype="float16"), num_arrays=1)
    bad("multi_sum_sq", TensorType((3,), I32), error=DTypeError, says="int32", num_arrays=1)
    add("reset_arrays", (3, 4), (5,), num_arrays=2)


def short_floats() -> None:
    add("_from_bfloat16", np.array([0, 0x3F80, 0xC020, 0x7F80, 1], np.uint16))
    add("_from_bfloat16", np.arange(0x3F70, 0x3F88, dtype=np.uint16).reshape(2, 3, 4))
    add("_rounded_to_bfloat16", (3, 17))
    add("_rounded_to_bfloat16", np.array([0, 1e-40, 1 + 2**-8, np.inf, -3.5], np.float32))
