"""``mx.log``: loggers whose lines have level, time, process and location."""

from __future__ import annotations

import logging
import sys
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

__all__ = [
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "INFO",
    "NOTSET",
    "WARNING",
    "getLogger",
    "get_logger",
]

_PLACE = "%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]"
_COLOURS = {WARNING: "\x1b[31m", ERROR: "\x1b[31m", CRITICAL: "\x1b[31m", DEBUG: "\x1b[34m"}
_GREEN, _PLAIN = "\x1b[32m", "\x1b[0m"


class _Formatter(logging.Formatter):
    """``I0102 10:11:12 99 file.py:function:7] text``, coloured on a terminal."""

    def __init__(self, colored: bool = True) -> None:
        super().__init__(datefmt="%m%d %H:%M:%S")
        self._colored = colored

    def format(self, record: logging.LogRecord) -> str:
        place = record.levelname[0] + _PLACE
        if self._colored:
            place = _COLOURS.get(record.levelno, _GREEN) + place + _PLAIN
        style = logging.PercentStyle(f"{place} %(message)s")
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        return style.format(record)


def get_logger(
    name: str | None = None,
    filename: str | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """The logger ``name``; its first use here makes it write to a file or to stderr.

    Without a name it is the root logger, unchanged.
    """
    logger = logging.getLogger(name)
    if name is None or getattr(logger, "_hybridjit_made", False):
        return logger
    handler = (
        logging.FileHandler(filename, filemode or "a") if filename else logging.StreamHandler()
    )
    handler.setFormatter(_Formatter(colored=not filename and sys.stderr.isatty()))
    logger.addHandler(handler)
    logger.setLevel(level)
    logger._hybridjit_made = True  # type: ignore[attr-defined]
    return logger


def getLogger(
    name: str | None = None,
    filename: str | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """The older name of :func:`get_logger`."""
    warnings.warn(
        "getLogger is deprecated, Use get_logger instead.", DeprecationWarning, stacklevel=2
    )
    return get_logger(name, filename, filemode, level)
