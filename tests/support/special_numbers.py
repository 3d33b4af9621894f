"""Optimizers on NaN, infinities and attributes that are these, whichever MXNet runs them.

``fixtures/training/special_numbers.npz`` has the results of MXNet 1.9.1: under it
``python special_numbers.py tests/fixtures/training/special_numbers.npz`` writes the file.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

VALUES = (0.7, -1.3, 0.0, np.nan, np.inf, -np.inf, 3e38)
NUMBERS = (np.nan, np.inf, -np.inf, -0.3)
SHARED = ("learning_rate", "wd", "rescale_grad", "clip_gradient")
OWN: dict[str, list[tuple[dict[str, Any], tuple[str, ...]]]] = {
    "sgd": [({}, ()), ({"momentum": 0.9}, ("momentum",))],
    "nag": [({"momentum": 0.9}, ("momentum",))],
    "signum": [({"momentum": 0.0}, ()), ({"wd_lh": 0.1}, ("momentum", "wd_lh"))],
    "adam": [({}, ("beta1", "beta2", "epsilon"))],
    "adamax": [({}, ("beta1", "beta2"))],
    "nadam": [({}, ("beta1", "beta2", "epsilon", "schedule_decay"))],
    "adagrad": [({}, ("eps",))],
    "groupadagrad": [({"wd": 0.0}, ("eps",))],
    "rmsprop": [({}, ("gamma1", "epsilon", "clip_weights")), ({"centered": True}, ("gamma2",))],
    "adadelta": [({}, ("rho", "epsilon"))],
    "ftrl": [({}, ("lamda1", "beta"))],
    "ftml": [({}, ("beta1", "beta2", "epsilon"))],
    "dcasgd": [({}, ("lamda",))],
    "lamb": [({}, ("beta1", "beta2", "epsilon", "lower_bound", "upper_bound"))],
    "lars": [({}, ("eta", "eps")), ({"momentum": 0.9}, ("momentum",))],
    "lbsgd": [({"momentum": 0.9, "warmup_strategy": "lars"}, ("momentum",))],
}
# AdamW has operators and no optimizer; the last number scales gradients.
ADAMW = ("_adamw_update", "_mp_adamw_update", "_multi_adamw_update", "_multi_mp_adamw_update")


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Names of optimizers with arguments."""
    for name, given in OWN.items():
        for own, numbers in given:
            yield name, own
            for key, value in itertools.product((*SHARED, *numbers), NUMBERS):
                yield name, {**own, key: value}


def label(name: str, arguments: dict[str, Any]) -> str:
    """A case as text."""
    return " ".join([name, *(f"{key}={value}" for key, value in arguments.items())])


def weights_after(mx: Any, name: str, arguments: dict[str, Any], at_once: bool) -> np.ndarray:
    """A weight of special numbers and one of others after each of two steps."""
    optimizer = mx.optimizer.create(name, **{"learning_rate": 0.1, "wd": 0.01, **arguments})
    update, random = mx.optimizer.get_updater(optimizer), np.random.RandomState(3)
    special = np.repeat(np.array(VALUES, "f4")[:, None], len(VALUES), 1)
    weights = [mx.nd.array(w) for w in (special, random.normal(0, 1, special.shape))]
    found = []
    for _ in range(2):
        grads = [mx.nd.array(g) for g in (special.T, random.normal(0, 1, special.shape))]
        if at_once or optimizer.aggregate_num:
            update([0, 1], grads, weights)
        else:
            for index, pair in enumerate(zip(grads, weights)):
                update(index, *pair)
        found.append(np.stack([w.asnumpy() for w in weights]))
    return np.stack(found)


def adamw_after(mx: Any, invoke: Any, name: str, scale: float) -> np.ndarray:
    """A weight, its mean, its variance and maybe its copy after a step of AdamW."""
    rows = np.array([*itertools.product(VALUES, repeat=4)], "f4").T[:, ::5]
    is_mixed, is_many = "_mp_" in name, "_multi_" in name
    kinds = ["float16" if is_mixed and i < 2 else "float32" for i in range(4)]
    with np.errstate(over="ignore"):
        arrays = [mx.nd.array(row.astype(kind), dtype=kind) for row, kind in zip(rows, kinds)]
    arrays += [mx.nd.array(rows[0] / 2)] if is_mixed else []
    rates: dict[str, Any] = {"lr": 0.1, "wd": 0.01, "eta": 0.5}
    if is_many:
        rates = {**{f"{key}s": [value] for key, value in rates.items()}, "num_weights": 1}
    invoke(name, [*arrays, mx.nd.array([scale])], arrays[0], rates)
    return np.stack([x.asnumpy().astype("f4") for i, x in enumerate(arrays) if i != 1])


def record(path: str) -> None:
    """Write MXNet's results; nothing if it raises."""
    mx: Any = importlib.import_module("mxnet")

    def invoke(name: str, arrays: list[Any], out: Any, given: dict[str, Any]) -> None:
        getattr(mx.nd._internal, name)(*arrays, out=out, **given)

    found = {}
    for name, arguments in cases():
        try:
            found[label(name, arguments)] = weights_after(mx, name, arguments, False)
        except (mx.MXNetError, ArithmeticError, AssertionError, ValueError):
            found[label(name, arguments)] = np.empty((0,))
    for name in ADAMW:
        for scale in (0.5, 0.0, *NUMBERS):
            found[f"{name} {scale}"] = adamw_after(mx, invoke, name, scale)
    used = {key: value for key, value in found.items() if value.size}
    shapes = {key: value.shape for key, value in used.items()}
    assert len(found) - len(used) < len(used), "MXNet raised too often to be right"
    flat = np.concatenate([value.ravel() for value in used.values()])
    lines = [f"{key}|{','.join(map(str, shapes.get(key, (0,))))}" for key in found]
    np.savez_compressed(path, cases=np.array("\n".join(lines)), numbers=flat.astype("f4"))


def recorded(path: str) -> dict[str, np.ndarray]:
    """The results of :func:`record`, by case."""
    found, position = {}, 0
    with np.load(path) as file:
        lines, numbers = str(file["cases"]).split("\n"), file["numbers"]
    for line in lines:
        key, _, sizes = line.partition("|")
        shape = tuple(map(int, sizes.split(",")))
        size = int(np.prod(shape))
        found[key] = numbers[position : position + size].reshape(shape)
        position += size
    return found


if __name__ == "__main__":
    record(sys.argv[1])
