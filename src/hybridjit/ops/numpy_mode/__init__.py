"""Operators of MXNet's NumPy mode: ``_np_*``, ``_npi_*`` and ``_npx_*``.

Most are other forms of classic operators: their types differ, and they expand into these, so that
kernels and gradients are shared. The registry imports this package when a program first names one
of them.
"""

# ruff: noqa: F401 - importing a file registers its operators

from . import (
    aliases,
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
