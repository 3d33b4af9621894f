"""Objects for what a plan needs: from the disk cache, else emitted and compiled.

In: what is wanted, by the text that stands for it in a key. Out: the object code of each. What is
compiled is stored at once, so that an interrupted compilation goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...compile_log import CompileLog
from ...records import dataclass
from ...target import Target
from .compile_pool import Job, compile_jobs
from .objects import load_object, object_key, prune, store_object, warn_of_cache
from .progress import Progress


@dataclass(frozen=True)
class Wanted:
    """A module: the text that its code follows from, how to emit it, and how LLVM compiles it.

    ``with_passes`` and ``level`` are those of :func:`compile_object`.
    """

    text: str
    emit: Callable[[], object]
    with_passes: bool = True
    level: int = 3


def fetch_objects(
    wanted: Sequence[Wanted], target: Target, processes: int, log: CompileLog
) -> list[bytes]:
    """The object of each, in order; compiled by up to ``processes`` processes."""
    keys = {w.text: object_key(w.text, target) for w in wanted}
    found = {w.text: code for w in wanted if (code := load_object(keys[w.text])) is not None}
    missing = [w for w in wanted if w.text not in found]
    log.details += [("cached", text, 0.0) for text in found]
    if missing:
        progress = Progress(log.name, len(missing))

        def done(job: Job) -> None:
            found[job.label] = job.code
            store_object(keys[job.label], job.code)
            log.details.append(("kernel", job.label, job.seconds))
            progress.step()

        jobs = (Job(w.text, str(w.emit()), w.with_passes, w.level) for w in missing)
        try:
            compile_jobs(jobs, target, processes, done)
            progress.end()
        except BaseException:
            progress.end()
            raise
        prune()
    warn_of_cache()
    return [found[w.text] for w in wanted]
