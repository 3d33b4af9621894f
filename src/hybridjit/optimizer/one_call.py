"""One compiled call that updates all weights of an optimizer.

Input: the weights, gradients and states of an :class:`.updater.Updater`. Output: the same memory,
with the bits of the optimizer's operator applied to one weight after the other. The operands are
gathered once; later calls check whether arrays moved and whether hyperparameters changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple

import numpy as np

from .._core.errstate import quiet
from .._core.recording import FLAGS
from ..compilation import UpdateCode, compile_update
from ..ir.update import UpdateRule
from ..nd import NDArray
from ..nd.buffers import Places
from ..nd.undo import OPEN, attributes_of
from ..ops.attrs import LEAST_SINGLE, Attrs, Declared
from ..ops.registry import lookup
from ..runtime.arena import address_of
from ..runtime.update_table import Row, UpdateTable
from .base import Index, State, WithCopy
from .by_operator import ByOperator

_MEMORY = attrgetter("_data")
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_HALF = np.dtype(np.float16)
_RATES = ("lr", "wd")  # per weight


class Use(NamedTuple):
    """One weight with all arrays that its operator reads and writes.

    main        the updated array: the weight, or its float32 copy
    states      other arrays of the optimizer for it
    """

    op: str
    main: NDArray
    grad: NDArray
    states: tuple[NDArray, ...]
    weight: NDArray

    @property
    def arrays(self) -> tuple[NDArray, ...]:
        """All arrays, without duplicates."""
        own = (self.main, self.grad, *self.states)
        return own if self.weight is self.main else (*own, self.weight)


class Told(NamedTuple):
    """Attributes of an operator except rates: those compiled into code, and operands."""

    fixed: tuple[tuple[str, Declared], ...]
    numbers: dict[str, float]


class OneCall:
    """All arrays of one call, valid while it :meth:`fits`."""

    def __init__(
        self,
        optimizer: ByOperator,
        indices: list[Index],
        weights: list[NDArray],
        grads: list[NDArray],
        states: list[State],
        uses: list[Use],
        told: Told,
    ) -> None:
        self._optimizer = optimizer
        self._given = (tuple(weights), tuple(grads), tuple(states))
        self._indices = list(indices)
        self._param_dict = optimizer.param_dict
        known = all(index in self._param_dict for index in indices)
        self._params = [self._param_dict[index] for index in indices] if known else None
        self._places = Places(array for use in uses for array in use.arrays)
        self._written = [x for use in uses for x in use.arrays if x is not use.grad]
        self._rates: object = None
        self._op, self._told = uses[0].op, told
        # Operators of several weights take rates as a list, which must be finite.
        self._has_finite_rates = any(attr.name == "lrs" for attr in lookup(self._op).attrs)
        self._last_told: Attrs = {}
        self._table = UpdateTable(_rows(uses, told), len(_RATES), len(told.numbers))

    def fits(
        self,
        optimizer: object,
        indices: Sequence[Index],
        weights: Iterable[NDArray],
        grads: Iterable[NDArray],
        states: Iterable[State],
    ) -> bool:
        """Whether these are the gathered arrays, at the same addresses."""
        if optimizer is not self._optimizer or not self._optimizer.is_in_one_call:
            return False
        if list(indices) != self._indices or self._optimizer.param_dict is not self._param_dict:
            return False
        for mine, given in zip(self._given, (weights, grads, states)):
            if not all(map(is_, mine, given)):
                return False
        return self._places.unmoved() is not None

    def run(self, done: list[Any]) -> bool:
        """Count the updates, and update all weights; return False, without effect, if not
        equivalent.

        It is not equivalent if update counts differ, or while recording, when writes are errors, or
        if the operator would reject the rates. ``done`` gets an element once the weights are new,
        whatever is raised then; before that, nothing is counted.
        """
        if FLAGS.recording:
            return False
        optimizer, indices = self._optimizer, self._indices
        counts = optimizer._index_update_count
        before = list(map(counts.get, indices, repeat(optimizer.begin_num_update)))
        if before.count(before[0]) != len(before) or not self._is_told():
            return False
        count, latest = before[0] + 1, optimizer.num_update
        restore_schedule = attributes_of(optimizer.lr_scheduler)

        def uncount() -> None:
            counts.update(zip(indices, before))
            optimizer.num_update = latest
            restore_schedule()

        try:
            counts.update(dict.fromkeys(indices, count))
            optimizer.num_update = max(count, latest)
            if self._set_rates(count):
                self.apply(done)
                return True
            uncount()
            return False
        except BaseException:
            if not done:
                uncount()
            raise

    def apply(self, done: list[Any]) -> None:
        """Update with the rates of the latest :meth:`run`, without counting.

        The kernel call and the marking of the arrays as written are atomic with respect to signals.
        """
        held = self._places.memory()
        try:
            if OPEN.undo is not None:
                for array in self._written:
                    OPEN.undo.keep(array._data, array._storage)
            self._table.run(done)
            self._note()
        except BaseException:
            self._note()
            raise
        del held

    def _note(self) -> None:
        for array in self._written:
            array._storage.bump()

    def _is_told(self) -> bool:
        """Update the table of hyperparameters; return False if the code is for other ones."""
        told = self._optimizer.told()
        if told == self._last_told:
            return True
        found = _sorted_out(self._op, told)
        if found is None or found.fixed != self._told.fixed:
            return False
        given = [*found.numbers.values()]
        numbers = single(given)
        if _is_out_of_range(given, numbers):
            return False
        self._table.shared[:] = numbers
        self._last_told = told
        return True

    def _set_rates(self, count: int) -> bool:
        """Write changed rates and decays; return False if the operator would reject them."""
        optimizer = self._optimizer
        if self._params is None:
            lrs, wds = optimizer._get_lrs(self._indices), optimizer._get_wds(self._indices)
        else:
            rate, decay = optimizer.learning_rate, optimizer.wd
            lrs = [rate * mult for mult in map(attrgetter("lr_mult"), self._params)]
            wds = [decay * mult for mult in map(attrgetter("wd_mult"), self._params)]
        rates = ([optimizer.rate(lr, count) for lr in lrs], wds)
        if rates != self._rates:
            numbers = np.array([*map(single, rates)])
            if self._has_finite_rates and not np.isfinite(numbers).all():
                return False
            if _is_out_of_range(rates, numbers):
                return False
            self._table.own[:, 0], self._table.own[:, 1] = numbers
            self._rates = rates
        return True


def _is_out_of_range(given: object, held: np.ndarray) -> bool:
    """Whether operators reject a number: it is infinite in float32, or denormal."""
    exact = np.asarray(given, np.float64)
    beyond = np.isinf(held) & np.isfinite(exact)
    return bool((beyond | (exact != 0) & (abs(exact) < LEAST_SINGLE)).any())


@quiet  # out of float32's range becomes infinity: the caller decides
def single(numbers: Sequence[float]) -> np.ndarray:
    """Numbers in the precision of update operators."""
    return np.array(numbers, np.float64).astype(np.float32)


def gather(
    optimizer: object,
    indices: list[Index],
    weights: list[NDArray],
    grads: list[NDArray],
    states: list[State],
) -> OneCall | None:
    """One call for these weights; None if the operators must be called one by one.

    That is so for optimizers without operator or with user code, for element types other than
    float32 and float64 (float16 with a float32 copy is possible), for sparse arrays, and for arrays
    that share memory.
    """
    found = find_uses(optimizer, weights, grads, states)
    if found is None:
        return None
    assert isinstance(optimizer, ByOperator)
    return OneCall(optimizer, indices, weights, grads, states, *found)


def find_uses(
    optimizer: object,
    weights: Iterable[NDArray],
    grads: Iterable[NDArray],
    states: Iterable[State],
) -> tuple[list[Use], Told] | None:
    """The uses and attributes for :func:`gather`; None under the same conditions."""
    if not isinstance(optimizer, ByOperator) or not optimizer.is_in_one_call:
        return None
    if any(array.stype != "default" for array in (*weights, *grads)):
        return None
    found = [_use(optimizer, *one) for one in zip(weights, grads, states)]
    uses = [use for use in found if use is not None]
    if len(uses) < len(found) or not _are_apart(uses):
        return None
    told = [_sorted_out(op, optimizer.told()) for op in {use.op for use in uses}]
    if told[0] is None or told.count(told[0]) < len(told):
        return None
    return uses, told[0]


def _use(optimizer: ByOperator, weight: NDArray, grad: NDArray, state: State) -> Use | None:
    """The update of one weight; None if a kernel cannot do it."""
    own, main = state, weight
    has_copy = optimizer.multi_precision and weight.dtype == np.float16
    if has_copy and not isinstance(optimizer, WithCopy):
        main, own = state
    if not optimizer.takes(main):
        return None
    op, states = optimizer.operator(main, own)
    if has_copy and isinstance(optimizer, WithCopy):
        *states, main = states  # type: ignore[assignment]
    use = Use(op, main, grad, tuple(states), weight)
    return use if _has_kernel(use) else None


def _has_kernel(use: Use) -> bool:
    """Whether there is a kernel for these types and sizes."""
    dtype = use.main._data.dtype
    kinds = [state._data.dtype for state in use.states]
    stored = use.weight._data.dtype
    fits = dtype in _FLOATS and stored in (dtype, _HALF) and use.grad._data.dtype == stored
    same = all(array.shape == use.weight.shape for array in use.arrays)
    has_rule = lookup(use.op).traits.rule is not None
    return fits and same and has_rule and use.weight.size > 0 and all(k == dtype for k in kinds)


def _are_apart(uses: Sequence[Use]) -> bool:
    """Whether no two arrays overlap."""
    memory = [array._data for use in uses for array in use.arrays]
    places = sorted((address_of(array), array.nbytes) for array in memory)
    return all(start + nbytes <= following for (start, nbytes), (following, _) in pairwise(places))


def _sorted_out(op: str, told: Attrs) -> Told | None:
    """Attributes for the operator's rule; None for a non-number, which the operator rejects."""
    attrs = {attr.name: attr for attr in lookup(op).attrs}
    fixed, numbers = [], {}
    for name, attr in attrs.items():
        value = told.get(name, attr.default)
        if name in (*_RATES, "lrs", "wds", "num_weights"):
            continue
        if attr.base not in ("float", "single"):
            fixed.append((name, value))
        elif isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            return None
        elif name.startswith("clip"):  # negative or NaN means no bound, with different code
            fixed.append((name, np.float32(value if value >= 0 else -1)))
        else:
            numbers[name] = float(value)
    return Told(tuple(fixed), numbers)


def _rows(uses: Iterable[Use], told: Told) -> list[Row]:
    """The kernel of each weight with its arrays; weights with equal rules share one."""
    rules = [(use, rule_of(use, told)) for use in uses]
    codes = {rule: compile_update(rule) for rule in dict.fromkeys(rule for _, rule in rules)}
    return [_row(use, codes[rule]) for use, rule in rules]


def _row(use: Use, code: UpdateCode) -> Row:
    reads = (use.main, use.grad, *use.states)
    writes = [use.main, *use.states]
    if use.weight is not use.main:
        writes.append(use.weight)
    return Row(code, tuple(map(_MEMORY, reads)), tuple(map(_MEMORY, writes)))


def rule_of(use: Use, told: Told) -> UpdateRule:
    """The rule of the kernel for this weight."""
    return UpdateRule(
        use.op,
        len(use.states),
        use.main._data.dtype.name,
        use.weight._data.dtype.name,
        told.fixed,
        (*_RATES, *told.numbers),
    )
