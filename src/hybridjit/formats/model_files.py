"""The files of a model that a path names: a prefix, one of its files, a folder or an archive.

In: a path. Out: the paths of the graph and of its parameters. Archives are those of services that
ran MXNet models (``model.tar.gz`` of SageMaker, ``.mar`` and ``.model`` of MXNet Model Server).
Only graphs and parameters leave an archive; code in it is never run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from .._core.lazy import Late
from ..errors import MXNetError, did_you_mean
from .atomic import system_errors

if TYPE_CHECKING:
    from . import archives
else:
    archives = Late(".archives", __package__)  # with the first archive: tarfile takes 10 ms

SYMBOL, PARAMS, ONNX = ENDINGS = ("-symbol.json", ".params", ".onnx")
ZIPS = (".zip", ".mar", ".model")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
ARCHIVES = TARS + ZIPS
_EPOCH = re.compile(r"-(\d{4,})\.params$")


class ModelFiles(NamedTuple):
    """The graph's file and that of its parameters, which is None beside an ONNX file."""

    graph: str
    params: str | None


@contextmanager
def model_files(path: str | os.PathLike[str], epoch: int | None = None) -> Iterator[ModelFiles]:
    """The files of the model at ``path``, which exist inside the ``with`` block.

    epoch  the number in the name of the parameters' file; None: 0, or the only one that is there

    Raises MXNetError for a path without a model or with several, and ModelFormatError for a
    malformed archive.
    """
    name = os.fspath(path)
    if not name.endswith((*ZIPS, *TARS)) or os.path.exists(name + SYMBOL):
        yield find_model(name, epoch)
        return
    with archives.unpacked(name, ENDINGS, name.endswith(ZIPS)) as folder:
        try:
            yield _in_folder(folder, epoch, name)
        except MXNetError as error:  # of a file in it, by the name of the archive
            raise type(error)(str(error).replace(folder, name)) from None


def find_model(name: str, epoch: int | None = None) -> ModelFiles:
    """The files of the model at a path that is not an archive. Raises MXNetError for several."""
    if name.endswith(ONNX):
        return ModelFiles(name, None)
    if name.endswith(SYMBOL) and os.path.exists(name):
        return _of_prefix(name.removesuffix(SYMBOL), epoch)
    found = _EPOCH.search(name)
    if found and os.path.exists(name[: found.start()] + SYMBOL):
        return ModelFiles(name[: found.start()] + SYMBOL, name)
    if os.path.isdir(name) and not os.path.exists(name + SYMBOL):
        return _in_folder(name, epoch, name)
    return _of_prefix(name, epoch)


def _of_prefix(prefix: str, epoch: int | None) -> ModelFiles:
    if not os.path.exists(prefix + SYMBOL):
        raise MXNetError(f"{prefix}: {_without_graph(prefix)}")
    number = _only_epoch(prefix) if epoch is None else epoch
    return ModelFiles(prefix + SYMBOL, f"{prefix}-{number:04d}{PARAMS}")


def _without_graph(prefix: str) -> str:
    """The message for a path that is not the prefix of a graph's file."""
    if os.path.isfile(prefix) and prefix.endswith(PARAMS):
        graph = _prefix_of(prefix) + SYMBOL
        return (
            f"there is no graph beside these parameters, {graph}. net.load_parameters reads them "
            "into a network that your program makes; net.export(PREFIX) writes both files, and "
            "load(PREFIX) reads them"
        )
    if os.path.isfile(prefix):
        return (
            f"a model's file is named PREFIX{SYMBOL}, PREFIX-0000{PARAMS} or "
            f"*{ONNX}, an archive {', '.join(ARCHIVES)}. SymbolBlock.imports takes a graph "
            "and parameters of any names"
        )
    if os.path.exists(prefix) and not os.path.isdir(prefix):
        return "it is neither a file nor a folder"
    folder = os.path.dirname(prefix)
    if folder and not os.path.isdir(folder):
        return f"No such file or directory: there is no folder {folder}"
    near = did_you_mean(prefix.removesuffix(SYMBOL), _models_in(folder))
    if prefix.endswith(ENDINGS):
        return f"No such file or directory{near}"
    return f"No such file or directory, and no {prefix}{SYMBOL} of which it is the prefix{near}"


def near_parameters(path: str | os.PathLike[str]) -> str:
    """``"; did you mean 'net-0000.params'?"`` for a file of parameters that does not exist."""
    folder, name = os.path.split(os.fspath(path))
    if folder and not os.path.isdir(folder):
        return ""
    files = [file for file in _names_in(folder or ".") if file.endswith(PARAMS)]
    of_prefix = [file for file in sorted(files) if _prefix_of(file) == _prefix_of(name)]
    return did_you_mean(of_prefix[0] if of_prefix else name, files)


def _prefix_of(params: str) -> str:
    """``net`` for ``net-0000.params`` and ``net.params``."""
    return _EPOCH.sub("", params).removesuffix(PARAMS)


def _models_in(folder: str) -> list[str]:
    """The models in a folder, as paths that :func:`find_model` takes."""
    names = [name for name in _names_in(folder or ".") if name.endswith((SYMBOL, ONNX))]
    return [os.path.join(folder, name.removesuffix(SYMBOL)) for name in names]


def _only_epoch(prefix: str) -> int:
    """Epoch 0 if it has a file or none has, else the only one. Raises MXNetError for several."""
    if os.path.exists(f"{prefix}-0000{PARAMS}"):
        return 0
    folder, start = os.path.split(prefix)
    names = _names_in(folder or ".") if os.path.isdir(folder or ".") else []
    numbers = {
        int(found[1])
        for found in map(_EPOCH.search, names)
        if found and found.string[: found.start()] == start
    }
    if len(numbers) > 1:
        listed = ", ".join(map(str, sorted(numbers)))
        raise MXNetError(f"{prefix}: there are parameters of the epochs {listed}: give epoch=")
    return min(numbers, default=0)


def _names_in(folder: str) -> list[str]:
    with system_errors(folder):
        return os.listdir(folder)


def _in_folder(folder: str, epoch: int | None, shown: str) -> ModelFiles:
    """The only model of a folder, which errors call ``shown``."""
    names = sorted(name for name in _names_in(folder) if name.endswith((SYMBOL, ONNX)))
    if len(names) != 1:
        found = f"it has {len(names)}: {', '.join(names)}" if names else "it has none"
        raise MXNetError(f"{shown}: one file *{SYMBOL} or *{ONNX} is expected, {found}")
    return find_model(os.path.join(folder, names[0]), epoch)
