"""``sym.image``: image operators; filled from the registry."""
