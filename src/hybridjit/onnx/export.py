"""Writing of ONNX files: ``HybridBlock.export_onnx`` and MXNet's ``export_model``.

Input: a graph with its parameters, and shapes or an example of its inputs. Output: a file, which is
read back and verified before it replaces an old one.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from .._core.frames import public
from .._core.types import DType, Shape, type_of
from ..control import unrolled
from ..errors import MXNetError, ShapeError
from ..formats.atomic import write_atomically
from ..formats.mxnet import symbol_json
from ..formats.mxnet.named_params import bare_name, load_params, require_parameters
from ..formats.onnx import messages
from ..ir.node import Output, topological
from ..ir.roles import Roles, sort_variables, variables, without_labels
from ..log import get_logger
from ..nd import NDArray
from ..sym import Symbol
from .check import Arrays, require_same
from .exporter import OPSET, Exporter, make_model
from .sizes import Wanted, fixed, opened
from .writers import NEEDED, WRITTEN, by_formula

Path = str | os.PathLike[str]
_MAX_BYTES = 1 << 31  # limit of a message's length in bytes
_SEED = 7


def write_graph(
    path: Path,
    heads: Sequence[Output],
    params: Arrays,
    arrays: Arrays,
    dynamic: bool = False,
    wanted: Wanted | None = None,
    with_types: bool = False,
) -> None:
    """Write a graph after verifying the file on ``arrays``.

    Loops over rows are unrolled to the number of steps that ``arrays`` have.

    dynamic  whether sizes of inputs are symbolic: those in ``wanted``, or all possible ones

    Raises UnknownOpError with every node that cannot be written, ShapeError for a size that cannot
    be symbolic, MXNetError with the node whose result in the file differs.
    """
    known = {name: type_of(x) for name, x in {**params, **arrays}.items()}
    heads = unrolled(tuple(heads), known)
    sizes = opened(heads, params, arrays, wanted) if dynamic else fixed(heads, params, arrays)
    opset = max(NEEDED.get(n.op.name, OPSET) for n in topological(heads) if n.op is not None)
    exporter = Exporter(WRITTEN, by_formula, opset)
    made = make_model(exporter, heads, params, sizes, arrays, with_types)
    chunks = messages.write(made.model)
    count = sum(map(len, chunks))
    if count >= _MAX_BYTES:
        raise MXNetError(
            f"the model has {count} bytes, but an ONNX file can have at most {_MAX_BYTES}"
        )
    data = b"".join(chunks)
    for example in sizes.examples:
        require_same(data, heads, made.names, {**params, **example})
    write_atomically(path, [data])


@public
def export_model(
    sym: Symbol | Path,
    params: Mapping[str, NDArray] | Sequence[Mapping[str, NDArray]] | Path,
    in_shapes: Sequence[Shape] | None = None,
    in_types: DType | Sequence[DType] = np.float32,
    onnx_file_path: Path = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Sequence[Sequence[int | str | None]] | None = None,
    run_shape_inference: bool = False,
    input_type: DType | Sequence[DType] | None = None,
    input_shape: Sequence[Shape] | None = None,
) -> Path:
    """Write a graph and its parameters as an ONNX file; returns its name.

    ``sym`` and ``params`` are a Symbol and its arrays (arguments and states in one dictionary or in
    two), or the names of MXNet's files. ``in_shapes`` and ``in_types`` are those of the inputs in
    the graph's order. With ``dynamic``, sizes of ``dynamic_input_shapes`` that are None or a name
    are symbolic; without that argument all sizes that no operator fixes. ``run_shape_inference``
    writes the types of all nodes; ``verbose`` logs the file's contents. ``input_type`` and
    ``input_shape`` are old names. The file is read back and verified on random values before it
    replaces an old one.

    Raises UnknownOpError with every node that cannot be written, ShapeError for shapes that do not
    match, MXNetError with the node whose result in the file differs.
    """
    heads = sym.outputs if isinstance(sym, Symbol) else symbol_json.load(os.fspath(sym))
    held = _arrays(params)
    roles = sort_variables(heads, held)
    require_parameters(roles, "the parameters", held)
    heads = without_labels(heads, roles.labels)
    shapes = input_shape if in_shapes is None else in_shapes
    types = in_types if input_type is None else input_type
    arrays = _examples(roles, variables(heads), shapes, types)
    wanted = None if dynamic_input_shapes is None else dict(zip(arrays, dynamic_input_shapes))
    write_graph(onnx_file_path, heads, held, arrays, dynamic, wanted, run_shape_inference)
    if verbose:
        get_logger("hybridjit.onnx").warning(
            "wrote %s: inputs %s, outputs of %d nodes",
            os.fspath(onnx_file_path), ", ".join(arrays), len(heads),
        )  # fmt: skip
    return onnx_file_path


def _arrays(
    params: Mapping[str, NDArray] | Sequence[Mapping[str, NDArray]] | Path,
) -> dict[str, np.ndarray]:
    """Arrays by name without ``arg:`` and ``aux:``."""
    if isinstance(params, (str, os.PathLike)):
        return load_params(os.fspath(params))
    parts = [params] if isinstance(params, Mapping) else list(params)
    return {bare_name(name): x.asnumpy() for part in parts for name, x in part.items()}


def _examples(
    roles: Roles,
    read: Collection[str],
    shapes: Sequence[Shape] | None,
    types: DType | Sequence[DType],
) -> dict[str, np.ndarray]:
    """Array for each input. Shapes of labels, which inference does not read, are accepted; those
    of inputs that the graph does not read may be absent.
    """
    count = 0 if shapes is None else len(shapes)
    inputs = [name for name in roles.inputs if count >= len(roles.inputs) or name in read]
    asked = [*inputs, *(roles.labels if count > len(inputs) else ())]
    if shapes is None or count != len(asked):
        raise ShapeError(
            f"the graph has {len(roles.inputs)} inputs ({', '.join(roles.inputs)}), but {count} "
            "shapes are given"
        )
    listed = zip(asked, shapes, _types(types, count))
    made = {n: _example(s, t, i) for i, (n, s, t) in enumerate(listed)}
    return {name: made[name] for name in inputs}


def _types(types: DType | Sequence[DType], count: int) -> list[np.dtype]:
    """Dtype for each input. Raises ShapeError for another count."""
    listed: list[DType] = [types] * count if isinstance(types, (str, type, np.dtype)) else [*types]
    if len(listed) != count:
        raise ShapeError(f"the graph has {count} inputs, but {len(listed)} types are given")
    return [np.dtype(t) for t in listed]


def _example(shape: Shape, dtype: np.dtype, number: int) -> np.ndarray:
    """Normal values, or small integers; equal in each run."""
    draw = np.random.default_rng(_SEED + number)
    if dtype.kind == "f":
        return draw.standard_normal(tuple(shape)).astype(dtype)
    return draw.integers(0, 2, tuple(shape)).astype(dtype)
