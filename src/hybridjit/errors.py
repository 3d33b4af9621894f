"""Exception classes, and the one function that lays out a message.

Inner code raises the short part (the rule in words, with both numbers); the public call that it
happened under adds the operator, the operands and the user's own line with :func:`located`.
The class names and their order of inheritance are MXNet's where MXNet has them.
"""

from __future__ import annotations

from collections.abc import Iterable


class MXNetError(RuntimeError):
    """Base of every error that concerns an operator, a graph or a file."""


class ShapeError(MXNetError):
    """The shapes of the operands break the operator's rule."""


class DTypeError(MXNetError):
    """The element types of the operands break the operator's rule."""


class AttributeValueError(MXNetError):
    """An operator's attribute is missing, unknown, or has a value that it cannot have."""


class UnknownOpError(MXNetError):
    """A graph names an operator that is not registered here."""


class ModelFormatError(MXNetError):
    """A file is not what its format says: truncated, malformed, or hostile."""


class DeferredInitializationError(MXNetError):
    """A parameter's data was asked for before its shape could be known."""


class NotImplementedForSymbol(MXNetError):
    """An NDArray-only function was called on a Symbol."""

    def __init__(self, function: str, alias: str | None = None, *args: object) -> None:
        message = f"Function {function}"
        if alias:
            message += f' (namely operator "{alias}")'
        if args:
            message += f" with arguments ({', '.join(str(type(a)) for a in args)})"
        super().__init__(message + " is not implemented for Symbol and only available in NDArray.")


class OutOfMemoryError(MXNetError, MemoryError):
    """The system or a limit of this process leaves too little memory."""


class InternalError(MXNetError):
    """A bug in hybridjit: the message names the stage and how to replay it."""


def located(
    error: MXNetError, what: str, operands: Iterable[tuple[str, object]] = (), source: str = ""
) -> MXNetError:
    """The same error with operator and node (``what``), one line per operand and the user's line.

    An error that was located already is returned as it is: the innermost place is the useful one.
    """
    if getattr(error, "is_located", False):
        return error
    rows = [(name, str(text)) for name, text in operands]
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"Error in operator {what}: {error}"]
    lines += [f"    {name:<{width}}  {text}" for name, text in rows]
    if source:
        lines.append(f"  created at {source}")
    placed = type(error).__new__(type(error))
    Exception.__init__(placed, "\n".join(lines))
    placed.is_located = True  # type: ignore[attr-defined]
    return placed
