"""What a module updates its parameters with: an optimizer and its states, or a store that has them.

In: parameters with gradients. Out: new values, in the parameters' own arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .._core.safe_open import open_file
from ..formats.atomic import write_atomically
from ..gluon import Parameter
from ..kvstore.dist import DistKVStore
from ..kvstore.local import KVStore
from ..nd.storage import together_written
from ..nd.undo import whole
from ..sym import Symbol

if TYPE_CHECKING:
    from .. import optimizer
    from ..kvstore import KVStoreBase
    from ..nd import NDArray

Options = Mapping[str, object] | Sequence[tuple[str, object]]
Rule: TypeAlias = "str | optimizer.Optimizer"  # by name, or as it is
Store: TypeAlias = "str | KVStoreBase | None"


class Updates:
    """The optimizer of a module, with a state for each parameter.

    Several modules over the same parameters may share one, as buckets do. A store adds up gradients
    by the parameter's name; with ``on_store`` it updates too, otherwise ``updater`` does, by the
    parameter's number.
    """

    def __init__(
        self, made: optimizer.Optimizer, store: KVStoreBase | None, on_store: bool
    ) -> None:
        from .. import optimizer  # noqa: PLC0415 (see tests/test_layers.py)

        self.optimizer = made
        self.store: Any = store
        self.updater = None if on_store else optimizer.get_updater(made)
        self._known: set[str] = set()
        if store is not None and on_store:
            store.set_optimizer(made)

    def share(self, params: Mapping[str, Parameter]) -> None:
        """Give all processes of a job the values of the first, where there are several."""
        if self.store is None or "dist" not in self.store.type:
            return
        for name, param in params.items():
            for weight in param.list_data():
                self._introduce(name, weight)

    def apply(self, params: Mapping[str, Parameter]) -> None:
        """One step of every parameter that has a gradient: of all of them, or of none."""
        are_exchanged = self._exchanged(params)
        if self.updater is None and not are_exchanged:
            self._update_there(params)
        else:
            self._update(params, are_exchanged)

    @together_written
    def _update_there(self, params: Mapping[str, Parameter]) -> None:
        whole(partial(self._update, params, False), [], self.store)

    def _update(self, params: Mapping[str, Parameter], are_exchanged: bool) -> None:
        found = []
        for index, (name, param) in enumerate(params.items()):
            if param.grad_req == "null":
                continue
            for weight, grad in zip(param.list_data(), param.list_grad()):
                if self.store is not None and not are_exchanged:
                    self._by_store(name, weight, grad)
                found.append((index, grad, weight))
        if self.updater is not None and found:
            self.updater(*map(list, zip(*found)))

    def _exchanged(self, params: Mapping[str, Parameter]) -> bool:
        """Add up all gradients over the processes of a job together, where they are on one context.

        False, with nothing done, where that is not possible.
        """
        if not isinstance(self.store, DistKVStore):
            return False
        trained = {name: param for name, param in params.items() if param.grad_req != "null"}
        weights = [param.list_data() for param in trained.values()]
        leaves = [leaf for some in weights if (leaf := some[0]._leaf) is not None]
        if not weights or any(len(some) > 1 for some in weights) or len(leaves) < len(weights):
            return False
        first = [some[0] for some in weights]
        for name, weight in zip(trained, first):
            self._introduce(name, weight)
        self.store.exchange([*trained], leaves, first, self.updater is None)
        return True

    def _by_store(self, name: str, weight: NDArray, grad: NDArray) -> None:
        self._introduce(name, weight)
        out = weight if self.updater is None else grad
        if isinstance(self.store, KVStore) and {weight.stype, grad.stype} != {"default"}:
            self.store.push(name, grad)
            self.store.pull(name, out, ignore_sparse=False)
        else:
            self.store.pushpull(name, grad, out=out)

    def _introduce(self, name: str, weight: object) -> None:
        if name not in self._known:
            self.store.broadcast(name, weight, out=weight)
            self._known.add(name)

    def save(self, fname: str) -> None:
        """Write the states as MXNet does: pickled, by the parameter's number."""
        if self.updater is None:
            self.store.save_optimizer_states(fname)
            return
        write_atomically(Path(fname), [self.updater.get_states(dump_optimizer=False)])

    def load(self, fname: str) -> None:
        """Read what :meth:`save` or MXNet wrote."""
        if self.updater is None:
            self.store.load_optimizer_states(fname)
            return
        with open_file(fname) as file:
            self.updater.set_states(file.read())


def open_store(wanted: Store, devices: int) -> KVStoreBase | None:
    """A store as it is, or by its name where so many devices need one.

    Raises MXNetError for a store that cannot be had, TypeError for what is none.
    """
    from ..kvstore.kvstore import choose  # noqa: PLC0415 (see tests/test_layers.py)

    return choose(wanted, devices)


def updates_there(wanted: Store, store: KVStoreBase | None, largest: int) -> bool:
    """Whether a store updates parameters of which the largest has so many elements."""
    from ..kvstore.kvstore import updates_too  # noqa: PLC0415 (see tests/test_layers.py)

    return store is not None and store.is_capable("optimizer") and updates_too(wanted, largest)


def workers_of(store: KVStoreBase | None) -> int:
    """How many processes add up their gradients in a step."""
    return store.num_workers if store is not None and "dist" in store.type else 1


def make_optimizer(
    wanted: str | optimizer.Optimizer,
    options: Options,
    symbol: Symbol | None,
    names: Sequence[str],
    batch_size: int,
    workers: int = 1,
) -> optimizer.Optimizer:
    """An optimizer whose gradients are divided by the batch's size, unless ``options`` say else.

    ``batch_size`` is that of one process, of which ``workers`` add up their gradients. ``wanted``
    is a name, or an optimizer, which stays as it is, with a warning where it does not divide.
    """
    from .. import optimizer  # noqa: PLC0415 (see tests/test_layers.py)

    scale = 1.0 / (batch_size * workers)
    if isinstance(wanted, optimizer.Optimizer):
        if wanted.rescale_grad != scale:
            warnings.warn(
                "Optimizer created manually outside Module but rescale_grad is not normalized to "
                f"1.0/batch_size/num_workers ({wanted.rescale_grad} vs. {scale}). Is this "
                "intended?",
                stacklevel=3,
            )
        wanted.idx2name = wanted.idx2name or dict(enumerate(names))
        return wanted
    given = {"rescale_grad": scale, **dict(options)}
    return optimizer.create(wanted, sym=symbol, param_idx2name=dict(enumerate(names)), **given)
