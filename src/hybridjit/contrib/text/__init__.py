"""``mx.contrib.text``: tokens counted, numbered and given vectors."""

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
