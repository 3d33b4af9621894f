"""Files of a library: ``NAME.h``, ``NAME.o``, ``NAME.a`` and optional ones.

Input: a built library and a folder. Output: paths. ``NAME.so`` is written if a linker is installed,
``NAME.weights`` if the weights are in a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import metadata

from .._core.config import config
from .._core.target import Target
from ..compiler import new_log
from ..formats.atomic import system_errors, together, write_atomically
from .build import Built, Request, build_training
from .shared import find_linker, link_shared
from .targets import find_targets
from .training import Training


def export_training(
    training: Training, folder: str, name: str, target: str, threads: bool, mapped: bool
) -> list[str]:
    """Compile a training step and write its files. Raises as the two functions do."""
    targets = find_targets(target, training.options.precision)
    request = Request(name, False, targets, threads, mapped)
    built = build_training(training, request, new_log(config.dump))
    return write_files(built, folder, targets[0])


def write_files(built: Built, out: str, target: Target) -> list[str]:
    """Write the files, all or none, and link for ``target``. Returns their paths.

    Raises MXNetError if the folder is not writable, or with the message of the linker if it fails.
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
    """Link the shared library, if a linker is installed; otherwise delete an outdated one."""
    path = f"{stem}.so"
    linker = find_linker(target)
    if linker is None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        print(
            f"{path} is not written: neither a C compiler for {target.triple} nor ziglang is "
            "installed"
        )
        return []
    link_shared(linker, f"{stem}.o", path)
    return [path]
