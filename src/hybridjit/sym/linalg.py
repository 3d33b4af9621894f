"""``sym.linalg``: linear algebra; filled in from the registry."""
