"""``mx.kv``: what trains on several devices adds up gradients here."""

from . import base
from .base import KVStoreBase
from .kvstore import KVStore, create

__all__ = ["KVStore", "KVStoreBase", "base", "create"]
