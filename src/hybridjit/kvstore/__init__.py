"""``mx.kv``: stores that add up gradients of several devices or processes."""

from . import base
from .base import KVStoreBase
from .kvstore import create
from .local import KVStore

__all__ = ["KVStore", "KVStoreBase", "base", "create"]
