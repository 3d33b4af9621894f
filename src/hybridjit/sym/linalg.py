"""``sym.linalg``: linear algebra; filled from the registry."""
