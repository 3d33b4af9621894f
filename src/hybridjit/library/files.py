"""The files of a library: ``NAME.h``, ``NAME.o``, ``NAME.a``, and what else there is.

In: what was built, and a folder. Out: paths. ``NAME.so`` is there where something links it, and
``NAME.weights`` where the weights are in a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import metadata

from ..compiler import new_log
from ..config import config
from ..formats.atomic import system_errors, together, write_atomically
from ..target import Target
from .build import Built, Request, build_training
from .shared import find_linker, link_shared
from .targets import find_targets
from .training import Training


def export_training(
    training: Training, folder: str, name: str, target: str, threads: bool, mapped: bool
) -> list[str]:
    """Compile a step of training and write its files. Raises as both do."""
    targets = find_targets(target, training.options.precision)
    request = Request(name, False, targets, threads, mapped)
    built = build_training(training, request, new_log(config.dump))
    return write_files(built, folder, targets[0])


def write_files(built: Built, out: str, target: Target) -> list[str]:
    """Write the files, all or none, and link for ``target``. Returns their paths.

    Raises MXNetError for a folder that cannot be written to, and with what a linker says.
    """
    stem = os.path.join(out, built.interface.name)
    with system_errors(out):
        os.makedirs(out, exist_ok=True)
    pieces = {
        f"{stem}.h": lambda: [built.header(metadata.version("hybridjit")).encode()],
        f"{stem}.o": built.object,
        f"{stem}.a": built.archive,
    }
    if built.head:
        pieces[f"{stem}.weights"] = built.weights_file
    together(*[partial(_write_one, path, make) for path, make in pieces.items()])
    shared = _link(stem, target)
    return [*pieces, *shared]


def _write_one(path: str, make: Callable[[], Iterable[bytes | memoryview]]) -> None:
    write_atomically(path, make())


def _link(stem: str, target: Target) -> list[str]:
    """The shared library, where something links it; an older one does not stay without it."""
    path = f"{stem}.so"
    linker = find_linker(target)
    if linker is None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        print(f"no {path}: neither a C compiler for {target.triple} nor ziglang is there")
        return []
    link_shared(linker, f"{stem}.o", path)
    return [path]
