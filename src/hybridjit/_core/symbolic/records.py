"""Sizes in tuples and records: finding them, replacing them, and choices that depend on them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..frozen import fields_of, is_record, replace
from .expressions import Size
from .scope import Decision, scope_of


def symbols_of(size: Size) -> frozenset[str]:
    """The names of the symbols that an expression depends on."""
    atoms = {size.scope.atoms[number] for monomial in size.terms for number in monomial}
    inner = (symbols_of(arg) for atom in atoms for arg in atom.args if isinstance(arg, Size))
    return frozenset(atom.name for atom in atoms if atom.name).union(*inner)


def sizes_in(item: Any) -> Iterator[Size]:
    """The symbolic sizes in a number, a tuple, a named tuple or a record."""
    if isinstance(item, Size):
        yield item
    elif isinstance(item, tuple):
        for each in item:
            yield from sizes_in(each)
    elif is_record(item):
        for name in fields_of(item):
            yield from sizes_in(getattr(item, name))


Rebuild = Callable[[Sequence[int]], Any]


def rebuilder(item: Any, places: Mapping[tuple[object, ...], int]) -> Rebuild | None:
    """A function that rebuilds the item from the values of its sizes, indexed by ``places``.

    None for an item without a symbolic size: it stays the same object.
    """
    if isinstance(item, Size):
        return operator.itemgetter(places[item.key])
    if isinstance(item, tuple):
        return _tuple_rebuilder(item, places)
    if not is_record(item):
        return None
    parts = {name: rebuilder(getattr(item, name), places) for name in fields_of(item)}
    changed = {name: part for name, part in parts.items() if part is not None}
    if not changed:
        return None
    return lambda values: replace(item, **{n: part(values) for n, part in changed.items()})


def _tuple_rebuilder(
    item: tuple[Any, ...], places: Mapping[tuple[object, ...], int]
) -> Rebuild | None:
    parts = [rebuilder(each, places) for each in item]
    changed = [(i, part) for i, part in enumerate(parts) if part is not None]
    if not changed:
        return None

    def rebuild(values: Sequence[int]) -> Any:
        made = list(item)
        for i, part in changed:
            made[i] = part(values)
        return type(item)(*made) if hasattr(item, "_fields") else tuple(made)

    return rebuild


def as_number(item: int, why: str) -> int:
    """A size as a number; the guard that a symbolic one leaves tells ``why``."""
    if not isinstance(item, Size):
        return item
    scope = scope_of(item)
    scope.why = why
    try:
        return int(item)
    finally:
        scope.why = ""


def decided(name: str, function: Callable[[Any], Any], item: Any, chosen: object = None) -> Any:
    """``function(item)`` for the hints, with one guard that it stays equal: a :class:`Decision`.

    The function gets plain integers, and its result is compared by ``==``. ``chosen`` as in
    :class:`Decision`.
    """
    sizes = {size.key: size for size in sizes_in(item)}
    if not sizes:
        return function(item)
    scope = scope_of(next(iter(sizes.values())))
    key = (name, str(item))
    if key not in scope.decisions:
        rebuild = rebuilder(item, {size: i for i, size in enumerate(sizes)})
        assert rebuild is not None

        def of(values: Sequence[int], rebuild: Rebuild = rebuild) -> Any:
            return function(rebuild(values))

        result = of([int(size.hint) for size in sizes.values()])
        scope.decisions[key] = Decision(name, tuple(sizes.values()), of, result, chosen)
    return scope.decisions[key].result


def hint_of(value: Any) -> Any:
    """The hint outside of branches, without a guard: for messages and result-neutral choices."""
    return value.scope.hint_before(value) if isinstance(value, Size) else value


def indices(part: slice, size: Any) -> tuple[Any, Any, Any]:
    """``part.indices(size)``, also for symbolic sizes and bounds."""
    if not any(isinstance(n, Size) for n in (size, part.start, part.stop, part.step)):
        return part.indices(size)
    step = 1 if part.step is None else part.step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def settled(mark: Any, default: Any) -> Any:
        if mark is None:
            return default
        mark = mark + size if mark < 0 else mark
        return low if mark < low else high if mark > high else mark

    start, stop = (low, high) if step > 0 else (high, low)
    return settled(part.start, start), settled(part.stop, stop), step


def count_of(start: Any, stop: Any, step: Any) -> Any:
    """``len(range(start, stop, step))``, also for symbolic sizes."""
    if step < 0:
        start, stop, step = stop, start, -step
    return -((start - stop) // step) if stop > start else 0
