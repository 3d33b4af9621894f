"""``mx.kv.create``: stores by name, and the choice of a trainer's store."""

from __future__ import annotations

import os

from .._core.frames import public
from ..errors import MXNetError
from .base import KVStoreBase
from .dist import DistKVStore
from .job import current_job
from .local import KVStore as KVStore

_LARGE = 1024 * 1024 * 16  # elements: a "local" store does not update larger parameters


@public
def create(name: str = "local") -> KVStoreBase:
    """Make a store by name: a registered one, a distributed one, or one for this process.

    ``dist_sync`` and ``dist_device_sync`` are for processes that mpirun started. Raises TypeError
    if the name is not a string; MXNetError for stores of GPUs, for ``dist_async``, and for several
    processes without the package mpi4py.
    """
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name.startswith("nccl"):
        raise MXNetError("kvstore 'nccl': hybridjit computes on CPUs; use 'local' or 'device'")
    if "dist" not in name:
        return KVStore(name)
    if "_async" in name:
        raise MXNetError(
            f"kvstore {name!r} updates without waiting for all processes, which is not supported: "
            "results would depend on timing; use 'dist_sync'"
        )
    return DistKVStore(name, current_job())


def choose(wanted: object, devices: int) -> KVStoreBase | None:
    """The store for arrays on this number of devices: ``wanted`` itself, or one of its name.

    One device needs none, except for a name of a distributed store. Raises TypeError if ``wanted``
    is not a store, a name or None, and as :func:`create`.
    """
    if wanted is None or isinstance(wanted, KVStoreBase):
        return wanted
    if not isinstance(wanted, str):
        raise TypeError(f"kvstore must be KVStore, str or None, got {type(wanted).__name__}")
    return None if devices == 1 and "dist" not in wanted.lower() else create(wanted)


def updates_too(wanted: object, largest: int) -> bool:
    """Whether a store for this request updates values, if it is able to.

    ``largest`` is the number of elements of the largest parameter. MXNET_UPDATE_ON_KVSTORE=0
    disables updates.
    """
    if wanted == "local" and largest > _LARGE:
        return False
    return bool(int(os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1")))
