"""Elementwise operators: unary, binary, scalar and broadcasting forms."""
