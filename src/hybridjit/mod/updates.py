"""Updates of a module's parameters: an optimizer with its states, or a store that contains them.

Input: parameters with gradients. Output: new values, in the parameters' arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .._core.frames import warn
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
Rule: TypeAlias = "str | optimizer.Optimizer"  # name or object
Store: TypeAlias = "str | KVStoreBase | None"


class Updates:
    """The optimizer of a module, with a state for each parameter.

    Modules with the same parameters, such as buckets, may share it. A store adds up gradients by
    parameter name; with ``on_store`` it also updates, otherwise ``updater`` does, by parameter
    index.
    """

    def __init__(
        self, made: optimizer.Optimizer, store: KVStoreBase | None, on_store: bool
    ) -> None:
        from .. import optimizer  # noqa: PLC0415 (see test_layers.py)

        self.optimizer = made
        self.store: Any = store
        self.updater = None if on_store else optimizer.get_updater(made)
        self._known: set[str] = set()
        if store is not None and on_store:
            store.set_optimizer(made)

    def share(self, params: Mapping[str, Parameter]) -> None:
        """In a job of several processes, broadcast the values of the first process."""
        if self.store is None or "dist" not in self.store.type:
            return
        for name, param in params.items():
            for weight in param.list_data():
                self._introduce(name, weight)

    def apply(self, params: Mapping[str, Parameter]) -> None:
        """Update all parameters with gradients, or none if an exception is raised."""
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
        """Add up all gradients over the processes of a job together, if there is one context.

        Returns False, without any effect, if that is not possible.
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
        """Write the states as MXNet does: pickled, by parameter index."""
        if self.updater is None:
            self.store.save_optimizer_states(fname)
            return
        write_atomically(Path(fname), [self.updater.get_states(dump_optimizer=False)])

    def load(self, fname: str) -> None:
        """Read a file of :meth:`save` or of MXNet."""
        if self.updater is None:
            self.store.load_optimizer_states(fname)
            return
        with open_file(fname) as file:
            self.updater.set_states(file.read())


def open_store(wanted: Store, devices: int) -> KVStoreBase | None:
    """The given store, or one of this name if the number of devices needs one.

    Raises MXNetError for a store that is not available, TypeError for other objects.
    """
    from ..kvstore.kvstore import choose  # noqa: PLC0415 (see test_layers.py)

    return choose(wanted, devices)


def updates_there(wanted: Store, store: KVStoreBase | None, largest: int) -> bool:
    """Whether a store updates parameters; ``largest`` is the largest number of elements."""
    from ..kvstore.kvstore import updates_too  # noqa: PLC0415 (see test_layers.py)

    return store is not None and store.is_capable("optimizer") and updates_too(wanted, largest)


def workers_of(store: KVStoreBase | None) -> int:
    """The number of processes that add up their gradients."""
    return store.num_workers if store is not None and "dist" in store.type else 1


def make_optimizer(
    wanted: str | optimizer.Optimizer,
    options: Options,
    symbol: Symbol | None,
    names: Sequence[str],
    batch_size: int,
    workers: int = 1,
) -> optimizer.Optimizer:
    """An optimizer that divides gradients by the batch size, unless ``options`` set another scale.

    ``batch_size`` is that of one of ``workers`` processes that add up their gradients. ``wanted``
    is a name, or an optimizer, which does not change; a warning is logged if it does not divide.
    """
    from .. import optimizer  # noqa: PLC0415 (see test_layers.py)

    scale = 1.0 / (batch_size * workers)
    if isinstance(wanted, optimizer.Optimizer):
        if wanted.rescale_grad != scale:
            warn(
                "Optimizer created manually outside Module but rescale_grad is not normalized to "
                f"1.0/batch_size/num_workers ({wanted.rescale_grad} vs. {scale}). Is this "
                "intended?"
            )
        wanted.idx2name = wanted.idx2name or dict(enumerate(names))
        return wanted
    given = {"rescale_grad": scale, **dict(options)}
    return optimizer.create(wanted, sym=symbol, param_idx2name=dict(enumerate(names)), **given)
