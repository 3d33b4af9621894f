"""``mx.kv``: the short name of ``mx.kvstore``, one and the same module."""

from . import kvstore
from .late import same_module

same_module(__name__, kvstore)
