"""``mx.notebook``: callbacks that show how training goes in a notebook."""

from . import callback

__all__ = ["callback"]
