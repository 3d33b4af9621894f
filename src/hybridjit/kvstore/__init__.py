"""``mx.kv``: what trains on several devices, or in several processes, adds up gradients here."""

from . import base
from .base import KVStoreBase
from .kvstore import create
from .local import KVStore

__all__ = ["KVStore", "KVStoreBase", "base", "create"]
