"""``sym.sparse``: MXNet's sparse operators, on dense values; filled in from the registry."""
