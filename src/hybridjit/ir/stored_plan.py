"""Plans as text, for executables that later processes load without the passes.

Input: a graph with the types of its variables; or a plan with its image. Output: JSON, and the same
from JSON. A graph or a plan with values of other classes than those listed here is not stored.

The text is not checked: it names addresses and sizes that machine code trusts. It is stored as
machine code is, with a digest and in a folder that its user alone can write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NoReturn, TypeAlias

import numpy as np

from .._core.frozen import fields_of, is_record
from .._core.types import TensorType
from ..ops.record import OpDef
from ..ops.registry import is_registered, lookup
from .graph import Graph, Use, Value, walk
from .mode import Purpose
from .node import Output, topological
from .plan import Plan
from .plan_image import Base, Image, Tables
from .sized import LatePlan, Types, output_types_of
from .template import SizedImage

# Makes records of a class, from the name of the class.
Find: TypeAlias = "Callable[[str], Callable[..., Any]]"
_PLAIN = (bool, int, float, str, type(None))


class NotStorableError(Exception):
    """A value has no text."""


class StoredPlan(LatePlan):
    """A plan whose code was loaded; the passes run again when anything else of it is read.

    ``outline`` has the inputs, the purpose and the bind graph. ``whole()`` makes the plan.
    """

    def __init__(
        self, outline: Graph, output_types: Types, arena_bytes: int, whole: Callable[[], Plan]
    ) -> None:
        self.outline = outline
        self.output_types = output_types
        self.arena_bytes = arena_bytes
        self._whole = whole

    @property
    def bind(self) -> Graph | None:
        return self.outline.bind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole(), name)


def key_text(
    outputs: Iterable[Output],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
) -> str:
    """A string that is equal for graphs with the same plan. Raises NotStorableError."""
    outputs = tuple(outputs)
    nodes = topological(outputs)
    numbers = {node: number for number, node in enumerate(nodes)}
    rows = [
        (
            _op_name(node.op), node.name, node.text, node.attrs,
            [(numbers[use.node], use.index) for use in node.inputs],
        )
        for node in nodes
    ]  # fmt: skip
    heads = [(numbers[use.node], use.index) for use in outputs]
    types = [
        [(name, given.shape, given.dtype) for name, given in each]
        for each in (input_types.items(), sorted(param_types.items(), key=itemgetter(0)))
    ]
    return json.dumps([rows, heads, types], default=_name_of)


def stored_text(
    plan: Plan, image: Image, classes: Collection[str], more: Mapping[str, object]
) -> str:
    """The text of a plan without host steps, with ``more`` facts. Raises NotStorableError.

    Records in packings are of these ``classes``.
    """
    graph = plan.graph
    purpose = graph.purpose
    if purpose != Purpose(precision=purpose.precision, winograd=purpose.winograd):
        raise NotStorableError("a part of training")
    if graph.bind is None or image.flagged or 0 in image.counts:
        raise NotStorableError("steps that NumPy runs")
    tables = image.tables(len(graph.inputs))
    inputs = [(value.name, _encoded_type(value.type)) for value in graph.inputs]
    types = [(shape, _dtype_name(dtype)) for shape, dtype in output_types_of(plan)]
    facts = {
        "purpose": (purpose.precision, purpose.winograd),
        "inputs": inputs,
        "outputs": types,
        "arena": plan.arena_bytes,
        "bind": _encoded_bind(graph.bind),
        "packed": [_encoded(each, {"Packed", *classes}) for each in image.packed],
        "counts": image.counts,
        "working": (image.scratch_bytes, image.shared_bytes, image.work),
        "tables": [
            tables.values.tolist(),
            tables.of_base.tolist(),
            [(base.name, number) for base, number in tables.bases],
            tables.places.tolist(),
            tables.kernels,
            tables.rows.tolist(),
        ],
    }
    return _json({**facts, **more})


def plan_of(facts: Mapping[str, Any], name: str, whole: Callable[[], Plan]) -> StoredPlan:
    """The plan that was stored as these facts; ``whole`` plans again."""
    inputs = tuple(_variable(each, _type_of(given)) for each, given in facts["inputs"])
    precision, winograd = facts["purpose"]
    purpose = Purpose(precision=precision, winograd=winograd)
    bind = _bind_of(facts["bind"], f"{name}.bind")
    outline = Graph(inputs, (), (), (), name, bind, purpose)
    types = [(tuple(shape), np.dtype(dtype)) for shape, dtype in facts["outputs"]]
    return StoredPlan(outline, types, facts["arena"], whole)


def image_of(facts: Mapping[str, Any], find: Find) -> SizedImage:
    """The image that was stored as these facts."""
    values, of_base, bases, places, kernels, rows = facts["tables"]
    tables = Tables(
        np.array(values, np.int64),
        np.array(of_base, np.intp),
        tuple((Base[base], number) for base, number in bases),
        np.array(places, np.int64).reshape(-1, 3),
        tuple(kernels),
        np.array(rows, np.int64).reshape(-1, 3),
    )
    packed = tuple(_decoded(each, find) for each in facts["packed"])
    return SizedImage(packed, frozenset(), tables, tuple(facts["counts"]), facts["working"])


def _name_of(item: object) -> str:
    """The name of an element type, which JSON lacks. Raises NotStorableError for other objects."""
    if isinstance(item, np.dtype):
        return str(item.str)
    raise NotStorableError(f"{type(item).__name__} {item!r}")


def _json(item: object) -> str:
    return json.dumps(item, separators=(",", ":"))


def _encoded(item: Any, classes: Collection[str] = ()) -> Any:
    """A number, a string, a tuple, an element type or a record of ``classes`` as JSON."""
    if type(item) in _PLAIN:
        return item
    if type(item) is tuple:
        return [_encoded(each, classes) for each in item]
    if isinstance(item, np.dtype):
        return {"dtype": _dtype_name(item)}
    name = type(item).__name__
    if is_record(item) and name in classes:
        return {name: [_encoded(getattr(item, field), classes) for field in fields_of(item)]}
    raise NotStorableError(f"{type(item).__name__} {item!r}")


def _decoded(item: Any, find: Find) -> Any:
    if isinstance(item, list):
        return tuple([_decoded(each, find) for each in item])
    if isinstance(item, dict):
        ((name, fields),) = item.items()
        if name == "dtype":
            return np.dtype(fields)
        return find(name)(*_decoded(fields, find))
    return item


def _dtype_name(dtype: np.dtype | None) -> str | None:
    if dtype is None:
        return None
    if np.dtype(dtype.name) != dtype:
        raise NotStorableError(f"the element type {dtype}")
    return str(dtype.name)


def _op_name(op: OpDef | None) -> str | None:
    """The name under which the registry has an operator."""
    if op is not None and not is_registered(op):
        raise NotStorableError(f"an operator that is not registered, {op.name}")
    return None if op is None else op.name


def _encoded_type(given: TensorType) -> tuple[Any, ...]:
    return _encoded(given.shape), _dtype_name(given.dtype)


def _type_of(found: Sequence[Any]) -> TensorType:
    shape, dtype = found
    return TensorType(tuple(shape), np.dtype(dtype))


def _variable(name: str, given: TensorType) -> Value:
    return Value(None, name, {}, (), (given,))


def _no_class(name: str) -> NoReturn:
    raise AssertionError(f"attributes hold no {name}")


def _encoded_bind(bind: Graph) -> list[Any]:
    """The values of a bind graph in order, and its outputs."""
    values = walk(bind.outputs)
    numbers = {value: number for number, value in enumerate(values)}
    rows = [
        (
            _op_name(value.op),
            value.name,
            _encoded(tuple(value.attrs.items())),
            [(numbers[use.value], use.index) for use in value.inputs],
            [_encoded_type(each) for each in value.types],
        )
        for value in values
    ]
    return [rows, [(numbers[use.value], use.index) for use in bind.outputs]]


def _bind_of(stored: Sequence[Any], name: str) -> Graph:
    rows, heads = stored
    values: list[Value] = []
    for op, own, attrs, inputs, types in rows:
        uses = tuple(Use(values[number], index) for number, index in inputs)
        found = dict(_decoded(attrs, _no_class))
        made = lookup(op) if op is not None else None
        values.append(Value(made, own, found, uses, tuple(map(_type_of, types))))
    params = tuple(value for value in values if value.op is None)
    outputs = tuple(Use(values[number], index) for number, index in heads)
    return Graph((), params, outputs, (), name)
