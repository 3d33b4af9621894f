"""Symbolic sizes of a network's inputs, and the resulting types of all nodes.

Input: a graph, its parameters' types, an example, and the sizes requested to be symbolic. Output:
for each input its symbolic axes, a second example with other sizes, and types whose symbolic sizes
are None.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .._core.types import PartialShape, TensorType, type_of
from ..errors import MXNetError, ShapeError
from ..ir.node import Node, Output
from ..passes.infer import infer_node_types, require_known

Arrays = Mapping[str, np.ndarray]
Wanted = Mapping[str, Sequence["int | str | None"]]


class Place(NamedTuple):
    """Axis of an input."""

    input: str
    axis: int


class Opened(NamedTuple):
    """Names of symbolic sizes by input and axis, and the resulting types.

    sources  for nodes without operands that have symbolic sizes: axes of inputs with these sizes
    """

    sizes: dict[str, dict[int, str]]
    types: dict[Node, tuple[TensorType, ...]]
    examples: list[dict[str, np.ndarray]]
    sources: dict[Node, tuple[Source, ...]]


Source = Place | int | None
"""Known size, axis of an input with this size in all examples, or neither."""


def fixed(heads: Sequence[Output], params: Arrays, arrays: Arrays) -> Opened:
    """Sizes of the example, none symbolic."""
    types = _inferred(heads, params, {n: a.shape for n, a in arrays.items()}, arrays)
    return Opened({name: {} for name in arrays}, types, [dict(arrays)], {})


def opened(
    heads: Sequence[Output], params: Arrays, arrays: Arrays, wanted: Wanted | None
) -> Opened:
    """Symbolic sizes: all requested ones, or all that the graph does not fix.

    wanted  by input a size to keep, the name of a symbolic size, or None for any name

    Raises ShapeError for a requested size that the graph fixes.
    """
    first = fixed(heads, params, arrays)
    groups = _groups(arrays, wanted)
    kept, names = _variable(heads, params, arrays, groups, wanted is not None)
    factors = _factors(kept, arrays)
    if not factors:
        return first
    second = {name: _enlarged(name, array, factors) for name, array in arrays.items()}
    types = _inferred(heads, params, {n: a.shape for n, a in second.items()}, second)
    common = {
        node: tuple(_common(a, b) for a, b in zip(found, types[node]))
        for node, found in first.types.items()
    }
    sizes: dict[str, dict[int, str]] = {name: {} for name in arrays}
    for group, name in zip(kept, names):
        for place in group:
            sizes[place.input][place.axis] = name or f"{place.input}_{place.axis}"
    pairs = {
        (arrays[p.input].shape[p.axis], second[p.input].shape[p.axis]): p
        for p in reversed([*factors])
    }
    sources = {
        node: tuple(map(partial(_source, pairs), found[0].dims, types[node][0].dims))
        for node, found in first.types.items()
        if not node.inputs and not node.is_variable
    }
    return Opened(sizes, common, [dict(arrays), second], sources)


def _factors(groups: Sequence[Group], arrays: Arrays) -> dict[Place, int]:
    """Factors of sizes, chosen so that no two groups have the same two sizes."""
    taken: set[tuple[int, int]] = set()
    factors = {}
    for i, group in enumerate(groups):
        size = arrays[group[0].input].shape[group[0].axis]
        factor = next(f for f in itertools.count(2 + i % 2) if (size, f) not in taken)
        taken.add((size, factor))
        factors.update(dict.fromkeys(group, factor))
    return factors


def _source(pairs: Mapping[tuple[int, int], Place], size: int, other: int) -> Source:
    return size if size == other else pairs.get((size, other))


Group = tuple[Place, ...]


def _groups(arrays: Arrays, wanted: Wanted | None) -> dict[Group, str]:
    """Axes to make symbolic, grouped by name."""
    named: dict[str, list[Place]] = {}
    for name, array in arrays.items():
        asked = [None] * array.ndim if wanted is None else list(wanted.get(name, array.shape))
        if len(asked) != array.ndim:
            raise ShapeError(
                f"input '{name}' has {array.ndim} axes, but {len(asked)} sizes are given"
            )
        for axis, size in enumerate(asked):
            if not isinstance(size, int):
                key = size or f"{name}_{axis}"
                named.setdefault(key, []).append(Place(name, axis))
    return {tuple(places): name for name, places in named.items()}


def _variable(
    heads: Sequence[Output],
    params: Arrays,
    arrays: Arrays,
    groups: Mapping[Group, str],
    must: bool,
) -> tuple[list[Group], list[str]]:
    """Groups that can have another size, alone or together with all axes of equal size."""
    alone = {g: name for g, name in groups.items() if _fits(heads, params, arrays, [g])}
    left = [g for g in groups if g not in alone]
    kept, names = list(alone), list(alone.values())
    by_size: dict[int, list[Group]] = {}
    for group in left:
        by_size.setdefault(arrays[group[0].input].shape[group[0].axis], []).append(group)
    for together in by_size.values():
        if len(together) > 1 and _fits(heads, params, arrays, together):
            kept.append(tuple(place for group in together for place in group))
            names.append(groups[together[0]])
        elif must:
            place = together[0][0]
            raise ShapeError(
                f"the graph fixes the size {arrays[place.input].shape[place.axis]} of axis "
                f"{place.axis} of input '{place.input}': it cannot be symbolic"
            )
    return kept, names


def _fits(heads: Sequence[Output], params: Arrays, arrays: Arrays, groups: Iterable[Group]) -> bool:
    """Whether type inference succeeds with these sizes changed."""
    factors = {place: 2 for group in groups for place in group}
    try:
        _inferred(heads, params, {n: _shape(n, a, factors) for n, a in arrays.items()}, arrays)
    except MXNetError:
        return False
    return True


def _shape(name: str, array: np.ndarray, factors: Mapping[Place, int]) -> tuple[int, ...]:
    return tuple(n * factors.get(Place(name, axis), 1) for axis, n in enumerate(array.shape))


def _enlarged(name: str, array: np.ndarray, factors: Mapping[Place, int]) -> np.ndarray:
    """Example's values repeated, floats with small changes."""
    made = np.resize(array, _shape(name, array, factors))
    if array.dtype.kind != "f":
        return made
    waves = np.cos(np.arange(made.size)).reshape(made.shape)
    return (made + 0.1 * waves).astype(array.dtype)


def _inferred(
    heads: Sequence[Output],
    params: Arrays,
    shapes: Mapping[str, tuple[int, ...]],
    arrays: Arrays,
) -> dict[Node, tuple[TensorType, ...]]:
    known = {name: type_of(array) for name, array in params.items()}
    known |= {name: TensorType(shape, arrays[name].dtype) for name, shape in shapes.items()}
    types = infer_node_types(heads, known)
    require_known(types)
    return types


def _common(a: TensorType, b: TensorType) -> TensorType:
    assert a.shape is not None and b.shape is not None
    if len(a.shape) != len(b.shape):
        return a.with_shape(None)
    shape: PartialShape = tuple(n if n == m else None for n, m in zip(a.shape, b.shape))
    return a.with_shape(shape)
