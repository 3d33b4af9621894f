"""Stack frames: the user's line that an error names, tracebacks without hybridjit's frames.

A public call that fails raises its exception with :func:`shortened`: the user's frames stay, and of
hybridjit's only the public calls. ``HYBRIDJIT_TRACEBACK=full`` keeps all.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial, wraps
from types import FrameType, FunctionType, TracebackType
from typing import Any, ParamSpec, TypeVar

from ..errors import InternalError, MXNetError
from .config import PREFIX, config

E = TypeVar("E", bound=BaseException)
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_ZOO = os.path.join(_PACKAGE, "gluon", "model_zoo", "")
_CELL = re.compile(r"<ipython-input-(\d+)-\w+>")  # a cell's file name in older notebooks
_CONTEXT = 3  # IPython's 5 print 17 lines for an error in hybrid_forward
_DOORS = ("__init__", "__call__", "__getitem__", "__iter__", "__next__")
_UNCHANGED = (InternalError, StopIteration)  # faults of hybridjit; the end of an iteration
FAILURES = (Exception, KeyboardInterrupt)  # for ``except`` around the body of a public function
CO_GENERATOR = 0x20  # as in ``inspect``, which takes 5 ms to import
_PROCESS = os.getpid()
_NOTE = f"(hybridjit's own frames are left out; {PREFIX}TRACEBACK=full shows them)"


def user_line() -> str:
    """The innermost line of the calling stack that is outside of hybridjit, or in the model zoo.

    Networks of the zoo are like a user's: the line is that of the layer.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame) and not _is_of_zoo(frame):
        frame = frame.f_back
    if frame is None:
        return ""
    code = frame.f_code
    cell = _cell_of(code.co_filename)
    if not cell:
        return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
    inside = "" if code.co_name == "<module>" else f" in {code.co_name}"
    return f"{cell}, line {frame.f_lineno}{inside}"


def is_called_by_program(levels: int) -> bool:
    """Whether the frame ``levels`` above that of the calling function is the program's."""
    return not _is_own(sys._getframe(levels + 1))


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_PACKAGE)


def _is_of_zoo(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(_ZOO) and code.co_name == "hybrid_forward"


def _cell_of(name: str) -> str:
    """``Cell In[3]`` for the pseudo file of a notebook's cell; "" for other files.

    Tracebacks of notebooks use the same name.
    """
    if match := _CELL.fullmatch(name):
        return f"Cell In[{match[1]}]"
    compiler = getattr(_shell(), "compile", None)
    number = getattr(compiler, "_filename_map", {}).get(name)
    return "" if number is None else f"Cell In[{number}]"


def _shell() -> Any:
    """The shell of a notebook; None in other programs."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def _rendered(error: BaseException) -> Any:
    """The text of an exception in a notebook, which prints source lines around each frame.

    It has the frames of the program alone, the public call is in the program's line, and
    ``_CONTEXT`` source lines for each.
    """
    is_short = config.traceback != "full" and not isinstance(error, _UNCHANGED)
    kept, entry = [], error.__traceback__
    while entry is not None:
        if not (is_short and _is_own(entry.tb_frame)):
            kept.append(entry)
        entry = entry.tb_next
    printer = _shell().InteractiveTB.structured_traceback
    return printer(type(error), error, _chained(kept), None, _CONTEXT)


MXNetError._render_traceback_ = _rendered  # IPython's protocol


def _render_in_notebook(error: BaseException) -> None:
    """Let a notebook print an exception that is not an MXNetError by :func:`_rendered`.

    In a process that a notebook forked it is left as it is, to be pickled.
    """
    if hasattr(_shell(), "InteractiveTB") and os.getpid() == _PROCESS:
        error._render_traceback_ = partial(_rendered, error)  # type: ignore[attr-defined]


def shortened(error: E) -> E:
    """The exception with fewer frames, for ``raise`` in the public function that caught it.

    An interrupt has all frames, except in a notebook, where interrupting a cell is usual.
    """
    if isinstance(error, KeyboardInterrupt):
        _render_in_notebook(error)
        own = error.__traceback__
        return error.with_traceback(own and own.tb_next)  # `raise` adds the frame again
    if config.traceback == "full" or isinstance(error, _UNCHANGED):
        return error
    own = error.__traceback__  # begins with the public function's frame; `raise` adds it again
    kept, left_out = _shortened(own.tb_next if own is not None else None, own is not None)
    _shorten_causes(error)
    if not isinstance(error, MXNetError):
        _render_in_notebook(error)
    if left_out and hasattr(error, "add_note") and _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)
    return error.with_traceback(kept)


def public(function: Callable[P, R]) -> Callable[P, R]:
    """The function, raising its exceptions with :func:`shortened`; a call costs 0.2 us more.

    For a generator function the items are yielded as before.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs) if kwargs else function(*args)  # type: ignore[call-arg]
        except FAILURES as error:
            raise shortened(error)

    def items(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            yield from function(*args, **kwargs)  # type: ignore[misc]
        except FAILURES as error:
            raise shortened(error)

    made = items if function.__code__.co_flags & CO_GENERATOR else call
    made.__code__ = made.__code__.replace(co_name=function.__name__)
    return wraps(function)(made)


def public_methods(kind: type[C]) -> type[C]:
    """The class, with :func:`public` around its constructor, calls and public methods."""
    for name, value in list(vars(kind).items()):
        if name[0] == "_" and name not in _DOORS:
            continue
        if isinstance(value, FunctionType):
            setattr(kind, name, public(value))
        elif isinstance(value, (staticmethod, classmethod)):
            setattr(kind, name, type(value)(public(value.__func__)))
    return kind


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line of the calling stack that is outside of hybridjit."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and _is_own(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _shorten_causes(error: BaseException) -> None:
    seen = {id(error)}
    before = error.__cause__ or error.__context__
    while before is not None and id(before) not in seen:
        seen.add(id(before))
        before.__traceback__, _ = _shortened(before.__traceback__, True)
        before = before.__cause__ or before.__context__
    cause = error.__cause__
    if cause is not None and cause.__traceback__ is None and str(cause) in str(error):
        error.__cause__ = None  # its text would be printed twice, without a line of the program


def _shortened(start: TracebackType | None, after_own: bool) -> tuple[TracebackType | None, bool]:
    """The user's frames and hybridjit's that they called; and whether others were left out.

    after_own  whether hybridjit called the first
    """
    kept: list[TracebackType] = []
    left_out, entry, is_called = False, start, after_own
    while entry is not None:
        is_own = _is_own(entry.tb_frame)
        if after_own and (is_own or entry.tb_frame.f_code.co_filename == contextlib.__file__):
            left_out = True
        else:
            kept.append(entry)
            after_own = is_own
        entry = entry.tb_next
    if is_called and kept and after_own:  # below the public call, the program's line is the last
        kept.pop()
        left_out = True
    return _chained(kept), left_out


def _chained(entries: list[TracebackType]) -> TracebackType | None:
    """A traceback of these entries alone."""
    made: TracebackType | None = None
    for entry in reversed(entries):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made
