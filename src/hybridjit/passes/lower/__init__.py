"""Passes that lower operators to operators with kernels, and reduced-precision types."""
