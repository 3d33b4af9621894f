"""Optimizers with arguments, and a run of each on given gradients, whichever MXNet runs it.

``fixtures/training/optimizers.npz`` has the weights after each step of MXNet 1.9.1, run by
:func:`weights_by_step`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Case = tuple[str, dict[str, Any]]

SHAPES = ((3, 4), (2, 5))
CASES: dict[str, Case] = {
    "sgd": ("sgd", {"learning_rate": 0.1, "wd": 0.01}),
    "sgd clip": (
        "sgd",
        {"learning_rate": 0.1, "wd": 0.01, "clip_gradient": 0.5, "rescale_grad": 0.5},
    ),
    "sgd momentum": ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}),
    "ccsgd": ("ccsgd", {"learning_rate": 0.1, "momentum": 0.5}),
    "nag": ("nag", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5}),
    "nag plain": ("nag", {"learning_rate": 0.1, "wd": 0.01}),
    "signum": (
        "signum",
        {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01, "wd_lh": 0.02, "rescale_grad": 0.5},
    ),
    "signsgd": ("signum", {"learning_rate": 0.1, "momentum": 0.0, "wd": 0.01}),
    "adam": ("adam", {"learning_rate": 0.1, "wd": 0.01}),
    "adam clip": ("adam", {"wd": 0.01, "clip_gradient": 0.5, "rescale_grad": 0.5}),
    "adamax": ("adamax", {"wd": 0.01, "clip_gradient": 0.5}),
    "nadam": ("nadam", {"learning_rate": 0.05, "wd": 0.01}),
    "adagrad": ("adagrad", {"learning_rate": 0.1, "wd": 0.01, "clip_gradient": 0.5}),
    "groupadagrad": ("groupadagrad", {"learning_rate": 0.1, "rescale_grad": 0.5}),
    "rmsprop": ("rmsprop", {"learning_rate": 0.05, "wd": 0.01, "clip_weights": 0.8}),
    "rmsprop centered": (
        "rmsprop",
        {"learning_rate": 0.05, "centered": True, "clip_gradient": 0.5},
    ),
    "adadelta": ("adadelta", {"wd": 0.01, "rescale_grad": 0.5}),
    "ftrl": ("ftrl", {"learning_rate": 0.1, "wd": 0.01, "lamda1": 0.1}),
    "ftml": ("ftml", {"learning_rate": 0.1, "wd": 0.01, "clip_gradient": 0.5}),
    "dcasgd": ("dcasgd", {"learning_rate": 0.1, "wd": 0.01}),
    "lamb": ("lamb", {"learning_rate": 0.1, "wd": 0.01}),
    "lamb bounds": (
        "lamb",
        {
            "learning_rate": 0.1,
            "lower_bound": 0.5,
            "upper_bound": 1.5,
            "bias_correction": False,
            "clip_gradient": 0.5,
        },
    ),
    "lars": (
        "lars",
        {
            "learning_rate": 1.0,
            "momentum": 0.9,
            "wd": 0.01,
            "param_idx2name": {0: "a_weight", 1: "a_bias"},
        },
    ),
    "lars scheduled": (
        "lars",
        {"momentum": 0.9, "eta": 0.1, "lr_scheduler": {"step": 2, "factor": 0.5, "base_lr": 1.0}},
    ),
    "lbsgd": (
        "lbsgd",
        {
            "learning_rate": 0.1,
            "momentum": 0.9,
            "wd": 0.01,
            "batch_scale": 2,
            "updates_per_epoch": 1,
        },
    ),
    "lbsgd lars": (
        "lbsgd",
        {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01, "warmup_strategy": "lars"},
    ),
    "lbsgd sqrt": (
        "lbsgd",
        {"learning_rate": 0.1, "batch_scale": 4, "warmup_strategy": "sqrt", "updates_per_epoch": 2},
    ),
    "lbsgd power2": (
        "lbsgd",
        {
            "learning_rate": 0.1,
            "batch_scale": 4,
            "warmup_strategy": "power2",
            "updates_per_epoch": 1,
        },
    ),
    "test": ("test", {"rescale_grad": 0.1}),
    "scheduled": (
        "sgd",
        {"lr_scheduler": {"step": 2, "factor": 0.5, "base_lr": 0.4}, "momentum": 0.9},
    ),
}
HALF = ("sgd", "sgd momentum", "nag", "adam", "lamb", "lars", "rmsprop")
DOUBLE = ("sgd momentum", "adam", "nag", "ftml", "lamb")


def weights_by_step(mx: Any, case: Case, dtype: str = "float32", steps: int = 5) -> np.ndarray:
    """The weights of two parameters after each step, one row for a step."""
    name, arguments = case[0], dict(case[1])
    if "lr_scheduler" in arguments:
        scheduler = mx.lr_scheduler.FactorScheduler(**arguments["lr_scheduler"])
        arguments["lr_scheduler"] = scheduler
    optimizer = mx.optimizer.create(name, **arguments)
    update = mx.optimizer.get_updater(optimizer)
    random = np.random.RandomState(3)
    weights = [mx.nd.array(random.uniform(-1, 1, s), dtype=dtype) for s in SHAPES]
    found = []
    for step in range(steps):
        spread = 0.01 if step == 2 else 1
        grads = [mx.nd.array(random.normal(0, spread, s), dtype=dtype) for s in SHAPES]
        if optimizer.aggregate_num:
            update([0, 1], grads, weights)
        else:
            for index, pair in enumerate(zip(grads, weights)):
                update(index, *pair)
        found.append(np.concatenate([w.asnumpy().ravel() for w in weights]))
    return np.array(found)
