"""Samplers and texts that MXNet keeps apart as experimental."""

from . import text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "text"]
