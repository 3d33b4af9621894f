"""``mx.contrib.text``: counts, indices and vectors of tokens."""

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
