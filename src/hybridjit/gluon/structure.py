"""Nested lists of arrays or symbols: flattened to a list and a format, and restored.

A format is 0 for one tensor, n > 0 for a symbol of n outputs, -1 for None, or a list of formats. A
cached graph stores the formats of its arguments and results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from .._core.shapes import is_np_array
from ..nd import NDArray, array
from ..sym import Symbol

Format: TypeAlias = "int | list[Format]"
# Arguments and results of blocks: a tensor, or nested lists; any object for a plain Block.
Nested: TypeAlias = Any

NONE: int = -1
tensor_types = (Symbol, NDArray)


def flatten(value: object, what: str) -> tuple[list[Any], Format]:
    """The tensors in ``value`` in order (None keeps its position), and the format.

    Raises ValueError for objects other than NDArray, Symbol, None and nested lists or tuples.
    """
    if isinstance(value, NDArray):
        return [value], 0
    if isinstance(value, Symbol):
        count = len(value.outputs)
        return [value], count if count > 1 else 0
    if value is None:
        return [None], NONE
    if not isinstance(value, (list, tuple)):
        raise ValueError(
            f"When hybridized, the input of HybridBlock {what} must be (nested) list of Symbol or "
            f"NDArray, but got {value} of type {type(value)}.{conversion_advice((value,))}"
        )
    flat: list[object] = []
    formats: list[Format] = []
    for item in value:
        part, part_format = flatten(item, what)
        flat.extend(part)
        formats.append(part_format)
    return flat, formats


def conversion_advice(args: tuple[object, ...]) -> str:
    """Advice on converting arguments to tensors, for a message; "" for other arguments."""
    if any(isinstance(arg, np.ndarray) for arg in args):
        return " For a NumPy array x pass nd.array(x)."
    if any(isinstance(arg, (list, tuple)) for arg in args):
        return " For a list of numbers x pass nd.array(x)."
    return ""


def regroup(flat: Sequence[object], form: Format) -> Nested:
    """The inverse of :func:`flatten`, with lists for nesting; ``flat`` must not contain None."""
    return _take(iter(flat), form)


def _take(items: Iterator[object], form: Format) -> Nested:
    if isinstance(form, list):
        return [_take(items, part) for part in form]
    if form == NONE:
        return None
    return next(items) if form == 0 else [next(items) for _ in range(form)]


def same_arguments(stored: Format, given: Format) -> bool:
    """Whether the formats of two argument lists agree, except for trailing Nones."""
    if not isinstance(stored, list) or not isinstance(given, list):
        return stored == given
    length = max(len(stored), len(given))
    return _padded(stored, length) == _padded(given, length)


def _padded(form: list[Format], length: int) -> list[Format]:
    return form + [NONE] * (length - len(form))


def tensors_in(value: object) -> Iterator[Any]:
    """Every NDArray and Symbol in nested lists and tuples."""
    if isinstance(value, (NDArray, Symbol)):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def as_arrays(value: Nested) -> Nested:
    """The value with an array for each NumPy array in it, of the same element type.

    In NumPy mode the arrays are those of ``mx.np``.
    """
    if isinstance(value, np.ndarray):
        made = array(value, dtype=value.dtype)
        return made.as_np_ndarray() if is_np_array() else made
    if isinstance(value, (list, tuple)):
        return [as_arrays(item) for item in value]
    return value


def as_numpy(value: Nested) -> Nested:
    """The value with a NumPy array for each NDArray in it."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return [as_numpy(item) for item in value]
    return value
