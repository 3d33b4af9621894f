"""What a compilation says of itself: dumped stages, times, reasons.

:class:`CompileLog` is what the compiler and the code generator report to; the switches DUMP, TIMING
and EXPLAIN decide what is shown.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from ..errors import MXNetError
from .config import config

Result = TypeVar("Result")
Sink = Callable[[int, str, str], None]
Watch = Callable[[str, object, Sequence[str]], None]

_COMPILATIONS = itertools.count()


@dataclass
class CompileLog:
    """Dumped stages, times, and reasons of one compilation.

    stages   names of all stages in their order; ``wanted`` are those to dump, or ``all``
    sink     ``sink(number, stage, text)`` receives each stage that is wanted; by default it is
             printed, or written to numbered files where HYBRIDJIT_DUMP_DIR says
    watch    ``watch(stage, made, fired)`` receives what each stage made, as it is, and the titles
             of the rules that fired: for those who show it otherwise than as text
    times    name, description and seconds of each stage
    details  name, description and seconds within a stage, such as each kernel's; processes may
             share them out
    notes    what EXPLAIN prints: a choice and its reason in a line
    name     what is being compiled
    """

    stages: tuple[str, ...]
    wanted: tuple[str, ...] = ()
    sink: Sink | None = None
    watch: Watch | None = None
    times: list[tuple[str, str, float]] = field(default_factory=list)
    details: list[tuple[str, str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    name: str = "graph"

    @cached_property
    def folder(self) -> str:
        """Below HYBRIDJIT_DUMP_DIR, numbered: no compilation of a process replaces another's."""
        safe = re.sub(r"[^\w.-]+", "_", self.name)
        return os.path.join(config.dump_dir, f"{next(_COMPILATIONS):02}-{safe}")

    def wants(self, stage: str) -> bool:
        """Whether the stage is to be dumped."""
        return stage in self.wanted or "all" in self.wanted

    def made(
        self, stage: str, made: object, text: Callable[[], str], fired: Sequence[str] = ()
    ) -> None:
        """A stage has ``made`` this: tell who watches, and dump its text."""
        if self.watch is not None:
            self.watch(stage, made, fired)
        self.dump(stage, text)

    def dump(self, stage: str, text: Callable[[], str]) -> None:
        """Hand the stage's text to the sink, if it is wanted; else no text is made."""
        if self.wants(stage):
            (self.sink or self.show)(self.stages.index(stage), stage, text())

    def show(self, number: int, stage: str, text: str) -> None:
        """Print a stage, or write it to a file in :attr:`folder`."""
        if config.dump_dir:
            write_stage(self.folder, number, stage, text)
        else:
            print(f"==== {stage}\n{text}", file=sys.stderr)

    def timed(self, name: str, description: str, work: Callable[[], Result]) -> Result:
        """What ``work`` returns; the seconds that it takes are added to :attr:`times`."""
        start = time.perf_counter()
        result = work()
        self.times.append((name, description, time.perf_counter() - start))
        return result

    def report(self) -> None:
        """Print what the switches ask for."""
        if config.timing:
            print(self.timing_table(), file=sys.stderr)
        if config.explain:
            for note in self.notes:
                print(note, file=sys.stderr)

    def timing_table(self) -> str:
        """The times in milliseconds: a line a stage, the total, the details from the longest."""
        rows = [_time_row(*row) for row in self.times]
        total = sum(t for _, _, t in self.times)
        details = [_time_row(*row) for row in sorted(self.details, key=lambda row: -row[2])]
        if details:
            details.insert(0, "of these, wherever they were compiled")
        return "\n".join(["compile times", *rows, f"  {1e3 * total:9.2f} ms  total", *details])


def warn_of_unknown(what: str, names: Iterable[str], known: tuple[str, ...]) -> None:
    """Warn, once for all, of the ``names`` that are not among the ``known``."""
    unknown = [name for name in names if name not in known]
    if unknown:
        warnings.warn(f"{what} {', '.join(unknown)}; known are {', '.join(known)}")


def _time_row(name: str, text: str, seconds: float) -> str:
    return f"  {1e3 * seconds:9.2f} ms  {name:<10} {text}"


def write_stage(folder: str | os.PathLike[str], number: int, stage: str, text: str) -> str:
    """Write ``NN-stage.txt`` in ``folder``, which is made; returns the file.

    Raises MXNetError where that cannot be done.
    """
    path = os.path.join(folder, f"{number:02}-{stage}.txt")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise MXNetError(f"{path} cannot be written: {error.strerror or error}") from None
    return path
