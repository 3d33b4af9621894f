"""Operators of MXNet's NumPy mode: ``_np_*``, ``_npi_*`` and ``_npx_*``.

Most differ from a classic operator in their types only and expand into it, so that kernels and
gradients are shared. The registry imports this package when a program first uses one of these
names.
"""

# ruff: noqa: F401 - importing a file registers its operators

from . import (
    aliases,
    assigning,
    counting,
    creation,
    joining,
    linear,
    matrices,
    pointwise,
    random,
    reductions,
    shapes,
)
