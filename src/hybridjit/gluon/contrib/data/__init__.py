"""Experimental samplers and text data sets of MXNet."""

from . import text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "text"]
