"""``mx.kv``: the same module as ``mx.kvstore``."""

from . import kvstore
from ._core.lazy import same_module

same_module(__name__, kvstore)
