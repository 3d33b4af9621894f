"""Kernel calls with their arguments, into which the steps of a plan are translated.

The choosers in ``kinds`` make calls; ``emit/link.py`` turns their arguments into an image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from .._core.frozen import dataclass
from .._core.symbolic import Size as Symbolic
from .._core.symbolic import hint_of
from .._core.target import Target
from .._core.types import BFLOAT16
from ..ir.graph import SampleRows, Use, Value
from ..ir.plan import Step, View
from ..ir.plan_image import Packed
from ..ops.elementwise.binary import ADD, MULTIPLY
from .choices import Choices
from .spec import Given, Instr, Ints, KernelSpec, Program, Size, Sizes

if TYPE_CHECKING:
    from ..ir.template import Repeat


@dataclass(frozen=True)
class Address:
    """The address of a view's first element."""

    view: View


@dataclass(frozen=True)
class Scratch:
    """The address of scratch memory: ``nbytes`` for each thread, one block after the other."""

    nbytes: int


@dataclass(frozen=True)
class Shared:
    """An address ``offset`` bytes into scratch memory that all threads share, for one step."""

    nbytes: int
    offset: int = 0


@dataclass(frozen=True)
class Flag:
    """The address of a 64-bit flag that is 0; a kernel sets it if its operands are invalid.

    The reference then runs the step and raises the error of eager mode.
    """


Argument = Address | Packed | Scratch | Shared | Flag | int | Symbolic


class GivenNumbers:
    """Integers that are arguments of a call instead of constants of the kernel's spec.

    0, 1 and -1 stay in the spec, because code depends on them.
    """

    def __init__(self) -> None:
        self.values: list[int] = []

    def one(self, number: int) -> Size:
        is_plain = not isinstance(number, Symbolic) and number in (0, 1, -1)
        return number if is_plain else self.any(number)

    def any(self, number: int) -> Given:
        """An integer that may be 0, 1 or -1 as well, because no code depends on that."""
        self.values.append(number)
        return _given(len(self.values) - 1)

    def each(self, numbers: Ints) -> Sizes:
        return tuple(map(self.one, numbers))

    def symbolic(self, numbers: Ints) -> Sizes:
        """Make symbolic integers arguments; other integers stay in the spec."""
        return tuple(self.any(n) if isinstance(n, Symbolic) else n for n in numbers)


# Cached, because specs that are compared contain many of them.
_given = lru_cache(maxsize=256)(Given)
_FEW_ROUNDS = 256


def rounds_of(size: int) -> int:
    """The loop length that a kernel assumes for a length of ``size`` that is an argument.

    256 rounds, or the next 256 * 16**n. A loop of more than 256 rounds is at most 16 times as long
    as assumed. Loops that are shorter than assumed poll more often than every 0.3 ms; in return,
    statistics over images of 7x7 share a kernel with those over 56x56.
    """
    if size <= _FEW_ROUNDS:
        return _FEW_ROUNDS
    rounds = 16 * _FEW_ROUNDS
    while size > 16 * rounds:
        rounds *= 16
    return rounds


def about(sizes: Ints) -> Ints:
    """A power of two near each size, for estimates: similar sizes share a kernel."""
    return tuple(1 << max(0, int(hint_of(size)).bit_length() - 1) for size in sizes)


# A view, and the axis that counts its rows.
RowsOf = tuple[View, int]


@dataclass(frozen=True)
class ByRows:
    """A call that up to ``threads`` threads divide by rows, with the memory that it touches.

    The ``rows`` rows are in ``tiles`` tiles. Each thread has the same tiles in every call with the
    same three numbers, and touches only its rows of the views in ``reads`` and ``writes``. It may
    touch less than these views: a time step names the views of all steps. All threads read the
    ``common`` arguments. With more threads, each may touch any element of the views. Such a call
    has no scratch memory, and its chunks are not subject to work stealing.
    """

    rows: int
    tiles: int
    threads: int
    reads: tuple[RowsOf, ...]
    writes: tuple[RowsOf, ...]
    common: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class Call:
    """One kernel and its arguments in order.

    ``work`` is its approximate number of multiplications; ``reason`` explains the choice of the
    kernel, if there was one; ``cost`` is the estimate of the cost model in operations, if it has
    one; ``by_rows`` describes the memory that it touches, if that is less than all that its step
    reads and writes; ``repeat`` its repetition, if the number of calls is symbolic.
    """

    spec: KernelSpec
    args: tuple[Argument, ...]
    work: int = 0
    reason: str = ""
    cost: float = 0.0
    by_rows: ByRows | None = None
    repeat: Repeat | None = None


# Operators whose operands can be exchanged without another result.
_SYMMETRIC = {form.name for two in (ADD, MULTIPLY) for form in (two.strict, two.broadcasting)}
Spec = TypeVar("Spec", bound=KernelSpec)
# Selects one of the candidates for a layer on a CPU; the cost model prefers the first.
Decide: TypeAlias = Callable[[Sequence[Any], Target], Any]


@dataclass(frozen=True)
class Setting:
    """The inputs of a choice besides the step: the parameters' numbers, the CPU, the options.

    is_training  whether results depend on the batch in any case, so that choices may depend on it
    decide       selects among candidates instead of the cost model, unless None
    sample_rows  ``sample_rows(value)``: the rows of a dense layer that certainly belong to one
                 sample; their sums may be computed in another order than those of another sample
    choices      the sizes for which kernels are chosen whose choice changes bits, if sizes of the
                 plan may be symbolic
    """

    params: dict[Value, int]
    target: Target
    winograd: bool | str = True
    is_training: bool = False
    decide: Decide | None = None
    sample_rows: Callable[[Value], SampleRows] = lambda value: SampleRows()
    choices: Choices | None = None

    def decided(self, first: Sequence[Spec], others: Callable[[], Sequence[Spec]]) -> Spec:
        """The first candidate, which the cost model prefers, unless ``decide`` selects another one.

        Results of the candidates and ``others`` differ only in rounding: algorithms, and tiles at
        edges, add in different orders.
        """
        if self.decide is None:
            return first[0]
        candidates = list(dict.fromkeys((*first, *others())))
        chosen: Spec = self.decide(candidates, self.target)
        return chosen


def build_program(step: Step, anchored: bool) -> tuple[Program, tuple[Use, ...]]:
    """The group's pointwise part, and the uses that are its operands, in order.

    With an anchor, value 0 is the anchor's result and the operands follow, with their stored types.
    """
    group, stored = step.group, dict(zip(step.group.inputs, step.reads))
    members = group.epilogue if anchored else group.members
    own = set(group.members)
    operands = tuple(dict.fromkeys(u for m in members for u in m.inputs if u.value not in own))
    number: dict[Value, int] = {group.anchor: 0} if anchored else {}
    base = len(number)
    at = {use: base + i for i, use in enumerate(operands)}
    instrs = []
    for value in members:
        args = tuple(number[u.value] if u.value in number else at[u] for u in value.inputs)
        assert value.op is not None
        if value.op.name in _SYMMETRIC:  # so that layers with the operands in another order share
            args = tuple(sorted(args))
        attrs = _attrs_off_default(value)
        instrs.append(Instr(value.op.name, args, attrs, dtype_name(value.type.dtype)))
        number[value] = base + len(operands) + len(instrs) - 1
    outputs = tuple(number[v] for v in group.outputs)
    anchor = (group.anchor.type.dtype,) if anchored else ()
    types = tuple(map(dtype_name, (*anchor, *(stored[u].dtype for u in operands))))
    return Program(len(types), tuple(instrs), outputs, off_default(types)), operands


@lru_cache(maxsize=64)
def dtype_name(dtype: np.dtype | None) -> str:
    """The name of a known element type; NumPy's name if NumPy has the type."""
    assert dtype is not None
    return "bfloat16" if dtype == BFLOAT16 else str(dtype.name)


def stored_type(step: Step) -> np.dtype:
    """The stored type of the anchor's first operand, or of its result if it has no operands."""
    anchor = step.group.anchor
    if not anchor.inputs:
        assert anchor.type.dtype is not None
        return anchor.type.dtype
    return views_of(step, anchor.inputs[:1])[0].dtype


def off_default(types: tuple[str, ...]) -> tuple[str, ...]:
    """Element types as specs write them: () if all are float32."""
    return () if set(types) <= {"float32"} else types


def _attrs_off_default(value: Value) -> tuple[tuple[str, object], ...]:
    assert value.op is not None
    defaults = {a.name: a.default for a in value.op.attrs}
    pairs = sorted((k, v) for k, v in value.attrs.items() if v != defaults[k])
    return tuple(pairs)


def broadcast_strides(view: View, shape: Ints) -> Ints:
    """The view's strides over an index space ``shape``; 0 along axes on which it is repeated."""
    missing = len(shape) - len(view.shape)
    return (0,) * missing + tuple(
        0 if size == 1 and full != 1 else stride
        for size, stride, full in zip(view.shape, view.strides, shape[missing:])
    )


def views_of(step: Step, uses: tuple[Use, ...]) -> list[View]:
    table = dict(zip(step.group.inputs, step.reads))
    return [table[use] for use in uses]


def three(values: Ints, default: int) -> Ints:
    """Values per axis as (depth, height, width)."""
    return (default,) * (3 - len(values)) + tuple(values)


def five(strides: Ints, rank: int) -> Ints:
    """Strides of [n, spatial..., c] as (n, d, h, w, c)."""
    return (strides[0], *(0,) * (3 - rank), *strides[1:])
