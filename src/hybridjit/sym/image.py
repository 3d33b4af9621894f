"""``sym.image``: image operators; filled in from the registry."""
