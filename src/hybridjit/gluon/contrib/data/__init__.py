"""Samplers that MXNet keeps apart as experimental."""

from .sampler import IntervalSampler

__all__ = ["IntervalSampler"]
