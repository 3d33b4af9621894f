"""Default precision of networks, which ``contrib.amp.init`` changes."""

from __future__ import annotations


class Default:
    """Default of ``precision`` in :func:`.HybridBlock.hybridize`."""

    precision = "float32"


DEFAULT = Default()
