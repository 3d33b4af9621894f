"""``mx.kv``: the short name of ``mx.kvstore``, one and the same module."""

import sys

from . import kvstore

for _name in ("", ".base", ".kvstore"):  # the same modules, not second copies of them
    sys.modules[__name__ + _name] = sys.modules[kvstore.__name__ + _name]
