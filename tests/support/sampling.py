"""How samples are written down: a call of an operator that works, and one that is refused.

In: shapes or arrays, and attributes as Python values. Out: entries in LISTED and REFUSED.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field

import numpy as np

from hybridjit._core.types import UNKNOWN, TensorType, type_of
from hybridjit.errors import MXNetError
from hybridjit.ops import lookup
from hybridjit.ops.attrs import attr_text


@dataclass(frozen=True)
class Sample:
    """One call of an operator."""

    name: str
    arrays: tuple[np.ndarray, ...]
    attrs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bad:
    """A call that must be refused with ``exception``, whose message contains ``fragment``."""

    types: tuple[TensorType, ...]
    attrs: dict[str, str]
    exception: type[Exception]
    fragment: str


LISTED: dict[str, list[Sample]] = {}
REFUSED: dict[str, list[Bad]] = {}


def add(name: str, *inputs: tuple[int, ...] | np.ndarray, **attrs: object) -> None:
    """List one sample: arrays, or shapes to fill with float32; inputs left out follow from infer.

    ``dtype="float64"`` and the like fills with that type; an operator's own attribute of that
    name is given as ``dtype_``.
    """
    dtype = np.dtype(str(attrs.pop("dtype", "float32")))
    text = {key.rstrip("_"): attr_text(value) for key, value in attrs.items()}
    op = lookup(name)
    parsed = op.parse(text)
    names = op.input_names(parsed)
    given = [type_of(x) if isinstance(x, np.ndarray) else TensorType(x, dtype) for x in inputs]
    types = tuple(given + [UNKNOWN] * (len(names) - len(given)))
    types, _ = op.infer(types, (UNKNOWN,) * len(op.output_names(parsed)), **parsed)
    label = _label(len(LISTED.setdefault(op.name, [])), types, text)
    random = np.random.default_rng(zlib.crc32(f"{name} {label}".encode()))
    arrays = tuple(
        inputs[i]
        if i < len(inputs) and isinstance(inputs[i], np.ndarray)
        else _values(random, n, t)
        for i, (n, t) in enumerate(zip(names, types))
    )
    LISTED[op.name].append(Sample(label, arrays, text))  # type: ignore[arg-type]


def bad(
    name: str,
    *inputs: tuple[int, ...] | np.ndarray | TensorType,
    error: type[MXNetError],
    says: str,
    **attrs: object,
) -> None:
    """List one call that must be refused with ``error``, whose message contains ``says``."""
    text = {key.rstrip("_"): attr_text(value) for key, value in attrs.items()}
    REFUSED.setdefault(name, []).append(Bad(tuple(_as_type(x) for x in inputs), text, error, says))


def _as_type(given: tuple[int, ...] | np.ndarray | TensorType) -> TensorType:
    if isinstance(given, TensorType):
        return given
    if isinstance(given, np.ndarray):
        return type_of(given)
    return TensorType(given, np.dtype(np.float32))


def ints(*values: object, dtype: str = "int32") -> np.ndarray:
    """Index and length inputs, which cannot be drawn at random."""
    return np.array(values, dtype)


def _label(number: int, types: tuple[TensorType, ...], text: dict[str, str]) -> str:
    shape = "x".join(str(d) for d in types[0].dims) if types else ""
    rest = " ".join(f"{k}={v}" for k, v in text.items())
    return re.sub(r"[^\w.=,x-]+", "", f"{number}-{types[0].dtype if types else ''}-{shape}-{rest}")


def _values(random: np.random.Generator, name: str, t: TensorType) -> np.ndarray:
    """Values for the input called ``name``: variances are positive, everything else is normal."""
    assert t.is_known, f"input {name} does not follow from the others; give it"
    if t.dtype.kind not in "f":  # type: ignore[union-attr]
        return random.integers(0, 5, t.dims).astype(t.dtype)
    if name.endswith("var"):
        return random.uniform(0.2, 2, t.dims).astype(t.dtype)
    return random.normal(0, 1, t.dims).astype(t.dtype)
