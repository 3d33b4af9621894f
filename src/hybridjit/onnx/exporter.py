"""Conversion of symbols to ONNX graphs: traversal of nodes, and the builder of writers.

Input: a symbol's heads, its parameters and the types of its inputs. Output: a
:class:`..formats.onnx.messages.Model`. Values that depend on parameters only are computed and
become initializers. An operator without a writer is written by its formula or its expansion;
without these it is not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from .._core.frozen import dataclass
from .._core.types import UNKNOWN, Shape, TensorType, is_known_shape, type_of
from ..errors import MXNetError, ShapeError, UnknownOpError
from ..formats.onnx import messages
from ..formats.onnx.tensors import CODES, make_tensor
from ..ir.node import Node, Output, topological
from ..ops.attrs import Attrs, AttrValue
from ..ops.building import Made, parts_of
from ..ops.quantized import WEIGHT_FROM_BYTES
from ..ops.record import OpDef
from ..ops.registry import lookup, run_ref
from .importer import partial_types
from .sizes import Opened, Place, Source

OPSET = 17  # operator set, unless a node needs a newer one
_IR_VERSIONS = {17: 8, 19: 9}
_AXES_ARE_OPERANDS = 18  # first operator set with axes of reductions as operands
_SHARED = 64  # equal constants of at most so few elements are shared

AttributeValue: TypeAlias = "int | float | str | Sequence[int] | Sequence[str] | np.ndarray"


@dataclass(frozen=True, eq=False)
class Value:
    """Tensor in the exporter: known elements, or its name in the file."""

    type: TensorType
    array: np.ndarray | None = None
    name: str = ""

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known."""
        return self.array is not None


class Use(NamedTuple):
    """Use of an operator: base name of its results, attributes, result types.

    sources  for a use without operands: axes of inputs that have its symbolic sizes
    """

    op: OpDef
    name: str
    attrs: Attrs
    types: Sequence[TensorType]
    sources: Sequence[Source] = ()


T = TypeVar("T")
Written: TypeAlias = "Value | Sequence[Value]"
Translation = Callable[..., Written]


class Refusal(NamedTuple):
    """Node that cannot be written, and the reason."""

    node: Node
    reason: str


class Exporter:
    """Creates ONNX nodes for a symbol's nodes: a builder with the interface that ``expand`` uses.

    known     writers by operator name
    formulas  writes a use by its operator's formula of one element
    opset     operator set of the model
    """

    def __init__(
        self, known: Mapping[str, Translation], formulas: Translation, opset: int = OPSET
    ) -> None:
        self.opset = opset
        self.nodes: list[messages.Node] = []
        self.initializers: dict[str, np.ndarray] = {}
        self._known = known
        self._formulas = formulas
        self._names: set[str] = set()
        self._edges: dict[int, tuple[np.ndarray, str]] = {}
        self._shared: dict[tuple[object, ...], str] = {}
        self._use: Use | None = None

    # Interface of writers

    def emit(
        self,
        op_type: str,
        *inputs: Value | None,
        at: str = "",
        type: TensorType = UNKNOWN,
        **attributes: AttributeValue,
    ) -> Value:
        """Add a node with one output. ``type`` is required if the writer reads it later."""
        return self.emits(op_type, *inputs, at=at, types=(type,), **attributes)[0]

    def emits(
        self,
        op_type: str,
        *inputs: Value | None,
        at: str = "",
        types: Sequence[TensorType],
        **attributes: AttributeValue,
    ) -> list[Value]:
        """Add a node with one output for each of ``types``."""
        assert self._use is not None
        if "axes" in attributes and self.opset >= _AXES_ARE_OPERANDS:
            axes = attributes.pop("axes")
            inputs = (*inputs, self.constant(np.array(axes, np.int64)))
        base = f"{self._use.name}:{at}" if at else self._use.name
        several = len(types) > 1
        names = [self.fresh(f"{base}{i}" if several else base) for i in range(len(types))]
        edges = [self._edge(x) if x is not None else "" for x in inputs]
        while edges and not edges[-1]:
            edges.pop()
        made = tuple(_attribute(name, value) for name, value in attributes.items())
        self.nodes.append(messages.Node(edges, names, names[0], op_type, made))
        return [Value(t, None, name) for t, name in zip(types, names)]

    def op(self, op: OpDef | str, /, *inputs: Value, at: str = "", **attrs: AttrValue) -> Value:
        """First output of an MXNet operator."""
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(
        self, op: OpDef | str, /, *inputs: Value, at: str = "", **attrs: AttrValue
    ) -> tuple[Value, ...]:
        """All outputs of an MXNet operator: constants if all operands are."""
        assert self._use is not None
        record = lookup(op) if isinstance(op, str) else op
        whole = record.with_defaults(attrs)
        types = partial_types(record, [x.type for x in inputs], whole)
        name = f"{self._use.name}:{at}" if at else self._use.name
        return tuple(self.write(Use(record, name, whole, types), inputs))

    def type(self, x: Value) -> TensorType:
        """Type of a value. Raises ShapeError if sizes are symbolic."""
        self.shape(x)
        return x.type

    def shape(self, x: Value) -> Shape:
        """Shape of a value. Raises ShapeError if sizes are symbolic."""
        if not is_known_shape(x.type.shape):
            raise ShapeError(f"needs known sizes, but some of {x.type} are symbolic")
        return x.type.dims

    def size(self, type: TensorType, axis: int) -> int:
        """Size of an axis of a type. Raises ShapeError if it is symbolic."""
        found = None if type.shape is None else type.shape[axis]
        if found is None:
            raise ShapeError(f"needs known sizes, but some of {type} are symbolic")
        return found

    def rank(self, x: Value) -> int:
        """Number of axes. Raises ShapeError if unknown."""
        return len(self.shape(x)) if x.type.shape is None else len(x.type.shape)

    def dtype(self, x: Value) -> np.dtype:
        """Element type. Raises MXNetError if unknown."""
        if x.type.dtype is None:
            raise MXNetError("has an operand of unknown element type")
        return x.type.dtype

    def constant(self, array: np.ndarray) -> Value:
        """Value with known elements."""
        return Value(type_of(array), array)

    def ints(self, *numbers: int) -> Value:
        """int64 vector, for shapes and axes of ONNX's operators."""
        return self.constant(np.array(numbers, np.int64))

    def like(self, x: Value, number: float) -> Value:
        """Scalar constant without axes, of the dtype of ``x``."""
        with np.errstate(over="ignore"):
            return self.constant(np.array(number, np.float64).astype(self.dtype(x)))

    def cast(self, x: Value, dtype: np.dtype | str, at: str = "cast") -> Value:
        """``x`` converted to a dtype; unchanged if it has this dtype."""
        dtype = np.dtype(dtype)
        if x.type.dtype is not None and x.type.dtype == dtype:  # None == float64 in NumPy
            return x
        return self.emit("Cast", x, at=at, type=x.type.with_dtype(dtype), to=CODES[dtype])

    # Creation of nodes

    def fresh(self, name: str) -> str:
        """``name``, with a suffix if it is taken."""
        fresh, number = name, 1
        while fresh in self._names:
            fresh, number = f"{name}_{number}", number + 1
        self._names.add(fresh)
        return fresh

    def name_constant(self, name: str, array: np.ndarray) -> Value:
        """Parameter, which becomes an initializer of this name if a node reads it."""
        self._edges[id(array)] = array, self.fresh(name)
        return self.constant(array)

    def _edge(self, x: Value) -> str:
        if x.array is None:
            return x.name
        found = self._edges.get(id(x.array))
        name = self._constant_name(x.array) if found is None else found[1]
        self._edges[id(x.array)] = x.array, name
        self.initializers.setdefault(name, x.array)
        return name

    def _constant_name(self, array: np.ndarray) -> str:
        assert self._use is not None
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= _SHARED else None
        if key is not None and key in self._shared:
            return self._shared[key]
        name = self.fresh(f"{self._use.name}:constant")
        if key is not None:
            self._shared[key] = name
        return name

    # Traversal

    def write(self, use: Use, inputs: Sequence[Value]) -> Sequence[Value]:
        """Results of a use: computed if all operands are known, except dequantized weights, which
        other programs multiply as bytes. Raises MXNetError if it cannot be written.
        """
        arrays = [x.array for x in inputs if x.array is not None]
        if len(arrays) == len(inputs) and not use.op.is_random and use.op is not WEIGHT_FROM_BYTES:
            if not inputs and not all(t.is_known for t in use.types):
                return [self._used(use, self._filled)]
            return [self.constant(a) for a in run_ref(use.op, arrays, use.attrs)]
        if use.op.traits.reads_shape and inputs[0].type.is_known:
            stand_in = np.broadcast_to(np.zeros((), self.dtype(inputs[0])), inputs[0].type.dims)
            return [self.constant(a) for a in run_ref(use.op, [stand_in], use.attrs)]
        made = self._used(use, lambda: self._translated(use, inputs))
        values = [made] if isinstance(made, Value) else list(made)
        return [
            Value(t if x.type.shape is None else x.type, x.array, x.name)
            for t, x in zip(use.types, values)
        ]

    def _used(self, use: Use, translated: Callable[[], T]) -> T:
        before, self._use = self._use, use
        try:
            return translated()
        finally:
            self._use = before

    def _filled(self) -> Value:
        """Constant array whose sizes are sizes of inputs."""
        use = self._use
        assert use is not None
        rank = len(use.types[0].shape or ())
        if "shape" not in use.attrs or len(use.sources) != rank or None in use.sources:
            raise ShapeError(f"creates {use.types[0]}, which has symbolic sizes")
        (few,) = run_ref(use.op, [], {**use.attrs, "shape": (2,) * rank})
        if (few != few.reshape(-1)[0]).any():
            raise ShapeError(f"creates {use.types[0]}, which has symbolic sizes")
        sizes = [self._size(source) for source in use.sources]
        shape = self.emit("Concat", *sizes, at="shape", axis=0)
        return self.emit("ConstantOfShape", shape, type=use.types[0], value=few.reshape(-1)[:1])

    def _size(self, source: Source) -> Value:
        """Size as an array of one element."""
        if not isinstance(source, Place):
            assert source is not None
            return self.ints(source)
        whole = self.emit("Shape", Value(UNKNOWN, None, source.input), at="sizes")
        return self.emit("Gather", whole, self.ints(source.axis), at="size", axis=0)

    def _translated(self, use: Use, inputs: Sequence[Value]) -> Written:
        if use.op.name in self._known:
            return self._known[use.op.name](self, use, *inputs)
        if use.op.scalar is not None:
            return self._formulas(self, use, *inputs)
        made: Made[Value] = parts_of(use.op, self, inputs, use.attrs)
        if made is None:
            raise UnknownOpError("has no equivalent among ONNX's operators")
        return made


def _attribute(name: str, value: AttributeValue) -> messages.Attribute:
    if isinstance(value, np.ndarray):
        return messages.Attribute(name=name, t=make_tensor("", value), type=4)
    if isinstance(value, str):
        return messages.Attribute(name=name, s=memoryview(value.encode()), type=3)
    if isinstance(value, float):
        return messages.Attribute(name=name, f=value, type=1)
    if isinstance(value, int):
        return messages.Attribute(name=name, i=int(value), type=2)
    if value and isinstance(value[0], str):
        texts = tuple(memoryview(str(text).encode()) for text in value)
        return messages.Attribute(name=name, strings=texts, type=8)
    return messages.Attribute(name=name, ints=tuple(int(v) for v in value), type=7)


class Exported(NamedTuple):
    """Model, and the name in it of each output of the symbol's nodes."""

    model: messages.Model
    names: dict[Output, str]


def make_model(
    exporter: Exporter,
    heads: Sequence[Output],
    params: Mapping[str, np.ndarray],
    opened: Opened,
    examples: Mapping[str, np.ndarray],
    with_types: bool = False,
) -> Exported:
    """Model of a symbol.

    opened    symbolic sizes of inputs, in order, and the types of all nodes
    examples  arrays of all inputs; an input that no node reads has the type of its array

    Raises UnknownOpError with every operator that cannot be written, its nodes and the reason.
    """
    types, sizes = opened.types, opened.sizes
    values, refusals = _walk(exporter, heads, params, opened)
    _require_none(refusals)
    order = topological(heads)
    inputs = {name: _opened_type(examples[name], axes) for name, axes in sizes.items()}
    inputs |= {n.name: types[n][0] for n in order if n.is_variable}
    outputs = [
        _named(exporter, values[head], name) for head, name in zip(heads, output_names(heads))
    ]
    outer = {x.name for x in outputs} | set(inputs)
    inner = [x for x in values.values() if x.array is None and x.name not in outer]
    graph = messages.Graph(
        node=exporter.nodes,
        name="hybridjit",
        initializer=[make_tensor(name, a) for name, a in exporter.initializers.items()],
        input=[value_info(name, inputs[name], opened) for name, opened in sizes.items()],
        output=[value_info(x.name, x.type, {}) for x in outputs],
        value_info=[value_info(x.name, x.type, {}) for x in inner if with_types],
    )
    model = messages.Model(
        ir_version=_IR_VERSIONS[exporter.opset],
        producer_name="hybridjit",
        graph=graph,
        opset_import=[messages.OperatorSet("", exporter.opset)],
    )
    names = {edge: x.name for edge, x in values.items() if x.array is None}
    names |= {head: x.name for head, x in zip(heads, outputs)}
    return Exported(model, names)


def _opened_type(example: np.ndarray, axes: Collection[int]) -> TensorType:
    sizes = tuple(None if axis in axes else n for axis, n in enumerate(example.shape))
    return type_of(example).with_shape(sizes)


def _walk(
    exporter: Exporter,
    heads: Sequence[Output],
    params: Mapping[str, np.ndarray],
    opened: Opened,
) -> tuple[dict[Output, Value], list[Refusal]]:
    """Values of all outputs; those that depend on an unsupported node have no node."""
    values: dict[Output, Value] = {}
    refusals: list[Refusal] = []
    types = opened.types
    for node in topological(heads):
        made: Sequence[Value]
        if node.op is None:
            made = [_variable(exporter, node, params, types[node][0], values)]
        else:
            sources = opened.sources.get(node, ())
            use = Use(node.op, node.name, attributes(node, types[node]), types[node], sources)
            try:
                made = exporter.write(use, [values[edge] for edge in node.inputs])
            except MXNetError as error:
                refusals.append(Refusal(node, str(error)))
                made = [Value(t, None, "") for t in types[node]]
        values.update((Output(node, i), x) for i, x in enumerate(made))
    return values, refusals


def attributes(node: Node, types: Sequence[TensorType]) -> Attrs:
    """Attributes of a node; the shape of a node without operands may be inferred from its users."""
    if node.inputs or "shape" not in node.attrs:
        return node.attrs
    return {**node.attrs, "shape": types[0].shape}


def _variable(
    exporter: Exporter,
    node: Node,
    params: Mapping[str, np.ndarray],
    type: TensorType,
    values: Mapping[Output, Value],
) -> Value:
    same = next((x for e, x in values.items() if e.node.is_variable and e.name == node.name), None)
    if same is not None:
        return same
    if node.name in params:
        return exporter.name_constant(node.name, params[node.name])
    return Value(type, None, exporter.fresh(node.name))


def _require_none(refusals: Sequence[Refusal]) -> None:
    reasons: dict[tuple[str, str], list[str]] = {}
    for node, reason in refusals:
        assert node.op is not None
        reasons.setdefault((node.op.name, reason.partition("\n")[0]), []).append(f"'{node.name}'")
    if reasons:
        lines = [
            f"    {op} {', '.join(nodes[:4])}{', ...' if len(nodes) > 4 else ''}: {reason}"
            for (op, reason), nodes in sorted(reasons.items())
        ]
        raise UnknownOpError(
            f"{len(refusals)} nodes of the graph cannot be written as ONNX:\n" + "\n".join(lines)
        )


def output_names(heads: Sequence[Output]) -> list[str]:
    """Output names as in MXNet's exporter: of nodes, with an index if there are several outputs."""
    return [
        h.node.name if len(h.node.output_names) == 1 else f"{h.node.name}{h.index}" for h in heads
    ]


def _named(exporter: Exporter, value: Value, name: str) -> Value:
    """Output of the model, with this name if it is free."""
    is_made = value.array is None and any(value.name in n.output for n in exporter.nodes)
    if is_made and value.name == name:
        return value
    fresh = exporter.fresh(name)
    edge = exporter._edge(value) if value.array is None else _stored(exporter, fresh, value)
    exporter.nodes.append(messages.Node([edge], [fresh], fresh, "Identity"))
    return Value(value.type, None, fresh)


def _stored(exporter: Exporter, name: str, value: Value) -> str:
    assert value.array is not None
    return exporter._edge(exporter.name_constant(f"{name}:constant", value.array))


def value_info(name: str, type: TensorType, sizes: Mapping[int, str]) -> messages.ValueInfo:
    """Name and type of a value as a message."""
    if type.dtype is None:
        return messages.ValueInfo(name)
    shape = None
    if type.shape is not None:
        shape = messages.Shape(
            [
                messages.Dimension(n, "") if n is not None else _open(name, axis, sizes)
                for axis, n in enumerate(type.shape)
            ]
        )
    return messages.ValueInfo(name, messages.Type(messages.TensorType(CODES[type.dtype], shape)))


def _open(name: str, axis: int, sizes: Mapping[int, str]) -> messages.Dimension:
    return messages.Dimension(None, sizes.get(axis, f"{name}_{axis}"))
