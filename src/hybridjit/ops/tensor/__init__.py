"""Operators that create, move, join, slice, select, sort and reduce arrays."""
