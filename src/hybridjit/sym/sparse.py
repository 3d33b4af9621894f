"""``sym.sparse``: MXNet's sparse operators, on dense values; filled from the registry."""
