"""``mx.notebook``: callbacks that display the progress of training in a notebook."""

from . import callback

__all__ = ["callback"]
