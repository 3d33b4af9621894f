"""``hybridjit.load``: a block from the files of a model.

Input: a path, or a graph with the roles of its variables and its parameters. Output: a hybridized
block.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import sym
from ._core.async_safety import uncollected
from ._core.background import Task, begin
from ._core.frames import public
from ._core.lazy import Late
from .context import Context
from .errors import MXNetError
from .formats.mxnet import symbol_json
from .gluon.parameter.single import Fresh
from .gluon.symbol_block import SymbolBlock
from .ir.node import Output
from .ir.roles import Roles, sort_variables, without_labels
from .runtime.threads import THREADS
from .sym import Symbol

if TYPE_CHECKING:
    from . import compilation
    from .formats import model_files
    from .formats.mxnet import named_params
else:
    compilation = Late(".compilation", __package__)  # imported with the first network
    model_files = Late(".formats.model_files", __package__)
    named_params = Late(".formats.mxnet.named_params", __package__)
onnx: Any = Late(".onnx", __package__)  # with the first ONNX file; a layer above


@public
def load(
    path: str | os.PathLike[str], epoch: int | None = None, ctx: Context | None = None
) -> SymbolBlock:
    """A network from its files, compiled from the first call on.

    Its inputs are the graph's variables without a parameter, in the order of the graph; an ONNX
    file's are its inputs. Labels of training graphs need not be given; arrays that the graph does
    not use are ignored.

    Parameters
    ----------
    path : str or os.PathLike
        A prefix of ``PREFIX-symbol.json`` and ``PREFIX-NNNN.params``, one of these two files, an
        ``.onnx`` file, a folder with one such model, or an archive with one: ``.tar.gz``, ``.tgz``,
        ``.tar``, ``.zip``, or ``.mar`` and ``.model`` of MXNet's model server. Code in an archive
        is not run.
    epoch : int, optional
        Number in the name of the parameters' file; by default 0, or the only one that exists.
    ctx : Context, optional
        Context of the parameters; by default the current one.

    Raises
    ------
    MXNetError
        For files that are missing, malformed, or do not match, and for several models or epochs.

    Examples
    --------
    >>> net = mx.load("examples/digits/digits")
    >>> net(nd.zeros((1, 1, 28, 28))).shape
    (1, 10)
    """
    with model_files.model_files(path, epoch) as files:
        if files.params is None:
            return onnx.load(files.graph, ctx=ctx)  # type: ignore[no-any-return]
        return _load(files.graph, files.params, ctx)


def _load(graph: str, path: str, ctx: Context | None) -> SymbolBlock:
    with _Reading(path) as reading:  # read by another thread during the graph's parsing
        outputs = symbol_json.load(graph)
        compilation.prepare()
    params = reading.result()
    roles = sort_variables(outputs, params)
    named_params.require_parameters(roles, path, params)
    fresh = {name: Fresh(array) for name, array in params.items()}
    return make_block(outputs, roles, fresh, ctx)


class _Reading:
    """A parameter file that another thread reads during a ``with`` block, if threads are
    possible."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._params: dict[str, np.ndarray] = {}
        self._error: BaseException | None = None
        self._task: Task | None = None
        self._is_begun = False

    def __enter__(self) -> _Reading:
        if THREADS.count > 1:
            self._task = begin(self._read)
        return self

    def __exit__(self, *error: object) -> None:
        if self._task is not None:
            self._task.wait()
        if not self._is_begun and error[0] is None:
            self._read()

    def _read(self) -> None:
        self._is_begun = True
        try:
            self._params = named_params.load_params(self._path)
        except BaseException as error:
            self._error = error

    def result(self) -> dict[str, np.ndarray]:
        """The result of :func:`.named_params.load_params`. Raises its exception."""
        if self._error is not None:
            raise self._error
        return self._params


@uncollected
def make_block(
    outputs: Iterable[Output],
    roles: Roles,
    params: Mapping[str, Fresh | np.ndarray],
    ctx: Context | None = None,
) -> SymbolBlock:
    """Make a hybridized block of a graph with these parameters, without its labels.

    Raises MXNetError if the graph has no input, and if a parameter does not fit.
    """
    if not roles.inputs:
        raise MXNetError("the graph has no input: every variable in it is a parameter")
    heads = without_labels(outputs, roles.labels)
    block = SymbolBlock(Symbol(heads), [sym.var(name) for name in roles.inputs])
    try:
        block.collect_params().load_dict(
            params, ctx, ignore_extra=True, cast_dtype=True, dtype_source="saved"
        )
    except AssertionError as error:
        raise MXNetError(str(error)) from None
    block.hybridize()
    return block
