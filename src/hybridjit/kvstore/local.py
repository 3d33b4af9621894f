"""``KVStore``: values of one process by key, summed over its devices, with optional updates.

Input: ``push`` and ``pull`` of arrays under keys (integers or strings). Output: the stored value:
the latest sum, or the value that the optimizer updated with the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from .._core.frames import public_methods
from .._core.safe_open import open_file
from ..errors import MXNetError
from ..formats.atomic import system_errors, write_atomically
from ..nd import NDArray, invoke
from ..ops.registry import lookup
from ..optimizer import Optimizer, Updater, get_updater
from .base import Keys, KVStoreBase, Values, as_list, require_capability, summed

Key = int | str
Update = Callable[[Key | bytes, NDArray, NDArray], object]


@public_methods
class KVStore(KVStoreBase):
    """A store in this process. Raises MXNetError for uninitialised keys."""

    def __init__(self, type: str = "local") -> None:
        self._type = type
        self._values: dict[Key, NDArray] = {}
        self._updater: Update | None = None
        self._threshold: float | None = None
        self._residuals: dict[tuple[Key, int], np.ndarray] = {}

    # ---- values -------------------------------------------------------------------------------

    def init(self, key: object, value: object) -> None:
        """Store a copy of ``value`` under a key, or of several values under several keys.

        Raises MXNetError for a key that exists.
        """
        for name, arrays in self._pairs(key, value):
            if name in self._values:
                raise MXNetError(
                    f"duplicate init of key {name}. Please double check if you called kv.init or "
                    "kv.broadcast with this key multiple times"
                )
            self._values[name] = self._first(name, arrays)

    def push(self, key: object, value: object, priority: int = 0) -> None:
        """Add up the arrays for a key; store the sum, or call the updater with it."""
        for name, arrays in self._pairs(key, value):
            self._require(name)
            total = self._total(name, arrays)
            kept = self._values[name]
            if self._updater is None:
                kept[:] = total.as_in_context(kept.context)
            else:
                given = name.encode() if isinstance(name, str) else name
                self._updater(given, total.as_in_context(kept.context), kept)

    def _first(self, key: Key, arrays: list[NDArray]) -> NDArray:
        """The stored value for the first arrays of a key."""
        return arrays[0].copy()

    def _total(self, key: Key, arrays: list[NDArray]) -> NDArray:
        """The sum of the arrays for a key, in new memory."""
        return summed(self._compressed(key, arrays))

    def pull(
        self, key: object, out: object = None, priority: int = 0, ignore_sparse: bool = True
    ) -> None:
        """Write the value of a key to the arrays of ``out``.

        Sparse values and sparse arrays of ``out`` are skipped unless ``ignore_sparse`` is False.
        """
        assert out is not None
        for name, arrays in self._pairs(key, out):
            self._require(name)
            kept = self._values[name]
            for array in arrays:
                if not ignore_sparse or kept.stype == array.stype == "default":
                    array[:] = kept

    def pushpull(self, key: object, value: object, out: object = None, priority: int = 0) -> None:
        """Push ``value``, then pull into ``out``, by default into ``value``."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key: object, value: object, out: object, priority: int = 0) -> None:
        """Store ``value`` and pull it into ``out``."""
        self.init(key, value)
        self.pull(key, out, priority)

    def row_sparse_pull(
        self, key: object, out: object = None, priority: int = 0, row_ids: object = None
    ) -> None:
        """Write these rows of the value to the row_sparse arrays of ``out``, without other rows.

        ``row_ids`` is one array of row numbers for all, or one for each; numbers may repeat.
        Raises MXNetError for dense arrays.
        """
        assert out is not None and row_ids is not None
        for (name, arrays), (_, rows) in zip(self._pairs(key, out), self._pairs(key, row_ids)):
            self._require(name)
            for array, wanted in zip(arrays, rows if len(rows) > 1 else rows * len(arrays)):
                self._pull_rows(name, array, wanted)

    def _pull_rows(self, key: Key, array: NDArray, wanted: NDArray) -> None:
        kept = self._values[key]
        if {kept.stype, array.stype} != {"row_sparse"}:
            raise MXNetError(
                f"row_sparse_pull needs row_sparse arrays: key {key} is {kept.stype}, out is "
                f"{array.stype}"
            )
        rows = NDArray(np.unique(wanted._data.astype(np.int64)), kept.context)
        invoke(lookup("_sparse_retain"), [kept, rows], {}).copyto(array)

    def _pairs(self, key: Keys, value: Values) -> Iterator[tuple[Key, list[NDArray]]]:
        """Keys with their arrays, one for each device. Raises AssertionError for other keys."""
        if not isinstance(key, (list, tuple)):
            yield self._checked(key), as_list(value)
            return
        values = list(value)
        if len(values) != len(key):
            raise AssertionError(f"{len(key)} keys have {len(values)} values")
        for one, arrays in zip(key, values):
            yield self._checked(one), as_list(arrays)

    def _checked(self, key: object) -> Key:
        assert isinstance(key, (int, np.integer, str)), f"unexpected type for keys: {type(key)}"
        found: Key = key if isinstance(key, str) else int(key)
        known = next(iter(self._values), found)
        if isinstance(known, str) != isinstance(found, str):
            raise MXNetError("Mixed key types are not allowed")
        return found

    def _require(self, key: Key) -> None:
        if key not in self._values:
            raise MXNetError(f"key {key} has not been inited")

    # ---- compression --------------------------------------------------------------------------

    def set_gradient_compression(self, compression_params: Mapping[str, str | float]) -> None:
        """Round pushed gradients to -threshold, 0 or threshold; add the error to the next ones.

        ``{"type": "2bit", "threshold": t}``, for stores of type "device" and distributed ones.
        Raises Exception, as in MXNet, for another store.
        """
        if "device" not in self._type and "dist" not in self._type:
            raise Exception("Gradient compression is not supported for this type of kvstore")
        kind = compression_params.get("type")
        if kind != "2bit":
            raise MXNetError(f"Unknown type for gradient compression {kind}")
        threshold = float(compression_params.get("threshold", 0.5))
        if not threshold > 0:
            raise MXNetError(f"threshold must be greater than 0, got {threshold}")
        self._threshold = threshold

    def _compressed(self, key: Key, arrays: list[NDArray]) -> list[NDArray]:
        if self._threshold is None:
            return arrays
        return [self._rounded(key, device, array) for device, array in enumerate(arrays)]

    def _rounded(self, key: Key, device: int, array: NDArray) -> NDArray:
        bound = self._threshold
        assert bound is not None
        rest = array.asnumpy() + self._residuals.get((key, device), 0)
        sent = bound * ((rest >= bound).astype(rest.dtype) - (rest <= -bound))
        self._residuals[key, device] = rest - sent
        return NDArray(sent.astype(array.dtype), array.context)

    # ---- updates ------------------------------------------------------------------------------

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored values with this optimizer. Raises AttributeError for a name."""
        if isinstance(optimizer, str):
            raise AttributeError(
                f"set_optimizer takes an Optimizer, got {optimizer!r}: write "
                f"optimizer.create({optimizer!r})"
            )
        self._set_updater(get_updater(optimizer))

    def _set_updater(self, updater: Update) -> None:
        """Call ``updater(key, sum, stored)`` for pushed values; string keys become bytes."""
        self._updater = updater

    @staticmethod
    def is_capable(capability: str) -> bool:
        """True for "optimizer". Raises ValueError for another capability."""
        require_capability(capability)
        return True

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states, and optionally the optimizer, pickled as by MXNet."""
        states = self._optimizers_updater("save").get_states(dump_optimizer)
        write_atomically(fname, [states])

    def load_optimizer_states(self, fname: str) -> None:
        """Read a file of :meth:`save_optimizer_states`. Raises ModelFormatError, MXNetError."""
        updater = self._optimizers_updater("load")
        with system_errors(fname), open_file(fname) as file:
            states = file.read()
        updater.set_states(states)

    def _optimizers_updater(self, what: str) -> Updater:
        found = self._updater
        assert isinstance(found, Updater), f"Cannot {what} states for distributed training"
        return found

    # ---- properties ---------------------------------------------------------------------------

    @property
    def type(self) -> str:
        """The name given at creation."""
        return self._type

    @property
    def rank(self) -> int:
        """0: there is one worker."""
        return 0

    @property
    def num_workers(self) -> int:
        """1."""
        return 1

    def _barrier(self) -> None:
        """No effect: there is one worker."""

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """No effect: a store has no servers here."""
