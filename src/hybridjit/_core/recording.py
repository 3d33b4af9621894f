"""Flags of the thread: whether operators are recorded for gradients, and whether it trains.

Both are off in a new thread. Training selects the behaviour of Dropout and BatchNorm; recording
makes eager calls leave the nodes that :mod:`..nd.tape` differentiates.
"""

from __future__ import annotations

import threading


class _Flags(threading.local):
    """This thread's flags."""

    recording = False
    training = False


FLAGS = _Flags()


def is_recording() -> bool:
    """Whether eager calls in this thread are recorded."""
    return FLAGS.recording


def is_training() -> bool:
    """Whether Dropout and BatchNorm behave as in training in this thread."""
    return FLAGS.training


def set_recording(is_recording: bool) -> bool:
    """Set the recording flag; returns its previous value."""
    before, FLAGS.recording = FLAGS.recording, bool(is_recording)
    return before


def set_training(train_mode: bool) -> bool:
    """Set the training flag; returns its previous value."""
    before, FLAGS.training = FLAGS.training, bool(train_mode)
    return before


class RecordingStateScope:
    """Sets the flags for the length of a ``with`` block; None leaves a flag unchanged."""

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


def recording_as(is_recording: bool, is_training: bool) -> RecordingStateScope:
    """Both flags as given, for the length of a ``with`` block."""
    return RecordingStateScope(is_recording, is_training)


def record(train_mode: bool = True) -> RecordingStateScope:
    """``with record():`` records the calls inside, by default in training mode."""
    return RecordingStateScope(True, train_mode)


def pause(train_mode: bool = False) -> RecordingStateScope:
    """``with pause():`` neither records nor, unless ``train_mode``, trains."""
    return RecordingStateScope(False, train_mode)


def train_mode() -> RecordingStateScope:
    """``with train_mode():`` Dropout drops and BatchNorm uses the batch's own statistics."""
    return RecordingStateScope(None, True)


def predict_mode() -> RecordingStateScope:
    """``with predict_mode():`` Dropout and BatchNorm behave as in inference."""
    return RecordingStateScope(None, False)
