"""``sym.op``: every public operator under its plain name; filled from the registry."""
