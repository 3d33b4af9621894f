"""Counting tokens."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    """Count the tokens of a string; both delimiters are regular expressions.

    ``counter_to_update`` is updated and returned.
    """
    found = [token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token]
    counter: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    counter.update(token.lower() if to_lower else token for token in found)
    return counter
