"""Operators that make tensors from attributes."""
