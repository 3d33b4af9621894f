"""Operators whose names begin with an underscore, for symbols; filled from the registry."""
