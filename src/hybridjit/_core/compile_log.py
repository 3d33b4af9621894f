"""The output of a compilation about itself: dumped stages, times, reasons.

The compiler and the code generator report to a :class:`CompileLog`; the switches DUMP, TIMING and
EXPLAIN select the output.
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
from typing import Any, TypeVar

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
    sink     ``sink(number, stage, text)`` receives each wanted stage; by default it is printed, or
             written to numbered files in HYBRIDJIT_DUMP_DIR
    watch    ``watch(stage, made, fired)`` receives the object that each stage made, and the titles
             of the rules that fired: for viewers that show more than text
    times    name, description and seconds of each stage
    details  name, description and seconds within a stage, such as each kernel's; several processes
             may have worked at once
    notes    lines that EXPLAIN prints: a choice and its reason
    name     name of the graph that is compiled
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
        """A numbered folder of this compilation below HYBRIDJIT_DUMP_DIR."""
        safe = re.sub(r"[^\w.-]+", "_", self.name)
        return os.path.join(config.dump_dir, f"{next(_COMPILATIONS):02}-{safe}")

    def wants(self, stage: str) -> bool:
        """Whether the stage is to be dumped."""
        return stage in self.wanted or "all" in self.wanted

    def made(
        self, stage: str, made: object, text: Callable[[], str], fired: Sequence[str] = ()
    ) -> None:
        """Report the result of a stage: call ``watch``, and dump the text."""
        if self.watch is not None:
            self.watch(stage, made, fired)
        self.dump(stage, text)

    def dump(self, stage: str, text: Callable[[], str]) -> None:
        """Pass the stage's text to the sink if the stage is wanted; otherwise no text is made."""
        if self.wants(stage):
            (self.sink or self.show)(self.stages.index(stage), stage, text())

    def show(self, number: int, stage: str, text: str) -> None:
        """Print a stage, or write it to a file in :attr:`folder`."""
        if config.dump_dir:
            write_stage(self.folder, number, stage, text)
        else:
            print(f"==== {stage}\n{text}", file=sys.stderr)

    def timed(self, name: str, description: str, work: Callable[[], Result]) -> Result:
        """Call ``work`` and return its result; its duration is added to :attr:`times`."""
        start = time.perf_counter()
        result = work()
        self.times.append((name, description, time.perf_counter() - start))
        return result

    def report(self) -> None:
        """Print the output that the switches select, and log the compilation.

        A program without ``logging`` pays nothing: it cannot have a handler.
        """
        self._record(sys.modules.get("logging"))
        if config.timing:
            print(self.timing_table(), file=sys.stderr)
        if config.explain:
            for note in self.notes:
                print(note, file=sys.stderr)

    def _record(self, logging: Any) -> None:
        """Records of the logger ``hybridjit``: INFO for the compilation, DEBUG for its reasons."""
        if logging is None or not hasattr(logging, "getLogger"):
            return
        logger = logging.getLogger("hybridjit")
        if not logger.isEnabledFor(logging.INFO):
            return
        kinds = [kind for kind, _, _ in self.details]
        logger.info(
            "compiled %s in %.2f s: %d kernels compiled, %d from the cache",
            self.name,
            sum(seconds for _, _, seconds in self.times),
            kinds.count("kernel"),
            kinds.count("cached"),
        )
        for note in self.notes:
            logger.debug("%s: %s", self.name, note)

    def timing_table(self) -> str:
        """The times in milliseconds: a line per stage, the total, details, longest first."""
        rows = [_time_row(*row) for row in self.times]
        total = sum(t for _, _, t in self.times)
        details = [_time_row(*row) for row in sorted(self.details, key=lambda row: -row[2])]
        if details:
            details.insert(0, "of these, wherever they were compiled")
        return "\n".join(["compile times", *rows, f"  {1e3 * total:9.2f} ms  total", *details])


def warn_of_unknown(what: str, names: Iterable[str], known: tuple[str, ...]) -> None:
    """Issue one warning for all ``names`` that are not among the ``known``."""
    unknown = [name for name in names if name not in known]
    if unknown:
        warnings.warn(f"{what} {', '.join(unknown)}; known are {', '.join(known)}")


def _time_row(name: str, text: str, seconds: float) -> str:
    return f"  {1e3 * seconds:9.2f} ms  {name:<10} {text}"


def write_stage(folder: str | os.PathLike[str], number: int, stage: str, text: str) -> str:
    """Write ``NN-stage.txt`` in ``folder``, which is created; returns the path.

    Raises MXNetError where the file cannot be written.
    """
    path = os.path.join(folder, f"{number:02}-{stage}.txt")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise MXNetError(f"{path} cannot be written: {error.strerror or error}") from None
    return path
