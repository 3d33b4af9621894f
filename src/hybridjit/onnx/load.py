"""``hybridjit.onnx.load``: a block from an ONNX file, and what MXNet has for that.

In: a file's name, and the shapes of its inputs where the file leaves them open. Out: a hybridized
block. The file is from anybody: it ends in a network or in an MXNetError.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .. import sym
from ..context import Context
from ..errors import ModelFormatError
from ..formats.atomic import system_errors
from ..formats.onnx import messages
from ..gluon.parameter.single import Fresh
from ..gluon.symbol_block import SymbolBlock
from ..nd import NDArray
from ..nd import array as array_
from ..opening import open_file
from ..sym import Symbol
from ..types import Shape
from .graph import Imported, make_graph
from .operators import KNOWN

Path = str | os.PathLike[str]
_MAX_BYTES = 1 << 31  # what a message can be long by its format


def load(
    path: Path, shapes: Mapping[str, Shape] | None = None, ctx: Context | None = None
) -> SymbolBlock:
    """The network of an ONNX file, operator sets 6 to the newest, ready to be called.

    ``shapes`` are those of inputs, by name, where the file leaves sizes open that its nodes ask
    for. The inputs are called in the file's order; those with an initializer are parameters.
    Raises ModelFormatError for a file that is none, UnknownOpError listing operators that are not
    known with their nodes, and MXNetError naming the node for what is not supported.
    """
    return make_block(read_graph(path, shapes), ctx)


def read_graph(path: Path, shapes: Mapping[str, Shape] | None = None) -> Imported:
    """The same as a symbol's heads with parameters and inputs. Raises what :func:`load` does."""
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    try:
        return make_graph(read_file(path), KNOWN, folder, shapes or {})
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from None


def read_file(path: Path) -> messages.Model:
    """A file's messages. Raises MXNetError for a file that cannot be read, ModelFormatError."""
    with system_errors(path), open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > _MAX_BYTES:
            raise ModelFormatError(f"{size} bytes: a model has at most {_MAX_BYTES}")
        file.seek(0)
        return messages.read_model(file.read(size))


def make_block(imported: Imported, ctx: Context | None = None) -> SymbolBlock:
    """A hybridized block of a graph with its parameters."""
    block = SymbolBlock(Symbol(imported.heads), [sym.var(name) for name in imported.inputs])
    fresh = {name: Fresh(array) for name, array in imported.params.items()}
    block.collect_params().load_dict(
        fresh, ctx, ignore_extra=True, cast_dtype=True, dtype_source="saved"
    )
    block.hybridize()
    return block


# MXNet's functions


def import_model(model_file: Path) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """The graph of an ONNX file, its arguments' arrays and its auxiliary states'.

    Raises as :func:`load` does.
    """
    imported = read_graph(model_file)
    symbol = Symbol(imported.heads)
    arrays = {name: array_(array, dtype=array.dtype) for name, array in imported.params.items()}
    states = set(symbol.list_auxiliary_states())
    arguments = {name: x for name, x in arrays.items() if name not in states}
    return symbol, arguments, {name: x for name, x in arrays.items() if name in states}


def import_to_gluon(model_file: Path, ctx: Context | None = None) -> SymbolBlock:
    """The network of an ONNX file. Raises as :func:`load` does."""
    return load(model_file, ctx=ctx)


def get_model_metadata(model_file: Path) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """Names and shapes of a file's inputs and outputs, 0 for a size that is open.

    Raises MXNetError for a file that cannot be read, ModelFormatError for one that is none.
    """
    graph = read_file(model_file).graph
    assert graph is not None
    params = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in params]
    return {
        "input_tensor_data": [(info.name, _sizes(info)) for info in inputs],
        "output_tensor_data": [(info.name, _sizes(info)) for info in graph.output],
    }


def _sizes(info: messages.ValueInfo) -> tuple[int, ...]:
    tensor = info.type.tensor_type if info.type is not None else None
    if tensor is None or tensor.shape is None:
        return ()
    return tuple(dimension.dim_value or 0 for dimension in tensor.shape.dim)
