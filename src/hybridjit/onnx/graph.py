"""Conversion of ONNX graphs to symbols.

Input: a :class:`..formats.onnx.messages.Model` and the sizes of its inputs. Output: a
:class:`.open_sizes.Imported`: heads, parameters and inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from .._core.frozen import replace
from .._core.symbolic import Scope, Size
from .._core.types import CODE_OF_DTYPE, FLOAT32, PartialShape, Shape, TensorType, shape_text
from ..errors import MXNetError, ShapeError, UnknownOpError
from ..formats.onnx import messages
from ..formats.onnx.tensors import dtype_of
from ..ir.node import Node, Output, apply
from ..ir.roles import variables
from ..ir.signature import annotated, fixed_to, in_order, rebuilt
from ..ir.sized import is_symbolic
from ..ops.registry import lookup
from .functions import inlined
from .importer import (
    Importer,
    Translation,
    Value,
    element_code,
    initializer,
    supported,
)
from .node_order import nodes_of
from .open_sizes import Imported, for_all_sizes, stand_in_shapes
from .use import Use, key_of

_NAMED = 4  # nodes of an unknown operator listed in an error
_BLOCKED = "com.microsoft.nchwc."  # on weights in the blocks of one CPU
_WAY_OUT = (
    "ONNX Runtime wrote this file with layout optimisation, for one CPU: write it again with "
    "graph_optimization_level ORT_ENABLE_EXTENDED or lower, or load the original file"
)


def make_graph(
    model: messages.Model,
    known: Mapping[str, Translation],
    folder: str | None,
    shapes: Mapping[str, Shape],
) -> Imported:
    """Graph of a model as a symbol's heads.

    known   readers by operator type
    folder  folder of external files
    shapes  shapes of inputs; missing ones are those of the model, with symbolic sizes

    Raises UnknownOpError with every operator that has no reader, MXNetError with the node for
    unsupported features.
    """
    model = inlined(model)
    assert model.graph is not None
    require_known(model.graph, known)
    make = partial(_graph_for, model, known, folder)
    try:
        return _described(make(shapes))
    except ShapeError:
        sizes = _open_sizes(model.graph, shapes)
        made = for_all_sizes(lambda closed: make({**shapes, **closed}), sizes) if sizes else None
        if made is None:
            raise
        return _described(made._replace(params=_read_params(made.params, made.heads)))


def _described(made: Imported) -> Imported:
    """Graph with the file's names, order and types of inputs and outputs."""
    heads = annotated(_named(made.heads, made.outputs), _texts(made.inputs))
    return made._replace(heads=in_order(heads, list(made.inputs)))


def _texts(inputs: Mapping[str, TensorType]) -> dict[str, dict[str, str]]:
    """Attributes of inputs: known sizes are fixed; float32 is not written."""
    return {
        name: {
            **({} if t.shape is None else fixed_to(_fixed(t.shape))),
            **_dtype_text(t),
        }
        for name, t in inputs.items()
    }


def _fixed(shape: PartialShape) -> PartialShape:
    return tuple(None if is_symbolic(size) else size for size in shape)


def _dtype_text(type: TensorType) -> dict[str, str]:
    is_usual = type.dtype is None or type.dtype == FLOAT32
    return {} if is_usual else {"__dtype__": str(CODE_OF_DTYPE[type.dtype])}  # type: ignore[index]


def _named(heads: Sequence[Output], names: Sequence[str]) -> tuple[Output, ...]:
    """Graph whose outputs are computed by nodes of these names."""
    called: dict[Node, str] = {}
    alone = []
    for head, name in zip(heads, names):
        if head.node in called or head.node.is_variable or len(head.node.output_names) > 1:
            head = Output(apply(lookup("identity"), name, (head,), {}))
        called[head.node] = name
        alone.append(head)
    return rebuilt(alone, lambda n: replace(n, name=called[n]) if n in called else n)


def _graph_for(
    model: messages.Model,
    known: Mapping[str, Translation],
    folder: str | None,
    shapes: Mapping[str, Shape],
) -> Imported:
    """Graph of the model for inputs of these shapes."""
    graph = model.graph
    assert graph is not None
    importer = Importer(opset_of(model), folder)
    given = {info.name for info in graph.input} | {t.name for t in graph.initializer}
    importer.reserve(info.name for info in graph.output if info.name not in given)
    values = {t.name: initializer(importer, t, folder) for t in graph.initializer}
    inputs: dict[str, TensorType] = {}
    for info in graph.input:
        if info.name not in values:
            inputs[info.name] = _input_type(info, shapes.get(info.name))
            x = importer.variable(info.name, inputs[info.name])
            values[info.name] = importer.stored(x, element_code(info))
    _refuse_others(shapes, inputs)
    importer.count_readers(graph)
    importer.run(graph.node, values, known)
    names = tuple(info.name for info in graph.output)
    heads = tuple(_head(importer, values, name) for name in names)
    params = _read_params(importer.params, heads)
    return Imported(heads, params, inputs, names, frozenset(importer.sized))


def input_shapes(model: messages.Model) -> dict[str, PartialShape | None]:
    """Declared shapes of the model's inputs, with None for symbolic sizes."""
    assert model.graph is not None
    return {info.name: _declared(info) for info in _inputs(model.graph)}


def declared_interface(
    model: messages.Model,
) -> tuple[dict[str, TensorType], dict[str, TensorType]]:
    """Declared types of the model's inputs and outputs; element types that arrays do not have are
    unknown."""
    assert model.graph is not None
    ins, outs = _inputs(model.graph), model.graph.output
    return _declared_types(ins), _declared_types(outs)


def _declared_types(infos: Sequence[messages.ValueInfo]) -> dict[str, TensorType]:
    return {info.name: TensorType(_declared(info), _element_type(info)) for info in infos}


def _element_type(info: messages.ValueInfo) -> np.dtype | None:
    tensor = info.type.tensor_type if info.type is not None else None
    try:
        return None if tensor is None else supported(dtype_of(tensor.elem_type, info.name))
    except MXNetError:
        return None


def _declared(info: messages.ValueInfo) -> PartialShape | None:
    tensor = info.type.tensor_type if info.type is not None else None
    return None if tensor is None or tensor.shape is None else tuple(map(_size, tensor.shape.dim))


def _inputs(graph: messages.Graph) -> list[messages.ValueInfo]:
    """Inputs without an initializer."""
    held = {tensor.name for tensor in graph.initializer}
    return [info for info in graph.input if info.name not in held]


def example_shapes(model: messages.Model) -> list[dict[str, Shape]]:
    """Possible shapes of inputs with symbolic sizes: common sizes and minimal ones."""
    assert model.graph is not None
    sizes = _sizes_by_name(model.graph, {})
    if sizes is None:
        return []
    ones = {n: tuple(k if isinstance(k, int) else 1 for k in dims) for n, dims in sizes.items()}
    return [stand_in_shapes(sizes)[0], ones]


def symbolic_shapes(
    sizes: Mapping[str, Sequence[int | str]], shapes: Mapping[str, Shape]
) -> tuple[Scope, dict[str, Shape]]:
    """Shapes of a call in which sizes are symbols where the model leaves them open.

    sizes  of inputs with open ones, as :func:`open_sizes` gives them
    Sizes of one name and number share a symbol; those of 0 are fixed.
    """
    scope = Scope()
    symbols: dict[tuple[str, int], Size] = {}
    made: dict[str, Shape] = {}
    for name, shape in shapes.items():
        dims: list[int] = [*shape]
        for axis, size in enumerate(sizes.get(name, shape)):
            if isinstance(size, str) and dims[axis] > 0:
                key = size, dims[axis]
                if key not in symbols:
                    symbols[key] = scope.symbol(f"s{len(symbols)}", dims[axis])
                dims[axis] = symbols[key]  # type: ignore[call-overload]
        made[name] = tuple(dims)
    return scope, made


def open_sizes(model: messages.Model) -> dict[str, list[int | str]]:
    """Sizes of inputs with open ones, these by names; none where a number of axes is open."""
    assert model.graph is not None
    return _sizes_by_name(model.graph, {}) or {}


def _open_sizes(
    graph: messages.Graph, shapes: Mapping[str, Shape]
) -> dict[str, list[int | str]] | None:
    """Sizes of inputs with symbolic ones, by the model's names or their positions.

    None if all sizes are known, if a number of axes is unknown, or if a node may depend on sizes
    being 1.
    """
    if any(_looks_for_ones(node) for _, node in nodes_of(graph)):
        return None
    return _sizes_by_name(graph, shapes) or None


def _sizes_by_name(
    graph: messages.Graph, shapes: Mapping[str, Shape]
) -> dict[str, list[int | str]] | None:
    """Sizes of inputs with symbolic ones; None if a number of axes is unknown."""
    found = {}
    for info in (i for i in _inputs(graph) if i.name not in shapes):
        tensor = info.type.tensor_type if info.type is not None else None
        if tensor is None or tensor.shape is None:
            return None
        sizes = [
            _name_of(d) or f"{info.name}:{axis}" if _size(d) is None else d.dim_value or 0
            for axis, d in enumerate(tensor.shape.dim)
        ]
        if any(isinstance(size, str) for size in sizes):
            found[info.name] = sizes
    return found


def opset_of(model: messages.Model) -> int:
    """Version of ONNX's operators. Raises MXNetError if it is too old."""
    versions = [s.version for s in model.opset_import if s.domain in ("", "ai.onnx")]
    version = max(versions, default=1)
    if version < 6:
        raise MXNetError(f"the model has operator set {version}; 6 and newer are supported")
    return version


def unknown_operators(graph: messages.Graph, known: Mapping[str, Translation]) -> dict[str, str]:
    """Operators without a reader, with their uses in the graph."""
    found: dict[str, str] = {}
    for number, node in nodes_of(graph):
        if key_of(node) not in known:
            found[str(Use(node, number, 0, None))] = key_of(node)
    return found


def require_known(graph: messages.Graph, known: Mapping[str, Translation]) -> None:
    """Raise UnknownOpError with every operator that has no reader, and its nodes."""
    missing: dict[str, list[str]] = {}
    for use, name in unknown_operators(graph, known).items():
        missing.setdefault(name, []).append(use)
    if missing:
        lines = [f"    {op}: {_listed(uses)}" for op, uses in sorted(missing.items())]
        if any(op.startswith(_BLOCKED) for op in missing):
            lines.append(_WAY_OUT)
        raise UnknownOpError(
            f"the model uses {len(missing)} operators that are not supported:\n" + "\n".join(lines)
        )


def _listed(uses: Sequence[str]) -> str:
    """The first few, and the total count."""
    more = f", ... ({len(uses)} nodes)" if len(uses) > _NAMED else ""
    return ", ".join(uses[:_NAMED]) + more


def _input_type(info: messages.ValueInfo, shape: Shape | None) -> TensorType:
    tensor = info.type.tensor_type if info.type is not None else None
    if tensor is None:
        raise MXNetError(f"input '{info.name}' is not a tensor")
    dtype = supported(dtype_of(tensor.elem_type, f"input '{info.name}'"))
    declared = _declared(info)
    if shape is not None and not fits(shape, declared):
        asked = shape_text(tuple(shape))
        raise ShapeError(
            f"input '{info.name}' is declared as {TensorType(declared, dtype)}, which does not "
            f"match {asked}"
        )
    return TensorType(declared if shape is None else tuple(shape), dtype)


def _size(dimension: messages.Dimension) -> int | None:
    value = dimension.dim_value
    return None if value is None or value < 0 or dimension.dim_param else value


def _looks_for_ones(node: messages.Node) -> bool:
    """Whether a node's semantics may depend on a size being 1, as in Squeeze without axes."""
    is_bare = len(node.input) == 1 and not any(a.name == "axes" for a in node.attribute)
    return node.op_type == "If" or (node.op_type == "Squeeze" and is_bare)


def _name_of(dimension: messages.Dimension) -> str:
    """Name of a symbolic size; "" for names that mean unknown, such as ``?`` and None."""
    name = dimension.dim_param
    return name if name.replace(".", "_").isidentifier() and name != "None" else ""


def fits(shape: Shape, declared: PartialShape | None) -> bool:
    """Whether a shape matches a declared one."""
    if declared is None:
        return True
    pairs = zip(shape, declared)
    return len(shape) == len(declared) and all(d in (None, size) for size, d in pairs)


def _refuse_others(shapes: Mapping[str, Shape], inputs: Mapping[str, TensorType]) -> None:
    others = sorted(shapes.keys() - inputs.keys())
    if others:
        raise MXNetError(
            f"the model does not have the input '{others[0]}'; its inputs are {', '.join(inputs)}"
        )


def _head(importer: Importer, values: Mapping[str, Value], name: str) -> Output:
    if name not in values:
        raise MXNetError(f"no node computes the output '{name}'")
    value = values[name]
    if value.type.shape == ():  # in the graph it has one axis
        value = importer.without_axes(value)
    return importer.edge(value)


def _read_params(
    params: Mapping[str, np.ndarray], heads: Sequence[Output]
) -> dict[str, np.ndarray]:
    """Parameters that the graph reads."""
    return {name: params[name] for name in variables(heads) if name in params}
