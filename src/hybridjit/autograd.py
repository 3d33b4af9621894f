"""Training and recording flags. They select what Dropout and BatchNorm do; nothing is recorded.

hybridjit runs inference only, so ``backward`` and ``grad`` say that and stop.
"""

from __future__ import annotations

import threading
from typing import Any, NoReturn

from .errors import MXNetError
from .unwinding import restoring


class _Flags(threading.local):
    """This thread's flags."""

    recording = False
    training = False


FLAGS = _Flags()


def is_recording() -> bool:
    """Whether this thread records, which selects nothing here."""
    return FLAGS.recording


def is_training() -> bool:
    """Whether Dropout and BatchNorm behave as in training in this thread."""
    return FLAGS.training


def set_recording(is_recording: bool) -> bool:
    """Set the recording flag; returns what it was."""
    before, FLAGS.recording = FLAGS.recording, bool(is_recording)
    return before


def set_training(train_mode: bool) -> bool:
    """Set the training flag; returns what it was."""
    before, FLAGS.training = FLAGS.training, bool(train_mode)
    return before


class _Scope:
    """Sets the flags for the length of a ``with`` block; None leaves a flag alone."""

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._wanted = (recording, training)
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((FLAGS.recording, FLAGS.training))
        recording, training = self._wanted
        if recording is not None:
            FLAGS.recording = recording
        if training is not None:
            FLAGS.training = training

    def __exit__(self, *error: object) -> None:
        FLAGS.recording, FLAGS.training = self._before.pop()


def record(train_mode: bool = True) -> _Scope:
    """``with record():`` sets both flags, as a training loop would."""
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """``with pause():`` neither records nor, unless ``train_mode``, trains."""
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """``with train_mode():`` Dropout drops and BatchNorm uses the batch's own statistics."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """``with predict_mode():`` Dropout and BatchNorm behave as in inference."""
    return _Scope(None, False)


class Function:
    """A computation with a gradient of its own; only ``forward`` is ever called here.

    A subclass overrides ``forward(*inputs)`` with functions of ``nd``.
    """

    def forward(self, *inputs: Any) -> Any:
        """To override: the outputs for these arrays."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def save_for_backward(self, *args: object) -> None:
        """Keep arrays for a backward pass, which does not come."""
        self._saved = args

    @property
    def saved_tensors(self) -> tuple[object, ...]:
        """What ``save_for_backward`` kept."""
        return self._saved

    @restoring(FLAGS)
    def __call__(self, *inputs: Any) -> Any:
        with pause():
            return self.forward(*inputs)


def get_symbol(x: object) -> NoReturn:
    """Raises MXNetError: nothing is recorded."""
    raise MXNetError("autograd.get_symbol: hybridjit records nothing; trace a HybridBlock instead")


def backward(*args: object, **kwargs: object) -> NoReturn:
    """Raises MXNetError: gradients are not computed here."""
    raise MXNetError("autograd.backward: hybridjit runs inference only, gradients are not computed")


def grad(*args: object, **kwargs: object) -> NoReturn:
    """Raises MXNetError: gradients are not computed here."""
    raise MXNetError("autograd.grad: hybridjit runs inference only, gradients are not computed")


def mark_variables(*args: object, **kwargs: object) -> NoReturn:
    """Raises MXNetError: gradients are not computed here."""
    raise MXNetError(
        "autograd.mark_variables: hybridjit runs inference only, gradients are not computed"
    )
