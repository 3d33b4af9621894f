"""The six events of training, and the handlers of each.

Input: handlers. Output: for each event, the handlers that derive from its class, in the given
order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias


class EventHandler:
    """Base of all handlers, called in the order of ``priority``, by default 0."""


class TrainBegin(EventHandler):
    """Called once, before the first epoch."""

    def train_begin(self, estimator: Any, *args: object, **kwargs: object) -> None:
        """To override."""


class TrainEnd(EventHandler):
    """Called once, after the last epoch."""

    def train_end(self, estimator: Any, *args: object, **kwargs: object) -> None:
        """To override."""


class EpochBegin(EventHandler):
    """Called before the first batch of each epoch."""

    def epoch_begin(self, estimator: Any, *args: object, **kwargs: object) -> None:
        """To override."""


class EpochEnd(EventHandler):
    """Called after the last batch of each epoch."""

    def epoch_end(self, estimator: Any, *args: object, **kwargs: object) -> bool | None:
        """To override: whether training ends here."""
        return False


class BatchBegin(EventHandler):
    """Called before each batch, with ``batch``."""

    def batch_begin(self, estimator: Any, *args: object, **kwargs: object) -> None:
        """To override."""


class BatchEnd(EventHandler):
    """Called after each batch's backward, with ``batch``, ``pred``, ``label`` and ``loss``."""

    def batch_end(self, estimator: Any, *args: object, **kwargs: object) -> bool | None:
        """To override: whether the epoch ends here."""
        return False


Handlers: TypeAlias = EventHandler | Iterable[EventHandler] | None


class Moments(NamedTuple):
    """Handlers by event; a handler of several events is in several lists."""

    train_begin: list[TrainBegin]
    epoch_begin: list[EpochBegin]
    batch_begin: list[BatchBegin]
    batch_end: list[BatchEnd]
    epoch_end: list[EpochEnd]
    train_end: list[TrainEnd]

    @classmethod
    def of(cls, handlers: Iterable[EventHandler]) -> Moments:
        """The handlers sorted into events by the classes from which they derive."""
        listed = list(handlers)
        return cls(
            [handler for handler in listed if isinstance(handler, TrainBegin)],
            [handler for handler in listed if isinstance(handler, EpochBegin)],
            [handler for handler in listed if isinstance(handler, BatchBegin)],
            [handler for handler in listed if isinstance(handler, BatchEnd)],
            [handler for handler in listed if isinstance(handler, EpochEnd)],
            [handler for handler in listed if isinstance(handler, TrainEnd)],
        )


def _check_event_handlers(handlers: Handlers) -> list[EventHandler]:
    """A new list of the handlers. Raises ValueError for other objects."""
    listed = [handlers] if isinstance(handlers, EventHandler) else list(handlers or [])
    if not all(isinstance(handler, EventHandler) for handler in listed):
        raise ValueError(
            f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}"
        )
    return listed
