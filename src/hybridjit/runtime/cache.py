"""The bounded cache of a graph's compiled signatures, which explains misses."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.config import config
from .._core.lazy import Late
from .._core.types import TensorType
from .compile_stats import count as count_one

if TYPE_CHECKING:
    import logging
else:
    logging = Late("logging")  # for a rare warning

# Number of signatures of one graph that are kept in any case, and bytes up to which more are kept,
# unless ``hybridize(cache_size=...)`` gives a number.
LEAST_SIGNATURES = 16
KEPT_BYTES = 1 << 28
_FORM = attrgetter("shape", "dtype")


class Limit:
    """The number of compiled signatures to keep: ``size``, or as many as :data:`KEPT_BYTES` hold.

    Raises ValueError for a size that is not a positive integer.
    """

    def __init__(self, name: str, size: int | None = None) -> None:
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            raise ValueError(
                f"cache_size is an integer number of signatures, at least 1, got {size!r}"
            )
        self.size = size
        self._name = name
        self._has_warned = False

    def is_exceeded(self, count: int, nbytes: int) -> bool:
        """Whether ``count`` signatures of ``nbytes`` together exceed the limit; warns the first
        time.
        """
        if self.size is not None:
            is_over = count > self.size
        else:
            is_over = count > LEAST_SIGNATURES and nbytes > KEPT_BYTES
        if is_over and not self._has_warned:
            self._has_warned = True
            logging.getLogger("hybridjit").warning(
                "%s is called with more signatures (shapes and dtypes) than are kept: %d. The one "
                "that was not used for longest is released, and compiled again when it comes "
                "back. hybridize(cache_size=N) keeps N of them.",
                self._name,
                count - 1,
            )
        return is_over


class Entry:
    """One signature's executable; ``is_bound`` states whether it has the current parameters.

    ``variant`` is the compilation for symbolic sizes to which it belongs, or None.
    """

    __slots__ = ("executable", "variant", "is_bound", "nbytes", "shape", "dtype", "_wanted")

    def __init__(self, types: Sequence[TensorType], executable: Any, variant: Any = None) -> None:
        self.executable = executable
        self.variant = variant
        self.is_bound = False
        self.nbytes = executable.nbytes
        self.shape, self.dtype = types[0].shape, types[0].dtype
        self._wanted = [*map(_FORM, types)]

    def fits(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether this executable is bound and accepts arrays of these shapes and types."""
        if len(arrays) != len(self._wanted):
            return False
        for array, (shape, dtype) in zip(arrays, self._wanted):
            if array.shape != shape or array.dtype != dtype:
                return False
        return self.is_bound


class SignatureCache:
    """Signature to :class:`Entry`.

    Beyond the limit, the least recently used entry is released, with its code and memory. An
    exception may leave one entry too many; a later addition removes it.
    """

    def __init__(self, name: str, input_names: Sequence[str], size: int | None = None) -> None:
        self.limit = Limit(name, size)
        self._name = name
        self._input_names = list(input_names)
        self._entries: OrderedDict[Any, Entry] = OrderedDict()  # least recently used first
        self._nbytes = 0
        self._compiled = 0
        self._previous: tuple[TensorType, ...] = ()
        # Types that were not found last, and their key: an entry is usually added for them.
        self._missed: tuple[Sequence[TensorType], tuple[object, ...]] = ((), ())

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def compiled(self) -> int:
        """Number of signatures compiled so far."""
        return self._compiled

    def find(self, types: Sequence[TensorType]) -> Entry | None:
        key = self._key(types)
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        else:
            self._missed = types, key
        return entry

    def add(
        self,
        types: Sequence[TensorType],
        executable: Any,
        variant: Any = None,
        is_compiled: bool = True,
    ) -> Entry:
        """Store an executable that was compiled now, or is an instance of an existing variant."""
        entry = Entry(types, executable, variant)
        missed, key = self._missed
        self._entries[key if missed is types else self._key(types)] = entry
        self._nbytes += entry.nbytes
        self._compiled += is_compiled
        if not is_compiled:
            count_one("new_sizes")
        if config.explain and is_compiled:
            print(self._explanation(tuple(types)), file=sys.stderr)
        while self.limit.is_exceeded(len(self._entries), self._nbytes):
            count_one("evictions")
            self._nbytes -= next(iter(self._entries.values())).nbytes
            self._entries.popitem(last=False)
            if config.explain:
                print(
                    f"{self._name} forgets its oldest signature: {len(self._entries)} are left "
                    "(hybridize(cache_size=...))",
                    file=sys.stderr,
                )
        self._previous = tuple(types)
        return entry

    def unbind(self) -> None:
        """Make every entry rebind its parameters before its next call."""
        for entry in self._entries.values():
            entry.is_bound = False

    def _key(self, types: Sequence[TensorType]) -> tuple[object, ...]:
        """A key that C code compares: a dictionary swallows exceptions of Python code."""
        return (*map(_FORM, types), config.fingerprint())

    def _explanation(self, types: tuple[TensorType, ...]) -> str:
        """``recompile net0: input 'data' changed f32[8,3] -> f32[5,3]  (2nd signature)``."""
        if self._compiled == 1:
            pairs = zip(self._input_names, types)
            return f"compile {self._name}: " + ", ".join(f"{n} {t}" for n, t in pairs)
        changed = [
            f"input '{name}' changed {before} -> {now}"
            for name, before, now in zip(self._input_names, self._previous, types)
            if before != now
        ]
        reason = ", ".join(changed) or "a switch that changes code was set"
        return f"recompile {self._name}: {reason}  (signature {self._compiled})"
