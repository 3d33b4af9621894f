"""``hybridjit.onnx.load``: block of an ONNX file, and MXNet's functions for reading.

Input: a file name, and shapes of its inputs if they are symbolic. Output: a hybridized block. Files
are untrusted: reading results in a network or an MXNetError.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .._core.frames import public
from .._core.types import Shape
from ..context import Context
from ..errors import ShapeError
from ..formats.onnx import messages
from ..gluon.symbol_block import SymbolBlock
from ..nd import NDArray
from ..nd import array as array_
from ..sym import Symbol
from .blocks import SizedBlock, make_block
from .files import ModelFile, read_file
from .open_sizes import Imported

Path = str | os.PathLike[str]


@public
def load(
    path: Path, shapes: Mapping[str, Shape] | None = None, ctx: Context | None = None
) -> SymbolBlock:
    """Network of an ONNX file, operator sets 6 to the newest, hybridized.

    ``shapes`` are the shapes of the first call's inputs, by name. If nodes need sizes that the file
    leaves symbolic, each combination of sizes has its own graph, and this one is built immediately.
    Inputs are passed in the file's order, or by name; inputs with an initializer are parameters.
    Raises ModelFormatError if the file is malformed, UnknownOpError with unsupported operators and
    their nodes, and MXNetError with the node for unsupported features.
    """
    file = ModelFile(path)
    try:
        made = file.graph(shapes or {})
    except ShapeError:
        if shapes or not file.is_open:
            raise
        made = None
    file.forget()
    if made is None or (shapes and file.is_open):
        return SizedBlock(file, made, ctx)
    block = make_block(made, ctx)
    block._declared = file.declared
    return block


def read_graph(path: Path, shapes: Mapping[str, Shape] | None = None) -> Imported:
    """Heads, parameters and inputs of a file's graph. Raises the errors of :func:`load`."""
    return ModelFile(path).graph(shapes or {})


# MXNet's functions


@public
def import_model(model_file: Path) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Graph of an ONNX file, its arguments' arrays and its auxiliary states' arrays.

    Raises the errors of :func:`load`.
    """
    imported = read_graph(model_file)
    symbol = Symbol(imported.heads)
    arrays = {name: array_(array, dtype=array.dtype) for name, array in imported.params.items()}
    states = set(symbol.list_auxiliary_states())
    arguments = {name: x for name, x in arrays.items() if name not in states}
    return symbol, arguments, {name: x for name, x in arrays.items() if name in states}


@public
def import_to_gluon(model_file: Path, ctx: Context | None = None) -> SymbolBlock:
    """Network of an ONNX file. Raises the errors of :func:`load`."""
    return load(model_file, ctx=ctx)


@public
def get_model_metadata(model_file: Path) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """Names and shapes of a file's inputs and outputs, 0 for a symbolic size.

    Raises MXNetError if the file cannot be read, ModelFormatError if it is malformed.
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
