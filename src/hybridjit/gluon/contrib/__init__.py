"""Layers that MXNet keeps apart as experimental."""

from . import nn

__all__ = ["nn"]
