"""Pointwise operators: of one element, or of one element of each operand."""
