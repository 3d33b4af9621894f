"""Cases of one operator each: every operator of the registry, every attribute, every element type.

A recipe draws an operator's arrays and attribute values, over all values that are legal. Here these
become a graph file: attribute strings in any of the spellings that files have, other element types,
and now and then a mistake, which both sides have to refuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridjit.errors import MXNetError
from hybridjit.ops import OpDef, lookup
from mxnet_side.draw import Draw
from mxnet_side.sides import Meaning

FLOATS = ("float32", "float64", "float16")
NUMBERS = (*FLOATS, "int32", "int64", "uint8", "int8")
TYPES = (*NUMBERS, "bool")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 1e30, -1e-30)
MISTAKES = 0.12  # part of the cases that hold one
# Of data with more axes MXNet writes more than the results have room for.
CORRUPTING = ("_unravel_index",)


class Fixed(np.ndarray):
    """An array whose element type and values mean something: indices, lengths, boxes."""


def fixed(array: np.ndarray, dtype: str | None = None) -> np.ndarray:
    return np.asarray(array, dtype).view(Fixed)


@dataclass
class Single:
    """One node: its operator, its attribute values, its arrays in graph order."""

    op: str
    arrays: list[np.ndarray]
    attrs: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 2e-5
    half_tolerance: float = 4e-3  # where arrays are float16
    has_values: bool = True  # False: results are random, only their types are compared
    meaning: Meaning | None = None  # the values to compare, if not the outputs
    is_mistaken: bool = False
    texts: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        types = ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.arrays)
        return f"{self.op}({types}) {' '.join(f'{k}={v}' for k, v in self.texts.items())}"


Recipe = Callable[[Draw, str], Single]
RECIPES: dict[str, Recipe] = {}
_DTYPES: dict[str, tuple[str, ...]] = {}


def recipe(names: str, dtypes: tuple[str, ...] = FLOATS) -> Callable[[Recipe], Recipe]:
    """Register ``function(draw, op name)`` for these operators; ``dtypes`` of arrays not fixed."""

    def add(function: Recipe) -> Recipe:
        for name in names.split():
            assert name not in RECIPES, name
            RECIPES[name] = function
            _DTYPES[name] = dtypes
        return function

    return add


def single(draw: Draw, name: str) -> Single:
    """A case of the operator ``name``, with its attribute strings."""
    case = RECIPES[name](draw, name)
    _retype(draw, case, draw.pick(*["float32"] * 5, *_DTYPES[name]))
    if draw.chance(0.05):
        _retype(draw, case, draw.pick(*TYPES))
        case.is_mistaken = True
    case.texts = {key: spelled(draw, value) for key, value in case.attrs.items()}
    if draw.chance(MISTAKES):
        case.is_mistaken = True
        _spoil(draw, case)
    return case


def values(draw: Draw, shape: tuple[int, ...], low: float = -4, high: float = 4) -> np.ndarray:
    """Numbers in a range, sometimes whole or half ones."""
    array = draw.uniform(shape, low, high)
    if draw.chance(0.3):
        array = np.clip(np.round(array * 2) / 2, low, high).astype(np.float32)
    return array


def special(draw: Draw, array: np.ndarray, chance: float = 0.25) -> np.ndarray:
    """Some elements that are infinite, NaN, signed zeros, halves."""
    if draw.chance(chance):
        for _ in range(draw.int(1, 5)):
            array.flat[draw.int(0, array.size - 1)] = draw.pick(*SPECIAL)
    return array


def index(draw: Draw, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    """Integers from ``low`` to ``high``, both included, in any type that holds them."""
    dtype = draw.pick("int32", "int64", "float32", "float32", "float64", "uint8", "int8")
    if dtype == "uint8":
        low, high = max(low, 0), max(high, 0)
    array = draw.rng.integers(low, high + 1, shape).astype(dtype)
    if array.dtype.kind == "f" and draw.chance(0.2):  # truncated towards zero
        array = array + np.asarray(0.5, dtype)
    return fixed(array)


def axis_of(draw: Draw, rank: int) -> int:
    return draw.int(-rank, rank - 1)


def axes_of(draw: Draw, rank: int) -> Any:
    """Some axes, each counted from either end: a number, a tuple, () or None."""
    several = tuple(draw.pick(a, a - rank) for a in draw.rng.permutation(rank).tolist())
    return draw.pick(None, (), axis_of(draw, rank), several[: draw.int(1, rank)], several[:1])


def spelled(draw: Draw, value: Any) -> str:
    """The text of a value, in one of the spellings that files of any age have."""
    if isinstance(value, bool):
        return draw.pick(str(value), str(value), str(int(value)))
    if isinstance(value, tuple):
        text = str(value)
        whole = all(isinstance(v, int) for v in value)
        other = [text, text.replace(" ", ""), str(list(value))]
        if whole and value:
            other.append("(" + ", ".join(f"{v}L" for v in value) + ")")
        return draw.pick(text, *other)
    return str(value)


def _retype(draw: Draw, case: Single, dtype: str) -> None:
    """Arrays that are not fixed in another element type, integers where it has no others."""
    for position, array in enumerate(case.arrays):
        if isinstance(array, Fixed) or array.dtype == dtype:
            continue
        if dtype == "bool":
            array = array > 0
        elif np.dtype(dtype).kind != "f":
            whole = np.round(np.nan_to_num(array.astype(np.float64), posinf=9, neginf=-9) * 3)
            array = np.clip(whole, 0 if dtype == "uint8" else -100, 100)
        case.arrays[position] = array.astype(dtype)
    if dtype == "float16":
        case.tolerance = max(case.tolerance, case.half_tolerance)


def _spoil(draw: Draw, case: Single) -> None:
    """One mistake: an attribute, a shape or an element type."""
    attrs = [attr for attr in lookup(case.op).attrs if attr.name != "num_args"]
    kind = draw.pick("attribute", "attribute", "rank", "extent", "dtype")
    if kind == "attribute" and attrs:
        attr = draw.pick(*attrs)
        case.texts[attr.name] = _wrong(draw, attr.base)
        return
    if not case.arrays:
        return
    at = draw.int(0, len(case.arrays) - 1)
    array = case.arrays[at]
    if kind == "rank" and case.op in CORRUPTING:
        return
    if kind == "rank":
        case.arrays[at] = array[None] if draw.chance(0.5) else array.reshape(-1)
    elif kind == "dtype":
        case.arrays[at] = np.nan_to_num(array).astype(draw.pick(*TYPES))
    elif array.ndim:
        axis = draw.int(0, array.ndim - 1)
        case.arrays[at] = np.concatenate([array, array.take([0], axis)], axis)


def _wrong(draw: Draw, base: str) -> str:
    if "|" in base:
        return "other"
    choices: dict[str, tuple[str, ...]] = {
        "bool": ("2", "None", "yes"),
        "dtype": ("float128", "uint16", "None"),
        "shape": ("None", "(-1,)", "(0, 0)", "(9, 9, 9)", "(1.5,)", "abc", "(-7, 1)", "()"),
        "ints": ("None", "(1.5,)", "(9,)", "(-9,)", "abc"),
        "floats": ("None", "abc", "()", "(1,2,3,4,5)"),
    }
    numbers = ("-9", "9", "0", "-1", "1.5", "abc", "None", "99999999999")
    return draw.pick(*choices.get(base, numbers))


def graph_text(case: Single) -> str:
    """The case as a symbol file: variables, the node, and every output that it shows."""
    names = input_names(case)
    nodes: list[dict[str, Any]] = [{"op": "null", "name": n, "inputs": []} for n in names]
    inputs = [[i, 0, 0] for i in range(len(names))]
    nodes.append({"op": case.op, "name": "node", "attrs": case.texts, "inputs": inputs})
    heads = [[len(names), i, 0] for i in range(_output_count(lookup(case.op), case.texts))]
    if not names:  # a block has an input
        nodes.append({"op": "null", "name": "in0", "inputs": []})
        nodes.append({"op": "_copy", "name": "copy", "inputs": [[1, 0, 0]]})
        heads.append([2, 0, 0])
    graph = {
        "nodes": nodes,
        "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
        "heads": heads,
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    return json.dumps(graph, indent=2)


def input_names(case: Single) -> list[str]:
    """A name for every array; auxiliary states are called ``aux``."""
    op = lookup(case.op)
    try:
        aux = op.aux_positions(op.parse(case.texts))
    except MXNetError:
        aux = frozenset()
    return [f"{'aux' if i in aux else 'in'}{i}" for i in range(len(case.arrays))]


def _output_count(op: OpDef, texts: dict[str, str]) -> int:
    try:
        return len(op.output_names(op.parse(texts)))
    except MXNetError:
        return 1
