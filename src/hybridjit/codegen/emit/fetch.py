"""Objects of the modules that a plan needs: from the disk cache, else emitted and compiled.

Input: the modules, by the text that identifies them in a key. Output: the object code of each. A
compiled object is stored at once, so that an interrupted compilation continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from ..._core.compile_log import CompileLog
from ..._core.frozen import dataclass
from ..._core.lazy import Late
from ..._core.limits import loading_compiler
from ..._core.target import Target
from ..llvm import LEVEL
from .keys import object_key
from .objects import keep_within_limit, load_object, store_object, warn_of_cache
from .progress import Progress

if TYPE_CHECKING:
    from . import compile_pool
else:
    compile_pool = Late(".compile_pool", __package__)  # 3 ms, only for objects that are not stored


@dataclass(frozen=True)
class Wanted:
    """A module: the text that determines its code, its emitter, and how LLVM compiles it.

    ``with_passes`` and ``level`` are those of :func:`compile_object`.
    """

    text: str
    emit: Callable[[], object]
    with_passes: int = True
    level: int = LEVEL


@dataclass(frozen=True)
class Part:
    """Modules of one compilation, and its log."""

    wanted: Sequence[Wanted]
    log: CompileLog


def fetch_objects(
    parts: Iterable[Part], target: Target, processes: int, at_once: bool = False
) -> dict[str, bytes]:
    """The object of each module by its text; compiled by up to ``processes`` processes.

    Workers compile one part while the iterator ``parts`` makes the next one; with ``at_once``, a
    worker starts before the first part is made.
    """
    found: dict[str, bytes] = {}
    origins: dict[str, tuple[str, CompileLog]] = {}
    progress = Progress()

    def done(job: compile_pool.Job) -> None:
        key, log = origins[job.label]
        found[job.label] = job.code
        store_object(key, job.code)
        log.details.append(("kernel", job.label, job.seconds))
        progress.step()

    def missing() -> Iterator[compile_pool.Job]:
        for part in parts:
            keys = {w.text: object_key(w.text, target) for w in part.wanted}
            objects = {text: load_object(key) for text, key in keys.items()}
            cached = {text: code for text, code in objects.items() if code is not None}
            found.update(cached)
            part.log.details += [("cached", text, 0.0) for text in cached]
            new = [w for w in part.wanted if w.text not in cached]
            origins.update({w.text: (keys[w.text], part.log) for w in new})
            progress.expect(len(new), part.log.name)
            for w in new:
                with loading_compiler():
                    job = compile_pool.Job
                yield job(w.text, str(w.emit()), w.with_passes, w.level)

    jobs = missing()
    try:
        first = [] if at_once else [*islice(jobs, 1)]
        if at_once or first:
            with loading_compiler():
                compile_jobs = compile_pool.compile_jobs
            compile_jobs(chain(first, jobs), target, processes, done, at_once)
        progress.end()
    except BaseException:
        progress.end()
        raise
    keep_within_limit(sum(len(found[text]) for text in origins))
    warn_of_cache()
    return found
