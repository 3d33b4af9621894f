"""``sym.random``: random values; filled from the registry."""
