"""Run compiled plans: bound weights, arenas, threads, and the cache of signatures."""

from .features import Feature, Features, feature_list

__all__ = ["Feature", "Features", "feature_list"]
