"""Registration of the operators on 8-bit values, with the first use of one of their names."""

# ruff: noqa: F401 - importing a file registers its operators

from . import converting, entropy, layers, products
