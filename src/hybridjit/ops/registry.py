"""What the rest of the system may know about an operator, and the table of all of them.

The families (``pointwise.py``, ``conv.py``, ...) register; ``ops/__init__.py`` imports them and
closes the table. Nothing here knows how an operator is compiled: ``kind`` is the only link.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import MXNetError, UnknownOpError
from ..records import dataclass
from ..types import TensorType
from .attrs import Attr, declare, parse_attrs
from .left_out import why_left_out

Types = tuple[TensorType, ...]
InferRule = Callable[..., tuple[Types, Types]]


class Kind(Enum):
    """Which family of kernels computes an operator; HOST means its NumPy reference does."""

    IDENTITY = "identity"  # the same bytes under another name or shape
    POINTWISE = "pointwise"
    REDUCE = "reduce"
    SOFTMAX = "softmax"
    NORM = "norm"
    GEMM = "gemm"
    CONV = "conv"
    POOL = "pool"
    MOVEMENT = "movement"
    GATHER = "gather"
    RESIZE = "resize"
    RNN = "rnn"
    HOST = "host"
    RANDOM = "random"  # as HOST, and every call gives another result


@dataclass(frozen=True)
class OpDef:
    """Everything the rest of the system may know about an operator.

    inputs   names in graph order, or a function of the attributes. ``*name`` is an auxiliary
             state; a single ``name...`` takes ``num_args`` tensors.
    infer    ``infer(ins, outs, **attrs) -> (ins, outs)``: completes partially known types, in
             both directions where the operator allows it; raises ShapeError or DTypeError.
    ref      ``ref(*arrays, **attrs) -> array or tuple``: the NumPy meaning; what eager mode runs.
    scalar   pointwise only: ``scalar(b, *values, **attrs)``, the same meaning for one element on
             any builder that has the methods of ``codegen.llvm.builder.ScalarBuilder``.
    outputs  names of the visible outputs, or a function of the attributes.
    domain   range in which the reference is well conditioned, for generated tests.
    internal  made by passes only, whose operands are what it expects: no user and no file can
             name it.
    """

    name: str
    inputs: tuple[str, ...] | Callable[..., tuple[str, ...]]
    attrs: tuple[Attr, ...]
    kind: Kind
    infer: InferRule
    ref: Callable[..., Any]
    scalar: Callable[..., Any] | None = None
    outputs: tuple[str, ...] | Callable[..., tuple[str, ...]] = ("output",)
    domain: tuple[float, float] = (-4.0, 4.0)
    aliases: tuple[str, ...] = ()
    internal: bool = False
    doc: str = ""

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def parse(self, text: Mapping[str, str]) -> dict[str, Any]:
        """Attribute values from their texts. Operators that declare none ignore all texts."""
        return parse_attrs(self.attrs, text) if self.attrs else {}

    def input_names(self, attrs: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the inputs for these attributes, auxiliary ones without their asterisk."""
        return tuple(name.lstrip("*") for name in self._inputs(attrs))

    def aux_positions(self, attrs: Mapping[str, Any]) -> frozenset[int]:
        """Which inputs are auxiliary states."""
        return frozenset(i for i, n in enumerate(self._inputs(attrs)) if n.startswith("*"))

    def output_names(self, attrs: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the visible outputs for these attributes."""
        return self.outputs(**attrs) if callable(self.outputs) else self.outputs

    @property
    def is_random(self) -> bool:
        """Whether two calls with equal inputs may differ."""
        return self.kind is Kind.RANDOM

    @property
    def is_variadic(self) -> bool:
        return not callable(self.inputs) and any(n.endswith("...") for n in self.inputs)

    def _inputs(self, attrs: Mapping[str, Any]) -> tuple[str, ...]:
        names = self.inputs(**attrs) if callable(self.inputs) else self.inputs
        if names and names[-1].endswith("..."):
            return tuple(f"arg{i}" for i in range(attrs["num_args"]))
        return names


_OPS: dict[str, OpDef] = {}
_NAMES: dict[str, OpDef] = {}
_PLACES: dict[str, str] = {}
_closed = False


def register(
    name: str,
    inputs: str | Callable[..., tuple[str, ...]],
    attrs: str = "",
    *,
    kind: Kind,
    infer: InferRule,
    ref: Callable[..., Any],
    scalar: Callable[..., Any] | None = None,
    outputs: tuple[str, ...] | Callable[..., tuple[str, ...]] = ("output",),
    domain: tuple[float, float] = (-4.0, 4.0),
    aliases: str = "",
    internal: bool = False,
    doc: str,
) -> OpDef:
    """Add one operator to the table. ``inputs``, ``attrs`` and ``aliases`` are blank-separated."""
    op = OpDef(
        name=name,
        inputs=inputs if callable(inputs) else tuple(inputs.split()),
        attrs=declare(attrs),
        kind=kind,
        infer=infer,
        ref=ref,
        scalar=scalar,
        outputs=outputs,
        domain=domain,
        aliases=tuple(aliases.split()),
        internal=internal,
        doc=doc,
    )
    if _closed:
        raise RuntimeError(f"the registry is closed: op {name!r} comes too late")
    place = sys._getframe(1).f_code.co_filename  # inspect.stack() would take 1 ms per op
    for known_as in (name, *op.aliases):
        if known_as in _NAMES:
            raise RuntimeError(
                f"op name {known_as!r} is registered in {_PLACES[known_as]} and again in {place}"
            )
        _NAMES[known_as] = op
        _PLACES[known_as] = place
    _OPS[name] = op
    return op


def close() -> None:
    """Freeze the table; called once, when all families are imported."""
    global _closed
    _closed = True


def all_ops() -> tuple[OpDef, ...]:
    """Every operator once, in order of registration."""
    return tuple(_OPS.values())


def all_names() -> dict[str, OpDef]:
    """Every name that users and files may use, aliases included."""
    return {name: op for name, op in _NAMES.items() if not op.internal}


def find(name: str) -> OpDef | None:
    """The operator that users and files call ``name``, if there is one."""
    op = _NAMES.get(name)
    return None if op is None or op.internal else op


def lookup(name: str, internal: bool = True) -> OpDef:
    """The operator called ``name``, maybe not one that passes make.

    Raises UnknownOpError, naming the nearest known ones.
    """
    op = _NAMES.get(name)
    if op is None or (op.internal and not internal):
        raise UnknownOpError(f"Operator {name} is not registered{_near(name)}")
    return op


@lru_cache(maxsize=64)
def _near(name: str) -> str:
    if reason := why_left_out(name):
        return f": {reason}"
    near = difflib.get_close_matches(name, list(all_names()), 3, 0.75)
    return f"; the nearest known are {', '.join(near)}" if near else ""


def run_ref(op: OpDef, arrays: list[np.ndarray], attrs: Mapping[str, Any]) -> list[np.ndarray]:
    """The operator's NumPy meaning on these arrays, always as a list of outputs."""
    with np.errstate(all="ignore"):  # inf and nan are values here, not events
        try:
            result = op.ref(*arrays, **attrs)
        except (ValueError, OverflowError) as error:
            if not op.is_random:
                raise  # of values that no rule looks at, such as a negative scale
            raise MXNetError(f"Operator {op.name}: {error}") from None
    return list(result) if isinstance(result, tuple) else [result]
