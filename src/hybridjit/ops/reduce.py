"""Reductions over axes, and ordering."""
