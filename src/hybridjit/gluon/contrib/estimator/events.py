"""The six moments of training that handlers are called at, and who is called at which.

In: handlers. Out: for each moment, those that derive from its class, in the order given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .estimator import Estimator


class EventHandler:
    """Base of all handlers. ``priority`` orders them: the least first, 0 if there is none."""


class TrainBegin(EventHandler):
    """Is called once, before the first epoch."""

    def train_begin(self, estimator: Estimator, *args: object, **kwargs: object) -> None:
        """To override."""


class TrainEnd(EventHandler):
    """Is called once, after the last epoch."""

    def train_end(self, estimator: Estimator, *args: object, **kwargs: object) -> None:
        """To override."""


class EpochBegin(EventHandler):
    """Is called before the first batch of each epoch."""

    def epoch_begin(self, estimator: Estimator, *args: object, **kwargs: object) -> None:
        """To override."""


class EpochEnd(EventHandler):
    """Is called after the last batch of each epoch."""

    def epoch_end(self, estimator: Estimator, *args: object, **kwargs: object) -> bool | None:
        """To override: whether training ends here."""
        return False


class BatchBegin(EventHandler):
    """Is called before each batch, with ``batch``."""

    def batch_begin(self, estimator: Estimator, *args: object, **kwargs: object) -> None:
        """To override."""


class BatchEnd(EventHandler):
    """Is called after each batch's backward, with ``batch``, ``pred``, ``label`` and ``loss``."""

    def batch_end(self, estimator: Estimator, *args: object, **kwargs: object) -> bool | None:
        """To override: whether the epoch ends here."""
        return False


Handlers: TypeAlias = EventHandler | Iterable[EventHandler] | None


class Moments(NamedTuple):
    """Who is called when; a handler of several moments is in several lists."""

    train_begin: list[TrainBegin]
    epoch_begin: list[EpochBegin]
    batch_begin: list[BatchBegin]
    batch_end: list[BatchEnd]
    epoch_end: list[EpochEnd]
    train_end: list[TrainEnd]

    @classmethod
    def of(cls, handlers: Iterable[EventHandler]) -> Moments:
        """The handlers sorted into moments by the classes that they derive from."""
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
    """A new list of the handlers, the caller's own stays as it is. ValueError for what is none."""
    listed = [handlers] if isinstance(handlers, EventHandler) else list(handlers or [])
    if not all(isinstance(handler, EventHandler) for handler in listed):
        raise ValueError(
            f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}"
        )
    return listed
