"""Run compiled plans: bound weights, arenas, threads, and the cache of signatures."""
