"""Binding: the parameters of one executable in the layouts of its kernels.

Input: a plan's bind graph, and an array for every parameter. Output: packed arrays and their
addresses. An array that several executables of a net compute in the same way from the same
parameters is shared, and freed with the last of them.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._core.background import begin
from .._core.errstate import quiet
from ..errors import MXNetError
from ..ir.graph import Graph, Use, Value, walk
from ..ir.interpret import evaluate
from ..ir.moved_rows import WORTH_EVICTING, MovedRows, moved_rows
from ..ir.plan import Plan
from ..ir.plan_image import Base, Pack, Packed, Packing, Unpack
from ..ir.sized import bind_of
from ..ops.registry import is_registered
from .arena import address_of, aligned_empty, aligned_together, allow_huge_pages
from .threads import THREADS

# Bytes of weights packed per task: large enough to hide the start of a task, small enough to
# balance threads and to stay in the cache when a copy precedes packing.
_PIECE = 1 << 20
Bases: TypeAlias = "tuple[tuple[Base, int], ...]"


class PackedStore(weakref.WeakValueDictionary[Any, np.ndarray]):
    """Packed arrays by their recipes. They belong to one state of the parameters."""


@dataclass
class _Work:
    """An array to be packed in chunks, and its key in the store."""

    key: Any
    made: np.ndarray
    pieces: list[Callable[[], None]]
    evict: Callable[[], object] | None = None  # after the last chunk


class Evictable(Mapping[str, np.ndarray]):
    """Parameters that need not stay in memory if ``restore`` can rebuild them."""

    @abstractmethod
    def evict(self, name: str, restore: Callable[[], np.ndarray]) -> None:
        """Release the parameter; ``restore`` rebuilds it when it is read."""


class Addresses(NamedTuple):
    """The addresses of the bases of an image that are parameters, numbered from 1.

    others  the numbers of the other bases, which belong to an instance
    """

    bases: Bases
    numbers: np.ndarray
    others: list[tuple[int, Base]]


class Binding:
    """The parameters of one executable, packed for its kernels.

    ``pack(packing, weights, out)`` packs. ``params`` are read when they are packed; if they are
    :class:`Evictable`, large ones whose packed form preserves all bits are evicted. ``store`` keeps
    packed arrays by their recipes, so that the executables of one net share them; a binding keeps
    those that it uses alive.
    """

    def __init__(
        self, plan: Plan, pack: Pack, params: Mapping[str, np.ndarray], store: PackedStore
    ) -> None:
        bind = bind_of(plan)
        assert bind is not None
        self._pack = pack
        self._bind: Graph = bind
        self._params = params
        self._recipes = [recipe(use) for use in self._bind.outputs]
        self.store = store
        self._held: dict[Any, np.ndarray] = {}
        self._addresses: dict[int, Addresses] = {}  # by the identity of their bases

    def value(self, index: int) -> np.ndarray:
        """Parameter ``index`` of the run graph, contiguous; a copy, never the user's array."""
        key = self._recipes[index]
        if not self._has(key):
            array = self._evaluated(self._bind.outputs[index], as_views=False)
            copy = aligned_empty(array.size, array.dtype).reshape(array.shape)
            copy[...] = array
            self._keep(key, copy)
        return self._held[key]

    def packed(self, wanted: Packed) -> int:
        """The address of a packed parameter."""
        return address_of(self.packed_array(wanted))

    def packed_array(self, wanted: Packed) -> np.ndarray:
        """A packed parameter."""
        key = self._key(wanted)
        if not self._has(key):
            self.prepare([wanted])
        return self._held[key]

    def addresses(self, bases: Bases, wanted: Sequence[Packed]) -> Addresses:
        """The addresses of an image's bases, after packing the parameters in ``wanted``.

        All sizes of a template have the same addresses. A further template packs what it reads in
        other layouts: once for some of the sizes, while a call waits.
        """
        known = self._addresses.get(id(bases))
        if known is None:
            self.prepare(wanted, in_small_pages=bool(self._addresses))
            numbers = np.zeros(1 + len(bases), np.int64)
            others: list[tuple[int, Base]] = []
            for place, (base, number) in enumerate(bases, 1):
                if base is Base.PACKED:
                    numbers[place] = self.packed(wanted[number])
                elif base is Base.WEIGHT:
                    numbers[place] = address_of(self.value(number))
                else:
                    others.append((place, base))
            known = self._addresses[id(bases)] = Addresses(bases, numbers, others)
        return known

    def arrays(self) -> list[np.ndarray]:
        """All parameters that were packed so far."""
        return list(self._held.values())

    def prepare(self, wanted: Iterable[Packed], in_small_pages: bool = False) -> None:
        """Pack these parameters, the largest first, on several threads.

        They are stored in that order: a huge page occupies memory as soon as one byte of it is
        written, so that packing in another order takes memory early, 40 MB for ResNet-50. On a host
        that took back free memory, the 110 MB that ResNet-18 packs for a class of sizes take 220 to
        310 ms in huge pages and 77 to 94 ``in_small_pages`` (AMD Zen 4). Calls take 1.03 of the
        time until the system has moved them to huge pages.
        """
        keys = {self._key(each): each for each in wanted}
        missing = [(key, each) for key, each in keys.items() if not self._has(key)]
        missing.sort(key=lambda pair: -self._nbytes(pair[1]))
        rooms = aligned_together([self._nbytes(each) for _, each in missing], in_small_pages)
        work = [self._work(key, each, room) for (key, each), room in zip(missing, rooms)]
        size = sum(w.made.nbytes for w in work)
        _share(deque(self._tasks(work)), min(THREADS.count, 1 + size // (2 * _PIECE)))
        if in_small_pages:
            for w in work:
                allow_huge_pages(w.made)

    # --- packing ---

    @cached_property
    def _readers(self) -> Counter[Value]:
        """For each value of the bind graph the number of outputs that depend on it."""
        return Counter(chain.from_iterable(walk([use]) for use in self._bind.outputs))

    def _like(self, wanted: Packed) -> np.ndarray:
        """An array with the shape and type of the unpacked parameter that occupies no memory."""
        if wanted.index is None:
            return np.broadcast_to(np.zeros((), wanted.element), wanted.size)
        type_ = self._bind.outputs[wanted.index].type
        return np.broadcast_to(np.zeros((), type_.dtype), type_.dims)

    def _nbytes(self, wanted: Packed) -> int:
        return wanted.packing.size(self._like(wanted)) * np.dtype(wanted.element).itemsize

    def _work(self, key: object, wanted: Packed, room: np.ndarray) -> _Work:
        packing, like = wanted.packing, self._like(wanted)
        made = room.view(wanted.element)
        if wanted.index is None:
            return _Work(key, made, [lambda: self._pack(packing, np.zeros_like(like), made)])
        use = self._bind.outputs[wanted.index]
        moved = moved_rows(use) if packing.rows or packing.unpacking else None
        if moved is None:
            whole = [lambda: self._pack(packing, self._evaluated(use, as_views=True), made)]
            return _Work(key, made, whole)
        rows = self._rows(moved)
        pieces: list[Callable[[], None]] = [
            partial(self._pack_some, packing, rows, some, out)
            for some, out in _pieces(packing, like, made)
        ]
        return _Work(key, made, pieces, self._evictor(moved, packing, made))

    def _rows(self, moved: MovedRows) -> Callable[[slice], np.ndarray]:
        """A function that computes a slice of a value's rows."""
        name = moved.variable.name
        if moved.factor is None:
            return lambda some: moved.apply(self._params[name][some])
        factor = self._evaluated(moved.factor, as_views=True)

        @quiet  # as the operator's reference
        def scaled(some: slice) -> np.ndarray:
            return moved.apply(self._params[name][some] * factor[some])

        return scaled

    def _pack_some(
        self, packing: Packing, rows: Callable[[slice], np.ndarray], some: slice, out: np.ndarray
    ) -> None:
        self._pack(packing, rows(some), out)

    def _evictor(
        self, moved: MovedRows, packing: Packing, made: np.ndarray
    ) -> Callable[[], object] | None:
        """A function that evicts the parameter packed in ``made``; None if it has to stay."""
        type_, unpack = moved.variable.types[0], packing.unpacking
        if unpack is None or type_.dtype != made.dtype or type_.nbytes < WORTH_EVICTING:
            return None
        if not moved.is_exact or not isinstance(self._params, Evictable):
            return None
        if self._readers[moved.variable] > 1:
            return None
        restore = partial(_restored, moved, packing.rows, unpack, made)
        return partial(self._params.evict, moved.variable.name, restore)

    def _tasks(self, work: list[_Work]) -> Iterator[Callable[[], None]]:
        """Every chunk; the thread that completes an array stores it."""

        def done(of: _Work, left: list[int], piece: Callable[[], None]) -> None:
            piece()
            if left.pop() == 0:
                self._keep(of.key, of.made)
                if of.evict is not None:
                    of.evict()

        for w in work:
            left = list(range(len(w.pieces)))  # numbers of chunks that remain when one is done
            yield from (partial(done, w, left, piece) for piece in w.pieces)

    def _key(self, wanted: Packed) -> tuple[object, ...]:
        if wanted.index is None:
            return wanted.size, wanted.element, wanted.packing
        return self._recipes[wanted.index], wanted.packing, wanted.element

    def _has(self, key: object) -> bool:
        """Whether this array exists here, or was made for another executable."""
        if key not in self._held and (known := self.store.get(key)) is not None:
            self._held.setdefault(key, known)
        return key in self._held

    def _keep(self, key: object, made: np.ndarray) -> None:
        """Store an array; if another thread has stored it meanwhile, that one stays."""
        self._held.setdefault(key, self.store.setdefault(key, made))

    def _evaluated(self, use: Use, as_views: bool) -> np.ndarray:
        needed = walk([use])
        arrays = {v: self._params[v.name] for v in needed if v.op is None}
        try:
            return evaluate([use], needed, arrays, as_views)[0]
        except MXNetError as error:  # values that an operator refuses
            raise MXNetError(f"parameter {', '.join(v.name for v in arrays)}: {error}") from None


def _pieces(
    packing: Packing, like: np.ndarray, made: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Slices of a weight's rows with their destinations: whole blocks in order, or all rows."""
    count = like.shape[0]
    row_bytes, block = max(1, made.nbytes // max(1, count)), packing.rows or count
    step = max(1, _PIECE // row_bytes // block) * block
    position = 0
    for first in range(0, count, step):
        some = slice(first, min(first + step, count))
        size = packing.size(like[some])
        yield some, made[position : position + size]
        position += size


def _restored(moved: MovedRows, block: int, unpack: Unpack, packed: np.ndarray) -> np.ndarray:
    """The parameter that was packed in blocks of ``block`` rows; 0 stands for all rows."""
    shape = moved.variable.shape
    block = block or shape[0]
    result = np.empty(shape, packed.dtype)
    inside = moved.steps[-1].shape[1:] if moved.steps else shape[1:]
    size = result.size // shape[0]
    step = max(1, _PIECE // (result.itemsize * size) // block) * block
    for first in range(0, shape[0], step):
        some = slice(first, min(first + step, shape[0]))
        rows = unpack(packed, some, size)
        result[some] = moved.invert(rows.reshape(len(rows), *inside))
    return result


def _share(tasks: deque[Callable[[], None]], threads: int) -> None:
    """Run all tasks, here and on helper threads. Raises the first exception of a task.

    After an exception in this thread, helpers stop at the end of their current task.
    """
    failures: list[BaseException] = []

    def work() -> None:
        while not failures and (task := _next(tasks)) is not None:
            task()

    def help_out() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    try:
        helpers = [begin(help_out) for _ in range(threads - 1)]
        work()
        for helper in helpers:
            if helper is not None:
                helper.wait()
    except BaseException as error:
        failures.append(error)
        raise
    if failures:
        raise failures[0]


def _next(tasks: deque[Callable[[], None]]) -> Callable[[], None] | None:
    try:
        return tasks.popleft()
    except IndexError:
        return None


def recipe(use: Use) -> str:
    """The computation of a bind value as a string: equal strings mean equal arrays.

    Operators that are made for a value have one name: that of the value states which it is.
    """
    value = use.value
    if value.op is None:
        return value.name
    attrs = ",".join(f"{k}={v}" for k, v in sorted(value.attrs.items()))
    name = value.op.name if is_registered(value.op) else f"{value.op.name}@{value.name}"
    return f"{name}.{use.index}[{attrs}]({';'.join(map(recipe, value.inputs))})"
