"""``sym.contrib``: contributed operators; filled from the registry."""
