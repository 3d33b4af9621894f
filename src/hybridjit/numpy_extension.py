"""``mx.numpy_extension``: the same module as ``mx.npx``."""

from . import npx
from ._core.lazy import same_module

same_module(__name__, npx)
