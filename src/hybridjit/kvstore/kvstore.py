"""``mx.kv.create``: a store by its name, and which one a trainer takes."""

from __future__ import annotations

import os

from ..errors import MXNetError
from .base import KVStoreBase
from .dist import DistKVStore
from .job import current_job
from .local import KVStore as KVStore

_LARGE = 1024 * 1024 * 16  # elements of a parameter that a "local" store does not update


def create(name: str = "local") -> KVStoreBase:
    """A store by name: one that was registered, one of several processes, else one of this process.

    ``dist_sync`` and ``dist_device_sync`` are of the processes that mpirun started. Raises
    TypeError for what is no string, MXNetError for stores of GPUs, for ``dist_async``, and for
    several processes without the package mpi4py.
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
            f"kvstore {name!r} updates without waiting for all processes, which hybridjit does not "
            "do: its numbers would depend on time; use 'dist_sync'"
        )
    return DistKVStore(name, current_job())


def choose(wanted: object, devices: int) -> KVStoreBase | None:
    """The store for arrays on so many devices: a store as it is, by name where one is needed.

    One device needs none, unless the name is that of several processes. Raises TypeError for what
    is neither a store, a name nor None, and as :func:`create`.
    """
    if wanted is None or isinstance(wanted, KVStoreBase):
        return wanted
    if not isinstance(wanted, str):
        raise TypeError(f"kvstore must be KVStore, str or None, got {type(wanted).__name__}")
    return None if devices == 1 and "dist" not in wanted.lower() else create(wanted)


def updates_too(wanted: object, largest: int) -> bool:
    """Whether a store that was asked for so updates what it adds up, where it can.

    ``largest`` is the number of elements of the largest parameter. MXNET_UPDATE_ON_KVSTORE=0 says
    no.
    """
    if wanted == "local" and largest > _LARGE:
        return False
    return bool(int(os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1")))
