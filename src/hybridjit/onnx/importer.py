"""Traversal of an ONNX graph's nodes, and the builder of their readers.

Input: nodes and their operands. Output: values, which are constants or outputs in a symbol. Results
that depend on constants only are computed and become constants.
"""

from __future__ import annotations

import math
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._core.frozen import dataclass, replace
from .._core.symbolic import Size
from .._core.types import (
    DTYPE_CODES,
    PartialShape,
    Shape,
    TensorType,
    is_known_shape,
    type_of,
)
from ..errors import MXNetError, ShapeError, located
from ..formats.onnx import messages
from ..formats.onnx.tensors import read_array
from ..ir.node import Output, apply, variable
from ..ir.sized import is_symbolic
from ..ops.attrs import Attrs, AttrValue
from ..ops.building import ON_ARRAYS, infer_types
from ..ops.namespace import attr_texts
from ..ops.record import OpDef
from ..ops.registry import lookup
from .node_order import in_order, nodes_of
from .size_values import apply_sized, computed, has_sizes, of_sizes, pinned
from .use import Use

_TAKE = lookup("take")
_STAND_INS = (64, 192)  # assumed symbolic sizes: even, so that they can be split
# Limit of elements of constants that nodes create, besides four for each element of the model.
_FOLDED = 1 << 24
_SMALL = 1 << 12  # constants up to this size are not subject to the reserve
_STEPS = 1 << 13  # limit of nodes from unrolled branches and loops
EVERYTHING = 1 << 62  # no limit, for files written by the exporter
# Exceptions of readers if a node has another number of operands, axes or values than expected.
_MISFITS = (ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, eq=False)
class Value:
    """Tensor in the importer: known elements, or an output in the symbol.

    stored  ONNX's code of the element type in the model, 0 if not needed
    later   computes elements that are known, of a value that stays an output in the symbol
    sized   whether known elements may depend on the sizes of inputs
    """

    type: TensorType
    array: np.ndarray | None = None
    output: Output | None = None
    stored: int = 0
    sized: bool = False
    later: Callable[[], np.ndarray] | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known."""
        return self.array is not None or self.later is not None


Translation = Callable[..., "Value | Sequence[Value | None]"]
Seen = Callable[[str, Value], Value]


class Importer:
    """Creates a symbol's nodes for a model's nodes: a builder with the interface of ``expand``.

    opset  version of ONNX's operators that the model requires
    """

    def __init__(self, opset: int, folder: str | None, limit: int = _FOLDED) -> None:
        self.opset = opset
        self.folder = folder
        self.params: dict[str, np.ndarray] = {}
        self.sized: set[str] = set()  # parameters that may depend on the sizes of inputs
        self._is_sized = False  # whether the current use has read sizes
        self._left, self._kept = limit, limit // 2
        self._steps_left = _STEPS
        self._scope: Mapping[str, Value] = {}
        self._readers: Counter[str] = Counter()
        self._made: dict[Output, str] = {}
        self._known: Mapping[str, Translation] = {}
        self._bodies: dict[int, tuple[messages.Graph, dict[str, Value]]] = {}
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}  # last suffix of each name
        self._variables: dict[int, tuple[np.ndarray, Output]] = {}
        self._use: Use | None = None

    # Interface of readers

    def op(self, op: OpDef | str, /, *inputs: Value, at: str = "", **attrs: AttrValue) -> Value:
        """First output of an operator."""
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(
        self, op: OpDef | str, /, *inputs: Value, at: str = "", **attrs: AttrValue
    ) -> tuple[Value, ...]:
        """All outputs of an operator: constants if all operands are."""
        record = lookup(op) if isinstance(op, str) else op
        if any(x.later for x in inputs) and all(x.is_constant for x in inputs):
            return self.kept(record, *inputs, at=at, **attrs)
        arrays = [x.array for x in inputs if x.array is not None]
        is_open = any(map(is_symbolic, attrs.values()))
        if len(arrays) == len(inputs) and not record.is_random and not is_open:
            if any(map(has_sizes, arrays)):
                found = computed(record, arrays, record.with_defaults(attrs))
                if found is not None:
                    return tuple(map(self.constant, found))
                if record is _TAKE and arrays[0].dtype.kind == "f":
                    return self._node(record, inputs, at, attrs)  # no size follows from it
                arrays = [*map(pinned, arrays)]
            types = infer_types(record, [x.type for x in inputs], record.with_defaults(attrs))
            if all(t.is_known for t in types) and self._folds(sum(t.size for t in types)):
                return tuple(map(self.constant, ON_ARRAYS.outputs(record, *arrays, at=at, **attrs)))
        return self._node(record, inputs, at, attrs)

    def kept(
        self, op: OpDef | str, /, *inputs: Value, at: str = "", **attrs: AttrValue
    ) -> tuple[Value, ...]:
        """All outputs of an operator on constants, which stays in the symbol.

        Compiled graphs compute it when parameters are bound, or use the operands."""
        record = lookup(op) if isinstance(op, str) else op

        def computed(number: int) -> np.ndarray:
            arrays = [self.known(x, "operand") for x in inputs]
            return ON_ARRAYS.outputs(record, *arrays, at=at, **attrs)[number]

        made = self._node(record, inputs, at, attrs)
        return tuple(replace(x, later=partial(computed, i)) for i, x in enumerate(made))

    def type(self, x: Value) -> TensorType:
        """Known part of a value's type."""
        self._is_sized |= x.array is None
        return x.type

    def shape(self, x: Value) -> Shape:
        """Shape of a value. Raises ShapeError if it depends on symbolic sizes."""
        if not is_known_shape(x.type.shape):
            raise ShapeError(
                f"needs the shape of an operand, but {x.type} is not completely known: give the "
                "shapes of the model's inputs (shapes={'name': (1, 3, 224, 224)}, or --shape)"
            )
        self._is_sized |= x.array is None
        return x.type.dims

    def rank(self, x: Value) -> int:
        """Number of axes. Raises ShapeError if unknown."""
        return len(self.shape(x)) if x.type.shape is None else len(x.type.shape)

    def dtype(self, x: Value) -> np.dtype:
        """Element type. Raises MXNetError if unknown."""
        if x.type.dtype is None:
            raise MXNetError("needs the element type of an operand, which is unknown")
        return x.type.dtype

    def constant(self, array: np.ndarray) -> Value:
        """Value with known elements."""
        array = np.asarray(array)
        if has_sizes(array):
            array = of_sizes(array)
            return Value(TensorType(array.shape, np.dtype(np.int64)), array, sized=True)
        return Value(type_of(array), array, sized=self._is_sized)

    def sizes(self, items: object) -> Value:
        """Sizes as int64, which may be symbolic."""
        return self.constant(of_sizes(items))

    def stored(self, x: Value, code: int) -> Value:
        """Value annotated with its element type in the model."""
        return replace(x, stored=code)

    def like(self, x: Value, number: float) -> Value:
        """Constant of the dtype of ``x`` and shape (1,)."""
        return self.constant(np.full(1, number, self.dtype(x)))

    def filled(self, shape: Shape, number: np.ndarray) -> Value:
        """Constant array of one value. Raises MXNetError if it is too large."""
        if is_symbolic(shape):
            one = np.full((1,) * len(shape), number.reshape(-1)[0], number.dtype)
            return self.op("broadcast_to", self.constant(one), shape=shape, at="filled")
        self.require_small(math.prod(shape))
        return self.constant(np.full(shape, number.reshape(-1)[0], number.dtype))

    def affords(self, count: int) -> bool:
        """Whether constants of ``count`` elements are within the limit."""
        return count <= self._left

    def _afford(self, count: int) -> bool:
        """:meth:`affords`, and reserve the elements."""
        if not self.affords(count):
            return False
        self._left -= count
        return True

    def _folds(self, count: int) -> bool:
        """Whether to compute a node of ``count`` elements now.

        Half of the limit is reserved for small nodes and for those that must be constants."""
        return count <= max(self._left - self._kept, _SMALL) and self._afford(count)

    def require_small(self, count: int) -> None:
        """Raise MXNetError if a constant of ``count`` elements exceeds the limit."""
        if not self._afford(count):
            raise MXNetError(
                f"creates a constant of {count} elements, but nodes may create only "
                f"{self._left} more"
            )

    def spend_steps(self, count: int) -> None:
        """Count nodes of an unrolled graph. Raises MXNetError if they exceed the limit."""
        if count > self._steps_left:
            raise MXNetError(
                f"branches and loops of a model can be unrolled to at most {_STEPS} nodes: this "
                f"one needs {count}, and {self._steps_left} remain"
            )
        self._steps_left -= count

    def inlined(self, graph: messages.Graph, operands: Sequence[Value]) -> list[Value]:
        """Results of a node's subgraph, which can read outer values."""
        self.spend_steps(len(graph.node) + 1)
        if len(graph.input) != len(operands):
            raise MXNetError(
                f"its graph has {len(graph.input)} inputs, but {len(operands)} values are given"
            )
        values = ChainMap({}, self._constants_of(graph), self._scope)  # type: ignore[arg-type]
        for info, x in zip(graph.input, operands):
            values[info.name] = self.stored(x, element_code(info))
        use, scope = self._use, self._scope
        self.run(graph.node, values, self._known)
        self._use, self._scope = use, scope
        for info in graph.output:
            if info.name not in values:
                raise MXNetError(f"no node of its graph computes the output '{info.name}'")
        return [values[info.name] for info in graph.output]

    def _constants_of(self, graph: messages.Graph) -> dict[str, Value]:
        """Initializers of a subgraph, read once."""
        found = self._bodies.get(id(graph))
        if found is None:
            made = {t.name: initializer(self, t, self.folder) for t in graph.initializer}
            found = self._bodies[id(graph)] = graph, made
        return found[1]

    def scalar(self, x: Value) -> Value:
        """Scalar without axes. In the graph it has one axis, as MXNet's scalars."""
        if x.array is not None:
            return self.constant(x.array.reshape(()))
        if x.type.shape != (1,):
            x = self.op("Reshape", x, shape=(1,), at="number")
        return Value(x.type.with_shape(()), None, x.output)

    def without_axes(self, x: Value) -> Value:
        """Scalar without axes also in the graph, as required for an output."""
        one = Value(x.type.with_shape((1,)), None, self.edge(x))
        return self._node(lookup("_np_reshape"), [one], "number", {"newshape": ()})[0]

    def known(self, x: Value | None, what: str) -> np.ndarray:
        """Elements of an operand that must be constant. Raises MXNetError with its name."""
        if x is not None and x.later is not None:
            return x.later()
        if x is None or x.array is None:
            raise MXNetError(
                f"its operand '{what}' is computed by the graph, but must be a constant"
            )
        return pinned(x.array)

    def ints(self, x: Value | None, what: str) -> tuple[int, ...]:
        """Elements of an operand that must be constant, as ints or symbolic sizes."""
        if x is not None and x.array is not None and has_sizes(x.array):
            return tuple(x.array.reshape(-1).tolist())
        return tuple(int(v) for v in self.known(x, what).reshape(-1))

    def is_read_once(self, x: Value) -> bool:
        """Whether at most one node of the model reads this result."""
        return x.output is not None and self._readers[self._made.get(x.output, "")] == 1

    def again(self, x: Value, *more: Value, **attrs: AttrValue) -> Value:
        """Result of the same operator with additional operands and other attributes."""
        assert x.output is not None
        node, op = x.output.node, x.output.node.op
        assert op is not None
        edges = [*node.inputs, *map(self.edge, more)]
        name = self._fresh(self._use.name if self._use is not None else node.name)
        made = apply(op, name, edges, attr_texts(op, {**node.attrs, **attrs}))
        return Value(x.type, None, Output(made, 0))

    # Creation of nodes

    def _node(
        self, op: OpDef, inputs: Sequence[Value], at: str, attrs: Mapping[str, AttrValue]
    ) -> tuple[Value, ...]:
        edges = [self.edge(x) for x in inputs]
        whole = self._use.name if self._use is not None else op.name.lower()
        name = self._fresh(f"{whole}:{at}" if at else whole)
        node = apply_sized(op, name, edges, attrs)
        types = partial_types(op, [x.type for x in inputs], node.attrs)
        return tuple(Value(t, None, Output(node, i)) for i, t in enumerate(types))

    def edge(self, x: Value) -> Output:
        """Output of a value in the symbol; a constant becomes a variable."""
        if x.output is not None:
            return x.output
        assert x.array is not None
        if has_sizes(x.array):
            return self.edge(self._counted(x.array))
        found = self._variables.get(id(x.array))
        if found is None:
            name = self._fresh(f"{self._use.name if self._use else 'constant'}_constant")
            found = x.array, self._parameter(name, x.array)
            self._variables[id(x.array)] = found
            if x.sized:
                self.sized.add(name)
        return found[1]

    def _counted(self, array: np.ndarray) -> Value:
        """Symbolic sizes as values of the graph: each is the start of a range of one number."""
        items: list[Any] = array.reshape(-1).tolist()
        parts = [
            self.op("_arange", start=n, stop=n + 1, dtype=np.dtype(np.int64), at="size")  # type: ignore[arg-type]
            if isinstance(n, Size)
            else self.constant(np.array([n], np.int64))
            for n in items
        ]
        whole = parts[0]
        if len(parts) > 1:
            whole = self.op("Concat", *parts, num_args=len(parts), dim=0, at="sizes")
        if array.ndim > 1:
            whole = self.op("Reshape", whole, shape=array.shape, at="sizes")
        return whole

    def _parameter(self, name: str, array: np.ndarray) -> Output:
        """Variable of a parameter; a scalar has one axis, as MXNet's scalars."""
        array = array if array.ndim else array.reshape(1)
        self.params[name] = array
        code = next(c for c, dtype in DTYPE_CODES.items() if dtype == array.dtype)
        return Output(variable(name, {"__shape__": str(array.shape), "__dtype__": str(code)}))

    def name_parameter(self, name: str, array: np.ndarray) -> Value:
        """Constant that becomes a parameter of this name if another node than a constant reads
        it."""
        x = self.constant(array)
        assert x.array is not None
        self._left += 4 * array.size
        self._variables[id(x.array)] = x.array, self._parameter(self._fresh(name), x.array)
        return x

    def _fresh(self, name: str) -> str:
        """``name``, with a suffix if it is taken."""
        fresh = name
        while fresh in self._names:
            number = self._numbers[name] = self._numbers.get(name, 0) + 1
            fresh = f"{name}_{number}"
        self._names.add(fresh)
        return fresh

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve names for the nodes of the model's outputs."""
        self._names.update(names)

    def count_readers(self, graph: messages.Graph) -> None:
        """Count readers of each name in a graph and its subgraphs."""
        for _, node in nodes_of(graph):
            self._readers.update(node.input)
        for _, node in nodes_of(graph):
            for attribute in node.attribute:
                if attribute.g is not None:
                    self._readers.update(info.name for info in attribute.g.output)
        self._readers.update(info.name for info in graph.output)

    # Traversal

    def variable(self, name: str, type: TensorType) -> Value:
        """Input of the model."""
        return Value(type, None, Output(variable(self._fresh(name))))

    def run(
        self,
        nodes: Sequence[messages.Node],
        values: MutableMapping[str, Value],
        known: Mapping[str, Translation],
        seen: Seen | None = None,
    ) -> None:
        """Translate nodes in order of dependency and add their results to ``values``, by name.

        If given, ``seen(name, value)`` returns the value to add. Raises MXNetError with the
        operator, the node and its operands.
        """
        self._scope, self._known = values, known
        for number, node in in_order(nodes, values):
            use = Use(node, number, self.opset, self.folder)
            operands = [self._operand(values, name, use) for name in node.input]
            made = self._translated(use, operands, known)
            for name, value in zip(node.output, made):
                if name and value is not None:
                    values[name] = value if seen is None else seen(name, value)
                    if value.output is not None:
                        self._made[value.output] = name

    def _operand(self, values: Mapping[str, Value], name: str, use: Use) -> Value | None:
        if not name:
            return None
        if name not in values:
            raise MXNetError(f"{use}: no earlier node computes its operand '{name}'")
        return values[name]

    def _translated(
        self, use: Use, operands: Sequence[Value | None], known: Mapping[str, Translation]
    ) -> Sequence[Value | None]:
        before, self._use = self._use, use
        was_sized, self._is_sized = self._is_sized, any(x.sized for x in operands if x is not None)
        try:
            made = known[use.key](self, use, *operands)
        except MXNetError as error:
            raise located(error, str(use), _rows(use, operands)) from None
        except _MISFITS as error:
            misfit = MXNetError(f"its operands and attributes are inconsistent: {error}")
            raise located(misfit, str(use), _rows(use, operands)) from error
        finally:
            self._use, self._is_sized = before, was_sized
        return [made] if isinstance(made, Value) else made


def partial_types(op: OpDef, inputs: Sequence[TensorType], attrs: Attrs) -> Sequence[TensorType]:
    """Output types for symbolic sizes: sizes that differ between two assumed ones are symbolic."""
    if all(t.is_known for t in inputs) or any(t.shape is None for t in inputs):
        return infer_types(op, inputs, attrs)
    one, other = (infer_types(op, [_closed(t, n) for t in inputs], attrs) for n in _STAND_INS)
    return [
        a if not a.is_known or a == b else a.with_shape(_common(a.dims, b.dims))
        for a, b in zip(one, other)
    ]


def _closed(type: TensorType, size: int) -> TensorType:
    assert type.shape is not None
    return type.with_shape(tuple(size if n is None else n for n in type.shape))


def _common(shape: Shape, other: Shape) -> PartialShape | None:
    """Sizes of both shapes, None where they differ."""
    if len(shape) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(shape, other))


def _rows(use: Use, operands: Sequence[Value | None]) -> list[tuple[str, object]]:
    """Operands and their types, for errors."""
    return [(name, x.type) for name, x in zip(use.inputs, operands) if x is not None]


def initializer(importer: Importer, tensor: messages.Tensor, folder: str | None) -> Value:
    """Parameter, converted to a supported dtype."""
    array = as_supported(read_array(tensor, folder), f"tensor '{tensor.name}'")
    return importer.stored(importer.name_parameter(tensor.name, array), tensor.data_type)


def element_code(info: messages.ValueInfo) -> int:
    """ONNX's code of the declared element type, 0 if absent."""
    tensor = info.type.tensor_type if info.type is not None else None
    return 0 if tensor is None else tensor.elem_type


def supported(dtype: np.dtype) -> np.dtype:
    """MXNet dtype that holds these values; uint64 has half the range."""
    if dtype in DTYPE_CODES.values():
        return dtype
    return np.dtype("int32") if dtype.itemsize < 4 else np.dtype("int64")


def as_supported(array: np.ndarray, what: str) -> np.ndarray:
    """Array in an MXNet dtype. Raises MXNetError for a value out of range."""
    wider = supported(array.dtype)
    if wider == array.dtype:
        return array
    if array.size and int(array.max()) > np.iinfo(wider).max:
        raise MXNetError(f"{what}: {int(array.max())} is larger than the largest {wider}")
    return array.astype(wider)
