"""Exception classes, and the layout of their messages.

Inner code raises the short part (the rule, and both values); the public call adds the operator, the
operands and the user's line with :func:`located`. Class names and inheritance are MXNet's where
MXNet has these classes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from ._core.lazy import Above, Late, other_names

if TYPE_CHECKING:
    import difflib
else:
    difflib = Late("difflib")  # needed only for errors
frames: Any = Above("_core.frames")


class MXNetError(RuntimeError):
    """Base of every error about an operator, a graph or a file."""

    _render_traceback_: Callable[..., Any]  # its text in a notebook; see ``_core.frames``


class ShapeError(MXNetError):
    """The shapes of the operands violate the operator's rule."""


class DTypeError(MXNetError):
    """The element types of the operands violate the operator's rule."""


class AttributeValueError(MXNetError):
    """An operator's attribute is missing, unknown, or has an invalid value."""


class UnknownOpError(MXNetError):
    """A graph contains an operator that is not registered."""


class ModelFormatError(MXNetError):
    """A file does not conform to its format: truncated, malformed, or malicious."""


class FileError(OSError, MXNetError):
    """The system cannot open, read or write a file.

    MXNet raises MXNetError for files that its library opens, and Python's error for the others.
    """


class MissingFileError(FileError, FileNotFoundError):
    """A file or its folder does not exist."""


class DeferredInitializationError(MXNetError):
    """A parameter's data was accessed before its shape was known."""


_NO_VALUES = (
    "While a hybridized block is traced its arrays have no values: compute with operators of F, "
    "outside of the block, or in a block that is not hybridized."
)
_IN_PLACE = "Write x = x + y instead of x += y: computed values cannot be changed in place."
_WAYS = {
    "__bool__": (
        "A condition has no value while a hybridized block is traced: choose by F.where(condition, "
        "a, b) or F.contrib.cond, or do not hybridize the block."
    ),
    "__array__": (
        "NumPy functions need values: use functions of F, such as F.tanh for np.tanh, or do not "
        "hybridize the block."
    ),
    **dict.fromkeys(("__iadd__", "__isub__", "__imul__", "__itruediv__"), _IN_PLACE),
}


class NotImplementedForSymbol(MXNetError):
    """An NDArray-only function was called on a Symbol."""

    def __init__(self, function: str, alias: str | None = None, *args: object) -> None:
        message = f"Function {function}"
        if alias:
            message += f' (namely operator "{alias}")'
        if args:
            message += f" with arguments ({', '.join(str(type(a)) for a in args)})"
        message += " is not implemented for Symbol and only available in NDArray."
        super().__init__(f"{message} {_WAYS.get(function, _NO_VALUES)}")


class OutOfMemoryError(MXNetError, MemoryError):
    """The system, or a limit of this process, does not have enough memory."""


class InternalError(MXNetError):
    """A bug in hybridjit: the message names the stage and the command to replay it."""


def located(
    error: MXNetError, what: str, operands: Iterable[tuple[str, object]] = (), source: str = ""
) -> MXNetError:
    """Add the operator and node (``what``), a line per operand, and the user's line to an error.

    An error that already has a location is returned unchanged: the innermost location is the most
    useful.
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


# Suggestions

_SIMILAR = 0.7  # share of equal letters: at 0.6 "locl" suggests "log"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'adam'?"`` for ``adm``, ignoring case; "" if no known name is similar."""
    by_case = sorted(known, key=lambda one: one[:1].isupper() == name[:1].isupper())
    by_lower = {one.lower(): one for one in by_case}  # Trainer rather than trainer for Trainr
    near = difflib.get_close_matches(name.lower(), by_lower, 1, _SIMILAR)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""


def missing_attribute(
    module: str, name: str, known: Iterable[str] | None = None, others: str = ""
) -> AttributeError:
    """The exception for a name that a module does not have, with the nearest that it has.

    known   the names that it suggests; None: all of the module, whose list may load operators
    others  the table of ``other_names`` with names of another library
    """
    usual = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):  # Python itself looks for such names, also while modules are imported
        return AttributeError(usual)
    names = dir(sys.modules[module]) if known is None else known
    hint = other_names.way(name, others) or did_you_mean(name, names)
    return frames.shortened(AttributeError(usual + hint))  # type: ignore[no-any-return]


def is_of_call(error: TypeError) -> bool:
    """Whether arguments do not fit the called function, so that nothing of it has run.

    For an ``except`` clause around the call.
    """
    trace = error.__traceback__
    return trace is not None and trace.tb_next is None and "argument" in str(error)


def suggesting(module: str, others: str = "") -> Callable[[str], NoReturn]:
    """A ``__getattr__`` of a module that suggests names. Raises :func:`missing_attribute`'s."""

    def __getattr__(name: str) -> NoReturn:
        known = [one for one in vars(sys.modules[module]) if not one.startswith("_")]
        raise missing_attribute(module, name, known, others)

    return __getattr__


def output_and_states(returned: Any) -> tuple[Any, Any]:
    """Both parts of the result of a loop's body. Raises ValueError or TypeError for other ones."""
    try:
        output, states = returned
    except (TypeError, ValueError) as error:
        kind = type(returned).__name__
        raise type(error)(
            f"{error}: the body of foreach returns (output, states), this one returned a {kind}"
        ) from None
    return output, states


def require_no_more(made: object, unknown: Mapping[str, object]) -> None:
    """Raise TypeError for an argument that no constructor among the classes of ``made`` accepts."""
    for name in unknown:
        _refuse(type(made), name)


def require_arguments(kind: type, given: tuple[object, ...], named: Mapping[str, object]) -> None:
    """Raise TypeError for an unknown argument of a constructor, or a missing one.

    Python's own message names the base class that has the constructor, and a misspelt argument only
    as the one that is missing. A call without arguments may be that of ``copy`` or ``pickle``.
    """
    for name in named:
        if name not in _arguments(kind):
            _refuse(kind, name)
    needed = _needed(kind)[len(given) :] if given or named else ()
    for name in needed:
        if name not in named:
            raise TypeError(
                f"{kind.__name__}.__init__() missing 1 required positional argument: {name!r}"
            )


@lru_cache(1024)
def _needed(kind: type) -> tuple[str, ...]:
    """The names of the leading arguments of a constructor that have no default."""
    made = inspect.signature(kind.__init__)  # type: ignore[misc]
    empty, positional = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = list(made.parameters.values())[1:]
    return tuple(p.name for p in found if p.default is empty and p.kind is positional)


def refuse_synonyms(kind: type, given: Iterable[str], synonyms: Mapping[str, str]) -> None:
    """Raise TypeError for an argument under the name that it has in another library.

    synonyms  other names, each with the argument's name here
    """
    known = _arguments(kind)
    for name in given:
        if name not in known and synonyms.get(name) in known:
            _refuse(kind, name, f"; did you mean {synonyms[name]!r}?")


@lru_cache(1024)
def _arguments(kind: type) -> frozenset[str]:
    """The names of the arguments of all constructors of a class and its bases."""
    known: set[str] = set()
    for one in kind.__mro__:
        if "__init__" in vars(one) and one is not object:
            known.update(inspect.signature(vars(one)["__init__"]).parameters)
    return frozenset(known - {"self", "args", "kwargs", "unknown"})


def _refuse(kind: type, name: str, hint: str = "") -> NoReturn:
    known = _arguments(kind)
    hint = hint or did_you_mean(name, known) or f"; it takes {', '.join(sorted(known))}"
    raise TypeError(f"{kind.__name__}.__init__() got an unexpected keyword argument '{name}'{hint}")
