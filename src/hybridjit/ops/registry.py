"""Registry of all operators.

The files of the families (``elementwise/unary.py``, ``nn/convolution.py``, ...) register operators;
``ops/__init__.py`` imports them and closes the registry. ``record.py`` defines the record.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from .._core.errstate import quiet
from .._core.fork_locks import Rank, held_at_fork
from .._core.lazy import Late
from ..errors import MXNetError, UnknownOpError
from . import building, scalars
from .attrs import Attrs, declare
from .derivative import derivative, parse_name
from .record import PLAIN, InferRule, OpDef, Traits
from .signatures import Expansion, Formula, Gradient, Reference

if TYPE_CHECKING:
    import difflib

    from . import left_out
else:  # lazy: only errors use them
    difflib = Late("difflib")
    left_out = Late(".left_out", __package__)

_OPS: dict[str, OpDef] = {}
_NAMES: dict[str, OpDef] = {}
_PLACES: dict[str, str] = {}
_closed = False
_late: dict[str, tuple[str, ...]] = {}
_LOADING = held_at_fork(Rank.LOADING)


def register(
    name: str,
    inputs: str | Callable[..., Sequence[str]],
    attrs: str = "",
    *,
    infer: InferRule | None = None,
    ref: Reference | None = None,
    scalar: Formula | None = None,
    expand: Expansion | None = None,
    slope: Formula | None = None,
    grad: Gradient | None = None,
    kernel: str = "",
    outputs: tuple[str, ...] | Callable[..., Sequence[str]] = ("output",),
    domain: tuple[float, float] = (-4.0, 4.0),
    aliases: str = "",
    internal: bool = False,
    traits: Traits = PLAIN,
    doc: str,
) -> OpDef:
    """Add one operator. ``inputs``, ``attrs`` and ``aliases`` are separated by blanks.

    Missing ``infer`` and ``ref`` are derived from ``expand``, else from ``scalar``. The default of
    ``kernel`` is ``pointwise`` for operators with ``scalar``, else ``host``.
    """
    op = OpDef(
        name=name,
        inputs=inputs if callable(inputs) else tuple(inputs.split()),
        attrs=declare(attrs),
        infer=infer or _implied_rule(name, expand, scalar),
        ref=ref or _implied_reference(name, expand, scalar),
        scalar=scalar,
        expand=expand,
        slope=slope,
        grad=grad,
        kernel=kernel or ("pointwise" if scalar else "host"),
        outputs=outputs,
        domain=domain,
        aliases=tuple(aliases.split()),
        internal=internal,
        traits=traits,
        doc=doc,
    )
    return add(op, sys._getframe(1).f_code.co_filename)  # inspect.stack() would take 1 ms per op


def add(op: OpDef, place: str = "") -> OpDef:
    """Add a record to the registry. ``place`` is the file that registers it."""
    name, place = op.name, place or sys._getframe(1).f_code.co_filename
    if _closed:
        raise RuntimeError(f"the registry is closed: op {name!r} cannot be added")
    for known_as in (name, *op.aliases):
        if known_as in _NAMES:
            raise RuntimeError(
                f"op name {known_as!r} is registered in {_PLACES[known_as]} and again in {place}"
            )
        _NAMES[known_as] = op
        _PLACES[known_as] = place
    _OPS[name] = op
    return op


def _implied_rule(name: str, expand: Expansion | None, scalar: Formula | None) -> InferRule:
    if expand is None and scalar is None:
        raise RuntimeError(f"op {name!r} needs infer, or expand or scalar to derive it")
    return building.inferred(name, expand) if expand else scalars.elementwise


def _implied_reference(name: str, expand: Expansion | None, scalar: Formula | None) -> Reference:
    if expand:
        return building.computed(name, expand)
    if scalar:
        return scalars.computed(scalar)
    raise RuntimeError(f"op {name!r} needs ref, or expand or scalar to derive it")


def alias(name: str, classic: str) -> None:
    """Add a name for an operator that is registered already."""
    if name in _NAMES:
        raise RuntimeError(f"op name {name!r} is registered in {_PLACES[name]} already")
    _NAMES[name] = _NAMES[classic]
    _PLACES[name] = sys._getframe(1).f_code.co_filename


def close(late: Mapping[str, tuple[str, ...]] | None = None) -> None:
    """Close the registry; called once, when all families are imported.

    ``late`` are modules of further families, each with the beginnings of its operators' names: a
    module is imported when such a name, or the whole registry, is first used.
    """
    global _closed
    _late.update(late or {})
    _closed = True


def _load_late(modules: Sequence[str]) -> None:
    """Import late families, each once; other threads wait for them."""
    global _closed
    if not modules:
        return
    with _LOADING:
        if not _closed:  # this thread is loading a family
            return
        for module in [module for module in modules if module in _late]:
            _closed = False
            try:
                import_module(module)
                del _late[module]
            finally:
                _closed = True


def all_ops() -> tuple[OpDef, ...]:
    """Every operator once, in order of registration."""
    _load_late([*_late])
    return tuple(_OPS.values())


def all_names() -> dict[str, OpDef]:
    """Every name that users and files may use, aliases included."""
    _load_late([*_late])
    return {name: op for name, op in _NAMES.items() if not op.internal}


def _named(name: str) -> OpDef | None:
    op = _NAMES.get(name)
    if op is None and _late:
        _load_late([module for module, begins in _late.items() if name.startswith(begins)])
        op = _NAMES.get(name)
    return op


def _is_open(op: OpDef) -> bool:
    """Whether files may contain the operator."""
    return not op.internal or op.traits.in_files


def find(name: str) -> OpDef | None:
    """Operator with this name for users and files, or None."""
    op = _named(name)
    return None if op is None or not _is_open(op) else op


def lookup(name: str, internal: bool = True) -> OpDef:
    """Operator with this name, optionally without internal ones.

    Raises UnknownOpError with the most similar known names.
    """
    op = _NAMES.get(name) or _named(name) or (_derived(name) if internal else None)
    if op is None or not (internal or _is_open(op)):
        raise UnknownOpError(f"Operator {name} is not registered{_near(name)}")
    return op


def is_registered(op: OpDef) -> bool:
    """Whether :func:`lookup` returns this record for its name: not if a graph has its own."""
    return _NAMES.get(op.name) is op


def _derived(name: str) -> OpDef | None:
    """Derivative for ``name``, which is the only reference in a kernel's program."""
    found = parse_name(name)
    return derivative(lookup(found[1]), found[0]) if found else None


@lru_cache(maxsize=64)
def _near(name: str) -> str:
    if reason := left_out.why_left_out(name):
        return f": {reason}"
    near = difflib.get_close_matches(name, list(all_names()), 3, 0.75)
    return f"; the nearest known are {', '.join(near)}" if near else ""


@quiet  # inf and nan are valid values
def run_step(op: OpDef, arrays: list[np.ndarray], attrs: Attrs) -> list[np.ndarray]:
    """Results of an operator that updates auxiliary states, then the new states."""
    assert op.traits.step is not None
    return list(op.traits.step(*arrays, **attrs))


@quiet  # inf and nan are valid values
def run_ref(op: OpDef, arrays: list[np.ndarray], attrs: Attrs) -> list[np.ndarray]:
    """Results of the operator's reference on these arrays, as a list of arrays.

    NumPy returns scalars, which are immutable, where a result has no axes.
    """
    try:
        result = op.ref(*arrays, **attrs)
    except (ValueError, OverflowError) as error:
        if not op.is_random or isinstance(error, MXNetError):
            raise  # invalid values, such as a negative scale
        raise MXNetError(f"Operator {op.name}: {error}") from None
    return [np.asarray(found) for found in building.as_results(result)]
