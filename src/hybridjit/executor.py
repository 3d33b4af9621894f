"""``mx.executor``: the class of ``Symbol.bind`` and ``simple_bind``."""

from ._core.lazy import arrived
from .sym.executor import Executor as Executor

arrived(__name__)
