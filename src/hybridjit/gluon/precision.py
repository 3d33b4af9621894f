"""In which precision networks compute that do not say it: ``contrib.amp.init`` changes that."""

from __future__ import annotations


class Default:
    """What :func:`.HybridBlock.hybridize` takes for ``precision`` where it is not given."""

    precision = "float32"


DEFAULT = Default()
