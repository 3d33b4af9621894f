"""The cache of one graph's compiled signatures: bounded, and able to say what changed on a miss."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from ..config import config
from ..types import TensorType

# Signatures kept for one graph unless ``hybridize(cache_size=...)`` says otherwise.
MAX_SIGNATURES = 16


class Entry:
    """One signature's executable; ``is_bound`` tells whether it has the parameters of today.

    ``variant`` is the compilation for many sizes that it is of, if it is of one.
    """

    __slots__ = ("executable", "variant", "is_bound", "used", "shape", "dtype", "_wanted")

    def __init__(self, types: Sequence[TensorType], executable: Any, variant: Any = None) -> None:
        self.executable = executable
        self.variant = variant
        self.is_bound = False
        self.used = 0  # a later use has a higher number
        self.shape, self.dtype = types[0].shape, types[0].dtype
        self._wanted = [(t.shape, t.dtype) for t in types]

    def fits(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether this executable is for arrays like these."""
        if len(arrays) != len(self._wanted):
            return False
        for array, (shape, dtype) in zip(arrays, self._wanted):
            if array.shape != shape or array.dtype != dtype:
                return False
        return self.is_bound


class SignatureCache:
    """Signature to :class:`Entry`.

    Of more than ``size``, the one that was not used for longest goes, with its code and memory.
    An exception may leave one too many; the next to be added finds that.
    """

    def __init__(self, name: str, input_names: Sequence[str], size: int = MAX_SIGNATURES) -> None:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"cache_size is a whole number of signatures, at least 1, got {size}")
        self.size = size
        self._name = name
        self._input_names = list(input_names)
        self._entries: dict[Any, Entry] = {}
        self._uses = count(1)
        self._compiled = 0
        self._previous: tuple[TensorType, ...] = ()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def compiled(self) -> int:
        """How many signatures have been compiled so far."""
        return self._compiled

    def find(self, types: Sequence[TensorType]) -> Entry | None:
        entry = self._entries.get(self._key(types))
        if entry is not None:
            entry.used = next(self._uses)
        return entry

    def add(
        self,
        types: Sequence[TensorType],
        executable: Any,
        variant: Any = None,
        is_compiled: bool = True,
    ) -> Entry:
        """Keep an executable, which was compiled just now or is of a variant that was before."""
        entry = Entry(types, executable, variant)
        entry.used = next(self._uses)
        self._entries[self._key(types)] = entry
        self._compiled += is_compiled
        if config.explain and is_compiled:
            print(self._explanation(tuple(types)), file=sys.stderr)
        while len(self._entries) > self.size:
            del self._entries[min(self._entries, key=lambda key: self._entries[key].used)]
            if config.explain:
                print(
                    f"{self._name} forgets its oldest signature: more than {self.size} "
                    "(hybridize(cache_size=...))",
                    file=sys.stderr,
                )
        self._previous = tuple(types)
        return entry

    def unbind(self) -> None:
        """Every entry takes its parameters anew before its next call."""
        for entry in self._entries.values():
            entry.is_bound = False

    def _key(self, types: Sequence[TensorType]) -> tuple[object, ...]:
        """Hashed and compared by C alone: a dictionary hides what is raised meanwhile."""
        return (*((t.shape, t.dtype) for t in types), config.fingerprint())

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
