"""Every operator with hostile attributes, or with hostile numbers in its arrays.

In: the number of a case. Out: a :class:`Case`, the same for the same number; and a description
of its error: it is rejected with a documented exception, raised on purpose, or it runs, eagerly and
compiled in fenced memory, and both agree. Where numbers are computed with that overflow, NaN and
infinity may come out in one way of computing and not in another: there only the types agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from calls import complaint, where
from compiling import compiled
from guarded import GuardedRun
from hybridjit._core.types import UNKNOWN, TensorType, merge, product, type_of
from hybridjit.errors import MXNetError
from hybridjit.ir.node import Output, apply, variable
from hybridjit.nd.calls import prepared
from hybridjit.ops import OpDef, all_ops, run_ref
from hybridjit.ops.attrs import Attr
from hybridjit.passes.infer import infer_node_types
from samples import samples
from sampling import Sample

# Limit in bytes of computed results; larger cases only test rejection.
MOST = 1 << 22
# How far eager and compiled may be apart, as a part of the largest value.
TOLERANCE = {"float16": 4e-3, "float32": 2e-4, "float64": 1e-9}

_WHOLE = ("0", "1", "2", "3", "-1", "-2", "5", "7", "33", "100", "65536", "1000000", "1000000000",
          "2147483647", "-2147483648")  # fmt: skip
_LONG = (*_WHOLE, "4294967296", "9223372036854775807", "-9223372036854775808")
_REAL = ("0", "1", "-1", "0.5", "2", "0.1", "1e-5", "1e-320", "5e-324", "1e308", "-1e308", "3e38",
         "1e-38", "1e9", "-1e9", "nan", "inf", "-inf", "4294967296")  # fmt: skip
_LENGTHS = (0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 6, 8, 16, 31, 32, 33, 40, 64, 65, 200, 4096)
_NUMBERS = (float("nan"), float("inf"), -float("inf"), 1e9, -1e9, 3e38, -3e38, 1e-45, 1e-38, -88.0,
            -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 100.0, 1e4, -1e4, 3e4, 1e5, 65504.0, 2.0**24,
            2.0**31, -(2.0**31), 2.0**53, 2.0**63, -(2.0**63), 1e19, 1e300)  # fmt: skip
_WHOLE_NUMBERS = (0, 1, 2, 3, 7, -1, -2, -3, 100, 127, 128, 255, 10**4, 10**9, -(10**9), 2**31 - 1,
                  -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63))  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One call of an operator by its attributes' strings."""

    op: OpDef
    texts: dict[str, str]
    arrays: tuple[np.ndarray, ...]
    is_tame: bool = True  # the operands do not overflow

    def __str__(self) -> str:
        words = [f"{a.dtype}{list(a.shape)} {_shown(a)}" for a in self.arrays]
        words += [f"{k}={v[:200]}" for k, v in self.texts.items()]
        return f"{self.op.name}({', '.join(words)})"


def _shown(array: np.ndarray) -> str:
    first = " ".join(f"{v:g}" for v in array.ravel()[:12].astype(float))
    return f"<{first}{' ...' if array.size > 12 else ''}>"


@cache
def _operators() -> list[OpDef]:
    """Every operator that users and files can name; those with indices and places more often."""
    found: list[OpDef] = []
    for op in all_ops():
        if not op.internal and op.outputs:  # a graph needs a result
            found += [op] * (1 if op.is_pointwise else 4)
    return found


@cache
def _samples(op: OpDef) -> list[Sample]:
    small = [s for s in samples(op) if sum(a.size for a in s.arrays) <= 4096]
    return small or samples(op)[:1]


# Attributes


def attribute_case(number: int) -> Case:
    """A sample of an operator with one to three of its attributes at random."""
    rng = random.Random(number)
    op = rng.choice([op for op in _operators() if op.attrs])
    sample = rng.choice(_samples(op))
    texts = dict(sample.attrs)
    changed = rng.choices(op.attrs, k=rng.choice((1, 1, 2, 3)))
    for attr in changed:
        texts[attr.name] = attribute_text(rng, attr, texts.get(attr.name, ""))
    numbers = any(attr.base in ("float", "double", "floats") for attr in changed)
    return Case(op, texts, sample.arrays, not numbers and texts.get("mode") != "always")


def attribute_text(rng: random.Random, attr: Attr, old: str) -> str:
    """An attribute's string at the limits of its type; tuples often of equal length."""
    if attr.choices:
        return rng.choice(attr.choices)
    if attr.type.endswith("?") and rng.random() < 0.2:
        return "None"
    if attr.base in _TUPLES:
        length, item = rng.choice(_LENGTHS), _TUPLES[attr.base]
        if old and rng.random() < 0.6:
            length = old.count(",") + (not old.rstrip(") ").endswith(","))
        items = rng.choices(item, k=length) if rng.random() < 0.5 else [rng.choice(item)] * length
        return f"({', '.join(items)}{',' * (length == 1)})"
    return rng.choice(_TEXTS[attr.base])


_TUPLES = {"shape": _LONG, "pairs": _LONG, "ints": (*_LONG, "None"), "floats": _REAL}
_TEXTS = {
    "int": _WHOLE,
    "long": _LONG,
    "float": _REAL,
    "double": _REAL,
    "bool": ("True", "False"),
    "dtype": ("float32", "float64", "float16", "int32", "int64", "int8", "uint8", "bool"),
    "layout": ("NCHW", "NHWC", "NCW", "NWC", "NCDHW", "NDHWC", "None", "TNC", "C"),
    "string": ("", "None", "affine", "bilinear", "{}", "x"),
}


# Data

# Inputs that say where, which or how many, by name; the first input of these operators does, too.
_PLACES = """anchor anchors bbox_pred cls_pred data_lengths grid im_info index index_vector indices
label label_lengths length loc loc_pred matches offset refs rois sequence_length shape_like trans"""
_ALL_PLACES = """Embedding GridGenerator _contrib_SparseEmbedding _ravel_multi_index _unravel_index
_contrib_box_nms one_hot where"""


def _says_where(op: OpDef, position: int, name: str) -> bool:
    return name in _PLACES.split() or (position == 0 and op.name in _ALL_PLACES.split())


def data_case(number: int) -> Case:
    """A sample of an operator with hostile numbers in some of its arrays, or with empty axes."""
    rng = random.Random(number)
    op = rng.choice(_operators())
    sample = rng.choice([s for s in _samples(op) if s.arrays] or _samples(op))
    arrays = list(sample.arrays)
    names = op.input_names(op.parse(sample.attrs))
    places = [i for i, name in enumerate(names) if _says_where(op, i, name)]
    is_tame = bool(places) and rng.random() < 0.8
    chosen = places if is_tame else range(len(arrays))
    for place in rng.choices(chosen, k=min(len(chosen), rng.choice((1, 1, 2)))):
        arrays[place] = hostile(rng, arrays[place])
    if rng.random() < 0.1:
        arrays = _resized(rng, arrays)
    return Case(op, sample.attrs, tuple(arrays), is_tame)


def _resized(rng: random.Random, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """All axes of one size made empty, or 1 long."""
    sizes = sorted({size for a in arrays for size in a.shape})
    if not sizes:
        return arrays
    old, new = rng.choice(sizes), rng.choice((0, 0, 1))
    return [a[tuple(slice(new if n == old else None) for n in a.shape)].copy() for a in arrays]


def hostile(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """The array with some, or all, of its numbers replaced or scaled."""
    numbers = _fitting(array.dtype)
    made, how = array.copy(), rng.randrange(5)
    if made.size == 0:
        return made
    if how == 0:
        made[...] = rng.choice(numbers)
    elif how == 1:
        made.flat = np.array([rng.choice(numbers) for _ in range(made.size)], made.dtype)
    elif how == 2 and made.dtype.kind == "f":
        with np.errstate(all="ignore"):
            made *= made.dtype.type(rng.choice((-1.0, 1e2, 1e3, 1e4, 1e6, 1e9)))
    else:
        for place in rng.choices(range(made.size), k=rng.choice((1, 1, 2, 4))):
            made.flat[place] = rng.choice(numbers)
    return made


@cache
def _fitting(dtype: np.dtype) -> list[np.generic]:
    """Hostile numbers as elements of a type."""
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return [dtype.type(n) for n in _NUMBERS]
    if dtype.kind == "b":
        return [np.bool_(False), np.bool_(True)]
    info = np.iinfo(dtype)
    return [dtype.type(n) for n in _WHOLE_NUMBERS if info.min <= n <= info.max]


# Verdicts


def verdict(case: Case, at_end: bool = True) -> tuple[str, bool]:
    """Description of a case's error, and whether it ran."""
    right, refusal = _outcome(lambda: _eager(case))
    mine, compiled_refusal = _outcome(lambda: _fenced(case, at_end))
    for error, how in ((refusal, "eager"), (compiled_refusal, "compiled")):
        if error is not None and (wrong := complaint(error, strict=True)):
            return f"{how}: {wrong}: {type(error).__name__} {error} at {where(error)}", False
    if right is None or mine is None:
        return _one_refusal(case, refusal, compiled_refusal), False
    compare = difference if case.is_tame and not case.op.is_random else _other_type
    return next(filter(None, map(compare, mine, right)), ""), True


class TooLarge(MXNetError):
    """A case whose result is not worth computing."""


def _outcome(
    run: Callable[[], list[np.ndarray]],
) -> tuple[list[np.ndarray] | None, Exception | None]:
    try:
        return run(), None
    except Exception as error:
        return None, error


def _one_refusal(case: Case, refusal: Exception | None, compiled_refusal: Exception | None) -> str:
    """Error of an operator that ran only eagerly, or only compiled."""
    if case.op.is_random or any(isinstance(e, MemoryError) for e in (refusal, compiled_refusal)):
        return ""
    if refusal and compiled_refusal or _asks_for_shapes(compiled_refusal):
        return ""
    return f"refused only {'eagerly' if refusal else 'compiled'}: {refusal or compiled_refusal}"


def _asks_for_shapes(error: Exception | None) -> bool:
    """Whether a graph is refused that eager mode runs, as it has every shape before it asks."""
    return "a compiled graph needs every shape before it runs" in str(error)


def _eager(case: Case) -> list[np.ndarray]:
    attrs = prepared(case.op, case.texts, case.arrays).attrs
    _, outs = case.op.infer(
        tuple(map(type_of, case.arrays)), (UNKNOWN,) * len(case.op.output_names(attrs)), **attrs
    )
    _require_small(outs)
    results = run_ref(case.op, list(case.arrays), attrs)
    for known, result in zip(outs, results, strict=True):
        assert merge(known, type_of(result)) == type_of(result), f"{result.shape}, not {known}"
    return results


def _require_small(outs: Sequence[TensorType]) -> None:
    if sum(product(tuple(d or 0 for d in t.shape or ())) for t in outs) > MOST:
        raise TooLarge("not worth computing")


def _fenced(case: Case, at_end: bool) -> list[np.ndarray]:
    """Compiled, with every buffer adjacent to inaccessible memory."""
    names = [f"x{i}" for i in range(len(case.arrays))]
    given = [Output(variable(name, {})) for name in names]
    node = apply(case.op, "case", given, case.texts)
    count = len(node.output_names)
    outputs = [Output(node, i) for i in range(count)]
    if not outputs:
        raise MXNetError("an operator without outputs is not a graph")
    _require_small(infer_node_types(outputs, dict(zip(names, map(type_of, case.arrays))))[node])
    executable = compiled(outputs, dict(zip(names, case.arrays)))
    try:
        return GuardedRun(executable, at_end)([np.ascontiguousarray(a) for a in case.arrays])
    except OSError as error:
        raise MemoryError(str(error)) from None


def _other_type(mine: np.ndarray, right: np.ndarray) -> str:
    if mine.shape != right.shape or mine.dtype != right.dtype:
        return f"{mine.dtype}{mine.shape}, not {right.dtype}{right.shape}"
    return ""


def difference(mine: np.ndarray, right: np.ndarray) -> str:
    """How two results differ by more than rounding."""
    if wrong := _other_type(mine, right):
        return wrong
    if right.dtype.kind != "f":
        return "" if (mine == right).all() else f"{np.count_nonzero(mine != right)} differ"
    wide = np.abs(right.astype(np.float64))
    both = np.isfinite(right) & np.isfinite(mine)
    alike = (np.isnan(mine) & np.isnan(right)) | (mine == right)
    if not (both | alike).all():
        at = np.flatnonzero(~(both | alike))[0]
        return f"{mine.flat[at]} at {at}, not {right.flat[at]}"
    largest = wide[both].max(initial=0.0)
    gap = np.abs(mine[both].astype(np.float64) - right[both]).max(initial=0.0)
    if gap > TOLERANCE[right.dtype.name] * largest:
        return f"differs by {gap:.3g}, the largest value is {largest:.3g}"
    return ""
