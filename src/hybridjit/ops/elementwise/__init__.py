"""Operators of one element, or of one of each operand."""
