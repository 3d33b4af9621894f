"""``nd.contrib``: contributed operators; filled from the registry."""
