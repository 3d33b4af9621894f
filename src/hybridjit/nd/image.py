"""``nd.image``: image operators, filled from the registry."""
