"""``mx.kv``: the short name of ``mx.kvstore``, one and the same module."""

from . import kvstore
from ._core.lazy import same_module

same_module(__name__, kvstore)
