"""Operators whose names begin with an underscore, for eager arrays; filled from the registry."""
