"""Operators that make, move, join, cut, pick, order and sum arrays."""
