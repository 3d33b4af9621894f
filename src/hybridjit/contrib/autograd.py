"""``mx.contrib.autograd``: older names of ``mx.autograd``; training mode includes recording.

Input: functions of NDArrays, or values computed within ``with train_section():``. Output:
gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd
from ..autograd import mark_variables
from ..nd import NDArray, zeros_like

__all__ = [
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]


def set_is_training(is_train: bool) -> bool:
    """Switch recording and training mode on or off together; return whether calls were recorded."""
    autograd.set_training(is_train)
    return autograd.set_recording(is_train)


class TrainingStateScope:
    """``with`` block that records in training mode, or neither; it restores the state at its
    end."""

    def __init__(self, enter_state: bool) -> None:
        self._enter_state = enter_state
        self._before: tuple[bool, bool] | None = None

    def __enter__(self) -> None:
        self._before = autograd.is_training(), autograd.is_recording()
        set_is_training(self._enter_state)

    def __exit__(self, *error: object) -> None:
        assert self._before is not None
        is_training, is_recording = self._before
        autograd.set_training(is_training)
        autograd.set_recording(is_recording)


def train_section() -> TrainingStateScope:
    """``with`` block in which calls are recorded in training mode."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """``with`` block inside of a :func:`train_section` in which calls are not recorded."""
    return TrainingStateScope(False)


def backward(
    outputs: NDArray | Sequence[NDArray],
    out_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
) -> None:
    """Compute the gradients of the variables that ``outputs`` depend on."""
    autograd.backward(outputs, out_grads, retain_graph)


def compute_gradient(outputs: NDArray | Sequence[NDArray]) -> None:
    """Compute the gradients of the variables that ``outputs`` depend on."""
    backward(outputs)


def grad_and_loss(
    func: Callable[..., Any], argnum: int | Sequence[int] | None = None
) -> Callable[..., tuple[list[NDArray], Any]]:
    """A function that returns the gradients of ``func`` and its results.

    ``argnum``: the positions of the arguments for gradients, by default all. Raises AssertionError
    if one of them is not an NDArray.
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> tuple[list[NDArray], Any]:
        places = range(len(args)) if argnum is None else argnum
        variables = [args[i] for i in ([places] if isinstance(places, int) else places)]
        for x in variables:
            assert isinstance(x, NDArray), (
                f"type of autograd input should be NDArray, got {type(x)}"
            )
        grads = [zeros_like(x) for x in variables]
        mark_variables(variables, grads)
        with train_section():
            outputs = func(*args)
        compute_gradient(outputs)
        return grads, outputs

    return wrapped


def grad(
    func: Callable[..., Any], argnum: int | Sequence[int] | None = None
) -> Callable[..., list[NDArray]]:
    """A function that returns the gradients of ``func``; see `grad_and_loss`."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def wrapped(*args: object) -> list[NDArray]:
        return both(*args)[0]

    return wrapped
